/* wide_convolution.c by wgmma with positions as rows ("by_positions"): four warps have 64 positions, or several times as
 * many one after the other, which they load from the patch into registers, by up to 256 features, which wgmma reads from
 * shared memory. Each lane finds the rows of the patch that it loads by itself. So there are no columns between rows of
 * results, and a block's positions are a run through all images, however long rows and images are: none is multiplied in
 * vain but behind the last image, and blocks may be as many as multiprocessors take evenly. But each 64 positions by 64
 * features take shared memory as long as tensor cores, so that it is for small images only, whose rows leave most columns
 * of wgmma empty.
 *
 * The patch of positions of two images has the rows below the first one's and above the second one's windows between
 * them. */
#include "ir/base/divide.h"
#include "ir/kernel/kinds/taps.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

enum {
    Y,
    X,
    FEATURES = 0, /* sides of a tile */
    POSITIONS = 1,
    MOST_TERMS = 256, /* of a step: wgmma's in registers */
    STAGES = 3
};

/* Rows and columns of a plane that the windows of one result reach beyond its own. */
static int64_t beyond(const WidePlan *p, int side)
{
    return (p->window[side] - 1) / p->stride;
}

/* How many runs of `length` positions, one behind the other, so many begin in on average: of all tiles. */
static double average_runs(int64_t positions, int64_t length)
{
    int64_t common = gcd(positions, length);
    return (double)(positions - common) / (double)length + 1;
}

/* And at most. */
static int64_t most_runs(int64_t positions, int64_t length)
{
    int64_t common = gcd(positions, length);
    return (length - common + positions - 1) / length + 1;
}

double wide_positions_rows(const WidePlan *p, const KernelConfig *c)
{
    int64_t image = p->result_size[Y] * p->result_size[X];
    return average_runs(c->tile[POSITIONS], p->result_size[X]) +
           average_runs(c->tile[POSITIONS], image) * (double)beyond(p, Y);
}

void wide_positions_storage(const WidePlan *p, const KernelConfig *c, WideStorage *out)
{
    int64_t width = p->result_size[X], image = p->result_size[Y] * width,
            rows = most_runs(c->tile[POSITIONS], width),
            images = most_runs(c->tile[POSITIONS], image);
    if (images > p->images)
        images = p->images;
    if (rows > images * p->result_size[Y])
        rows = images * p->result_size[Y];
    out->columns = c->tile[POSITIONS] / c->warps[POSITIONS];
    out->group_rows = 0;
    out->width = width + beyond(p, X);
    /* eight positions that lie in two rows of results meet in no bank */
    out->pitch = width % WARPGROUP_PIECE == 0
                     ? out->width
                     : width + round_up(beyond(p, X), WARPGROUP_PIECE);
    out->image_rows = p->result_size[Y] + beyond(p, Y);
    /* nor do those that lie in two images */
    out->image_apart = 0;
    while (image % WARPGROUP_PIECE != 0 &&
           (out->image_rows * out->pitch + out->image_apart - image) % WARPGROUP_PIECE !=
               0)
        out->image_apart++;
    out->slack = (images - 1) * out->image_apart;
    out->rows = rows + images * beyond(p, Y);
}

const char *wide_positions_refused(const KernelDesign *d)
{
    const WidePlan *p = d->plan.wide;
    const KernelConfig *c = &d->config;
    if (p->core != NULL || p->in_tensor_memory || p->pieces != 0)
        return refuse_text(d,
                           "\"by_positions\" is for wgmma and whole steps of channels");
    if (c->warps[FEATURES] != WARPGROUP_WARPS ||
        c->tile[POSITIONS] % (c->warps[POSITIONS] * WARPGROUP_ROWS) != 0)
        return refuse_text(d,
                           "\"warps\" must be %d, and as many as have %d positions of "
                           "\"tile\" each, or several times as many",
                           WARPGROUP_WARPS, WARPGROUP_ROWS);
    if (c->tile[FEATURES] % TENSOR_CORE_ROWS != 0 ||
        p->features % c->tile[FEATURES] != 0 || c->tile[FEATURES] > WARPGROUP_COLUMNS)
        return refuse_text(
            d,
            "\"tile\" %lld must be a multiple of %d, %d at most, and divide "
            "the %lld features",
            (long long)c->tile[FEATURES], TENSOR_CORE_ROWS, WARPGROUP_COLUMNS,
            (long long)p->features);
    if (c->depth > MOST_TERMS)
        return refuse_text(d, "\"depth\" must be %d at most, found %lld", MOST_TERMS,
                           (long long)c->depth);
    int64_t rows = (p->result_size[Y] + beyond(p, Y)) * p->stride;
    return p->images <= TAPS_MOST_ROWS / rows
               ? NULL
               : refuse_text(d,
                             "\"by_positions\": there are too many rows of all images");
}

int64_t wide_positions_parts(const KernelConfig *c)
{
    return c->tile[POSITIONS] / c->warps[POSITIONS] / WARPGROUP_ROWS;
}

int64_t wide_positions_registers(const KernelConfig *c)
{
    int64_t parts = wide_positions_parts(c),
            words = c->depth / TAPS_STEP * (TAPS_STEP / 4);
    return parts * c->tile[FEATURES] / 2 + (parts > 1 ? 2 : 1) * words;
}

/* What the text leaves open. */
static void complete(int64_t features, const int64_t shape[2], int64_t depth,
                     KernelConfig *c)
{
    c->by_positions = true;
    c->set |= 1u << KERNEL_KEY_BY_POSITIONS;
    if (config_lacks(c, KERNEL_KEY_WARPS)) {
        c->warps[FEATURES] = WARPGROUP_WARPS;
        c->warps[POSITIONS] = shape[0];
    }
    if (config_lacks(c, KERNEL_KEY_TILE)) {
        c->tile[FEATURES] = features;
        c->tile[POSITIONS] = c->warps[POSITIONS] * shape[1] * WARPGROUP_ROWS;
    }
    if (config_lacks(c, KERNEL_KEY_DEPTH))
        c->depth = depth;
    if (config_lacks(c, KERNEL_KEY_STAGES))
        c->stages = STAGES;
}

/* The more features and positions share what is read the better, if it takes as long. */
void wide_positions_configure(const KernelDesign *open, int64_t deep, double least,
                              KernelConfig *c)
{
    enum { SHAPES = 5 };
    /* groups of four warps; how often each has 64 positions */
    static const int64_t shapes[SHAPES][2] = {{2, 1}, {2, 2}, {1, 4}, {1, 2}, {1, 1}};
    const WidePlan *p = open->plan.wide;
    bool has_positions = c->by_positions;
    if (p->core != NULL || p->in_tensor_memory || p->pieces != 0)
        return;
    for (int64_t n = WARPGROUP_COLUMNS; n >= WARPGROUP_ROWS; n -= WARPGROUP_ROWS) {
        for (int i = 0; i < 2 * SHAPES && p->features % n == 0; i++) {
            KernelConfig trial = open->config;
            int64_t depth = deep >> i / SHAPES;
            double seconds;
            complete(n, shapes[i % SHAPES], depth, &trial);
            if (depth < TAPS_STEP || wide_turning_meets(p, depth, deep) ||
                !design_seconds(open, &trial, &seconds) ||
                (least != 0 && seconds >= least))
                continue;
            least = seconds;
            *c = trial;
        }
    }
    if (has_positions) /* there is none: why will be said */
        complete(WARPGROUP_ROWS, shapes[SHAPES - 1], TAPS_STEP, c);
}
