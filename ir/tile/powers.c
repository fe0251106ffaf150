/* e^x as 2^(x log2 e), which is one instruction. The factor goes into what x is made of where that is a score:
 *
 *   e^(s c - r)                        ->  2^(s (c log2 e) - r log2 e)
 *   e^((masked ? number : s c) - r)    ->  2^(masked ? (number - r) log2 e : s (c log2 e) - r log2 e)
 *
 * so that a score takes one multiplication and subtraction, and rows take theirs once. Where few weights of many are
 * rounded to 16 bits behind it, the last bits of f32 do not matter. They do where x is a small difference of large
 * numbers: of a row whose scores are all masked, by a number as large as -1e30 or near the largest one, that number is
 * the greatest score, r, too, and x is 0. So numbers that mask, by a choice or as a term, are subtracted as they are. */
#include "ir/tile/value.h"

#include <math.h>

enum { MOST_STEPS = 8 };

static TileOp *past_broadcasts(TileOp *op)
{
    while (op->kind == TILE_BROADCAST)
        op = op->operands[0];
    return op;
}

static bool is_constant(TileOp *op)
{
    return past_broadcasts(op)->kind == TILE_CONSTANT;
}

static TileOp *times(TileBuilder *b, TileOp *x, double by)
{
    return tile_apply(b, OP_MULTIPLY, DT_F32, 2,
                      (TileOp *[]){x, tile_number(b, DT_F32, by)});
}

static TileOp *less(TileBuilder *b, TileOp *x, TileOp *y)
{
    return tile_apply(b, OP_SUBTRACT, DT_F32, 2, (TileOp *[]){x, y});
}

/* What x is times a constant by which numbers neither overflow nor vanish; NULL: x is no such product. */
static TileOp *unscaled(TileOp *x, double *by)
{
    static const double most = 1e30;
    if (x->kind != TILE_APPLY || (x->inst->op != OP_MULTIPLY && x->inst->op != OP_DIVIDE))
        return NULL;
    for (uint32_t i = x->inst->op == OP_DIVIDE ? 1 : 0; i < 2; i++) {
        TileOp *c = past_broadcasts(x->operands[i]);
        double value = c->kind == TILE_CONSTANT ? literal_double(c->literal, 0) : 0;
        if (!(fabs(value) <= most && fabs(value) >= 1 / most))
            continue;
        *by = x->inst->op == OP_DIVIDE ? 1 / value : value;
        return x->operands[!i];
    }
    return NULL;
}

/* A dot, rounded or times constants. */
static bool is_score(TileOp *x)
{
    double by;
    for (uint32_t i = 0; i < MOST_STEPS && x->kind != TILE_DOT; i++) {
        bool is_same = x->kind == TILE_BROADCAST ||
                       (x->kind == TILE_APPLY && x->inst->op == OP_CONVERT);
        x = is_same ? x->operands[0] : unscaled(x, &by);
        if (x == NULL)
            return false;
    }
    return x->kind == TILE_DOT;
}

static TileOp *scaled_score(TileBuilder *b, TileOp *x)
{
    double by = 1;
    TileOp *of = unscaled(x, &by);
    return times(b, of != NULL ? of : x, by * TILE_LOG2_E);
}

/* For each tile of the loop: scaled, it would take registers beside itself. */
static bool is_loaded(TileOp *op)
{
    op = past_broadcasts(op);
    return op->kind == TILE_LOAD && op->depth != 0;
}

/* Between a number and something else. */
static bool is_masked(const TileOp *x)
{
    return x->kind == TILE_APPLY && x->inst->op == OP_SELECT &&
           (is_constant(x->operands[1]) || is_constant(x->operands[2]));
}

/* (x - r) log2 e */
static TileOp *difference(TileBuilder *b, TileOp *x, TileOp *r, uint32_t steps)
{
    if (is_constant(x)) /* once for a row */
        return times(b, less(b, past_broadcasts(x), past_broadcasts(r)), TILE_LOG2_E);
    if (is_masked(x) && steps > 0)
        return tile_apply(b, OP_SELECT, DT_F32, 3,
                          (TileOp *[]){x->operands[0],
                                       difference(b, x->operands[1], r, steps - 1),
                                       difference(b, x->operands[2], r, steps - 1)});
    return is_score(x) && !is_loaded(r)
               ? less(b, scaled_score(b, x), times(b, past_broadcasts(r), TILE_LOG2_E))
               : times(b, less(b, x, r), TILE_LOG2_E);
}

/* x log2 e */
static TileOp *exponent(TileBuilder *b, TileOp *x, uint32_t steps)
{
    if (x->kind == TILE_APPLY && x->inst->op == OP_SUBTRACT)
        return difference(b, x->operands[0], x->operands[1], steps);
    if (is_masked(x) && steps > 0)
        return tile_apply(b, OP_SELECT, DT_F32, 3,
                          (TileOp *[]){x->operands[0],
                                       exponent(b, x->operands[1], steps - 1),
                                       exponent(b, x->operands[2], steps - 1)});
    return is_score(x) ? scaled_score(b, x) : times(b, past_broadcasts(x), TILE_LOG2_E);
}

TileOp *tile_exp2(TileBuilder *b, TileOp *x)
{
    return tile_apply(b, OP_POWER, DT_F32, 2, (TileOp *[]){tile_number(b, DT_F32, 2), x});
}

TileOp *tile_exponential(TileBuilder *b, TileOp *x)
{
    return tile_exp2(b, tile_broadcast(b, exponent(b, x, MOST_STEPS), x->dims));
}
