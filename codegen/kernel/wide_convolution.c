/* Convolutions by wgmma: see ir/kernel/kinds/wide_convolution.c.
 *
 *   for each so many channels: the patch is filled
 *     for each tap: wait for its filter; barrier; ask for a later one; multiply
 *   sums through shared memory to the results
 *
 * A patch is matrices of 8 rows of 16 bytes, as wgmma reads them: eight channels of 8 places that follow each
 * other, so that a tap's places may begin anywhere. Rows of a matrix have all banks; eight
 * channels and the next eight are so far apart that threads that fill several at once do not meet in a bank either. What
 * cp.async brings for wgmma lies in lines where it can: filters, and patches that warps load. */
#include "codegen/kernel/wide.h"
#include "ir/base/divide.h"

enum { GROUP_LOG2 = 7 /* threads of four warps */ };

/* -- the patch --------------------------------------------------------------------------------- */

/* The image's row or column of row or column `at` of the plane with remainder `rest`. */
static LLVMValueRef image_place(const Wide *w, LLVMValueRef at, LLVMValueRef rest,
                                int side)
{
    LLVMValueRef x = add(w->k, times(w->k, at, w->p->stride), rest);
    return LLVMBuildSub(w->b, x, number(w->k, w->p->before[side]), "");
}

/* The image's row that row `at` of the patch's plane with remainder `rest` is; false: there is no such image. By places the
 * planes of all images lie one below the other. */
static LLVMValueRef image_row(const Wide *w, LLVMValueRef at, LLVMValueRef rest,
                              LLVMValueRef *image, LLVMValueRef *inside)
{
    LLVMValueRef row = add(w->k, w->row, at);
    *image = w->image;
    if (w->c->by_places) {
        *image = row;
        row = split(w->k, image, w->storage.image_rows);
    }
    LLVMValueRef y = image_place(w, row, rest, Y);
    *inside = is_below(w->k, y, w->p->size[Y]);
    if (w->c->by_places)
        *inside = LLVMBuildAnd(w->b, *inside, is_below(w->k, *image, w->p->images), "");
    return y;
}

/* Places of a plane that are left out before a row of this image. */
static LLVMValueRef image_begin(const Wide *w, LLVMValueRef image)
{
    int64_t apart = w->c->by_places ? w->storage.image_apart : 0;
    return apart == 0 ? number(w->k, 0) : wide_places_apart(w, image);
}

/* Each thread takes one of so many pieces of each row of the patch after the other. */
static LLVMValueRef each_of_rows(const Wide *w, GxLoop *loop, int64_t rows, int64_t each)
{
    if (!w->c->by_places)
        return each_begin(w, loop, rows * each);
    gx_loop_begin(w->k, loop, w->thread, times(w->k, w->row_count, each),
                  number(w->k, w->k->block[0]), NULL, 0);
    return loop->index;
}

/* A place of the patch: where it stands, which it is. */
typedef struct PatchPlace {
    LLVMValueRef at, row, column, rest_y, rest_x;
} PatchPlace;

/* By places what no window reaches is left out: rows, and columns between rows. */
static PatchPlace patch_place(const Wide *w, LLVMValueRef item)
{
    int64_t s = w->p->stride;
    PatchPlace x = {.at = item};
    LLVMValueRef plane = item;
    if (w->c->by_places) {
        x.column = split(w->k, &plane, w->storage.width);
        x.row = plane;
        plane = split(w->k, &x.row, s * s);
        x.at = add(w->k, times(w->k, plane, w->storage.plane),
                   add(w->k, times(w->k, x.row, w->storage.pitch), x.column));
    } else {
        x.row = split(w->k, &plane, w->storage.plane);
        x.column = split(w->k, &x.row, w->storage.pitch);
    }
    x.rest_y = plane;
    x.rest_x = split(w->k, &x.rest_y, s);
    return x;
}

/* Features are last: a place's channels lie as the patch has them. */
static void ask_patch(const Wide *w, LLVMValueRef channel)
{
    const WidePlan *p = w->p;
    GxLoop loop;
    int64_t s = p->stride, pieces = w->c->depth / WARPGROUP_PIECE,
            of_row =
                w->c->by_places ? s * s * w->storage.width : s * s * w->storage.plane;
    LLVMValueRef item = each_of_rows(w, &loop, 1, of_row * pieces),
                 piece = split(w->k, &item, pieces), image, inside;
    PatchPlace place = patch_place(w, item);
    LLVMValueRef y = image_row(w, place.row, place.rest_y, &image, &inside),
                 at = add(w->k, place.at, image_begin(w, image)),
                 x = image_place(w, place.column, place.rest_x, X);
    inside = LLVMBuildAnd(w->b, inside, is_below(w->k, x, p->size[X]), "");
    LLVMValueRef from = wide_sum(w, widened(w, image), p->size[Y], y);
    from = wide_sum(w, from, p->size[X], x);
    from = wide_sum(w, from, p->channels,
                    add(w->k, channel, times(w->k, piece, WARPGROUP_PIECE)));
    from = LLVMBuildSelect(w->b, inside, byte_of(w, from), gx_i64(w->k, 0), "");
    uint32_t arg = wide_argument(w, 0);
    gx_copy_async(
        w->k, arg, from, patch_offset(w, at, piece), PIECE_BYTES,
        LLVMBuildSelect(w->b, inside, number(w->k, PIECE_BYTES), number(w->k, 0), ""));
    gx_loop_end(w->k, &loop, NULL);
}

/* Eight places from column 8 `vector` of the image on; its row begins at place `begin` of the patch. */
static void store_turned(const Wide *w, const LLVMValueRef *channels, LLVMValueRef begin,
                         LLVMValueRef vector, LLVMValueRef piece)
{
    const WidePlan *p = w->p;
    int64_t s = p->stride;
    begin = add(w->k, begin, times(w->k, vector, WARPGROUP_PIECE / s));
    for (uint32_t i = 0; i < WARPGROUP_PIECE; i++) {
        int64_t x = i + p->before[X], along = x % s * w->storage.plane + x / s;
        LLVMValueRef value = turned_piece(w->k, channels, i);
        LLVMValueRef place = add(w->k, begin, number(w->k, along)),
                     column = add(w->k, times(w->k, vector, WARPGROUP_PIECE / s),
                                  number(w->k, x / s));
        GxIf there; /* in no window */
        gx_if_begin(w->k, &there, is_below(w->k, column, w->storage.pitch));
        gx_store(w->k, GX_SHARED, patch_offset(w, place, piece), value, PIECE_BYTES);
        gx_if_end(w->k, &there, NULL, 0, NULL);
    }
}

/* Features are first: vectors of eight places of eight channels are turned on the way. Threads that follow each other store
 * all channels of the same place in each plane (plane_places in ir/kernel/kinds/wide_convolution.c); where those fill the
 * banks, of neighbouring vectors, which lie together in the image. */
static void turn_patch(const Wide *w, LLVMValueRef channel)
{
    const WidePlan *p = w->p;
    GxLoop loop;
    int64_t pieces = w->c->depth / WARPGROUP_PIECE,
            vectors = p->size[X] / WARPGROUP_PIECE, s = p->stride;
    bool is_full = pieces >= WARPGROUP_PIECE;
    LLVMValueRef at = each_of_rows(w, &loop, w->storage.rows, s * vectors * pieces),
                 piece = split(w->k, &at, pieces),
                 inner = split(w->k, &at, is_full ? vectors : s),
                 outer = split(w->k, &at, is_full ? s : vectors),
                 vector = is_full ? inner : outer, rest = is_full ? outer : inner, image,
                 is_there, channels[WARPGROUP_PIECE];
    LLVMValueRef y = image_row(w, at, rest, &image, &is_there);
    GxIf inside;
    gx_if_begin(w->k, &inside, is_there);
    LLVMValueRef first = add(w->k, channel, times(w->k, piece, WARPGROUP_PIECE)),
                 from = wide_sum(w, widened(w, image), p->channels, first);
    from = wide_sum(w, from, p->size[Y], y);
    from =
        byte_of(w, wide_sum(w, from, p->size[X], times(w->k, vector, WARPGROUP_PIECE)));
    uint32_t arg = wide_argument(w, 0);
    for (uint32_t i = 0; i < WARPGROUP_PIECE; i++) {
        uint64_t apart = i * (uint64_t)(p->size[Y] * p->size[X]) * 2;
        channels[i] =
            gx_load(w->k, arg, LLVMBuildAdd(w->b, from, gx_i64(w->k, apart), ""),
                    piece_type(w->k), PIECE_BYTES);
    }
    LLVMValueRef begin =
        add(w->k, times(w->k, rest, s * w->storage.plane),
            add(w->k, times(w->k, at, w->storage.pitch), image_begin(w, image)));
    store_turned(w, channels, begin, vector, piece);
    gx_if_end(w->k, &inside, NULL, 0, NULL);
    gx_loop_end(w->k, &loop, NULL);
}

/* What turn_patch does not write are zeros from the beginning on. */
static void make_zeros(const Wide *w)
{
    GxLoop loop;
    LLVMValueRef at = each_begin(w, &loop, (int64_t)w->storage.patch_bytes / PIECE_BYTES);
    gx_store(w->k, GX_SHARED,
             add(w->k, times(w->k, at, PIECE_BYTES), number(w->k, w->shared)),
             LLVMConstNull(piece_type(w->k)), PIECE_BYTES);
    gx_loop_end(w->k, &loop, NULL);
}

/* -- filters ----------------------------------------------------------------------------------- */

GxMatrices wide_filter(const Wide *w, LLVMValueRef offset, bool is_transposed)
{
    const WideStorage *s = &w->storage;
    GxMatrices x = {.lead = s->filter_lead,
                    .stride = s->filter_stride,
                    .line = s->filter_line,
                    .is_transposed = is_transposed};
    int64_t features = w->p->group_features, octets = features / WARPGROUP_PIECE,
            bytes = features * PIECE_BYTES;
    if (s->filter_line != 0 && is_transposed)
        bytes = features * 2 / s->filter_line * s->filter_lead;
    else if (s->filter_line != 0 || is_transposed)
        bytes = octets * s->filter_stride;
    x.offset = add(w->k, offset, times(w->k, w->group[FEATURES], bytes));
    return x;
}

LLVMValueRef wide_filter_offset(const Wide *w, LLVMValueRef base, LLVMValueRef row,
                                LLVMValueRef piece)
{
    const WideStorage *s = &w->storage;
    if (s->filter_line != 0)
        return line_offset(w, s->filter_line, base, row, piece, s->filter_lead);
    uint32_t apart =
        s->filter_stride > s->filter_lead ? s->filter_stride : s->filter_lead;
    return add(w->k, base,
               add(w->k, times(w->k, piece, apart), times(w->k, row, PIECE_BYTES)));
}

/* Asks for the filter of step `step`, a tap of some channels, into the stage at `stage`: eight channels of a feature, or
 * eight features of a channel, at a time. */
static void ask_filter(const void *of, LLVMValueRef step, LLVMValueRef stage)
{
    const Wide *w = of;
    const WidePlan *p = w->p;
    GxLoop loop;
    bool turned = p->is_transposed;
    int64_t across = (turned ? w->c->tile[FEATURES] : w->c->depth) / WARPGROUP_PIECE,
            down = turned ? w->c->depth : w->c->tile[FEATURES];
    LLVMValueRef part = step, tap = split(w->k, &part, w->taps);
    if (p->is_reversed)
        tap = LLVMBuildSub(w->b, number(w->k, (int64_t)w->taps - 1), tap, "");
    LLVMValueRef channel = times(w->k, part, w->c->depth),
                 feature = times(w->k, w->feature_tile, w->c->tile[FEATURES]);
    LLVMValueRef row = each_begin(w, &loop, across * down),
                 piece = split(w->k, &row, across);
    LLVMValueRef along = times(w->k, piece, WARPGROUP_PIECE);
    feature = add(w->k, feature, turned ? along : row);
    channel = add(w->k, channel, turned ? row : along);
    LLVMValueRef from = add(w->k, times(w->k, tap, p->tap_step),
                            add(w->k, times(w->k, channel, p->channel_step),
                                times(w->k, feature, p->feature_step)));
    from = byte_of(w, widened(w, from));
    uint32_t arg = wide_argument(w, 1);
    gx_copy_async(w->k, arg, from, wide_filter_offset(w, stage, row, piece), PIECE_BYTES,
                  NULL);
    gx_loop_end(w->k, &loop, NULL);
}

/* -- the loops --------------------------------------------------------------------------------- */

void wide_multiply(Wide *w, const GxMatrices *a, const GxMatrices *b, uint32_t steps,
                   LLVMValueRef *sums)
{
    if (w->p->in_tensor_memory)
        wide_tensor_multiply(w, a, b, steps);
    else if (w->c->by_places)
        wide_places_multiply(w, b->offset, a, steps, sums);
    else if (w->p->core == NULL)
        gx_wgmma(w->k, w->p->inst->operands[0]->shape->dtype,
                 (uint32_t)w->storage.columns, steps, a, b, sums);
    else
        wide_mma(w, a, b, steps, sums);
}

bool wide_goes_on(const Wide *w, uint32_t count)
{
    enum { MOST = 128 /* sums of a wait */ };
    return w->p->has_lines && !w->c->by_places && count <= MOST;
}

void wide_multiply_on(Wide *w, const GxMatrices *a, const GxMatrices *b, uint32_t steps,
                      uint32_t place, uint32_t count, LLVMValueRef *sums)
{
    if (!wide_goes_on(w, count)) {
        wide_multiply(w, a, b, steps, sums);
        return;
    }
    gx_wgmma_begin(w->k, w->p->inst->operands[0]->shape->dtype,
                   (uint32_t)w->storage.columns, steps, a, b, place, sums);
}

static void multiply_tap(const void *of, LLVMValueRef tap, LLVMValueRef stage,
                         LLVMValueRef *sums)
{
    Wide tapped = *(const Wide *)of, *w = &tapped;
    const WidePlan *p = w->p;
    int64_t s = p->stride;
    LLVMValueRef y = tap, x = split(w->k, &y, p->window[X]), rest_y = split(w->k, &y, s),
                 rest_x = split(w->k, &x, s);
    LLVMValueRef plane = add(w->k, times(w->k, rest_y, s), rest_x),
                 row = add(w->k, y, times(w->k, w->group[ROWS], w->storage.group_rows));
    LLVMValueRef place = add(w->k, times(w->k, plane, w->storage.plane),
                             add(w->k, times(w->k, row, w->storage.pitch), x));
    GxMatrices a = wide_filter(w, stage, p->is_transposed),
               b = {.lead = (uint32_t)(w->storage.chunk * PIECE_BYTES),
                    .stride = WARPGROUP_PIECE * PIECE_BYTES};
    /* of lines: where the first place's would begin if they were not swizzled */
    b.offset = w->storage.patch_line != 0 ? add(w->k, number(w->k, w->shared),
                                                times(w->k, place, w->storage.patch_line))
                                          : patch_offset(w, place, number(w->k, 0));
    wide_multiply(w, &a, &b, (uint32_t)(w->c->depth / TAPS_STEP), sums);
}

static void issue_tap(const void *of, LLVMValueRef tap, LLVMValueRef number,
                      LLVMValueRef stage)
{
    Wide w = *(const Wide *)of;
    GxIf one;
    LLVMValueRef none = LLVMConstNull(LLVMTypeOf(number)),
                 is_later = LLVMBuildICmp(w.b, LLVMIntNE, number, none, "");
    w.adds = LLVMBuildZExt(w.b, is_later, LLVMTypeOf(number), "");
    wide_tensor_issue_begin(&w, &one);
    multiply_tap(&w, tap, stage, NULL);
    wide_tensor_issue_end(&w, &one, number);
}

static void finish_tap(const void *of, LLVMValueRef number)
{
    wide_tensor_finish(of, number);
}

static void fill_patch(const void *of, LLVMValueRef step)
{
    const Wide *w = of;
    LLVMValueRef channel = times(w->k, step, w->c->depth);
    if (w->steps > 1 || !w->p->is_last)
        gx_barrier(w->k);
    if (w->p->is_last) {
        ask_patch(w, channel);
        gx_copy_commit(w->k);
        gx_copy_wait(w->k, 0);
    } else {
        turn_patch(w, channel);
    }
}

/* The place of a column in the patch. */
static LLVMValueRef column_offset(const Wide *w, LLVMValueRef octet, LLVMValueRef in)
{
    LLVMValueRef row, x, column = add(w->k, times(w->k, octet, WARPGROUP_PIECE), in);
    wide_mma_place(w, column, &row, &x);
    return times(w->k, add(w->k, times(w->k, row, w->storage.pitch), x), PIECE_BYTES);
}

static LLVMValueRef *run_loops(Wide *w)
{
    TapLoops loops = {.k = w->k,
                      .of = w,
                      .filters = w->shared + (uint32_t)w->storage.patch_bytes,
                      .stage_bytes = (uint32_t)w->storage.stage_bytes,
                      .stages = (uint32_t)w->c->stages,
                      .taps = w->taps,
                      .steps = w->steps,
                      .sum_count = w->sum_count,
                      .is_asynchronous = w->p->core == NULL,
                      .fill = fill_patch,
                      .ask = ask_filter,
                      .multiply = multiply_tap};
    if (w->p->in_tensor_memory) {
        loops.issue = issue_tap;
        loops.finish = finish_tap;
    }
    if (!w->p->is_last)
        make_zeros(w);
    if (w->p->core != NULL)
        wide_mma_rows(w, column_offset, (uint32_t)(w->storage.chunk * PIECE_BYTES));
    return tap_loops_emit(&loops);
}

/* -- the kernel -------------------------------------------------------------------------------- */

uint32_t wide_argument(const Wide *w, uint32_t operand)
{
    const Instruction *x = w->p->inst->operands[operand];
    while (x->op != OP_PARAMETER)
        x = x->operands[0];
    return w->e->parameter_args[x->parameter];
}

/* Which sums of the columns of four warps the thread has. */
static void find_sums(Wide *w)
{
    int64_t parts = w->storage.parts;
    LLVMValueRef rows = w->warp, part = split(w->k, &rows, parts);
    w->blocks = (uint32_t)(w->p->group_features * parts / (WARP_ROWS * WARPGROUP_WARPS));
    w->octets = (uint32_t)ceil_div(w->storage.columns / WARPGROUP_PIECE, parts);
    w->sum_count = w->p->in_tensor_memory ? 0
                   : w->c->by_places      ? wide_places_sums(w)
                                          : w->blocks * w->octets * SUMS;
    w->first_feature = times(w->k, rows, w->blocks * WARP_ROWS);
    w->first_octet = times(w->k, part, w->octets);
}

void wide_begin(Wide *w, uint64_t bytes)
{
    w->k = w->e->k;
    w->b = w->k->builder;
    w->k->at = w->p->inst->name;
    w->k->is_wide = true;
    w->shared = gx_shared_alloc(w->k, bytes, WIDE_ALIGN);
    w->thread = gx_tid(w->k, 0);
    w->lane = gx_lane(w->k);
    LLVMValueRef group = LLVMBuildLShr(w->b, w->thread, number(w->k, GROUP_LOG2), "");
    w->group[ROWS] = split(w->k, &group, w->c->warps[ROWS]);
    w->group[FEATURES] = group;
    w->warp = LLVMBuildAnd(w->b, LLVMBuildLShr(w->b, w->thread, number(w->k, 5), ""),
                           number(w->k, 3), "");
    if (w->p->in_tensor_memory)
        wide_tensor_begin(w);
    find_sums(w);
}

static void find_places(Wide *w)
{
    const WidePlan *p = w->p;
    LLVMValueRef block = gx_ctaid(w->k, 0);
    w->feature_tile = split(w->k, &block, p->features / w->c->tile[FEATURES]);
    if (w->c->by_places) {
        wide_places_find(w, block);
        return;
    }
    w->row =
        times(w->k, split(w->k, &block, ceil_div(p->result_size[Y], w->c->tile[ROWS])),
              w->c->tile[ROWS]);
    w->image = block;
}

Kernel *emitter_wide_convolution(const EmitterInput *in)
{
    const WidePlan *p = in->design->plan.wide;
    const KernelConfig *c = &in->design->config;
    Wide w = {.in = in,
              .p = p,
              .c = c,
              .e = emitter_begin(in),
              .taps = (uint32_t)(p->window[Y] * p->window[X]),
              .steps = (uint32_t)(p->channels / c->depth)};
    wide_storage(in->design, &w.storage);
    wide_begin(&w, w.storage.bytes);
    find_places(&w);
    wide_results(&w, p->pieces != 0 ? wide_rows_run(&w) : run_loops(&w));
    return emitter_finish(in, w.e);
}
