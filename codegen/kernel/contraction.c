/* The contraction emitter, for dot and convolution of any type: a block makes a tile of the result from tiles
 * of both operands in shared memory, converted to the type of the sums; a thread sums a part of it. What
 * stands before the operands is computed as they are read, what stands behind the result as it is written. */
#include "codegen/element/op_emit.h"
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/threads.h"

#define MOST_PART 8  /* of a thread, both ways */
#define MOST_LOAD 32 /* bytes of an access of shared memory */

typedef struct Side {
    const ContractionSide *plan;
    uint32_t size;   /* elements of a tile */
    uint32_t part;   /* of them, of a thread */
    uint32_t lanes;  /* elements of an access */
    uint32_t stride; /* elements from row to row in shared memory */
    uint32_t base;   /* shared memory: [depth][stride] */
    const IndexExpr *tile;
    LLVMValueRef local; /* i32: first of the thread's part in the tile */
} Side;

typedef struct Contraction {
    const EmitterInput *in;
    const ContractionPlan *plan;
    const Instruction *inst;
    Kernel *k;
    Emit *e;
    DType type; /* of the sums */
    Side y, x;
    uint32_t depth; /* of a tile */
    const IndexExpr *batch;
} Contraction;

/* -- indices ------------------------------------------------------------------------------------------ */

static void spread_side(const Contraction *c, const Side *s, const IndexExpr *number,
                        const IndexExpr **index)
{
    Emit *e = c->e;
    const ContractionPlan *p = c->plan;
    if (p->feature_dim >= 0 && s->plan->operand == 1) {
        index[p->feature_dim] =
            ix_add(e->ix, number, ix_mul(e->ix, c->batch, p->per_group));
        return;
    }
    emit_spread(e, c->inst->shape, s->plan->dims, s->plan->count, number, index);
}

static void result_index(const Contraction *c, const IndexExpr *y, const IndexExpr *x,
                         const IndexExpr **index)
{
    const ContractionPlan *p = c->plan;
    for (uint32_t d = 0; d < c->inst->shape->rank; d++)
        index[d] = ix_const(c->e->ix, 0);
    emit_spread(c->e, c->inst->shape, p->batch_dims, p->batch_count, c->batch, index);
    spread_side(c, &c->y, y, index);
    spread_side(c, &c->x, x, index);
}

/* -- reading ------------------------------------------------------------------------------------------ */

/* The coordinate first + local (a multiple of `lanes`), and-ing to *ok that it is below size. */
static const IndexExpr *coordinate(const Contraction *c, LLVMValueRef first,
                                   LLVMValueRef local, int64_t size, uint32_t tile,
                                   uint32_t lanes, LLVMValueRef *ok)
{
    Emit *e = c->e;
    LLVMBuilderRef b = c->k->builder;
    LLVMValueRef v = gx_add_natural(c->k, first, to_index(e, local));
    if (size % tile != 0) {
        LLVMValueRef inside =
            LLVMBuildICmp(b, LLVMIntSLT, v, emit_index_constant(e, size), "");
        *ok = *ok == NULL ? inside : LLVMBuildAnd(b, *ok, inside, "");
    }
    v = LLVMBuildUDiv(b, v, emit_index_constant(e, lanes), "");
    return ix_mul(e->ix, emit_variable(e, v, (Range){0, (size - 1) / lanes}), lanes);
}

/* The operand's elements at a position of its side and a depth, converted; in place of padding zeros. */
static void operand_elements(const Contraction *c, const Side *s,
                             const IndexExpr *position, const IndexExpr *depth,
                             LLVMValueRef *out)
{
    Emit *e = c->e;
    Kernel *k = c->k;
    const Instruction *operand = c->inst->operands[s->plan->operand];
    const IndexMap *map = emit_operand_map(e, c->inst, s->plan->operand);
    const IndexExpr *index[EMIT_MOST_RANK], *at[EMIT_MOST_RANK], *symbols[EMIT_MOST_RANK],
        *constraints[2 * EMIT_MOST_RANK];
    const IndexExpr *zero = ix_const(e->ix, 0);
    result_index(c, s == &c->y ? position : zero, s == &c->x ? position : zero, index);
    for (uint32_t i = c->plan->symbol_count; i-- > 0;) {
        uint32_t symbol = c->plan->symbols[i];
        int64_t size = map->symbols[symbol].hi + 1;
        symbols[symbol] = i == 0 ? depth : ix_mod(e->ix, depth, size);
        depth = ix_floordiv(e->ix, depth, size);
    }
    emit_apply(e, map, index, symbols, at, constraints);
    LLVMValueRef ok = emit_constraints_hold(e, map, constraints),
                 padding[EMIT_MOST_LANES];
    GxIf inside;
    emit_if_begin(e, &inside, ok);
    emit_element(e, operand, at, out);
    k->at = c->inst->name;
    for (uint32_t v = 0; v < s->lanes; v++) {
        out[v] = scalar_convert_value(k, out[v], operand->shape->dtype, c->type);
        padding[v] = LLVMConstNull(emit_type(k, c->type));
    }
    emit_if_end_or(e, &inside, out, padding, s->lanes);
}

/* Access number `item` of the tile whose depth begins at `first`. */
static void read_access(const Contraction *c, const Side *s, LLVMValueRef item,
                        LLVMValueRef first)
{
    Emit *e = c->e;
    Kernel *k = c->k;
    LLVMBuilderRef b = k->builder;
    bool depth_first = s->plan->depth_first;
    uint32_t per_row = (depth_first ? c->depth : s->size) / s->lanes;
    LLVMValueRef fast = LLVMBuildMul(b, LLVMBuildURem(b, item, gx_i32(k, per_row), ""),
                                     gx_i32(k, s->lanes), "");
    LLVMValueRef slow = LLVMBuildUDiv(b, item, gx_i32(k, per_row), "");
    LLVMValueRef position = depth_first ? slow : fast, level = depth_first ? fast : slow;
    uint32_t position_lanes = depth_first ? 1 : s->lanes,
             level_lanes = depth_first ? s->lanes : 1;
    LLVMValueRef ok = NULL, values[EMIT_MOST_LANES], zeros[EMIT_MOST_LANES];
    LLVMValueRef corner = emit_index(e, ix_mul(e->ix, s->tile, s->size), 0);
    const IndexExpr *at =
        coordinate(c, corner, position, s->plan->size, s->size, position_lanes, &ok);
    const IndexExpr *depth =
        coordinate(c, first, level, c->plan->depth, c->depth, level_lanes, &ok);
    GxIf inside;
    emit_if_begin(e, &inside, ok);
    e->lanes = s->lanes;
    if (depth_first)
        depth = ix_add(e->ix, depth, emit_lane(e));
    else
        at = ix_add(e->ix, at, emit_lane(e));
    operand_elements(c, s, at, depth, values);
    e->lanes = 1;
    for (uint32_t v = 0; v < s->lanes; v++)
        zeros[v] = LLVMConstNull(emit_type(k, c->type));
    emit_if_end_or(e, &inside, values, zeros, s->lanes);
    unsigned bytes = shared_bytes(c->type);
    LLVMValueRef slot =
        LLVMBuildAdd(b, LLVMBuildMul(b, level, gx_i32(k, s->stride), ""), position, "");
    for (uint32_t v = 0; v < s->lanes; v++) {
        uint32_t step = depth_first ? v * s->stride : v;
        shared_store(e, c->type, element_offset(e, s->base + step * bytes, slot, bytes),
                     values[v]);
    }
}

static void read_tile(const Contraction *c, const Side *s, LLVMValueRef first)
{
    Kernel *k = c->k;
    uint32_t items = s->size * c->depth / s->lanes;
    emit_scope_begin(c->e);
    if (items == k->block[0]) {
        read_access(c, s, gx_tid(k, 0), first);
    } else {
        GxLoop loop;
        gx_loop_begin(k, &loop, gx_tid(k, 0), gx_i32(k, items), gx_i32(k, k->block[0]),
                      NULL, 0);
        emit_scope_begin(c->e);
        read_access(c, s, loop.index, first);
        emit_scope_end(c->e);
        gx_loop_end(k, &loop, NULL);
    }
    emit_scope_end(c->e);
}

/* -- multiplying ---------------------------------------------------------------------------------------- */

/* Elements of a part that one access takes. */
static uint32_t load_lanes(const Contraction *c, const Side *s)
{
    unsigned bytes = shared_bytes(c->type);
    if (dtype_is_complex(c->type) || (bytes != 4 && bytes != 8))
        return 1;
    return s->part * bytes > MOST_LOAD ? MOST_LOAD / bytes : s->part;
}

static void load_part(const Contraction *c, const Side *s, LLVMValueRef level,
                      LLVMValueRef *out)
{
    Kernel *k = c->k;
    LLVMBuilderRef b = k->builder;
    unsigned bytes = shared_bytes(c->type), lanes = load_lanes(c, s);
    LLVMValueRef slot =
        LLVMBuildAdd(b, LLVMBuildMul(b, level, gx_i32(k, s->stride), ""), s->local, "");
    for (uint32_t i = 0; i < s->part; i += lanes) {
        LLVMValueRef offset = element_offset(c->e, s->base + i * bytes, slot, bytes);
        if (lanes == 1) {
            out[i] = shared_load(c->e, c->type, offset);
            continue;
        }
        LLVMTypeRef type = LLVMVectorType(emit_type(k, c->type), lanes);
        unsigned align = lanes * bytes < 16 ? lanes * bytes : 16;
        LLVMValueRef v = gx_load(k, GX_SHARED, offset, type, align);
        for (uint32_t j = 0; j < lanes; j++)
            out[i + j] = LLVMBuildExtractElement(b, v, gx_i32(k, j), "");
    }
}

/* Steps that stand one behind another: loads of one while the one before it multiplies. The assembler would write out
 * all of the tile, which takes it twice as long and the GPU hardly less. */
enum { STEPS = 4 };

static void multiply_tiles(const Contraction *c, LLVMValueRef *sums)
{
    Kernel *k = c->k;
    GxLoop loop;
    uint32_t count = c->y.part * c->x.part, steps = c->depth % STEPS == 0 ? STEPS : 1;
    LLVMValueRef y[MOST_PART], x[MOST_PART], next[MOST_PART * MOST_PART];
    gx_loop_begin(k, &loop, gx_i32(k, 0), gx_i32(k, c->depth), gx_i32(k, steps), sums,
                  count);
    loop.is_rolled = true;
    memcpy(next, sums, count * sizeof *next);
    for (uint32_t s = 0; s < steps; s++) {
        LLVMValueRef level = LLVMBuildAdd(k->builder, loop.index, gx_i32(k, s), "");
        load_part(c, &c->y, level, y);
        load_part(c, &c->x, level, x);
        for (uint32_t i = 0; i < count; i++)
            next[i] =
                multiply_add(c->e, c->type, y[i / c->x.part], x[i % c->x.part], next[i]);
    }
    gx_loop_end(k, &loop, next);
}

static void contract_all(const Contraction *c, LLVMValueRef *sums)
{
    Emit *e = c->e;
    Kernel *k = c->k;
    GxLoop loop;
    uint32_t count = c->y.part * c->x.part;
    LLVMValueRef next[MOST_PART * MOST_PART];
    gx_loop_begin(k, &loop, emit_index_constant(e, 0),
                  emit_index_constant(e, c->plan->depth),
                  emit_index_constant(e, c->depth), sums, count);
    emit_scope_begin(e);
    for (uint32_t i = 0; i < count; i++)
        next[i] = sums[i];
    read_tile(c, &c->y, loop.index);
    read_tile(c, &c->x, loop.index);
    gx_barrier(k);
    multiply_tiles(c, next);
    gx_barrier(k);
    emit_scope_end(e);
    gx_loop_end(k, &loop, next);
}

/* -- writing -------------------------------------------------------------------------------------------- */

/* `lanes` elements of a row of the thread's part, the first at (y, x). */
static void write_access(Contraction *c, uint32_t y, uint32_t x, uint32_t lanes,
                         const LLVMValueRef *sums)
{
    Emit *e = c->e;
    Kernel *k = c->k;
    LLVMBuilderRef b = k->builder;
    LLVMValueRef ok = NULL, values[MOST_PART];
    const IndexExpr *index[EMIT_MOST_RANK];
    LLVMValueRef y_corner = emit_index(e, ix_mul(e->ix, c->y.tile, c->y.size), 0);
    LLVMValueRef x_corner = emit_index(e, ix_mul(e->ix, c->x.tile, c->x.size), 0);
    const IndexExpr *at_y =
        coordinate(c, y_corner, LLVMBuildAdd(b, c->y.local, gx_i32(k, y), ""),
                   c->plan->y.size, c->y.size, 1, &ok);
    const IndexExpr *at_x =
        coordinate(c, x_corner, LLVMBuildAdd(b, c->x.local, gx_i32(k, x), ""),
                   c->plan->x.size, c->x.size, lanes, &ok);
    GxIf inside;
    emit_if_begin(e, &inside, ok);
    e->lanes = lanes;
    for (uint32_t v = 0; v < lanes; v++)
        values[v] = scalar_convert_value(k, sums[y * c->x.part + x + v], c->type,
                                         c->inst->shape->dtype);
    emit_preset_lanes(e, c->inst, values);
    result_index(c, at_y, ix_add(e->ix, at_x, emit_lane(e)), index);
    for (uint32_t i = 0; i < fusion_result_count(c->in->fusion); i++)
        emit_result(e, c->in->fusion, i, index);
    e->lanes = 1;
    emit_if_end(e, &inside, NULL, 0, NULL);
}

/* -- the kernel ------------------------------------------------------------------------------------------ */

static int64_t tiles_of(const Side *s)
{
    return (s->plan->size + s->size - 1) / s->size;
}

static void find_tile(Contraction *c)
{
    Emit *e = c->e;
    LLVMBuilderRef b = c->k->builder;
    int64_t y_tiles = tiles_of(&c->y), x_tiles = tiles_of(&c->x);
    const IndexExpr *block =
        emit_variable(e, to_index(e, gx_ctaid(c->k, 0)),
                      (Range){0, y_tiles * x_tiles * c->plan->batch_size - 1});
    c->x.tile = ix_mod(e->ix, block, x_tiles);
    block = ix_floordiv(e->ix, block, x_tiles);
    c->y.tile = ix_mod(e->ix, block, y_tiles);
    c->batch = ix_floordiv(e->ix, block, y_tiles);
    LLVMValueRef thread = gx_tid(c->k, 0), across = gx_i32(c->k, c->x.size / c->x.part);
    c->x.local = LLVMBuildMul(b, LLVMBuildURem(b, thread, across, ""),
                              gx_i32(c->k, c->x.part), "");
    c->y.local = LLVMBuildMul(b, LLVMBuildUDiv(b, thread, across, ""),
                              gx_i32(c->k, c->y.part), "");
}

static Side side_of(const ContractionSide *plan, const KernelConfig *c, int number)
{
    return (Side){.plan = plan,
                  .size = (uint32_t)c->tile[number],
                  .part = (uint32_t)c->part[number],
                  .lanes = (uint32_t)c->lanes.data[number],
                  .stride = (uint32_t)contraction_stride(c->tile[number])};
}

Kernel *emitter_contraction(const EmitterInput *in)
{
    const ContractionPlan *p = in->design->plan.contraction;
    const KernelConfig *config = &in->design->config;
    Contraction c = {.in = in,
                     .plan = p,
                     .inst = p->inst,
                     .type = p->type,
                     .y = side_of(&p->y, config, 0),
                     .x = side_of(&p->x, config, 1),
                     .depth = (uint32_t)config->depth};
    c.e = emitter_begin(in);
    c.k = c.e->k;
    unsigned bytes = shared_bytes(c.type);
    c.y.base = gx_shared_alloc(c.k, (uint64_t)bytes * c.depth * c.y.stride, 16);
    c.x.base = gx_shared_alloc(c.k, (uint64_t)bytes * c.depth * c.x.stride, 16);
    find_tile(&c);
    LLVMValueRef sums[MOST_PART * MOST_PART];
    for (uint32_t i = 0; i < c.y.part * c.x.part; i++)
        sums[i] = LLVMConstNull(emit_type(c.k, c.type));
    if (p->depth != 0)
        contract_all(&c, sums);
    uint32_t lanes = (uint32_t)config->lanes.data[2];
    for (uint32_t i = 0; i < c.y.part * c.x.part; i += lanes)
        write_access(&c, i / c.x.part, i % c.x.part, lanes, sums);
    return emitter_finish(in, c.e);
}
