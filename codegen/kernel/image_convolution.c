/* Convolutions of images with features before positions, on tensor cores: see ir/kernel/kinds/image_convolution.c.
 *
 *   for each so many channels: turn the patch into shared memory
 *     for each tap: wait for its filter; barrier; ask for a later one; multiply
 *   sums through shared memory to the results
 *
 * Features are the instruction's rows and positions its columns, so that neighbouring sums are neighbouring positions. A
 * row of the patch has the channels of a position, a row of the filter those of a feature; in both, pieces of 16 bytes are
 * permuted by the row's number, so that the eight that a matrix is loaded of lie in different banks. */
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/taps.h"
#include "codegen/kernel/threads.h"
#include "ir/base/divide.h"

enum {
    Y,
    X,
    FEATURES = 0,
    POSITIONS = 1,
    PIECE_LOG2 = 4,
    STEP_BYTES = 32,
    MATRIX = 8,      /* rows */
    COLUMNS = 16,    /* positions whose fragments are loaded together */
    NARROW_ROW = 64, /* bytes: two rows have all banks */
    MOST_ROWS = 64,  /* of the instruction, by warp */
    MOST_PAIRS = 64,
    SUMS = 4,         /* of a lane for an instruction */
    OUTSIDE = 1 << 29 /* a row that no image has */
};

/* A lane's part in loading 16 positions: one of their rows. */
typedef struct Column {
    LLVMValueRef y,
        x; /* of the window's first position; behind the image for positions behind the last one */
    LLVMValueRef row; /* of the patch: the window's first position */
} Column;

typedef struct Image {
    const EmitterInput *in;
    const ImagePlan *p;
    const KernelConfig *c;
    ImageStorage storage;
    Kernel *k;
    Emit *e;
    LLVMBuilderRef b;
    uint32_t shared;
    uint32_t taps, steps; /* of the window; of the channels */
    uint32_t rows,
        pairs; /* a warp's instructions: along features; along positions, by two */
    uint32_t sum_count;
    LLVMValueRef lane, thread, feature_tile, position_tile; /* i32 */
    LLVMValueRef warp[2];                                   /* number, by side */
    LLVMValueRef first; /* i32: the first vector of the patch, of all images' */
    Column columns[MOST_PAIRS];
} Image;

static LLVMValueRef low_bits(const Image *m, LLVMValueRef x, int64_t count)
{
    return LLVMBuildAnd(m->b, x, number(m->k, count - 1), "");
}

/* Where the warp's part of the tile begins, by side. */
static LLVMValueRef warp_begin(const Image *m, int side)
{
    return times(m->k, m->warp[side], m->c->tile[side] / m->c->warps[side]);
}

/* The byte at which piece `piece` of a row stands in it. */
static LLVMValueRef piece_offset(const Image *m, LLVMValueRef row, LLVMValueRef piece)
{
    bool is_narrow = m->storage.row_bytes == NARROW_ROW;
    if (is_narrow)
        row = LLVMBuildLShr(m->b, row, number(m->k, 1), "");
    LLVMValueRef at = LLVMBuildXor(
        m->b, piece, low_bits(m, row, m->storage.row_bytes / PIECE_BYTES), "");
    return LLVMBuildShl(m->b, at, number(m->k, PIECE_LOG2), "");
}

/* Positions that a window's neighbour has at the same tap follow each other: those of each remainder by the stride. */
static LLVMValueRef patch_row(const Image *m, LLVMValueRef position)
{
    int64_t stride = m->p->stride;
    if (stride == 1)
        return position;
    LLVMValueRef quotient = position, first = split(m->k, &quotient, stride);
    return add(m->k, quotient,
               times(m->k, first, m->storage.vectors * IMAGE_VECTOR / stride));
}

/* -- the patch --------------------------------------------------------------------------------- */

/* A vector of positions of eight channels: from 8 rows of memory to 8 rows of the patch. */
static void turn_square(const Image *m, LLVMValueRef square, LLVMValueRef channel)
{
    Kernel *k = m->k;
    const ImagePlan *p = m->p;
    int64_t vectors = p->size[Y] * p->size[X] / IMAGE_VECTOR;
    LLVMTypeRef wide = gx_int_type(k, 64);
    LLVMValueRef piece = split(m->k, &square, m->storage.row_bytes / PIECE_BYTES),
                 vector = add(m->k, m->first, square), channels[IMAGE_VECTOR];
    GxIf inside;
    gx_if_begin(
        k, &inside,
        is_below(m->k, vector,
                 p->positions / (p->result_size[Y] * p->result_size[X]) * vectors));
    LLVMValueRef image = vector, at = split(m->k, &image, vectors);
    channel = add(m->k, channel, times(m->k, piece, IMAGE_VECTOR));
    LLVMValueRef row = LLVMBuildZExt(
                     m->b, add(m->k, times(m->k, image, p->channels), channel), wide, ""),
                 from = LLVMBuildMul(m->b, row, gx_i64(k, (uint64_t)vectors), "");
    from = LLVMBuildAdd(m->b, from, LLVMBuildZExt(m->b, at, wide, ""), "");
    from = LLVMBuildShl(m->b, from, gx_i64(k, PIECE_LOG2), "");
    uint32_t arg = m->e->parameter_args[p->inst->operands[0]->parameter];
    for (uint32_t i = 0; i < IMAGE_VECTOR; i++) {
        uint64_t apart = i * (uint64_t)vectors * PIECE_BYTES;
        channels[i] = gx_load(k, arg, LLVMBuildAdd(m->b, from, gx_i64(k, apart), ""),
                              piece_type(k), PIECE_BYTES);
    }
    for (uint32_t i = 0; i < IMAGE_VECTOR; i++) {
        LLVMValueRef value = turned_piece(k, channels, i),
                     position =
                         add(m->k, times(m->k, square, IMAGE_VECTOR), number(m->k, i)),
                     to = patch_row(m, position);
        to = add(m->k, times(m->k, to, m->storage.row_bytes), piece_offset(m, to, piece));
        gx_store(k, GX_SHARED, add(m->k, to, number(m->k, m->shared)), value,
                 PIECE_BYTES);
    }
    gx_if_end(k, &inside, NULL, 0, NULL);
}

static void turn_patch(const Image *m, LLVMValueRef channel)
{
    GxLoop loop;
    int64_t squares = m->storage.vectors * (m->storage.row_bytes / PIECE_BYTES);
    gx_loop_begin(m->k, &loop, m->thread, number(m->k, squares),
                  number(m->k, m->k->block[0]), NULL, 0);
    turn_square(m, loop.index, channel);
    gx_loop_end(m->k, &loop, NULL);
}

/* The row behind the patch, which stands for all positions outside the images. */
static void make_zeros(const Image *m)
{
    GxIf own;
    int64_t row = m->storage.vectors * IMAGE_VECTOR * m->storage.row_bytes;
    gx_if_begin(m->k, &own,
                is_below(m->k, m->thread, m->storage.row_bytes / PIECE_BYTES));
    LLVMValueRef to =
        add(m->k, times(m->k, m->thread, PIECE_BYTES), number(m->k, m->shared + row));
    gx_store(m->k, GX_SHARED, to, LLVMConstNull(piece_type(m->k)), PIECE_BYTES);
    gx_if_end(m->k, &own, NULL, 0, NULL);
}

/* -- filters ----------------------------------------------------------------------------------- */

/* Asks for the filter of step `step`, a tap of some channels, into the stage at `stage`. */
static void ask_filter(const void *of, LLVMValueRef step, LLVMValueRef stage)
{
    const Image *m = of;
    const ImagePlan *p = m->p;
    GxLoop loop;
    int64_t across = m->storage.row_bytes / PIECE_BYTES,
            pieces = m->c->tile[FEATURES] * across;
    uint32_t arg = m->e->parameter_args[p->inst->operands[1]->parameter];
    LLVMValueRef part = step, tap = split(m->k, &part, m->taps);
    LLVMValueRef begin =
        add(m->k, times(m->k, tap, p->channels), times(m->k, part, m->c->depth));
    gx_loop_begin(m->k, &loop, m->thread, number(m->k, pieces),
                  number(m->k, m->k->block[0]), NULL, 0);
    LLVMValueRef row = loop.index, piece = split(m->k, &row, across);
    LLVMValueRef feature =
        add(m->k, times(m->k, m->feature_tile, m->c->tile[FEATURES]), row);
    LLVMValueRef from = add(m->k, begin, times(m->k, piece, IMAGE_VECTOR));
    LLVMTypeRef wide = gx_int_type(m->k, 64);
    from = LLVMBuildAdd(m->b, LLVMBuildZExt(m->b, from, wide, ""),
                        LLVMBuildMul(m->b, LLVMBuildZExt(m->b, feature, wide, ""),
                                     gx_i64(m->k, (uint64_t)(p->channels * m->taps)), ""),
                        "");
    LLVMValueRef to =
        add(m->k, times(m->k, row, m->storage.row_bytes), piece_offset(m, row, piece));
    gx_copy_async(m->k, arg, LLVMBuildShl(m->b, from, gx_i64(m->k, 1), ""),
                  add(m->k, stage, to), PIECE_BYTES, NULL);
    gx_loop_end(m->k, &loop, NULL);
}

/* -- multiplying ------------------------------------------------------------------------------- */

/* The lane's row among the positions of `pair`. */
static Column find_column(const Image *m, uint32_t pair)
{
    const ImagePlan *p = m->p;
    LLVMValueRef half = LLVMBuildLShr(m->b, m->lane, number(m->k, 4), "");
    LLVMValueRef own = add(m->k, low_bits(m, m->lane, MATRIX), times(m->k, half, MATRIX));
    LLVMValueRef position =
        add(m->k, times(m->k, m->position_tile, m->c->tile[POSITIONS]), own);
    position = add(m->k, position, warp_begin(m, POSITIONS));
    position = add(m->k, position, number(m->k, pair * COLUMNS));
    LLVMValueRef is_there = is_below(m->k, position, p->positions), row = position,
                 x = split(m->k, &row, p->result_size[X]), y = row,
                 all = times(m->k, add(m->k, times(m->k, row, p->size[X]), x), p->stride);
    y = split(m->k, &y, p->result_size[Y]);
    Column c = {.y = LLVMBuildSub(m->b, times(m->k, y, p->stride),
                                  number(m->k, p->before[Y]), ""),
                .x = LLVMBuildSub(m->b, times(m->k, x, p->stride),
                                  number(m->k, p->before[X]), "")};
    c.y = LLVMBuildSelect(m->b, is_there, c.y, number(m->k, OUTSIDE), "");
    LLVMValueRef first = times(m->k, m->first, IMAGE_VECTOR);
    c.row =
        LLVMBuildSub(m->b, LLVMBuildSub(m->b, all, number(m->k, p->near), ""), first, "");
    return c;
}

typedef struct Tap {
    LLVMValueRef y, x,
        apart; /* in the window; rows of the patch from its first position */
} Tap;

/* Where the lane's row of a pair of columns lies, and which piece of it is the first. */
static void find_row(const Image *m, const Column *c, const Tap *t, LLVMValueRef *row,
                     LLVMValueRef *piece)
{
    const ImagePlan *p = m->p;
    LLVMValueRef is_inside =
        LLVMBuildAnd(m->b, is_below(m->k, add(m->k, c->y, t->y), p->size[Y]),
                     is_below(m->k, add(m->k, c->x, t->x), p->size[X]), "");
    LLVMValueRef at = patch_row(m, add(m->k, c->row, t->apart)),
                 zeros = number(m->k, m->storage.vectors * IMAGE_VECTOR);
    at = LLVMBuildSelect(m->b, is_inside, at, zeros, "");
    LLVMValueRef half = low_bits(m, LLVMBuildLShr(m->b, m->lane, number(m->k, 3), ""), 2);
    *row = add(m->k, times(m->k, at, m->storage.row_bytes), number(m->k, m->shared));
    *piece = piece_offset(m, at, half);
}

/* Fragments of one step of the instruction, of a row and the offset of its first piece. */
static void load_fragments(const Image *m, LLVMValueRef row, LLVMValueRef piece,
                           uint32_t step, LLVMValueRef *out)
{
    LLVMValueRef at = LLVMBuildXor(m->b, piece, number(m->k, step * STEP_BYTES), "");
    gx_ldmatrix(m->k, add(m->k, row, at), 4, false, out);
}

static void multiply_tap(const void *of, LLVMValueRef tap, LLVMValueRef stage,
                         LLVMValueRef *sums)
{
    const Image *m = of;
    LLVMValueRef y = tap, x = split(m->k, &y, m->p->window[X]);
    Tap t = {.y = y, .x = x, .apart = add(m->k, times(m->k, y, m->p->size[X]), x)};
    LLVMValueRef rows[MOST_PAIRS], pieces[MOST_PAIRS], a[MOST_ROWS][PIECE_WORDS],
        b[MOST_PAIRS][PIECE_WORDS];
    for (uint32_t i = 0; i < m->pairs; i++)
        find_row(m, &m->columns[i], &t, &rows[i], &pieces[i]);
    /* of the filter: the lane's row, and the upper half of the channels for the upper half of the lanes */
    LLVMValueRef own = low_bits(m, m->lane, 2 * MATRIX),
                 half = LLVMBuildLShr(m->b, m->lane, number(m->k, 4), "");
    own = add(m->k, own, warp_begin(m, FEATURES));
    LLVMValueRef filter = add(m->k, stage, times(m->k, own, m->storage.row_bytes)),
                 filter_piece = piece_offset(m, own, half);
    for (uint32_t step = 0; step * TAPS_STEP < m->c->depth; step++) {
        for (uint32_t i = 0; i < m->rows; i++) {
            int64_t below = i * 2 * MATRIX * m->storage.row_bytes;
            load_fragments(m, add(m->k, filter, number(m->k, below)), filter_piece, step,
                           a[i]);
        }
        for (uint32_t i = 0; i < m->pairs; i++)
            load_fragments(m, rows[i], pieces[i], step, b[i]);
        for (uint32_t i = 0; i < m->rows; i++) {
            for (uint32_t j = 0; j < 2 * m->pairs; j++) {
                LLVMValueRef *c = &sums[(i * 2 * m->pairs + j) * SUMS];
                gx_mma(m->k, m->p->core, a[i], &b[j / 2][j % 2 * 2], c, c);
            }
        }
    }
}

/* -- the loops --------------------------------------------------------------------------------- */

static void fill_patch(const void *of, LLVMValueRef step)
{
    const Image *m = of;
    if (m->steps > 1)
        gx_barrier(m->k);
    turn_patch(m, times(m->k, step, m->c->depth));
}

static LLVMValueRef *run_loops(const Image *m)
{
    TapLoops loops = {.k = m->k,
                      .of = m,
                      .filters = m->shared + (uint32_t)m->storage.patch_bytes,
                      .stage_bytes = (uint32_t)m->storage.stage_bytes,
                      .stages = (uint32_t)m->c->stages,
                      .taps = m->taps,
                      .steps = m->steps,
                      .sum_count = m->sum_count,
                      .fill = fill_patch,
                      .ask = ask_filter,
                      .multiply = multiply_tap};
    make_zeros(m);
    return tap_loops_emit(&loops);
}

/* -- results ----------------------------------------------------------------------------------- */

/* The tile of sums lies where patch and filters did: features, with a vector more than they have positions. */
static void share_sums(const Image *m, LLVMValueRef *sums)
{
    DType t = m->p->inst->shape->dtype;
    LLVMTypeRef pair = LLVMVectorType(emit_type(m->k, t), 2);
    int64_t bytes = dtype_info[t].bits / 8;
    LLVMValueRef column = low_bits(m, m->lane, 4), row = m->lane;
    split(m->k, &row, 4);
    row = add(m->k, row, warp_begin(m, FEATURES));
    column = add(m->k, times(m->k, column, 2), warp_begin(m, POSITIONS));
    LLVMValueRef to = add(m->k, times(m->k, row, m->storage.sum_stride), column);
    to = add(m->k, times(m->k, to, bytes), number(m->k, m->shared));
    for (uint32_t i = 0; i < m->sum_count; i += 2) {
        uint32_t of = i / SUMS, upper = i % SUMS / 2;
        int64_t below = of / (2 * m->pairs) * 2 * MATRIX + upper * MATRIX,
                along = of % (2 * m->pairs) * MATRIX;
        LLVMValueRef both = LLVMGetUndef(pair);
        for (uint32_t j = 0; j < 2; j++) {
            LLVMValueRef v = scalar_convert_value(m->k, sums[i + j], DT_F32, t);
            both = LLVMBuildInsertElement(m->b, both, v, number(m->k, j), "");
        }
        int64_t offset = (below * m->storage.sum_stride + along) * bytes;
        gx_store(m->k, GX_SHARED, add(m->k, to, number(m->k, offset)), both,
                 (unsigned)(2 * bytes));
    }
}

/* A vector of positions of a feature: number `item` of the tile. */
static void write_vector(const Image *m, LLVMValueRef item)
{
    Emit *e = m->e;
    const ImagePlan *p = m->p;
    const Shape *s = p->inst->shape;
    int64_t across = m->c->tile[POSITIONS] / IMAGE_VECTOR,
            plane = s->dims[2] * s->dims[3];
    unsigned bytes = dtype_info[s->dtype].bits / 8;
    LLVMValueRef row = item, column = split(m->k, &row, across), values[IMAGE_VECTOR];
    LLVMValueRef at = add(m->k, times(m->k, row, m->storage.sum_stride),
                          times(m->k, column, IMAGE_VECTOR));
    at = add(m->k, times(m->k, at, bytes), number(m->k, m->shared));
    LLVMTypeRef type = LLVMVectorType(emit_type(m->k, s->dtype), IMAGE_VECTOR);
    LLVMValueRef vector = add(m->k, times(m->k, m->position_tile, across), column),
                 feature =
                     add(m->k, times(m->k, m->feature_tile, m->c->tile[FEATURES]), row);
    GxIf inside;
    emit_if_begin(e, &inside, is_below(m->k, vector, p->positions / IMAGE_VECTOR));
    LLVMValueRef sums = gx_load(m->k, GX_SHARED, at, type, PIECE_BYTES);
    for (uint32_t i = 0; i < IMAGE_VECTOR; i++)
        values[i] = LLVMBuildExtractElement(m->b, sums, number(m->k, i), "");
    const IndexExpr *index[EMIT_MOST_RANK],
        *v = emit_variable(e, to_index(e, vector),
                           (Range){0, p->positions / IMAGE_VECTOR - 1}),
        *f = emit_variable(e, to_index(e, feature), (Range){0, p->features - 1}),
        *image = ix_floordiv(e->ix, v, plane / IMAGE_VECTOR);
    v = ix_mul(e->ix, ix_mod(e->ix, v, plane / IMAGE_VECTOR), IMAGE_VECTOR);
    e->lanes = IMAGE_VECTOR;
    emit_preset_lanes(e, p->inst, values);
    f = ix_add(e->ix, ix_mul(e->ix, image, p->features), f);
    v = ix_add(e->ix, ix_add(e->ix, ix_mul(e->ix, f, plane), v), emit_lane(e));
    emit_delinear(e, s, v, index);
    for (uint32_t i = 0; i < fusion_result_count(m->in->fusion); i++)
        emit_result(e, m->in->fusion, i, index);
    e->lanes = 1;
    emit_if_end(e, &inside, NULL, 0, NULL);
}

static void write_results(const Image *m, LLVMValueRef *sums)
{
    GxLoop loop;
    gx_barrier(m->k);
    share_sums(m, sums);
    gx_barrier(m->k);
    int64_t items = m->c->tile[FEATURES] * m->c->tile[POSITIONS] / IMAGE_VECTOR;
    gx_loop_begin(m->k, &loop, m->thread, number(m->k, items),
                  number(m->k, m->k->block[0]), NULL, 0);
    emit_scope_begin(m->e);
    write_vector(m, loop.index);
    emit_scope_end(m->e);
    gx_loop_end(m->k, &loop, NULL);
}

/* -- the kernel -------------------------------------------------------------------------------- */

/* The first position that the block's windows read, whole vectors from the first image on; less than 0: before it. */
static LLVMValueRef first_vector(const Image *m)
{
    const ImagePlan *p = m->p;
    LLVMValueRef row = times(m->k, m->position_tile, m->c->tile[POSITIONS]),
                 x = split(m->k, &row, p->result_size[X]);
    LLVMValueRef position =
        times(m->k, add(m->k, times(m->k, row, p->size[X]), x), p->stride);
    position = LLVMBuildSub(m->b, position, number(m->k, p->near), "");
    return LLVMBuildAShr(m->b, position, number(m->k, 3), "");
}

static void find_positions(Image *m)
{
    LLVMValueRef block = gx_ctaid(m->k, 0), warp;
    m->thread = gx_tid(m->k, 0);
    m->lane = gx_lane(m->k);
    m->feature_tile = split(m->k, &block, m->p->features / m->c->tile[FEATURES]);
    m->position_tile = block;
    warp = LLVMBuildLShr(m->b, m->thread, number(m->k, 5), "");
    m->warp[POSITIONS] = split(m->k, &warp, m->c->warps[POSITIONS]);
    m->warp[FEATURES] = warp;
    m->first = first_vector(m);
    for (uint32_t i = 0; i < m->pairs; i++)
        m->columns[i] = find_column(m, i);
}

Kernel *emitter_image_convolution(const EmitterInput *in)
{
    const ImagePlan *p = in->design->plan.image;
    const KernelConfig *c = &in->design->config;
    Image m = {.in = in,
               .p = p,
               .c = c,
               .e = emitter_begin(in),
               .taps = (uint32_t)(p->window[Y] * p->window[X]),
               .steps = (uint32_t)(p->channels / c->depth),
               .rows = (uint32_t)(c->tile[FEATURES] / c->warps[FEATURES] / (2 * MATRIX)),
               .pairs = (uint32_t)(c->tile[POSITIONS] / c->warps[POSITIONS] / COLUMNS)};
    m.k = m.e->k;
    m.b = m.k->builder;
    m.k->at = p->inst->name;
    m.k->is_wide = true;
    m.sum_count = m.rows * 2 * m.pairs * SUMS;
    image_storage(in->design, &m.storage);
    m.shared = gx_shared_alloc(m.k, m.storage.bytes, 128);
    find_positions(&m);
    write_results(&m, run_loops(&m));
    return emitter_finish(in, m.e);
}
