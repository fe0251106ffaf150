/* What convolutions have in common whose block keeps a patch of the image in shared memory: image_convolution.c and
 * wide_convolution.c. Numbers are i32 without a sign; names are short, for nobody else includes this. */
#ifndef GXC_CODEGEN_KERNEL_TAPS_H
#define GXC_CODEGEN_KERNEL_TAPS_H

#include "codegen/element/emit.h"

static inline LLVMValueRef number(Kernel *k, int64_t n)
{
    return gx_i32(k, (uint32_t)n);
}

static inline LLVMValueRef add(Kernel *k, LLVMValueRef x, LLVMValueRef y)
{
    return LLVMBuildAdd(k->builder, x, y, "");
}

static inline LLVMValueRef times(Kernel *k, LLVMValueRef x, int64_t n)
{
    return LLVMBuildMul(k->builder, x, number(k, n), "");
}

/* A number less than 0 is above. */
static inline LLVMValueRef is_below(Kernel *k, LLVMValueRef x, int64_t end)
{
    return LLVMBuildICmp(k->builder, LLVMIntULT, x, number(k, end), "");
}

/* *quotient becomes *quotient / n; gives the remainder. */
LLVMValueRef split(Kernel *k, LLVMValueRef *quotient, int64_t n);

/* -- turning ------------------------------------------------------------------------------------- */

#define PIECE_BYTES 16 /* eight numbers of 16 bits, loaded and stored at once */
#define PIECE_WORDS 4

LLVMTypeRef piece_type(Kernel *k);
/* `channels`: eight pieces of neighbouring positions, each of another channel. Gives a piece of position `position` (0 to
 * 7): its eight channels. */
LLVMValueRef turned_piece(Kernel *k, const LLVMValueRef *channels, uint32_t position);

/* -- loops --------------------------------------------------------------------------------------- */

/* For each step, a part of the channels: the patch is filled, then for each tap its filter is waited for, a later one is
 * asked for, and both are multiplied. Filters lie in stages behind the patch. */
typedef struct TapLoops {
    Kernel *k;
    const void *of;                /* what the functions get */
    uint32_t filters, stage_bytes; /* bytes of shared memory */
    uint32_t stages;
    uint32_t taps, steps, sum_count;
    bool is_asynchronous; /* wgmma or tcgen05 reads what was copied */
    void (*fill)(const void *of, LLVMValueRef step);
    /* `tap` counts through all steps. */
    void (*ask)(const void *of, LLVMValueRef tap, LLVMValueRef stage);
    /* `tap` is one of the window. */
    void (*multiply)(const void *of, LLVMValueRef tap, LLVMValueRef stage,
                     LLVMValueRef *sums);
    /* NULL, or `multiply` begins products that go on until this returns: until those of `left` taps do at most. Filters
     * are asked for a stage less ahead. */
    void (*wait)(const void *of, uint32_t left, LLVMValueRef *sums);
    /* NULL, or in place of it, where products run beside the threads: issues those of the window's tap `tap`, the
     * `number`-th through all steps; waits until those are done (of the tap before the first one: returns). */
    void (*issue)(const void *of, LLVMValueRef tap, LLVMValueRef number,
                  LLVMValueRef stage);
    void (*finish)(const void *of, LLVMValueRef number);
} TapLoops;

/* Gives the f32 sums of the thread, which begin with 0. */
LLVMValueRef *tap_loops_emit(const TapLoops *t);

#endif
