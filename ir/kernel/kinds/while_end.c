/* Where loops end whose trips nobody has counted. Either all threads know it, from scalars that each of them computes; or
 * the loop goes on while any element does, as JAX's vmap makes them, and those that do not stay as they are:
 *
 *   condition: any(p(x))    body: x' = select(p(x), f(x), x)
 *
 * so that a thread whose element has ended need not wait for others. */
#include "ir/analysis/collective.h"
#include "ir/analysis/loop.h"
#include "ir/kernel/kinds/element_while.h"

/* The same truth values, whatever their shape: whether any holds is the same of both. A bitcast may be of bytes. */
static bool is_view(const Instruction *inst)
{
    return (inst->op == OP_BITCAST || inst->op == OP_RESHAPE) &&
           inst->operands[0]->shape->dtype == DT_PRED;
}

static bool is_any(const Instruction *inst)
{
    return inst->op == OP_REDUCE && inst->operand_count == 2 &&
           inst->shape->dtype == DT_PRED &&
           collective_reduction(inst_called(inst, 0)) == OP_MAXIMUM &&
           inst_is_constant_scalar(inst->operands[1], 0);
}

/* What is true of any element, in one step or in several. */
static const Instruction *of_elements(const Instruction *root)
{
    const Instruction *x = root;
    bool found = false;
    while (is_any(x) || is_view(x)) {
        found |= is_any(x);
        x = x->operands[0];
    }
    return found ? x : NULL;
}

typedef struct Same {
    const WhilePlan *p;
    const Computation *condition;
    const Instruction *
        *known; /* [instruction of the condition]: the body's that has its value */
} Same;

/* An instruction of the condition and one of the body have the same value in a trip. */
static bool is_same(const Same *s, const Instruction *x, const Instruction *y)
{
    int64_t element = loop_element(s->condition, x);
    if (element >= 0)
        return loop_element(s->p->body, y) == element;
    if (s->known[x->id] == y)
        return true;
    if (x->op == OP_PARAMETER || x->operand_count != y->operand_count ||
        !inst_same_operation(x, y))
        return false;
    for (uint32_t i = 0; i < x->operand_count; i++) {
        if (!is_same(s, x->operands[i], y->operands[i]))
            return false;
    }
    s->known[x->id] = y;
    return true;
}

/* Whether the condition reads anything of this role. */
static bool reads(const WhilePlan *p, const Computation *condition, WhileRole role)
{
    for (const Instruction *inst = inst_first(condition); inst; inst = inst_next(inst)) {
        int64_t element = loop_element(condition, inst);
        if (element >= 0 && p->roles[element] == role)
            return true;
    }
    return false;
}

const Instruction *while_asks(const WhilePlan *p, uint32_t element)
{
    const Instruction *x = p->body->root->operands[element]->operands[0];
    if (x->op != OP_BROADCAST)
        return x;
    Ints dims = inst_ints(x, ATTR_DIMENSIONS);
    for (uint32_t d = 0; d < dims.count; d++) {
        if (dims.data[d] != (int64_t)d)
            return x;
    }
    return x->operands[0];
}

/* What is carried stays as it is where the element's value does not hold. */
static bool stays(const Same *s, uint32_t element)
{
    const Instruction *next = s->p->body->root->operands[element];
    return next->op == OP_SELECT &&
           loop_element(s->p->body, next->operands[2]) == element &&
           shape_same_dims(next->operands[0]->shape, next->shape) &&
           is_same(s, s->p->more, while_asks(s->p, element));
}

const char *while_find_end(WhilePlan *p, Arena *a)
{
    const Computation *condition = inst_called(p->loop, 0);
    Same s = {.p = p,
              .condition = condition,
              .known =
                  ARENA_ARRAY(a, const Instruction *, condition->instruction_count + 1)};
    p->more = of_elements(condition->root);
    p->ends_alone = p->more != NULL;
    if (!p->ends_alone) {
        p->more = condition->root;
        return NULL;
    }
    /* scalars change in the trips of other elements, too */
    if (!while_is_rows(p, p->more->shape) || reads(p, condition, WHILE_SCALAR) ||
        !reads(p, condition, WHILE_ELEMENT))
        return "when it ends is not known of each element";
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->roles[i] == WHILE_FILLED ||
            (p->roles[i] == WHILE_ELEMENT && !stays(&s, i)))
            return "elements change after their own end";
    }
    return NULL;
}
