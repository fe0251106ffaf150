/* Eigenvalues of Hermitian matrices, and singular values: ir/number/jacobi.c for the arrays of a call. */
#include "ir/eval/linalg.h"

static void copy_matrix(const Matrix *from, const Matrix *to)
{
    for (int64_t i = 0; i < to->rows * to->columns; i++)
        to->a[i] = from->a[i];
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
        info[b] = matrix_eigen(&a, how->lower, &v, values) ? 0 : (int32_t)n + 1;
        for (int64_t j = 0; j < n; j++)
            w[b * n + j] = (Complex){values[j], 0};
        copy_matrix(&v, &a);
    }
    linalg_store(all, out->elements[0]);
    linalg_store(w, out->elements[1]);
}

/* -- singular values -------------------------------------------------------------------------- */

/* u of orthogonal columns, the longest first, by reflections: also where columns are 0, or more are wanted. */
static Matrix left_vectors(EvalCall *call, const Matrix *m, int64_t columns)
{
    Matrix v = matrix_create(call, m->rows, columns),
           q = matrix_create(call, m->rows, columns);
    Complex *t = eval_temp(call, (size_t)m->columns, sizeof *t);
    matrix_left_vectors(m, &v, t, &q);
    return q;
}

/* Of a matrix with as many rows as columns or more: it becomes u, of so many columns; v. */
static bool decompose(EvalCall *call, Matrix *m, int64_t columns, Complex *s, Matrix *v)
{
    int64_t n = m->columns;
    double *values = eval_temp(call, (size_t)n, sizeof *values);
    *v = matrix_create(call, n, n);
    bool done = matrix_singular(m, v, values);
    for (int64_t j = 0; j < n; j++)
        s[j] = (Complex){values[j], 0};
    *m = left_vectors(call, m, columns);
    return done;
}

/* u and v, or v^H, of the call's matrix into the positions for them: zeros, where they are not wanted. */
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
