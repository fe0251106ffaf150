/* Tells a memory checker which device memory calls of libraries write: compute-sanitizer's
 * initcheck does not see their writes and would report reads of what they made. */
#ifndef GXC_RUNTIME_RUN_ANNOTATE_H
#define GXC_RUNTIME_RUN_ANNOTATE_H

#include <stddef.h>

#include "runtime/library/cuda_types.h"

/* The bytes count as initialised by what `stream` does next. Without a tool nothing happens. Any
 * thread. */
void annotate_written(CUstream stream, const void *address, size_t bytes);

#endif
