/* Contractions, dots and convolutions of any type: a block makes a tile of the result from tiles of both operands
 * in shared memory, converted to the type of the sums; a thread sums a part of it. What stands before the operands
 * is computed as they are read, what stands behind the result as it is written. */
#include "ir/analysis/index_map.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

#define TILE 64
#define TILE_DEPTH 16
#define PART 4
#define READ_IN_LANES                                                                    \
    24 /* instructions of a fusion whose code may be there once for each lane */
#define LARGE_SIDE 16
#define LARGE_DEPTH 8

/* -- legality ------------------------------------------------------------------------------------ */

static const Instruction *hero_of(const Instruction *fusion, KernelKind kind)
{
    return fusion_hero(fusion, kernel_kind_info[kind].hero);
}

/* One dot or convolution, with any epilogue by element. */
const char *illegal_contraction(FusionFacts *f, KernelKind kind)
{
    const Instruction *hero = hero_of(f->fusion, kind);
    if (hero == NULL)
        return "it needs exactly one such operation";
    return facts_hero_illegal(f, hero);
}

/* Elements of the result, by operand: how many share one of its elements. */
bool suits_contraction(FusionFacts *f, KernelKind kind)
{
    const Instruction *hero = hero_of(f->fusion, kind);
    const Shape *lhs = hero->operands[0]->shape, *rhs = hero->operands[1]->shape;
    int64_t elements = shape_elements(hero->shape), batch = 1;
    if (elements == 0)
        return false;
    if (hero->op == OP_CONVOLUTION) {
        const DimLabels *n = inst_attr(hero, ATTR_DIM_LABELS)->labels;
        int64_t groups = inst_int(hero, ATTR_FEATURE_GROUP_COUNT, 1) *
                         inst_int(hero, ATTR_BATCH_GROUP_COUNT, 1);
        int64_t features = hero->shape->dims[n->out_feature];
        return features / groups >= LARGE_SIDE && elements / features >= LARGE_SIDE;
    }
    Ints batch_dims = inst_ints(hero, ATTR_LHS_BATCH_DIMS);
    Ints contracted = inst_ints(hero, ATTR_LHS_CONTRACTING_DIMS);
    for (uint32_t i = 0; i < batch_dims.count; i++)
        batch *= lhs->dims[batch_dims.data[i]];
    int64_t depth = 1;
    for (uint32_t i = 0; i < contracted.count; i++)
        depth *= lhs->dims[contracted.data[i]];
    if (depth < LARGE_DEPTH)
        return false;
    return shape_elements(lhs) / batch / depth >= LARGE_SIDE &&
           shape_elements(rhs) / batch / depth >= LARGE_SIDE;
}

/* -- the plan ------------------------------------------------------------------------------------ */

static void add_dim(const ContractionPlan *p, ContractionSide *s, uint32_t d)
{
    s->dims[s->count++] = d;
    s->size *= p->inst->shape->dims[d];
}

/* Which side each of the result's dimensions belongs to: the slowest in memory first. */
static void divide_dims(ContractionPlan *p)
{
    const Instruction *inst = p->inst;
    const Shape *shape = inst->shape;
    ContractionSide sides[2] = {{.operand = 0, .size = 1}, {.operand = 1, .size = 1}};
    uint32_t last_operand = 1, groups = p->ragged.mode == RAGGED_SUMMED;
    uint32_t batch = groups + inst_ints(inst, ATTR_LHS_BATCH_DIMS).count;
    uint32_t lhs_end = groups + inst->operands[0]->shape->rank -
                       inst_ints(inst, ATTR_LHS_CONTRACTING_DIMS).count;
    for (uint32_t i = shape->rank; i-- > 0;) {
        uint32_t d = (uint32_t)shape->layout->minor_to_major[i];
        uint32_t operand;
        if (p->feature_dim >= 0) {
            operand = d == p->feature_dim ? 1 : 0;
        } else if (d < batch) {
            p->batch_dims[p->batch_count++] = d;
            p->batch_size *= shape->dims[d];
            continue;
        } else {
            operand = d < lhs_end ? 0 : 1;
        }
        add_dim(p, &sides[operand], d);
        if (shape->dims[d] != 1)
            last_operand = operand;
    }
    if (p->feature_dim >= 0)
        sides[1].size = p->per_group;
    p->x = sides[last_operand];
    p->y = sides[1 - last_operand];
}

static void plan_convolution(ContractionPlan *p)
{
    const Instruction *inst = p->inst;
    const DimLabels *n = inst_attr(inst, ATTR_DIM_LABELS)->labels;
    int64_t groups = inst_int(inst, ATTR_FEATURE_GROUP_COUNT, 1);
    int64_t batch_groups = inst_int(inst, ATTR_BATCH_GROUP_COUNT, 1);
    p->batch_size = groups > batch_groups ? groups : batch_groups;
    p->feature_dim = n->out_feature;
    p->per_group = inst->shape->dims[n->out_feature] / p->batch_size;
}

/* By how much the operand's offset changes with a symbol or dimension of its map; 0 if it differs. */
static int64_t stride_of(IndexContext *cx, const ContractionPlan *p, const IndexMap *maps,
                         uint32_t operand, IxKind kind, uint32_t number)
{
    int64_t stride;
    const Shape *shape = p->inst->operands[operand]->shape;
    const IndexExpr *linear = index_linear(cx, shape, maps[operand].results);
    return ix_stride(linear, kind, number, &stride) ? stride : 0;
}

/* The depth counts through the symbols; fastest the one along which an operand is contiguous. */
static void order_symbols(IndexContext *cx, ContractionPlan *p, const IndexMap *maps)
{
    const IndexMap *map = &maps[0];
    uint32_t fastest = map->symbol_count == 0 ? 0 : map->symbol_count - 1;
    p->depth = 1;
    for (uint32_t operand = 2; operand-- > 0;) {
        for (uint32_t i = 0; i < map->symbol_count; i++) {
            if (map->symbols[i].hi > 0 &&
                stride_of(cx, p, maps, operand, IX_SYMBOL, i) == 1)
                fastest = i;
        }
    }
    for (uint32_t i = 0; i < map->symbol_count; i++) {
        p->depth *= map->symbols[i].hi + 1;
        if (i != fastest)
            p->symbols[p->symbol_count++] = i;
    }
    if (map->symbol_count != 0)
        p->symbols[p->symbol_count++] = fastest;
}

/* What neighbours in memory of a side's operand differ in, and how many of them can be read at once. */
static void find_neighbours(IndexContext *cx, const ContractionPlan *p,
                            const IndexMap *maps, ContractionSide *s)
{
    const IndexMap *map = &maps[s->operand];
    uint32_t fastest = p->symbol_count != 0 ? p->symbols[p->symbol_count - 1] : 0;
    if (p->symbol_count != 0) {
        s->depth_first = stride_of(cx, p, maps, s->operand, IX_SYMBOL, fastest) == 1;
        s->contiguous = map->symbols[fastest].hi + 1;
    }
    if (!s->depth_first) {
        uint32_t d = s->count != 0 ? s->dims[s->count - 1] : 0;
        bool is_contiguous = s->count != 0 && p->feature_dim < 0 &&
                             stride_of(cx, p, maps, s->operand, IX_DIM, d) == 1;
        s->contiguous = is_contiguous ? p->inst->shape->dims[d] : 0;
    }
    /* padding may begin between two spatial positions, not between two features */
    if (map->constraint_count != 0 && !s->depth_first)
        s->contiguous = 0;
    for (uint32_t i = 0; i < map->constraint_count && p->symbol_count != 0; i++) {
        if (ix_depends(map->constraints[i].expr, IX_SYMBOL, fastest))
            s->contiguous = 0;
    }
}

const ContractionPlan *contraction_plan(Arena *a, const Instruction *inst)
{
    ContractionPlan *p = ARENA_NEW(a, ContractionPlan);
    p->inst = inst;
    p->type = contract_accumulator(inst);
    p->batch_size = 1;
    p->feature_dim = -1;
    ragged_form(inst, &p->ragged);
    if (inst->op == OP_CONVOLUTION)
        plan_convolution(p);
    divide_dims(p);
    IndexContext *cx = index_context_create(a);
    const IndexMap *maps = index_maps(cx, inst, 0);
    order_symbols(cx, p, maps);
    find_neighbours(cx, p, maps, &p->y);
    find_neighbours(cx, p, maps, &p->x);
    return p;
}

const Instruction *contraction_hero(const Instruction *fusion)
{
    static const OpCode products[] = {OP_DOT, OP_CONVOLUTION, OP_RAGGED_DOT};
    const Instruction *hero = NULL;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        const Instruction *own = fusion_hero(fusion, products[i]);
        if (own != NULL && hero != NULL)
            return NULL;
        hero = own != NULL ? own : hero;
    }
    return hero;
}

int64_t contraction_tiles(const ContractionPlan *p, const ContractionSide *s,
                          int64_t tile)
{
    /* each group, and the rows of none, may leave a tile but for one row */
    bool is_grouped = p->ragged.mode == RAGGED_FREE && s->operand == 0;
    return (s->size + (is_grouped ? p->ragged.groups + 1 : 1) * (tile - 1)) / tile;
}

double contraction_busy(const ContractionPlan *p, int64_t m, int64_t n)
{
    if (p->ragged.mode != RAGGED_FREE)
        return 1;
    const ContractionSide *rows = p->y.operand == 0 ? &p->y : &p->x;
    int64_t tile = rows == &p->y ? m : n;
    double groups = (double)p->ragged.groups, size = (double)rows->size,
           used = size / (double)tile + groups / 2,
           one_each = groups < size ? groups : size,
           tiles = (double)contraction_tiles(p, rows, tile);
    used = used > one_each ? used : one_each;
    return used < tiles ? used / tiles : 1;
}

void plan_contraction(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    d->plan.contraction = contraction_plan(d->arena, hero_of(d->fusion, d->kind));
}

/* -- design --------------------------------------------------------------------------------------- */

enum { Y, X, WRITE, LANES }; /* the numbers of lanes */

static int64_t read_lanes(const ContractionSide *s, bool allows)
{
    return allows && s->contiguous != 0 && s->contiguous % PART == 0 ? PART : 1;
}

static void configure_lanes(const KernelDesign *d, KernelConfig *c)
{
    const ContractionPlan *p = d->plan.contraction;
    const Computation *comp = inst_called(d->fusion, 0);
    bool is_plain = fusion_is_plain(comp, &p->inst, 1);
    bool reads = is_plain || comp->instruction_count <= READ_IN_LANES;
    int64_t lanes[LANES] = {read_lanes(&p->y, reads), read_lanes(&p->x, reads),
                            is_plain && p->x.size % PART == 0 ? PART : 1};
    c->lanes = (Ints){arena_copy(d->arena, lanes, sizeof lanes), LANES};
}

void configure_contraction(const KernelDesign *d, KernelConfig *c)
{
    if (config_lacks(c, KERNEL_KEY_TILE))
        c->tile[Y] = c->tile[X] = TILE;
    if (config_lacks(c, KERNEL_KEY_DEPTH))
        c->depth = TILE_DEPTH;
    if (config_lacks(c, KERNEL_KEY_PART))
        c->part[Y] = c->part[X] = PART;
    if (config_lacks(c, KERNEL_KEY_LANES))
        configure_lanes(d, c);
}

static uint64_t side_bytes(const KernelDesign *d, int side)
{
    const KernelConfig *c = &d->config;
    return (uint64_t)(shared_bytes(d->plan.contraction->type) * c->depth *
                      contraction_stride(c->tile[side]));
}

static int64_t threads_of(const KernelConfig *c)
{
    return c->tile[Y] / c->part[Y] * (c->tile[X] / c->part[X]);
}

static const char *refuse_side(const KernelDesign *d, const ContractionSide *s, int side)
{
    const KernelConfig *c = &d->config;
    int64_t lanes = c->lanes.data[side], part = c->part[side];
    int64_t along = s->depth_first ? c->depth : c->tile[side];
    if (c->tile[side] % part != 0 || (part & (part - 1)) != 0)
        return refuse_text(
            d, "\"part\" %lld must be a power of two that divides the tile's %lld",
            (long long)part, (long long)c->tile[side]);
    if (lanes != 1 && (s->contiguous == 0 || s->contiguous % lanes != 0))
        return refuse_text(d, "\"lanes\" %lld: operand %u has %lld elements side by side",
                           (long long)lanes, s->operand, (long long)s->contiguous);
    return along % lanes == 0
               ? NULL
               : refuse_text(d, "\"lanes\" %lld must divide the tile's %lld",
                             (long long)lanes, (long long)along);
}

const char *refuse_contraction(const KernelDesign *d)
{
    const ContractionPlan *p = d->plan.contraction;
    const KernelConfig *c = &d->config;
    const char *wrong = lanes_refused(d, LANES);
    if (wrong == NULL)
        wrong = refuse_side(d, &p->y, Y);
    if (wrong == NULL)
        wrong = refuse_side(d, &p->x, X);
    if (wrong != NULL)
        return wrong;
    int64_t write = c->lanes.data[WRITE], threads = threads_of(c);
    if (c->part[X] % write != 0 || p->x.size % write != 0)
        return refuse_text(d,
                           "\"lanes\" %lld of the result must divide a part's %lld and "
                           "its %lld elements",
                           (long long)write, (long long)c->part[X], (long long)p->x.size);
    if (threads % TARGET_WARP != 0 || threads > TARGET_BLOCK_THREADS)
        return refuse_text(d,
                           "\"tile\" and \"part\" ask for %lld threads; a block has a "
                           "multiple of %d, %d at most",
                           (long long)threads, TARGET_WARP, TARGET_BLOCK_THREADS);
    int64_t words = dtype_info[p->type].bits > 32 ? dtype_info[p->type].bits / 32 : 1;
    wrong = registers_refused(d, "the sums of \"part\"", c->part[Y] * c->part[X] * words,
                              threads);
    return wrong != NULL ? wrong : shared_refused(d, side_bytes(d, Y) + side_bytes(d, X));
}

void geometry_contraction(KernelDesign *d)
{
    const ContractionPlan *p = d->plan.contraction;
    const KernelConfig *c = &d->config;
    int64_t y = p->y.size / c->tile[Y] + (p->y.size % c->tile[Y] != 0);
    int64_t x = p->x.size / c->tile[X] + (p->x.size % c->tile[X] != 0);
    geometry_blocks(d, y * x * p->batch_size, threads_of(c), 1);
    geometry_shared(&d->geometry, side_bytes(d, Y), 16);
    geometry_shared(&d->geometry, side_bytes(d, X), 16);
    d->geometry.has_barriers = p->depth != 0;
}
