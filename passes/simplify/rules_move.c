/* Rules of reshape, broadcast, transpose, reverse, copy, iota and constants.
 *
 * Measure: number of operations that move, then transposes before broadcasts before reshapes
 * (a reshape of default layouts costs nothing), then elements of constants. */
#include <string.h>

#include "passes/simplify/rewrite.h"

/* x of the same shape, layout included */
static Instruction *same_shape(Rewriter *r, Instruction *inst)
{
    (void)r;
    return rw_as(inst, inst->operands[0]);
}

/* reshape(reshape(x)) -> reshape(x) */
static Instruction *reshape_reshape(Rewriter *r, Instruction *inst)
{
    Instruction *a = inst->operands[0];
    if (a->op != OP_RESHAPE || !rw_is_static(a->shape) || !rw_is_static(inst->shape))
        return NULL;
    return rw_reshape(r, inst->shape, a->operands[0]);
}

/* Where the dimensions of `from` go in `to`, of equal sizes but for dimensions of size 1,
 * which go nowhere (-1). */
static void match_dims(const Shape *from, const Shape *to, int64_t *out)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < from->rank; i++) {
        out[i] = -1;
        if (from->dims[i] == 1)
            continue;
        while (to->dims[k] == 1)
            k++;
        out[i] = k++;
    }
}

/* reshape(broadcast(x)) -> broadcast(reshape(x)) where only dimensions of size 1 come or go */
static Instruction *reshape_broadcast(Rewriter *r, Instruction *inst)
{
    Instruction *b = inst->operands[0];
    if (b->op != OP_BROADCAST || !rw_is_static(b->shape) || !rw_is_static(inst->shape))
        return NULL;
    Instruction *x = b->operands[0];
    if (x->shape->rank == 0)
        return rw_broadcast(r, inst->shape, x, 0, NULL);
    if (!rw_same_but_ones(b->shape, inst->shape) || rw_is_zero_size(b->shape))
        return NULL;
    Ints dims = inst_ints(b, ATTR_DIMENSIONS);
    int64_t *to = ARENA_ARRAY(r->scratch, int64_t, b->shape->rank);
    match_dims(b->shape, inst->shape, to);
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, dims.count);
    int64_t *kept = ARENA_ARRAY(r->scratch, int64_t, dims.count);
    uint32_t n = 0;
    for (uint32_t i = 0; i < dims.count; i++) {
        if (x->shape->dims[i] == 1)
            continue;
        sizes[n] = x->shape->dims[i];
        kept[n++] = to[dims.data[i]];
    }
    const Shape *s =
        n == x->shape->rank ? x->shape : rw_shape(r, x->shape->dtype, n, sizes);
    return rw_broadcast(r, inst->shape, rw_reshape(r, s, x), n, kept);
}

/* broadcast(broadcast(x)) -> broadcast(x) */
static Instruction *broadcast_broadcast(Rewriter *r, Instruction *inst)
{
    Instruction *b = inst->operands[0];
    if (b->op != OP_BROADCAST)
        return NULL;
    Ints outer = inst_ints(inst, ATTR_DIMENSIONS), inner = inst_ints(b, ATTR_DIMENSIONS);
    const int64_t *dims = rw_through(r, outer, inner);
    return rw_broadcast(r, inst->shape, b->operands[0], inner.count, dims);
}

/* broadcast(x) that adds dimensions of size 1 only -> reshape(x); none at all -> x */
static Instruction *broadcast_nothing(Rewriter *r, Instruction *inst)
{
    Instruction *x = inst->operands[0];
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    if (!rw_is_static(x->shape) || !rw_is_static(inst->shape) || !ints_ascend(dims))
        return NULL;
    if (shape_elements(x->shape) != shape_elements(inst->shape) ||
        rw_is_zero_size(inst->shape))
        return NULL;
    if (x->shape->rank == inst->shape->rank && x->shape != inst->shape)
        return NULL;
    if (x->shape->rank == 0 && x->op == OP_CONSTANT)
        return NULL; /* it is the normal form of a constant */
    return rw_reshape(r, inst->shape, x);
}

/* broadcast(reshape(x)) where the reshape adds dimensions of size 1 -> broadcast(x) */
static Instruction *broadcast_reshape(Rewriter *r, Instruction *inst)
{
    Instruction *a = inst->operands[0];
    if (a->op != OP_RESHAPE || !rw_is_static(a->shape))
        return NULL;
    Instruction *x = a->operands[0];
    if (x->shape->rank >= a->shape->rank || !rw_same_but_ones(x->shape, a->shape) ||
        rw_is_zero_size(a->shape))
        return NULL;
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    int64_t *to = ARENA_ARRAY(r->scratch, int64_t, x->shape->rank);
    match_dims(x->shape, a->shape, to);
    for (uint32_t i = 0; i < x->shape->rank; i++) {
        if (to[i] < 0)
            return NULL; /* a dimension of size 1 in x itself */
        to[i] = dims.data[to[i]];
    }
    return rw_broadcast(r, inst->shape, x, x->shape->rank, to);
}

/* transpose by the identity -> x */
static Instruction *transpose_nothing(Rewriter *r, Instruction *inst)
{
    (void)r;
    Ints p = inst_ints(inst, ATTR_DIMENSIONS);
    return rw_is_identity(p.data, p.count) ? rw_as(inst, inst->operands[0]) : NULL;
}

/* transpose(transpose(x, p), q) -> transpose(x, p[q]) */
static Instruction *transpose_transpose(Rewriter *r, Instruction *inst)
{
    Instruction *a = inst->operands[0];
    if (a->op != OP_TRANSPOSE)
        return NULL;
    Ints p = inst_ints(a, ATTR_DIMENSIONS), q = inst_ints(inst, ATTR_DIMENSIONS);
    const int64_t *dims = rw_through(r, p, q);
    if (rw_is_identity(dims, q.count) && a->operands[0]->shape == inst->shape)
        return a->operands[0];
    return rw_transpose(r, inst->shape, a->operands[0], dims);
}

/* transpose that moves dimensions of size 1 only -> reshape */
static Instruction *transpose_ones(Rewriter *r, Instruction *inst)
{
    const Shape *s = inst->operands[0]->shape;
    Ints p = inst_ints(inst, ATTR_DIMENSIONS);
    int64_t last = -1;
    if (!rw_is_static(s) || rw_is_identity(p.data, p.count) ||
        !layout_is_default(s->layout) || !layout_is_default(inst->shape->layout))
        return NULL;
    for (uint32_t i = 0; i < p.count; i++) {
        if (s->dims[p.data[i]] == 1)
            continue;
        if (p.data[i] < last)
            return NULL;
        last = p.data[i];
    }
    return rw_reshape(r, inst->shape, inst->operands[0]);
}

/* transpose(broadcast(x)) -> broadcast(x) */
static Instruction *transpose_broadcast(Rewriter *r, Instruction *inst)
{
    Instruction *b = inst->operands[0];
    if (b->op != OP_BROADCAST)
        return NULL;
    Ints p = inst_ints(inst, ATTR_DIMENSIONS), dims = inst_ints(b, ATTR_DIMENSIONS);
    int64_t *position = ARENA_ARRAY(r->scratch, int64_t, p.count);
    for (uint32_t i = 0; i < p.count; i++)
        position[p.data[i]] = i;
    int64_t *moved = ARENA_ARRAY(r->scratch, int64_t, dims.count);
    for (uint32_t i = 0; i < dims.count; i++)
        moved[i] = position[dims.data[i]];
    if (!ints_ascend((Ints){moved, dims.count}))
        return NULL;
    return rw_broadcast(r, inst->shape, b->operands[0], dims.count, moved);
}

/* reverse of dimensions of size 1 only -> x */
static Instruction *reverse_nothing(Rewriter *r, Instruction *inst)
{
    (void)r;
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < dims.count; i++)
        if (inst->shape->dims[dims.data[i]] > 1)
            return NULL;
    return rw_as(inst, inst->operands[0]);
}

/* reverse(reverse(x)) by the same dimensions -> x; reverse(broadcast of a scalar) -> that */
static Instruction *reverse_again(Rewriter *r, Instruction *inst)
{
    (void)r;
    Instruction *a = inst->operands[0];
    if (rw_splat_of(a))
        return rw_as(inst, a);
    if (a->op != OP_REVERSE)
        return NULL;
    Ints p = inst_ints(inst, ATTR_DIMENSIONS), q = inst_ints(a, ATTR_DIMENSIONS);
    if (p.count != q.count)
        return NULL;
    for (uint32_t i = 0; i < p.count; i++)
        if (p.data[i] != q.data[i])
            return NULL;
    return rw_as(inst, a->operands[0]);
}

/* iota along a dimension of size 1 -> zeros */
static Instruction *iota_of_one(Rewriter *r, Instruction *inst)
{
    int64_t d = inst_int(inst, ATTR_IOTA_DIMENSION, 0);
    if (inst->shape->dims[d] > 1 || !rw_is_static(inst->shape))
        return NULL;
    return rw_splat(r, inst->shape, 0.0);
}

/* An array of equal elements -> broadcast of one. */
static Instruction *constant_splat(Rewriter *r, Instruction *inst)
{
    const Literal *l = inst->literal;
    if (!shape_is_array(inst->shape) || inst->shape->rank == 0 || !l || l->elided ||
        l->count == 0 || !rw_is_static(inst->shape))
        return NULL;
    size_t bytes = literal_bytes(l) / (size_t)l->count;
    const unsigned char *data = l->data;
    if (literal_bytes(l) > bytes &&
        memcmp(data, data + bytes, literal_bytes(l) - bytes) != 0)
        return NULL;
    Literal *scalar =
        literal_create(r->m->arena, shape_scalar(r->m->intern, inst->shape->dtype));
    memcpy(scalar->data, data, bytes);
    return rw_broadcast(r, inst->shape, rw_constant(r, scalar), 0, NULL);
}

/* Numbers that count up or down: the first one and the step. */
static bool is_progression(const Literal *l, int64_t *start, int64_t *step)
{
    int64_t last = *start = literal_int(l, 0);
    *step = 0;
    for (int64_t i = 1; i < l->count; i++) {
        int64_t x = literal_int(l, i), apart;
        if (__builtin_sub_overflow(x, last, &apart) || (i > 1 && apart != *step))
            return false;
        *step = apart;
        last = x;
    }
    return true;
}

/* Computed with only, by element: as indices they say more where they are constants. */
static bool is_computed_with(Rewriter *r, const Instruction *inst)
{
    const Uses *uses = rw_uses(r);
    if (inst->id >= r->known || inst == r->comp->root)
        return false;
    for (uint32_t i = 0; i < uses_count(uses, inst); i++) {
        const Instruction *user = uses->list[uses->start[inst->id] + i];
        if (!op_is(user->op, OPF_ELEMENTWISE) && user->op != OP_BROADCAST &&
            user->op != OP_RESHAPE)
            return false;
    }
    return uses_count(uses, inst) != 0;
}

/* {start, start + step, ...} -> iota * step + start: then masks made of such numbers are seen as bands */
static Instruction *constant_iota(Rewriter *r, Instruction *inst)
{
    enum { LEAST = 32 };
    const Literal *l = inst->literal;
    const Shape *s = inst->shape;
    int64_t start, step;
    uint32_t dim = 0;
    if (!rw_is_static(s) || s->rank == 0 || !dtype_is_integer(s->dtype) || l->elided ||
        l->count < LEAST)
        return NULL;
    while (s->dims[dim] == 1)
        dim++;
    if (s->dims[dim] != l->count || !is_progression(l, &start, &step) ||
        !is_computed_with(r, inst))
        return NULL;
    Instruction *x = rw_add(r, OP_IOTA, s, 0, NULL);
    inst_set_int(x, ATTR_IOTA_DIMENSION, dim);
    if (step != 1)
        x = rw_binary(r, OP_MULTIPLY, s, x, rw_splat_int(r, s, step));
    return start == 0 ? x : rw_binary(r, OP_ADD, s, x, rw_splat_int(r, s, start));
}

/* reshape, transpose, ... of a splat -> the splat in the new shape */
static Instruction *move_splat(Rewriter *r, Instruction *inst)
{
    Instruction *a = inst->operands[0];
    if (!rw_splat_of(a) || !rw_is_static(inst->shape))
        return NULL;
    Instruction *scalar = a->op == OP_BROADCAST ? a->operands[0] : a;
    return rw_broadcast(r, inst->shape, scalar, 0, NULL);
}

const Rule rules_move[] = {
    {OP_COPY, "same_shape", same_shape},
    {OP_RESHAPE, "same_shape", same_shape},
    {OP_BITCAST, "same_shape", same_shape},
    {OP_RESHAPE, "reshape_reshape", reshape_reshape},
    {OP_RESHAPE, "move_splat", move_splat},
    {OP_RESHAPE, "reshape_broadcast", reshape_broadcast},
    {OP_BROADCAST, "broadcast_broadcast", broadcast_broadcast},
    {OP_BROADCAST, "broadcast_nothing", broadcast_nothing},
    {OP_BROADCAST, "broadcast_reshape", broadcast_reshape},
    {OP_TRANSPOSE, "transpose_nothing", transpose_nothing},
    {OP_TRANSPOSE, "move_splat", move_splat},
    {OP_TRANSPOSE, "transpose_transpose", transpose_transpose},
    {OP_TRANSPOSE, "transpose_ones", transpose_ones},
    {OP_TRANSPOSE, "transpose_broadcast", transpose_broadcast},
    {OP_REVERSE, "reverse_nothing", reverse_nothing},
    {OP_REVERSE, "reverse_again", reverse_again},
    {OP_IOTA, "iota_of_one", iota_of_one},
    {OP_CONSTANT, "constant_splat", constant_splat},
    {OP_CONSTANT, "constant_iota", constant_iota},
    {0},
};
