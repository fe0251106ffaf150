#include "ir/custom_call.h"

#include <string.h>

bool custom_call_has_target(const Instruction *inst, const char *name)
{
    Bytes target = inst_bytes(inst, ATTR_CUSTOM_CALL_TARGET);
    return inst->op == OP_CUSTOM_CALL && target.length == strlen(name) &&
           memcmp(target.data, name, target.length) == 0;
}

static const Shape *unwrapped(const Shape *s)
{
    return s->dtype == DT_BUFFER ? s->elements[0] : s;
}

bool custom_call_is_marker(const Instruction *inst)
{
    static const char *const targets[] = {
        "Sharding",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "LayoutConstraint",
        "MoveToHost",
        "MoveToDevice",
        "ShardBarrierFrom",
        "ShardBarrierTo",
        "PinToDevice",
        "annotate_device_placement",
        "xla.sdy.FuncResultSharding",
        "Pin",
        "Unpin",
        "AssumeGatherIndicesInBound",
    };
    if (inst->op != OP_CUSTOM_CALL || inst->operand_count == 0 ||
        !shape_compatible(unwrapped(inst->shape), unwrapped(inst->operands[0]->shape)))
        return false;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        if (custom_call_has_target(inst, targets[i]))
            return true;
    }
    return false;
}

bool custom_call_is_topk(const Instruction *inst)
{
    if (!custom_call_has_target(inst, "TopK") || inst->operand_count != 1 ||
        inst->shape->dtype != DT_TUPLE || inst->shape->rank != 2)
        return false;
    const Shape *x = inst->operands[0]->shape, *values = inst->shape->elements[0],
                *positions = inst->shape->elements[1];
    if (!shape_is_array(x) || x->rank == 0 || values->dtype != x->dtype ||
        values->rank != x->rank || positions->dtype != DT_S32 ||
        positions->rank != x->rank)
        return false;
    for (uint32_t i = 0; i < x->rank; i++) {
        bool last = i + 1 == x->rank;
        if (positions->dims[i] != values->dims[i] ||
            (last ? values->dims[i] > x->dims[i] : values->dims[i] != x->dims[i]))
            return false;
    }
    return true;
}

bool custom_call_is_pad_to_static(const Instruction *inst)
{
    if (!custom_call_has_target(inst, "PadToStatic") || inst->operand_count != 1 ||
        inst->shape->dtype != DT_TUPLE)
        return false;
    const Shape *x = inst->operands[0]->shape;
    if (!shape_is_array(x) || inst->shape->rank != x->rank + 1 ||
        !shape_compatible(inst->shape->elements[0], x))
        return false;
    for (uint32_t d = 0; d < x->rank; d++) {
        const Shape *size = inst->shape->elements[d + 1];
        if (!shape_is_scalar(size) || size->dtype != DT_S32)
            return false;
    }
    return true;
}

bool custom_call_is_slice_to_dynamic(const Instruction *inst)
{
    if (!custom_call_has_target(inst, "SliceToDynamic") || !shape_is_array(inst->shape) ||
        inst->operand_count != inst->shape->rank + 1 ||
        !shape_compatible(inst->operands[0]->shape, inst->shape))
        return false;
    for (uint32_t d = 0; d < inst->shape->rank; d++) {
        const Shape *size = inst->operands[d + 1]->shape;
        if (!shape_is_scalar(size) || size->dtype != DT_S32)
            return false;
    }
    return true;
}
