/* Gradients by the filter of convolutions from few channels, by wgmma, tcgen05, or mma.sync where there is neither: 64
 * features of the second operand by the runs of numbers that a row of a window is (wide_rows.c), summed over the
 * positions of images.
 *
 *   convolution(image, y), window={size=112x112 rhs_dilate=2x2}, dim_labels=f01b_i01o->...
 *
 * A block goes through the images of its group, some rows of y at a time: it makes the patch that the convolution itself
 * would, copies the rows of y, and multiplies all positions of them. Groups are pieces of the sum (split_products.c), whose
 * results another kernel adds. */
#include "ir/base/divide.h"
#include "ir/kernel/kinds/gradients.h"
#include "ir/kernel/rules.h"

enum {
    Y,
    X,
    FEATURES = 0, /* sides of a tile; */
    ROWS = 1,     /* rows of the second operand */
    MOST_COLUMNS = 256
};

/* -- the plan ------------------------------------------------------------------------------------ */

/* Sums of all strides of a window. */
static bool fits_tensor_memory(const GradientPlan *p)
{
    int64_t columns = wide_rows_depth(&p->of);
    return columns <= MOST_COLUMNS &&
           p->of.window[Y] / p->of.stride * columns <= TENSOR_COLUMNS;
}

void plan_row_gradient(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    const Instruction *hero = fusion_hero(d->fusion, kernel_kind_info[d->kind].hero);
    bool is_turned;
    gradient_in_memory(hero, &is_turned);
    GradientPlan *p = ARENA_NEW(d->arena, GradientPlan);
    *p = gradient_plan_of(hero, is_turned);
    wide_rows_plan(&p->of);
    p->of.in_tensor_memory =
        target_has(d->target, FEATURE_TENSOR_MEMORY) && fits_tensor_memory(p);
    if (!p->of.in_tensor_memory && !target_has(d->target, FEATURE_WARPGROUP))
        p->of.core = taps_core(d, hero->operands[0]->shape->dtype);
    p->of.has_lines = p->of.core == NULL && !p->of.in_tensor_memory;
    d->plan.gradient = p;
}

int64_t gradient_call_columns(const GradientPlan *p, int64_t call)
{
    int64_t left = p->window_rows - call * p->of.stride,
            rows = left < p->of.stride ? left : p->of.stride;
    return ceil_div(rows * p->of.pieces * WARPGROUP_PIECE, TENSOR_COLUMN_STEP) *
           TENSOR_COLUMN_STEP;
}

static void storage_of(const GradientPlan *p, const KernelConfig *c, GradientStorage *out)
{
    int64_t calls = p->of.window[Y] / p->of.stride;
    GradientStorage s = {.columns = wide_rows_depth(&p->of),
                         .calls = ceil_div(calls, c->warps[ROWS]),
                         .terms = c->tile[ROWS] * p->of.result_size[X]};
    s.of = (WideStorage){.pitch = p->of.result_size[X],
                         .group_rows = c->tile[ROWS],
                         .slack = WARPGROUP_PIECE - 1};
    wide_rows_storage(&p->of, c, &s.of);
    s.of.columns = p->of.core == NULL ? s.columns : s.calls * s.columns;
    s.of.parts = p->of.core == NULL ? 1 : wide_parts(&p->of, s.of.columns);
    /* one row of 16 bytes more than whole banks */
    s.of.filter_stride = (uint32_t)((s.terms + 1) * 2 * WARPGROUP_PIECE);
    s.of.stage_bytes =
        (uint64_t)(c->tile[FEATURES] / WARPGROUP_PIECE) * s.of.filter_stride;
    if (p->of.has_lines)
        wide_line_filter(s.terms, c->tile[FEATURES] / WARPGROUP_PIECE, &s.of);
    s.bytes = s.of.patch_bytes + s.of.stage_bytes + s.of.of_rows.bytes;
    if (p->of.in_tensor_memory) {
        s.of.tensor = (WideTensor){
            .rows = c->tile[FEATURES], .columns = s.columns, .tiles = s.calls};
        for (int64_t i = 0; i < s.calls; i++)
            s.of.tensor.width += gradient_call_columns(p, i);
        wide_tensor_take(&s.of.tensor);
        s.bytes = wide_tensor_control(&s.of.tensor, s.bytes);
    }
    *out = s;
}

void gradient_storage(const KernelDesign *d, GradientStorage *out)
{
    storage_of(d->plan.gradient, &d->config, out);
}

/* Registers of a thread that its sums need, with others. */
static int64_t registers_of(const GradientStorage *s)
{
    enum { BESIDE = 48 };
    return s->calls * s->columns / 2 + BESIDE;
}

enum {
    MOST_TILE = 16 /* rows */,
    MOST_GROUPS = 4 /* of four warps, that share a window */
};

/* Rows of y are whole steps, and strides of a window are shared evenly. */
static bool divides(const GradientPlan *p, int64_t rows, int64_t groups)
{
    return p->of.result_size[Y] % rows == 0 &&
           rows * p->of.result_size[X] % TAPS_STEP == 0 &&
           p->of.window[Y] / p->of.stride % groups == 0;
}

/* There is a configuration for any GPU. */
static bool has_room(const GradientPlan *p)
{
    for (int64_t rows = 1; rows <= MOST_TILE; rows++) {
        for (int64_t groups = 1; groups <= MOST_GROUPS; groups++) {
            KernelConfig c = {.tile = {WARPGROUP_ROWS, rows},
                              .warps = {WARPGROUP_WARPS, groups}};
            GradientStorage s;
            if (!divides(p, rows, groups))
                continue;
            storage_of(p, &c, &s);
            if (s.columns <= MOST_COLUMNS && s.bytes <= WIDE_LEAST_SHARED &&
                registers_of(&s) <=
                    target_thread_registers(groups * WARPGROUP_WARPS * TARGET_WARP))
                return true;
        }
    }
    return false;
}

/* -- legality ------------------------------------------------------------------------------------ */

static const char *sizes_illegal(const Instruction *hero)
{
    GradientPlan p = gradient_plan_of(hero, false);
    const char *rows = wide_rows_illegal(&p.of);
    if (rows != NULL)
        return rows;
    wide_rows_plan(&p.of);
    return has_room(&p) ? NULL
                        : "rows of what it slides are no whole steps, or have no room";
}

bool row_gradient_fits(const Instruction *conv, const Target *t)
{
    return gradient_fits(conv, t, FEATURE_CP_ASYNC, sizes_illegal);
}

const char *illegal_row_gradient(FusionFacts *f, KernelKind kind)
{
    return gradient_illegal(f, kind, sizes_illegal);
}

bool suits_row_gradient(FusionFacts *f, KernelKind kind)
{
    const Instruction *hero = fusion_hero(f->fusion, kernel_kind_info[kind].hero);
    return f->target != NULL && row_gradient_fits(hero, f->target);
}

/* -- heuristic ------------------------------------------------------------------------------------ */

static void complete(const GradientPlan *p, int64_t groups, int64_t rows, KernelConfig *c)
{
    bool in_memory = p->of.in_tensor_memory;
    if (in_memory && config_lacks(c, KERNEL_KEY_WARPS)) {
        c->warps[FEATURES] = WARPGROUP_WARPS * groups;
        c->warps[ROWS] = 1;
    } else if (config_lacks(c, KERNEL_KEY_WARPS)) {
        c->warps[FEATURES] = WARPGROUP_WARPS;
        c->warps[ROWS] = groups;
    }
    if (config_lacks(c, KERNEL_KEY_TILE)) {
        c->tile[FEATURES] =
            in_memory ? (p->of.features % TENSOR_ROWS == 0 ? TENSOR_ROWS : WARPGROUP_ROWS)
                      : WARPGROUP_ROWS * (c->warps[FEATURES] / WARPGROUP_WARPS);
        c->tile[ROWS] = rows;
    }
}

static bool seconds_of(const KernelDesign *d, int64_t groups, int64_t rows,
                       double *seconds)
{
    KernelConfig c = d->config;
    complete(d->plan.gradient, groups, rows, &c);
    return design_seconds(d, &c, seconds);
}

void configure_row_gradient(const KernelDesign *d, KernelConfig *c)
{
    int64_t best[2] = {1, TAPS_STEP};
    double best_seconds = 0, seconds;
    KernelDesign open = *d;
    open.config = *c;
    for (int64_t rows = 1; rows <= MOST_TILE && d->target != NULL; rows++) {
        for (int64_t groups = 1; groups <= MOST_GROUPS && d->unsupported == NULL;
             groups++) {
            if (!seconds_of(&open, groups, rows, &seconds) ||
                (best_seconds != 0 && seconds >= best_seconds))
                continue;
            best_seconds = seconds;
            best[0] = groups;
            best[1] = rows;
        }
    }
    complete(d->plan.gradient, best[0], best[1], c);
}

static const char *threads_refused(const KernelDesign *d)
{
    const KernelConfig *c = &d->config;
    int64_t threads = c->warps[FEATURES] * c->warps[ROWS] * TARGET_WARP;
    const char *wrong = warps_refused(d, threads);
    if (wrong != NULL)
        return wrong;
    GradientStorage s;
    gradient_storage(d, &s);
    if (!d->plan.gradient->of.in_tensor_memory &&
        (s.columns > MOST_COLUMNS || registers_of(&s) > target_thread_registers(threads)))
        return refuse_text(
            d, "\"warps\" leave a thread %lld registers; its sums need %lld",
            (long long)target_thread_registers(threads), (long long)registers_of(&s));
    return shared_refused(d, s.bytes);
}

/* One tile of features, by so many threads as copying takes. */
static const char *tensor_tile_refused(const KernelDesign *d)
{
    const GradientPlan *p = d->plan.gradient;
    const KernelConfig *c = &d->config;
    bool has_rows =
        c->tile[FEATURES] == WARPGROUP_ROWS || c->tile[FEATURES] == TENSOR_ROWS;
    if (c->warps[FEATURES] % WARPGROUP_WARPS != 0 || c->warps[ROWS] != 1)
        return refuse_text(
            d, "\"warps\" must be a multiple of %d, and 1; found %lld, %lld",
            WARPGROUP_WARPS, (long long)c->warps[FEATURES], (long long)c->warps[ROWS]);
    return has_rows && p->of.features % c->tile[FEATURES] == 0
               ? NULL
               : refuse_text(d, "\"tile\" must be %d or %d and divide %lld, found %lld",
                             WARPGROUP_ROWS, TENSOR_ROWS, (long long)p->of.features,
                             (long long)c->tile[FEATURES]);
}

const char *refuse_row_gradient(const KernelDesign *d)
{
    const GradientPlan *p = d->plan.gradient;
    const KernelConfig *c = &d->config;
    int64_t calls = p->of.window[Y] / p->of.stride,
            terms = c->tile[ROWS] * p->of.result_size[X];
    const char *wrong = p->of.in_tensor_memory ? tensor_tile_refused(d) : NULL;
    if (wrong != NULL)
        return wrong;
    bool by_warps = !p->of.in_tensor_memory;
    if (by_warps &&
        (c->warps[FEATURES] % WARPGROUP_WARPS != 0 ||
         c->tile[FEATURES] != c->warps[FEATURES] * (WARPGROUP_ROWS / WARPGROUP_WARPS) ||
         p->of.features % c->tile[FEATURES] != 0))
        return refuse_text(
            d,
            "\"tile\" %lld needs four warps for each %d features, and must divide %lld",
            (long long)c->tile[FEATURES], WARPGROUP_ROWS, (long long)p->of.features);
    if (p->of.result_size[Y] % c->tile[ROWS] != 0 || terms % TAPS_STEP != 0)
        return refuse_text(
            d,
            "\"tile\" must divide %lld rows into whole steps of %d positions, found %lld",
            (long long)p->of.result_size[Y], TAPS_STEP, (long long)c->tile[ROWS]);
    if (calls % c->warps[ROWS] != 0)
        return refuse_text(
            d, "\"warps\" must divide the %lld strides of a window, found %lld",
            (long long)calls, (long long)c->warps[ROWS]);
    return threads_refused(d);
}

void geometry_row_gradient(KernelDesign *d)
{
    const GradientPlan *p = d->plan.gradient;
    const KernelConfig *c = &d->config;
    GradientStorage s;
    gradient_storage(d, &s);
    geometry_blocks(d, p->groups * (p->of.features / c->tile[FEATURES]),
                    c->warps[FEATURES] * c->warps[ROWS] * TARGET_WARP, 1);
    geometry_shared(&d->geometry, s.bytes, WIDE_ALIGN);
    d->geometry.has_barriers = true;
}
