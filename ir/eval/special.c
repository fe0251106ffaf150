/* map and scan: opcodes that come down to a called computation. */
#include "ir/eval/apply.h"
#include "ir/eval/call.h"
#include "ir/eval/strided.h"

void eval_map(EvalCall *call)
{
    const Instruction *inst = call->inst;
    Apply *p = apply_of(call, inst_called(inst, 0));
    Value *v = eval_result(call);
    const void **in = ARENA_ARRAY(call->scratch, const void *, inst->operand_count);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        in[i] = call->operands[i]->data;
    if (apply_result_count(p) != 1 || apply_result_type(p, 0) != v->shape->dtype)
        eval_fail(call, "the computation does not give a scalar of the result's type");
    void *out[1] = {v->data};
    apply_run(call, p, (size_t)v->count, in, out);
    if (inst->operand_count > 0)
        value_copy_sizes(v, call->operands[0]);
}

/* -- scan --------------------------------------------------------------------------- */

/* Element `step` of dimension d of an array, and the row-major array of its other dimensions. */
static void copy_step(const Shape *whole, int64_t d, int64_t step, char *array,
                      char *part, bool out)
{
    int64_t strides[EVAL_RANK_MAX], dims[EVAL_RANK_MAX], dense[EVAL_RANK_MAX];
    size_t size = dtype_info[whole->dtype].storage;
    strides_row_major(whole->rank, whole->dims, strides);
    array += step * strides[d] * (int64_t)size;
    uint32_t rank = 0;
    for (uint32_t k = 0; k < whole->rank; k++) {
        if (k == d)
            continue;
        dims[rank] = whole->dims[k];
        strides[rank++] = strides[k];
    }
    strides_row_major(rank, dims, dense);
    if (out)
        strided_copy(size, rank, dims, array, strides, part, dense);
    else
        strided_copy(size, rank, dims, part, dense, array, strides);
}

static Value *leaf(Value *v, uint32_t i)
{
    return v->shape->dtype == DT_TUPLE ? v->elements[i] : v;
}

/* Arguments of a step: slices of the inputs, then the carries; it gives slices of the outputs,
 * then the carries. */
void eval_scan(EvalCall *call)
{
    const Instruction *inst = call->inst;
    const Computation *comp = inst_called(inst, 0);
    int64_t carries = inst_int(inst, ATTR_NUM_CARRIES, 0);
    int64_t d = inst_ints(inst, ATTR_DIMENSIONS).data[0];
    uint32_t inputs = inst->operand_count - (uint32_t)carries;
    uint32_t given = comp->root->shape->dtype == DT_TUPLE ? comp->root->shape->rank : 1;
    uint32_t outputs = given - (uint32_t)carries;
    Value *v = eval_result(call);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        if (call->operands[i]->shape->rank > EVAL_RANK_MAX)
            eval_unsupported(call, "arrays of more than %d dimensions", EVAL_RANK_MAX);
    if (inst->operand_count != comp->parameter_count || inst->operand_count < carries ||
        given < carries)
        eval_fail(call, "operands and computation do not fit");
    int64_t n = inputs > 0    ? call->operands[0]->shape->dims[d]
                : outputs > 0 ? leaf(v, 0)->shape->dims[d]
                              : 0;
    Value **arguments = ARENA_ARRAY(call->scratch, Value *, inst->operand_count);
    for (uint32_t i = inputs; i < inst->operand_count; i++)
        arguments[i] = value_retain(call->operands[i]);
    for (int64_t step = 0; step < n; step++) {
        int64_t at = inst_bool(inst, ATTR_IS_REVERSE) ? n - 1 - step : step;
        for (uint32_t i = 0; i < inputs; i++) {
            arguments[i] = eval_array(call, comp->parameters[i]->shape);
            copy_step(call->operands[i]->shape, d, at, call->operands[i]->data,
                      arguments[i]->data, false);
        }
        Value *result = eval_nested(call, comp, inst->operand_count, arguments);
        for (uint32_t i = 0; i < inst->operand_count; i++)
            value_release(arguments[i]);
        for (uint32_t i = 0; i < outputs; i++)
            copy_step(leaf(v, i)->shape, d, at, leaf(v, i)->data, leaf(result, i)->data,
                      true);
        for (uint32_t i = 0; i < carries; i++)
            arguments[inputs + i] = value_retain(leaf(result, outputs + i));
        value_release(result);
    }
    for (uint32_t i = 0; i < carries; i++) {
        if (v->shape->dtype == DT_TUPLE) {
            value_release(v->elements[outputs + i]);
            v->elements[outputs + i] = arguments[inputs + i];
        } else {
            value_release(v);
            call->result = arguments[inputs + i];
        }
    }
}
