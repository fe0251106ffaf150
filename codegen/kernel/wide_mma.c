/* wide_convolution and row_gradient where there is no wgmma: products by mma.sync. Of the tile of four warps each has all
 * features and a quarter of the columns, or half of both, so that columns, which are most of what is read, are read once or
 * twice. A lane names the position of each row of eight that its warp loads: there are no columns between rows of
 * results. */
#include "codegen/kernel/wide.h"

enum { POSITIONS = 8 /* of an octet */ };

/* Bit `bit` of the lane's number. */
static LLVMValueRef lane_bit(const Wide *w, uint32_t bit)
{
    LLVMValueRef x = LLVMBuildLShr(w->b, w->lane, number(w->k, bit), "");
    return LLVMBuildAnd(w->b, x, number(w->k, 1), "");
}

/* Matrices that are loaded at once: two of the summed dimension, of two octets of columns. */
void wide_mma_rows(Wide *w, WideOffset *offset, uint32_t lead)
{
    uint32_t pairs = (w->octets + 1) / 2;
    w->rows = ARENA_ARRAY(w->k->arena, LLVMValueRef, pairs);
    LLVMValueRef in = LLVMBuildAnd(w->b, w->lane, number(w->k, POSITIONS - 1), "");
    for (uint32_t i = 0; i < pairs; i++) {
        LLVMValueRef octet = add(w->k, w->first_octet, number(w->k, 2 * i));
        octet = add(w->k, octet, lane_bit(w, 4));
        w->rows[i] = add(w->k, offset(w, octet, in), times(w->k, lane_bit(w, 3), lead));
    }
}

/* Row and column of the result that column `column` of four warps is. Those behind the last are the last; between
 * rows they are what the patch has there, each of them in a bank of its own. */
void wide_mma_position(const Wide *w, LLVMValueRef column, LLVMValueRef *row,
                       LLVMValueRef *x)
{
    int64_t width = w->p->result_size[X], pitch = w->storage.sum_pitch,
            count = (w->storage.group_rows - 1) * pitch + width;
    if (count < w->storage.columns)
        column = LLVMBuildSelect(w->b, is_below(w->k, column, count), column,
                                 number(w->k, count - 1), "");
    *row = column;
    *x = split(w->k, row, pitch);
}

/* 16 terms of the warp's features: a fragment for each 16 of them. */
static void load_features(const Wide *w, const GxMatrices *a, uint32_t step,
                          LLVMValueRef (*out)[PIECE_WORDS])
{
    LLVMValueRef in = LLVMBuildAnd(w->b, w->lane, number(w->k, POSITIONS - 1), ""),
                 octet =
                     LLVMBuildUDiv(w->b, w->first_feature, number(w->k, POSITIONS), ""),
                 row = add(w->k, times(w->k, lane_bit(w, 4), a->lead),
                           times(w->k, add(w->k, octet, lane_bit(w, 3)), a->stride));
    row = add(w->k, row, add(w->k, a->offset, times(w->k, in, PIECE_BYTES)));
    for (uint32_t i = 0; i < w->blocks; i++) {
        int64_t at = 2 * ((int64_t)step * a->lead + (int64_t)i * a->stride);
        gx_ldmatrix(w->k, add(w->k, row, number(w->k, at)), PIECE_WORDS, a->is_transposed,
                    out[i]);
    }
}

/* Of one octet: y has its two words. */
static void add_products(const Wide *w, LLVMValueRef (*x)[PIECE_WORDS],
                         const LLVMValueRef *y, uint32_t octet, LLVMValueRef *sums)
{
    for (uint32_t i = 0; i < w->blocks; i++) {
        LLVMValueRef *to = &sums[(i * w->octets + octet) * SUMS];
        gx_mma(w->k, w->p->core, x[i], y, to, to);
    }
}

void wide_mma(const Wide *w, const GxMatrices *a, const GxMatrices *b, uint32_t steps,
              LLVMValueRef *sums)
{
    LLVMValueRef x[WARPGROUP_ROWS / WARP_ROWS][PIECE_WORDS], y[PIECE_WORDS];
    for (uint32_t step = 0; step < steps; step++) {
        load_features(w, a, step, x);
        for (uint32_t i = 0; i < w->octets; i += 2) {
            uint32_t count = i + 1 < w->octets ? 2 : 1;
            LLVMValueRef row = add(w->k, b->offset, w->rows[i / 2]);
            row = add(w->k, row, number(w->k, 2 * (int64_t)step * b->lead));
            gx_ldmatrix(w->k, row, 2 * count, b->is_transposed, y);
            for (uint32_t j = 0; j < count; j++)
                add_products(w, x, &y[2 * j], i + j, sums);
        }
    }
}

void wide_mma_words(const Wide *w, const GxMatrices *a, const WideWords *words,
                    uint32_t pieces, LLVMValueRef *sums)
{
    LLVMTypeRef type = gx_int_type(w->k, 32);
    for (uint32_t step = 0; 2 * step < pieces; step++) {
        LLVMValueRef x[WARPGROUP_ROWS / WARP_ROWS][PIECE_WORDS];
        load_features(w, a, step, x);
        for (uint32_t i = 0; i < w->octets; i++) {
            LLVMValueRef y[2];
            for (uint32_t j = 0; j < 2; j++) {
                uint32_t piece = 2 * step + j;
                y[j] = number(w->k, 0);
                if (piece == pieces)
                    continue;
                LLVMValueRef at = number(w->k, words->offset[piece]);
                y[j] = gx_load(w->k, GX_SHARED, add(w->k, words->row[i], at), type, 4);
                if (words->mask[piece] != NULL)
                    y[j] = LLVMBuildAnd(w->b, y[j], words->mask[piece], "");
            }
            add_products(w, x, y, i, sums);
        }
    }
}
