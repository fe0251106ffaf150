/* See activation.h. The form is matched from the result down, as an expression; who else reads its parts is the
 * caller's to ask. */
#include "ir/kernel/activation.h"

#include "ir/literal.h"
#include "ir/number/number.h"

#define DIGITS_PART 1e-6 /* of a number written with fewer digits than it has */

/* Of narrow types one constant stands for the number, its neighbours for others. */
static bool is_number(const Instruction *x, double value)
{
    while (x->op == OP_BROADCAST)
        x = x->operands[0];
    if (x->op != OP_CONSTANT || x->shape->rank != 0 || !dtype_is_float(x->shape->dtype))
        return false;
    DType t = x->shape->dtype;
    double found = literal_double(x->literal, 0);
    if (dtype_info[t].bits < 32)
        return found == number_to_double(t, number_from_double(t, value));
    double allowed = value * DIGITS_PART;
    return found - value <= allowed && value - found <= allowed;
}

static void take_step(ActivationForm *f, const Instruction *step)
{
    for (uint32_t i = 0; i < f->step_count; i++) {
        if (f->steps[i] == step)
            return;
    }
    if (f->step_count < ACTIVATION_STEPS)
        f->steps[f->step_count++] = step;
    else
        f->activation = ACTIVATION_NONE;
}

/* The other side of an operation, one side of which is the number; NULL: it is none. */
static const Instruction *beside_number(ActivationForm *f, const Instruction *inst,
                                        OpCode op, double value)
{
    for (uint32_t side = 0; inst->op == op && side < 2; side++) {
        if (is_number(inst->operands[side], value)) {
            take_step(f, inst);
            return inst->operands[!side];
        }
    }
    return NULL;
}

/* x^3 */
static bool is_cube(ActivationForm *f, const Instruction *inst, const Instruction *x)
{
    for (uint32_t side = 0; inst->op == OP_MULTIPLY && side < 2; side++) {
        const Instruction *square = inst->operands[side];
        if (inst->operands[!side] == x && square->op == OP_MULTIPLY &&
            square->operands[0] == x && square->operands[1] == x) {
            take_step(f, square);
            take_step(f, inst);
            return true;
        }
    }
    return false;
}

/* x + 0.044715 x^3 */
static bool is_inner(ActivationForm *f, const Instruction *inst, const Instruction *x)
{
    for (uint32_t side = 0; inst->op == OP_ADD && side < 2; side++) {
        const Instruction *term = inst->operands[side], *cube;
        if (inst->operands[!side] == x &&
            (cube = beside_number(f, term, OP_MULTIPLY, 0.044715)) != NULL &&
            is_cube(f, cube, x)) {
            take_step(f, inst);
            return true;
        }
    }
    return false;
}

/* 1 + tanh(sqrt(2 / pi) * inner) */
static bool is_outer(ActivationForm *f, const Instruction *inst, const Instruction *x)
{
    const Instruction *t = beside_number(f, inst, OP_ADD, 1);
    if (t == NULL || t->op != OP_TANH)
        return false;
    const Instruction *inner =
        beside_number(f, t->operands[0], OP_MULTIPLY, 0.7978845608028654);
    take_step(f, t);
    return inner != NULL && is_inner(f, inner, x);
}

/* x * (outer / 2), or (x / 2) * outer */
static bool is_gelu(ActivationForm *f, const Instruction *y, uint32_t side)
{
    const Instruction *a = y->operands[side], *b = y->operands[!side], *half;
    f->activation = ACTIVATION_GELU;
    f->step_count = 0;
    f->argument = a;
    if ((half = beside_number(f, b, OP_MULTIPLY, 0.5)) != NULL && is_outer(f, half, a))
        return true;
    f->step_count = 0;
    f->argument = beside_number(f, a, OP_MULTIPLY, 0.5);
    return f->argument != NULL && is_outer(f, b, f->argument);
}

ActivationForm activation_of(const Instruction *y)
{
    ActivationForm f = {.activation = ACTIVATION_NONE};
    if (!shape_is_array(y->shape) || !dtype_is_float(y->shape->dtype))
        return f;
    if (y->op == OP_MAXIMUM) {
        uint32_t side = inst_is_constant_scalar(y->operands[0], 0) ? 0 : 1;
        f.argument = y->operands[!side];
        if (inst_is_constant_scalar(y->operands[side], 0))
            f.activation = ACTIVATION_RELU;
    } else if (y->op == OP_MULTIPLY && !is_gelu(&f, y, 0) && !is_gelu(&f, y, 1)) {
        f.activation = ACTIVATION_NONE;
    }
    if (f.activation != ACTIVATION_NONE)
        take_step(&f, y);
    return f;
}
