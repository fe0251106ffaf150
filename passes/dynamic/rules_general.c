/* Rules of static-shapes that change what is computed for each element: called computations that
 * look at masks, indices that are made to miss, and reshapes that move elements. */
#include <string.h>

#include "ir/kernel/element.h"
#include "passes/dynamic/sized.h"

/* -- reduce and sort -------------------------------------------------------------------------------- */

static Instruction *number(Statics *st, int64_t value)
{
    return rw_splat_int(&st->r, shape_scalar(st->r.m->intern, DT_S32), value);
}

static Instruction *add2(Computation *comp, OpCode op, Instruction *a, Instruction *b)
{
    Instruction *pair[2] = {a, b};
    return computation_add(comp, op, a->shape, 2, pair, NULL);
}

static const Instruction *unconverted(const Instruction *x)
{
    return x->op == OP_CONVERT ? x->operands[0] : x;
}

/* Sums and products in another type: convert(add(convert(a), convert(b))). */
static OpCode converted_op(const Computation *by)
{
    const Instruction *root = unconverted(by->root);
    OpCode op = rw_reducer_op(by);
    if (op != OP_COUNT || (root->op != OP_ADD && root->op != OP_MULTIPLY))
        return op;
    const Instruction *a = unconverted(root->operands[0]),
                      *b = unconverted(root->operands[1]);
    return a->op == OP_PARAMETER && b->op == OP_PARAMETER && a != b ? (OpCode)root->op
                                                                    : OP_COUNT;
}

/* What the reduction does with input k and nothing else; OP_COUNT: it is more. */
static OpCode operation_on(const Instruction *inst, uint32_t k)
{
    const Computation *by = inst_called(inst, 0);
    uint32_t count = inst->operand_count / 2;
    if (count == 1)
        return converted_op(by);
    return computation_is_simple(by, count) ? computation_component(by, k)->op : OP_COUNT;
}

/* What may stand beyond the sizes of input k: what changes nothing. That is what the reduction
 * starts from, but for the reducers with which it may start from anything. */
static Instruction *neutral(Statics *st, const Instruction *inst, Sized *const *x,
                            uint32_t k)
{
    const Shape *s = shape_with_dtype(st->r.m->intern, x[inst->operand_count / 2]->shape,
                                      x[k]->inst->shape->dtype);
    switch (operation_on(inst, k)) {
    case OP_ADD:
        return rw_splat(&st->r, s, -0.0);
    case OP_XOR:
        return rw_splat_int(&st->r, s, 0);
    case OP_MULTIPLY:
        return rw_splat(&st->r, s, 1);
    default:
        return rw_convert(&st->r, s, x[inst->operand_count / 2 + k]->inst);
    }
}

/* The reducer of one more array: elements, and whether they are there. */
static Computation *reducer_of_present(Statics *st, Computation *f, uint32_t n)
{
    Module *m = st->r.m;
    Computation *comp = module_add_computation(m, "reduce_present");
    const Shape *pred = shape_scalar(m->intern, DT_PRED);
    const Shape **shapes = ARENA_ARRAY(st->r.scratch, const Shape *, n + 1u);
    Instruction **p = ARENA_ARRAY(st->r.scratch, Instruction *, 2 * (size_t)n + 2);
    Instruction **operands = ARENA_ARRAY(st->r.scratch, Instruction *, 2 * (size_t)n);
    Instruction **parts = ARENA_ARRAY(st->r.scratch, Instruction *, n + 1u);
    for (uint32_t i = 0; i <= n; i++)
        shapes[i] = i < n ? f->parameters[i]->shape : pred;
    for (uint32_t k = 0; k < 2 * n + 2; k++)
        p[k] = computation_add_parameter(comp, k, shapes[k % (n + 1)], NULL);
    Instruction *has_a = p[n], *has_b = p[2 * n + 1];
    for (uint32_t i = 0; i < n; i++) {
        operands[i] = p[i];
        operands[n + i] = p[n + 1 + i];
    }
    Instruction *both =
        computation_add(comp, OP_CALL, f->root->shape, 2 * n, operands, NULL);
    inst_set_computation(both, ATTR_TO_APPLY, f);
    for (uint32_t i = 0; i < n; i++) {
        Instruction *joined = both;
        if (shape_is_tuple(both->shape)) {
            joined =
                computation_add(comp, OP_GET_TUPLE_ELEMENT, shapes[i], 1, &both, NULL);
            inst_set_int(joined, ATTR_INDEX, i);
        }
        Instruction *of_a[3] = {has_b, joined, p[i]};
        Instruction *of_b[3] = {
            has_a, computation_add(comp, OP_SELECT, shapes[i], 3, of_a, NULL),
            p[n + 1 + i]};
        parts[i] = computation_add(comp, OP_SELECT, shapes[i], 3, of_b, NULL);
    }
    parts[n] = add2(comp, OP_OR, has_a, has_b);
    comp->root = computation_add(comp, OP_TUPLE, shape_tuple(m->intern, n + 1, shapes),
                                 n + 1, parts, NULL);
    return comp;
}

/* Something neutral is known, or that a value twice is that value: see neutral. */
static bool is_known(OpCode op)
{
    return op == OP_ADD || op == OP_XOR || op == OP_MULTIPLY || op == OP_MAXIMUM ||
           op == OP_MINIMUM || op == OP_AND || op == OP_OR;
}

/* A reducer of which nothing is known but that it joins two elements: it gets none that are not there.
 * NULL: all are there, or the reducer is known. */
static Instruction *reduce_present(Statics *st, const Instruction *inst, Sized *const *x,
                                   const Ints *dims)
{
    Intern *t = st->r.m->intern;
    Computation *by = inst_called(inst, 0);
    uint32_t n = inst->operand_count / 2;
    bool is_all_known = true;
    for (uint32_t i = 0; i < n; i++) {
        DType type = shape_leaf(by->root->shape, i)->dtype;
        is_all_known = is_all_known && is_known(operation_on(inst, i));
        if (by->parameters[i]->shape->dtype != type ||
            by->parameters[n + i]->shape->dtype != type ||
            x[i]->inst->shape->dtype != type || x[n + i]->inst->shape->dtype != type)
            return NULL;
    }
    Instruction *mask = is_all_known ? NULL : sized_mask(st, x[0], dims);
    if (mask == NULL)
        return NULL;
    const Shape **shapes = ARENA_ARRAY(st->r.scratch, const Shape *, n + 1u);
    Instruction **operands = ARENA_ARRAY(st->r.scratch, Instruction *, 2 * (size_t)n + 2);
    for (uint32_t i = 0; i < n; i++) {
        shapes[i] = dynamic_bounds(t, shape_leaf(inst->shape, i));
        operands[i] = x[i]->inst;
        operands[n + 1 + i] = x[n + i]->inst;
    }
    shapes[n] = shape_with_dtype(t, shapes[0], DT_PRED);
    operands[n] = mask;
    operands[2 * n + 1] = rw_splat_int(&st->r, shape_scalar(t, DT_PRED), 1);
    Instruction *all =
        rw_like(&st->r, inst, shape_tuple(t, n + 1, shapes), 2 * n + 2, operands);
    inst_set_computation(all, ATTR_TO_APPLY, reducer_of_present(st, by, n));
    return all;
}

bool sized_reduce(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    uint32_t count = inst->operand_count / 2;
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    Sized *masked = ARENA_ARRAY(st->r.scratch, Sized, count + 1u);
    Sized **operands = ARENA_ARRAY(st->r.scratch, Sized *, inst->operand_count + 1u);
    memcpy(operands, x, inst->operand_count * sizeof *operands);
    Instruction *present = reduce_present(st, inst, x, &dims);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t at = 0;
        out[k].sizes = sized_scratch(st, x[k]->inst->shape->rank);
        for (uint32_t d = 0; d < x[k]->inst->shape->rank; d++) {
            if (!ints_contain(dims, d))
                out[k].sizes[at++] = sized_has(x[k], d) ? x[k]->sizes[d] : NULL;
        }
        if (present != NULL) {
            out[k].inst = sized_element(st, present, k);
            continue;
        }
        masked[k] = *x[k];
        masked[k].sizes = x[0]->sizes; /* the first one says what is there */
        if (operation_on(inst, k) == OP_ADD && x[k]->inst->shape->dtype == DT_F8E8M0FNU &&
            sized_mask(st, &masked[k], &dims) != NULL)
            return false; /* it has no 0 */
        masked[k].inst = sized_masked(st, &masked[k], &dims, neutral(st, inst, x, k));
        operands[k] = &masked[k];
    }
    if (present != NULL)
        return true;
    Instruction *all = sized_again(st, inst, operands);
    for (uint32_t k = 0; k < count; k++)
        out[k].inst = sized_element(st, all, k);
    return true;
}

Instruction *sized_window_count(Statics *st, Instruction *size, const WindowDim *w)
{
    Rewriter *r = &st->r;
    const Shape *s = size->shape;
    Instruction *n = size, *zero = number(st, 0);
    if (w->base_dilation != 1) {
        n = rw_binary(r, OP_MULTIPLY, s, n, number(st, w->base_dilation));
        n = rw_binary(r, OP_SUBTRACT, s, n, number(st, w->base_dilation - 1));
        n = rw_binary(r, OP_MAXIMUM, s, n, zero);
    }
    int64_t span = (w->size - 1) * w->window_dilation + 1;
    n = rw_binary(r, OP_ADD, s, n,
                  number(st, w->pad_low + w->pad_high - span + w->stride));
    n = rw_binary(r, OP_DIVIDE, s, n, number(st, w->stride));
    return rw_binary(r, OP_MAXIMUM, s, n, zero);
}

/* Beyond the sizes lies what the reduction starts from. */
bool sized_reduce_window(Statics *st, const Instruction *inst, Sized *const *x,
                         Sized *out)
{
    uint32_t count = inst->operand_count / 2;
    const Window *window = inst_window(inst);
    Sized *masked = ARENA_ARRAY(st->r.scratch, Sized, count + 1u);
    Sized **operands = ARENA_ARRAY(st->r.scratch, Sized *, inst->operand_count + 1u);
    memcpy(operands, x, inst->operand_count * sizeof *operands);
    for (uint32_t k = 0; k < count; k++) {
        const Shape *s = x[k]->inst->shape;
        Instruction *init = x[count + k]->inst;
        out[k].sizes = sized_scratch(st, s->rank);
        for (uint32_t d = 0; d < s->rank; d++) {
            if (sized_has(x[0], d))
                out[k].sizes[d] =
                    d < window->rank
                        ? sized_window_count(st, x[0]->sizes[d], &window->dims[d])
                        : x[0]->sizes[d];
        }
        masked[k] = *x[k];
        init = rw_in_type(&st->r, init, s->dtype);
        masked[k].inst = sized_masked(st, x[k], NULL, init);
        operands[k] = &masked[k];
    }
    Instruction *all = sized_again(st, inst, operands);
    for (uint32_t k = 0; k < count; k++)
        out[k].inst = sized_element(st, all, k);
    return true;
}

/* Elements that are there come first. */
static Computation *order_of_present(Statics *st, Computation *f)
{
    Module *m = st->r.m;
    Computation *comp = module_add_computation(m, "sort_present");
    uint32_t n = f->parameter_count;
    const Shape *pred = shape_scalar(m->intern, DT_PRED);
    Instruction **all = ARENA_ARRAY(st->r.scratch, Instruction *, n + 1u);
    for (uint32_t i = 0; i < n; i++)
        all[i] = computation_add_parameter(comp, i, f->parameters[i]->shape, NULL);
    Instruction *a = computation_add_parameter(comp, n, pred, NULL);
    Instruction *b = computation_add_parameter(comp, n + 1, pred, NULL);
    Instruction *less = computation_add(comp, OP_CALL, pred, n, all, NULL);
    inst_set_computation(less, ATTR_TO_APPLY, f);
    Instruction *absent = computation_add(comp, OP_NOT, pred, 1, &b, NULL);
    comp->root = add2(comp, OP_AND, a, add2(comp, OP_OR, absent, less));
    return comp;
}

bool sized_sort(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    uint32_t count = inst->operand_count;
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    Instruction *mask = sized_mask(st, x[0], &dims);
    for (uint32_t k = 0; k < count; k++)
        out[k].sizes = x[k]->sizes;
    if (mask == NULL) {
        Instruction *all = sized_again(st, inst, x);
        for (uint32_t k = 0; k < count; k++)
            out[k].inst = sized_element(st, all, k);
        return true;
    }
    Instruction **operands = sized_scratch(st, count + 1);
    const Shape **shapes = ARENA_ARRAY(st->r.scratch, const Shape *, count + 1);
    for (uint32_t k = 0; k < count; k++) {
        operands[k] = x[k]->inst;
        shapes[k] = x[k]->inst->shape;
    }
    operands[count] = mask;
    shapes[count] = mask->shape;
    Instruction *all =
        rw_like(&st->r, inst, shape_tuple(st->r.m->intern, count + 1, shapes), count + 1,
                operands);
    inst_set_computation(all, ATTR_TO_APPLY, order_of_present(st, inst_called(inst, 0)));
    for (uint32_t k = 0; k < count; k++)
        out[k].inst = sized_element(st, all, k);
    return true;
}

/* -- gather and scatter ------------------------------------------------------------------------------ */

bool sized_gather(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    Ints offset = inst_ints(inst, ATTR_OFFSET_DIMS),
         taken = inst_ints(inst, ATTR_SLICE_SIZES);
    Ints collapsed = inst_ints(inst, ATTR_COLLAPSED_SLICE_DIMS);
    Ints batch = inst_ints(inst, ATTR_OPERAND_BATCHING_DIMS);
    uint32_t d = 0, window = 0;
    out->inst = sized_again(st, inst, x);
    out->sizes = sized_scratch(st, inst->shape->rank);
    for (uint32_t k = 0; k < inst->shape->rank; k++) {
        if (ints_contain(offset, k))
            continue;
        d += d == inst_int(inst, ATTR_INDEX_VECTOR_DIM, 0);
        if (d < x[1]->inst->shape->rank && sized_has(x[1], d))
            out->sizes[k] = x[1]->sizes[d];
        d++;
    }
    for (d = 0; d < x[0]->inst->shape->rank; d++) {
        if (ints_contain(collapsed, d) || ints_contain(batch, d))
            continue;
        if (sized_has(x[0], d) && taken.data[d] == x[0]->inst->shape->dims[d])
            out->sizes[offset.data[window]] = x[0]->sizes[d];
        window++;
    }
    return true;
}

/* Index vectors beyond the sizes of the updates or of the indices themselves point outside. */
bool sized_scatter(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    uint32_t count = inst->operand_count / 2, at = 0;
    const Sized *updates = x[count + 1];
    Ints window = inst_ints(inst, ATTR_UPDATE_WINDOW_DIMS);
    int64_t vector = inst_int(inst, ATTR_INDEX_VECTOR_DIM, 0);
    Intern *t = st->r.m->intern;
    const Shape *s = x[count]->inst->shape;
    Sized indices = *x[count];
    indices.sizes = sized_scratch(st, s->rank);
    for (uint32_t d = 0; d < s->rank; d++) {
        if (d == vector)
            continue;
        while (at < updates->inst->shape->rank && ints_contain(window, at))
            at++;
        Instruction *own = sized_has(x[count], d) ? x[count]->sizes[d] : NULL;
        Instruction *other = sized_has(updates, at) ? updates->sizes[at] : NULL;
        indices.sizes[d] = own == NULL ? other
                           : other == NULL
                               ? own
                               : rw_binary(&st->r, OP_MINIMUM, own->shape, own, other);
        at++;
    }
    Sized **operands = ARENA_ARRAY(st->r.scratch, Sized *, inst->operand_count + 1u);
    memcpy(operands, x, inst->operand_count * sizeof *operands);
    if (sized_mask(st, &indices, NULL) != NULL) {
        if (inst_ints(inst, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS).count == 0)
            return false;
        if (dtype_info[s->dtype].bits < 32)
            indices.inst =
                rw_convert(&st->r, shape_with_dtype(t, s, DT_S32), indices.inst);
        Instruction *outside =
            rw_splat_int(&st->r, shape_scalar(t, indices.inst->shape->dtype), -1);
        indices.inst = sized_masked(st, &indices, NULL, outside);
        operands[count] = &indices;
    }
    Instruction *all = sized_again(st, inst, operands);
    for (uint32_t k = 0; k < count; k++) {
        out[k].inst = sized_element(st, all, k);
        out[k].sizes = x[k]->sizes;
    }
    return true;
}

/* -- reshapes ---------------------------------------------------------------------------------------- */

/* The result's dimension that dimension d of x is, with as many elements before it; the result's
 * rank: none. */
static uint32_t same_dimension(const Shape *x, uint32_t d, const Shape *v)
{
    int64_t before = 1, product = 1;
    uint32_t at = 0;
    for (uint32_t k = 0; k < d; k++)
        before *= x->dims[k];
    while (at < v->rank && product < before)
        product *= v->dims[at++];
    while (at < v->rank && v->dims[at] == 1 && x->dims[d] != 1)
        at++;
    return at < v->rank && product == before && v->dims[at] == x->dims[d] ? at : v->rank;
}

/* The one dimension of the result whose size follows from the others; its rank: none. */
static uint32_t free_dimension(const Instruction *inst)
{
    const Shape *s = inst->shape;
    int64_t inferred = inst_int(inst, ATTR_INFERRED_DIMENSION, -1);
    uint32_t found = s->rank, count = 0;
    if (inferred >= 0 && inferred < s->rank)
        return (uint32_t)inferred;
    for (uint32_t d = 0; s->dynamic != NULL && d < s->rank; d++) {
        if (s->dynamic[d]) {
            found = d;
            count++;
        }
    }
    return count == 1 ? found : s->rank;
}

typedef struct Moving {
    Statics *st;
    const Shape *index; /* s32 of the result's dimensions */
} Moving;

static Instruction *spread(Moving *mv, Instruction *scalar)
{
    return rw_broadcast(&mv->st->r, mv->index, scalar, 0, NULL);
}

/* The number of each element of the result among those that are there. */
static Instruction *element_numbers(Moving *mv, Instruction *const *sizes)
{
    Rewriter *r = &mv->st->r;
    Instruction *sum = rw_splat_int(r, mv->index, 0), *stride = number(mv->st, 1);
    for (uint32_t d = mv->index->rank; d-- > 0;) {
        Instruction *i = rw_add(r, OP_IOTA, mv->index, 0, NULL);
        inst_set_int(i, ATTR_IOTA_DIMENSION, d);
        Instruction *part = rw_binary(r, OP_MULTIPLY, mv->index, i, spread(mv, stride));
        sum = rw_binary(r, OP_ADD, mv->index, sum, part);
        Instruction *size = sizes[d] ? sizes[d] : number(mv->st, mv->index->dims[d]);
        stride = rw_binary(r, OP_MULTIPLY, stride->shape, stride, size);
    }
    return sum;
}

/* Where element `n` of those that are there lies in x, at the bounds. */
static Instruction *positions(Moving *mv, const Sized *x, Instruction *n)
{
    Rewriter *r = &mv->st->r;
    const Shape *s = x->inst->shape;
    Instruction *sum = rw_splat_int(r, mv->index, 0);
    int64_t stride = 1;
    for (uint32_t d = s->rank; d-- > 0; stride *= s->dims[d]) {
        Instruction *size = sized_size(mv->st, x, d), *one = number(mv->st, 1);
        size = spread(mv, rw_binary(r, OP_MAXIMUM, one->shape, size, one));
        Instruction *i = rw_binary(r, OP_REMAINDER, mv->index, n, size);
        n = rw_binary(r, OP_DIVIDE, mv->index, n, size);
        i = rw_binary(r, OP_MULTIPLY, mv->index, i, rw_splat_int(r, mv->index, stride));
        sum = rw_binary(r, OP_ADD, mv->index, sum, i);
    }
    return sum;
}

static Instruction *gathered(Moving *mv, const Sized *x, Instruction *at, const Shape *s)
{
    static const int64_t zero = 0, one = 1;
    Rewriter *r = &mv->st->r;
    int64_t all = shape_elements(x->inst->shape);
    Instruction *flat =
        rw_reshape(r, rw_shape(r, x->inst->shape->dtype, 1, &all), x->inst);
    Instruction *g = rw_binary(r, OP_GATHER, s, flat, at);
    inst_set_ints(g, ATTR_OFFSET_DIMS, NULL, 0);
    inst_set_ints(g, ATTR_COLLAPSED_SLICE_DIMS, &zero, 1);
    inst_set_ints(g, ATTR_START_INDEX_MAP, &zero, 1);
    inst_set_int(g, ATTR_INDEX_VECTOR_DIM, s->rank);
    inst_set_ints(g, ATTR_SLICE_SIZES, &one, 1);
    return g;
}

/* The elements that are there, in row-major order, to the positions that are there. */
static Instruction *moved(Statics *st, const Sized *x, Instruction *const *sizes,
                          const Shape *s)
{
    Moving mv = {st, shape_with_dtype(st->r.m->intern, s, DT_S32)};
    return gathered(&mv, x, positions(&mv, x, element_numbers(&mv, sizes)), s);
}

bool sized_reshape(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    const Shape *from = x[0]->inst->shape, *to = inst->shape;
    const Shape *s = dynamic_bounds(st->r.m->intern, to);
    bool keeps = true;
    out->sizes = sized_scratch(st, to->rank);
    for (uint32_t d = 0; d < from->rank; d++) {
        uint32_t at = sized_has(x[0], d) ? same_dimension(from, d, to) : to->rank;
        if (at < to->rank && out->sizes[at] != NULL) /* both of at most one element */
            out->sizes[at] = rw_binary(&st->r, OP_MULTIPLY, x[0]->sizes[d]->shape,
                                       out->sizes[at], x[0]->sizes[d]);
        else if (at < to->rank)
            out->sizes[at] = x[0]->sizes[d];
        keeps &= at < to->rank || !sized_has(x[0], d);
    }
    if (keeps) {
        out->inst = rw_reshape(&st->r, s, x[0]->inst);
        return true;
    }
    uint32_t free = free_dimension(inst);
    if (free == to->rank || shape_elements(s) == 0 || shape_elements(s) > INT32_MAX)
        return false;
    int64_t others = 1;
    Instruction *total = number(st, 1);
    for (uint32_t d = 0; d < from->rank; d++)
        total =
            rw_binary(&st->r, OP_MULTIPLY, total->shape, total, sized_size(st, x[0], d));
    for (uint32_t d = 0; d < to->rank; d++) {
        others *= d == free ? 1 : to->dims[d];
        out->sizes[d] = NULL;
    }
    out->sizes[free] =
        rw_binary(&st->r, OP_DIVIDE, total->shape, total, number(st, others));
    out->inst = moved(st, x[0], out->sizes, s);
    return true;
}

/* The bytes stay: a reshape of rows, where no dimension of dynamic size is split or merged. */
bool sized_bitcast(Statics *st, const Instruction *inst, Sized *const *x, Sized *out)
{
    const Shape *from = x[0]->inst->shape, *to = inst->shape;
    if (from->dtype != to->dtype || !shape_is_row_major(from) || !shape_is_row_major(to))
        return false;
    for (uint32_t d = 0; d < from->rank; d++) {
        if (sized_has(x[0], d) && same_dimension(from, d, to) == to->rank)
            return false;
    }
    return sized_reshape(st, inst, x, out);
}

bool sized_dynamic_reshape(Statics *st, const Instruction *inst, Sized *const *x,
                           Sized *out)
{
    const Shape *s = dynamic_bounds(st->r.m->intern, inst->shape);
    const Shape *s32 = shape_scalar(st->r.m->intern, DT_S32);
    out->sizes = sized_scratch(st, s->rank);
    for (uint32_t d = 0; d < s->rank; d++)
        out->sizes[d] =
            sized_within(st, rw_convert(&st->r, s32, x[d + 1]->inst), s->dims[d]);
    if (shape_elements(s) == 0 || shape_elements(s) > INT32_MAX)
        return false;
    out->inst = moved(st, x[0], out->sizes, s);
    return true;
}
