/* Block-scaled arithmetic: the custom calls of ir/kernel/block_scaled.h become operations, and
 * their dots - as scaled-dots of the program do - either a call of cuBLASLt, on GPUs whose tensor
 * cores scale blocks themselves, or of cuDNN where only that may be used, or a scaled-dot, which is a kernel of our
 * own.
 *
 *   d = f32[100,256] __op$block_scaled_dot(l, r, ls, rs)       l: f8e4m3fn[100,64] ls: f8e8m0fnu[100,2]
 *   ->  lp = f8e4m3fn[128,128] pad(l, 0)     t = f8e8m0fnu[1,4,32,1,4] reshape(pad(ls, 0))
 *       lt = reshape(transpose(t, {0,3,2,1,4}))                and the same for r
 *       m = f32[128,256] __cublaslt$block_scaled_matmul(lp, rp, lt, rt)     d = slice(m)
 *
 * Padding multiplies zeros by the least scale, which is no NaN: it adds nothing. A dot of too few
 * tiles for the GPU is split along k, into sums of f32 that are added up.
 *
 * Tensor cores read no sign of f8e4m3fn scales. Where one is not known to have none, as what quantisation makes has
 * none, values take the signs of their block's scale first:
 *   lp = select(lp scale < 0, -lp, lp)     ls = abs(ls)
 *
 * Needs: nothing. Keeps: values, up to the order of sums. Ends: what a rule makes, no rule takes,
 * but for a scaled-dot that is split, which is marked. */
#include "passes/library/library.h"

#include <math.h>
#include <string.h>

#include "ir/base/divide.h"
#include "ir/kernel/block_scaled.h"
#include "ir/number/number.h"
#include "passes/library/scaled.h"
#include "passes/settings.h"
#include "passes/simplify/sign.h"

/* -- building ------------------------------------------------------------------------------------ */

/* [..., K] as [..., Ks, K / Ks]. */
static const Shape *blocked(Rewriter *r, const Shape *s, int64_t blocks, DType t)
{
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, (size_t)s->rank + 1);
    memcpy(dims, s->dims, s->rank * sizeof *dims);
    dims[s->rank - 1] = blocks;
    dims[s->rank] = blocks == 0 ? 1 : s->dims[s->rank - 1] / blocks;
    return rw_shape(r, t, s->rank + 1, dims);
}

/* A scale at each element of its block. */
static Instruction *spread(Rewriter *r, Instruction *scale, const Shape *to)
{
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, to->rank);
    for (uint32_t i = 0; i < to->rank; i++)
        dims[i] = i;
    return rw_broadcast(r, to, scale, to->rank - 1, dims);
}

/* -- quantize, dequantize --------------------------------------------------------------------------- */

static Instruction *largest_of_blocks(Rewriter *r, Instruction *x, const Shape *scales)
{
    DType t = x->shape->dtype;
    Computation *max = module_add_computation(r->m, "largest");
    const Shape *scalar = shape_scalar(r->m->intern, t);
    Instruction *pair[2] = {computation_add_parameter(max, 0, scalar, NULL),
                            computation_add_parameter(max, 1, scalar, NULL)};
    max->root = computation_add(max, OP_MAXIMUM, scalar, 2, pair, NULL);
    Instruction *reduce =
        rw_binary(r, OP_REDUCE, rw_shape(r, t, scales->rank, scales->dims),
                  rw_unary(r, OP_ABS, x->shape, x), rw_splat(r, scalar, 0));
    int64_t last = scales->rank;
    inst_set_ints(reduce, ATTR_DIMENSIONS, &last, 1);
    inst_set_computation(reduce, ATTR_TO_APPLY, max);
    return reduce;
}

/* scale = largest / the type's largest power of two; values / the scale as it was rounded. A
 * scale is the least positive number of its type at least: zeros give no 0 / 0. */
static Instruction *quantize(Rewriter *r, Instruction *inst)
{
    if (block_op(inst) != BLOCK_QUANTIZE)
        return NULL;
    Instruction *x = inst->operands[0];
    const Shape *values = inst->shape->elements[0], *scales = inst->shape->elements[1];
    DType t = x->shape->dtype == DT_F64 ? DT_F64 : DT_F32;
    const Shape *blocks = blocked(r, values, scales->dims[scales->rank - 1], t);
    x = rw_reshape(r, blocks, rw_in_type(r, x, t));
    double power = ldexp(1, ilogb(number_max_finite(values->dtype)));
    Instruction *scale = largest_of_blocks(r, x, scales);
    const Shape *wide = scale->shape;
    scale = rw_binary(r, OP_DIVIDE, wide, scale, rw_splat(r, wide, power));
    scale = rw_binary(r, OP_MAXIMUM, wide, scale,
                      rw_splat(r, wide, number_least_positive(scales->dtype)));
    scale = rw_convert(r, rw_shape(r, scales->dtype, scales->rank, scales->dims), scale);
    Instruction *q =
        rw_binary(r, OP_DIVIDE, blocks, x, spread(r, rw_convert(r, wide, scale), blocks));
    q = rw_reshape(r, values, rw_in_type(r, q, values->dtype));
    Instruction *results[2] = {q, rw_reshape(r, scales, scale)};
    return rw_add(r, OP_TUPLE, inst->shape, 2, results);
}

static Instruction *dequantize(Rewriter *r, Instruction *inst)
{
    if (block_op(inst) != BLOCK_DEQUANTIZE)
        return NULL;
    Instruction *q = inst->operands[0], *scale = inst->operands[1];
    DType t = inst->shape->dtype;
    const Shape *s = scale->shape;
    const Shape *blocks = blocked(r, q->shape, s->dims[s->rank - 1], t);
    q = rw_reshape(r, blocks, rw_in_type(r, q, t));
    Instruction *y =
        rw_binary(r, OP_MULTIPLY, blocks, q, spread(r, rw_in_type(r, scale, t), blocks));
    return rw_reshape(r, inst->shape, y);
}

/* -- dots by cuBLASLt --------------------------------------------------------------------------------- */

typedef struct Dot {
    Instruction *x[2], *scale[2], *factor; /* lhs, rhs; factor may be NULL */
    BlockScaledDot d;
} Dot;

static bool fits_library(const PassContext *cx, const Dot *dot, DType result)
{
    if (!cx->settings->cublaslt && cx->graphs == NULL)
        return false;
    const BlockScaledDot *d = &dot->d;
    int64_t work;
    bool is_large = __builtin_mul_overflow(d->m, d->n, &work) ||
                    __builtin_mul_overflow(work, d->k, &work) ||
                    __builtin_mul_overflow(work, d->batch, &work) ||
                    (work != 0 && work >= cx->settings->block_scaled_dot_work);
    return target_has(cx->target, FEATURE_BLOCK_SCALE) && d->has_rhs_scale && is_large &&
           d->batch <= INT32_MAX &&
           block_scaled_in_library(dot->x[0]->shape->dtype, dot->x[1]->shape->dtype,
                                   dot->scale[0]->shape->dtype,
                                   dot->scale[1]->shape->dtype, result, d->block);
}

/* [b, R, C] in tiles of 128 x 4: the rows of a tile are 4 groups of 32, of which each byte row
 * holds 4 scales of every group. */
static Instruction *swizzle(Rewriter *r, Instruction *scale)
{
    const Shape *s = scale->shape;
    uint32_t lead = s->rank - 2, n = lead + 5;
    int64_t tiles[6] = {0}, order[6];
    const int64_t rows = s->dims[lead], columns = s->dims[lead + 1];
    const int64_t inner[5] = {rows / SCALE_TILE_ROWS, 4, 32, columns / SCALE_TILE_COLUMNS,
                              SCALE_TILE_COLUMNS};
    static const int64_t inner_order[5] = {0, 3, 2, 1, 4};
    if (lead == 1)
        tiles[0] = s->dims[0];
    memcpy(tiles + lead, inner, sizeof inner);
    for (uint32_t i = 0; i < n; i++)
        order[i] = i < lead ? i : inner_order[i - lead] + lead;
    scale = rw_reshape(r, rw_shape(r, s->dtype, n, tiles), scale);
    scale = rw_in_order(r, scale, order);
    return rw_reshape(r, rw_shape(r, s->dtype, s->rank, s->dims), scale);
}

/* Alpha and beta of the library, which reads both from the same memory. */
static Instruction *factors(Rewriter *r, Instruction *factor)
{
    int64_t one = 1, two = 2, zero = 0;
    const Shape *part = rw_shape(r, DT_F32, 1, &one);
    Instruction *parts[2] = {rw_reshape(r, part, rw_in_type(r, factor, DT_F32)),
                             rw_splat(r, part, 0)};
    Instruction *both = rw_add(r, OP_CONCATENATE, rw_shape(r, DT_F32, 1, &two), 2, parts);
    inst_set_ints(both, ATTR_DIMENSIONS, &zero, 1);
    return both;
}

static void set_callee(Instruction *call, const char *callee)
{
    inst_set_bytes(call, ATTR_CUSTOM_CALL_TARGET, callee, strlen(callee));
}

/* cuDNN has kernels for the call on this GPU. */
static bool is_graph(const Rewriter *r, Instruction *call)
{
    bool possible = false;
    set_callee(call, BLOCK_SCALED_GRAPH);
    r->cx->graphs->ask(r->cx->graphs, r->cx->target, &call, 1, &possible);
    return possible;
}

/* x with the sign of each block's scale, [.., K] and [.., K / block]. */
static Instruction *take_signs(Rewriter *r, Instruction *x, Instruction *scale)
{
    const Shape *s = scale->shape, *whole = x->shape,
                *blocks = blocked(r, whole, s->dims[s->rank - 1], whole->dtype);
    Instruction *wide = rw_in_type(r, scale, DT_F32);
    Instruction *below = rw_compare(r, wide, rw_splat(r, wide->shape, 0), DIRECTION_LT);
    x = rw_reshape(r, blocks, x);
    Instruction *parts[3] = {
        spread(r, below, shape_with_dtype(r->m->intern, blocks, DT_PRED)),
        rw_unary(r, OP_NEGATE, blocks, x), x};
    return rw_reshape(r, whole, rw_add(r, OP_SELECT, blocks, 3, parts));
}

/* NULL: no library makes it. */
static Instruction *library_matmul(Rewriter *r, const Dot *dot, const Shape *result)
{
    if (!fits_library(r->cx, dot, result->dtype))
        return NULL;
    const BlockScaledDot *d = &dot->d;
    uint32_t lead = d->has_batch ? 1 : 0;
    int64_t columns = round_up(d->blocks, SCALE_TILE_COLUMNS);
    int64_t sizes[3] = {d->batch, 0, 0}, free_size[2] = {d->m, d->n};
    Instruction *operands[5];
    uint32_t signs = 0;
    for (int i = 0; i < 2; i++) {
        sizes[lead] = round_up(free_size[i], SCALE_TILE_ROWS);
        sizes[lead + 1] = columns * d->block;
        operands[i] = scaled_resize(r, dot->x[i], sizes);
        /* the program's own padding may hold NaN, which no zero undoes */
        sizes[lead + 1] = d->blocks;
        Instruction *scale = scaled_resize(r, dot->scale[i], sizes);
        sizes[lead + 1] = columns;
        scale = scaled_resize(r, scale, sizes);
        if (!value_is_not_negative(dot->scale[i])) {
            operands[i] = take_signs(r, operands[i], scale);
            scale = rw_unary(r, OP_ABS, scale->shape, scale);
            signs++;
        }
        operands[2 + i] = swizzle(r, scale);
    }
    uint32_t count = 4;
    if (dot->factor != NULL)
        operands[count++] = factors(r, dot->factor);
    sizes[lead] = round_up(d->m, SCALE_TILE_ROWS);
    sizes[lead + 1] = round_up(d->n, SCALE_TILE_ROWS);
    Instruction *call = rw_add(
        r, OP_CUSTOM_CALL, rw_shape(r, result->dtype, lead + 2, sizes), count, operands);
    if (r->cx->settings->cublaslt)
        set_callee(call, BLOCK_SCALED_MATMUL);
    else if (!is_graph(r, call))
        return NULL;
    r->cx->counts.block_scaled_matmuls++;
    r->cx->counts.block_scaled_signs += signs;
    sizes[lead] = d->m;
    sizes[lead + 1] = d->n;
    return rw_reshape(r, result, scaled_resize(r, call, sizes));
}

/* -- dots by our own kernel ----------------------------------------------------------------------------- */

static Instruction *scaled_dot(Rewriter *r, const Dot *dot, const Shape *result)
{
    const BlockScaledDot *d = &dot->d;
    uint32_t lead = d->has_batch ? 1 : 0;
    int64_t sizes[3] = {d->batch, 0, 0}, free_size[2] = {d->m, d->n}, batch = 0;
    Instruction *operands[4];
    /* one block may be much longer than what it scales */
    int64_t k = d->blocks == 1 ? d->k : d->blocks * d->block;
    for (int i = 0; i < 2; i++) {
        sizes[lead] = free_size[i];
        sizes[lead + 1] = k;
        operands[i] = scaled_resize(r, dot->x[i], sizes);
        sizes[lead + 1] = d->blocks;
        operands[2 + i] = dot->scale[i] != NULL
                              ? scaled_resize(r, dot->scale[i], sizes)
                              : rw_splat(r, shape_scalar(r->m->intern, DT_BF16), 1);
    }
    sizes[lead] = d->m;
    sizes[lead + 1] = d->n;
    DType t = dot->factor != NULL ? DT_F32 : result->dtype;
    Instruction *x =
        rw_add(r, OP_SCALED_DOT, rw_shape(r, t, lead + 2, sizes), 4, operands);
    int64_t contracted = lead + 1;
    inst_set_ints(x, ATTR_LHS_BATCH_DIMS, &batch, lead);
    inst_set_ints(x, ATTR_RHS_BATCH_DIMS, &batch, lead);
    inst_set_ints(x, ATTR_LHS_CONTRACTING_DIMS, &contracted, 1);
    inst_set_ints(x, ATTR_RHS_CONTRACTING_DIMS, &contracted, 1);
    if (dot->factor != NULL) {
        Instruction *factor = rw_in_type(r, dot->factor, DT_F32);
        x = rw_binary(r, OP_MULTIPLY, x->shape, x,
                      rw_broadcast(r, x->shape, factor, 0, NULL));
    }
    return rw_reshape(r, result, rw_in_type(r, x, result->dtype));
}

static Instruction *block_scaled_dot(Rewriter *r, Instruction *inst)
{
    if (block_op(inst) != BLOCK_DOT)
        return NULL;
    Dot dot = {.x = {inst->operands[0], inst->operands[1]}, .scale = {inst->operands[2]}};
    if (block_scaled_check(inst, r->scratch, &dot.d) != NULL)
        return NULL;
    if (dot.d.has_rhs_scale)
        dot.scale[1] = inst->operands[3];
    if (dot.d.has_factor)
        dot.factor = inst->operands[4];
    Instruction *call = library_matmul(r, &dot, inst->shape);
    return call != NULL ? call : scaled_dot(r, &dot, inst->shape);
}

/* -- scaled-dots of the program --------------------------------------------------------------------------- */

/* One side as the library wants it: [b?, rows, K], scales [b?, rows, K / block]. */
static bool is_plain_side(const Shape *x, const Shape *scale, Ints batch, Ints contracted,
                          int64_t *io_block)
{
    uint32_t last = x->rank - 1;
    if (x->rank < 2 || x->rank > 3 || scale->rank != x->rank ||
        batch.count != x->rank - 2 || contracted.data[0] != last ||
        (batch.count == 1 && batch.data[0] != 0) || scale->dims[last] == 0)
        return false;
    for (uint32_t i = 0; i < last; i++)
        if (x->dims[i] != scale->dims[i])
            return false;
    int64_t block = x->dims[last] / scale->dims[last];
    bool same = *io_block == 0 || *io_block == block;
    *io_block = block;
    return same;
}

static Instruction *library_scaled_dot(Rewriter *r, Instruction *inst)
{
    const Shape *s[4];
    for (int i = 0; i < 4; i++) {
        s[i] = inst->operands[i]->shape;
        if (!rw_is_static(s[i]))
            return NULL;
    }
    Dot dot = {.x = {inst->operands[0], inst->operands[1]},
               .scale = {inst->operands[2], inst->operands[3]}};
    BlockScaledDot *d = &dot.d;
    if (!is_plain_side(s[0], s[2], inst_ints(inst, ATTR_LHS_BATCH_DIMS),
                       inst_ints(inst, ATTR_LHS_CONTRACTING_DIMS), &d->block) ||
        !is_plain_side(s[1], s[3], inst_ints(inst, ATTR_RHS_BATCH_DIMS),
                       inst_ints(inst, ATTR_RHS_CONTRACTING_DIMS), &d->block))
        return NULL;
    uint32_t last = s[0]->rank - 1;
    d->has_batch = last == 2;
    d->batch = d->has_batch ? s[0]->dims[0] : 1;
    d->m = s[0]->dims[last - 1];
    d->n = s[1]->dims[last - 1];
    d->k = s[0]->dims[last];
    d->blocks = s[2]->dims[last];
    d->has_rhs_scale = true;
    return library_matmul(r, &dot, inst->shape);
}

static const Rule rules_block_scaled[] = {
    {OP_CUSTOM_CALL, "quantize", quantize},
    {OP_CUSTOM_CALL, "dequantize", dequantize},
    {OP_CUSTOM_CALL, "block_scaled_dot", block_scaled_dot},
    {OP_SCALED_DOT, "library_scaled_dot", library_scaled_dot},
    {OP_SCALED_DOT, "split_scaled_dot", split_scaled_dot},
    {0},
};

bool pass_block_scaled(Module *m, PassContext *cx)
{
    static const Rule *const tables[] = {rules_block_scaled};
    bool changed = rewrite_all(m, cx, tables, sizeof tables / sizeof *tables);
    if (changed)
        module_sort(m);
    return changed;
}
