/* cholesky and triangular-solve, in complex f64 whatever the type; LAPACK's calls by name. */
#include <math.h>
#include <string.h>

#include "ir/eval/linalg.h"

Complex *linalg_read(EvalCall *call, const Value *x)
{
    Complex *out = eval_temp(call, (size_t)x->count, sizeof *out);
    number_convert(DT_C128, out, x->shape->dtype, x->data, (size_t)x->count);
    return out;
}

void linalg_store(const Complex *a, Value *v)
{
    number_convert(v->shape->dtype, v->data, DT_C128, a, (size_t)v->count);
}

/* The factors of all matrices of the operand, into v. info, of each matrix: may be NULL. */
static void factor(EvalCall *call, bool lower, Value *v, int32_t *info)
{
    int64_t count;
    Complex *all = linalg_read(call, call->operands[0]);
    Matrix m = matrix_of(call->operands[0], all, &count);
    for (int64_t b = 0; b < count; b++) {
        Matrix one = matrix_next(m, b);
        int32_t bad = matrix_cholesky(&one, lower);
        if (info != NULL)
            info[b] = bad;
    }
    linalg_store(all, v);
}

void eval_cholesky(EvalCall *call)
{
    factor(call, inst_bool(call->inst, ATTR_LOWER), eval_result(call), NULL);
}

/* How the triangle is read: element (i, j) of op(a). */
typedef struct Triangle {
    const Complex *a;
    int64_t n;
    bool transposed, conjugated, unit;
} Triangle;

static Complex triangle_at(const Triangle *t, int64_t i, int64_t j)
{
    if (t->unit && i == j)
        return (Complex){1, 0};
    Complex x = t->transposed ? t->a[j * t->n + i] : t->a[i * t->n + j];
    return t->conjugated ? linalg_conjugate(x) : x;
}

/* Solves t x = b for one vector with elements `stride` apart. */
static void solve(const Triangle *t, bool lower, Complex *b, int64_t stride)
{
    for (int64_t s = 0; s < t->n; s++) {
        int64_t i = lower ? s : t->n - 1 - s;
        Complex x = b[i * stride];
        for (int64_t k = 0; k < s; k++) {
            int64_t j = lower ? k : t->n - 1 - k;
            x = linalg_sub_product(x, triangle_at(t, i, j), b[j * stride]);
        }
        b[i * stride] = linalg_divide(x, triangle_at(t, i, i));
    }
}

void eval_trsm(EvalCall *call, const LapackCall *how)
{
    const Value *x = call->operands[0], *y = call->operands[1];
    Value *v = eval_result(call);
    int64_t n = x->shape->dims[x->shape->rank - 1];
    int64_t rows = y->shape->dims[y->shape->rank - 2],
            columns = y->shape->dims[y->shape->rank - 1];
    const Complex *a = linalg_read(call, x);
    Complex *b = linalg_read(call, y);
    bool left = how->left;
    bool transposed =
        how->transpose == TRANSPOSE_YES || how->transpose == TRANSPOSE_ADJOINT;
    /* x op(a) = b is op(a)^T x^T = b^T: rows of b are the vectors. */
    Triangle t = {.n = n,
                  .transposed = transposed != !left,
                  .conjugated = how->transpose == TRANSPOSE_ADJOINT,
                  .unit = how->unit_diagonal};
    bool forward = how->lower != t.transposed;
    for (int64_t m = 0; n > 0 && m < x->count / (n * n); m++) {
        t.a = a + m * n * n;
        Complex *one = b + m * rows * columns;
        for (int64_t i = 0; i < (left ? columns : rows); i++)
            solve(&t, forward, left ? one + i : one + i * columns, left ? columns : 1);
    }
    linalg_store(b, v);
}

void eval_triangular_solve(EvalCall *call)
{
    const Instruction *inst = call->inst;
    LapackCall how = {.lower = inst_bool(inst, ATTR_LOWER),
                      .left = inst_bool(inst, ATTR_LEFT_SIDE),
                      .unit_diagonal = inst_bool(inst, ATTR_UNIT_DIAGONAL),
                      .transpose = inst_int(inst, ATTR_TRANSPOSE_A, TRANSPOSE_NO)};
    eval_trsm(call, &how);
}

void eval_potrf(EvalCall *call, const LapackCall *how)
{
    Value *v = eval_result(call), *info = v->elements[1];
    /* matrices may be without elements */
    memset(info->data, 0, (size_t)info->count * sizeof(int32_t));
    factor(call, how->lower, v->elements[0], info->data);
}

/* Row k of r and w become c r - s w and c w + s r, so that w[k] is 0. */
static void update_row(Complex *r, Complex *w, int64_t k, int64_t n)
{
    double x = r[k].re, y = w[k].re, most = fmax(fabs(x), fabs(y));
    if (y == 0)
        return;
    double size = sqrt(x / most * (x / most) + y / most * (y / most));
    double c = x / most / size, s = -(y / most) / size;
    for (int64_t j = 0; j < n; j++) {
        double old = r[j].re;
        r[j].re = c * old - s * w[j].re;
        w[j].re = c * w[j].re + s * old;
    }
}

void eval_cholesky_update(EvalCall *call, const LapackCall *how)
{
    (void)how;
    Value *out = eval_result(call);
    Complex *r = linalg_read(call, call->operands[0]),
            *w = linalg_read(call, call->operands[1]);
    int64_t n = call->operands[1]->shape->dims[call->operands[1]->shape->rank - 1];
    for (int64_t row = 0; row < call->operands[1]->count; row++)
        update_row(r + row * n, w + row / n * n, row % n, n);
    linalg_store(r, out->elements[0]);
    linalg_store(w, out->elements[1]);
}

/* -- transposed calls ----------------------------------------------------------------------------- */

static const Shape *transposed_shape(EvalCall *call, const Shape *s)
{
    int64_t *dims = eval_temp(call, s->rank, sizeof *dims);
    for (uint32_t d = 0; d < s->rank; d++)
        dims[d] = s->dims[d];
    dims[s->rank - 1] = s->dims[s->rank - 2];
    dims[s->rank - 2] = s->dims[s->rank - 1];
    return shape_with_dims(eval_intern(call), s, s->rank, dims);
}

static void transpose_into(EvalCall *call, const Value *from, const Value *to)
{
    int64_t count;
    const Complex *all = linalg_read(call, from);
    Matrix m = matrix_of(from, NULL, &count);
    Complex *made = eval_temp(call, (size_t)from->count, sizeof *made);
    int64_t each = m.rows * m.columns;
    for (int64_t i = 0; i < from->count; i++) {
        int64_t in = i % each;
        made[i - in + in % m.columns * m.rows + in / m.columns] = all[i];
    }
    number_convert(to->shape->dtype, to->data, DT_C128, made, (size_t)to->count);
}

static void run(EvalCall *call, const LapackCall *how)
{
    static void (*const kinds[])(EvalCall *, const LapackCall *) = {
#define LAPACK(id, function, real, complex, cuda, operands, results, layout, doc)        \
    [LAPACK_##id] = eval_##function,
#include "ir/custom_call/lapack.def"
    };
    kinds[how->kind](call, how);
}

/* The same call of what the operands are transposes of; its results are transposed. */
static void run_transposed(EvalCall *call, const LapackCall *how)
{
    const Instruction *inst = call->inst;
    bool is_tuple = shape_is_tuple(inst->shape);
    uint32_t results = is_tuple ? inst->shape->rank : 1;
    Value **operands = eval_temp(call, inst->operand_count, sizeof *operands);
    const Shape **shapes = eval_temp(call, results, sizeof *shapes);
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Value *x = operands[i] = call->operands[i];
        if (!lapack_is_matrix(how->kind, false, i))
            continue;
        operands[i] = eval_array(call, transposed_shape(call, x->shape));
        transpose_into(call, x, operands[i]);
    }
    for (uint32_t i = 0; i < results; i++) {
        shapes[i] = is_tuple ? inst->shape->elements[i] : inst->shape;
        if (lapack_is_matrix(how->kind, true, i))
            shapes[i] = transposed_shape(call, shapes[i]);
    }
    Instruction plain = {
        .op = inst->op,
        .shape = is_tuple ? shape_tuple(eval_intern(call), results, shapes) : shapes[0]};
    EvalCall inner = *call;
    inner.inst = &plain;
    inner.operands = operands;
    run(&inner, how);
    Value *out = eval_result(call);
    for (uint32_t i = 0; i < results; i++) {
        Value *from = is_tuple ? inner.result->elements[i] : inner.result,
              *to = is_tuple ? out->elements[i] : out;
        if (lapack_is_matrix(how->kind, true, i))
            transpose_into(call, from, to);
        else
            memcpy(to->data, from->data,
                   (size_t)to->count * dtype_info[to->shape->dtype].storage);
    }
    value_release(inner.result);
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (operands[i] != call->operands[i])
            value_release(operands[i]);
    }
}

void eval_lapack(EvalCall *call, const LapackCall *how)
{
    if (how->is_transposed)
        run_transposed(call, how);
    else
        run(call, how);
}
