/* Gradients by the filter: see ir/kernel/kinds/row_gradient.c.
 *
 *   for each image of the group, some rows of the second operand:
 *     those, and rows of the image, are asked for; the patch is made of these
 *     for each stride of rows of a window: all positions are multiplied
 *   sums to the results
 *
 * Both factors are summed over positions, which are rows of their matrices. */
#include "codegen/kernel/threads.h"
#include "codegen/kernel/wide.h"

typedef struct Gradient {
    Wide wide;
    const GradientPlan *p;
    GradientStorage storage;
    LLVMValueRef group;
    uint32_t factor; /* bytes of shared memory: where the second operand begins */
} Gradient;

/* Eight features of a position at a time. */
static void ask_factor(const Gradient *g, LLVMValueRef image, LLVMValueRef row)
{
    const Wide *w = &g->wide;
    const GradientPlan *p = g->p;
    GxLoop loop;
    int64_t across = w->c->tile[FEATURES] / WARPGROUP_PIECE;
    LLVMValueRef position = each_begin(w, &loop, across * g->storage.terms),
                 piece = split(w->k, &position, across);
    LLVMValueRef from =
        wide_sum(w, widened(w, g->group), p->group_step,
                 add(w->k, times(w->k, w->feature_tile, w->c->tile[FEATURES]),
                     times(w->k, piece, WARPGROUP_PIECE)));
    LLVMValueRef steps[] = {gx_i64(w->k, (uint64_t)p->image_step),
                            gx_i64(w->k, (uint64_t)p->position_step)},
                 in_image = add(w->k, times(w->k, row, p->of.result_size[X]), position);
    from =
        LLVMBuildAdd(w->b, from, LLVMBuildMul(w->b, widened(w, image), steps[0], ""), "");
    from = LLVMBuildAdd(w->b, from,
                        LLVMBuildMul(w->b, widened(w, in_image), steps[1], ""), "");
    gx_copy_async(w->k, wide_argument(w, 1), byte_of(w, from),
                  wide_filter_offset(w, number(w->k, g->factor), position, piece),
                  PIECE_BYTES, NULL);
    gx_loop_end(w->k, &loop, NULL);
}

/* Products of all positions of a step: by wgmma a call for each stride of rows. */
static int64_t products_of(const Gradient *g)
{
    return g->p->of.core == NULL ? g->storage.calls : 1;
}

/* Of all calls. */
static uint32_t sum_count(const Gradient *g)
{
    return g->wide.sum_count * (uint32_t)products_of(g);
}

/* Of call `call` of these four warps; in tensor memory of the block, by the thread that issues. */
static void multiply(Gradient *g, int64_t call, LLVMValueRef *sums)
{
    Wide *w = &g->wide;
    LLVMValueRef row = add(w->k, times(w->k, w->group[ROWS], g->storage.calls),
                           number(w->k, call)),
                 position = times(w->k, row, w->storage.pitch);
    GxMatrices a = wide_filter(w, number(w->k, g->factor), true),
               b = {.offset = patch_offset(w, position, number(w->k, 0)),
                    .lead = WARPGROUP_PIECE * PIECE_BYTES,
                    .stride = (uint32_t)(w->storage.chunk * PIECE_BYTES),
                    .is_transposed = true};
    uint32_t steps = (uint32_t)(g->storage.terms / TAPS_STEP);
    if (!g->p->of.in_tensor_memory) {
        wide_multiply_on(w, &a, &b, steps, (uint32_t)call * w->sum_count, sum_count(g),
                         sums);
        return;
    }
    const WideTensor *t = &w->storage.tensor;
    gx_tensor_mma(w->k, g->p->of.inst->operands[0]->shape->dtype, (uint32_t)t->rows,
                  (uint32_t)gradient_call_columns(g->p, call), steps, &a, &b,
                  add(w->k, w->address, number(w->k, call * t->columns)), w->adds);
}

/* All of a step; what its products read is written again once the next step has waited for them. */
static void issue(Gradient *g, LLVMValueRef step)
{
    Wide *w = &g->wide;
    GxIf one;
    LLVMValueRef none = LLVMConstNull(LLVMTypeOf(step)),
                 is_later = LLVMBuildICmp(w->b, LLVMIntNE, step, none, "");
    w->adds = LLVMBuildZExt(w->b, is_later, LLVMTypeOf(step), "");
    wide_tensor_issue_begin(w, &one);
    for (int64_t i = 0; i < g->storage.calls; i++)
        multiply(g, i, NULL);
    wide_tensor_issue_end(w, &one, step);
}

/* By mma.sync: columns of all calls of four warps. The last octet stands for those behind it. */
static LLVMValueRef octet_offset(const Wide *w, LLVMValueRef octet, LLVMValueRef in)
{
    int64_t columns = wide_rows_depth(w->p) / WARPGROUP_PIECE,
            count = w->storage.columns / WARPGROUP_PIECE;
    LLVMValueRef is_there = is_below(w->k, octet, count),
                 call =
                     LLVMBuildSelect(w->b, is_there, octet, number(w->k, count - 1), ""),
                 chunk = split(w->k, &call, columns);
    LLVMValueRef position = add(w->k, times(w->k, call, w->storage.pitch), in);
    return times(w->k, add(w->k, position, times(w->k, chunk, w->storage.chunk)),
                 PIECE_BYTES);
}

/* Images and tiles of rows one after the other. */
static void one_step(Gradient *g, LLVMValueRef step, LLVMValueRef *sums)
{
    Wide *w = &g->wide;
    const GradientPlan *p = g->p;
    LLVMValueRef image = step,
                 tile = split(w->k, &image, p->of.result_size[Y] / w->c->tile[ROWS]);
    w->row = times(w->k, tile, w->c->tile[ROWS]);
    w->image = add(w->k, times(w->k, g->group, p->images), image);
    gx_barrier(w->k);
    wide_rows_ask(w);
    if (p->of.in_tensor_memory)
        wide_tensor_finish(w, add(w->k, step, number(w->k, -1)));
    ask_factor(g, image, w->row);
    gx_copy_commit(w->k);
    gx_copy_wait(w->k, 0);
    gx_barrier(w->k);
    wide_rows_make(w);
    if (p->of.core == NULL)
        gx_proxy_fence(w->k);
    gx_barrier(w->k);
    if (p->of.in_tensor_memory) {
        issue(g, step);
        return;
    }
    for (int64_t i = 0; i < products_of(g); i++)
        multiply(g, i, &sums[i * (int64_t)w->sum_count]);
    if (wide_goes_on(w, sum_count(g)))
        gx_wgmma_wait(w->k, 0, sum_count(g), sums);
}

static LLVMValueRef *run_loop(Gradient *g)
{
    Wide *w = &g->wide;
    const GradientPlan *p = g->p;
    GxLoop loop;
    uint32_t count = sum_count(g);
    int64_t steps = p->images * (p->of.result_size[Y] / w->c->tile[ROWS]);
    LLVMValueRef *sums = ARENA_ARRAY(w->k->arena, LLVMValueRef, count);
    for (uint32_t i = 0; i < count; i++)
        sums[i] = LLVMConstNull(emit_type(w->k, DT_F32));
    gx_loop_begin(w->k, &loop, number(w->k, 0), number(w->k, steps), number(w->k, 1),
                  sums, count);
    LLVMValueRef *next = arena_copy(w->k->arena, sums, count * sizeof *sums);
    one_step(g, loop.index, next);
    gx_loop_end(w->k, &loop, next);
    if (p->of.in_tensor_memory)
        wide_tensor_finish(w, number(w->k, steps - 1));
    return sums;
}

/* -- results ----------------------------------------------------------------------------------- */

void wide_gradient_write(const Wide *w, const WideTap *tap, LLVMValueRef sum)
{
    Emit *e = w->e;
    const Instruction *hero = w->p->inst;
    const DimLabels *l = inst_attr(hero, ATTR_DIM_LABELS)->labels;
    const IndexExpr *index[EMIT_MOST_RANK];
    const Shape *s = hero->shape;
    const struct {
        int64_t dim;
        LLVMValueRef at;
    } positions[] = {{l->out_feature, tap->feature},
                     {l->out_spatial[Y], tap->row},
                     {l->out_spatial[X], tap->column},
                     {l->out_batch, tap->channel}};
    for (int i = 0; i < 4; i++)
        index[positions[i].dim] = emit_variable(
            e, to_index(e, positions[i].at), (Range){0, s->dims[positions[i].dim] - 1});
    LLVMValueRef value = scalar_convert_value(w->k, sum, DT_F32, s->dtype);
    emit_preset(e, hero, &value);
    emit_result(e, w->in->fusion, 0, index);
}

/* The sum of a feature and number `at` of the pieces of row `row` of the window, if it is a tap's. */
static void write_sum(const Gradient *g, LLVMValueRef feature, LLVMValueRef row,
                      LLVMValueRef at, LLVMValueRef sum)
{
    const Wide *w = &g->wide;
    const WidePlan *p = &g->p->of;
    LLVMValueRef x = at, channel;
    if (p->is_last) {
        x = LLVMBuildSub(w->b, x, number(w->k, p->spare * p->channels), "");
        channel = split(w->k, &x, p->channels);
    } else {
        channel = x;
        x = split(w->k, &channel, p->pieces / p->channels * WARPGROUP_PIECE);
        x = LLVMBuildSub(w->b, x, number(w->k, p->spare), "");
    }
    LLVMValueRef is_tap = LLVMBuildAnd(w->b, is_below(w->k, x, p->window[X]),
                                       is_below(w->k, row, g->p->window_rows), "");
    GxIf there;
    emit_if_begin(w->e, &there, is_tap);
    wide_gradient_write(w, &(WideTap){feature, row, x, channel}, sum);
    emit_if_end(w->e, &there, NULL, 0, NULL);
}

/* The sums of an octet of the block's columns: of the thread's lane of 16 features from `feature` on. */
static void write_octet(const Gradient *g, LLVMValueRef feature, LLVMValueRef octet,
                        const LLVMValueRef *sums)
{
    const Wide *w = &g->wide;
    const WidePlan *p = &g->p->of;
    LLVMValueRef row = octet,
                 piece = split(w->k, &row, g->storage.columns / WARPGROUP_PIECE),
                 y = piece, at = split(w->k, &y, p->pieces), in = w->lane,
                 column = times(w->k, split(w->k, &in, SUMS), 2);
    feature = add(w->k, feature, in);
    feature = add(w->k, feature, times(w->k, w->feature_tile, w->c->tile[FEATURES]));
    feature = add(w->k, feature, times(w->k, g->group, p->features));
    row = add(w->k, times(w->k, row, p->stride), y);
    at = add(w->k, times(w->k, at, WARPGROUP_PIECE), column);
    for (uint32_t i = 0; i < SUMS; i++) {
        emit_scope_begin(w->e);
        write_sum(g, add(w->k, feature, number(w->k, i / 2 * WARPGROUP_PIECE)), row,
                  add(w->k, at, number(w->k, i % 2)), sums[i]);
        emit_scope_end(w->e);
    }
}

static void write_results(const Gradient *g, const LLVMValueRef *sums)
{
    const Wide *w = &g->wide;
    int64_t count = g->storage.calls * g->storage.columns / WARPGROUP_PIECE;
    LLVMValueRef feature = add(w->k, times(w->k, w->group[FEATURES], WARPGROUP_ROWS),
                               w->first_feature),
                 first = times(w->k, w->group[ROWS], count);
    uint32_t octets = w->octets * (uint32_t)products_of(g);
    for (uint32_t i = 0; i < w->blocks * octets; i++) {
        LLVMValueRef octet = add(w->k, w->first_octet, number(w->k, i % octets));
        GxIf there; /* columns of the last warp may be none */
        emit_if_begin(w->e, &there, is_below(w->k, octet, count));
        write_octet(g, add(w->k, feature, number(w->k, i / octets * WARP_ROWS)),
                    add(w->k, first, octet), &sums[i * SUMS]);
        emit_if_end(w->e, &there, NULL, 0, NULL);
    }
}

/* From tensor memory: each four warps take some of the calls, a warp 16 or 32 of the features. */
static void write_tensor(const Gradient *g)
{
    enum { PART = 16, LANES = 32, GROUP_LOG2 = 7, TIMES = TENSOR_ROWS / WARPGROUP_ROWS };
    const Wide *w = &g->wide;
    const WidePlan *p = &g->p->of;
    const WideTensor *t = &w->storage.tensor;
    GxLoop calls;
    LLVMValueRef sums[PART / 2];
    int64_t of_warp = t->rows / WARPGROUP_WARPS;
    gx_barrier(w->k);
    gx_loop_begin(
        w->k, &calls, LLVMBuildLShr(w->b, w->thread, number(w->k, GROUP_LOG2), ""),
        number(w->k, t->tiles), number(w->k, w->k->block[0] >> GROUP_LOG2), NULL, 0);
    LLVMValueRef column = times(w->k, calls.index, t->columns),
                 octet = times(w->k, calls.index, t->columns / WARPGROUP_PIECE);
    for (int64_t i = 0; i < TIMES * t->columns / PART; i++) {
        int64_t half = i % TIMES * WARP_ROWS, part = i / TIMES * PART;
        if (half >= of_warp)
            continue;
        GxIf there; /* the last call has not all rows */
        LLVMValueRef first = add(w->k, octet, number(w->k, part / WARPGROUP_PIECE)),
                     lane = add(w->k, times(w->k, w->warp, LANES), number(w->k, half)),
                     feature =
                         add(w->k, times(w->k, w->warp, of_warp), number(w->k, half)),
                     at = add(w->k, add(w->k, w->address, column),
                              times(w->k, lane, GX_TENSOR_LANE));
        gx_if_begin(w->k, &there, is_below(w->k, first, g->p->window_rows * p->pieces));
        gx_tensor_load(w->k, add(w->k, at, number(w->k, part)), PART, sums);
        for (int64_t j = 0; j < PART / WARPGROUP_PIECE; j++)
            write_octet(g, feature, add(w->k, first, number(w->k, j)), &sums[j * SUMS]);
        gx_if_end(w->k, &there, NULL, 0, NULL);
    }
    gx_loop_end(w->k, &calls, NULL);
    gx_barrier(w->k);
    wide_tensor_end(w);
}

Kernel *emitter_row_gradient(const EmitterInput *in)
{
    const GradientPlan *p = in->design->plan.gradient;
    Gradient g = {.p = p};
    Wide *w = &g.wide;
    gradient_storage(in->design, &g.storage);
    *w = (Wide){.in = in,
                .p = &p->of,
                .c = &in->design->config,
                .storage = g.storage.of,
                .e = emitter_begin(in)};
    wide_begin(w, g.storage.bytes);
    g.factor = w->shared + (uint32_t)w->storage.patch_bytes;
    LLVMValueRef block = gx_ctaid(w->k, 0);
    w->feature_tile = split(w->k, &block, p->of.features / w->c->tile[FEATURES]);
    g.group = block;
    if (p->of.core != NULL)
        wide_mma_rows(w, octet_offset, WARPGROUP_PIECE * PIECE_BYTES);
    LLVMValueRef *sums = run_loop(&g);
    if (p->of.in_tensor_memory)
        write_tensor(&g);
    else
        write_results(&g, sums);
    return emitter_finish(in, w->e);
}
