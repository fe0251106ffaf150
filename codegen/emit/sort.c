/* Sorts of rows along one dimension, by any comparator, always stable: elements that the comparator does
 * not tell apart keep their order.
 *
 * Rows that fit are sorted in shared memory by a bitonic network, several short ones in a block; each
 * element carries its first position, which decides between equal ones and stands for padding where it
 * lies behind the row. Longer rows: each thread counts how many elements come before its own and stores
 * it there. */
#include "codegen/emit/emitters.h"
#include "codegen/emit/threads.h"
#include "ir/bug.h"

#define SORT_THREADS 512
#define SORT_SMALL_THREADS 128
#define SORT_MOST 16 /* arrays sorted together */

typedef struct Sort {
    const EmitterInput *in;
    const Instruction *inst;
    Kernel *k;
    Emit *e;
    uint32_t count;
    const Shape *shape; /* of all arrays */
    int64_t along, size, rows;
    uint32_t padded, log2; /* size rounded up to a power of two */
    uint32_t rows_per_block;
    uint32_t room[SORT_MOST], positions; /* offsets in shared memory */
} Sort;

/* -- places -------------------------------------------------------------------------------------------- */

/* The index of position `at` in row `row`: rows count through the other dimensions as they lie in memory. */
static void place(Emit *e, const Sort *s, const IndexExpr *row, const IndexExpr *at,
                  const IndexExpr **out)
{
    for (uint32_t i = 0; i < s->shape->rank; i++) {
        int64_t d = s->shape->layout->minor_to_major[i], size = s->shape->dims[d];
        if (d == s->along) {
            out[d] = at;
            continue;
        }
        out[d] = ix_mod(e->ix, row, size);
        row = ix_floordiv(e->ix, row, size);
    }
}

/* The comparator: element a stands before element b. */
static LLVMValueRef compare(Emit *e, const Sort *s, const LLVMValueRef *a,
                            const LLVMValueRef *b)
{
    LLVMValueRef args[2 * SORT_MOST], out;
    for (uint32_t i = 0; i < s->count; i++) {
        args[2 * i] = a[i];
        args[2 * i + 1] = b[i];
    }
    emit_computation(e, inst_called(s->inst, 0), args, &out);
    return out;
}

/* Element a, whose position is at_a, goes before b: the one that stood behind has to be proved smaller. */
static LLVMValueRef goes_before(Emit *e, const Sort *s, const LLVMValueRef *a,
                                LLVMValueRef at_a, const LLVMValueRef *b,
                                LLVMValueRef at_b)
{
    LLVMBuilderRef builder = e->k->builder;
    LLVMValueRef x[SORT_MOST], y[SORT_MOST];
    LLVMValueRef a_first = LLVMBuildICmp(builder, LLVMIntULT, at_a, at_b, "");
    for (uint32_t i = 0; i < s->count; i++) {
        x[i] = LLVMBuildSelect(builder, a_first, b[i], a[i], "");
        y[i] = LLVMBuildSelect(builder, a_first, a[i], b[i], "");
    }
    /* x stood behind y */
    return LLVMBuildXor(builder, a_first, compare(e, s, x, y), "");
}

/* -- in shared memory --------------------------------------------------------------------------------------- */

static LLVMValueRef position_place(Sort *s, LLVMValueRef i)
{
    return shared_place(s->e, s->positions, i, 4);
}

static DType type_of(const Sort *s, uint32_t i)
{
    return s->inst->operands[i]->shape->dtype;
}

static LLVMValueRef element_place(Sort *s, uint32_t array, LLVMValueRef i)
{
    return shared_place(s->e, s->room[array], i, shared_bytes(type_of(s, array)));
}

static void load_element(Sort *s, LLVMValueRef i, LLVMValueRef *out,
                         LLVMValueRef *position)
{
    for (uint32_t n = 0; n < s->count; n++)
        out[n] = shared_load(s->e, type_of(s, n), element_place(s, n, i));
    *position = gx_load(s->k, GX_SHARED, position_place(s, i), gx_int_type(s->k, 32), 4);
}

static void store_element(Sort *s, LLVMValueRef i, const LLVMValueRef *v,
                          LLVMValueRef position)
{
    for (uint32_t n = 0; n < s->count; n++)
        shared_store(s->e, type_of(s, n), element_place(s, n, i), v[n]);
    gx_store(s->k, GX_SHARED, position_place(s, i), position, 4);
}

/* Pair number `pair` of a step whose partners lie `1 << log_distance` apart; `log_block`: the blocks that
 * become sorted, in turn up and down. */
static void exchange(Sort *s, LLVMValueRef pair, LLVMValueRef log_block,
                     LLVMValueRef log_distance)
{
    Kernel *k = s->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef one = gx_i32(k, 1), distance = LLVMBuildShl(b, one, log_distance, "");
    LLVMValueRef low = LLVMBuildAnd(b, pair, LLVMBuildSub(b, distance, one, ""), "");
    LLVMValueRef high = LLVMBuildShl(b, LLVMBuildLShr(b, pair, log_distance, ""),
                                     LLVMBuildAdd(b, log_distance, one, ""), "");
    LLVMValueRef i = LLVMBuildOr(b, high, low, ""), j = LLVMBuildOr(b, i, distance, "");
    LLVMValueRef x[SORT_MOST], y[SORT_MOST], at_x, at_y;
    load_element(s, i, x, &at_x);
    load_element(s, j, y, &at_y);
    /* padding goes behind all others */
    LLVMValueRef size = gx_i32(k, (uint32_t)s->size);
    LLVMValueRef y_padding = LLVMBuildICmp(b, LLVMIntUGE, at_y, size, "");
    LLVMValueRef x_padding = LLVMBuildICmp(b, LLVMIntUGE, at_x, size, "");
    LLVMValueRef before = goes_before(s->e, s, x, at_x, y, at_y);
    before = LLVMBuildAnd(b, before, LLVMBuildNot(b, x_padding, ""), "");
    before = LLVMBuildOr(b, before, y_padding, "");
    LLVMValueRef in_row = LLVMBuildAnd(b, i, gx_i32(k, s->padded - 1), "");
    LLVMValueRef turn = LLVMBuildLShr(b, in_row, log_block, "");
    LLVMValueRef is_down = LLVMBuildTrunc(b, turn, gx_int_type(k, 1), "");
    GxIf swap;
    gx_if_begin(k, &swap, LLVMBuildICmp(b, LLVMIntEQ, before, is_down, ""));
    store_element(s, i, y, at_y);
    store_element(s, j, x, at_x);
    gx_if_end(k, &swap, NULL, 0, NULL);
}

/* for (n = thread; n < total; n += threads), total a multiple of a power of two. */
static void each_begin(Sort *s, GxLoop *loop, uint32_t total)
{
    gx_loop_begin(s->k, loop, gx_tid(s->k, 0), gx_i32(s->k, total),
                  gx_i32(s->k, s->k->block[0]), NULL, 0);
    emit_scope_begin(s->e);
}

static void each_end(Sort *s, GxLoop *loop)
{
    emit_scope_end(s->e);
    gx_loop_end(s->k, loop, NULL);
}

static void network(Sort *s)
{
    Kernel *k = s->k;
    LLVMBuilderRef b = k->builder;
    GxLoop outer, inner, pairs;
    gx_loop_begin(k, &outer, gx_i32(k, 1), gx_i32(k, s->log2 + 1), gx_i32(k, 1), NULL, 0);
    gx_loop_begin(k, &inner, gx_i32(k, 0), outer.index, gx_i32(k, 1), NULL, 0);
    LLVMValueRef log_distance =
        LLVMBuildSub(b, LLVMBuildSub(b, outer.index, gx_i32(k, 1), ""), inner.index, "");
    gx_barrier(k);
    each_begin(s, &pairs, s->rows_per_block * s->padded / 2);
    exchange(s, pairs.index, outer.index, log_distance);
    each_end(s, &pairs);
    gx_loop_end(k, &inner, NULL);
    gx_loop_end(k, &outer, NULL);
    gx_barrier(k);
}

/* Position and row of element number `n` of the block's, and whether they exist. */
static LLVMValueRef locate(Sort *s, LLVMValueRef n, const IndexExpr **row,
                           const IndexExpr **at)
{
    Emit *e = s->e;
    Kernel *k = s->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef position = LLVMBuildAnd(b, n, gx_i32(k, s->padded - 1), "");
    LLVMValueRef local = LLVMBuildLShr(b, n, gx_i32(k, s->log2), "");
    LLVMValueRef first = LLVMBuildMul(b, to_index(e, gx_ctaid(k, 0)),
                                      emit_index_constant(e, s->rows_per_block), "");
    LLVMValueRef number = LLVMBuildAdd(b, first, to_index(e, local), "");
    LLVMValueRef exists = LLVMBuildAnd(
        b, LLVMBuildICmp(b, LLVMIntULT, position, gx_i32(k, (uint32_t)s->size), ""),
        LLVMBuildICmp(b, LLVMIntULT, number, emit_index_constant(e, s->rows), ""), "");
    *row = emit_variable(e, number, (Range){0, s->rows - 1});
    *at = emit_variable(e, to_index(e, position), (Range){0, s->size - 1});
    return exists;
}

static void load_rows(Sort *s)
{
    GxLoop loop;
    GxIf guard;
    const IndexExpr *row, *at, *index[EMIT_MOST_RANK];
    each_begin(s, &loop, s->rows_per_block * s->padded);
    LLVMValueRef exists = locate(s, loop.index, &row, &at);
    LLVMValueRef position =
        LLVMBuildAnd(s->k->builder, loop.index, gx_i32(s->k, s->padded - 1), "");
    gx_if_begin(s->k, &guard, exists);
    emit_scope_begin(s->e);
    place(s->e, s, row, at, index);
    for (uint32_t i = 0; i < s->count; i++) {
        LLVMValueRef v;
        emit_element(s->e, s->inst->operands[i], index, &v);
        s->k->at = s->inst->name;
        shared_store(s->e, type_of(s, i), element_place(s, i, loop.index), v);
    }
    emit_scope_end(s->e);
    gx_if_end(s->k, &guard, NULL, 0, NULL);
    gx_if_begin(s->k, &guard, LLVMBuildNot(s->k->builder, exists, ""));
    for (uint32_t i = 0; i < s->count; i++)
        shared_store(s->e, type_of(s, i), element_place(s, i, loop.index),
                     LLVMConstNull(emit_type(s->k, type_of(s, i))));
    gx_if_end(s->k, &guard, NULL, 0, NULL);
    gx_store(s->k, GX_SHARED, position_place(s, loop.index), position, 4);
    each_end(s, &loop);
}

static void store_rows(Sort *s)
{
    GxLoop loop;
    GxIf guard;
    const IndexExpr *row, *at, *index[EMIT_MOST_RANK];
    each_begin(s, &loop, s->rows_per_block * s->padded);
    gx_if_begin(s->k, &guard, locate(s, loop.index, &row, &at));
    emit_scope_begin(s->e);
    place(s->e, s, row, at, index);
    for (uint32_t i = 0; i < s->count; i++) {
        LLVMValueRef v =
            shared_load(s->e, type_of(s, i), element_place(s, i, loop.index));
        emit_store(s->e, fusion_result_arg(s->in->fusion, i),
                   shape_leaf(s->inst->shape, i), index, &v);
    }
    emit_scope_end(s->e);
    gx_if_end(s->k, &guard, NULL, 0, NULL);
    each_end(s, &loop);
}

static Kernel *sort_shared(Sort *s)
{
    const EmitterInput *in = s->in;
    uint32_t pairs = s->padded / 2 * s->rows_per_block;
    uint32_t most = s->padded > 1024 ? SORT_THREADS : SORT_SMALL_THREADS;
    uint32_t threads = pairs < 32 ? 32 : pairs < most ? pairs : most;
    int64_t blocks = (s->rows + s->rows_per_block - 1) / s->rows_per_block;
    if (blocks > INT32_MAX)
        escape_throw(ESCAPE_UNSUPPORTED, "%s sorts %lld rows", s->inst->name,
                     (long long)s->rows);
    s->k = kernel_create(in->arena, in->module, in->name, in->args, in->arg_count,
                         (uint32_t[3]){threads, 1, 1},
                         (uint32_t[3]){(uint32_t)blocks, 1, 1});
    s->e = emitter_begin(in, s->k, 1);
    uint64_t elements = (uint64_t)s->padded * s->rows_per_block;
    for (uint32_t i = 0; i < s->count; i++) {
        unsigned bytes = shared_bytes(type_of(s, i));
        s->room[i] = gx_shared_alloc(s->k, elements * bytes, bytes);
    }
    s->positions = gx_shared_alloc(s->k, elements * 4, 4);
    load_rows(s);
    network(s);
    store_rows(s);
    kernel_finish(s->k);
    return s->k;
}

/* -- by counting ------------------------------------------------------------------------------------------ */

static void count_smaller(Emit *e, const void *user, const IndexExpr *linear)
{
    const Sort *s = user;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    const IndexExpr *row = ix_floordiv(e->ix, linear, s->size);
    const IndexExpr *mine = ix_mod(e->ix, linear, s->size), *index[EMIT_MOST_RANK];
    LLVMValueRef x[SORT_MOST], y[SORT_MOST], rank = emit_index_constant(e, 0), next;
    place(e, s, row, mine, index);
    for (uint32_t i = 0; i < s->count; i++)
        emit_element(e, s->inst->operands[i], index, &x[i]);
    LLVMValueRef at = emit_index(e, mine, 0);
    GxLoop loop;
    gx_loop_begin(k, &loop, emit_index_constant(e, 0), emit_index_constant(e, s->size),
                  emit_index_constant(e, 1), &rank, 1);
    emit_scope_begin(e);
    place(e, s, row, emit_variable(e, loop.index, (Range){0, s->size - 1}), index);
    for (uint32_t i = 0; i < s->count; i++)
        emit_element(e, s->inst->operands[i], index, &y[i]);
    k->at = s->inst->name;
    LLVMValueRef before = goes_before(e, s, y, loop.index, x, at);
    LLVMValueRef other = LLVMBuildICmp(b, LLVMIntNE, loop.index, at, "");
    before = LLVMBuildAnd(b, before, other, "");
    next = LLVMBuildAdd(b, rank, LLVMBuildZExt(b, before, e->index_type, ""), "");
    emit_scope_end(e);
    gx_loop_end(k, &loop, &next);
    place(e, s, row, emit_variable(e, rank, (Range){0, s->size - 1}), index);
    for (uint32_t i = 0; i < s->count; i++)
        emit_store(e, fusion_result_arg(s->in->fusion, i), shape_leaf(s->inst->shape, i),
                   index, &x[i]);
}

/* Shared memory that a block may have. */
static uint64_t most_shared(const EmitterInput *in)
{
    const GpuModel *device = in->target != NULL ? in->target->device : NULL;
    return device != NULL && device->block_shared > TARGET_STATIC_SHARED
               ? device->block_shared
               : TARGET_STATIC_SHARED;
}

Kernel *emitter_sort(const EmitterInput *in)
{
    Sort s = {.in = in, .inst = emitter_hero(in->fusion, OP_SORT), .padded = 1};
    s.count = s.inst->operand_count;
    s.shape = s.inst->operands[0]->shape;
    s.along = inst_ints(s.inst, ATTR_DIMENSIONS).data[0];
    s.size = s.shape->dims[s.along];
    s.rows = s.size == 0 ? 0 : shape_elements(s.shape) / s.size;
    if (s.count > SORT_MOST)
        escape_throw(ESCAPE_UNSUPPORTED, "%s sorts %u arrays; kernels handle %d",
                     s.inst->name, s.count, SORT_MOST);
    uint64_t bytes = 4;
    for (uint32_t i = 0; i < s.count; i++)
        bytes += shared_bytes(type_of(&s, i));
    while (s.padded < s.size && s.padded < UINT32_C(1) << 30) {
        s.padded *= 2;
        s.log2++;
    }
    if (s.padded >= s.size && s.padded * bytes <= most_shared(in)) {
        s.rows_per_block = 1;
        while (s.rows_per_block * 2 <= s.rows && s.rows_per_block * s.padded < 256)
            s.rows_per_block *= 2;
        return sort_shared(&s);
    }
    Emit *e = emit_for_elements(in, s.rows * s.size, 1, count_smaller, &s);
    kernel_finish(e->k);
    return e->k;
}
