/* See block_scaled.h. */
#include "ir/kernel/block_scaled.h"

#include "ir/attribute/config.h"
#include "ir/custom_call/custom_call.h"

BlockOp block_op(const Instruction *inst)
{
    static const struct {
        const char *target;
        BlockOp op;
    } targets[] = {
        {"__op$quantize", BLOCK_QUANTIZE},    {"__op$dequantize", BLOCK_DEQUANTIZE},
        {"__op$block_scaled_dot", BLOCK_DOT}, {BLOCK_SCALED_MATMUL, BLOCK_MATMUL},
        {BLOCK_SCALED_GRAPH, BLOCK_MATMUL},
    };
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (custom_call_has_target(inst, targets[i].target))
            return targets[i].op;
    return BLOCK_NONE;
}

bool block_scaled_is_graph(const Instruction *inst)
{
    return custom_call_has_target(inst, BLOCK_SCALED_GRAPH);
}

/* -- checks ---------------------------------------------------------------------------------- */

static const char *text_of(Arena *a, const Shape *s)
{
    return shape_text(a, s, false);
}

static bool is_float_array(const Shape *s)
{
    return shape_is_array(s) && !shape_is_dynamic(s) && dtype_is_float(s->dtype);
}

/* Values and scales: sizes are equal but the last, which is a multiple. */
static const char *check_scaled(Arena *a, const char *what, const Shape *x,
                                const Shape *scale)
{
    bool fits = x->rank == scale->rank && x->rank != 0;
    for (uint32_t i = 0; fits && i + 1 < x->rank; i++)
        fits = x->dims[i] == scale->dims[i];
    if (!fits)
        return arena_printf(
            a, "%s %s needs scales of the same dimensions but the last, found %s", what,
            text_of(a, x), text_of(a, scale));
    int64_t k = x->dims[x->rank - 1], n = scale->dims[x->rank - 1];
    if (n == 0 ? k != 0 : k % n != 0)
        return arena_printf(a,
                            "the %lld scales %s do not divide the last dimension of %s",
                            (long long)n, text_of(a, scale), text_of(a, x));
    return NULL;
}

static const char *check_quantize(const Instruction *inst, Arena *a)
{
    const Shape *s = inst->shape;
    if (inst->operand_count != 1 || !is_float_array(inst->operands[0]->shape))
        return arena_printf(
            a, "__op$quantize expects 1 operand, an array of floats, found %u",
            inst->operand_count);
    if (!shape_is_tuple(s) || s->rank != 2 || !is_float_array(s->elements[0]) ||
        !is_float_array(s->elements[1]))
        return arena_printf(
            a,
            "__op$quantize expects a result of two arrays of floats, values "
            "and scales, found %s",
            text_of(a, s));
    const Shape *x = inst->operands[0]->shape, *q = s->elements[0];
    bool same = q->rank == x->rank;
    for (uint32_t i = 0; same && i < x->rank; i++)
        same = q->dims[i] == x->dims[i];
    if (!same)
        return arena_printf(
            a, "__op$quantize of %s expects values of its dimensions, found %s",
            text_of(a, x), text_of(a, q));
    return check_scaled(a, "__op$quantize:", q, s->elements[1]);
}

static const char *check_dequantize(const Instruction *inst, Arena *a)
{
    if (inst->operand_count != 2 || !is_float_array(inst->operands[0]->shape) ||
        !is_float_array(inst->operands[1]->shape) || !is_float_array(inst->shape))
        return arena_printf(a,
                            "__op$dequantize expects 2 operands, values and scales, and "
                            "a result, arrays of "
                            "floats, found %u operands and %s",
                            inst->operand_count, text_of(a, inst->shape));
    const Shape *q = inst->operands[0]->shape, *s = inst->shape;
    bool same = q->rank == s->rank;
    for (uint32_t i = 0; same && i < s->rank; i++)
        same = q->dims[i] == s->dims[i];
    if (!same)
        return arena_printf(
            a, "__op$dequantize of %s expects a result of its dimensions, found %s",
            text_of(a, q), text_of(a, s));
    return check_scaled(a, "__op$dequantize:", q, inst->operands[1]->shape);
}

/* Elements of a block as the backend_config has them; 0: it does not say. */
static int64_t configured_block(const Instruction *inst)
{
    int64_t block = config_int(inst, CONFIG_BLOCK_SIZE, 0);
    return block < 0 || block > INT32_MAX ? 0 : block;
}

/* Scales of one side: [b?, rows', Ks]. Sets *io_block, or compares with it. */
static const char *check_side(const Instruction *inst, Arena *a, const char *what,
                              const Shape *x, const Shape *scale, int64_t *io_block)
{
    uint32_t last = x->rank - 1;
    if (scale->rank != x->rank || !is_float_array(scale) ||
        (x->rank == 3 && scale->dims[0] != x->dims[0]))
        return arena_printf(a,
                            "the scales of %s %s must be floats with as many dimensions "
                            "and the same batch, found %s",
                            what, text_of(a, x), text_of(a, scale));
    int64_t k = x->dims[last], columns = scale->dims[last],
            block = configured_block(inst);
    bool is_padded =
        scale->dims[last - 1] != x->dims[last - 1] || columns == 0 || k % columns != 0;
    if (block == 0 && is_padded)
        return arena_printf(
            a,
            "the scales %s of %s %s do not divide it evenly; padded scales "
            "need block_size in the backend_config",
            text_of(a, scale), what, text_of(a, x));
    if (block == 0)
        block = k / columns;
    int64_t covered;
    if (scale->dims[last - 1] < x->dims[last - 1] ||
        (!__builtin_mul_overflow(columns, block, &covered) && covered < k))
        return arena_printf(
            a, "the scales %s are too few for %s %s with blocks of %lld elements",
            text_of(a, scale), what, text_of(a, x), (long long)block);
    if (*io_block != 0 && *io_block != block)
        return arena_printf(
            a,
            "the blocks of both sides must have the same size, found %lld "
            "elements in lhs and %lld in rhs",
            (long long)*io_block, (long long)block);
    *io_block = block;
    return NULL;
}

static const char *check_arrays(const Instruction *inst, Arena *a)
{
    uint32_t n = inst->operand_count;
    if (n < 3 || n > 5)
        return arena_printf(
            a,
            "expects 3 to 5 operands, lhs, rhs, lhs_scale, rhs_scale and a "
            "factor, found %u",
            n);
    const Shape *l = inst->operands[0]->shape, *r = inst->operands[1]->shape;
    const Shape *s = inst->shape;
    if (!is_float_array(l) || !is_float_array(r) || (l->rank != 2 && l->rank != 3) ||
        r->rank != l->rank)
        return arena_printf(a,
                            "lhs and rhs must be arrays of floats of rank 2, or both 3, "
                            "found %s and %s",
                            text_of(a, l), text_of(a, r));
    uint32_t last = l->rank - 1;
    if (l->dims[last] != r->dims[last] || (last == 2 && l->dims[0] != r->dims[0]))
        return arena_printf(
            a,
            "lhs %s and rhs %s must agree in the last dimension, which is "
            "contracted, and in the batch",
            text_of(a, l), text_of(a, r));
    bool fits = is_float_array(s) && s->rank == l->rank &&
                s->dims[last - 1] == l->dims[last - 1] &&
                s->dims[last] == r->dims[last - 1] &&
                (last == 1 || s->dims[0] == l->dims[0]);
    if (!fits || (s->dtype != DT_F32 && !dtype_is_half(s->dtype)))
        return arena_printf(
            a,
            "expects a result of f32, bf16 or f16 with the free dimensions of "
            "lhs %s and rhs %s, found %s",
            text_of(a, l), text_of(a, r), text_of(a, s));
    return NULL;
}

static const char *check_dot(const Instruction *inst, Arena *a, BlockScaledDot *d)
{
    const char *error = check_arrays(inst, a);
    if (error != NULL)
        return error;
    const Shape *l = inst->operands[0]->shape, *r = inst->operands[1]->shape;
    uint32_t last = l->rank - 1, n = inst->operand_count;
    *d = (BlockScaledDot){.has_batch = last == 2,
                          .batch = last == 2 ? l->dims[0] : 1,
                          .m = l->dims[last - 1],
                          .n = r->dims[last - 1],
                          .k = l->dims[last],
                          .has_rhs_scale = n >= 4,
                          .has_factor = n == 5};
    if (d->k == 0)
        return arena_printf(a, "the contracted dimension of %s is empty", text_of(a, l));
    error = check_side(inst, a, "lhs", l, inst->operands[2]->shape, &d->block);
    if (error == NULL && d->has_rhs_scale)
        error = check_side(inst, a, "rhs", r, inst->operands[3]->shape, &d->block);
    d->blocks = d->block == 0 ? 0 : (d->k - 1) / d->block + 1;
    return error;
}

static const char *check_factor(const Instruction *inst, Arena *a)
{
    const Shape *s = inst->operands[4]->shape;
    if (shape_is_scalar(s) && s->dtype == inst->shape->dtype)
        return NULL;
    return arena_printf(
        a,
        "the factor, operand 4, must be a scalar of the result's type %s, "
        "found %s",
        dtype_name(inst->shape->dtype), text_of(a, s));
}

static const char *check_matmul(const Instruction *inst, Arena *a,
                                const BlockScaledDot *d)
{
    const Shape *s[5];
    for (uint32_t i = 0; i < inst->operand_count; i++)
        s[i] = inst->operands[i]->shape;
    if (inst->operand_count < 4 ||
        !block_scaled_in_library(s[0]->dtype, s[1]->dtype, s[2]->dtype, s[3]->dtype,
                                 inst->shape->dtype, d->block))
        return block_scaled_is_graph(inst)
                   ? "cuDNN has no block-scaled product of these types"
                   : "cuBLASLt has no block-scaled product of these types";
    uint32_t row = s[0]->rank - 2, column = row + 1;
    if (d->m % SCALE_TILE_ROWS != 0 || d->n % SCALE_TILE_ROWS != 0 ||
        d->k != s[2]->dims[column] * d->block || d->blocks % SCALE_TILE_COLUMNS != 0 ||
        s[2]->dims[row] != d->m || s[3]->dims[row] != d->n)
        return arena_printf(
            a, "sizes must be padded to tiles of 128 rows and 4 scales, found %s and %s",
            text_of(a, s[2]), text_of(a, s[3]));
    if (d->has_factor && (s[4]->dtype != DT_F32 || s[4]->rank != 1 || s[4]->dims[0] != 2))
        return arena_printf(a, "alpha and beta must be f32[2], found %s",
                            text_of(a, s[4]));
    return NULL;
}

static const char *check(const Instruction *inst, Arena *a, bool with_scales,
                         BlockScaledDot *d)
{
    const char *error = NULL;
    switch (block_op(inst)) {
    case BLOCK_NONE:
        return NULL;
    case BLOCK_QUANTIZE:
        return check_quantize(inst, a);
    case BLOCK_DEQUANTIZE:
        return check_dequantize(inst, a);
    case BLOCK_DOT:
        error = check_arrays(inst, a);
        if (error == NULL && inst->operand_count == 5)
            error = check_factor(inst, a);
        if (error == NULL && with_scales)
            error = check_dot(inst, a, d);
        return error;
    case BLOCK_MATMUL:
        error = check_dot(inst, a, d);
        return error != NULL ? error : check_matmul(inst, a, d);
    }
    return NULL;
}

const char *block_scaled_verify(const Instruction *inst, Arena *a)
{
    BlockScaledDot d = {0};
    return check(inst, a, false, &d);
}

const char *block_scaled_check(const Instruction *inst, Arena *a, BlockScaledDot *out)
{
    *out = (BlockScaledDot){0};
    return check(inst, a, true, out);
}

/* -- facts ----------------------------------------------------------------------------------- */

bool block_scaled_in_library(DType lhs, DType rhs, DType lhs_scale, DType rhs_scale,
                             DType result, int64_t block)
{
    if (result != DT_F32 && !dtype_is_half(result))
        return false;
    if (lhs == DT_F4E2M1FN && rhs == DT_F4E2M1FN)
        return block == 16 && lhs_scale == DT_F8E4M3FN && rhs_scale == DT_F8E4M3FN;
    return dtype_is_ofp8(lhs) && dtype_is_ofp8(rhs) &&
           (lhs != DT_F8E5M2 || rhs != DT_F8E5M2) && block == 32 &&
           lhs_scale == DT_F8E8M0FNU && rhs_scale == DT_F8E8M0FNU;
}

int64_t block_scaled_offset(int64_t columns, int64_t row, int64_t column)
{
    int64_t tile = row / SCALE_TILE_ROWS * (columns / SCALE_TILE_COLUMNS) +
                   column / SCALE_TILE_COLUMNS;
    return tile * SCALE_TILE_ROWS * SCALE_TILE_COLUMNS + row % 32 * 16 +
           row % SCALE_TILE_ROWS / 32 * 4 + column % SCALE_TILE_COLUMNS;
}
