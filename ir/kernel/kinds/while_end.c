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

/* Numbers of values: instructions of the condition and of the body that have the same one in each trip have the same
 * number. */
typedef struct Numbers {
    const WhilePlan *p;
    const Instruction **first; /* [number]: an instruction of the condition */
    uint32_t count;
    uint32_t *of_condition, *of_body; /* [instruction] */
} Numbers;

enum { NO_NUMBER = UINT32_MAX }; /* a value that the condition has not */

static bool same_value(const Numbers *n, const Instruction *x, const Instruction *y,
                       const uint32_t *of_y)
{
    int64_t element = loop_element(x->parent, x);
    if (element >= 0)
        return loop_element(y->parent, y) == element;
    if (x->op == OP_PARAMETER || x->operand_count != y->operand_count ||
        !inst_same_operation(x, y))
        return false;
    for (uint32_t i = 0; i < x->operand_count; i++) {
        if (n->of_condition[x->operands[i]->id] != of_y[y->operands[i]->id])
            return false;
    }
    return true;
}

static uint32_t find_number(const Numbers *n, const Instruction *y, const uint32_t *of_y)
{
    uint32_t i = 0;
    while (i < n->count && !same_value(n, n->first[i], y, of_y))
        i++;
    return i < n->count ? i : NO_NUMBER;
}

/* Each instruction is looked at once, its operands before it: a text may say everything twice. */
static void number_values(Numbers *n, const Computation *condition, Arena *a)
{
    const Computation *body = n->p->body;
    n->of_condition = ARENA_ARRAY(a, uint32_t, condition->instruction_count + 1);
    n->of_body = ARENA_ARRAY(a, uint32_t, body->instruction_count + 1);
    n->first = ARENA_ARRAY(a, const Instruction *, condition->instruction_count + 1);
    uint32_t count;
    Instruction **order = computation_post_order(condition, a, &count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t known = find_number(n, order[i], n->of_condition);
        if (known == NO_NUMBER) {
            known = n->count++;
            n->first[known] = order[i];
        }
        n->of_condition[order[i]->id] = known;
    }
    order = computation_post_order(body, a, &count);
    for (uint32_t i = 0; i < count; i++)
        n->of_body[order[i]->id] = find_number(n, order[i], n->of_body);
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
static bool stays(const Numbers *n, uint32_t element)
{
    const WhilePlan *p = n->p;
    const Instruction *next = p->body->root->operands[element];
    return next->op == OP_SELECT && loop_element(p->body, next->operands[2]) == element &&
           shape_same_dims(next->operands[0]->shape, next->shape) &&
           n->of_body[while_asks(p, element)->id] == n->of_condition[p->more->id];
}

const char *while_find_end(WhilePlan *p, Arena *a)
{
    const Computation *condition = inst_called(p->loop, 0);
    Numbers n = {.p = p};
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
    number_values(&n, condition, a);
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->roles[i] == WHILE_FILLED ||
            (p->roles[i] == WHILE_ELEMENT && !stays(&n, i)))
            return "elements change after their own end";
    }
    return NULL;
}
