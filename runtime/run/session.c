/* Sessions: choosing devices, making them, running on all of them. */
#include "runtime/run/session.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/collective/collective.h"
#include "runtime/run/device.h"
#include "runtime/run/fork.h"
#include "runtime/run/select.h"

void session_log(const gxrt_session *session, int level, const char *format, ...)
{
    if (!session->options.log) {
        return;
    }
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    session->options.log(session->options.log_user, level, text);
}

/* --- workers: one thread for each device of a session with several ------------------------- */

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

static gxrt_status start_workers(gxrt_session *s)
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

static void stop_workers(gxrt_session *s)
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
}

gxrt_status session_each(gxrt_session *s, gxrt_status (*job)(Device *))
{
    if (s->device_count == 1) {
        return job(&s->devices[0]);
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

/* --- making a session ---------------------------------------------------------------------- */

static gxrt_status check_program(const gxrt_session *s)
{
    const Plan *p = s->plan;
    if (p->info->flags & PLAN_ELIDED) {
        for (uint32_t i = 0; i < p->allocations_count; i++) {
            if (p->allocations[i].elided) {
                return status_set(GXRT_INVALID_FILE,
                                  "the program cannot run: its text had the constant %s "
                                  "as {...}; print "
                                  "it with constants (JAX: "
                                  "as_hlo_text(print_large_constants=True); XLA: "
                                  "--xla_dump_large_constants) and compile again",
                                  plan_text(p, p->allocations[i].name));
            }
        }
        return status_set(GXRT_INVALID_FILE,
                          "the program cannot run: its text had a constant as {...}");
    }
    return GXRT_OK;
}

static gxrt_status check_hash(const void *bytes, size_t size, const uint8_t wanted[16],
                              const char *what)
{
    uint8_t hash[16];
    plan_hash(bytes, size, hash);
    return memcmp(hash, wanted, sizeof hash) == 0
               ? GXRT_OK
               : status_set(GXRT_INVALID_FILE,
                            "the program's %s damaged: their hash does not match; "
                            "compile or copy it again",
                            what);
}

/* What the plan does not hold itself, but names by its hash. */
static gxrt_status check_parts(const gxrt_session *s)
{
    const PlanInfo *info = s->plan->info;
    gxrt_status st = check_hash(s->program->constants.bytes, info->constant_bytes,
                                info->constant_hash, "constants are");
    if (st != GXRT_OK || s->plan->kernels_count == 0) {
        return st;
    }
    if (s->cuda->emulated) {
        return check_hash(s->variant->emu.bytes, s->variant->emu.size, info->emu_hash,
                          "kernels for the emulator are");
    }
    void *cubin = program_cubin(s->variant);
    st = cubin
             ? check_hash(cubin, s->variant->cubin.size, info->cubin_hash, "kernels are")
             : status_set(GXRT_OUT_OF_MEMORY,
                          "gxrt_session_create: no memory for the cubin");
    free(cubin);
    for (uint32_t i = 0; i < s->plan->images_count && st == GXRT_OK; i++) {
        const PlanImage *m = &s->plan->images[i];
        st = check_hash((const char *)s->variant->images.bytes + m->offset, m->bytes,
                        m->hash, "images of kernels are");
    }
    return st;
}

/* How many devices this process has, and the number of the first. */
static gxrt_status count_devices(gxrt_session *s, size_t *out_count, uint32_t *out_first)
{
    const PlanInfo *info = s->program->variants[0].plan.info;
    uint64_t all = (uint64_t)info->replicas * info->partitions;
    if (s->options.replicas && s->options.replicas != info->replicas && all != 1) {
        return status_set(
            GXRT_INVALID_ARGUMENT,
            "the program was compiled for %u replicas x %u partitions, not for "
            "%u replicas: compile it with gxc --replicas=%u",
            info->replicas, info->partitions, s->options.replicas, s->options.replicas);
    }
    bool alone = s->program->variants[0].plan.cliques_count == 0;
    if (all == 1 && s->options.replicas > 1 && !alone) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "the program has collectives and was compiled for one device: "
                          "compile it with gxc --replicas=%u",
                          s->options.replicas);
    }
    all = all == 1 && s->options.replicas ? s->options.replicas : all;
    const gxrt_world *world = s->options.world;
    uint64_t ranks = world ? world->size : 1;
    uint64_t rank = world ? world->rank : 0;
    if (all % ranks != 0) {
        return status_set(
            GXRT_INVALID_ARGUMENT,
            "the program is for %u replicas x %u partitions: %llu ranks cannot "
            "share them equally",
            info->replicas, info->partitions, (unsigned long long)ranks);
    }
    s->world_devices = (uint32_t)all;
    *out_count = (size_t)(all / ranks);
    *out_first = (uint32_t)(rank * (all / ranks));
    if (s->options.device_count && s->options.device_count != *out_count) {
        return status_set(
            GXRT_INVALID_ARGUMENT,
            "the program is for %u replicas x %u partitions, so this process "
            "needs %zu devices, not %zu",
            info->replicas, info->partitions, *out_count, s->options.device_count);
    }
    return GXRT_OK;
}

static gxrt_status initialise_cuda(const gxrt_session *s, size_t devices,
                                   int *out_available)
{
    const CudaApi *cuda = s->cuda;
    *out_available = 0;
    gxrt_status st = fork_use_devices();
    if (st != GXRT_OK) {
        return st;
    }
    if (cuda->emulated) {
        int exact = s->options.exact_emulated_devices;
        int needed = devices < INT_MAX ? (int)devices : INT_MAX;
        cuda->emu_devices(exact > 0 ? exact : needed, exact > 0);
    }
    CUresult r = cuda->init(0);
    r = r == CUDA_SUCCESS ? cuda->device_count(out_available) : r;
    if (r != CUDA_SUCCESS) {
        const char *words = NULL;
        cuda->error_string(r, &words);
        return status_set(GXRT_WRONG_DEVICE, "cuInit: %s", words ? words : "failed");
    }
    return GXRT_OK;
}

static gxrt_status too_few_devices(size_t count, long long highest, int available)
{
    return status_set(
        GXRT_WRONG_DEVICE,
        "the program needs %zu devices (the last is CUDA device %lld); this "
        "machine has %d",
        count, highest, available);
}

/* The ranks of one machine share its devices, unless their launcher shows each its own only. */
static gxrt_status choose_ordinals(const gxrt_session *s, size_t count, int available,
                                   int *out)
{
    const gxrt_world *world = s->options.world;
    size_t shares = (size_t)available / count;
    size_t first = world && shares ? world->local_rank % shares * count : 0;
    int highest = -1;
    for (size_t i = 0; i < count; i++) {
        out[i] = s->options.devices ? s->options.devices[i] : (int)(first + i);
        if (out[i] < 0)
            return status_set(GXRT_INVALID_ARGUMENT,
                              "devices[%zu] is %d: CUDA's devices are 0, 1, 2, ...", i,
                              out[i]);
        highest = out[i] > highest ? out[i] : highest;
    }
    return highest < available ? GXRT_OK : too_few_devices(count, highest, available);
}

static gxrt_status need_cublaslt(gxrt_session *s)
{
    if (s->plan->matmuls_count == 0) {
        return GXRT_OK;
    }
    if (!s->cublaslt) {
        char error[512];
        s->cublaslt = library_cublaslt(s->cuda->emulated, s->options.library_path, error,
                                       sizeof error);
        if (!s->cublaslt) {
            return status_set(GXRT_MISSING_LIBRARY, "the program calls cuBLASLt: %s",
                              error);
        }
    }
    size_t version = s->cublaslt->version();
    if (!s->cuda->emulated && version < s->plan->info->min_cublaslt) {
        return status_set(
            GXRT_MISSING_LIBRARY,
            "the program needs cuBLASLt %u or newer, this one is %zu: install "
            "a newer one",
            s->plan->info->min_cublaslt, version);
    }
    return GXRT_OK;
}

static gxrt_status need_cudnn(gxrt_session *s)
{
    char error[512];
    if (s->plan->graphs_count == 0) {
        return GXRT_OK;
    }
    s->cudnn =
        library_cudnn(s->cuda->emulated, s->options.library_path, error, sizeof error);
    if (!s->cudnn) {
        return status_set(GXRT_MISSING_LIBRARY, "the program calls cuDNN: %s", error);
    }
    size_t version = s->cudnn->version();
    if (version < s->plan->info->min_cudnn) {
        return status_set(GXRT_MISSING_LIBRARY,
                          "the program needs cuDNN %u or newer, this one is %zu: install "
                          "a newer one, or compile with --libraries=cublaslt",
                          s->plan->info->min_cudnn, version);
    }
    return GXRT_OK;
}

static gxrt_status need_cusolver(gxrt_session *s)
{
    char error[512];
    int version = 0;
    if (s->plan->solvers_count == 0) {
        return GXRT_OK;
    }
    s->cusolver =
        library_cusolver(s->cuda->emulated, s->options.library_path, error, sizeof error);
    if (!s->cusolver) {
        return status_set(GXRT_MISSING_LIBRARY, "the program calls cuSOLVER: %s", error);
    }
    s->cusolver->version(&version);
    if (version < 0 || (uint32_t)version < s->plan->info->min_cusolver) {
        return status_set(
            GXRT_MISSING_LIBRARY,
            "the program needs cuSOLVER %u or newer, this one is %d: install a "
            "newer one, or compile with --libraries=cublaslt,cudnn",
            s->plan->info->min_cusolver, version);
    }
    return GXRT_OK;
}

static gxrt_status make_devices(gxrt_session *s, size_t count, uint32_t first,
                                const int *ordinals)
{
    s->devices = calloc(count, sizeof *s->devices);
    if (!s->devices) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    for (size_t i = 0; i < count; i++) {
        Device *d = &s->devices[i];
        d->session = s;
        d->number = first + (uint32_t)i;
        d->ordinal = ordinals[i];
        s->device_count = i + 1;
        gxrt_status st = device_create(d);
        if (st != GXRT_OK) {
            return st;
        }
    }
    gxrt_status st = start_workers(s);
    return st == GXRT_OK ? collective_create(s) : st;
}

/* The emulator's kernels are code of this CPU: nothing keeps them from what the process may do. */
static gxrt_status check_native(const gxrt_session *s)
{
    if (!s->cuda->emulated || s->plan->kernels_count == 0 || s->options.allow_native) {
        return GXRT_OK;
    }
    return status_set(
        GXRT_INVALID_ARGUMENT,
        "gxrt_session_create: on the emulator %s runs as machine code with all "
        "rights of this process: set allow_native in the session's options if "
        "it may",
        s->program->path[0] ? s->program->path : "the program");
}

static gxrt_status build_session(gxrt_session *s)
{
    size_t count = 0;
    uint32_t first = 0;
    gxrt_status st = count_devices(s, &count, &first);
    if (st != GXRT_OK) {
        return st;
    }
    int available = 0;
    st = initialise_cuda(s, count, &available);
    if (st == GXRT_OK && !s->options.devices && count > (size_t)available) {
        /* there may be no memory to number them */
        st = too_few_devices(count, (long long)count - 1, available);
    }
    if (st != GXRT_OK) {
        return st;
    }
    int *ordinals = malloc(count * sizeof *ordinals);
    if (!ordinals) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    st = choose_ordinals(s, count, available, ordinals);
    st = st == GXRT_OK ? select_variant(s, ordinals, count) : st;
    st = st == GXRT_OK ? check_native(s) : st;
    st = st == GXRT_OK ? check_program(s) : st;
    st = st == GXRT_OK ? check_parts(s) : st;
    st = st == GXRT_OK ? need_cublaslt(s) : st;
    st = st == GXRT_OK ? need_cudnn(s) : st;
    st = st == GXRT_OK ? need_cusolver(s) : st;
    st = st == GXRT_OK ? collective_load(s) : st;
    st = st == GXRT_OK ? make_devices(s, count, first, ordinals) : st;
    free(ordinals);
    return st;
}

/* The options are the caller's struct, which may be an older and shorter one. */
static gxrt_status copy_options(const gxrt_session_options *from,
                                gxrt_session_options *out)
{
    memset(out, 0, sizeof *out);
    out->struct_size = sizeof *out;
    if (!from) {
        return GXRT_OK;
    }
    if (from->struct_size < sizeof(size_t)) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_session_create: struct_size of the options is not set");
    }
    size_t n = from->struct_size < sizeof *out ? from->struct_size : sizeof *out;
    memcpy((char *)out + sizeof(size_t), (const char *)from + sizeof(size_t),
           n - sizeof(size_t));
    return GXRT_OK;
}

/* Functions of the caller that a session calls while it is made. */
static gxrt_status check_callbacks(const gxrt_session *s)
{
    const gxrt_allocator *a = s->options.allocator;
    if (a && (a->struct_size < sizeof *a || !a->allocate || !a->release)) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_session_create: struct_size, allocate or release of the "
                          "allocator is not set");
    }
    const gxrt_streams *lender = s->options.streams;
    if (lender &&
        (lender->struct_size < sizeof *lender || !lender->borrow || !lender->give_back)) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_session_create: struct_size, borrow or give_back of the "
                          "streams is not set");
    }
    return check_host_calls(s);
}

/* Not a number, and no time at all, mean the default. */
static double timeout_of(double seconds)
{
    enum { DEFAULT = 40, MOST = 1000000000 };
    return !(seconds > 0) ? DEFAULT : seconds < MOST ? seconds : MOST;
}

gxrt_status session_create(const gxrt_program *program,
                           const gxrt_session_options *options, const CudaApi *cuda,
                           const CublasltApi *cublaslt, const NcclApi *nccl,
                           gxrt_session **out)
{
    *out = NULL;
    gxrt_session *s = calloc(1, sizeof *s);
    if (!s) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    s->program = program;
    s->cuda = cuda;
    s->cublaslt = cublaslt;
    s->nccl = nccl;
    s->generation = fork_generation();
    gxrt_status st = copy_options(options, &s->options);
    s->options.timeout_seconds = timeout_of(s->options.timeout_seconds);
    st = st == GXRT_OK ? check_callbacks(s) : st;
    st = st == GXRT_OK ? build_session(s) : st;
    if (st != GXRT_OK) {
        gxrt_session_destroy(s);
        return st;
    }
    *out = s;
    return GXRT_OK;
}

/* GPUs if there is a driver that finds one. */
static bool has_gpu(const gxrt_session_options *options, const CudaApi **out, char *error,
                    size_t error_size)
{
    int count = 0;
    *out = library_cuda(false, options->library_path, error, error_size);
    return *out && (*out)->init(0) == CUDA_SUCCESS &&
           (*out)->device_count(&count) == CUDA_SUCCESS && count > 0;
}

static gxrt_status choose_api(const gxrt_session_options *options, const CudaApi **out)
{
    const char *device = options->device ? options->device : "auto";
    char error[512] = "";
    if (strcmp(device, "auto") == 0 && has_gpu(options, out, error, sizeof error)) {
        return GXRT_OK;
    }
    if (strcmp(device, "cuda") == 0) {
        *out = library_cuda(false, options->library_path, error, sizeof error);
    } else if (strcmp(device, "auto") == 0 || strcmp(device, "emu") == 0 ||
               strncmp(device, "emu:", 4) == 0) {
        *out = library_cuda(true, options->library_path, error, sizeof error);
        if (*out && options->log && strcmp(device, "auto") == 0) {
            options->log(options->log_user, 0, "no NVIDIA GPU: running on the emulator");
        }
    } else {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "device \"%s\": there is auto, cuda, emu and emu:TARGET",
                          device);
    }
    return *out ? GXRT_OK : status_set(GXRT_MISSING_LIBRARY, "%s", error);
}

/* Copies the name of a target to the caller's `size` bytes. */
static gxrt_status give_target(const char *name, char *target, size_t size)
{
    if (strlen(name) >= size) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_device_target: %s needs %zu bytes, %zu are given", name,
                          strlen(name) + 1, size);
    }
    strcpy(target, name);
    return GXRT_OK;
}

gxrt_status gxrt_device_target(const char *device, char *target, size_t size)
{
    if (!target) {
        return status_set(GXRT_INVALID_ARGUMENT, "gxrt_device_target: NULL target");
    }
    gxrt_session_options options = {.struct_size = sizeof options, .device = device};
    gxrt_session s = {.device_count = 0};
    gxrt_status st = choose_api(&options, &s.cuda);
    if (st != GXRT_OK) {
        return st;
    }
    if (s.cuda->emulated) {
        return give_target("emu", target, size);
    }
    char name[16];
    int ordinal = 0;
    int available = 0;
    st = initialise_cuda(&s, 1, &available);
    st = st == GXRT_OK ? choose_ordinals(&s, 1, available, &ordinal) : st;
    st = st == GXRT_OK ? select_target(&s, name, sizeof name) : st;
    return st == GXRT_OK ? give_target(name, target, size) : st;
}

gxrt_status gxrt_session_create(const gxrt_program *program,
                                const gxrt_session_options *options, gxrt_session **out)
{
    if (!program || !out) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_session_create: NULL program or result");
    }
    *out = NULL;
    gxrt_session_options all;
    const CudaApi *cuda = NULL;
    gxrt_status st = copy_options(options, &all);
    st = st == GXRT_OK ? choose_api(&all, &cuda) : st;
    return st == GXRT_OK ? session_create(program, &all, cuda, NULL, NULL, out) : st;
}

static bool is_hopeless(gxrt_session *s)
{
    bool hopeless = false;
    for (size_t i = 0; i < s->device_count && !hopeless; i++) {
        Device *d = &s->devices[i];
        if (d->is_late && device_enter(d) == GXRT_OK) {
            hopeless = wait_is_hopeless(d);
            device_leave(d);
        }
    }
    return hopeless;
}

void gxrt_session_destroy(gxrt_session *s)
{
    if (!s || s->generation != fork_generation()) { /* it is the parent's */
        return;
    }
    stop_workers(s);
    if (is_hopeless(s)) {
        session_log(s, 1,
                    "gxrt_session_destroy: a device that was late is not done: its "
                    "memory and the session are kept");
        return;
    }
    for (size_t i = 0; i < s->device_count; i++) { /* while the watchdog can end a hang */
        if (s->devices[i].context && device_enter(&s->devices[i]) == GXRT_OK) {
            s->cuda->context_synchronize();
            device_leave(&s->devices[i]);
        }
    }
    collective_destroy(s);
    for (size_t i = 0; i < s->device_count; i++) {
        device_destroy(&s->devices[i]);
    }
    free(s->devices);
    free(s);
}

gxrt_status gxrt_session_get_info(const gxrt_session *s, gxrt_session_info *info)
{
    if (!s || !info || info->struct_size < sizeof(size_t)) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_session_get_info: NULL, or struct_size not set");
    }
    gxrt_session_info all = {.device_name = s->device_name,
                             .emulated = s->cuda->emulated,
                             .variant = (size_t)(s->variant - s->program->variants),
                             .device_count = s->device_count,
                             .first_device = s->devices[0].number,
                             .first_ordinal = s->devices[0].ordinal};
    size_t n = info->struct_size < sizeof all ? info->struct_size : sizeof all;
    memcpy((char *)info + sizeof(size_t), (const char *)&all + sizeof(size_t),
           n - sizeof(size_t));
    return GXRT_OK;
}

/* --- running ------------------------------------------------------------------------------ */

gxrt_status session_verdict(const gxrt_session *s, const char *function)
{
    return !s->failed ? GXRT_OK
                      : status_set(GXRT_DEVICE_FAILED,
                                   "%s: a device of this session has failed before: "
                                   "destroy it and make another, in a new process if a "
                                   "kernel was at fault",
                                   function);
}

static gxrt_status check_all(gxrt_session *s, size_t n, const gxrt_run *runs)
{
    if (!s || !runs) {
        return status_set(GXRT_INVALID_ARGUMENT, "gxrt_execute: NULL session or runs");
    }
    gxrt_status forked = fork_check(s->generation, "gxrt_execute");
    if (forked != GXRT_OK) {
        return forked;
    }
    if (n != s->device_count) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_execute: %zu runs for a session with %zu devices", n,
                          s->device_count);
    }
    gxrt_status verdict = watchdog_verdict(s);
    if (verdict != GXRT_OK) {
        return verdict;
    }
    verdict = session_verdict(s, "gxrt_execute");
    if (verdict != GXRT_OK) {
        return verdict;
    }
    for (size_t i = 0; i < n; i++) {
        Device *d = &s->devices[i];
        d->run = &runs[i];
        gxrt_status st = device_enter(d);
        if (st != GXRT_OK) {
            return st;
        }
        st = check_run(d);
        device_leave(d);
        if (st != GXRT_OK) {
            return st;
        }
    }
    return GXRT_OK;
}

static gxrt_status execute_all(gxrt_session *s)
{
    collective_enter(s);
    gxrt_status st = session_each(s, execute_run);
    collective_leave(s);
    return st;
}

gxrt_status gxrt_execute(gxrt_session *s, size_t n, const gxrt_run *runs)
{
    gxrt_status st = check_all(s, n, runs);
    return st == GXRT_OK ? execute_all(s) : st;
}

static gxrt_status report_timings(Device *d, void (*event)(void *, const gxrt_event *),
                                  void *user)
{
    const gxrt_session *s = d->session;
    for (size_t i = 0; i < d->timing_count; i++) {
        const Timing *t = &d->timings[i];
        const PlanCommand *c = &s->plan->commands[t->command];
        float start = 0;
        float duration = 0;
        CUresult r = s->cuda->event_elapsed(&start, d->timings[0].start, t->start);
        r = r == CUDA_SUCCESS ? s->cuda->event_elapsed(&duration, t->start, t->end) : r;
        if (r != CUDA_SUCCESS) {
            return device_error(d, "cuEventElapsedTime", r, "gxrt_profile");
        }
        gxrt_event e = {.name = plan_text(s->plan, c->name),
                        .kind = plan_command_name(c->kind),
                        .device = d->number,
                        .stream = t->stream,
                        .start_us = 1000.0 * (double)start,
                        .duration_us = 1000.0 * (double)duration,
                        .command = t->command};
        event(user, &e);
    }
    return GXRT_OK;
}

static gxrt_status finish_profile(Device *d, gxrt_status st,
                                  void (*event)(void *, const gxrt_event *), void *user)
{
    const CudaApi *cuda = d->session->cuda;
    if (device_enter(d) == GXRT_OK) {
        CUresult r = wait_executions(d, wait_deadline(d));
        r = r == CUDA_SUCCESS ? cuda->context_synchronize() : r;
        if (st == GXRT_OK) {
            st = r == CUDA_SUCCESS
                     ? report_timings(d, event, user)
                     : device_error(d, "cuCtxSynchronize", r, "gxrt_profile");
        }
        for (size_t i = 0; i < d->timing_count; i++) {
            cuda->event_destroy(d->timings[i].start);
            if (d->timings[i].end) {
                cuda->event_destroy(d->timings[i].end);
            }
        }
        device_leave(d);
    }
    free(d->timings);
    d->timings = NULL;
    d->timing_count = 0;
    d->timing_capacity = 0;
    d->profiling = false;
    return st;
}

gxrt_status gxrt_profile(gxrt_session *s, size_t n, const gxrt_run *runs,
                         void (*event)(void *user, const gxrt_event *event), void *user)
{
    if (!event) {
        return status_set(GXRT_INVALID_ARGUMENT, "gxrt_profile: NULL event");
    }
    gxrt_status st = check_all(s, n, runs);
    if (st != GXRT_OK) {
        return st;
    }
    for (size_t i = 0; i < n; i++) {
        s->devices[i].profiling = true;
    }
    st = execute_all(s);
    for (size_t i = 0; i < n; i++) {
        gxrt_status done = finish_profile(&s->devices[i], st, event, user);
        st = st == GXRT_OK ? done : st;
    }
    return st;
}
