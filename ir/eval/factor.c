/* LAPACK's factorisations: lu with partial pivoting, and qr by reflections. */
#include <math.h>
#include <string.h>

#include "ir/eval/linalg.h"

typedef struct Matrix {
    Complex *a;
    int64_t rows, columns;
    bool is_single; /* of f32 or c64: what is stored is rounded to it */
} Matrix;

static Complex *at(const Matrix *m, int64_t i, int64_t j)
{
    return &m->a[i * m->columns + j];
}

/* Pivots are compared as a kernel compares them. */
static Complex rounded(const Matrix *m, Complex x)
{
    return m->is_single ? (Complex){(float)x.re, (float)x.im} : x;
}

/* -- lu --------------------------------------------------------------------------------------- */

static double size_of(const Matrix *m, Complex x)
{
    double size = fabs(x.re) + fabs(x.im);
    return m->is_single ? (float)size : size;
}

/* The first row from k on with the largest element of column k; k where one is NaN. */
static int64_t pivot_row(const Matrix *m, int64_t k)
{
    int64_t best = k;
    for (int64_t i = k; i < m->rows; i++) {
        double size = size_of(m, *at(m, i, k));
        if (isnan(size))
            return k;
        if (size > size_of(m, *at(m, best, k)))
            best = i;
    }
    return best;
}

static void lu_step(const Matrix *m, int64_t k, int32_t *pivot)
{
    int64_t p = pivot_row(m, k);
    *pivot = (int32_t)p + 1;
    for (int64_t j = 0; j < m->columns; j++) {
        Complex x = *at(m, k, j);
        *at(m, k, j) = *at(m, p, j);
        *at(m, p, j) = x;
    }
    Complex d = *at(m, k, k);
    for (int64_t i = k + 1; i < m->rows; i++) {
        Complex *l = at(m, i, k);
        if (d.re != 0 || d.im != 0)
            *l = rounded(m, linalg_divide(*l, d));
        for (int64_t j = k + 1; j < m->columns; j++)
            *at(m, i, j) = rounded(m, linalg_sub_product(*at(m, i, j), *l, *at(m, k, j)));
    }
}

static void lu(const Matrix *m, int64_t steps, int32_t *pivots, int32_t *info)
{
    *info = 0;
    for (int64_t k = 0; k < steps; k++) {
        lu_step(m, k, &pivots[k]);
        Complex d = *at(m, k, k);
        if (d.re == 0 && d.im == 0 && *info == 0)
            *info = (int32_t)k + 1;
    }
}

/* -- qr --------------------------------------------------------------------------------------- */

/* Columns from `first` on: a - t v (v^H a), v the rows from k on of column k of `from`, its first 1. */
static void reflect(const Matrix *from, int64_t k, Complex t, const Matrix *m,
                    int64_t first)
{
    for (int64_t j = first; j < m->columns; j++) {
        Complex sum = {0, 0};
        for (int64_t i = k; i < m->rows; i++) {
            Complex v = i == k ? (Complex){-1, 0} : *at(from, i, k);
            if (i > k)
                v = (Complex){-v.re, v.im};
            sum = linalg_sub_product(sum, v, *at(m, i, j));
        }
        Complex by = linalg_sub_product((Complex){0, 0}, t, sum);
        for (int64_t i = k; i < m->rows; i++) {
            Complex v = i == k ? (Complex){1, 0} : *at(from, i, k);
            Complex *x = at(m, i, j);
            *x = linalg_sub_product(*x, v, (Complex){-by.re, -by.im});
        }
    }
}

static Complex qr_step(const Matrix *m, int64_t k)
{
    Complex alpha = *at(m, k, k);
    double below = 0;
    for (int64_t i = k + 1; i < m->rows; i++) {
        Complex x = *at(m, i, k);
        below += x.re * x.re + x.im * x.im;
    }
    if (below == 0 && alpha.im == 0)
        return (Complex){0, 0};
    double size = sqrt(below + alpha.re * alpha.re + alpha.im * alpha.im);
    double beta = alpha.re < 0 ? size : -size;
    Complex by = {alpha.re - beta, alpha.im};
    for (int64_t i = k + 1; i < m->rows; i++)
        *at(m, i, k) = linalg_divide(*at(m, i, k), by);
    Complex t = {(beta - alpha.re) / beta, -alpha.im / beta};
    reflect(m, k, linalg_conjugate(t), m, k + 1);
    *at(m, k, k) = (Complex){beta, 0};
    return t;
}

static void reflections(const Matrix *v, const Complex *t, int64_t steps, const Matrix *q)
{
    for (int64_t i = 0; i < q->rows; i++) {
        for (int64_t j = 0; j < q->columns; j++)
            *at(q, i, j) = (Complex){i == j, 0};
    }
    for (int64_t k = steps; k-- > 0;)
        reflect(v, k, t[k], q, 0);
}

/* -- the calls -------------------------------------------------------------------------------- */

void eval_lapack_factor(EvalCall *call, LapackKind kind)
{
    const Value *x = call->operands[0];
    const Shape *s = x->shape;
    Value *v = eval_result(call);
    Matrix m = {.a = linalg_read(call, x),
                .rows = s->dims[s->rank - 2],
                .columns = s->dims[s->rank - 1],
                .is_single = s->dtype == DT_F32 || s->dtype == DT_C64};
    int64_t each = m.rows * m.columns, count = each == 0 ? 0 : x->count / each;
    const Value *small = kind == LAPACK_ORGQR ? call->operands[1] : v->elements[1];
    int64_t steps = small->shape->dims[small->shape->rank - 1];
    Complex *t = kind == LAPACK_ORGQR ? linalg_read(call, small)
                                      : eval_temp(call, (size_t)small->count, sizeof *t);
    Complex *all = m.a, *made = kind == LAPACK_ORGQR
                                    ? eval_temp(call, (size_t)x->count, sizeof *made)
                                    : all;
    if (kind == LAPACK_GETRF) /* matrices may be without elements */
        memset(v->elements[2]->data, 0, (size_t)v->elements[2]->count * sizeof(int32_t));
    for (int64_t b = 0; b < count; b++) {
        Matrix q = {made + b * each, m.rows, m.columns, m.is_single};
        m.a = all + b * each;
        if (kind == LAPACK_ORGQR)
            reflections(&m, t + b * steps, steps, &q);
        else if (kind == LAPACK_GETRF)
            lu(&m, steps, (int32_t *)small->data + b * steps,
               (int32_t *)v->elements[2]->data + b);
        else
            for (int64_t k = 0; k < steps; k++)
                t[b * steps + k] = qr_step(&m, k);
    }
    linalg_store(made, kind == LAPACK_ORGQR ? v : v->elements[0]);
    if (kind == LAPACK_GEQRF)
        linalg_store(t, v->elements[1]);
}
