/* See matmul.h. */
#include "ir/kernel/matmul.h"

#include "ir/analysis/collective.h"

#include "ir/attribute/config.h"
#include "ir/literal.h"

static const char library[] = "cublaslt";

int64_t dot_result_dim(const Instruction *dot, uint32_t side, int64_t dim)
{
    Ints batch = inst_ints(dot, side == 0 ? ATTR_LHS_BATCH_DIMS : ATTR_RHS_BATCH_DIMS);
    Ints sums =
        inst_ints(dot, side == 0 ? ATTR_LHS_CONTRACTING_DIMS : ATTR_RHS_CONTRACTING_DIMS);
    int64_t at = ints_find(batch, dim);
    if (at >= 0 || ints_contain(sums, dim))
        return at;
    at = batch.count;
    if (side == 1)
        at += dot->operands[0]->shape->rank - batch.count - sums.count;
    for (int64_t d = 0; d < dim; d++)
        at += !ints_contain(batch, d) && !ints_contain(sums, d);
    return at;
}

/* Dimensions of an operand by what becomes of them. */
typedef enum { BATCH, CONTRACTED, KEPT, KINDS } Kind;

typedef struct Side {
    int64_t size[KINDS], stride[KINDS];
    Kind inner; /* its elements lie side by side; KINDS: there is only one element */
    bool is_in_pieces; /* what would be batch dimensions are the first of those kept */
} Side;

/* Each kind's dimensions must lie together; those of size 1 lie anywhere. Kept ones may lie on both sides of those that
 * are contracted, where there is no batch. */
static bool describe_side(const Shape *s, Ints batch, Ints contracted, Side *out)
{
    *out = (Side){.size = {1, 1, 1}, .inner = KINDS};
    Kind last = KINDS;
    int64_t stride = 1;
    for (uint32_t d = s->rank; d-- > 0;) {
        if (s->dims[d] == 1)
            continue;
        Kind kind = ints_contain(batch, d)        ? BATCH
                    : ints_contain(contracted, d) ? CONTRACTED
                                                  : KEPT;
        out->is_in_pieces |=
            kind == KEPT && last == CONTRACTED && out->inner == KEPT && batch.count == 0;
        if (kind == KEPT && out->is_in_pieces)
            kind = BATCH;
        if (kind != last && out->size[kind] != 1)
            return false;
        if (kind != last)
            out->stride[kind] = stride;
        if (out->inner == KINDS)
            out->inner = kind;
        out->size[kind] *= s->dims[d];
        stride *= s->dims[d];
        last = kind;
    }
    return shape_is_row_major(s) && out->inner != BATCH;
}

/* Pairs of dimensions come in the same order in both operands, whatever the order they are listed in. */
static bool same_order(const Shape *l, Ints lhs, Ints rhs)
{
    for (uint32_t i = 0; i < lhs.count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            bool counts = l->dims[lhs.data[i]] != 1 && l->dims[lhs.data[k]] != 1;
            if (counts && (lhs.data[i] < lhs.data[k]) != (rhs.data[i] < rhs.data[k]))
                return false;
        }
    }
    return true;
}

static bool is_ascending(const Shape *s, Ints dims)
{
    int64_t last = -1;
    for (uint32_t i = 0; i < dims.count; i++) {
        if (s->dims[dims.data[i]] == 1)
            continue;
        if (dims.data[i] < last)
            return false;
        last = dims.data[i];
    }
    return true;
}

static MatmulSide matrices(const Side *s)
{
    bool k_first = s->inner == KEPT;
    Kind inner = k_first ? KEPT : CONTRACTED, outer = k_first ? CONTRACTED : KEPT;
    return (MatmulSide){.k_first = k_first,
                        .ld = s->size[outer] > 1 ? s->stride[outer] : s->size[inner],
                        .batch_stride = s->size[BATCH] > 1
                                            ? s->stride[BATCH]
                                            : s->size[KEPT] * s->size[CONTRACTED]};
}

bool matmul_is_8_bit(const Instruction *dot)
{
    return dtype_info[dot->operands[0]->shape->dtype].bits == 8;
}

/* Products of 8 bits are of rows with rows, of whole pieces of 16 bytes. */
static bool rows_fit(const Instruction *dot, const Side *s)
{
    return !matmul_is_8_bit(dot) ||
           (s->inner == CONTRACTED && s->size[KEPT] % 16 == 0 &&
            s->size[CONTRACTED] % 16 == 0 && s->stride[KEPT] % 16 == 0);
}

enum { LEAST_ROWS = 16 /* of a piece, and of what it meets */ };

static bool is_aligned(int64_t elements, DType t)
{
    return elements * (int64_t)dtype_info[t].bits % (MATMUL_ALIGNMENT * 8) == 0;
}

/* The operand that lies in pieces meets all of the other one. Each piece, and its result, begins as the first does; a few
 * rows fill no tile of the library's. */
static bool take_pieces(const Instruction *dot, const Side *lhs, const Side *rhs,
                        MatmulShape *out)
{
    DType factor = dot->operands[0]->shape->dtype;
    out->is_in_pieces = lhs->is_in_pieces || rhs->is_in_pieces;
    if (!out->is_in_pieces)
        return true;
    if ((lhs->is_in_pieces && rhs->is_in_pieces) || out->m < LEAST_ROWS ||
        out->n < LEAST_ROWS)
        return false;
    if (lhs->is_in_pieces)
        out->rhs.batch_stride = 0;
    if (rhs->is_in_pieces) {
        out->batch = rhs->size[BATCH];
        out->lhs.batch_stride = 0;
        out->result_ld = out->batch * out->n;
        out->result_batch_stride = out->n;
    }
    return is_aligned(out->lhs.batch_stride, factor) &&
           is_aligned(out->rhs.batch_stride, factor) &&
           is_aligned(out->result_batch_stride, dot->shape->dtype);
}

bool matmul_shape(const Instruction *dot, MatmulShape *out)
{
    const Shape *l = dot->operands[0]->shape, *r = dot->operands[1]->shape;
    Ints l_batch = inst_ints(dot, ATTR_LHS_BATCH_DIMS);
    Ints r_batch = inst_ints(dot, ATTR_RHS_BATCH_DIMS);
    Ints l_sum = inst_ints(dot, ATTR_LHS_CONTRACTING_DIMS);
    Ints r_sum = inst_ints(dot, ATTR_RHS_CONTRACTING_DIMS);
    Side lhs, rhs;
    if (!shape_is_row_major(dot->shape) || !is_ascending(l, l_batch) ||
        !is_ascending(r, r_batch) || !same_order(l, l_sum, r_sum) ||
        !describe_side(l, l_batch, l_sum, &lhs) ||
        !describe_side(r, r_batch, r_sum, &rhs) || !rows_fit(dot, &lhs) ||
        !rows_fit(dot, &rhs))
        return false;
    int64_t m = lhs.size[KEPT], n = rhs.size[KEPT];
    *out = (MatmulShape){.batch = lhs.size[BATCH],
                         .m = m,
                         .n = n,
                         .k = lhs.size[CONTRACTED],
                         .lhs = matrices(&lhs),
                         .rhs = matrices(&rhs),
                         .result_ld = n,
                         .result_batch_stride = m * n};
    return take_pieces(dot, &lhs, &rhs, out);
}

bool matmul_side_fits(const Instruction *dot, uint32_t side)
{
    const Shape *s = dot->operands[side]->shape;
    Ints batch = inst_ints(dot, side == 0 ? ATTR_LHS_BATCH_DIMS : ATTR_RHS_BATCH_DIMS);
    Ints sum =
        inst_ints(dot, side == 0 ? ATTR_LHS_CONTRACTING_DIMS : ATTR_RHS_CONTRACTING_DIMS);
    Side described;
    return is_ascending(s, batch) && describe_side(s, batch, sum, &described) &&
           !described.is_in_pieces && rows_fit(dot, &described);
}

static bool has_types(const Instruction *dot)
{
    DType a = dot->operands[0]->shape->dtype, b = dot->operands[1]->shape->dtype;
    DType d = dot->shape->dtype;
    if (dtype_is_ofp8(a) && dtype_is_ofp8(b))
        return (a == DT_F8E4M3FN || b == DT_F8E4M3FN) &&
               (d == DT_F32 || dtype_is_half(d));
    if (a != b)
        return false;
    if (a == DT_S8)
        return d == DT_S32;
    if (dtype_is_half(a))
        return d == a || d == DT_F32;
    return (a == DT_F32 || a == DT_F64) && d == a;
}

static bool has_algorithm(const Instruction *dot)
{
    DType a = dot->operands[0]->shape->dtype;
    switch (inst_int(dot, ATTR_ALGORITHM, ALGORITHM_UNSET)) {
    case ALGORITHM_UNSET:
        return true;
    case ALGORITHM_ANY_F8_ANY_F8_F32:
    case ALGORITHM_ANY_F8_ANY_F8_F32_FAST_ACCUM:
        return dtype_is_ofp8(a);
    case ALGORITHM_F16_F16_F32:
        return a == DT_F16;
    case ALGORITHM_BF16_BF16_F32:
        return a == DT_BF16 || a == DT_F32;
    case ALGORITHM_TF32_TF32_F32:
    case ALGORITHM_F32_F32_F32:
        return a == DT_F32;
    case ALGORITHM_F64_F64_F64:
        return a == DT_F64;
    default:
        return false;
    }
}

bool matmul_target_has(const Instruction *dot, const Target *t)
{
    return !dtype_is_ofp8(dot->operands[0]->shape->dtype) ||
           target_has(t, FEATURE_FP8_CVT);
}

bool matmul_types_fit(const Instruction *dot)
{
    return has_types(dot) && has_algorithm(dot);
}

static bool is_possible(const Instruction *dot)
{
    MatmulShape s;
    return matmul_types_fit(dot) && matmul_shape(dot, &s) && s.batch <= INT32_MAX;
}

bool matmul_bias_fits(const Instruction *dot, const Instruction *broadcast)
{
    MatmulShape s;
    const Shape *result = dot->shape, *v = broadcast->operands[0]->shape;
    if (result->dtype == DT_F64 || matmul_is_8_bit(dot) || !matmul_shape(dot, &s) ||
        s.batch != 1)
        return false;
    Ints dims = inst_ints(broadcast, ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < dims.count; i++) {
        if (dims.data[i] != (int64_t)(result->rank - dims.count + i))
            return false;
    }
    return shape_elements(v) == s.n && shape_is_row_major(v);
}

bool matmul_activation_fits(const Instruction *dot)
{
    MatmulShape s;
    return dot->shape->dtype != DT_F64 && !matmul_is_8_bit(dot) &&
           matmul_shape(dot, &s) && s.batch == 1;
}

/* Lines of it begin at multiples of 8 elements. */
bool matmul_argument_fits(const Instruction *dot)
{
    MatmulShape s;
    return matmul_activation_fits(dot) && matmul_shape(dot, &s) && s.n % 8 == 0;
}

static bool has_dims_of(Ints a, Ints b)
{
    bool all = a.count == b.count;
    for (uint32_t i = 0; i < a.count; i++)
        all = all && ints_contain(b, a.data[i]);
    return all;
}

static const Instruction *behind_convert(const Instruction *x)
{
    return x->op == OP_CONVERT && dtype_is_float(x->operands[0]->shape->dtype)
               ? x->operands[0]
               : x;
}

/* The library adds up in f32 what the factor has: nothing may be rounded to another narrow type before. */
static bool adds_up(const Instruction *reduce, const Instruction *factor)
{
    DType t = reduce->shape->dtype;
    return reduce->op == OP_REDUCE && reduce->operand_count == 2 &&
           collective_reduction(inst_called(reduce, 0)) == OP_ADD &&
           inst_is_constant_scalar(reduce->operands[1], 0) &&
           (t == DT_F32 || t == factor->shape->dtype) &&
           (reduce->operands[0] == factor ||
            behind_convert(reduce->operands[0]) == factor);
}

/* Factors of f32 would be rounded before they are added up. */
bool matmul_sum_fits(const Instruction *dot, uint32_t side, const Instruction *factor,
                     const Instruction *sum, DType type)
{
    MatmulShape s;
    const Instruction *reduce = behind_convert(sum);
    if (!adds_up(reduce, factor))
        return false;
    Ints sums =
        inst_ints(dot, side == 0 ? ATTR_LHS_CONTRACTING_DIMS : ATTR_RHS_CONTRACTING_DIMS);
    return dtype_is_half(factor->shape->dtype) && sum->shape->dtype == type &&
           (type == DT_F32 || dtype_is_half(type)) && shape_is_row_major(sum->shape) &&
           has_dims_of(sums, inst_ints(reduce, ATTR_DIMENSIONS)) &&
           matmul_shape(dot, &s) && s.batch == 1;
}

static bool is_marked(const Instruction *inst)
{
    return config_is(inst, CONFIG_LIBRARY, library);
}

/* What a parameter of the fused computation stands for; NULL: it is none. */
static const Instruction *outside(const Instruction *fusion, const Instruction *inside)
{
    return inside->op == OP_PARAMETER ? fusion->operands[inside->parameter] : NULL;
}

/* A sum's other side. */
static bool take_added(const Instruction *fusion, const Instruction *x,
                       const Instruction **broadcast, MatmulCall *out)
{
    const Instruction **to = &out->addend;
    if (x->op == OP_BROADCAST) {
        to = &out->bias;
        *broadcast = x;
        x = x->operands[0];
    }
    if (*to != NULL)
        return false;
    *to = outside(fusion, x);
    return *to != NULL;
}

/* As the pass makes it: dumps may have been changed by hand. */
static bool may_add(const MatmulCall *call, const Instruction *broadcast)
{
    return (call->addend == NULL ||
            shape_layouts_equal(call->addend->shape, call->dot->shape)) &&
           (broadcast == NULL || (matmul_bias_fits(call->dot, broadcast) &&
                                  shape_is_row_major(call->bias->shape)));
}

MatmulScale matmul_scale_of(const Instruction *dot, const Instruction *x)
{
    MatmulShape s;
    if (x->op != OP_BROADCAST || x->shape->dtype != DT_F32)
        return MATMUL_NO_SCALE;
    const Shape *v = x->operands[0]->shape;
    if (v->rank == 0)
        return MATMUL_BY_NUMBER;
    if (!shape_is_row_major(v) || !matmul_shape(dot, &s) || s.batch != 1)
        return MATMUL_NO_SCALE;
    Ints dims = inst_ints(x, ATTR_DIMENSIONS);
    bool is_first = true, is_last = true; /* of the result's dimensions */
    for (uint32_t i = 0; i < dims.count; i++) {
        is_first &= dims.data[i] == (int64_t)i;
        is_last &= dims.data[i] == (int64_t)(x->shape->rank - dims.count + i);
    }
    if (is_last && shape_elements(v) == s.n)
        return MATMUL_BY_ROWS_OF_RHS;
    return is_first && shape_elements(v) == s.m ? MATMUL_BY_ROWS_OF_LHS : MATMUL_NO_SCALE;
}

enum { MOST_FACTORS = 4 };

/* A broadcast, or the product of two. */
static bool is_factor(const Instruction *x)
{
    return x->op == OP_BROADCAST ||
           (x->op == OP_MULTIPLY && x->operands[0]->op == OP_BROADCAST &&
            x->operands[1]->op == OP_BROADCAST);
}

/* What the dot is multiplied with becomes a scale, or part of alpha. */
static bool take_scale(const Instruction *fusion, const Instruction *broadcast,
                       MatmulCall *out)
{
    MatmulScale scale = matmul_scale_of(out->dot, broadcast);
    const Instruction *x = broadcast->operands[0];
    if (scale == MATMUL_BY_NUMBER && x->op == OP_CONSTANT) {
        out->alpha *= literal_double(x->literal, 0);
        return true;
    }
    bool is_by_rows = scale == MATMUL_BY_ROWS_OF_RHS || scale == MATMUL_BY_ROWS_OF_LHS;
    bool is_first = out->scales[0] == NULL && out->scales[1] == NULL;
    uint32_t i = is_by_rows ? scale == MATMUL_BY_ROWS_OF_LHS : out->scales[0] != NULL;
    if (scale == MATMUL_NO_SCALE || out->scales[i] != NULL ||
        (!is_first && is_by_rows != (out->scaling[0] == MATMUL_ROWS)))
        return false;
    out->scaling[0] = out->scaling[1] = is_by_rows ? MATMUL_ROWS : MATMUL_PRODUCT;
    out->scales[i] = outside(fusion, x);
    return out->scales[i] != NULL;
}

static bool take_factor(const Instruction *fusion, const Instruction *x, MatmulCall *out)
{
    return x->op == OP_BROADCAST ? take_scale(fusion, x, out)
                                 : take_scale(fusion, x->operands[0], out) &&
                                       take_scale(fusion, x->operands[1], out);
}

/* Of a dot of f8: times numbers or rows, rounded to 16 bits. */
static bool scaled_call(const Instruction *fusion, MatmulCall *out)
{
    const Instruction *x = inst_called(fusion, 0)->root, *factors[MOST_FACTORS];
    uint32_t count = 0;
    if (x->op == OP_CONVERT && dtype_is_half(x->shape->dtype))
        x = x->operands[0];
    while (x->op == OP_MULTIPLY && count < MOST_FACTORS) {
        bool is_first = is_factor(x->operands[0]);
        factors[count++] = x->operands[!is_first];
        x = x->operands[is_first];
        if (!is_factor(factors[count - 1]))
            return false;
    }
    if (x->op != OP_DOT || !is_marked(x) || x->shape->dtype != DT_F32 ||
        !dtype_is_ofp8(x->operands[0]->shape->dtype))
        return false;
    out->dot = x;
    out->lhs = outside(fusion, x->operands[0]);
    out->rhs = outside(fusion, x->operands[1]);
    for (uint32_t i = 0; i < count; i++) {
        if (!take_factor(fusion, factors[i], out))
            return false;
    }
    return out->lhs != NULL && out->rhs != NULL && shape_is_row_major(fusion->shape) &&
           (out->scaling[0] != MATMUL_ROWS ||
            (out->scales[0] != NULL && out->scales[1] != NULL));
}

/* An array of two dimensions, row-major, of f32. */
static bool is_scales(const Shape *s, int64_t rows, int64_t columns)
{
    return s->dtype == DT_F32 && s->rank == 2 && s->dims[0] == rows &&
           s->dims[1] == columns && shape_is_row_major(s);
}

static bool is_turned(const Instruction *x)
{
    Ints order = inst_ints(x, ATTR_DIMENSIONS);
    return x->op == OP_TRANSPOSE && order.count == 2 && order.data[0] == 1;
}

/* Scales of factor `i` of a scaled-dot, as the library wants them, brought into the order that the program has. */
static bool take_blocks(const Instruction *fusion, uint32_t i, MatmulCall *out)
{
    const Instruction *x = out->dot->operands[2 + i];
    const Shape *factor = out->dot->operands[i]->shape;
    int64_t rows = factor->dims[0], blocks = factor->dims[1] / MATMUL_BLOCK;
    const Instruction *stored = x->op == OP_PARAMETER ? x : x->operands[0];
    out->scales[!i] = outside(fusion, stored);
    if (out->scales[!i] == NULL)
        return false;
    const Shape *has = stored->shape;
    if (is_turned(x) && is_scales(x->shape, rows, blocks) &&
        is_scales(has, blocks, rows)) {
        out->scaling[!i] = MATMUL_PIECES;
        return true;
    }
    out->scaling[!i] = MATMUL_SQUARES;
    return rows % MATMUL_BLOCK == 0 && is_scales(x->shape, rows / MATMUL_BLOCK, blocks) &&
           is_scales(has, rows / MATMUL_BLOCK, matmul_padded_blocks(blocks)) &&
           (x == stored ||
            (x->op == OP_SLICE && slice_is_first(inst_attr(x, ATTR_SLICE)->slice)));
}

static bool has_rows_of_blocks(const Instruction *dot, uint32_t i)
{
    const Shape *s = dot->operands[i]->shape;
    Ints sums =
        inst_ints(dot, i == 0 ? ATTR_LHS_CONTRACTING_DIMS : ATTR_RHS_CONTRACTING_DIMS);
    return s->rank == 2 && dtype_is_ofp8(s->dtype) && sums.count == 1 &&
           sums.data[0] == 1 && s->dims[1] % MATMUL_BLOCK == 0;
}

/* Of a scaled-dot, rounded to 16 bits. */
static bool blocks_call(const Instruction *fusion, MatmulCall *out)
{
    const Instruction *x = inst_called(fusion, 0)->root;
    if (x->op == OP_CONVERT && dtype_is_half(x->shape->dtype))
        x = x->operands[0];
    if (x->op != OP_SCALED_DOT || !is_marked(x) || x->shape->dtype != DT_F32 ||
        !has_rows_of_blocks(x, 0) || !has_rows_of_blocks(x, 1))
        return false;
    out->dot = x;
    out->lhs = outside(fusion, x->operands[0]);
    out->rhs = outside(fusion, x->operands[1]);
    return out->lhs != NULL && out->rhs != NULL && take_blocks(fusion, 0, out) &&
           take_blocks(fusion, 1, out) &&
           (out->scaling[0] == MATMUL_PIECES || out->scaling[1] == MATMUL_PIECES) &&
           shape_is_row_major(fusion->shape);
}

/* What stands beside the first result. */
static bool take_second(const Instruction *root, const ActivationForm *form,
                        MatmulCall *out)
{
    if (root->op != OP_TUPLE)
        return true;
    if (root->operand_count != 2)
        return false;
    const Instruction *second = root->operands[1], *dot = out->dot;
    bool is_plain = form->activation == ACTIVATION_NONE && out->bias == NULL;
    if (form->activation == ACTIVATION_GELU && second == form->argument &&
        matmul_argument_fits(dot))
        out->second = MATMUL_ARGUMENT;
    else if (is_plain && matmul_sum_fits(dot, 0, dot->operands[0], second, out->type))
        out->second = MATMUL_SUMS_LHS;
    else if (is_plain && matmul_sum_fits(dot, 1, dot->operands[1], second, out->type))
        out->second = MATMUL_SUMS_RHS;
    return out->second != MATMUL_NO_SECOND;
}

static bool fusion_call(const Instruction *fusion, MatmulCall *out)
{
    const Instruction *root = inst_called(fusion, 0)->root, *broadcast = NULL;
    const Instruction *x = root->op == OP_TUPLE ? root->operands[0] : root;
    ActivationForm form = activation_of(x);
    out->activation = form.activation;
    if (form.activation != ACTIVATION_NONE)
        x = form.argument;
    while (x->op == OP_ADD) {
        uint32_t sum = x->operands[1]->op == OP_DOT || x->operands[1]->op == OP_ADD;
        if (!take_added(fusion, x->operands[!sum], &broadcast, out))
            return false;
        x = x->operands[sum];
    }
    if (x->op != OP_DOT || !is_marked(x))
        return false;
    out->dot = x;
    out->lhs = outside(fusion, x->operands[0]);
    out->rhs = outside(fusion, x->operands[1]);
    return out->lhs != NULL && out->rhs != NULL && may_add(out, broadcast) &&
           (out->activation == ACTIVATION_NONE || matmul_activation_fits(x)) &&
           shape_layouts_equal(shape_leaf(fusion->shape, 0), x->shape) &&
           take_second(root, &form, out);
}

/* A matrix, or a tuple of them. */
static bool has_results(const Shape *s)
{
    return shape_leaf_count(s) != 0 && shape_is_array(shape_leaf(s, 0));
}

bool matmul_call_of(const Instruction *inst, MatmulCall *out)
{
    if ((inst->op != OP_DOT && inst->op != OP_FUSION) || !is_marked(inst))
        return false;
    *out = (MatmulCall){.dot = inst, .alpha = 1};
    if (!has_results(inst->shape))
        return false;
    out->type = shape_leaf(inst->shape, 0)->dtype;
    if (inst->op == OP_FUSION && (scaled_call(inst, out) || blocks_call(inst, out)))
        return is_possible(out->dot);
    if (inst->op == OP_FUSION)
        return fusion_call(inst, out) && is_possible(out->dot) &&
               !matmul_is_8_bit(out->dot);
    out->lhs = inst->operands[0];
    out->rhs = inst->operands[1];
    return is_possible(inst);
}

bool matmul_is_library(const Instruction *inst)
{
    MatmulCall unused;
    return matmul_call_of(inst, &unused);
}

bool matmul_adds_in_place(const Instruction *inst, uint32_t operand)
{
    MatmulCall call;
    const Instruction *x = inst->operands[operand];
    return matmul_call_of(inst, &call) && call.addend == x && call.lhs != x &&
           call.rhs != x && call.bias != x;
}

void matmul_set_library(Instruction *inst)
{
    config_set_word(inst, CONFIG_LIBRARY, library);
}
