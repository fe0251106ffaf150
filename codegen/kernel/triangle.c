/* Cholesky factors and triangular solves whose rows, or columns, threads keep in registers (ir/kernel/kinds/triangle.c).
 *
 *   factor: thread i has row i; in step k all see column k of what is left
 *     l[i, k] = a[i, k] / sqrt(a[k, k]);  a[i, j] -= a[i, k] / a[k, k] conj a[j, k] for j > k
 *   solve: thread c has column c of the right side; in step k, of the rows in the order of the substitution
 *     x[k] = b[k] / m[k, k];  b[i] -= m[i, k] x[k] for i > k
 *
 * Steps are trips of loops: a block alone on a multiprocessor would wait for the instructions of code that it runs once
 * (10 cycles for each on an H100). So that the first number in registers is the step's, all move up by one in each step,
 * and so do columns in shared memory: column k begins with row k, and what is before follows behind the last row. */
#include "codegen/element/op_emit.h"
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/threads.h"

#include <math.h>

/* Of a loop: in the next one there is so much less to do. No number of the configuration: a matrix has 64 rows at most
 * (256 bytes of a row are in registers), so that there are four loops at most; shorter ones would be more code that runs
 * once. */
enum { STEPS = 16 };

typedef struct Triangle {
    const EmitterInput *in;
    const TrianglePlan *plan;
    Emit *e;
    DType type;
    uint32_t base; /* column after column in shared memory */
} Triangle;

static Triangle begin(const EmitterInput *in)
{
    const TrianglePlan *p = in->design->plan.triangle;
    Triangle t = {
        .in = in, .plan = p, .e = emitter_begin(in), .type = p->inst->shape->dtype};
    t.e->k->at = p->inst->name;
    t.base =
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

/* Row `row` of a column, counted from its diagonal; all i32. */
static LLVMValueRef offset_of(Triangle *t, LLVMValueRef column, LLVMValueRef row)
{
    LLVMBuilderRef b = t->e->k->builder;
    LLVMValueRef size = gx_i32(t->e->k, (uint32_t)t->plan->size);
    LLVMValueRef first = LLVMBuildMul(b, column, size, "");
    return element_offset(t->e, t->base, LLVMBuildAdd(b, first, row, ""),
                          shared_bytes(t->type));
}

static LLVMValueRef from_diagonal(Triangle *t, LLVMValueRef row, LLVMValueRef column)
{
    LLVMBuilderRef b = t->e->k->builder;
    LLVMValueRef down = LLVMBuildSub(b, row, column, "");
    LLVMValueRef round =
        LLVMBuildAdd(b, down, gx_i32(t->e->k, (uint32_t)t->plan->size), "");
    return LLVMBuildSelect(b, LLVMBuildICmp(b, LLVMIntUGE, row, column, ""), down, round,
                           "");
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

/* The first `count` rows of a column, the same ones for all threads. */
static void load_column(Triangle *t, LLVMValueRef column, int64_t count,
                        LLVMValueRef *out)
{
    int64_t lanes = 16 / shared_bytes(t->type);
    if (t->plan->size % lanes != 0)
        lanes = 1;
    for (int64_t i = 0; i < count; i += lanes) {
        LLVMValueRef v[16], at = offset_of(t, column, gx_i32(t->e->k, (uint32_t)i));
        if (lanes == 1)
            v[0] = shared_load(t->e, t->type, at);
        else
            load_16_bytes(t, at, (uint32_t)lanes, v);
        for (int64_t l = 0; l < lanes && i + l < count; l++)
            out[i + l] = v[l];
    }
}

/* -- positions of arrays -------------------------------------------------------------------------------- */

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

/* -- steps ----------------------------------------------------------------------------------------- */

/* The row of a factor that a thread makes, or its column or row of an unknown. */
typedef struct Line {
    const IndexExpr *matrix, *across;
    LLVMValueRef number, exists; /* i32; i1, NULL: always */
    bool is_row;
} Line;

/* The element of the line that step `step` (i32) makes, where a has the `width` that are left; those behind it move
 * up by one. */
typedef void StepFn(Triangle *t, const Line *l, LLVMValueRef step, int64_t width,
                    LLVMValueRef *a);

static void all_steps(Triangle *t, const Line *l, StepFn *body, LLVMValueRef *a)
{
    Emit *e = t->e;
    int64_t n = t->plan->size;
    LLVMValueRef *next = ARENA_ARRAY(e->arena, LLVMValueRef, (size_t)n);
    for (int64_t first = 0; first < n; first += STEPS) {
        int64_t width = n - first, end = width < STEPS ? n : first + STEPS;
        GxLoop loop;
        gx_loop_begin(e->k, &loop, gx_i32(e->k, (uint32_t)first),
                      gx_i32(e->k, (uint32_t)end), gx_i32(e->k, 1), a, (unsigned)width);
        emit_scope_begin(e);
        for (int64_t i = 0; i < width; i++)
            next[i] = a[i];
        body(t, l, loop.index, width, next);
        next[width - 1] = LLVMConstNull(LLVMTypeOf(a[0]));
        emit_scope_end(e);
        gx_loop_end(e->k, &loop, next);
    }
}

/* Element `step` (i32) in the order of the steps. */
static void store_step(Triangle *t, const Line *l, const IndexExpr *step, LLVMValueRef v)
{
    const Shape *s = t->plan->inst->shape;
    const IndexExpr *index[EMIT_MOST_RANK];
    GxIf guard;
    emit_if_begin(t->e, &guard, l->exists);
    index_of(t, s, l->matrix, l->is_row ? l->across : step, l->is_row ? step : l->across,
             index);
    emit_store(t->e, fusion_result_arg(t->in->fusion, 0), s, index, &v);
    emit_if_end(t->e, &guard, NULL, 0, NULL);
}

/* -- cholesky ---------------------------------------------------------------------------------------- */

/* The diagonal element; NaN where it is not positive: the matrix is not definite. */
static LLVMValueRef pivot_of(Triangle *t, LLVMValueRef diagonal)
{
    LLVMBuilderRef b = t->e->k->builder;
    LLVMValueRef d = dtype_is_complex(t->type) ? part_of(t, diagonal, 0) : diagonal;
    LLVMValueRef is_good =
        LLVMBuildFCmp(b, LLVMRealOGT, d, LLVMConstNull(LLVMTypeOf(d)), "");
    return LLVMBuildSelect(b, is_good, d, LLVMConstReal(LLVMTypeOf(d), (double)NAN), "");
}

/* The root and what is stored wait for the pivot beside what the next step waits for. */
static void factor_step(Triangle *t, const Line *l, LLVMValueRef step, int64_t width,
                        LLVMValueRef *a)
{
    Kernel *k = t->e->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef *column = ARENA_ARRAY(t->e->arena, LLVMValueRef, (size_t)width);
    GxIf guard;
    emit_if_begin(t->e, &guard, l->exists);
    shared_store(t->e, t->type, offset_of(t, step, from_diagonal(t, l->number, step)),
                 a[0]);
    emit_if_end(t->e, &guard, NULL, 0, NULL);
    gx_barrier(k);
    load_column(t, step, width, column);
    LLVMValueRef pivot = pivot_of(t, column[0]), own = a[0];
    LLVMValueRef by = negative(t, divided_by_real(t, own, pivot));
    for (int64_t j = 1; j < width; j++)
        a[j - 1] = multiply_add(t->e, t->type, by, conjugate(t, column[j]), a[j]);
    LLVMValueRef root = gx_intrinsic(k, "sqrt", &pivot, 1);
    LLVMValueRef diagonal = dtype_is_complex(t->type)
                                ? of_parts(t, root, LLVMConstNull(LLVMTypeOf(root)))
                                : root;
    LLVMValueRef is_diagonal = LLVMBuildICmp(b, LLVMIntEQ, l->number, step, "");
    LLVMValueRef is_lower = LLVMBuildICmp(b, LLVMIntUGE, l->number, step, "");
    own = LLVMBuildSelect(b, is_diagonal, diagonal, divided_by_real(t, own, root), "");
    own = LLVMBuildSelect(b, is_lower, own, LLVMConstNull(LLVMTypeOf(own)), "");
    store_step(t, l, variable(t, step, t->plan->size), own);
}

Kernel *emitter_cholesky(const EmitterInput *in)
{
    Triangle t = begin(in);
    Emit *e = t.e;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    int64_t n = t.plan->size;
    const Shape *s = t.plan->inst->operands[0]->shape;
    const IndexExpr *index[EMIT_MOST_RANK];
    Line l = {.matrix = variable(&t, gx_ctaid(k, 0), t.plan->matrices),
              .number = gx_tid(k, 0),
              .is_row = true};
    LLVMValueRef *a = ARENA_ARRAY(e->arena, LLVMValueRef, (size_t)n);
    if (n < k->block[0]) {
        l.exists = LLVMBuildICmp(b, LLVMIntULT, l.number, gx_i32(k, (uint32_t)n), "");
        l.number = least(&t, l.number, n - 1);
    }
    l.across = variable(&t, l.number, n);
    for (int64_t j = 0; j < n; j++) {
        index_of(&t, s, l.matrix, l.across, ix_const(e->ix, j), index);
        emit_element(e, t.plan->inst->operands[0], index, &a[j]);
    }
    k->at = t.plan->inst->name;
    all_steps(&t, &l, factor_step, a);
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
    shared_store(e, t->type, offset_of(t, column, from_diagonal(t, row, column)), v);
    emit_scope_end(e);
    gx_loop_end(k, &loop, NULL);
    gx_barrier(k);
}

static void solve_step(Triangle *t, const Line *l, LLVMValueRef step, int64_t width,
                       LLVMValueRef *a)
{
    LLVMValueRef *column = ARENA_ARRAY(t->e->arena, LLVMValueRef, (size_t)width);
    load_column(t, step, width, column);
    LLVMValueRef x = t->plan->how.is_unit ? a[0] : divided(t, a[0], column[0]);
    LLVMValueRef by = negative(t, x);
    for (int64_t j = 1; j < width; j++)
        a[j - 1] = multiply_add(t->e, t->type, column[j], by, a[j]);
    store_step(t, l, in_order(t, variable(t, step, t->plan->size)), x);
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
    LLVMValueRef *x = ARENA_ARRAY(e->arena, LLVMValueRef, (size_t)n);
    LLVMValueRef part = LLVMBuildURem(b, gx_ctaid(k, 0), gx_i32(k, (uint32_t)parts), ""),
                 number =
                     LLVMBuildUDiv(b, gx_ctaid(k, 0), gx_i32(k, (uint32_t)parts), "");
    Line l = {.matrix = variable(&t, number, p->matrices), .is_row = !p->how.is_left};
    load_matrix(&t, l.matrix);
    l.number = LLVMBuildAdd(b, LLVMBuildMul(b, part, gx_i32(k, (uint32_t)block), ""),
                            gx_tid(k, 0), "");
    if (p->columns % block != 0) {
        l.exists =
            LLVMBuildICmp(b, LLVMIntULT, l.number, gx_i32(k, (uint32_t)p->columns), "");
        l.number = least(&t, l.number, p->columns - 1);
    }
    l.across = variable(&t, l.number, p->columns);
    for (int64_t i = 0; i < n; i++) {
        const IndexExpr *along = in_order(&t, ix_const(e->ix, i));
        index_of(&t, right->shape, l.matrix, l.is_row ? l.across : along,
                 l.is_row ? along : l.across, index);
        emit_element(e, right, index, &x[i]);
    }
    k->at = p->inst->name;
    all_steps(&t, &l, solve_step, x);
    return emitter_finish(in, e);
}
