/* What the kernels of fusions are like. */
#ifndef GXC_PASSES_KERNEL_KERNEL_H
#define GXC_PASSES_KERNEL_KERNEL_H

#include "passes/pass.h"

PassFn pass_configure;

/* passes/kernel/parameter_order.c: true if it changed the module. */
bool order_all_parameters(Module *m, Arena *scratch);

#endif
