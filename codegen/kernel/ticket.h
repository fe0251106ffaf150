/* The order of blocks that wait for one another. */
#ifndef GXC_CODEGEN_KERNEL_TICKET_H
#define GXC_CODEGEN_KERNEL_TICKET_H

#include "codegen/gx/gx.h"

/* The block's number in the order in which blocks start, i32: those with lower ones run or have run. It is counted
 * in the first word of scratch memory `arg`, and goes through shared memory at `base` (4 bytes). All threads. */
LLVMValueRef ticket_take(Kernel *k, uint32_t arg, uint32_t base);

/* Whether the block is the last one of `count` to come here, i1: then what all of them stored before is there for its
 * threads. They are counted in the word at `offset` of argument `arg`, which is 0 before and behind. All threads; goes
 * through shared memory as above. */
LLVMValueRef ticket_is_last(Kernel *k, uint32_t arg, LLVMValueRef offset, uint32_t count,
                            uint32_t base);

#endif
