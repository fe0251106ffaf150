/* Chains of dots on tensor cores, in one kernel: a block makes a tile of rows (ir/tile/chain.c). */
#include "ir/kernel/dot_chain.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"
#include "ir/tile/mapping.h"

#define MOST_DEPTH 256
#define LEAST_ROWS 16      /* fewer waste most of an instruction */
#define MOST_REGISTERS 192 /* of a thread, for sums and inner results */
#define MOST_REGISTERS_F32 160
#define ROOM_BESIDE                                                                      \
    48 /* registers for what else is there of each score: ptxas -v of 150 gradients */

/* -- legality ------------------------------------------------------------------------------------ */

const char *illegal_dot_chain(FusionFacts *f, KernelKind kind)
{
    static const TileConfig smallest = {16, 16, 16, DT_INVALID, false};
    DotChain c;
    (void)kind;
    if (!op_set_has(&f->ops, OP_DOT))
        return "it is no chain of dots";
    const char *why = dot_chain_find(f->fusion, f->arena, &c);
    if (why == NULL)
        tile_build_chain(f->arena, f->fusion, &c, &smallest, &why);
    return why;
}

/* -- the plan ------------------------------------------------------------------------------------ */

void plan_dot_chain(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    DotChain *c = ARENA_NEW(d->arena, DotChain);
    dot_chain_find(d->fusion, d->arena, c);
    if (d->target == NULL ||
        tensor_core_find(c->factor, c->factor, DT_F32, d->target, UINT32_MAX) == NULL)
        d->unsupported =
            refuse_text(d, "%s: no tensor core of %s multiplies %s", d->fusion->name,
                        d->target != NULL ? d->target->name : "no target",
                        dtype_info[c->factor].name);
    d->plan.chain = c;
}

static TileProgram *program_of(const KernelDesign *d, const KernelConfig *c, Arena *a,
                               const char **why)
{
    TileConfig config = {c->tile[0], c->tile[1], 0, DT_INVALID, false};
    return tile_build_chain(a, d->fusion, d->plan.chain, &config, why);
}

static TileChainMapping *mapping_of(const KernelDesign *d, const KernelConfig *c,
                                    Arena *a, const char **why)
{
    TileProgram *p = program_of(d, c, a, why);
    return p == NULL ? NULL
                     : tile_map_chain(a, p, (uint32_t)c->warps[0], (uint32_t)c->stages,
                                      d->target, why);
}

struct TileChainMapping *kernel_chain_mapping(const KernelDesign *d, Arena *a,
                                              const char **why)
{
    return mapping_of(d, &d->config, a, why);
}

/* -- design --------------------------------------------------------------------------------------- */

/* Columns of a tile, the better first: of fewer, loops have more steps. Warps have 16 rows: of 32, factors are read
 * from shared memory half as often, but for a causal attention of 32 heads of 128 and 4096 positions an H100 takes 794 us
 * for dq in 32 rows and 32 columns, 765 in 16 rows and 64 columns; of heads of 64 502 and 457, both of 64 columns. */
static const int64_t columns[] = {64, 32, 16};

/* Warps of a block: two blocks of four keep a multiprocessor busier than one of eight, which all wait for the same
 * barriers: 929 us instead of 1044 for dk and dv of the same attention. */
enum { COLUMNS = sizeof columns / sizeof *columns, WARPS = 4, WARP_ROWS = 16 };

/* Of a thread, in the loop: the sums, and the inner dots' results. */
static int64_t registers_for(const DotChain *c, int64_t tile_columns)
{
    int64_t elements = c->inner_count * tile_columns;
    for (uint32_t i = 0; i < c->count; i++)
        elements +=
            power_of_two(dot_sizes(c->dots[i]).sides[!c->weights[i]], 16, MOST_DEPTH);
    return elements * WARP_ROWS / TARGET_WARP;
}

/* Weights of f32 need as many as the scores, which those of 16 bits do not. */
static int64_t most_registers(const DotChain *c)
{
    return c->factor == DT_F32 ? MOST_REGISTERS_F32 : MOST_REGISTERS;
}

/* What leaves room in registers. */
static int64_t columns_for(const DotChain *c)
{
    size_t i = 0;
    while (i + 1 < COLUMNS && registers_for(c, columns[i]) > most_registers(c))
        i++;
    return columns[i];
}

bool suits_dot_chain(FusionFacts *f, KernelKind kind)
{
    DotChain c;
    (void)kind;
    if (f->target == NULL || f->target->tiles == TILES_NONE ||
        dot_chain_find(f->fusion, f->arena, &c) != NULL)
        return false;
    if (registers_for(&c, columns[COLUMNS - 1]) > MOST_REGISTERS)
        return false; /* its dots are better made one by one */
    return dot_sizes(c.dots[0]).sides[c.weights[0]] >= LEAST_ROWS &&
           tensor_core_find(c.factor, c.factor, DT_F32, f->target, UINT32_MAX) != NULL;
}

static int64_t warps_for(const KernelConfig *c)
{
    int64_t warps = c->tile[0] / WARP_ROWS;
    return warps < 1 ? 1 : warps > 16 ? 16 : warps;
}

/* Whether a tile finds room in shared memory, and in registers. */
static bool finds_room(const KernelDesign *d, const KernelConfig *c, bool *in_shared)
{
    Arena *a = arena_scratch();
    const char *why;
    KernelConfig own = *c;
    own.warps[0] = warps_for(c);
    const TileChainMapping *m = mapping_of(d, &own, a, &why);
    *in_shared = m == NULL || m->shared_bytes <= target_block_shared(d->target);
    bool has_room =
        *in_shared && (m == NULL || tile_chain_registers(m) <=
                                        ROOM_BESIDE + most_registers(d->plan.chain));
    arena_destroy(a);
    return has_room;
}

static void choose_tile(const KernelDesign *d, KernelConfig *c)
{
    const DotChain *chain = d->plan.chain;
    DotSizes s = dot_sizes(chain->dots[0]);
    bool in_shared;
    c->tile[0] = power_of_two(s.sides[chain->weights[0]], 16, WARPS * WARP_ROWS);
    c->tile[1] = power_of_two(s.depth, 16, columns_for(chain));
    while ((c->tile[0] > 16 || c->tile[1] > 16) && !finds_room(d, c, &in_shared)) {
        bool takes_rows = !in_shared && c->tile[0] > 2 * c->tile[1];
        if (!takes_rows && c->tile[1] == 16)
            return;
        c->tile[!takes_rows] /= 2;
    }
}

void configure_dot_chain(const KernelDesign *d, KernelConfig *c)
{
    if (config_lacks(c, KERNEL_KEY_STAGES))
        c->stages = 2;
    if (config_lacks(c, KERNEL_KEY_TILE))
        choose_tile(d, c);
    if (config_lacks(c, KERNEL_KEY_WARPS)) {
        c->warps[0] = warps_for(c);
        c->warps[1] = 1;
    }
}

const char *refuse_dot_chain(const KernelDesign *d)
{
    const char *why, *wrong = rows_of_warps_refused(d);
    if (wrong != NULL)
        return wrong;
    Arena *a = arena_scratch();
    const TileChainMapping *m = kernel_chain_mapping(d, a, &why);
    wrong = chain_refused(d, m, 0, why);
    arena_destroy(a);
    return wrong;
}

void geometry_dot_chain(KernelDesign *d)
{
    const char *why;
    Arena *a = arena_scratch();
    const TileChainMapping *m = kernel_chain_mapping(d, a, &why);
    geometry_chain(d, tile_blocks(m->program), m->shared_bytes);
    arena_destroy(a);
}
