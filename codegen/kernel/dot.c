/* The contraction emitter, for dot and convolution of any type: a block makes a tile of the result from tiles
 * of both operands in shared memory, converted to the type of the sums; a thread sums 4 x 4 elements. What
 * stands before the operands is computed as they are read, what stands behind the result as it is written.
 *
 * The result's dimensions are divided into three: batch (a convolution's groups), and two sides, each of
 * which one operand has; side X is the one along which the result is contiguous. */
#include "codegen/element/op_emit.h"
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/threads.h"
#include "ir/bug.h"

#define TILE 64 /* of the result, both ways */
#define TILE_DEPTH 16
#define TILE_STRIDE                                                                      \
    68 /* elements of a row in shared memory: keeps 16-byte accesses aligned */
#define TILE_THREADS 256
#define PART 4 /* of a thread, both ways */
#define MOST_READ_IN_LANES                                                               \
    24 /* instructions of a fusion whose code may be there PART times */

typedef struct Side {
    uint32_t operand;
    uint32_t count;
    uint32_t dims[EMIT_MOST_RANK]; /* of the result, the slowest first */
    int64_t size;
    bool depth_first; /* neighbours in memory differ in depth */
    uint32_t lanes;   /* elements of an access */
    uint32_t room;    /* shared memory: [TILE_DEPTH][TILE_STRIDE] */
    const IndexExpr *tile;
    LLVMValueRef local; /* i32: first of the thread's part in the tile */
} Side;

typedef struct Contraction {
    const EmitterInput *in;
    const Instruction *inst;
    const Shape *result;
    Kernel *k;
    Emit *e;
    DType type; /* of the sums */
    Side y, x;
    uint32_t batch_count;
    uint32_t batch_dims[EMIT_MOST_RANK];
    int64_t batch_size;
    int64_t feature_dim, per_group;                 /* a convolution's; -1: none */
    uint32_t symbols[EMIT_MOST_RANK], symbol_count; /* the slowest first */
    int64_t depth;
    const IndexExpr *batch;
} Contraction;

/* -- indices ------------------------------------------------------------------------------------------ */

static void spread_side(const Contraction *c, const Side *s, const IndexExpr *number,
                        const IndexExpr **index)
{
    Emit *e = c->e;
    if (c->feature_dim >= 0 && s->operand == 1) {
        index[c->feature_dim] =
            ix_add(e->ix, number, ix_mul(e->ix, c->batch, c->per_group));
        return;
    }
    emit_spread(e, c->result, s->dims, s->count, number, index);
}

static void result_index(const Contraction *c, const IndexExpr *y, const IndexExpr *x,
                         const IndexExpr **index)
{
    for (uint32_t d = 0; d < c->result->rank; d++)
        index[d] = ix_const(c->e->ix, 0);
    emit_spread(c->e, c->result, c->batch_dims, c->batch_count, c->batch, index);
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
    LLVMValueRef v = LLVMBuildNSWAdd(b, first, to_index(e, local), "");
    if (size % tile != 0) {
        LLVMValueRef inside =
            LLVMBuildICmp(b, LLVMIntSLT, v, emit_index_constant(e, size), "");
        *ok = *ok == NULL ? inside : LLVMBuildAnd(b, *ok, inside, "");
    }
    v = LLVMBuildUDiv(b, v, emit_index_constant(e, lanes), "");
    return ix_mul(e->ix, emit_variable(e, v, (Range){0, (size - 1) / lanes}), lanes);
}

/* The operand's elements at a place of its side and a depth, converted; in place of padding zeros. */
static void operand_elements(const Contraction *c, const Side *s, const IndexExpr *place,
                             const IndexExpr *depth, LLVMValueRef *out)
{
    Emit *e = c->e;
    Kernel *k = c->k;
    const Instruction *operand = c->inst->operands[s->operand];
    const IndexMap *map = emit_operand_map(e, c->inst, s->operand);
    const IndexExpr *index[EMIT_MOST_RANK], *at[EMIT_MOST_RANK], *symbols[EMIT_MOST_RANK],
        *constraints[2 * EMIT_MOST_RANK];
    const IndexExpr *zero = ix_const(e->ix, 0);
    result_index(c, s == &c->y ? place : zero, s == &c->x ? place : zero, index);
    for (uint32_t i = c->symbol_count; i-- > 0;) {
        int64_t size = map->symbols[c->symbols[i]].hi + 1;
        symbols[c->symbols[i]] = i == 0 ? depth : ix_mod(e->ix, depth, size);
        depth = ix_floordiv(e->ix, depth, size);
    }
    emit_apply(e, map, index, symbols, at, constraints);
    LLVMValueRef ok = emit_constraints_hold(e, map, constraints), padding[PART];
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
    uint32_t per_row = (s->depth_first ? TILE_DEPTH : TILE) / s->lanes;
    LLVMValueRef fast = LLVMBuildMul(b, LLVMBuildURem(b, item, gx_i32(k, per_row), ""),
                                     gx_i32(k, s->lanes), "");
    LLVMValueRef slow = LLVMBuildUDiv(b, item, gx_i32(k, per_row), "");
    LLVMValueRef place = s->depth_first ? slow : fast,
                 level = s->depth_first ? fast : slow;
    uint32_t place_lanes = s->depth_first ? 1 : s->lanes,
             level_lanes = s->depth_first ? s->lanes : 1;
    LLVMValueRef ok = NULL, values[PART], zeros[PART];
    LLVMValueRef corner = emit_index(e, ix_mul(e->ix, s->tile, TILE), 0);
    const IndexExpr *at = coordinate(c, corner, place, s->size, TILE, place_lanes, &ok);
    const IndexExpr *depth =
        coordinate(c, first, level, c->depth, TILE_DEPTH, level_lanes, &ok);
    GxIf inside;
    emit_if_begin(e, &inside, ok);
    e->lanes = s->lanes;
    if (s->depth_first)
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
        LLVMBuildAdd(b, LLVMBuildMul(b, level, gx_i32(k, TILE_STRIDE), ""), place, "");
    for (uint32_t v = 0; v < s->lanes; v++) {
        uint32_t step = s->depth_first ? v * TILE_STRIDE : v;
        shared_store(e, c->type, shared_place(e, s->room + step * bytes, slot, bytes),
                     values[v]);
    }
}

static void read_tile(const Contraction *c, const Side *s, LLVMValueRef first)
{
    Kernel *k = c->k;
    uint32_t items = TILE * TILE_DEPTH / s->lanes;
    emit_scope_begin(c->e);
    if (items == TILE_THREADS) {
        read_access(c, s, gx_tid(k, 0), first);
    } else {
        GxLoop loop;
        gx_loop_begin(k, &loop, gx_tid(k, 0), gx_i32(k, items), gx_i32(k, TILE_THREADS),
                      NULL, 0);
        emit_scope_begin(c->e);
        read_access(c, s, loop.index, first);
        emit_scope_end(c->e);
        gx_loop_end(k, &loop, NULL);
    }
    emit_scope_end(c->e);
}

/* -- multiplying ---------------------------------------------------------------------------------------- */

static void load_part(const Contraction *c, const Side *s, LLVMValueRef level,
                      LLVMValueRef *out)
{
    Kernel *k = c->k;
    LLVMBuilderRef b = k->builder;
    unsigned bytes = shared_bytes(c->type);
    LLVMValueRef slot =
        LLVMBuildAdd(b, LLVMBuildMul(b, level, gx_i32(k, TILE_STRIDE), ""), s->local, "");
    if (!dtype_is_complex(c->type) && (bytes == 4 || bytes == 8)) {
        LLVMTypeRef type = LLVMVectorType(emit_type(k, c->type), PART);
        LLVMValueRef v =
            gx_load(k, GX_SHARED, shared_place(c->e, s->room, slot, bytes), type, 16);
        for (uint32_t i = 0; i < PART; i++)
            out[i] = LLVMBuildExtractElement(b, v, gx_i32(k, i), "");
        return;
    }
    for (uint32_t i = 0; i < PART; i++)
        out[i] = shared_load(c->e, c->type,
                             shared_place(c->e, s->room + i * bytes, slot, bytes));
}

static void multiply_tiles(const Contraction *c, LLVMValueRef *sums)
{
    Kernel *k = c->k;
    GxLoop loop;
    LLVMValueRef y[PART], x[PART], next[PART * PART];
    gx_loop_begin(k, &loop, gx_i32(k, 0), gx_i32(k, TILE_DEPTH), gx_i32(k, 1), sums,
                  PART * PART);
    load_part(c, &c->y, loop.index, y);
    load_part(c, &c->x, loop.index, x);
    for (uint32_t i = 0; i < PART * PART; i++)
        next[i] = multiply_add(c->e, c->type, y[i / PART], x[i % PART], sums[i]);
    gx_loop_end(k, &loop, next);
}

static void contract_all(const Contraction *c, LLVMValueRef *sums)
{
    Emit *e = c->e;
    Kernel *k = c->k;
    GxLoop loop;
    LLVMValueRef next[PART * PART];
    gx_loop_begin(k, &loop, emit_index_constant(e, 0), emit_index_constant(e, c->depth),
                  emit_index_constant(e, TILE_DEPTH), sums, PART * PART);
    emit_scope_begin(e);
    for (uint32_t i = 0; i < PART * PART; i++)
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
    LLVMValueRef ok = NULL, values[PART];
    const IndexExpr *index[EMIT_MOST_RANK];
    LLVMValueRef y_corner = emit_index(e, ix_mul(e->ix, c->y.tile, TILE), 0);
    LLVMValueRef x_corner = emit_index(e, ix_mul(e->ix, c->x.tile, TILE), 0);
    const IndexExpr *at_y =
        coordinate(c, y_corner, LLVMBuildAdd(b, c->y.local, gx_i32(k, y), ""), c->y.size,
                   TILE, 1, &ok);
    const IndexExpr *at_x =
        coordinate(c, x_corner, LLVMBuildAdd(b, c->x.local, gx_i32(k, x), ""), c->x.size,
                   TILE, lanes, &ok);
    GxIf inside;
    emit_if_begin(e, &inside, ok);
    e->lanes = lanes;
    for (uint32_t v = 0; v < lanes; v++)
        values[v] =
            scalar_convert_value(k, sums[y * PART + x + v], c->type, c->result->dtype);
    emit_preset_lanes(e, c->inst, values);
    result_index(c, at_y, ix_add(e->ix, at_x, emit_lane(e)), index);
    for (uint32_t i = 0; i < fusion_result_count(c->in->fusion); i++)
        emit_result(e, c->in->fusion, i, index);
    e->lanes = 1;
    emit_if_end(e, &inside, NULL, 0, NULL);
}

/* -- planning ------------------------------------------------------------------------------------------- */

static void add_dim(const Contraction *c, Side *s, uint32_t d)
{
    s->dims[s->count++] = d;
    s->size *= c->result->dims[d];
}

/* Which side each of the result's dimensions belongs to: the slowest in memory first. */
static void divide_dims(Contraction *c)
{
    const Instruction *inst = c->inst;
    const Shape *shape = c->result;
    Side sides[2] = {{.operand = 0, .size = 1}, {.operand = 1, .size = 1}};
    uint32_t last_operand = 1;
    uint32_t batch = inst_ints(inst, ATTR_LHS_BATCH_DIMS).count;
    uint32_t lhs_end =
        inst->operands[0]->shape->rank - inst_ints(inst, ATTR_LHS_CONTRACTING_DIMS).count;
    for (uint32_t i = shape->rank; i-- > 0;) {
        uint32_t d = (uint32_t)shape->layout->minor_to_major[i];
        uint32_t operand;
        if (c->feature_dim >= 0) {
            operand = d == c->feature_dim ? 1 : 0;
        } else if (d < batch) {
            c->batch_dims[c->batch_count++] = d;
            c->batch_size *= shape->dims[d];
            continue;
        } else {
            operand = d < lhs_end ? 0 : 1;
        }
        add_dim(c, &sides[operand], d);
        if (shape->dims[d] != 1)
            last_operand = operand;
    }
    if (c->feature_dim >= 0)
        sides[1].size = c->per_group;
    c->x = sides[last_operand];
    c->y = sides[1 - last_operand];
}

static void plan_convolution(Contraction *c)
{
    const Instruction *inst = c->inst;
    const DimLabels *n = inst_attr(inst, ATTR_DIM_LABELS)->labels;
    int64_t groups = inst_int(inst, ATTR_FEATURE_GROUP_COUNT, 1);
    int64_t batch_groups = inst_int(inst, ATTR_BATCH_GROUP_COUNT, 1);
    c->batch_size = groups > batch_groups ? groups : batch_groups;
    c->feature_dim = n->out_feature;
    c->per_group = c->result->dims[n->out_feature] / c->batch_size;
}

/* By how much the operand's place in memory changes with a symbol or dimension of its map; 0 if it differs. */
static int64_t stride_of(const Contraction *c, uint32_t operand, IxKind kind,
                         uint32_t number)
{
    const IndexMap *map = emit_operand_map(c->e, c->inst, operand);
    int64_t stride;
    const IndexExpr *linear =
        index_linear(c->e->ix, c->inst->operands[operand]->shape, map->results);
    return ix_stride(linear, kind, number, &stride) ? stride : 0;
}

/* The depth counts through the symbols; fastest the one along which an operand is contiguous. */
static void order_symbols(Contraction *c)
{
    const IndexMap *map = emit_operand_map(c->e, c->inst, 0);
    uint32_t fastest = map->symbol_count == 0 ? 0 : map->symbol_count - 1;
    c->depth = 1;
    for (uint32_t operand = 2; operand-- > 0;) {
        for (uint32_t i = 0; i < map->symbol_count; i++) {
            if (map->symbols[i].hi > 0 && stride_of(c, operand, IX_SYMBOL, i) == 1)
                fastest = i;
        }
    }
    for (uint32_t i = 0; i < map->symbol_count; i++) {
        c->depth *= map->symbols[i].hi + 1;
        if (i != fastest)
            c->symbols[c->symbol_count++] = i;
    }
    if (map->symbol_count != 0)
        c->symbols[c->symbol_count++] = fastest;
}

static void plan_access(const Contraction *c, Side *s, bool may_have_lanes)
{
    const IndexMap *map = emit_operand_map(c->e, c->inst, s->operand);
    s->lanes = 1;
    int64_t size = 0;
    if (c->symbol_count != 0) {
        uint32_t fastest = c->symbols[c->symbol_count - 1];
        s->depth_first = stride_of(c, s->operand, IX_SYMBOL, fastest) == 1;
        size = map->symbols[fastest].hi + 1;
    }
    bool is_padded = map->constraint_count != 0;
    if (!s->depth_first) {
        uint32_t d = s->count != 0 ? s->dims[s->count - 1] : 0;
        bool is_contiguous = s->count != 0 && stride_of(c, s->operand, IX_DIM, d) == 1 &&
                             c->feature_dim < 0;
        size = is_contiguous ? c->result->dims[d] : 0;
    }
    /* padding may begin between two spatial places, not between two features */
    if (may_have_lanes && size != 0 && size % PART == 0 &&
        !(is_padded && !s->depth_first)) {
        s->lanes = PART;
        for (uint32_t i = 0; i < map->constraint_count && c->symbol_count != 0; i++) {
            if (ix_depends(map->constraints[i].expr, IX_SYMBOL,
                           c->symbols[c->symbol_count - 1]))
                s->lanes = 1;
        }
    }
}

static void find_tile(Contraction *c, int64_t y_tiles, int64_t x_tiles)
{
    Emit *e = c->e;
    LLVMBuilderRef b = c->k->builder;
    const IndexExpr *block =
        emit_variable(e, to_index(e, gx_ctaid(c->k, 0)),
                      (Range){0, y_tiles * x_tiles * c->batch_size - 1});
    c->x.tile = ix_mod(e->ix, block, x_tiles);
    block = ix_floordiv(e->ix, block, x_tiles);
    c->y.tile = ix_mod(e->ix, block, y_tiles);
    c->batch = ix_floordiv(e->ix, block, y_tiles);
    LLVMValueRef thread = gx_tid(c->k, 0), across = gx_i32(c->k, TILE / PART);
    LLVMValueRef part = gx_i32(c->k, PART);
    c->x.local = LLVMBuildMul(b, LLVMBuildURem(b, thread, across, ""), part, "");
    c->y.local = LLVMBuildMul(b, LLVMBuildUDiv(b, thread, across, ""), part, "");
}

static Kernel *contraction(const EmitterInput *in, const Instruction *inst)
{
    Contraction c = {.in = in,
                     .inst = inst,
                     .result = inst->shape,
                     .type = contract_accumulator(inst),
                     .batch_size = 1,
                     .feature_dim = -1};
    if (inst->op == OP_CONVOLUTION)
        plan_convolution(&c);
    divide_dims(&c);
    int64_t y_tiles = (c.y.size + TILE - 1) / TILE,
            x_tiles = (c.x.size + TILE - 1) / TILE;
    int64_t blocks = y_tiles * x_tiles * c.batch_size;
    if (blocks > INT32_MAX)
        escape_throw(ESCAPE_UNSUPPORTED, "%s has %lld tiles", inst->name,
                     (long long)blocks);
    c.k = kernel_create(in->arena, in->module, in->name, in->args, in->arg_count,
                        (uint32_t[3]){TILE_THREADS, 1, 1},
                        (uint32_t[3]){(uint32_t)blocks, 1, 1});
    c.e = emitter_begin(in, c.k, 1);
    order_symbols(&c);
    const Computation *comp = inst_called(in->fusion, 0);
    bool is_plain = fusion_is_plain(comp, &inst, 1);
    bool reads_lanes = is_plain || comp->instruction_count <= MOST_READ_IN_LANES;
    plan_access(&c, &c.y, reads_lanes);
    plan_access(&c, &c.x, reads_lanes);
    unsigned bytes = shared_bytes(c.type);
    c.y.room = gx_shared_alloc(c.k, (uint64_t)bytes * TILE_DEPTH * TILE_STRIDE, 16);
    c.x.room = gx_shared_alloc(c.k, (uint64_t)bytes * TILE_DEPTH * TILE_STRIDE, 16);
    find_tile(&c, y_tiles, x_tiles);
    LLVMValueRef sums[PART * PART];
    for (uint32_t i = 0; i < PART * PART; i++)
        sums[i] = LLVMConstNull(emit_type(c.k, c.type));
    if (c.depth != 0)
        contract_all(&c, sums);
    uint32_t lanes = is_plain && c.x.size % PART == 0 ? PART : 1;
    for (uint32_t i = 0; i < PART * PART; i += lanes)
        write_access(&c, i / PART, i % PART, lanes, sums);
    kernel_finish(c.k);
    return c.k;
}

Kernel *emitter_dot(const EmitterInput *in)
{
    return contraction(in, fusion_hero(in->fusion, OP_DOT));
}

Kernel *emitter_convolution(const EmitterInput *in)
{
    return contraction(in, fusion_hero(in->fusion, OP_CONVOLUTION));
}
