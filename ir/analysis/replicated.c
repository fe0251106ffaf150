/* See replicated.h. Forward through caller and body: constants are the same everywhere, numbers
 * of devices and what is computed of them where a group shares them, results of all-reduces and all-gathers among the same
 * devices, and what is computed from such. What the loop carries is assumed to be the same if
 * its first value is, and the assumption is dropped where the next value is not, until nothing
 * changes; after a few rounds all assumptions are. */
#include "ir/analysis/replicated.h"

#include "ir/analysis/collective.h"
#include "ir/analysis/device_value.h"

enum { ROUNDS_MOST = 8, DEVICES_MOST = 4096 };

typedef struct Facts {
    Arena *scratch;
    const Instruction *const *loops; /* as device_value wants them */
    int64_t partitions;
    IntLists groups;
    int64_t devices;                 /* in all groups */
    bool one_replica, one_partition; /* of each group: all have the same number */
} Facts;

static bool share(IntLists groups, int64_t divisor, bool quotient)
{
    for (uint32_t g = 0; g < groups.count; g++) {
        Ints ids = groups.data[g];
        for (uint32_t i = 1; i < ids.count; i++) {
            bool same = quotient ? ids.data[i] / divisor == ids.data[0] / divisor
                                 : ids.data[i] % divisor == ids.data[0] % divisor;
            if (!same)
                return false;
        }
    }
    return true;
}

/* A number that is computed of the device's own, as table[partition-id]: the same in each group. */
static bool has_equal_values(const Facts *f, const Instruction *inst)
{
    int64_t first = 0, value;
    if (!shape_is_array(inst->shape) || shape_elements(inst->shape) != 1 ||
        f->devices == 0 || f->devices > DEVICES_MOST)
        return false;
    for (uint32_t g = 0; g < f->groups.count; g++) {
        Ints ids = f->groups.data[g];
        for (uint32_t i = 0; i < ids.count; i++) {
            if (!device_value(inst, f->loops, ids.data[i] / f->partitions,
                              ids.data[i] % f->partitions, &value) ||
                (i > 0 && value != first))
                return false;
            first = value;
        }
    }
    return true;
}

static bool is_function_of_operands(const Instruction *inst)
{
    if (op_is(inst->op, OPF_RANDOM | OPF_EFFECT | OPF_COLLECTIVE) ||
        inst->operand_count == 0)
        return false;
    return op_is(inst->op, OPF_ELEMENTWISE | OPF_MOVES) || inst->op == OP_BROADCAST ||
           inst->op == OP_REDUCE || inst->op == OP_DOT ||
           inst->op == OP_GET_TUPLE_ELEMENT || inst->op == OP_TUPLE;
}

/* elements: of the parameter that the loop's body has; NULL: nothing is known of parameters. */
static bool holds(const Facts *f, const Instruction *inst, const bool *known,
                  const bool *elements)
{
    switch (inst->op) {
    case OP_CONSTANT:
    case OP_IOTA:
        return true;
    case OP_REPLICA_ID:
        return f->one_replica;
    case OP_PARTITION_ID:
        return f->one_partition;
    case OP_ALL_REDUCE:
    case OP_ALL_GATHER:
        return collective_groups_equal(f->groups, collective_groups(f->scratch, inst));
    case OP_GET_TUPLE_ELEMENT:
        if (inst->operands[0]->op == OP_PARAMETER)
            return elements != NULL && elements[inst_int(inst, ATTR_INDEX, 0)];
        break;
    default:
        break;
    }
    bool all = is_function_of_operands(inst);
    for (uint32_t i = 0; all && i < inst->operand_count; i++)
        all = known[inst->operands[i]->id];
    return all || has_equal_values(f, inst);
}

static bool *mark(const Facts *f, const Computation *comp, const bool *elements)
{
    bool *known = ARENA_ARRAY(f->scratch, bool, (size_t)comp->instruction_count + 1);
    uint32_t n;
    Instruction **order = computation_post_order(comp, f->scratch, &n);
    for (uint32_t i = 0; i < n; i++)
        known[order[i]->id] = holds(f, order[i], known, elements);
    return known;
}

const bool *replicated_in_loop(Arena *scratch, const Instruction *loop,
                               const Instruction *collective)
{
    const Computation *body = inst_called(loop, 1);
    const Instruction *init = loop->operands[0];
    int64_t partitions = body->module->config.num_partitions;
    Facts f = {.scratch = scratch,
               .loops = device_value_loops(body->module, scratch),
               .partitions = partitions,
               .groups = collective_groups(scratch, collective)};
    for (uint32_t g = 0; g < f.groups.count; g++)
        f.devices += f.groups.data[g].count;
    f.one_replica = share(f.groups, partitions, true);
    f.one_partition = share(f.groups, partitions, false);
    uint32_t n = loop->shape->rank;
    bool *elements = ARENA_ARRAY(scratch, bool, (size_t)n + 1);
    if (init->op == OP_TUPLE) {
        const bool *outside = mark(&f, loop->parent, NULL);
        for (uint32_t i = 0; i < n; i++)
            elements[i] = outside[init->operands[i]->id];
    }
    for (int round = 0;; round++) {
        const bool *known = mark(&f, body, elements);
        bool stable = true;
        for (uint32_t i = 0; i < n; i++) {
            bool next = body->root->op == OP_TUPLE && known[body->root->operands[i]->id];
            stable &= next || !elements[i];
            elements[i] = elements[i] && next && round < ROUNDS_MOST;
        }
        if (stable)
            return known;
    }
}
