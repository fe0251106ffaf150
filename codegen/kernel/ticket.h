/* The order of blocks that wait for one another. */
#ifndef GXC_CODEGEN_KERNEL_TICKET_H
#define GXC_CODEGEN_KERNEL_TICKET_H

#include "codegen/gx/gx.h"

/* The block's number in the order in which blocks start, i32: those with lower ones run or have run. It is counted
 * in the first word of scratch memory `arg`, and goes through shared memory at `base` (4 bytes). All threads. */
LLVMValueRef ticket_take(Kernel *k, uint32_t arg, uint32_t base);

#endif
