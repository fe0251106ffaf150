/* The verifier's rules about buffers, values of type b(array): who may take and give them,
 * and that each has one writer (12.4 of the language). */
#include <string.h>

#include "ir/kernel/block_scaled.h"
#include "ir/verify/rules.h"

/* Not asynchronous operations: section 12.4 names them, but the corpus refuses them. */
static bool may_hold_buffers(const Instruction *inst)
{
    switch (inst->op) {
    case OP_PARAMETER:
        return inst->parent != inst->parent->module->entry;
    case OP_CUSTOM_CALL:
    case OP_WHILE:
    case OP_TUPLE:
    case OP_GET_TUPLE_ELEMENT:
    case OP_DYNAMIC_UPDATE_SLICE:
        return true;
    default:
        return false;
    }
}

static const Aliasing *aliasing_of(const Instruction *inst)
{
    static const Aliasing none = {0};
    const Attr *a = inst_attr(inst, ATTR_OUTPUT_TO_OPERAND_ALIASING);
    return a ? a->aliasing : &none;
}

/* Pin and Unpin: between an array and the buffer that holds it, with one alias. */
static void check_pin(Verify *v, const Instruction *inst, bool pins)
{
    const Aliasing *alias = aliasing_of(inst);
    if (inst->operand_count != 1 || alias->count != 1) {
        verify_error(v, inst, "must have one operand and one output_to_operand_aliasing");
        return;
    }
    const Shape *in = inst->operands[0]->shape, *out = inst->shape;
    const Shape *array = pins ? in : out, *buffer = pins ? out : in;
    if (!shape_is_array(array) || buffer->dtype != DT_BUFFER ||
        !shape_compatible(buffer->elements[0], array) ||
        !shape_layouts_equal(buffer->elements[0], array))
        verify_error(v, inst, "cannot turn %s into %s", verify_text(v, in),
                     verify_text(v, out));
}

/* An array that shares a buffer result would leave a buffer operand without its result. */
static bool is_buffer_operand(const Instruction *inst, const AliasEntry *e)
{
    if (e->operand < 0 || e->operand >= inst->operand_count)
        return false;
    const Shape *in = shape_part(inst->operands[e->operand]->shape, e->input);
    return in != NULL && in->dtype == DT_BUFFER;
}

/* Every buffer result shares exactly one buffer operand, and the other way round. */
static void check_buffer_aliases(Verify *v, const Instruction *inst)
{
    const Aliasing *alias = aliasing_of(inst);
    uint32_t results = 0, operands = 0, aliased = 0;
    if (inst->shape->dtype == DT_BUFFER)
        results++;
    for (uint32_t i = 0; shape_is_tuple(inst->shape) && i < inst->shape->rank; i++)
        results += inst->shape->elements[i]->dtype == DT_BUFFER;
    for (uint32_t i = 0; i < inst->operand_count; i++)
        operands += inst->operands[i]->shape->dtype == DT_BUFFER;
    for (uint32_t i = 0; i < alias->count; i++) {
        const Shape *out = shape_part(inst->shape, alias->entries[i].output);
        aliased +=
            out && out->dtype == DT_BUFFER && is_buffer_operand(inst, &alias->entries[i]);
        for (uint32_t k = 0; k < i && out && out->dtype == DT_BUFFER; k++)
            if (alias->entries[k].operand == alias->entries[i].operand)
                verify_error(v, inst, "operand %lld is aliased twice",
                             (long long)alias->entries[i].operand);
    }
    if (results != aliased || operands != aliased)
        verify_error(v, inst,
                     "each of its %u buffer operands and %u buffer results needs one "
                     "output_to_operand_aliasing, but there are %u",
                     operands, results, aliased);
}

void verify_custom_call(Verify *v, const Instruction *inst)
{
    const char *target = inst_bytes(inst, ATTR_CUSTOM_CALL_TARGET).data;
    if (strcmp(target, "GetRngSeed") == 0) {
        if (inst->operand_count != 0 || !shape_is_scalar(inst->shape) ||
            inst->shape->dtype != DT_U64)
            verify_error(v, inst, "GetRngSeed has no operands and gives u64[]");
    } else if (strcmp(target, "Pin") == 0 || strcmp(target, "Unpin") == 0) {
        check_pin(v, inst, target[0] == 'P');
    } else if (strcmp(target, "CreateBuffer") == 0) {
        if (inst->operand_count != 0 || inst->shape->dtype != DT_BUFFER)
            verify_error(v, inst, "CreateBuffer has no operands and gives a buffer");
    } else {
        check_buffer_aliases(v, inst);
    }
    const char *error = block_scaled_verify(inst, v->scratch);
    if (error != NULL)
        verify_error(v, inst, "%s", error);
}

/* A buffer has one user. Of a tuple with buffers, each buffer is taken out once at most, or
 * the tuple is used once as a whole. */
static void check_one_writer(Verify *v, const Instruction *inst, Uses uses)
{
    uint32_t whole = 0;
    bool *taken = NULL;
    if (shape_is_tuple(inst->shape))
        taken = ARENA_ARRAY(v->scratch, bool, inst->shape->rank);
    for (uint32_t i = uses.start[inst->id]; i < uses.start[inst->id + 1]; i++) {
        const Instruction *user = uses.list[i];
        if (user->op != OP_GET_TUPLE_ELEMENT || !taken) {
            whole++;
            continue;
        }
        int64_t index = inst_int(user, ATTR_INDEX, 0);
        if (!verify_has_buffer(user->shape) || index < 0 || index >= inst->shape->rank)
            continue; /* no such element: the shape rules have said so */
        if (taken[index] || whole > 0)
            whole = 2;
        taken[index] = true;
    }
    if (whole > 1)
        verify_error(v, inst,
                     "a buffer must have one writer, but %s is used more than once",
                     verify_text(v, inst->shape));
}

void verify_buffers(Verify *v, const Computation *comp, Uses uses)
{
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (!verify_has_buffer(inst->shape))
            continue;
        if (!may_hold_buffers(inst))
            verify_error(v, inst, "cannot give a buffer, %s",
                         verify_text(v, inst->shape));
        check_one_writer(v, inst, uses);
        for (uint32_t k = uses.start[inst->id]; k < uses.start[inst->id + 1]; k++)
            if (!may_hold_buffers(uses.list[k]))
                verify_error(v, uses.list[k], "cannot take a buffer, %s",
                             verify_text(v, inst->shape));
    }
}
