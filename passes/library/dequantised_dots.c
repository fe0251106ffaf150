/* Dots of dequantised f8 are dots of f8, scaled behind: tensor cores multiply f8 twice as fast as 16 bits, and
 * nothing is widened in memory.
 *
 *   x = bf16[64,64] multiply(convert(f8e4m3fn[64,64] a), bf16[64,64] broadcast(s))
 *   d = bf16[64,64] dot(x, bf16[64,64] convert(f8e4m3fn[64,64] b)), ...
 *   ->  p = f32[64,64] dot(a, b), ...
 *       d = bf16[64,64] convert(multiply(p, f32[64,64] broadcast(convert(s))))
 *
 * Needs: laid out. Keeps: values but for roundings, of which there are fewer. Ends: one sweep. */
#include "ir/kernel/matmul.h"
#include "ir/literal.h"
#include "passes/library/library.h"
#include "passes/settings.h"
#include "passes/simplify/simplify.h"

/* An operand: f8, and the number that it is multiplied with. */
typedef struct Dequantised {
    Instruction *x, *scale; /* scale: NULL if there is none */
} Dequantised;

static bool is_f8_array(const Instruction *inst)
{
    return inst->shape->dtype == DT_F8E4M3FN || inst->shape->dtype == DT_F8E5M2;
}

static bool is_half(const Instruction *inst)
{
    return dtype_is_half(inst->shape->dtype);
}

static bool is_number(const Instruction *inst)
{
    return inst->op == OP_BROADCAST && inst->operands[0]->shape->rank == 0;
}

static bool describe(Instruction *operand, Dequantised *out)
{
    *out = (Dequantised){.x = operand};
    if (!is_half(operand))
        return false;
    for (uint32_t i = 0; i < 2 && operand->op == OP_MULTIPLY; i++) {
        if (out->scale != NULL || !is_number(operand->operands[i]))
            continue;
        out->scale = operand->operands[i]->operands[0];
        out->x = operand->operands[!i];
    }
    if (out->x->op != OP_CONVERT || !is_f8_array(out->x->operands[0]))
        return false;
    out->x = out->x->operands[0];
    return true;
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

/* x times a number. */
static Instruction *scaled(Instruction *dot, Instruction *x, Instruction *scale)
{
    Instruction *number = converted(dot, scale, DT_F32);
    Instruction *b =
        computation_add(dot->parent, OP_BROADCAST, x->shape, 1, &number, NULL);
    Instruction *operands[2] = {x, b};
    Instruction *y =
        computation_add(dot->parent, OP_MULTIPLY, x->shape, 2, operands, NULL);
    inst_set_ints(b, ATTR_DIMENSIONS, NULL, 0);
    b->span = y->span = dot->span;
    return y;
}

static bool is_left_open(const Instruction *dot)
{
    Ints precision = inst_ints(dot, ATTR_OPERAND_PRECISION);
    for (uint32_t i = 0; i < precision.count; i++) {
        if (precision.data[i] != PRECISION_DEFAULT)
            return false;
    }
    return inst_int(dot, ATTR_ALGORITHM, ALGORITHM_UNSET) == ALGORITHM_UNSET;
}

static Instruction *rewrite(Instruction *dot, void *context)
{
    const PassContext *cx = context;
    Dequantised sides[2];
    if (dot->op != OP_DOT || dot->control_count != 0 || !is_left_open(dot) ||
        !describe(dot->operands[0], &sides[0]) ||
        !describe(dot->operands[1], &sides[1]) ||
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
            p = scaled(dot, p, sides[i].scale);
    }
    return converted(dot, p, dot->shape->dtype);
}

bool pass_dequantised_dots(Module *m, PassContext *cx)
{
    if (cx->settings->cublaslt == 0 ||
        module_replace_each(m, rewrite, cx, cx->scratch) == 0)
        return false;
    module_sort(m);
    pass_dce(m, cx);
    return true;
}
