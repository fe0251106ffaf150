/* Large products of f32 may round their factors to TF32 where the program leaves it open, as XLA does: tensor
 * cores then make them.
 *
 *   d = f32[512,512] dot(a, b), ...
 *   ->  d = f32[512,512] dot(a, b), ..., algorithm=dot_tf32_tf32_f32
 *
 * operand_precision high or highest, or an algorithm, asks for more; --f32-dots=f32 asks for it in all programs.
 * Small products, and those with few rows or columns, gain nothing and stay as they are.
 *
 * Needs: nothing. Keeps: values but for the rounding of factors to 11 bits. Ends: one sweep. */
#include "passes/library/library.h"
#include "passes/settings.h"

enum { LEAST_SIDE = 16 };

static bool is_left_open(const Instruction *inst)
{
    return inst_has_default_precision(inst) &&
           inst_int(inst, ATTR_ALGORITHM, ALGORITHM_UNSET) == ALGORITHM_UNSET;
}

static bool is_f32(const Instruction *inst)
{
    return inst->shape->dtype == DT_F32;
}

static double elements(const Shape *s, Ints dims)
{
    double n = 1;
    for (uint32_t i = 0; i < dims.count; i++)
        n *= (double)s->dims[dims.data[i]];
    return n;
}

static bool dot_gains(const Instruction *dot, const PassContext *cx)
{
    const Shape *lhs = dot->operands[0]->shape, *rhs = dot->operands[1]->shape;
    double batch = elements(lhs, inst_ints(dot, ATTR_LHS_BATCH_DIMS));
    double k = elements(lhs, inst_ints(dot, ATTR_LHS_CONTRACTING_DIMS));
    double m = (double)shape_elements(lhs) / (batch * k);
    double n = (double)shape_elements(rhs) / (batch * k);
    return m >= LEAST_SIDE && n >= LEAST_SIDE &&
           batch * m * n * k >= (double)cx->settings->tf32_work;
}

/* Of features of one group with those of another. */
static bool convolution_gains(const Instruction *conv, const PassContext *cx)
{
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    const Shape *w = conv->operands[1]->shape;
    double groups = (double)inst_int(conv, ATTR_FEATURE_GROUP_COUNT, 1) *
                    (double)inst_int(conv, ATTR_BATCH_GROUP_COUNT, 1);
    double in = (double)w->dims[l->rhs_input];
    double out = (double)w->dims[l->rhs_output];
    double work = (double)shape_elements(conv->shape) * (double)shape_elements(w) / out;
    return in >= 4 && out / groups >= LEAST_SIDE &&
           work >= (double)cx->settings->tf32_work;
}

static bool gains(const Instruction *inst, const PassContext *cx)
{
    if (inst->op != OP_DOT && inst->op != OP_CONVOLUTION)
        return false;
    if (!is_f32(inst) || !is_f32(inst->operands[0]) || !is_f32(inst->operands[1]) ||
        !is_left_open(inst) || shape_elements(inst->shape) == 0)
        return false;
    return inst->op == OP_DOT ? dot_gains(inst, cx) : convolution_gains(inst, cx);
}

bool pass_f32_products(Module *m, PassContext *cx)
{
    bool changed = false;
    if (!cx->settings->tf32 || !target_has(cx->target, FEATURE_TF32))
        return false;
    Computations programs = module_programs(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++) {
        for (Instruction *inst = inst_first(programs.data[c]); inst;
             inst = inst_next(inst)) {
            if (!gains(inst, cx))
                continue;
            inst_set_int(inst, ATTR_ALGORITHM, ALGORITHM_TF32_TF32_F32);
            cx->counts.tf32_products++;
            changed = true;
        }
    }
    return changed;
}
