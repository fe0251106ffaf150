/* The verifier's rules about one instruction: its declared shape against the inferred one,
 * and what section 12.4 of the language adds to the rules of its opcode. */
#include <string.h>

#include "ir/attribute/origin.h"
#include "ir/verify/rules.h"

/* Opcodes whose shape must agree even where mixed precision is allowed (12.3). */
static bool is_exact(OpCode op)
{
    switch (op) {
    case OP_BITCAST:
    case OP_CALL:
    case OP_CONDITIONAL:
    case OP_CONSTANT:
    case OP_COPY_DONE:
    case OP_COPY_START:
    case OP_CUSTOM_CALL:
    case OP_DYNAMIC_UPDATE_SLICE:
    case OP_GET_TUPLE_ELEMENT:
    case OP_INFEED:
    case OP_OPT_BARRIER:
    case OP_OUTFEED:
    case OP_PARAMETER:
    case OP_RECV:
    case OP_RECV_DONE:
    case OP_SEND:
    case OP_SEND_DONE:
    case OP_TUPLE:
    case OP_WHILE:
        return true;
    default:
        return false;
    }
}

/* Those that the language lets mix types, but that are not carried out so. */
static bool is_exact_to_run(OpCode op)
{
    return op == OP_ADD_DEPENDENCY || op == OP_ALL_TO_ALL || op == OP_DOMAIN ||
           op == OP_SET_DIMENSION_SIZE || op == OP_SORT || op == OP_TOPK;
}

bool verify_lacks_operands(const Instruction *inst)
{
    bool calls = (inst->op == OP_CALL || inst->op == OP_FUSION) && /* a sketch may not */
                 inst_called_count(inst) > 0;
    uint32_t wanted = calls                ? inst_called(inst, 0)->parameter_count
                      : inst->op == OP_DOT ? 2
                                           : 0;
    return inst->operand_count < wanted ||
           (int64_t)inst->operand_count < op_info[inst->op].arity;
}

/* The operation inside async sugar gets its operands from later updates too; in a sketch also
 * where the sugar was written out, and what it got late need not fit it. */
static bool is_bound_late(const Verify *v, const Instruction *inst)
{
    const Instruction *caller = v->fusion_of[inst->parent->id];
    bool started = caller != NULL && caller->op == OP_ASYNC_START;
    bool late = started && caller->operand_count < inst->parent->parameter_count;
    /* A program that is to run has them: the text's last update brought them. */
    return v->level == LEVEL_SKETCH && (started || inst->parent->is_async_wrapped) &&
           inst == inst->parent->root &&
           (late || verify_lacks_operands(inst) ||
            (shape_is_tuple(inst->shape) && inst->shape->rank == 0));
}

static void check_shape(Verify *v, const Instruction *inst)
{
    const Shape *inferred = infer_shape(&v->infer, inst);
    if (!inferred || inferred == inst->shape)
        return;
    bool exact =
        is_exact(inst->op) || (v->level > LEVEL_SKETCH && is_exact_to_run(inst->op));
    if (exact ? shape_compatible(inferred, inst->shape)
              : shape_fp_compatible(inferred, inst->shape))
        return;
    verify_error(v, inst,
                 "expected instruction to have shape equal to %s, actual shape is %s",
                 verify_text(v, inferred), verify_text(v, inst->shape));
}

static bool has_fitting_layout(const Shape *s)
{
    const Layout *l = s->layout;
    if (!l || l->rank != s->rank)
        return false;
    uint64_t seen = 0;
    for (uint32_t i = 0; i < l->rank; i++) {
        int64_t d = l->minor_to_major[i];
        if (d < 0 || d >= l->rank || (l->rank <= 64 && seen >> d & 1))
            return false;
        if (l->rank <= 64)
            seen |= (uint64_t)1 << d;
    }
    return true;
}

static void check_array(Verify *v, const Instruction *inst, const Shape *s)
{
    if (!has_fitting_layout(s)) {
        verify_error(v, inst, "the layout of %s is no order of its dimensions",
                     verify_text(v, s));
        return;
    }
    int64_t bits = s->layout->element_bits;
    if (bits != 0 && bits != dtype_info[s->dtype].bits && !dtype_is_sub_byte(s->dtype) &&
        s->dtype != DT_PRED)
        verify_error(v, inst, "E(%lld) does not fit element type %s of %s",
                     (long long)bits, dtype_name(s->dtype), verify_text(v, s));
    else if (bits != 0 && bits == dtype_info[s->dtype].bits &&
             !dtype_is_sub_byte(s->dtype))
        verify_error(v, inst, "E(%lld) is only for types of less than a byte, not for %s",
                     (long long)bits, verify_text(v, s));
}

/* All that measures an array - elements, bits - must be countable in 63 bits; of what is only
 * read, its bytes. */
static void check_size(Verify *v, const Instruction *inst, const Shape *s)
{
    for (uint32_t i = 0; i < s->rank; i++) {
        if (s->dims[i] == DIM_UNBOUNDED)
            return;
    }
    bool sketch = v->level == LEVEL_SKETCH;
    int64_t count, size, bits = dtype_info[s->dtype].bits;
    if (shape_element_count(s, &count) &&
        !__builtin_mul_overflow(count, sketch ? (bits + 7) / 8 : bits, &size))
        return;
    v->is_too_large = true;
    diag_error(v->diag, inst->span, "%s (%s): %s is too large: its %s do not fit 63 bits",
               inst->name, op_info[inst->op].name, shape_text(v->scratch, s, false),
               sketch ? "bytes" : "bits");
}

/* Remembers the shape; true if it is new. Shapes are interned, so each is looked at once. */
static bool remember(Verify *v, const Shape *s)
{
    if ((v->seen_count + 1) * 2 > v->seen_size) {
        size_t size = v->seen_size ? v->seen_size * 2 : 64;
        const Shape **table = ARENA_ARRAY(v->scratch, const Shape *, size);
        for (size_t i = 0; i < v->seen_size; i++) {
            if (!v->seen[i])
                continue;
            size_t at = ((uintptr_t)v->seen[i] >> 4) & (size - 1);
            while (table[at])
                at = (at + 1) & (size - 1);
            table[at] = v->seen[i];
        }
        v->seen = table;
        v->seen_size = size;
    }
    size_t at = ((uintptr_t)s >> 4) & (v->seen_size - 1);
    while (v->seen[at] && v->seen[at] != s)
        at = (at + 1) & (v->seen_size - 1);
    if (v->seen[at])
        return false;
    v->seen[at] = s;
    v->seen_count++;
    return true;
}

static void check_layouts(Verify *v, const Instruction *inst, const Shape *s)
{
    if (!remember(v, s))
        return;
    if (shape_is_array(s)) {
        check_array(v, inst, s);
        check_size(v, inst, s);
    }
    for (uint32_t i = 0; s->elements && i < s->rank; i++)
        check_layouts(v, inst, s->elements[i]);
}

/* "Implicit broadcast is not allowed in HLO": operands have the sizes of the result; only
 * clamp and select take scalars beside arrays. */
static void check_elementwise(Verify *v, const Instruction *inst)
{
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Shape *s = inst->operands[i]->shape;
        if (s == inst->shape || shape_same_dims(s, inst->shape))
            continue;
        bool scalar = inst->op == OP_SELECT ? i == 0 : inst->op == OP_CLAMP && i != 1;
        if (scalar && s->rank == 0)
            continue;
        verify_error(
            v, inst,
            "operand %u is %s, but the result is %s: implicit broadcast is not allowed "
            "in HLO",
            i, verify_text(v, s), verify_text(v, inst->shape));
        return;
    }
}

static bool is_host(const Shape *s)
{
    return shape_is_array(s) && s->layout->memory_space == 5;
}

/* What goes between host and device memory moves bytes and changes nothing else. */
static void check_copy(Verify *v, const Instruction *inst)
{
    const Shape *from = inst->operands[0]->shape, *to = inst->shape;
    if (!shape_is_array(from) || !shape_is_array(to) || is_host(from) == is_host(to))
        return;
    if (from->dtype != to->dtype || !shape_layouts_equal(from, to))
        verify_error(v, inst, "between host and device it must not change %s into %s",
                     verify_text(v, from), verify_text(v, to));
}

static void check_bitcast(Verify *v, const Instruction *inst)
{
    const Shape *from = inst->operands[0]->shape, *to = inst->shape;
    if (!shape_is_array(from) || !shape_is_array(to) || from->dynamic || to->dynamic)
        return;
    int64_t a, b;
    if (!shape_byte_count(from, &a) || !shape_byte_count(to, &b))
        return;
    if (is_host(from) != is_host(to))
        verify_error(v, inst, "cannot turn %s into %s: they lie in different memories",
                     verify_text(v, from), verify_text(v, to));
    if (v->level > LEVEL_SKETCH && from->layout->tile_count == 0 &&
        to->layout->tile_count == 0 && a != b)
        verify_error(v, inst, "cannot turn %s into %s: they have different sizes",
                     verify_text(v, from), verify_text(v, to));
}

/* copy-start may change the memory, not the order of dimensions. */
static void check_copy_start(Verify *v, const Instruction *inst)
{
    const Shape *from = inst->operands[0]->shape;
    for (uint32_t i = 0; i < 2 && shape_is_array(from); i++)
        if (!shape_layouts_equal(from, inst->shape->elements[i])) {
            verify_error(v, inst, "must not change the layout of %s: element %u is %s",
                         verify_text(v, from), i,
                         verify_text(v, inst->shape->elements[i]));
            return;
        }
}

static bool has_shape_of(const Origin *o, const Shape *s)
{
    if (o->kind != ORIGIN_TUPLE)
        return !shape_is_tuple(s) || o->kind != ORIGIN_LEAF;
    if (!shape_is_tuple(s) || s->rank != o->count)
        return false;
    for (uint32_t i = 0; i < s->rank; i++)
        if (!has_shape_of(o->elements[i], s->elements[i]))
            return false;
    return true;
}

/* The tree of where values come from is that of the shape. */
static void check_origin(Verify *v, const Instruction *inst)
{
    const Origin *o = inst_attr(inst, ATTR_ORIGIN)->origin;
    if (!has_shape_of(o, inst->shape))
        verify_error(v, inst, "origin has %zu leaves, but not those of %s",
                     origin_leaf_count(o), verify_text(v, inst->shape));
}

void verify_instruction(Verify *v, const Instruction *inst)
{
    check_layouts(v, inst, inst->shape);
    size_t errors = v->diag->error_count;
    if (v->is_too_large ||
        is_bound_late(v, inst)) /* no rule holds of what is not there yet */
        return;
    check_shape(v, inst);
    if (v->diag->error_count != errors)
        return;
    if (op_is(inst->op, OPF_ELEMENTWISE))
        check_elementwise(v, inst);
    if (op_is(inst->op, OPF_COLLECTIVE))
        verify_collective(v, inst);
    if (inst->op == OP_WHILE || inst->op == OP_CONDITIONAL ||
        inst_has(inst, ATTR_SHARDING))
        verify_sharding(v, inst);
    if (inst_has(inst, ATTR_ORIGIN))
        check_origin(v, inst);
    switch (inst->op) {
    case OP_COPY_START:
        check_copy_start(v, inst);
        break;
    case OP_COPY:
        check_copy(v, inst);
        break;
    case OP_BITCAST:
        check_bitcast(v, inst);
        break;
    case OP_CUSTOM_CALL:
        verify_custom_call(v, inst);
        break;
    default:
        break;
    }
}
