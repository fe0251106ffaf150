/* The INDEX column of ops.def: for each opcode that reads its operands by a map, that map.
 * See index_map.h. */
#include <string.h>

#include "ir/analysis/index_map.h"
#include "ir/op_functions.h"

static const IndexExpr *const NO_INDEX[1];

/* A map under construction for one operand. */
typedef struct Builder {
    IndexContext *cx;
    Arena *arena;
    const Shape *result;
    IndexMap map;
    Range *symbols;
    IndexRuntime *runtimes;
    IndexConstraint *constraints;
    const IndexExpr **results;
} Builder;

/* Room for `most` symbols, runtimes and constraints each; results for `rank` dimensions. */
static Builder begin(IndexContext *cx, const Shape *result, uint32_t rank, uint32_t most)
{
    Arena *a = index_arena(cx);
    Builder b = {.cx = cx, .arena = a, .result = result};
    Range *dims = ARENA_ARRAY(a, Range, result->rank);
    for (uint32_t i = 0; i < result->rank; i++)
        dims[i] = (Range){0, result->dims[i] - 1};
    b.map.dim_count = result->rank;
    b.map.dims = dims;
    b.map.result_count = rank;
    b.results = ARENA_ARRAY(a, const IndexExpr *, (size_t)rank + 1);
    if (most != 0) {
        b.symbols = ARENA_ARRAY(a, Range, most);
        b.runtimes = ARENA_ARRAY(a, IndexRuntime, most);
        b.constraints = ARENA_ARRAY(a, IndexConstraint, most);
    }
    return b;
}

static const IndexExpr *dim(Builder *b, uint32_t i)
{
    return ix_dim(b->cx, i, b->map.dims[i]);
}

static const IndexExpr *symbol(Builder *b, int64_t size)
{
    Range r = {0, size - 1};
    b->symbols[b->map.symbol_count] = r;
    return ix_symbol(b->cx, b->map.symbol_count++, r);
}

static int64_t clamped(const Literal *l, Range range)
{
    int64_t v = literal_int(l, 0);
    bool is_above = v > range.hi || (v < 0 && !dtype_is_signed(l->shape->dtype));
    return is_above ? range.hi : v < range.lo ? range.lo : v;
}

static const IndexExpr *runtime(Builder *b, const Instruction *source,
                                const IndexExpr *const *index, Range range)
{
    const Literal *known = source->op == OP_CONSTANT ? source->literal : NULL;
    if (known != NULL && known->count == 1 && !known->elided)
        return ix_const(b->cx, clamped(known, range));
    b->runtimes[b->map.runtime_count] = (IndexRuntime){source, index, range};
    return ix_runtime(b->cx, b->map.runtime_count++, range);
}

/* expr must be in [lo, hi]; what the range already proves is not recorded. */
static void constrain(Builder *b, const IndexExpr *expr, int64_t lo, int64_t hi)
{
    if (expr->range.lo >= lo && expr->range.hi <= hi)
        return;
    b->constraints[b->map.constraint_count++] = (IndexConstraint){expr, {lo, hi}};
}

static IndexMap finish(Builder *b)
{
    b->map.symbols = b->symbols;
    b->map.runtimes = b->runtimes;
    b->map.constraints = b->constraints;
    b->map.results = b->results;
    return b->map;
}

static const IndexExpr *plus(Builder *b, const IndexExpr *e, int64_t c)
{
    return ix_add(b->cx, e, ix_const(b->cx, c));
}

static IndexMap scalar_map(IndexContext *cx, const Shape *result)
{
    Builder b = begin(cx, result, 0, 0);
    IndexMap map = finish(&b);
    map.results = NO_INDEX;
    return map;
}

/* -- the same position -------------------------------------------------------------------- */

void index_elementwise(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                       IndexMap *maps)
{
    (void)leaf;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Shape *s = inst->operands[i]->shape;
        maps[i] =
            s->rank == 0 ? scalar_map(cx, inst->shape) : index_identity(cx, inst->shape);
    }
}

void index_same(IndexContext *cx, const Instruction *inst, uint32_t leaf, IndexMap *maps)
{
    (void)leaf;
    if (shape_is_array(inst->shape))
        maps[0] = index_identity(cx, inst->shape);
}

/* -- data movement --------------------------------------------------------------------- */

void index_broadcast(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                     IndexMap *maps)
{
    (void)leaf;
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    Builder b = begin(cx, inst->shape, inst->operands[0]->shape->rank, 0);
    for (uint32_t i = 0; i < b.map.result_count; i++)
        b.results[i] = dim(&b, (uint32_t)dims.data[i]);
    maps[0] = finish(&b);
}

void index_transpose(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                     IndexMap *maps)
{
    (void)leaf;
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    Builder b = begin(cx, inst->shape, inst->shape->rank, 0);
    for (uint32_t i = 0; i < b.map.result_count; i++)
        b.results[dims.data[i]] = dim(&b, i);
    maps[0] = finish(&b);
}

void index_reverse(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                   IndexMap *maps)
{
    (void)leaf;
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    Builder b = begin(cx, inst->shape, inst->shape->rank, 0);
    for (uint32_t i = 0; i < b.map.result_count; i++) {
        bool flip = ints_find(dims, i) >= 0;
        b.results[i] =
            flip ? plus(&b, ix_mul(cx, dim(&b, i), -1), inst->shape->dims[i] - 1)
                 : dim(&b, i);
    }
    maps[0] = finish(&b);
}

void index_slice(IndexContext *cx, const Instruction *inst, uint32_t leaf, IndexMap *maps)
{
    (void)leaf;
    const SliceSpec *spec = inst_attr(inst, ATTR_SLICE)->slice;
    Builder b = begin(cx, inst->shape, inst->shape->rank, 0);
    for (uint32_t i = 0; i < b.map.result_count; i++)
        b.results[i] =
            plus(&b, ix_mul(cx, dim(&b, i), spec->dims[i].stride), spec->dims[i].start);
    maps[0] = finish(&b);
}

const Layout *index_row_major(Arena *a, uint32_t rank)
{
    int64_t *order = ARENA_ARRAY(a, int64_t, (size_t)rank + 1);
    for (uint32_t i = 0; i < rank; i++)
        order[i] = (int64_t)rank - 1 - i;
    Layout *l = ARENA_NEW(a, Layout);
    l->rank = rank;
    l->minor_to_major = order;
    return l;
}

/* Through the element's number: logical row-major numbers for a reshape, physical ones (by
 * the two layouts) for a bitcast. */
static IndexMap through_number(IndexContext *cx, const Instruction *inst, bool physical)
{
    Shape from = *inst->operands[0]->shape, to = *inst->shape;
    Builder b = begin(cx, inst->shape, from.rank, 0);
    if (!physical) {
        from.layout = index_row_major(b.arena, from.rank);
        to.layout = index_row_major(b.arena, to.rank);
    }
    const IndexExpr **index =
        ARENA_ARRAY(b.arena, const IndexExpr *, (size_t)to.rank + 1);
    for (uint32_t i = 0; i < to.rank; i++)
        index[i] = dim(&b, i);
    index_delinear(cx, &from, index_linear(cx, &to, index), b.results);
    return finish(&b);
}

void index_reshape(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                   IndexMap *maps)
{
    (void)leaf;
    maps[0] = through_number(cx, inst, false);
}

void index_bitcast(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                   IndexMap *maps)
{
    (void)leaf;
    const Shape *from = inst->operands[0]->shape, *to = inst->shape;
    if (shape_is_array(from) && shape_is_array(to) && from->dtype == to->dtype &&
        shape_elements(from) == shape_elements(to))
        maps[0] = through_number(cx, inst, true);
}

void index_bitcast_convert(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                           IndexMap *maps)
{
    (void)leaf;
    const Shape *from = inst->operands[0]->shape;
    Builder b = begin(cx, inst->shape, from->rank, 1);
    for (uint32_t i = 0; i < from->rank; i++)
        b.results[i] = i < inst->shape->rank ? dim(&b, i) : symbol(&b, from->dims[i]);
    maps[0] = finish(&b);
}

void index_concatenate(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                       IndexMap *maps)
{
    (void)leaf;
    int64_t along = inst_ints(inst, ATTR_DIMENSIONS).data[0], offset = 0;
    for (uint32_t k = 0; k < inst->operand_count; k++) {
        int64_t size = inst->operands[k]->shape->dims[along];
        Builder b = begin(cx, inst->shape, inst->shape->rank, 1);
        for (uint32_t i = 0; i < b.map.result_count; i++)
            b.results[i] = dim(&b, i);
        b.results[along] = plus(&b, b.results[along], -offset);
        constrain(&b, b.results[along], 0, size - 1);
        maps[k] = finish(&b);
        offset += size;
    }
}

void index_pad(IndexContext *cx, const Instruction *inst, uint32_t leaf, IndexMap *maps)
{
    (void)leaf;
    const Padding *padding = inst_attr(inst, ATTR_PADDING)->padding;
    Builder b = begin(cx, inst->shape, inst->shape->rank, inst->shape->rank * 2);
    for (uint32_t i = 0; i < b.map.result_count; i++) {
        int64_t step = padding->dims[i].interior + 1;
        const IndexExpr *at = plus(&b, dim(&b, i), -padding->dims[i].low);
        constrain(&b, ix_mod(cx, at, step), 0, 0);
        b.results[i] = ix_floordiv(cx, at, step);
        constrain(&b, b.results[i], 0, inst->operands[0]->shape->dims[i] - 1);
    }
    maps[0] = finish(&b);
    maps[1] = scalar_map(cx, inst->shape);
}

/* -- computed positions ---------------------------------------------------------------------- */

/* Start index of dimension i: from scalar operands first.., or one rank-1 operand. */
static const IndexExpr *start_index(Builder *b, const Instruction *inst, uint32_t first,
                                    uint32_t i, int64_t most)
{
    const Instruction *source = inst->operands[first];
    const IndexExpr *const *index = NO_INDEX;
    if (source->shape->rank == 1) {
        const IndexExpr **at = ARENA_NEW(b->arena, const IndexExpr *);
        *at = ix_const(b->cx, i);
        index = at;
    } else {
        source = inst->operands[first + i];
    }
    return runtime(b, source, index, (Range){0, most < 0 ? 0 : most});
}

void index_dynamic_slice(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                         IndexMap *maps)
{
    (void)leaf;
    const Shape *from = inst->operands[0]->shape;
    Builder b = begin(cx, inst->shape, from->rank, from->rank);
    for (uint32_t i = 0; i < from->rank; i++)
        b.results[i] =
            ix_add(cx, dim(&b, i),
                   start_index(&b, inst, 1, i, from->dims[i] - inst->shape->dims[i]));
    maps[0] = finish(&b);
}

void index_dynamic_update_slice(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                                IndexMap *maps)
{
    (void)leaf;
    const Shape *update = inst->operands[1]->shape;
    maps[0] = index_identity(cx, inst->shape);
    Builder b = begin(cx, inst->shape, update->rank, update->rank);
    for (uint32_t i = 0; i < update->rank; i++) {
        const IndexExpr *start =
            start_index(&b, inst, 2, i, inst->shape->dims[i] - update->dims[i]);
        b.results[i] = ix_add(cx, dim(&b, i), ix_mul(cx, start, -1));
        constrain(&b, b.results[i], 0, update->dims[i] - 1);
    }
    maps[1] = finish(&b);
}

void index_gather(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                  IndexMap *maps)
{
    (void)leaf;
    const Shape *from = inst->operands[0]->shape;
    const Instruction *indices = inst->operands[1];
    Ints offset = inst_ints(inst, ATTR_OFFSET_DIMS);
    Ints collapsed = inst_ints(inst, ATTR_COLLAPSED_SLICE_DIMS);
    Ints start_map = inst_ints(inst, ATTR_START_INDEX_MAP);
    Ints batching = inst_ints(inst, ATTR_OPERAND_BATCHING_DIMS);
    Ints index_batching = inst_ints(inst, ATTR_START_INDICES_BATCHING_DIMS);
    Ints sizes = inst_ints(inst, ATTR_SLICE_SIZES);
    int64_t vector_dim = inst_int(inst, ATTR_INDEX_VECTOR_DIM, 0);
    Builder b = begin(cx, inst->shape, from->rank, from->rank + 1);
    /* the result's dimensions that are no offsets walk the indices' ones, in order */
    const IndexExpr **batch =
        ARENA_ARRAY(b.arena, const IndexExpr *, (size_t)indices->shape->rank + 1);
    uint32_t next = 0;
    for (uint32_t i = 0; i < inst->shape->rank; i++) {
        if (ints_find(offset, i) >= 0)
            continue;
        if (next == vector_dim)
            next++;
        batch[next++] = dim(&b, i);
    }
    uint32_t window = 0;
    for (uint32_t i = 0; i < from->rank; i++) {
        bool kept = ints_find(collapsed, i) < 0 && ints_find(batching, i) < 0;
        const IndexExpr *e =
            kept ? dim(&b, (uint32_t)offset.data[window++]) : ix_const(cx, 0);
        int64_t component = ints_find(start_map, i), along = ints_find(batching, i);
        if (along >= 0) {
            e = batch[index_batching.data[along]];
        } else if (component >= 0) {
            const IndexExpr **at = arena_copy(
                b.arena, batch, ((size_t)indices->shape->rank + 1) * sizeof *at);
            if (vector_dim < (int64_t)indices->shape->rank)
                at[vector_dim] = ix_const(cx, component);
            e = ix_add(
                cx, e,
                runtime(&b, indices, at, (Range){0, from->dims[i] - sizes.data[i]}));
        }
        b.results[i] = e;
    }
    maps[0] = finish(&b);
}

/* -- sums over something --------------------------------------------------------------- */

void index_reduce(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                  IndexMap *maps)
{
    const Shape *result = shape_leaf(inst->shape, leaf);
    Ints reduced = inst_ints(inst, ATTR_DIMENSIONS);
    uint32_t half = inst->operand_count / 2;
    for (uint32_t k = 0; k < half; k++) {
        const Shape *from = inst->operands[k]->shape;
        Builder b = begin(cx, result, from->rank, from->rank);
        uint32_t kept = 0;
        for (uint32_t i = 0; i < from->rank; i++)
            b.results[i] =
                ints_find(reduced, i) >= 0 ? symbol(&b, from->dims[i]) : dim(&b, kept++);
        maps[k] = finish(&b);
        maps[half + k] = scalar_map(cx, result);
    }
}

/* Of the two factors of a product, whose result begins with `extra` dimensions that neither has; rhs's dimensions
 * `groups` are the result's as a whole. */
static void product_maps(IndexContext *cx, const Instruction *inst, uint32_t extra,
                         Ints groups, IndexMap *maps)
{
    static const AttrId batch_ids[] = {ATTR_LHS_BATCH_DIMS, ATTR_RHS_BATCH_DIMS};
    static const AttrId contract_ids[] = {ATTR_LHS_CONTRACTING_DIMS,
                                          ATTR_RHS_CONTRACTING_DIMS};
    uint32_t free_at = extra + inst_ints(inst, ATTR_LHS_BATCH_DIMS).count;
    for (uint32_t side = 0; side < 2; side++) {
        const Shape *from = inst->operands[side]->shape;
        Ints batch = inst_ints(inst, batch_ids[side]);
        Ints contracted = inst_ints(inst, contract_ids[side]);
        Builder b = begin(cx, inst->shape, from->rank, from->rank);
        for (uint32_t i = 0; i < contracted.count; i++)
            b.results[contracted.data[i]] = symbol(&b, from->dims[contracted.data[i]]);
        for (uint32_t i = 0; i < batch.count; i++)
            b.results[batch.data[i]] = dim(&b, extra + i);
        for (uint32_t i = 0; i < from->rank; i++) {
            if (ints_find(batch, i) >= 0 || ints_find(contracted, i) >= 0)
                continue;
            bool is_group = side == 1 && ints_find(groups, i) >= 0;
            b.results[i] = is_group ? symbol(&b, from->dims[i]) : dim(&b, free_at++);
        }
        maps[side] = finish(&b);
    }
}

void index_dot(IndexContext *cx, const Instruction *inst, uint32_t leaf, IndexMap *maps)
{
    (void)leaf;
    product_maps(cx, inst, 0, (Ints){NULL, 0}, maps);
}

/* What is read at most: of rhs the rows' group or any other, of summed groups all. The sizes are read as they are. */
void index_ragged_dot(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                      IndexMap *maps)
{
    (void)leaf;
    uint32_t rank = inst->operands[0]->shape->rank + inst->operands[1]->shape->rank;
    Ints groups = inst_ints(inst, ATTR_RHS_GROUP_DIMS);
    uint32_t both = inst_ints(inst, ATTR_LHS_BATCH_DIMS).count +
                    2 * inst_ints(inst, ATTR_LHS_CONTRACTING_DIMS).count + groups.count;
    product_maps(cx, inst, inst->shape->rank + both - rank, groups, maps);
    maps[2] = (IndexMap){.result_count = inst->operands[2]->shape->rank};
}

/* Where a window's element reads: at d * stride + s * window_dilation - pad_low, a position
 * that exists if it is a multiple of base_dilation and in bounds. */
static const IndexExpr *window_index(Builder *b, const WindowDim *w, const IndexExpr *d,
                                     const IndexExpr *s, int64_t size)
{
    const IndexExpr *at =
        ix_add(b->cx, ix_mul(b->cx, d, w->stride),
               plus(b, ix_mul(b->cx, s, w->window_dilation), -w->pad_low));
    constrain(b, ix_mod(b->cx, at, w->base_dilation), 0, 0);
    const IndexExpr *e = ix_floordiv(b->cx, at, w->base_dilation);
    constrain(b, e, 0, size - 1);
    return e;
}

void index_reduce_window(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                         IndexMap *maps)
{
    const Shape *result = shape_leaf(inst->shape, leaf);
    const Window *window = inst_window(inst);
    uint32_t half = inst->operand_count / 2;
    for (uint32_t k = 0; k < half; k++) {
        const Shape *from = inst->operands[k]->shape;
        Builder b = begin(cx, result, from->rank, from->rank * 2);
        for (uint32_t i = 0; i < from->rank; i++) {
            const IndexExpr *s = symbol(&b, window->dims[i].size);
            b.results[i] =
                window_index(&b, &window->dims[i], dim(&b, i), s, from->dims[i]);
        }
        maps[k] = finish(&b);
        maps[half + k] = scalar_map(cx, result);
    }
}

/* lhs: batch, input feature and spatial positions; symbols: input features of the group, then
 * the window's dimensions; rhs the same symbols in the same order. */
void index_convolution(IndexContext *cx, const Instruction *inst, uint32_t leaf,
                       IndexMap *maps)
{
    (void)leaf;
    const DimLabels *n = inst_attr(inst, ATTR_DIM_LABELS)->labels;
    const Window *window = inst_window(inst);
    const Shape *lhs = inst->operands[0]->shape, *rhs = inst->operands[1]->shape;
    int64_t feature_groups = inst_int(inst, ATTR_FEATURE_GROUP_COUNT, 1);
    int64_t batch_groups = inst_int(inst, ATTR_BATCH_GROUP_COUNT, 1);
    int64_t outputs = rhs->dims[n->rhs_output], inputs = rhs->dims[n->rhs_input];
    int64_t per_group = outputs / feature_groups, per_batch = outputs / batch_groups;
    int64_t batch = inst->shape->dims[n->out_batch];
    uint32_t most = 2 * (n->spatial_rank + 1);

    Builder b = begin(cx, inst->shape, lhs->rank, most);
    const IndexExpr *feature = dim(&b, (uint32_t)n->out_feature);
    const IndexExpr *input = symbol(&b, inputs);
    b.results[n->lhs_feature] = input;
    if (feature_groups > 1)
        b.results[n->lhs_feature] =
            ix_add(cx, input, ix_mul(cx, ix_floordiv(cx, feature, per_group), inputs));
    b.results[n->lhs_batch] = dim(&b, (uint32_t)n->out_batch);
    if (batch_groups > 1)
        b.results[n->lhs_batch] =
            ix_add(cx, b.results[n->lhs_batch],
                   ix_mul(cx, ix_floordiv(cx, feature, per_batch), batch));
    Builder k = begin(cx, inst->shape, rhs->rank, most);
    k.results[n->rhs_input] = symbol(&k, inputs);
    k.results[n->rhs_output] = dim(&k, (uint32_t)n->out_feature);
    for (uint32_t i = 0; i < n->spatial_rank; i++) {
        const WindowDim *w = &window->dims[i];
        const IndexExpr *s = symbol(&b, w->size);
        int64_t from = n->lhs_spatial[i];
        b.results[from] =
            window_index(&b, w, dim(&b, (uint32_t)n->out_spatial[i]), s, lhs->dims[from]);
        const IndexExpr *at = symbol(&k, w->size);
        k.results[n->rhs_spatial[i]] =
            w->reversal ? plus(&k, ix_mul(cx, at, -1), w->size - 1) : at;
    }
    maps[0] = finish(&b);
    maps[1] = finish(&k);
}
