/* Gradients by the filter of convolutions from and to whole blocks of features, by wgmma: 64 features of the second operand
 * by 64 of the image, for all taps of a window.
 *
 *   convolution(image, y), window={size=56x56 pad=1_1x1_1}, dim_labels=f01b_i01o->...
 *
 * The sum is over images and positions. Eight of its terms are the same position of eight strips, each some rows of an
 * image, so that they are moved by a tap together: eight lines of 64 features that wgmma reads swizzled as they were
 * copied. A block goes down its strips a row at a time. Of the image it keeps the rows of a window and those that are
 * copied meanwhile; a row of y is multiplied with each of the window's by four warps. Groups are pieces of the sum
 * (split_products.c), whose results another kernel adds. */
#include "ir/base/divide.h"
#include "ir/kernel/kinds/gradients.h"
#include "ir/kernel/rules.h"

enum {
    Y,
    X,
    STRIP = 0,   /* of a tile: rows of y that a strip has, */
    COLUMNS = 1, /* columns of a row that are multiplied at once; */
    ROWS = 1,    /* of warps: four for each run of a window's rows */
    MOST_COLUMNS = 256,
    MOST_TOGETHER =
        7, /* groups of wgmma that go on behind one that is waited for: gx_wgmma_wait */
    /* bytes of shared memory of a block on each GPU with wgmma */
    SHARED = 227 << 10
};

/* -- the plan ------------------------------------------------------------------------------------ */

void plan_tap_gradient(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    const Instruction *hero = fusion_hero(d->fusion, kernel_kind_info[d->kind].hero);
    bool is_turned;
    gradient_in_memory(hero, &is_turned);
    GradientPlan *p = ARENA_NEW(d->arena, GradientPlan);
    *p = gradient_plan_of(hero, is_turned);
    d->plan.gradient = p;
}

/* Rows of the image that steps read or fill at once: one whose products may go on, the next one, and those that are
 * copied ahead. The first step of a strip takes a whole window, others a stride. */
static int64_t ring_rows(const GradientPlan *p, int64_t strip, int64_t together)
{
    int64_t most = 0, stride = p->of.stride;
    for (int64_t first = 0; first < strip; first++) {
        int64_t rows = p->window_rows;
        for (int64_t i = 1; i < together; i++)
            rows += (first + i) % strip == 0 ? p->window_rows : stride;
        most = rows > most ? rows : most;
    }
    return most;
}

static void storage_of(const GradientPlan *p, const KernelConfig *c,
                       TapGradientStorage *out)
{
    int64_t columns = c->tile[COLUMNS], rows = c->tile[STRIP], together = c->stages + 2,
            stride = p->of.stride;
    TapGradientStorage s = {.octets = columns % 2 == 0 ? 1 : 2,
                            .strips = p->of.result_size[Y] / rows,
                            .across = p->of.result_size[X] / columns,
                            .width = (columns - 1) * stride + p->of.window[X],
                            .strip_rows = (rows - 1) * stride + p->window_rows,
                            .ring = ring_rows(p, rows, together),
                            .buffers = together,
                            .calls = p->window_rows / c->warps[ROWS],
                            .sum_columns = p->of.window[X] * GRADIENT_CHANNELS};
    s.runs = p->images * s.strips / (WARPGROUP_PIECE * s.octets) * s.across;
    s.steps = s.runs * rows;
    s.parts = s.octets == 2 && stride != 1 ? columns : 1;
    s.row_bytes = s.width * s.octets * GRADIENT_OCTET;
    s.y_bytes = columns * s.octets * GRADIENT_OCTET;
    s.bytes = (uint64_t)(s.ring * s.row_bytes + s.buffers * s.y_bytes);
    *out = s;
}

void tap_gradient_storage(const KernelDesign *d, TapGradientStorage *out)
{
    storage_of(d->plan.gradient, &d->config, out);
}

/* Registers of a thread that its sums need, with others. */
static int64_t registers_of(const TapGradientStorage *s)
{
    enum { BESIDE = 40 };
    return s->calls * s->sum_columns / 2 + BESIDE;
}

static int64_t most_registers(const KernelConfig *c)
{
    return target_thread_registers(c->warps[0] * c->warps[ROWS] * TARGET_WARP);
}

/* Tiles divide the rows and columns of y, and strips are whole octets, or pairs of them. */
static bool divides(const GradientPlan *p, const KernelConfig *c)
{
    int64_t octets = c->tile[COLUMNS] % 2 == 0 ? 1 : 2;
    return p->of.result_size[Y] % c->tile[STRIP] == 0 &&
           p->of.result_size[X] % c->tile[COLUMNS] == 0 &&
           p->images * (p->of.result_size[Y] / c->tile[STRIP]) %
                   (octets * WARPGROUP_PIECE) ==
               0;
}

/* -- configurations ------------------------------------------------------------------------------ */

/* All that could be, what copies least first: rows of a strip, columns, four warps for each so many rows of a window, steps
 * ahead. */
typedef struct Trial {
    int64_t strip, columns, groups, stages;
} Trial;

/* Of the time of what comes before: a gain that is none. */
#define NO_FASTER 0.999

enum { MOST_WIDTH = 32, MOST_GROUPS = 8, MOST_AHEAD = 3 };

static int64_t least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static Trial first_trial(const GradientPlan *p)
{
    return (Trial){.strip = least(p->of.result_size[Y], config_most(KERNEL_KEY_TILE)),
                   .columns = least(p->of.result_size[X], MOST_WIDTH),
                   .groups = least(p->window_rows, MOST_GROUPS),
                   .stages = MOST_AHEAD};
}

static bool next_trial(const GradientPlan *p, Trial *x)
{
    Trial first = first_trial(p);
    if (--x->stages > 0)
        return true;
    x->stages = first.stages;
    if (--x->groups > 0)
        return true;
    x->groups = first.groups;
    if (--x->columns > 0)
        return true;
    x->columns = first.columns;
    return --x->strip > 0;
}

static void complete(const Trial *x, KernelConfig *c)
{
    if (config_lacks(c, KERNEL_KEY_WARPS)) {
        c->warps[0] = WARPGROUP_WARPS;
        c->warps[ROWS] = x->groups;
    }
    if (config_lacks(c, KERNEL_KEY_TILE)) {
        c->tile[STRIP] = x->strip;
        c->tile[COLUMNS] = x->columns;
    }
    if (config_lacks(c, KERNEL_KEY_STAGES))
        c->stages = x->stages;
}

static bool is_possible(const GradientPlan *p, const KernelConfig *c)
{
    TapGradientStorage s;
    if (p->window_rows % c->warps[ROWS] != 0 || !divides(p, c))
        return false;
    storage_of(p, c, &s);
    return s.calls * s.parts <= MOST_TOGETHER && s.bytes <= SHARED &&
           registers_of(&s) <= most_registers(c);
}

void configure_tap_gradient(const KernelDesign *d, KernelConfig *c)
{
    const GradientPlan *p = d->plan.gradient;
    Trial x = first_trial(p), best = x;
    double best_seconds = 0, seconds;
    KernelDesign open = *d;
    open.config = *c;
    if (d->target == NULL ||
        (c->set & kernel_kind_info[d->kind].keys) == kernel_kind_info[d->kind].keys)
        return;
    do {
        KernelConfig trial = *c;
        complete(&x, &trial);
        if (!is_possible(p, &trial) || !design_seconds(&open, &trial, &seconds) ||
            (best_seconds != 0 && seconds >= best_seconds * NO_FASTER))
            continue;
        best_seconds = seconds;
        best = x;
    } while (next_trial(p, &x));
    complete(&best, c);
}

const char *refuse_tap_gradient(const KernelDesign *d)
{
    const GradientPlan *p = d->plan.gradient;
    const KernelConfig *c = &d->config;
    TapGradientStorage s;
    if (c->warps[0] != WARPGROUP_WARPS || p->window_rows % c->warps[ROWS] != 0)
        return refuse_text(d,
                           "\"warps\" must be %d, and divide the %lld rows of a window; "
                           "found %lld, %lld",
                           WARPGROUP_WARPS, (long long)p->window_rows,
                           (long long)c->warps[0], (long long)c->warps[ROWS]);
    if (!divides(p, c))
        return refuse_text(
            d,
            "\"tile\" must divide %lld rows and %lld columns, and strips of "
            "%lld images be multiples of 8, or 16 with odd columns; found "
            "%lld, %lld",
            (long long)p->of.result_size[Y], (long long)p->of.result_size[X],
            (long long)p->images, (long long)c->tile[STRIP], (long long)c->tile[COLUMNS]);
    const char *wrong = warps_refused(d, c->warps[0] * c->warps[ROWS] * TARGET_WARP);
    if (wrong != NULL)
        return wrong;
    storage_of(p, c, &s);
    if (s.calls * s.parts > MOST_TOGETHER)
        return refuse_text(
            d, "\"tile\" and \"warps\" ask for %lld products of a step; %d at most",
            (long long)(s.calls * s.parts), MOST_TOGETHER);
    if (registers_of(&s) > most_registers(c))
        return refuse_text(d,
                           "\"warps\" leave a thread %lld registers; its sums need %lld",
                           (long long)most_registers(c), (long long)registers_of(&s));
    return shared_refused(d, s.bytes);
}

static int64_t blocks_of(const GradientPlan *p)
{
    return p->groups * (p->of.features / WARPGROUP_ROWS) *
           (p->of.channels / GRADIENT_CHANNELS);
}

void geometry_tap_gradient(KernelDesign *d)
{
    const GradientPlan *p = d->plan.gradient;
    const KernelConfig *c = &d->config;
    TapGradientStorage s;
    storage_of(p, c, &s);
    geometry_blocks(d, blocks_of(p), c->warps[0] * c->warps[ROWS] * TARGET_WARP, 1);
    geometry_shared(&d->geometry, s.bytes, WIDE_ALIGN);
    d->geometry.has_barriers = true;
}

/* -- legality ------------------------------------------------------------------------------------ */

static const char *sizes_illegal(const Instruction *hero)
{
    GradientPlan p = gradient_plan_of(hero, false);
    if (!p.of.is_last || p.of.channels % GRADIENT_CHANNELS != 0)
        return "there are not whole tiles of channels, which are last";
    if (p.of.window[X] * GRADIENT_CHANNELS > MOST_COLUMNS ||
        p.window_rows < p.of.stride || p.window_rows * p.of.window[X] == 1)
        return "its window is one position, or too wide";
    Trial x = first_trial(&p);
    do {
        KernelConfig c = {0};
        complete(&x, &c);
        if (is_possible(&p, &c))
            return NULL;
    } while (next_trial(&p, &x));
    return "strips of images are no whole octets, or have no room";
}

bool tap_gradient_fits(const Instruction *conv, const Target *t)
{
    return gradient_fits(conv, t, FEATURE_WARPGROUP, sizes_illegal);
}

const char *illegal_tap_gradient(FusionFacts *f, KernelKind kind)
{
    return gradient_illegal(f, kind, sizes_illegal);
}

/* Fewer blocks than half of the multiprocessors do less than others that have as many tiles for each. */
bool suits_tap_gradient(FusionFacts *f, KernelKind kind)
{
    const Instruction *hero = fusion_hero(f->fusion, kernel_kind_info[kind].hero);
    if (f->target == NULL || !tap_gradient_fits(hero, f->target))
        return false;
    GradientPlan p = gradient_plan_of(hero, false);
    return blocks_of(&p) * 2 > (int64_t)target_multiprocessors(f->target);
}
