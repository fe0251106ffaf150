/* Expansion of those ragged-dots that have no kernel of their own (ir/kernel/ragged.h): a dot of all rows with all
 * groups, of which each row keeps what belongs to its own group.
 *
 *   free ragged dimension:       dot, select by group of the row, sum over the groups
 *   contracted ragged dimension: a dot for each group of what is masked to it
 *   batch:                       the groups say nothing: a dot */
#include "ir/kernel/factor_type.h"
#include "passes/simplify/expand.h"

#include <string.h>

typedef struct Ragged {
    Rewriter *r;
    Instruction *inst;
    Instruction *lhs, *rhs, *sizes; /* sizes: [prefix..., groups], s32 or what it was */
    Ints lhs_batch, lhs_sum, rhs_batch, rhs_sum;
    int64_t dim; /* the ragged dimension of lhs */
    uint32_t prefix_count;
    int64_t *prefix; /* dimensions of lhs that the sizes depend on */
    Instruction *starts, *ends;
} Ragged;

/* The dimensions of lhs that come before the ragged one: the sizes may depend on them. */
static bool find_prefix(Ragged *g, bool summed)
{
    uint32_t wanted = g->sizes->shape->rank - 1, n = 0;
    g->prefix = ARENA_ARRAY(g->r->scratch, int64_t, wanted);
    g->prefix_count = wanted;
    for (uint32_t i = 0; i < g->lhs_batch.count && n < wanted; i++)
        g->prefix[n++] = g->lhs_batch.data[i];
    for (uint32_t i = 0; summed && i < g->lhs_sum.count && n < wanted; i++)
        if (g->lhs_sum.data[i] != g->dim)
            g->prefix[n++] = g->lhs_sum.data[i];
    for (int64_t d = 0; !summed && d < g->dim && n < wanted; d++)
        if (ints_find(g->lhs_batch, d) < 0 && ints_find(g->lhs_sum, d) < 0)
            g->prefix[n++] = d;
    return n == wanted;
}

static Instruction *iota(Rewriter *r, const Shape *s, int64_t dim)
{
    Instruction *i = rw_add(r, OP_IOTA, s, 0, NULL);
    inst_set_int(i, ATTR_IOTA_DIMENSION, dim);
    return i;
}

/* Where each group begins and ends: sums of the sizes up to it, negative ones counting as 0. */
static void find_bounds(Ragged *g)
{
    Rewriter *r = g->r;
    const Shape *s = g->sizes->shape;
    uint32_t p = s->rank - 1;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, s->rank + 1);
    int64_t *to = ARENA_ARRAY(r->scratch, int64_t, s->rank);
    memcpy(dims, s->dims, s->rank * sizeof *dims);
    dims[p + 1] = s->dims[p];
    for (uint32_t i = 0; i < p; i++)
        to[i] = i;
    to[p] = p + 1;
    Instruction *sizes = rw_binary(r, OP_MAXIMUM, s, g->sizes, rw_splat(r, s, 0.0));
    const Shape *square = rw_shape(r, s->dtype, s->rank + 1, dims);
    Instruction *before =
        rw_compare(r, iota(r, square, p + 1), iota(r, square, p), DIRECTION_LE);
    Instruction *operands[3] = {before, rw_broadcast(r, square, sizes, s->rank, to),
                                rw_splat(r, square, 0.0)};
    int64_t along = p + 1;
    g->ends = rw_sum(r, s, rw_add(r, OP_SELECT, square, 3, operands), 1, &along);
    g->starts = rw_binary(r, OP_SUBTRACT, s, g->ends, sizes);
}

/* Elements of an array of the given sizes whose index along `along` is in the group's range;
 * dims: where the dimensions of the sizes lie in it. */
static Instruction *in_group(Ragged *g, uint32_t rank, const int64_t *sizes,
                             int64_t along, const int64_t *dims)
{
    Rewriter *r = g->r;
    const Shape *s = rw_shape(r, g->sizes->shape->dtype, rank, sizes);
    Instruction *at = iota(r, s, along);
    uint32_t n = g->sizes->shape->rank;
    Instruction *from =
        rw_compare(r, at, rw_broadcast(r, s, g->starts, n, dims), DIRECTION_GE);
    Instruction *to =
        rw_compare(r, at, rw_broadcast(r, s, g->ends, n, dims), DIRECTION_LT);
    return rw_binary(r, OP_AND, from->shape, from, to);
}

static void copy_precision(Instruction *dot, const Instruction *from)
{
    if (inst_has(from, ATTR_OPERAND_PRECISION))
        inst_set(dot, *inst_attr(from, ATTR_OPERAND_PRECISION));
}

static Instruction *plain_dot(Ragged *g, const Shape *s)
{
    Instruction *dot = rw_binary(g->r, OP_DOT, s, g->lhs, g->rhs);
    inst_set_ints(dot, ATTR_LHS_BATCH_DIMS, g->lhs_batch.data, g->lhs_batch.count);
    inst_set_ints(dot, ATTR_RHS_BATCH_DIMS, g->rhs_batch.data, g->rhs_batch.count);
    inst_set_ints(dot, ATTR_LHS_CONTRACTING_DIMS, g->lhs_sum.data, g->lhs_sum.count);
    inst_set_ints(dot, ATTR_RHS_CONTRACTING_DIMS, g->rhs_sum.data, g->rhs_sum.count);
    copy_precision(dot, g->inst);
    return dot;
}

/* The dimension of a dot's result that a batch or free dimension of lhs becomes. */
static int64_t result_dim(const Ragged *g, int64_t d)
{
    int64_t at = ints_find(g->lhs_batch, d);
    if (at >= 0)
        return at;
    at = g->lhs_batch.count;
    for (int64_t k = 0; k < d; k++)
        at += ints_find(g->lhs_batch, k) < 0 && ints_find(g->lhs_sum, k) < 0;
    return at;
}

static Instruction *ragged_free(Ragged *g, int64_t group)
{
    Rewriter *r = g->r;
    const Shape *out = g->inst->shape;
    int64_t at =
        (int64_t)g->lhs->shape->rank - g->lhs_sum.count; /* rhs's free ones follow */
    for (int64_t k = 0; k < group; k++)
        at += ints_find(g->rhs_batch, k) < 0 && ints_find(g->rhs_sum, k) < 0;
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, out->rank + 1);
    for (uint32_t i = 0; i <= out->rank; i++)
        sizes[i] = i < at    ? out->dims[i]
                   : i == at ? g->rhs->shape->dims[group]
                             : out->dims[i - 1];
    const Shape *wide = rw_shape(r, out->dtype, out->rank + 1, sizes);
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, g->prefix_count + 1);
    for (uint32_t i = 0; i < g->prefix_count; i++)
        dims[i] = result_dim(g, g->prefix[i]);
    dims[g->prefix_count] = at;
    Instruction *mask = in_group(g, wide->rank, wide->dims, result_dim(g, g->dim), dims);
    Instruction *operands[3] = {mask, plain_dot(g, wide), rw_splat(r, wide, 0.0)};
    return rw_sum(r, out, rw_add(r, OP_SELECT, wide, 3, operands), 1, &at);
}

/* x with a dimension of groups before its own, zero outside the group; dims: where the
 * dimensions of the sizes lie in it. */
static Instruction *masked(Ragged *g, Instruction *x, int64_t along, const int64_t *dims)
{
    Rewriter *r = g->r;
    const Shape *s = x->shape;
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, s->rank + 1);
    int64_t *to = ARENA_ARRAY(r->scratch, int64_t, s->rank);
    sizes[0] = g->sizes->shape->dims[g->prefix_count];
    for (uint32_t i = 0; i < s->rank; i++) {
        sizes[i + 1] = s->dims[i];
        to[i] = i + 1;
    }
    const Shape *wide = rw_shape(r, s->dtype, s->rank + 1, sizes);
    Instruction *operands[3] = {in_group(g, wide->rank, sizes, along + 1, dims),
                                rw_broadcast(r, wide, x, s->rank, to),
                                rw_splat(r, wide, 0.0)};
    return rw_add(r, OP_SELECT, wide, 3, operands);
}

static Ints after_group(Rewriter *r, Ints dims, bool with_group)
{
    int64_t *to = ARENA_ARRAY(r->scratch, int64_t, dims.count + 1);
    uint32_t n = 0;
    if (with_group)
        to[n++] = 0;
    for (uint32_t i = 0; i < dims.count; i++)
        to[n++] = dims.data[i] + 1;
    return (Ints){to, n};
}

static Instruction *ragged_summed(Ragged *g)
{
    Rewriter *r = g->r;
    uint32_t n = g->prefix_count;
    int64_t *left = ARENA_ARRAY(r->scratch, int64_t, n + 1);
    int64_t *right = ARENA_ARRAY(r->scratch, int64_t, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        int64_t batch = ints_find(g->lhs_batch, g->prefix[i]);
        int64_t sum = ints_find(g->lhs_sum, g->prefix[i]);
        left[i] = g->prefix[i] + 1;
        right[i] = (batch >= 0 ? g->rhs_batch.data[batch] : g->rhs_sum.data[sum]) + 1;
    }
    left[n] = right[n] = 0;
    int64_t other = g->rhs_sum.data[ints_find(g->lhs_sum, g->dim)];
    Ragged each = *g;
    each.lhs = masked(g, g->lhs, g->dim, left);
    each.rhs = masked(g, g->rhs, other, right);
    each.lhs_batch = after_group(r, g->lhs_batch, true);
    each.rhs_batch = after_group(r, g->rhs_batch, true);
    each.lhs_sum = after_group(r, g->lhs_sum, false);
    each.rhs_sum = after_group(r, g->rhs_sum, false);
    return plain_dot(&each, g->inst->shape);
}

static Instruction *ragged_dot(Rewriter *r, Instruction *inst)
{
    Ints ragged = inst_ints(inst, ATTR_LHS_RAGGED_DIMS);
    Ints group = inst_ints(inst, ATTR_RHS_GROUP_DIMS);
    for (uint32_t i = 0; i < 3; i++)
        if (!rw_is_static(inst->operands[i]->shape))
            return NULL;
    if (ragged.count != 1 || !rw_is_static(inst->shape) ||
        ragged_dot_has_kernel(inst, r->cx->target))
        return NULL;
    Ragged g = {.r = r,
                .inst = inst,
                .lhs = inst->operands[0],
                .rhs = inst->operands[1],
                .sizes = inst->operands[2],
                .lhs_batch = inst_ints(inst, ATTR_LHS_BATCH_DIMS),
                .lhs_sum = inst_ints(inst, ATTR_LHS_CONTRACTING_DIMS),
                .rhs_batch = inst_ints(inst, ATTR_RHS_BATCH_DIMS),
                .rhs_sum = inst_ints(inst, ATTR_RHS_CONTRACTING_DIMS),
                .dim = ragged.data[0]};
    if (ints_find(g.lhs_batch, g.dim) >= 0)
        return plain_dot(&g, inst->shape);
    bool summed = ints_find(g.lhs_sum, g.dim) >= 0;
    if ((!summed && group.count != 1) || !find_prefix(&g, summed))
        return NULL;
    find_bounds(&g);
    return summed ? ragged_summed(&g) : ragged_free(&g, group.data[0]);
}

const Rule rules_expand_ragged[] = {
    {OP_RAGGED_DOT, "ragged_dot", ragged_dot},
    {0},
};
