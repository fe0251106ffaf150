/* Functions of libdevice on the host. */
#ifndef GXC_CODEGEN_GX_DEVICE_HOST_H
#define GXC_CODEGEN_GX_DEVICE_HOST_H

#include <llvm-c/Core.h>

/* Replaces what functions in `m` use of NVIDIA's intrinsics and assembly by plain LLVM IR and
 * calls of the C library (device.def), and gives shifts by their width or more PTX's results. */
void device_lower_for_host(LLVMModuleRef m);

#endif
