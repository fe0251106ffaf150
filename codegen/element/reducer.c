/* See reducer.h. */
#include "codegen/element/reducer.h"

#include <math.h>

#include "codegen/element/op_emit.h"
#include "ir/base/bug.h"

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

/* The simple components, and how they accumulate. */
static void find_components(Reducer *r)
{
    r->is_simple = computation_is_simple(r->comp, r->count);
    for (uint32_t i = 0; i < r->count; i++) {
        r->component[i] = r->is_simple ? computation_component(r->comp, i) : NULL;
        r->type[i] = shape_leaf(r->inst->shape, i)->dtype;
        r->accumulator[i] = computation_accumulator(r->comp, i, r->is_simple);
        r->is_wide[i] = r->accumulator[i] != shape_leaf(r->comp->root->shape, i)->dtype;
    }
}

/* Of operation i; false: the computation is not simple, or the operation has none that is known. */
static bool has_identity(const Reducer *r, uint32_t i, double *out)
{
    return r->is_simple && identity_of(r->component[i]->op, r->accumulator[i], out);
}

/* initial: [count], or NULL */
static void begin(Reducer *r, Emit *e, const Instruction *inst, const Computation *comp,
                  uint32_t count, Instruction *const *initial)
{
    *r = (Reducer){.e = e, .inst = inst, .comp = comp, .count = count, .position = -1};
    find_components(r);
    uint32_t lanes = e->lanes;
    e->lanes = 1;
    for (uint32_t i = 0; i < count && initial != NULL; i++) {
        emit_element(e, initial[i], NULL, &r->initial[i]);
        r->initial[i] = reducer_widen(r, i, r->initial[i]);
    }
    e->lanes = lanes;
}

/* The parameter that result i takes where its select says so, of its own two; -1: it is not one of them. */
static int64_t picked(const Reducer *r, uint32_t i)
{
    const Instruction *pick = r->comp->root->operands[i];
    if (pick->op != OP_SELECT || pick->operands[1]->op != OP_PARAMETER ||
        pick->operands[2]->op != OP_PARAMETER)
        return -1;
    int64_t a = pick->operands[1]->parameter, b = pick->operands[2]->parameter;
    return a != b && a % r->count == i && b % r->count == i ? a : -1;
}

/* It asks, among others, that both elements have the same value i. */
static bool asks_same(const Reducer *r, const Instruction *inst, uint32_t i)
{
    if (inst->op == OP_AND)
        return asks_same(r, inst->operands[0], i) || asks_same(r, inst->operands[1], i);
    const Instruction *x = inst->operand_count == 2 ? inst->operands[0] : NULL,
                      *y = inst->operand_count == 2 ? inst->operands[1] : NULL;
    return inst->op == OP_COMPARE && inst_int(inst, ATTR_DIRECTION, 0) == DIRECTION_EQ &&
           x->op == OP_PARAMETER && y->op == OP_PARAMETER &&
           x->parameter % r->count == i && y->parameter % r->count == i;
}

/* All results are picked of the same element as that of `position`, or have the same value in the other one:
 * the element is then one of two, whichever. */
static bool only_picks(const Reducer *r, uint32_t position)
{
    const Instruction *root = r->comp->root;
    if (root->op != OP_TUPLE)
        return false;
    bool takes_first = picked(r, position) == position;
    for (uint32_t i = 0; i < r->count; i++) {
        if (picked(r, i) < 0 || (picked(r, i) == i) != takes_first)
            return false;
        const Instruction *by = root->operands[i]->operands[0],
                          *whole = root->operands[position]->operands[0];
        bool wider = whole->op == OP_OR &&
                     ((whole->operands[0] == by && asks_same(r, whole->operands[1], i)) ||
                      (whole->operands[1] == by && asks_same(r, whole->operands[0], i)));
        if (by != whole && !wider)
            return false;
    }
    return true;
}

/* 0, 1, … along dimension `along`, in a type that counts so far. */
static bool counts_along(const Instruction *inst, int64_t along)
{
    DType t = inst->shape->dtype;
    if (t != DT_S32 && t != DT_U32 && t != DT_S64 && t != DT_U64)
        return false;
    if (inst->op == OP_BROADCAST && inst->operands[0]->shape->rank == 1) {
        if (inst_ints(inst, ATTR_DIMENSIONS).data[0] != along)
            return false;
        inst = inst->operands[0];
        along = 0;
    }
    return inst->op == OP_IOTA && inst_int(inst, ATTR_IOTA_DIMENSION, 0) == along;
}

static int32_t position_of(const Reducer *r)
{
    if (r->is_simple || r->inst->op != OP_REDUCE)
        return -1;
    Ints reduced = inst_ints(r->inst, ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < r->count && reduced.count == 1; i++) {
        if (counts_along(r->inst->operands[i], reduced.data[0]) &&
            inst_is_constant_scalar(r->inst->operands[r->count + i], 0) &&
            only_picks(r, i))
            return (int32_t)i;
    }
    return -1;
}

bool reducer_needs_order(const Reducer *r)
{
    return !r->is_simple && r->position < 0;
}

void reducer_begin(Reducer *r, Emit *e, const Instruction *inst)
{
    uint32_t half = inst->operand_count / 2;
    if (half > REDUCER_MOST)
        escape_throw(ESCAPE_UNSUPPORTED,
                     "%s reduces %u arrays at once; kernels handle %d", inst->name, half,
                     REDUCER_MOST);
    begin(r, e, inst, inst_called(inst, 0), half, inst->operands + half);
    r->position = position_of(r);
    double identity;
    for (uint32_t i = 0; i < half; i++)
        r->joins_initial |= has_identity(r, i, &identity) &&
                            !inst_is_constant_scalar(inst->operands[half + i], identity);
}

void reducer_begin_in_order(Reducer *r, Emit *e, const Instruction *inst,
                            const Computation *comp, Instruction *initial)
{
    begin(r, e, inst, comp, 1, &initial);
}

void reducer_begin_updates(Reducer *r, Emit *e, const Instruction *scatter)
{
    begin(r, e, scatter, inst_called(scatter, 0), scatter->operand_count / 2, NULL);
}

void reducer_start(const Reducer *r, LLVMValueRef *out)
{
    double identity;
    for (uint32_t i = 0; i < r->count; i++)
        out[i] = r->joins_initial && has_identity(r, i, &identity)
                     ? emit_number(r->e->k, r->accumulator[i], identity)
                     : r->initial[i];
}

LLVMValueRef reducer_widen(const Reducer *r, uint32_t i, LLVMValueRef element)
{
    if (r->accumulator[i] == r->type[i])
        return element;
    return scalar_convert_value(r->e->k, element, r->type[i], r->accumulator[i]);
}

static LLVMValueRef wide_operation(Kernel *k, OpCode op, LLVMValueRef a, LLVMValueRef b)
{
    switch (op) {
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
    for (uint32_t i = 0; i < r->count; i++) {
        args[i] = a[i];
        args[r->count + i] = b[i];
    }
    if (!r->is_simple) {
        emit_computation(r->e, r->comp, args, out);
        return;
    }
    for (uint32_t i = 0; i < r->count; i++) {
        const Instruction *op = r->component[i];
        LLVMValueRef pair[2] = {args[i], args[r->count + i]};
        out[i] = r->is_wide[i] ? wide_operation(r->e->k, op->op, pair[0], pair[1])
                               : op_emit[op->op].scalar(r->e->k, op, pair);
    }
}

void reducer_add(const Reducer *r, LLVMValueRef is_start, const LLVMValueRef *element,
                 LLVMValueRef *sum)
{
    LLVMValueRef next[REDUCER_MOST];
    bool may_start = is_start != NULL && !r->is_simple;
    reducer_combine(r, sum, element, next);
    for (uint32_t i = 0; i < r->count; i++)
        sum[i] = may_start ? LLVMBuildSelect(r->e->k->builder, is_start, element[i],
                                             next[i], "")
                           : next[i];
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
