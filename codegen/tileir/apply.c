/* Elementwise operations. Floats of fewer than 32 bits are computed in 32, as everywhere. See lower.h. */
#include <math.h>

#include "codegen/tileir/lower.h"

static bool is_float(DType t)
{
    return dtype_info[t].class == DTC_FLOAT;
}

static bool is_signed(DType t)
{
    return dtype_info[t].class == DTC_SINT;
}

/* -- conversions ---------------------------------------------------------------------------------- */

/* f32 to floats of 8 bits: the hardware's conversion saturates where HLO's overflows, to infinity or, where there is
 * none, to no number: behind the middle between the largest one and what would be next, which is even in one of the
 * types and odd in the other. */
static const TileIrTile *to_small_float(TileIrLower *l, const TileIrTile *x, DType to,
                                        TileIrScalar element)
{
    enum { GREATER = 4, GREATER_OR_EQUAL, POSITIVE = 0x7c, NEGATIVE = 0xfc, NONE = 0x7f };
    bool has_infinity = to == DT_F8E5M2;
    const char over[] = {has_infinity ? GREATER_OR_EQUAL : GREATER, 1}, below[] = {2, 1};
    const TileIrTile *a = tileir_unary(l, TILEIR_ABSF, x), *zero = tileir_number(l, 0, x),
                     *y = tileir_make(l, TILEIR_FTOF, element, NULL, 1, &x);
    const TileIrTile *limits[] = {a, tileir_number(l, has_infinity ? 61440 : 464, x)},
                     *signs[] = {x, zero};
    const TileIrTile *plus = tileir_bits(l, element, has_infinity ? POSITIVE : NONE,
                                         x->rank, x->sizes),
                     *minus = tileir_bits(l, element, NEGATIVE, x->rank, x->sizes);
    const TileIrTile *by_sign[] = {
        tileir_make(l, TILEIR_CMPF, TILEIR_I1, below, 2, signs), minus, plus};
    const TileIrTile *in[] = {
        tileir_make(l, TILEIR_CMPF, TILEIR_I1, over, 2, limits),
        has_infinity ? tileir_make(l, TILEIR_SELECT, element, NULL, 3, by_sign) : plus,
        y};
    return tileir_make(l, TILEIR_SELECT, element, NULL, 3, in);
}

static const TileIrTile *float_to_float(TileIrLower *l, const TileIrTile *x, DType to,
                                        TileIrScalar element)
{
    if (dtype_info[to].bits >= 16)
        return tileir_make(l, TILEIR_FTOF, element, NULL, 1, &x);
    if (x->element != TILEIR_F32) /* two roundings */
        return tileir_lacks(l, "a conversion of f64 to floats of 8 bits");
    return to_small_float(l, x, to, element);
}

/* Towards zero; what does not fit is the nearest that does, what is no number 0. */
static const TileIrTile *float_to_integer(TileIrLower *l, const TileIrTile *x, DType to)
{
    enum { GREATER_OR_EQUAL = 5, NOT_EQUAL = 1, TO_ZERO = 6 };
    bool has_sign = is_signed(to);
    uint32_t bits = dtype_info[to].bits, wide = bits < 32 ? 32 : bits;
    uint64_t all = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1,
             most = has_sign ? all >> 1 : all;
    TileIrScalar element = wide == 64 ? TILEIR_I64 : TILEIR_I32, narrow;
    double above = (has_sign ? 0.5 : 1) * 0x1p32 * (bits == 64 ? 0x1p32 : 1);
    if (bits < 32)
        above = (double)(most + 1);
    const TileIrTile *low[] = {x, tileir_number(l, has_sign ? -above : 0, x)},
                     *high[] = {x, tileir_number(l, above, x)}, *same[] = {x, x};
    static const char over[] = {GREATER_OR_EQUAL, 1}, unordered[] = {NOT_EQUAL, 0};
    const char towards[] = {has_sign, TO_ZERO};
    const TileIrTile *in = tileir_make(l, TILEIR_MAXF, x->element, NULL, 2, low),
                     *y = tileir_make(l, TILEIR_FTOI, element, towards, 1, &in);
    const TileIrTile *ends[] = {tileir_make(l, TILEIR_CMPF, TILEIR_I1, over, 2, high),
                                tileir_bits(l, element, most, x->rank, x->sizes), y};
    y = tileir_make(l, TILEIR_SELECT, element, NULL, 3, ends);
    const TileIrTile *none[] = {
        tileir_make(l, TILEIR_CMPF, TILEIR_I1, unordered, 2, same),
        tileir_bits(l, element, 0, x->rank, x->sizes), y};
    y = tileir_make(l, TILEIR_SELECT, element, NULL, 3, none);
    if (!tileir_type_of(to, false, &narrow))
        return tileir_lacks(l, "Tile IR has no such type");
    return y == NULL ? NULL : tileir_resize(l, y, narrow, has_sign);
}

/* A power of two, by its exponent's bits, which are those of f32; Tile IR does not have the type before Blackwell. */
static const TileIrTile *from_exponent(TileIrLower *l, const TileIrTile *x)
{
    enum { LEAST = 0x400000, NONE = 0x7fc00000, HIGHEST = 255, FRACTION = 23 };
    static const char equal[] = {0, 1};
    x = tileir_resize(l, x, TILEIR_I32, false);
    if (x == NULL)
        return NULL;
    const TileIrTile *y = tileir_binary(l, TILEIR_SHLI, x, tileir_number(l, FRACTION, x));
    const int values[] = {0, HIGHEST};
    const uint64_t bits[] = {LEAST, NONE};
    for (int i = 0; i < 2; i++) {
        const TileIrTile *same[] = {x, tileir_number(l, values[i], x)};
        const TileIrTile *in[] = {tileir_make(l, TILEIR_CMPI, TILEIR_I1, equal, 2, same),
                                  tileir_bits(l, TILEIR_I32, bits[i], x->rank, x->sizes),
                                  y};
        y = tileir_make(l, TILEIR_SELECT, TILEIR_I32, NULL, 3, in);
    }
    return tileir_make(l, TILEIR_BITCAST, TILEIR_F32, NULL, 1, &y);
}

static const TileIrTile *to_predicate(TileIrLower *l, const TileIrTile *x, DType from)
{
    const TileIrTile *in[] = {x, tileir_number(l, 0, x)};
    return is_float(from) ? tileir_make(l, TILEIR_CMPF, TILEIR_I1, "\1\0", 2, in)
                          : tileir_make(l, TILEIR_CMPI, TILEIR_I1, "\1\1", 2, in);
}

const TileIrTile *tileir_convert(TileIrLower *l, const TileIrTile *x, DType from,
                                 DType to)
{
    TileIrScalar element;
    if (x == NULL || from == to)
        return x;
    if (!tileir_type_of(to, false, &element))
        return tileir_lacks(l, "Tile IR has no such type");
    if (to == DT_F8E8M0FNU)
        return tileir_lacks(l, "a conversion to powers of two");
    if (from == DT_F8E8M0FNU)
        return tileir_convert(l, from_exponent(l, x), DT_F32, to);
    if (is_float(from) && dtype_info[from].bits < 32 && to != DT_F32)
        return tileir_convert(l, tileir_convert(l, x, from, DT_F32), DT_F32, to);
    if (to == DT_PRED)
        return to_predicate(l, x, from);
    if (is_float(from) && is_float(to))
        return float_to_float(l, x, to, element);
    if (is_float(from))
        return float_to_integer(l, x, to);
    if (!is_float(to))
        return tileir_resize(l, x, element, is_signed(from));
    /* what is above f32's 24 bits is beyond the range of f16 and f8; bf16's it is within, and would be rounded twice */
    bool is_close = to != DT_BF16 || dtype_info[from].bits <= 16;
    if (dtype_info[to].bits < 32 && is_close)
        return tileir_convert(l, tileir_convert(l, x, from, DT_F32), DT_F32, to);
    return tileir_make(l, TILEIR_ITOF, element, is_signed(from) ? "\1\0" : "\0\0", 1, &x);
}

/* -- operations ----------------------------------------------------------------------------------- */

/* By opcode, for floats and for integers: the operation of one or two operands, plus one; 0: none. The sign of
 * integers is one of its attributes. */
static const struct {
    uint8_t real, integer;
    bool has_sign;
} simple[OP_COUNT] = {
    [OP_ADD] = {TILEIR_ADDF + 1, TILEIR_ADDI + 1, false},
    [OP_SUBTRACT] = {TILEIR_SUBF + 1, TILEIR_SUBI + 1, false},
    [OP_MULTIPLY] = {TILEIR_MULF + 1, TILEIR_MULI + 1, false},
    [OP_DIVIDE] = {TILEIR_DIVF + 1, 0, false},
    [OP_MAXIMUM] = {TILEIR_MAXF + 1, TILEIR_MAXI + 1, true},
    [OP_MINIMUM] = {TILEIR_MINF + 1, TILEIR_MINI + 1, true},
    [OP_REMAINDER] = {TILEIR_REMF + 1, 0, false},
    [OP_AND] = {0, TILEIR_ANDI + 1, false},
    [OP_OR] = {0, TILEIR_ORI + 1, false},
    [OP_XOR] = {0, TILEIR_XORI + 1, false},
    [OP_ABS] = {TILEIR_ABSF + 1, 0, false},
    [OP_NEGATE] = {TILEIR_NEGF + 1, 0, false},
    [OP_EXPONENTIAL] = {TILEIR_EXP + 1, 0, false},
    [OP_LOG] = {TILEIR_LOG + 1, 0, false},
    [OP_SQRT] = {TILEIR_SQRT + 1, 0, false},
    [OP_RSQRT] = {TILEIR_RSQRT + 1, 0, false},
    [OP_TANH] = {TILEIR_TANH + 1, 0, false},
    [OP_SINE] = {TILEIR_SIN + 1, 0, false},
    [OP_COSINE] = {TILEIR_COS + 1, 0, false},
    [OP_FLOOR] = {TILEIR_FLOOR + 1, 0, false},
    [OP_CEIL] = {TILEIR_CEIL + 1, 0, false},
};

static const TileIrTile *make_simple(TileIrLower *l, OpCode op, DType t, uint32_t count,
                                     const TileIrTile *const *in)
{
    bool real = is_float(t);
    uint32_t known = real ? simple[op].real : simple[op].integer;
    bool is_logic = op == OP_AND || op == OP_OR || op == OP_XOR;
    if (known == 0 || in[0] == NULL || (t == DT_PRED && !is_logic))
        return tileir_lacks(l, "an operation that Tile IR lacks");
    const char *attributes = NULL;
    if (real && (op == OP_MAXIMUM || op == OP_MINIMUM))
        attributes = "\1"; /* no number if one is none */
    if (!real && simple[op].has_sign)
        attributes = is_signed(t) ? "\1" : "\0";
    return tileir_make(l, (TileIrOpcode)(known - 1), in[0]->element, attributes, count,
                       in);
}

/* Floats as they are computed. */
static DType wide_type(DType t)
{
    return is_float(t) && dtype_info[t].bits < 32 ? DT_F32 : t;
}

static const TileIrTile *compare(TileIrLower *l, const TileOp *op, DType t,
                                 const TileIrTile *const *in)
{
    static const char predicates[] = {
        [DIRECTION_EQ] = 0, [DIRECTION_NE] = 1, [DIRECTION_LT] = 2,
        [DIRECTION_LE] = 3, [DIRECTION_GT] = 4, [DIRECTION_GE] = 5,
    };
    int64_t direction = inst_int(op->inst, ATTR_DIRECTION, DIRECTION_EQ);
    if (inst_int(op->inst, ATTR_TYPE, COMPARE_FLOAT) == COMPARE_TOTALORDER && is_float(t))
        return tileir_lacks(l, "a total order of floats");
    bool real = is_float(t);
    const char attributes[] = {predicates[direction],
                               real ? direction != DIRECTION_NE : is_signed(t)};
    return tileir_make(l, real ? TILEIR_CMPF : TILEIR_CMPI, TILEIR_I1, attributes, 2, in);
}

/* 2^x, which is an instruction, or any other power. */
static const TileIrTile *power(TileIrLower *l, const TileOp *op,
                               const TileIrTile *const *in)
{
    static const char flushes[] = "\1"; /* what is below the least normal number is 0 */
    if (!tile_is_exp2(op))
        return tileir_binary(l, TILEIR_POW, in[0], in[1]);
    return in[1] == NULL
               ? NULL
               : tileir_make(l, TILEIR_EXP2, in[1]->element, flushes, 1, &in[1]);
}

static const TileIrTile *compute(TileIrLower *l, const TileOp *op, DType t,
                                 const TileIrTile *const *in)
{
    const TileIrTile *x = in[0];
    OpCode code = op->inst->op;
    if (x == NULL)
        return NULL;
    if (is_float(t) && tileir_function(l, code, x, &x))
        return x;
    switch (code) {
    case OP_POWER:
        return is_float(t) ? power(l, op, in) : tileir_lacks(l, "powers of integers");
    case OP_NEGATE:
        if (!is_float(t))
            return tileir_binary(l, TILEIR_SUBI, tileir_number(l, 0, x), x);
        break;
    case OP_NOT:
        return tileir_binary(
            l, TILEIR_XORI, x,
            tileir_bits(l, x->element, t == DT_PRED ? 1 : UINT64_MAX, x->rank, x->sizes));
    case OP_CLAMP:
        x = make_simple(l, OP_MAXIMUM, t, 2, (const TileIrTile *[]){in[0], in[1]});
        return make_simple(l, OP_MINIMUM, t, 2, (const TileIrTile *[]){x, in[2]});
    default:
        break;
    }
    return make_simple(l, code, t, op->operand_count, in);
}

/* A sum or difference of f32 with a product: rounded once. */
static const TileIrTile *multiply_add(TileIrLower *l, const TileOp *op, uint32_t fused,
                                      const TileOrder *order)
{
    const TileOp *product = op->operands[fused];
    const TileIrTile *in[] = {tileir_value(l, product->operands[0], order),
                              tileir_value(l, product->operands[1], order),
                              tileir_value(l, op->operands[!fused], order)};
    if (op->inst->op == OP_SUBTRACT) /* what is taken away */
        in[fused == 0 ? 2 : 0] = tileir_unary(l, TILEIR_NEGF, in[fused == 0 ? 2 : 0]);
    return tileir_make(l, TILEIR_FMA, TILEIR_F32, NULL, 3, in);
}

const TileIrTile *tileir_apply(TileIrLower *l, const TileOp *op, const TileOrder *order)
{
    enum { MOST_OPERANDS = 3 };
    const TileIrTile *in[MOST_OPERANDS] = {0};
    OpCode code = op->inst->op;
    uint32_t first = code == OP_SELECT ? 1 : 0;
    if (op->operand_count > MOST_OPERANDS)
        return tileir_lacks(l, "an operation that Tile IR lacks");
    const TileOp *choice = l->is_inside ? tile_known_choice(op) : NULL;
    if (choice != NULL)
        return tileir_value(l, choice, order);
    uint32_t fused = tile_fused_operand(op);
    if (fused < 2)
        return multiply_add(l, op, fused, order);
    for (uint32_t i = 0; i < op->operand_count; i++)
        in[i] = tileir_value(l, op->operands[i], order);
    DType t = op->operands[first]->dtype, wide = wide_type(t);
    if (code == OP_CONVERT)
        return tileir_convert(l, in[0], t, op->dtype);
    if (code == OP_SELECT)
        return tileir_make(l, TILEIR_SELECT, in[1] == NULL ? 0 : in[1]->element, NULL, 3,
                           in);
    for (uint32_t i = 0; i < op->operand_count; i++)
        in[i] = tileir_convert(l, in[i], op->operands[i]->dtype, wide);
    if (code == OP_COMPARE)
        return compare(l, op, wide, in);
    if (dtype_is_complex(t) || dtype_is_complex(op->dtype))
        return tileir_lacks(l, "complex numbers");
    if (code == OP_IS_FINITE)
        return tileir_is_finite(l, in[0]);
    return tileir_convert(l, compute(l, op, wide, in), wide, op->dtype);
}
