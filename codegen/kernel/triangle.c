/* Cholesky factors and triangular solves whose rows, or columns, threads keep in registers (ir/kernel/kinds/triangle.c).
 *
 *   factor: thread i has row i; in step k all see column k of what is left
 *     l[i, k] = a[i, k] / sqrt(a[k, k]);  a[i, j] -= l[i, k] / sqrt(a[k, k]) conj a[j, k] for j > k
 *   solve: thread c has column c of the right side; in step k, of the rows in the order of the substitution
 *     x[k] = b[k] / m[k, k];  b[i] -= m[i, k] x[k] for i > k */
#include "codegen/element/op_emit.h"
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/threads.h"

#include <math.h>

typedef struct Triangle {
    const EmitterInput *in;
    const TrianglePlan *plan;
    Emit *e;
    DType type;
    uint32_t room; /* column after column in shared memory */
} Triangle;

static Triangle begin(const EmitterInput *in)
{
    const TrianglePlan *p = in->design->plan.triangle;
    Triangle t = {
        .in = in, .plan = p, .e = emitter_begin(in), .type = p->inst->shape->dtype};
    t.e->k->at = p->inst->name;
    t.room =
        gx_shared_alloc(t.e->k, (uint64_t)(p->size * p->size) * shared_bytes(t.type), 16);
    return t;
}

/* -- numbers --------------------------------------------------------------------------------------- */

/* By the operation's code for what a triangular-solve has, two numbers. */
static LLVMValueRef divided(Triangle *t, LLVMValueRef a, LLVMValueRef b)
{
    LLVMValueRef both[2] = {a, b};
    return op_emit[OP_DIVIDE].scalar(t->e->k, t->plan->inst, both);
}

static LLVMValueRef part_of(Triangle *t, LLVMValueRef v, unsigned i)
{
    return LLVMBuildExtractValue(t->e->k->builder, v, i, "");
}

static LLVMValueRef of_parts(Triangle *t, LLVMValueRef re, LLVMValueRef im)
{
    LLVMBuilderRef b = t->e->k->builder;
    LLVMValueRef v = LLVMGetUndef(emit_type(t->e->k, t->type));
    return LLVMBuildInsertValue(b, LLVMBuildInsertValue(b, v, re, 0, ""), im, 1, "");
}

static LLVMValueRef divided_by_real(Triangle *t, LLVMValueRef v, LLVMValueRef real)
{
    Kernel *k = t->e->k;
    if (!dtype_is_complex(t->type))
        return gx_float_op(k, LLVMFDiv, v, real);
    return of_parts(t, gx_float_op(k, LLVMFDiv, part_of(t, v, 0), real),
                    gx_float_op(k, LLVMFDiv, part_of(t, v, 1), real));
}

static LLVMValueRef conjugate(Triangle *t, LLVMValueRef v)
{
    if (!dtype_is_complex(t->type))
        return v;
    return of_parts(t, part_of(t, v, 0),
                    LLVMBuildFNeg(t->e->k->builder, part_of(t, v, 1), ""));
}

static LLVMValueRef negative(Triangle *t, LLVMValueRef v)
{
    LLVMBuilderRef b = t->e->k->builder;
    if (!dtype_is_complex(t->type))
        return LLVMBuildFNeg(b, v, "");
    return of_parts(t, LLVMBuildFNeg(b, part_of(t, v, 0), ""),
                    LLVMBuildFNeg(b, part_of(t, v, 1), ""));
}

/* -- a column in shared memory ----------------------------------------------------------------------- */

static LLVMValueRef place_of(Triangle *t, int64_t column, LLVMValueRef row)
{
    unsigned bytes = shared_bytes(t->type);
    return shared_place(t->e, t->room + (uint32_t)(column * t->plan->size) * bytes, row,
                        bytes);
}

/* 16 bytes at once where columns begin at multiples of them. */
static void load_16_bytes(Triangle *t, LLVMValueRef offset, uint32_t lanes,
                          LLVMValueRef *out)
{
    Kernel *k = t->e->k;
    bool is_complex = dtype_is_complex(t->type);
    uint32_t parts = is_complex ? 2 : 1;
    LLVMTypeRef part = emit_type(k, number_component(t->type));
    LLVMValueRef v =
        gx_load(k, GX_SHARED, offset, LLVMVectorType(part, lanes * parts), 16);
    for (uint32_t i = 0; i < lanes; i++) {
        LLVMValueRef x[2];
        for (uint32_t p = 0; p < parts; p++)
            x[p] = LLVMBuildExtractElement(k->builder, v, gx_i32(k, i * parts + p), "");
        out[i] = is_complex ? of_parts(t, x[0], x[1]) : x[0];
    }
}

/* Rows first … of a column, the same ones for all threads. */
static void load_column(Triangle *t, int64_t column, int64_t first, LLVMValueRef *out)
{
    int64_t size = t->plan->size, lanes = 16 / shared_bytes(t->type);
    if (size % lanes != 0)
        lanes = 1;
    for (int64_t i = first / lanes * lanes; i < size; i += lanes) {
        LLVMValueRef v[16], at = place_of(t, column, gx_i32(t->e->k, (uint32_t)i));
        if (lanes == 1)
            v[0] = shared_load(t->e, t->type, at);
        else
            load_16_bytes(t, at, (uint32_t)lanes, v);
        for (int64_t l = 0; l < lanes; l++) {
            if (i + l >= first)
                out[i + l] = v[l];
        }
    }
}

/* -- places of arrays -------------------------------------------------------------------------------- */

static void index_of(Triangle *t, const Shape *s, const IndexExpr *matrix,
                     const IndexExpr *row, const IndexExpr *column, const IndexExpr **out)
{
    emit_spread(t->e, s, t->plan->batch, t->plan->batch_count, matrix, out);
    out[s->rank - 2] = row;
    out[s->rank - 1] = column;
}

static LLVMValueRef least(Triangle *t, LLVMValueRef x, int64_t most)
{
    LLVMBuilderRef b = t->e->k->builder;
    LLVMValueRef last = gx_i32(t->e->k, (uint32_t)most);
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntULT, x, last, ""), x, last, "");
}

static const IndexExpr *variable(Triangle *t, LLVMValueRef x, int64_t size)
{
    return emit_variable(t->e, to_index(t->e, x), (Range){0, size - 1});
}

/* -- cholesky ---------------------------------------------------------------------------------------- */

/* The diagonal element's root; NaN where it is not positive: the matrix is not definite. */
static LLVMValueRef root_of(Triangle *t, LLVMValueRef diagonal)
{
    Kernel *k = t->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef d = dtype_is_complex(t->type) ? part_of(t, diagonal, 0) : diagonal;
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(d));
    LLVMValueRef is_good = LLVMBuildFCmp(b, LLVMRealOGT, d, zero, "");
    LLVMValueRef safe =
        LLVMBuildSelect(b, is_good, d, LLVMConstReal(LLVMTypeOf(d), 1), "");
    LLVMValueRef root = gx_intrinsic(k, "sqrt", &safe, 1);
    return LLVMBuildSelect(b, is_good, root, LLVMConstReal(LLVMTypeOf(d), (double)NAN),
                           "");
}

/* Row `row`, which becomes the factor's; threads without a row do the last one again. */
static void factor_row(Triangle *t, LLVMValueRef row, LLVMValueRef has_row,
                       LLVMValueRef *a)
{
    Kernel *k = t->e->k;
    int64_t n = t->plan->size;
    LLVMValueRef *column = ARENA_ARRAY(t->e->arena, LLVMValueRef, (size_t)n);
    for (int64_t s = 0; s < n; s++) {
        GxIf guard;
        emit_if_begin(t->e, &guard, has_row);
        shared_store(t->e, t->type, place_of(t, s, row), a[s]);
        emit_if_end(t->e, &guard, NULL, 0, NULL);
        gx_barrier(k);
        load_column(t, s, s, column);
        LLVMValueRef root = root_of(t, column[s]);
        LLVMValueRef own = divided_by_real(t, a[s], root);
        LLVMValueRef is_diagonal =
            LLVMBuildICmp(k->builder, LLVMIntEQ, row, gx_i32(k, (uint32_t)s), "");
        LLVMValueRef diagonal = dtype_is_complex(t->type)
                                    ? of_parts(t, root, LLVMConstNull(LLVMTypeOf(root)))
                                    : root;
        a[s] = LLVMBuildSelect(k->builder, is_diagonal, diagonal, own, "");
        LLVMValueRef by = negative(t, divided_by_real(t, own, root));
        for (int64_t j = s + 1; j < n; j++)
            a[j] = multiply_add(t->e, t->type, by, conjugate(t, column[j]), a[j]);
    }
}

Kernel *emitter_cholesky(const EmitterInput *in)
{
    Triangle t = begin(in);
    Emit *e = t.e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    int64_t n = t.plan->size;
    const Shape *s = t.plan->inst->operands[0]->shape;
    const IndexExpr *index[EMIT_MOST_RANK],
        *matrix = variable(&t, gx_ctaid(k, 0), t.plan->matrices);
    LLVMValueRef *a = ARENA_ARRAY(e->arena, LLVMValueRef, (size_t)n), has_row = NULL,
                 row = gx_tid(k, 0), zero = LLVMConstNull(emit_type(k, t.type));
    if (n < k->block[0]) {
        has_row = LLVMBuildICmp(b, LLVMIntULT, row, gx_i32(k, (uint32_t)n), "");
        row = least(&t, row, n - 1);
    }
    const IndexExpr *at = variable(&t, row, n);
    for (int64_t j = 0; j < n; j++) {
        index_of(&t, s, matrix, at, ix_const(e->ix, j), index);
        emit_element(e, t.plan->inst->operands[0], index, &a[j]);
    }
    k->at = t.plan->inst->name;
    factor_row(&t, row, has_row, a);
    GxIf guard;
    emit_if_begin(e, &guard, has_row);
    for (int64_t j = 0; j < n; j++) {
        LLVMValueRef is_lower =
            LLVMBuildICmp(b, LLVMIntUGE, row, gx_i32(k, (uint32_t)j), "");
        LLVMValueRef v = LLVMBuildSelect(b, is_lower, a[j], zero, "");
        index_of(&t, s, matrix, at, ix_const(e->ix, j), index);
        emit_store(e, fusion_result_arg(in->fusion, 0), t.plan->inst->shape, index, &v);
    }
    emit_if_end(e, &guard, NULL, 0, NULL);
    return emitter_finish(in, e);
}

/* -- triangular-solve ---------------------------------------------------------------------------------- */

/* Number i of the substitution's order. */
static const IndexExpr *in_order(Triangle *t, const IndexExpr *i)
{
    IndexContext *ix = t->e->ix;
    if (t->plan->how.is_forward)
        return i;
    return ix_add(ix, ix_const(ix, t->plan->size - 1), ix_mul(ix, i, -1));
}

/* All of the matrix, its rows and columns in the order of the substitution. */
static void load_matrix(Triangle *t, const IndexExpr *matrix)
{
    Emit *e = t->e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    int64_t n = t->plan->size;
    const Instruction *a = t->plan->inst->operands[0];
    const IndexExpr *index[EMIT_MOST_RANK];
    LLVMValueRef v;
    GxLoop loop;
    gx_loop_begin(k, &loop, gx_tid(k, 0), gx_i32(k, (uint32_t)(n * n)),
                  gx_i32(k, k->block[0]), NULL, 0);
    emit_scope_begin(e);
    LLVMValueRef size = gx_i32(k, (uint32_t)n);
    LLVMValueRef slow = LLVMBuildUDiv(b, loop.index, size, ""),
                 fast = LLVMBuildURem(b, loop.index, size, "");
    /* neighbours in memory are read side by side */
    LLVMValueRef row = t->plan->how.is_turned ? fast : slow,
                 column = t->plan->how.is_turned ? slow : fast;
    const IndexExpr *y = in_order(t, variable(t, slow, n)),
                    *x = in_order(t, variable(t, fast, n));
    index_of(t, a->shape, matrix, y, x, index);
    emit_element(e, a, index, &v);
    k->at = t->plan->inst->name;
    if (t->plan->how.is_conjugate)
        v = conjugate(t, v);
    LLVMValueRef at = LLVMBuildAdd(b, LLVMBuildMul(b, column, size, ""), row, "");
    shared_store(e, t->type, shared_place(e, t->room, at, shared_bytes(t->type)), v);
    emit_scope_end(e);
    gx_loop_end(k, &loop, NULL);
    gx_barrier(k);
}

static void substitute(Triangle *t, LLVMValueRef *x)
{
    int64_t n = t->plan->size;
    LLVMValueRef *column = ARENA_ARRAY(t->e->arena, LLVMValueRef, (size_t)n);
    for (int64_t s = 0; s < n; s++) {
        load_column(t, s, s, column);
        if (!t->plan->how.is_unit)
            x[s] = divided(t, x[s], column[s]);
        LLVMValueRef by = negative(t, x[s]);
        for (int64_t i = s + 1; i < n; i++)
            x[i] = multiply_add(t->e, t->type, column[i], by, x[i]);
    }
}

Kernel *emitter_triangular_solve(const EmitterInput *in)
{
    Triangle t = begin(in);
    const TrianglePlan *p = t.plan;
    Emit *e = t.e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    int64_t n = p->size, block = k->block[0], parts = (p->columns + block - 1) / block;
    const Instruction *right = p->inst->operands[1];
    const IndexExpr *index[EMIT_MOST_RANK];
    LLVMValueRef *x = ARENA_ARRAY(e->arena, LLVMValueRef, (size_t)n), exists = NULL;
    LLVMValueRef part = LLVMBuildURem(b, gx_ctaid(k, 0), gx_i32(k, (uint32_t)parts), ""),
                 number =
                     LLVMBuildUDiv(b, gx_ctaid(k, 0), gx_i32(k, (uint32_t)parts), "");
    const IndexExpr *matrix = variable(&t, number, p->matrices);
    load_matrix(&t, matrix);
    LLVMValueRef column = LLVMBuildAdd(
        b, LLVMBuildMul(b, part, gx_i32(k, (uint32_t)block), ""), gx_tid(k, 0), "");
    if (p->columns % block != 0) {
        exists =
            LLVMBuildICmp(b, LLVMIntULT, column, gx_i32(k, (uint32_t)p->columns), "");
        column = least(&t, column, p->columns - 1);
    }
    const IndexExpr *across = variable(&t, column, p->columns);
    for (int64_t i = 0; i < n; i++) {
        const IndexExpr *along = in_order(&t, ix_const(e->ix, i));
        index_of(&t, right->shape, matrix, p->how.is_left ? along : across,
                 p->how.is_left ? across : along, index);
        emit_element(e, right, index, &x[i]);
    }
    k->at = p->inst->name;
    substitute(&t, x);
    GxIf guard;
    emit_if_begin(e, &guard, exists);
    for (int64_t i = 0; i < n; i++) {
        const IndexExpr *along = in_order(&t, ix_const(e->ix, i));
        index_of(&t, p->inst->shape, matrix, p->how.is_left ? along : across,
                 p->how.is_left ? across : along, index);
        emit_store(e, fusion_result_arg(in->fusion, 0), p->inst->shape, index, &x[i]);
    }
    emit_if_end(e, &guard, NULL, 0, NULL);
    return emitter_finish(in, e);
}
