/* Convolutions of images with features before places, [image, feature, y, x], as tensor cores multiply them. Windows of
 * neighbouring results share places: a block reads those of a run of results once, wherever in the window they are, 16
 * bytes of a row at a time, and turns them on the way to shared memory, where a place's channels lie side by side. The
 * filter's taps then find their places there: no array is transposed, and L2 gives a place once, not once for each tap.
 *
 * Places count through rows and images alike. The image is as high and wide as the result, times the stride, so that
 * a tap is a fixed distance from the window's own place; what lies outside the image is a row of zeros instead. */
#include "ir/base/divide.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/kernel/time/work_kinds.h"

enum {
    Y,
    X,
    FEATURES = 0, /* sides of a tile */
    PLACES = 1,
    MOST_STRIDE = 2,
    MOST_PLACES = 1 << 29, /* 32-bit numbers count them */
    MOST_ROWS = 1 << 30,   /* and channels of all images, and of a feature's taps */
    LEAST_DEPTH = 32,      /* channels: rows of 64 or 128 bytes */
    MOST_DEPTH = 64,
    STAGES = 3,
    LEAST_WARP_FEATURES = 16, /* rows of the instruction */
    LEAST_WARP_PLACES = 16,   /* columns of two, whose fragments are loaded together */
    MOST_SUMS = 128           /* of a thread */
};

/* -- legality ------------------------------------------------------------------------------------ */

static bool is_ordered(const Shape *s, int64_t first, int64_t second,
                       const int64_t *places, bool features_last)
{
    int64_t y = features_last ? 1 : 2;
    return s->rank == 4 && shape_is_row_major(s) && first == 0 &&
           second == (features_last ? 3 : 1) && places[Y] == y && places[X] == y + 1;
}

static const char *labels_illegal(const Instruction *hero)
{
    const DimLabels *l = inst_attr(hero, ATTR_DIM_LABELS)->labels;
    const Shape *x = hero->operands[0]->shape, *w = hero->operands[1]->shape;
    if (l->spatial_rank != 2 || inst_int(hero, ATTR_FEATURE_GROUP_COUNT, 1) != 1 ||
        inst_int(hero, ATTR_BATCH_GROUP_COUNT, 1) != 1)
        return "it is no convolution of two places in one group";
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
        return "it has no window of two places";
    for (int i = 0; i < 2; i++) {
        const WindowDim *d = &w->dims[i];
        if (d->stride != w->dims[0].stride || d->stride < 1 || d->stride > MOST_STRIDE ||
            d->base_dilation != 1 || d->window_dilation != 1 || d->reversal ||
            d->pad_low < 0 || d->pad_low >= d->size)
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
        return "images are not whole vectors of places";
    if (shape_elements(y) == 0 || shape_elements(x) / x->dims[1] > MOST_PLACES)
        return "there are no places, or too many";
    if (x->dims[0] * x->dims[1] > MOST_ROWS || shape_elements(w) / w->dims[0] > MOST_ROWS)
        return "there are too many channels of all images, or of all taps";
    return NULL;
}

/* Of the convolution alone. */
static const char *hero_illegal(const Instruction *hero)
{
    const Shape *x = hero->operands[0]->shape;
    DType t = x->dtype;
    if (!dtype_is_half(t) || hero->operands[1]->shape->dtype != t ||
        contract_accumulator(hero) != DT_F32)
        return "it does not multiply numbers of 16 bits";
    if (hero->shape->dtype != t && hero->shape->dtype != DT_F32)
        return "its result is of another type";
    const char *reason = labels_illegal(hero);
    if (reason == NULL)
        reason = window_illegal(hero);
    return reason != NULL ? reason : sizes_illegal(hero);
}

/* Windows of one place share nothing: tiles read them as they are. */
bool image_convolution_fits(const Instruction *conv)
{
    return work_reads_windows(conv) && hero_illegal(conv) == NULL;
}

const char *illegal_image_convolution(FusionFacts *f, KernelKind kind)
{
    const Instruction *hero = fusion_hero(f->fusion, kernel_kind_info[kind].hero);
    if (hero == NULL)
        return "it needs exactly one convolution";
    const char *reason = hero_illegal(hero);
    if (reason == NULL &&
        (hero->operands[0]->op != OP_PARAMETER || hero->operands[1]->op != OP_PARAMETER))
        reason = "image and filter have to be in memory";
    return reason != NULL ? reason : facts_hero_illegal(f, hero);
}

bool suits_image_convolution(FusionFacts *f, KernelKind kind)
{
    const Instruction *hero = fusion_hero(f->fusion, kernel_kind_info[kind].hero);
    return f->target != NULL && f->target->tiles != TILES_NONE &&
           image_convolution_fits(hero);
}

/* -- the plan ------------------------------------------------------------------------------------ */

void plan_image_convolution(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    const Instruction *hero = fusion_hero(d->fusion, kernel_kind_info[d->kind].hero);
    const Window *w = inst_window(hero);
    const Shape *x = hero->operands[0]->shape, *y = hero->shape;
    DType t = x->dtype;
    ImagePlan *p = ARENA_NEW(d->arena, ImagePlan);
    *p = (ImagePlan){.inst = hero,
                     .core = d->target == NULL
                                 ? NULL
                                 : tensor_core_find(t, t, DT_F32, d->target, UINT32_MAX),
                     .features = y->dims[1],
                     .channels = x->dims[1],
                     .places = y->dims[0] * y->dims[2] * y->dims[3],
                     .stride = w->dims[0].stride};
    for (int i = 0; i < 2; i++) {
        p->size[i] = x->dims[2 + i];
        p->result_size[i] = y->dims[2 + i];
        p->window[i] = w->dims[i].size;
        p->before[i] = w->dims[i].pad_low;
    }
    p->near = p->before[Y] * p->size[X] + p->before[X];
    p->far = (p->window[Y] - 1) * p->size[X] + p->window[X] - 1 - p->near;
    if (p->core == NULL || p->core->k != 16)
        d->unsupported = refuse_text(
            d, "%s: no tensor core of %s multiplies %s in steps of 16", d->fusion->name,
            d->target != NULL ? d->target->name : "no target", dtype_info[t].name);
    d->plan.image = p;
}

void image_rooms(const KernelDesign *d, ImageRooms *out)
{
    const ImagePlan *p = d->plan.image;
    const KernelConfig *c = &d->config;
    int64_t s = p->stride,
            last = s * s * (c->tile[PLACES] - 1) + s * (s - 1) * (p->result_size[X] - 1);
    int64_t bits = dtype_info[p->inst->shape->dtype].bits;
    /* the first vector may begin before the first place */
    out->vectors = ceil_div(last + p->near + p->far + 1 + IMAGE_VECTOR - 1, IMAGE_VECTOR);
    out->row_bytes = c->depth * 2;
    out->patch_bytes =
        (uint64_t)((out->vectors * IMAGE_VECTOR + 1) * out->row_bytes + 127) / 128 * 128;
    out->stage_bytes = (uint64_t)(c->tile[FEATURES] * out->row_bytes);
    out->sum_stride = c->tile[PLACES] + IMAGE_VECTOR;
    out->bytes = out->patch_bytes + (uint64_t)c->stages * out->stage_bytes;
    uint64_t sums = (uint64_t)(c->tile[FEATURES] * out->sum_stride * bits / 8);
    out->bytes = out->bytes > sums ? out->bytes : sums;
}

/* -- heuristic ------------------------------------------------------------------------------------ */

/* Tiles, and warps of 64 features or 32 and 32 places; of equally fast ones the first is taken. */
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
    Arena *a = arena_scratch();
    KernelDesign trial = *d;
    KernelWork work;
    trial.arena = a;
    complete(shape, depth, &trial.config);
    bool good = refuse_image_convolution(&trial) == NULL;
    if (good) {
        geometry_image_convolution(&trial);
        work_image_convolution(&trial, &work);
        *seconds = kernel_time(&work, d->target->device).seconds;
        good = trial.unsupported == NULL;
    }
    arena_destroy(a);
    return good;
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
    static const int64_t least[2] = {LEAST_WARP_FEATURES, LEAST_WARP_PLACES};
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
    int64_t threads = c->warps[FEATURES] * c->warps[PLACES] * TARGET_WARP;
    if (threads > TARGET_BLOCK_THREADS)
        return refuse_text(d, "\"warps\" ask for %lld threads; a block has %d at most",
                           (long long)threads, TARGET_BLOCK_THREADS);
    if (c->tile[FEATURES] * c->tile[PLACES] > MOST_SUMS * threads)
        return refuse_text(d, "\"tile\" leaves a thread more than %d sums", MOST_SUMS);
    ImageRooms rooms;
    image_rooms(d, &rooms);
    return shared_refused(d, rooms.bytes);
}

void geometry_image_convolution(KernelDesign *d)
{
    const ImagePlan *p = d->plan.image;
    const KernelConfig *c = &d->config;
    ImageRooms rooms;
    image_rooms(d, &rooms);
    geometry_blocks(
        d, p->features / c->tile[FEATURES] * ceil_div(p->places, c->tile[PLACES]),
        c->warps[FEATURES] * c->warps[PLACES] * TARGET_WARP, 1);
    geometry_shared(&d->geometry, rooms.bytes, 128);
    d->geometry.has_barriers = true;
}
