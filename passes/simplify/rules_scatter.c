/* Rules of scatter.
 *
 * Measure: number of scatters. */
#include "passes/simplify/rewrite.h"

/* scatter of no updates -> the operand */
static Instruction *scatter_nothing(Rewriter *r, Instruction *inst)
{
    (void)r;
    if (inst->operand_count != 3 || !rw_is_zero_size(inst->operands[2]->shape))
        return NULL;
    return rw_as(inst, inst->operands[0]);
}

/* -- scatters with one position for each part of the array ------------------------------------------ */

typedef struct Scatter {
    const Instruction *inst;
    const Shape *shape, *indices, *updates;
    Ints window, inserted, indexed, batch, indices_batch;
    uint32_t vector_dim;
} Scatter;

static Scatter scatter_of(const Instruction *inst)
{
    return (Scatter){.inst = inst,
                     .shape = inst->shape,
                     .indices = inst->operands[1]->shape,
                     .updates = inst->operands[2]->shape,
                     .window = inst_ints(inst, ATTR_UPDATE_WINDOW_DIMS),
                     .inserted = inst_ints(inst, ATTR_INSERTED_WINDOW_DIMS),
                     .indexed = inst_ints(inst, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS),
                     .batch = inst_ints(inst, ATTR_INPUT_BATCHING_DIMS),
                     .indices_batch = inst_ints(inst, ATTR_SCATTER_INDICES_BATCHING_DIMS),
                     .vector_dim = (uint32_t)inst_int(inst, ATTR_INDEX_VECTOR_DIM, 0)};
}

/* Dimension of the array for each of the indices; -1: none. False: a part gets several updates. */
static bool map_indices(const Scatter *s, int64_t *position)
{
    for (uint32_t d = 0; d < s->indices->rank; d++) {
        int64_t batch = ints_find(s->indices_batch, d);
        position[d] = batch < 0 ? -1 : s->batch.data[batch];
        if (batch < 0 && d != s->vector_dim && s->indices->dims[d] != 1)
            return false;
    }
    return true;
}

/* The same of the updates. False: an update covers only some of what it does not index. */
static bool map_updates(const Scatter *s, const int64_t *indices, int64_t *position)
{
    uint32_t index = 0;
    int64_t dim = -1;
    for (uint32_t i = 0; i < s->inserted.count; i++) {
        int64_t d = s->inserted.data[i];
        if (!ints_contain(s->indexed, d) && s->shape->dims[d] != 1)
            return false;
    }
    for (uint32_t u = 0; u < s->updates->rank; u++) {
        if (!ints_contain(s->window, u)) {
            index += index == s->vector_dim;
            position[u] = indices[index++];
            continue;
        }
        do
            dim++;
        while (ints_contain(s->inserted, dim) || ints_contain(s->batch, dim));
        bool is_indexed = ints_contain(s->indexed, dim);
        if (s->updates->dims[u] != (is_indexed ? 1 : s->shape->dims[dim]))
            return false;
        position[u] = is_indexed ? -1 : dim;
    }
    return true;
}

/* Where component `c` of the indices is the element's own index. */
static Instruction *is_hit(Rewriter *r, const Scatter *s, const int64_t *position,
                           uint32_t c)
{
    Instruction *x = s->inst->operands[1];
    if (s->vector_dim < s->indices->rank) {
        uint32_t rank = s->indices->rank;
        SliceDim *cut = ARENA_ARRAY(r->scratch, SliceDim, rank);
        int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, rank);
        for (uint32_t d = 0; d < rank; d++) {
            bool is_vector = d == s->vector_dim;
            sizes[d] = is_vector ? 1 : s->indices->dims[d];
            cut[d] = (SliceDim){is_vector ? c : 0, is_vector ? c + 1 : sizes[d], 1};
        }
        x = rw_slice(r, rw_shape(r, s->indices->dtype, rank, sizes), x, cut);
    }
    Intern *t = r->m->intern;
    if (dtype_info[s->indices->dtype].bits < 32)
        x = rw_in_type(r, x, DT_S32);
    const Shape *wide = shape_with_dtype(t, s->shape, x->shape->dtype);
    Instruction *own = rw_add(r, OP_IOTA, wide, 0, NULL);
    inst_set_int(own, ATTR_IOTA_DIMENSION, s->indexed.data[c]);
    return rw_compare(r, rw_spread(r, wide, x, position), own, DIRECTION_EQ);
}

/* What an element becomes that an update hits; NULL: more than one simple operation makes it. */
static Instruction *updated(Rewriter *r, const Scatter *s, Instruction *x,
                            Instruction *update)
{
    const Computation *by = inst_called(s->inst, 0);
    if (by->root->shape->dtype != s->shape->dtype)
        return NULL;
    if (by->root == by->parameters[1])
        return update;
    switch (rw_reducer_op(by)) {
    case OP_ADD:
    case OP_MULTIPLY:
    case OP_MAXIMUM:
    case OP_MINIMUM:
    case OP_AND:
    case OP_OR:
        return rw_binary(r, by->root->op, s->shape, x, update);
    default:
        return NULL;
    }
}

/* scatter(splat, one index for each part of it, updates) -> select(iota = index, update, splat): elementwise, it
 * need not lie in memory. The gradient of taking one element of each row. */
static Instruction *scatter_one(Rewriter *r, Instruction *inst)
{
    if (inst->operand_count != 3 || rw_splat_of(inst->operands[0]) == NULL ||
        !rw_is_static(inst->operands[1]->shape) ||
        !rw_is_static(inst->operands[2]->shape) ||
        inst->operands[2]->shape->dtype != inst->shape->dtype)
        return NULL;
    Scatter s = scatter_of(inst);
    int64_t *indices = ARENA_ARRAY(r->scratch, int64_t, s.indices->rank + 1u);
    int64_t *updates = ARENA_ARRAY(r->scratch, int64_t, s.updates->rank + 1u);
    if (s.indexed.count == 0 || !map_indices(&s, indices) ||
        !map_updates(&s, indices, updates))
        return NULL;
    Instruction *update = rw_spread(r, s.shape, inst->operands[2], updates);
    Instruction *new = updated(r, &s, inst->operands[0], update);
    if (new == NULL)
        return NULL;
    Instruction *hit = NULL;
    for (uint32_t c = 0; c < s.indexed.count; c++) {
        Instruction *one = is_hit(r, &s, indices, c);
        hit = hit == NULL ? one : rw_binary(r, OP_AND, one->shape, hit, one);
    }
    Instruction *operands[3] = {hit, new, inst->operands[0]};
    return rw_add(r, OP_SELECT, s.shape, 3, operands);
}

/* -- scatters of one window at a known position ---------------------------------------------------------- */

/* Where the window begins, and its sizes, by dimension of the array; false: there are several windows, or the position
 * is not known, or the window does not fit there. */
static bool known_window(const Scatter *s, int64_t *start, int64_t *sizes)
{
    const Instruction *position = s->inst->operands[1];
    const Literal *splat = rw_splat_of(position);
    const Literal *all = position->op == OP_CONSTANT ? position->literal : NULL;
    for (uint32_t d = 0; d < s->indices->rank; d++) {
        if (d != s->vector_dim && s->indices->dims[d] != 1)
            return false;
    }
    if ((splat == NULL && all == NULL) || s->batch.count != 0)
        return false;
    uint32_t window = 0;
    for (uint32_t d = 0; d < s->shape->rank; d++) {
        int64_t component = ints_find(s->indexed, d);
        start[d] = sizes[d] = 0;
        if (component >= 0)
            start[d] =
                literal_int(all != NULL ? all : splat, all != NULL ? component : 0);
        sizes[d] =
            ints_contain(s->inserted, d) ? 1 : s->updates->dims[s->window.data[window++]];
        if (start[d] < 0 || start[d] > s->shape->dims[d] - sizes[d])
            return false;
    }
    return true;
}

/* scatter(x, constant, update) -> dynamic-update-slice(x, update, constant): elementwise with a boundary. */
static Instruction *scatter_known(Rewriter *r, Instruction *inst)
{
    if (inst->operand_count != 3 || !rw_is_static(inst->shape) ||
        inst->operands[2]->shape->dtype != inst->shape->dtype)
        return NULL;
    Scatter s = scatter_of(inst);
    uint32_t rank = s.shape->rank;
    int64_t *start = ARENA_ARRAY(r->scratch, int64_t, rank + 1u);
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, rank + 1u);
    if (rank == 0 || !known_window(&s, start, sizes))
        return NULL;
    const Shape *part = rw_shape(r, s.shape->dtype, rank, sizes);
    SliceDim *cut = ARENA_ARRAY(r->scratch, SliceDim, rank);
    Instruction **operands = ARENA_ARRAY(r->scratch, Instruction *, rank + 2u);
    for (uint32_t d = 0; d < rank; d++) {
        cut[d] = (SliceDim){start[d], start[d] + sizes[d], 1};
        operands[d + 2] = rw_splat_int(r, shape_scalar(r->m->intern, DT_S32), start[d]);
        if (start[d] > INT32_MAX)
            return NULL;
    }
    s.shape = part;
    Instruction *old = rw_slice(r, part, inst->operands[0], cut);
    operands[0] = inst->operands[0];
    operands[1] = updated(r, &s, old, rw_reshape(r, part, inst->operands[2]));
    return operands[1] == NULL
               ? NULL
               : rw_add(r, OP_DYNAMIC_UPDATE_SLICE, inst->shape, rank + 2, operands);
}

const Rule rules_scatter[] = {
    {OP_SCATTER, "scatter_nothing", scatter_nothing},
    {OP_SCATTER, "scatter_known", scatter_known},
    {OP_SCATTER, "scatter_one", scatter_one},
    {0},
};
