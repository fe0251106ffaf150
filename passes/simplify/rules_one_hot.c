/* Rules of one-hot factors: 1 where a number stands that counts along rows, else 0.
 *
 *   sum(one_hot(l) * (x - m - s))  ->  (l is a column ? t - m - s : t) + 0 m + 0 s, t = sum(one_hot(l) * x)
 *
 * for numbers m and s of each row: the cross-entropy of a softmax then has no sum that has to wait for m and s, so that
 * its row is read once. The element that is picked is rounded as before. What is not finite elsewhere in a row makes
 * NaN by the factor 0, as before; only differences of finite numbers that are infinite do not any more.
 *
 * Measure: operations between the product and x. */
#include "ir/kernel/sort.h"
#include "passes/simplify/rewrite.h"

#define ROW_STEPS 8 /* sums and differences with numbers of a row; more are left */

typedef struct OneHotSum {
    Instruction *sum, *is_picked; /* the comparison that is the factor */
    Instruction *labels;          /* of rows: which column is picked */
    DType product;                /* type that is multiplied in */
    Instruction *x;
    Instruction *step
        [ROW_STEPS]; /* from the product to x: each a sum, a difference or a conversion */
    uint32_t count, numbers; /* of them with a number of a row */
    uint32_t dim;
} OneHotSum;

/* To a type that has all values of the other. */
static bool is_widening(const Instruction *x)
{
    if (x->op != OP_CONVERT)
        return false;
    DType from = x->operands[0]->shape->dtype, to = x->shape->dtype;
    return (from == DT_BF16 || from == DT_F32) && (to == DT_F32 || to == DT_F64) &&
           dtype_info[from].bits < dtype_info[to].bits;
}

/* What is repeated along `dim`, of so many dimensions less that one; NULL: it is something else. */
static Instruction *repeated(const Instruction *x, uint32_t dim)
{
    if (x->op != OP_BROADCAST)
        return NULL;
    Ints dims = inst_ints(x, ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < dims.count; i++) {
        if (dims.data[i] != i + (i >= dim))
            return NULL;
    }
    return dims.count + 1 == x->shape->rank ? x->operands[0] : NULL;
}

/* Which operand of the sum or difference is a number of a row, the other one being added to, or made less; -1: none. */
static int row_operand(const Instruction *x, uint32_t dim)
{
    if (x->op != OP_ADD && x->op != OP_SUBTRACT)
        return -1;
    if (repeated(x->operands[1], dim) != NULL)
        return 1;
    return x->op == OP_ADD && repeated(x->operands[0], dim) != NULL ? 0 : -1;
}

/* The largest number of an integer type. */
static uint64_t largest(DType t)
{
    return UINT64_MAX >> dtype_is_signed(t) >> (64 - dtype_info[t].bits);
}

static bool match_factor(const Instruction *x, OneHotSum *s)
{
    if (x->op != OP_CONVERT || x->operands[0]->op != OP_COMPARE)
        return false;
    s->is_picked = x->operands[0];
    s->product = x->shape->dtype;
    for (uint32_t i = 0; i < 2; i++) {
        const Instruction *numbers = s->is_picked->operands[!i];
        s->labels = repeated(s->is_picked->operands[i], s->dim);
        if (s->labels != NULL && sort_is_indices(numbers, s->dim))
            break;
        s->labels = NULL;
    }
    if (s->labels == NULL || !dtype_is_integer(s->labels->shape->dtype))
        return false;
    uint64_t last = (uint64_t)x->shape->dims[s->dim] - 1;
    return inst_int(s->is_picked, ATTR_DIRECTION, 0) == DIRECTION_EQ && last >= 1 &&
           last <= largest(s->labels->shape->dtype);
}

/* Up to the last step with a number of a row. */
static void match_steps(Instruction *x, OneHotSum *s)
{
    uint32_t count = 0;
    s->x = x;
    for (; count < ROW_STEPS; count++) {
        int row = row_operand(x, s->dim);
        if (row < 0 && !is_widening(x))
            break;
        s->step[count] = x;
        x = x->operands[row == 0];
        if (row < 0)
            continue;
        s->x = x;
        s->count = count + 1;
        s->numbers++;
    }
}

static bool match(Rewriter *r, Instruction *sum, OneHotSum *s)
{
    Ints dims = inst_ints(sum, ATTR_DIMENSIONS);
    if (sum->operand_count != 2 || dims.count != 1 ||
        rw_reducer_op(inst_called(sum, 0)) != OP_ADD ||
        !inst_is_constant_scalar(sum->operands[1], 0) ||
        !rw_is_static(sum->operands[0]->shape))
        return false;
    *s = (OneHotSum){.sum = sum, .dim = (uint32_t)dims.data[0]};
    Instruction *product = sum->operands[0];
    while (is_widening(product))
        product = product->operands[0];
    if (product->op != OP_MULTIPLY)
        return false;
    const Uses *uses = rw_uses(r); /* it says what r->known is */
    if (product->id >= r->known || uses_count(uses, product) != 1)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        if (!match_factor(product->operands[i], s))
            continue;
        match_steps(product->operands[!i], s);
        DType t = s->x->shape->dtype;
        return s->numbers != 0 && (t == DT_BF16 || t == DT_F32 || t == DT_F64);
    }
    return false;
}

static Instruction *compared(Rewriter *r, Instruction *x, int64_t with, int64_t direction)
{
    return rw_compare(r, x, rw_splat_int(r, x->shape, with), direction);
}

/* Rows whose label is a column. */
static Instruction *has_column(Rewriter *r, const OneHotSum *s)
{
    int64_t last = s->is_picked->shape->dims[s->dim] - 1;
    Instruction *above = compared(r, s->labels, 0, DIRECTION_GE),
                *below = compared(r, s->labels, last, DIRECTION_LE);
    return rw_binary(r, OP_AND, above->shape, above, below);
}

static Instruction *picked_sum(Rewriter *r, Instruction *inst)
{
    OneHotSum s;
    if (!match(r, inst, &s))
        return NULL;
    const Shape *all = s.x->shape,
                *shape = shape_with_dtype(r->m->intern, inst->shape, all->dtype);
    int64_t dim = s.dim;
    Instruction *factor = rw_convert(r, all, s.is_picked);
    Instruction *picked =
        rw_sum(r, shape, rw_binary(r, OP_MULTIPLY, all, factor, s.x), 1, &dim);
    Instruction *out = picked, *zeros[ROW_STEPS];
    uint32_t count = 0;
    for (uint32_t i = s.count; i-- > 0;) {
        const Instruction *step = s.step[i];
        shape = shape_with_dtype(r->m->intern, inst->shape, step->shape->dtype);
        if (step->op == OP_CONVERT) {
            out = rw_convert(r, shape, out);
            continue;
        }
        Instruction *number = repeated(step->operands[row_operand(step, s.dim)], s.dim);
        out = rw_binary(r, step->op, shape, out, number);
        zeros[count++] = rw_binary(r, OP_MULTIPLY, shape, number, rw_splat(r, shape, 0));
    }
    shape = shape_with_dtype(r->m->intern, inst->shape, s.product);
    /* 0 - m - s may be infinite where x - m - s is not */
    Instruction *parts[3] = {has_column(r, &s), rw_convert(r, shape, out),
                             rw_convert(r, shape, picked)};
    out = rw_add(r, OP_SELECT, shape, 3, parts);
    for (uint32_t i = 0; i < count; i++)
        out = rw_binary(r, OP_ADD, shape, out, rw_convert(r, shape, zeros[i]));
    return rw_convert(r, inst->shape, out);
}

const Rule rules_one_hot[] = {
    {OP_REDUCE, "picked_sum", picked_sum},
    {0},
};
