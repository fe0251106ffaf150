/* See queue.h. Everything here is guarded by emu_lock, which an operation's run leaves.
 *
 * Schedules: eager runs an operation on the caller's thread when nothing before it is left;
 * whatever then has to wait goes to the stream's thread. lazy never runs anything before
 * somebody waits for it, and then only what that one needs: a missing wait shows. What waits
 * for other devices is asked for at once, by the stream's thread. */
#include "runtime/emu/queue.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/emu/steps.h"

struct CUstream_st {
    CUcontext context;
    CUstream next; /* in the context */
    Operation *head, *tail;
    bool is_running; /* somebody runs `head` */
    bool is_closing;
    bool is_blocking; /* ordered with the legacy default stream */
    bool has_thread;
    pthread_t thread;
    unsigned users;    /* who waits for its operations, and its owner */
    uint64_t demanded; /* lazy: the thread runs everything up to this operation */
    Captured captured; /* what is submitted becomes a node of a graph */
};

struct CUevent_st {
    uint64_t recorded; /* recordings submitted */
    uint64_t done;     /* the last one that took place */
    CUstream stream;   /* of the last one submitted */
    uint64_t sequence; /* of the last one submitted */
    unsigned users;    /* operations that name it, and its owner */
    Captured captured; /* the last recording belongs to a capture */
    struct timespec when;
    bool has_time;
};

/* A wait leaves the lock: others may close the stream meanwhile. */
static void stream_release(CUstream s)
{
    if (--s->users == 0)
        free(s);
}

static void event_release(CUevent event)
{
    if (event == NULL || --event->users != 0)
        return;
    captured_clear(&event->captured);
    free(event);
}

void operation_destroy(Operation *op)
{
    event_release(op->event);
    if (op->destroy != NULL)
        op->destroy(op);
    else
        free(op);
}

/* Is an operation before `sequence` left in this stream? */
static bool has_before(const struct CUstream_st *s, uint64_t sequence)
{
    return s != NULL && s->head != NULL && s->head->sequence < sequence;
}

/* A stream whose operations the head of `s` has to wait for by the rule of the legacy default
 * stream, or NULL. */
static CUstream legacy_waits_for(CUstream s)
{
    CUcontext c = s->context;
    if (s != c->legacy)
        return s->is_blocking && has_before(c->legacy, s->head->sequence) ? c->legacy
                                                                          : NULL;
    for (CUstream t = c->streams; t != NULL; t = t->next)
        if (t != s && t->is_blocking && has_before(t, s->head->sequence))
            return t;
    return NULL;
}

static bool event_waits(const Operation *op)
{
    return op->kind == OPERATION_WAIT && op->event->done < op->record;
}

static bool head_is_ready(CUstream s)
{
    if (s->head == NULL || s->is_running)
        return false;
    if (s->context->failed != CUDA_SUCCESS)
        return true; /* it will only be dropped */
    return !event_waits(s->head) && legacy_waits_for(s) == NULL;
}

/* Microseconds to wait before the next operation. */
static uint32_t operation_delay(void)
{
    static uint64_t state;
    const EmuConfig *c = emu_config();
    if (c->delay_seed == 0 || c->delay == 0)
        return c->delay;
    state = (state + c->delay_seed) * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (uint32_t)(state >> 33) % c->delay;
}

static void operation_run(CUstream s, Operation *op)
{
    CUcontext c = s->context;
    uint32_t delay = operation_delay();
    Finding finding = {0};
    pthread_mutex_unlock(&emu_lock);
    if (delay != 0) {
        struct timespec t = {.tv_sec = delay / 1000000,
                             .tv_nsec = (long)(delay % 1000000) * 1000};
        nanosleep(&t, NULL);
    }
    bool done = steps_take(1, "a stream", &finding) && op->run(op, &finding);
    if (!done)
        context_fail(c, &finding);
    pthread_mutex_lock(&emu_lock);
}

/* Runs the head, which is ready, and takes it out. */
static void head_run(CUstream s)
{
    Operation *op = s->head;
    s->is_running = true;
    if (op->kind == OPERATION_WORK && s->context->failed == CUDA_SUCCESS)
        operation_run(s, op);
    if (op->kind == OPERATION_RECORD) {
        if (op->record > op->event->done)
            op->event->done = op->record;
        clock_gettime(CLOCK_MONOTONIC, &op->event->when);
        op->event->has_time = true;
    }
    s->head = op->next;
    if (s->head == NULL)
        s->tail = NULL;
    s->is_running = false;
    operation_destroy(op);
    pthread_cond_broadcast(&emu_changed);
}

static void lazy_run(CUstream s, uint64_t last);

static void *queue_thread(void *argument)
{
    CUstream s = argument;
    bool is_lazy = emu_config()->schedule == SCHEDULE_LAZY;
    pthread_mutex_lock(&emu_lock);
    for (;;) {
        if (is_lazy && s->head != NULL && s->head->sequence <= s->demanded)
            lazy_run(s, s->demanded);
        else if (!is_lazy && head_is_ready(s))
            head_run(s);
        else if (s->is_closing && s->head == NULL)
            break;
        else
            pthread_cond_wait(&emu_changed, &emu_lock);
    }
    pthread_mutex_unlock(&emu_lock);
    return NULL;
}

static bool thread_ensure(CUstream s)
{
    if (s->has_thread)
        return true;
    s->has_thread = pthread_create(&s->thread, NULL, queue_thread, s) == 0;
    return s->has_thread;
}

/* lazy: runs the stream up to the operation `last`, and of other streams what that needs. */
static void lazy_run(CUstream s, uint64_t last)
{
    s->users++;
    while (s->head != NULL && s->head->sequence <= last) {
        if (s->is_running) {
            pthread_cond_wait(&emu_changed, &emu_lock);
        } else if (head_is_ready(s)) {
            head_run(s);
        } else if (event_waits(s->head)) {
            CUevent event = s->head->event;
            uint64_t before = event->done;
            event->users++;
            lazy_run(s->head->recorded_in, s->head->recorded_at);
            if (event->done == before) /* another device's thread is on it */
                pthread_cond_wait(&emu_changed, &emu_lock);
            event_release(event);
        } else {
            lazy_run(legacy_waits_for(s), s->head->sequence - 1);
        }
    }
    stream_release(s);
}

/* Of all devices; under the lock. */
static unsigned stream_count;

static CUstream stream_create(CUcontext c, bool is_blocking)
{
    CUstream s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->context = c;
    s->users = 1;
    s->is_blocking = is_blocking;
    s->next = c->streams;
    c->streams = s;
    stream_count++;
    return s;
}

/* The stream behind a handle of `c`, or NULL. Call under the lock. */
static CUstream stream_find(CUcontext c, CUstream handle)
{
    /* 1: CU_STREAM_LEGACY; 2: CU_STREAM_PER_THREAD, which a thread here shares with others. */
    if (handle == NULL || (uintptr_t)handle <= 2) {
        if (c->legacy == NULL)
            c->legacy = stream_create(c, true);
        return c->legacy;
    }
    for (CUstream s = c->streams; s != NULL; s = s->next)
        if (s == handle)
            return s;
    return NULL;
}

/* An operation of a stream that is captured, or a wait for one that is: never run, kept in the
 * graph. */
static CUresult submit_captured(CUstream s, Operation *op)
{
    CUresult r = CUDA_SUCCESS;
    if (op->kind == OPERATION_WORK)
        return captured_add(&s->captured, op);
    if (op->kind == OPERATION_RECORD)
        r = captured_copy(&op->event->captured, &s->captured);
    else
        r = captured_join(&s->captured, &op->event->captured);
    operation_destroy(op);
    return r;
}

static CUresult submit_locked(CUcontext c, CUstream handle, Operation *op)
{
    CUstream s = stream_find(c, handle);
    Schedule schedule = emu_config()->schedule;
    if (s == NULL) {
        operation_destroy(op);
        return emu_refuse(CUDA_ERROR_INVALID_HANDLE,
                          "the stream is not one of this context");
    }
    if (s->captured.graph != NULL ||
        (op->kind == OPERATION_WAIT && op->event->captured.graph != NULL))
        return submit_captured(s, op);
    op->sequence = ++c->sequence;
    if (op->kind == OPERATION_WAIT) {
        op->recorded_in = op->event->stream;
        op->recorded_at = op->event->sequence;
    } else if (op->kind == OPERATION_RECORD) {
        captured_clear(&op->event->captured);
        op->event->stream = s;
        op->event->sequence = op->sequence;
        op->record = ++op->event->recorded;
    }
    bool is_alone = s->head == NULL;
    if (is_alone)
        s->head = op;
    else
        s->tail->next = op;
    s->tail = op;
    if (schedule == SCHEDULE_LAZY && !op->may_block)
        return CUDA_SUCCESS;
    s->demanded = op->sequence;
    if (schedule == SCHEDULE_EAGER && is_alone && !op->may_block && head_is_ready(s)) {
        head_run(s);
        return c->failed;
    }
    if (!thread_ensure(s)) {
        lazy_run(s, op->sequence);
        return c->failed;
    }
    pthread_cond_broadcast(&emu_changed);
    return CUDA_SUCCESS;
}

/* Who asks again and again must see progress in the end, but does not wait: the head may need another device. */
static void lazy_demand(CUstream s, uint64_t last)
{
    if (!thread_ensure(s)) {
        lazy_run(s, last);
        return;
    }
    s->demanded = last > s->demanded ? last : s->demanded;
    pthread_cond_broadcast(&emu_changed);
}

CUresult queue_submit(CUcontext c, CUstream handle, Operation *op)
{
    pthread_mutex_lock(&emu_lock);
    CUresult r = submit_locked(c, handle, op);
    pthread_mutex_unlock(&emu_lock);
    return r;
}

/* Waits until the operations up to `last` are done. */
static void stream_wait_until(CUstream s, uint64_t last)
{
    if (emu_config()->schedule == SCHEDULE_LAZY) {
        lazy_run(s, last);
        return;
    }
    s->users++;
    while (s->head != NULL && s->head->sequence <= last)
        pthread_cond_wait(&emu_changed, &emu_lock);
    stream_release(s);
}

CUresult queue_synchronize(CUcontext c, CUstream handle)
{
    pthread_mutex_lock(&emu_lock);
    CUstream s = stream_find(c, handle);
    CUresult r = CUDA_ERROR_INVALID_HANDLE;
    if (s != NULL && s->captured.graph != NULL) {
        r = emu_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                       "a stream that is captured cannot be waited for");
    } else if (s != NULL) {
        stream_wait_until(s, c->sequence);
        r = c->failed;
    }
    pthread_mutex_unlock(&emu_lock);
    return r;
}

Captured *queue_captured(CUcontext c, CUstream handle)
{
    CUstream s = (uintptr_t)handle <= 2 ? NULL : stream_find(c, handle);
    return s == NULL ? NULL : &s->captured;
}

void queue_end_capture(CUcontext c, CUgraph graph)
{
    for (CUstream s = c->streams; s != NULL; s = s->next)
        if (s->captured.graph == graph)
            captured_clear(&s->captured);
}

/* The youngest stream with an operation up to `last`; NULL: none. */
static CUstream first_busy(CUcontext c, uint64_t last)
{
    for (CUstream s = c->streams; s != NULL; s = s->next)
        if (has_before(s, last + 1))
            return s;
    return NULL;
}

CUresult queue_synchronize_all(CUcontext c)
{
    pthread_mutex_lock(&emu_lock);
    uint64_t last = c->sequence;
    CUstream s;
    while ((s = first_busy(c, last)) != NULL)
        stream_wait_until(s, last);
    CUresult r = c->failed;
    pthread_mutex_unlock(&emu_lock);
    return r;
}

/* Lets the stream finish, takes it out of its context and frees it, once, whoever else closes it. Leaves the lock while
 * it waits. */
static void stream_close(CUstream s)
{
    s->users++;
    stream_wait_until(s, s->context->sequence);
    if (s->is_closing) {
        stream_release(s);
        return;
    }
    for (CUstream *p = &s->context->streams; *p != NULL; p = &(*p)->next) {
        if (*p == s) {
            *p = s->next;
            break;
        }
    }
    captured_clear(&s->captured);
    if (s->context->legacy == s)
        s->context->legacy = NULL;
    s->is_closing = true;
    if (s->has_thread) {
        pthread_cond_broadcast(&emu_changed);
        pthread_mutex_unlock(&emu_lock);
        pthread_join(s->thread, NULL);
        pthread_mutex_lock(&emu_lock);
    }
    stream_count--;
    s->users--; /* its owner */
    stream_release(s);
}

void queue_destroy_all(CUcontext c)
{
    pthread_mutex_lock(&emu_lock);
    while (c->streams != NULL)
        stream_close(c->streams);
    pthread_mutex_unlock(&emu_lock);
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CUcontext c;
    CUresult r = emu_enter("cuCtxGetStreamPriorityRange", &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (least != NULL)
        *least = 0;
    if (greatest != NULL)
        *greatest = -5;
    return CUDA_SUCCESS;
}

/* Captures are never spoilt by what other threads do, whatever the mode. */
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    static _Thread_local CUstreamCaptureMode current; /* global */
    CUresult r = emu_enter("cuThreadExchangeStreamCaptureMode", NULL);
    if (r != CUDA_SUCCESS || mode == NULL || *mode < 0 ||
        *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = current;
    current = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority)
{
    CUcontext c;
    (void)priority; /* streams here have none: any order that they allow is right */
    CUresult r = emu_enter("cuStreamCreateWithPriority", &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (out == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) != 0)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE,
                          "cuStreamCreateWithPriority: flags 0x%x", flags);
    unsigned most = emu_config()->streams;
    pthread_mutex_lock(&emu_lock);
    bool is_full = stream_count >= most;
    *out = is_full ? NULL : stream_create(c, (flags & CU_STREAM_NON_BLOCKING) == 0);
    pthread_mutex_unlock(&emu_lock);
    if (is_full)
        return emu_refuse(CUDA_ERROR_NOT_SUPPORTED,
                          "a stream more than the %u that the emulator may have; "
                          "GXEMU_STREAMS=N or gxrun's --max-streams=N allows more",
                          most);
    return *out != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    CUcontext c;
    CUresult r = emu_enter("cuStreamDestroy_v2", &c);
    if (c == NULL)
        return r;
    pthread_mutex_lock(&emu_lock);
    CUstream s = (uintptr_t)stream <= 2 ? NULL : stream_find(c, stream);
    if (s != NULL)
        stream_close(s);
    pthread_mutex_unlock(&emu_lock);
    return s == NULL ? CUDA_ERROR_INVALID_HANDLE : r;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    CUcontext c;
    CUresult r = emu_enter("cuStreamSynchronize", &c);
    return r != CUDA_SUCCESS ? r : queue_synchronize(c, stream);
}

CUresult cuCtxSynchronize(void)
{
    CUcontext c;
    CUresult r = emu_enter("cuCtxSynchronize", &c);
    return r != CUDA_SUCCESS ? r : queue_synchronize_all(c);
}

CUresult cuStreamQuery(CUstream stream)
{
    CUcontext c;
    CUresult r = emu_enter("cuStreamQuery", &c);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&emu_lock);
    CUstream s = stream_find(c, stream);
    r = CUDA_ERROR_INVALID_HANDLE;
    if (s != NULL) {
        r = s->head != NULL ? CUDA_ERROR_NOT_READY : c->failed;
        if (s->head != NULL && !s->is_running && emu_config()->schedule == SCHEDULE_LAZY)
            lazy_demand(s, s->head->sequence);
    }
    pthread_mutex_unlock(&emu_lock);
    return r;
}

CUresult cuEventCreate(CUevent *out, unsigned flags)
{
    CUcontext c;
    CUresult r = emu_enter("cuEventCreate", &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (out == NULL || flags > 7)
        return emu_refuse(CUDA_ERROR_INVALID_VALUE, "cuEventCreate: flags 0x%x", flags);
    CUevent event = calloc(1, sizeof *event);
    if (event == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->users = 1;
    *out = event;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    CUresult r = emu_enter("cuEventDestroy_v2", NULL);
    if (event == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&emu_lock);
    event_release(event);
    pthread_mutex_unlock(&emu_lock);
    return r;
}

/* Submits a RECORD or WAIT. */
static CUresult event_submit(CUcontext c, CUstream stream, CUevent event,
                             OperationKind kind)
{
    if (event == NULL)
        return emu_refuse(CUDA_ERROR_INVALID_HANDLE, "the event is NULL");
    Operation *op = calloc(1, sizeof *op);
    if (op == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->kind = kind;
    op->event = event;
    pthread_mutex_lock(&emu_lock);
    event->users++;
    op->record = event->recorded;
    CUresult r = submit_locked(c, stream, op);
    pthread_mutex_unlock(&emu_lock);
    return r;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CUcontext c;
    CUresult r = emu_enter("cuEventRecord", &c);
    return r != CUDA_SUCCESS ? r : event_submit(c, stream, event, OPERATION_RECORD);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    CUcontext c;
    (void)flags;
    CUresult r = emu_enter("cuStreamWaitEvent", &c);
    return r != CUDA_SUCCESS ? r : event_submit(c, stream, event, OPERATION_WAIT);
}

CUresult cuEventQuery(CUevent event)
{
    CUcontext c;
    CUresult r = emu_enter("cuEventQuery", &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (event == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&emu_lock);
    if (event->captured.graph != NULL)
        r = CUDA_ERROR_CAPTURED_EVENT;
    else
        r = event->done < event->recorded ? CUDA_ERROR_NOT_READY : c->failed;
    pthread_mutex_unlock(&emu_lock);
    return r;
}

CUresult cuEventSynchronize(CUevent event)
{
    CUcontext c;
    CUresult r = emu_enter("cuEventSynchronize", &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (event == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&emu_lock);
    uint64_t record = event->recorded;
    event->users++;
    while (event->captured.graph == NULL && event->done < record) {
        if (emu_config()->schedule == SCHEDULE_LAZY)
            lazy_run(event->stream, event->sequence);
        else
            pthread_cond_wait(&emu_changed, &emu_lock);
    }
    r = event->captured.graph != NULL ? CUDA_ERROR_CAPTURED_EVENT : c->failed;
    event_release(event);
    pthread_mutex_unlock(&emu_lock);
    return r;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    CUcontext c;
    CUresult r = emu_enter("cuEventElapsedTime", &c);
    if (r != CUDA_SUCCESS)
        return r;
    if (milliseconds == NULL || start == NULL || end == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&emu_lock);
    if (!start->has_time || !end->has_time)
        r = CUDA_ERROR_INVALID_HANDLE;
    else if (start->done < start->recorded || end->done < end->recorded)
        r = CUDA_ERROR_NOT_READY;
    else
        *milliseconds = (float)((double)(end->when.tv_sec - start->when.tv_sec) * 1e3 +
                                (double)(end->when.tv_nsec - start->when.tv_nsec) * 1e-6);
    pthread_mutex_unlock(&emu_lock);
    return r;
}
