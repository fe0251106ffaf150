/* Convolutions by wgmma, which four warps carry out together on factors in shared memory: 64 features by up to 256
 * positions; by tcgen05 (wide_tensor.c); where there is neither, each warp multiplies its 16 of the features by mma.sync.
 *
 * A block makes rows of an image's result. It reads the rows of the image that their windows reach once, with zeros
 * around them, into a patch whose rows are as long as the result's and a window's rest together; so the positions that a
 * tap multiplies are a run of the patch, and those at the end of a row that no result has are multiplied in vain, but by
 * mma.sync, which finds each position by itself. Features may be the first or last dimension of image, result and filter.
 * Images of few channels: wide_rows.c; positions as rows of wgmma: wide_positions.c. */
#include "ir/base/divide.h"
#include "ir/kernel/kinds/taps.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

enum {
    Y,
    X,
    FEATURES = 0, /* sides of a tile; */
    ROWS = 1,     /* rows of the result */
    MOST_COLUMNS = 256,
    MOST_DEPTH = 64,
    STAGES = 3
};

/* -- legality ------------------------------------------------------------------------------------ */

typedef enum { ORDER_NONE, ORDER_LAST, ORDER_FIRST } Order;

/* Where the feature stands in an array whose first dimension is `first`. */
static Order order_of(const Shape *s, int64_t first, int64_t second,
                      const int64_t *spatial)
{
    if (s->rank != 4 || !shape_is_row_major(s) || first != 0)
        return ORDER_NONE;
    if (second == 3 && spatial[Y] == 1 && spatial[X] == 2)
        return ORDER_LAST;
    return second == 1 && spatial[Y] == 2 && spatial[X] == 3 ? ORDER_FIRST : ORDER_NONE;
}

/* Taps follow each other row by row, and are not last. */
static bool filter_fits(const Shape *w, const DimLabels *l)
{
    const int64_t *spatial = l->rhs_spatial;
    return w->rank == 4 && shape_is_row_major(w) && spatial[X] == spatial[Y] + 1 &&
           spatial[X] != 3;
}

static const char *images_illegal(const Instruction *hero)
{
    const DimLabels *l = inst_attr(hero, ATTR_DIM_LABELS)->labels;
    const Shape *x = hero->operands[0]->shape;
    return order_of(x, l->lhs_batch, l->lhs_feature, l->lhs_spatial) != ORDER_NONE &&
                   order_of(hero->shape, l->out_batch, l->out_feature, l->out_spatial) !=
                       ORDER_NONE
               ? NULL
               : "images are not bf01 or b01f";
}

static const char *labels_illegal(const Instruction *hero)
{
    const DimLabels *l = inst_attr(hero, ATTR_DIM_LABELS)->labels;
    const char *images = images_illegal(hero);
    if (images != NULL)
        return images;
    if (!filter_fits(hero->operands[1]->shape, l))
        return "the taps of filters are last";
    bool has_few = hero->operands[0]->shape->dims[l->lhs_feature] % TAPS_STEP != 0;
    return has_few && l->rhs_output != 3
               ? "channels are few, and features are not last in filters"
               : NULL;
}

static const char *window_illegal(const Instruction *hero)
{
    const Window *w = inst_window(hero);
    if (w->rank != 2)
        return "it has no window of two positions";
    for (int i = 0; i < 2; i++) {
        const WindowDim *d = &w->dims[i];
        bool is_turned = d->size > 1 && w->dims[1 - i].size > 1 &&
                         d->reversal != w->dims[1 - i].reversal;
        if (!taps_dim_fits(w, (uint32_t)i) || is_turned)
            return "its window is dilated, reversed one way, or moves too far";
    }
    return NULL;
}

static WidePlan plan_of(const Instruction *hero)
{
    const DimLabels *l = inst_attr(hero, ATTR_DIM_LABELS)->labels;
    const Window *w = inst_window(hero);
    const Shape *x = hero->operands[0]->shape, *filter = hero->operands[1]->shape,
                *y = hero->shape;
    int64_t strides[4]; /* of the filter */
    shape_strides(filter, strides);
    WidePlan p = {.inst = hero,
                  .images = x->dims[0],
                  .features = y->dims[l->out_feature],
                  .channels = x->dims[l->lhs_feature],
                  .stride = w->dims[0].stride,
                  .is_last = l->lhs_feature == 3,
                  .result_is_last = l->out_feature == 3,
                  .tap_step = strides[l->rhs_spatial[X]],
                  .channel_step = strides[l->rhs_input],
                  .feature_step = strides[l->rhs_output],
                  .is_transposed = l->rhs_output == 3};
    for (int i = 0; i < 2; i++) {
        p.size[i] = x->dims[l->lhs_spatial[i]];
        p.result_size[i] = y->dims[l->out_spatial[i]];
        p.window[i] = w->dims[i].size;
        p.before[i] = w->dims[i].pad_low;
        p.is_reversed |= w->dims[i].size > 1 && w->dims[i].reversal;
    }
    return p;
}

/* -- shared memory ------------------------------------------------------------------------------- */

int64_t wide_parts(const WidePlan *p, int64_t columns)
{
    enum { HALF = WARPGROUP_WARPS / 2 };
    if (p->group_features % (2 * TENSOR_CORE_ROWS) != 0)
        return WARPGROUP_WARPS;
    int64_t whole = round_up(columns, WARPGROUP_WARPS * WARPGROUP_PIECE);
    return whole > round_up(columns, HALF * WARPGROUP_PIECE) ? HALF : WARPGROUP_WARPS;
}

/* Columns of four warps for so many rows `pitch` apart, of which the last one ends with its last result. */
static int64_t columns_apart(const WidePlan *p, int64_t pitch, int64_t rows)
{
    int64_t positions = (rows - 1) * pitch + p->result_size[X],
            parts = p->core == NULL ? 1 : wide_parts(p, positions);
    return round_up(positions, parts * WARPGROUP_PIECE);
}

static int64_t columns_of(const WidePlan *p, int64_t pitch, int64_t rows)
{
    return columns_apart(p, p->core == NULL ? pitch : p->result_size[X], rows);
}

/* From a row of results to the next. By mma.sync eight columns that lie in two rows would meet in a bank of the patch: rows
 * are whole octets, or as far apart as there, if that makes no more columns. */
static int64_t sum_pitch(const WidePlan *p, int64_t pitch, int64_t rows)
{
    int64_t width = p->result_size[X], whole = round_up(width, WARPGROUP_PIECE);
    if (p->core == NULL)
        return pitch;
    int64_t least = columns_apart(p, width, rows);
    if (p->pieces != 0 || columns_apart(p, whole, rows) == least)
        return p->pieces != 0 ? width : whole;
    return columns_apart(p, pitch, rows) == least ? pitch : width;
}

/* Pairs of results of a row are read and written together where features are first. */
static int64_t pitch_of(const WidePlan *p)
{
    if (p->by_term)
        return wide_terms_pitch(p);
    /* rows of windows share no positions where each result has its own */
    int64_t shared = p->pieces != 0 ? 0 : (p->window[X] - 1) / p->stride,
            pitch = p->result_size[X] + shared;
    return p->result_is_last ? pitch : round_up(pitch, 2);
}

static int64_t odd(int64_t n)
{
    return n % 2 == 0 ? n + 1 : n;
}

static uint64_t sum_bytes(const WidePlan *p, const KernelConfig *c, WideStorage *r)
{
    int64_t positions = c->warps[ROWS] * r->columns, pieces = WARPGROUP_PIECE;
    int64_t across = p->result_is_last ? c->tile[FEATURES] : positions,
            down = p->result_is_last ? positions : c->tile[FEATURES];
    r->sum_stride = odd(across / pieces) * pieces;
    return (uint64_t)(down * r->sum_stride) * 2;
}

/* At least n rows of 16 bytes from one chunk to the next, so that eight threads that fill `chunks` of them side by side,
 * and then rows `apart` further on, each meet banks of their own. */
static int64_t chunk_rows(int64_t n, int64_t chunks, int64_t apart)
{
    enum { BANKED = 8 }; /* rows of 16 bytes in all banks */
    int64_t step = chunks >= BANKED ? 1 : apart == 1 ? BANKED / chunks : 1;
    while (n % BANKED != step)
        n++;
    return n;
}

/* At least n positions of a plane of the patch. Of two threads that fill the same chunks, one has the first position of
 * the plane behind the other's, or of its next row: by positions, where rows end before the next ones begin, it is as if
 * they followed each other. Where channels are turned, it is the same position of both. Through registers, threads have a
 * row's columns, of one plane and then of the next; of what is turned, the second plane begins half of the banks further
 * on. */
static int64_t plane_positions(const WidePlan *p, const KernelConfig *c,
                               const WideStorage *s, int64_t n)
{
    enum { HALF = WARPGROUP_PIECE / 2 };
    int64_t chunks = c->depth / WARPGROUP_PIECE, threads = WARPGROUP_PIECE / chunks;
    if (p->stride == 2 && !p->is_last && wide_by_registers(p, c))
        return n + (HALF + p->before[X] % 2 + WARPGROUP_PIECE - n % WARPGROUP_PIECE) %
                       WARPGROUP_PIECE;
    if (p->stride == 1 || chunks * threads != WARPGROUP_PIECE || threads == 1)
        return n;
    bool is_row = p->is_last && wide_by_registers(p, c);
    int64_t step = p->is_last ? threads : WARPGROUP_PIECE / p->stride,
            rest = is_row       ? threads / p->stride
                   : p->is_last ? s->width % step
                                : chunks / p->stride % step;
    while ((!p->is_last || c->by_positions || is_row) && n % step != rest)
        n++;
    return n;
}

uint32_t wide_line(int64_t pieces)
{
    enum { PIECE = 2 * WARPGROUP_PIECE, MOST = 8 };
    int64_t most = MOST;
    while (pieces % most != 0)
        most /= 2;
    return (uint32_t)(most * PIECE);
}

/* A copy into shared memory asks for each pair of 128 bytes of the image and of shared memory by itself, 16 bytes or all
 * of them: so pieces that lie side by side stay in one row. */
static void swizzle_patch(const KernelConfig *c, WideStorage *out)
{
    int64_t pieces = c->depth / WARPGROUP_PIECE;
    out->patch_line = wide_line(pieces);
    out->chunk = round_up(out->chunk, WARPGROUP_PIECE);
    out->patch_bytes = (uint64_t)(out->chunk * pieces * 2 * WARPGROUP_PIECE);
}

void wide_line_filter(int64_t rows, int64_t pieces, WideStorage *out)
{
    uint32_t line = wide_line(pieces);
    out->filter_line = line;
    out->filter_lead = (uint32_t)(rows * line);
    out->filter_stride = WARPGROUP_PIECE * line;
    out->patch_bytes = (uint64_t)round_up((int64_t)out->patch_bytes, WIDE_ALIGN);
    out->stage_bytes =
        (uint64_t)round_up(rows * pieces * 2 * WARPGROUP_PIECE, WIDE_ALIGN);
}

/* Each tap has whole steps of channels. */
static void tap_storage(const WidePlan *p, const KernelConfig *c, WideStorage *out)
{
    int64_t piece = 2 * WARPGROUP_PIECE; /* bytes */
    WideStorage r = *out;
    if (!c->by_positions)
        r.rows = c->tile[ROWS] + (p->window[Y] - 1) / p->stride;
    r.plane = plane_positions(p, c, &r, r.rows * r.pitch + r.slack);
    r.chunk = chunk_rows(p->stride * p->stride * r.plane, c->depth / WARPGROUP_PIECE,
                         p->is_last ? 1 : WARPGROUP_PIECE / p->stride);
    r.patch_bytes = (uint64_t)(c->depth / WARPGROUP_PIECE * r.chunk * piece);
    int64_t side = p->is_transposed ? c->depth : c->tile[FEATURES],
            chunks = (p->is_transposed ? c->tile[FEATURES] : c->depth) / WARPGROUP_PIECE,
            apart = chunk_rows(side, chunks, 1) * piece;
    r.filter_lead = (uint32_t)(p->is_transposed ? WARPGROUP_PIECE * piece : apart);
    r.filter_stride = (uint32_t)(p->is_transposed ? apart : WARPGROUP_PIECE * piece);
    r.stage_bytes = (uint64_t)(chunks * apart);
    if (p->has_lines && c->by_positions && p->is_last)
        swizzle_patch(c, &r);
    if (p->has_lines)
        wide_line_filter(side, chunks, &r);
    *out = r;
}

/* Of whole steps of channels: one row of results on any GPU. */
static bool has_room(const WidePlan *p)
{
    KernelConfig c = {
        .tile = {WARPGROUP_ROWS, 1}, .warps = {WARPGROUP_WARPS, 1}, .depth = TAPS_STEP};
    WideStorage s = {.pitch = pitch_of(p), .group_rows = 1, .slack = WARPGROUP_PIECE - 1};
    tap_storage(p, &c, &s);
    return s.patch_bytes + STAGES * s.stage_bytes <= WIDE_LEAST_SHARED;
}

static const char *sizes_illegal(const Instruction *hero)
{
    const DimLabels *l = inst_attr(hero, ATTR_DIM_LABELS)->labels;
    const Shape *x = hero->operands[0]->shape, *w = hero->operands[1]->shape,
                *y = hero->shape;
    int64_t channels = x->dims[l->lhs_feature], columns = y->dims[l->out_spatial[X]];
    if (shape_elements(y) == 0 || channels == 0 ||
        y->dims[l->out_feature] % TENSOR_CORE_ROWS != 0)
        return "there are not whole tiles of channels and features";
    WidePlan p = plan_of(hero);
    if (channels % TAPS_STEP != 0) {
        const char *few = wide_rows_illegal(&p);
        if (few != NULL)
            return few;
    } else if (l->lhs_feature == 1 && x->dims[l->lhs_spatial[X]] % WARPGROUP_PIECE != 0)
        return "rows of the image are not whole vectors";
    if (l->out_feature == 1 && columns % 2 != 0)
        return "rows of the result are not whole pairs";
    if (columns > MOST_COLUMNS)
        return "rows of the result are too long";
    if (shape_elements(x) / channels > TAPS_MOST_POSITIONS ||
        x->dims[0] * channels > TAPS_MOST_ROWS || shape_elements(w) > TAPS_MOST_ROWS ||
        shape_elements(y) / y->dims[l->out_feature] > TAPS_MOST_POSITIONS)
        return "there are too many positions, or too many channels of all images";
    return channels % TAPS_STEP != 0 || has_room(&p)
               ? NULL
               : "the rows of a window have no room in shared memory";
}

static const TapRules rules = {
    .labels = labels_illegal, .window = window_illegal, .sizes = sizes_illegal};

/* wgmma makes 64 features, mma.sync 16; in tensor memory they may be columns, in steps of 16. */
static bool features_fit(const Instruction *conv, const Target *t)
{
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    return conv->shape->dims[l->out_feature] % WARPGROUP_ROWS == 0 ||
           !target_has(t, FEATURE_WARPGROUP);
}

bool wide_convolution_fits(const Instruction *conv, const Target *t)
{
    return taps_fit(conv, &rules) && features_fit(conv, t);
}

bool wide_convolution_takes(const Instruction *conv, const Target *t)
{
    static const TapRules any_filter = {
        .labels = images_illegal, .window = window_illegal, .sizes = sizes_illegal};
    return t->tiles != TILES_NONE && target_has(t, FEATURE_CP_ASYNC) &&
           taps_fit(conv, &any_filter) && features_fit(conv, t);
}

bool wide_convolution_takes_rows(const Instruction *conv, const Target *t)
{
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    return wide_convolution_takes(conv, t) &&
           conv->operands[0]->shape->dims[l->lhs_feature] % TAPS_STEP != 0;
}

const char *illegal_wide_convolution(FusionFacts *f, KernelKind kind)
{
    return taps_illegal(f, kind, &rules);
}

bool suits_wide_convolution(FusionFacts *f, KernelKind kind)
{
    return taps_suit(f, kind, &rules) &&
           features_fit(fusion_hero(f->fusion, kernel_kind_info[kind].hero), f->target);
}

/* -- the plan ------------------------------------------------------------------------------------ */

void plan_wide_convolution(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    const Instruction *hero = fusion_hero(d->fusion, kernel_kind_info[d->kind].hero);
    WidePlan *p = ARENA_NEW(d->arena, WidePlan);
    *p = plan_of(hero);
    p->group_features = WARPGROUP_ROWS;
    if (!features_fit(hero, d->target))
        d->unsupported =
            refuse_text(d, "%s: %lld features are no multiple of the %d of wgmma",
                        d->fusion->name, (long long)p->features, WARPGROUP_ROWS);
    while (p->features % p->group_features != 0)
        p->group_features -= TENSOR_CORE_ROWS;
    if (p->channels % TAPS_STEP != 0)
        wide_rows_plan(p);
    if (target_has(d->target, FEATURE_TENSOR_MEMORY)) {
        wide_tensor_plan(p);
        if (p->pieces != 0)
            wide_terms_plan(p, target_block_shared(d->target));
    } else if (!target_has(d->target, FEATURE_WARPGROUP)) {
        p->core = taps_core(d, hero->operands[0]->shape->dtype);
    }
    p->takes_words = p->pieces != 0 && p->core != NULL;
    p->has_lines = p->core == NULL && !p->in_tensor_memory;
    d->plan.wide = p;
}

void wide_storage(const KernelDesign *d, WideStorage *out)
{
    const WidePlan *p = d->plan.wide;
    const KernelConfig *c = &d->config;
    WideStorage r = {.pitch = pitch_of(p),
                     .group_rows = c->tile[ROWS] / c->warps[ROWS],
                     .slack = WARPGROUP_PIECE - 1};
    if (p->in_tensor_memory)
        wide_tensor_storage(p, c, &r);
    else if (c->by_positions)
        wide_positions_storage(p, c, &r);
    else
        r.columns = columns_of(p, r.pitch, r.group_rows);
    r.sum_pitch = sum_pitch(p, r.pitch, r.group_rows);
    r.parts = p->core == NULL ? 1 : wide_parts(p, r.columns);
    if (p->pieces != 0)
        wide_rows_storage(p, c, &r);
    else
        tap_storage(p, c, &r);
    r.bytes = r.patch_bytes + (uint64_t)c->stages * r.stage_bytes + r.of_rows.bytes;
    uint64_t sums = sum_bytes(p, c, &r);
    r.bytes = r.bytes > sums ? r.bytes : sums;
    if (p->in_tensor_memory)
        r.bytes = wide_tensor_control(&r.tensor, r.bytes);
    *out = r;
}

/* -- heuristic ------------------------------------------------------------------------------------ */

/* Four warps for so many tiles of 64 features and runs of rows, each of so many. */
typedef struct Choice {
    const int64_t *groups; /* by side */
    int64_t rows, depth;
    double seconds; /* 0: not known */
} Choice;

/* What the text leaves open. */
static void complete(const WidePlan *p, const Choice *x, KernelConfig *c)
{
    if (config_lacks(c, KERNEL_KEY_WARPS)) {
        c->warps[FEATURES] = WARPGROUP_WARPS * x->groups[FEATURES];
        c->warps[ROWS] = x->groups[ROWS];
    }
    if (config_lacks(c, KERNEL_KEY_TILE)) {
        c->tile[FEATURES] = p->group_features * (c->warps[FEATURES] / WARPGROUP_WARPS);
        c->tile[ROWS] = c->warps[ROWS] * x->rows;
    }
    if (config_lacks(c, KERNEL_KEY_DEPTH))
        c->depth = x->depth;
    if (config_lacks(c, KERNEL_KEY_STAGES))
        c->stages = p->pieces != 0 ? 1 : STAGES;
}

/* Sets the choice's time by the model; false: there is no such kernel. */
static bool finds_seconds(const KernelDesign *open, Choice *x)
{
    KernelConfig c = open->config;
    complete(open->plan.wide, x, &c);
    return design_seconds(open, &c, &x->seconds);
}

/* The most rows of a run, or the most that divide the result's. */
static int64_t rows_of(const WidePlan *p, bool divides)
{
    int64_t rows = 1, pitch = pitch_of(p);
    for (int64_t n = 2; n <= p->result_size[Y]; n++) {
        if (columns_of(p, pitch, n) > MOST_COLUMNS)
            break;
        if (!divides || p->result_size[Y] % n == 0)
            rows = n;
    }
    return rows;
}

static int64_t most_depth(const WidePlan *p)
{
    int64_t depth = TAPS_STEP;
    if (p->pieces != 0)
        return wide_rows_depth(p);
    while (2 * depth <= MOST_DEPTH && p->channels % (2 * depth) == 0)
        depth *= 2;
    return depth;
}

/* Where shared memory has room for none of the shapes: the most rows, and then terms, of one tile that it has room for. */
static void choose_least(const KernelDesign *open, Choice *best)
{
    bool is_cut = open->plan.wide->pieces == 0;
    for (int64_t k = best->depth; k >= TAPS_STEP; k = is_cut ? k / 2 : 0) {
        for (int64_t rows = best->rows; rows > 0; rows--) {
            Choice x = {best->groups, rows, k, 0};
            if (finds_seconds(open, &x)) {
                best->rows = rows; /* whatever it takes, others may be better */
                best->depth = k;
                return;
            }
        }
    }
}

bool wide_turning_meets(const WidePlan *p, int64_t depth, int64_t deep)
{
    return !p->is_last && p->stride == 1 && depth < deep;
}

/* The fastest of the shapes, each of most rows or of the most that divide the result's, and of all terms or half of them. */
static void choose_rows(const KernelDesign *open, Choice *best)
{
    enum { SHAPES = 3, EACH = 4 };
    static const int64_t shapes[SHAPES][2] = {{1, 1}, {2, 1}, {1, 2}};
    const WidePlan *p = open->plan.wide;
    int64_t deep = best->depth;
    for (int i = 0; i < SHAPES * EACH; i++) {
        int64_t depth = deep >> i % EACH / 2;
        bool is_cut = p->pieces != 0 && depth < deep;
        Choice x = {shapes[i / EACH], rows_of(p, i % 2 == 0), depth, 0};
        bool meets = !p->has_lines && wide_turning_meets(p, depth, deep);
        if (depth >= TAPS_STEP && !is_cut && !meets && finds_seconds(open, &x) &&
            (best->seconds == 0 || x.seconds < best->seconds))
            *best = x;
    }
    if (best->seconds == 0)
        choose_least(open, best);
}

void configure_wide_convolution(const KernelDesign *d, KernelConfig *c)
{
    static const int64_t one[2] = {1, 1};
    const WidePlan *p = d->plan.wide;
    uint32_t needed = kernel_kind_info[d->kind].keys & ~KERNEL_OPTIONAL_KEYS;
    if ((c->set & needed) == needed) /* without by_positions, too, nothing is open */
        return;
    int64_t deep = most_depth(p);
    if (p->in_tensor_memory) {
        configure_wide_tensor(d, deep, c);
        return;
    }
    bool has_time = d->target != NULL && d->unsupported == NULL,
         tries_positions = has_time && (c->set == 0 || c->by_positions);
    KernelDesign open = *d;
    open.config = *c;
    Choice best = {one, rows_of(p, true), deep, 0};
    if (has_time && !c->by_positions)
        choose_rows(&open, &best);
    if (tries_positions)
        wide_positions_configure(&open, deep, best.seconds, c);
    complete(p, &best, c);
}

static const char *tile_refused(const KernelDesign *d)
{
    const WidePlan *p = d->plan.wide;
    const KernelConfig *c = &d->config;
    if (c->warps[FEATURES] % WARPGROUP_WARPS != 0 ||
        c->tile[FEATURES] != c->warps[FEATURES] / WARPGROUP_WARPS * p->group_features)
        return refuse_text(d, "\"tile\" %lld needs four warps for each %lld features",
                           (long long)c->tile[FEATURES], (long long)p->group_features);
    if (p->features % c->tile[FEATURES] != 0)
        return refuse_text(d, "\"tile\" %lld must divide the %lld features",
                           (long long)c->tile[FEATURES], (long long)p->features);
    if (c->tile[ROWS] % c->warps[ROWS] != 0)
        return refuse_text(d, "\"tile\" %lld must be as many rows for each of %lld warps",
                           (long long)c->tile[ROWS], (long long)c->warps[ROWS]);
    int64_t columns = columns_of(p, pitch_of(p), c->tile[ROWS] / c->warps[ROWS]);
    return columns <= MOST_COLUMNS
               ? NULL
               : refuse_text(d,
                             "\"tile\" leaves %lld positions to four warps; %d at most",
                             (long long)columns, MOST_COLUMNS);
}

/* wgmma names all sums of a thread at once: they cannot be spilled. */
static const char *threads_refused(const KernelDesign *d)
{
    enum { BESIDE = 32 /* registers: ptxas asks for 26 beside the sums */ };
    const KernelConfig *c = &d->config;
    int64_t threads = c->warps[FEATURES] * c->warps[ROWS] * TARGET_WARP;
    const char *wrong = warps_refused(d, threads);
    if (wrong != NULL)
        return wrong;
    WideStorage storage;
    wide_storage(d, &storage);
    int64_t sums = c->by_positions ? wide_positions_registers(c) : storage.columns / 2,
            registers = target_thread_registers(threads);
    if (d->plan.wide->core == NULL && !d->plan.wide->in_tensor_memory &&
        sums + BESIDE > registers)
        return refuse_text(
            d, "\"warps\" leave a thread %lld registers; %lld sums need %lld",
            (long long)registers, (long long)sums, (long long)(sums + BESIDE));
    return shared_refused(d, storage.bytes);
}

/* Of few channels nothing is left to choose. */
static const char *rows_refused(const KernelDesign *d)
{
    const KernelConfig *c = &d->config;
    int64_t depth = wide_rows_depth(d->plan.wide);
    if (c->depth != depth)
        return refuse_text(d, "\"depth\" must be the %lld terms of a step, found %lld",
                           (long long)depth, (long long)c->depth);
    return c->stages == 1
               ? threads_refused(d)
               : refuse_text(d, "\"stages\" must be 1, found %lld", (long long)c->stages);
}

/* Before anything that lays out shared memory by it. */
static const char *depth_refused(const KernelDesign *d)
{
    const WidePlan *p = d->plan.wide;
    const KernelConfig *c = &d->config;
    int64_t depth = c->depth, channels = p->channels,
            threads = c->warps[FEATURES] * c->warps[ROWS] * TARGET_WARP;
    if (depth % TAPS_STEP != 0 || channels % depth != 0)
        return refuse_text(d,
                           "\"depth\" %lld must be a multiple of %d and divide %lld "
                           "channels",
                           (long long)depth, TAPS_STEP, (long long)channels);
    /* a thread loads the same channels of columns that are a multiple of the stride apart */
    if (p->is_last && wide_by_registers(p, c) &&
        depth / WARPGROUP_PIECE * p->stride > threads)
        return refuse_text(
            d,
            "\"depth\" %lld leaves %lld threads no piece of a position; %lld "
            "at most",
            (long long)depth, (long long)threads,
            (long long)(threads / p->stride * WARPGROUP_PIECE));
    return NULL;
}

const char *refuse_wide_convolution(const KernelDesign *d)
{
    const WidePlan *p = d->plan.wide;
    const KernelConfig *c = &d->config;
    const char *wrong = p->pieces == 0 ? depth_refused(d) : NULL;
    if (wrong == NULL)
        wrong = c->by_positions       ? wide_positions_refused(d)
                : p->in_tensor_memory ? wide_tensor_refused(d)
                                      : tile_refused(d);
    if (wrong != NULL)
        return wrong;
    if (p->pieces != 0)
        return rows_refused(d);
    if (c->stages < 2)
        return refuse_text(d, "\"stages\" must be 2 or more, found %lld",
                           (long long)c->stages);
    return threads_refused(d);
}

int64_t wide_turned_vectors(const WidePlan *p, const KernelConfig *c)
{
    return wide_reached_rows(p, c) * (p->size[X] / WARPGROUP_PIECE) *
           (c->depth / WARPGROUP_PIECE);
}

/* As ptxas has them: 26 beside the sums, and pieces that are under way with their addresses, before there are sums or
 * beside them (142 of 116 sums and one step, 162 to 168 of 104 and several). */
int64_t wide_registers(const WidePlan *p, const KernelConfig *c, int64_t columns)
{
    enum { BESIDE = 26, WORDS = 4, ADDRESSES = 46, GRANULE = 8 };
    bool has_sums = c->depth < p->channels;
    int64_t sums = columns / 2,
            filling = (has_sums ? WIDE_BESIDE_SUMS * WORDS + BESIDE + sums
                                : WIDE_AT_ONCE * WORDS + ADDRESSES),
            most = sums + BESIDE > filling ? sums + BESIDE : filling;
    return round_up(most, GRANULE);
}

/* As many as shared memory has room for, if registers do, too: the assembler, which does not know the first, loads less at
 * once so that there could be more. */
static uint32_t resident_blocks(const KernelDesign *d, const WideStorage *s)
{
    const KernelConfig *c = &d->config;
    int64_t threads = c->warps[FEATURES] * c->warps[ROWS] * TARGET_WARP,
            shared = (int64_t)d->target->device->multiprocessor_shared /
                     (int64_t)(s->bytes + TARGET_RESERVED_SHARED),
            blocks = TARGET_REGISTERS /
                     (threads * wide_registers(d->plan.wide, c, s->columns));
    blocks = blocks < shared ? blocks : shared;
    return blocks < 1 ? 1 : (uint32_t)blocks;
}

void geometry_wide_convolution(KernelDesign *d)
{
    const WidePlan *p = d->plan.wide;
    const KernelConfig *c = &d->config;
    WideStorage storage;
    wide_storage(d, &storage);
    int64_t plane = p->result_size[Y] * p->result_size[X],
            tiles = c->by_positions
                        ? ceil_div(p->images * plane, c->tile[ROWS])
                        : p->images * ceil_div(p->result_size[Y], c->tile[ROWS]);
    geometry_blocks(d, tiles * (p->features / c->tile[FEATURES]),
                    c->warps[FEATURES] * c->warps[ROWS] * TARGET_WARP, 1);
    geometry_shared(&d->geometry, storage.bytes, WIDE_ALIGN);
    d->geometry.has_barriers = true;
    if (d->target != NULL && wide_by_registers(p, c))
        d->geometry.resident_blocks = resident_blocks(d, &storage);
}
