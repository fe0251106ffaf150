/* Kernels by tiles in shared memory: transposes, and products of tiles. */
#include "ir/base/divide.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/kernel/time/work_kinds.h"
#include "ir/tile/mapping.h"

enum { SLOW, FAST };  /* sides of a tile: along the slower and the faster dimension */
enum { READ, WRITE }; /* lanes of a transpose */
enum { WRITE_PRODUCT = FAST + 1 }; /* lanes of a product: of y, of x, of the result */

void work_spread(WorkBuilder *b, const Shape *s, const uint32_t *dims, uint32_t count,
                 const IndexExpr *number, const IndexExpr **index)
{
    for (uint32_t i = count; i-- > 0;) {
        int64_t size = s->dims[dims[i]];
        index[dims[i]] = i == 0 ? number : ix_mod(b->ix, number, size);
        number = ix_floordiv(b->ix, number, size);
    }
}

static int64_t tiles_of(int64_t size, int64_t tile)
{
    return (size + tile - 1) / tile;
}

/* The block's tile along one of its sides: its first element. */
static const IndexExpr *tile_origin(WorkBuilder *b, int64_t block_div, int64_t tiles,
                                    int64_t tile)
{
    WorkCoordinate c = {.block_div = block_div, .block_mod = tiles, .block_mul = tile};
    return tiles == 1 ? ix_const(b->ix, 0) : work_coordinate(b, c, tiles * tile);
}

/* -- transposes --------------------------------------------------------------------------------------- */

typedef struct Turn {
    WorkBuilder *b;
    const TransposePlan *plan;
    const Shape *result;
    const IndexExpr *batch, *inner, *outer; /* of the tile's first element */
} Turn;

/* The walk over a tile: accesses of `lanes` positions along one side. */
static void walk_tile(Turn *t, uint32_t lanes, int64_t along_size, int64_t across_size,
                      bool reads)
{
    WorkBuilder *b = t->b;
    int64_t per_row = along_size / lanes, accesses = per_row * across_size;
    double trips = (double)accesses / b->threads;
    work_set_lanes(b, lanes);
    const IndexExpr *step =
        work_loop_begin(b, trips, (int64_t)trips < 1 ? 1 : (int64_t)trips, 2);
    const IndexExpr *column = work_coordinate(
        b, (WorkCoordinate){.thread_div = 1, .thread_mod = per_row}, per_row);
    const IndexExpr *row =
        work_coordinate(b, (WorkCoordinate){.thread_div = per_row}, across_size);
    int64_t rows = b->threads / per_row < 1 ? 1 : b->threads / per_row;
    row = ix_add(b->ix, row, ix_mul(b->ix, step, rows));
    const IndexExpr *along = ix_add(b->ix, ix_mul(b->ix, column, lanes), work_lane(b));
    const IndexExpr *index[KERNEL_MOST_RANK], *at[KERNEL_MOST_RANK];
    const TransposePlan *p = t->plan;
    for (uint32_t d = 0; d < p->rank; d++)
        index[d] = ix_const(b->ix, 0);
    work_spread(b, t->result, p->batch, p->batch_count, t->batch, index);
    work_spread(b, t->result, p->inner, p->inner_count,
                ix_add(b->ix, t->inner, reads ? row : along), index);
    work_spread(b, t->result, p->outer, p->outer_count,
                ix_add(b->ix, t->outer, reads ? along : row), index);
    for (uint32_t h = 0; h < p->hero_count; h++) {
        const Instruction *hero = p->heroes[h];
        unsigned bytes = shared_bytes(hero->shape->dtype);
        if (reads) {
            work_apply(b, hero, 0, index, NULL, at, NULL);
            work_element(b, hero->operands[0], at);
        }
        /* narrow values share banks */
        work_shared(b, lanes, bytes, 1);
        work_instructions(b, (OpCost){.alu = 1, .cycles = costs.alu_cycles}, 1);
    }
    for (uint32_t i = 0; !reads && i < fusion_result_count(b->fusion); i++)
        work_result(b, i, index);
    work_loop_end(b, 0);
    work_set_lanes(b, 1);
}

void work_transpose(const KernelDesign *d, KernelWork *out)
{
    const TransposePlan *p = d->plan.transpose;
    const KernelConfig *c = &d->config;
    WorkBuilder *b = work_begin(d);
    int64_t inner = tiles_of(p->inner_size, c->tile[FAST]);
    int64_t outer = tiles_of(p->outer_size, c->tile[SLOW]);
    Turn t = {.b = b,
              .plan = p,
              .result = fusion_result(d->fusion, 0).shape,
              .inner = tile_origin(b, 1, inner, c->tile[FAST]),
              .outer = tile_origin(b, inner, outer, c->tile[SLOW]),
              .batch = tile_origin(b, inner * outer, p->batch_size, 1)};
    walk_tile(&t, (uint32_t)c->lanes.data[READ], c->tile[SLOW], c->tile[FAST], true);
    work_barrier(b);
    for (uint32_t h = 0; h < p->hero_count; h++)
        work_preset(b, p->heroes[h]);
    walk_tile(&t, (uint32_t)c->lanes.data[WRITE], c->tile[FAST], c->tile[SLOW], false);
    work_end(b, out);
}

/* -- products ----------------------------------------------------------------------------------------------- */

typedef struct Product {
    WorkBuilder *b;
    const KernelDesign *design;
    const ContractionPlan *plan;
    const IndexExpr *batch, *origin[2];
    DType type;     /* that elements are multiplied as */
    unsigned bytes; /* of a value in shared memory */
    bool is_copied; /* asynchronously, from memory to shared memory */
    bool is_joined; /* lanes are stored to shared memory at once */
    bool is_held;   /* a thread has terms that follow each other, in registers */
    bool is_through_registers; /* loaded when a step begins, stored when it ends */
    bool is_repeated;          /* a vector, for all rows or columns of the tile */
} Product;

static const ContractionSide *side_of(const Product *p, int side)
{
    return side == SLOW ? &p->plan->y : &p->plan->x;
}

static void spread_side(const Product *p, const ContractionSide *s,
                        const IndexExpr *number, const IndexExpr **index)
{
    WorkBuilder *b = p->b;
    const ContractionPlan *c = p->plan;
    if (c->feature_dim >= 0 && s->operand == 1)
        index[c->feature_dim] =
            ix_add(b->ix, number, ix_mul(b->ix, p->batch, c->per_group));
    else
        work_spread(b, c->inst->shape, s->dims, s->count, number, index);
}

static void result_index(const Product *p, const IndexExpr *y, const IndexExpr *x,
                         const IndexExpr **index)
{
    const ContractionPlan *c = p->plan;
    for (uint32_t d = 0; d < c->inst->shape->rank; d++)
        index[d] = ix_const(p->b->ix, 0);
    work_spread(p->b, c->inst->shape, c->batch_dims, c->batch_count, p->batch, index);
    spread_side(p, &c->y, y, index);
    spread_side(p, &c->x, x, index);
}

/* The group that the block's rows are in, if all have as many. */
static const IndexExpr *group_of_rows(const Product *p)
{
    const ContractionPlan *c = p->plan;
    int side = c->y.operand == 0 ? SLOW : FAST;
    int64_t tile = p->design->config.tile[side],
            rows = contraction_tiles(c, side_of(p, side), tile) * tile;
    return ix_floordiv(p->b->ix, p->origin[side], tiles_of(rows, c->ragged.groups));
}

/* The operand's elements at a position of its side and a depth, converted for the sums. */
static void read_elements(const Product *p, int side, const IndexExpr *position,
                          const IndexExpr *depth)
{
    WorkBuilder *b = p->b;
    const ContractionPlan *c = p->plan;
    const ContractionSide *s = side_of(p, side);
    const Instruction *operand = c->inst->operands[s->operand];
    const IndexMap *map = work_map(b, c->inst, s->operand);
    const IndexExpr *index[KERNEL_MOST_RANK], *at[KERNEL_MOST_RANK],
        *symbols[KERNEL_MOST_RANK], *constraints[2 * KERNEL_MOST_RANK];
    const IndexExpr *zero = ix_const(b->ix, 0);
    result_index(p, side == SLOW ? position : zero, side == FAST ? position : zero,
                 index);
    if (c->ragged.mode == RAGGED_FREE && s->operand == 1)
        symbols[map->symbol_count - 1] = group_of_rows(p);
    for (uint32_t i = c->symbol_count; i-- > 0;) {
        int64_t size = map->symbols[c->symbols[i]].hi + 1;
        symbols[c->symbols[i]] = i == 0 ? depth : ix_mod(b->ix, depth, size);
        depth = ix_floordiv(b->ix, depth, size);
    }
    work_apply(b, c->inst, s->operand, index, symbols, at, constraints);
    work_check(b, map, constraints);
    work_element(b, operand, at);
    work_instructions(b, convert_cost(operand->shape->dtype, p->type), b->lanes);
}

/* One side's tile at a depth: into shared memory, `lanes` neighbours at once. */
static void read_tile(const Product *p, int side, const IndexExpr *first, int64_t lanes,
                      bool depth_first)
{
    WorkBuilder *b = p->b;
    const KernelConfig *c = &p->design->config;
    int64_t tile = p->is_repeated ? 1 : c->tile[side];
    int64_t fast_size = depth_first ? c->depth : tile;
    int64_t slow_size = depth_first ? tile : c->depth, per_row = fast_size / lanes;
    double trips = (double)(slow_size * per_row) / b->threads;
    /* what goes through registers is loaded at once, before any of it is used */
    double together = p->is_through_registers && trips > 4 ? trips : 4;
    work_set_lanes(b, (uint32_t)lanes);
    const IndexExpr *step =
        work_loop_begin(b, trips, (int64_t)trips < 1 ? 1 : (int64_t)trips, together);
    const IndexExpr *fast = work_coordinate(
        b, (WorkCoordinate){.thread_div = 1, .thread_mod = per_row}, per_row);
    int64_t apart = b->threads / per_row < 1 ? 1 : b->threads / per_row,
            own = p->is_held ? (int64_t)trips : 1;
    const IndexExpr *slow =
        ix_add(b->ix,
               ix_mul(b->ix,
                      work_coordinate(b, (WorkCoordinate){.thread_div = per_row},
                                      slow_size / (own < 1 ? 1 : own)),
                      own < 1 ? 1 : own),
               ix_mul(b->ix, step, p->is_held ? 1 : apart));
    fast = ix_add(b->ix, ix_mul(b->ix, fast, lanes), work_lane(b));
    const IndexExpr *position = ix_add(b->ix, p->origin[side], depth_first ? slow : fast);
    const IndexExpr *depth = ix_add(b->ix, first, depth_first ? fast : slow);
    read_elements(p, side, position, depth);
    /* the tile's and the array's ends, the slot */
    work_instructions(b, (OpCost){.alu = 3, .cycles = costs.alu_cycles}, 1);
    double width = p->is_joined ? (double)lanes * p->bytes : p->bytes;
    width = width > 16 ? 16 : width < 1 ? 1 : width;
    if (!p->is_copied) /* else what is loaded goes there */
        work_shared(b, (double)lanes * p->bytes / width, width, 1);
    work_loop_end(b, 0);
    work_set_lanes(b, 1);
}

/* Values that a thread takes of shared memory at once, of up to 16 bytes. */
static void read_part(const Product *p, int side)
{
    const KernelConfig *c = &p->design->config;
    double bytes = p->bytes * (double)c->part[side];
    double width = bytes > 16 ? 16 : bytes;
    /* threads of a warp that share a row or a column of the tile read the same */
    double across = (double)c->tile[FAST] / (double)c->part[FAST];
    double rows = across < TARGET_WARP ? TARGET_WARP / across : 1;
    double distinct = side == FAST ? across / TARGET_WARP : rows / TARGET_WARP;
    work_shared(p->b, bytes / width, width, distinct < 1 ? distinct : 1);
}

static OpCost product_cost(const ContractionPlan *p)
{
    OpCost product = op_cost(OP_MULTIPLY, p->type), sum = op_cost(OP_ADD, p->type);
    if (dtype_is_complex(p->type))
        return (OpCost){.fma = p->type == DT_C64 ? 4 : 0,
                        .f64 = p->type == DT_C64 ? 0 : 4,
                        .cycles = 2 * sum.cycles};
    bool is_long = dtype_is_integer(p->type) && dtype_info[p->type].bits == 64;
    if (is_long)
        product.alu += sum.alu;
    return product;
}

static void multiply_tiles(const Product *p)
{
    WorkBuilder *b = p->b;
    const KernelConfig *c = &p->design->config;
    double parts = (double)(c->part[SLOW] * c->part[FAST]);
    work_loop_begin(b, (double)c->depth, c->depth, 4);
    read_part(p, SLOW);
    read_part(p, FAST);
    work_instructions(b, product_cost(p->plan), parts);
    work_loop_end(b, product_cost(p->plan).cycles);
}

static void contract_all(const Product *p)
{
    WorkBuilder *b = p->b;
    const KernelConfig *c = &p->design->config;
    int64_t steps = tiles_of(p->plan->depth, c->depth);
    const IndexExpr *step = work_loop_begin(b, (double)steps, steps, 1);
    const IndexExpr *first = ix_mul(b->ix, step, c->depth);
    for (int side = SLOW; side <= FAST; side++)
        read_tile(p, side, first, c->lanes.data[side], side_of(p, side)->depth_first);
    work_barrier(b);
    multiply_tiles(p);
    work_barrier(b);
    work_loop_end(b, 0);
}

/* A result may have other dimensions than the product, of which it has all elements in order. */
static void write_result(const Product *p, uint32_t leaf, const IndexExpr *const *index)
{
    WorkBuilder *b = p->b;
    const Shape *product = p->plan->inst->shape,
                *result = fusion_result(b->fusion, leaf).shape;
    const IndexExpr *own[KERNEL_MOST_RANK];
    if (shape_same_dims(product, result)) {
        work_result(b, leaf, index);
        return;
    }
    index_delinear(b->ix, result, index_linear(b->ix, product, index), own);
    work_result(b, leaf, own);
}

/* The thread's part of the result, and what is made of it. */
static void write_part(const Product *p, int64_t rows, int64_t part, uint32_t lanes)
{
    WorkBuilder *b = p->b;
    const KernelConfig *c = &p->design->config;
    int64_t across = c->tile[FAST] / part, columns = part / lanes;
    const IndexExpr *index[KERNEL_MOST_RANK];
    work_preset(b, p->plan->inst);
    work_set_lanes(b, lanes);
    const IndexExpr *row = ix_mul(
        b->ix, work_coordinate(b, (WorkCoordinate){.thread_div = across}, c->tile[SLOW]),
        rows);
    const IndexExpr *column =
        ix_mul(b->ix,
               work_coordinate(b, (WorkCoordinate){.thread_div = 1, .thread_mod = across},
                               across),
               part);
    const IndexExpr *step =
        work_loop_begin(b, (double)(rows * columns), rows * columns, 4);
    row = ix_add(b->ix, row, ix_floordiv(b->ix, step, columns));
    column = ix_add(b->ix, column, ix_mul(b->ix, ix_mod(b->ix, step, columns), lanes));
    column = ix_add(b->ix, column, work_lane(b));
    result_index(p, ix_add(b->ix, p->origin[SLOW], row),
                 ix_add(b->ix, p->origin[FAST], column), index);
    work_instructions(b, convert_cost(p->plan->type, p->plan->inst->shape->dtype), lanes);
    for (uint32_t i = 0; i < fusion_result_count(b->fusion); i++)
        write_result(p, i, index);
    work_loop_end(b, 0);
    work_set_lanes(b, 1);
}

static Product product_begin(const KernelDesign *d, const ContractionPlan *c, DType type,
                             unsigned bytes)
{
    const int64_t *tile = d->config.tile;
    WorkBuilder *b = work_begin(d);
    int64_t y_tiles = contraction_tiles(c, &c->y, tile[SLOW]),
            x_tiles = contraction_tiles(c, &c->x, tile[FAST]);
    Product p = {.b = b, .design = d, .plan = c, .type = type, .bytes = bytes};
    p.origin[FAST] = tile_origin(b, 1, x_tiles, tile[FAST]);
    p.origin[SLOW] = tile_origin(b, x_tiles, y_tiles, tile[SLOW]);
    p.batch = tile_origin(b, x_tiles * y_tiles, c->batch_size, 1);
    return p;
}

static void product_end(const Product *p, KernelWork *out)
{
    WorkBuilder *b = p->b;
    const ContractionPlan *c = p->plan;
    b->product_operations = 2 * (double)shape_elements(c->inst->shape) * (double)c->depth;
    if (c->ragged.mode == RAGGED_SUMMED)
        b->product_operations /= (double)c->ragged.groups;
    b->operations += b->product_operations;
    b->product_type = c->inst->operands[0]->shape->dtype;
    work_end(b, out);
}

void work_contraction(const KernelDesign *d, KernelWork *out)
{
    const ContractionPlan *c = d->plan.contraction;
    Product p = product_begin(d, c, c->type, shared_bytes(c->type));
    const int64_t *part = d->config.part;
    double words = (double)p.bytes / 4 > 1 ? (double)p.bytes / 4 : 1;
    work_registers(p.b,
                   words * (double)(part[SLOW] * part[FAST] + part[SLOW] + part[FAST]));
    if (c->depth != 0)
        contract_all(&p);
    write_part(&p, part[SLOW], part[FAST], (uint32_t)d->config.lanes.data[WRITE_PRODUCT]);
    product_end(&p, out);
}

/* -- products on tensor cores ------------------------------------------------------------------------------- */

double work_product_cycles(const WorkBuilder *b, DType factor, double operations,
                           double percent)
{
    double peak = product_peak(factor, b->device),
           cycle =
               peak * percent / 100 / b->device->multiprocessors / (b->rates->mhz * 1e6);
    return operations / cycle;
}

double work_core_cycles(const WorkBuilder *b, const TensorCore *core)
{
    DType factor = core->types[TENSOR_A];
    return work_product_cycles(b, factor, 2.0 * core->m * core->n * core->k,
                               product_mma_percent(b->rates, factor) *
                                   costs.tile_fraction);
}

bool work_reads_windows(const Instruction *product)
{
    if (product->op != OP_CONVOLUTION)
        return false;
    const Window *w = inst_window(product);
    for (uint32_t i = 0; i < w->rank; i++) {
        if (w->dims[i].size > 1)
            return true;
    }
    return false;
}

double work_async_products(WorkBuilder *b, const TileMapping *m, bool loads_left,
                           bool overlaps, double *times)
{
    const TileDim *dims = m->program->dims;
    DType factor = m->factors[1].value->dtype;
    double rows = (double)dims[m->row].size, columns = (double)dims[m->column].size,
           terms = (double)dims[m->term].size;
    *times = rows / WARPGROUP_ROWS / (m->warps[0] / (double)WARPGROUP_WARPS);
    double bytes = *times * ((loads_left ? WARPGROUP_ROWS : 0) + columns / m->warps[1]) *
                   terms * dtype_info[factor].bits / 8;
    work_shared(b, bytes / 16 / (WARPGROUP_WARPS * TARGET_WARP), 16, 1);
    if (!overlaps)
        work_wait(b, *times * costs.shared_cycles); /* for the groups' ends */
    return work_product_cycles(b, factor, 2 * rows * columns * terms,
                               b->rates->async_mma * (overlaps
                                                          ? costs.tile_overlap_fraction
                                                          : costs.tile_fraction));
}

/* The side whose tiles are in groups. */
static int ragged_side(const Product *p)
{
    return p->plan->y.operand == 0 ? SLOW : FAST;
}

/* The part of a tile's rows in groups that is there, on average, if each group has so many rows more. */
static double part_there(const Product *p, double more)
{
    const ContractionPlan *c = p->plan;
    const int64_t *tile = p->design->config.tile;
    int side = ragged_side(p);
    double tiles = (double)contraction_tiles(c, side_of(p, side), tile[side]) *
                   contraction_busy(c, tile[SLOW], tile[FAST]),
           rows = (double)c->ragged.extent + (double)c->ragged.groups * more,
           all = tiles * (double)tile[side];
    return rows < all ? rows / all : 1;
}

/* That is multiplied: half of a step more at the end of a group. */
static double part_multiplied(const Product *p, const TileMapping *m)
{
    if (p->plan->ragged.mode != RAGGED_FREE || !m->by_warpgroup)
        return 1;
    bool is_row = (m->dot->operands[ragged_side(p)]->dims >> m->row & 1) != 0;
    return part_there(p, tile_warpgroup_step(m, is_row ? m->row : m->column) / 2.0);
}

/* Rows behind the end of a group are neither read nor written. */
static WorkPart rows_begin(const Product *p, bool in_groups)
{
    bool is_short = in_groups && p->plan->ragged.mode == RAGGED_FREE;
    return work_predicate_begin(p->b, is_short ? part_there(p, 0) : 1);
}

/* Of one stage. */
static void multiply_by_warpgroups(const Product *p, const TileMapping *m)
{
    WorkBuilder *b = p->b;
    double times,
        cycles = work_async_products(b, m, true, tile_steps_overlap(m), &times) *
                 part_multiplied(p, m);
    if (work_reads_windows(p->plan->inst))
        cycles /= costs.tile_window_fraction;
    work_instructions(b, (OpCost){.tensor = cycles}, 1.0 / (double)tile_warps(m));
    work_instructions(b, (OpCost){.alu = 8, .cycles = costs.alu_cycles}, times);
}

/* Of one stage: fragments are loaded, 16 bytes of each lane at once, and multiplied. */
static void multiply_stage(const Product *p, const TileMapping *m)
{
    WorkBuilder *b = p->b;
    if (m->by_warpgroup) {
        multiply_by_warpgroups(p, m);
        return;
    }
    double bytes = 0, warps = (double)tile_warps(m), multiplications = 1;
    for (int i = 0; i < 2; i++) {
        const TileFactor *f = &m->factors[i];
        if (f->is_held)
            continue;
        double elements = (double)(UINT32_C(1) << f->fragment.in[LINEAR_REGISTER]);
        bytes += elements * dtype_info[f->value->dtype].bits / 8;
    }
    work_shared(b, bytes / 16, 16, 1);
    double cycles = work_core_cycles(b, m->core);
    if (work_reads_windows(p->plan->inst))
        cycles /= costs.tile_window_fraction;
    const uint32_t dims[] = {m->row, m->column, m->term};
    const uint32_t sizes[] = {m->core->m, m->core->n, m->core->k};
    for (int i = 0; i < 3; i++)
        multiplications *= (double)m->program->dims[dims[i]].size / sizes[i];
    work_instructions(b, (OpCost){.alu = 1, .tensor = cycles}, multiplications / warps);
}

/* Each slice gives what it has of the others' parts, and adds up its own of all. */
static void add_slices(const Product *p, const TileMapping *m)
{
    double sums = (double)(UINT32_C(1) << m->partial.in[LINEAR_REGISTER]),
           bytes = (double)dtype_info[m->dot->dtype].bits / 8;
    if (m->slices == 1)
        return;
    work_barrier(p->b);
    work_shared(p->b, 2 * sums * bytes / 16, 16, 1);
    work_barrier(p->b);
    work_instructions(p->b, op_cost(OP_ADD, m->dot->dtype), sums);
}

double work_tile_steps(const ContractionPlan *c, int64_t depth)
{
    if (c->ragged.mode == RAGGED_SUMMED)
        return (double)c->depth / (double)c->ragged.groups / (double)depth + 0.5;
    return (double)tiles_of(c->depth, depth);
}

/* Of sums by groups, and where groups are columns, the order is not looked at. */
static void begin_matrix(const Product *p, TilePanels panels, const IndexExpr *step)
{
    const RaggedForm *r = &p->plan->ragged;
    bool is_grouped = r->mode == RAGGED_FREE && ragged_side(p) == SLOW;
    if (r->mode == RAGGED_NONE || is_grouped)
        p->b->matrix = (WorkMatrix){.panels = panels,
                                    .batch = p->batch,
                                    .origin = {p->origin[SLOW], p->origin[FAST]},
                                    .term = is_grouped ? step : NULL,
                                    .groups = is_grouped ? r->groups : 1,
                                    .together = 1};
}

/* -- tiles that blocks share ---------------------------------------------------------------------------- */

/* How far apart two tiles, `hop` of them from one another, are in their terms when blocks are at both, at least: runs are
 * tiles / blocks long, so the block that is round(hop / run) further begins elsewhere in its tile. */
static double skew_of(const TileStream *s, int64_t hop)
{
    double least = 1;
    for (int64_t n = hop; n <= 2 * hop; n += hop) {
        int64_t blocks = (n * s->blocks + s->tiles / 2) / s->tiles,
                apart = blocks * s->tiles - n * s->blocks;
        double skew = (double)(apart < 0 ? -apart : apart) / (double)s->blocks;
        least = skew < least ? skew : least;
    }
    return least;
}

/* Bytes of memory that the blocks which share tiles read, and how many of them are more than if they went through their
 * terms side by side. What tiles of a row or column have in common is read for each of them, if L2 does not keep what
 * all blocks read while one gets as far as another. */
static double skewed_bytes(const KernelDesign *d, const TileMapping *m,
                           const TileStream *s, int64_t panel, double kept, double *more)
{
    TilePanels panels = tile_panels(m->program, panel < 1 ? 1 : panel);
    int64_t all = panels.tiles[PANEL_SLOW] * panels.tiles[PANEL_FAST],
            different[PANEL_SIDES];
    *more = 0;
    if (all == 0)
        return 0;
    bool is_one = tile_blocks(m->program) == all;
    int64_t count = s->tiles < all ? s->tiles : all;
    tile_panels_span(&panels, is_one ? s->first : 0, count, different);
    double matrices = (double)s->tiles / (double)count, stream = 0, tile[PANEL_SIDES];
    DType factor = m->factors[0].value->dtype;
    for (int side = 0; side < PANEL_SIDES; side++) {
        tile[side] = (double)d->config.tile[side] *
                     (double)d->plan.tile->contraction->depth * dtype_info[factor].bits /
                     8;
        stream += matrices * (double)different[side] * tile[side];
    }
    const int64_t hops[] = {panels.panel > 1 ? panels.panel : 1,
                            panels.panel > 1 ? 1 : panels.tiles[PANEL_FAST]};
    for (int side = 0; side < PANEL_SIDES; side++) {
        bool fits = tile[side] * (double)panels.tiles[side] <= kept;
        if (!fits && skew_of(s, hops[side]) * stream > kept)
            *more += ((double)s->tiles - matrices * (double)different[side]) * tile[side];
    }
    return stream + *more;
}

/* A block whose run ends within a tile gives its sums to L2; the one that has the tile's last steps takes those of all the
 * others, one after the other. What it waits for at its end nothing hides. */
void work_stream(const KernelDesign *d, const TileMapping *m, KernelWork *w)
{
    const GpuModel *device = d->target->device;
    TileStream s = tile_stream(d, m);
    if (s.blocks == 0)
        return;
    const GpuRates *rates = gpu_rates(device);
    double l2 = (double)rates->l2_bytes / device->multiprocessors,
           rate = l2 < costs.multiprocessor_bytes ? l2 : costs.multiprocessor_bytes;
    double together = (double)s.blocks / device->multiprocessors,
           resident = kernel_resident(w, device);
    together = together < 1 ? 1 : together < resident ? together : resident;
    double move = (double)s.sums * together / rate;
    int64_t others = s.blocks % s.tiles == 0 ? s.blocks / s.tiles - 1
                     : s.blocks > s.tiles    ? tiles_of(s.blocks, s.tiles)
                                             : 1;
    double parts = (double)(s.blocks - gcd(s.blocks, s.tiles));
    w->stream.blocks = (double)s.tiles;
    w->stream.by = (double)s.blocks;
    /* the ticket; a second tile's first stages; sums on their way, the flag behind them; of each of the others the flag
     * and the sums behind it */
    w->stream.cycles = costs.atomic_cycles + rates->memory_cycles +
                       (double)(1 + others) * (move + 2 * costs.atomic_cycles);
    w->l2_bytes += 2 * parts * (double)s.sums;
    w->written_bytes += parts * (double)s.sums;
    int64_t panel = d->config.panel > 0 ? d->config.panel : w->panel;
    double more, kept = costs.l2_kept * device->l2_kib * 1024.0,
                 read = skewed_bytes(d, m, &s, panel, kept, &more);
    w->stream.bytes = more > 0 ? read : 0;
    w->read_bytes += more;
    w->l2_atomics += 2 * (double)s.blocks;
}

void work_tile(const KernelDesign *d, KernelWork *out)
{
    const ContractionPlan *c = d->plan.tile->contraction;
    const KernelConfig *config = &d->config;
    const char *why;
    const TileMapping *m = design_tile_mapping(d, &why);
    bool is_swapped = (m->dot->operands[0]->dims >> m->row & 1) == 0;
    const TileFactor *by_side[] = {&m->factors[is_swapped], &m->factors[!is_swapped]};
    DType factor = by_side[SLOW]->value->dtype;
    Product p = product_begin(d, c, factor, dtype_info[factor].bits / 8);
    WorkBuilder *b = p.b;
    if (config->stream_k[1] != 0)
        b->blocks = (double)tile_blocks(m->program);
    b->blocks *= contraction_busy(c, config->tile[SLOW], config->tile[FAST]);
    double sums = (double)(UINT32_C(1) << m->partial.in[LINEAR_REGISTER]);
    work_registers(b, sums * dtype_info[m->dot->dtype].bits / 32);
    int64_t steps = tiles_of(c->depth, config->depth);
    const IndexExpr *step = work_loop_begin(b, work_tile_steps(c, config->depth), steps,
                                            (double)tile_stages_ahead(m) + 1);
    const IndexExpr *first = ix_mul(b->ix, step, config->depth);
    begin_matrix(&p, tile_panels(m->program, config->panel), step);
    bool waits = false;
    for (int side = SLOW; side <= FAST; side++) {
        p.is_held = by_side[side]->is_held;
        p.is_copied = by_side[side]->is_copied || p.is_held;
        p.is_through_registers = !p.is_copied;
        p.is_repeated = tile_is_repeated(m, by_side[side]);
        b->is_paired = p.is_held;
        p.is_joined = true;
        WorkPart rows = rows_begin(&p, side == ragged_side(&p));
        read_tile(&p, side, first, INT64_C(1) << by_side[side]->vector,
                  by_side[side]->fast == m->term);
        work_part_end(b, rows);
        waits |= p.is_through_registers;
    }
    b->is_paired = false;
    work_barrier(b);
    /* stages ahead hide nothing of what passes through registers: it arrives in the step that asks for it, behind the
     * copies that were asked for before (on an H200 1,000 of 1,520 cycles of such a step, copies of 16 KB) */
    double loaded = waits ? work_loop_at(b, b->loop)->now : 0;
    multiply_stage(&p, m);
    work_loop_end(b, loaded);
    add_slices(&p, m);
    const TileResult *r = &m->results[0];
    uint32_t lanes = UINT32_C(1) << r->vector;
    int64_t threads = b->threads,
            each = config->tile[SLOW] * config->tile[FAST] / threads;
    int64_t part = lanes < each ? lanes : each;
    if (r->exchange != NULL)
        work_shared(b, 2 * (double)r->bytes / (double)threads / 16, 16, 1);
    WorkPart rows = rows_begin(&p, true);
    write_part(&p, each / part, part, (uint32_t)part);
    work_part_end(b, rows);
    product_end(&p, out);
    out->product_type = factor;
    out->longest =
        m->by_warpgroup && c->ragged.mode == RAGGED_FREE ? 1 / part_multiplied(&p, m) : 0;
    work_stream(d, m, out);
}
