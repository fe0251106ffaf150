/* All-reduces whose results a loop only stores, one step's beside the other's.
 *
 *   body { s = all-reduce(x)  b' = dynamic-update-slice(p#1, s, i, 0)   ROOT (i + 1, b') }
 *   ->  body stores x; after the loop  r = all-reduce(w#1[0:n])
 *
 * i counts from 0 by 1 to a known n; every step writes a position of its own: its index is i or
 * n - 1 - i, along a dimension in which the update has size 1; the other indices are constants,
 * with room for the update. The stored value may first be written into another array at
 * constant positions: what else that array holds is not reduced. All of it is no larger than a
 * limit: more would not be there early enough for anybody. Any reduction does: each element is
 * reduced as before. */
#include "passes/collectives/loops/code_motion.h"

enum { CHAIN_MOST = 64 };

static bool is_int(const Instruction *inst, int64_t value)
{
    return inst->op == OP_CONSTANT && inst->shape->rank == 0 &&
           dtype_is_integer(inst->shape->dtype) && literal_int(inst->literal, 0) == value;
}

/* Element i counts 0, 1, 2, ... */
static bool is_counter(const Motion *c, const Instruction *inst)
{
    if (inst->op != OP_GET_TUPLE_ELEMENT || inst->operands[0] != c->body->parameters[0] ||
        c->loop->operands[0]->op != OP_TUPLE)
        return false;
    uint32_t i = (uint32_t)inst_int(inst, ATTR_INDEX, 0);
    const Instruction *next = c->body->root->operands[i];
    if (!is_int(c->loop->operands[0]->operands[i], 0) || next->op != OP_ADD)
        return false;
    const Instruction *a = next->operands[0], *b = next->operands[1];
    return (a == inst && is_int(b, 1)) || (b == inst && is_int(a, 1));
}

/* n - 1 - i: the positions are taken from the back. */
static bool is_backwards(const Motion *c, const Instruction *inst)
{
    return inst->op == OP_SUBTRACT && is_int(inst->operands[0], c->trips - 1) &&
           is_counter(c, inst->operands[1]);
}

/* Constant indices that leave room for the update: the region moves along. */
static bool moves_region(const Instruction *update, int64_t *first, uint32_t d)
{
    const Shape *s = update->shape, *u = update->operands[1]->shape;
    const Instruction *index = update->operands[2 + d];
    if (index->op != OP_CONSTANT)
        return false;
    int64_t at = literal_int(index->literal, 0);
    if (at < 0 || at > s->dims[d] - u->dims[d])
        return false;
    first[d] += at;
    return true;
}

/* The last update: one index counts steps. The region then has all of them. */
static bool counts_steps(const Motion *c, const Instruction *update, int64_t *first,
                         int64_t *sizes, uint32_t *out)
{
    const Shape *s = update->shape, *u = update->operands[1]->shape;
    uint32_t counters = 0;
    for (uint32_t d = 0; d < s->rank; d++) {
        const Instruction *index = update->operands[2 + d];
        if (!is_counter(c, index) && !is_backwards(c, index)) {
            if (!moves_region(update, first, d))
                return false;
            continue;
        }
        if (u->dims[d] != 1 || c->trips > s->dims[d])
            return false;
        counters++;
        *out = d;
        sizes[d] = c->trips;
    }
    return counters == 1;
}

static bool is_update_by(const Instruction *inst, const Instruction *x)
{
    return inst->op == OP_DYNAMIC_UPDATE_SLICE && inst->operands[1] == x &&
           inst->operands[0] != x && inst->control_count == 0 &&
           inst_has_scalar_starts(inst) && inst->shape->dynamic == NULL;
}

/* Through reshapes and conversions that lose nothing. */
static Instruction *follow_form(const Motion *c, Instruction *x)
{
    for (int depth = 0; depth < CHAIN_MOST; depth++) {
        Instruction *next = uses_only(&c->uses, x);
        if (next == NULL || next->control_count != 0 ||
            !(next->op == OP_RESHAPE ||
              (next->op == OP_CONVERT && motion_widens(x->shape, next->shape))))
            return x;
        x = next;
    }
    return x;
}

bool motion_find_stored(Motion *c, Instruction *reduce, Instruction *given,
                        Instruction *x)
{
    if (c->trips <= 0 || shape_bytes(given->shape) > c->most_bytes / c->trips)
        return false;
    x = follow_form(c, x);
    const Shape *s = x->shape;
    int64_t *first = ARENA_ARRAY(c->scratch, int64_t, (size_t)s->rank + 1);
    int64_t *sizes = ARENA_ARRAY(c->scratch, int64_t, (size_t)s->rank + 1);
    for (uint32_t d = 0; d < s->rank; d++)
        sizes[d] = s->dims[d];
    for (int depth = 0; depth < CHAIN_MOST; depth++) {
        Instruction *update = uses_only(&c->uses, x), *next;
        if (update == NULL || !is_update_by(update, x))
            return false;
        next = uses_only(&c->uses, update);
        if (next == NULL || !is_update_by(next, update)) {
            const Instruction *present = update->operands[0];
            Accumulator a = {.reduce = reduce,
                             .given = given,
                             .update = update,
                             .first = first,
                             .sizes = sizes};
            if (present->op != OP_GET_TUPLE_ELEMENT ||
                present->operands[0] != c->body->parameters[0])
                return false;
            a.index = (uint32_t)inst_int(present, ATTR_INDEX, 0);
            if (!motion_is_next_of(c, update, present, a.index) ||
                uses_count(&c->uses, present) != 1 || c->read_by_condition[a.index] ||
                !counts_steps(c, update, first, sizes, &a.dimension))
                return false;
            c->found[c->count++] = a;
            return true;
        }
        for (uint32_t d = 0; d < s->rank; d++) {
            if (!moves_region(update, first, d))
                return false;
        }
        x = update;
    }
    return false;
}

static Instruction *put_back(Motion *c, const Accumulator *a, Instruction *local,
                             Instruction *part)
{
    const Shape *s = local->shape;
    Instruction **operands = ARENA_ARRAY(c->scratch, Instruction *, (size_t)s->rank + 2);
    operands[0] = local;
    operands[1] = part;
    for (uint32_t d = 0; d < s->rank; d++)
        operands[2 + d] = computation_add_scalar(c->caller, DT_S32, (double)a->first[d]);
    return computation_add(c->caller, OP_DYNAMIC_UPDATE_SLICE, s, s->rank + 2, operands,
                           NULL);
}

Instruction *motion_reduce_stored(Motion *c, const Accumulator *a, Instruction *local)
{
    const Shape *s = local->shape;
    SliceDim *dims = ARENA_ARRAY(c->m->arena, SliceDim, (size_t)s->rank + 1);
    for (uint32_t d = 0; d < s->rank; d++)
        dims[d] = (SliceDim){a->first[d], a->first[d] + a->sizes[d], 1};
    const Shape *region = shape_with_dims(c->m->intern, s, s->rank, a->sizes);
    bool whole = shape_same_dims(region, s);
    Instruction *part = local;
    if (!whole) {
        part = computation_add(c->caller, OP_SLICE, region, 1, &part, NULL);
        inst_set_slice(part, dims, s->rank);
    }
    DType own = a->given->shape->dtype;
    const Shape *stored = part->shape;
    const Shape *reduced = shape_with_dtype(c->m->intern, stored, own);
    if (own != s->dtype)
        part = computation_add(c->caller, OP_CONVERT, reduced, 1, &part, NULL);
    part = motion_reduce(c, a, reduced, part);
    if (own != s->dtype)
        part = computation_add(c->caller, OP_CONVERT, stored, 1, &part, NULL);
    return whole ? part : put_back(c, a, local, part);
}
