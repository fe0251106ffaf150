/* Select-and-scatter where not every window is full, or elements lie apart: what each window selects is found
 * first.
 *
 *   (v, n) = reduce-window(x, numbers of the elements), both of what the window selects
 *   r = scatter(init, n, source): n is -1, which lies outside, where a window selects nothing */
#include "passes/simplify/expand.h"

/* The places that windows select go through a reduce-window as pairs of an element and its number; one
 * that is not there has the number -1, and is kept only until one comes that is there. */
static Computation *selection_of_present(Rewriter *r, Computation *select, DType number)
{
    Module *m = r->m;
    Computation *comp = module_add_computation(m, "select_present");
    const Shape *pred = shape_scalar(m->intern, DT_PRED),
                *pair[2] = {select->parameters[0]->shape,
                            shape_scalar(m->intern, number)};
    Instruction *p[4], *is_there[2], *chosen[2];
    for (uint32_t i = 0; i < 4; i++)
        p[i] = computation_add_parameter(comp, i, pair[i % 2], NULL);
    Instruction *zero = computation_add_scalar(comp, number, 0);
    for (uint32_t i = 0; i < 2; i++) {
        is_there[i] = computation_add(comp, OP_COMPARE, pred, 2,
                                      (Instruction *[]){p[2 * i + 1], zero}, NULL);
        inst_set_int(is_there[i], ATTR_DIRECTION, DIRECTION_GE);
    }
    Instruction *keeps =
        computation_add(comp, OP_CALL, pred, 2, (Instruction *[]){p[0], p[2]}, NULL);
    inst_set_computation(keeps, ATTR_TO_APPLY, select);
    Instruction *absent = computation_add(comp, OP_NOT, pred, 1, &is_there[1], NULL);
    keeps = computation_add(comp, OP_AND, pred, 2, (Instruction *[]){is_there[0], keeps},
                            NULL);
    keeps = computation_add(comp, OP_OR, pred, 2, (Instruction *[]){absent, keeps}, NULL);
    for (uint32_t i = 0; i < 2; i++)
        chosen[i] = computation_add(comp, OP_SELECT, pair[i], 3,
                                    (Instruction *[]){keeps, p[i], p[i + 2]}, NULL);
    comp->root =
        computation_add(comp, OP_TUPLE, shape_tuple(m->intern, 2, pair), 2, chosen, NULL);
    return comp;
}

static Instruction *masked(Rewriter *r, Instruction *x, Instruction *mask,
                           Instruction *fill)
{
    Instruction *operands[3] = {mask, x, rw_broadcast(r, x->shape, fill, 0, NULL)};
    return mask == NULL ? x : rw_add(r, OP_SELECT, x->shape, 3, operands);
}

/* For each window the number of the element that it selects; -1: none. */
static Instruction *selected_numbers(Rewriter *r, const Instruction *inst,
                                     Instruction *mask, DType type)
{
    static const int64_t first = 0;
    Intern *t = r->m->intern;
    const Shape *s = inst->operands[0]->shape, *windows = inst->operands[1]->shape;
    int64_t count = shape_elements(s);
    Instruction *numbers = rw_add(r, OP_IOTA, rw_shape(r, type, 1, &count), 0, NULL);
    inst_set_int(numbers, ATTR_IOTA_DIMENSION, first);
    numbers = rw_reshape(r, rw_shape(r, type, s->rank, s->dims), numbers);
    Instruction *none = rw_splat_int(r, shape_scalar(t, type), -1);
    Literal *zero = literal_create(r->m->arena, shape_scalar(t, s->dtype));
    Instruction *operands[4] = {inst->operands[0], masked(r, numbers, mask, none),
                                rw_constant(r, zero), none};
    const Shape *parts[2] = {rw_shape(r, s->dtype, windows->rank, windows->dims),
                             rw_shape(r, type, windows->rank, windows->dims)};
    Instruction *both =
        rw_add(r, OP_REDUCE_WINDOW, shape_tuple(t, 2, parts), 4, operands);
    const Attr *window = inst_attr(inst, ATTR_WINDOW);
    if (window != NULL)
        inst_set(both, *window);
    inst_set_computation(both, ATTR_TO_APPLY,
                         selection_of_present(r, inst_called(inst, 0), type));
    return rw_element(r, both, 1);
}

/* What combines, and the type it is done in: sums and products of short floats are rounded once, in the end. */
static Computation *combiner(Rewriter *r, const Instruction *inst, DType *out_type)
{
    Computation *comp = inst_called(inst, 1);
    OpCode op = rw_reducer_op(comp);
    *out_type = inst->shape->dtype;
    if ((op != OP_ADD && op != OP_MULTIPLY) || !dtype_is_float(*out_type) ||
        dtype_info[*out_type].bits >= 32)
        return comp;
    *out_type = DT_F32;
    const Shape *s = shape_scalar(r->m->intern, DT_F32);
    comp = module_add_computation(r->m, "combine_wide");
    Instruction *pair[2] = {computation_add_parameter(comp, 0, s, NULL),
                            computation_add_parameter(comp, 1, s, NULL)};
    comp->root = computation_add(comp, op, s, 2, pair, NULL);
    return comp;
}

/* In type t and the default layout. */
static Instruction *in_type(Rewriter *r, DType t, Instruction *x)
{
    return rw_convert(r, rw_shape(r, t, x->shape->rank, x->shape->dims), x);
}

Instruction *expand_select_and_scatter(Rewriter *r, Instruction *inst, Instruction *mask,
                                       Instruction *windows_mask)
{
    static const int64_t first = 0;
    const Shape *s = inst->shape, *windows = inst->operands[1]->shape;
    int64_t count = shape_elements(s);
    DType number = count > INT32_MAX ? DT_S64 : DT_S32, t;
    Computation *by = combiner(r, inst, &t);
    const Shape *flat = rw_shape(r, t, 1, &count);
    Instruction *none = rw_splat_int(r, shape_scalar(r->m->intern, number), -1);
    Instruction *numbers = selected_numbers(r, inst, mask, number);
    Instruction *operands[3] = {
        rw_broadcast(r, flat, in_type(r, t, inst->operands[2]), 0, NULL),
        masked(r, numbers, windows_mask, none), in_type(r, t, inst->operands[1])};
    Instruction *sums = rw_add(r, OP_SCATTER, flat, 3, operands);
    inst_set_ints(sums, ATTR_UPDATE_WINDOW_DIMS, NULL, 0);
    inst_set_ints(sums, ATTR_INSERTED_WINDOW_DIMS, &first, 1);
    inst_set_ints(sums, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, &first, 1);
    inst_set_int(sums, ATTR_INDEX_VECTOR_DIM, windows->rank);
    inst_set_computation(sums, ATTR_TO_APPLY, by);
    Instruction *rows = rw_reshape(r, rw_shape(r, t, s->rank, s->dims), sums);
    rows = in_type(r, s->dtype, rows);
    return rows->shape == s ? rows : rw_unary(r, OP_COPY, s, rows);
}

/* Kernels find the windows of a place where its elements lie side by side. */
static Instruction *dilated(Rewriter *r, Instruction *inst)
{
    const Window *w = inst_window(inst);
    bool has_gaps = false;
    for (uint32_t d = 0; d < w->rank; d++)
        has_gaps |= w->dims[d].base_dilation != 1;
    return has_gaps ? expand_select_and_scatter(r, inst, NULL, NULL) : NULL;
}

const Rule rules_expand_select[] = {
    {OP_SELECT_AND_SCATTER, "dilated_select", dilated},
    {0},
};
