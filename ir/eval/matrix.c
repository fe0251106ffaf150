/* Matrices of the evaluator: parts of arrays, and reflections of them. */
#include <math.h>

#include "ir/eval/linalg.h"

Matrix matrix_of(const Value *x, Complex *all, int64_t *out_count)
{
    const Shape *s = x->shape;
    Matrix m = {.a = all,
                .rows = s->dims[s->rank - 2],
                .columns = s->dims[s->rank - 1],
                .is_single = s->dtype == DT_F32 || s->dtype == DT_C64};
    int64_t each = m.rows * m.columns;
    *out_count = each == 0 ? 0 : x->count / each;
    return m;
}

Matrix matrix_create(EvalCall *call, int64_t rows, int64_t columns)
{
    Complex *a = eval_temp(call, (size_t)(rows * columns), sizeof *a);
    for (int64_t i = 0; i < rows * columns; i++)
        a[i] = (Complex){0, 0};
    return (Matrix){.a = a, .rows = rows, .columns = columns};
}

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

void matrix_adjoin(EvalCall *call, Matrix *m)
{
    Matrix out = matrix_create(call, m->columns, m->rows);
    out.is_single = m->is_single;
    for (int64_t i = 0; i < m->rows; i++) {
        for (int64_t j = 0; j < m->columns; j++)
            *matrix_at(&out, j, i) = linalg_conjugate(*matrix_at(m, i, j));
    }
    *m = out;
}

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
