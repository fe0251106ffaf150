/* Values on their way between threads: through shuffles and shared memory, of any element type. */
#ifndef GXC_CODEGEN_KERNEL_THREADS_H
#define GXC_CODEGEN_KERNEL_THREADS_H

#include "codegen/element/emit.h"

/* `offset` in bytes, i32, a multiple of shared_bytes(t). */
void shared_store(Emit *e, DType t, LLVMValueRef offset, LLVMValueRef value);
LLVMValueRef shared_load(Emit *e, DType t, LLVMValueRef offset);
/* The same in argument `arg`. */
void memory_store(Emit *e, uint32_t arg, DType t, LLVMValueRef offset,
                  LLVMValueRef value);
LLVMValueRef memory_load(Emit *e, uint32_t arg, DType t, LLVMValueRef offset);
/* offset + index * bytes; index is an i32. */
LLVMValueRef element_offset(Emit *e, uint32_t offset, LLVMValueRef index, unsigned bytes);

/* The value of the lane whose number differs by `mask`, in groups of `width` lanes. */
LLVMValueRef shuffle_bfly(Emit *e, DType t, LLVMValueRef value, unsigned mask,
                          unsigned width);
/* The value of the lane `distance` below; an undefined one in the first lanes of a group. */
LLVMValueRef shuffle_up(Emit *e, DType t, LLVMValueRef value, unsigned distance,
                        unsigned width);

/* The value of lane `lane` (i32). */
LLVMValueRef shuffle_from(Emit *e, DType t, LLVMValueRef value, LLVMValueRef lane);

/* Of the lanes in `peers`, as bits, those whose number has in `bit` (a power of two) what this lane's has. By all
 * lanes, for bit after bit: what is left are the lanes with the same number. */
LLVMValueRef narrow_peers(Kernel *k, LLVMValueRef peers, LLVMValueRef number,
                          LLVMValueRef bit);

/* i1: some thread of the block, which has one dimension, votes for it. By all threads; a word of shared memory for each
 * warp from the byte `shared` (i32) on is taken meanwhile. */
LLVMValueRef block_votes(Kernel *k, LLVMValueRef vote, LLVMValueRef shared);

/* A value as words of 32 bits (i32), and back. */
void value_to_words(Emit *e, DType t, LLVMValueRef value, LLVMValueRef *out);
LLVMValueRef value_from_words(Emit *e, DType t, const LLVMValueRef *words);

/* An i32 as a value of index_type, and back. */
LLVMValueRef to_index(Emit *e, LLVMValueRef value);

#endif
