/* libdevice: CUDA's functions exp, sin, pow, … as LLVM bitcode, for both back ends. */
#ifndef GXC_CODEGEN_GX_LIBDEVICE_H
#define GXC_CODEGEN_GX_LIBDEVICE_H

#include <llvm-c/Core.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Links what `m` calls of libdevice (the bitcode in `data`, of `bytes`) into it: internal
 * functions, to be inlined; denormals kept, division and square root IEEE. `sm` is what
 * __CUDA_ARCH asks for. False: the data is no libdevice, or lacks a function that m calls. */
bool libdevice_link(LLVMModuleRef m, const char *data, size_t bytes, uint32_t sm);

/* Replaces what libdevice's functions in `m` use of NVIDIA's intrinsics and assembly by plain
 * LLVM IR and calls of the C library (device.def). */
void libdevice_lower_for_host(LLVMModuleRef m);

#endif
