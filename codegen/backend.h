/* LLVM, as one thread of gxc uses it: kernels in gx.* form become PTX and an object for the
 * emulator.
 *
 *   Libdevice *l = libdevice_open(a, cuda.libdevice, &error);
 *   Backend *b = backend_create(a, l);
 *   Kernel *k = kernel_create(a, backend_module(b), …); …; kernel_finish(k);
 *   backend_ptx(b, &k, 1, &target, cuda.ptx); backend_host_object(b, &k, 1, sm, &bytes);
 *   … the next kernel …
 *   backend_destroy(b); libdevice_close(l);
 *
 * A fatal error inside LLVM is thrown as ESCAPE_BUG; the backend must then not be touched again,
 * it stays behind as lost memory. One thread uses a backend at a time; several share a libdevice. */
#ifndef GXC_CODEGEN_BACKEND_H
#define GXC_CODEGEN_BACKEND_H

#include "codegen/gx/gx.h"
#include "codegen/gx/libdevice.h"
#include "ir/analysis/target.h"

typedef struct Backend Backend;

Backend *backend_create(Arena *a, Libdevice *device);
void backend_destroy(Backend *b); /* NULL is fine */

/* Whether the module that is made next is the program's only one: nothing is kept for others. */
void backend_expect_no_other(Backend *b, bool is_only);

/* Where kernels are made. */
LLVMModuleRef backend_module(Backend *b);

/* PTX for the kernels, in their order; lives in the arena. All other global names in it begin with
 * the first kernel's and '$'. `ptx`: the highest version that the assembler takes (9.0 is 90).
 * Throws ESCAPE_UNSUPPORTED for what the target lacks. */
const char *backend_ptx(Backend *b, Kernel *const *kernels, size_t count,
                        const Target *target, uint32_t ptx);
/* The same, and the kernels are used up, with all others of the module: it is empty again. Saves a copy of it, and
 * kernel_check, which takes as long as two of LLVM's passes: what the emulator shall run, as by default, has it. */
const char *backend_last_ptx(Backend *b, Kernel *const *kernels, size_t count,
                             const Target *target, uint32_t ptx);

/* The relocatable ELF object of runtime/emu/abi.def; lives in the arena. `sm` as libdevice asks
 * for it: that of the program's first target. Uses the kernels up, and all others of the module:
 * it is empty again. */
const void *backend_host_object(Backend *b, Kernel *const *kernels, size_t count,
                                uint32_t sm, size_t *out_bytes);

/* Drops all kernels of the module. */
void backend_reset(Backend *b);

/* The module in gx.* form as text (--emit=llvm); lives in the arena. */
const char *backend_text(Backend *b);

/* "22.1.4": for the plan and --version. */
const char *backend_llvm_version(void);

#endif
