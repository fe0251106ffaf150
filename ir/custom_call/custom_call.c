/* See custom_call.h. */
#include "ir/custom_call/custom_call.h"

#include <string.h>

#include "ir/analysis/collective.h"

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

bool custom_call_gives_operands(const Instruction *inst)
{
    const Shape *s = inst->shape;
    if (inst->operand_count != 0 &&
        shape_compatible(unwrapped(s), unwrapped(inst->operands[0]->shape)))
        return true;
    if (!shape_is_tuple(s) || s->rank == 0 || s->rank != inst->operand_count)
        return false;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (!shape_compatible(s->elements[i], inst->operands[i]->shape))
            return false;
    }
    return true;
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
        "xla.sdy.GlobalToLocalShape",
        "xla.sdy.LocalToGlobalShape",
        "Pin",
        "Unpin",
        "AssumeGatherIndicesInBound",
    };
    if (inst->op != OP_CUSTOM_CALL || !custom_call_gives_operands(inst))
        return false;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        if (custom_call_has_target(inst, targets[i]))
            return true;
    }
    return false;
}

MemoryMove custom_call_move(const Instruction *inst)
{
    if (inst->op != OP_CUSTOM_CALL || !shape_is_array(inst->shape) ||
        !custom_call_is_marker(inst))
        return MOVE_NONE;
    if (custom_call_has_target(inst, "MoveToHost"))
        return MOVE_TO_HOST;
    if (custom_call_has_target(inst, "MoveToDevice"))
        return MOVE_TO_DEVICE;
    const char *position = custom_call_has_target(inst, "annotate_device_placement")
                               ? inst_frontend_attribute(inst, "_xla_buffer_placement")
                               : NULL;
    if (position == NULL)
        return MOVE_NONE;
    bool host =
        strcmp(position, "pinned_host") == 0 || strcmp(position, "unpinned_host") == 0;
    return host                              ? MOVE_TO_HOST
           : strcmp(position, "device") == 0 ? MOVE_TO_DEVICE
                                             : MOVE_NONE;
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

bool custom_call_is_new_buffer(const Instruction *inst)
{
    return inst->op == OP_CUSTOM_CALL && inst->operand_count == 0 &&
           shape_is_array(unwrapped(inst->shape)) &&
           (custom_call_has_target(inst, "AllocateBuffer") ||
            custom_call_has_target(inst, "CreateBuffer"));
}

bool custom_call_is_seed(const Instruction *inst)
{
    return custom_call_has_target(inst, "GetRngSeed") && inst->operand_count == 0 &&
           shape_is_scalar(inst->shape) && inst->shape->dtype == DT_U64;
}

static bool is_half_of(const Shape *half, const Shape *whole)
{
    if (!shape_is_array(half) || !shape_is_array(whole) || shape_is_dynamic(whole) ||
        !shape_same_dims(half, whole))
        return false;
    if (whole->dtype == DT_F64)
        return half->dtype == DT_F32;
    return (whole->dtype == DT_U64 || whole->dtype == DT_S64) &&
           (half->dtype == DT_U32 || half->dtype == DT_S32);
}

X64Part custom_call_x64(const Instruction *inst)
{
    static const struct {
        const char *target;
        X64Part part;
    } parts[] = {{"X64SplitLow", X64_LOW},
                 {"X64SplitHigh", X64_HIGH},
                 {"X64Combine", X64_COMBINE}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bool combines = parts[i].part == X64_COMBINE;
        if (!custom_call_has_target(inst, parts[i].target) ||
            inst->operand_count != (combines ? 2 : 1))
            continue;
        const Shape *s = inst->operands[0]->shape;
        bool fits = combines ? is_half_of(s, inst->shape) &&
                                   is_half_of(inst->operands[1]->shape, inst->shape)
                             : is_half_of(inst->shape, s);
        return fits ? parts[i].part : X64_NONE;
    }
    return X64_NONE;
}

/* ? in the pattern is any one letter. */
static bool is_like(Bytes name, const char *pattern)
{
    if (name.length != strlen(pattern))
        return false;
    for (size_t i = 0; i < name.length; i++) {
        if (pattern[i] != '?' && pattern[i] != name.data[i])
            return false;
    }
    return true;
}

static const char *why_refused(const Instruction *inst)
{
    static const struct {
        const char *name, *why;
    } refused[] = {
#define REFUSED(name, why) {name, why},
#include "ir/custom_call/refused_calls.def"
    };
    if (inst->op != OP_CUSTOM_CALL)
        return NULL;
    Bytes target = inst_bytes(inst, ATTR_CUSTOM_CALL_TARGET);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        if (is_like(target, refused[i].name))
            return refused[i].why;
    }
    return NULL;
}

bool custom_calls_refuse(const Module *m)
{
    size_t before = m->diag->unsupported_count;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            const char *why = why_refused(inst);
            if (why != NULL)
                diag_unsupported(m->diag, inst->span, "%s calls \"%s\": %s", inst->name,
                                 inst_bytes(inst, ATTR_CUSTOM_CALL_TARGET).data, why);
        }
    }
    return m->diag->unsupported_count > before;
}
