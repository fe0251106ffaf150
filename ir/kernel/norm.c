/* See norm.h. All arrays inside are row-major, so that a shape of as many elements holds them in
 * the same order: reshapes are stepped over. */
#include "ir/kernel/norm.h"

#include <math.h>

#include "ir/analysis/collective.h"
#include "ir/attribute/config.h"
#include "ir/kernel/attention/attention.h"
#include "ir/kernel/norm_steps.h"

enum { MOST_FACTORS = 4 };

static const char library[] = "cudnn";

/* A product, taken apart. */
typedef struct Factors {
    const Instruction *list[MOST_FACTORS];
    uint32_t count;
    const Instruction *divisor; /* NULL: none */
} Factors;

/* -- steps ---------------------------------------------------------------------------------------- */

bool norm_is_plain(const Instruction *inst)
{
    return shape_is_array(inst->shape) && !shape_is_dynamic(inst->shape) &&
           shape_is_row_major(inst->shape);
}

const Instruction *norm_strip(const Instruction *inst)
{
    for (;;) {
        bool keeps_order =
            inst->op == OP_RESHAPE || inst->op == OP_BITCAST ||
            (inst->op == OP_BROADCAST && ints_ascend(inst_ints(inst, ATTR_DIMENSIONS)) &&
             shape_elements(inst->shape) == shape_elements(inst->operands[0]->shape));
        if (!keeps_order || !norm_is_plain(inst) || !norm_is_plain(inst->operands[0]) ||
            inst->shape->dtype != inst->operands[0]->shape->dtype)
            return inst;
        inst = inst->operands[0];
    }
}

static bool is_float_array(const Instruction *inst)
{
    return shape_is_array(inst->shape) && dtype_is_float(inst->shape->dtype);
}

const Instruction *norm_before_widening(const Instruction *inst)
{
    bool widens =
        inst->op == OP_CONVERT && is_float_array(inst) &&
        is_float_array(inst->operands[0]) &&
        dtype_info[inst->operands[0]->shape->dtype].bits < dtype_info[DT_F32].bits;
    return widens ? inst->operands[0] : inst;
}

const Instruction *norm_repeated(const NormMatch *m, const Instruction *inst,
                                 uint32_t first, uint32_t end)
{
    if (inst->op != OP_BROADCAST || !norm_is_plain(inst) ||
        !norm_is_plain(inst->operands[0]) ||
        !ints_ascend(inst_ints(inst, ATTR_DIMENSIONS)) ||
        !shape_same_dims(inst->shape, m->shape))
        return NULL;
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    int64_t count = 1;
    for (uint32_t i = 0; i < dims.count; i++) {
        int64_t size = inst->operands[0]->shape->dims[i];
        if (size != 1 && (dims.data[i] < first || dims.data[i] >= end))
            return NULL;
    }
    for (uint32_t d = first; d < end; d++)
        count *= m->shape->dims[d];
    return shape_elements(inst->operands[0]->shape) == count
               ? norm_strip(inst->operands[0])
               : NULL;
}

static const Instruction *row_value(const NormMatch *m, const Instruction *inst)
{
    return norm_repeated(m, inst, 0, m->row_rank);
}

const Instruction *norm_column_value(const NormMatch *m, const Instruction *inst)
{
    const Instruction *v = norm_repeated(m, inst, m->row_rank, m->shape->rank);
    return v != NULL ? norm_strip(norm_before_widening(v)) : NULL;
}

/* -- statistics ----------------------------------------------------------------------------------- */

bool norm_is_sum(const NormMatch *m, const Instruction *inst)
{
    return inst->op == OP_REDUCE && inst->operand_count == 2 &&
           collective_reduction(inst_called(inst, 0)) == OP_ADD &&
           inst_is_constant_scalar(inst->operands[1], 0) &&
           norm_is_plain(inst->operands[0]) &&
           shape_same_dims(inst->operands[0]->shape, m->shape);
}

const Instruction *norm_summed(NormMatch *m, const Instruction *inst)
{
    if (!norm_is_sum(m, inst))
        return NULL;
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    uint32_t left = m->shape->rank - dims.count;
    for (uint32_t i = 0; i < dims.count; i++) {
        if (dims.data[i] < left)
            return NULL;
    }
    if (dims.count == 0 || (m->row_rank != m->shape->rank && m->row_rank != left))
        return NULL;
    m->row_rank = left;
    return inst->operands[0];
}

int64_t norm_columns(const NormMatch *m)
{
    int64_t n = 1;
    for (uint32_t d = m->row_rank; d < m->shape->rank; d++)
        n *= m->shape->dims[d];
    return n;
}

/* What the mean of each row is taken of; NULL: it is no mean. */
static const Instruction *averaged(NormMatch *m, const Instruction *inst)
{
    uint32_t operand;
    double factor;
    if (!attention_scaling(inst, &operand, &factor))
        return NULL;
    const Instruction *of = norm_summed(m, norm_strip(inst->operands[operand]));
    return of != NULL && fabs(factor * (double)norm_columns(m) - 1) < 1e-5 ? of : NULL;
}

/* x - its mean, or x itself (mean is NULL). False: another one's. */
static bool match_centred(NormMatch *m, const Instruction *inst, const Instruction **x,
                          const Instruction **mean)
{
    *x = norm_before_widening(inst);
    *mean = NULL;
    if (inst->op != OP_SUBTRACT)
        return true;
    const Instruction *broadcast = inst->operands[1];
    if (broadcast->op != OP_BROADCAST)
        return true;
    const Instruction *value = norm_strip(broadcast->operands[0]);
    const Instruction *of = averaged(m, value);
    if (of == NULL || row_value(m, broadcast) != value)
        return true; /* another difference */
    *x = norm_before_widening(inst->operands[0]);
    *mean = value;
    return norm_before_widening(of) == *x;
}

/* The mean of what is squared: of x, or of x - mean. */
static bool match_mean_of_squares(NormMatch *m, const Instruction *inst)
{
    const Instruction *of = averaged(m, inst);
    const Instruction *x[2], *mean[2];
    if (of == NULL || of->op != OP_MULTIPLY)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        if (!match_centred(m, of->operands[i], &x[i], &mean[i]))
            return false;
    }
    m->norm.x = x[0];
    m->norm.mean = mean[0];
    return x[0] == x[1] && mean[0] == mean[1];
}

/* The mean of squares less the square of the mean, which may be kept above 0. */
static bool match_difference(NormMatch *m, const Instruction *inst)
{
    for (uint32_t i = 0; i < 2 && inst->op == OP_MAXIMUM; i++) {
        double zero;
        if (attention_splat(inst->operands[i], &zero) && zero == 0)
            inst = norm_strip(inst->operands[!i]);
    }
    if (inst->op != OP_SUBTRACT ||
        !match_mean_of_squares(m, norm_strip(inst->operands[0])) || m->norm.mean != NULL)
        return false;
    const Instruction *square = norm_strip(inst->operands[1]);
    if (square->op != OP_MULTIPLY)
        return false;
    const Instruction *mean = norm_strip(square->operands[0]), *of = averaged(m, mean);
    if (of == NULL || norm_strip(square->operands[1]) != mean ||
        norm_before_widening(of) != m->norm.x)
        return false;
    m->norm.mean = mean;
    return true;
}

bool norm_match_inverse(NormMatch *m, const Instruction *inst)
{
    double one;
    const Instruction *v = NULL;
    m->norm.inverse = inst;
    if (inst->op == OP_RSQRT)
        v = norm_strip(inst->operands[0]);
    else if (inst->op == OP_DIVIDE && attention_splat(inst->operands[0], &one) &&
             one == 1 && norm_strip(inst->operands[1])->op == OP_SQRT)
        v = norm_strip(norm_strip(inst->operands[1])->operands[0]);
    for (uint32_t i = 0; i < 2 && v != NULL && v->op == OP_ADD; i++) {
        const Instruction *variance = norm_strip(v->operands[i]);
        if (attention_splat(v->operands[!i], &m->norm.epsilon))
            return match_mean_of_squares(m, variance) || match_difference(m, variance);
    }
    return false;
}

/* -- the norm -------------------------------------------------------------------------------------- */

static bool take_factors(const Instruction *inst, Factors *f)
{
    if (inst->op == OP_MULTIPLY && inst->operands[0] != inst->operands[1])
        return take_factors(inst->operands[0], f) && take_factors(inst->operands[1], f);
    if (f->count == MOST_FACTORS)
        return false;
    f->list[f->count++] = inst;
    return true;
}

/* Three factors: x or its difference to the mean, the inverse deviation, the scale. */
static bool match_product(NormMatch *m, const Instruction *inst)
{
    Factors f = {0};
    if (!take_factors(inst, &f) || f.count != 3)
        return false;
    for (uint32_t i = 0; i < 3; i++) {
        const Instruction *row = f.list[i], *x, *mean;
        m->row_rank = m->shape->rank;
        if (row->op != OP_BROADCAST ||
            !norm_match_inverse(m, norm_strip(row->operands[0])) ||
            row_value(m, row) != m->norm.inverse)
            continue;
        for (uint32_t k = 1; k < 3; k++) {
            const Instruction *column = f.list[(i + k) % 3];
            m->norm.scale = norm_column_value(m, column);
            if (m->norm.scale != NULL &&
                match_centred(m, f.list[(i + 3 - k) % 3], &x, &mean) && x == m->norm.x &&
                (mean != NULL) == (m->norm.mean != NULL))
                return true;
        }
    }
    return false;
}

static bool is_narrowing(const Instruction *inst)
{
    return inst->op == OP_CONVERT && is_float_array(inst) &&
           is_float_array(inst->operands[0]) &&
           inst->operands[0]->shape->dtype == DT_F32 &&
           dtype_info[inst->shape->dtype].bits < dtype_info[DT_F32].bits;
}

bool norm_match(const Instruction *last, Norm *out)
{
    const Instruction *y = is_narrowing(last) ? last->operands[0] : last;
    if (!is_float_array(y) || y->shape->dtype != DT_F32 || !norm_is_plain(last) ||
        !norm_is_plain(y) || shape_elements(y->shape) == 0)
        return false;
    NormMatch m = {.shape = y->shape};
    bool found = match_product(&m, y);
    for (uint32_t i = 0; i < 2 && !found && y->op == OP_ADD; i++) {
        found = match_product(&m, y->operands[!i]);
        m.norm.bias = found ? norm_column_value(&m, y->operands[i]) : NULL;
        found = m.norm.bias != NULL;
    }
    m.norm.columns = norm_columns(&m);
    m.norm.rows = shape_elements(y->shape) / m.norm.columns;
    *out = m.norm;
    return found && out->x->shape->dtype != DT_F64 && norm_is_plain(out->x);
}

uint32_t norm_statistic(const Norm *norm, const Instruction *inst)
{
    const Instruction *value = norm_strip(inst);
    if (norm->mean != NULL && value == norm->mean)
        return 1;
    return value != norm->inverse ? 0 : norm->mean != NULL ? 2 : 1;
}

/* -- by cuDNN ---------------------------------------------------------------------------------------- */

bool norm_has_types(const Norm *norm, const Instruction *last)
{
    DType t = norm->x->shape->dtype, scale = norm->scale->shape->dtype;
    return (t == DT_F32 || dtype_is_half(t)) && last->shape->dtype == t &&
           (scale == DT_F32 || scale == t) &&
           (norm->bias == NULL || norm->bias->shape->dtype == scale) && norm->columns > 1;
}

static bool move_outside(const Instruction *fusion, const Instruction **inst)
{
    if (*inst == NULL)
        return true;
    if ((*inst)->op != OP_PARAMETER)
        return false;
    *inst = fusion->operands[(*inst)->parameter];
    return norm_is_plain(*inst);
}

/* The results behind y are what the norm keeps of each row. */
static bool keeps_statistics(const Instruction *root, const Norm *norm)
{
    uint32_t n = norm->mean != NULL ? 3 : 2;
    return root->operand_count == n &&
           (n == 2 || norm_strip(root->operands[1]) == norm->mean) &&
           norm_strip(root->operands[n - 1]) == norm->inverse;
}

bool norm_call_of(const Instruction *inst, NormCall *out)
{
    if (inst->op != OP_FUSION || !config_is(inst, CONFIG_LIBRARY, library))
        return false;
    const Instruction *root = inst_called(inst, 0)->root;
    *out = (NormCall){.has_statistics = root->op == OP_TUPLE};
    const Instruction *last = out->has_statistics ? root->operands[0] : root;
    for (uint32_t i = 0; i < root->operand_count && out->has_statistics; i++) {
        if (!norm_is_plain(root->operands[i]))
            return false;
    }
    return norm_match(last, &out->norm) && norm_has_types(&out->norm, last) &&
           (!out->has_statistics || keeps_statistics(root, &out->norm)) &&
           move_outside(inst, &out->norm.x) && move_outside(inst, &out->norm.scale) &&
           move_outside(inst, &out->norm.bias);
}

bool norm_is_library(const Instruction *inst)
{
    NormCall unused;
    return norm_call_of(inst, &unused);
}

void norm_set_library(Instruction *fusion)
{
    config_set_word(fusion, CONFIG_LIBRARY, library);
}
