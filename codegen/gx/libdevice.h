/* libdevice: CUDA's functions exp, sin, pow, … as LLVM bitcode, for both back ends. */
#ifndef GXC_CODEGEN_GX_LIBDEVICE_H
#define GXC_CODEGEN_GX_LIBDEVICE_H

#include <llvm-c/Core.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/base/arena.h"

/* Several threads may link from one at a time. */
typedef struct Libdevice Libdevice;

/* `path` of libdevice.10.bc. NULL and *out_error set: it cannot be read. */
Libdevice *libdevice_open(Arena *a, const char *path, const char **out_error);
void libdevice_close(Libdevice *l); /* NULL is fine */

/* The file as it is. */
const void *libdevice_bytes(const Libdevice *l, size_t *bytes);

/* The program calls __nv_<name>: to be said before the first module is linked. */
void libdevice_expect(Libdevice *l, const char *name);

/* Links what `m` calls of libdevice into it: internal functions, to be inlined; denormals kept,
 * division and square root IEEE. `sm` is what __CUDA_ARCH asks for. `for_host`: lowered for the
 * host. Throws ESCAPE_BUG if the file is no libdevice or lacks a function that m calls. */
void libdevice_link(Libdevice *l, LLVMModuleRef m, uint32_t sm, bool for_host);

/* The same for a GPU's module that is the only one: nothing is kept for others, which costs half as much. */
void libdevice_link_only(Libdevice *l, LLVMModuleRef m, uint32_t sm);

#endif
