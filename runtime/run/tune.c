/* The tuner: each candidate runs with the operands that the launch would read now. What it writes goes to memory of
 * the tuner's own, with a zone behind and before it in which nothing may change; candidates whose results agree
 * form a cluster, and the largest cluster is believed. Of it the fastest is chosen; candidates that are hardly
 * slower count as equally fast, and then the program's own kernel stays. */
#include "runtime/run/tune.h"

#include <stdlib.h>
#include <string.h>

enum {
    ZONE = 4096,     /* bytes on each side of what a candidate writes */
    FILL = 0xA5,     /* in zones, and in results before they are there */
    SAMPLES = 5,     /* of which the fastest counts */
    BATCH_MOST = 64, /* launches of a sample */
    BATCH_MICROSECONDS = 200,
    REGIONS_MOST = 64,
    EQUAL_PERCENT = 1, /* slower than the fastest, and as good */
    FAILURE_TEXT = 256
};

/* Memory that the launch writes, and where candidates write instead. */
typedef struct Region {
    CUdeviceptr at;
    size_t bytes;
    bool is_read;      /* before it is written: its contents matter */
    CUdeviceptr block; /* zone, bytes, zone */
} Region;

/* What one candidate did. */
typedef struct Trial {
    const PlanCandidate *candidate;
    char failure[FAILURE_TEXT]; /* "": none */
    unsigned char *results;     /* of all regions; the first of a cluster keeps them */
    size_t cluster;             /* number of its first trial */
    uint64_t picoseconds;
} Trial;

typedef struct Tuning {
    Device *device;
    const PlanTunable *tunable;
    const PlanCommand *command;
    CUstream stream;
    Region regions[REGIONS_MOST];
    size_t region_count, result_bytes;
    uint64_t *slots; /* by arg */
    void **parameters;
    GxemuParameter *touches; /* of the emulator */
    Trial *trials;
} Tuning;

static const PlanArg *arg_of(const Tuning *t, uint32_t i)
{
    return &t->device->session->plan->args[t->command->args + i];
}

static bool is_driver_ok(const Tuning *t, CUresult r, const char *call, gxrt_status *st)
{
    if (r != CUDA_SUCCESS) {
        *st = command_error(t->device, t->command, call, r);
    }
    return r == CUDA_SUCCESS;
}

/* --- memory ------------------------------------------------------------------------------------ */

static size_t arg_bytes(const Tuning *t, uint32_t i)
{
    return t->device->session->plan->slices[arg_of(t, i)->index].bytes;
}

static Region *find_region(Tuning *t, CUdeviceptr at, size_t bytes, bool *overlaps)
{
    for (size_t i = 0; i < t->region_count; i++) {
        Region *r = &t->regions[i];
        *overlaps |= at < r->at + r->bytes && r->at < at + bytes;
        if (at >= r->at && bytes <= r->bytes && at - r->at <= r->bytes - bytes) {
            return r;
        }
    }
    return NULL;
}

/* False: two results lie in one another, or there are too many. */
static bool add_region(Tuning *t, CUdeviceptr at, size_t bytes, bool is_read)
{
    bool overlaps = false;
    Region *r = find_region(t, at, bytes, &overlaps);
    if (r) {
        r->is_read |= is_read;
        return true;
    }
    if (overlaps || t->region_count == REGIONS_MOST) {
        return false;
    }
    t->regions[t->region_count++] =
        (Region){.at = at, .bytes = bytes, .is_read = is_read};
    t->result_bytes += bytes;
    return true;
}

/* Where the launch writes, and which of it it reads. False: an operand lies partly in it. */
static bool find_regions(Tuning *t)
{
    bool good = true;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < t->command->arg_count && good; i++) {
            const PlanArg *a = arg_of(t, i);
            bool writes = a->tag == PLAN_ARG_SLICE && (a->access & PLAN_WRITE);
            if (a->tag != PLAN_ARG_SLICE || writes != (pass == 0)) {
                continue;
            }
            CUdeviceptr at = t->device->slots[t->command->args + i];
            bool overlaps = false;
            if (writes) {
                good = add_region(t, at, arg_bytes(t, i), (a->access & PLAN_READ) != 0);
            } else {
                Region *r = find_region(t, at, arg_bytes(t, i), &overlaps);
                good = r || !overlaps;
                if (r) {
                    r->is_read = true;
                }
            }
        }
    }
    return good;
}

static gxrt_status allocate_regions(Tuning *t)
{
    gxrt_status st = GXRT_OK;
    for (size_t i = 0; i < t->region_count && st == GXRT_OK; i++) {
        Region *r = &t->regions[i];
        is_driver_ok(t,
                     t->device->session->cuda->mem_alloc(&r->block, r->bytes + 2 * ZONE),
                     "cuMemAlloc", &st);
    }
    return st;
}

/* The launch's arguments, with the tuner's memory in place of what it writes. */
static gxrt_status make_parameters(Tuning *t)
{
    const Plan *p = t->device->session->plan;
    uint32_t n = t->command->arg_count;
    t->slots = calloc((size_t)n + 1, sizeof *t->slots);
    t->parameters = calloc((size_t)n + 1, sizeof *t->parameters);
    t->touches = calloc((size_t)n + 1, sizeof *t->touches);
    t->trials = calloc(t->tunable->candidate_count, sizeof *t->trials);
    if (!t->slots || !t->parameters || !t->touches || !t->trials) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_tune: no memory");
    }
    for (uint32_t i = 0; i < n; i++) {
        bool overlaps = false;
        t->slots[i] = t->device->slots[t->command->args + i];
        t->parameters[i] = &t->slots[i];
        if (t->device->emu_parameters) {
            t->touches[i] = t->device->emu_parameters[t->command->args + i];
        }
        Region *r = arg_of(t, i)->tag == PLAN_ARG_SLICE
                        ? find_region(t, t->slots[i], arg_bytes(t, i), &overlaps)
                        : NULL;
        if (r) {
            t->slots[i] = r->block + ZONE + (t->slots[i] - r->at);
        }
    }
    for (uint32_t i = 0; i < t->tunable->candidate_count; i++) {
        t->trials[i].candidate = &p->candidates[t->tunable->candidates + i];
    }
    return GXRT_OK;
}

/* As the launch finds them. */
static gxrt_status fill_regions(const Tuning *t)
{
    const CudaApi *cuda = t->device->session->cuda;
    gxrt_status st = GXRT_OK;
    for (size_t i = 0; i < t->region_count && st == GXRT_OK; i++) {
        const Region *r = &t->regions[i];
        size_t all = r->bytes + 2 * ZONE;
        is_driver_ok(t, cuda->set_8(r->block, FILL, all, t->stream), "cuMemsetD8Async",
                     &st);
        if (st == GXRT_OK && r->is_read) {
            is_driver_ok(
                t, cuda->copy_on_device(r->block + ZONE, r->at, r->bytes, t->stream),
                "cuMemcpyDtoDAsync", &st);
        }
    }
    return st;
}

static gxrt_status wait(const Tuning *t)
{
    gxrt_status st = GXRT_OK;
    is_driver_ok(t, t->device->session->cuda->stream_synchronize(t->stream),
                 "cuStreamSynchronize", &st);
    return st;
}

/* --- one candidate ------------------------------------------------------------------------------- */

static void fail(Trial *trial, const char *text)
{
    snprintf(trial->failure, sizeof trial->failure, "%s", text);
}

/* Queues it. A launch that the driver refuses is the candidate's failure. */
static bool launch(const Tuning *t, Trial *trial)
{
    Device *d = t->device;
    const CudaApi *cuda = d->session->cuda;
    uint32_t kernel = trial->candidate->kernel;
    CUlaunchConfig *config = &d->launches[kernel].config;
    config->hStream = t->stream;
    CUresult r;
    if (cuda->emulated) {
        GxemuLaunch note = {plan_text(d->session->plan, t->command->name), t->touches,
                            t->command->arg_count};
        r = cuda->emu_launch(config, d->functions[kernel], t->parameters, &note);
    } else {
        r = cuda->launch(config, d->functions[kernel], t->parameters, NULL);
    }
    if (r != CUDA_SUCCESS) {
        const char *name = NULL;
        char words[FAILURE_TEXT / 2] = "";
        cuda->error_name(r, &name);
        if (cuda->emulated) {
            cuda->emu_last_error(words, sizeof words);
        }
        snprintf(trial->failure, sizeof trial->failure, "it does not start: %s%s%s",
                 name ? name : "an unknown error", *words ? ": " : "", words);
    }
    return r == CUDA_SUCCESS;
}

static bool is_filled(const unsigned char *zone)
{
    size_t i = 0;
    while (i < ZONE && zone[i] == FILL) {
        i++;
    }
    return i == ZONE;
}

/* The results, and whether the zones are as they were. */
static gxrt_status download(const Tuning *t, Trial *trial)
{
    const CudaApi *cuda = t->device->session->cuda;
    unsigned char *zones = malloc(2 * ZONE);
    trial->results = malloc(t->result_bytes + 1);
    gxrt_status st = zones && trial->results
                         ? GXRT_OK
                         : status_set(GXRT_OUT_OF_MEMORY, "gxrt_tune: no memory");
    size_t at = 0;
    for (size_t i = 0; i < t->region_count && st == GXRT_OK; i++) {
        const Region *r = &t->regions[i];
        const struct {
            void *to;
            CUdeviceptr from;
            size_t bytes;
        } parts[3] = {{zones, r->block, ZONE},
                      {trial->results + at, r->block + ZONE, r->bytes},
                      {zones + ZONE, r->block + ZONE + r->bytes, ZONE}};
        for (int k = 0; k < 3 && st == GXRT_OK; k++) {
            is_driver_ok(
                t,
                cuda->copy_to_host(parts[k].to, parts[k].from, parts[k].bytes, t->stream),
                "cuMemcpyDtoHAsync", &st);
        }
        st = st == GXRT_OK ? wait(t) : st;
        at += r->bytes;
        if (st == GXRT_OK && (!is_filled(zones) || !is_filled(zones + ZONE))) {
            fail(trial, "it writes outside its results");
        }
    }
    free(zones);
    return st;
}

static bool agrees(const Tuning *t, const Trial *x, const Trial *y)
{
    const Plan *p = t->device->session->plan;
    const gxrt_tuner *tuner = t->device->tune->tuner;
    for (uint32_t i = 0; i < t->command->arg_count; i++) {
        const char *dtype = plan_text(p, p->refs[t->tunable->dtypes + i]);
        size_t at = 0;
        CUdeviceptr address = t->device->slots[t->command->args + i];
        const Region *r = t->regions;
        for (; r < t->regions + t->region_count &&
               !(address >= r->at && address < r->at + r->bytes);
             r++) {
            at += r->bytes;
        }
        if (!*dtype || r == t->regions + t->region_count) {
            continue;
        }
        at += address - r->at;
        if (!tuner->agree(tuner->user, dtype, x->results + at, y->results + at,
                          arg_bytes(t, i))) {
            return false;
        }
    }
    return true;
}

/* Its results, and the first trial that has the same ones. */
static gxrt_status check(Tuning *t, size_t number)
{
    Trial *trial = &t->trials[number];
    gxrt_status st = fill_regions(t);
    if (st != GXRT_OK || !launch(t, trial)) {
        return st;
    }
    st = wait(t);
    st = st == GXRT_OK ? download(t, trial) : st;
    trial->cluster = number;
    for (size_t i = 0; i < number && st == GXRT_OK && !*trial->failure; i++) {
        Trial *first = &t->trials[i];
        if (!*first->failure && first->cluster == i && agrees(t, first, trial)) {
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
    is_driver_ok(t, cuda->event_record(events[0], t->stream), "cuEventRecord", &st);
    for (unsigned i = 0; i < count && st == GXRT_OK && launch(t, trial); i++) {
    }
    if (st == GXRT_OK) {
        is_driver_ok(t, cuda->event_record(events[1], t->stream), "cuEventRecord", &st);
    }
    st = st == GXRT_OK ? wait(t) : st;
    if (st == GXRT_OK) {
        is_driver_ok(t, cuda->event_elapsed(&milliseconds, events[0], events[1]),
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

static gxrt_status measure(const Tuning *t, Trial *trial, const CUevent events[2])
{
    bool is_fresh = needs_fresh(t);
    double one = 0, least = 0;
    gxrt_status st = fill_regions(t);
    st = st == GXRT_OK ? time_batch(t, trial, events, 1, &one) : st;
    double wanted = one > 0 ? BATCH_MICROSECONDS / one : BATCH_MOST;
    unsigned count = is_fresh || wanted < 1 ? 1
                     : wanted < BATCH_MOST  ? (unsigned)wanted
                                            : BATCH_MOST;
    for (int i = 0; i < SAMPLES && st == GXRT_OK && !*trial->failure; i++) {
        double all = 0;
        st = is_fresh ? fill_regions(t) : GXRT_OK;
        st = st == GXRT_OK ? time_batch(t, trial, events, count, &all) : st;
        least = i == 0 || all / count < least ? all / count : least;
    }
    trial->picoseconds = (uint64_t)(1e6 * least) + (least <= 0);
    return st;
}

/* Of those whose results are believed. On the emulator as the model of time has it. */
static gxrt_status measure_all(Tuning *t, size_t cluster)
{
    const CudaApi *cuda = t->device->session->cuda;
    CUevent events[2] = {NULL, NULL};
    gxrt_status st = GXRT_OK;
    for (int i = 0; i < 2 && st == GXRT_OK; i++) {
        is_driver_ok(t, cuda->event_create(&events[i], CU_EVENT_DEFAULT), "cuEventCreate",
                     &st);
    }
    for (uint32_t i = 0; i < t->tunable->candidate_count && st == GXRT_OK; i++) {
        Trial *trial = &t->trials[i];
        if (*trial->failure) {
            continue;
        }
        if (trial->cluster != cluster) {
            fail(trial, "its results are not those of most others");
        } else if (cuda->emulated) {
            trial->picoseconds = trial->candidate->modelled;
        } else {
            st = measure(t, trial, events);
        }
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
    for (size_t i = 0; i < t->tunable->candidate_count; i++) {
        size_t members = 0;
        for (size_t k = 0; k < t->tunable->candidate_count; k++) {
            members += !*t->trials[k].failure && t->trials[k].cluster == i;
        }
        if (members > most) {
            most = members;
            best = i;
        }
    }
    return best;
}

/* The first of those that are hardly slower than the fastest; PLAN_NONE: there is none. */
static uint32_t choose(const Tuning *t)
{
    uint64_t least = UINT64_MAX;
    uint32_t count = t->tunable->candidate_count, i = 0;
    for (uint32_t k = 0; k < count; k++) {
        const Trial *trial = &t->trials[k];
        if (!*trial->failure && trial->picoseconds < least) {
            least = trial->picoseconds;
        }
    }
    while (i < count &&
           (*t->trials[i].failure ||
            t->trials[i].picoseconds > least + least / 100 * EQUAL_PERCENT)) {
        i++;
    }
    return i < count ? i : PLAN_NONE;
}

static gxrt_status all_failed(const Tuning *t)
{
    const Plan *p = t->device->session->plan;
    char text[1024];
    size_t used = 0;
    for (uint32_t i = 0; i < t->tunable->candidate_count && used < sizeof text; i++) {
        const PlanCandidate *c = t->trials[i].candidate;
        int n = snprintf(text + used, sizeof text - used, "\n  %s %s: %s",
                         plan_text(p, c->kind), plan_text(p, c->config),
                         t->trials[i].failure);
        used += n > 0 ? (size_t)n : 0;
    }
    return status_set(
        GXRT_DEVICE_FAILED,
        "All configs failed during profiling of %s, key %s.\nFailures (%u):%s",
        plan_text(p, t->command->name), plan_text(p, t->tunable->key),
        t->tunable->candidate_count, text);
}

static void report(const Tuning *t, uint32_t chosen)
{
    const Plan *p = t->device->session->plan;
    const gxrt_tuner *tuner = t->device->tune->tuner;
    for (uint32_t i = 0; i < t->tunable->candidate_count; i++) {
        const Trial *trial = &t->trials[i];
        tuner->trial(tuner->user,
                     &(gxrt_trial){.name = plan_text(p, t->command->name),
                                   .key = plan_text(p, t->tunable->key),
                                   .kind = plan_text(p, trial->candidate->kind),
                                   .config = plan_text(p, trial->candidate->config),
                                   .failure = *trial->failure ? trial->failure : NULL,
                                   .picoseconds = trial->picoseconds,
                                   .is_own = i == 0,
                                   .is_chosen = i == chosen});
    }
}

static gxrt_status try_all(Tuning *t)
{
    gxrt_status st = allocate_regions(t);
    st = st == GXRT_OK ? make_parameters(t) : st;
    for (uint32_t i = 0; i < t->tunable->candidate_count && st == GXRT_OK; i++) {
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
    for (uint32_t i = 0; t->trials && i < t->tunable->candidate_count; i++) {
        free(t->trials[i].results);
    }
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
    launch_prepare(d, c);
    gxrt_status st = GXRT_OK;
    is_driver_ok(&t, d->session->cuda->context_synchronize(), "cuCtxSynchronize", &st);
    if (st == GXRT_OK && find_regions(&t)) {
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
    gxrt_status st = gxrt_execute(s, n, runs);
    for (size_t i = 0; i < s->device_count && st == GXRT_OK; i++) {
        st = gxrt_synchronize(s, i);
    }
    d->tune = NULL;
    free(is_done);
    return st;
}
