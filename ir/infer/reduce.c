/* Shape rules of reductions and of what else applies a scalar computation: reduce,
 * reduce-window, select-and-scatter, sort, topk, map, scan (sections 9.8, 9.9). */
#include <string.h>

#include "ir/infer/rules.h"

/* Result i of a computation: its one result, or element i of the tuple of several. */
static const Shape *result_element(const Shape *result, uint32_t count, uint32_t i)
{
    if (count == 1)
        return shape_is_tuple(result) && result->rank == 1 ? result->elements[0] : result;
    return shape_is_tuple(result) && result->rank == count ? result->elements[i] : NULL;
}

/* A scalar of the element type; other float types only where precision may be mixed, and
 * not in what reduce and map apply. */
static bool is_scalar_of(InferContext *cx, const Instruction *inst, const Shape *s,
                         DType dtype)
{
    if (!shape_is_scalar(s))
        return false;
    bool exact = !cx->mixed_precision || inst->op == OP_REDUCE || inst->op == OP_MAP;
    return s->dtype == dtype || (!exact && infer_same_type(s->dtype, dtype));
}

const Shape *infer_reducer(InferContext *cx, const Instruction *inst,
                           const Computation *comp, uint32_t k,
                           Instruction *const *inputs, Instruction *const *accumulators)
{
    if (!infer_want_parameters(cx, inst, comp, "the reducer", 2 * k))
        return NULL;
    const Shape *result = infer_callee_result(comp);
    const Shape *given = result;
    if (k == 1)
        result = result_element(result, 1, 0);
    if (k > 1 && (!shape_is_tuple(result) || result->rank != k))
        return infer_error(cx, inst,
                           "reducer %s must give a tuple of %u scalars, but gives %s",
                           comp->name, k, infer_text(cx, result));
    for (uint32_t i = 0; i < k; i++) {
        const Shape *r = k == 1 ? result : result->elements[i];
        const Shape *a = comp->parameters[i]->shape, *b = comp->parameters[k + i]->shape;
        if (!shape_is_scalar(r) || !shape_compatible(r, a))
            return infer_error(
                cx, inst,
                "result %u of reducer %s is %s, but must be a scalar and agree "
                "with parameter %u, %s",
                i, comp->name, infer_text(cx, r), i, infer_text(cx, a));
        DType accumulator = accumulators[i]->shape->dtype,
              input = inputs[i]->shape->dtype;
        if (!infer_same_type(r->dtype, accumulator))
            return infer_error(
                cx, inst, "result %u of reducer %s is %s, but the initial value is of %s",
                i, comp->name, infer_text(cx, r), dtype_name(accumulator));
        if (!is_scalar_of(cx, inst, b, input) || !infer_same_type(r->dtype, b->dtype))
            return infer_error(
                cx, inst, "parameter %u of reducer %s is %s, but input %u is of %s",
                k + i, comp->name, infer_text(cx, b), i, dtype_name(input));
    }
    return given;
}

/* Inputs 0 .. k-1 of equal sizes, then k scalar initial values; 0 after a message. */
static uint32_t reduced_inputs(InferContext *cx, const Instruction *inst)
{
    uint32_t k = inst->operand_count / 2;
    if (k == 0 || inst->operand_count % 2 != 0) {
        infer_error(cx, inst,
                    "expects k inputs and k initial values, but has %u operands",
                    inst->operand_count);
        return 0;
    }
    if (!infer_want_arrays(cx, inst, 0, inst->operand_count))
        return 0;
    for (uint32_t i = 0; i < k; i++) {
        if (!infer_same_sizes(operand(inst, i), operand(inst, 0))) {
            infer_error(cx, inst, "inputs must have equal sizes, but are %s and %s",
                        infer_text(cx, operand(inst, 0)),
                        infer_text(cx, operand(inst, i)));
            return 0;
        }
        if (!shape_is_scalar(operand(inst, k + i))) {
            infer_error(cx, inst, "initial value %u must be a scalar, but is %s", i,
                        infer_text(cx, operand(inst, k + i)));
            return 0;
        }
    }
    return k;
}

const Shape *infer_reduce(InferContext *cx, const Instruction *inst)
{
    uint32_t k = reduced_inputs(cx, inst);
    if (k == 0)
        return NULL;
    const Shape *s = operand(inst, 0);
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    if (!infer_want_dims(cx, inst, "dimensions", dims, s->rank, false))
        return NULL;
    const Shape *result = infer_reducer(cx, inst, infer_callee(inst, ATTR_TO_APPLY), k,
                                        inst->operands, inst->operands + k);
    if (!result)
        return NULL;
    int64_t stack[INFER_STACK];
    int64_t *sizes = infer_dims_array(cx, stack, s->rank);
    bool *dynamic = s->dynamic ? ARENA_ARRAY(cx->arena, bool, s->rank) : NULL;
    uint32_t rank = 0;
    for (uint32_t i = 0; i < s->rank; i++) {
        bool dropped = false;
        for (uint32_t j = 0; j < dims.count; j++)
            dropped |= dims.data[j] == i;
        if (dropped)
            continue;
        if (dynamic)
            dynamic[rank] = s->dynamic[i];
        sizes[rank++] = s->dims[i];
    }
    if (!shape_is_tuple(result))
        return infer_array(cx, inst, result->dtype, rank, sizes, dynamic);
    const Shape **shapes = ARENA_ARRAY(cx->arena, const Shape *, k);
    for (uint32_t i = 0; i < k; i++) {
        shapes[i] =
            infer_array(cx, inst, result->elements[i]->dtype, rank, sizes, dynamic);
        if (!shapes[i])
            return NULL;
    }
    return shape_tuple(cx->intern, k, shapes);
}

static int64_t dilated(int64_t size, int64_t dilation)
{
    if (size == 0)
        return 0;
    if (size - 1 > (INT64_MAX / 8) / dilation)
        return -1;
    return (size - 1) * dilation + 1;
}

int64_t infer_window_size(InferContext *cx, const Instruction *inst, int64_t size,
                          const WindowDim *w)
{
    const int64_t limit = INT64_MAX / 8;
    if (w->size <= 0 || w->stride <= 0 || w->base_dilation < 1 ||
        w->window_dilation < 1) {
        infer_error(
            cx, inst,
            "window size %lld, stride %lld and dilations %lld, %lld must be positive",
            (long long)w->size, (long long)w->stride, (long long)w->base_dilation,
            (long long)w->window_dilation);
        return -1;
    }
    int64_t base = size > limit ? -1 : dilated(size, w->base_dilation);
    int64_t window = w->size > limit ? -1 : dilated(w->size, w->window_dilation);
    if (base < 0 || window < 0 || w->pad_low < -limit || w->pad_low > limit ||
        w->pad_high < -limit || w->pad_high > limit) {
        infer_error(cx, inst, "the window's sizes overflow");
        return -1;
    }
    base += w->pad_low + w->pad_high;
    return base <= 0 || window > base ? 0 : (base - window) / w->stride + 1;
}

/* Sizes of the array of windows over s, in `sizes`. */
static bool window_sizes(InferContext *cx, const Instruction *inst, const Shape *s,
                         int64_t *sizes)
{
    const Window *window = inst_window(inst);
    uint32_t rank = window ? window->rank : 0;
    if (rank != s->rank) {
        infer_error(cx, inst, "the window has %u dimensions, but the operand is %s", rank,
                    infer_text(cx, s));
        return false;
    }
    for (uint32_t i = 0; i < rank; i++) {
        sizes[i] = s->dims[i] == DIM_UNBOUNDED
                       ? DIM_UNBOUNDED
                       : infer_window_size(cx, inst, s->dims[i], &window->dims[i]);
        if (sizes[i] == -1)
            return false;
    }
    return true;
}

const Shape *infer_reduce_window(InferContext *cx, const Instruction *inst)
{
    uint32_t k = reduced_inputs(cx, inst);
    if (k == 0)
        return NULL;
    const Shape *s = operand(inst, 0);
    int64_t stack[INFER_STACK];
    int64_t *sizes = infer_dims_array(cx, stack, s->rank);
    if (!window_sizes(cx, inst, s, sizes) ||
        !infer_reducer(cx, inst, infer_callee(inst, ATTR_TO_APPLY), k, inst->operands,
                       inst->operands + k))
        return NULL;
    if (k == 1)
        return infer_array(cx, inst, operand(inst, 1)->dtype, s->rank, sizes, s->dynamic);
    const Shape **shapes = ARENA_ARRAY(cx->arena, const Shape *, k);
    for (uint32_t i = 0; i < k; i++) {
        shapes[i] = infer_array(cx, inst, operand(inst, k + i)->dtype, s->rank, sizes,
                                s->dynamic);
        if (!shapes[i])
            return NULL;
    }
    return shape_tuple(cx->intern, k, shapes);
}

const Shape *infer_select_and_scatter(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 3))
        return NULL;
    const Shape *s = operand(inst, 0), *source = operand(inst, 1);
    const Computation *select = infer_callee(inst, ATTR_SELECT);
    if (!infer_want_parameters(cx, inst, select, "the selector", 2))
        return NULL;
    const Shape *chosen = result_element(infer_callee_result(select), 1, 0);
    if (!shape_is_scalar(chosen) || chosen->dtype != DT_PRED)
        return infer_error(cx, inst, "selector %s must give pred[], but gives %s",
                           select->name, infer_text(cx, chosen));
    for (uint32_t i = 0; i < 2; i++)
        if (!is_scalar_of(cx, inst, select->parameters[i]->shape, s->dtype))
            return infer_error(
                cx, inst, "parameter %u of selector %s is %s, but the operand is %s", i,
                select->name, infer_text(cx, select->parameters[i]->shape),
                infer_text(cx, s));
    if (!shape_is_scalar(operand(inst, 2)))
        return infer_error(cx, inst, "the initial value must be a scalar, but is %s",
                           infer_text(cx, operand(inst, 2)));
    if (!infer_reducer(cx, inst, infer_callee(inst, ATTR_SCATTER), 1, inst->operands + 1,
                       inst->operands + 2))
        return NULL;
    int64_t stack[INFER_STACK];
    int64_t *sizes = infer_dims_array(cx, stack, s->rank);
    if (!window_sizes(cx, inst, s, sizes))
        return NULL;
    bool fits = source->rank == s->rank && infer_same_type(source->dtype, s->dtype);
    for (uint32_t i = 0; fits && i < s->rank; i++)
        fits = infer_same_size(source->dims[i], sizes[i]);
    if (!fits)
        return infer_error(cx, inst, "the source is %s, but the windows of %s number %s",
                           infer_text(cx, source), infer_text(cx, s),
                           infer_ints_text(cx, (Ints){.data = sizes, .count = s->rank}));
    return s;
}

const Shape *infer_sort(InferContext *cx, const Instruction *inst)
{
    uint32_t k = inst->operand_count;
    if (!infer_want_count(cx, inst, 1) || !infer_want_arrays(cx, inst, 0, k) ||
        infer_one_dim(cx, inst, operand(inst, 0)) < 0)
        return NULL;
    const Computation *comp = infer_callee(inst, ATTR_TO_APPLY);
    if (!infer_want_parameters(cx, inst, comp, "the comparator", 2 * k))
        return NULL;
    const Shape *result = result_element(infer_callee_result(comp), 1, 0);
    if (!shape_is_scalar(result) || result->dtype != DT_PRED)
        return infer_error(cx, inst, "comparator %s must give pred[], but gives %s",
                           comp->name, infer_text(cx, result));
    for (uint32_t i = 0; i < k; i++) {
        const Shape *s = operand(inst, i);
        if (!infer_same_sizes(s, operand(inst, 0)))
            return infer_error(cx, inst,
                               "operands must have equal sizes, but are %s and %s",
                               infer_text(cx, operand(inst, 0)), infer_text(cx, s));
        for (uint32_t j = 2 * i; j < 2 * i + 2; j++)
            if (!is_scalar_of(cx, inst, comp->parameters[j]->shape, s->dtype))
                return infer_error(
                    cx, inst, "parameter %u of comparator %s is %s, but operand %u is %s",
                    j, comp->name, infer_text(cx, comp->parameters[j]->shape), i,
                    infer_text(cx, s));
    }
    return infer_tuple_of(cx, inst, 0, k);
}

const Shape *infer_topk(InferContext *cx, const Instruction *inst)
{
    if (!infer_want_arrays(cx, inst, 0, 1))
        return NULL;
    const Shape *s = operand(inst, 0);
    int64_t k = inst_int(inst, ATTR_K, -1);
    if (s->rank == 0 || k < 0 || k > s->dims[s->rank - 1])
        return infer_error(cx, inst, "k=%lld does not fit the last dimension of %s",
                           (long long)k, infer_text(cx, s));
    int64_t stack[INFER_STACK];
    int64_t *dims = infer_dims_array(cx, stack, s->rank);
    for (uint32_t i = 0; i < s->rank; i++)
        dims[i] = i + 1 == s->rank ? k : s->dims[i];
    const Shape *shapes[2] = {infer_array(cx, inst, s->dtype, s->rank, dims, NULL),
                              infer_array(cx, inst, DT_S32, s->rank, dims, NULL)};
    if (shapes[0] == NULL || shapes[1] == NULL)
        return NULL;
    return shape_tuple(cx->intern, 2, shapes);
}

const Shape *infer_map(InferContext *cx, const Instruction *inst)
{
    uint32_t n = inst->operand_count;
    if (!infer_want_count(cx, inst, 1) || !infer_want_arrays(cx, inst, 0, n))
        return NULL;
    const Computation *comp = infer_callee(inst, ATTR_TO_APPLY);
    if (!infer_want_parameters(cx, inst, comp, "the mapped function", n))
        return NULL;
    const Shape *s = operand(inst, 0), *result = infer_callee_result(comp);
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    bool all = dims.count == s->rank || dims.count == 0;
    for (uint32_t i = 0; all && i < dims.count; i++)
        all = dims.data[i] == i;
    if (!all)
        return infer_error(cx, inst,
                           "dimensions=%s must list all dimensions of %s in order",
                           infer_ints_text(cx, dims), infer_text(cx, s));
    if (!shape_is_scalar(result))
        return infer_error(cx, inst,
                           "the mapped function %s must give a scalar, but gives %s",
                           comp->name, infer_text(cx, result));
    for (uint32_t i = 0; i < n; i++) {
        if (!infer_same_sizes(operand(inst, i), s))
            return infer_error(cx, inst,
                               "operands must have equal sizes, but are %s and %s",
                               infer_text(cx, s), infer_text(cx, operand(inst, i)));
        if (!is_scalar_of(cx, inst, comp->parameters[i]->shape, operand(inst, i)->dtype))
            return infer_error(
                cx, inst,
                "parameter %u of the mapped function %s is %s, but operand %u is "
                "%s",
                i, comp->name, infer_text(cx, comp->parameters[i]->shape), i,
                infer_text(cx, operand(inst, i)));
    }
    return infer_array(cx, inst, result->dtype, s->rank, s->dims, s->dynamic);
}

/* Whether the parameters are the inputs without dimension d, then the carries. */
static bool scans_parameters(InferContext *cx, const Instruction *inst,
                             const Computation *comp, uint32_t inputs, int64_t d)
{
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Shape *s = operand(inst, i), *p = comp->parameters[i]->shape;
        int64_t stack[INFER_STACK];
        int64_t *sizes = infer_dims_array(cx, stack, s->rank + 1);
        uint32_t rank = 0;
        for (uint32_t j = 0; j < s->rank; j++)
            if (i >= inputs || j != d)
                sizes[rank++] = s->dims[j];
        if (!shape_is_array(p) || p->dtype != s->dtype || p->rank != rank ||
            (rank > 0 && memcmp(p->dims, sizes, rank * sizeof *sizes) != 0))
            return infer_error(
                       cx, inst, "parameter %u of function %s is %s, but %s %u is %s", i,
                       comp->name, infer_text(cx, p), i < inputs ? "input" : "carry",
                       i < inputs ? i : i - inputs, infer_text(cx, s)) != NULL;
    }
    return true;
}

/* Parameters: the inputs without dimension d, then the carries; results: outputs, then
 * carries. The outputs get dimension d, as long as the scan. */
const Shape *infer_scan(InferContext *cx, const Instruction *inst)
{
    uint32_t n = inst->operand_count;
    int64_t carries = inst_int(inst, ATTR_NUM_CARRIES, 0);
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    const Computation *comp = infer_callee(inst, ATTR_TO_APPLY);
    if (carries < 0 || carries > n || dims.count != 1)
        return infer_error(cx, inst,
                           "num_carries=%lld, dimensions=%s do not fit %u operands",
                           (long long)carries, infer_ints_text(cx, dims), n);
    if (!infer_want_arrays(cx, inst, 0, n) ||
        !infer_want_parameters(cx, inst, comp, "the scanned function", n))
        return NULL;
    uint32_t inputs = n - (uint32_t)carries;
    int64_t d = dims.data[0], length = -1;
    if (inputs > 0 && d >= 0 && d < operand(inst, 0)->rank)
        length = operand(inst, 0)->dims[d];
    if (inputs == 0) {
        const Shape *r = inst->shape;
        if (!infer_want_shape(cx, inst))
            return NULL;
        r = shape_is_tuple(r) && r->rank > 0 ? r->elements[0] : r;
        length = shape_is_array(r) && d >= 0 && d < r->rank ? r->dims[d] : -1;
    }
    if (length < 0)
        return infer_error(cx, inst, "dimensions=%s is no dimension of the inputs",
                           infer_ints_text(cx, dims));
    for (uint32_t i = 0; i < inputs; i++)
        if (d >= operand(inst, i)->rank || operand(inst, i)->dims[d] != length)
            return infer_error(
                cx, inst, "dimension %lld of input %u, %s, must have size %lld",
                (long long)d, i, infer_text(cx, operand(inst, i)), (long long)length);
    if (!scans_parameters(cx, inst, comp, inputs, d))
        return NULL;
    const Shape *result = infer_callee_result(comp);
    uint32_t count = shape_is_tuple(result) ? result->rank : 1;
    if (count < carries)
        return infer_error(cx, inst, "function %s gives %s, less than num_carries=%lld",
                           comp->name, infer_text(cx, result), (long long)carries);
    const Shape **shapes = ARENA_ARRAY(cx->arena, const Shape *, count);
    for (uint32_t i = 0; i < count; i++) {
        const Shape *s = result_element(result, count, i);
        if (!shape_is_array(s))
            return infer_error(cx, inst,
                               "result %u of function %s must be an array, but is %s", i,
                               comp->name, infer_text(cx, s));
        shapes[i] = s;
        if (i + carries >= count) {
            const Shape *init = operand(inst, inputs + (i + (uint32_t)carries - count));
            if (!shape_compatible(init, s))
                return infer_error(
                    cx, inst, "carry %s starts as %s, but function %s gives %s",
                    inst->operands[inputs + (i + (uint32_t)carries - count)]->name,
                    infer_text(cx, init), comp->name, infer_text(cx, s));
            continue;
        }
        if (d > s->rank)
            return infer_error(cx, inst,
                               "output %u, %s, is of too low rank for dimension %lld", i,
                               infer_text(cx, s), (long long)d);
        int64_t stack[INFER_STACK];
        int64_t *sizes = infer_dims_array(cx, stack, s->rank + 1);
        for (uint32_t j = 0; j <= s->rank; j++)
            sizes[j] = j < d ? s->dims[j] : j == d ? length : s->dims[j - 1];
        shapes[i] = infer_array(cx, inst, s->dtype, s->rank + 1, sizes, NULL);
        if (!shapes[i])
            return NULL;
    }
    /* one output may stand without its tuple */
    bool bare = !shape_is_tuple(result) ||
                (count == 1 && inst->shape != NULL && !shape_is_tuple(inst->shape));
    return bare ? shapes[0] : shape_tuple(cx->intern, count, shapes);
}

static bool compares(const Computation *comparator, uint32_t i, DType t)
{
    return comparator->parameters[2 * i]->shape->dtype == t &&
           comparator->parameters[2 * i + 1]->shape->dtype == t;
}

static bool sorts_own_types(const Instruction *inst)
{
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (!compares(inst_called(inst, 0), i, operand(inst, i)->dtype))
            return false;
    }
    return true;
}

static bool combines_one_type(const Computation *reducer)
{
    uint32_t k = reducer->parameter_count / 2;
    for (uint32_t i = 0; i < k; i++) {
        if (reducer->parameters[i]->shape->dtype !=
            reducer->parameters[k + i]->shape->dtype)
            return false;
    }
    return true;
}

bool infer_applies_to_one_type(const Instruction *inst)
{
    switch (inst->op) {
    case OP_SORT:
        return sorts_own_types(inst);
    case OP_SELECT_AND_SCATTER: /* what is selected is read in the type of the sums */
        return combines_one_type(inst_called(inst, 1)) &&
               compares(inst_called(inst, 0), 0,
                        inst_called(inst, 1)->parameters[0]->shape->dtype);
    case OP_REDUCE:
    case OP_REDUCE_WINDOW:
    case OP_SCATTER:
    case OP_ALL_REDUCE:
    case OP_ALL_REDUCE_START:
    case OP_REDUCE_SCATTER:
        return combines_one_type(inst_called(inst, 0));
    default:
        return true;
    }
}
