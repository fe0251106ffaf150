/* custom-call: the targets that have a meaning of their own. */
#include "ir/custom_call/custom_call.h"

#include <math.h>

#include "ir/eval/block_scaled.h"
#include "ir/eval/call.h"
#include "ir/eval/dynamic.h"
#include "ir/eval/linalg.h"
#include "ir/eval/topk.h"

/* -- halves of 64 bits ------------------------------------------------------------------------ */

static void split_float(const double *x, float *half, int64_t count, bool low)
{
    for (int64_t i = 0; i < count; i++) {
        float high = (float)x[i];
        half[i] = !low ? high : isfinite(high) ? (float)(x[i] - (double)high) : 0;
    }
}

static void combine_floats(const float *low, const float *high, double *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = (double)high[i] + (double)low[i];
}

static void split_integer(const uint64_t *x, uint32_t *half, int64_t count, bool low)
{
    for (int64_t i = 0; i < count; i++)
        half[i] = (uint32_t)(low ? x[i] : x[i] >> 32);
}

static void combine_integers(const uint32_t *low, const uint32_t *high, uint64_t *x,
                             int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = (uint64_t)high[i] << 32 | low[i];
}

static void x64(EvalCall *call, X64Part part)
{
    Value *v = eval_result(call);
    const void *a = call->operands[0]->data;
    bool low = part == X64_LOW;
    if (part == X64_COMBINE && v->shape->dtype == DT_F64)
        combine_floats(a, call->operands[1]->data, v->data, v->count);
    else if (part == X64_COMBINE)
        combine_integers(a, call->operands[1]->data, v->data, v->count);
    else if (v->shape->dtype == DT_F32)
        split_float(a, v->data, v->count, low);
    else
        split_integer(a, v->data, v->count, low);
}

/* -- marks ------------------------------------------------------------------------------------ */

static void marker(EvalCall *call)
{
    const Instruction *inst = call->inst;
    if (!shape_is_tuple(inst->shape) ||
        shape_compatible(inst->shape, inst->operands[0]->shape)) {
        call->result = value_retain(call->operands[0]);
        return;
    }
    Value *v = value_tuple(&call->eval->heap, inst->shape);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        v->elements[i] = value_retain(call->operands[i]);
    call->result = v;
}

/* -- all -------------------------------------------------------------------------------------- */

void eval_custom_call(EvalCall *call)
{
    const Instruction *inst = call->inst;
    X64Part part = custom_call_x64(inst);
    LapackCall lapack;
    if (custom_call_is_topk(inst)) {
        Value *v = eval_result(call);
        topk_rows(call, call->operands[0], true, v->elements[0], v->elements[1]);
    } else if (custom_call_is_pad_to_static(inst)) {
        pad_to_static(call);
    } else if (custom_call_is_slice_to_dynamic(inst)) {
        slice_to_dynamic(call);
    } else if (custom_call_is_marker(inst)) {
        marker(call);
    } else if (custom_call_is_new_buffer(inst)) {
        call->result = value_zero(&call->eval->heap, inst->shape);
    } else if (custom_call_is_seed(inst)) {
        eval_seed(call);
    } else if (custom_call_lapack(inst, &lapack)) {
        eval_lapack(call, &lapack);
    } else if (part != X64_NONE) {
        x64(call, part);
    } else if (!eval_block_scaled(call)) {
        const char *target = inst_bytes(inst, ATTR_CUSTOM_CALL_TARGET).data;
        eval_unsupported(call, "custom_call_target \"%s\"", target ? target : "");
    }
}
