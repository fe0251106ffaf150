/* Status names and the last error of each thread. */
#include "runtime/run/status.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char last_error[STATUS_TEXT];

gxrt_status status_set(gxrt_status status, const char *format, ...)
{
    char text[STATUS_TEXT]; /* the arguments may point into last_error */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(last_error, sizeof last_error, "%s", text);
    return status;
}

const char *gxrt_last_error(void)
{
    return last_error;
}

const char *gxrt_status_name(gxrt_status status)
{
    switch (status) {
    case GXRT_OK:
        return "ok";
    case GXRT_INVALID_ARGUMENT:
        return "invalid argument";
    case GXRT_INVALID_FILE:
        return "invalid file";
    case GXRT_UNSUPPORTED:
        return "unsupported";
    case GXRT_MISSING_LIBRARY:
        return "missing library";
    case GXRT_WRONG_DEVICE:
        return "wrong device";
    case GXRT_OUT_OF_MEMORY:
        return "out of memory";
    case GXRT_DEVICE_FAILED:
        return "device failed";
    case GXRT_WORLD_FAILED:
        return "world failed";
    case GXRT_HOST_CALL_FAILED:
        return "host call failed";
    }
    return "unknown status";
}

const char *gxrt_version(void)
{
    return GXC_VERSION;
}
