/* Gradients by the filter: see ir/kernel/kinds/tap_gradient.c.
 *
 *   rows of the image and of y for the first steps are asked for
 *   for each step, a row of eight or sixteen strips:
 *     what it reads is waited for; barrier; its products begin
 *     those of the step before are waited for; a later step's rows are asked for
 *   sums to the results
 *
 * The products of a step go on behind the barrier of the next one: what they read is written again behind the one after
 * that. All addresses of a step follow from its number. */
#include "codegen/kernel/threads.h"
#include "codegen/kernel/wide.h"

enum { STRIP = 0, COLUMNS = 1, LINES = 8 /* of an octet, and pieces of a line */ };

typedef struct TapGradient {
    Wide wide;
    const GradientPlan *p;
    TapGradientStorage storage;
    LLVMValueRef channel_tile, group;
    LLVMValueRef piece, line, first; /* of the thread: what it copies of octets */
    uint32_t at_once;                /* octets that the block's threads copy */
    uint32_t y;                      /* bytes of shared memory: where rows of y begin */
} TapGradient;

/* Where a step is: the row of its strips, tile and octets of the run; its window's first row in the ring, its row of y. */
typedef struct Step {
    LLVMValueRef row, tile, octet, ring, buffer;
} Step;

static Step find_step(const TapGradient *g, LLVMValueRef step)
{
    Kernel *k = g->wide.k;
    const TapGradientStorage *s = &g->storage;
    Step x;
    LLVMValueRef buffers = step, run = step;
    x.buffer = split(k, &buffers, s->buffers);
    x.row = split(k, &run, g->wide.c->tile[STRIP]);
    LLVMValueRef rows =
        add(k, times(k, run, s->strip_rows), times(k, x.row, g->p->of.stride));
    x.ring = split(k, &rows, s->ring);
    x.tile = split(k, &run, s->across);
    x.octet = times(k, run, s->octets);
    return x;
}

/* A row of the ring, `behind` rows behind the step's first. */
static LLVMValueRef ring_row(const TapGradient *g, const Step *x, LLVMValueRef behind)
{
    LLVMValueRef row = add(g->wide.k, x->ring, behind);
    return split(g->wide.k, &row, g->storage.ring);
}

/* Bytes from an octet's first one to the thread's piece of its line, swizzled. */
static LLVMValueRef piece_at(const TapGradient *g)
{
    Kernel *k = g->wide.k;
    LLVMValueRef piece = LLVMBuildXor(k->builder, g->piece, g->line, "");
    return add(k, times(k, g->line, GRADIENT_LINE), times(k, piece, PIECE_BYTES));
}

/* The strip that the thread copies of octet `octet` of the step: its image, *row: its first row of y. */
static LLVMValueRef strip_of(const TapGradient *g, const Step *x, uint32_t octet,
                             LLVMValueRef *row)
{
    Kernel *k = g->wide.k;
    LLVMValueRef strip = add(k, x->octet, number(k, octet));
    strip = add(k, times(k, strip, LINES), g->line);
    LLVMValueRef image = strip, in = split(k, &image, g->storage.strips);
    *row = add(k, times(k, in, g->wide.c->tile[STRIP]), x->row);
    return image;
}

/* Rows of the image that the step is the first to read: a window of them where a strip begins, else a stride. */
static void ask_image(const TapGradient *g, const Step *x, uint32_t octet)
{
    const Wide *w = &g->wide;
    Kernel *k = w->k;
    const WidePlan *p = w->p;
    const TapGradientStorage *s = &g->storage;
    GxLoop loop;
    LLVMValueRef strip_row,
        image = strip_of(g, x, octet, &strip_row), none = number(k, 0),
        is_begin = LLVMBuildICmp(w->b, LLVMIntEQ, x->row, none, ""),
        known = number(k, g->p->window_rows - p->stride),
        first = LLVMBuildSelect(w->b, is_begin, none, known, ""),
        count = LLVMBuildSelect(w->b, is_begin, number(k, g->p->window_rows * s->width),
                                number(k, p->stride * s->width), "");
    image = add(k, image, times(k, g->group, g->p->images));
    LLVMValueRef from_image = wide_sum(w, widened(w, image), p->size[Y], none),
                 y = add(k, times(k, strip_row, p->stride), first),
                 left = add(k, times(k, x->tile, w->c->tile[COLUMNS] * p->stride),
                            number(k, -p->before[X])),
                 channel = add(k, times(k, g->channel_tile, GRADIENT_CHANNELS),
                               times(k, g->piece, WARPGROUP_PIECE));
    y = add(k, y, number(k, -p->before[Y]));
    gx_loop_begin(k, &loop, g->first, count, number(k, g->at_once), NULL, 0);
    LLVMValueRef row = loop.index, column = split(k, &row, s->width),
                 at_y = add(k, y, row), at_x = add(k, left, column),
                 inside = LLVMBuildAnd(w->b, is_below(k, at_y, p->size[Y]),
                                       is_below(k, at_x, p->size[X]), "");
    LLVMValueRef from = LLVMBuildAdd(w->b, from_image, widened(w, at_y), "");
    from = wide_sum(w, wide_sum(w, from, p->size[X], at_x), p->channels, channel);
    from = LLVMBuildSelect(w->b, inside, byte_of(w, from), gx_i64(k, 0), "");
    LLVMValueRef to = times(k, ring_row(g, x, add(k, first, row)), s->row_bytes);
    to = add(k, to, times(k, column, s->octets * GRADIENT_OCTET));
    to = add(k, to, number(k, w->shared + octet * GRADIENT_OCTET));
    gx_copy_async(
        k, wide_argument(w, 0), from, add(k, to, piece_at(g)), PIECE_BYTES,
        LLVMBuildSelect(w->b, inside, number(k, PIECE_BYTES), number(k, 0), ""));
    gx_loop_end(k, &loop, NULL);
}

static void ask_y(const TapGradient *g, const Step *x, uint32_t octet)
{
    const Wide *w = &g->wide;
    Kernel *k = w->k;
    const GradientPlan *p = g->p;
    const TapGradientStorage *s = &g->storage;
    GxLoop loop;
    LLVMValueRef row, image = strip_of(g, x, octet, &row),
                      feature = add(k, times(k, w->feature_tile, WARPGROUP_ROWS),
                                    times(k, g->piece, WARPGROUP_PIECE));
    LLVMValueRef from = wide_sum(w, widened(w, g->group), p->group_step, feature),
                 images = LLVMBuildMul(w->b, widened(w, image),
                                       gx_i64(k, (uint64_t)p->image_step), ""),
                 first = add(k, times(k, row, p->of.result_size[X]),
                             times(k, x->tile, w->c->tile[COLUMNS]));
    from = LLVMBuildAdd(w->b, from, images, "");
    LLVMValueRef to =
        add(k, times(k, x->buffer, s->y_bytes), number(k, g->y + octet * GRADIENT_OCTET));
    to = add(k, to, piece_at(g));
    gx_loop_begin(k, &loop, g->first, number(k, w->c->tile[COLUMNS]),
                  number(k, g->at_once), NULL, 0);
    LLVMValueRef position = widened(w, add(k, first, loop.index)),
                 at =
                     LLVMBuildAdd(w->b, from,
                                  LLVMBuildMul(w->b, position,
                                               gx_i64(k, (uint64_t)p->position_step), ""),
                                  "");
    gx_copy_async(k, wide_argument(w, 1), byte_of(w, at),
                  add(k, to, times(k, loop.index, s->octets * GRADIENT_OCTET)),
                  PIECE_BYTES, NULL);
    gx_loop_end(k, &loop, NULL);
}

/* All that step `step` is the first to read, if there is such a step; a group of copies in any case. */
static void ask(const TapGradient *g, LLVMValueRef step)
{
    Kernel *k = g->wide.k;
    GxIf there;
    gx_if_begin(k, &there, is_below(k, step, g->storage.steps));
    Step x = find_step(g, step);
    for (uint32_t i = 0; i < g->storage.octets; i++) {
        ask_image(g, &x, i);
        ask_y(g, &x, i);
    }
    gx_if_end(k, &there, NULL, 0, NULL);
    gx_copy_commit(k);
}

/* Taps side by side are columns of the product, one octet of positions behind the other. */
static void multiply(const TapGradient *g, const Step *x, LLVMValueRef *sums)
{
    const Wide *w = &g->wide;
    Kernel *k = w->k;
    const TapGradientStorage *s = &g->storage;
    int64_t lead = s->octets * GRADIENT_OCTET, columns = w->c->tile[COLUMNS] / s->parts,
            count = s->sum_columns / 2;
    uint32_t steps = (uint32_t)(columns * s->octets / 2);
    GxMatrices a = {.lead = (uint32_t)s->y_bytes,
                    .stride = GRADIENT_OCTET,
                    .line = GRADIENT_LINE,
                    .is_transposed = true},
               b = {.lead = (uint32_t)lead,
                    .stride = (uint32_t)(s->octets == 2 ? GRADIENT_OCTET
                                                        : w->p->stride * GRADIENT_OCTET),
                    .line = GRADIENT_LINE,
                    .is_transposed = true};
    for (int64_t i = 0; i < s->calls; i++) {
        LLVMValueRef window_row =
            add(k, times(k, w->group[ROWS], s->calls), number(k, i));
        LLVMValueRef row = add(k, times(k, ring_row(g, x, window_row), s->row_bytes),
                               number(k, w->shared)),
                     y = add(k, times(k, x->buffer, s->y_bytes), number(k, g->y));
        for (int64_t j = 0; j < s->parts; j++) {
            a.offset = add(k, y, number(k, j * columns * lead));
            b.offset = add(k, row, number(k, j * columns * lead * w->p->stride));
            gx_wgmma_begin(k, w->p->inst->operands[0]->shape->dtype,
                           (uint32_t)s->sum_columns, steps, &a, &b, (uint32_t)(i * count),
                           &sums[i * count]);
        }
    }
}

static LLVMValueRef *run_loop(const TapGradient *g, uint32_t count)
{
    Kernel *k = g->wide.k;
    const TapGradientStorage *s = &g->storage;
    uint32_t ahead = (uint32_t)g->wide.c->stages;
    GxLoop loop;
    LLVMValueRef *sums = ARENA_ARRAY(k->arena, LLVMValueRef, count);
    for (uint32_t i = 0; i < count; i++)
        sums[i] = LLVMConstNull(emit_type(k, DT_F32));
    for (uint32_t i = 0; i < ahead; i++)
        ask(g, number(k, i));
    gx_loop_begin(k, &loop, number(k, 0), number(k, s->steps), number(k, 1), sums, count);
    LLVMValueRef *next = arena_copy(k->arena, sums, count * sizeof *sums);
    Step x = find_step(g, loop.index);
    gx_copy_wait(k, ahead - 1);
    gx_proxy_fence(k);
    gx_barrier(k);
    multiply(g, &x, next);
    gx_wgmma_wait(k, (uint32_t)(s->calls * s->parts), count, next);
    ask(g, add(k, loop.index, number(k, ahead)));
    gx_loop_end(k, &loop, next);
    gx_copy_wait(k, 0);
    gx_wgmma_wait(k, 0, count, sums);
    return sums;
}

/* ptxas makes every product wait for the one before (C7514) where a conversion to 16 bits reads the sums of products that
 * went on, behind all waits, too. It does not where what an addition gives is converted; sums begin with 0 and are never
 * -0, so that 0 changes none. */
static LLVMValueRef settled(const Wide *w, LLVMValueRef sum)
{
    if (w->p->inst->shape->dtype == DT_F32)
        return sum;
    return gx_float_op(w->k, LLVMFAdd, sum, LLVMConstReal(LLVMTypeOf(sum), 0));
}

/* A thread has of two features two channels each of eight that follow each other. */
static void write_results(const TapGradient *g, const LLVMValueRef *sums)
{
    const Wide *w = &g->wide;
    Kernel *k = w->k;
    const TapGradientStorage *s = &g->storage;
    LLVMValueRef feature = w->lane, channel = times(k, split(k, &feature, SUMS), 2);
    feature = add(k, feature, w->first_feature);
    feature = add(k, feature, times(k, w->feature_tile, WARPGROUP_ROWS));
    feature = add(k, feature, times(k, g->group, g->p->of.features));
    channel = add(k, channel, times(k, g->channel_tile, GRADIENT_CHANNELS));
    for (int64_t i = 0; i < s->calls * s->sum_columns / 2; i++) {
        int64_t octet = i / SUMS, octets = s->sum_columns / WARPGROUP_PIECE,
                in = octet % octets, of_tap = GRADIENT_CHANNELS / WARPGROUP_PIECE;
        LLVMValueRef row = times(k, w->group[ROWS], s->calls);
        emit_scope_begin(w->e);
        wide_gradient_write(
            w,
            &(WideTap){
                .feature = add(k, feature, number(k, i % SUMS / 2 * WARPGROUP_PIECE)),
                .row = add(k, row, number(k, octet / octets)),
                .column = number(k, in / of_tap),
                .channel =
                    add(k, channel, number(k, in % of_tap * WARPGROUP_PIECE + i % 2))},
            settled(w, sums[i]));
        emit_scope_end(w->e);
    }
}

Kernel *emitter_tap_gradient(const EmitterInput *in)
{
    enum { OCTET_LOG2 = 6 /* threads that copy one */ };
    const GradientPlan *p = in->design->plan.gradient;
    TapGradient g = {.p = p};
    Wide *w = &g.wide;
    TapGradientStorage *s = &g.storage;
    tap_gradient_storage(in->design, s);
    *w = (Wide){.in = in,
                .p = &p->of,
                .c = &in->design->config,
                .storage = {.columns = s->sum_columns, .parts = 1},
                .e = emitter_begin(in)};
    wide_begin(w, s->bytes);
    g.y = w->shared + (uint32_t)(s->ring * s->row_bytes);
    g.at_once = w->k->block[0] >> OCTET_LOG2;
    g.first = w->thread;
    LLVMValueRef in_octet = split(w->k, &g.first, 1 << OCTET_LOG2);
    g.line = in_octet;
    g.piece = split(w->k, &g.line, LINES);
    g.group = gx_ctaid(w->k, 0);
    w->feature_tile = split(w->k, &g.group, p->of.features / WARPGROUP_ROWS);
    g.channel_tile = split(w->k, &g.group, p->of.channels / GRADIENT_CHANNELS);
    write_results(&g, run_loop(&g, w->sum_count * (uint32_t)s->calls));
    return emitter_finish(in, w->e);
}
