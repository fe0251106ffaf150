/* Convolutions by wgmma: see ir/kernel/kinds/wide_convolution.c.
 *
 *   for each so many channels: the patch is filled
 *     for each tap: wait for its filter; barrier; ask for a later one; multiply
 *   sums through shared memory to the results
 *
 * A patch is matrices of 8 rows of 16 bytes, as wgmma reads them: eight channels of 8 positions that follow each
 * other, so that a tap's positions may begin anywhere. Rows of a matrix have all banks; eight
 * channels and the next eight are so far apart that threads that fill several at once do not meet in a bank either
 * (wide_fill.c). What cp.async brings for wgmma lies in lines: filters, and patches that warps load. */
#include "codegen/kernel/wide.h"
#include "ir/base/divide.h"

enum { GROUP_LOG2 = 7 /* threads of four warps */ };

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
    else if (w->c->by_positions)
        wide_positions_multiply(w, b->offset, a, steps, sums);
    else if (w->p->core == NULL)
        gx_wgmma(w->k, w->p->inst->operands[0]->shape->dtype,
                 (uint32_t)w->storage.columns, steps, a, b, sums);
    else
        wide_mma(w, a, b, steps, sums);
}

bool wide_goes_on(const Wide *w, uint32_t count)
{
    enum { MOST = 128 /* sums of a wait */ };
    return w->p->has_lines && !w->c->by_positions && count <= MOST;
}

void wide_multiply_on(Wide *w, const GxMatrices *a, const GxMatrices *b, uint32_t steps,
                      uint32_t index, uint32_t count, LLVMValueRef *sums)
{
    if (!wide_goes_on(w, count)) {
        wide_multiply(w, a, b, steps, sums);
        return;
    }
    gx_wgmma_begin(w->k, w->p->inst->operands[0]->shape->dtype,
                   (uint32_t)w->storage.columns, steps, a, b, index, sums);
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
    LLVMValueRef position = add(w->k, times(w->k, plane, w->storage.plane),
                                add(w->k, times(w->k, row, w->storage.pitch), x));
    GxMatrices a = wide_filter(w, stage, p->is_transposed),
               b = {.lead = (uint32_t)(w->storage.chunk * PIECE_BYTES),
                    .stride = WARPGROUP_PIECE * PIECE_BYTES};
    /* of lines: where the first position's would begin if they were not swizzled */
    b.offset = w->storage.patch_line != 0
                   ? add(w->k, number(w->k, w->shared),
                         times(w->k, position, w->storage.patch_line))
                   : patch_offset(w, position, number(w->k, 0));
    uint32_t steps = (uint32_t)(w->c->depth / TAPS_STEP);
    if (wide_overlaps(p, w->c))
        wide_multiply_on(w, &a, &b, steps, 0, w->sum_count, sums);
    else
        wide_multiply(w, &a, &b, steps, sums);
}

static void wait_taps(const void *of, uint32_t left, LLVMValueRef *sums)
{
    const Wide *w = of;
    gx_wgmma_wait(w->k, left, w->sum_count, sums);
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
    wide_fill(of, step);
}

/* The position of a column in the patch. */
static LLVMValueRef column_offset(const Wide *w, LLVMValueRef octet, LLVMValueRef in)
{
    LLVMValueRef row, x, column = add(w->k, times(w->k, octet, WARPGROUP_PIECE), in);
    wide_mma_position(w, column, &row, &x);
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
    if (wide_overlaps(w->p, w->c))
        loops.wait = wait_taps;
    if (w->p->in_tensor_memory) {
        loops.issue = issue_tap;
        loops.finish = finish_tap;
    }
    wide_fill_begin(w);
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
                   : w->c->by_positions   ? wide_positions_sums(w)
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

static void find_positions(Wide *w)
{
    const WidePlan *p = w->p;
    LLVMValueRef block = gx_ctaid(w->k, 0);
    w->feature_tile = split(w->k, &block, p->features / w->c->tile[FEATURES]);
    if (w->c->by_positions) {
        wide_positions_find(w, block);
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
    find_positions(&w);
    wide_results(&w, p->pieces != 0 ? wide_rows_run(&w) : run_loops(&w));
    return emitter_finish(in, w.e);
}
