/* A scaled-dot with few tiles and long sums is cut along k, so that all of the GPU has work.
 *
 *   d = bf16[64,64] scaled-dot(l, r, ls, rs)                        l: [64,8192], ls: [64,256]
 *   ->  s = f32[16,64,64] scaled-dot(reshape(l), ...), lhs_batch_dims={1}     l: [64,16,512]
 *       d = convert(reduce(s, dimensions={0}, add))                           ls: [64,16,16]
 *
 * The blocks are cut, not elements: their number is padded to a multiple of the pieces, the
 * operands with zeros. The pieces' number stands in backend_config={"split_k":"16"}, which keeps
 * the rule from splitting again. */
#include <string.h>

#include "ir/attribute/config.h"
#include "passes/library/scaled.h"
#include "passes/settings.h"

enum { TILE = 64, LEAST_K = 256 }; /* of our kernel; of a piece */

typedef struct Side {
    Instruction *x, *scale; /* scale of rank 0: none */
    uint32_t k;             /* dimension */
    Ints batch;
    int64_t blocks; /* 0: not scaled along k */
} Side;

static Side side_of(const Instruction *inst, int i)
{
    Ints contracted =
        inst_ints(inst, i == 0 ? ATTR_LHS_CONTRACTING_DIMS : ATTR_RHS_CONTRACTING_DIMS);
    Side s = {.x = inst->operands[i],
              .scale = inst->operands[2 + i],
              .k = (uint32_t)contracted.data[0],
              .batch =
                  inst_ints(inst, i == 0 ? ATTR_LHS_BATCH_DIMS : ATTR_RHS_BATCH_DIMS)};
    s.blocks = s.scale->shape->rank == 0 ? 0 : s.scale->shape->dims[s.k];
    return s;
}

/* Blocks of the kernel that would make the dot. */
static int64_t tile_count(const Side *l, const Side *r)
{
    int64_t tiles = 1;
    const Side *sides[2] = {l, r};
    for (int i = 0; i < 2; i++) {
        const Shape *s = sides[i]->x->shape;
        int64_t size = 1, batch = 1;
        for (uint32_t d = 0; d < s->rank; d++)
            size = d == sides[i]->k ? size : size * s->dims[d];
        for (uint32_t d = 0; d < sides[i]->batch.count; d++)
            batch *= s->dims[sides[i]->batch.data[d]];
        if (size == 0)
            return 0;
        tiles *= (size / batch + TILE - 1) / TILE * (i == 0 ? batch : 1);
    }
    return tiles;
}

/* 1: none. */
static int64_t pieces_wanted(const Rewriter *r, const Side *lhs, const Side *rhs)
{
    int64_t wanted = r->cx->settings->scaled_dot_split_k;
    if (wanted != 0)
        return wanted;
    int64_t tiles = tile_count(lhs, rhs), k = lhs->x->shape->dims[lhs->k], pieces = 1;
    int64_t multiprocessors = (int64_t)r->cx->target->device->multiprocessors;
    while (tiles != 0 && tiles * pieces * 2 <= multiprocessors &&
           k / (pieces * 2) >= LEAST_K)
        pieces *= 2;
    return pieces;
}

/* Dimension k as two, `pieces` times the rest. */
static Instruction *cut(Rewriter *r, Instruction *x, uint32_t k, int64_t size,
                        int64_t pieces)
{
    const Shape *s = x->shape;
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, (size_t)s->rank + 1);
    memcpy(sizes, s->dims, s->rank * sizeof *sizes);
    sizes[k] = size;
    x = scaled_resize(r, x, sizes);
    memmove(sizes + k + 1, sizes + k, (s->rank - k) * sizeof *sizes);
    sizes[k] = pieces;
    sizes[k + 1] = size / pieces;
    return rw_reshape(r, rw_shape(r, s->dtype, s->rank + 1, sizes), x);
}

static void set_dims(Rewriter *r, Instruction *dot, const Side *s, bool is_lhs)
{
    uint32_t n = s->batch.count;
    int64_t *batch = ARENA_ARRAY(r->scratch, int64_t, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++)
        batch[i] = s->batch.data[i] + (s->batch.data[i] > s->k);
    batch[n] = s->k;
    int64_t k = (int64_t)s->k + 1;
    inst_set_ints(dot, is_lhs ? ATTR_LHS_BATCH_DIMS : ATTR_RHS_BATCH_DIMS, batch, n + 1);
    inst_set_ints(dot, is_lhs ? ATTR_LHS_CONTRACTING_DIMS : ATTR_RHS_CONTRACTING_DIMS, &k,
                  1);
}

static Instruction *sum_pieces(Rewriter *r, Instruction *dot, int64_t dimension,
                               const Shape *result)
{
    DType t = dot->shape->dtype;
    Instruction *sum =
        rw_sum(r, rw_shape(r, t, result->rank, result->dims), dot, 1, &dimension);
    sum = rw_convert(r, rw_shape(r, result->dtype, result->rank, result->dims), sum);
    return rw_reshape(r, result, sum);
}

Instruction *split_scaled_dot(Rewriter *r, Instruction *inst)
{
    for (int i = 0; i < 4; i++)
        if (!rw_is_static(inst->operands[i]->shape))
            return NULL;
    Side sides[2] = {side_of(inst, 0), side_of(inst, 1)};
    const Side *main = sides[0].blocks != 0 ? &sides[0] : &sides[1];
    int64_t pieces = pieces_wanted(r, &sides[0], &sides[1]);
    if (config_has(inst, CONFIG_SPLIT_K) || pieces < 2 || main->blocks < pieces)
        return NULL;
    int64_t k = main->x->shape->dims[main->k], blocks = main->blocks;
    int64_t padded_blocks = (blocks + pieces - 1) / pieces * pieces;
    int64_t padded = padded_blocks * (k / blocks);
    int64_t scales[2]; /* of each side along k, padding included */
    for (int i = 0; i < 2; i++) {
        int64_t block = sides[i].blocks == 0 ? padded / pieces : k / sides[i].blocks;
        scales[i] = block == 0 ? 0 : padded / block;
        if (block == 0 || padded % block != 0 || scales[i] % pieces != 0)
            return NULL; /* the other side's blocks would be cut */
    }
    Instruction *operands[4];
    for (int i = 0; i < 2; i++) {
        const Side *s = &sides[i];
        operands[i] = cut(r, s->x, s->k, padded, pieces);
        operands[2 + i] =
            s->blocks == 0 ? s->scale : cut(r, s->scale, s->k, scales[i], pieces);
    }
    const Shape *result = inst->shape;
    int64_t at = sides[0].batch.count;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, (size_t)result->rank + 1);
    memcpy(dims, result->dims, (size_t)at * sizeof *dims);
    dims[at] = pieces;
    memcpy(dims + at + 1, result->dims + at, (result->rank - (size_t)at) * sizeof *dims);
    DType t = result->dtype == DT_F64 ? DT_F64 : DT_F32;
    Instruction *dot =
        rw_like(r, inst, rw_shape(r, t, result->rank + 1, dims), 4, operands);
    set_dims(r, dot, &sides[0], true);
    set_dims(r, dot, &sides[1], false);
    config_set_int(dot, CONFIG_SPLIT_K, pieces);
    r->cx->counts.scaled_dots_split++;
    return sum_pieces(r, dot, at, result);
}
