/* Sorts of long rows by a key that is a number: digit by digit, the lowest first, each step a stable sort.
 *
 *   s = fusion(x), calls={sort of f32[100000], f(a) < f(b)}
 *     =>  h = fusion(x, zeros), calls={scatter: how often each digit of f(x) comes, u32[4 * 256]}
 *         a = fusion(x, h), calls={sort by k(f(a)) & 255 < k(f(b)) & 255}
 *         ...
 *         s = fusion(c, h), calls={sort by k(f(a)) >> 24 & 255 < k(f(b)) >> 24 & 255}
 *
 * k makes a number without a sign of the key, in the same order: of floats -NaN < -inf < -0 < 0 < inf < NaN where
 * the comparator orders them all, else zeros are equal and NaN is greater than every number. What the sort does
 * not read, the counts, its kernel does (ir/kernel/kinds/radix_sort.c). */
#include <math.h>

#include "ir/base/divide.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"
#include "ir/kernel/sort.h"
#include "ir/kernel/time/kernel_time.h"
#include "passes/fusion/fusion.h"
#include "passes/settings.h"

#define LEAST_RANGE 1024 /* elements: fewer are not worth a block's start */

/* Where the key is made: of scalars in comparators, of arrays where digits are counted. */
typedef struct Maker {
    Computation *comp;
    const Shape *like; /* of its dimensions */
    Instruction *
        *arrays; /* NULL: the comparator's own parameters; else the sort's operands */
    Instruction **made; /* by id in the comparator */
} Maker;

typedef struct Radix {
    Module *m;
    PassContext *cx;
    Computation *comp;
    Instruction *fusion, *sort;
    const Instruction *first, *second; /* of the comparator: the key of each side */
    bool is_greater, is_total;
    int64_t along, size, rows, steps;
    int64_t ranges;      /* that a row is cut into; 0: tiles look back */
    Instruction *counts; /* look-back: of all steps */
} Radix;

/* -- making keys ------------------------------------------------------------------------------------------- */

static const Shape *shape_like(const Maker *k, DType t)
{
    const Shape *s = k->like;
    return shape_array(k->comp->module->intern, t, s->rank, s->dims, NULL, NULL);
}

static Instruction *add(const Maker *k, OpCode op, DType t, Instruction *a,
                        Instruction *b)
{
    Instruction *operands[2] = {a, b};
    return computation_add(k->comp, op, shape_like(k, t), b == NULL ? 1 : 2, operands,
                           NULL);
}

static Instruction *spread(const Maker *k, Instruction *scalar)
{
    if (k->like->rank == 0)
        return scalar;
    Instruction *v = computation_add(
        k->comp, OP_BROADCAST, shape_like(k, scalar->shape->dtype), 1, &scalar, NULL);
    inst_set_ints(v, ATTR_DIMENSIONS, NULL, 0);
    return v;
}

static Instruction *number(const Maker *k, DType t, int64_t value)
{
    Module *m = k->comp->module;
    Literal *l = literal_create(m->arena, shape_scalar(m->intern, t));
    literal_set_int(l, 0, value);
    return spread(k, computation_add_constant(k->comp, l, NULL));
}

/* x, but `value` where x is compared with `to` so. */
static Instruction *replaced(const Maker *k, Instruction *x, Instruction *to,
                             int64_t direction, double value)
{
    DType t = x->shape->dtype;
    Instruction *is = add(k, OP_COMPARE, DT_PRED, x, to);
    inst_set_int(is, ATTR_DIRECTION, direction);
    Instruction *operands[3] = {is, spread(k, computation_add_scalar(k->comp, t, value)),
                                x};
    return computation_add(k->comp, OP_SELECT, x->shape, 3, operands, NULL);
}

/* The bits of a float, turned so that they are in its order. */
static Instruction *float_key(const Maker *k, Instruction *x, bool is_total)
{
    DType t = x->shape->dtype;
    uint32_t bits = dtype_info[t].bits;
    DType wide = bits == 64 ? DT_S64 : DT_S32, key = bits == 64 ? DT_U64 : DT_U32;
    if (!is_total) {
        Instruction *zero = spread(k, computation_add_scalar(k->comp, t, 0));
        x = replaced(k, x, zero, DIRECTION_EQ, 0);
        x = replaced(k, x, x, DIRECTION_NE, NAN);
    }
    x = add(k, OP_BITCAST_CONVERT, bits == 16 ? DT_S16 : wide, x, NULL);
    if (bits == 16)
        x = add(k, OP_CONVERT, wide, x, NULL);
    Instruction *is_negative =
        add(k, OP_SHIFT_RIGHT_ARITHMETIC, wide, x, number(k, wide, bits == 64 ? 63 : 31));
    Instruction *turned = add(k, OP_BITCAST_CONVERT, key, x, NULL);
    is_negative = add(k, OP_BITCAST_CONVERT, key, is_negative, NULL);
    Instruction *sign = number(k, key, (int64_t)(UINT64_C(1) << (bits - 1)));
    return add(k, OP_XOR, key, turned, add(k, OP_OR, key, is_negative, sign));
}

static bool has_key(DType t)
{
    bool is_float = dtype_is_half(t) || t == DT_F32 || t == DT_F64;
    return t == DT_PRED || is_float || (dtype_is_integer(t) && dtype_info[t].bits >= 8);
}

/* u32 or u64: the lowest bits, as many as x has, are in its order. */
static Instruction *make_key(const Maker *k, Instruction *x, const Radix *r)
{
    DType t = x->shape->dtype;
    uint32_t bits = dtype_info[t].bits;
    DType key = bits == 64 ? DT_U64 : DT_U32, wide = bits == 64 ? DT_S64 : DT_S32;
    if (dtype_is_float(t)) {
        x = float_key(k, x, r->is_total);
    } else if (t != DT_PRED && dtype_is_signed(t)) {
        if (t != wide)
            x = add(k, OP_CONVERT, wide, x, NULL);
        x = add(k, OP_BITCAST_CONVERT, key, x, NULL);
        x = add(k, OP_XOR, key, x, number(k, key, (int64_t)(UINT64_C(1) << (bits - 1))));
    } else if (t != key) {
        x = add(k, OP_CONVERT, key, x, NULL);
    }
    return r->is_greater ? add(k, OP_NOT, key, x, NULL) : x;
}

/* What the comparator makes of one side's parameters, of the arrays; NULL: it is not by element. */
static Instruction *as_array(const Maker *k, const Instruction *inst)
{
    Instruction *operands[4];
    if (k->made[inst->id] != NULL)
        return k->made[inst->id];
    if (inst->shape->rank != 0 || !shape_is_array(inst->shape))
        return NULL;
    if (inst->op == OP_PARAMETER) {
        k->made[inst->id] = k->arrays[inst->parameter / 2];
    } else if (inst->op == OP_CONSTANT) {
        k->made[inst->id] =
            spread(k, computation_add_constant(k->comp, inst->literal, NULL));
    } else if (op_is(inst->op, OPF_ELEMENTWISE) && inst->operand_count <= 4 &&
               !op_is(inst->op, OPF_EFFECT | OPF_RANDOM)) {
        for (uint32_t i = 0; i < inst->operand_count; i++) {
            operands[i] = as_array(k, inst->operands[i]);
            if (operands[i] == NULL)
                return NULL;
        }
        k->made[inst->id] =
            computation_add_like(k->comp, inst, shape_like(k, inst->shape->dtype),
                                 inst->operand_count, operands);
    }
    return k->made[inst->id];
}

/* -- counting digits ------------------------------------------------------------------------------------------ */

static Instruction *find_sort(const Computation *comp)
{
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op == OP_SORT)
            return inst;
    }
    return NULL;
}

static Instruction *counted(const Maker *k, DType t, int64_t dimension, int64_t times)
{
    Instruction *v = computation_add(k->comp, OP_IOTA, shape_like(k, t), 0, NULL, NULL);
    inst_set_int(v, ATTR_IOTA_DIMENSION, dimension);
    return times == 1 ? v : add(k, OP_MULTIPLY, t, v, number(k, t, times));
}

/* Of 8 bits, `bits` above the lowest, s32. */
static Instruction *digits_of(const Maker *k, Instruction *key, Instruction *bits)
{
    DType t = key->shape->dtype;
    Instruction *digits = add(k, OP_SHIFT_RIGHT_LOGICAL, t, key, bits);
    digits = add(k, OP_AND, t, digits, number(k, t, RADIX_DIGITS - 1));
    return add(k, OP_CONVERT, DT_S32, digits, NULL);
}

/* Where each digit of a key is counted: k is of the sort's dimensions and the steps. */
static Instruction *positions(const Maker *k, Instruction *key, const Radix *r)
{
    DType t = key->shape->dtype;
    const Shape *s = key->shape;
    int64_t dims[KERNEL_MOST_RANK];
    int64_t stride = r->steps * RADIX_DIGITS;
    for (uint32_t i = 0; i < s->rank; i++)
        dims[i] = i;
    Instruction *all =
        computation_add(k->comp, OP_BROADCAST, shape_like(k, t), 1, &key, NULL);
    inst_set_ints(all, ATTR_DIMENSIONS, dims, s->rank);
    Instruction *digit = digits_of(k, all, counted(k, t, s->rank, RADIX_BITS));
    digit = add(k, OP_ADD, DT_S32, digit, counted(k, DT_S32, s->rank, RADIX_DIGITS));
    for (uint32_t d = s->rank; d-- > 0;) {
        if (d == r->along)
            continue;
        if (s->dims[d] != 1)
            digit = add(k, OP_ADD, DT_S32, digit, counted(k, DT_S32, d, stride));
        stride *= s->dims[d];
    }
    return digit;
}

static Instruction *add_fusion(const Radix *r, Computation *fused, const Shape *shape,
                               uint32_t count, Instruction **operands)
{
    Instruction *fusion =
        computation_add(r->comp, OP_FUSION, shape, count, operands, r->fusion->name);
    fused->is_fused = true;
    fusion->span = r->fusion->span;
    inst_set_int(fusion, ATTR_KIND, FUSION_LOOP);
    inst_set_computation(fusion, ATTR_CALLS, fused);
    return fusion;
}

static Instruction *add_zeros(const Radix *r, const Shape *shape)
{
    Computation *fused = module_add_computation(r->m, "zeros");
    Maker k = {.comp = fused, .like = shape};
    fused->root = number(&k, DT_U32, 0);
    Instruction *zeros = add_fusion(r, fused, shape, 0, NULL);
    kernel_kind_set(zeros, KERNEL_LOOP);
    return zeros;
}

/* A copy of a computation that sorts, to count in it what the sort's keys are. */
typedef struct Counting {
    Computation *comp;
    Instruction *sort, *key; /* key NULL: it is not made by element */
    Maker k;                 /* of the sort's dimensions */
} Counting;

static void begin_counting(const Radix *r, Computation *from, Counting *c)
{
    const Computation *comparator = inst_called(r->sort, 0);
    c->comp = computation_clone(from, "digits");
    c->sort = find_sort(c->comp);
    c->k = (Maker){.comp = c->comp,
                   .like = c->sort->operands[0]->shape,
                   .arrays = c->sort->operands,
                   .made = ARENA_ARRAY(r->cx->scratch, Instruction *,
                                       comparator->instruction_count + 1u)};
    c->key = as_array(&c->k, r->first);
    if (c->key != NULL)
        c->key = make_key(&c->k, c->key, r);
}

/* The counts are its result, not what is sorted. */
static void end_counting(const Radix *r, Counting *c, Instruction *counts)
{
    c->comp->root = counts;
    computation_sort(c->comp);
    uint32_t count = c->comp->instruction_count;
    bool *is_read = ARENA_ARRAY(r->cx->scratch, bool, count);
    is_read[counts->id] = true;
    for (uint32_t i = count; i-- > 0;) {
        Instruction *inst = c->comp->instructions[i];
        if (!is_read[i] && inst->op != OP_PARAMETER) {
            computation_remove(c->comp, inst);
            continue;
        }
        for (uint32_t k = 0; k < inst->operand_count; k++)
            is_read[inst->operands[k]->id] = true;
    }
    computation_compact(c->comp);
}

/* One more in `to` for each number of the indices, which are scalars. */
static Instruction *add_scatter(const Radix *r, Instruction *to, Instruction *indices,
                                Instruction *ones, int64_t dim)
{
    Instruction *operands[3] = {to, indices, ones};
    Instruction *sums =
        computation_add(to->parent, OP_SCATTER, to->shape, 3, operands, NULL);
    inst_set_ints(sums, ATTR_UPDATE_WINDOW_DIMS, NULL, 0);
    inst_set_ints(sums, ATTR_INSERTED_WINDOW_DIMS, &dim, 1);
    inst_set_ints(sums, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, &dim, 1);
    inst_set_int(sums, ATTR_INDEX_VECTOR_DIM, indices->shape->rank);
    inst_set_computation(sums, ATTR_TO_APPLY, module_add_reducer(r->m, OP_ADD, DT_U32));
    return sums;
}

static Instruction *add_counting(const Radix *r, Computation *comp, const Shape *shape,
                                 uint32_t count, Instruction **operands)
{
    Instruction *fusion = add_fusion(r, comp, shape, count, operands);
    inst_add_controls(fusion, r->fusion);
    kernel_kind_set(fusion, kernel_kind_choose(fusion, r->cx->target));
    return fusion;
}

/* The counts of all steps' digits. */
static Instruction *count_digits(const Radix *r)
{
    Counting c;
    begin_counting(r, inst_called(r->fusion, 0), &c);
    const Shape *s = c.k.like;
    int64_t n = r->rows * r->steps * RADIX_DIGITS, dims[KERNEL_MOST_RANK];
    for (uint32_t i = 0; i < s->rank; i++)
        dims[i] = s->dims[i];
    dims[s->rank] = r->steps;
    c.k.like = shape_array(r->m->intern, DT_S32, s->rank + 1, dims, NULL, NULL);
    const Shape *all = shape_array(r->m->intern, DT_U32, 1, &n, NULL, NULL);
    uint32_t count = r->fusion->operand_count;
    Instruction *to = computation_add_parameter(c.comp, count, all, NULL);
    Instruction *digits = positions(&c.k, c.key, r);
    end_counting(r, &c, add_scatter(r, to, digits, number(&c.k, DT_U32, 1), 0));
    Instruction **outer = ARENA_ARRAY(r->cx->scratch, Instruction *, count + 1u);
    for (uint32_t i = 0; i < count; i++)
        outer[i] = r->fusion->operands[i];
    outer[count] = add_zeros(r, all);
    return add_counting(r, c.comp, all, count + 1, outer);
}

/* -- counting digits of ranges ---------------------------------------------------------------------------------- */

/* Digits by range and position in it, in the place of the dimension that is sorted; 256, which is none, behind its end. */
static Instruction *cut_into_ranges(const Radix *r, const Maker *k, Instruction *digits)
{
    const Shape *s = digits->shape;
    int64_t along = r->along, length = radix_range(r->size, r->ranges);
    int64_t behind = length * r->ranges - r->size, dims[KERNEL_MOST_RANK];
    for (uint32_t d = 0; d < s->rank; d++)
        dims[d] = s->dims[d];
    if (behind != 0) {
        PaddingDim *pads = ARENA_ARRAY(r->m->arena, PaddingDim, s->rank);
        Padding *padding = ARENA_NEW(r->m->arena, Padding);
        Maker scalar = {.comp = k->comp, .like = shape_scalar(r->m->intern, DT_S32)};
        pads[along].high = behind;
        *padding = (Padding){s->rank, pads};
        dims[along] += behind;
        Instruction *operands[2] = {digits, number(&scalar, DT_S32, RADIX_DIGITS)};
        s = shape_array(r->m->intern, DT_S32, s->rank, dims, NULL, NULL);
        digits = computation_add(k->comp, OP_PAD, s, 2, operands, NULL);
        inst_set(digits, (Attr){.id = ATTR_PADDING, .padding = padding});
    }
    for (uint32_t d = s->rank; d-- > (uint32_t)along + 1;)
        dims[d + 1] = s->dims[d];
    dims[along] = r->ranges;
    dims[along + 1] = length;
    s = shape_array(r->m->intern, DT_S32, s->rank + 1, dims, NULL, NULL);
    return computation_add(k->comp, OP_RESHAPE, s, 1, &digits, NULL);
}

/* The rows' dimensions, digit, range; the first and the last ones count through the batches of a scatter, whose
 * dimensions among its indices are in `from`. */
static const Shape *counts_shape(const Radix *r, const Shape *s, int64_t *from)
{
    int64_t dims[KERNEL_MOST_RANK];
    uint32_t next = 0;
    for (uint32_t d = 0; d < s->rank; d++) {
        if (d == r->along)
            continue;
        dims[next] = s->dims[d];
        from[next++] = d < r->along ? d : d + 1;
    }
    from[next] = r->along;
    dims[next++] = RADIX_DIGITS;
    dims[next++] = r->ranges;
    return shape_array(r->m->intern, DT_U32, next, dims, NULL, NULL);
}

/* Counts in each range become those of all up to it. */
static Instruction *scan_ranges(const Radix *r, Instruction *counts)
{
    Computation *fused = module_add_computation(r->m, "ranges");
    const Shape *s = counts->shape;
    WindowDim *dims = ARENA_ARRAY(r->m->arena, WindowDim, s->rank);
    Window *window = ARENA_NEW(r->m->arena, Window);
    for (uint32_t d = 0; d < s->rank; d++)
        dims[d] =
            (WindowDim){.size = 1, .stride = 1, .base_dilation = 1, .window_dilation = 1};
    dims[s->rank - 1].size = r->ranges;
    dims[s->rank - 1].pad_low = r->ranges - 1;
    *window = (Window){s->rank, dims};
    Maker scalar = {.comp = fused, .like = shape_scalar(r->m->intern, DT_U32)};
    Instruction *operands[2] = {computation_add_parameter(fused, 0, s, NULL),
                                number(&scalar, DT_U32, 0)};
    fused->root = computation_add(fused, OP_REDUCE_WINDOW, s, 2, operands, NULL);
    inst_set(fused->root, (Attr){.id = ATTR_WINDOW, .window = window});
    inst_set_computation(fused->root, ATTR_TO_APPLY,
                         module_add_reducer(r->m, OP_ADD, DT_U32));
    return add_counting(r, fused, s, 1, &counts);
}

/* How often each digit of this step comes in the ranges of the rows up to each one. `from` sorts what `operands`
 * are. */
static Instruction *count_ranges(const Radix *r, Computation *from, uint32_t count,
                                 Instruction **operands, int64_t step)
{
    Counting c;
    int64_t batching[KERNEL_MOST_RANK], index_batching[KERNEL_MOST_RANK];
    begin_counting(r, from, &c);
    const Shape *s = c.k.like;
    DType t = c.key->shape->dtype;
    Instruction *digits = digits_of(&c.k, c.key, number(&c.k, t, step * RADIX_BITS));
    digits = cut_into_ranges(r, &c.k, digits);
    const Shape *of_counts = counts_shape(r, s, index_batching);
    Maker zeros = {.comp = c.comp, .like = of_counts};
    Maker ones = {.comp = c.comp, .like = digits->shape};
    Instruction *sums = add_scatter(r, number(&zeros, DT_U32, 0), digits,
                                    number(&ones, DT_U32, 1), s->rank - 1);
    for (uint32_t i = 0; i < s->rank; i++)
        batching[i] = i + 1 < s->rank ? i : i + 1;
    inst_set_ints(sums, ATTR_INPUT_BATCHING_DIMS, batching, s->rank);
    inst_set_ints(sums, ATTR_SCATTER_INDICES_BATCHING_DIMS, index_batching, s->rank);
    end_counting(r, &c, sums);
    Instruction *counts = add_counting(r, c.comp, of_counts, count, operands);
    return r->ranges == 1 ? counts : scan_ranges(r, counts);
}

/* -- steps ---------------------------------------------------------------------------------------------------- */

/* By the digit of this step. */
static void set_comparator(const Radix *r, Instruction *sort, int64_t step)
{
    Computation *from = inst_called(r->sort, 0), *comp = computation_clone(from, "digit");
    Maker k = {.comp = comp, .like = shape_scalar(r->m->intern, DT_PRED)};
    Instruction *old = comp->root, *digits[2];
    bool turns = from->root->operands[0] != r->first;
    for (uint32_t i = 0; i < 2; i++) {
        Instruction *key = make_key(&k, old->operands[turns ? 1 - i : i], r);
        DType t = key->shape->dtype;
        key = add(&k, OP_SHIFT_RIGHT_LOGICAL, t, key, number(&k, t, step * RADIX_BITS));
        digits[i] = add(&k, OP_AND, t, key, number(&k, t, RADIX_DIGITS - 1));
    }
    comp->root = add(&k, OP_COMPARE, DT_PRED, digits[0], digits[1]);
    inst_set_int(comp->root, ATTR_DIRECTION, DIRECTION_LT);
    computation_remove(comp, old);
    computation_sort(comp);
    inst_set_computation(sort, ATTR_TO_APPLY, comp);
    inst_set_int(sort, ATTR_IS_STABLE, 1);
}

/* What a step that sorts what `operands` are knows of their digits. */
static Instruction *counts_of_step(const Radix *r, Computation *from, uint32_t count,
                                   Instruction **operands, int64_t step)
{
    return r->ranges == 0 ? r->counts : count_ranges(r, from, count, operands, step);
}

/* The fusion itself becomes the first step, which reads the counts. */
static void make_first(const Radix *r)
{
    Instruction *fusion = r->fusion;
    uint32_t n = fusion->operand_count;
    Instruction *counts =
        counts_of_step(r, inst_called(fusion, 0), n, fusion->operands, 0);
    Computation *fused = computation_clone(inst_called(fusion, 0), "radix");
    fused->is_fused = true;
    computation_add_parameter(fused, n, counts->shape, NULL);
    set_comparator(r, find_sort(fused), 0);
    Instruction **operands = ARENA_ARRAY(r->m->arena, Instruction *, n + 1u);
    for (uint32_t i = 0; i < n; i++)
        operands[i] = fusion->operands[i];
    operands[n] = counts;
    fusion->operands = operands;
    fusion->operand_count = n + 1;
    inst_set_computation(fusion, ATTR_CALLS, fused);
    kernel_kind_set(fusion, KERNEL_RADIX_SORT);
}

static Instruction *add_step(const Radix *r, Instruction *before, int64_t step)
{
    uint32_t n = r->sort->operand_count;
    Computation *fused = module_add_computation(r->m, "radix");
    Instruction **outer = ARENA_ARRAY(r->cx->scratch, Instruction *, n + 1u);
    Instruction **inner = ARENA_ARRAY(r->cx->scratch, Instruction *, n + 1u);
    for (uint32_t i = 0; i < n; i++) {
        bool is_tuple = shape_is_tuple(before->shape);
        outer[i] = is_tuple ? computation_add_element(before, i) : before;
        inner[i] =
            computation_add_parameter(fused, i, shape_leaf(before->shape, i), NULL);
    }
    fused->root = computation_add_like(fused, r->sort, r->sort->shape, n, inner);
    Instruction *counts = outer[n] = counts_of_step(r, fused, n, outer, step);
    /* last, as in the first step: equal steps have equal texts, and one kernel */
    computation_add_parameter(fused, n, counts->shape, NULL);
    set_comparator(r, fused->root, step);
    Instruction *fusion = add_fusion(r, fused, before->shape, n + 1, outer);
    kernel_kind_set(fusion, KERNEL_RADIX_SORT);
    return fusion;
}

/* How many of a key's bits may differ: those of the mask that it is and-ed with, else all. */
static uint32_t significant_bits(const Instruction *key)
{
    DType t = key->shape->dtype;
    uint32_t bits = dtype_info[t].bits;
    if (t == DT_PRED)
        return 1;
    if (key->op != OP_AND || !dtype_is_unsigned(t) ||
        key->operands[1]->op != OP_CONSTANT || key->operands[1]->literal->elided)
        return bits;
    uint64_t mask = (uint64_t)literal_int(key->operands[1]->literal, 0);
    while (bits > 1 && (mask >> (bits - 1) & 1) == 0)
        bits--;
    return bits;
}

static bool fits(Radix *r)
{
    const Shape *s = r->sort->operands[0]->shape;
    bool good = sort_compares(r->sort, &r->first, &r->second, &r->is_greater) &&
                shape_is_array(r->first->shape) && has_key(r->first->shape->dtype) &&
                s->rank + 1 < KERNEL_MOST_RANK;
    for (uint32_t i = 0; i < r->sort->operand_count && good; i++)
        good = shape_is_row_major(r->sort->operands[i]->shape);
    if (!good)
        return false;
    const Instruction *compare = inst_called(r->sort, 0)->root;
    r->is_total = inst_int(compare, ATTR_TYPE, COMPARE_FLOAT) == COMPARE_TOTALORDER;
    r->steps = (significant_bits(r->first) + RADIX_BITS - 1) / RADIX_BITS;
    r->along = inst_ints(r->sort, ATTR_DIMENSIONS).data[0];
    r->size = s->dims[r->along];
    r->rows = shape_elements(s) / r->size;
    return r->size < INT64_C(1) << 30 &&
           r->rows <= INT32_MAX / (r->steps * RADIX_DIGITS) &&
           shape_elements(s) <= INT32_MAX;
}

/* -- look-back or ranges ---------------------------------------------------------------------------------------- */

/* So many that each block that the device has at a time takes one, of so many on each multiprocessor. */
static int64_t ranges_that_fill(const Radix *r, int64_t resident)
{
    int64_t blocks = (int64_t)target_multiprocessors(r->cx->target) * resident;
    int64_t most = r->size / LEAST_RANGE, ranges = blocks / r->rows;
    if (r->cx->settings->sort_ranges > 0)
        ranges = r->cx->settings->sort_ranges;
    ranges = ranges > most ? most : ranges;
    ranges = ranges < 1 ? 1 : ranges;
    return ceil_div(r->size, radix_range(r->size, ranges));
}

double kernels_seconds(const PassContext *cx, const Computation *comp, uint32_t first)
{
    const Target *t = cx->target;
    double seconds = 0;
    for (uint32_t i = first; i < comp->instruction_count; i++) {
        const Instruction *inst = comp->instructions[i];
        KernelWork w;
        if (inst == NULL || inst->op != OP_FUSION)
            continue;
        kernel_work(inst, t, cx->scratch, &w);
        seconds += kernel_time(&w, t->device).seconds;
    }
    return seconds;
}

/* Of all steps: one is made, as if it read what the fusion gives, and removed again. */
static double steps_seconds(Radix r)
{
    uint32_t first = r.comp->instruction_count;
    if (r.ranges == 0)
        r.counts = count_digits(&r);
    double once = kernels_seconds(r.cx, r.comp, first);
    uint32_t then = r.comp->instruction_count;
    add_step(&r, r.fusion, 0);
    double seconds = once + (double)r.steps * kernels_seconds(r.cx, r.comp, then);
    computation_remove_from(r.comp, first);
    return seconds;
}

/* 0: tiles look back. Of as many ranges as blocks of all sizes can take, those that take the shortest time. */
static int64_t choose_ranges(const Radix *r)
{
    Radix by_ranges = *r;
    if (r->cx->settings->sort_ranges == 0 || r->size < LEAST_RANGE)
        return 0;
    if (r->cx->settings->sort_ranges > 0)
        return ranges_that_fill(r, 1);
    double least = steps_seconds(*r);
    int64_t best = 0;
    for (int64_t resident = RADIX_THREADS / RADIX_DIGITS; resident > 0; resident /= 2) {
        int64_t before = by_ranges.ranges;
        by_ranges.ranges = ranges_that_fill(r, resident);
        if (by_ranges.ranges == before)
            continue;
        double seconds = steps_seconds(by_ranges);
        if (seconds < least) {
            least = seconds;
            best = by_ranges.ranges;
        }
    }
    return best;
}

Instruction *sort_by_digits(Module *m, PassContext *cx, Computation *comp,
                            Instruction *fusion)
{
    Radix r = {.m = m,
               .cx = cx,
               .comp = comp,
               .fusion = fusion,
               .sort = find_sort(inst_called(fusion, 0))};
    Counting trial;
    if (!fits(&r))
        return NULL;
    begin_counting(&r, inst_called(fusion, 0), &trial);
    if (trial.key == NULL)
        return NULL;
    r.ranges = choose_ranges(&r);
    if (r.ranges == 0)
        r.counts = count_digits(&r);
    make_first(&r);
    Instruction *last = fusion;
    for (int64_t step = 1; step < r.steps; step++)
        last = add_step(&r, last, step);
    return last;
}
