/* PTX as text: kernels' texts joined to one for the assembler, and LLVM's text of several kernels taken apart, as if
 * each had been made alone. */
#ifndef GXC_CODEGEN_BUILD_PTX_H
#define GXC_CODEGEN_BUILD_PTX_H

#include "ir/base/arena.h"

/* One text of several, of the same target. */
const char *ptx_join(Arena *a, const char *const *texts, size_t count);

/* LLVM's text of these kernels, in this order: out[i] becomes what LLVM writes for kernel i alone, byte for byte.
 * False: kernels share something, such as a table or a function, so that each must be made alone. */
bool ptx_split(Arena *a, const char *text, const char *const *names, size_t count,
               const char **out);

/* The text with leave for these kernels to have all registers, where they do not say how many of their blocks a
 * multiprocessor shall hold; NULL: all of them say so. */
const char *ptx_without_limit(Arena *a, const char *text, const char *const *names,
                              size_t count);

#endif
