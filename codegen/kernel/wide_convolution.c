/* Convolutions by wgmma: see ir/kernel/kinds/wide_convolution.c.
 *
 *   for each so many channels: the patch is filled
 *     for each tap: wait for its filter; barrier; ask for a later one; multiply
 *   sums through shared memory to the results
 *
 * Patch and filter are matrices of 8 rows of 16 bytes, as wgmma reads them: eight channels of 8 places that follow each
 * other, so that a tap's places may begin anywhere. Rows of a matrix have all banks; eight
 * channels and the next eight are so far apart that threads that fill several at once do not meet in a bank either. */
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/threads.h"
#include "ir/base/divide.h"

enum {
    Y,
    X,
    FEATURES = 0,
    ROWS = 1,
    PIECE_BYTES = 16,
    WORDS = 4,      /* of a piece */
    GROUP_LOG2 = 7, /* threads of four warps */
    WARP_ROWS = 16, /* features of a warp */
    SUMS = 4,       /* of a thread in eight columns */
    TURNED = 4      /* matrices of sums that go to shared memory at once */
};

typedef struct Wide {
    const EmitterInput *in;
    const WidePlan *p;
    const KernelConfig *c;
    WideRooms rooms;
    Kernel *k;
    Emit *e;
    LLVMBuilderRef b;
    uint32_t shared, taps, steps; /* of the window; of the channels */
    uint32_t sum_count;
    LLVMValueRef thread, lane, warp;       /* i32; the warp's number among four */
    LLVMValueRef group[2];                 /* of four warps, by side */
    LLVMValueRef image, row, feature_tile; /* row: the first one of the result's */
} Wide;

static LLVMValueRef number(const Wide *w, int64_t n)
{
    return gx_i32(w->k, (uint32_t)n);
}

static LLVMValueRef add(const Wide *w, LLVMValueRef x, LLVMValueRef y)
{
    return LLVMBuildAdd(w->b, x, y, "");
}

static LLVMValueRef times(const Wide *w, LLVMValueRef x, int64_t n)
{
    return LLVMBuildMul(w->b, x, number(w, n), "");
}

/* *rest becomes *rest / n; gives the remainder. */
static LLVMValueRef split(const Wide *w, LLVMValueRef *rest, int64_t n)
{
    LLVMValueRef by = number(w, n), part = LLVMBuildURem(w->b, *rest, by, "");
    *rest = LLVMBuildUDiv(w->b, *rest, by, "");
    return part;
}

/* Of numbers less than 0, too: they are above. */
static LLVMValueRef is_below(const Wide *w, LLVMValueRef x, int64_t end)
{
    return LLVMBuildICmp(w->b, LLVMIntULT, x, number(w, end), "");
}

static LLVMValueRef widened(const Wide *w, LLVMValueRef x)
{
    return LLVMBuildZExt(w->b, x, gx_int_type(w->k, 64), "");
}

/* x * n + y, in 64 bits. */
static LLVMValueRef wide_sum(const Wide *w, LLVMValueRef x, int64_t n, LLVMValueRef y)
{
    LLVMValueRef by = gx_i64(w->k, (uint64_t)n);
    return LLVMBuildAdd(w->b, LLVMBuildMul(w->b, x, by, ""), widened(w, y), "");
}

/* Of a number of 16 bits. */
static LLVMValueRef byte_of(const Wide *w, LLVMValueRef element)
{
    return LLVMBuildShl(w->b, element, gx_i64(w->k, 1), "");
}

static LLVMTypeRef piece_type(const Wide *w)
{
    return LLVMVectorType(gx_int_type(w->k, 32), WORDS);
}

/* Each thread takes one of `count` after the other. */
static LLVMValueRef each_begin(const Wide *w, GxLoop *loop, int64_t count)
{
    gx_loop_begin(w->k, loop, w->thread, number(w, count), number(w, w->k->block[0]),
                  NULL, 0);
    return loop->index;
}

/* -- the patch --------------------------------------------------------------------------------- */

/* Where channels 8 `piece` to 8 `piece` + 7 of a place of the patch stand in shared memory. */
static LLVMValueRef patch_offset(const Wide *w, LLVMValueRef place, LLVMValueRef piece)
{
    LLVMValueRef at = add(w, times(w, piece, w->rooms.chunk), place);
    return add(w, times(w, at, PIECE_BYTES), number(w, w->shared));
}

/* The image's row or column of row or column `at` of the plane with remainder `rest`. */
static LLVMValueRef image_place(const Wide *w, LLVMValueRef at, LLVMValueRef rest,
                                int side)
{
    LLVMValueRef x = add(w, times(w, at, w->p->stride), rest);
    return LLVMBuildSub(w->b, x, number(w, w->p->before[side]), "");
}

/* Features are last: a place's channels lie as the patch has them. */
static void ask_patch(const Wide *w, LLVMValueRef channel)
{
    const WidePlan *p = w->p;
    GxLoop loop;
    int64_t s = p->stride, pieces = w->c->depth / WIDE_PIECE;
    LLVMValueRef place = each_begin(w, &loop, s * s * w->rooms.plane * pieces);
    LLVMValueRef piece = split(w, &place, pieces), plane = place,
                 row = split(w, &plane, w->rooms.plane),
                 column = split(w, &row, w->rooms.pitch), rest = plane,
                 rest_x = split(w, &rest, s);
    LLVMValueRef y = image_place(w, add(w, w->row, row), rest, Y),
                 x = image_place(w, column, rest_x, X);
    LLVMValueRef inside =
        LLVMBuildAnd(w->b, is_below(w, y, p->size[Y]), is_below(w, x, p->size[X]), "");
    LLVMValueRef from = wide_sum(w, widened(w, w->image), p->size[Y], y);
    from = wide_sum(w, from, p->size[X], x);
    from = wide_sum(w, from, p->channels, add(w, channel, times(w, piece, WIDE_PIECE)));
    from = LLVMBuildSelect(w->b, inside, byte_of(w, from), gx_i64(w->k, 0), "");
    uint32_t arg = w->e->parameter_args[p->inst->operands[0]->parameter];
    gx_copy_async(
        w->k, arg, from, patch_offset(w, place, piece), PIECE_BYTES,
        LLVMBuildSelect(w->b, inside, number(w, PIECE_BYTES), number(w, 0), ""));
    gx_loop_end(w->k, &loop, NULL);
}

/* Eight vectors of neighbouring places, of a channel each: word `word` of place `place`, whose halves are two
 * channels. */
static LLVMValueRef turned_word(const Wide *w, const LLVMValueRef *channels,
                                uint32_t place, uint32_t word)
{
    LLVMTypeRef pair = LLVMVectorType(gx_int_type(w->k, 16), 2);
    LLVMValueRef halves[2], which[2] = {number(w, place % 2), number(w, 2 + place % 2)};
    for (uint32_t i = 0; i < 2; i++) {
        LLVMValueRef x = LLVMBuildExtractElement(w->b, channels[2 * word + i],
                                                 number(w, place / 2), "");
        halves[i] = LLVMBuildBitCast(w->b, x, pair, "");
    }
    LLVMValueRef both =
        LLVMBuildShuffleVector(w->b, halves[0], halves[1], LLVMConstVector(which, 2), "");
    return LLVMBuildBitCast(w->b, both, gx_int_type(w->k, 32), "");
}

/* Eight places from column 8 `vector` of the image on, row `row` of its rows under the patch. */
static void store_turned(const Wide *w, const LLVMValueRef *channels, LLVMValueRef row,
                         LLVMValueRef vector, LLVMValueRef piece)
{
    const WidePlan *p = w->p;
    int64_t s = p->stride;
    LLVMValueRef rest_y = split(w, &row, s);
    LLVMValueRef begin =
        add(w, times(w, rest_y, s * w->rooms.plane),
            add(w, times(w, row, w->rooms.pitch), times(w, vector, WIDE_PIECE / s)));
    for (uint32_t i = 0; i < WIDE_PIECE; i++) {
        int64_t x = i + p->before[X], along = x % s * w->rooms.plane + x / s;
        LLVMValueRef value = LLVMGetUndef(piece_type(w));
        for (uint32_t j = 0; j < WORDS; j++)
            value = LLVMBuildInsertElement(w->b, value, turned_word(w, channels, i, j),
                                           number(w, j), "");
        LLVMValueRef place = add(w, begin, number(w, along)),
                     column = add(w, times(w, vector, WIDE_PIECE / s), number(w, x / s));
        GxIf there; /* in no window */
        gx_if_begin(w->k, &there, is_below(w, column, w->rooms.pitch));
        gx_store(w->k, GX_SHARED, patch_offset(w, place, piece), value, PIECE_BYTES);
        gx_if_end(w->k, &there, NULL, 0, NULL);
    }
}

/* Features are first: vectors of eight places of eight channels are turned on the way. */
static void turn_patch(const Wide *w, LLVMValueRef channel)
{
    const WidePlan *p = w->p;
    GxLoop loop;
    int64_t pieces = w->c->depth / WIDE_PIECE, vectors = p->size[X] / WIDE_PIECE,
            rows = w->rooms.rows * p->stride;
    LLVMValueRef row = each_begin(w, &loop, rows * vectors * pieces),
                 piece = split(w, &row, pieces), vector = split(w, &row, vectors),
                 channels[WIDE_PIECE];
    LLVMValueRef y = add(w, times(w, w->row, p->stride), row);
    y = LLVMBuildSub(w->b, y, number(w, p->before[Y]), "");
    GxIf inside;
    gx_if_begin(w->k, &inside, is_below(w, y, p->size[Y]));
    LLVMValueRef first = add(w, channel, times(w, piece, WIDE_PIECE)),
                 from = wide_sum(w, widened(w, w->image), p->channels, first);
    from = wide_sum(w, from, p->size[Y], y);
    from = byte_of(w, wide_sum(w, from, p->size[X], times(w, vector, WIDE_PIECE)));
    uint32_t arg = w->e->parameter_args[p->inst->operands[0]->parameter];
    for (uint32_t i = 0; i < WIDE_PIECE; i++) {
        uint64_t apart = i * (uint64_t)(p->size[Y] * p->size[X]) * 2;
        channels[i] =
            gx_load(w->k, arg, LLVMBuildAdd(w->b, from, gx_i64(w->k, apart), ""),
                    piece_type(w), PIECE_BYTES);
    }
    store_turned(w, channels, row, vector, piece);
    gx_if_end(w->k, &inside, NULL, 0, NULL);
    gx_loop_end(w->k, &loop, NULL);
}

/* What turn_patch does not write are zeros from the beginning on. */
static void make_zeros(const Wide *w)
{
    GxLoop loop;
    LLVMValueRef at = each_begin(w, &loop, (int64_t)w->rooms.patch_bytes / PIECE_BYTES);
    gx_store(w->k, GX_SHARED, add(w, times(w, at, PIECE_BYTES), number(w, w->shared)),
             LLVMConstNull(piece_type(w)), PIECE_BYTES);
    gx_loop_end(w->k, &loop, NULL);
}

/* -- filters ----------------------------------------------------------------------------------- */

static LLVMValueRef stages_begin(const Wide *w)
{
    return number(w, w->shared + (int64_t)w->rooms.patch_bytes);
}

/* Asks for the filter of step `step`, a tap of some channels, into the stage at `stage`: eight channels of a feature, or
 * eight features of a channel, at a time. */
static void ask_filter(const Wide *w, LLVMValueRef step, LLVMValueRef stage)
{
    const WidePlan *p = w->p;
    GxLoop loop;
    bool turned = p->is_transposed;
    int64_t across = (turned ? w->c->tile[FEATURES] : w->c->depth) / WIDE_PIECE,
            down = turned ? w->c->depth : w->c->tile[FEATURES];
    LLVMValueRef part = step, tap = split(w, &part, w->taps);
    if (p->is_reversed)
        tap = LLVMBuildSub(w->b, number(w, (int64_t)w->taps - 1), tap, "");
    LLVMValueRef channel = times(w, part, w->c->depth),
                 feature = times(w, w->feature_tile, w->c->tile[FEATURES]);
    LLVMValueRef row = each_begin(w, &loop, across * down),
                 piece = split(w, &row, across);
    LLVMValueRef along = times(w, piece, WIDE_PIECE);
    feature = add(w, feature, turned ? along : row);
    channel = add(w, channel, turned ? row : along);
    LLVMValueRef from = add(
        w, times(w, tap, p->tap_step),
        add(w, times(w, channel, p->channel_step), times(w, feature, p->feature_step)));
    from = byte_of(w, widened(w, from));
    int64_t apart = turned ? w->rooms.filter_stride : w->rooms.filter_lead;
    LLVMValueRef to = add(w, times(w, piece, apart), times(w, row, PIECE_BYTES));
    uint32_t arg = w->e->parameter_args[p->inst->operands[1]->parameter];
    gx_copy_async(w->k, arg, from, add(w, stage, to), PIECE_BYTES, NULL);
    gx_loop_end(w->k, &loop, NULL);
}

static LLVMValueRef next_stage(const Wide *w, LLVMValueRef stage)
{
    uint64_t end = w->rooms.patch_bytes + (uint64_t)w->c->stages * w->rooms.stage_bytes;
    LLVMValueRef next = add(w, stage, number(w, (int64_t)w->rooms.stage_bytes)),
                 is_over = LLVMBuildICmp(w->b, LLVMIntEQ, next,
                                         number(w, w->shared + (int64_t)end), "");
    return LLVMBuildSelect(w->b, is_over, stages_begin(w), next, "");
}

/* -- the loops --------------------------------------------------------------------------------- */

/* The lane's row of the matrices that a warp loads at once: `across` counts those along the summed dimension, `down`
 * along the other one. */
static LLVMValueRef matrix_row(const Wide *w, const GxMatrices *x, LLVMValueRef across,
                               LLVMValueRef down)
{
    LLVMValueRef in = LLVMBuildAnd(w->b, w->lane, number(w, WIDE_PIECE - 1), "");
    LLVMValueRef at = add(w, times(w, across, x->lead), times(w, down, x->stride));
    return add(w, x->offset, add(w, at, times(w, in, PIECE_BYTES)));
}

/* As gx_wgmma, by mma.sync: each warp has 16 of the rows. */
static void multiply_alone(const Wide *w, const GxMatrices *a, const GxMatrices *b,
                           LLVMValueRef *sums)
{
    LLVMValueRef upper = LLVMBuildLShr(w->b, w->lane, number(w, 4), ""), lower = w->lane;
    lower = LLVMBuildAnd(w->b, LLVMBuildLShr(w->b, lower, number(w, 3), ""), number(w, 1),
                         "");
    LLVMValueRef rows = add(w, times(w, w->warp, WARP_ROWS / WIDE_PIECE), lower),
                 left = matrix_row(w, a, upper, rows),
                 right = matrix_row(w, b, lower, upper), x[WORDS], y[WORDS];
    uint32_t octets = w->sum_count / SUMS;
    for (int64_t step = 0; step * WIDE_STEP < w->c->depth; step++) {
        gx_ldmatrix(w->k, add(w, left, number(w, 2 * step * a->lead)), WORDS,
                    a->is_transposed, x);
        for (uint32_t i = 0; i < octets; i += 2) {
            uint32_t count = i + 1 < octets ? 2 : 1;
            int64_t at = 2 * step * b->lead + (int64_t)i * b->stride;
            gx_ldmatrix(w->k, add(w, right, number(w, at)), 2 * count, false, y);
            for (uint32_t j = 0; j < count; j++)
                gx_mma(w->k, w->p->core, x, &y[2 * j], &sums[(i + j) * SUMS],
                       &sums[(i + j) * SUMS]);
        }
    }
}

static void multiply_tap(const Wide *w, LLVMValueRef tap, LLVMValueRef stage,
                         LLVMValueRef *sums)
{
    const WidePlan *p = w->p;
    int64_t s = p->stride;
    LLVMValueRef y = tap, x = split(w, &y, p->window[X]), rest_y = split(w, &y, s),
                 rest_x = split(w, &x, s);
    LLVMValueRef plane = add(w, times(w, rest_y, s), rest_x),
                 row = add(w, y, times(w, w->group[ROWS], w->rooms.group_rows));
    LLVMValueRef place =
        add(w, times(w, plane, w->rooms.plane), add(w, times(w, row, w->rooms.pitch), x));
    int64_t of_group = p->is_transposed
                           ? (int64_t)w->rooms.filter_stride * (WIDE_ROWS / WIDE_PIECE)
                           : WIDE_ROWS * PIECE_BYTES;
    GxMatrices a = {.offset = add(w, stage, times(w, w->group[FEATURES], of_group)),
                    .lead = w->rooms.filter_lead,
                    .stride = w->rooms.filter_stride,
                    .is_transposed = p->is_transposed},
               b = {.offset = patch_offset(w, place, number(w, 0)),
                    .lead = (uint32_t)(w->rooms.chunk * PIECE_BYTES),
                    .stride = WIDE_PIECE * PIECE_BYTES};
    if (p->core == NULL)
        gx_wgmma(w->k, p->inst->operands[0]->shape->dtype, (uint32_t)w->rooms.columns,
                 (uint32_t)(w->c->depth / WIDE_STEP), &a, &b, sums);
    else
        multiply_alone(w, &a, &b, sums);
}

/* What the loops carry behind the sums. */
enum { READ, FILLED, CARRIED };

static void run_tap(const Wide *w, LLVMValueRef part, LLVMValueRef tap,
                    LLVMValueRef *carried)
{
    LLVMValueRef *stages = &carried[w->sum_count];
    int64_t ahead = w->c->stages - 1;
    gx_copy_wait(w->k, (uint32_t)(ahead - 1));
    if (w->p->core == NULL)
        gx_proxy_fence(w->k);
    gx_barrier(w->k);
    LLVMValueRef later = add(w, add(w, times(w, part, w->taps), tap), number(w, ahead));
    GxIf more;
    gx_if_begin(w->k, &more, is_below(w, later, (int64_t)w->taps * w->steps));
    ask_filter(w, later, stages[FILLED]);
    gx_if_end(w->k, &more, NULL, 0, NULL);
    gx_copy_commit(w->k);
    multiply_tap(w, tap, stages[READ], carried);
    for (uint32_t i = 0; i < CARRIED; i++)
        stages[i] = next_stage(w, stages[i]);
}

static void run_part(const Wide *w, LLVMValueRef part, LLVMValueRef *carried)
{
    GxLoop taps;
    uint32_t count = w->sum_count + CARRIED;
    LLVMValueRef channel = times(w, part, w->c->depth);
    if (w->steps > 1 || !w->p->is_last)
        gx_barrier(w->k);
    if (w->p->is_last) {
        ask_patch(w, channel);
        gx_copy_commit(w->k);
        gx_copy_wait(w->k, 0);
    } else {
        turn_patch(w, channel);
    }
    gx_loop_begin(w->k, &taps, number(w, 0), number(w, w->taps), number(w, 1), carried,
                  count);
    LLVMValueRef *next = arena_copy(w->k->arena, carried, count * sizeof *carried);
    run_tap(w, part, taps.index, next);
    gx_loop_end(w->k, &taps, next);
}

static LLVMValueRef *run_loops(const Wide *w)
{
    GxLoop parts;
    uint32_t count = w->sum_count + CARRIED;
    LLVMValueRef *carried = ARENA_ARRAY(w->k->arena, LLVMValueRef, count),
                 stage = stages_begin(w);
    for (uint32_t i = 0; i < w->sum_count; i++)
        carried[i] = LLVMConstNull(emit_type(w->k, DT_F32));
    carried[w->sum_count + READ] = stage;
    if (!w->p->is_last)
        make_zeros(w);
    for (int64_t i = 0; i + 1 < w->c->stages; i++) {
        if (i < (int64_t)w->taps * w->steps)
            ask_filter(w, number(w, i), stage);
        gx_copy_commit(w->k);
        stage = next_stage(w, stage);
    }
    carried[w->sum_count + FILLED] = stage;
    gx_loop_begin(w->k, &parts, number(w, 0), number(w, w->steps), number(w, 1), carried,
                  count);
    LLVMValueRef *next = arena_copy(w->k->arena, carried, count * sizeof *carried);
    run_part(w, parts.index, next);
    gx_loop_end(w->k, &parts, next);
    gx_copy_wait(w->k, 0);
    return carried;
}

/* -- results ----------------------------------------------------------------------------------- */

/* Two sums side by side as a word. */
static LLVMValueRef sum_word(const Wide *w, const LLVMValueRef *sums)
{
    DType t = w->p->inst->shape->dtype;
    LLVMValueRef both = LLVMGetUndef(LLVMVectorType(emit_type(w->k, t), 2));
    for (uint32_t i = 0; i < 2; i++) {
        LLVMValueRef v = scalar_convert_value(w->k, sums[i], DT_F32, t);
        both = LLVMBuildInsertElement(w->b, both, v, number(w, i), "");
    }
    return LLVMBuildBitCast(w->b, both, gx_int_type(w->k, 32), "");
}

/* The tile of sums lies where patch and filters did: rows are features and their numbers places, or, where features are
 * last, the other way round. A warp has two matrices of features and one for each eight columns. */
static void share_sums(const Wide *w, LLVMValueRef *sums)
{
    bool turned = w->p->result_is_last;
    LLVMValueRef matrix = w->lane, in = split(w, &matrix, WIDE_PIECE), half = matrix,
                 lower = split(w, &half, 2); /* of features; of columns */
    LLVMValueRef feature = add(
                     w, times(w, w->group[FEATURES], WIDE_ROWS),
                     add(w, times(w, w->warp, WARP_ROWS), times(w, lower, WIDE_PIECE))),
                 place = add(w, times(w, w->group[ROWS], w->rooms.columns),
                             times(w, half, WIDE_PIECE));
    LLVMValueRef down = add(w, turned ? place : feature, in),
                 across = turned ? feature : place;
    LLVMValueRef to = add(w, times(w, down, w->rooms.sum_stride), across);
    to = add(w, times(w, to, 2), number(w, w->shared));
    uint32_t octets = w->sum_count / SUMS;
    for (uint32_t i = 0; i < octets; i += 2) {
        uint32_t count = i + 1 < octets ? TURNED : TURNED / 2;
        LLVMValueRef words[TURNED];
        for (uint32_t j = 0; j < count; j++)
            words[j] = sum_word(w, &sums[i * SUMS + 2 * j]);
        int64_t along = (int64_t)i * WIDE_PIECE * (turned ? w->rooms.sum_stride : 1) * 2;
        gx_stmatrix(w->k, add(w, to, number(w, along)), count, turned, words);
    }
}

/* The same where there is no stmatrix: a lane's own words, or, where features are last, halves of them. */
static void share_words(const Wide *w, LLVMValueRef *sums)
{
    bool turned = w->p->result_is_last;
    LLVMTypeRef half = gx_int_type(w->k, 16);
    LLVMValueRef feature = w->lane, place = times(w, split(w, &feature, SUMS), 2);
    feature = add(
        w, feature,
        add(w, times(w, w->group[FEATURES], WIDE_ROWS), times(w, w->warp, WARP_ROWS)));
    place = add(w, place, times(w, w->group[ROWS], w->rooms.columns));
    LLVMValueRef to = add(w, times(w, turned ? place : feature, w->rooms.sum_stride),
                          turned ? feature : place);
    to = add(w, times(w, to, 2), number(w, w->shared));
    for (uint32_t i = 0; i < w->sum_count; i += 2) {
        int64_t below = i / 2 % 2 * WIDE_PIECE, along = (int64_t)(i / SUMS) * WIDE_PIECE,
                stride = w->rooms.sum_stride,
                at = turned ? along * stride + below : below * stride + along;
        LLVMValueRef word = sum_word(w, &sums[i]), own = add(w, to, number(w, 2 * at));
        if (!turned) {
            gx_store(w->k, GX_SHARED, own, word, 4);
            continue;
        }
        LLVMValueRef upper = LLVMBuildLShr(w->b, word, number(w, 16), "");
        gx_store(w->k, GX_SHARED, own, LLVMBuildTrunc(w->b, word, half, ""), 2);
        gx_store(w->k, GX_SHARED, add(w, own, number(w, 2 * stride)),
                 LLVMBuildTrunc(w->b, upper, half, ""), 2);
    }
}

/* Some neighbouring results: eight features of a place, or two places of a feature. */
typedef struct Item {
    LLVMValueRef offset;    /* in shared memory */
    LLVMValueRef row;       /* of the image's result */
    LLVMValueRef linear[3]; /* row, column and feature, by the result */
} Item;

static Item find_item(const Wide *w, LLVMValueRef item)
{
    const WidePlan *p = w->p;
    bool turned = p->result_is_last;
    int64_t columns = p->result_size[X], features = w->c->tile[FEATURES];
    LLVMValueRef feature, column, row = item, group, at;
    if (turned) {
        feature = times(w, split(w, &row, features / WIDE_PIECE), WIDE_PIECE);
        column = split(w, &row, columns);
    } else {
        column = times(w, split(w, &row, columns / 2), 2);
        feature = row;
        row = split(w, &feature, w->c->tile[ROWS]);
    }
    group = row;
    at = split(w, &group, w->rooms.group_rows);
    LLVMValueRef place = add(w, times(w, group, w->rooms.columns),
                             add(w, times(w, at, w->rooms.pitch), column));
    LLVMValueRef to = add(w, times(w, turned ? place : feature, w->rooms.sum_stride),
                          turned ? feature : place);
    return (Item){.offset = add(w, times(w, to, 2), number(w, w->shared)),
                  .row = add(w, w->row, row),
                  .linear = {add(w, w->row, row), column,
                             add(w, times(w, w->feature_tile, features), feature)}};
}

/* The number of the first in the result. */
static const IndexExpr *item_number(const Wide *w, const Item *item)
{
    const WidePlan *p = w->p;
    Emit *e = w->e;
    int64_t sizes[] = {p->result_size[Y], p->result_size[X], p->features};
    static const int last[] = {0, 1, 2}, first[] = {2, 0, 1};
    const int *order = p->result_is_last ? last : first;
    const IndexExpr *at =
        emit_variable(e, to_index(e, w->image), (Range){0, p->images - 1});
    for (int i = 0; i < 3; i++) {
        int d = order[i];
        at = ix_add(
            e->ix, ix_mul(e->ix, at, sizes[d]),
            emit_variable(e, to_index(e, item->linear[d]), (Range){0, sizes[d] - 1}));
    }
    return at;
}

static void write_item(const Wide *w, LLVMValueRef number_of_item)
{
    Emit *e = w->e;
    const Shape *s = w->p->inst->shape;
    uint32_t lanes = w->p->result_is_last ? WIDE_PIECE : 2;
    Item item = find_item(w, number_of_item);
    LLVMTypeRef type = LLVMVectorType(emit_type(w->k, s->dtype), lanes);
    LLVMValueRef values[WIDE_PIECE];
    GxIf inside;
    emit_if_begin(e, &inside, is_below(w, item.row, w->p->result_size[Y]));
    LLVMValueRef sums = gx_load(w->k, GX_SHARED, item.offset, type, 2 * lanes);
    for (uint32_t i = 0; i < lanes; i++)
        values[i] = LLVMBuildExtractElement(w->b, sums, number(w, i), "");
    const IndexExpr *index[EMIT_MOST_RANK], *at = item_number(w, &item);
    e->lanes = lanes;
    emit_preset_lanes(e, w->p->inst, values);
    emit_delinear(e, s, ix_add(e->ix, at, emit_lane(e)), index);
    for (uint32_t i = 0; i < fusion_result_count(w->in->fusion); i++)
        emit_result(e, w->in->fusion, i, index);
    e->lanes = 1;
    emit_if_end(e, &inside, NULL, 0, NULL);
}

static void write_results(const Wide *w, LLVMValueRef *sums)
{
    GxLoop loop;
    int64_t lanes = w->p->result_is_last ? WIDE_PIECE : 2,
            results = w->c->tile[FEATURES] * w->c->tile[ROWS] * w->p->result_size[X];
    gx_barrier(w->k);
    if (target_has(w->in->design->target, FEATURE_STMATRIX))
        share_sums(w, sums);
    else
        share_words(w, sums);
    gx_barrier(w->k);
    LLVMValueRef item = each_begin(w, &loop, results / lanes);
    emit_scope_begin(w->e);
    write_item(w, item);
    emit_scope_end(w->e);
    gx_loop_end(w->k, &loop, NULL);
}

/* -- the kernel -------------------------------------------------------------------------------- */

static void find_places(Wide *w)
{
    const WidePlan *p = w->p;
    LLVMValueRef block = gx_ctaid(w->k, 0);
    w->thread = gx_tid(w->k, 0);
    w->lane = gx_lane(w->k);
    w->feature_tile = split(w, &block, p->features / w->c->tile[FEATURES]);
    w->row = times(w, split(w, &block, ceil_div(p->result_size[Y], w->c->tile[ROWS])),
                   w->c->tile[ROWS]);
    w->image = block;
    LLVMValueRef group = LLVMBuildLShr(w->b, w->thread, number(w, GROUP_LOG2), "");
    w->group[ROWS] = split(w, &group, w->c->warps[ROWS]);
    w->group[FEATURES] = group;
    w->warp = LLVMBuildAnd(w->b, LLVMBuildLShr(w->b, w->thread, number(w, 5), ""),
                           number(w, 3), "");
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
    w.k = w.e->k;
    w.b = w.k->builder;
    w.k->at = p->inst->name;
    w.k->is_wide = true;
    wide_rooms(in->design, &w.rooms);
    w.sum_count = (uint32_t)w.rooms.columns / 2;
    w.shared = gx_shared_alloc(w.k, w.rooms.bytes, 128);
    find_places(&w);
    write_results(&w, run_loops(&w));
    return emitter_finish(in, w.e);
}
