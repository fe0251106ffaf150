/* What the files of wide_convolution's emitter share: wide_convolution.c, wide_fill.c, wide_mma.c, wide_positions.c,
 * wide_rows.c, wide_terms.c, wide_tensor.c and wide_results.c. */
#ifndef GXC_CODEGEN_KERNEL_WIDE_H
#define GXC_CODEGEN_KERNEL_WIDE_H

#include "codegen/kernel/emitters.h"
#include "codegen/kernel/taps.h"

enum {
    Y,
    X,
    FEATURES = 0,
    ROWS = 1,
    WARP_ROWS = TENSOR_CORE_ROWS, /* features of a block of sums */
    SUMS = 4                      /* of a thread in eight columns */
};

typedef struct Wide {
    const EmitterInput *in;
    const WidePlan *p;
    const KernelConfig *c;
    WideStorage storage;
    Kernel *k;
    Emit *e;
    LLVMBuilderRef b;
    uint32_t shared, taps, steps; /* of the window; of the channels */
    /* The thread's sums: of so many blocks of 16 features and octets of columns each, of its warp. */
    uint32_t blocks, octets, sum_count;
    LLVMValueRef first_feature, first_octet; /* i32: the warp's */
    LLVMValueRef
        *rows; /* mma.sync: what a lane loads of two octets, behind the columns' offset */
    LLVMValueRef thread, lane, warp; /* i32; the warp's number among four */
    LLVMValueRef group[2];           /* of four warps, by side */
    LLVMValueRef image, row,
        feature_tile; /* row: the first one of the result's; by positions image: the first position's */
    /* i32, by positions: the tile's first one; rows of a plane that its windows reach, the first of which, of all images',
     * is `row`; of each 64 positions bytes to what the lane loads for a window's first tap */
    LLVMValueRef position, row_count, *lane_rows;
    LLVMValueRef address; /* of the sums in tensor memory, if they are there */
    LLVMValueRef
        adds; /* i32: 0 where the sums begin with the product that is issued next */
} Wide;

static inline LLVMValueRef widened(const Wide *w, LLVMValueRef x)
{
    return LLVMBuildZExt(w->b, x, gx_int_type(w->k, 64), "");
}

/* x * n + y, in 64 bits. */
static inline LLVMValueRef wide_sum(const Wide *w, LLVMValueRef x, int64_t n,
                                    LLVMValueRef y)
{
    LLVMValueRef by = gx_i64(w->k, (uint64_t)n);
    return LLVMBuildAdd(w->b, LLVMBuildMul(w->b, x, by, ""), widened(w, y), "");
}

/* Of a number of 16 bits. */
static inline LLVMValueRef byte_of(const Wide *w, LLVMValueRef element)
{
    return LLVMBuildShl(w->b, element, gx_i64(w->k, 1), "");
}

/* Each thread takes one of `count` after the other. */
static inline LLVMValueRef each_begin(const Wide *w, GxLoop *loop, int64_t count)
{
    gx_loop_begin(w->k, loop, w->thread, number(w->k, count),
                  number(w->k, w->k->block[0]), NULL, 0);
    return loop->index;
}

/* A byte of shared memory as lines have it: GxMatrices.line. */
static inline LLVMValueRef swizzled(const Wide *w, LLVMValueRef at, uint32_t line)
{
    enum { PIECES = 8 }; /* bits from 7 on go to those from 4 on */
    LLVMValueRef bits = LLVMBuildUDiv(w->b, at, number(w->k, PIECES), "");
    bits = LLVMBuildAnd(w->b, bits, number(w->k, (int64_t)line - PIECE_BYTES), "");
    return LLVMBuildXor(w->b, at, bits, "");
}

/* The same of piece `piece` of row `row` of lines that begin at `base`; the next line of a row is `apart` bytes away. */
static inline LLVMValueRef line_offset(const Wide *w, uint32_t line, LLVMValueRef base,
                                       LLVMValueRef row, LLVMValueRef piece,
                                       int64_t apart)
{
    LLVMValueRef column = piece, in = split(w->k, &column, line / PIECE_BYTES),
                 at = add(w->k, times(w->k, row, line), times(w->k, in, PIECE_BYTES));
    at = add(w->k, at, times(w->k, column, apart));
    return swizzled(w, add(w->k, base, at), line);
}

/* Bytes from a position's line to its next one. */
static inline int64_t patch_apart(const Wide *w)
{
    return w->storage.chunk * w->storage.patch_line;
}

/* Where channels 8 `piece` to 8 `piece` + 7 of a position of the patch stand in shared memory. */
static inline LLVMValueRef patch_offset(const Wide *w, LLVMValueRef position,
                                        LLVMValueRef piece)
{
    if (w->storage.patch_line != 0)
        return line_offset(w, w->storage.patch_line, number(w->k, w->shared), position,
                           piece, patch_apart(w));
    LLVMValueRef at = add(w->k, times(w->k, piece, w->storage.chunk), position);
    return add(w->k, times(w->k, at, PIECE_BYTES), number(w->k, w->shared));
}

/* sums += a b of 64 features and the positions of four warps, 16 terms in each of `steps`; in tensor memory of all of the
 * block's, by the thread that issues. */
void wide_multiply(Wide *w, const GxMatrices *a, const GxMatrices *b, uint32_t steps,
                   LLVMValueRef *sums);
/* The same, of wgmma's that go on together until gx_wgmma_wait; `index`: of the sums among those of the wait, of which
 * there are `count`. Without wgmma, or of too many, they do not, and wide_goes_on says so. */
bool wide_goes_on(const Wide *w, uint32_t count);
void wide_multiply_on(Wide *w, const GxMatrices *a, const GxMatrices *b, uint32_t steps,
                      uint32_t index, uint32_t count, LLVMValueRef *sums);
/* The same by mma.sync. Rows of b are those that wide_mma_rows was told: bytes from b->offset to the lane's row `in` of an
 * octet of columns; `lead` is b's. */
typedef LLVMValueRef WideOffset(const Wide *w, LLVMValueRef octet, LLVMValueRef in);
void wide_mma_rows(Wide *w, WideOffset *offset, uint32_t lead);
void wide_mma(const Wide *w, const GxMatrices *a, const GxMatrices *b, uint32_t steps,
              LLVMValueRef *sums);
/* Columns word by word, as rows of the image have them: of a piece of eight terms a lane has the word at `offset` behind
 * `row` of its position; NULL: the mask has all bits. */
typedef struct WideWords {
    LLVMValueRef *row; /* [octets] */
    int64_t *offset;   /* [pieces] */
    LLVMValueRef *mask;
} WideWords;
void wide_mma_words(const Wide *w, const GxMatrices *a, const WideWords *words,
                    uint32_t pieces, LLVMValueRef *sums);
void wide_mma_position(const Wide *w, LLVMValueRef column, LLVMValueRef *row,
                       LLVMValueRef *x);
/* Sets what is known before the loops: shared memory of so many bytes, which thread it is, and which sums of the columns of
 * four warps it has. */
void wide_begin(Wide *w, uint64_t bytes);
/* The number of an operand's argument. The operand is a parameter, or one in another order. */
uint32_t wide_argument(const Wide *w, uint32_t operand);
/* wide_fill.c: what no step writes of the patch; the patch of step `step`, a part of the channels. */
void wide_fill_begin(const Wide *w);
void wide_fill(const Wide *w, LLVMValueRef step);
/* The patch of rows of a window (p->pieces): what it is made of is asked for, and, when that is there, it is made. */
void wide_rows_ask(const Wide *w);
void wide_rows_make(const Wide *w);
/* The patch of a convolution from few channels (p->pieces) and its filter, all multiplied; gives the thread's sums. */
LLVMValueRef *wide_rows_run(Wide *w);
/* The same of a patch by terms (p->by_term), of rows of the image and to products with the filter, which begin so many
 * bytes into shared memory. */
void wide_terms_zeros(const Wide *w, uint32_t filter);
void wide_terms_make(const Wide *w, uint32_t rows);
void wide_terms_multiply(const Wide *w, uint32_t filter);
/* The filter, which begins at `offset`: what the features of these four warps multiply; is_transposed: rows are terms, not
 * features. And piece `piece` of row `row`. */
GxMatrices wide_filter(const Wide *w, LLVMValueRef offset, bool is_transposed);
LLVMValueRef wide_filter_offset(const Wide *w, LLVMValueRef base, LLVMValueRef row,
                                LLVMValueRef piece);
/* Bytes to the sum of a feature and a position of the block's: rows of shared memory are features, or, where features are
 * last, positions. */
static inline LLVMValueRef wide_sum_at(const Wide *w, LLVMValueRef feature,
                                       LLVMValueRef position)
{
    bool turned = w->p->result_is_last;
    LLVMValueRef at =
        add(w->k, times(w->k, turned ? position : feature, w->storage.sum_stride),
            turned ? feature : position);
    return add(w->k, times(w->k, at, 2), number(w->k, w->shared));
}

/* Sums of a warp to there: 16 rows, which are positions or features, from `position` and `feature` on, by `count` of the
 * other. */
void wide_share_block(const Wide *w, bool positions_are_rows, LLVMValueRef position,
                      LLVMValueRef feature, uint32_t count, const LLVMValueRef *sums);
/* Two sums side by side as a word of the result's type. */
LLVMValueRef wide_sum_word(const Wide *w, const LLVMValueRef *sums);
/* wide_positions.c: of tile `tile`, what is said of Wide; sums += positions of the patch at `patch` (bytes) by features,
 * 16 terms in each of `steps`; sums to shared memory. */
uint32_t wide_positions_sums(const Wide *w); /* of a thread */
void wide_positions_find(Wide *w, LLVMValueRef tile);
/* Positions that are left out of a plane between the first image's rows and those of this one. */
LLVMValueRef wide_positions_apart(const Wide *w, LLVMValueRef image);
void wide_positions_multiply(const Wide *w, LLVMValueRef patch, const GxMatrices *filter,
                             uint32_t steps, LLVMValueRef *sums);
void wide_positions_share(const Wide *w, const LLVMValueRef *sums);
/* Some neighbouring results: their number in the result, where they are in shared memory, whether there are such (NULL: all
 * are). */
typedef struct WidePositionsItem {
    LLVMValueRef offset, inside;
} WidePositionsItem;
const IndexExpr *wide_positions_item(const Wide *w, LLVMValueRef item,
                                     WidePositionsItem *out);
/* Through shared memory to the results. */
void wide_results(const Wide *w, LLVMValueRef *sums);
/* Of a gradient by the filter: the sum of a tap becomes a result. */
typedef struct WideTap {
    LLVMValueRef feature, row, column, channel;
} WideTap;
void wide_gradient_write(const Wide *w, const WideTap *tap, LLVMValueRef sum);
/* wide_tensor.c: asks for tensor memory; between begin and end is the thread that issues products, which commits them as
 * the `number`-th; waits for those; sums to shared memory, as wide_results has them; gives tensor memory back. */
void wide_tensor_begin(Wide *w);
void wide_tensor_issue_begin(const Wide *w, GxIf *one);
void wide_tensor_issue_end(const Wide *w, GxIf *one, LLVMValueRef number);
void wide_tensor_finish(const Wide *w, LLVMValueRef number);
void wide_tensor_multiply(Wide *w, const GxMatrices *filter, const GxMatrices *patch,
                          uint32_t steps);
void wide_tensor_share(const Wide *w);
void wide_tensor_end(const Wide *w);

#endif
