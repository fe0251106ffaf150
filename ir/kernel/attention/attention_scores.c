/* Scores of an attention: what stands between the softmax and the first dot, from the outside inwards. See
 * attention.h. */
#include "ir/kernel/attention/attention.h"
#include "ir/literal.h"

/* A fill that is scaled down further than this might count. */
static const double least_scale = 1e-3;

bool attention_splat(const Instruction *inst, double *value)
{
    while (inst->op == OP_BROADCAST || inst->op == OP_RESHAPE)
        inst = inst->operands[0];
    if (inst->op != OP_CONSTANT || !shape_is_array(inst->shape) ||
        inst->shape->rank != 0 || !dtype_is_float(inst->shape->dtype))
        return false;
    *value = literal_double(inst->literal, 0);
    return true;
}

bool attention_is_fill(const Instruction *value, double *fill)
{
    const Instruction *x = value;
    while (x->op == OP_BROADCAST || x->op == OP_RESHAPE || x->op == OP_CONVERT)
        x = x->operands[0];
    if (!attention_splat(x, fill))
        return false;
    return *fill <= -1e8 || (x->shape->dtype == DT_F16 && *fill <= -3e4);
}

bool attention_scaling(const Instruction *inst, uint32_t *operand, double *factor)
{
    if (inst->op == OP_DIVIDE && attention_splat(inst->operands[1], factor) &&
        *factor != 0) {
        *operand = 0;
        *factor = 1 / *factor;
        return true;
    }
    for (uint32_t i = 0; i < 2 && inst->op == OP_MULTIPLY; i++) {
        if (attention_splat(inst->operands[i], factor)) {
            *operand = !i;
            return true;
        }
    }
    return false;
}

/* -- operands in memory --------------------------------------------------------------------------- */

static bool is_float_array(const Instruction *inst)
{
    return shape_is_array(inst->shape) && dtype_is_float(inst->shape->dtype);
}

static uint32_t float_bits(const Instruction *inst)
{
    return dtype_info[inst->shape->dtype].bits;
}

static bool is_rounding(const Instruction *inst)
{
    return inst->op == OP_CONVERT && is_float_array(inst) &&
           is_float_array(inst->operands[0]) &&
           float_bits(inst->operands[0]) > float_bits(inst) && conversion_is_close(inst);
}

static bool is_widening(const Instruction *inst)
{
    return inst->op == OP_CONVERT && is_float_array(inst) &&
           is_float_array(inst->operands[0]) &&
           float_bits(inst->operands[0]) < float_bits(inst);
}

/* x * splat, x / splat, and roundings before and behind. */
static bool step_over_factor(StridedView *v, double *scale)
{
    uint32_t operand = 0;
    double factor = 1;
    if ((!is_rounding(v->base) && !attention_scaling(v->base, &operand, &factor)) ||
        !view_step_same(v, operand))
        return false;
    *scale *= factor;
    return true;
}

bool attention_step(StridedView *v)
{
    return is_widening(v->base) ? view_step_same(v, 0) : view_step(v);
}

/* A factor, or a rounding, is passed only to what is as narrow again: the kernel reads no more bytes. */
void attention_follow(StridedView *v, double *scale)
{
    StridedView next = *v;
    double factor = 1;
    for (uint32_t i = 0; i < ATTENTION_STEPS; i++) {
        if (!attention_step(&next) &&
            (scale == NULL || !step_over_factor(&next, &factor)))
            break;
        if (scale == NULL || float_bits(next.base) <= float_bits(v->base)) {
            *v = next;
            if (scale != NULL)
                *scale *= factor;
            factor = 1;
        }
    }
}

/* -- from the softmax to the first dot ------------------------------------------------------------ */

static bool take_mask(const Mapped *predicate, bool is_negated, double fill,
                      bool is_added, Attention *a)
{
    AttentionParts *p = &a->parts;
    double among_scores = fill * a->scale;
    bool is_beyond_bias = p->bias.inst != NULL && !p->bias_is_outside;
    a->fills_differ |= p->mask_steps != 0 && (p->mask_is_added || is_beyond_bias ||
                                              among_scores != p->mask_fill);
    p->mask_fill = among_scores;
    p->mask_is_added |= is_added;
    a->largest_fill =
        p->mask_steps == 0 || fill > a->largest_fill ? fill : a->largest_fill;
    a->fill = fill;
    p->mask = *predicate;
    p->mask_is_negated = is_negated;
    p->mask_steps++;
    return attention_take_mask(predicate, is_negated, a);
}

/* A mask, or an array that is added, stands further out than any cap. */
static bool take_select(Attention *a, Mapped *x)
{
    double fill;
    Mapped predicate, kept;
    bool is_negated = attention_is_fill(x->inst->operands[1], &fill);
    if ((!is_negated && !attention_is_fill(x->inst->operands[2], &fill)) || a->cap != 0 ||
        a->scale < least_scale || !mapped_operand(x, 0, &predicate) ||
        !mapped_operand(x, is_negated ? 2 : 1, &kept) ||
        !take_mask(&predicate, is_negated, fill, false, a))
        return false;
    *x = kept;
    return true;
}

/* Past what keeps the values of small integers and of 0. */
static bool peel_repeated(Mapped *m)
{
    for (;;) {
        OpCode op = m->inst->op;
        if (op != OP_BROADCAST && op != OP_RESHAPE && op != OP_CONVERT &&
            op != OP_TRANSPOSE && op != OP_COPY && op != OP_BITCAST)
            return true;
        if (m->inst->operands[0]->op == OP_CONSTANT)
            return true;
        if (!mapped_operand(m, 0, m))
            return false;
    }
}

static bool is_pred(const Mapped *m)
{
    return m->inst->shape->dtype == DT_PRED;
}

/* 1 where a predicate is true (is_negated: false), else 0. */
static bool as_indicator(Mapped m, Mapped *predicate, bool *is_negated)
{
    double one;
    *is_negated = false;
    if (m.inst->op == OP_SUBTRACT && attention_splat(m.inst->operands[0], &one) &&
        one == 1) {
        *is_negated = true;
        if (!mapped_operand(&m, 1, &m))
            return false;
    }
    bool is_there = peel_repeated(&m) && is_pred(&m);
    *predicate = m;
    return is_there;
}

/* 0 where scores count, else a fill: as good as a mask. */
static bool take_added_mask(Attention *a, Mapped m)
{
    double value, fill;
    Mapped predicate;
    bool is_negated;
    if (!peel_repeated(&m))
        return false;
    if (m.inst->op == OP_SELECT) {
        is_negated = attention_is_fill(m.inst->operands[1], &fill);
        return (is_negated || attention_is_fill(m.inst->operands[2], &fill)) &&
               attention_splat(m.inst->operands[is_negated ? 2 : 1], &value) &&
               value == 0 && mapped_operand(&m, 0, &predicate) &&
               take_mask(&predicate, is_negated, fill, true, a);
    }
    for (uint32_t i = 0; i < 2 && m.inst->op == OP_MULTIPLY; i++) {
        Mapped x;
        if (attention_is_fill(m.inst->operands[i], &fill) && mapped_operand(&m, !i, &x) &&
            as_indicator(x, &predicate, &is_negated))
            return take_mask(&predicate, !is_negated, fill, true, a);
    }
    return false;
}

/* Scores are rounded away beside a fill that is added to them: those of a row of which none counts are all equal then.
 * Beside a lesser one they are not, and it is a bias like any other. */
static bool swallows_scores(double fill, DType sum)
{
    /* -1e9 of f32, and what bf16 makes of it, are 64 from the next number */
    return sum == DT_BF16 || fill <= (sum == DT_F16 ? -3e4 : -0x1p29);
}

static bool take_sum(Attention *a, const Mapped *x, uint32_t operand)
{
    Mapped kept, added;
    Attention before = *a;
    if (a->cap != 0 || a->scale != 1 || !mapped_operand(x, operand, &kept) ||
        !mapped_operand(x, !operand, &added))
        return false;
    if (take_added_mask(a, added) && (a->mask_count == before.mask_count ||
                                      swallows_scores(a->fill, x->inst->shape->dtype))) {
        a->parts.mask_swallows_bias |= x->inst->shape->dtype == DT_F16;
        /* beside other fills it is a bias: the kernel adds it to them */
        if (attention_match_scores(kept, a) && !(a->fills_differ && a->mask_count != 0))
            return true;
    }
    *a = before;
    if (a->parts.bias.inst != NULL)
        return false;
    a->parts.bias = added;
    a->parts.bias_is_outside = a->parts.mask_steps == 0 || a->parts.mask_is_added;
    return attention_match_scores(kept, a);
}

/* One step further in; false: no part of an attention. */
static bool take_step(Attention *a, Mapped *x)
{
    uint32_t operand;
    double factor;
    switch (x->inst->op) {
    case OP_SELECT:
        return take_select(a, x);
    case OP_MULTIPLY:
    case OP_DIVIDE:
        if (!attention_scaling(x->inst, &operand, &factor))
            return false;
        a->scale *= factor;
        return mapped_operand(x, operand, x);
    case OP_TANH:
        if (a->cap != 0)
            return false;
        a->cap = a->scale;
        a->scale = 1;
        return a->cap > 0 && mapped_operand(x, 0, x);
    default:
        return false;
    }
}

bool attention_match_scores(Mapped x, Attention *a)
{
    for (uint32_t i = 0; i < ATTENTION_STEPS; i++) {
        mapped_peel(&x);
        if (x.inst->op == OP_DOT) {
            a->parts.scores = x;
            if (a->cap != 0)
                a->scale *= a->cap;
            return true;
        }
        if (x.inst->op == OP_ADD) {
            Attention first = *a;
            if (take_sum(&first, &x, 0)) {
                *a = first;
                return true;
            }
            return take_sum(a, &x, 1);
        }
        if (!take_step(a, &x))
            return false;
    }
    return false;
}
