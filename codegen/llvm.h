/* LLVM's set-up. It is started when code is first generated, not with the program: most of what
 * gxc is asked for needs none of it. */
#ifndef GXC_CODEGEN_LLVM_H
#define GXC_CODEGEN_LLVM_H

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <stdbool.h>

/* A context whose errors, and LLVM's fatal ones, are thrown as ESCAPE_BUG. Starts LLVM in the
 * process's first call. After an escape out of LLVM the context must not be touched again; it
 * stays behind as lost memory. */
LLVMContextRef llvm_context_create(void);

/* Runs passes, by their names as `opt -passes=` takes them. `machine` may be NULL. */
void llvm_run_passes(LLVMModuleRef m, LLVMTargetMachineRef machine, const char *passes);

#endif
