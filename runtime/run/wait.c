/* Waiting for a device, with an end: gxrt_session_options.max_seconds.
 *
 * The driver's own waits cannot be left, so with a limit the driver is asked again and again. A kernel
 * that never ends cannot be ended either: the call fails, and what the device may still use is kept. */
#include "ir/base/clock.h"
#include "runtime/run/session.h"

gxrt_status wait_check_seconds(const char *what, double seconds)
{
    return seconds >= 0 ? GXRT_OK
                        : status_set(GXRT_INVALID_ARGUMENT,
                                     "%s: %g s are no time to wait", what, seconds);
}

/* Of seconds_now; 0: there is none, and the driver's own waits that follow are enough. */
static double deadline_from_now(const Device *d)
{
    double most = d->session->options.max_seconds;
    return most > 0 ? seconds_now() + most : 0;
}

void wait_begin(Device *d)
{
    d->deadline = deadline_from_now(d);
}

/* Asks, less and less often, until there is an answer other than "not yet" or the time is over. */
static CUresult ask(Device *d, CUevent event, CUstream stream, double deadline)
{
    const CudaApi *cuda = d->session->cuda;
    double pause = 0.00001;
    for (;;) {
        CUresult r = event ? cuda->event_query(event) : cuda->stream_query(stream);
        if (r != CUDA_ERROR_NOT_READY) {
            return r;
        }
        if (seconds_now() > deadline) {
            d->is_late = true;
            return CUDA_ERROR_LAUNCH_TIMEOUT;
        }
        sleep_seconds(pause);
        pause = pause < 0.001 ? 2 * pause : pause;
    }
}

CUresult wait_stream(Device *d, CUstream stream)
{
    return d->deadline > 0 ? ask(d, NULL, stream, d->deadline) : CUDA_SUCCESS;
}

static CUresult ask_all(Device *d, double deadline)
{
    if (!(deadline > 0)) {
        return CUDA_SUCCESS;
    }
    CUresult r = ask(d, d->done, NULL, deadline);
    /* an execution that failed has not joined its streams */
    for (uint32_t i = 1; i < d->session->plan->streams_count && r == CUDA_SUCCESS; i++) {
        r = d->is_lacking[i] ? r : ask(d, NULL, d->streams[i], deadline);
    }
    return r == CUDA_SUCCESS ? ask(d, NULL, NULL, deadline) : r;
}

CUresult wait_executions(Device *d)
{
    return ask_all(d, deadline_from_now(d));
}

CUresult wait_context(Device *d)
{
    CUresult r = wait_executions(d);
    return r == CUDA_SUCCESS ? d->session->cuda->context_synchronize() : r;
}

gxrt_status wait_check(Device *d, const char *what)
{
    if (!(d->deadline > 0) || seconds_now() <= d->deadline) {
        return GXRT_OK;
    }
    d->is_late = true;
    return device_error(d, "", CUDA_ERROR_LAUNCH_TIMEOUT, what);
}

gxrt_status wait_mark(Device *d)
{
    CUresult r =
        d->done ? d->session->cuda->event_record(d->done, d->streams[0]) : CUDA_SUCCESS;
    return r == CUDA_SUCCESS ? GXRT_OK : device_error(d, "cuEventRecord", r, "ending");
}

bool wait_is_hopeless(Device *d)
{
    return d->is_late && ask_all(d, seconds_now()) == CUDA_ERROR_LAUNCH_TIMEOUT;
}
