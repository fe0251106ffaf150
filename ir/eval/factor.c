/* LAPACK's factorisations: lu with partial pivoting, qr by reflections, also where the longest column comes first,
 * and tridiagonal matrices of Hermitian ones. */
#include <math.h>
#include <string.h>

#include "ir/eval/linalg.h"

/* The size of the last dimension. */
static int64_t steps_of(const Value *v)
{
    return v->shape->dims[v->shape->rank - 1];
}

/* -- lu --------------------------------------------------------------------------------------- */

void eval_getrf(EvalCall *call, const LapackCall *how)
{
    (void)how;
    Value *v = eval_result(call), *pivots = v->elements[1], *info = v->elements[2];
    int64_t count, steps = steps_of(pivots);
    Complex *all = linalg_read(call, call->operands[0]);
    Matrix m = matrix_of(call->operands[0], all, &count);
    /* matrices may be without elements */
    memset(info->data, 0, (size_t)info->count * sizeof(int32_t));
    for (int64_t b = 0; b < count; b++) {
        Matrix one = matrix_next(m, b);
        matrix_lu(&one, steps, (int32_t *)pivots->data + b * steps,
                  (int32_t *)info->data + b);
    }
    linalg_store(all, v->elements[0]);
}

/* -- qr --------------------------------------------------------------------------------------- */

void eval_geqrf(EvalCall *call, const LapackCall *how)
{
    (void)how;
    Value *v = eval_result(call), *factors = v->elements[1];
    int64_t count, steps = steps_of(factors);
    Complex *all = linalg_read(call, call->operands[0]),
            *t = eval_temp(call, (size_t)factors->count, sizeof *t);
    Matrix m = matrix_of(call->operands[0], all, &count);
    for (int64_t b = 0; b < count; b++) {
        Matrix one = matrix_next(m, b);
        for (int64_t k = 0; k < steps; k++)
            t[b * steps + k] = matrix_qr_step(&one, k);
    }
    linalg_store(all, v->elements[0]);
    linalg_store(t, factors);
}

void eval_orgqr(EvalCall *call, const LapackCall *how)
{
    (void)how;
    const Value *x = call->operands[0], *factors = call->operands[1];
    Value *v = eval_result(call);
    int64_t count, steps = steps_of(factors);
    Complex *all = linalg_read(call, x), *t = linalg_read(call, factors),
            *made = eval_temp(call, (size_t)x->count, sizeof *made);
    Matrix m = matrix_of(x, all, &count), q = matrix_of(x, made, &count);
    for (int64_t b = 0; b < count; b++) {
        Matrix from = matrix_next(m, b), to = matrix_next(q, b);
        matrix_unreflect(&from, t + b * steps, steps, &to);
    }
    linalg_store(made, v);
}

/* q c = h0 (h1 (.. c)); c q^H and c q by their adjoints. */
static void multiply_by_q(const Matrix *v, const Complex *t, int64_t steps, bool adjoint,
                          const Matrix *c)
{
    for (int64_t i = 0; i < steps; i++) {
        int64_t k = adjoint ? i : steps - 1 - i;
        matrix_reflect(v, k, k, adjoint ? linalg_conjugate(t[k]) : t[k], c, 0);
    }
}

void eval_ormqr(EvalCall *call, const LapackCall *how)
{
    const Value *x = call->operands[0], *factors = call->operands[1],
                *y = call->operands[2];
    int64_t count, steps = steps_of(factors);
    Complex *all = linalg_read(call, x), *t = linalg_read(call, factors),
            *other = linalg_read(call, y);
    Matrix m = matrix_of(x, all, &count), c = matrix_of(y, other, &count);
    bool adjoint = how->transpose == TRANSPOSE_ADJOINT;
    for (int64_t b = 0; b < count; b++) {
        Matrix v = matrix_next(m, b), to = matrix_next(c, b), made = to;
        if (!how->left)
            matrix_adjoin(call, &made);
        multiply_by_q(&v, t + b * steps, steps, adjoint == how->left, &made);
        if (!how->left)
            matrix_adjoin(call, &made);
        memcpy(to.a, made.a, (size_t)(to.rows * to.columns) * sizeof *to.a);
    }
    linalg_store(other, eval_result(call));
}

/* -- qr with pivots --------------------------------------------------------------------------- */

/* The longest of the columns from k on, of their elements from row k on; the first of several. */
static int64_t longest_column(const Matrix *m, int64_t k)
{
    int64_t best = k;
    double most = -1;
    for (int64_t j = k; j < m->columns; j++) {
        double sum = 0;
        for (int64_t i = k; i < m->rows; i++)
            sum += linalg_square(*matrix_at(m, i, j));
        if (m->is_single)
            sum = (float)sum;
        if (sum > most) {
            most = sum;
            best = j;
        }
    }
    return best;
}

static void exchange(const Matrix *m, int32_t *order, int64_t i, int64_t j)
{
    int32_t number = order[i];
    order[i] = order[j];
    order[j] = number;
    matrix_exchange_columns(m, i, j);
}

/* Columns with a number come first and stay there; how many they are. */
static int64_t order_columns(const Matrix *m, const int32_t *given, int32_t *order)
{
    int64_t fixed = 0;
    for (int64_t j = 0; j < m->columns; j++)
        order[j] = (int32_t)j + 1;
    for (int64_t j = 0; j < m->columns; j++) {
        if (given[j] != 0)
            exchange(m, order, j, fixed++);
    }
    return fixed;
}

void eval_geqp3(EvalCall *call, const LapackCall *how)
{
    (void)how;
    Value *v = eval_result(call), *factors = v->elements[2];
    int64_t count, steps = steps_of(factors);
    Complex *all = linalg_read(call, call->operands[0]),
            *t = eval_temp(call, (size_t)factors->count, sizeof *t);
    Matrix m = matrix_of(call->operands[0], all, &count);
    /* matrices may be without rows */
    for (int64_t i = 0; i < v->elements[1]->count; i++)
        ((int32_t *)v->elements[1]->data)[i] = (int32_t)(i % m.columns) + 1;
    for (int64_t b = 0; b < count; b++) {
        Matrix one = matrix_next(m, b);
        int32_t *order = (int32_t *)v->elements[1]->data + b * m.columns;
        int64_t fixed = order_columns(
            &one, (const int32_t *)call->operands[1]->data + b * m.columns, order);
        for (int64_t k = 0; k < steps; k++) {
            if (k >= fixed)
                exchange(&one, order, k, longest_column(&one, k));
            t[b * steps + k] = matrix_qr_step(&one, k);
        }
    }
    linalg_store(all, v->elements[0]);
    linalg_store(t, factors);
}

/* -- tridiagonal ------------------------------------------------------------------------------ */

/* The lower triangle of m, or of m read from its end, as a whole matrix. */
static Matrix whole(EvalCall *call, const Matrix *m, bool lower)
{
    int64_t n = m->rows;
    Matrix out = matrix_create(call, n, n);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            Complex x = lower ? *matrix_at(m, i, j) : *matrix_at(m, n - 1 - i, n - 1 - j);
            *matrix_at(&out, j, i) = linalg_conjugate(x);
            *matrix_at(&out, i, j) = i == j ? (Complex){x.re, 0} : x;
        }
    }
    return out;
}

static Complex vector_at(const Matrix *m, int64_t i, int64_t k)
{
    return i == k + 1 ? (Complex){1, 0} : *matrix_at(m, i, k);
}

/* m = h^H m h for the step's reflection: with p = t m v, w = p - conj(t) (v^H p) / 2 v, that is m - v w^H - w v^H. */
static Complex tridiagonal_step(const Matrix *m, int64_t k, Complex *w)
{
    Complex t = matrix_reflection(m, k + 1, k), sum = {0, 0};
    for (int64_t i = k + 1; i < m->rows; i++) {
        Complex p = {0, 0}, v = vector_at(m, i, k);
        for (int64_t j = k + 1; j < m->rows; j++) {
            Complex x = vector_at(m, j, k);
            p = linalg_sub_product(p, *matrix_at(m, i, j), (Complex){-x.re, -x.im});
        }
        w[i] = linalg_product(t, p);
        sum = linalg_sub_product(sum, linalg_conjugate(v), (Complex){-w[i].re, -w[i].im});
    }
    double half = linalg_product(linalg_conjugate(t), sum).re / 2;
    for (int64_t i = k + 1; i < m->rows; i++)
        w[i] = linalg_sub_product(w[i], (Complex){half, 0}, vector_at(m, i, k));
    for (int64_t i = k + 1; i < m->rows; i++) {
        for (int64_t j = k + 1; j < m->rows; j++) {
            Complex *x = matrix_at(m, i, j);
            *x = linalg_sub_product(*x, vector_at(m, i, k), linalg_conjugate(w[j]));
            *x = linalg_sub_product(*x, w[i], linalg_conjugate(vector_at(m, j, k)));
        }
    }
    return t;
}

void eval_sytrd(EvalCall *call, const LapackCall *how)
{
    const Value *x = call->operands[0];
    Value *v = eval_result(call);
    int64_t count;
    Complex *all = linalg_read(call, x);
    Matrix m = matrix_of(x, all, &count);
    int64_t n = m.rows, less = n > 0 ? n - 1 : 0;
    Complex *d = eval_temp(call, (size_t)(count * n), sizeof *d),
            *e = eval_temp(call, (size_t)(count * less), sizeof *e),
            *w = eval_temp(call, (size_t)n, sizeof *w),
            *t = eval_temp(call, (size_t)(count * less), sizeof *t);
    for (int64_t b = 0; b < count; b++) {
        Matrix one = matrix_next(m, b), full = whole(call, &one, how->lower);
        for (int64_t i = 0; i < n; i++) {
            int64_t at = b * less + (how->lower ? i : less - 1 - i);
            if (i < less)
                t[at] = tridiagonal_step(&full, i, w);
            if (i < less)
                e[at] = *matrix_at(&full, i + 1, i);
            d[b * n + (how->lower ? i : n - 1 - i)] = *matrix_at(&full, i, i);
            for (int64_t j = 0; j <= i; j++)
                *matrix_at(&one, how->lower ? i : n - 1 - i, how->lower ? j : n - 1 - j) =
                    *matrix_at(&full, i, j);
        }
    }
    linalg_store(all, v->elements[0]);
    linalg_store(d, v->elements[1]);
    linalg_store(e, v->elements[2]);
    linalg_store(t, v->elements[3]);
    memset(v->elements[4]->data, 0, (size_t)v->elements[4]->count * sizeof(int32_t));
}
