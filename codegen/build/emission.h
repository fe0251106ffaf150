/* Kernels from requests, in gx.* form. */
#ifndef GXC_CODEGEN_BUILD_EMISSION_H
#define GXC_CODEGEN_BUILD_EMISSION_H

#include "codegen/codegen.h"
#include "codegen/gx/gx.h"

/* Writes the kernel of a request into `module`; it lives in `a`. `contract`: a * b + c may become
 * fma; `lines`: codegen/gx/lines.h. Throws ESCAPE_UNSUPPORTED, at the fusion, for what its kind of kernel cannot do. */
Kernel *emission_run(Arena *a, LLVMModuleRef module, const KernelRequest *r,
                     bool contract, const struct SourceLines *lines);

/* Adds to the report what launches of the kernel move, by the width of its accesses: of a loop or a
 * row reduction. */
void emission_count(const KernelRequest *r, const KernelAccess *accesses,
                    CodegenReport *report);

#endif
