/* Functions that Tile IR has no operation for, of what it has. See lower.h.
 *
 * exp(x)-1 and log(1+x): Higham 2002, "Accuracy and Stability of Numerical Algorithms", 1.14.1: the error that
 * rounding 1+x or e^x makes is made once more and divides out. */
#include <math.h>

#include "codegen/tileir/lower.h"

enum { LESS = 2, LESS_OR_EQUAL, GREATER, GREATER_OR_EQUAL };

static const TileIrTile *of(TileIrLower *l, TileIrOpcode op, const TileIrTile *x,
                            const TileIrTile *y)
{
    return y == NULL ? NULL : tileir_binary(l, op, x, y);
}

static const TileIrTile *add(TileIrLower *l, const TileIrTile *x, double value)
{
    return of(l, TILEIR_ADDF, x, tileir_number(l, value, x));
}

static const TileIrTile *compared(TileIrLower *l, char predicate, const TileIrTile *x,
                                  double value)
{
    const char attributes[] = {predicate, 1};
    const TileIrTile *in[] = {x, tileir_number(l, value, x)};
    return tileir_make(l, TILEIR_CMPF, TILEIR_I1, attributes, 2, in);
}

static const TileIrTile *chosen(TileIrLower *l, const TileIrTile *is, const TileIrTile *x,
                                const TileIrTile *y)
{
    const TileIrTile *in[] = {is, x, y};
    return x == NULL ? NULL : tileir_make(l, TILEIR_SELECT, x->element, NULL, 3, in);
}

static const TileIrTile *magnitude(TileIrLower *l, const TileIrTile *x)
{
    return tileir_unary(l, TILEIR_ABSF, x);
}

/* y with the sign of x where x is not 0. */
static const TileIrTile *signed_as(TileIrLower *l, const TileIrTile *y,
                                   const TileIrTile *x)
{
    return chosen(l, compared(l, LESS, x, 0), tileir_unary(l, TILEIR_NEGF, y), y);
}

/* No numbers and zeros stay. */
static const TileIrTile *sign(TileIrLower *l, const TileIrTile *x)
{
    const TileIrTile *below =
        chosen(l, compared(l, LESS, x, 0), tileir_number(l, -1, x), x);
    return chosen(l, compared(l, GREATER, x, 0), tileir_number(l, 1, x), below);
}

/* What has no bits behind the point stays; zeros keep their sign. */
static const TileIrTile *keep_whole(TileIrLower *l, const TileIrTile *x,
                                    const TileIrTile *rounded)
{
    double whole = x->element == TILEIR_F64 ? 0x1p52 : 0x1p23;
    const TileIrTile *small =
        chosen(l, compared(l, LESS, magnitude(l, x), whole), signed_as(l, rounded, x), x);
    return chosen(l, compared(l, 0, x, 0), x, small);
}

static const TileIrTile *round_even(TileIrLower *l, const TileIrTile *x)
{
    double whole = x->element == TILEIR_F64 ? 0x1p52 : 0x1p23;
    return keep_whole(l, x, add(l, add(l, magnitude(l, x), whole), -whole));
}

static const TileIrTile *round_away(TileIrLower *l, const TileIrTile *x)
{
    const TileIrTile *a = magnitude(l, x), *down = tileir_unary(l, TILEIR_FLOOR, a),
                     *fraction = of(l, TILEIR_SUBF, a, down);
    return keep_whole(
        l, x,
        chosen(l, compared(l, GREATER_OR_EQUAL, fraction, 0.5), add(l, down, 1), down));
}

static const TileIrTile *exponential_less_one(TileIrLower *l, const TileIrTile *x)
{
    const TileIrTile *e = tileir_unary(l, TILEIR_EXP, x), *less = add(l, e, -1),
                     *y = of(l, TILEIR_DIVF, of(l, TILEIR_MULF, less, x),
                             tileir_unary(l, TILEIR_LOG, e));
    y = chosen(l, compared(l, 0, e, 1), x, y);
    y = chosen(l, compared(l, 0, less, -1), less, y);
    return chosen(l, compared(l, 0, e, INFINITY), e, y);
}

static const TileIrTile *log_of_one_more(TileIrLower *l, const TileIrTile *x)
{
    const TileIrTile *u = add(l, x, 1), *log = tileir_unary(l, TILEIR_LOG, u),
                     *y = of(l, TILEIR_DIVF, of(l, TILEIR_MULF, log, x), add(l, u, -1));
    y = chosen(l, compared(l, 0, u, 1), x, y);
    return chosen(l, compared(l, 0, u, INFINITY), u, y);
}

/* 2^(log2(x) / 3), and a step of Newton's. */
static const TileIrTile *cube_root(TileIrLower *l, const TileIrTile *x)
{
    const TileIrTile *a = magnitude(l, x), *log = tileir_unary(l, TILEIR_LOG, a);
    log = of(l, TILEIR_MULF, log, tileir_number(l, TILE_LOG2_E / 3, log));
    const TileIrTile *y = tileir_unary(l, TILEIR_EXP2, log),
                     *square = of(l, TILEIR_MULF, y, y),
                     *more = of(l, TILEIR_SUBF, of(l, TILEIR_MULF, square, y), a);
    more =
        of(l, TILEIR_DIVF, more, of(l, TILEIR_MULF, square, tileir_number(l, 3, square)));
    y = signed_as(l, of(l, TILEIR_SUBF, y, more), x);
    y = chosen(l, compared(l, 0, a, INFINITY), x, y);
    return chosen(l, compared(l, 0, a, 0), x, y);
}

static const TileIrTile *polynomial(TileIrLower *l, const TileIrTile *x,
                                    const double *factors, uint32_t count)
{
    const TileIrTile *y = tileir_number(l, factors[0], x);
    for (uint32_t i = 1; i < count; i++)
        y = add(l, of(l, TILEIR_MULF, y, x), factors[i]);
    return y;
}

/* x P(x^2) / Q(x^2) up to where it is 1 in f32 (Eigen's generic_fast_erf_float); 3e-7 of it at most away. */
static const TileIrTile *error_function(TileIrLower *l, const TileIrTile *x)
{
    static const double p[] = {0.00022905065861350646, 0.0034082910107109506,
                               0.050955695062380861, 0.18520832239976145,
                               1.128379143519084};
    static const double q[] = {-1.1791602954361697e-7,
                               0.000023547966471313185,
                               0.0010179625278914885,
                               0.014070470171167667,
                               0.11098505178285362,
                               0.49746925110067538,
                               1.0};
    static const double most = 3.832506856900711;
    static const char keeps_none[] = "\1"; /* no number if one is none */
    if (x->element != TILEIR_F32)
        return tileir_lacks(l, "an operation that Tile IR lacks");
    const TileIrTile *low[] = {x, tileir_number(l, -most, x)};
    x = tileir_make(l, TILEIR_MAXF, x->element, keeps_none, 2, low);
    const TileIrTile *high[] = {x, tileir_number(l, most, x)};
    x = tileir_make(l, TILEIR_MINF, x->element, keeps_none, 2, high);
    const TileIrTile *square = of(l, TILEIR_MULF, x, x),
                     *top = of(l, TILEIR_MULF, x,
                               polynomial(l, square, p, sizeof p / sizeof *p));
    return of(l, TILEIR_DIVF, top, polynomial(l, square, q, sizeof q / sizeof *q));
}

/* (1 or, below 0, e^-|x|) / (1 + e^-|x|): e^-x would be infinite where the result is denormal. */
static const TileIrTile *logistic(TileIrLower *l, const TileIrTile *x)
{
    const TileIrTile *e =
        tileir_unary(l, TILEIR_EXP, tileir_unary(l, TILEIR_NEGF, magnitude(l, x)));
    const TileIrTile *above =
        chosen(l, compared(l, LESS, x, 0), e, tileir_number(l, 1, x));
    return of(l, TILEIR_DIVF, above, add(l, e, 1));
}

static const TileIrTile *tangent(TileIrLower *l, const TileIrTile *x)
{
    return of(l, TILEIR_DIVF, tileir_unary(l, TILEIR_SIN, x),
              tileir_unary(l, TILEIR_COS, x));
}

typedef const TileIrTile *Function(TileIrLower *l, const TileIrTile *x);

bool tileir_function(TileIrLower *l, OpCode op, const TileIrTile *x,
                     const TileIrTile **out)
{
    static Function *const functions[OP_COUNT] = {
        [OP_CBRT] = cube_root,
        [OP_ERF] = error_function,
        [OP_EXPONENTIAL_MINUS_ONE] = exponential_less_one,
        [OP_LOG_PLUS_ONE] = log_of_one_more,
        [OP_LOGISTIC] = logistic,
        [OP_ROUND_NEAREST_AFZ] = round_away,
        [OP_ROUND_NEAREST_EVEN] = round_even,
        [OP_SIGN] = sign,
        [OP_TAN] = tangent,
    };
    if (functions[op] == NULL)
        return false;
    *out = functions[op](l, x);
    return true;
}

const TileIrTile *tileir_is_finite(TileIrLower *l, const TileIrTile *x)
{
    return compared(l, LESS, magnitude(l, x), INFINITY);
}
