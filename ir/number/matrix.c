/* See matrix.h. */
#include "ir/number/matrix.h"

#include <math.h>

Complex linalg_sub_product(Complex s, Complex a, Complex b) /* s - a b */
{
    return (Complex){s.re - (a.re * b.re - a.im * b.im),
                     s.im - (a.re * b.im + a.im * b.re)};
}

Complex linalg_product(Complex a, Complex b)
{
    return (Complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

Complex linalg_conjugate(Complex a)
{
    return (Complex){a.re, -a.im};
}

Complex linalg_divide(Complex a, Complex b)
{
    if (b.im == 0)
        return (Complex){a.re / b.re, a.im / b.re};
    double d = b.re * b.re + b.im * b.im;
    return (Complex){(a.re * b.re + a.im * b.im) / d, (a.im * b.re - a.re * b.im) / d};
}

double linalg_square(Complex a)
{
    return a.re * a.re + a.im * a.im;
}

/* -- parts ------------------------------------------------------------------------------------ */

Matrix matrix_next(Matrix m, int64_t steps)
{
    m.a += steps * m.rows * m.columns;
    return m;
}

void matrix_set_unit(const Matrix *m)
{
    for (int64_t i = 0; i < m->rows; i++) {
        for (int64_t j = 0; j < m->columns; j++)
            *matrix_at(m, i, j) = (Complex){i == j, 0};
    }
}

Complex *matrix_at(const Matrix *m, int64_t i, int64_t j)
{
    return &m->a[i * m->columns + j];
}

/* -- cholesky ---------------------------------------------------------------------------------- */

/* See matrix_cholesky. */
static int32_t cholesky_lower(Complex *a, int64_t n)
{
    int32_t info = 0;
    for (int64_t j = 0; j < n; j++) {
        Complex d = a[j * n + j];
        for (int64_t k = 0; k < j; k++)
            d = linalg_sub_product(d, a[j * n + k], linalg_conjugate(a[j * n + k]));
        double pivot = d.re > 0 ? sqrt(d.re) : NAN;
        if (isnan(pivot) && info == 0)
            info = (int32_t)j + 1;
        a[j * n + j] = (Complex){pivot, 0};
        for (int64_t i = j + 1; i < n; i++) {
            Complex s = a[i * n + j];
            for (int64_t k = 0; k < j; k++)
                s = linalg_sub_product(s, a[i * n + k], linalg_conjugate(a[j * n + k]));
            a[i * n + j] = (Complex){s.re / pivot, s.im / pivot};
            a[j * n + i] = (Complex){0, 0};
        }
    }
    return info;
}

static void conjugate_transpose(Complex *a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            Complex t = linalg_conjugate(a[i * n + j]);
            a[i * n + j] = linalg_conjugate(a[j * n + i]);
            a[j * n + i] = t;
        }
}

int32_t matrix_cholesky(const Matrix *m, bool lower)
{
    if (!lower)
        conjugate_transpose(m->a, m->rows);
    int32_t info = cholesky_lower(m->a, m->rows);
    if (!lower)
        conjugate_transpose(m->a, m->rows);
    return info;
}

/* -- lu --------------------------------------------------------------------------------------- */

/* Pivots are compared as a kernel compares them. */
static Complex rounded(const Matrix *m, Complex x)
{
    return m->is_single ? (Complex){(float)x.re, (float)x.im} : x;
}

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
        double size = size_of(m, *matrix_at(m, i, k));
        if (isnan(size))
            return k;
        if (size > size_of(m, *matrix_at(m, best, k)))
            best = i;
    }
    return best;
}

static void lu_step(const Matrix *m, int64_t k, int32_t *pivot)
{
    int64_t p = pivot_row(m, k);
    *pivot = (int32_t)p + 1;
    for (int64_t j = 0; j < m->columns; j++) {
        Complex x = *matrix_at(m, k, j);
        *matrix_at(m, k, j) = *matrix_at(m, p, j);
        *matrix_at(m, p, j) = x;
    }
    Complex d = *matrix_at(m, k, k);
    for (int64_t i = k + 1; i < m->rows; i++) {
        Complex *l = matrix_at(m, i, k);
        if (d.re != 0 || d.im != 0)
            *l = rounded(m, linalg_divide(*l, d));
        for (int64_t j = k + 1; j < m->columns; j++) {
            Complex *x = matrix_at(m, i, j);
            *x = rounded(m, linalg_sub_product(*x, *l, *matrix_at(m, k, j)));
        }
    }
}

void matrix_lu(const Matrix *m, int64_t steps, int32_t *pivots, int32_t *info)
{
    *info = 0;
    for (int64_t k = 0; k < steps; k++) {
        lu_step(m, k, &pivots[k]);
        Complex d = *matrix_at(m, k, k);
        if (d.re == 0 && d.im == 0 && *info == 0)
            *info = (int32_t)k + 1;
    }
}

/* -- reflections ------------------------------------------------------------------------------ */

void matrix_exchange_columns(const Matrix *m, int64_t i, int64_t j)
{
    for (int64_t k = 0; k < m->rows; k++) {
        Complex x = *matrix_at(m, k, i);
        *matrix_at(m, k, i) = *matrix_at(m, k, j);
        *matrix_at(m, k, j) = x;
    }
}

void matrix_reflect(const Matrix *from, int64_t i, int64_t k, Complex t, const Matrix *m,
                    int64_t first)
{
    for (int64_t j = first; j < m->columns; j++) {
        Complex sum = *matrix_at(m, i, j);
        for (int64_t y = i + 1; y < m->rows; y++) {
            Complex v = *matrix_at(from, y, k);
            sum = linalg_sub_product(sum, (Complex){-v.re, v.im}, *matrix_at(m, y, j));
        }
        Complex by = linalg_product(t, sum);
        for (int64_t y = i; y < m->rows; y++) {
            Complex v = y == i ? (Complex){1, 0} : *matrix_at(from, y, k);
            Complex *x = matrix_at(m, y, j);
            *x = linalg_sub_product(*x, v, by);
        }
    }
}

Complex matrix_reflection(const Matrix *m, int64_t i, int64_t k)
{
    Complex alpha = *matrix_at(m, i, k);
    double below = 0;
    for (int64_t y = i + 1; y < m->rows; y++)
        below += linalg_square(*matrix_at(m, y, k));
    if (below == 0 && alpha.im == 0)
        return (Complex){0, 0};
    double size = sqrt(below + linalg_square(alpha));
    double beta = alpha.re < 0 ? size : -size;
    Complex by = {alpha.re - beta, alpha.im};
    for (int64_t y = i + 1; y < m->rows; y++)
        *matrix_at(m, y, k) = linalg_divide(*matrix_at(m, y, k), by);
    *matrix_at(m, i, k) = (Complex){beta, 0};
    return (Complex){(beta - alpha.re) / beta, -alpha.im / beta};
}

Complex matrix_qr_step(const Matrix *m, int64_t k)
{
    Complex t = matrix_reflection(m, k, k);
    matrix_reflect(m, k, k, linalg_conjugate(t), m, k + 1);
    return t;
}

void matrix_unreflect(const Matrix *v, const Complex *t, int64_t steps, const Matrix *q)
{
    matrix_set_unit(q);
    for (int64_t k = steps; k-- > 0;)
        matrix_reflect(v, k, k, t[k], q, 0);
}
