/* Making an instruction from what was read: the rules that the text itself must keep, defaults
 * left out so that equal instructions have equal attributes, and the shape where it is not
 * written. */
#include "frontend/hlo/parser.h"
#include "ir/attribute/sharding.h"
#include "ir/dtype.h"
#include "ir/infer/infer.h"

static const Shape *build_infer(Parser *p, Instruction *inst)
{
    InferContext cx = {.intern = p->intern,
                       .arena = p->scratch,
                       .diag = p->diag,
                       .mixed_precision = true};
    return infer_shape(&cx, inst);
}

static bool check_arity(Parser *p, const Call *call, uint32_t operand_count)
{
    int arity = op_info[call->op].arity;
    if (arity < 0 || (uint32_t)arity == operand_count)
        return true;
    diag_error(p->diag, call->open_span, "expects %d operands, but has %u operands",
               arity, operand_count);
    return false;
}

static bool check_required(Parser *p, const Instruction *inst, Span attrs_span)
{
    for (const OpAttr *a = op_info[inst->op].attrs; a->id != ATTR_COUNT; a++) {
        if (a->rule == ATTR_REQUIRED && !inst_has(inst, a->id)) {
            diag_error(p->diag, attrs_span, "attribute %s is expected but not seen",
                       attr_info[a->id].name);
            return false;
        }
    }
    return true;
}

/* The attributes in ascending order, those that are only read left out. */
static void set_attributes(Parser *p, Instruction *inst, uint32_t count,
                           const Attr *attrs)
{
    if (count == 0)
        return;
    inst->attrs = ARENA_ARRAY(p->arena, Attr, count);
    for (uint32_t i = 0; i < count; i++) {
        if (attr_info[attrs[i].id].kind == AK_INSTRUCTIONS)
            continue;
        uint32_t at = inst->attr_count++;
        for (; at > 0 && inst->attrs[at - 1].id > attrs[i].id; at--)
            inst->attrs[at] = inst->attrs[at - 1];
        inst->attrs[at] = attrs[i];
    }
}

static void spread_sharding(Parser *p, Instruction *inst)
{
    const Attr *a = inst_attr(inst, ATTR_SHARDING);
    if (a == NULL || inst->shape == NULL || !shape_is_tuple(inst->shape))
        return;
    Attr spread = *a;
    spread.sharding =
        sharding_for_leaves(p->arena, a->sharding, shape_leaf_count(inst->shape));
    inst_set(inst, spread);
}

/* The wrapped operation of a start by sugar that leaves operands open: what its rules are is
 * checked when the last ones are known (build_complete). */
Instruction *build_open(Parser *p, const Call *call, uint32_t operand_count,
                        Instruction *const *operands, uint32_t attr_count,
                        const Attr *attrs, Span span)
{
    Instruction *inst = computation_append(scope_top(p)->comp, call->op, call->shape,
                                           operand_count, operands);
    inst->span = span;
    set_attributes(p, inst, attr_count, attrs);
    return inst;
}

/* -- rules of single opcodes and attributes --------------------------------------------- */

static bool check_conditional(Parser *p, Instruction *inst, Span attrs_span)
{
    if (inst->operand_count == 0) {
        diag_error(p->diag, inst->span,
                   "conditional has no operands: expects the index first");
        return false;
    }
    const Shape *index = inst->operands[0]->shape;
    if (!shape_is_scalar(index) || (index->dtype != DT_PRED && index->dtype != DT_S32)) {
        diag_error(
            p->diag, inst->span,
            "the first operand of a conditional must be a scalar of type pred or s32, "
            "but is %s",
            shape_text(p->scratch, index, false));
        return false;
    }
    static const AttrId by_pred[] = {ATTR_TRUE_COMPUTATION, ATTR_FALSE_COMPUTATION};
    static const AttrId by_number[] = {ATTR_BRANCH_COMPUTATIONS};
    bool pred = index->dtype == DT_PRED;
    for (size_t i = 0; i < (pred ? 2 : 1); i++) {
        AttrId id = pred ? by_pred[i] : by_number[i];
        if (!inst_has(inst, id)) {
            diag_error(p->diag, attrs_span, "attribute %s is expected but not seen",
                       attr_info[id].name);
            return false;
        }
    }
    for (size_t i = 0; i < (pred ? 1 : 2); i++) {
        const Attr *a = inst_attr(inst, pred ? by_number[i] : by_pred[i]);
        if (a != NULL) {
            diag_error(p->diag, a->span,
                       "unexpected attribute \"%s\": the index is of type %s",
                       attr_info[a->id].name, dtype_name(index->dtype));
            return false;
        }
    }
    return true;
}

/* Constraints on the layouts of the operands: one per operand, with its shape. */
static bool check_constraints(Parser *p, const Instruction *inst)
{
    const Attr *a = inst_attr(inst, ATTR_OPERAND_LAYOUT_CONSTRAINTS);
    if (a == NULL)
        return true;
    if (a->shapes.count != inst->operand_count) {
        diag_error(p->diag, a->span,
                   "expects %u operand layout constraints, one per operand, but sees %u",
                   inst->operand_count, a->shapes.count);
        return false;
    }
    for (uint32_t i = 0; i < a->shapes.count; i++) {
        if (!shape_compatible(a->shapes.data[i], inst->operands[i]->shape)) {
            diag_error(
                p->diag, a->span,
                "operand layout constraint %u, %s, is not compatible with the operand's "
                "shape %s",
                i, shape_text(p->scratch, a->shapes.data[i], true),
                shape_text(p->scratch, inst->operands[i]->shape, true));
            return false;
        }
    }
    return true;
}

/* to_apply of a custom-call is another spelling of called_computations. */
static void rename_attribute(Instruction *inst, AttrId from, AttrId to)
{
    const Attr *a = inst_attr(inst, from);
    if (a == NULL)
        return;
    Attr moved = *a;
    moved.id = to;
    inst_unset(inst, from);
    inst_set(inst, moved);
}

/* One for each leaf on any opcode; parameters alone keep it. */
static bool check_replication(Parser *p, Instruction *inst)
{
    const Attr *a = inst_attr(inst, ATTR_PARAMETER_REPLICATION);
    if (a == NULL || inst->shape == NULL)
        return true;
    size_t leaves = shape_leaf_count(inst->shape);
    if (leaves == a->ints.count) {
        if (inst->op != OP_PARAMETER)
            inst_unset(inst, ATTR_PARAMETER_REPLICATION);
        return true;
    }
    diag_error(
        p->diag, a->span,
        "parameter has %zu leaf buffers, but parameter_replication has %u elements.",
        leaves, a->ints.count);
    return false;
}

static bool rules_of_opcode(Parser *p, Instruction *inst, Span attrs_span)
{
    switch (inst->op) {
    case OP_CONDITIONAL:
        return check_conditional(p, inst, attrs_span);
    case OP_CUSTOM_CALL:
        if (inst_has(inst, ATTR_TO_APPLY) && inst_has(inst, ATTR_CALLED_COMPUTATIONS)) {
            diag_error(p->diag, inst_attr(inst, ATTR_CALLED_COMPUTATIONS)->span,
                       "to_apply names the called computation already");
            return false;
        }
        rename_attribute(inst, ATTR_TO_APPLY, ATTR_CALLED_COMPUTATIONS);
        return check_constraints(p, inst);
    case OP_COMPARE:
        if (inst_int(inst, ATTR_ORDER, 0) == 1)
            inst_set_int(inst, ATTR_TYPE, COMPARE_TOTALORDER);
        inst_unset(inst, ATTR_ORDER);
        return true;
    case OP_FUSION:
        inst_called(inst, 0)->is_fused = true;
        return true;
    case OP_BROADCAST:
        if (!inst_has(inst, ATTR_DIMENSIONS) &&
            !shape_is_scalar(inst->operands[0]->shape)) {
            diag_error(p->diag, attrs_span,
                       "attribute dimensions is expected but not seen");
            return false;
        }
        return true;
    case OP_ASYNC_UPDATE:
    case OP_ASYNC_DONE:
        return async_rules(p, inst);
    case OP_TUPLE:
        if (inst->shape != NULL &&
            (!shape_is_tuple(inst->shape) || inst->shape->rank != inst->operand_count)) {
            diag_error(p->diag, inst->span,
                       "a tuple of %u operands does not have shape %s",
                       inst->operand_count, shape_text(p->scratch, inst->shape, false));
            return false;
        }
        return true;
    default:
        return true;
    }
}

static bool follows_rules(Parser *p, Instruction *inst, Span attrs_span)
{
    if (!rules_of_opcode(p, inst, attrs_span) || !check_replication(p, inst))
        return false;
    if (inst_bool(inst, ATTR_USE_GLOBAL_DEVICE_IDS) && !inst_has(inst, ATTR_CHANNEL_ID)) {
        diag_error(p->diag, inst_attr(inst, ATTR_USE_GLOBAL_DEVICE_IDS)->span,
                   "Cannot have use_global_device_ids=true without channel_id");
        return false;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < inst->attr_count; i++) {
        const Attr *a = &inst->attrs[i];
        bool accepted = false;
        for (const OpAttr *row = op_info[inst->op].attrs; row->id != ATTR_COUNT; row++)
            accepted = accepted || (row->id == a->id && row->rule == ATTR_ACCEPTED);
        if (!accepted && !attr_is_default(inst, a))
            inst->attrs[kept++] = *a;
    }
    inst->attr_count = (uint16_t)kept;
    return true;
}

bool build_complete(Parser *p, Instruction *inst, Span at)
{
    Call call = {.op = inst->op, .open_span = at};
    return check_arity(p, &call, inst->operand_count) && check_required(p, inst, at) &&
           follows_rules(p, inst, at);
}

Instruction *build_instruction(Parser *p, const Call *call, uint32_t operand_count,
                               Instruction *const *operands, uint32_t attr_count,
                               const Attr *attrs, Span span, Span attrs_span)
{
    Scope *scope = scope_top(p);
    if (!check_arity(p, call, operand_count))
        return NULL;
    if (call->op == OP_PARAMETER && call->parameter < 0) {
        diag_error(p->diag, call->open_span, "expects the number of the parameter");
        return NULL;
    }
    Instruction *inst =
        computation_append(scope->comp, call->op, call->shape, operand_count, operands);
    inst->span = span;
    inst->name = op_info[call->op].name; /* until it gets its own */
    if (p->pending.count != 0 && span.begin == pending_top(p)->span.begin &&
        pending_top(p)->symbol != NULL)
        inst->name = pending_top(p)->symbol->text;
    if (call->op == OP_CONSTANT)
        inst->literal = call->literal;
    if (call->op == OP_PARAMETER) {
        inst->parameter = call->parameter;
        STACK_PUSH(p, p->parameters, inst);
    }
    set_attributes(p, inst, attr_count, attrs);
    if (!check_required(p, inst, attrs_span) || !follows_rules(p, inst, attrs_span))
        return NULL;
    if (call->shape == NULL && !op_is(inst->op, OPF_INFERABLE)) {
        diag_error(p->diag, call->op_span, "cannot infer shape for opcode: %s",
                   op_info[inst->op].name);
        return NULL;
    }
    if (call->op == OP_CONSTANT) {
        inst->shape = call->literal->shape;
    } else if (call->shape == NULL || op_is(inst->op, OPF_RECOMPUTED)) {
        inst->shape = build_infer(p, inst);
        if (inst->shape == NULL)
            return NULL;
    }
    spread_sharding(p, inst);
    return inst;
}
