/* Library rewrites: what a library makes better than kernels of our own. */
#ifndef GXC_PASSES_LIBRARY_LIBRARY_H
#define GXC_PASSES_LIBRARY_LIBRARY_H

#include "passes/pass.h"

PassFn pass_library_dots; /* large dots: cuBLASLt */

#endif
