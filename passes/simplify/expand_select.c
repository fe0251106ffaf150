/* Select-and-scatter where not every window is full, elements lie apart, or many windows hold an element: what
 * each window selects is found first.
 *
 *   (v, n) = reduce-window(x, numbers of the elements), both of what the window selects
 *   r = scatter(init, n, source): n is -1, which lies outside, where a window selects nothing
 * or, where few windows hold an element, for each of those that do, in order:
 *   r = select(n of the window = the element's own number, r + source of the window, r) */
#include "ir/kernel/kind.h"
#include "passes/simplify/expand.h"

/* The positions that windows select go through a reduce-window as pairs of an element and its number; one
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
    return module_add_reducer(r->m, op, DT_F32);
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

/* Kernels find the windows of a position where its elements lie side by side. */
static Instruction *dilated(Rewriter *r, Instruction *inst)
{
    const Window *w = inst_window(inst);
    bool has_gaps = false;
    for (uint32_t d = 0; d < w->rank; d++)
        has_gaps |= w->dims[d].base_dilation != 1;
    return has_gaps ? expand_select_and_scatter(r, inst, NULL, NULL) : NULL;
}

/* -- by the windows of each element ----------------------------------------------------------------- */

enum {
    LEAST_ELEMENTS = 1 << 14,
    MOST_WINDOWS = 16 /* that may hold one element */,
    MOST_POSITIONS = 32 /* of a window */
};

/* Windows that can hold one position along a dimension. */
static int64_t holders(const WindowDim *w)
{
    int64_t span = (w->size - 1) * w->window_dilation + 1;
    return (span + w->stride - 1) / w->stride;
}

/* x, by window, for each element: of the window `back` before the last one that begins at the element or before,
 * along each dimension; `none` where there is none. */
static Instruction *of_window(Rewriter *r, const Instruction *inst, Instruction *x,
                              const int64_t *back, Instruction *none)
{
    const Shape *s = inst->shape, *from = x->shape;
    const WindowDim *w = inst_window(inst)->dims;
    uint32_t rank = s->rank;
    DType t = from->dtype;
    PaddingDim *padding = ARENA_ARRAY(r->m->arena, PaddingDim, rank);
    SliceDim *cut = ARENA_ARRAY(r->scratch, SliceDim, rank);
    int64_t *padded = ARENA_ARRAY(r->scratch, int64_t, rank);
    int64_t *spread = ARENA_ARRAY(r->scratch, int64_t, 2 * (size_t)rank);
    int64_t *merged = ARENA_ARRAY(r->scratch, int64_t, rank);
    int64_t *position = ARENA_ARRAY(r->scratch, int64_t, rank);
    for (uint32_t d = 0; d < rank; d++) {
        int64_t low = w[d].pad_low, stride = w[d].stride;
        padded[d] = (s->dims[d] - 1 + low) / stride + 1;
        padding[d].low = back[d];
        padding[d].high = padded[d] - from->dims[d] - back[d];
        spread[2 * d] = padded[d];
        spread[2 * d + 1] = stride;
        position[d] = 2 * (int64_t)d;
        merged[d] = padded[d] * stride;
        cut[d] = (SliceDim){low, low + s->dims[d], 1};
    }
    Padding *p = ARENA_NEW(r->m->arena, Padding);
    *p = (Padding){rank, padding};
    x = rw_binary(r, OP_PAD, rw_shape(r, t, rank, padded), x, none);
    inst_set(x, (Attr){.id = ATTR_PADDING, .padding = p});
    x = rw_broadcast(r, rw_shape(r, t, 2 * rank, spread), x, rank, position);
    x = rw_reshape(r, rw_shape(r, t, rank, merged), x);
    return rw_slice(r, rw_shape(r, t, rank, s->dims), x, cut);
}

/* How many windows may hold an element; 0: it is not of this form. */
static int64_t count_holders(Rewriter *r, const Instruction *inst)
{
    const Window *w = inst_window(inst);
    const Shape *s = inst->shape;
    int64_t all = 1, size = 1;
    if (r->cx->opt_level < 1 || w->rank != s->rank || 2 * s->rank > KERNEL_MOST_RANK ||
        shape_elements(s) < LEAST_ELEMENTS || !rw_is_static(s) ||
        rw_reducer_op(inst_called(inst, 1)) != OP_ADD || s->dtype == DT_PRED ||
        rw_is_zero_size(inst->operands[1]->shape))
        return 0;
    for (uint32_t d = 0; d < w->rank; d++) {
        if (w->dims[d].base_dilation != 1 || w->dims[d].pad_low < 0)
            return 0;
        all *= holders(&w->dims[d]);
        size *= w->dims[d].size;
        if (all > MOST_WINDOWS)
            return 0;
    }
    return size > 1 ? all : 0;
}

/* Positions of a window: numbers count so many along a dimension, the last one fastest. */
static int64_t positions_along(const WindowDim *w)
{
    return holders(w) * w->stride;
}

/* The computation compares its two parameters, and all windows are full: positions may be told by their numbers in the
 * window. */
static bool has_plain_windows(const Instruction *inst)
{
    const Window *w = inst_window(inst);
    const Computation *select = inst_called(inst, 0);
    int64_t all = 1, size = 1;
    for (uint32_t d = 0; d < w->rank; d++) {
        if (w->dims[d].window_dilation != 1 || w->dims[d].pad_low != 0 ||
            w->dims[d].pad_high != 0 || w->dims[d].reversal)
            return false;
        all *= positions_along(&w->dims[d]);
        size *= w->dims[d].size;
    }
    return all < UINT8_MAX && size <= MOST_POSITIONS && select->root->op == OP_COMPARE &&
           select->root->operands[0] == select->parameters[0] &&
           select->root->operands[1] == select->parameters[1];
}

/* For each window the number, in the window, of the position that it selects (u8). */
static Instruction *selected_positions(Rewriter *r, const Instruction *inst)
{
    Intern *t = r->m->intern;
    const Instruction *compare = inst_called(inst, 0)->root;
    Instruction *x = inst->operands[0], *best = NULL, *chosen = NULL;
    const WindowDim *w = inst_window(inst)->dims;
    const Shape *windows = inst->operands[1]->shape;
    const Shape *values = rw_shape(r, x->shape->dtype, windows->rank, windows->dims);
    const Shape *positions = shape_with_dtype(t, values, DT_U8);
    const Shape *pred = shape_with_dtype(t, values, DT_PRED);
    int64_t size = 1;
    for (uint32_t d = 0; d < windows->rank; d++)
        size *= w[d].size;
    for (int64_t i = 0; i < size; i++) {
        int64_t left = i, number = 0, base = 1;
        SliceDim *cut = ARENA_ARRAY(r->scratch, SliceDim, windows->rank);
        for (uint32_t d = windows->rank; d-- > 0; left /= w[d].size) {
            int64_t at = left % w[d].size;
            cut[d] = (SliceDim){at, at + (windows->dims[d] - 1) * w[d].stride + 1,
                                w[d].stride};
            number += at * base;
            base *= positions_along(&w[d]);
        }
        Instruction *value = rw_slice(r, values, x, cut);
        Instruction *position = rw_splat_int(r, positions, number);
        if (i > 0) {
            Instruction *keeps =
                rw_like(r, compare, pred, 2, (Instruction *[]){best, value});
            position = rw_add(r, OP_SELECT, positions, 3,
                              (Instruction *[]){keeps, chosen, position});
            value =
                rw_add(r, OP_SELECT, values, 3, (Instruction *[]){keeps, best, value});
        }
        best = value;
        chosen = position;
    }
    return chosen;
}

/* The number of each element in the window `back` before the last one that begins there or before. */
static Instruction *window_numbers(Rewriter *r, const Instruction *inst,
                                   const int64_t *back)
{
    const WindowDim *w = inst_window(inst)->dims;
    const Shape *s = rw_shape(r, DT_S32, inst->shape->rank, inst->shape->dims);
    Instruction *sum = NULL;
    int64_t base = 1, fixed = 0;
    for (uint32_t d = s->rank; d-- > 0;) {
        fixed += back[d] * w[d].stride * base;
        if (w[d].stride > 1) {
            Instruction *x = rw_add(r, OP_IOTA, s, 0, NULL);
            inst_set_int(x, ATTR_IOTA_DIMENSION, d);
            x = rw_binary(r, OP_REMAINDER, s, x, rw_splat_int(r, s, w[d].stride));
            x = rw_binary(r, OP_MULTIPLY, s, x, rw_splat_int(r, s, base));
            sum = sum == NULL ? x : rw_binary(r, OP_ADD, s, sum, x);
        }
        base *= positions_along(&w[d]);
    }
    Instruction *constant = rw_splat_int(r, s, fixed);
    return sum == NULL ? constant : rw_binary(r, OP_ADD, s, sum, constant);
}

/* The number of each element in all of the array. */
static Instruction *own_numbers(Rewriter *r, const Instruction *inst, DType number)
{
    const Shape *s = inst->shape;
    int64_t count = shape_elements(s);
    Instruction *own = rw_add(r, OP_IOTA, rw_shape(r, number, 1, &count), 0, NULL);
    inst_set_int(own, ATTR_IOTA_DIMENSION, 0);
    return rw_reshape(r, rw_shape(r, number, s->rank, s->dims), own);
}

static Instruction *by_windows(Rewriter *r, Instruction *inst)
{
    int64_t all = count_holders(r, inst);
    if (all == 0)
        return NULL;
    const Shape *s = inst->shape;
    const WindowDim *w = inst_window(inst)->dims;
    DType number = shape_elements(s) > INT32_MAX ? DT_S64 : DT_S32, t;
    Intern *intern = r->m->intern;
    combiner(r, inst, &t);
    bool is_plain = has_plain_windows(inst);
    number = is_plain ? DT_S32 : number;
    const Shape *numbered = rw_shape(r, number, s->rank, s->dims),
                *summed = rw_shape(r, t, s->rank, s->dims);
    Instruction *numbers =
        is_plain ? selected_positions(r, inst) : selected_numbers(r, inst, NULL, number);
    Instruction *none = rw_splat_int(r, shape_scalar(intern, numbers->shape->dtype),
                                     is_plain ? UINT8_MAX : -1);
    if (is_plain) /* made once: not again for each window that holds an element */
        numbers = rw_unary(r, OP_OPT_BARRIER, numbers->shape, numbers);
    Instruction *zero = rw_splat(r, shape_scalar(intern, s->dtype), 0);
    Instruction *own = is_plain ? NULL : own_numbers(r, inst, number);
    Instruction *sum = rw_broadcast(r, summed, in_type(r, t, inst->operands[2]), 0, NULL);
    for (int64_t i = 0; i < all; i++) {
        int64_t left = i, back[KERNEL_MOST_RANK];
        for (uint32_t d = s->rank; d-- > 0; left /= holders(&w[d]))
            back[d] = holders(&w[d]) - 1 - left % holders(&w[d]);
        Instruction *number_of =
            rw_convert(r, numbered, of_window(r, inst, numbers, back, none));
        if (is_plain)
            own = window_numbers(r, inst, back);
        Instruction *source = of_window(r, inst, inst->operands[1], back, zero);
        Instruction *hit = rw_compare(r, number_of, own, DIRECTION_EQ);
        Instruction *more =
            rw_binary(r, OP_ADD, summed, sum, rw_convert(r, summed, source));
        sum = rw_add(r, OP_SELECT, summed, 3, (Instruction *[]){hit, more, sum});
    }
    sum = in_type(r, s->dtype, sum);
    return sum->shape == s ? sum : rw_unary(r, OP_COPY, s, sum);
}

const Rule rules_expand_select[] = {
    {OP_SELECT_AND_SCATTER, "select_by_windows", by_windows},
    {OP_SELECT_AND_SCATTER, "dilated_select", dilated},
    {0},
};
