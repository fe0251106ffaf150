/* See dot_chain.h. */
#include "ir/kernel/dot_chain.h"

#include <math.h>

#include "ir/kernel/factor_type.h"
#include "ir/kernel/kind.h"

enum { MOST_STEPS = 16 /* of what is followed */, MOST_DOT_DEPTH = 256 };

static bool is_half(const Shape *s)
{
    return dtype_is_half(s->dtype);
}

const Instruction *dot_chain_factor(const Instruction *operand, DType factor)
{
    const Instruction *x = operand;
    while (x->op == OP_CONVERT && x->shape->dtype != factor &&
           dtype_is_float(x->operands[0]->shape->dtype) &&
           dtype_info[x->operands[0]->shape->dtype].bits <
               dtype_info[x->shape->dtype].bits)
        x = x->operands[0];
    return x;
}

DotSizes dot_sizes(const Instruction *dot)
{
    DotSizes s = {1, {1, 1}, 1};
    uint32_t batch = inst_ints(dot, ATTR_LHS_BATCH_DIMS).count;
    Ints terms = inst_ints(dot, ATTR_LHS_CONTRACTING_DIMS);
    uint32_t lhs_end = dot->operands[0]->shape->rank - terms.count;
    for (uint32_t d = 0; d < dot->shape->rank; d++) {
        int64_t size = dot->shape->dims[d];
        if (d < batch)
            s.batch *= size;
        else
            s.sides[d >= lhs_end] *= size;
    }
    for (uint32_t i = 0; i < terms.count; i++)
        s.depth *= dot->operands[0]->shape->dims[terms.data[i]];
    return s;
}

/* -- which dots are which -------------------------------------------------------------------------- */

/* The factor that is no chain is read as it is, the other one is rounded to its type: the program does so itself, or
 * rounds the result. */
static const char *outer_wrong(const Instruction *fusion, const DotChain *c, uint32_t i)
{
    const Instruction *dot = c->dots[i],
                      *factor =
                          dot_chain_factor(dot->operands[!c->weights[i]], c->factor);
    if (factor->shape->dtype != c->factor)
        return "its factors are not of one type";
    if (dot_sizes(dot).sides[!c->weights[i]] > MOST_DOT_DEPTH)
        return "its results are too deep";
    int64_t algorithm = inst_int(dot, ATTR_ALGORITHM, ALGORITHM_UNSET);
    if (is_half(dot->shape) || dot->operands[c->weights[i]]->shape->dtype == c->factor ||
        (algorithm == ALGORITHM_BF16_BF16_F32 && c->factor == DT_BF16))
        return NULL;
    for (uint32_t leaf = 0; leaf < fusion_result_count(fusion); leaf++) {
        if (!is_half(fusion_result(fusion, leaf).shape))
            return "its weights have more bits than its arrays";
    }
    return NULL;
}

static const char *inner_wrong(const DotChain *c, const Instruction *dot)
{
    if (dot_sizes(dot).depth > MOST_DOT_DEPTH)
        return "its dots are too deep";
    for (uint32_t i = 0; i < 2; i++) {
        if (dot_chain_factor(dot->operands[i], c->factor)->shape->dtype != c->factor)
            return "its factors are not of one type";
    }
    return NULL;
}

static const char *sizes_wrong(const DotChain *c)
{
    DotSizes first = dot_sizes(c->dots[0]);
    for (uint32_t i = 1; i < c->count; i++) {
        DotSizes s = dot_sizes(c->dots[i]);
        if (s.batch != first.batch || s.depth != first.depth ||
            s.sides[c->weights[i]] != first.sides[c->weights[0]])
            return "its dots are not of the same rows and columns";
    }
    return NULL;
}

/* Of 16 bits, or of f32 where all dots may be made of TF32. */
static bool has_tensor_type(const DotChain *c, const Instruction *const *inner)
{
    bool allows = c->factor == DT_F32;
    for (uint32_t i = 0; i < c->inner_count; i++)
        allows = allows && dot_allows_tf32(inner[i]);
    for (uint32_t i = 0; i < c->count; i++)
        allows = allows && dot_allows_tf32(c->dots[i]);
    return allows || dtype_is_half(c->factor);
}

const char *dot_chain_find(const Instruction *fusion, Arena *scratch, DotChain *out)
{
    const Computation *comp = inst_called(fusion, 0);
    bool *is_made = ARENA_ARRAY(scratch, bool, comp->instruction_count);
    const Instruction *inner[DOT_CHAIN_MOST];
    const char *wrong = NULL;
    *out = (DotChain){0};
    for (const Instruction *x = inst_first(comp); x; x = inst_next(x)) {
        bool made[2] = {false};
        for (uint32_t i = 0; i < x->operand_count; i++)
            made[i > 0] |= is_made[x->operands[i]->id];
        is_made[x->id] = made[0] || made[1] || x->op == OP_DOT;
        if (x->op != OP_DOT)
            continue;
        if (made[0] && made[1])
            return "a dot of two factors that are made of dots";
        bool is_outer = made[0] || made[1];
        if ((is_outer ? out->count : out->inner_count) == DOT_CHAIN_MOST)
            return "it has too many dots";
        if (is_outer) {
            out->weights[out->count] = made[1];
            out->dots[out->count++] = x;
        } else {
            inner[out->inner_count++] = x;
        }
    }
    if (out->count == 0)
        return "no dot has a factor that is made of dots";
    out->factor = dot_chain_factor(inner[0]->operands[0], DT_INVALID)->shape->dtype;
    if (!has_tensor_type(out, inner))
        return "its factors are not of 16 bits each, nor of f32 that may be TF32";
    for (uint32_t i = 0; i < out->inner_count && wrong == NULL; i++)
        wrong = inner_wrong(out, inner[i]);
    for (uint32_t i = 0; i < out->count && wrong == NULL; i++)
        wrong = outer_wrong(fusion, out, i);
    return wrong != NULL ? wrong : sizes_wrong(out);
}

/* -- what need not be computed ----------------------------------------------------------------------- */

static const Instruction *repeated(const Instruction *x)
{
    while (x->op == OP_BROADCAST || x->op == OP_RESHAPE || x->op == OP_CONVERT)
        x = x->operands[0];
    return x;
}

static bool is_zero(const Instruction *x)
{
    return inst_is_constant_scalar(repeated(x), 0);
}

/* The predicate is true of rows only whose statistic is less than *least, which it raises. */
static bool is_of_low_rows(const Instruction *predicate, const Instruction *statistics,
                           double *least)
{
    double limit;
    if (predicate->op != OP_COMPARE || repeated(predicate->operands[0]) != statistics ||
        !attention_splat(predicate->operands[1], &limit))
        return false;
    int64_t direction = inst_int(predicate, ATTR_DIRECTION, DIRECTION_EQ);
    if (direction != DIRECTION_LT && direction != DIRECTION_LE)
        return false;
    limit = nextafterf((float)limit, INFINITY);
    *least = *least > limit ? *least : limit;
    return true;
}

typedef struct KeptZero {
    const Instruction *zero, *statistics;
    double *least;
} KeptZero;

static bool keeps_zero(const KeptZero *k, const Instruction *x, uint32_t depth)
{
    if (x == k->zero)
        return true;
    if (depth == 0)
        return false;
    switch (x->op) {
    case OP_CONVERT:
    case OP_COPY:
    case OP_RESHAPE:
    case OP_BITCAST:
    case OP_TRANSPOSE:
    case OP_NEGATE:
    case OP_DIVIDE:
        return keeps_zero(k, x->operands[0], depth - 1);
    case OP_MULTIPLY:
        return keeps_zero(k, x->operands[0], depth - 1) ||
               keeps_zero(k, x->operands[1], depth - 1);
    case OP_SELECT:
        if (is_of_low_rows(x->operands[0], k->statistics, k->least))
            return keeps_zero(k, x->operands[2], depth - 1);
        for (uint32_t i = 1; i < 3; i++) {
            if (!is_zero(x->operands[i]) && !keeps_zero(k, x->operands[i], depth - 1))
                return false;
        }
        return true;
    default:
        return false;
    }
}

bool dot_chain_keeps_zero(const Instruction *inst, const Instruction *zero,
                          const Instruction *statistics, double *least)
{
    const KeptZero k = {zero, statistics, least};
    return keeps_zero(&k, inst, MOST_STEPS);
}

static int64_t row_major_step(const Shape *s, uint32_t dim)
{
    int64_t step = 1;
    for (uint32_t d = dim + 1; d < s->rank; d++)
        step *= s->dims[d];
    return step;
}

bool dot_chain_band(const Instruction *exponential, uint32_t rows, uint32_t columns,
                    AttentionBand *band, double *fill)
{
    const Shape *s = exponential->shape;
    Attention a = {.scale = 1};
    Mapped x;
    a.parts.column_weight = row_major_step(s, columns);
    a.parts.columns = s->dims[columns];
    if (!mapped_start(exponential, &x) || !mapped_operand(&x, 0, &x))
        return false;
    mapped_peel(&x);
    if (x.inst->op != OP_SUBTRACT)
        return false;
    for (uint32_t i = 0; i < 2 && x.inst->op == OP_SUBTRACT; i++) { /* logs, and maxima */
        if (!mapped_operand(&x, 0, &x))
            return false;
        mapped_peel(&x);
    }
    if (!attention_match_scores(x, &a) || a.band.rows == 0 ||
        a.band.rows != s->dims[rows] || a.band.row_weight != row_major_step(s, rows) ||
        !attention_band_fits(&a.band, a.parts.columns))
        return false;
    *band = a.band;
    /* a bias may be as low as a fill in all columns of a row that count */
    *fill = a.mask_count != 0 || a.parts.bias.inst != NULL ? a.largest_fill : 0;
    return true;
}
