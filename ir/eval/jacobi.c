/* Eigenvalues of Hermitian matrices, and singular values, by Jacobi's rotations (Hestenes, 1958, for the latter), and
 * in the order that LAPACK gives them. Vectors are unique but for a factor of size 1, if no two values are equal: it is
 * chosen so that the product with one fixed vector is real and positive. */
#include <float.h>
#include <math.h>

#include "ir/eval/linalg.h"

#define SWEEPS_MOST 60

/* Columns p and q become c p - conj(s) q and s p + c q. */
typedef struct Rotation {
    double c;
    Complex s;
} Rotation;

/* The one that makes the Hermitian matrix p, x; x^H, q diagonal. */
static Rotation rotation_of(double p, double q, Complex x)
{
    double size = sqrt(linalg_square(x));
    if (size == 0)
        return (Rotation){1, {0, 0}};
    double u = (q - p) / (2 * size);
    double t = (u < 0 ? -1 : 1) / (fabs(u) + sqrt(1 + u * u));
    double c = 1 / sqrt(1 + t * t);
    return (Rotation){c, {c * t * x.re / size, c * t * x.im / size}};
}

static void rotate_columns(const Matrix *m, int64_t p, int64_t q, Rotation r)
{
    for (int64_t i = 0; i < m->rows; i++) {
        Complex *x = matrix_at(m, i, p), *y = matrix_at(m, i, q), a = *x, b = *y;
        Complex by_s = linalg_product(linalg_conjugate(r.s), b),
                and_s = linalg_product(r.s, a);
        *x = (Complex){r.c * a.re - by_s.re, r.c * a.im - by_s.im};
        *y = (Complex){and_s.re + r.c * b.re, and_s.im + r.c * b.im};
    }
}

static void rotate_rows(const Matrix *m, int64_t p, int64_t q, Rotation r)
{
    for (int64_t j = 0; j < m->columns; j++) {
        Complex *x = matrix_at(m, p, j), *y = matrix_at(m, q, j), a = *x, b = *y;
        Complex by_s = linalg_product(r.s, b),
                and_s = linalg_product(linalg_conjugate(r.s), a);
        *x = (Complex){r.c * a.re - by_s.re, r.c * a.im - by_s.im};
        *y = (Complex){and_s.re + r.c * b.re, and_s.im + r.c * b.im};
    }
}

static void copy_matrix(const Matrix *from, const Matrix *to)
{
    for (int64_t i = 0; i < to->rows * to->columns; i++)
        to->a[i] = from->a[i];
}

/* The factor for column j: see above. */
static Complex phase_of(const Matrix *m, int64_t j)
{
    Complex sum = {0, 0};
    for (int64_t i = 0; i < m->rows; i++) {
        double golden = (double)(i + 1) * 0.6180339887498949,
               by = 0.5 + golden - floor(golden);
        sum.re += by * matrix_at(m, i, j)->re;
        sum.im += by * matrix_at(m, i, j)->im;
    }
    double size = sqrt(linalg_square(sum));
    return size > 0 ? (Complex){sum.re / size, -sum.im / size} : (Complex){1, 0};
}

static void scale_column(const Matrix *m, int64_t j, Complex by)
{
    for (int64_t i = 0; i < m->rows; i++)
        *matrix_at(m, i, j) = linalg_product(*matrix_at(m, i, j), by);
}

/* Sorts, by falling sign * values, columns of one or two matrices with them. */
static void sort_columns(double *values, int64_t n, double sign, const Matrix *a,
                         const Matrix *b)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t best = i;
        for (int64_t j = i + 1; j < n; j++) {
            if (sign * values[j] > sign * values[best])
                best = j;
        }
        double value = values[i];
        values[i] = values[best];
        values[best] = value;
        matrix_exchange_columns(a, i, best);
        if (b != NULL)
            matrix_exchange_columns(b, i, best);
    }
}

/* -- eigenvalues ------------------------------------------------------------------------------ */

static double outside_diagonal(const Matrix *m, double *out_all)
{
    double sum = 0;
    *out_all = 0;
    for (int64_t i = 0; i < m->rows; i++) {
        for (int64_t j = 0; j < m->columns; j++) {
            double x = linalg_square(*matrix_at(m, i, j));
            *out_all += x;
            sum += i != j ? x : 0;
        }
    }
    return sum;
}

/* True: m is diagonal. */
static bool make_diagonal(const Matrix *m, const Matrix *v)
{
    for (int sweep = 0; sweep < SWEEPS_MOST; sweep++) {
        double all, off = outside_diagonal(m, &all);
        if (off <= DBL_EPSILON * DBL_EPSILON * all)
            return true;
        for (int64_t p = 0; p < m->rows; p++) {
            for (int64_t q = p + 1; q < m->rows; q++) {
                Rotation r = rotation_of(matrix_at(m, p, p)->re, matrix_at(m, q, q)->re,
                                         *matrix_at(m, p, q));
                rotate_columns(m, p, q, r);
                rotate_rows(m, p, q, r);
                rotate_columns(v, p, q, r);
                *matrix_at(m, p, q) = *matrix_at(m, q, p) = (Complex){0, 0};
            }
        }
    }
    return false;
}

/* Mirrors the triangle that counts, divides by the largest part. */
static double hermitian(const Matrix *m, bool lower)
{
    double most = 0;
    for (int64_t i = 0; i < m->rows; i++) {
        matrix_at(m, i, i)->im = 0;
        for (int64_t j = 0; j < i; j++) {
            Complex *a = matrix_at(m, i, j), *b = matrix_at(m, j, i);
            *(lower ? b : a) = linalg_conjugate(*(lower ? a : b));
        }
        for (int64_t j = 0; j < m->columns; j++)
            most = fmax(most,
                        fmax(fabs(matrix_at(m, i, j)->re), fabs(matrix_at(m, i, j)->im)));
    }
    return most > 0 && isfinite(most) ? most : 1;
}

static void divide_all(const Matrix *m, double by)
{
    for (int64_t i = 0; i < m->rows * m->columns; i++)
        m->a[i] = (Complex){m->a[i].re / by, m->a[i].im / by};
}

void eval_syevd(EvalCall *call, const LapackCall *how)
{
    Value *out = eval_result(call);
    int64_t count;
    Complex *all = linalg_read(call, call->operands[0]);
    Matrix m = matrix_of(call->operands[0], all, &count);
    int64_t n = m.rows;
    Complex *w = eval_temp(call, (size_t)(count * n), sizeof *w);
    double *values = eval_temp(call, (size_t)n, sizeof *values);
    Matrix v = matrix_create(call, n, n);
    int32_t *info = out->elements[2]->data;
    for (int64_t b = 0; b < out->elements[2]->count; b++)
        info[b] = 0;
    for (int64_t b = 0; b < count; b++) {
        Matrix a = matrix_next(m, b);
        double scale = hermitian(&a, how->lower);
        divide_all(&a, scale);
        matrix_set_unit(&v);
        info[b] = make_diagonal(&a, &v) ? 0 : (int32_t)n + 1;
        for (int64_t i = 0; i < n; i++)
            values[i] = matrix_at(&a, i, i)->re * scale;
        sort_columns(values, n, -1, &v, NULL);
        for (int64_t j = 0; j < n; j++) {
            scale_column(&v, j, phase_of(&v, j));
            w[b * n + j] = (Complex){values[j], 0};
        }
        copy_matrix(&v, &a);
    }
    linalg_store(all, out->elements[0]);
    linalg_store(w, out->elements[1]);
}

/* -- singular values -------------------------------------------------------------------------- */

/* p^H q of two columns. */
static Complex inner(const Matrix *m, int64_t p, int64_t q)
{
    Complex sum = {0, 0};
    for (int64_t i = 0; i < m->rows; i++) {
        Complex x = *matrix_at(m, i, q);
        sum = linalg_sub_product(sum, linalg_conjugate(*matrix_at(m, i, p)),
                                 (Complex){-x.re, -x.im});
    }
    return sum;
}

/* Makes the columns of m orthogonal, v of them what was done. */
static bool make_orthogonal(const Matrix *m, const Matrix *v)
{
    double least = DBL_EPSILON * sqrt((double)m->rows), worst = 1;
    for (int sweep = 0; sweep < SWEEPS_MOST && worst > least; sweep++) {
        worst = 0;
        for (int64_t p = 0; p < m->columns; p++) {
            for (int64_t q = p + 1; q < m->columns; q++) {
                double a = inner(m, p, p).re, b = inner(m, q, q).re;
                Complex x = inner(m, p, q);
                double size = sqrt(linalg_square(x)), both = sqrt(a) * sqrt(b);
                if (!isfinite(size) || !isfinite(both))
                    return false;
                if (size <= least * both)
                    continue;
                worst = fmax(worst, both > 0 ? size / both : 0);
                Rotation r = rotation_of(a, b, x);
                rotate_columns(m, p, q, r);
                rotate_columns(v, p, q, r);
            }
        }
    }
    return worst <= least;
}

static double largest_part(const Matrix *m)
{
    double most = 0;
    for (int64_t i = 0; i < m->rows * m->columns; i++)
        most = fmax(most, fmax(fabs(m->a[i].re), fabs(m->a[i].im)));
    return most > 0 && isfinite(most) ? most : 1;
}

/* u of orthogonal columns, the longest first, by reflections: also where columns are 0, or more are wanted. */
static Matrix left_vectors(EvalCall *call, const Matrix *m, int64_t columns)
{
    Matrix v = matrix_create(call, m->rows, columns),
           q = matrix_create(call, m->rows, columns);
    Complex *t = eval_temp(call, (size_t)m->columns, sizeof *t);
    for (int64_t i = 0; i < m->rows; i++) {
        for (int64_t j = 0; j < m->columns; j++)
            *matrix_at(&v, i, j) = *matrix_at(m, i, j);
    }
    for (int64_t k = 0; k < m->columns; k++)
        t[k] = matrix_qr_step(&v, k);
    matrix_unreflect(&v, t, m->columns, &q);
    for (int64_t k = 0; k < m->columns; k++) {
        if (matrix_at(&v, k, k)->re < 0)
            scale_column(&q, k, (Complex){-1, 0});
    }
    return q;
}

/* Of a matrix with as many rows as columns or more: it becomes u, of so many columns; v. */
static bool decompose(EvalCall *call, Matrix *m, int64_t columns, Complex *s, Matrix *v)
{
    int64_t n = m->columns;
    double *values = eval_temp(call, (size_t)n, sizeof *values), scale = largest_part(m);
    *v = matrix_create(call, n, n);
    divide_all(m, scale);
    matrix_set_unit(v);
    bool done = make_orthogonal(m, v);
    for (int64_t j = 0; j < n; j++)
        values[j] = sqrt(inner(m, j, j).re) * scale;
    sort_columns(values, n, 1, m, v);
    for (int64_t j = 0; j < n; j++) {
        Complex by = phase_of(m, j);
        scale_column(m, j, by);
        scale_column(v, j, by);
        s[j] = (Complex){values[j], 0};
    }
    *m = left_vectors(call, m, columns);
    return done;
}

/* u and v, or v^H, of the call's matrix into the places for them: zeros, where they are not wanted. */
static bool factor_one(EvalCall *call, const LapackCall *how, const Matrix *a, Complex *s,
                       const Matrix *u, const Matrix *v)
{
    bool is_wide = a->rows < a->columns, wants_v = how->kind == LAPACK_GESVDJ;
    int64_t longer = is_wide ? (wants_v ? v->columns : v->rows) : u->columns;
    Matrix left = matrix_create(call, a->rows, a->columns), right;
    copy_matrix(a, &left);
    if (is_wide)
        matrix_adjoin(call, &left);
    bool done = decompose(call, &left, longer, s, &right);
    Matrix *of_v = is_wide ? &left : &right;
    if (!wants_v)
        matrix_adjoin(call, of_v);
    if (how->has_vectors) {
        copy_matrix(is_wide ? &right : &left, u);
        copy_matrix(of_v, v);
    }
    return done;
}

static Complex *zeros(EvalCall *call, const Value *v)
{
    return matrix_create(call, 1, v->count).a;
}

void eval_gesvd(EvalCall *call, const LapackCall *how)
{
    Value *out = eval_result(call);
    const Value *x = call->operands[0];
    int64_t count, ignored, of_u = how->kind == LAPACK_GESVD_T ? 3 : 2, of_v = 5 - of_u;
    Complex *all = linalg_read(call, x);
    Value *u_out = out->elements[of_u], *v_out = out->elements[of_v],
          *s_out = out->elements[1];
    Complex *us = zeros(call, u_out), *vs = zeros(call, v_out), *s = zeros(call, s_out);
    Matrix a = matrix_of(x, all, &count), u = matrix_of(u_out, us, &ignored),
           v = matrix_of(v_out, vs, &ignored);
    int32_t *info = out->elements[4]->data;
    int64_t k = s_out->shape->dims[s_out->shape->rank - 1];
    for (int64_t b = 0; b < out->elements[4]->count; b++)
        info[b] = 0;
    for (int64_t b = 0; b < count; b++) {
        Matrix from = matrix_next(a, b), left = matrix_next(u, b),
               right = matrix_next(v, b);
        info[b] = !factor_one(call, how, &from, s + b * k, &left, &right);
    }
    linalg_store(all, out->elements[0]);
    linalg_store(s, s_out);
    linalg_store(us, u_out);
    linalg_store(vs, v_out);
}
