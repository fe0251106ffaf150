/* See rounding.h. */
#include "ir/eval/rounding.h"

#include <math.h>
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/number/number.h"

/* -- one number --------------------------------------------------------------------------- */

/* splitmix64: Steele, Lea, Flood 2014. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* Numbers further that something moves, downwards at most `down`. */
typedef struct Steps {
    int down, up;
} Steps;

/* Sums move more: they are rounded after each term. 16-bit terms are summed in f32. */
static const Steps steps_result = {1, 1}, steps_term = {4, 4}, steps_term_16 = {1, 1};
/* Tensor cores do not read the last 13 bits. */
static const Steps steps_tf32 = {(1 << 13) - 1, 0};

static int64_t random_step(uint64_t *state, Steps s)
{
    return (int64_t)(next_random(state) >> 33) % (s.down + s.up + 1) - s.down;
}

/* Floats of one sign are in the order of their bits: `step` numbers further. */
static float move_f32(float x, int64_t step)
{
    uint32_t bits;
    if (!isfinite(x) || x == truncf(x))
        return x;
    memcpy(&bits, &x, sizeof bits);
    bits = (uint32_t)(bits + (uint64_t)step);
    memcpy(&x, &bits, sizeof bits);
    return x;
}

static double move_f64(double x, int64_t step)
{
    uint64_t bits;
    if (!isfinite(x) || x == trunc(x))
        return x;
    memcpy(&bits, &x, sizeof bits);
    bits += (uint64_t)step;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

static uint16_t move_16(DType t, uint16_t bits, int64_t step)
{
    float x = t == DT_BF16 ? number_bf16_to_float(bits) : number_f16_to_float(bits);
    return !isfinite(x) || x == truncf(x) ? bits : (uint16_t)(bits + (uint64_t)step);
}

/* -- arrays ------------------------------------------------------------------------------- */

static bool can_move(const Value *v)
{
    if (!shape_is_array(v->shape))
        return false;
    switch (v->shape->dtype) {
    case DT_F16:
    case DT_BF16:
    case DT_F32:
    case DT_F64:
    case DT_C64:
    case DT_C128:
        return true;
    default:
        return false;
    }
}

/* The components of complex numbers one by one. */
static void move_all(Value *v, uint64_t state, Steps steps)
{
    DType t = v->shape->dtype;
    int64_t n = v->count * (dtype_info[t].class == DTC_COMPLEX ? 2 : 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t step = random_step(&state, steps);
        if (t == DT_F32 || t == DT_C64) {
            float *x = (float *)v->data + i;
            *x = move_f32(*x, step);
        } else if (t == DT_F64 || t == DT_C128) {
            double *x = (double *)v->data + i;
            *x = move_f64(*x, step);
        } else {
            uint16_t *x = (uint16_t *)v->data + i;
            *x = move_16(t, *x, step);
        }
    }
}

static Value *copy_of(ValueHeap *heap, const Value *v)
{
    Value *copy = value_array(heap, v->shape);
    memcpy(copy->data, v->data, (size_t)v->count * value_element_bytes(v));
    if (v->sizes != NULL)
        value_copy_sizes(copy, v);
    return copy;
}

/* The same for a step of all devices that do the same. */
static uint64_t seed_of(EvalCall *call)
{
    uint64_t state = call->eval->options.rounding;
    state = state << 32 ^ call->inst->parent->id;
    next_random(&state);
    state ^= (uint64_t)call->inst->id << 32 ^ call->device->moved++;
    return next_random(&state);
}

/* -- operations --------------------------------------------------------------------------- */

static bool reducer_sums(const Instruction *inst)
{
    OpCode op = collective_reduction(inst_called(inst, 0));
    return op == OP_ADD || op == OP_MULTIPLY;
}

/* Factors that may lose bits to TF32, as far as the instruction lets them. */
static bool loses_bits(const EvalCall *call)
{
    const Instruction *inst = call->inst;
    int64_t algorithm = inst_int(inst, ATTR_ALGORITHM, ALGORITHM_UNSET);
    if (!call->eval->options.rounding_tf32 ||
        (inst->op != OP_DOT && inst->op != OP_CONVOLUTION) ||
        inst->shape->dtype != DT_F32 || !inst_has_default_precision(inst))
        return false;
    return algorithm == ALGORITHM_UNSET || algorithm == ALGORITHM_TF32_TF32_F32;
}

/* The operands [*first, *end) are terms of sums. */
static bool sums(const Instruction *inst, uint32_t *first, uint32_t *end)
{
    *first = 0;
    *end = inst->operand_count;
    switch (inst->op) {
    case OP_DOT:
    case OP_RAGGED_DOT:
    case OP_SCALED_DOT:
    case OP_CONVOLUTION:
    case OP_FFT:
    case OP_CHOLESKY:
    case OP_TRIANGULAR_SOLVE:
    case OP_BATCH_NORM_TRAINING:
    case OP_BATCH_NORM_GRAD:
        return true;
    case OP_REDUCE:
    case OP_REDUCE_WINDOW:
    case OP_ALL_REDUCE:
    case OP_ALL_REDUCE_START:
    case OP_REDUCE_SCATTER:
        return reducer_sums(inst);
    case OP_SCATTER:
        return reducer_sums(inst);
    case OP_SELECT_AND_SCATTER: /* the other operand is compared */
        *first = 1;
        *end = 2;
        return true;
    default:
        return false;
    }
}

static bool rounds(const Instruction *inst)
{
    if (!op_is(inst->op, OPF_ELEMENTWISE))
        return false;
    switch (inst->op) {
    case OP_ADD:
    case OP_SUBTRACT:
    case OP_MULTIPLY:
    case OP_DIVIDE:
        return true;
    default:
        return op_is(inst->op, OPF_ACCURACY);
    }
}

void rounding_move_operands(EvalCall *call)
{
    uint32_t first, end;
    if (call->phase != 0 || !sums(call->inst, &first, &end))
        return;
    uint64_t seed = seed_of(call);
    for (uint32_t i = first; i < end; i++) {
        const Value *v = call->operands[i];
        if (!can_move(v))
            continue;
        bool is_16 = dtype_info[v->shape->dtype].bits == 16;
        bool is_tf32 = v->shape->dtype == DT_F32 && loses_bits(call);
        Value *copy = copy_of(&call->eval->heap, v);
        move_all(copy, seed + i,
                 is_16     ? steps_term_16
                 : is_tf32 ? steps_tf32
                           : steps_term);
        call->operands[i] = copy;
    }
}

void rounding_move_result(EvalCall *call, Value *const *values)
{
    const Instruction *inst = call->inst;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (call->operands[i] != values[inst->operands[i]->id])
            value_release(call->operands[i]);
    }
    Value *v = call->result;
    if (v == NULL || !rounds(inst) || !can_move(v))
        return;
    if (v->references > 1 || v->owned == NULL) {
        call->result = copy_of(&call->eval->heap, v);
        value_release(v);
    }
    move_all(call->result, seed_of(call), steps_result);
}
