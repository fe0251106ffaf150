/* The tuner: each candidate runs with the operands that the command would read now. What it writes goes to memory of
 * the tuner's own, with a zone behind and before it in which nothing may change; candidates whose results agree
 * form a cluster, and the largest cluster is believed. Of it the fastest is chosen; candidates that are hardly
 * slower count as equally fast, and then the program's own kernel stays. */
#include "runtime/run/tune.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/run/tuning.h"

enum {
    BATCH_MOST = 64, /* launches of a sample */
    BATCH_MICROSECONDS = 200,
    EQUAL_PERCENT =
        3 /* slower than the fastest, and as good: an H100's clocks move as much between samples */
};

bool tuning_driver_ok(const Tuning *t, CUresult r, const char *call, gxrt_status *st)
{
    if (r != CUDA_SUCCESS) {
        *st = command_error(t->device, t->command, call, r);
    }
    return r == CUDA_SUCCESS;
}

gxrt_status tuning_wait(const Tuning *t)
{
    gxrt_status st = GXRT_OK;
    tuning_driver_ok(t, t->device->session->cuda->stream_synchronize(t->stream),
                     "cuStreamSynchronize", &st);
    return st;
}

static void fail(Trial *trial, const char *text)
{
    snprintf(trial->failure, sizeof trial->failure, "%s", text);
}

/* Its results, and the first trial that has the same ones. */
static gxrt_status check(Tuning *t, size_t number)
{
    Trial *trial = &t->trials[number];
    gxrt_status st = tuning_fill_regions(t);
    if (st != GXRT_OK || !tuning_launch(t, trial)) {
        return st;
    }
    st = tuning_wait(t);
    st = st == GXRT_OK ? tuning_download(t, trial) : st;
    trial->cluster = number;
    for (size_t i = 0; i < number && st == GXRT_OK && !*trial->failure; i++) {
        Trial *first = &t->trials[i];
        if (!*first->failure && first->cluster == i && tuning_agrees(t, first, trial)) {
            trial->cluster = i;
            break;
        }
    }
    if (trial->cluster != number || *trial->failure) {
        free(trial->results);
        trial->results = NULL;
    }
    return st;
}

/* --- how long --------------------------------------------------------------------------------------- */

/* Microseconds of `count` launches, each of which finds what the one before has left. */
static gxrt_status time_batch(const Tuning *t, Trial *trial, const CUevent events[2],
                              unsigned count, double *microseconds)
{
    const CudaApi *cuda = t->device->session->cuda;
    gxrt_status st = GXRT_OK;
    float milliseconds = 0;
    tuning_driver_ok(t, cuda->event_record(events[0], t->stream), "cuEventRecord", &st);
    for (unsigned i = 0; i < count && st == GXRT_OK && tuning_launch(t, trial); i++) {
    }
    if (st == GXRT_OK) {
        tuning_driver_ok(t, cuda->event_record(events[1], t->stream), "cuEventRecord",
                         &st);
    }
    st = st == GXRT_OK ? tuning_wait(t) : st;
    if (st == GXRT_OK) {
        tuning_driver_ok(t, cuda->event_elapsed(&milliseconds, events[0], events[1]),
                         "cuEventElapsedTime", &st);
    }
    *microseconds = 1000.0 * (double)milliseconds;
    return st;
}

/* What is written in place, and memory in which blocks talk, is made anew before each launch. */
static bool needs_fresh(const Tuning *t)
{
    bool needs = false;
    for (size_t i = 0; i < t->region_count; i++) {
        needs |= t->regions[i].is_read;
    }
    return needs;
}

/* How many launches a sample has; one is made on the way, which also brings the GPU's clocks up. */
static gxrt_status size_batch(const Tuning *t, Trial *trial, const CUevent events[2])
{
    double one = 0;
    gxrt_status st = tuning_fill_regions(t);
    st = st == GXRT_OK ? time_batch(t, trial, events, 1, &one) : st;
    double wanted = one > 0 ? BATCH_MICROSECONDS / one : BATCH_MOST;
    trial->batch = needs_fresh(t) || wanted < 1 ? 1
                   : wanted < BATCH_MOST        ? (unsigned)wanted
                                                : BATCH_MOST;
    return st;
}

static gxrt_status take_sample(const Tuning *t, Trial *trial, const CUevent events[2],
                               int sample)
{
    double all = 0;
    gxrt_status st = needs_fresh(t) ? tuning_fill_regions(t) : GXRT_OK;
    st = st == GXRT_OK ? time_batch(t, trial, events, trial->batch, &all) : st;
    trial->samples[sample] = all / trial->batch;
    return st;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* In turns: a GPU that grows warm lowers its clocks, which is to meet all candidates alike. */
static gxrt_status take_samples(const Tuning *t, const CUevent events[2])
{
    gxrt_status st = GXRT_OK;
    for (int sample = -1; sample < TUNING_SAMPLES; sample++) {
        for (uint32_t i = 0; i < t->trial_count && st == GXRT_OK; i++) {
            Trial *trial = &t->trials[i];
            if (*trial->failure) {
                continue;
            }
            st = sample < 0 ? size_batch(t, trial, events)
                            : take_sample(t, trial, events, sample);
        }
    }
    for (uint32_t i = 0; i < t->trial_count; i++) {
        double *samples = t->trials[i].samples, middle;
        qsort(samples, TUNING_SAMPLES, sizeof *samples, by_size);
        middle = samples[TUNING_SAMPLES / 2];
        t->trials[i].picoseconds = (uint64_t)(1e6 * middle) + (middle <= 0);
    }
    return st;
}

/* Of those whose results are believed. On the emulator as the model of time has it. */
static gxrt_status measure_all(Tuning *t, size_t cluster)
{
    const CudaApi *cuda = t->device->session->cuda;
    CUevent events[2] = {NULL, NULL};
    gxrt_status st = GXRT_OK;
    for (uint32_t i = 0; i < t->trial_count; i++) {
        Trial *trial = &t->trials[i];
        trial->picoseconds = trial->modelled;
        if (!*trial->failure && trial->cluster != cluster) {
            fail(trial, "its results are not those of most others");
        }
    }
    for (int i = 0; i < 2 && st == GXRT_OK; i++) {
        tuning_driver_ok(t, cuda->event_create(&events[i], CU_EVENT_DEFAULT),
                         "cuEventCreate", &st);
    }
    if (st == GXRT_OK && !cuda->emulated) {
        st = take_samples(t, events);
    }
    for (int i = 0; i < 2; i++) {
        if (events[i]) {
            cuda->event_destroy(events[i]);
        }
    }
    return st;
}

/* --- the choice ------------------------------------------------------------------------------------- */

/* The largest one; of equal ones the first, which is that of the program's own kernel if it has none against it. */
static size_t believed_cluster(const Tuning *t)
{
    size_t best = 0, most = 0;
    for (size_t i = 0; i < t->trial_count; i++) {
        size_t members = 0;
        for (size_t k = 0; k < t->trial_count; k++) {
            members += !*t->trials[k].failure && t->trials[k].cluster == i;
        }
        if (members > most) {
            most = members;
            best = i;
        }
    }
    return best;
}

/* Of those that are hardly slower than the fastest the one that needs least memory to work in, and of those the
 * first; PLAN_NONE: there is none. */
static uint32_t choose(const Tuning *t)
{
    uint64_t least = UINT64_MAX;
    uint32_t chosen = PLAN_NONE;
    for (uint32_t i = 0; i < t->trial_count; i++) {
        const Trial *trial = &t->trials[i];
        if (!*trial->failure && trial->picoseconds < least) {
            least = trial->picoseconds;
        }
    }
    for (uint32_t i = 0; i < t->trial_count; i++) {
        const Trial *trial = &t->trials[i];
        bool is_fast =
            !*trial->failure && trial->picoseconds <= least + least / 100 * EQUAL_PERCENT;
        if (is_fast && (chosen == PLAN_NONE ||
                        trial->workspace_bytes < t->trials[chosen].workspace_bytes)) {
            chosen = i;
        }
    }
    return chosen;
}

static gxrt_status all_failed(const Tuning *t)
{
    const Plan *p = t->device->session->plan;
    char text[1024];
    size_t used = 0;
    for (uint32_t i = 0; i < t->trial_count && used < sizeof text; i++) {
        int n = snprintf(text + used, sizeof text - used, "\n  %s %s: %s",
                         t->trials[i].kind, t->trials[i].config, t->trials[i].failure);
        used += n > 0 ? (size_t)n : 0;
    }
    return status_set(
        GXRT_DEVICE_FAILED,
        "All configs failed during profiling of %s, key %s.\nFailures (%u):%s",
        plan_text(p, t->command->name), plan_text(p, t->tunable->key), t->trial_count,
        text);
}

static void report(const Tuning *t, uint32_t chosen)
{
    const Plan *p = t->device->session->plan;
    const gxrt_tuner *tuner = t->device->tune->tuner;
    for (uint32_t i = 0; i < t->trial_count; i++) {
        const Trial *trial = &t->trials[i];
        tuner->trial(tuner->user,
                     &(gxrt_trial){.name = plan_text(p, t->command->name),
                                   .key = plan_text(p, t->tunable->key),
                                   .kind = trial->kind,
                                   .config = trial->config,
                                   .failure = *trial->failure ? trial->failure : NULL,
                                   .picoseconds = trial->picoseconds,
                                   .is_own = i == 0,
                                   .is_chosen = i == chosen});
    }
}

static gxrt_status try_all(Tuning *t)
{
    gxrt_status st = tuning_add_trials(t);
    if (t->trial_count == 0) { /* a library needs more memory for all than the plan has */
        return st;
    }
    st = st == GXRT_OK ? tuning_allocate_regions(t) : st;
    st = st == GXRT_OK ? tuning_make_parameters(t) : st;
    for (uint32_t i = 0; i < t->trial_count && st == GXRT_OK; i++) {
        st = check(t, i);
    }
    st = st == GXRT_OK ? measure_all(t, believed_cluster(t)) : st;
    uint32_t chosen = st == GXRT_OK ? choose(t) : PLAN_NONE;
    if (st == GXRT_OK && chosen == PLAN_NONE) {
        return all_failed(t);
    }
    if (st == GXRT_OK) {
        report(t, chosen);
    }
    return st;
}

static void deinit(Tuning *t)
{
    for (size_t i = 0; i < t->region_count; i++) {
        if (t->regions[i].block) {
            t->device->session->cuda->mem_free(t->regions[i].block);
        }
    }
    for (uint32_t i = 0; t->trials && i < t->trial_count; i++) {
        free(t->trials[i].results);
    }
    graph_trials_destroy(t->device, t->graphs);
    free(t->slots);
    free(t->parameters);
    free(t->touches);
    free(t->trials);
}

/* Ranks share the work by the key's hash, its last digits. */
static bool is_ours(const gxrt_tuner *tuner, const char *key)
{
    size_t length = strlen(key);
    const char *digits = length > 8 ? key + length - 8 : key;
    return tuner->shards < 2 || strtoul(digits, NULL, 16) % tuner->shards == tuner->shard;
}

static gxrt_status tune(Device *d, const PlanCommand *c, const PlanTunable *tunable)
{
    Tuning t = {
        .device = d, .tunable = tunable, .command = c, .stream = d->streams[c->stream]};
    if (c->kind == PLAN_LAUNCH) {
        launch_prepare(d, c);
    }
    gxrt_status st = GXRT_OK;
    tuning_driver_ok(&t, d->session->cuda->context_synchronize(), "cuCtxSynchronize",
                     &st);
    if (st == GXRT_OK && tuning_find_regions(&t)) {
        st = try_all(&t);
    }
    deinit(&t);
    return st;
}

gxrt_status tune_command(Device *d, const PlanCommand *c)
{
    const Plan *p = d->session->plan;
    uint32_t number = (uint32_t)(c - p->commands);
    gxrt_status st = GXRT_OK;
    for (uint32_t i = 0; i < p->tunables_count && st == GXRT_OK; i++) {
        const PlanTunable *t = &p->tunables[i];
        if (t->command == number && !d->tune->is_done[i] &&
            is_ours(d->tune->tuner, plan_text(p, t->key))) {
            d->tune->is_done[i] = true;
            st = tune(d, c, t);
        }
    }
    return st;
}

gxrt_status gxrt_tune(gxrt_session *s, size_t n, const gxrt_run *runs,
                      const gxrt_tuner *tuner)
{
    if (!s || !tuner || tuner->struct_size < sizeof *tuner || !tuner->agree ||
        !tuner->trial || (tuner->shards && tuner->shard >= tuner->shards)) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_tune: a session and a tuner with agree and trial are "
                          "wanted, its shard less than its shards");
    }
    Device *d = &s->devices[0];
    if (d->capture) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_tune: the session runs CUDA graphs, in which nothing can "
                          "be measured: make one without");
    }
    bool *is_done = calloc((size_t)s->plan->tunables_count + 1, sizeof *is_done);
    if (!is_done) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_tune: no memory");
    }
    Tune tune = {tuner, is_done};
    d->tune = &tune;
    s->is_tuning = true;
    gxrt_status st = gxrt_execute(s, n, runs);
    for (size_t i = 0; i < s->device_count && st == GXRT_OK; i++) {
        st = gxrt_synchronize(s, i);
    }
    s->is_tuning = false;
    d->tune = NULL;
    free(is_done);
    return st;
}
