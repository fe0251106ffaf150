/* Memory and streams of the caller's, of which none is left. */
#ifndef GXC_TESTS_UNIT_SHARED_REFUSING_H
#define GXC_TESTS_UNIT_SHARED_REFUSING_H

#include "runtime/gxrt.h"

extern const gxrt_allocator refusing_allocator;
extern const gxrt_streams refusing_streams;

#endif
