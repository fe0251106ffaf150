/* What the kernels of a radix sort's step share: the tile of a row that a block has. See radix_sort.c. */
#ifndef GXC_CODEGEN_KERNEL_RADIX_H
#define GXC_CODEGEN_KERNEL_RADIX_H

#include "codegen/kernel/emitters.h"

#define RADIX_MOST EMIT_MOST_LEAVES /* elements of all arrays that a thread has */
#define DIGIT_NUMBERS (1u << 16)    /* see Radix.starts */

typedef struct Radix {
    const EmitterInput *in;
    const RadixPlan *plan;
    Emit *e;
    RadixTiles tiles;
    uint32_t accesses, warps, scratch;
    /* In shared memory. Digits that the tile has are numbered. starts: of each digit, the number of the first one from it
     * on, and the slot where its elements begin, times DIGIT_NUMBERS; shifts: by number, how much further on they begin in
     * the row; chunks: of a warp's slots each, those where another digit begins, as bits, and the first one's digit, by
     * number. */
    uint32_t base, starts, shifts, chunks, counts, sums, ticket;
    const IndexExpr *row;
    LLVMValueRef bits;             /* i32, the scalar: by how many the key is shifted */
    LLVMValueRef row_number, tile; /* of index_type; i32: look-back */
    LLVMValueRef range;            /* of index_type: the block's of the row */
    LLVMValueRef first;            /* of index_type: where the tile begins in the row */
    LLVMValueRef thread, warp, valid; /* valid: elements of the tile that exist */
    LLVMValueRef is_whole;            /* all of them do; NULL: of all tiles */
    LLVMValueRef warp_counts;         /* where the warp's counts are in shared memory */
    LLVMValueRef has_digit;           /* a digit has the thread's number */
} Radix;

/* Words of shared memory, from `base` on. */
LLVMValueRef radix_word_at(const Radix *r, uint32_t base, LLVMValueRef index);
LLVMValueRef radix_load_word(const Radix *r, uint32_t base, LLVMValueRef index);
void radix_store_word(const Radix *r, uint32_t base, LLVMValueRef index, LLVMValueRef v);
/* The index of element `at` of the row. */
void radix_index(const Radix *r, const IndexExpr *at, const IndexExpr **out);

/* The tile begins here; so many elements (i32) follow. may_end: before the tile does. */
void radix_set_tile(Radix *r, LLVMValueRef first, LLVMValueRef remaining, bool may_end);
/* Each warp its own. */
void radix_clear_counts(const Radix *r);
/* A thread for each chunk; a barrier before and behind. */
void radix_clear_chunks(const Radix *r);
/* By the digit's thread: the tile has elements of it, from the slot (i32) on. */
void radix_mark_start(const Radix *r, LLVMValueRef slot);
/* From the tile's keys to their ranks among equal digits of the warp, and its counts. v: [count][accesses]. */
void radix_rank_tile(const Radix *r, LLVMValueRef *v, LLVMValueRef *digits,
                     LLVMValueRef *ranks);
/* Array after array, to where `counts` and `shifts` say. */
void radix_move_tile(const Radix *r, LLVMValueRef *v, const LLVMValueRef *digits,
                     const LLVMValueRef *ranks);

#endif
