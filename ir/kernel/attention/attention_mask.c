/* Masks of attention as bands: comparisons of sums of iotas. See attention.h. */
#include "ir/attribute/direction.h"
#include "ir/kernel/attention/attention.h"
#include "ir/literal.h"
#include "ir/number/number.h"

enum { MOST_TERMS = 4, MOST_DEPTH = 24 };
static const int64_t most_constant = INT64_C(1) << 30;

/* constant + sum of factor * digit */
typedef struct Form {
    int64_t constant;
    uint32_t count;
    struct {
        int64_t weight, size, factor;
    } terms[MOST_TERMS];
} Form;

static bool add_term(Form *f, int64_t weight, int64_t size, int64_t factor)
{
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->terms[i].weight == weight && f->terms[i].size == size) {
            f->terms[i].factor += factor;
            return true;
        }
    }
    if (f->count == MOST_TERMS)
        return false;
    f->terms[f->count].weight = weight;
    f->terms[f->count].size = size;
    f->terms[f->count++].factor = factor;
    return true;
}

static bool form_of_iota(const Mapped *m, Form *f)
{
    uint32_t n;
    const ViewPiece *p =
        view_pieces_of(m->map.pieces, m->map.count,
                       (uint32_t)inst_int(m->inst, ATTR_IOTA_DIMENSION, 0), &n);
    int64_t factor = 1;
    while (n-- > 0) {
        if (!add_term(f, p[n].stride, p[n].size, factor))
            return false;
        factor *= p[n].size;
    }
    return factor < most_constant;
}

static bool form_of(const Mapped *m, Form *f, uint32_t depth);

static bool form_of_sum(const Mapped *m, int64_t sign, Form *f, uint32_t depth)
{
    Mapped x, y;
    Form g = {0};
    if (!mapped_operand(m, 0, &x) || !mapped_operand(m, 1, &y) ||
        !form_of(&x, f, depth) || !form_of(&y, &g, depth))
        return false;
    f->constant += sign * g.constant;
    for (uint32_t i = 0; i < g.count; i++) {
        if (!add_term(f, g.terms[i].weight, g.terms[i].size, sign * g.terms[i].factor))
            return false;
    }
    return f->constant < most_constant && f->constant > -most_constant;
}

/* Signed integers only: sums of small ones of others may wrap. */
static bool form_of(const Mapped *m, Form *f, uint32_t depth)
{
    Mapped x;
    DType t = m->inst->shape->dtype;
    if (depth == 0 || (t != DT_S32 && t != DT_S64))
        return false;
    switch (m->inst->op) {
    case OP_IOTA:
        return form_of_iota(m, f);
    case OP_CONSTANT:
        if (m->inst->shape->rank != 0)
            return false;
        f->constant = (int64_t)literal_double(m->inst->literal, 0);
        return f->constant < most_constant && f->constant > -most_constant;
    case OP_ADD:
        return form_of_sum(m, 1, f, depth - 1);
    case OP_SUBTRACT:
        return form_of_sum(m, -1, f, depth - 1);
    case OP_CONVERT:
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_COPY:
    case OP_BITCAST:
        return mapped_operand(m, 0, &x) && form_of(&x, f, depth - 1);
    default:
        return false;
    }
}

/* form >= 0: a side of the band. */
static bool take_side(const Form *f, const AttentionParts *p, AttentionBand *b)
{
    int64_t row_factor = 0, column_factor = 0, row = -1, rows = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        int64_t factor = f->terms[i].factor;
        if (factor == 0)
            continue;
        if (f->terms[i].weight == p->column_weight && f->terms[i].size == p->columns) {
            column_factor = factor;
        } else if (rows == 0) {
            row_factor = factor;
            row = f->terms[i].weight;
            rows = f->terms[i].size;
        } else {
            return false;
        }
    }
    bool is_other = b->rows != 0 && (b->rows != rows || b->row_weight != row);
    if (rows == 0 || is_other || row_factor != -column_factor ||
        (row_factor != 1 && row_factor != -1))
        return false;
    b->row_weight = row;
    b->rows = rows;
    if (row_factor == 1) {
        b->right = b->has_right && b->right < f->constant ? b->right : f->constant;
        b->has_right = true;
    } else {
        int64_t left = f->constant + 1;
        b->left = b->has_left && b->left < left ? b->left : left;
        b->has_left = true;
    }
    return true;
}

static bool take_comparison(const Mapped *m, bool is_negated, const AttentionParts *p,
                            AttentionBand *b)
{
    Form f = {0};
    if (!form_of_sum(m, -1, &f, MOST_DEPTH))
        return false;
    int64_t direction = inst_int(m->inst, ATTR_DIRECTION, DIRECTION_EQ);
    if (direction == DIRECTION_EQ || direction == DIRECTION_NE)
        return false;
    bool is_less = direction == DIRECTION_LT || direction == DIRECTION_LE;
    bool is_strict = direction == DIRECTION_LT || direction == DIRECTION_GT;
    int64_t sign = is_less != is_negated ? -1 : 1;
    f.constant *= sign;
    for (uint32_t i = 0; i < f.count; i++)
        f.terms[i].factor *= sign;
    f.constant -= is_strict != is_negated;
    return take_side(&f, p, b);
}

/* What is known of a predicate without any band. */
static bool take_other(const Mapped *m, bool is_negated, Attention *a)
{
    if (a->mask_count == ATTENTION_MASKS)
        return false;
    a->masks[a->mask_count++] =
        (AttentionMask){.predicate = *m, .is_negated = is_negated};
    return true;
}

static bool is_truth(const Instruction *x, bool value)
{
    while (x->op == OP_BROADCAST || x->op == OP_RESHAPE)
        x = x->operands[0];
    return x->shape->dtype == DT_PRED && inst_is_constant_scalar(x, value);
}

/* What becomes of an operand of that choice on the way to x. */
static double converted(const Instruction *x, const Instruction *choice, double value)
{
    if (x == choice)
        return value;
    value = converted(x->operands[0], choice, value);
    DType t = x->shape->dtype;
    return x->op == OP_CONVERT ? number_to_double(t, number_from_double(t, value))
                               : value;
}

/* select(p, c, d) compared with e, where one of c and d fits and the other does not: p again. */
static bool unwrap_comparison(const Mapped *m, Mapped *predicate, bool *is_negated)
{
    double limit, if_true, if_false;
    Mapped x;
    if (!attention_splat(m->inst->operands[1], &limit) || !mapped_operand(m, 0, &x))
        return false;
    while (x.inst->op == OP_BROADCAST || x.inst->op == OP_RESHAPE ||
           x.inst->op == OP_CONVERT || x.inst->op == OP_COPY) {
        bool is_close = x.inst->op != OP_CONVERT || conversion_is_close(x.inst);
        if (!is_close || !mapped_operand(&x, 0, &x))
            return false;
    }
    if (x.inst->op != OP_SELECT || !attention_splat(x.inst->operands[1], &if_true) ||
        !attention_splat(x.inst->operands[2], &if_false))
        return false;
    if_true = converted(m->inst->operands[0], x.inst, if_true);
    if_false = converted(m->inst->operands[0], x.inst, if_false);
    int64_t direction = inst_int(m->inst, ATTR_DIRECTION, DIRECTION_EQ);
    bool at_true = direction_holds(direction, if_true, limit);
    *is_negated ^= !at_true;
    return at_true != direction_holds(direction, if_false, limit) &&
           mapped_operand(&x, 0, predicate);
}

static bool take(const Mapped *m, bool is_negated, Attention *a, uint32_t depth);

static bool take_compare(const Mapped *m, bool is_negated, Attention *a, uint32_t depth)
{
    Mapped x;
    AttentionBand band = a->band;
    bool is_other = is_negated;
    if (unwrap_comparison(m, &x, &is_other))
        return take(&x, is_other, a, depth);
    if (!take_comparison(m, is_negated, &a->parts, &band))
        return take_other(m, is_negated, a);
    a->band = band;
    return true;
}

static bool take_both(const Mapped *m, uint32_t first, uint32_t second, bool is_negated,
                      Attention *a, uint32_t depth)
{
    Mapped x, y;
    return mapped_operand(m, first, &x) && mapped_operand(m, second, &y) &&
           take(&x, is_negated, a, depth) && take(&y, is_negated, a, depth);
}

/* Where all of several must hold, each is taken by itself; not (x or y) is such, too. */
static bool take(const Mapped *m, bool is_negated, Attention *a, uint32_t depth)
{
    Mapped x;
    if (depth == 0)
        return take_other(m, is_negated, a);
    switch (m->inst->op) {
    case OP_COMPARE:
        return take_compare(m, is_negated, a, depth - 1);
    case OP_NOT:
        return mapped_operand(m, 0, &x) && take(&x, !is_negated, a, depth - 1);
    case OP_AND:
    case OP_OR:
        return (m->inst->op == OP_OR) == is_negated
                   ? take_both(m, 0, 1, is_negated, a, depth - 1)
                   : take_other(m, is_negated, a);
    case OP_SELECT: /* x ? y : false is x and y */
        return is_truth(m->inst->operands[2], false) && !is_negated
                   ? take_both(m, 0, 1, false, a, depth - 1)
                   : take_other(m, is_negated, a);
    case OP_CONSTANT:
        return is_truth(m->inst, !is_negated) || take_other(m, is_negated, a);
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_TRANSPOSE:
    case OP_COPY:
    case OP_BITCAST:
        return mapped_operand(m, 0, &x) ? take(&x, is_negated, a, depth - 1)
                                        : take_other(m, is_negated, a);
    default:
        return take_other(m, is_negated, a);
    }
}

bool attention_take_mask(const Mapped *predicate, bool is_negated, Attention *a)
{
    return take(predicate, is_negated, a, MOST_DEPTH);
}
