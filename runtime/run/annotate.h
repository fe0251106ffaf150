/* What tools of NVIDIA are told. Memory checkers: which device memory calls of libraries write,
 * for compute-sanitizer's initcheck does not see their writes and would report reads of what they
 * made. Profilers: which HLO instruction work is queued for, as NVTX ranges. */
#ifndef GXC_RUNTIME_RUN_ANNOTATE_H
#define GXC_RUNTIME_RUN_ANNOTATE_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/library/cuda_types.h"

/* The bytes count as initialised by what `stream` does next. Without a tool nothing happens. Any
 * thread. */
void annotate_written(CUstream stream, const void *address, size_t bytes);

/* From here to annotate_end, on this thread, work is queued for `name`; ranges may be nested. False: no tool
 * asks, and there is no end. */
bool annotate_begin(const char *name);
void annotate_end(void);

#endif
