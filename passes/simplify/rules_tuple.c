/* Rules of tuples and of what carries them.
 *
 * Measure: number of operations. */
#include "passes/simplify/rewrite.h"

/* get-tuple-element(tuple(.., x, ..)) -> x */
static Instruction *element_of_tuple(Rewriter *r, Instruction *inst)
{
    (void)r;
    Instruction *t = inst->operands[0];
    if (t->op != OP_TUPLE)
        return NULL;
    return rw_as(inst, t->operands[inst_int(inst, ATTR_INDEX, 0)]);
}

/* tuple(get-tuple-element(t, 0), get-tuple-element(t, 1), ..) -> t */
static Instruction *tuple_of_elements(Rewriter *r, Instruction *inst)
{
    (void)r;
    if (inst->operand_count == 0 || inst == inst->parent->root)
        return NULL;
    const Instruction *first = inst->operands[0];
    if (first->op != OP_GET_TUPLE_ELEMENT || first->operands[0]->shape != inst->shape)
        return NULL;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Instruction *e = inst->operands[i];
        if (e->op != OP_GET_TUPLE_ELEMENT || e->operands[0] != first->operands[0] ||
            inst_int(e, ATTR_INDEX, -1) != i)
            return NULL;
    }
    return first->operands[0];
}

/* domain(x) -> x: shardings are taken as given */
static Instruction *domain_nothing(Rewriter *r, Instruction *inst)
{
    (void)r;
    return rw_as(inst, inst->operands[0]);
}

/* get-dimension-size of a static dimension -> its size */
static Instruction *dimension_size(Rewriter *r, Instruction *inst)
{
    const Shape *s = inst->operands[0]->shape;
    int64_t d = inst_ints(inst, ATTR_DIMENSIONS).data[0];
    if ((s->dynamic && s->dynamic[d]) || s->dims[d] == DIM_UNBOUNDED)
        return NULL;
    return rw_splat_int(r, inst->shape, s->dims[d]);
}

/* get-dimension-size(set-dimension-size(x, n)) -> n, or of another dimension: of x */
static Instruction *dimension_size_set(Rewriter *r, Instruction *inst)
{
    Instruction *set = inst->operands[0];
    if (set->op != OP_SET_DIMENSION_SIZE)
        return NULL;
    if (inst_ints(inst, ATTR_DIMENSIONS).data[0] ==
        inst_ints(set, ATTR_DIMENSIONS).data[0])
        return rw_as(inst, set->operands[1]);
    return rw_like(r, inst, inst->shape, 1, set->operands);
}

const Rule rules_tuple[] = {
    {OP_GET_TUPLE_ELEMENT, "element_of_tuple", element_of_tuple},
    {OP_TUPLE, "tuple_of_elements", tuple_of_elements},
    {OP_DOMAIN, "domain_nothing", domain_nothing},
    {OP_GET_DIMENSION_SIZE, "dimension_size", dimension_size},
    {OP_GET_DIMENSION_SIZE, "dimension_size_set", dimension_size_set},
    {0},
};
