/* Expansion: operations that are short graphs of others become those graphs, so that later
 * stages meet fewer opcodes.
 *
 *   t = (f32[5], s32[5]) topk(x), k=5
 *     =>  i = iota; s = sort(x, i) by x descending, stable; tuple(slice(s.0), slice(s.1))
 *
 * Needs: nothing. Keeps: what the evaluator gives, up to the rounding of sums. Breaks: nothing.
 * Runs at every level: no kernel knows these operations. Ends: no graph has one of them. */
#include "passes/simplify/expand.h"

#include <string.h>

#include "ir/custom_call/custom_call.h"
#include "ir/kernel/element.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/plans.h"
#include "passes/simplify/simplify.h"

static Instruction *parameter(Computation *comp, int64_t number, const Shape *s)
{
    return computation_add_parameter(comp, number, s, NULL);
}

#define TOPK_MOST 1024 /* elements that a block keeps beside those that it looks at */

/* Stable sort of values and positions, cut to the shape of the result: `inst` is (values, s32
 * positions). */
static Instruction *topk_of(Rewriter *r, Instruction *inst, bool largest)
{
    Instruction *x = inst->operands[0];
    const Shape *s = x->shape;
    if (!rw_is_static(s) || s->rank == 0)
        return NULL;
    const Shape *positions = shape_with_dtype(r->m->intern, s, DT_S32);
    Instruction *position = rw_add(r, OP_IOTA, positions, 0, NULL);
    inst_set_int(position, ATTR_IOTA_DIMENSION, (int64_t)s->rank - 1);

    Computation *by = module_add_computation(r->m, "topk_order");
    const Shape *value = shape_scalar(r->m->intern, s->dtype);
    const Shape *index = shape_scalar(r->m->intern, DT_S32);
    Instruction *pair[2] = {parameter(by, 0, value), parameter(by, 1, value)};
    parameter(by, 2, index);
    parameter(by, 3, index);
    by->root = computation_add(by, OP_COMPARE, shape_scalar(r->m->intern, DT_PRED), 2,
                               pair, NULL);
    inst_set_int(by->root, ATTR_DIRECTION, largest ? DIRECTION_GT : DIRECTION_LT);
    if (dtype_is_float(s->dtype))
        inst_set_int(by->root, ATTR_TYPE, COMPARE_TOTALORDER);

    const Shape *shapes[2] = {s, positions};
    Instruction *operands[2] = {x, position};
    Instruction *sort =
        rw_add(r, OP_SORT, shape_tuple(r->m->intern, 2, shapes), 2, operands);
    int64_t last = (int64_t)s->rank - 1;
    inst_set_ints(sort, ATTR_DIMENSIONS, &last, 1);
    inst_set_int(sort, ATTR_IS_STABLE, 1);
    inst_set_computation(sort, ATTR_TO_APPLY, by);

    SliceDim *dims = ARENA_ARRAY(r->scratch, SliceDim, s->rank);
    for (uint32_t i = 0; i < s->rank; i++)
        dims[i] = (SliceDim){0, inst->shape->elements[0]->dims[i], 1};
    Instruction *parts[2];
    for (uint32_t i = 0; i < 2; i++) {
        parts[i] = rw_slice(r, inst->shape->elements[i], rw_element(r, sort, i), dims);
    }
    return rw_add(r, OP_TUPLE, inst->shape, 2, parts);
}

static Instruction *topk(Rewriter *r, Instruction *inst)
{
    if (inst_int(inst, ATTR_K, 0) <= TOPK_MOST)
        return NULL; /* has a kernel */
    return topk_of(r, inst, inst_int(inst, ATTR_LARGEST, 1) != 0);
}

/* What XLA:CPU calls a topk: the largest of each row. */
static Instruction *custom_topk(Rewriter *r, Instruction *inst)
{
    if (!custom_call_is_topk(inst) || !rw_is_static(inst->operands[0]->shape))
        return NULL;
    const Shape *values = inst->shape->elements[0];
    int64_t k = values->dims[values->rank - 1];
    if (k > TOPK_MOST)
        return topk_of(r, inst, true);
    Instruction *by = rw_unary(r, OP_TOPK, inst->shape, inst->operands[0]);
    inst_set_int(by, ATTR_K, k);
    inst_set_int(by, ATTR_LARGEST, 1);
    inst_set_int(by, ATTR_IS_STABLE, 1);
    return by;
}

/* -- zeros ---------------------------------------------------------------------------------- */

/* Bits, not the number: not every type has a 0. */
static Instruction *zero_bits(Rewriter *r, const Shape *s)
{
    const Shape *scalar = shape_scalar(r->m->intern, s->dtype);
    Instruction *zero = rw_constant(r, literal_create(r->m->arena, scalar));
    return rw_broadcast(r, s, zero, 0, NULL);
}

/* Slices without elements, whose empty dimension is dropped: there is nothing to read. */
static Instruction *gather_nothing(Rewriter *r, Instruction *inst)
{
    Ints sizes = inst_ints(inst, ATTR_SLICE_SIZES);
    return ints_contain(sizes, 0) ? zero_bits(r, inst->shape) : NULL;
}

/* -- sums of updates -------------------------------------------------------------------------- */

/* The type that updates of array i are combined in: sums and products of narrow floats in f32. */
static DType wide_type(const Computation *comp, uint32_t i)
{
    return computation_accumulator(comp, i, computation_sums_wide(comp, i));
}

static Computation *wide_reducer(Rewriter *r, const Computation *comp, uint32_t count)
{
    Intern *intern = r->m->intern;
    if (count == 1)
        return module_add_reducer(r->m, computation_component(comp, 0)->op,
                                  wide_type(comp, 0));
    Computation *wide = module_add_computation(r->m, "sums");
    Instruction **p = ARENA_ARRAY(r->scratch, Instruction *, 2 * (size_t)count),
                **out = ARENA_ARRAY(r->scratch, Instruction *, count);
    const Shape **types = ARENA_ARRAY(r->scratch, const Shape *, count);
    for (uint32_t i = 0; i < count; i++)
        types[i] = shape_scalar(intern, wide_type(comp, i));
    for (uint32_t i = 0; i < 2 * count; i++)
        p[i] = parameter(wide, i, types[i % count]);
    for (uint32_t i = 0; i < count; i++)
        out[i] = computation_add(wide, computation_component(comp, i)->op, types[i], 2,
                                 (Instruction *[]){p[i], p[count + i]}, NULL);
    wide->root = computation_add(wide, OP_TUPLE, shape_tuple(intern, count, types), count,
                                 out, NULL);
    return wide;
}

/* Kernels round the sums once where each position has its updates side by side, or has few (split-scatters). That
 * leaves: floats so narrow that parts of sums are not to be rounded either, windows that overlap, updates of one
 * position without an index, those that wait for other instructions, and all at -O0. */
static bool is_rounded_often(const Rewriter *r, const Instruction *inst)
{
    bool has_positions = inst_ints(inst, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS).count != 0 ||
                         inst_ints(inst, ATTR_INPUT_BATCHING_DIMS).count != 0;
    for (uint32_t i = 0; i < inst->operand_count / 2; i++) {
        DType t = inst->operands[i]->shape->dtype;
        if (dtype_info[t].bits <= 8 && computation_sums_wide(inst_called(inst, 0), i))
            return true;
    }
    return r->cx->opt_level == 0 || inst->control_count != 0 || !has_positions ||
           !scatter_has_small_windows(inst);
}

/* Some array is summed in a wider type than its own. */
static bool has_narrow_sums(const Instruction *inst)
{
    const Computation *comp = inst_called(inst, 0);
    uint32_t count = inst->operand_count / 2;
    bool is_narrow = false, is_simple = computation_is_simple(comp, count);
    for (uint32_t i = 0; i < count && is_simple; i++) {
        DType t = inst->operands[i]->shape->dtype;
        is_simple = shape_leaf(comp->root->shape, i)->dtype == t;
        is_narrow |= computation_sums_wide(comp, i);
    }
    return is_simple && is_narrow;
}

/* scatter(x, i, u), to_apply=add -> convert(scatter(convert(x), i, convert(u))): sums and products of narrow floats are
 * rounded once, in the end. */
static Instruction *wide_updates(Rewriter *r, Instruction *inst)
{
    const Computation *comp = inst_called(inst, 0);
    uint32_t count = inst->operand_count / 2;
    if (inst_bool(inst, ATTR_UNIQUE_INDICES) || !has_narrow_sums(inst) ||
        !is_rounded_often(r, inst))
        return NULL;
    Instruction **operands = ARENA_ARRAY(r->scratch, Instruction *, inst->operand_count),
                **parts = ARENA_ARRAY(r->scratch, Instruction *, count);
    const Shape **shapes = ARENA_ARRAY(r->scratch, const Shape *, count);
    operands[count] = inst->operands[count];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t update = count + 1 + i;
        DType t = wide_type(comp, i);
        operands[i] = rw_in_type(r, inst->operands[i], t);
        operands[update] = rw_in_type(r, inst->operands[update], t);
        shapes[i] = shape_with_dtype(r->m->intern, shape_leaf(inst->shape, i), t);
    }
    bool is_one = shape_is_array(inst->shape);
    const Shape *shape = is_one ? shapes[0] : shape_tuple(r->m->intern, count, shapes);
    Instruction *sums = rw_like(r, inst, shape, inst->operand_count, operands);
    inst_set_computation(sums, ATTR_TO_APPLY, wide_reducer(r, comp, count));
    if (is_one)
        return rw_convert(r, inst->shape, sums);
    for (uint32_t i = 0; i < count; i++)
        parts[i] = rw_convert(r, shape_leaf(inst->shape, i), rw_element(r, sums, i));
    return rw_add(r, OP_TUPLE, inst->shape, count, parts);
}

/* -- other custom calls --------------------------------------------------------------------- */

static Instruction *new_buffer(Rewriter *r, Instruction *inst)
{
    bool is_new = custom_call_is_new_buffer(inst) && shape_is_array(inst->shape);
    return is_new ? zero_bits(r, inst->shape) : NULL;
}

/* The half of an f64 that f32 keeps, or what it loses. */
static Instruction *split_float(Rewriter *r, Instruction *inst, bool low)
{
    Instruction *x = inst->operands[0];
    Instruction *high = rw_unary(r, OP_CONVERT, inst->shape, x);
    if (!low)
        return high;
    Instruction *back = rw_unary(r, OP_CONVERT, x->shape, high);
    Instruction *remainder = rw_binary(r, OP_SUBTRACT, x->shape, x, back);
    Instruction *parts[3] = {
        rw_unary(r, OP_IS_FINITE, shape_with_dtype(r->m->intern, x->shape, DT_PRED),
                 high),
        rw_unary(r, OP_CONVERT, inst->shape, remainder), rw_splat(r, inst->shape, 0)};
    return rw_add(r, OP_SELECT, inst->shape, 3, parts);
}

/* Halves are bits: sign makes no difference, conversions keep the low ones. */
static Instruction *as_unsigned(Rewriter *r, Instruction *x, DType to)
{
    DType same = dtype_info[x->shape->dtype].bits == 64 ? DT_U64 : DT_U32;
    return rw_in_type(r, rw_in_type(r, x, same), to);
}

static Instruction *split_integer(Rewriter *r, Instruction *inst, bool low)
{
    Instruction *x = as_unsigned(r, inst->operands[0], DT_U64);
    if (!low)
        x = rw_binary(r, OP_SHIFT_RIGHT_LOGICAL, x->shape, x,
                      rw_splat_int(r, x->shape, 32));
    return rw_convert(r, inst->shape, as_unsigned(r, x, DT_U32));
}

static Instruction *combine(Rewriter *r, Instruction *inst)
{
    Instruction *low = inst->operands[0], *high = inst->operands[1];
    if (inst->shape->dtype == DT_F64)
        return rw_binary(r, OP_ADD, inst->shape, rw_convert(r, inst->shape, high),
                         rw_convert(r, inst->shape, low));
    low = as_unsigned(r, low, DT_U64);
    high = as_unsigned(r, high, DT_U64);
    high =
        rw_binary(r, OP_SHIFT_LEFT, high->shape, high, rw_splat_int(r, high->shape, 32));
    return rw_convert(r, inst->shape, rw_binary(r, OP_OR, low->shape, low, high));
}

static Instruction *x64(Rewriter *r, Instruction *inst)
{
    X64Part part = custom_call_x64(inst);
    if (part == X64_NONE)
        return NULL;
    if (part == X64_COMBINE)
        return combine(r, inst);
    return inst->shape->dtype == DT_F32 ? split_float(r, inst, part == X64_LOW)
                                        : split_integer(r, inst, part == X64_LOW);
}

/* -- batch normalisation ------------------------------------------------------------------- */

/* The operands of a batch normalisation, in the type that it is computed in. */
typedef struct Norm {
    Rewriter *r;
    const Shape *array, *vector; /* of x, of what there is one of for each feature */
    int64_t feature;
    Instruction *x;
    Instruction *mask;  /* the elements that are there; NULL: all */
    Instruction *count; /* elements of one feature, a scalar */
    Computation *add;
} Norm;

static DType wide(DType t)
{
    return dtype_info[t].bits < 32 ? DT_F32 : t;
}

static Instruction *widened(Norm *n, Instruction *a)
{
    return rw_in_type(n->r, a, wide(a->shape->dtype));
}

static Norm norm_make(Rewriter *r, Instruction *inst, Instruction *mask,
                      Instruction *count)
{
    Norm n = {.r = r,
              .feature = inst_int(inst, ATTR_FEATURE_INDEX, 0),
              .mask = mask,
              .count = count};
    n.x = widened(&n, inst->operands[0]);
    n.array = n.x->shape;
    n.vector = rw_shape(r, n.array->dtype, 1, &n.array->dims[n.feature]);
    n.add = module_add_adder(r->m, n.array->dtype);
    return n;
}

static Instruction *spread(Norm *n, Instruction *vector)
{
    return rw_broadcast(n->r, n->array, vector, 1, &n->feature);
}

static Instruction *sum(Norm *n, Instruction *a)
{
    int64_t *dims = ARENA_ARRAY(n->r->scratch, int64_t, n->array->rank);
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->array->rank; i++)
        if (i != n->feature)
            dims[count++] = i;
    Instruction *zero =
        rw_splat(n->r, shape_scalar(n->r->m->intern, n->array->dtype), 0.0);
    if (n->mask != NULL) {
        Instruction *parts[3] = {n->mask, a, rw_splat(n->r, n->array, 0.0)};
        a = rw_add(n->r, OP_SELECT, n->array, 3, parts);
    }
    Instruction *reduce = rw_binary(n->r, OP_REDUCE, n->vector, a, zero);
    inst_set_ints(reduce, ATTR_DIMENSIONS, dims, count);
    inst_set_computation(reduce, ATTR_TO_APPLY, n->add);
    return reduce;
}

static Instruction *per_count(Norm *n, Instruction *vector)
{
    return rw_binary(n->r, OP_DIVIDE, n->vector, vector,
                     rw_broadcast(n->r, n->vector, n->count, 0, NULL));
}

/* 1 / sqrt(variance + epsilon) */
static Instruction *reciprocal_deviation(Norm *n, const Instruction *inst,
                                         Instruction *variance)
{
    Instruction *epsilon = rw_splat(n->r, n->vector, inst_float(inst, ATTR_EPSILON, 0));
    return rw_unary(n->r, OP_RSQRT, n->vector,
                    rw_binary(n->r, OP_ADD, n->vector, variance, epsilon));
}

static Instruction *narrowed(Norm *n, const Shape *s, Instruction *a)
{
    return a->shape == s ? a : rw_unary(n->r, OP_CONVERT, s, a);
}

/* (x - mean) / sqrt(variance + epsilon) * scale + offset */
static Instruction *normalised(Norm *n, Instruction *inst, Instruction *mean,
                               Instruction *variance)
{
    Rewriter *r = n->r;
    Instruction *centred = rw_binary(r, OP_SUBTRACT, n->array, n->x, spread(n, mean));
    Instruction *factor =
        rw_binary(r, OP_MULTIPLY, n->vector, reciprocal_deviation(n, inst, variance),
                  widened(n, inst->operands[1]));
    Instruction *scaled = rw_binary(r, OP_MULTIPLY, n->array, centred, spread(n, factor));
    return rw_binary(r, OP_ADD, n->array, scaled,
                     spread(n, widened(n, inst->operands[2])));
}

static Instruction *batch_norm_inference(Norm n, Instruction *inst)
{
    return narrowed(&n, inst->shape,
                    normalised(&n, inst, widened(&n, inst->operands[3]),
                               widened(&n, inst->operands[4])));
}

static Instruction *tuple_of(Norm *n, const Instruction *inst, Instruction *const *values)
{
    Instruction *parts[3];
    for (uint32_t i = 0; i < 3; i++)
        parts[i] = narrowed(n, inst->shape->elements[i], values[i]);
    return rw_add(n->r, OP_TUPLE, inst->shape, 3, parts);
}

static Instruction *batch_norm_training(Norm n, Instruction *inst)
{
    Rewriter *r = n.r;
    Instruction *mean = per_count(&n, sum(&n, n.x));
    Instruction *centred = rw_binary(r, OP_SUBTRACT, n.array, n.x, spread(&n, mean));
    Instruction *square = rw_binary(r, OP_MULTIPLY, n.array, centred, centred);
    Instruction *variance = per_count(&n, sum(&n, square));
    Instruction *values[3] = {normalised(&n, inst, mean, variance), mean, variance};
    return tuple_of(&n, inst, values);
}

/* dx = scale * r * (dy - sum(dy)/N - hat * dscale/N), hat = (x - mean) * r */
static Instruction *batch_norm_grad(Norm n, Instruction *inst)
{
    Rewriter *r = n.r;
    Instruction *dy = widened(&n, inst->operands[4]);
    Instruction *rd = reciprocal_deviation(&n, inst, widened(&n, inst->operands[3]));
    Instruction *mean = widened(&n, inst->operands[2]);
    Instruction *centred = rw_binary(r, OP_SUBTRACT, n.array, n.x, spread(&n, mean));
    Instruction *hat = rw_binary(r, OP_MULTIPLY, n.array, centred, spread(&n, rd));
    Instruction *doffset = sum(&n, dy);
    Instruction *dscale = sum(&n, rw_binary(r, OP_MULTIPLY, n.array, dy, hat));
    Instruction *shift = spread(&n, per_count(&n, doffset));
    Instruction *slope =
        rw_binary(r, OP_MULTIPLY, n.array, hat, spread(&n, per_count(&n, dscale)));
    Instruction *inner = rw_binary(r, OP_SUBTRACT, n.array,
                                   rw_binary(r, OP_SUBTRACT, n.array, dy, shift), slope);
    Instruction *factor =
        rw_binary(r, OP_MULTIPLY, n.vector, widened(&n, inst->operands[1]), rd);
    Instruction *values[3] = {
        rw_binary(r, OP_MULTIPLY, n.array, spread(&n, factor), inner), dscale, doffset};
    return tuple_of(&n, inst, values);
}

Instruction *expand_batch_norm(Rewriter *r, Instruction *inst, Instruction *mask,
                               Instruction *count)
{
    Norm n = norm_make(r, inst, mask, count);
    return inst->op == OP_BATCH_NORM_INFERENCE  ? batch_norm_inference(n, inst)
           : inst->op == OP_BATCH_NORM_TRAINING ? batch_norm_training(n, inst)
                                                : batch_norm_grad(n, inst);
}

static Instruction *batch_norm(Rewriter *r, Instruction *inst)
{
    const Shape *s = inst->operands[0]->shape;
    if (!rw_is_static(s))
        return NULL;
    double count = 1;
    for (uint32_t i = 0; i < s->rank; i++)
        count *= i == inst_int(inst, ATTR_FEATURE_INDEX, 0) ? 1.0 : (double)s->dims[i];
    const Shape *one = shape_scalar(r->m->intern, wide(s->dtype));
    return expand_batch_norm(r, inst, NULL, rw_splat(r, one, count));
}

/* dot or convolution of floats that gives integers -> of floats, then convert: the sum is
 * rounded once, not its terms */
static Instruction *integer_product(Rewriter *r, Instruction *inst)
{
    const Shape *s = inst->shape;
    if (!rw_is_static(s) || inst->operand_count != 2 ||
        (!dtype_is_integer(s->dtype) && s->dtype != DT_PRED) ||
        !dtype_is_float(inst->operands[0]->shape->dtype) ||
        !dtype_is_float(inst->operands[1]->shape->dtype))
        return NULL;
    DType t = dtype_higher_precision(inst->operands[0]->shape->dtype,
                                     inst->operands[1]->shape->dtype);
    const Shape *wide = shape_with_dtype(r->m->intern, s, t == DT_F64 ? DT_F64 : DT_F32);
    return rw_unary(r, OP_CONVERT, s, rw_like(r, inst, wide, 2, inst->operands));
}

/* concatenate(a0, a1, ...) of more arrays than a kernel takes -> of concatenations of as many */
static Instruction *concatenate_many(Rewriter *r, Instruction *inst)
{
    const uint32_t most = KERNEL_MOST_ARRAYS;
    if (inst->operand_count <= most || !rw_is_static(inst->shape))
        return NULL;
    int64_t d = inst_ints(inst, ATTR_DIMENSIONS).data[0];
    uint32_t parts = 0;
    Instruction **part =
        ARENA_ARRAY(r->scratch, Instruction *, inst->operand_count / most + 1);
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, inst->shape->rank);
    memcpy(dims, inst->shape->dims, inst->shape->rank * sizeof *dims);
    for (uint32_t i = 0; i < inst->operand_count; i += most) {
        uint32_t n = inst->operand_count - i < most ? inst->operand_count - i : most;
        dims[d] = 0;
        for (uint32_t k = 0; k < n; k++)
            dims[d] += inst->operands[i + k]->shape->dims[d];
        const Shape *s = rw_shape(r, inst->shape->dtype, inst->shape->rank, dims);
        part[parts++] = rw_like(r, inst, s, n, inst->operands + i);
    }
    return rw_like(r, inst, inst->shape, parts, part);
}

/* constant(({1, 2}, 3)) -> tuple(constant({1, 2}), constant(3)) */
static Instruction *constant_of(Rewriter *r, const Literal *l)
{
    if (!shape_is_tuple(l->shape))
        return rw_constant(r, l);
    Instruction **parts = ARENA_ARRAY(r->scratch, Instruction *, l->shape->rank + 1u);
    for (uint32_t i = 0; i < l->shape->rank; i++)
        parts[i] = constant_of(r, l->elements[i]);
    return rw_add(r, OP_TUPLE, l->shape, l->shape->rank, parts);
}

static Instruction *tuple_constant(Rewriter *r, Instruction *inst)
{
    return shape_is_tuple(inst->shape) ? constant_of(r, inst->literal) : NULL;
}

static const Rule rules_expand[] = {
    {OP_CONSTANT, "tuple_constant", tuple_constant},
    {OP_CONCATENATE, "concatenate_many", concatenate_many},
    {OP_DOT, "integer_product", integer_product},
    {OP_CONVOLUTION, "integer_product", integer_product},
    {OP_GATHER, "gather_nothing", gather_nothing},
    {OP_SCATTER, "wide_updates", wide_updates},
    {OP_TOPK, "topk", topk},
    {OP_CUSTOM_CALL, "custom_topk", custom_topk},
    {OP_CUSTOM_CALL, "new_buffer", new_buffer},
    {OP_CUSTOM_CALL, "x64", x64},
    {OP_BATCH_NORM_INFERENCE, "batch_norm_inference", batch_norm},
    {OP_BATCH_NORM_TRAINING, "batch_norm_training", batch_norm},
    {OP_BATCH_NORM_GRAD, "batch_norm_grad", batch_norm},
    {0},
};

bool pass_expand(Module *m, PassContext *cx)
{
    static const Rule *const tables[] = {
        rules_expand,        rules_expand_scan,   rules_expand_ragged, rules_expand_fft,
        rules_expand_linalg, rules_expand_lapack, rules_expand_select};
    bool changed = rewrite_all(m, cx, tables, sizeof tables / sizeof *tables);
    if (changed)
        module_sort(m);
    return changed;
}
