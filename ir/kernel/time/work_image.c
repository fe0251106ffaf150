/* Convolutions of images with features before positions: what is read is counted by the block, as all of it is read in
 * whole sectors, and once from memory. */
#include "ir/base/divide.h"
#include "ir/kernel/time/work_kinds.h"

enum { FEATURES, POSITIONS };

typedef struct ImageWork {
    WorkBuilder *b;
    const ImagePlan *p;
    const KernelConfig *c;
    ImageStorage storage;
    double warp_features, warp_positions;
} ImageWork;

static void issue(const ImageWork *w, double alu)
{
    work_instructions(w->b, (OpCost){.alu = alu, .cycles = costs.alu_cycles}, 1);
}

/* Vectors of as many positions of as many channels as one has are turned by a thread: halves of words are picked out. */
static void turn_patch(const void *of)
{
    const ImageWork *w = of;
    WorkBuilder *b = w->b;
    double squares =
        (double)(w->storage.vectors * w->c->depth / IMAGE_VECTOR) / b->threads;
    double words = IMAGE_VECTOR * IMAGE_VECTOR / 2.0;
    work_wait(b, b->rates->memory_cycles);
    /* rows of half a line: those of every other thread share banks */
    work_shared(b, IMAGE_VECTOR * squares, 16, 1);
    work_shared(b, IMAGE_VECTOR * squares, 16,
                w->storage.row_bytes < costs.line_bytes ? 2 : 1);
    issue(w, squares * (words + 4 * IMAGE_VECTOR));
    work_barrier(b);
}

/* Of one tap: the next stage of the filter is asked for, positions and fragments are found and multiplied. */
static void multiply_tap(const void *of)
{
    const ImageWork *w = of;
    WorkBuilder *b = w->b;
    double copies = (double)w->storage.stage_bytes / 16 / b->threads,
           fragments = (w->warp_features + w->warp_positions) *
                       (double)w->storage.row_bytes / 16 / TARGET_WARP,
           core = work_core_cycles(b, w->p->core) / costs.tile_window_fraction;
    work_shared(b, copies, 16, 1);
    issue(w, 2 * copies);
    work_barrier(b);
    work_shared(b, fragments, 16, 1);
    /* rows of the patch: within the image or not, their number, their position */
    issue(w, 8 * w->warp_positions / 16 + fragments);
    work_instructions(b, (OpCost){.alu = 1, .tensor = core},
                      w->warp_features / w->p->core->m * w->warp_positions /
                          w->p->core->n * (double)w->c->depth / w->p->core->k);
}

static void write_results(const ImageWork *w)
{
    WorkBuilder *b = w->b;
    const ImagePlan *p = w->p;
    const Shape *s = p->inst->shape;
    int64_t across = w->c->tile[POSITIONS] / IMAGE_VECTOR, rows = b->threads / across,
            tiles = p->features / w->c->tile[FEATURES], plane = s->dims[2] * s->dims[3],
            vectors = plane / IMAGE_VECTOR;
    double trips = (double)w->c->tile[FEATURES] * (double)across / b->threads;
    double bytes = (double)dtype_info[s->dtype].bits / 8;
    work_shared(b, IMAGE_VECTOR / 2 * trips, 2 * bytes, 1);
    work_barrier(b);
    work_preset(b, p->inst);
    work_set_lanes(b, IMAGE_VECTOR);
    const IndexExpr *step = work_loop_begin(b, trips, (int64_t)trips + 1, 4);
    const IndexExpr *position = work_coordinate(b,
                                                (WorkCoordinate){.block_div = tiles,
                                                                 .block_mul = across,
                                                                 .thread_div = 1,
                                                                 .thread_mod = across},
                                                p->positions / IMAGE_VECTOR + across);
    const IndexExpr *feature =
        work_coordinate(b,
                        (WorkCoordinate){.block_div = 1,
                                         .block_mod = tiles,
                                         .block_mul = w->c->tile[FEATURES],
                                         .thread_div = across},
                        p->features);
    feature = ix_add(b->ix, feature, ix_mul(b->ix, step, rows < 1 ? 1 : rows));
    const IndexExpr *image = ix_floordiv(b->ix, position, vectors),
                    *at = ix_mod(b->ix, position, vectors), *index[KERNEL_MOST_RANK];
    at = ix_add(b->ix, ix_mul(b->ix, at, IMAGE_VECTOR), work_lane(b));
    at = ix_add(
        b->ix, at,
        ix_mul(b->ix, ix_add(b->ix, ix_mul(b->ix, image, p->features), feature), plane));
    index_delinear(b->ix, s, at, index);
    work_shared(b, 1, IMAGE_VECTOR * bytes, 1);
    for (uint32_t i = 0; i < fusion_result_count(b->fusion); i++)
        work_result(b, i, index);
    work_loop_end(b, 0);
    work_set_lanes(b, 1);
}

void work_image_convolution(const KernelDesign *d, KernelWork *out)
{
    const ImagePlan *p = d->plan.image;
    const KernelConfig *c = &d->config;
    WorkBuilder *b = work_begin(d);
    ImageWork w = {
        .b = b,
        .p = p,
        .c = c,
        .warp_features = (double)c->tile[FEATURES] / (double)c->warps[FEATURES],
        .warp_positions = (double)c->tile[POSITIONS] / (double)c->warps[POSITIONS]};
    image_storage(d, &w.storage);
    /* sums, fragments, and positions: the window's first one, the tap's row */
    work_registers(b, w.warp_features * w.warp_positions / TARGET_WARP +
                          (w.warp_features + w.warp_positions) / 4 +
                          5 * w.warp_positions / 16);
    TapWork taps = {.b = b,
                    .inst = p->inst,
                    .config = c,
                    .channels = p->channels,
                    .taps = p->window[0] * p->window[1],
                    .patch_bytes = (double)(w.storage.vectors * IMAGE_VECTOR) * 2,
                    .of = &w,
                    .fill = turn_patch,
                    .multiply = multiply_tap};
    work_tap_loops(&taps);
    write_results(&w);
    work_tap_end(&taps, out);
}
