/* The printed form of one instruction (sections 10.6 and 10.7). */
#include "ir/attribute/stack_frames.h"
#include "ir/number/number.h"
#include "ir/print/printer.h"
#include "ir/print/value.h"

static void print_instruction_name(Printer *p, const Instruction *inst)
{
    Text *t = &p->text;
    if (p->form == PRINT_CANONICAL && p->numbers != NULL) {
        text_char(t, 'v');
        text_int(t, p->numbers[inst->id]);
        return;
    }
    print_name(p, inst->name);
}

static void print_computation_name(Printer *p, const Computation *comp)
{
    enum { INLINE_DEPTH = 64 };
    Text *t = &p->text;
    if (p->inline_callees && p->depth < INLINE_DEPTH) {
        text_char(t, '{');
        p->depth++;
        print_computation(p, comp);
        p->depth--;
        text_char(t, '}');
        return;
    }
    if (p->form == PRINT_CANONICAL) {
        text_char(t, 'c');
        text_int(t, comp->id);
        return;
    }
    print_name(p, comp->name);
}

static void print_index_comment(Printer *p, uint32_t i)
{
    if (p->index_comments && i != 0 && i % 5 == 0)
        text_printf(&p->text, "/*index=%u*/", i);
}

static bool has_value(const Printer *p, const Instruction *constant)
{
    for (uint32_t i = 0; i < p->unvalued_count; i++) {
        if (p->unvalued[i] == constant)
            return false;
    }
    return true;
}

static void print_operands(Printer *p, const Instruction *inst)
{
    Text *t = &p->text;
    if (inst->op == OP_PARAMETER) {
        text_int(t, inst->parameter);
        return;
    }
    if (inst->op == OP_CONSTANT) {
        if (has_value(p, inst))
            literal_print(t, inst->literal);
        return;
    }
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (i != 0)
            text_string(t, ", ");
        print_index_comment(p, i);
        if (p->operand_shapes) {
            shape_print(t, inst->operands[i]->shape, true);
            text_char(t, ' ');
        }
        print_instruction_name(p, inst->operands[i]);
    }
}

/* -- attributes --------------------------------------------------------------------------- */

static void print_attribute_name(Printer *p, const char *name)
{
    text_string(&p->text, ", ");
    text_string(&p->text, name);
    text_char(&p->text, '=');
}

static void print_computations(Printer *p, const Attr *a)
{
    Text *t = &p->text;
    print_attribute_name(p, attr_info[a->id].name);
    if (attr_info[a->id].kind == AK_COMPUTATION) {
        print_computation_name(p, a->computations.data[0]);
        return;
    }
    text_char(t, '{');
    for (uint32_t i = 0; i < a->computations.count; i++) {
        if (i != 0)
            text_string(t, ", ");
        print_computation_name(p, a->computations.data[i]);
    }
    text_char(t, '}');
}

/* What an attribute that is always printed says where it is absent. */
static void print_absent(Printer *p, const Instruction *inst, AttrId id)
{
    Text *t = &p->text;
    print_attribute_name(p, attr_info[id].name);
    switch (attr_info[id].kind) {
    case AK_BOOL:
        text_string(t, inst->op == OP_TOPK ? "true" : "false");
        return;
    case AK_SHAPE: /* what sugar wraps may get the operand late */
        shape_print(t, inst->operand_count != 0 ? inst->operands[0]->shape : inst->shape,
                    true);
        return;
    default:
        break;
    }
    text_char(t, '{');
    for (uint32_t i = 0; inst->op == OP_MAP && i < inst->shape->rank; i++) {
        if (i != 0)
            text_char(t, ',');
        text_int(t, i);
    }
    text_char(t, '}');
}

/* Attributes of the opcode's row that come after the called computations or among the shared. */
static bool is_late(AttrId id)
{
    return id == ATTR_IS_COMPOSITE || id == ATTR_RESULT_ACCURACY;
}

static void print_own_attribute(Printer *p, const Instruction *inst, const OpAttr *row)
{
    const Attr *a = inst_attr(inst, row->id);
    if (a == NULL && row->rule != ATTR_SHOWN)
        return;
    if (a == NULL) {
        print_absent(p, inst, row->id);
        return;
    }
    if (row->rule == ATTR_OPTIONAL && attr_is_default(inst, a))
        return;
    print_attribute_name(p, attr_info[a->id].name);
    value_print(&p->text, a, p->metadata);
}

static bool holds_computations(AttrId id)
{
    return attr_info[id].kind == AK_COMPUTATION || attr_info[id].kind == AK_COMPUTATIONS;
}

static void print_own_attributes(Printer *p, const Instruction *inst)
{
    const OpAttr *rows = op_info[inst->op].attrs;
    const Attr *replication = inst_attr(inst, ATTR_PARAMETER_REPLICATION);
    if (replication != NULL) {
        print_attribute_name(p, attr_info[replication->id].name);
        value_print(&p->text, replication, p->metadata);
    }
    for (const OpAttr *row = rows; row->id != ATTR_COUNT; row++) {
        if (!holds_computations(row->id) && !is_late(row->id) &&
            row->rule != ATTR_ACCEPTED)
            print_own_attribute(p, inst, row);
    }
    for (const OpAttr *row = rows; row->id != ATTR_COUNT; row++) {
        const Attr *a = holds_computations(row->id) ? inst_attr(inst, row->id) : NULL;
        if (a != NULL && a->computations.count != 0)
            print_computations(p, a);
    }
    if (inst_bool(inst, ATTR_IS_COMPOSITE))
        text_string(&p->text, ", is_composite=true");
}

static void print_shared(Printer *p, const Instruction *inst, AttrId id)
{
    const Attr *a = inst_attr(inst, id);
    if (a == NULL || attr_is_default(inst, a))
        return;
    print_attribute_name(p, attr_info[id].name);
    value_print(&p->text, a, p->metadata);
}

static void print_control(Printer *p, const Instruction *inst)
{
    if (!p->control || inst->control_count == 0)
        return;
    text_string(&p->text, ", control-predecessors={");
    for (uint32_t i = 0; i < inst->control_count; i++) {
        if (i != 0)
            text_string(&p->text, ", ");
        print_instruction_name(p, inst->control[i]);
    }
    text_char(&p->text, '}');
}

static void print_metadata(Printer *p, const Instruction *inst)
{
    const Attr *attr = inst_attr(inst, ATTR_METADATA);
    if (attr == NULL)
        return;
    Metadata m = *attr->metadata;
    if (p->frames != NULL)
        m.stack_frame_id = stack_frame_keep(p->frames, m.stack_frame_id);
    if (!metadata_is_shown(&m))
        return;
    print_attribute_name(p, attr_info[ATTR_METADATA].name);
    value_print(&p->text, &(Attr){.id = ATTR_METADATA, .metadata = &m}, p->metadata);
}

static void print_attributes(Printer *p, const Instruction *inst,
                             const Instruction *sugar)
{
    bool notes = p->form != PRINT_CANONICAL; /* what says nothing about the result */
    bool from_wrapped = sugar != NULL && inst->op == OP_ASYNC_START;
    if (from_wrapped) {
        const Attr *thread = inst_attr(inst, ATTR_ASYNC_EXECUTION_THREAD);
        if (thread != NULL && !attr_is_default(inst, thread)) {
            print_attribute_name(p, attr_info[thread->id].name);
            value_print(&p->text, thread, p->metadata);
        }
        print_own_attributes(p, sugar);
        if (!inst_has(inst, ATTR_SHARDING))
            print_shared(p, sugar, ATTR_SHARDING);
        if (!inst_has(inst, ATTR_FRONTEND_ATTRIBUTES))
            print_shared(p, sugar, ATTR_FRONTEND_ATTRIBUTES);
        print_shared(p, sugar, ATTR_RESULT_ACCURACY);
        if (!inst_has(sugar, ATTR_OUTPUT_TO_OPERAND_ALIASING))
            print_shared(p, inst, ATTR_OUTPUT_TO_OPERAND_ALIASING);
    } else if (sugar == NULL) {
        print_own_attributes(p, inst);
    }
    print_shared(p, inst, ATTR_SHARDING);
    print_shared(p, inst, ATTR_FRONTEND_ATTRIBUTES);
    print_control(p, inst);
    if (notes)
        print_shared(p, inst, ATTR_STATISTICS);
    print_shared(p, inst, ATTR_RESULT_ACCURACY);
    if (notes && p->metadata)
        print_shared(p, inst, ATTR_ORIGIN);
    if (notes && p->metadata)
        print_metadata(p, inst);
    print_shared(p, inst, ATTR_BACKEND_CONFIG);
}

void print_instruction(Printer *p, const Instruction *inst)
{
    Text *t = &p->text;
    const Instruction *sugar =
        p->form == PRINT_CANONICAL ? NULL : print_sugar(inst, p->form);
    print_instruction_name(p, inst);
    text_string(t, " = ");
    if (inst->shape != NULL)
        shape_print(t, inst->shape, true);
    text_char(t, ' ');
    if (sugar == NULL) {
        text_string(t, op_info[inst->op].name);
    } else {
        text_string(t, op_info[sugar->op].name);
        text_string(t, inst->op == OP_ASYNC_START    ? "-start"
                       : inst->op == OP_ASYNC_UPDATE ? "-update"
                                                     : "-done");
    }
    text_char(t, '(');
    print_operands(p, inst);
    text_char(t, ')');
    print_attributes(p, inst, sugar);
}
