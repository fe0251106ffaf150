/* bf16 in code for the host. */
#ifndef GXC_CODEGEN_GX_HOST_BF16_H
#define GXC_CODEGEN_GX_HOST_BF16_H

#include <llvm-c/Core.h>

/* LLVM 22 has no bf16 registers on x86: a value that goes from block to block goes as f32 and back,
 * which makes one NaN of all, and a test of its sign cannot be compiled at all. Makes integers of both.
 */
void host_keep_bf16_bits(LLVMModuleRef m);

#endif
