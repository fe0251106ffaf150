/* Sessions: choosing devices, making and destroying them. */
#include "runtime/run/session.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/base/clock.h"
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

gxrt_status session_verdict(const gxrt_session *s, const char *function)
{
    return !s->failed ? GXRT_OK
                      : status_set(GXRT_DEVICE_FAILED,
                                   "%s: a device of this session has failed before: "
                                   "destroy it and make another, in a new process if a "
                                   "kernel was at fault",
                                   function);
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
        CUresult r = cuda->emu_devices(exact > 0 ? exact : needed, exact > 0);
        if (exact > 0 && r != CUDA_SUCCESS) {
            char why[256] = "";
            cuda->emu_last_error(why, sizeof why);
            return status_set(GXRT_INVALID_ARGUMENT,
                              "gxrt_session_create: exact_emulated_devices: %s", why);
        }
    }
    CUresult r = cuda->init(0);
    r = r == CUDA_SUCCESS ? cuda->device_count(out_available) : r;
    if (r != CUDA_SUCCESS) {
        const char *words = NULL;
        char why[256] = ""; /* a setting of the emulator */
        cuda->error_string(r, &words);
        if (cuda->emulated)
            cuda->emu_last_error(why, sizeof why);
        return status_set(GXRT_WRONG_DEVICE, "cuInit: %s%s%s", words ? words : "failed",
                          why[0] ? ": " : "", why);
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
    gxrt_status st = workers_start(s);
    return st == GXRT_OK ? collective_create(s) : st;
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
    st = st == GXRT_OK ? requirements_check(s) : st;
    st = st == GXRT_OK ? host_calls_resolve(s) : st;
    st = st == GXRT_OK ? collective_load(s) : st;
    st = st == GXRT_OK ? make_devices(s, count, first, ordinals) : st;
    free(ordinals);
    return st;
}

/* The options are the caller's struct, which may be an older and shorter one. Structs with pointers are whole words long:
 * no pointer is cut in two. */
static gxrt_status copy_options(const gxrt_session_options *from,
                                gxrt_session_options *out)
{
    memset(out, 0, sizeof *out);
    out->struct_size = sizeof *out;
    if (!from) {
        return GXRT_OK;
    }
    if (from->struct_size < sizeof(size_t) || from->struct_size % sizeof(size_t) != 0) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_session_create: struct_size of the options is not set to "
                          "their size: %zu",
                          from->struct_size);
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

static gxrt_status check_numbers(const gxrt_session_options *o)
{
    if (o->exact_emulated_devices < 0) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "gxrt_session_create: exact_emulated_devices is %d",
                          o->exact_emulated_devices);
    }
    gxrt_status st =
        wait_check_seconds("gxrt_session_create: timeout_seconds", o->timeout_seconds);
    return st != GXRT_OK
               ? st
               : wait_check_seconds("gxrt_session_create: max_seconds", o->max_seconds);
}

static double timeout_of(double seconds)
{
    enum { DEFAULT = 40, MOST = 1000000000 };
    return seconds == 0 ? DEFAULT : seconds < MOST ? seconds : MOST;
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
    st = st == GXRT_OK ? check_numbers(&s->options) : st;
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

/* GPUs if there is a driver that finds one. `why`: what keeps a driver that is there from starting, else "". */
static bool has_gpu(const gxrt_session_options *options, const CudaApi **out, char *why,
                    size_t why_size)
{
    char missing[512];
    int count = 0;
    const char *call = "cuInit";
    *out = library_cuda(false, options->library_path, missing, sizeof missing);
    CUresult r = *out ? (*out)->init(0) : CUDA_ERROR_NO_DEVICE;
    if (r == CUDA_SUCCESS) {
        call = "cuDeviceGetCount";
        r = (*out)->device_count(&count);
    }
    if (r != CUDA_SUCCESS && r != CUDA_ERROR_NO_DEVICE) {
        const char *words = NULL;
        (*out)->error_string(r, &words);
        snprintf(why, why_size, " that works (%s: %s)", call, words ? words : "failed");
    }
    return r == CUDA_SUCCESS && count > 0;
}

static gxrt_status choose_api(const gxrt_session_options *options, const CudaApi **out)
{
    const char *device = options->device ? options->device : "auto";
    char error[512] = "", why[256] = "", text[320];
    if (strcmp(device, "auto") == 0 && has_gpu(options, out, why, sizeof why)) {
        return GXRT_OK;
    }
    if (strcmp(device, "cuda") == 0) {
        *out = library_cuda(false, options->library_path, error, sizeof error);
    } else if (strcmp(device, "auto") == 0 || strcmp(device, "emu") == 0 ||
               strncmp(device, "emu:", 4) == 0) {
        *out = library_cuda(true, options->library_path, error, sizeof error);
        if (*out && options->log && strcmp(device, "auto") == 0) {
            snprintf(text, sizeof text, "no NVIDIA GPU%s: running on the emulator", why);
            options->log(options->log_user, why[0] != 0, text);
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
        bool is_limited = d->context && s->options.max_seconds > 0;
        if (is_limited && device_enter(d) == GXRT_OK) {
            if (!d->is_late) {
                wait_executions(d); /* the first wait since the last execution */
            }
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
    workers_stop(s);
    bool hopeless = is_hopeless(s);
    if (hopeless && s->watchdog) { /* it must not work on what the caller destroys next */
        collective_give_up(s);
        for (int tries = 0; tries < 100 && (hopeless = is_hopeless(s)); tries++) {
            sleep_seconds(0.01); /* what waits for other devices ends now */
        }
    }
    if (hopeless) {
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
    free(s->host_calls);
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
