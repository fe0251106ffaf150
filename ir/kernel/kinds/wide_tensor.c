/* wide_convolution.c by tcgen05: one thread of the block issues products of 128 rows, whose sums lie in tensor memory, not
 * in the threads' registers. So warps are as many as copying takes, and a block's tile is as large as 512 columns.
 *
 * Rows are 128 features, columns up to 256 positions. Where features are no multiple of 128, products of 64 rows would take
 * as long as those of 128, for they use half of the lanes (PTX ISA, data path layout F); then rows are positions, and
 * features columns. */
#include "ir/base/divide.h"
#include "ir/kernel/kinds/taps.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

enum {
    X = 1,
    FEATURES = 0, /* sides of a tile; */
    ROWS = 1,     /* rows of the result */
    MOST_COLUMNS = 256,
    LEAST_TAKEN = 32,
    STAGES = 3,
    MOST_ROWS = 32,
    MOST_GROUPS = 4 /* of four warps */
};

void wide_tensor_plan(WidePlan *p)
{
    p->in_tensor_memory = true;
    p->positions_are_rows = p->features % TENSOR_ROWS != 0;
}

/* Features of a block are a multiple of it. */
static int64_t feature_unit(const WidePlan *p)
{
    return p->positions_are_rows ? TENSOR_COLUMN_STEP : TENSOR_ROWS;
}

/* The least that a tile has: all of them where they are few and fill none. */
static int64_t least_features(const WidePlan *p)
{
    if (!p->positions_are_rows)
        return TENSOR_ROWS;
    if (p->features % WARPGROUP_ROWS == 0)
        return WARPGROUP_ROWS;
    return p->features <= MOST_COLUMNS ? p->features : TENSOR_COLUMN_STEP;
}

/* Each row of results has tiles of its own. */
static void terms_storage(const WidePlan *p, const KernelConfig *c, WideStorage *out)
{
    WideTensor t = {.rows = TENSOR_ROWS, .columns = out->pitch, .parts = 1};
    if (p->positions_are_rows) {
        t.columns = c->tile[FEATURES];
        t.parts = wide_terms_parts(p);
    }
    t.across = c->tile[ROWS] * t.parts;
    t.tiles = t.across * (p->positions_are_rows ? 1 : c->tile[FEATURES] / TENSOR_ROWS);
    t.width = t.tiles * t.columns;
    wide_tensor_take(&t);
    out->columns = c->tile[ROWS] * out->pitch;
    out->slack = 0;
    out->tensor = t;
}

void wide_tensor_storage(const WidePlan *p, const KernelConfig *c, WideStorage *out)
{
    if (p->by_term) {
        terms_storage(p, c, out);
        return;
    }
    int64_t positions = (c->tile[ROWS] - 1) * out->pitch + p->result_size[X],
            columns = p->positions_are_rows ? TENSOR_ROWS : MOST_COLUMNS;
    WideTensor t = {.rows = TENSOR_ROWS, .across = ceil_div(positions, columns)};
    if (p->positions_are_rows) {
        t.columns = c->tile[FEATURES];
        t.tiles = t.across;
    } else {
        columns = round_up(ceil_div(positions, t.across), TENSOR_COLUMN_STEP);
        t.columns = columns;
        t.tiles = t.across * (c->tile[FEATURES] / TENSOR_ROWS);
    }
    out->columns = t.across * columns;
    out->slack = out->columns - positions;
    t.width = t.tiles * t.columns;
    wide_tensor_take(&t);
    out->tensor = t;
}

void wide_tensor_take(WideTensor *t)
{
    t->taken = LEAST_TAKEN;
    while (t->taken < t->tiles * t->columns && t->taken <= TENSOR_COLUMNS)
        t->taken *= 2;
}

uint64_t wide_tensor_control(WideTensor *t, uint64_t bytes)
{
    enum { ALIGN = 16, BYTES = 32 };
    uint64_t at = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    t->control = (uint32_t)at;
    return at + BYTES;
}

const char *wide_tensor_refused(const KernelDesign *d)
{
    const WidePlan *p = d->plan.wide;
    const KernelConfig *c = &d->config;
    int64_t unit = feature_unit(p);
    WideStorage s;
    if (c->warps[FEATURES] % WARPGROUP_WARPS != 0 || c->warps[ROWS] != 1)
        return refuse_text(
            d, "\"warps\" must be a multiple of %d, and 1; found %lld, %lld",
            WARPGROUP_WARPS, (long long)c->warps[FEATURES], (long long)c->warps[ROWS]);
    if (c->tile[FEATURES] % unit != 0 || p->features % c->tile[FEATURES] != 0 ||
        (p->positions_are_rows && c->tile[FEATURES] > MOST_COLUMNS))
        return refuse_text(d,
                           "\"tile\" %lld must be a multiple of %lld, divide the %lld "
                           "features, and be %d at most where positions are rows",
                           (long long)c->tile[FEATURES], (long long)unit,
                           (long long)p->features, MOST_COLUMNS);
    wide_storage(d, &s);
    if (p->by_term && !wide_terms_reach(p, &s))
        return refuse_text(d, "\"tile\" has positions behind the patch's end");
    return s.tensor.taken <= TENSOR_COLUMNS
               ? NULL
               : refuse_text(
                     d, "\"tile\" asks for %lld columns of tensor memory; there are %d",
                     (long long)(s.tensor.tiles * s.tensor.columns), TENSOR_COLUMNS);
}

/* -- heuristic ------------------------------------------------------------------------------------ */

typedef struct Choice {
    int64_t groups, features, rows, depth;
} Choice;

/* What the text leaves open. */
static void complete(const WidePlan *p, const Choice *x, KernelConfig *c)
{
    if (config_lacks(c, KERNEL_KEY_WARPS)) {
        c->warps[FEATURES] = WARPGROUP_WARPS * x->groups;
        c->warps[ROWS] = 1;
    }
    if (config_lacks(c, KERNEL_KEY_TILE)) {
        c->tile[FEATURES] = x->features;
        c->tile[ROWS] = x->rows;
    }
    if (config_lacks(c, KERNEL_KEY_DEPTH))
        c->depth = x->depth;
    if (config_lacks(c, KERNEL_KEY_STAGES))
        c->stages = p->pieces != 0 ? 1 : STAGES;
}

/* The best of so many threads, features and terms, over all rows of a tile. */
static void try_rows(const KernelDesign *open, Choice x, Choice *best,
                     double *best_seconds)
{
    const WidePlan *p = open->plan.wide;
    int64_t most = p->result_size[0] < MOST_ROWS ? p->result_size[0] : MOST_ROWS;
    for (x.rows = 1; x.rows <= most; x.rows++) {
        KernelConfig c = open->config;
        double seconds;
        complete(p, &x, &c);
        if (!design_seconds(open, &c, &seconds) ||
            (*best_seconds != 0 && seconds >= *best_seconds))
            continue;
        *best_seconds = seconds;
        *best = x;
    }
}

void configure_wide_tensor(const KernelDesign *d, int64_t deep, KernelConfig *c)
{
    const WidePlan *p = d->plan.wide;
    KernelDesign open = *d;
    int64_t unit = least_features(p);
    Choice best = {1, unit, 1, p->pieces != 0 ? deep : TAPS_STEP};
    double seconds = 0;
    open.config = *c;
    for (int64_t groups = 1; groups <= MOST_GROUPS && d->unsupported == NULL;
         groups *= 2) {
        for (int64_t features = unit; features <= 2 * unit; features += unit) {
            for (int64_t k = deep; k >= TAPS_STEP && 4 * k >= deep; k /= 2) {
                /* rows are not cut */
                if (wide_turning_meets(p, k, deep) || (p->pieces != 0 && k < deep))
                    break;
                try_rows(&open, (Choice){groups, features, 1, k}, &best, &seconds);
            }
        }
    }
    complete(p, &best, c);
}
