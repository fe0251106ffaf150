/* See reducer.h. */
#include "codegen/emit/reducer.h"

#include <math.h>

#include "codegen/emit/op_emit.h"
#include "ir/bug.h"

OpCode computation_operation(const Computation *comp)
{
    const Instruction *root = comp->root;
    if (comp->parameter_count != 2 || root->operand_count != 2 ||
        root->operands[0]->op != OP_PARAMETER || root->operands[1]->op != OP_PARAMETER ||
        root->operands[0] == root->operands[1] || !shape_is_array(root->shape) ||
        root->operands[0]->shape->dtype != root->shape->dtype)
        return OP_COUNT;
    switch (root->op) {
    case OP_ADD:
    case OP_MULTIPLY:
    case OP_MAXIMUM:
    case OP_MINIMUM:
    case OP_AND:
    case OP_OR:
    case OP_XOR:
        return root->op;
    default:
        return OP_COUNT;
    }
}

static double lowest(DType t)
{
    if (dtype_is_float(t))
        return -INFINITY;
    if (dtype_is_signed(t))
        return -ldexp(1, (int)dtype_info[t].bits - 1);
    return 0;
}

/* The identity; false if the type has none that is a double. */
static bool identity_of(OpCode op, DType t, double *out)
{
    bool is_small = dtype_is_float(t) || t == DT_PRED || dtype_info[t].bits <= 32;
    bool is_number = !dtype_is_complex(t);
    switch (op) {
    case OP_ADD:
    case OP_XOR:
    case OP_OR:
        *out = 0;
        return true;
    case OP_MULTIPLY:
        *out = 1;
        return true;
    case OP_MAXIMUM:
        *out = lowest(t);
        return is_number;
    case OP_MINIMUM:
        *out = dtype_is_float(t)    ? INFINITY
               : t == DT_PRED       ? 1
               : dtype_is_signed(t) ? ldexp(1, (int)dtype_info[t].bits - 1) - 1
                                    : ldexp(1, (int)dtype_info[t].bits) - 1;
        return is_small && is_number;
    case OP_AND:
        *out = t == DT_PRED || dtype_is_unsigned(t)
                   ? ldexp(1, (int)dtype_info[t].bits) - 1
                   : -1;
        if (t == DT_PRED)
            *out = 1;
        return is_small;
    default:
        return false;
    }
}

void reducer_begin(Reducer *r, Emit *e, const Instruction *inst)
{
    uint32_t half = inst->operand_count / 2;
    if (half > REDUCER_MOST)
        escape_throw(ESCAPE_UNSUPPORTED,
                     "%s reduces %u arrays at once; kernels handle %d", inst->name, half,
                     REDUCER_MOST);
    *r = (Reducer){.e = e,
                   .inst = inst,
                   .comp = inst_called(inst, 0),
                   .count = half,
                   .op = OP_COUNT};
    if (half == 1)
        r->op = computation_operation(r->comp);
    for (uint32_t i = 0; i < half; i++) {
        DType t = shape_leaf(inst->shape, i)->dtype;
        r->type[i] = t;
        r->accumulator[i] = shape_leaf(r->comp->root->shape, i)->dtype;
        bool is_sum = r->op == OP_ADD || r->op == OP_MULTIPLY;
        if (r->op != OP_COUNT && dtype_is_float(r->accumulator[i]) &&
            dtype_info[r->accumulator[i]].bits < (is_sum ? 32 : 16)) {
            r->accumulator[i] = DT_F32;
            r->is_wide = true;
        }
        uint32_t lanes = e->lanes;
        e->lanes = 1;
        emit_element(e, inst->operands[half + i], NULL, &r->initial[i]);
        e->lanes = lanes;
        r->initial[i] = reducer_widen(r, i, r->initial[i]);
    }
    double identity;
    if (r->op != OP_COUNT && identity_of(r->op, r->accumulator[0], &identity))
        r->joins_initial = !inst_is_constant_scalar(inst->operands[1], identity);
}

void reducer_start(const Reducer *r, LLVMValueRef *out)
{
    double identity;
    for (uint32_t i = 0; i < r->count; i++)
        out[i] = r->initial[i];
    if (r->joins_initial && identity_of(r->op, r->accumulator[0], &identity))
        out[0] = emit_number(r->e->k, r->accumulator[0], identity);
}

LLVMValueRef reducer_widen(const Reducer *r, uint32_t i, LLVMValueRef element)
{
    if (r->accumulator[i] == r->type[i])
        return element;
    return scalar_convert_value(r->e->k, element, r->type[i], r->accumulator[i]);
}

static LLVMValueRef wide_operation(const Reducer *r, LLVMValueRef a, LLVMValueRef b)
{
    Kernel *k = r->e->k;
    switch (r->op) {
    case OP_ADD:
        return gx_float_op(k, LLVMFAdd, a, b);
    case OP_MULTIPLY:
        return gx_float_op(k, LLVMFMul, a, b);
    case OP_MAXIMUM:
        return gx_intrinsic(k, "maximum", (LLVMValueRef[]){a, b}, 2);
    default:
        return gx_intrinsic(k, "minimum", (LLVMValueRef[]){a, b}, 2);
    }
}

void reducer_combine(const Reducer *r, const LLVMValueRef *a, const LLVMValueRef *b,
                     LLVMValueRef *out)
{
    LLVMValueRef args[2 * REDUCER_MOST];
    if (r->is_wide) {
        out[0] = wide_operation(r, a[0], b[0]);
        return;
    }
    for (uint32_t i = 0; i < r->count; i++) {
        args[i] = a[i];
        args[r->count + i] = b[i];
    }
    emit_computation(r->e, r->comp, args, out);
}

void reducer_finish(const Reducer *r, const LLVMValueRef *accumulator, LLVMValueRef *out)
{
    for (uint32_t i = 0; i < r->count; i++)
        out[i] = accumulator[i];
    if (r->joins_initial)
        reducer_combine(r, r->initial, out, out);
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->accumulator[i] != r->type[i])
            out[i] = scalar_convert_value(r->e->k, out[i], r->accumulator[i], r->type[i]);
    }
}
