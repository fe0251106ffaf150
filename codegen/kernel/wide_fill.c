/* The patch of wide_convolution, one of whole steps of channels: see ir/kernel/kinds/wide_convolution.c.
 *
 * For warps that load it themselves, and for tcgen05, a thread asks for one piece of a position after the other. What wgmma
 * reads passes through registers (wide_by_registers): matrices of eight positions have the pieces of one position far
 * apart, each of which would be a request of cp.async, while a load asks for the 128 bytes of 64 channels at once. Loads of
 * many pieces stand together, without a branch between them: one that stands in a branch of its own is waited for there.
 * Images whose channels are planes are turned on the way. */
#include "codegen/kernel/wide.h"

#include <string.h>

#include "ir/base/divide.h"

/* -- positions ---------------------------------------------------------------------------------- */

/* The image's row or column of row or column `at` of the plane with remainder `rest`. */
static LLVMValueRef image_position(const Wide *w, LLVMValueRef at, LLVMValueRef rest,
                                   int side)
{
    LLVMValueRef x = add(w->k, times(w->k, at, w->p->stride), rest);
    return LLVMBuildSub(w->b, x, number(w->k, w->p->before[side]), "");
}

/* The image's row that row `at` of the patch's plane with remainder `rest` is; false: there is no such image. By
 * positions the planes of all images lie one below the other. */
static LLVMValueRef image_row(const Wide *w, LLVMValueRef at, LLVMValueRef rest,
                              LLVMValueRef *image, LLVMValueRef *inside)
{
    LLVMValueRef row = add(w->k, w->row, at);
    *image = w->image;
    if (w->c->by_positions) {
        *image = row;
        row = split(w->k, image, w->storage.image_rows);
    }
    LLVMValueRef y = image_position(w, row, rest, Y);
    *inside = is_below(w->k, y, w->p->size[Y]);
    if (w->c->by_positions)
        *inside = LLVMBuildAnd(w->b, *inside, is_below(w->k, *image, w->p->images), "");
    return y;
}

/* Positions of a plane that are left out before a row of this image. */
static LLVMValueRef image_begin(const Wide *w, LLVMValueRef image)
{
    int64_t apart = w->c->by_positions ? w->storage.image_apart : 0;
    return apart == 0 ? number(w->k, 0) : wide_positions_apart(w, image);
}

/* Each thread takes one of so many pieces of each row of the patch after the other. */
static LLVMValueRef each_of_rows(const Wide *w, GxLoop *loop, int64_t rows, int64_t each)
{
    if (!w->c->by_positions)
        return each_begin(w, loop, rows * each);
    gx_loop_begin(w->k, loop, w->thread, times(w->k, w->row_count, each),
                  number(w->k, w->k->block[0]), NULL, 0);
    return loop->index;
}

/* -- asked for ------------------------------------------------------------------------------------ */

/* A position of the patch: where it stands, which it is. */
typedef struct PatchPosition {
    LLVMValueRef at, row, column, rest_y, rest_x;
} PatchPosition;

/* By positions what no window reaches is left out: rows, and columns between rows. */
static PatchPosition patch_position(const Wide *w, LLVMValueRef item)
{
    int64_t s = w->p->stride;
    PatchPosition x = {.at = item};
    LLVMValueRef plane = item;
    if (w->c->by_positions) {
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

/* Features are last: a position's channels lie as the patch has them. */
static void ask_patch(const Wide *w, LLVMValueRef channel)
{
    const WidePlan *p = w->p;
    GxLoop loop;
    int64_t s = p->stride, pieces = w->c->depth / WARPGROUP_PIECE,
            of_row =
                w->c->by_positions ? s * s * w->storage.width : s * s * w->storage.plane;
    LLVMValueRef item = each_of_rows(w, &loop, 1, of_row * pieces),
                 piece = split(w->k, &item, pieces), image, inside;
    PatchPosition position = patch_position(w, item);
    LLVMValueRef y = image_row(w, position.row, position.rest_y, &image, &inside),
                 at = add(w->k, position.at, image_begin(w, image)),
                 x = image_position(w, position.column, position.rest_x, X);
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

/* -- through registers -------------------------------------------------------------------------- */

/* Rows of the image that windows reach, of a plane with remainder `rest`. */
static int64_t reached_rows(const Wide *w, int64_t rest)
{
    return ceil_div(wide_reached_rows(w->p, w->c) - rest, w->p->stride);
}

/* What a thread loads of the rows of a plane: pieces of the same channels, of every `abreast`-th column. */
typedef struct Columns {
    const Wide *w;
    int64_t pieces, abreast, across,
        each;                   /* of a position; columns of a row, a thread's */
    LLVMValueRef piece, column; /* its first */
    LLVMValueRef is_one;        /* it has any; NULL: all threads do */
    LLVMValueRef
        from; /* i64: the number in the image of its first one in row 0 of the plane with remainder 0 */
    LLVMValueRef position; /* of the patch: the first one's */
} Columns;

static LLVMValueRef sign_extended(const Wide *w, LLVMValueRef x)
{
    return LLVMBuildSExt(w->b, x, gx_int_type(w->k, 64), "");
}

/* x * n + y, all of 64 bits. */
static LLVMValueRef scaled(const Wide *w, LLVMValueRef x, int64_t n, LLVMValueRef y)
{
    return LLVMBuildAdd(w->b, LLVMBuildMul(w->b, x, gx_i64(w->k, (uint64_t)n), ""), y,
                        "");
}

static Columns columns_of(const Wide *w, LLVMValueRef channel)
{
    const WidePlan *p = w->p;
    int64_t s = p->stride, threads = w->k->block[0];
    Columns c = {.w = w,
                 .pieces = w->c->depth / WARPGROUP_PIECE,
                 .across = s * w->storage.pitch,
                 .column = w->thread};
    c.abreast = threads / c.pieces / s * s;
    c.each = ceil_div(c.across, c.abreast);
    if (c.abreast * c.pieces != threads)
        c.is_one = is_below(w->k, w->thread, c.abreast * c.pieces);
    c.piece = split(w->k, &c.column, c.pieces);
    LLVMValueRef none = number(w->k, 0), x = image_position(w, none, c.column, X),
                 y = image_position(w, w->row, none, Y),
                 first = add(w->k, channel, times(w->k, c.piece, WARPGROUP_PIECE));
    c.from = scaled(w, widened(w, w->image), p->size[Y], sign_extended(w, y));
    c.from = scaled(w, c.from, p->size[X], sign_extended(w, x));
    c.from = scaled(w, c.from, p->channels, widened(w, first));
    LLVMValueRef at = c.column, rest = split(w->k, &at, s);
    c.position = add(w->k, times(w->k, rest, w->storage.plane), at);
    return c;
}

/* One of the pieces that a thread has of a plane with remainder `rest`. */
typedef struct Piece {
    int64_t rest, row, column; /* so many columns behind its first one */
} Piece;

static Piece piece_of(const Columns *c, int64_t rest, int64_t i)
{
    return (Piece){rest, i / c->each, i % c->each * c->abreast};
}

/* Zeros where there is no image. */
static LLVMValueRef load_piece(const Wide *w, LLVMValueRef inside, LLVMValueRef from)
{
    from = LLVMBuildSelect(w->b, inside, byte_of(w, from), gx_i64(w->k, 0), "");
    LLVMValueRef x =
        gx_load(w->k, wide_argument(w, 0), from, piece_type(w->k), PIECE_BYTES);
    return LLVMBuildSelect(w->b, inside, x, LLVMConstNull(piece_type(w->k)), "");
}

static LLVMValueRef load_of_plane(const Columns *c, Piece at)
{
    const Wide *w = c->w;
    const WidePlan *p = w->p;
    int64_t row = at.row * p->stride + at.rest,
            apart = (row * p->size[X] + at.column) * p->channels;
    LLVMValueRef y = image_position(w, w->row, number(w->k, row), Y),
                 x = add(w->k, c->column, number(w->k, at.column - p->before[X]));
    LLVMValueRef inside = LLVMBuildAnd(w->b, is_below(w->k, y, p->size[Y]),
                                       is_below(w->k, x, p->size[X]), ""),
                 from = LLVMBuildAdd(w->b, c->from, gx_i64(w->k, (uint64_t)apart), "");
    return load_piece(w, inside, from);
}

/* `there`: NULL: all threads have one. */
static void store_piece(const Wide *w, LLVMValueRef there, LLVMValueRef position,
                        LLVMValueRef piece, LLVMValueRef value)
{
    GxIf is_there;
    if (there != NULL)
        gx_if_begin(w->k, &is_there, there);
    gx_store(w->k, GX_SHARED, patch_offset(w, position, piece), value, PIECE_BYTES);
    if (there != NULL)
        gx_if_end(w->k, &is_there, NULL, 0, NULL);
}

/* Both; NULL: all. */
static LLVMValueRef both(const Wide *w, LLVMValueRef x, LLVMValueRef y)
{
    if (x == NULL || y == NULL)
        return x == NULL ? y : x;
    return LLVMBuildAnd(w->b, x, y, "");
}

static void store_of_plane(const Columns *c, Piece at, LLVMValueRef value)
{
    const Wide *w = c->w;
    int64_t s = w->p->stride, apart = at.rest * s * w->storage.plane +
                                      at.row * w->storage.pitch + at.column / s;
    LLVMValueRef is_column = at.column + c->abreast <= c->across
                                 ? NULL
                                 : is_below(w->k, c->column, c->across - at.column);
    store_piece(w, both(w, c->is_one, is_column),
                add(w->k, c->position, number(w->k, apart)), c->piece, value);
}

/* As many at once as there are registers for; the assembler may load more where it has them. */
static void fill_plane(const Columns *c, int64_t rest)
{
    const Wide *w = c->w;
    int64_t all = reached_rows(w, rest) * c->each, most = wide_at_once(w->p, w->c);
    LLVMValueRef values[WIDE_AT_ONCE];
    for (int64_t i = 0; i < all; i += most) {
        int64_t count = all - i < most ? all - i : most;
        for (int64_t j = 0; j < count; j++)
            values[j] = load_of_plane(c, piece_of(c, rest, i + j));
        for (int64_t j = 0; j < count; j++)
            store_of_plane(c, piece_of(c, rest, i + j), values[j]);
    }
}

/* Features are last: threads that follow each other load the channels of a position, and then of the next one. */
static void fill_rows(const Wide *w, LLVMValueRef channel)
{
    Columns c = columns_of(w, channel);
    for (int64_t rest = 0; rest < w->p->stride; rest++)
        fill_plane(&c, rest);
}

/* -- turned ------------------------------------------------------------------------------------- */

/* Eight positions of eight channels. */
typedef struct Vector {
    LLVMValueRef there; /* NULL: all threads have one */
    LLVMValueRef number, piece, begin;
    LLVMValueRef channels[WARPGROUP_PIECE];
} Vector;

/* Its positions begin at column 8 `number` of the image, whose row begins at position `begin` of the patch. */
static void store_turned(const Wide *w, const Vector *v)
{
    const WidePlan *p = w->p;
    int64_t s = p->stride;
    LLVMValueRef first = times(w->k, v->number, WARPGROUP_PIECE / s),
                 begin = add(w->k, v->begin, first);
    for (uint32_t i = 0; i < WARPGROUP_PIECE; i++) {
        int64_t x = i + p->before[X], along = x % s * w->storage.plane + x / s;
        LLVMValueRef position = add(w->k, begin, number(w->k, along)),
                     column = add(w->k, first, number(w->k, x / s)),
                     in_window = is_below(w->k, column, w->storage.pitch);
        store_piece(w, both(w, v->there, in_window), position, v->piece,
                    turned_piece(w->k, v->channels, i));
    }
}

static int64_t vectors_of_row(const Wide *w)
{
    return w->p->size[X] / WARPGROUP_PIECE * (w->c->depth / WARPGROUP_PIECE) *
           w->p->stride;
}

/* Eight channels of row y of an image, from `channel` and the vector's piece on: eight positions of each. */
static void load_channels(const Wide *w, Vector *v, LLVMValueRef image,
                          LLVMValueRef channel, LLVMValueRef y, LLVMValueRef inside)
{
    const WidePlan *p = w->p;
    LLVMValueRef first = add(w->k, channel, times(w->k, v->piece, WARPGROUP_PIECE)),
                 from = wide_sum(w, widened(w, image), p->channels, first);
    from = wide_sum(w, from, p->size[Y], y);
    from = wide_sum(w, from, p->size[X], times(w->k, v->number, WARPGROUP_PIECE));
    for (uint32_t i = 0; i < WARPGROUP_PIECE; i++) {
        uint64_t apart = i * (uint64_t)(p->size[Y] * p->size[X]);
        v->channels[i] =
            load_piece(w, inside, LLVMBuildAdd(w->b, from, gx_i64(w->k, apart), ""));
    }
}

/* Threads that follow each other store all channels of the same position in each plane (plane_positions in
 * ir/kernel/kinds/wide_convolution.c); where those fill the banks, of neighbouring vectors, which lie together in the
 * image. */
static void load_vector(const Wide *w, LLVMValueRef channel, LLVMValueRef at, Vector *v)
{
    const WidePlan *p = w->p;
    int64_t pieces = w->c->depth / WARPGROUP_PIECE,
            vectors = p->size[X] / WARPGROUP_PIECE, s = p->stride;
    bool is_full = pieces >= WARPGROUP_PIECE;
    v->piece = split(w->k, &at, pieces);
    LLVMValueRef inner = split(w->k, &at, is_full ? vectors : s),
                 outer = split(w->k, &at, is_full ? s : vectors),
                 rest = is_full ? outer : inner, image, inside;
    v->number = is_full ? inner : outer;
    LLVMValueRef y = image_row(w, at, rest, &image, &inside);
    inside = both(w, inside, v->there);
    load_channels(w, v, image, channel, y, inside);
    v->begin = add(w->k, times(w->k, rest, s * w->storage.plane),
                   add(w->k, times(w->k, at, w->storage.pitch), image_begin(w, image)));
}

/* Features are first: vectors of eight positions of eight channels are turned on the way. */
static void turn_patch(const Wide *w, LLVMValueRef channel)
{
    Vector v = {.there = NULL};
    GxLoop loop;
    LLVMValueRef at = each_of_rows(w, &loop, w->storage.rows, vectors_of_row(w));
    load_vector(w, channel, at, &v);
    store_turned(w, &v);
    gx_loop_end(w->k, &loop, NULL);
}

/* -- turned through registers --------------------------------------------------------------------- */

/* Threads that follow each other load vectors that do, whole lines of a channel. These begin in the same bank, or in two: so
 * a thread begins with the position that its own bank is due. Of a vector the positions in order of their banks: those of a
 * plane with remainder 0, and then those of the other one, which begins half of all banks further on
 * (plane_positions in ir/kernel/kinds/wide_convolution.c). */
static uint32_t position_of_bank(const WidePlan *p, uint32_t bank)
{
    enum { HALF = WARPGROUP_PIECE / 2 };
    uint32_t odd = (uint32_t)(p->before[X] % 2);
    if (p->stride == 1)
        return bank;
    return bank < HALF ? 2 * bank + odd : 2 * (bank - HALF) + 1 - odd;
}

/* Pieces by banks from bank `first` (i32) on. */
static void rotate(const Wide *w, LLVMValueRef first, LLVMValueRef *pieces)
{
    LLVMValueRef before[WARPGROUP_PIECE];
    for (uint32_t by = 1; by < WARPGROUP_PIECE; by *= 2) {
        LLVMValueRef bit = LLVMBuildAnd(w->b, first, number(w->k, by), ""),
                     moves = LLVMBuildICmp(w->b, LLVMIntNE, bit, number(w->k, 0), "");
        memcpy(before, pieces, sizeof before);
        for (uint32_t i = 0; i < WARPGROUP_PIECE; i++)
            pieces[i] = LLVMBuildSelect(w->b, moves, before[(i + by) % WARPGROUP_PIECE],
                                        before[i], "");
    }
}

/* Where a vector goes. */
typedef struct Turned {
    Vector of;
    LLVMValueRef column; /* of its plane: the first position's, if there is no padding */
} Turned;

static LLVMValueRef low_bits(const Wide *w, LLVMValueRef x, int64_t n)
{
    return LLVMBuildAnd(w->b, x, number(w->k, n - 1), "");
}

static void load_turned(const Wide *w, LLVMValueRef channel, LLVMValueRef at, Turned *t)
{
    const WidePlan *p = w->p;
    int64_t s = p->stride, vectors = p->size[X] / WARPGROUP_PIECE;
    Vector *v = &t->of;
    v->number = split(w->k, &at, vectors);
    LLVMValueRef row = split(w->k, &at, wide_reached_rows(p, w->c)),
                 y = LLVMBuildSub(w->b, add(w->k, times(w->k, w->row, s), row),
                                  number(w->k, p->before[Y]), "");
    v->piece = at;
    load_channels(w, v, w->image, channel, y,
                  both(w, is_below(w->k, y, p->size[Y]), v->there));
    LLVMValueRef rest = split(w->k, &row, s);
    t->column = times(w->k, v->number, WARPGROUP_PIECE / s);
    v->begin = add(w->k, times(w->k, rest, s * w->storage.plane),
                   add(w->k, times(w->k, row, w->storage.pitch), t->column));
}

static void store_by_banks(const Wide *w, const Turned *t)
{
    const WidePlan *p = w->p;
    int64_t s = p->stride, before = ceil_div(p->before[X], s), half = WARPGROUP_PIECE / s,
            other = p->before[X] / s - before; /* of the other plane */
    const Vector *v = &t->of;
    LLVMValueRef pieces[WARPGROUP_PIECE], none = number(w->k, 0);
    for (uint32_t i = 0; i < WARPGROUP_PIECE; i++)
        pieces[i] = turned_piece(w->k, v->channels, position_of_bank(p, i));
    LLVMValueRef begin = add(w->k, v->begin, number(w->k, before)),
                 bank = add(w->k, times(w->k, v->piece, w->storage.chunk), begin),
                 first =
                     low_bits(w, LLVMBuildSub(w->b, w->lane, bank, ""), WARPGROUP_PIECE);
    rotate(w, first, pieces);
    for (uint32_t i = 0; i < WARPGROUP_PIECE; i++) {
        LLVMValueRef at = low_bits(w, add(w->k, first, number(w->k, i)), WARPGROUP_PIECE),
                     in = low_bits(w, at, half),
                     is_other = LLVMBuildICmp(w->b, LLVMIntNE, at, in, ""),
                     more =
                         LLVMBuildSelect(w->b, is_other, number(w->k, other), none, ""),
                     plane = LLVMBuildSelect(w->b, is_other,
                                             number(w->k, w->storage.plane), none, "");
        in = add(w->k, in, more);
        LLVMValueRef column = add(w->k, add(w->k, t->column, number(w->k, before)), in),
                     in_window = is_below(w->k, column, w->storage.pitch);
        store_piece(w, both(w, v->there, in_window),
                    add(w->k, add(w->k, begin, plane), in), v->piece, pieces[i]);
    }
}

static void turn_rows(const Wide *w, LLVMValueRef channel)
{
    enum { MOST = WIDE_AT_ONCE / WARPGROUP_PIECE };
    const WidePlan *p = w->p;
    Turned t[MOST];
    GxLoop loop;
    int64_t threads = w->k->block[0], count = wide_at_once(p, w->c) / WARPGROUP_PIECE,
            all = wide_turned_vectors(p, w->c);
    while (count > 1 && (count - 1) * threads >= all)
        count--;
    gx_loop_begin(w->k, &loop, w->thread, number(w->k, all),
                  number(w->k, count * threads), NULL, 0);
    for (int64_t i = 0; i < count; i++) {
        LLVMValueRef at = add(w->k, loop.index, number(w->k, i * threads));
        t[i].of.there = i == 0 ? NULL : is_below(w->k, at, all);
        load_turned(w, channel, at, &t[i]);
    }
    for (int64_t i = 0; i < count; i++)
        store_by_banks(w, &t[i]);
    gx_loop_end(w->k, &loop, NULL);
}

/* -- zeros -------------------------------------------------------------------------------------- */

static void make_zeros(const Wide *w)
{
    GxLoop loop;
    LLVMValueRef at = each_begin(w, &loop, (int64_t)w->storage.patch_bytes / PIECE_BYTES);
    gx_store(w->k, GX_SHARED,
             add(w->k, times(w->k, at, PIECE_BYTES), number(w->k, w->shared)),
             LLVMConstNull(piece_type(w->k)), PIECE_BYTES);
    gx_loop_end(w->k, &loop, NULL);
}

/* Behind the rows of each plane, which columns that no result has read. */
static void zero_tails(const Wide *w)
{
    GxLoop loop;
    int64_t s = w->p->stride, pieces = w->c->depth / WARPGROUP_PIECE,
            rows = reached_rows(w, s - 1), pitch = w->storage.pitch,
            behind = w->storage.plane - rows * pitch, more = reached_rows(w, 0) - rows;
    LLVMValueRef plane = each_begin(w, &loop, s * s * behind * pieces),
                 piece = split(w->k, &plane, pieces), at = split(w->k, &plane, behind),
                 position = add(w->k, times(w->k, plane, w->storage.plane),
                                add(w->k, at, number(w->k, rows * pitch)));
    LLVMValueRef there = NULL;
    if (more != 0) { /* the first planes have a row more */
        int64_t last = (wide_reached_rows(w->p, w->c) - 1) % s;
        LLVMValueRef is_written = both(w, is_below(w->k, plane, (last + 1) * s),
                                       is_below(w->k, at, more * pitch));
        there = LLVMBuildNot(w->b, is_written, "");
    }
    store_piece(w, there, position, piece, LLVMConstNull(piece_type(w->k)));
    gx_loop_end(w->k, &loop, NULL);
}

/* Beside the image's columns, where rows are turned. */
static void zero_sides(const Wide *w)
{
    GxLoop loop;
    int64_t s = w->p->stride, pieces = w->c->depth / WARPGROUP_PIECE,
            across = s * w->storage.pitch,
            before = w->p->before[X] < across ? w->p->before[X] : across,
            behind = across - before - w->p->size[X],
            sides = before + (behind > 0 ? behind : 0);
    if (sides == 0)
        return;
    LLVMValueRef row =
                     each_begin(w, &loop, wide_reached_rows(w->p, w->c) * sides * pieces),
                 piece = split(w->k, &row, pieces), x = split(w->k, &row, sides),
                 rest_y = split(w->k, &row, s);
    LLVMValueRef right = add(w->k, x, number(w->k, w->p->size[X]));
    x = LLVMBuildSelect(w->b, is_below(w->k, x, before), x, right, "");
    LLVMValueRef rest_x = split(w->k, &x, s),
                 plane = add(w->k, times(w->k, rest_y, s), rest_x),
                 position = add(w->k, times(w->k, plane, w->storage.plane),
                                add(w->k, times(w->k, row, w->storage.pitch), x));
    store_piece(w, NULL, position, piece, LLVMConstNull(piece_type(w->k)));
    gx_loop_end(w->k, &loop, NULL);
}

void wide_fill_begin(const Wide *w)
{
    if (!wide_by_registers(w->p, w->c)) {
        if (!w->p->is_last)
            make_zeros(w);
        return;
    }
    zero_tails(w);
    if (!w->p->is_last)
        zero_sides(w);
}

void wide_fill(const Wide *w, LLVMValueRef step)
{
    bool by_registers = wide_by_registers(w->p, w->c);
    LLVMValueRef channel = times(w->k, step, w->c->depth);
    if (w->steps > 1 || (!w->p->is_last && !by_registers))
        gx_barrier(w->k);
    if (by_registers && w->p->is_last) {
        fill_rows(w, channel);
    } else if (by_registers) {
        turn_rows(w, channel);
    } else if (!w->p->is_last) {
        turn_patch(w, channel);
    } else {
        ask_patch(w, channel);
        gx_copy_commit(w->k);
        gx_copy_wait(w->k, 0);
    }
}
