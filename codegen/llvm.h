/* LLVM's set-up. It is started when code is first generated, not with the program: most of what
 * gxc is asked for needs none of it. */
#ifndef GXC_CODEGEN_LLVM_H
#define GXC_CODEGEN_LLVM_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <stdbool.h>

#if defined(__aarch64__)
#define HOST_TRIPLE "aarch64-unknown-linux-gnu"
#define HOST_CPU "generic"
#else
#define HOST_TRIPLE "x86_64-unknown-linux-gnu"
#define HOST_CPU "x86-64-v3"
#endif
#define NVPTX_TRIPLE "nvptx64-nvidia-cuda"

/* A context whose errors, and LLVM's fatal ones, are thrown as ESCAPE_BUG, its lack of memory as
 * ESCAPE_MEMORY. Starts LLVM in the
 * process's first call. After an escape out of LLVM the context must not be touched again; it
 * stays behind as lost memory. */
LLVMContextRef llvm_context_create(void);

/* The module's assembly or object. */
LLVMMemoryBufferRef llvm_generate(LLVMModuleRef m, LLVMTargetMachineRef machine,
                                  LLVMCodeGenFileType type);

/* Runs passes, by their names as `opt -passes=` takes them. `machine` may be NULL. */
void llvm_run_passes(LLVMModuleRef m, LLVMTargetMachineRef machine, const char *passes);

#endif
