/* Rules of booleans, bits, comparisons and selection.
 *
 * Measure: number of operations, then negations. */
#include "ir/attribute/direction.h"
#include "passes/simplify/rewrite.h"

static bool all_ones(const Instruction *inst)
{
    const Literal *l = rw_splat_of(inst);
    if (!l)
        return false;
    if (l->shape->dtype == DT_PRED)
        return literal_bits(l, 0) == 1;
    return dtype_is_integer(l->shape->dtype) &&
           (literal_bits(l, 0) |
            ~(UINT64_MAX >> (64 - dtype_info[l->shape->dtype].bits))) == UINT64_MAX;
}

static bool all_zeros(const Instruction *inst)
{
    const Literal *l = rw_splat_of(inst);
    return l && !dtype_is_float(l->shape->dtype) && !dtype_is_complex(l->shape->dtype) &&
           literal_is_all(l, 0);
}

/* and: x & x, x & 1..1 -> x; x & 0 -> 0. pred: multiply and minimum are `and`. */
static Instruction *and_rule(Rewriter *r, Instruction *inst)
{
    (void)r;
    Instruction *a = inst->operands[0], *b = inst->operands[1];
    if (inst->op != OP_AND && inst->shape->dtype != DT_PRED)
        return NULL;
    if (a == b || all_ones(b))
        return rw_as(inst, a);
    return all_zeros(b) ? rw_as(inst, b) : NULL;
}

/* or: x | x, x | 0 -> x; x | 1..1 -> 1..1. pred: add and maximum are `or`. */
static Instruction *or_rule(Rewriter *r, Instruction *inst)
{
    (void)r;
    Instruction *a = inst->operands[0], *b = inst->operands[1];
    if (inst->op != OP_OR && inst->shape->dtype != DT_PRED)
        return NULL;
    if (a == b || all_zeros(b))
        return rw_as(inst, a);
    return all_ones(b) ? rw_as(inst, b) : NULL;
}

/* x ^ 0 -> x; x ^ x -> 0; x ^ 1..1 -> not x */
static Instruction *xor_rule(Rewriter *r, Instruction *inst)
{
    Instruction *a = inst->operands[0], *b = inst->operands[1];
    if (all_zeros(b))
        return rw_as(inst, a);
    if (a == b && rw_is_static(inst->shape))
        return rw_splat_int(r, inst->shape, 0);
    return all_ones(b) ? rw_unary(r, OP_NOT, inst->shape, a) : NULL;
}

/* x << 0, x >> 0 -> x */
static Instruction *shift_zero(Rewriter *r, Instruction *inst)
{
    (void)r;
    return all_zeros(inst->operands[1]) ? rw_as(inst, inst->operands[0]) : NULL;
}

/* x op x of anything but floats, which may be NaN */
static Instruction *compare_self(Rewriter *r, Instruction *inst)
{
    DType t = inst->operands[0]->shape->dtype;
    if (inst->operands[0] != inst->operands[1] || !rw_is_static(inst->shape) ||
        dtype_is_float(t) || dtype_is_complex(t))
        return NULL;
    int64_t d = inst_int(inst, ATTR_DIRECTION, 0);
    return rw_splat_int(r, inst->shape,
                        d == DIRECTION_EQ || d == DIRECTION_GE || d == DIRECTION_LE);
}

/* unsigned x < 0 -> false, x >= 0 -> true */
static Instruction *compare_unsigned_zero(Rewriter *r, Instruction *inst)
{
    DType t = inst->operands[0]->shape->dtype;
    int64_t d = inst_int(inst, ATTR_DIRECTION, 0);
    if (!dtype_is_unsigned(t) || !all_zeros(inst->operands[1]) ||
        !rw_is_static(inst->shape) || (d != DIRECTION_LT && d != DIRECTION_GE))
        return NULL;
    return rw_splat_int(r, inst->shape, d == DIRECTION_GE);
}

/* p == true, p != false -> p; p == false, p != true -> not p */
static Instruction *compare_pred(Rewriter *r, Instruction *inst)
{
    Instruction *a = inst->operands[0], *b = inst->operands[1];
    int64_t d = inst_int(inst, ATTR_DIRECTION, 0);
    if (a->shape->dtype != DT_PRED || (d != DIRECTION_EQ && d != DIRECTION_NE) ||
        a->shape != inst->shape)
        return NULL;
    bool one = all_ones(b);
    if (!one && !all_zeros(b))
        return NULL;
    if (one == (d == DIRECTION_EQ))
        return a;
    return rw_unary(r, OP_NOT, inst->shape, a);
}

/* number(p) > 0 -> p; number(p) == 0 -> not p, of a predicate that became a number to be asked again */
static Instruction *compare_widened(Rewriter *r, Instruction *inst)
{
    Instruction *x = inst->operands[0];
    const Literal *limit = rw_splat_of(inst->operands[1]);
    int64_t d = inst_int(inst, ATTR_DIRECTION, 0);
    if (x->op != OP_CONVERT || x->operands[0]->shape != inst->shape || limit == NULL ||
        dtype_is_complex(x->shape->dtype) || dtype_info[x->shape->dtype].bits < 4 ||
        dtype_info[x->shape->dtype].special == SPECIAL_E8M0 ||
        inst_int(inst, ATTR_TYPE, COMPARE_FLOAT) == COMPARE_TOTALORDER)
        return NULL;
    double y = literal_double(limit, 0);
    bool if_true = direction_holds(d, 1, y), if_false = direction_holds(d, 0, y);
    if (if_true == if_false)
        return rw_is_static(inst->shape) ? rw_splat_int(r, inst->shape, if_true) : NULL;
    return if_true ? x->operands[0] : rw_unary(r, OP_NOT, inst->shape, x->operands[0]);
}

static const int64_t opposite[] = {
    [DIRECTION_EQ] = DIRECTION_NE, [DIRECTION_NE] = DIRECTION_EQ,
    [DIRECTION_GE] = DIRECTION_LT, [DIRECTION_GT] = DIRECTION_LE,
    [DIRECTION_LE] = DIRECTION_GT, [DIRECTION_LT] = DIRECTION_GE};

/* not(a < b) -> a >= b, where no NaN can make both false */
static Instruction *not_compare(Rewriter *r, Instruction *inst)
{
    Instruction *c = inst->operands[0];
    if (c->op != OP_COMPARE)
        return NULL;
    DType t = c->operands[0]->shape->dtype;
    int64_t d = inst_int(c, ATTR_DIRECTION, 0);
    bool may_be_nan = dtype_is_float(t) || dtype_is_complex(t);
    if (may_be_nan && d != DIRECTION_EQ && d != DIRECTION_NE &&
        inst_int(c, ATTR_TYPE, COMPARE_FLOAT) != COMPARE_TOTALORDER)
        return NULL;
    Instruction *by = rw_like(r, c, inst->shape, 2, c->operands);
    inst_set_int(by, ATTR_DIRECTION, opposite[d]);
    return by;
}

/* select(true, a, b) -> a; select(false, a, b) -> b; select(p, a, a) -> a */
static Instruction *select_known(Rewriter *r, Instruction *inst)
{
    (void)r;
    Instruction *p = inst->operands[0];
    if (all_ones(p) || inst->operands[1] == inst->operands[2])
        return rw_as(inst, inst->operands[1]);
    return all_zeros(p) ? rw_as(inst, inst->operands[2]) : NULL;
}

/* select(not p, a, b) -> select(p, b, a) */
static Instruction *select_not(Rewriter *r, Instruction *inst)
{
    Instruction *p = inst->operands[0];
    if (p->op != OP_NOT)
        return NULL;
    Instruction *operands[3] = {p->operands[0], inst->operands[2], inst->operands[1]};
    return rw_like(r, inst, inst->shape, 3, operands);
}

/* select(p, true, false) -> p; select(p, false, true) -> not p */
static Instruction *select_pred(Rewriter *r, Instruction *inst)
{
    Instruction *p = inst->operands[0], *a = inst->operands[1], *b = inst->operands[2];
    if (inst->shape->dtype != DT_PRED || p->shape != inst->shape)
        return NULL;
    if (all_ones(a) && all_zeros(b))
        return p;
    return all_zeros(a) && all_ones(b) ? rw_unary(r, OP_NOT, inst->shape, p) : NULL;
}

/* select(p, select(p, a, b), c) -> select(p, a, c), and the other branch */
static Instruction *select_select(Rewriter *r, Instruction *inst)
{
    Instruction *p = inst->operands[0], *a = inst->operands[1], *b = inst->operands[2];
    if (a->op == OP_SELECT && a->operands[0] == p)
        a = a->operands[1];
    if (b->op == OP_SELECT && b->operands[0] == p)
        b = b->operands[2];
    if (a == inst->operands[1] && b == inst->operands[2])
        return NULL;
    Instruction *operands[3] = {p, a, b};
    return rw_like(r, inst, inst->shape, 3, operands);
}

const Rule rules_logic[] = {
    {OP_AND, "and_rule", and_rule},
    {OP_MULTIPLY, "and_rule", and_rule},
    {OP_MINIMUM, "and_rule", and_rule},
    {OP_OR, "or_rule", or_rule},
    {OP_ADD, "or_rule", or_rule},
    {OP_MAXIMUM, "or_rule", or_rule},
    {OP_XOR, "xor_rule", xor_rule},
    {OP_SHIFT_LEFT, "shift_zero", shift_zero},
    {OP_SHIFT_RIGHT_ARITHMETIC, "shift_zero", shift_zero},
    {OP_SHIFT_RIGHT_LOGICAL, "shift_zero", shift_zero},
    {OP_COMPARE, "compare_self", compare_self},
    {OP_COMPARE, "compare_unsigned_zero", compare_unsigned_zero},
    {OP_COMPARE, "compare_pred", compare_pred},
    {OP_COMPARE, "compare_widened", compare_widened},
    {OP_NOT, "not_compare", not_compare},
    {OP_SELECT, "select_known", select_known},
    {OP_SELECT, "select_not", select_not},
    {OP_SELECT, "select_pred", select_pred},
    {OP_SELECT, "select_select", select_select},
    {0},
};
