/* The tuner: each candidate runs with the operands that the command would read now. What it writes goes to memory of
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
    FAILURE_TEXT = 256,
    ALGORITHM_TEXT = 256,
    ALGORITHMS_MOST = 8 /* of a library, by its own order */
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
    const char *kind, *config;
    uint32_t kernel; /* of the plan; PLAN_NONE: a library's algorithm */
    cublasLtMatmulAlgo_t algorithm;
    char algorithm_config[ALGORITHM_TEXT];
    uint64_t workspace_bytes, modelled;
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
    uint32_t trial_count;
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
            CUdeviceptr at = slice_address(t->device, a->index);
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

/* The candidates that the plan has. */
static void add_kernels(Tuning *t)
{
    const Plan *p = t->device->session->plan;
    for (uint32_t i = 0; i < t->trial_count; i++) {
        const PlanCandidate *c = &p->candidates[t->tunable->candidates + i];
        t->trials[i] = (Trial){.kind = plan_text(p, c->kind),
                               .config = plan_text(p, c->config),
                               .kernel = c->kernel,
                               .modelled = c->modelled};
    }
}

/* {"algorithm":"0123...","version":130100,"workspace":0} */
static void describe_algorithm(Trial *trial, size_t version)
{
    unsigned char bytes[sizeof trial->algorithm];
    memcpy(bytes, &trial->algorithm, sizeof bytes);
    char *text = trial->algorithm_config;
    int n = snprintf(text, ALGORITHM_TEXT, "{\"algorithm\":\"");
    for (size_t i = 0; i < sizeof bytes; i++) {
        n += snprintf(text + n, ALGORITHM_TEXT - (size_t)n, "%02x", bytes[i]);
    }
    snprintf(text + n, ALGORITHM_TEXT - (size_t)n,
             "\",\"version\":%zu,\"workspace\":%llu}", version,
             (unsigned long long)trial->workspace_bytes);
}

/* The one that the program has first, then those of the library's heuristic. */
static gxrt_status add_algorithms(Tuning *t)
{
    const Device *d = t->device;
    cublasLtMatmulHeuristicResult_t found[ALGORITHMS_MOST];
    int count = 0;
    cublasStatus_t r =
        matmul_heuristic(d, t->command->index, ALGORITHMS_MOST, found, &count);
    const Plan *p = d->session->plan;
    uint32_t number = (uint32_t)(t->command - p->commands);
    if (r != 0) {
        return status_set(GXRT_DEVICE_FAILED,
                          "cublasLtMatmulAlgoGetHeuristic: cuBLASLt status %d for %s", r,
                          plan_text(p, t->command->name));
    }
    const cublasLtMatmulAlgo_t *own = &d->matmuls[t->command->index].algorithm;
    for (int i = 1; i < count; i++) {
        if (memcmp(&found[i].algo, own, sizeof *own) == 0) {
            cublasLtMatmulHeuristicResult_t first = found[0];
            found[0] = found[i];
            found[i] = first;
        }
    }
    for (int i = 0; i < count; i++) {
        Trial *trial = &t->trials[t->trial_count];
        *trial = (Trial){
            .kind = "cublaslt",
            .config = trial->algorithm_config,
            .kernel = PLAN_NONE,
            .algorithm = found[i].algo,
            .workspace_bytes = found[i].workspaceSize,
            .modelled = p->origins_count ? p->origins[number].modelled : 0,
        };
        describe_algorithm(trial, d->session->cublaslt->version());
        t->trial_count += found[i].state == 0;
    }
    return GXRT_OK;
}

static gxrt_status add_trials(Tuning *t)
{
    uint32_t count = t->tunable->candidate_count;
    t->trials = calloc((size_t)count + ALGORITHMS_MOST, sizeof *t->trials);
    if (!t->trials) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_tune: no memory");
    }
    if (t->command->kind == PLAN_MATMUL) {
        return add_algorithms(t);
    }
    t->trial_count = count;
    add_kernels(t);
    return GXRT_OK;
}

/* Where the command has its operand i: in the tuner's memory, if it is written. */
static uint64_t moved_address(Tuning *t, uint32_t i)
{
    bool overlaps = false;
    CUdeviceptr at = slice_address(t->device, arg_of(t, i)->index);
    const Region *r = find_region(t, at, arg_bytes(t, i), &overlaps);
    return r ? r->block + ZONE + (at - r->at) : at;
}

/* The command's arguments, with the tuner's memory in place of what it writes. */
static gxrt_status make_parameters(Tuning *t)
{
    const Device *d = t->device;
    uint32_t n = t->command->arg_count;
    t->slots = calloc((size_t)n + 1, sizeof *t->slots);
    t->parameters = calloc((size_t)n + 1, sizeof *t->parameters);
    t->touches = calloc((size_t)n + 1, sizeof *t->touches);
    if (!t->slots || !t->parameters || !t->touches) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_tune: no memory");
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t arg = t->command->args + i;
        t->slots[i] = arg_of(t, i)->tag == PLAN_ARG_SLICE ? moved_address(t, i)
                      : t->command->kind == PLAN_LAUNCH   ? d->slots[arg]
                                                          : 0;
        t->parameters[i] = &t->slots[i];
        if (d->emu_parameters) {
            t->touches[i] = d->emu_parameters[arg];
        }
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

static bool launch_algorithm(const Tuning *t, Trial *trial)
{
    void *at[PLAN_MATMUL_ARGS];
    for (int i = 0; i < PLAN_MATMUL_ARGS; i++) {
        at[i] = (void *)(uintptr_t)t->slots[i];
    }
    cublasStatus_t r =
        matmul_queue(t->device, t->command, at, &trial->algorithm, t->stream);
    if (r != 0) {
        snprintf(trial->failure, sizeof trial->failure,
                 "it does not start: cuBLASLt status %d", r);
    }
    return r == 0;
}

static bool launch_kernel(const Tuning *t, Trial *trial)
{
    Device *d = t->device;
    const CudaApi *cuda = d->session->cuda;
    CUlaunchConfig *config = &d->launches[trial->kernel].config;
    config->hStream = t->stream;
    CUresult r;
    if (cuda->emulated) {
        GxemuLaunch note = {plan_text(d->session->plan, t->command->name), t->touches,
                            t->command->arg_count};
        r = cuda->emu_launch(config, d->functions[trial->kernel], t->parameters, &note);
    } else {
        r = cuda->launch(config, d->functions[trial->kernel], t->parameters, NULL);
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

/* Queues it. What the driver or the library refuses is the candidate's failure. */
static bool launch(const Tuning *t, Trial *trial)
{
    return trial->kernel == PLAN_NONE ? launch_algorithm(t, trial)
                                      : launch_kernel(t, trial);
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
        if (!*dtype) {
            continue;
        }
        CUdeviceptr address = slice_address(t->device, arg_of(t, i)->index);
        const Region *r = t->regions;
        for (; r < t->regions + t->region_count &&
               !(address >= r->at && address < r->at + r->bytes);
             r++) {
            at += r->bytes;
        }
        if (r == t->regions + t->region_count) {
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
    for (uint32_t i = 0; i < t->trial_count && st == GXRT_OK; i++) {
        Trial *trial = &t->trials[i];
        if (*trial->failure) {
            continue;
        }
        if (trial->cluster != cluster) {
            fail(trial, "its results are not those of most others");
        } else if (cuda->emulated) {
            trial->picoseconds = trial->modelled;
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
    gxrt_status st = add_trials(t);
    st = st == GXRT_OK ? allocate_regions(t) : st;
    st = st == GXRT_OK ? make_parameters(t) : st;
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
