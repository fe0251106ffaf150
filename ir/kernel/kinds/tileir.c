/* Tiles of kernels that CUDA Tile IR makes: larger ones than a lowering of our own has, for wgmma and tcgen05 read
 * factors from shared memory and tcgen05 keeps sums in memory of its own. */
#include "ir/kernel/attention/attention.h"
#include "ir/kernel/dot_chain.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"
#include "ir/kernel/time/costs.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/tile/tile.h"
#include "ir/tile/view.h"

#define ROW_BYTES 128 /* of a factor's row in shared memory */
/* nvdisasm of what tileiras 13.5 makes of tiles of 16 to 128 rows */
#define ASYNC_ROWS 64
#define LEAST_DEPTH 16
#define LEAST_TILE                                                                       \
    4096 /* elements: smaller ones reach too little, however they are read */
#define MANY_WARPS 8
/* Sums come from tensor memory a row to a thread, which has no registers for more beside what is made of them. */
#define MANY_COLUMNS 128
#define PIECE_COLUMNS 64
#define WARP_SUMS 4096 /* in a warp's registers, f32, without spills */

/* Two blocks of a cluster, each with half of the rows and of the columns in its shared memory, multiply all rows by all
 * columns (tcgen05.mma with cta_group::2): they read as much through L2 as one with twice the tile would, whose sums no
 * thread could store without spilling. */
static const struct {
    int64_t m, n;
    uint32_t blocks;
} shapes[] = {
    {256, 256, 2}, {128, 256, 1}, {256, 128, 1}, {128, 128, 1}, {64, 256, 1},
    {256, 64, 1},  {128, 64, 1},  {64, 128, 1},  {64, 64, 1},   {32, 128, 1},
    {128, 32, 1},  {32, 64, 1},   {64, 32, 1},   {32, 32, 1},   {16, 64, 1},
    {64, 16, 1},   {16, 32, 1},   {32, 16, 1},   {16, 16, 1},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static DType factor_type(const TilePlan *p)
{
    return p->factor != DT_INVALID ? p->factor
                                   : p->contraction->inst->operands[0]->shape->dtype;
}

/* Registers of the sums of a tile, in f32. On Hopper sums of 8-bit floats are short, and added to others in steps. */
static int64_t sum_registers(const KernelDesign *d, int64_t m, int64_t n)
{
    const TilePlan *p = d->plan.tile;
    DType factor = factor_type(p);
    bool is_short = dtype_info[factor].class == DTC_FLOAT &&
                    dtype_info[factor].bits == 8 && target_has(d->target, FEATURE_WGMMA);
    return m * n * (p->contraction->type == DT_F64 || is_short ? 2 : 1);
}

/* How many warps shall multiply; 0: as many as the assembler likes, which is four. Tensor memory has room for the sums
 * of any tile; where registers hold them, fragments of factors take room, too, unless wgmma reads them from
 * shared memory. */
static uint32_t warps_for(const Target *t, int64_t registers)
{
    int64_t few = WARP_SUMS * MANY_WARPS / 2;
    if (target_has(t, FEATURE_TCGEN05))
        return 0;
    return registers > few || (registers == few && !target_has(t, FEATURE_WGMMA))
               ? MANY_WARPS
               : 0;
}

bool product_is_async(const Target *t, int64_t rows, DType factor)
{
    bool has_async = target_has(t, FEATURE_WGMMA) || target_has(t, FEATURE_TCGEN05);
    return has_async && rows >= ASYNC_ROWS && factor != DT_F64;
}

double product_percent(const Target *t, int64_t rows, DType factor)
{
    const GpuRates *r = gpu_rates(t->device);
    return product_is_async(t, rows, factor)
               ? r->async_mma * costs.tileir_async_fraction
               : product_mma_percent(r, factor) * costs.tileir_fraction;
}

/* Sums of a tile at most: with addresses for rows in groups tileiras 13.5 fails on sm_90 if many warps multiply. */
static int64_t most_registers(const KernelDesign *d)
{
    bool is_ragged = d->plan.tile->contraction->ragged.mode != RAGGED_NONE;
    if (target_has(d->target, FEATURE_TCGEN05))
        return INT64_MAX;
    return is_ragged ? WARP_SUMS * MANY_WARPS / 2 : WARP_SUMS * MANY_WARPS;
}

/* The fastest of those that are not left out (bits). SHAPES: there is none. */
static size_t choose_shape(const KernelDesign *d, uint32_t left_out)
{
    size_t best = SHAPES;
    double best_cycles = 0;
    for (size_t i = 0; i < SHAPES; i++) {
        uint32_t blocks = shapes[i].blocks;
        if ((left_out >> i & 1) != 0 ||
            sum_registers(d, shapes[i].m, shapes[i].n) > most_registers(d) ||
            (blocks > 1 && !target_has(d->target, FEATURE_TCGEN05)))
            continue;
        double percent =
            product_percent(d->target, shapes[i].m, factor_type(d->plan.tile));
        double cycles = tile_cycles(d, shapes[i].m, shapes[i].n, blocks, percent);
        if (best_cycles == 0 || cycles < best_cycles) {
            best = i;
            best_cycles = cycles;
        }
    }
    return best;
}

static TileConfig product_config(const KernelDesign *d, size_t shape, TileIrHints *hints)
{
    const TilePlan *p = d->plan.tile;
    TileConfig c = {shapes[shape].m, shapes[shape].n, LEAST_DEPTH, p->factor, false};
    int64_t most = ROW_BYTES * 8 / dtype_info[factor_type(p)].bits;
    while (c.k < most && c.k < p->contraction->depth)
        c.k *= 2;
    hints->warps = warps_for(d->target, sum_registers(d, c.m, c.n));
    hints->blocks = shapes[shape].blocks;
    if (target_has(d->target, FEATURE_TCGEN05) && c.n > MANY_COLUMNS)
        hints->columns = PIECE_COLUMNS;
    return c;
}

/* Loads of tiles by an address for each element, which a thread has in registers. */
static bool loads_by_addresses(const TileProgram *p, const TileBlock *block)
{
    TileView view;
    for (uint32_t i = 0; i < block->count; i++) {
        const TileOp *op = block->ops[i];
        if ((op->kind == TILE_LOAD && op->dims != 0 && !tile_view(p, op, &view)) ||
            (op->kind == TILE_LOOP && loads_by_addresses(p, &op->body)))
            return true;
    }
    return false;
}

/* Rather than by addresses of elements factors are read by tiles of their arrays, of which there may be none for large
 * ones: 64 of the 3,136 positions of an image are, 128 are not. */
static TileProgram *product_program(const KernelDesign *d, Arena *a, TileIrHints *hints,
                                    const char **why)
{
    TileProgram *first = NULL;
    TileIrHints of_first = *hints;
    uint32_t left_out = 0;
    for (size_t shape; (shape = choose_shape(d, left_out)) != SHAPES;
         left_out |= UINT32_C(1) << shape) {
        TileIrHints tried = *hints;
        TileConfig *c = ARENA_NEW(a, TileConfig);
        *c = product_config(d, shape, &tried);
        tried.tile = c;
        TileProgram *p = tile_build(a, d->fusion, c, why);
        if (p != NULL && !loads_by_addresses(p, &p->body)) {
            *hints = tried;
            return p;
        }
        if (left_out == 0) {
            first = p;
            of_first = tried;
        }
        if (p == NULL || c->m * c->n <= LEAST_TILE)
            break;
    }
    *hints = of_first;
    return first;
}

struct TileProgram *kernel_tileir_piece(const KernelDesign *d, Arena *a,
                                        const TileIrHints *hints)
{
    if (hints->columns == 0)
        return NULL;
    const char *why;
    TileConfig c = *hints->tile;
    c.n = hints->columns;
    return tile_build(a, d->fusion, &c, &why);
}

/* Scores and sums are in registers together. */
static TileProgram *attention_program(const KernelDesign *d, Arena *a, TileIrHints *hints,
                                      const char **why)
{
    enum { FEW_DEPTH = 128 };
    const Attention *attention = d->plan.attention;
    bool reads_shared =
        target_has(d->target, FEATURE_WGMMA) || target_has(d->target, FEATURE_TCGEN05);
    int64_t depth = attention->v.dims[ATTENTION_DEPTH];
    TileConfig c = {128, reads_shared ? 128 : 64, 0, DT_INVALID, false};
    if (depth > FEW_DEPTH)
        c.n /= 2;
    while (c.m > 16 && c.m / 2 >= attention->q.dims[ATTENTION_POSITIONS])
        c.m /= 2;
    while (c.n > 16 && c.n / 2 >= attention->k.dims[ATTENTION_POSITIONS])
        c.n /= 2;
    bool is_large = c.m >= 128 && !target_has(d->target, FEATURE_TCGEN05);
    hints->warps = is_large ? MANY_WARPS : 0;
    return tile_build_attention(a, d->fusion, attention, &c, why);
}

/* Inner results and sums are in registers together: of 128 x 64 of two inner dots and two times 128 x 128 sums each of
 * 256 threads has 192. */
static TileProgram *chain_program(const KernelDesign *d, Arena *a, TileIrHints *hints,
                                  const char **why)
{
    const DotChain *chain = d->plan.chain;
    const int64_t *sides = dot_sizes(chain->dots[0]).sides;
    int64_t columns = dot_sizes(chain->dots[0]).depth, rows = sides[chain->weights[0]];
    TileConfig c = {128, 64, 0, DT_INVALID, false};
    while (c.m > 16 && c.m / 2 >= rows)
        c.m /= 2;
    while (c.n > 16 && c.n / 2 >= columns)
        c.n /= 2;
    hints->warps = c.m >= 128 && !target_has(d->target, FEATURE_TCGEN05) ? MANY_WARPS : 0;
    return tile_build_chain(a, d->fusion, chain, &c, why);
}

struct TileProgram *kernel_tileir_program(const KernelDesign *d, Arena *a,
                                          TileIrHints *hints, const char **why)
{
    *hints = (TileIrHints){.blocks = 1};
    *why = "it is no program of tiles";
    /* They meet by a ticket in memory. Reading k and v bounds such an attention, so Tile IR has nothing to win: the
     * kernel of gqa_decode reads memory at the rate that it has. */
    if (d->config.column_blocks > 1) {
        *why = "several blocks share its columns";
        return NULL;
    }
    if (!target_has(d->target, FEATURE_TILE_IR) ||
        !kernel_kind_is(d->kind, KERNEL_BY_TILEIR))
        return NULL;
    if (kernel_kind_is(d->kind, KERNEL_CONTRACTS))
        return product_program(d, a, hints, why);
    return kernel_kind_info[d->kind].hero == OP_DOT ? chain_program(d, a, hints, why)
                                                    : attention_program(d, a, hints, why);
}
