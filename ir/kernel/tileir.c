/* Tiles of kernels that CUDA Tile IR makes: larger ones than a lowering of our own has, for wgmma and tcgen05 read
 * factors from shared memory and tcgen05 keeps sums in memory of its own. */
#include "ir/kernel/attention.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"
#include "ir/tile/tile.h"

#define ROW_BYTES 128 /* of a factor's row in shared memory */
#define PERCENT 75    /* of the tensor cores' peak that wgmma and tcgen05 reach */
#define LEAST_DEPTH 16

/* Sums of a warp group's 128 threads in registers, f32, without spills: two groups have twice as many. */
#define GROUP_SUMS (128 * 128)

static const struct {
    int64_t m, n;
} shapes[] = {
    {128, 256}, {256, 128}, {128, 128}, {64, 256}, {256, 64}, {128, 64},
    {64, 128},  {64, 64},   {32, 128},  {128, 32}, {32, 64},  {64, 32},
    {32, 32},   {16, 64},   {64, 16},   {16, 32},  {32, 16},  {16, 16},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static size_t choose_shape(const KernelDesign *d)
{
    size_t best = 0;
    double best_cycles = 0;
    for (size_t i = 0; i < SHAPES; i++) {
        double cycles = tile_cycles(d, shapes[i].m, shapes[i].n, PERCENT);
        if (best_cycles == 0 || cycles < best_cycles) {
            best = i;
            best_cycles = cycles;
        }
    }
    return best;
}

/* 16-bit sums take as many registers as others. */
static uint32_t groups_for(const Target *t, int64_t sums)
{
    return target_has(t, FEATURE_WGMMA) && sums > GROUP_SUMS ? 8 : 0;
}

static TileProgram *product_program(const KernelDesign *d, Arena *a, uint32_t *warps,
                                    const char **why)
{
    const TilePlan *p = d->plan.tile;
    DType factor = p->factor != DT_INVALID
                       ? p->factor
                       : p->contraction->inst->operands[0]->shape->dtype;
    size_t shape = choose_shape(d);
    TileConfig c = {shapes[shape].m, shapes[shape].n, LEAST_DEPTH, p->factor};
    int64_t most = ROW_BYTES * 8 / dtype_info[factor].bits;
    while (c.k < most && c.k < p->contraction->depth)
        c.k *= 2;
    *warps = groups_for(d->target, c.m * c.n);
    return tile_build(a, d->fusion, &c, why);
}

static TileProgram *attention_program(const KernelDesign *d, Arena *a, uint32_t *warps,
                                      const char **why)
{
    const Attention *attention = d->plan.attention;
    TileConfig c = {128, 128, 0, DT_INVALID};
    while (c.m > 16 && c.m / 2 >= attention->q.dims[ATTENTION_PLACES])
        c.m /= 2;
    while (c.n > 16 && c.n / 2 >= attention->k.dims[ATTENTION_PLACES])
        c.n /= 2;
    *warps = 0;
    return tile_build_attention(a, d->fusion, attention, &c, why);
}

struct TileProgram *kernel_tileir_program(const KernelDesign *d, Arena *a,
                                          uint32_t *warps, const char **why)
{
    *why = "it is no program of tiles";
    if (!target_has(d->target, FEATURE_TILE_IR) ||
        !kernel_kind_is(d->kind, KERNEL_ON_TENSOR_CORES))
        return NULL;
    return kernel_kind_is(d->kind, KERNEL_CONTRACTS)
               ? product_program(d, a, warps, why)
               : attention_program(d, a, warps, why);
}
