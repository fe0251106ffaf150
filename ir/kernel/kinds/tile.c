/* Contractions on tensor cores: fusions of one dot, ragged dot or convolution as tile programs (ir/tile/tile.h) that a
 * block's warps carry out together (ir/tile/mapping.h). */
#include <string.h>

#include "ir/base/divide.h"
#include "ir/kernel/factor_type.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/kernel/time/work_kinds.h"
#include "ir/tile/mapping.h"

/* of the result, the shorter way: a tile of 8 is worth it with some of it unused */
#define LEAST_SIDE 3
/* of so large a matrix memory is the bound, however few rows */
#define MANY_PAIRS (1 << 25)
#define LEAST_TERMS 16
#define ROW_BYTES 128 /* of a factor's row in a stage */
#define MOST_STAGES 4
/* What a thread does to its elements of the factors for one tile of the terms is written out. So much of it is no
 * more than the loop's own code (ptxas needs a second for ten times as much). */
#define MOST_OPERATIONS 1024
#define FEW_INSTRUCTIONS 16 /* of a fusion: its factors never take that much */
#define MASK_OPERATIONS 4   /* of a load that may not be there, besides the load */
#define MOST_COPIED                                                                      \
    4096 /* elements of the factors a thread, all stages: copies are written out */
/* Multiplications that are nothing to a device without tensor cores, either. */
#define FEW_PRODUCTS (1 << 24)
#define FEW_COLUMNS 64
#define MOST_REGISTERS 240 /* of a thread: what is beyond goes to memory and back */
#define NEAR 1.5           /* of the shortest time: worth a closer look */

/* -- the plan ------------------------------------------------------------------------------------ */

/* A mapping takes longer than all else that is found out of the kernel, and several ask for it. */
struct TileMapped {
    KernelConfig config; /* that it was made for; tile 0: none */
    const TileMapping *mapping;
    const char *why;
    KernelConfig counted; /* that `operations` are of; tile 0: none */
    int64_t operations;
};

void plan_tile(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    TilePlan *p = ARENA_NEW(d->arena, TilePlan);
    p->mapped = ARENA_NEW(d->arena, struct TileMapped);
    p->contraction = contraction_plan(d->arena, contraction_hero(d->fusion));
    if (!factor_type_find(p->contraction->inst, d->target, &p->factor)) {
        DType x = p->contraction->inst->operands[0]->shape->dtype,
              y = p->contraction->inst->operands[1]->shape->dtype;
        d->unsupported = refuse_text(d, "%s: no tensor core of %s multiplies %s and %s",
                                     d->fusion->name,
                                     d->target != NULL ? d->target->name : "no target",
                                     dtype_info[x].name, dtype_info[y].name);
    }
    d->plan.tile = p;
}

struct TileMapping *kernel_tile_mapping(const KernelDesign *d, Arena *a, const char **why)
{
    const KernelConfig *c = &d->config;
    TileConfig config = {c->tile[0], c->tile[1], c->depth, d->plan.tile->factor, false};
    uint32_t warps[] = {(uint32_t)c->warps[0], (uint32_t)c->warps[1],
                        (uint32_t)c->slices};
    TileProgram *p = tile_build(a, d->fusion, &config, why);
    return p == NULL ? NULL : tile_map(a, p, warps, (uint32_t)c->stages, d->target, why);
}

static bool is_mapped(const struct TileMapped *m, const KernelConfig *c)
{
    const KernelConfig *x = &m->config;
    return x->tile[0] == c->tile[0] && x->tile[1] == c->tile[1] && x->depth == c->depth &&
           x->stages == c->stages && x->slices == c->slices &&
           x->warps[0] == c->warps[0] && x->warps[1] == c->warps[1];
}

const TileMapping *design_tile_mapping(const KernelDesign *d, const char **why)
{
    struct TileMapped *m = d->plan.tile->mapped;
    if (!is_mapped(m, &d->config)) {
        m->config = d->config;
        m->mapping = kernel_tile_mapping(d, d->arena, &m->why);
    }
    *why = m->why;
    return m->mapping;
}

/* -- design --------------------------------------------------------------------------------------- */

static DType factor_type(const KernelDesign *d)
{
    const TilePlan *p = d->plan.tile;
    return p->factor != DT_INVALID ? p->factor
                                   : p->contraction->inst->operands[0]->shape->dtype;
}

static uint32_t factor_bits(const KernelDesign *d)
{
    return dtype_info[factor_type(d)].bits;
}

/* Tiles and their warps, the larger first. */
typedef struct TileShape {
    int64_t m, n, warps[3]; /* along m and n; slices, 0: one */
} TileShape;

static const TileShape shapes[] = {
    {256, 128, {4, 2}},
    {128, 256, {2, 4}},
    {128, 128, {2, 2}},
    {128, 64, {2, 2}},
    {64, 128, {2, 2}},
    {64, 64, {2, 2}},
    {32, 128, {1, 4}},
    {128, 32, {4, 1}},
    {32, 64, {1, 4}},
    {64, 32, {4, 1}},
    {16, 128, {1, 4}},
    {128, 16, {4, 1}},
    {32, 32, {2, 2}},
    {16, 64, {1, 4}},
    {64, 16, {4, 1}},
    {16, 32, {1, 2}},
    {32, 16, {2, 1}},
    {16, 16, {1, 1}},
    {8, 64, {1, 4}},
    {64, 8, {4, 1}},
    /* of factors that are narrower in memory: a warp reads its own terms of many columns */
    {8, 128, {1, 1, 8}},
    {128, 8, {1, 1, 8}},
    {8, 64, {1, 1, 8}},
    {64, 8, {1, 1, 8}},
    {16, 64, {1, 1, 8}},
    {64, 16, {1, 1, 8}},
    {8, 16, {1, 1}},
    {16, 8, {1, 1}},
};

/* Of wgmma: four warps have 64 rows and all columns. */
static const TileShape warpgroup_shapes[] = {
    {128, 256, {8, 1}}, {256, 128, {1, 8}}, {256, 128, {8, 1}}, {128, 256, {1, 8}},
    {128, 128, {8, 1}}, {128, 128, {1, 8}}, {64, 256, {4, 1}},  {256, 64, {1, 4}},
    {64, 128, {4, 1}},  {128, 64, {1, 4}},  {64, 64, {4, 1}},
};

enum {
    PLAIN_SHAPES = sizeof shapes / sizeof *shapes,
    SHAPES = PLAIN_SHAPES + sizeof warpgroup_shapes / sizeof *warpgroup_shapes
};

static bool is_warpgroup_shape(size_t i)
{
    return i >= PLAIN_SHAPES;
}

static const TileShape *shape_at(size_t i)
{
    return is_warpgroup_shape(i) ? &warpgroup_shapes[i - PLAIN_SHAPES] : &shapes[i];
}

static int64_t threads_of(const KernelConfig *c)
{
    return c->warps[0] * c->warps[1] * c->slices * TARGET_WARP;
}

double tile_cycles(const KernelDesign *d, int64_t m, int64_t n, uint32_t together,
                   double percent)
{
    const ContractionPlan *p = d->plan.tile->contraction;
    const GpuModel *device = d->target->device;
    const GpuRates *r = gpu_rates(device);
    int64_t blocks =
        contraction_tiles(p, &p->y, m) * contraction_tiles(p, &p->x, n) * p->batch_size;
    double busy = (double)(blocks * together) * contraction_busy(p, m, n);
    int64_t waves = ceil_div((int64_t)busy, target_multiprocessors(d->target));
    double cycle = product_peak(factor_type(d), device) * percent / 100 /
                   device->multiprocessors / (r->mhz * 1e6);
    double multiply = 2 * (double)(m * n) / together / cycle;
    double l2 = (double)r->l2_bytes / device->multiprocessors;
    double bytes = (double)(m + n) / together * dtype_info[factor_type(d)].bits / 8;
    double bring =
        bytes / (l2 < costs.multiprocessor_bytes ? l2 : costs.multiprocessor_bytes);
    return (double)waves * (multiply > bring ? multiply : bring);
}

/* Sums are the accumulators of 8 times the bits of f64: a quarter of a tile's threads' registers. */
static bool fits_registers(const KernelDesign *d, size_t shape)
{
    int64_t threads = shape_at(shape)->warps[0] * shape_at(shape)->warps[1] * TARGET_WARP;
    int64_t sums = shape_at(shape)->m * shape_at(shape)->n / threads;
    return d->plan.tile->contraction->type != DT_F64 || sums <= 32;
}

/* The instruction of the target has 16 rows and 8 columns, or 8 and 8. */
static bool has_instruction(size_t shape)
{
    int64_t least = shape_at(shape)->m / shape_at(shape)->warps[0],
            other = shape_at(shape)->n / shape_at(shape)->warps[1];
    return (least >= 16 && other >= 8) || (least >= 8 && other >= 16);
}

/* wgmma takes factors of 16 bits as they are. */
static bool may_have_warpgroups(const KernelDesign *d)
{
    return target_has(d->target, FEATURE_WARPGROUP) && factor_bits(d) == 16;
}

/* A factor that registers may hold is read. */
static bool reads_narrow_factor(const KernelDesign *d)
{
    const Computation *comp = inst_called(d->fusion, 0);
    const ContractionPlan *p = d->plan.tile->contraction;
    for (const Instruction *i = inst_first(comp); i != NULL; i = inst_next(i)) {
        if (i->op == OP_PARAMETER && dtype_info[i->shape->dtype].bits < factor_bits(d) &&
            shape_elements(i->shape) >= p->depth * FEW_COLUMNS)
            return true;
    }
    return false;
}

/* Two blocks shall find room in a multiprocessor's shared memory, if their sums do in its registers. */
static int64_t choose_stages(const KernelDesign *d, const KernelConfig *c)
{
    uint64_t stage =
        (uint64_t)((c->tile[0] + c->tile[1]) * c->depth) * factor_bits(d) / 8;
    uint64_t capacity = d->target->device->multiprocessor_shared;
    if (2 * c->tile[0] * c->tile[1] < TARGET_REGISTERS)
        capacity /= 2;
    if (!target_has(d->target, FEATURE_CP_ASYNC))
        return 2;
    capacity = capacity > TARGET_RESERVED_SHARED ? capacity - TARGET_RESERVED_SHARED : 0;
    int64_t stages = (int64_t)(capacity / stage),
            steps = ceil_div(d->plan.tile->contraction->depth, c->depth);
    stages = stages < MOST_STAGES ? stages : MOST_STAGES;
    stages = stages < steps ? stages : steps;
    return stages < 2 ? 2 : stages;
}

/* About what a thread does to its elements of the factors for one tile of the terms. */
static int64_t count_operations(const KernelDesign *d, const KernelConfig *c)
{
    static const uint8_t operations[] = {
        [TILE_LOAD] = 1, [TILE_APPLY] = 1, [TILE_INDEX] = 2, [TILE_IN_RANGE] = 2};
    Arena *a = arena_scratch();
    TileConfig config = {c->tile[0], c->tile[1], c->depth, d->plan.tile->factor, false};
    const char *why;
    const TileProgram *p = tile_build(a, d->fusion, &config, &why);
    int64_t threads = threads_of(c), sum = 0;
    for (uint32_t i = 0; p != NULL && i < p->body.count; i++) {
        const TileBlock *loop = &p->body.ops[i]->body;
        for (uint32_t k = 0; k < loop->count; k++) {
            const TileOp *op = loop->ops[k];
            int64_t each = op->kind < sizeof operations ? operations[op->kind] : 0;
            if (op->kind == TILE_LOAD && op->constraint_count != 0)
                each += MASK_OPERATIONS;
            sum += each * ceil_div(tile_elements(p, op->dims), threads);
        }
    }
    arena_destroy(a);
    return sum;
}

/* The same; 0: little. */
static int64_t factor_operations(const KernelDesign *d, const KernelConfig *c)
{
    struct TileMapped *m = d->plan.tile->mapped;
    if (inst_called(d->fusion, 0)->instruction_count <= FEW_INSTRUCTIONS)
        return 0;
    if (m->counted.tile[0] != c->tile[0] || m->counted.tile[1] != c->tile[1] ||
        m->counted.depth != c->depth || threads_of(&m->counted) != threads_of(c)) {
        m->counted = *c;
        m->operations = count_operations(d, c);
    }
    return m->operations;
}

static int64_t terms_of_instruction(const KernelDesign *d)
{
    DType t = factor_type(d);
    const TensorCore *core =
        tensor_core_find(t, t, d->plan.tile->contraction->type, d->target, UINT32_MAX);
    return core != NULL ? core->k : 1;
}

/* Terms of a tile: a row of ROW_BYTES of the larger factor; fewer, down to those of one instruction, where each
 * element takes much code. */
static int64_t choose_depth(const KernelDesign *d, const KernelConfig *c)
{
    int64_t most = ROW_BYTES * 8 / factor_bits(d), least = most / 4,
            instruction = terms_of_instruction(d);
    least = least > instruction ? least : instruction;
    KernelConfig tried = *c;
    tried.depth = power_of_two(d->plan.tile->contraction->depth, 1, most);
    if (tried.depth < most / 2)
        tried.depth = most / 2;
    if (tried.depth < least)
        tried.depth = least;
    tried.depth *= c->slices;
    while (tried.depth > least * c->slices &&
           factor_operations(d, &tried) > MOST_OPERATIONS)
        tried.depth /= 2;
    return tried.depth;
}

/* What the text leaves open, for a tile of this shape, or for the tile that it has. The panel of a tile that is open is 0:
 * the model of time chooses it. */
static void complete_tile(const KernelDesign *d, size_t shape, KernelConfig *c)
{
    bool lacks_tile = config_lacks(c, KERNEL_KEY_TILE);
    if (lacks_tile) {
        c->tile[0] = shape_at(shape)->m;
        c->tile[1] = shape_at(shape)->n;
    }
    if (config_lacks(c, KERNEL_KEY_WARPS)) {
        c->warps[0] = lacks_tile ? shape_at(shape)->warps[0] : c->tile[0] >= 64 ? 2 : 1;
        c->warps[1] = lacks_tile ? shape_at(shape)->warps[1] : c->tile[1] >= 64 ? 2 : 1;
    }
    if ((c->set & 1u << KERNEL_KEY_SLICES) == 0) {
        bool has_some = lacks_tile && shape_at(shape)->warps[2] != 0;
        c->slices = has_some ? shape_at(shape)->warps[2] : 1;
        c->set |= has_some ? 1u << KERNEL_KEY_SLICES : 0;
    }
    if ((c->set & 1u << KERNEL_KEY_PANEL) == 0)
        c->panel = lacks_tile ? 0 : 1;
    if (config_lacks(c, KERNEL_KEY_DEPTH))
        c->depth = choose_depth(d, c);
    if (config_lacks(c, KERNEL_KEY_STAGES))
        c->stages = choose_stages(d, c);
}

/* ptxas has 255 registers for a thread, and wants some more than are counted for addresses. */
static bool spills(const KernelDesign *d)
{
    const char *why;
    return tile_thread_registers(design_tile_mapping(d, &why), d->target) >
           MOST_REGISTERS;
}

/* What the model of time says of a shape, and chooses for it. */
typedef struct ShapeTime {
    double seconds;
    int64_t panel, stream[2]; /* stream_k; 0: none */
} ShapeTime;

/* Of convolutions other kinds, and pieces, make those whose tiles are few. */
static bool may_share(const KernelDesign *d)
{
    return (d->config.set & 1u << KERNEL_KEY_STREAM_K) == 0 &&
           d->plan.tile->contraction->inst->op == OP_DOT;
}

/* False: there is no such kernel, or none without spills. */
static bool time_of(const KernelDesign *d, size_t shape, ShapeTime *out)
{
    Arena *a = arena_scratch();
    KernelDesign trial = *d;
    TilePlan plan = *d->plan.tile;
    plan.mapped = ARENA_NEW(a, struct TileMapped);
    trial.plan.tile = &plan;
    trial.arena = a;
    complete_tile(&trial, shape, &trial.config);
    const char *why;
    bool good =
        refuse_tile(&trial) == NULL && !spills(&trial) &&
        (!is_warpgroup_shape(shape) || design_tile_mapping(&trial, &why)->by_warpgroup);
    if (good) {
        KernelWork work;
        geometry_tile(&trial);
        work_tile(&trial, &work);
        *out = (ShapeTime){.seconds = kernel_time(&work, d->target->device).seconds,
                           .panel = work.panel};
        good = trial.unsupported == NULL;
        if (good && may_share(&trial))
            stream_choose(&trial, design_tile_mapping(&trial, &why), &work, &out->seconds,
                          out->stream);
    }
    arena_destroy(a);
    return good;
}

/* The shape that keeps multiprocessors busy for the shortest time; 0: of those that there are none of. */
static size_t first_shape(const KernelDesign *d, double cycles[SHAPES])
{
    double percent = product_mma_percent(gpu_rates(d->target->device), factor_type(d)) *
                     costs.tile_fraction;
    size_t best = SHAPES - 1;
    bool is_narrow = reads_narrow_factor(d), has_warpgroups = may_have_warpgroups(d);
    for (size_t i = SHAPES; i-- > 0;) {
        cycles[i] = fits_registers(d, i) && has_instruction(i) &&
                            (!is_warpgroup_shape(i) || has_warpgroups) &&
                            (shape_at(i)->warps[2] == 0 || is_narrow)
                        ? tile_cycles(d, shape_at(i)->m, shape_at(i)->n, 1, percent)
                        : 0;
        if (cycles[i] > 0 && (cycles[best] == 0 || cycles[i] <= cycles[best]))
            best = i;
    }
    return best;
}

/* The best by the model of time, of those that need at most so many cycles; of equals, where memory is the bound, the
 * one that does least besides. False: none of them is a kernel. */
static bool best_shape(const KernelDesign *d, const double cycles[SHAPES], double most,
                       size_t *best, ShapeTime *best_time)
{
    ShapeTime time;
    for (size_t i = SHAPES; i-- > 0;) {
        if (cycles[i] == 0 || cycles[i] > most || !time_of(d, i, &time))
            continue;
        if (best_time->seconds == 0 || time.seconds < best_time->seconds ||
            (time.seconds == best_time->seconds && cycles[i] <= cycles[*best])) {
            *best = i;
            *best_time = time;
        }
    }
    return best_time->seconds != 0;
}

/* Of those near the fastest, else of all. */
static size_t choose_shape(const KernelDesign *d, ShapeTime *time)
{
    double cycles[SHAPES];
    size_t best = first_shape(d, cycles);
    double least = cycles[best], all = least;
    for (size_t i = 0; i < SHAPES; i++)
        all = cycles[i] > all ? cycles[i] : all;
    if (!best_shape(d, cycles, least * NEAR, &best, time))
        best_shape(d, cycles, all, &best, time);
    return best;
}

/* CUDA Tile IR, which shares no tiles, makes the kernel `c` even so: it needs no memory for that. */
static bool is_by_tileir(const KernelDesign *d, const KernelConfig *c,
                         const ShapeTime *time)
{
    KernelDesign trial = *d;
    trial.config = *c;
    memcpy(trial.config.stream_k, time->stream, sizeof time->stream);
    geometry_tile(&trial);
    return trial.unsupported != NULL || kernel_by_tileir(&trial);
}

/* A factor goes through registers into shared memory: each step waits for the loads of the next one's, and stages further
 * ahead only have their code written out before the loop. */
static bool waits_for_registers(const KernelDesign *d, const KernelConfig *c)
{
    KernelDesign trial = *d;
    trial.config = *c;
    const char *why;
    const TileMapping *m = design_tile_mapping(&trial, &why);
    bool waits = false;
    for (uint32_t i = 0; i < 2 && m != NULL && !m->by_warpgroup; i++)
        waits |= !m->factors[i].is_copied && !m->factors[i].is_held;
    return waits;
}

void configure_tile(const KernelDesign *d, KernelConfig *c)
{
    bool is_open = (c->set & 1u << KERNEL_KEY_TILE) == 0 && d->target != NULL;
    ShapeTime time = {.panel = 1};
    bool lacks_stages = (c->set & 1u << KERNEL_KEY_STAGES) == 0;
    complete_tile(d, is_open ? choose_shape(d, &time) : 0, c);
    if (lacks_stages && d->target != NULL && waits_for_registers(d, c))
        c->stages = 2;
    if ((c->set & 1u << KERNEL_KEY_PANEL) == 0) {
        c->panel = time.panel > 1 ? time.panel : 1;
        c->set |= time.panel > 1 ? 1u << KERNEL_KEY_PANEL : 0;
    }
    if (time.stream[1] == 0 || is_by_tileir(d, c, &time))
        return;
    memcpy(c->stream_k, time.stream, sizeof c->stream_k);
    c->set |= 1u << KERNEL_KEY_STREAM_K;
}

/* Copies of all stages stand one behind another before the loop: LLVM takes minutes for too many. */
static const char *copies_refused(const KernelDesign *d)
{
    const KernelConfig *c = &d->config;
    int64_t threads = threads_of(c),
            each = ceil_div((c->tile[0] + c->tile[1]) * c->depth, threads);
    return each <= MOST_COPIED / c->stages
               ? NULL
               : refuse_text(d,
                             "\"depth\" %lld and \"stages\" %lld ask a thread of %lld "
                             "to copy %lld elements a stage; most %lld",
                             (long long)c->depth, (long long)c->stages,
                             (long long)threads, (long long)each,
                             (long long)(MOST_COPIED / c->stages));
}

static const char *panel_refused(const KernelDesign *d)
{
    const ContractionPlan *p = d->plan.tile->contraction;
    int64_t tiles = contraction_tiles(p, &p->y, d->config.tile[0]);
    return d->config.panel <= tiles
               ? NULL
               : refuse_text(d,
                             "\"panel\" %lld is more than the %lld tiles along the "
                             "slower dimension",
                             (long long)d->config.panel, (long long)tiles);
}

const char *refuse_tile(const KernelDesign *d)
{
    const KernelConfig *c = &d->config;
    const char *wrong = power_refused(d, "tile", c->tile[0]), *why;
    if (wrong == NULL)
        wrong = power_refused(d, "tile", c->tile[1]);
    if (wrong == NULL)
        wrong = power_refused(d, "depth", c->depth);
    for (int i = 0; i < 2 && wrong == NULL; i++)
        wrong = power_refused(d, "warps", c->warps[i]);
    if (wrong == NULL)
        wrong = power_refused(d, "slices", c->slices);
    if (wrong != NULL)
        return wrong;
    int64_t threads = threads_of(c);
    wrong = warps_refused(d, threads);
    if (wrong == NULL)
        wrong = copies_refused(d);
    if (wrong == NULL)
        wrong = panel_refused(d);
    if (wrong != NULL)
        return wrong;
    const TileMapping *m = design_tile_mapping(d, &why);
    if (m == NULL)
        return refuse_text(d, "%s", why);
    wrong =
        registers_refused(d, "\"tile\" and \"warps\"", tile_sum_registers(m), threads);
    if (wrong == NULL)
        wrong = stream_refused(d, m);
    return wrong != NULL
               ? wrong
               : shared_refused(d, m->shared_bytes +
                                       (c->stream_k[1] != 0 ? STREAM_TICKET : 0));
}

void geometry_tile(KernelDesign *d)
{
    const ContractionPlan *p = d->plan.tile->contraction;
    const KernelConfig *c = &d->config;
    const char *why;
    const TileMapping *m = design_tile_mapping(d, &why);
    int64_t blocks =
        contraction_tiles(p, &p->y, c->tile[0]) * contraction_tiles(p, &p->x, c->tile[1]);
    TileStream stream = tile_stream(d, m);
    geometry_blocks(d, blocks * p->batch_size - stream.tiles + stream.blocks,
                    threads_of(c), 1);
    geometry_shared(&d->geometry, m->shared_bytes, 128);
    if (stream.blocks != 0)
        geometry_stream(d, &stream);
    d->geometry.has_barriers = true;
}

/* -- whether it is the kind to take ---------------------------------------------------------------- */

/* Each element of a factor takes much code, for the sake of few products. */
static bool is_long_for_little(const FusionFacts *f, const ContractionPlan *p)
{
    double products = (double)p->y.size * (double)p->x.size * (double)p->depth;
    if (products * (double)p->batch_size > FEW_PRODUCTS)
        return false;
    KernelDesign d = {.fusion = f->fusion, .target = f->target, .arena = f->arena};
    KernelConfig c = {0};
    double unused[SHAPES];
    plan_tile(&d, f);
    complete_tile(&d, first_shape(&d, unused), &c);
    return factor_operations(&d, &c) > MOST_OPERATIONS;
}

/* What is cheap to see of whether the kernel is good. */
static bool is_large_enough(FusionFacts *f, const Instruction *hero)
{
    DType factor;
    if (!factor_type_find(hero, f->target, &factor))
        return false;
    const ContractionPlan *p = contraction_plan(f->arena, hero);
    int64_t side = p->y.size < p->x.size ? p->y.size : p->x.size,
            other = p->y.size < p->x.size ? p->x.size : p->y.size;
    double pairs = (double)p->batch_size * (double)other * (double)p->depth;
    return (side >= LEAST_SIDE || pairs >= MANY_PAIRS) && p->depth >= LEAST_TERMS;
}

/* Building the program takes longest, so a kernel that is not wanted is refused before. */
const char *illegal_tile(FusionFacts *f, KernelKind kind)
{
    static const TileConfig smallest = {16, 16, 16, DT_INVALID, false};
    const char *why;
    (void)kind;
    if (!op_set_has(&f->ops, OP_DOT) && !op_set_has(&f->ops, OP_CONVOLUTION) &&
        !op_set_has(&f->ops, OP_RAGGED_DOT))
        return "it has no such operation";
    const Instruction *hero = contraction_hero(f->fusion);
    bool is_ragged = hero != NULL && hero->op == OP_RAGGED_DOT;
    const char *wrong = is_ragged ? body_illegal(f->fusion, hero) : facts_body_illegal(f);
    if (wrong != NULL)
        return wrong;
    if (f->is_choice && hero != NULL && !is_large_enough(f, hero))
        return "a tensor core is no use for it";
    tile_build(f->arena, f->fusion, &smallest, &why);
    return why;
}

bool suits_tile(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    const Instruction *hero = contraction_hero(f->fusion);
    return is_large_enough(f, hero) &&
           !is_long_for_little(f, contraction_plan(f->arena, hero));
}
