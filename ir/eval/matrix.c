/* Matrices of the evaluator: parts of arrays. */
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
