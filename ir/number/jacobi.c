/* Eigenvalues of Hermitian matrices, and singular values, by Jacobi's rotations (Hestenes, 1958, for the latter), and
 * in the order that LAPACK gives them. Vectors are unique but for a factor of size 1, if no two values are equal: it is
 * chosen so that the product with one fixed vector is real and positive. */
#include <float.h>
#include <math.h>
#include <stddef.h>

#include "ir/number/matrix.h"

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
        for (int64_t j = 0; j <= i; j++)
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

bool matrix_eigen(const Matrix *m, bool lower, const Matrix *v, double *values)
{
    double scale = hermitian(m, lower);
    divide_all(m, scale);
    matrix_set_unit(v);
    bool done = make_diagonal(m, v);
    for (int64_t i = 0; i < m->rows; i++)
        values[i] = matrix_at(m, i, i)->re * scale;
    sort_columns(values, m->rows, -1, v, NULL);
    for (int64_t j = 0; j < m->rows; j++)
        scale_column(v, j, phase_of(v, j));
    return done;
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

bool matrix_singular(const Matrix *m, const Matrix *v, double *values)
{
    double scale = largest_part(m);
    divide_all(m, scale);
    matrix_set_unit(v);
    bool done = make_orthogonal(m, v);
    for (int64_t j = 0; j < m->columns; j++)
        values[j] = sqrt(inner(m, j, j).re) * scale;
    sort_columns(values, m->columns, 1, m, v);
    for (int64_t j = 0; j < m->columns; j++) {
        Complex by = phase_of(m, j);
        scale_column(m, j, by);
        scale_column(v, j, by);
    }
    return done;
}

void matrix_left_vectors(const Matrix *m, const Matrix *work, Complex *t, const Matrix *q)
{
    for (int64_t i = 0; i < m->rows; i++) {
        for (int64_t j = 0; j < m->columns; j++)
            *matrix_at(work, i, j) = *matrix_at(m, i, j);
    }
    for (int64_t k = 0; k < m->columns; k++)
        t[k] = matrix_qr_step(work, k);
    matrix_unreflect(work, t, m->columns, q);
    for (int64_t k = 0; k < m->columns; k++) {
        if (matrix_at(work, k, k)->re < 0)
            scale_column(q, k, (Complex){-1, 0});
    }
}
