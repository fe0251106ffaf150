/* Seconds of collectives: messages between devices, over links or the network. See work.h. */
#include "ir/analysis/collective.h"
#include "ir/kernel/time/costs.h"
#include "ir/kernel/time/work.h"

static double bytes(const Shape *s)
{
    double n = 0;
    for (size_t leaf = 0; leaf < shape_leaf_count(s); leaf++)
        n += (double)shape_bytes(shape_leaf(s, leaf));
    return n;
}

static double operand_bytes(const Instruction *inst)
{
    double n = 0;
    for (uint32_t k = 0; k < inst->operand_count; k++)
        n += bytes(inst->operands[k]->shape);
    return n;
}

/* Whether all devices of each list are joined by links. */
static bool is_linked(const GpuModel *d, IntLists lists)
{
    int64_t n = d->linked_devices;
    for (uint32_t i = 0; i < lists.count; i++) {
        for (uint32_t k = 1; k < lists.data[i].count; k++) {
            if (lists.data[i].data[k] / n != lists.data[i].data[0] / n)
                return false;
        }
    }
    return true;
}

static double message_seconds(const GpuModel *d, bool linked, double messages,
                              double sent)
{
    double rate = linked ? d->link_gigabytes_per_second : d->network_gigabytes_per_second;
    double latency = linked ? d->link_nanoseconds : d->network_nanoseconds;
    return costs.collective_seconds + messages * latency * 1e-9 +
           sent / (rate * 1e9 * costs.link_fraction);
}

double transfer_seconds(const Instruction *inst, const GpuModel *d, Arena *scratch)
{
    bool is_permute = op_plain(inst->op) == OP_COLLECTIVE_PERMUTE;
    double size = operand_bytes(inst);
    if (inst->op == OP_SEND || inst->op == OP_RECV)
        return message_seconds(d, true, 1,
                               bytes(inst->op == OP_SEND ? inst->operands[0]->shape
                                                         : inst->shape->elements[0]));
    IntLists lists =
        is_permute ? collective_pairs(scratch, inst) : collective_groups(scratch, inst);
    bool linked = is_linked(d, lists);
    double n = lists.count == 0 ? 1 : lists.data[0].count;
    double others = n - 1, part = n == 0 ? 0 : others / n;
    switch (op_plain(inst->op)) {
    case OP_ALL_REDUCE: /* a ring: scattered, then gathered */
        return message_seconds(d, linked, 2 * others, 2 * size * part);
    case OP_ALL_GATHER:
        return message_seconds(d, linked, others, size * others);
    case OP_REDUCE_SCATTER:
        return message_seconds(d, linked, others, size * part);
    case OP_ALL_TO_ALL:
    case OP_RAGGED_ALL_TO_ALL:
        return message_seconds(d, linked, 1, size * part);
    default:
        return message_seconds(d, linked, 1, size);
    }
}
