/* Attentions on tensor cores, in one kernel: a block makes a tile of rows of one head (ir/tile/attention.c). */
#include "ir/base/divide.h"
#include "ir/kernel/attention/attention.h"
#include "ir/kernel/factor_type.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"
#include "ir/tile/mapping.h"

#define MOST_DEPTH 256
#define LEAST_ROWS 16 /* fewer waste most of an instruction, ... */
#define LEAST_COLUMNS                                                                    \
    128                 /* ... which does not matter where reading k and v takes longer */
#define LEAST_PART 256  /* columns that are worth a block */
#define MOST_RESIDENT 4 /* blocks of a multiprocessor: enough of k and v is under way */
#define TICKET_BYTES 4
#define MOST_COLUMN_BLOCKS 256
#define LEAST_FILL                                                                       \
    (-0x1.fffffep127) /* below: infinite, and a row without scores is no number */

/* -- legality ------------------------------------------------------------------------------------ */

static bool is_half(const Instruction *inst)
{
    return dtype_is_half(inst->shape->dtype);
}

/* Of 16 bits, or of 32, of which the program lets the dot lose some. */
static bool has_tensor_type(const AttentionArray *x, const Instruction *dot)
{
    return is_half(x->base) || (x->base->shape->dtype == DT_F32 && dot_allows_tf32(dot));
}

/* The scores' factors are of one type; v and the weights may be of another one: scores lie in registers alike. */
static bool has_tensor_types(const Attention *a)
{
    return a->q.base->shape->dtype == a->k.base->shape->dtype &&
           has_tensor_type(&a->q, a->parts.scores.inst) &&
           has_tensor_type(&a->v, a->parts.output);
}

static const char *arrays_illegal(const Attention *a, const AttentionStatistics *kept)
{
    const AttentionArray *arrays[] = {&a->q, &a->k, &a->v};
    for (uint32_t i = 0; i < 3; i++) {
        if (arrays[i]->base->op != OP_PARAMETER)
            return "it makes more than the attention";
        if (arrays[i]->dims[ATTENTION_DEPTH] > MOST_DEPTH)
            return "its heads are too deep";
    }
    if (!has_tensor_types(a))
        return "its arrays are not of 16 bits each, nor of f32 that may be TF32";
    if (a->bias.base != NULL && a->bias.base->op != OP_PARAMETER)
        return "it makes more than the attention";
    if (is_half(a->v.base) && !is_half(a->o.base) && !is_half(a->parts.weights.inst))
        return "its weights have more bits than its arrays";
    if (a->q.dims[ATTENTION_HEADS] % a->k.dims[ATTENTION_HEADS] != 0 ||
        a->q.dims[ATTENTION_BATCH] != a->k.dims[ATTENTION_BATCH])
        return "its heads do not go together";
    if ((a->mask_count != 0 || kept->logs != NULL || a->sink.inst != NULL) &&
        !shape_is_row_major(a->o.base->shape))
        return "its result lies otherwise than its mask, its sink or its statistics";
    if (a->mask_count != 0 && a->fill < LEAST_FILL)
        return "a row may have no scores at all";
    if ((kept->logs != NULL && kept->logs->shape->dtype != DT_F32) ||
        (kept->maxima != NULL && kept->maxima->shape->dtype != DT_F32))
        return "its statistics are not of 32 bits each";
    return NULL;
}

const char *illegal_attention(FusionFacts *f, KernelKind kind)
{
    static const TileConfig smallest = {16, 16, 16, DT_INVALID, false};
    AttentionStatistics statistics;
    Attention a;
    const char *why;
    (void)kind;
    if (!op_set_has(&f->ops, OP_DOT) || !op_set_has(&f->ops, OP_EXPONENTIAL) ||
        !attention_match_fusion(f->fusion, &a, &statistics))
        return "it is no attention";
    why = arrays_illegal(&a, &statistics);
    if (why == NULL)
        tile_build_attention(f->arena, f->fusion, &a, &smallest, &why);
    return why;
}

/* The type for which the target has no tensor cores; DT_INVALID: it has them for both dots. */
static DType missing_type(const Attention *a, const Target *target)
{
    DType types[] = {a->q.base->shape->dtype, a->v.base->shape->dtype};
    for (uint32_t i = 0; i < 2; i++) {
        if (tensor_core_find(types[i], types[i], DT_F32, target, UINT32_MAX) == NULL)
            return types[i];
    }
    return DT_INVALID;
}

bool suits_attention(FusionFacts *f, KernelKind kind)
{
    Attention a;
    AttentionStatistics statistics;
    (void)kind;
    if (f->target == NULL || f->target->tiles == TILES_NONE ||
        !attention_match_fusion(f->fusion, &a, &statistics))
        return false;
    return (a.q.dims[ATTENTION_POSITIONS] >= LEAST_ROWS ||
            a.k.dims[ATTENTION_POSITIONS] >= LEAST_COLUMNS) &&
           missing_type(&a, f->target) == DT_INVALID;
}

/* -- the plan ------------------------------------------------------------------------------------ */

void plan_attention(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    Attention *a = ARENA_NEW(d->arena, Attention);
    AttentionStatistics statistics;
    attention_match_fusion(d->fusion, a, &statistics);
    DType t = d->target == NULL ? a->q.base->shape->dtype : missing_type(a, d->target);
    if (t != DT_INVALID)
        d->unsupported = refuse_text(
            d, "%s: no tensor core of %s multiplies %s", d->fusion->name,
            d->target != NULL ? d->target->name : "no target", dtype_info[t].name);
    d->plan.attention = a;
}

struct TileChainMapping *kernel_attention_mapping(const KernelDesign *d, Arena *a,
                                                  const char **why)
{
    const KernelConfig *c = &d->config;
    TileConfig config = {c->tile[0], c->tile[1], 0, DT_INVALID, c->column_blocks > 1};
    TileProgram *p = tile_build_attention(a, d->fusion, d->plan.attention, &config, why);
    return p == NULL ? NULL
                     : tile_map_chain(a, p, (uint32_t)c->warps[0], (uint32_t)c->stages,
                                      d->target, why);
}

/* -- design --------------------------------------------------------------------------------------- */

static int64_t depth_of(const Attention *a)
{
    int64_t d = a->q.dims[ATTENTION_DEPTH], e = a->v.dims[ATTENTION_DEPTH];
    return power_of_two(d > e ? d : e, 16, MOST_DEPTH);
}

/* Rows of a tile, and of a warp: 32 where the sums of as many leave room in registers, for k and v are then read
 * from shared memory half as often. By depth, up to; eight warps bring less each than four, which leaves room,
 * too. */
static const struct {
    int64_t depth, rows, warp_rows, columns;
} sizes[] = {{64, 128, 32, 64}, {128, 256, 32, 64}, {MOST_DEPTH, 64, 16, 32}};

static size_t size_for(const Attention *a)
{
    bool is_long = !is_half(a->q.base) ||
                   !is_half(a->v.base); /* of f32: as many bytes as twice the depth */
    size_t i = 0;
    while (sizes[i].depth < depth_of(a) << is_long && sizes[i].depth < MOST_DEPTH)
        i++;
    return i;
}

/* Blocks of a band differ in length: of fewer rows each, they end together. An H100 takes 858 us instead of 905 for a
 * causal attention of 2 x 32 heads of 128 and 4096 positions, and without a band 1535 instead of 1468. */
static int64_t most_rows(const Attention *a)
{
    enum { BAND_ROWS = 128 };
    int64_t rows = sizes[size_for(a)].rows;
    return a->band.rows != 0 && rows > BAND_ROWS ? BAND_ROWS : rows;
}

/* Of a row of q, or of k and v. */
static int64_t row_bytes(const Attention *a, bool is_q)
{
    int64_t d = power_of_two(a->q.dims[ATTENTION_DEPTH], 16, MOST_DEPTH),
            e = power_of_two(a->v.dims[ATTENTION_DEPTH], 16, MOST_DEPTH);
    int64_t qk = d * dtype_info[a->q.base->shape->dtype].bits / 8,
            v = e * dtype_info[a->v.base->shape->dtype].bits / 8;
    return is_q ? qk : qk + v;
}

/* As much of them as a block's shared memory holds, with two stages of columns. */
static void fit_tile(const KernelDesign *d, KernelConfig *c)
{
    const Attention *a = d->plan.attention;
    int64_t capacity = (int64_t)target_block_shared(d->target);
    while (c->tile[0] > 16 || c->tile[1] > 16) {
        if (c->tile[0] * row_bytes(a, true) + 2 * c->tile[1] * row_bytes(a, false) <=
            capacity)
            return;
        c->tile[c->tile[0] <= 2 * c->tile[1]] /= 2;
    }
}

static int64_t choose_rows(const KernelDesign *d)
{
    const Attention *a = d->plan.attention;
    int64_t rows = a->q.dims[ATTENTION_POSITIONS],
            heads = a->q.dims[ATTENTION_HEADS] * a->q.dims[ATTENTION_BATCH];
    int64_t tile = power_of_two(rows, 16, most_rows(a));
    while (tile > 64 && ceil_div(rows, tile) * heads < target_multiprocessors(d->target))
        tile /= 2;
    return tile;
}

static int64_t tiles_of(const KernelDesign *d, const KernelConfig *c)
{
    const int64_t *q = d->plan.attention->q.dims;
    return ceil_div(q[ATTENTION_POSITIONS], c->tile[0]) * q[ATTENTION_HEADS] *
           q[ATTENTION_BATCH];
}

/* As many blocks share a tile's columns as multiprocessors have room for at once. */
static int64_t choose_parts(const KernelDesign *d, const KernelConfig *c)
{
    const Attention *a = d->plan.attention;
    int64_t bytes = c->tile[0] * row_bytes(a, true) +
                    c->stages * c->tile[1] * row_bytes(a, false),
            resident = (int64_t)d->target->device->multiprocessor_shared /
                       (bytes + TARGET_RESERVED_SHARED);
    resident = resident < 1 ? 1 : resident > MOST_RESIDENT ? MOST_RESIDENT : resident;
    int64_t capacity = resident * target_multiprocessors(d->target), parts = 1;
    while (2 * parts * tiles_of(d, c) <= capacity &&
           a->k.dims[ATTENTION_POSITIONS] >= 2 * parts * LEAST_PART)
        parts *= 2;
    return parts;
}

/* ptxas for sm_80, sm_100 and sm_90 without its wgmma has no registers left for 64 columns beside sums of 128. */
static int64_t most_columns(const KernelDesign *d, int64_t columns)
{
    enum { CROWDED = 32 };
    const Target *t = d->target;
    bool lacks_wgmma = target_has(t, FEATURE_WGMMA) && !target_has(t, FEATURE_WARPGROUP),
         is_crowded = depth_of(d->plan.attention) > 64 &&
                      (!target_has(t, FEATURE_STMATRIX) ||
                       target_has(t, FEATURE_TCGEN05) || lacks_wgmma);
    return is_crowded && columns > CROWDED ? CROWDED : columns;
}

void configure_attention(const KernelDesign *d, KernelConfig *c)
{
    const Attention *a = d->plan.attention;
    size_t i = size_for(a);
    if (config_lacks(c, KERNEL_KEY_TILE)) {
        c->tile[0] = choose_rows(d);
        c->tile[1] = power_of_two(a->k.dims[ATTENTION_POSITIONS], 16,
                                  most_columns(d, sizes[i].columns));
        fit_tile(d, c);
    }
    if (config_lacks(c, KERNEL_KEY_WARPS)) {
        int64_t each = c->tile[0] < most_rows(a) ? 16 : sizes[i].warp_rows;
        c->warps[0] = c->tile[0] / each < 1 ? 1 : c->tile[0] / each;
        c->warps[0] = c->warps[0] > 16 ? 16 : c->warps[0];
        c->warps[1] = 1;
    }
    if (config_lacks(c, KERNEL_KEY_STAGES))
        c->stages = 2;
    if ((c->set & 1u << KERNEL_KEY_COLUMN_BLOCKS) == 0) {
        c->column_blocks = d->target == NULL ? 1 : choose_parts(d, c);
        c->set |= c->column_blocks > 1 ? 1u << KERNEL_KEY_COLUMN_BLOCKS : 0;
    }
}

const char *rows_of_warps_refused(const KernelDesign *d)
{
    const KernelConfig *c = &d->config;
    const char *wrong = power_refused(d, "tile", c->tile[0]);
    if (wrong == NULL)
        wrong = power_refused(d, "tile", c->tile[1]);
    if (wrong == NULL)
        wrong = power_refused(d, "warps", c->warps[0]);
    if (wrong == NULL && c->warps[1] != 1)
        wrong = refuse_text(d, "\"warps\" are along rows only, found %lld along columns",
                            (long long)c->warps[1]);
    return wrong;
}

const char *chain_refused(const KernelDesign *d, const struct TileChainMapping *m,
                          uint64_t beside, const char *why)
{
    if (m == NULL)
        return refuse_text(d, "%s", why);
    const char *wrong = shared_refused(d, m->shared_bytes + beside);
    return wrong != NULL
               ? wrong
               : registers_refused(d, "\"tile\" and \"warps\"", tile_least_registers(m),
                                   d->config.warps[0] * TARGET_WARP);
}

const char *refuse_attention(const KernelDesign *d)
{
    const char *why, *wrong = rows_of_warps_refused(d);
    if (wrong == NULL)
        wrong = power_refused(d, "column_blocks", d->config.column_blocks);
    if (wrong == NULL && d->config.column_blocks > MOST_COLUMN_BLOCKS)
        wrong = refuse_text(d, "\"column_blocks\" are %d at most, found %lld",
                            MOST_COLUMN_BLOCKS, (long long)d->config.column_blocks);
    if (wrong != NULL)
        return wrong;
    Arena *a = arena_scratch();
    struct TileChainMapping *m = kernel_attention_mapping(d, a, &why);
    wrong = chain_refused(d, m, TICKET_BYTES * (d->config.column_blocks > 1), why);
    arena_destroy(a);
    return wrong;
}

void geometry_attention(KernelDesign *d)
{
    const char *why;
    Arena *scratch = arena_scratch();
    struct TileChainMapping *m = kernel_attention_mapping(d, scratch, &why);
    int64_t tiles = tiles_of(d, &d->config), parts = d->config.column_blocks;
    geometry_chain(d, tiles * parts, m->shared_bytes);
    if (parts > 1) {
        uint64_t words = (uint64_t)tile_carried_registers(m) * d->geometry.block[0];
        geometry_shared(&d->geometry, TICKET_BYTES, TICKET_BYTES);
        d->geometry.scratch_bytes =
            ATTENTION_FIRST + (uint64_t)(tiles * (parts - 1)) * words * ATTENTION_WORD;
        d->geometry.cleared_bytes = d->geometry.scratch_bytes;
    }
    arena_destroy(scratch);
}

void geometry_chain(KernelDesign *d, int64_t blocks, uint64_t shared_bytes)
{
    geometry_blocks(d, blocks, d->config.warps[0] * TARGET_WARP, 1);
    geometry_shared(&d->geometry, shared_bytes, 128);
    d->geometry.has_barriers = true;
}
