/* Dots of dequantised f8 are dots of f8, scaled behind: tensor cores multiply f8 twice as fast as 16 bits, and
 * nothing is widened in memory. What scales them is one number, or one for each row; or
 * blocks along the sums: see block_scales.c.
 *
 *   x = bf16[64,64] multiply(convert(f8e4m3fn[64,64] a), bf16[64,64] broadcast(s))
 *   d = bf16[64,64] dot(x, bf16[64,64] convert(f8e4m3fn[64,64] b)), ...
 *   ->  p = f32[64,64] dot(a, b), ...
 *       d = bf16[64,64] convert(multiply(p, f32[64,64] broadcast(convert(s))))
 *
 * Needs: laid out. Keeps: values but for roundings, of which there are fewer. Ends: one sweep. */
#include <math.h>

#include "ir/kernel/matmul.h"
#include "ir/literal.h"
#include "passes/fusion/fusion.h"
#include "passes/library/block_scales.h"
#include "passes/library/library.h"
#include "passes/settings.h"
#include "passes/simplify/simplify.h"

/* An operand: f8, and the broadcast that it is multiplied with. */
typedef struct Dequantised {
    Instruction *x, *scale; /* scale: NULL if there is none */
} Dequantised;

static bool is_half(const Instruction *inst)
{
    return dtype_is_half(inst->shape->dtype);
}

/* Operand `side` of the dot is multiplied with it in the same way all along the sums. */
static bool is_even(const Instruction *dot, uint32_t side, const Instruction *x)
{
    Ints sums =
        inst_ints(dot, side == 0 ? ATTR_LHS_CONTRACTING_DIMS : ATTR_RHS_CONTRACTING_DIMS);
    if (x->op != OP_BROADCAST)
        return false;
    Ints dims = inst_ints(x, ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < sums.count; i++) {
        if (ints_contain(dims, sums.data[i]))
            return false;
    }
    return true;
}

/* No product of a value of type `of` and the scale is infinite or 0 for its rounding: bf16 has the exponents of f32, f16
 * has them where the scale is a number that is known. */
static bool stays_finite(const Instruction *scale, DType of)
{
    double greatest = of == DT_F8E5M2 ? 57344 : 448;
    double least = of == DT_F8E5M2 ? 0x1p-16 : 0x1p-9;
    const Instruction *x = scale->operands[0];
    if (scale->shape->dtype != DT_F16)
        return true;
    if (x->op != OP_CONSTANT || x->shape->rank != 0 || x->literal->elided)
        return false;
    double size = fabs(literal_double(x->literal, 0));
    return size * greatest <= 65504 && size * least >= 0x1p-24;
}

static bool describe(const Instruction *dot, uint32_t side, Dequantised *out)
{
    Instruction *operand = dot->operands[side];
    *out = (Dequantised){.x = operand};
    if (!is_half(operand))
        return false;
    for (uint32_t i = 0; i < 2 && operand->op == OP_MULTIPLY; i++) {
        if (out->scale != NULL || !is_even(dot, side, operand->operands[i]))
            continue;
        out->scale = operand->operands[i];
        out->x = operand->operands[!i];
    }
    if (out->x->op != OP_CONVERT || !dtype_is_ofp8(out->x->operands[0]->shape->dtype))
        return false;
    out->x = out->x->operands[0];
    return out->scale == NULL || stays_finite(out->scale, out->x->shape->dtype);
}

static Instruction *converted(Instruction *like, Instruction *x, DType to)
{
    const Shape *s = shape_with_dtype(like->parent->module->intern, x->shape, to);
    if (s == x->shape)
        return x;
    if (x->op == OP_CONSTANT && x->shape->rank == 0)
        return computation_add_scalar(like->parent, to, literal_double(x->literal, 0));
    Instruction *c = computation_add(like->parent, OP_CONVERT, s, 1, &x, NULL);
    c->span = like->span;
    return c;
}

/* x times what an operand of the dot was multiplied with. */
static Instruction *scaled(Instruction *dot, uint32_t side, Instruction *x,
                           const Instruction *broadcast, Arena *a)
{
    Ints from = inst_ints(broadcast, ATTR_DIMENSIONS);
    int64_t *dims = ARENA_ARRAY(a, int64_t, from.count + 1u);
    for (uint32_t i = 0; i < from.count; i++)
        dims[i] = dot_result_dim(dot, side, from.data[i]);
    Instruction *scale = converted(dot, broadcast->operands[0], DT_F32);
    Instruction *b =
        computation_add(dot->parent, OP_BROADCAST, x->shape, 1, &scale, NULL);
    Instruction *operands[2] = {x, b};
    Instruction *y =
        computation_add(dot->parent, OP_MULTIPLY, x->shape, 2, operands, NULL);
    inst_set_ints(b, ATTR_DIMENSIONS, dims, from.count);
    b->span = y->span = dot->span;
    return y;
}

static bool is_left_open(const Instruction *dot)
{
    return inst_has_default_precision(dot) &&
           inst_int(dot, ATTR_ALGORITHM, ALGORITHM_UNSET) == ALGORITHM_UNSET;
}

static Instruction *rewrite(Instruction *dot, void *context)
{
    const PassContext *cx = context;
    Dequantised sides[2];
    if (dot->op != OP_DOT || dot->control_count != 0 || !is_left_open(dot) ||
        !describe(dot, 0, &sides[0]) || !describe(dot, 1, &sides[1]) ||
        (!is_half(dot) && dot->shape->dtype != DT_F32))
        return NULL;
    Instruction *operands[2] = {sides[0].x, sides[1].x};
    const Shape *wide = shape_with_dtype(dot->parent->module->intern, dot->shape, DT_F32);
    Instruction *p = computation_add_like(dot->parent, dot, wide, 2, operands);
    MatmulShape s;
    if (!matmul_types_fit(p) || !matmul_target_has(p, cx->target) ||
        !matmul_shape(p, &s) ||
        (double)s.batch * (double)s.m * (double)s.n * (double)s.k <
            (double)cx->settings->library_dot_work) {
        computation_remove(dot->parent, p);
        return NULL;
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (sides[i].scale != NULL)
            p = scaled(dot, i, p, sides[i].scale, cx->scratch);
    }
    return converted(dot, p, dot->shape->dtype);
}

/* Those whose scales are of blocks along the sums: no dot of f8 by itself is what they are. */
static bool take_blocks(Computation *comp, PassContext *cx)
{
    LibraryChoice choice = library_choice(comp, cx);
    uint32_t count = comp->instruction_count;
    Instruction **forward = ARENA_ARRAY(cx->scratch, Instruction *, count);
    bool changed = false;
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i], *replaced;
        if (inst == NULL || (inst->op != OP_DOT && inst->op != OP_SCALED_DOT))
            continue;
        Instruction *product = block_scaled_product(&choice, cx, inst, &replaced);
        if (product == NULL)
            continue;
        forward[replaced->id] = product;
        changed = true;
    }
    if (changed)
        computation_substitute(comp, forward, count);
    return changed;
}

bool pass_dequantised_dots(Module *m, PassContext *cx)
{
    bool changed = false;
    if (cx->settings->cublaslt == 0)
        return false;
    Computations programs = module_programs(m, cx->scratch);
    bool has_blocks = target_has(cx->target, FEATURE_F8_ROW_SCALES);
    for (uint32_t c = 0; c < programs.count && has_blocks; c++)
        changed |= take_blocks(programs.data[c], cx);
    if (changed)
        fusion_name_all(m);
    changed |= module_replace_each(m, rewrite, cx, cx->scratch) != 0;
    if (!changed)
        return false;
    module_sort(m);
    pass_dce(m, cx);
    return true;
}
