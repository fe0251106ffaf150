/* collective-identities: collectives that do nothing go.
 *
 *   all-reduce(x) in groups of one           -> x          (all-gather, reduce-scatter, ... too)
 *   all-reduce(the same everywhere), maximum -> x          add, in groups of n -> x * n
 *   dynamic-slice(all-gather(x), own part)   -> x
 *
 * Needs: nothing. Keeps: values; what has control edges, keeps a layout or is in a scheduling
 * group. Ends: each rule leaves fewer collectives; one sweep, operands first. */
#include "ir/analysis/collective.h"
#include "passes/collectives/collectives.h"
#include "passes/collectives/combine/sweep.h"

static bool in_groups_of_one(Sweep *s, const Instruction *inst)
{
    IntLists groups = collective_groups(s->scratch, inst);
    for (uint32_t g = 0; g < groups.count; g++) {
        if (groups.data[g].count != 1)
            return false;
    }
    return true;
}

static bool permutes_nothing(Sweep *s, const Instruction *inst)
{
    const ModuleConfig *c = &s->m->config;
    IntLists pairs = collective_pairs(s->scratch, inst);
    for (uint32_t i = 0; i < pairs.count; i++) {
        if (pairs.data[i].data[0] != pairs.data[i].data[1])
            return false;
    }
    return pairs.count == c->replica_count * c->num_partitions;
}

/* The same bytes on every device: made of a constant. */
static bool is_the_same_everywhere(const Instruction *x)
{
    for (int depth = 0; depth < 8 && x->operand_count == 1; depth++) {
        if (x->op != OP_BROADCAST && x->op != OP_RESHAPE && x->op != OP_CONVERT &&
            x->op != OP_COPY && x->op != OP_TRANSPOSE && x->op != OP_SLICE)
            return false;
        x = x->operands[0];
    }
    return x->op == OP_CONSTANT || x->op == OP_IOTA;
}

/* The all-reduce of equal values: n times the value, or the value. */
static Instruction *reduce_equal(Sweep *s, Instruction *inst)
{
    Instruction *x = inst->operands[0];
    IntLists groups = collective_groups(s->scratch, inst);
    OpCode op = collective_reduction(inst_called(inst, 0));
    if (op == OP_MINIMUM || op == OP_MAXIMUM || op == OP_AND || op == OP_OR)
        return x;
    for (uint32_t g = 1; g < groups.count; g++) {
        if (groups.data[g].count != groups.data[0].count)
            return NULL;
    }
    if (op != OP_ADD || dtype_is_complex(x->shape->dtype) || groups.count == 0 ||
        dtype_info[x->shape->dtype].bits < 16)
        return NULL; /* the number might not fit the type */
    Instruction *n =
        computation_add_scalar(s->comp, x->shape->dtype, (double)groups.data[0].count);
    if (x->shape->rank != 0) {
        n = computation_add(s->comp, OP_BROADCAST, x->shape, 1, &n, NULL);
        inst_set_ints(n, ATTR_DIMENSIONS, NULL, 0);
    }
    Instruction *operands[2] = {x, n};
    return computation_add(s->comp, OP_MULTIPLY, x->shape, 2, operands, NULL);
}

static Instruction *identity(Sweep *s, Instruction *inst)
{
    if (inst->op == OP_DYNAMIC_SLICE) {
        Instruction *gather = inst->operands[0];
        bool own = gather->op == OP_ALL_GATHER && sweep_is_plain(gather) &&
                   inst->control_count == 0 &&
                   shape_compatible(gather->operands[0]->shape, inst->shape) &&
                   sweep_own_dimension(s, inst, gather) ==
                       inst_ints(gather, ATTR_DIMENSIONS).data[0];
        return own ? gather->operands[0] : NULL;
    }
    if (!op_is(inst->op, OPF_COLLECTIVE) || !sweep_is_plain(inst))
        return NULL;
    Instruction *x = inst->operands[0];
    switch (inst->op) {
    case OP_ALL_REDUCE:
        if (!sweep_reduces_in_its_type(inst))
            return NULL;
        if (in_groups_of_one(s, inst))
            return x;
        return is_the_same_everywhere(x) ? reduce_equal(s, inst) : NULL;
    case OP_REDUCE_SCATTER:
        return sweep_reduces_in_its_type(inst) && in_groups_of_one(s, inst) ? x : NULL;
    case OP_ALL_GATHER:
    case OP_ALL_TO_ALL:
        return in_groups_of_one(s, inst) && shape_compatible(x->shape, inst->shape)
                   ? x
                   : NULL;
    case OP_COLLECTIVE_PERMUTE:
        return permutes_nothing(s, inst) ? x : NULL;
    default:
        return NULL;
    }
}

bool pass_collective_identities(Module *m, PassContext *cx)
{
    return sweep_collectives(m, cx, identity, &cx->counts.collectives_removed);
}
