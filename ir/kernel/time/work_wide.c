/* Convolutions by wgmma, or by mma.sync in its place. Sums whose columns no result has are multiplied, too. What loops over
 * taps keep busy of wgmma by positions was measured; otherwise, and of mma.sync, it is taken to be what loops over tiles
 * do. A tap's positions begin at one distance from the first ones, so that none are found between multiplications. */
#include "ir/base/divide.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/kernel/time/work_kinds.h"

enum {
    Y,
    X,
    FEATURES = 0,
    ROWS = 1,
    PIECE_BYTES = 16,
    GROUP = 128 /* threads */
};

typedef struct WideWork {
    WorkBuilder *b;
    const WidePlan *p;
    const KernelConfig *c;
    WideStorage storage;
} WideWork;

static void issue(const WideWork *w, double alu)
{
    work_instructions(w->b, (OpCost){.alu = alu, .cycles = costs.alu_cycles}, 1);
}

/* Bytes that a request of a copy by wgmma's kernels brings: of what else copies nothing was measured, and it counts as if
 * all requests brought lines. */
static double request_bytes(const WideWork *w, uint32_t line)
{
    if (!w->p->has_lines)
        return costs.line_bytes;
    return line != 0 ? line : PIECE_BYTES;
}

/* A request takes a cycle of shared memory whatever it brings, */
static void copy(const WideWork *w, double pieces, uint32_t line)
{
    work_shared(w->b, pieces, PIECE_BYTES, costs.line_bytes / request_bytes(w, line));
}

/* and some of L2's rate. */
static double copy_share(const WideWork *w, uint32_t line)
{
    double share = costs.copy_request_bytes / request_bytes(w, line);
    return share > 1 ? share : 1;
}

/* Instructions: of a piece of 16 bytes that finds its position by three divisions, and of eight that are turned
 * together. */
enum { FIND_PIECE = 20, TURN_EIGHT = 40 };

/* Loads and stores of a thread that has several pieces under way. Rows of positions are loaded by lines of their channels;
 * of
 * what is turned, a warp loads 512 bytes of a channel, which lie in five lines. */
static void fill_by_registers(const WideWork *w)
{
    enum {
        PIECE = 16 /* instructions: SASS of 3x3 from 64 features, 390 of 24 pieces */
    };
    WorkBuilder *b = w->b;
    const WidePlan *p = w->p;
    int64_t pieces = w->c->depth / WARPGROUP_PIECE, s = p->stride, loads;
    if (p->is_last)
        loads = wide_reached_rows(p, w->c) *
                ceil_div(s * w->storage.pitch, (int64_t)b->threads / pieces);
    else
        loads =
            WARPGROUP_PIECE * ceil_div(wide_turned_vectors(p, w->c), (int64_t)b->threads);
    double count = (double)loads;
    work_wait(b,
              (double)ceil_div(loads, wide_at_once(p, w->c)) * b->rates->memory_cycles);
    work_shared(b, count, PIECE_BYTES, p->is_last ? 1 : 1.25);
    work_shared(b, count, PIECE_BYTES, 1);
    issue(w, count * (p->is_last ? PIECE
                                 : (FIND_PIECE + TURN_EIGHT) / (double)WARPGROUP_PIECE +
                                       WARPGROUP_PIECE));
    work_barrier(b);
}

/* By positions as many rows as it has positions of. */
static void fill_patch(const void *of)
{
    const WideWork *w = of;
    WorkBuilder *b = w->b;
    if (wide_by_registers(w->p, w->c)) {
        fill_by_registers(w);
        return;
    }
    double pieces = (double)w->storage.patch_bytes / PIECE_BYTES / b->threads;
    if (w->c->by_positions)
        pieces = wide_positions_rows(w->p, w->c) *
                 (double)(w->p->stride * w->p->stride * w->storage.width * w->c->depth) /
                 WARPGROUP_PIECE / b->threads;
    work_wait(b, b->rates->memory_cycles);
    bool meets = wide_turning_meets(w->p, w->c->depth, 8 * WARPGROUP_PIECE);
    if (w->p->is_last)
        copy(w, pieces, w->storage.patch_line);
    else
        work_shared(b, pieces, PIECE_BYTES, meets ? 2 : 1);
    issue(w,
          pieces * (w->p->is_last ? FIND_PIECE
                                  : (FIND_PIECE + TURN_EIGHT) / (double)WARPGROUP_PIECE +
                                        WARPGROUP_PIECE));
    work_barrier(b);
}

/* Of so many steps: wgmma and tcgen05 read both factors from shared memory; by positions warps load one for wgmma, which
 * reads the other for each part. By mma.sync each warp reads the features and columns of its part: words of these one by
 * one where there is no patch, most of which are masked. */
static void read_factors(const WideWork *w, double steps)
{
    WorkBuilder *b = w->b;
    const WideTensor *t = &w->storage.tensor;
    double pieces = steps * TAPS_STEP / (PIECE_BYTES / 2),
           columns = (double)w->storage.columns, rows = (double)w->p->group_features,
           threads = GROUP, words = 1;
    if (w->c->by_positions) {
        rows = columns;
        columns = (double)(w->c->tile[FEATURES] * wide_positions_parts(w->c));
    } else if (w->p->in_tensor_memory) {
        rows = (double)(t->tiles * t->rows);
        columns = (double)t->width;
        threads = b->threads;
    } else if (w->p->core != NULL) {
        rows *= (double)w->storage.parts;
        columns *= (double)WARPGROUP_WARPS / (double)w->storage.parts;
    }
    if (w->p->takes_words)
        words = PIECE_BYTES / 4;
    work_shared(b, pieces * rows / threads, PIECE_BYTES, 1);
    work_shared(b, pieces * columns * words / threads, PIECE_BYTES / words, 1);
    if (w->p->takes_words)
        issue(w, pieces * columns * words / threads);
}

/* Products of four warps by wgmma or mma.sync, or in tensor memory of the block, of so many steps. */
static double product_operations(const WideWork *w, double steps)
{
    const WideTensor *t = &w->storage.tensor;
    double columns = (double)w->storage.columns,
           sums = w->p->in_tensor_memory ? (double)(TENSOR_ROWS * t->width)
                  : w->c->by_positions   ? (double)w->c->tile[FEATURES] * columns
                                         : (double)w->p->group_features * columns;
    return 2 * sums * steps * TAPS_STEP;
}

/* For groups' ends, unless the next one has begun; by positions for the first factor, and for each part of them. */
static double wait_cycles(const WideWork *w)
{
    if (wide_overlaps(w->p, w->c))
        return 0;
    double waits = w->c->by_positions ? (double)wide_positions_parts(w->c) : 1;
    return (w->c->by_positions ? costs.shared_cycles : 0) +
           waits * costs.wgmma_wait_cycles;
}

/* Four warps begin a tap's products by wgmma when they have waited for those of the tap before, and for all others. */
static double carried_cycles(const WideWork *w)
{
    DType type = w->p->inst->operands[0]->shape->dtype;
    if (!w->p->has_lines)
        return 0;
    double operations = product_operations(w, (double)w->c->depth / TAPS_STEP);
    return costs.barrier_cycles + wait_cycles(w) +
           work_product_cycles(w->b, type, operations, w->b->rates->async_mma);
}

/* Of so many steps. */
static void multiply(const WideWork *w, double steps)
{
    WorkBuilder *b = w->b;
    DType type = w->p->inst->operands[0]->shape->dtype;
    bool in_memory = w->p->in_tensor_memory;
    double operations = product_operations(w, steps),
           percent = w->p->core == NULL ? b->rates->async_mma
                                        : product_mma_percent(b->rates, type),
           share = in_memory                   ? costs.tensor_memory_fraction
                   : w->c->by_positions        ? costs.wide_fraction
                   : wide_overlaps(w->p, w->c) ? costs.tile_overlap_fraction
                                               : costs.tile_fraction;
    /* by four warps each, or by one thread of the block */
    double warps = in_memory ? b->warps : WARPGROUP_WARPS,
           cycles = work_product_cycles(b, type, operations, percent * share);
    read_factors(w, steps);
    work_instructions(b, (OpCost){.tensor = cycles}, 1.0 / warps);
    if (w->p->core == NULL) {
        issue(w, 2 * steps);
        work_wait(b, wait_cycles(w));
    } else {
        /* products; where two octets of columns are, of each tap */
        double columns = (double)w->storage.columns;
        issue(w, operations / (2 * TAPS_STEP) / (TENSOR_CORE_ROWS * 8 * WARPGROUP_WARPS) +
                     columns / 16 / WARPGROUP_WARPS);
    }
}

static void multiply_tap(const void *of)
{
    const WideWork *w = of;
    WorkBuilder *b = w->b;
    double copies = (double)w->storage.stage_bytes / PIECE_BYTES / b->threads;
    copy(w, copies, w->storage.filter_line);
    issue(w, 6 * copies + 8);
    work_barrier(b);
    multiply(w, (double)w->c->depth / TAPS_STEP);
}

/* Few channels: rows and the other factor are copied, and pieces of words that are loaded one by one make the patch. */
static void fill_copies(const WideWork *w)
{
    /* of a row's piece, the filter's: SASS of 7x7 from 3 features */
    enum { ROW = 20, FILTER = 15 };
    WorkBuilder *b = w->b;
    double rows = (double)w->storage.of_rows.bytes / PIECE_BYTES / b->threads,
           filters = (double)w->storage.stage_bytes / PIECE_BYTES / b->threads;
    work_wait(b, b->rates->memory_cycles);
    work_shared(b, rows + filters, PIECE_BYTES, 1);
    issue(w, ROW * rows + FILTER * filters);
    work_barrier(b);
}

static void fill_rows(const WideWork *w)
{
    enum { POSITION = 4 /* of the patch, beside its words: SASS as above */ };
    WorkBuilder *b = w->b;
    const WidePlan *p = w->p;
    double pieces = (double)w->storage.patch_bytes / PIECE_BYTES / b->threads,
           words = PIECE_BYTES / 4;
    fill_copies(w);
    if (p->takes_words)
        return;
    work_shared(b, pieces * words, 4, 1);
    work_shared(b, pieces, PIECE_BYTES, 1);
    issue(w, POSITION * pieces / (double)p->pieces);
    work_barrier(b);
}

/* WidePlan.by_term: a thread reads what eight positions have of a row, and makes each row of a matrix of it by four
 * instructions; the last ones of a window are written once more, behind zeros. */
static void fill_terms(const WideWork *w)
{
    enum { ITEM = 24, ROW = 4 };
    WorkBuilder *b = w->b;
    const WidePlan *p = w->p;
    const WideRows *r = &w->storage.of_rows;
    double octets = (double)(w->storage.pitch / WARPGROUP_PIECE),
           items = octets * (double)r->turn / b->threads, channels = (double)wide_runs(p),
           rows = items * (double)wide_row_terms(p),
           behind = octets * (double)(r->chunk - r->tails) / b->threads,
           tails = octets *
                   (double)(w->c->tile[ROWS] * (wide_window_terms(p) % WARPGROUP_PIECE)) /
                   b->threads;
    work_shared(b, behind, PIECE_BYTES, 1);
    fill_copies(w);
    work_shared(b, items * channels * (double)wide_terms_read(p), PIECE_BYTES, 1);
    work_shared(b, rows + tails, PIECE_BYTES, (double)wide_terms_meet(p));
    issue(w, ITEM * items + ROW * rows);
    work_barrier(b);
}

/* Steps follow each other without a barrier. */
static void multiply_rows(const WideWork *w)
{
    const WidePlan *p = w->p;
    if (p->by_term) {
        fill_terms(w);
        multiply(w, (double)w->storage.of_rows.terms / TAPS_STEP);
        return;
    }
    fill_rows(w);
    for (int64_t row = 0; row < p->window[Y]; row += p->stride) {
        int64_t left = p->window[Y] - row, together = left < p->stride ? left : p->stride;
        multiply(w, (double)ceil_div(together * p->pieces, 2));
    }
}

/* In registers. */
static double thread_sums(const WideWork *w)
{
    double columns = (double)w->storage.columns;
    return w->c->by_positions
               ? (double)w->c->tile[FEATURES] * columns / (WARPGROUP_WARPS * TARGET_WARP)
               : columns / 2;
}

/* The number of the first position of the block's, among those of all images by positions, else of its own. */
static const IndexExpr *first_position(const WideWork *w, int64_t tiles, int64_t rows)
{
    const WidePlan *p = w->p;
    int64_t plane = p->result_size[Y] * p->result_size[X];
    WorkCoordinate c = {.block_div = tiles, .block_mul = w->c->tile[ROWS]};
    if (w->c->by_positions)
        return work_coordinate(w->b, c, p->images * plane);
    c.block_mod = rows;
    c.block_mul *= p->result_size[X];
    return work_coordinate(w->b, c, plane);
}

/* Of the result. */
static void set_index(const WideWork *w, const IndexExpr *block,
                      const IndexExpr *position, const IndexExpr *feature,
                      const IndexExpr **index)
{
    WorkBuilder *b = w->b;
    const WidePlan *p = w->p;
    bool is_last = p->result_is_last;
    int64_t plane = p->result_size[Y] * p->result_size[X];
    index[0] = w->c->by_positions ? ix_floordiv(b->ix, position, plane) : block;
    if (w->c->by_positions)
        position = ix_mod(b->ix, position, plane);
    index[is_last ? 3 : 1] = feature;
    index[is_last ? 1 : 2] = ix_floordiv(b->ix, position, p->result_size[X]);
    index[is_last ? 2 : 3] = ix_mod(b->ix, position, p->result_size[X]);
}

static void write_results(const WideWork *w)
{
    WorkBuilder *b = w->b;
    const WidePlan *p = w->p;
    uint32_t lanes = p->result_is_last ? WARPGROUP_PIECE : 2;
    int64_t tiles = p->features / w->c->tile[FEATURES],
            rows = ceil_div(p->result_size[Y], w->c->tile[ROWS]),
            of_rows = w->c->tile[ROWS] * (w->c->by_positions ? 1 : p->result_size[X]);
    double items = (double)(w->c->tile[FEATURES] * of_rows) / lanes,
           trips = items / b->threads;
    work_barrier(b);
    /* matrices of 8 x 8, four at a time */
    double sums = p->in_tensor_memory
                      ? (double)(w->storage.tensor.rows * w->storage.tensor.tiles *
                                 w->storage.tensor.columns) /
                            b->threads
                      : thread_sums(w);
    work_shared(b, sums / WARPGROUP_PIECE, PIECE_BYTES, 1);
    work_barrier(b);
    work_preset(b, p->inst);
    work_set_lanes(b, lanes);
    const IndexExpr *step = work_loop_begin(b, trips, (int64_t)trips + 1, 4), *index[4];
    int64_t across = p->result_is_last ? w->c->tile[FEATURES] / lanes : of_rows / lanes;
    const IndexExpr *block = work_coordinate(
        b, (WorkCoordinate){.block_div = tiles * rows, .block_mul = 1}, p->images);
    const IndexExpr *tile = first_position(w, tiles, rows);
    const IndexExpr *in = work_coordinate(
        b, (WorkCoordinate){.thread_div = 1, .thread_mod = across}, across);
    const IndexExpr *down = work_coordinate(b, (WorkCoordinate){.thread_div = across},
                                            ceil_div(b->threads, across));
    int64_t at_once = b->threads / across;
    down = ix_add(b->ix, down, ix_mul(b->ix, step, at_once < 1 ? 1 : at_once));
    in = ix_add(b->ix, ix_mul(b->ix, in, lanes), work_lane(b));
    const IndexExpr *feature = work_coordinate(
        b,
        (WorkCoordinate){
            .block_div = 1, .block_mod = tiles, .block_mul = w->c->tile[FEATURES]},
        p->features);
    const IndexExpr *position;
    if (p->result_is_last) {
        position = ix_add(b->ix, tile, down);
        feature = ix_add(b->ix, feature, in);
    } else {
        position = ix_add(b->ix, tile, in);
        feature = ix_add(b->ix, feature, down);
    }
    set_index(w, block, position, feature, index);
    enum {
        FIND = 12 /* three divisions by constants: SASS, 24 instructions of an item */
    };
    issue(w, FIND);
    work_shared(b, 1, 2.0 * lanes, 1);
    for (uint32_t i = 0; i < fusion_result_count(b->fusion); i++)
        work_result(b, i, index);
    work_loop_end(b, 0);
    work_set_lanes(b, 1);
}

/* Of a thread, besides the fewest of all kernels: sums, stages, descriptors, fragments of a few positions. By positions
 * as ptxas has them: 26 in all beside sums and fragments (98 to 186), 32 where a patch is turned (128, 195), which is
 * filled by 73 beside the sums, if there are any yet (137, 203). */
static double held_registers(const WideWork *w)
{
    enum { FETCHED = 8, TURNED = 14, FILLED = 55, STAGED = 16, FRAGMENTS = 32 };
    const WidePlan *p = w->p;
    if (p->in_tensor_memory)
        return FRAGMENTS;
    if (!w->c->by_positions)
        return thread_sums(w) + (p->core == NULL ? STAGED : FRAGMENTS);
    double held =
               (double)wide_positions_registers(w->c) + (p->is_last ? FETCHED : TURNED),
           filled = (w->c->depth < p->channels ? thread_sums(w) : 0) + FILLED;
    return p->is_last || held > filled ? held : filled;
}

void work_wide_convolution(const KernelDesign *d, KernelWork *out)
{
    const WidePlan *p = d->plan.wide;
    const KernelConfig *c = &d->config;
    WorkBuilder *b = work_begin(d);
    WideWork w = {.b = b, .p = p, .c = c};
    wide_storage(d, &w.storage);
    bool by_registers = wide_by_registers(p, c);
    double rows = c->by_positions ? wide_positions_rows(p, c) : (double)w.storage.rows;
    if (by_registers)
        rows = (double)wide_reached_rows(p, c) / (double)p->stride; /* of a plane */
    b->tensor_columns = w.storage.tensor.taken;
    if (by_registers) /* results come behind sums */
        work_registers_apart(b, (double)wide_registers(p, c, w.storage.columns) -
                                    costs.register_base);
    else
        work_registers(b, held_registers(&w));
    TapWork taps = {.b = b,
                    .inst = p->inst,
                    .config = c,
                    .channels = p->channels,
                    .taps = p->window[Y] * p->window[X],
                    .patch_bytes = rows * (double)(p->stride * p->size[X]) * 2 *
                                   (p->is_last && p->pieces == 0 && !by_registers
                                        ? copy_share(&w, w.storage.patch_line)
                                        : 1),
                    .filter_share = copy_share(&w, w.storage.filter_line),
                    .carried = carried_cycles(&w),
                    .of = &w,
                    .fill = fill_patch,
                    .multiply = multiply_tap};
    if (p->pieces != 0)
        multiply_rows(&w);
    else
        work_tap_loops(&taps);
    write_results(&w);
    work_tap_end(&taps, out);
}

/* -- gradients by the filter ---------------------------------------------------------------------- */

void work_row_gradient(const KernelDesign *d, KernelWork *out)
{
    enum { SUM = 12 /* instructions: of a sum that is written */ };
    const GradientPlan *p = d->plan.gradient;
    GradientStorage s;
    gradient_storage(d, &s);
    WorkBuilder *b = work_begin(d);
    WideWork w = {.b = b, .p = &p->of, .c = &d->config, .storage = s.of};
    int64_t trips = p->images * (p->of.result_size[Y] / d->config.tile[ROWS]);
    bool in_memory = p->of.in_tensor_memory;
    double sums = (double)(s.calls * s.columns) *
                  (in_memory ? (double)s.of.tensor.rows / b->threads : 0.5);
    b->tensor_columns = s.of.tensor.taken;
    work_registers(b, in_memory ? 32 : sums + (p->of.core == NULL ? 16 : 32));
    work_loop_begin(b, (double)trips, trips, 1);
    fill_rows(&w);
    for (int64_t i = 0, all = s.calls * s.columns; i < all;
         i += in_memory ? all : s.of.columns)
        multiply(&w, (double)s.terms / TAPS_STEP);
    work_barrier(b);
    work_loop_end(b, 0);
    issue(&w, SUM * sums);
    work_gradient_end(
        b, p, (double)trips * (double)(s.of.of_rows.bytes + s.of.stage_bytes), out);
}
