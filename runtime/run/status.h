/* How errors travel inside libgxrt: a status, and a text that the thread remembers. */
#ifndef GXC_RUNTIME_RUN_STATUS_H
#define GXC_RUNTIME_RUN_STATUS_H

#include "runtime/gxrt.h"

#if defined(__GNUC__)
#define GXRT_FORMAT(f, a) __attribute__((format(printf, f, a)))
#else
#define GXRT_FORMAT(f, a)
#endif

enum { STATUS_TEXT = 4096 };

/* Stores the text for gxrt_last_error() on this thread and returns `status`. */
gxrt_status status_set(gxrt_status status, const char *format, ...) GXRT_FORMAT(2, 3);

#endif
