/* One thread for each device of a session with several: a device whose kernels, copies or collectives wait must not
 * keep the others. A session with one device has none, its caller works. */
#include <stdio.h>

#include "runtime/run/session.h"

static void *work(void *argument)
{
    Device *d = argument;
    gxrt_session *s = d->session;
    pthread_mutex_lock(&s->mutex);
    while (!s->stop) {
        if (!d->has_work) {
            pthread_cond_wait(&d->wake, &s->mutex);
            continue;
        }
        pthread_mutex_unlock(&s->mutex);
        d->is_stopped = false;
        d->status = s->job(d);
        if (d->status != GXRT_OK) {
            snprintf(d->error, sizeof d->error, "%s", gxrt_last_error());
            s->failed |= d->groups != NULL; /* the others must not wait for this one */
        }
        pthread_mutex_lock(&s->mutex);
        d->has_work = false;
        if (--s->busy == 0) {
            pthread_cond_signal(&s->idle);
        }
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

gxrt_status workers_start(gxrt_session *s)
{
    if (s->device_count < 2) {
        return GXRT_OK;
    }
    s->has_mutex = pthread_mutex_init(&s->mutex, NULL) == 0;
    s->has_idle = s->has_mutex && pthread_cond_init(&s->idle, NULL) == 0;
    s->has_round_over = s->has_idle && pthread_cond_init(&s->round_over, NULL) == 0;
    bool ok = s->has_round_over;
    for (size_t i = 0; i < s->device_count && ok; i++) {
        Device *d = &s->devices[i];
        d->has_wake = pthread_cond_init(&d->wake, NULL) == 0;
        d->has_thread = d->has_wake && pthread_create(&d->thread, NULL, work, d) == 0;
        ok = d->has_thread;
    }
    return ok ? GXRT_OK
              : status_set(GXRT_OUT_OF_MEMORY,
                           "gxrt_session_create: no thread can be made");
}

void workers_stop(gxrt_session *s)
{
    if (s->has_mutex) {
        pthread_mutex_lock(&s->mutex);
        s->stop = true;
        pthread_mutex_unlock(&s->mutex);
    }
    for (size_t i = 0; i < s->device_count; i++) {
        Device *d = &s->devices[i];
        if (d->has_thread) {
            pthread_mutex_lock(&s->mutex);
            pthread_cond_signal(&d->wake);
            pthread_mutex_unlock(&s->mutex);
            pthread_join(d->thread, NULL);
        }
        if (d->has_wake) {
            pthread_cond_destroy(&d->wake);
        }
        d->has_thread = d->has_wake = false; /* a kept session is destroyed again */
    }
    if (s->has_round_over) {
        pthread_cond_destroy(&s->round_over);
    }
    if (s->has_idle) {
        pthread_cond_destroy(&s->idle);
    }
    if (s->has_mutex) {
        pthread_mutex_destroy(&s->mutex);
    }
    s->has_round_over = s->has_idle = s->has_mutex = false;
}

gxrt_status session_each(gxrt_session *s, gxrt_status (*job)(Device *))
{
    if (s->device_count == 1) {
        gxrt_status st = job(&s->devices[0]);
        /* the collectives of other processes would meet those of the next execution */
        s->failed |= st != GXRT_OK && s->transport != NULL;
        return st;
    }
    pthread_mutex_lock(&s->mutex);
    s->job = job;
    s->busy = s->device_count;
    for (size_t i = 0; i < s->device_count; i++) {
        s->devices[i].has_work = true;
        pthread_cond_signal(&s->devices[i].wake);
    }
    while (s->busy > 0) {
        pthread_cond_wait(&s->idle, &s->mutex);
    }
    pthread_mutex_unlock(&s->mutex);
    const Device *failed = NULL;
    for (size_t i = 0; i < s->device_count; i++) {
        const Device *d = &s->devices[i];
        if (d->status != GXRT_OK && (!failed || (failed->is_stopped && !d->is_stopped))) {
            failed = d;
        }
    }
    return failed ? status_set(failed->status, "%s", failed->error) : GXRT_OK;
}
