/* The verifier's rules about which devices talk to each other (9.5 of the language). */
#include "ir/verify_rules.h"

static bool is_all_reduce(OpCode op)
{
    return op == OP_ALL_REDUCE || op == OP_ALL_REDUCE_START;
}

static void check_all_reduce(Verify *v, const Instruction *inst)
{
    const Attr *channel = inst_attr(inst, ATTR_CHANNEL_ID);
    if (channel && channel->i <= 0)
        verify_error(v, inst, "channel_id must be positive, but is %lld",
                     (long long)channel->i);
    if (!v->all_reduce)
        v->all_reduce = inst;
    if (inst_bool(v->all_reduce, ATTR_CONSTRAIN_LAYOUT) !=
        inst_bool(inst, ATTR_CONSTRAIN_LAYOUT))
        verify_error(v, inst, "one of it and %s has constrain_layout, one has not",
                     v->all_reduce->name);
}

/* All the chunks are of one layout: they are exchanged as bytes. */
static void check_all_to_all(Verify *v, const Instruction *inst)
{
    for (uint32_t i = 1; i < inst->operand_count; i++)
        if (!shape_layouts_equal(inst->operands[0]->shape, inst->operands[i]->shape)) {
            verify_error(v, inst, "operands must have one layout, but are %s and %s",
                         verify_text(v, inst->operands[0]->shape),
                         verify_text(v, inst->operands[i]->shape));
            return;
        }
}

/* How many tuples of start indices the in-place form has: its slices. */
static size_t slice_count(const Shape *offsets)
{
    bool one = shape_is_tuple(offsets) && offsets->rank > 0 &&
               shape_is_array(offsets->elements[0]);
    return one || !shape_is_tuple(offsets) ? 1 : offsets->rank;
}

/* Slices of one array, or of the arrays of a tuple, and their offsets. */
static void check_in_place(Verify *v, const Instruction *inst)
{
    const Shape *in = inst->operands[0]->shape, *out = inst->operands[1]->shape;
    const Shape *from = inst->operands[2]->shape, *to = inst->operands[3]->shape;
    bool fits = shape_is_tuple(in) == shape_is_tuple(out) || shape_is_array(in);
    if (shape_is_tuple(out)) {
        fits = fits && shape_is_tuple(in) && in->rank == out->rank &&
               shape_is_tuple(from) && from->rank == in->rank && shape_is_tuple(to) &&
               to->rank == out->rank;
        for (uint32_t i = 0; fits && i < out->rank; i++)
            fits = in->elements[i]->dtype == out->elements[i]->dtype &&
                   in->elements[i]->rank == out->elements[i]->rank &&
                   slice_count(from->elements[i]) == slice_count(to->elements[i]);
    } else {
        fits = fits && in->dtype == out->dtype && in->rank == out->rank &&
               slice_count(from) == slice_count(to);
    }
    if (!fits)
        verify_error(v, inst, "input %s at %s does not fit output %s at %s",
                     verify_text(v, in), verify_text(v, from), verify_text(v, out),
                     verify_text(v, to));
}

/* How often one source or target may occur. */
static int64_t pair_limit(const Instruction *inst)
{
    if (!inst_has(inst, ATTR_PERMUTE_SLICE_SIZES))
        return 1;
    const Shape *offsets = inst->operands[2]->shape;
    if (!shape_is_tuple(inst->operands[0]->shape))
        return (int64_t)slice_count(offsets);
    int64_t most = 1;
    for (uint32_t i = 0; shape_is_tuple(offsets) && i < offsets->rank; i++)
        if ((int64_t)slice_count(offsets->elements[i]) > most)
            most = (int64_t)slice_count(offsets->elements[i]);
    return most;
}

static void check_pairs(Verify *v, const Instruction *inst)
{
    IntLists pairs = inst_int_lists(inst, ATTR_SOURCE_TARGET_PAIRS);
    bool cross_partition = inst_has(inst, ATTR_CHANNEL_ID);
    int64_t devices =
        cross_partition ? v->m->config.num_partitions : v->m->config.replica_count;
    int64_t limit = pair_limit(inst), most = 0;
    for (uint32_t i = 0; i < pairs.count; i++)
        for (uint32_t side = 0; side < 2; side++)
            if (pairs.data[i].data[side] > most)
                most = pairs.data[i].data[side];
    if (devices > 1 && most >= devices) {
        verify_error(v, inst, "source_target_pairs names device %lld of %lld",
                     (long long)most, (long long)devices);
        return;
    }
    if (most > (int64_t)1 << 24) {
        verify_error(v, inst, "source_target_pairs names device %lld", (long long)most);
        return;
    }
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t *count = ARENA_ARRAY(v->scratch, uint32_t, (size_t)most + 1);
        for (uint32_t i = 0; i < pairs.count; i++)
            if (++count[pairs.data[i].data[side]] == limit + 1)
                verify_error(v, inst,
                             "source_target_pairs: %lld is more than %lld times a %s",
                             (long long)pairs.data[i].data[side], (long long)limit,
                             side == 0 ? "source" : "target");
    }
}

void verify_collective(Verify *v, const Instruction *inst)
{
    if (is_all_reduce(inst->op))
        check_all_reduce(v, inst);
    if (inst->op == OP_ALL_TO_ALL)
        check_all_to_all(v, inst);
    if (inst_has(inst, ATTR_SOURCE_TARGET_PAIRS)) {
        if (inst_has(inst, ATTR_PERMUTE_SLICE_SIZES))
            check_in_place(v, inst);
        check_pairs(v, inst);
    }
}
