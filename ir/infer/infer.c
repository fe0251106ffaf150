/* Shape inference: the entry, and what the rules of the opcodes share (rules.h). The
 * rules themselves stand by family in infer_*.c. */
#include "ir/infer/rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ir/base/bug.h"

const Shape *infer_error(InferContext *cx, const Instruction *inst, const char *format,
                         ...)
{
    va_list args;
    va_start(args, format);
    const char *text = arena_vprintf(cx->arena, format, args);
    va_end(args);
    diag_error(cx->diag, inst->span, "%s (%s): %s",
               inst->name ? inst->name : "instruction", op_info[inst->op].name, text);
    return NULL;
}

const char *infer_text(InferContext *cx, const Shape *s)
{
    return shape_text(cx->arena, s, false);
}

const char *infer_ints_text(InferContext *cx, Ints v)
{
    const char *text = "";
    for (uint32_t i = 0; i < v.count && i < 16; i++)
        text =
            arena_printf(cx->arena, "%s%s%lld", text, i ? "," : "", (long long)v.data[i]);
    return arena_printf(cx->arena, "{%s%s}", text, v.count > 16 ? ",..." : "");
}

bool infer_want_count(InferContext *cx, const Instruction *inst, uint32_t least)
{
    if (inst->operand_count >= least)
        return true;
    infer_error(cx, inst, "expects at least %u operands, but has %u", least,
                inst->operand_count);
    return false;
}

bool infer_want_arrays(InferContext *cx, const Instruction *inst, uint32_t begin,
                       uint32_t end)
{
    for (uint32_t i = begin; i < end; i++)
        if (!shape_is_array(operand(inst, i))) {
            infer_error(cx, inst, "operand %u must be an array, but %s is %s", i,
                        inst->operands[i]->name, infer_text(cx, operand(inst, i)));
            return false;
        }
    return true;
}

bool infer_want_shape(InferContext *cx, const Instruction *inst)
{
    if (inst->shape)
        return true;
    infer_error(cx, inst, "cannot infer shape for opcode: %s", op_info[inst->op].name);
    return false;
}

bool infer_want_array_shape(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_shape(cx, inst))
        return false;
    if (shape_is_array(inst->shape))
        return true;
    infer_error(cx, inst, "the result must be an array, but is declared as %s",
                infer_text(cx, inst->shape));
    return false;
}

bool infer_same_type(DType a, DType b)
{
    return a == b || (dtype_is_float(a) && dtype_is_float(b));
}

bool infer_same_sizes(const Shape *a, const Shape *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (!infer_same_size(a->dims[i], b->dims[i]))
            return false;
    return true;
}

bool infer_want_dims(InferContext *cx, const Instruction *inst, const char *what,
                     Ints dims, int64_t rank, bool sorted)
{
    bool *seen = NULL;
    uint64_t mask = 0;
    if (rank > 64)
        seen = ARENA_ARRAY(cx->arena, bool, (size_t)rank);
    for (uint32_t i = 0; i < dims.count; i++) {
        int64_t d = dims.data[i];
        if (d < 0 || d >= rank) {
            infer_error(cx, inst, "%s=%s: %lld is not in 0 .. %lld", what,
                        infer_ints_text(cx, dims), (long long)d, (long long)rank - 1);
            return false;
        }
        if (seen ? seen[d] : mask >> d & 1) {
            infer_error(cx, inst, "%s=%s: %lld occurs twice", what,
                        infer_ints_text(cx, dims), (long long)d);
            return false;
        }
        if (seen)
            seen[d] = true;
        else
            mask |= (uint64_t)1 << d;
        if (sorted && i > 0 && dims.data[i - 1] > d) {
            infer_error(cx, inst, "%s=%s must be ascending", what,
                        infer_ints_text(cx, dims));
            return false;
        }
    }
    return true;
}

int64_t infer_one_dim(InferContext *cx, const Instruction *inst, const Shape *s)
{
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    if (dims.count != 1) {
        infer_error(cx, inst, "expects exactly one dimension, but has dimensions=%s",
                    infer_ints_text(cx, dims));
        return -1;
    }
    return infer_want_dims(cx, inst, "dimensions", dims, s->rank, false) ? dims.data[0]
                                                                         : -1;
}

int64_t *infer_dims_array(InferContext *cx, int64_t *stack, uint32_t count)
{
    return count <= INFER_STACK ? stack : ARENA_ARRAY(cx->arena, int64_t, count);
}

static bool is_declared(const Instruction *inst, DType dtype, uint32_t rank,
                        const int64_t *dims, const bool *dynamic)
{
    const Shape *s = inst->shape;
    return s && s->dtype == dtype && s->rank == rank &&
           (rank == 0 || memcmp(s->dims, dims, rank * sizeof *dims) == 0) &&
           (!dynamic || s->dynamic);
}

const Shape *infer_array(InferContext *cx, const Instruction *inst, DType dtype,
                         uint32_t rank, const int64_t *dims, const bool *dynamic)
{
    int64_t count = (dtype_info[dtype].bits + 7) / 8; /* bytes */
    bool fits = true, empty = false, unbounded = false;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] == DIM_UNBOUNDED) {
            unbounded = true;
            continue;
        }
        if (dims[i] < 0)
            return infer_error(cx, inst, "size %lld of result dimension %u is negative",
                               (long long)dims[i], i);
        empty |= dims[i] == 0;
        fits = fits && (dims[i] == 0 || count <= INT64_MAX / dims[i]);
        if (fits)
            count *= dims[i];
    }
    if (!fits && !empty)
        return infer_error(cx, inst, "the result has too many elements: %s",
                           infer_ints_text(cx, (Ints){.data = dims, .count = rank}));
    if (is_declared(inst, dtype, rank, dims, dynamic))
        return inst->shape;
    bool *flags = NULL;
    if (dynamic || unbounded) {
        flags = ARENA_ARRAY(cx->arena, bool, rank);
        for (uint32_t i = 0; i < rank; i++)
            flags[i] = (dynamic && dynamic[i]) || dims[i] == DIM_UNBOUNDED;
    }
    return shape_array(cx->intern, dtype, rank, dims, flags, NULL);
}

const Shape *infer_with_dtype(InferContext *cx, const Shape *s, DType dtype)
{
    if (s->dtype == dtype)
        return s;
    if (s->layout && s->layout->element_bits) {
        Layout layout = *s->layout;
        layout.element_bits = 0;
        s = shape_with_layout(cx->intern, s, intern_layout(cx->intern, &layout));
    }
    return shape_with_dtype(cx->intern, s, dtype);
}

const Shape *infer_tuple_of(InferContext *cx, const Instruction *inst, uint32_t begin,
                            uint32_t end)
{
    if (end - begin == 1)
        return operand(inst, begin);
    const Shape **shapes = ARENA_ARRAY(cx->arena, const Shape *, end - begin);
    for (uint32_t i = begin; i < end; i++)
        shapes[i - begin] = operand(inst, i);
    return shape_tuple(cx->intern, end - begin, shapes);
}

DType infer_binary_dtype(DType a, DType b)
{
    return a == b ? a : dtype_higher_precision(a, b);
}

const Shape *infer_callee_result(const Computation *comp)
{
    return comp->root ? comp->root->shape : NULL;
}

bool infer_want_parameters(InferContext *cx, const Instruction *inst,
                           const Computation *comp, const char *what, uint32_t count)
{
    if (comp && comp->root && comp->root->shape && comp->parameter_count == count)
        return true;
    if (!comp || !comp->root || !comp->root->shape)
        infer_error(cx, inst, "%s has no computation", what);
    else
        infer_error(cx, inst, "%s %s must have %u parameter%s, but has %u", what,
                    comp->name, count, count == 1 ? "" : "s", comp->parameter_count);
    return false;
}

static bool has_required(InferContext *cx, const Instruction *inst)
{
    for (const OpAttr *a = op_info[inst->op].attrs; a->id != ATTR_COUNT; a++)
        if (a->rule == ATTR_REQUIRED && !inst_has(inst, a->id)) {
            infer_error(cx, inst, "attribute %s is expected but not seen",
                        attr_info[a->id].name);
            return false;
        }
    return true;
}

const Shape *infer_shape(InferContext *cx, const Instruction *inst)
{
    const OpInfo *info = &op_info[inst->op];
    if (info->arity >= 0 && inst->operand_count != (uint32_t)info->arity)
        return infer_error(cx, inst, "expects %d operands, but has %u operands",
                           info->arity, inst->operand_count);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        if (!inst->operands[i] || !inst->operands[i]->shape)
            return NULL; /* a message was made where that operand stands */
    if (!has_required(cx, inst))
        return NULL;
    return info->infer(cx, inst);
}

bool infer_want_token(InferContext *cx, const Instruction *inst, uint32_t i)
{
    const Shape *s = inst->operands[i]->shape;
    if (s->dtype == DT_TOKEN)
        return true;
    infer_error(cx, inst, "operand %u must be token[], but is %s", i, infer_text(cx, s));
    return false;
}
