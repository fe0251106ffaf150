/* Rules of sorts. Descending ones, as JAX has them, turn operands and results:
 *
 *   s = sort(reverse(x), reverse(iota)) by x; reverse(s.1)  =>  s = sort(x, iota) by x, descending; s.1
 *
 * Measure: what is turned. */
#include "ir/kernel/kernel.h"
#include "ir/kernel/sort.h"
#include "passes/simplify/rewrite.h"

static bool is_turned(const Instruction *inst, const Instruction *sort)
{
    Ints by = inst_ints(inst, ATTR_DIMENSIONS);
    return inst->op == OP_REVERSE && by.count == 1 &&
           by.data[0] == inst_ints(sort, ATTR_DIMENSIONS).data[0];
}

/* Whether an array turned costs nothing: it is turned already, indices along the dimension, or read by a sort that
 * computes what it reads; or its order is not seen. */
static bool turns_freely(Rewriter *r, const Instruction *sort, uint32_t i,
                         const Instruction *key)
{
    const Instruction *x = sort->operands[i];
    if (x->op == OP_REVERSE)
        return is_turned(x, sort);
    if (sort->operand_count == 1 && key->op == OP_PARAMETER)
        return true;
    return sort_is_indices(x, inst_ints(sort, ATTR_DIMENSIONS).data[0]) ||
           sort_is_in_block(sort, r->cx->target);
}

/* Every reader turns the order. */
static bool all_is_read_turned(Rewriter *r, const Instruction *sort,
                               const Instruction *from)
{
    const Uses *uses = rw_uses(r);
    if (from->id >= r->known || from->control_count > 0 || from->parent->root == from)
        return false;
    for (uint32_t i = uses->start[from->id]; i < uses->start[from->id + 1]; i++) {
        const Instruction *reader = uses->list[i];
        bool is_element = reader->op == OP_GET_TUPLE_ELEMENT && from == sort;
        if (is_element ? !all_is_read_turned(r, sort, reader) : !is_turned(reader, sort))
            return false;
    }
    return true;
}

/* reverse(sort(x)), by a total order  =>  sort(reverse(x)) by the opposite one: equals lie the other way round twice */
static Instruction *reverse_sort(Rewriter *r, Instruction *inst)
{
    Instruction *from = inst->operands[0], *operands[KERNEL_MOST_VALUES];
    Instruction *sort = from->op == OP_GET_TUPLE_ELEMENT ? from->operands[0] : from;
    const Instruction *first, *second;
    bool is_greater;
    if (sort->op != OP_SORT || sort->operand_count > KERNEL_MOST_VALUES ||
        !rw_is_static(sort->operands[0]->shape) || !is_turned(inst, sort) ||
        !sort_compares(sort, &first, &second, &is_greater) ||
        !shape_is_array(first->shape) || dtype_is_complex(first->shape->dtype))
        return NULL;
    Computation *by = inst_called(sort, 0);
    if (dtype_is_float(first->shape->dtype) &&
        inst_int(by->root, ATTR_TYPE, COMPARE_FLOAT) != COMPARE_TOTALORDER)
        return NULL;
    for (uint32_t i = 0; i < sort->operand_count; i++) {
        if (!turns_freely(r, sort, i, first))
            return NULL;
    }
    if (!all_is_read_turned(r, sort, sort))
        return NULL;
    bool is_seen = sort->operand_count > 1 || first->op != OP_PARAMETER;
    for (uint32_t i = 0; i < sort->operand_count; i++) {
        Instruction *x = sort->operands[i];
        operands[i] = is_seen ? rw_like(r, inst, x->shape, 1, &x) : x;
    }
    bool is_less = inst_int(by->root, ATTR_DIRECTION, DIRECTION_EQ) == DIRECTION_LT;
    by = computation_clone(by, by->name);
    inst_set_int(by->root, ATTR_DIRECTION, is_less ? DIRECTION_GT : DIRECTION_LT);
    Instruction *turned = rw_like(r, sort, sort->shape, sort->operand_count, operands);
    inst_set_computation(turned, ATTR_TO_APPLY, by);
    if (sort == from)
        return rw_as(inst, turned);
    return rw_as(inst, rw_element(r, turned, (uint32_t)inst_int(from, ATTR_INDEX, 0)));
}

const Rule rules_sort[] = {
    {OP_REVERSE, "reverse_sort", reverse_sort},
    {0},
};
