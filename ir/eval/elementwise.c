/* Elementwise opcodes: one row kernel over the whole array. */
#include "ir/eval/elementwise.h"

#include <string.h>

#include "ir/eval/call.h"
#include "ir/eval/strided.h"
#include "ir/infer/infer.h"

bool elementwise_kernel(const Instruction *inst, bool exact, ElementwiseKernel *out)
{
    if (inst->operand_count == 0 || inst->operand_count > 3)
        return false;
    memset(out, 0, sizeof *out);
    OperandRange same = infer_like_operands(inst);
    DType in = infer_computing_type(inst);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        out->operand[i] =
            i >= same.first && i < same.end ? in : inst->operands[i]->shape->dtype;
    out->result = infer_computed_result(inst);
    ScalarKernel *k = &out->kernel;
    if (!scalar_kernel(inst->op, in, out->result, exact, k))
        return false;
    k->direction = inst_int(inst, ATTR_DIRECTION, 0);
    k->total_order = inst_int(inst, ATTR_TYPE, COMPARE_FLOAT) == COMPARE_TOTALORDER;
    k->exponent_bits = inst_int(inst, ATTR_EXPONENT_BITS, 0);
    k->mantissa_bits = inst_int(inst, ATTR_MANTISSA_BITS, 0);
    return true;
}

/* Run-time sizes of the result: where operands differ, size 1 stands for all sizes. */
static void join_sizes(EvalCall *call, Value *v)
{
    for (uint32_t i = 0; i < call->inst->operand_count; i++) {
        const Value *x = call->operands[i];
        for (uint32_t d = 0;
             x->sizes != NULL && x->count == v->count && d < v->shape->rank; d++)
            if (x->sizes[d] < x->shape->dims[d] &&
                (v->sizes == NULL || value_size(v, d) == v->shape->dims[d] ||
                 value_size(v, d) == 1))
                value_set_size(v, d, x->sizes[d]);
    }
}

/* The operand's data, its only element of a dynamic dimension repeated where the result has
 * more. */
static const void *stretched(EvalCall *call, const Value *x, const Value *v)
{
    int64_t from[EVAL_RANK_MAX], to[EVAL_RANK_MAX];
    bool stretch = false;
    if (x->sizes == NULL || x->shape->rank > EVAL_RANK_MAX || x->count != v->count)
        return x->data;
    strides_row_major(x->shape->rank, x->shape->dims, to);
    for (uint32_t d = 0; d < x->shape->rank; d++) {
        bool one = x->sizes[d] == 1 && value_size(v, d) > 1;
        from[d] = one ? 0 : to[d];
        stretch = stretch || one;
    }
    if (!stretch)
        return x->data;
    void *out = eval_temp(call, (size_t)x->count, value_element_bytes(x));
    strided_copy(value_element_bytes(x), x->shape->rank, x->shape->dims, out, to, x->data,
                 from);
    return out;
}

void eval_elementwise(EvalCall *call)
{
    const Instruction *inst = call->inst;
    ElementwiseKernel e;
    if (!elementwise_kernel(inst, call->eval->options.exact, &e)) {
        if (inst->operand_count == 0)
            eval_fail(call, "it has no operands");
        eval_unsupported(call, "%s of %s to %s", op_info[inst->op].name,
                         dtype_name(inst->operands[0]->shape->dtype),
                         dtype_name(inst->shape->dtype));
    }
    Value *v = eval_result(call);
    const void *in[3] = {0};
    join_sizes(call, v);
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Value *x = call->operands[i];
        in[i] = stretched(call, x, v);
        if (x->shape->dtype != e.operand[i]) {
            void *converted =
                eval_temp(call, (size_t)x->count, dtype_info[e.operand[i]].storage);
            number_convert(e.operand[i], converted, x->shape->dtype, in[i],
                           (size_t)x->count);
            in[i] = converted;
        }
        if (x->count == 1 && v->count != 1)
            e.kernel.single |= 1u << i;
        else if (x->count != v->count)
            eval_fail(call, "operand %u has %lld elements but the result has %lld", i,
                      (long long)x->count, (long long)v->count);
    }
    if (e.kernel.single != 0 && inst->op != OP_CLAMP && inst->op != OP_SELECT)
        eval_fail(call, "operands have different sizes");
    if (e.result == v->shape->dtype) {
        e.kernel.run(v->data, in, (size_t)v->count, &e.kernel);
        return;
    }
    void *out = eval_temp(call, (size_t)v->count, dtype_info[e.result].storage);
    e.kernel.run(out, in, (size_t)v->count, &e.kernel);
    number_convert(v->shape->dtype, v->data, e.result, out, (size_t)v->count);
}
