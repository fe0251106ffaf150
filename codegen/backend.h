/* LLVM, as gxc uses it: one module of kernels in gx.* form becomes PTX for each target and one
 * host object for the emulator.
 *
 *   Backend *b = backend_create(a, cuda.libdevice, &error);
 *   Kernel *k = kernel_create(a, backend_module(b), …); …; kernel_finish(k);
 *   backend_ptx(b, kernels, n, &target, cuda.ptx); backend_host_object(b, kernels, n, sm, &bytes);
 *   backend_destroy(b);
 *
 * A fatal error inside LLVM is thrown as ESCAPE_BUG; the backend must then not be touched again,
 * it stays behind as lost memory. One thread uses a backend at a time. */
#ifndef GXC_CODEGEN_BACKEND_H
#define GXC_CODEGEN_BACKEND_H

#include "codegen/gx/gx.h"
#include "ir/analysis/target.h"

typedef struct Backend Backend;

/* `libdevice`: path of libdevice.10.bc, mapped when a kernel first calls it. NULL and *out_error
 * set: it cannot be read. */
Backend *backend_create(Arena *a, const char *libdevice, const char **out_error);
void backend_destroy(Backend *b); /* NULL is fine */

/* Where kernels are made. */
LLVMModuleRef backend_module(Backend *b);

/* PTX for all the kernels, in their order; lives in the arena. `ptx`: the highest version that
 * the assembler takes (9.0 is 90). Throws ESCAPE_UNSUPPORTED for what the target lacks. */
const char *backend_ptx(Backend *b, Kernel *const *kernels, size_t count,
                        const Target *target, uint32_t ptx);

/* The relocatable ELF object of runtime/emu/abi.def; lives in the arena. `sm` as libdevice asks
 * for it: that of the program's first target. */
const void *backend_host_object(Backend *b, Kernel *const *kernels, size_t count,
                                uint32_t sm, size_t *out_bytes);

/* The module in gx.* form as text (--emit=llvm); lives in the arena. */
const char *backend_text(Backend *b);

/* "22.1.4": for the plan and --version. */
const char *backend_llvm_version(void);

#endif
