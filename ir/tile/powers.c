/* e^x as 2^(x log2 e), which is one instruction. The factor goes into what x is made of, as far as that is known:
 *
 *   e^(s c - r)  ->  2^(s (c log2 e) - r log2 e)
 *
 * so that a score takes one multiplication and subtraction, and rows take theirs once. Where few weights of many are
 * rounded to 16 bits behind it, the last bits of f32 do not matter. */
#include "ir/tile/value.h"

static const double log2_e = 1.4426950408889634;

enum { MOST_STEPS = 8 };

static const TileOp *past_broadcasts(const TileOp *op)
{
    while (op->kind == TILE_BROADCAST)
        op = op->operands[0];
    return op;
}

static TileOp *times(TileBuilder *b, TileOp *x, double by)
{
    return by == 1 ? x
                   : tile_apply(b, OP_MULTIPLY, DT_F32, 2,
                                (TileOp *[]){x, tile_number(b, DT_F32, by)});
}

static TileOp *scaled(TileBuilder *b, TileOp *x, double by, uint32_t steps);

/* The operand of a product that is a constant: 0 or 1; 2: none, or it is 0. */
static uint32_t constant_factor(const TileOp *x, double *value)
{
    for (uint32_t i = 0; x->kind == TILE_APPLY && x->inst->op == OP_MULTIPLY && i < 2;
         i++) {
        const TileOp *c = past_broadcasts(x->operands[i]);
        *value = c->kind == TILE_CONSTANT ? literal_double(c->literal, 0) : 0;
        if (*value != 0)
            return i;
    }
    return 2;
}

/* A choice between s c and a number, as of masked scores: (s or the number over c) times c, so that the product stands
 * beside what is taken away. NULL: it is none. */
static TileOp *scaled_choice(TileBuilder *b, TileOp *x, double by)
{
    for (uint32_t i = 1; i < 3; i++) {
        const TileOp *fill = past_broadcasts(x->operands[i]);
        TileOp *product = x->operands[3 - i], *in[] = {x->operands[0], NULL, NULL};
        double c;
        uint32_t factor = constant_factor(product, &c);
        if (fill->kind != TILE_CONSTANT || factor == 2)
            continue;
        in[i] = tile_number(b, DT_F32, literal_double(fill->literal, 0) / c);
        in[3 - i] = product->operands[!factor];
        return times(b, tile_apply(b, OP_SELECT, DT_F32, 3, in), c * by);
    }
    return NULL;
}

/* For each tile of the loop: scaled, it would take registers beside itself. */
static bool is_loaded(const TileOp *op)
{
    op = past_broadcasts(op);
    return op->kind == TILE_LOAD && op->depth != 0;
}

static TileOp *scaled_sum(TileBuilder *b, TileOp *x, double by, uint32_t steps)
{
    double each = is_loaded(x->operands[1]) ? 1 : by;
    TileOp *in[] = {scaled(b, x->operands[0], each, steps),
                    scaled(b, x->operands[1], each, steps)};
    return times(b, tile_apply(b, (OpCode)x->inst->op, DT_F32, 2, in),
                 each == 1 ? by : 1);
}

static TileOp *scaled_apply(TileBuilder *b, TileOp *x, double by, uint32_t steps)
{
    double c;
    uint32_t factor = constant_factor(x, &c);
    TileOp *choice;
    switch (x->inst->op) {
    case OP_DIVIDE:
        if (past_broadcasts(x->operands[1])->kind != TILE_CONSTANT)
            return NULL;
        c = literal_double(past_broadcasts(x->operands[1])->literal, 0);
        return times(b, x->operands[0], by / c);
    case OP_MULTIPLY:
        return factor == 2 ? NULL : times(b, x->operands[!factor], c * by);
    case OP_ADD:
    case OP_SUBTRACT:
        return scaled_sum(b, x, by, steps);
    case OP_SELECT:
        choice = scaled_choice(b, x, by);
        if (choice != NULL)
            return choice;
        return tile_apply(b, OP_SELECT, DT_F32, 3,
                          (TileOp *[]){x->operands[0],
                                       scaled(b, x->operands[1], by, steps),
                                       scaled(b, x->operands[2], by, steps)});
    default:
        return NULL;
    }
}

/* x times a number */
static TileOp *scaled(TileBuilder *b, TileOp *x, double by, uint32_t steps)
{
    TileOp *y = NULL;
    if (x->kind == TILE_CONSTANT)
        y = tile_number(b, DT_F32, literal_double(x->literal, 0) * by);
    else if (x->kind == TILE_BROADCAST)
        y = tile_broadcast(b, scaled(b, x->operands[0], by, steps), x->dims);
    else if (x->kind == TILE_APPLY && steps > 0)
        y = scaled_apply(b, x, by, steps - 1);
    return y != NULL ? y : times(b, x, by);
}

TileOp *tile_exponential(TileBuilder *b, TileOp *x)
{
    TileOp *power = scaled(b, x, log2_e, MOST_STEPS);
    return tile_apply(b, OP_POWER, DT_F32, 2,
                      (TileOp *[]){tile_number(b, DT_F32, 2), power});
}
