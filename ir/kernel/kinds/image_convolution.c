/* Convolutions of images with features before positions, [image, feature, y, x], as tensor cores multiply them. Windows of
 * neighbouring results share positions: a block reads those of a run of results once, wherever in the window they are, 16
 * bytes of a row at a time, and turns them on the way to shared memory, where a position's channels lie side by side. The
 * filter's taps then find their positions there: no array is transposed, and L2 gives a position once, not once for each
 * tap.
 *
 * Positions count through rows and images alike. The image is as high and wide as the result, times the stride, so that
 * a tap is a fixed distance from the window's own position; what lies outside the image is a row of zeros instead. */
#include "ir/base/divide.h"
#include "ir/kernel/kinds/taps.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

enum {
    Y,
    X,
    FEATURES = 0, /* sides of a tile */
    POSITIONS = 1,
    LEAST_DEPTH = 32, /* channels: rows of 64 or 128 bytes */
    MOST_DEPTH = 64,
    STAGES = 3,
    LEAST_WARP_FEATURES = 16,  /* rows of the instruction */
    LEAST_WARP_POSITIONS = 16, /* columns of two, whose fragments are loaded together */
    MOST_SUMS = 128            /* of a thread */
};

/* -- legality ------------------------------------------------------------------------------------ */

static bool is_ordered(const Shape *s, int64_t first, int64_t second,
                       const int64_t *spatial, bool features_last)
{
    int64_t y = features_last ? 1 : 2;
    return s->rank == 4 && shape_is_row_major(s) && first == 0 &&
           second == (features_last ? 3 : 1) && spatial[Y] == y && spatial[X] == y + 1;
}

static const char *labels_illegal(const Instruction *hero)
{
    const DimLabels *l = inst_attr(hero, ATTR_DIM_LABELS)->labels;
    const Shape *x = hero->operands[0]->shape, *w = hero->operands[1]->shape;
    return is_ordered(x, l->lhs_batch, l->lhs_feature, l->lhs_spatial, false) &&
                   is_ordered(hero->shape, l->out_batch, l->out_feature, l->out_spatial,
                              false) &&
                   is_ordered(w, l->rhs_output, l->rhs_input, l->rhs_spatial, true)
               ? NULL
               : "images are not bf01, or filters not o01i";
}

static const char *window_illegal(const Instruction *hero)
{
    const Window *w = inst_window(hero);
    const Shape *x = hero->operands[0]->shape;
    if (w->rank != 2)
        return "it has no window of two positions";
    for (int i = 0; i < 2; i++) {
        const WindowDim *d = &w->dims[i];
        if (!taps_dim_fits(w, (uint32_t)i) || d->reversal)
            return "its window is dilated, reversed, or moves too far";
        if (x->dims[2 + i] != hero->shape->dims[2 + i] * d->stride)
            return "the image has another size than the result";
    }
    return NULL;
}

static const char *sizes_illegal(const Instruction *hero)
{
    const Shape *x = hero->operands[0]->shape, *w = hero->operands[1]->shape,
                *y = hero->shape;
    if (x->dims[1] % LEAST_DEPTH != 0 || y->dims[1] % LEAST_WARP_FEATURES != 0)
        return "there are not whole tiles of channels and features";
    if (y->dims[2] * y->dims[3] % IMAGE_VECTOR != 0)
        return "images are not whole vectors of positions";
    if (shape_elements(y) == 0 || shape_elements(x) / x->dims[1] > TAPS_MOST_POSITIONS)
        return "there are no positions, or too many";
    if (x->dims[0] * x->dims[1] > TAPS_MOST_ROWS ||
        shape_elements(w) / w->dims[0] > TAPS_MOST_ROWS)
        return "there are too many channels of all images, or of all taps";
    return NULL;
}

static const TapRules rules = {.labels = labels_illegal,
                               .window = window_illegal,
                               .sizes = sizes_illegal,
                               .may_widen = true};

bool image_convolution_fits(const Instruction *conv)
{
    return taps_fit(conv, &rules);
}

const char *illegal_image_convolution(FusionFacts *f, KernelKind kind)
{
    return taps_illegal(f, kind, &rules);
}

bool suits_image_convolution(FusionFacts *f, KernelKind kind)
{
    return taps_suit(f, kind, &rules);
}

/* -- the plan ------------------------------------------------------------------------------------ */

void plan_image_convolution(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    const Instruction *hero = fusion_hero(d->fusion, kernel_kind_info[d->kind].hero);
    const Window *w = inst_window(hero);
    const Shape *x = hero->operands[0]->shape, *y = hero->shape;
    ImagePlan *p = ARENA_NEW(d->arena, ImagePlan);
    *p = (ImagePlan){.inst = hero,
                     .core = taps_core(d, x->dtype),
                     .features = y->dims[1],
                     .channels = x->dims[1],
                     .positions = y->dims[0] * y->dims[2] * y->dims[3],
                     .stride = w->dims[0].stride};
    for (int i = 0; i < 2; i++) {
        p->size[i] = x->dims[2 + i];
        p->result_size[i] = y->dims[2 + i];
        p->window[i] = w->dims[i].size;
        p->before[i] = w->dims[i].pad_low;
    }
    p->near = p->before[Y] * p->size[X] + p->before[X];
    p->far = (p->window[Y] - 1) * p->size[X] + p->window[X] - 1 - p->near;
    d->plan.image = p;
}

void image_storage(const KernelDesign *d, ImageStorage *out)
{
    const ImagePlan *p = d->plan.image;
    const KernelConfig *c = &d->config;
    int64_t s = p->stride, last = s * s * (c->tile[POSITIONS] - 1) +
                                  s * (s - 1) * (p->result_size[X] - 1);
    int64_t bits = dtype_info[p->inst->shape->dtype].bits;
    /* the first vector may begin before the first position */
    out->vectors = ceil_div(last + p->near + p->far + 1 + IMAGE_VECTOR - 1, IMAGE_VECTOR);
    out->row_bytes = c->depth * 2;
    out->patch_bytes =
        (uint64_t)((out->vectors * IMAGE_VECTOR + 1) * out->row_bytes + 127) / 128 * 128;
    out->stage_bytes = (uint64_t)(c->tile[FEATURES] * out->row_bytes);
    out->sum_stride = c->tile[POSITIONS] + IMAGE_VECTOR;
    out->bytes = out->patch_bytes + (uint64_t)c->stages * out->stage_bytes;
    uint64_t sums = (uint64_t)(c->tile[FEATURES] * out->sum_stride * bits / 8);
    out->bytes = out->bytes > sums ? out->bytes : sums;
}

/* -- heuristic ------------------------------------------------------------------------------------ */

/* Tiles, and warps of 64 features or 32 and 32 positions; of equally fast ones the first is taken. */
static const struct {
    int64_t tile[2], warps[2];
} shapes[] = {
    {{128, 128}, {2, 4}}, {{64, 128}, {1, 4}}, {{64, 256}, {1, 8}}, {{128, 64}, {2, 2}},
    {{64, 64}, {1, 2}},   {{32, 128}, {1, 4}}, {{32, 64}, {1, 2}},  {{16, 64}, {1, 2}},
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

/* What the text leaves open, for a tile of this shape, or for the tile that it has. */
static void complete(size_t shape, int64_t depth, KernelConfig *c)
{
    static const int64_t of_warp[2] = {64, 32};
    bool lacks_tile = config_lacks(c, KERNEL_KEY_TILE),
         lacks_warps = config_lacks(c, KERNEL_KEY_WARPS);
    for (int i = 0; i < 2; i++) {
        if (lacks_tile)
            c->tile[i] = shapes[shape].tile[i];
        if (lacks_warps)
            c->warps[i] = lacks_tile                ? shapes[shape].warps[i]
                          : c->tile[i] > of_warp[i] ? c->tile[i] / of_warp[i]
                                                    : 1;
    }
    if (config_lacks(c, KERNEL_KEY_DEPTH))
        c->depth = depth;
    if (config_lacks(c, KERNEL_KEY_STAGES))
        c->stages = STAGES;
}

/* By the model of time; false: there is no such kernel. */
static bool seconds_of(const KernelDesign *d, size_t shape, int64_t depth,
                       double *seconds)
{
    KernelConfig c = d->config;
    complete(shape, depth, &c);
    return design_seconds(d, &c, seconds);
}

void configure_image_convolution(const KernelDesign *d, KernelConfig *c)
{
    size_t best = 0;
    int64_t depth = LEAST_DEPTH;
    double best_seconds = 0, seconds;
    KernelDesign open = *d;
    open.config = *c;
    for (size_t i = 0; i < SHAPES && d->target != NULL && d->unsupported == NULL; i++) {
        for (int64_t k = MOST_DEPTH; k >= LEAST_DEPTH; k /= 2) {
            if (!seconds_of(&open, i, k, &seconds) ||
                (best_seconds != 0 && seconds >= best_seconds))
                continue;
            best_seconds = seconds;
            best = i;
            depth = k;
        }
    }
    complete(best, depth, c);
}

static const char *tile_refused(const KernelDesign *d)
{
    const ImagePlan *p = d->plan.image;
    const KernelConfig *c = &d->config;
    static const int64_t least[2] = {LEAST_WARP_FEATURES, LEAST_WARP_POSITIONS};
    for (int i = 0; i < 2; i++) {
        const char *wrong = power_refused(d, "tile", c->tile[i]);
        if (wrong == NULL)
            wrong = power_refused(d, "warps", c->warps[i]);
        if (wrong != NULL)
            return wrong;
        if (c->tile[i] < c->warps[i] * least[i])
            return refuse_text(
                d, "\"tile\" %lld is too small for %lld warps with %lld each",
                (long long)c->tile[i], (long long)c->warps[i], (long long)least[i]);
    }
    return p->features % c->tile[FEATURES] == 0
               ? NULL
               : refuse_text(d, "\"tile\" %lld must divide the %lld features",
                             (long long)c->tile[FEATURES], (long long)p->features);
}

const char *refuse_image_convolution(const KernelDesign *d)
{
    const ImagePlan *p = d->plan.image;
    const KernelConfig *c = &d->config;
    const char *wrong = tile_refused(d);
    if (wrong != NULL)
        return wrong;
    if ((c->depth != LEAST_DEPTH && c->depth != MOST_DEPTH) ||
        p->channels % c->depth != 0)
        return refuse_text(d, "\"depth\" %lld must be %d or %d, and divide %lld channels",
                           (long long)c->depth, LEAST_DEPTH, MOST_DEPTH,
                           (long long)p->channels);
    if (c->stages < 2)
        return refuse_text(d, "\"stages\" must be 2 or more, found %lld",
                           (long long)c->stages);
    int64_t threads = c->warps[FEATURES] * c->warps[POSITIONS] * TARGET_WARP;
    wrong = warps_refused(d, threads);
    if (wrong != NULL)
        return wrong;
    if (c->tile[FEATURES] * c->tile[POSITIONS] > MOST_SUMS * threads)
        return refuse_text(d, "\"tile\" leaves a thread more than %d sums", MOST_SUMS);
    ImageStorage storage;
    image_storage(d, &storage);
    return shared_refused(d, storage.bytes);
}

void geometry_image_convolution(KernelDesign *d)
{
    const ImagePlan *p = d->plan.image;
    const KernelConfig *c = &d->config;
    ImageStorage storage;
    image_storage(d, &storage);
    geometry_blocks(
        d, p->features / c->tile[FEATURES] * ceil_div(p->positions, c->tile[POSITIONS]),
        c->warps[FEATURES] * c->warps[POSITIONS] * TARGET_WARP, 1);
    geometry_shared(&d->geometry, storage.bytes, 128);
    d->geometry.has_barriers = true;
}
