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

#include "ir/kernel/kind.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/sort.h"
#include "passes/fusion/fusion.h"

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
    int64_t size, rows, steps;
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

/* Where each digit of a key is counted: k is of the sort's dimensions and the steps. */
static Instruction *places(const Maker *k, Instruction *key, const Radix *r)
{
    DType t = key->shape->dtype;
    const Shape *s = key->shape;
    int64_t dims[KERNEL_MOST_RANK], along = inst_ints(r->sort, ATTR_DIMENSIONS).data[0];
    int64_t stride = r->steps * RADIX_DIGITS;
    for (uint32_t i = 0; i < s->rank; i++)
        dims[i] = i;
    Instruction *all =
        computation_add(k->comp, OP_BROADCAST, shape_like(k, t), 1, &key, NULL);
    inst_set_ints(all, ATTR_DIMENSIONS, dims, s->rank);
    Instruction *digit =
        add(k, OP_SHIFT_RIGHT_LOGICAL, t, all, counted(k, t, s->rank, RADIX_BITS));
    digit = add(k, OP_AND, t, digit, number(k, t, RADIX_DIGITS - 1));
    digit = add(k, OP_CONVERT, DT_S32, digit, NULL);
    digit = add(k, OP_ADD, DT_S32, digit, counted(k, DT_S32, s->rank, RADIX_DIGITS));
    for (uint32_t d = s->rank; d-- > 0;) {
        if (d == along)
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

/* The counts of all steps' digits; NULL: the keys are not made by element. */
static Instruction *count_digits(const Radix *r)
{
    Computation *fused = computation_clone(inst_called(r->fusion, 0), "digits");
    Instruction *sort = find_sort(fused);
    const Shape *s = sort->operands[0]->shape;
    const Computation *comparator = inst_called(r->sort, 0);
    int64_t n = r->rows * r->steps * RADIX_DIGITS, dims[KERNEL_MOST_RANK];
    Maker k = {.comp = fused,
               .like = s,
               .arrays = sort->operands,
               .made = ARENA_ARRAY(r->cx->scratch, Instruction *,
                                   comparator->instruction_count + 1u)};
    Instruction *key = as_array(&k, r->first);
    if (key == NULL)
        return NULL;
    key = make_key(&k, key, r);
    for (uint32_t i = 0; i < s->rank; i++)
        dims[i] = s->dims[i];
    dims[s->rank] = r->steps;
    k.like = shape_array(r->m->intern, DT_S32, s->rank + 1, dims, NULL, NULL);
    const Shape *all = shape_array(r->m->intern, DT_U32, 1, &n, NULL, NULL);
    uint32_t count = r->fusion->operand_count;
    Instruction *operands[3] = {computation_add_parameter(fused, count, all, NULL),
                                places(&k, key, r), number(&k, DT_U32, 1)};
    static const int64_t first = 0;
    Instruction *sums = computation_add(fused, OP_SCATTER, all, 3, operands, NULL);
    inst_set_ints(sums, ATTR_UPDATE_WINDOW_DIMS, NULL, 0);
    inst_set_ints(sums, ATTR_INSERTED_WINDOW_DIMS, &first, 1);
    inst_set_ints(sums, ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, &first, 1);
    inst_set_int(sums, ATTR_INDEX_VECTOR_DIM, s->rank + 1);
    inst_set_computation(sums, ATTR_TO_APPLY, module_add_reducer(r->m, OP_ADD, DT_U32));
    Instruction *old = fused->root;
    fused->root = sums;
    for (Instruction *inst = inst_first(fused); inst; inst = inst_next(inst)) {
        if (inst == old || inst->op == OP_GET_TUPLE_ELEMENT || inst == sort)
            computation_remove(fused, inst);
    }
    computation_sort(fused);
    Instruction **outer = ARENA_ARRAY(r->cx->scratch, Instruction *, count + 1u);
    for (uint32_t i = 0; i < count; i++)
        outer[i] = r->fusion->operands[i];
    outer[count] = add_zeros(r, all);
    Instruction *fusion = add_fusion(r, fused, all, count + 1, outer);
    inst_add_controls(fusion, r->fusion);
    kernel_kind_set(fusion, kernel_kind_choose(fusion, r->cx->target));
    return fusion;
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

/* The fusion itself becomes the first step, which reads the counts. */
static void make_first(const Radix *r, Instruction *counts)
{
    Instruction *fusion = r->fusion;
    uint32_t n = fusion->operand_count;
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

static Instruction *add_step(const Radix *r, Instruction *before, Instruction *counts,
                             int64_t step)
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
    outer[n] = counts;
    fused->root = computation_add_like(fused, r->sort, r->sort->shape, n, inner);
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
    r->size = s->dims[inst_ints(r->sort, ATTR_DIMENSIONS).data[0]];
    r->rows = shape_elements(s) / r->size;
    return r->size < INT64_C(1) << 30 &&
           r->rows <= INT32_MAX / (r->steps * RADIX_DIGITS) &&
           shape_elements(s) <= INT32_MAX;
}

Instruction *sort_by_digits(Module *m, PassContext *cx, Computation *comp,
                            Instruction *fusion)
{
    Radix r = {.m = m,
               .cx = cx,
               .comp = comp,
               .fusion = fusion,
               .sort = find_sort(inst_called(fusion, 0))};
    if (!fits(&r))
        return NULL;
    Instruction *counts = count_digits(&r);
    if (counts == NULL)
        return NULL;
    make_first(&r, counts);
    Instruction *last = fusion;
    for (int64_t step = 1; step < r.steps; step++)
        last = add_step(&r, last, counts, step);
    return last;
}
