/* The transpose emitter: a block reads a tile along the dimension in which the operand is contiguous, keeps
 * it in shared memory, and writes it along the one in which the result is. What stands behind the transposes
 * (elementwise) is computed as the tile is written, what stands before them as it is read. */
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/threads.h"

typedef struct Turn {
    const EmitterInput *in;
    const TransposePlan *plan;
    const Shape *result;
    Kernel *k;
    Emit *e;
    uint32_t outer, inner; /* elements of a tile */
    uint32_t base[TRANSPOSITION_HEROES];
    const IndexExpr *batch, *inner_tile, *outer_tile;
} Turn;

static void index_of_position(const Turn *t, const IndexExpr *inner,
                              const IndexExpr *outer, const IndexExpr **index)
{
    const TransposePlan *p = t->plan;
    for (uint32_t d = 0; d < p->rank; d++)
        index[d] = ix_const(t->e->ix, 0);
    emit_spread(t->e, t->result, p->batch, p->batch_count, t->batch, index);
    emit_spread(t->e, t->result, p->inner, p->inner_count, inner, index);
    emit_spread(t->e, t->result, p->outer, p->outer_count, outer, index);
}

/* Shared memory of the element at (outer, inner) of the tile. */
static LLVMValueRef slot(const Turn *t, uint32_t hero, LLVMValueRef outer,
                         LLVMValueRef inner)
{
    LLVMBuilderRef b = t->k->builder;
    unsigned bytes = shared_bytes(t->plan->heroes[hero]->shape->dtype);
    LLVMValueRef at =
        LLVMBuildMul(b, inner, gx_i32(t->k, (uint32_t)transpose_stride(t->outer)), "");
    return element_offset(t->e, t->base[hero], LLVMBuildAdd(b, at, outer, ""), bytes);
}

/* One access: `along` (i32) is the first of its `lanes` positions along one side, `across` its position along the
 * other. */
typedef void AccessFn(Turn *t, LLVMValueRef along, LLVMValueRef across);

/* The coordinate of a position of the tile in the whole; NULL in *ok: it is always inside. */
static const IndexExpr *coordinate(Turn *t, const IndexExpr *tile, uint32_t tile_size,
                                   LLVMValueRef local, int64_t size, uint32_t lanes,
                                   LLVMValueRef *ok)
{
    Emit *e = t->e;
    LLVMBuilderRef b = t->k->builder;
    LLVMValueRef first = emit_index(e, ix_mul(e->ix, tile, tile_size), 0);
    LLVMValueRef v = gx_add_natural(t->k, first, to_index(e, local));
    if (size % tile_size != 0) {
        LLVMValueRef inside =
            LLVMBuildICmp(b, LLVMIntSLT, v, emit_index_constant(e, size), "");
        *ok = *ok == NULL ? inside : LLVMBuildAnd(b, *ok, inside, "");
    }
    /* known to be a multiple of the lanes */
    LLVMValueRef number = LLVMBuildUDiv(b, v, emit_index_constant(e, lanes), "");
    return ix_mul(e->ix, emit_variable(e, number, (Range){0, (size - 1) / lanes}), lanes);
}

/* `along` and `across`: the tile's sizes. */
static void for_tile(Turn *t, uint32_t along, uint32_t across, int64_t lanes_wanted,
                     AccessFn *body)
{
    Kernel *k = t->k;
    LLVMBuilderRef b = k->builder;
    uint32_t lanes = (uint32_t)lanes_wanted, per_row = along / lanes;
    GxLoop loop;
    gx_loop_begin(k, &loop, gx_tid(k, 0), gx_i32(k, across * per_row),
                  gx_i32(k, k->block[0]), NULL, 0);
    emit_scope_begin(t->e);
    LLVMValueRef column = LLVMBuildURem(b, loop.index, gx_i32(k, per_row), "");
    LLVMValueRef row = LLVMBuildUDiv(b, loop.index, gx_i32(k, per_row), "");
    t->e->lanes = lanes;
    body(t, LLVMBuildMul(b, column, gx_i32(k, lanes), ""), row);
    t->e->lanes = 1;
    emit_scope_end(t->e);
    gx_loop_end(k, &loop, NULL);
}

static void read(Turn *t, LLVMValueRef along, LLVMValueRef across)
{
    Emit *e = t->e;
    LLVMBuilderRef b = t->k->builder;
    const TransposePlan *p = t->plan;
    const IndexExpr *index[EMIT_MOST_RANK], *at[EMIT_MOST_RANK];
    LLVMValueRef ok = NULL, values[EMIT_MOST_LANES];
    const IndexExpr *outer =
        coordinate(t, t->outer_tile, t->outer, along, p->outer_size, e->lanes, &ok);
    const IndexExpr *inner =
        coordinate(t, t->inner_tile, t->inner, across, p->inner_size, 1, &ok);
    GxIf guard;
    emit_if_begin(e, &guard, ok);
    index_of_position(t, inner, ix_add(e->ix, outer, emit_lane(e)), index);
    for (uint32_t h = 0; h < p->hero_count; h++) {
        const Instruction *hero = p->heroes[h];
        emit_apply(e, emit_operand_map(e, hero, 0), index, NULL, at, NULL);
        emit_element(e, hero->operands[0], at, values);
        t->k->at = hero->name;
        for (uint32_t v = 0; v < e->lanes; v++) {
            LLVMValueRef position_v = LLVMBuildAdd(b, along, gx_i32(t->k, v), "");
            shared_store(e, hero->shape->dtype, slot(t, h, position_v, across),
                         values[v]);
        }
    }
    emit_if_end(e, &guard, NULL, 0, NULL);
}

static void write(Turn *t, LLVMValueRef along, LLVMValueRef across)
{
    Emit *e = t->e;
    LLVMBuilderRef b = t->k->builder;
    const TransposePlan *p = t->plan;
    const IndexExpr *index[EMIT_MOST_RANK];
    LLVMValueRef ok = NULL, values[EMIT_MOST_LANES];
    const IndexExpr *inner =
        coordinate(t, t->inner_tile, t->inner, along, p->inner_size, e->lanes, &ok);
    const IndexExpr *outer =
        coordinate(t, t->outer_tile, t->outer, across, p->outer_size, 1, &ok);
    GxIf guard;
    emit_if_begin(e, &guard, ok);
    for (uint32_t h = 0; h < p->hero_count; h++) {
        t->k->at = p->heroes[h]->name;
        for (uint32_t v = 0; v < e->lanes; v++) {
            LLVMValueRef position_v = LLVMBuildAdd(b, along, gx_i32(t->k, v), "");
            values[v] = shared_load(e, p->heroes[h]->shape->dtype,
                                    slot(t, h, across, position_v));
        }
        emit_preset_lanes(e, p->heroes[h], values);
    }
    index_of_position(t, ix_add(e->ix, inner, emit_lane(e)), outer, index);
    for (uint32_t i = 0; i < fusion_result_count(t->in->fusion); i++)
        emit_result(e, t->in->fusion, i, index);
    emit_if_end(e, &guard, NULL, 0, NULL);
}

static void find_tile(Turn *t, int64_t inner_tiles, int64_t outer_tiles)
{
    Emit *e = t->e;
    const IndexExpr *block =
        emit_variable(e, to_index(e, gx_ctaid(t->k, 0)),
                      (Range){0, inner_tiles * outer_tiles * t->plan->batch_size - 1});
    t->inner_tile = ix_mod(e->ix, block, inner_tiles);
    block = ix_floordiv(e->ix, block, inner_tiles);
    t->outer_tile = ix_mod(e->ix, block, outer_tiles);
    t->batch = ix_floordiv(e->ix, block, outer_tiles);
}

Kernel *emitter_transpose(const EmitterInput *in)
{
    const TransposePlan *p = in->design->plan.transpose;
    const KernelConfig *c = &in->design->config;
    Turn t = {.in = in,
              .plan = p,
              .result = fusion_result(in->fusion, 0).shape,
              .outer = (uint32_t)c->tile[0],
              .inner = (uint32_t)c->tile[1]};
    t.e = emitter_begin(in);
    t.k = t.e->k;
    for (uint32_t h = 0; h < p->hero_count; h++) {
        unsigned bytes = shared_bytes(p->heroes[h]->shape->dtype);
        t.base[h] = gx_shared_alloc(
            t.k, (uint64_t)(bytes * t.inner * transpose_stride(t.outer)), bytes);
    }
    find_tile(&t, (p->inner_size + t.inner - 1) / t.inner,
              (p->outer_size + t.outer - 1) / t.outer);
    for_tile(&t, t.outer, t.inner, c->lanes.data[0], read);
    gx_barrier(t.k);
    for_tile(&t, t.inner, t.outer, c->lanes.data[1], write);
    return emitter_finish(in, t.e);
}
