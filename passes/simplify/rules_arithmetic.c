/* Rules of arithmetic. Integers are exact modulo 2^n. Floats keep every bit that a program can
 * see: signed zeros, infinities, NaN; only the payload and sign of a NaN may differ. Hence no
 * x * 0 -> 0, no x + 0 -> x (x may be -0, the sum is +0), no x - x -> 0.
 *
 * Measure: number of operations, then their weight (power > divide > multiply > add), then
 * constants that stand on the left of a commutative operation. */
#include <math.h>

#include "passes/simplify/rewrite.h"
#include "passes/simplify/sign.h"

static bool is_integer(const Instruction *inst)
{
    return dtype_is_integer(inst->shape->dtype);
}

static bool is_constant(const Instruction *inst)
{
    return inst->op == OP_CONSTANT || rw_splat_of(inst);
}

/* -x, of a type that has a sign: without one it is NaN whatever x is. */
static bool is_negation(const Instruction *inst)
{
    return inst->op == OP_NEGATE &&
           dtype_info[inst->shape->dtype].special != SPECIAL_E8M0;
}

/* c op x -> x op c */
static Instruction *constant_right(Rewriter *r, Instruction *inst)
{
    if (!op_is(inst->op, OPF_COMMUTATIVE) || inst->operand_count != 2)
        return NULL;
    Instruction *a = inst->operands[0], *b = inst->operands[1];
    if (!is_constant(a) || is_constant(b))
        return NULL;
    Instruction *operands[2] = {b, a};
    return rw_like(r, inst, inst->shape, 2, operands);
}

/* op(broadcast(c1), broadcast(c2)) -> broadcast(op(c1, c2)): folded as scalars */
static Instruction *of_splats(Rewriter *r, Instruction *inst)
{
    if (!op_is(inst->op, OPF_ELEMENTWISE) || !rw_is_static(inst->shape) ||
        inst->shape->rank == 0 || inst->operand_count == 0 || inst->operand_count > 3)
        return NULL;
    Instruction *scalars[3];
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        Instruction *a = inst->operands[i];
        if (!rw_splat_of(a))
            return NULL;
        scalars[i] = a->op == OP_BROADCAST ? a->operands[0] : a;
    }
    const Shape *s = shape_scalar(r->m->intern, inst->shape->dtype);
    Instruction *scalar = rw_like(r, inst, s, inst->operand_count, scalars);
    return rw_broadcast(r, inst->shape, scalar, 0, NULL);
}

/* x + 0 -> x of integers; x + -0 -> x of floats (a complex -0 here has +0 as its imaginary part) */
static Instruction *add_zero(Rewriter *r, Instruction *inst)
{
    (void)r;
    Instruction *a = inst->operands[0], *b = inst->operands[1];
    if (is_integer(inst) ? rw_is_splat(b, 0)
                         : !dtype_is_complex(inst->shape->dtype) && rw_is_splat(b, -0.0))
        return rw_as(inst, a);
    return NULL;
}

/* x + -y -> x - y; -x + y -> y - x */
static Instruction *add_negated(Rewriter *r, Instruction *inst)
{
    Instruction *a = inst->operands[0], *b = inst->operands[1];
    if (is_negation(b) && inst->shape->dtype != DT_PRED)
        return rw_binary(r, OP_SUBTRACT, inst->shape, a, b->operands[0]);
    if (is_negation(a) && inst->shape->dtype != DT_PRED)
        return rw_binary(r, OP_SUBTRACT, inst->shape, b, a->operands[0]);
    return NULL;
}

/* (x op c1) op c2 -> x op (c1 op c2) of integers */
static Instruction *reassociate(Rewriter *r, Instruction *inst)
{
    if (!op_is(inst->op, OPF_ASSOCIATIVE) || inst->operand_count != 2 ||
        !is_integer(inst))
        return NULL;
    Instruction *a = inst->operands[0], *b = inst->operands[1];
    if (a->op != inst->op || !rw_splat_of(b) || !rw_splat_of(a->operands[1]) ||
        is_constant(a->operands[0])) /* all constant: pass_fold's */
        return NULL;
    Instruction *folded = rw_binary(r, inst->op, inst->shape, a->operands[1], b);
    return rw_binary(r, inst->op, inst->shape, a->operands[0], folded);
}

/* (x - c1) + c2 -> x + (c2 - c1), (x + c1) - c2 -> x + (c1 - c2) of integers */
static Instruction *reassociate_difference(Rewriter *r, Instruction *inst)
{
    Instruction *a = inst->operands[0], *b = inst->operands[1];
    if (!is_integer(inst) || !rw_splat_of(b))
        return NULL;
    OpCode inner = inst->op == OP_ADD ? OP_SUBTRACT : OP_ADD;
    if (a->op != inner || !rw_splat_of(a->operands[1]) || is_constant(a->operands[0]))
        return NULL;
    Instruction *c1 = a->operands[1];
    Instruction *c = inst->op == OP_ADD ? rw_binary(r, OP_SUBTRACT, inst->shape, b, c1)
                                        : rw_binary(r, OP_SUBTRACT, inst->shape, c1, b);
    return rw_binary(r, OP_ADD, inst->shape, a->operands[0], c);
}

/* x - 0 -> x */
static Instruction *subtract_zero(Rewriter *r, Instruction *inst)
{
    (void)r;
    return rw_is_splat(inst->operands[1], 0.0) ? rw_as(inst, inst->operands[0]) : NULL;
}

/* x - x -> 0 of integers */
static Instruction *subtract_self(Rewriter *r, Instruction *inst)
{
    if (inst->operands[0] != inst->operands[1] || !is_integer(inst) ||
        !rw_is_static(inst->shape))
        return NULL;
    return rw_splat_int(r, inst->shape, 0);
}

/* x - -y -> x + y */
static Instruction *subtract_negated(Rewriter *r, Instruction *inst)
{
    Instruction *b = inst->operands[1];
    if (!is_negation(b))
        return NULL;
    return rw_binary(r, OP_ADD, inst->shape, inst->operands[0], b->operands[0]);
}

/* x * 1 -> x, x / 1 -> x, x ^ 1 -> x */
static Instruction *by_one(Rewriter *r, Instruction *inst)
{
    (void)r;
    DType t = inst->shape->dtype;
    if (t == DT_PRED || dtype_is_complex(t) || !rw_is_splat(inst->operands[1], 1.0))
        return NULL;
    return rw_as(inst, inst->operands[0]);
}

/* x * 0 -> 0 of integers and pred */
static Instruction *multiply_zero(Rewriter *r, Instruction *inst)
{
    bool exact = is_integer(inst) || inst->shape->dtype == DT_PRED;
    if (!exact || !rw_is_splat(inst->operands[1], 0) || !rw_is_static(inst->shape))
        return NULL;
    return rw_splat_int(r, inst->shape, 0);
}

/* -x * -y -> x * y, -x / -y -> x / y of floats (integers: but for the smallest) */
static Instruction *both_negated(Rewriter *r, Instruction *inst)
{
    Instruction *a = inst->operands[0], *b = inst->operands[1];
    if (!is_negation(a) || !is_negation(b) ||
        (inst->op == OP_DIVIDE && !dtype_is_float(inst->shape->dtype)))
        return NULL;
    return rw_binary(r, inst->op, inst->shape, a->operands[0], b->operands[0]);
}

/* x / 2^k -> x * 2^-k: both are the same real number rounded once */
static Instruction *divide_power_of_two(Rewriter *r, Instruction *inst)
{
    DType t = inst->shape->dtype;
    const Literal *l = rw_splat_of(inst->operands[1]);
    if (!l || !dtype_is_float(t) || dtype_info[t].bits < 16 || !rw_is_static(inst->shape))
        return NULL;
    double c = literal_double(l, 0);
    int exponent;
    if (!isfinite(c) || fabs(frexp(c, &exponent)) != 0.5)
        return NULL;
    /* the reciprocal must be a normal number of the type */
    int limit = dtype_info[t].bias - 1;
    if (exponent - 1 > limit || exponent - 1 < -limit)
        return NULL;
    return rw_binary(r, OP_MULTIPLY, inst->shape, inst->operands[0],
                     rw_splat(r, inst->shape, 1.0 / c));
}

/* x ^ 2 -> x * x; x ^ -1 -> 1 / x; x ^ 0 -> 1 */
static Instruction *power_small(Rewriter *r, Instruction *inst)
{
    Instruction *x = inst->operands[0], *y = inst->operands[1];
    if (dtype_is_complex(inst->shape->dtype) || !rw_is_static(inst->shape))
        return NULL;
    if (rw_is_splat(y, 2.0))
        return rw_binary(r, OP_MULTIPLY, inst->shape, x, x);
    if (rw_is_splat(y, 0.0))
        return rw_splat(r, inst->shape, 1.0);
    if (rw_is_splat(y, -1.0) && dtype_is_float(inst->shape->dtype))
        return rw_binary(r, OP_DIVIDE, inst->shape, rw_splat(r, inst->shape, 1.0), x);
    return NULL;
}

/* x ^ 0.5 -> sqrt(x); x ^ -0.5 -> rsqrt(x), unless x may be -0 or -inf, of which powers are not those roots */
static Instruction *power_half(Rewriter *r, Instruction *inst)
{
    Instruction *x = inst->operands[0], *y = inst->operands[1];
    bool is_root = rw_is_splat(y, 0.5);
    if (!dtype_is_float(inst->shape->dtype) || !rw_is_static(inst->shape) ||
        (!is_root && !rw_is_splat(y, -0.5)) || !value_is_not_negative(x))
        return NULL;
    return rw_unary(r, is_root ? OP_SQRT : OP_RSQRT, inst->shape, x);
}

/* -(-x) -> x, not(not(x)) -> x, conj-free involutions */
static Instruction *twice(Rewriter *r, Instruction *inst)
{
    (void)r;
    Instruction *a = inst->operands[0];
    bool is_involution = inst->op == OP_NEGATE ? is_negation(a) : a->op == inst->op;
    return is_involution ? rw_as(inst, a->operands[0]) : NULL;
}

/* -(x - y) -> y - x of integers: of floats x = y would give -0 */
static Instruction *negate_difference(Rewriter *r, Instruction *inst)
{
    Instruction *a = inst->operands[0];
    if (a->op != OP_SUBTRACT || !is_integer(inst))
        return NULL;
    return rw_binary(r, OP_SUBTRACT, inst->shape, a->operands[1], a->operands[0]);
}

/* f(f(x)) -> f(x): abs, floor, ceil, rounding, sign */
static Instruction *idempotent(Rewriter *r, Instruction *inst)
{
    (void)r;
    Instruction *a = inst->operands[0];
    return a->op == inst->op ? rw_as(inst, a) : NULL;
}

/* |-x| -> |x| */
static Instruction *abs_negated(Rewriter *r, Instruction *inst)
{
    Instruction *a = inst->operands[0];
    return is_negation(a) ? rw_unary(r, OP_ABS, inst->shape, a->operands[0]) : NULL;
}

/* max(x, x) -> x, min(x, x) -> x */
static Instruction *extremum_self(Rewriter *r, Instruction *inst)
{
    (void)r;
    return inst->operands[0] == inst->operands[1] ? rw_as(inst, inst->operands[0]) : NULL;
}

static bool is_least(const Literal *l)
{
    DType t = l->shape->dtype;
    if (dtype_is_float(t))
        return literal_is_all(l, -INFINITY);
    if (dtype_is_unsigned(t))
        return literal_bits(l, 0) == 0;
    return dtype_is_signed(t) &&
           literal_int(l, 0) == INT64_MIN >> (64 - dtype_info[t].bits);
}

static bool is_greatest(const Literal *l)
{
    DType t = l->shape->dtype;
    if (dtype_is_float(t))
        return literal_is_all(l, INFINITY);
    if (dtype_is_unsigned(t))
        return literal_bits(l, 0) == UINT64_MAX >> (64 - dtype_info[t].bits);
    return dtype_is_signed(t) &&
           literal_int(l, 0) == (int64_t)(UINT64_MAX >> 1 >> (64 - dtype_info[t].bits));
}

/* max(x, least) -> x, min(x, greatest) -> x; the other way round: the constant, of integers */
static Instruction *extremum_bound(Rewriter *r, Instruction *inst)
{
    (void)r;
    const Literal *l = rw_splat_of(inst->operands[1]);
    if (!l)
        return NULL;
    bool max = inst->op == OP_MAXIMUM;
    if (max ? is_least(l) : is_greatest(l))
        return rw_as(inst, inst->operands[0]);
    if (is_integer(inst) && (max ? is_greatest(l) : is_least(l)))
        return rw_as(inst, inst->operands[1]);
    return NULL;
}

/* -- conversions ------------------------------------------------------------------------- */

/* Every value of `a` is a value of `b`. */
static bool includes(DType b, DType a)
{
    const DTypeInfo *x = &dtype_info[a], *y = &dtype_info[b];
    if (a == DT_PRED) /* s1 has no 1: it has -1 and 0 */
        return (dtype_is_integer(b) && y->bits > dtype_is_signed(b)) ||
               (dtype_is_float(b) && y->special == SPECIAL_IEEE);
    if (dtype_is_integer(a) && dtype_is_integer(b)) {
        if (dtype_is_signed(a))
            return dtype_is_signed(b) && y->bits >= x->bits;
        return dtype_is_signed(b) ? y->bits > x->bits : y->bits >= x->bits;
    }
    if (dtype_is_integer(a))
        return dtype_is_float(b) && y->special == SPECIAL_IEEE && y->exponent_bits >= 8 &&
               (int)x->bits - dtype_is_signed(a) <= (int)y->mantissa_bits + 1;
    if (!dtype_is_float(a) || !dtype_is_float(b) || x->special == SPECIAL_E8M0)
        return false;
    return y->special == SPECIAL_IEEE && y->exponent_bits >= 5 &&
           y->mantissa_bits >= x->mantissa_bits &&
           (x->special == SPECIAL_IEEE ? y->exponent_bits >= x->exponent_bits
                                       : y->exponent_bits > x->exponent_bits);
}

/* convert(x) to its own type -> x */
static Instruction *convert_nothing(Rewriter *r, Instruction *inst)
{
    (void)r;
    return rw_as(inst, inst->operands[0]);
}

/* convert(convert(x, B), C) -> convert(x, C) where B holds every value of x's type; no kind
 * of conversion of NaN, infinity or out of range depends on the way. */
static Instruction *convert_pair(Rewriter *r, Instruction *inst)
{
    Instruction *inner = inst->operands[0];
    if (inner->op != OP_CONVERT)
        return NULL;
    Instruction *x = inner->operands[0];
    DType a = x->shape->dtype, b = inner->shape->dtype, c = inst->shape->dtype;
    if (!includes(b, a))
        return NULL;
    if (dtype_is_integer(a) && dtype_is_float(b) && dtype_is_integer(c) &&
        !includes(c, a))
        return NULL; /* floats saturate, integers wrap */
    if (a == c)
        return rw_as(inst, x);
    return rw_unary(r, OP_CONVERT, inst->shape, x);
}

/* bitcast-convert(x) to its own type -> x; of another: one is enough, sizes permitting */
static Instruction *bitcast_convert_pair(Rewriter *r, Instruction *inst)
{
    Instruction *inner = inst->operands[0];
    if (inner->shape == inst->shape)
        return inner;
    if (inner->op != OP_BITCAST_CONVERT || inner->shape->rank != inst->shape->rank ||
        inner->operands[0]->shape->rank != inst->shape->rank)
        return NULL;
    Instruction *x = inner->operands[0];
    if (dtype_info[x->shape->dtype].bits != dtype_info[inst->shape->dtype].bits)
        return NULL;
    if (x->shape->dtype == inst->shape->dtype)
        return rw_as(inst, x);
    return rw_unary(r, OP_BITCAST_CONVERT, inst->shape, x);
}

/* reduce-precision to the type's own precision -> x */
static Instruction *reduce_precision_nothing(Rewriter *r, Instruction *inst)
{
    (void)r;
    const DTypeInfo *t = &dtype_info[inst->shape->dtype];
    if (inst_int(inst, ATTR_EXPONENT_BITS, 0) < t->exponent_bits ||
        inst_int(inst, ATTR_MANTISSA_BITS, 0) < t->mantissa_bits)
        return NULL;
    return rw_as(inst, inst->operands[0]);
}

/* real(complex(a, b)) -> a; imag(complex(a, b)) -> b; real of a real -> itself */
static Instruction *part_of_complex(Rewriter *r, Instruction *inst)
{
    (void)r;
    Instruction *a = inst->operands[0];
    if (a->op == OP_COMPLEX)
        return rw_as(inst, a->operands[inst->op == OP_IMAG]);
    return inst->op == OP_REAL ? rw_as(inst, a) : NULL;
}

/* complex(real(z), imag(z)) -> z */
static Instruction *complex_of_parts(Rewriter *r, Instruction *inst)
{
    (void)r;
    Instruction *a = inst->operands[0], *b = inst->operands[1];
    if (a->op != OP_REAL || b->op != OP_IMAG || a->operands[0] != b->operands[0])
        return NULL;
    return rw_as(inst, a->operands[0]);
}

const Rule rules_arithmetic[] = {
    {OP_COUNT, "constant_right", constant_right},
    {OP_COUNT, "of_splats", of_splats},
    {OP_ADD, "add_zero", add_zero},
    {OP_ADD, "add_negated", add_negated},
    {OP_COUNT, "reassociate", reassociate},
    {OP_ADD, "reassociate_difference", reassociate_difference},
    {OP_SUBTRACT, "reassociate_difference", reassociate_difference},
    {OP_SUBTRACT, "subtract_zero", subtract_zero},
    {OP_SUBTRACT, "subtract_self", subtract_self},
    {OP_SUBTRACT, "subtract_negated", subtract_negated},
    {OP_MULTIPLY, "by_one", by_one},
    {OP_DIVIDE, "by_one", by_one},
    {OP_POWER, "by_one", by_one},
    {OP_MULTIPLY, "multiply_zero", multiply_zero},
    {OP_MULTIPLY, "both_negated", both_negated},
    {OP_DIVIDE, "both_negated", both_negated},
    {OP_DIVIDE, "divide_power_of_two", divide_power_of_two},
    {OP_POWER, "power_small", power_small},
    {OP_POWER, "power_half", power_half},
    {OP_NEGATE, "twice", twice},
    {OP_NOT, "twice", twice},
    {OP_NEGATE, "negate_difference", negate_difference},
    {OP_ABS, "idempotent", idempotent},
    {OP_FLOOR, "idempotent", idempotent},
    {OP_CEIL, "idempotent", idempotent},
    {OP_ROUND_NEAREST_EVEN, "idempotent", idempotent},
    {OP_ROUND_NEAREST_AFZ, "idempotent", idempotent},
    {OP_SIGN, "idempotent", idempotent},
    {OP_ABS, "abs_negated", abs_negated},
    {OP_MAXIMUM, "extremum_self", extremum_self},
    {OP_MINIMUM, "extremum_self", extremum_self},
    {OP_MAXIMUM, "extremum_bound", extremum_bound},
    {OP_MINIMUM, "extremum_bound", extremum_bound},
    {OP_CONVERT, "convert_nothing", convert_nothing},
    {OP_CONVERT, "convert_pair", convert_pair},
    {OP_BITCAST_CONVERT, "bitcast_convert_pair", bitcast_convert_pair},
    {OP_REDUCE_PRECISION, "reduce_precision_nothing", reduce_precision_nothing},
    {OP_REAL, "part_of_complex", part_of_complex},
    {OP_IMAG, "part_of_complex", part_of_complex},
    {OP_COMPLEX, "complex_of_parts", complex_of_parts},
    {0},
};
