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

static const TileIrTile *float_to_float(TileIrLower *l, const TileIrTile *x, DType to,
                                        TileIrScalar element)
{
    bool is_narrow = dtype_info[to].bits < 16;
    if (is_narrow) /* the hardware's conversion saturates */
        return tileir_lacks(l, "a conversion to floats of 8 bits");
    return tileir_make(l, TILEIR_FTOF, element, NULL, 1, &x);
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
    if (is_float(from) && dtype_info[from].bits < 32 && to != DT_F32)
        return tileir_convert(l, tileir_convert(l, x, from, DT_F32), DT_F32, to);
    if (to == DT_PRED)
        return to_predicate(l, x, from);
    if (is_float(from) && is_float(to))
        return float_to_float(l, x, to, element);
    if (is_float(from)) /* what does not fit is the nearest that does */
        return tileir_lacks(l, "a conversion of floats to integers");
    if (!is_float(to))
        return tileir_resize(l, x, element, is_signed(from));
    if (dtype_info[to].bits < 32)
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

/* 1 / (1 + e^-x) */
static const TileIrTile *logistic(TileIrLower *l, const TileIrTile *x)
{
    const TileIrTile *one = tileir_number(l, 1, x),
                     *e = tileir_unary(l, TILEIR_EXP, tileir_unary(l, TILEIR_NEGF, x));
    return tileir_binary(l, TILEIR_DIVF, one, tileir_binary(l, TILEIR_ADDF, one, e));
}

/* 2^x, which is an instruction, or any other power. */
static const TileIrTile *power(TileIrLower *l, const TileOp *op,
                               const TileIrTile *const *in)
{
    return tile_is_exp2(op) ? tileir_unary(l, TILEIR_EXP2, in[1])
                            : tileir_binary(l, TILEIR_POW, in[0], in[1]);
}

static const TileIrTile *compute(TileIrLower *l, const TileOp *op, DType t,
                                 const TileIrTile *const *in)
{
    const TileIrTile *x = in[0];
    OpCode code = op->inst->op;
    if (x == NULL)
        return NULL;
    switch (code) {
    case OP_LOGISTIC:
        return logistic(l, x);
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

const TileIrTile *tileir_apply(TileIrLower *l, const TileOp *op, const TileOrder *order)
{
    enum { MOST_OPERANDS = 3 };
    const TileIrTile *in[MOST_OPERANDS] = {0};
    OpCode code = op->inst->op;
    uint32_t first = code == OP_SELECT ? 1 : 0;
    if (op->operand_count > MOST_OPERANDS)
        return tileir_lacks(l, "an operation that Tile IR lacks");
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
    return tileir_convert(l, compute(l, op, wide, in), wide, op->dtype);
}
