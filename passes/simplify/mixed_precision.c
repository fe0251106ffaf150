/* Mixed precision becomes explicit: where a text gives operands and result different float types,
 * and leaves it to the compiler to convert them, conversions say so.
 *
 *   r = f32[8] add(a, b), a: bf16[8], b: f32[8]   =>  c = f32[8] convert(a)   r = f32[8] add(c, b)
 *   r = bf16[8] exponential(b), b: f32[8]         =>  e = f32[8] exponential(b)   r = bf16[8] convert(e)
 *   r = f32[8,4] transpose(a), a: bf16[4,8]       =>  c = f32[4,8] convert(a) r = f32[8,4] transpose(c)
 *
 * Needs: nothing. Keeps: values. Ends: one sweep. Runs at every level: kernels and rules below take
 * it that what is added, or moved, is of one type. */
#include "ir/infer/infer.h"
#include "passes/simplify/rewrite.h"
#include "passes/simplify/simplify.h"

typedef struct Mixed {
    Rewriter r;
    Instruction **forward; /* [count] by old id */
    uint32_t count;
} Mixed;

/* -- what is mixed -------------------------------------------------------------------------- */

static bool is_float_but(const Instruction *inst, DType t)
{
    return shape_is_array(inst->shape) && dtype_is_float(inst->shape->dtype) &&
           inst->shape->dtype != t;
}

static bool is_elementwise(const Instruction *inst)
{
    return op_is(inst->op, OPF_ELEMENTWISE) && inst->operand_count > 0 &&
           shape_is_array(inst->shape);
}

/* Gives floats that it is given: all of one type. */
static bool moves_floats(const Instruction *inst)
{
    bool as_bits = inst->op == OP_BITCAST || inst->op == OP_BITCAST_CONVERT;
    return op_is(inst->op, OPF_MOVES) && !as_bits && shape_is_array(inst->shape) &&
           dtype_is_float(inst->shape->dtype);
}

/* Gives what a computation makes of floats. */
static bool applies_to_floats(const Instruction *inst)
{
    bool applies = inst->op == OP_REDUCE || inst->op == OP_REDUCE_WINDOW ||
                   inst->op == OP_SELECT_AND_SCATTER || inst->op == OP_SCATTER;
    return applies && shape_is_array(inst->shape) && dtype_is_float(inst->shape->dtype);
}

/* The operands that are to have one type, and which; none of most instructions. */
static OperandRange like_operands(const Instruction *inst, DType *t)
{
    if (is_elementwise(inst)) {
        *t = infer_computing_type(inst);
        return infer_like_operands(inst);
    }
    bool applies = applies_to_floats(inst);
    uint32_t last =
        applies ? inst_called_count(inst) - 1 : 0; /* select does not make floats */
    *t = applies ? inst_called(inst, last)->root->shape->dtype : inst->shape->dtype;
    return (OperandRange){0, applies || moves_floats(inst) ? inst->operand_count : 0};
}

static bool has_other_result(const Instruction *inst, DType t)
{
    bool computes = is_elementwise(inst) && infer_computes_in_result(inst);
    return (computes || applies_to_floats(inst)) && inst->shape->dtype != t;
}

static bool is_mixed(const Instruction *inst)
{
    DType t;
    OperandRange like = like_operands(inst, &t);
    bool mixed = has_other_result(inst, t);
    for (uint32_t i = like.first; i < like.end; i++)
        mixed |= is_float_but(inst->operands[i], t);
    return mixed;
}

/* -- what becomes of it ------------------------------------------------------------------------ */

static void make_explicit(Mixed *x, Instruction *inst)
{
    DType t;
    OperandRange like = like_operands(inst, &t);
    x->r.at = inst;
    for (uint32_t i = like.first; i < like.end; i++) {
        Instruction *a = inst->operands[i];
        if (is_float_but(a, t))
            inst->operands[i] =
                rw_convert(&x->r, shape_with_dtype(x->r.m->intern, a->shape, t), a);
    }
    if (!has_other_result(inst, t))
        return;
    Instruction *wide =
        rw_like(&x->r, inst, shape_with_dtype(x->r.m->intern, inst->shape, t),
                inst->operand_count, inst->operands);
    wide->control = inst->control;
    wide->control_count = inst->control_count;
    x->forward[inst->id] = rw_convert(&x->r, inst->shape, wide);
}

static bool sweep(Module *m, Computation *comp, PassContext *cx)
{
    Mixed x = {.r = {.m = m, .comp = comp, .scratch = cx->scratch, .cx = cx},
               .count = comp->instruction_count};
    for (uint32_t i = 0; i < x.count; i++) {
        Instruction *inst = comp->instructions[i];
        if (inst == NULL || !is_mixed(inst))
            continue;
        if (x.forward == NULL)
            x.forward = ARENA_ARRAY(cx->scratch, Instruction *, x.count);
        make_explicit(&x, inst);
    }
    if (x.forward != NULL)
        computation_supersede(comp, x.forward, x.count);
    return x.forward != NULL;
}

bool pass_mixed_precision(Module *m, PassContext *cx)
{
    bool changed = false;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        changed |= sweep(m, comp, cx);
    if (changed)
        module_sort(m);
    return changed;
}
