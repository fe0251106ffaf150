/* gxc-cudnn: plans graphs by cuDNN for a device that is only described. libgxc starts it and keeps it
 * for one compile; requests come on file 0 and are answered there. It is a process of its own
 * because cuDNN must meet libgxc-nodriver.so instead of CUDA's driver, and because what it
 * serialises holds bytes that its kernels' parameters do not use, whatever lay there before: to be
 * the same bytes in each run they are made on a fresh stack at a fixed address, without
 * randomized addresses. */
#define _GNU_SOURCE /* MAP_FIXED_NOREPLACE, personality */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/library/graph_build.h"
#include "runtime/plan/planner.h"

enum {
    LEAST_VERSION = 91000, /* 9.10: earlier ones fail with several threads */
    MOST_REQUEST = 1 << 28,
    STACK_BYTES = 64 << 20,
    WORKSPACE_LEAST = 64 << 20, /* that a plan may need, besides twice its tensors */
    FIRST_FILE = 100            /* of what keeps files open under fixed_names */
};
enum { DRIVER_FILE, FOLDER_FILE, COMPILER_FILE };

/* One that sanitizers leave to programs. */
#define STACK_ADDRESS ((void *)0x7e8000000000)

/* What cuDNN serialises has bytes that it never writes. They are the same in each run because stack and heap begin at
 * fixed addresses, but not under the address sanitizer: what its heap hands out depends on the lengths of names.
 * There all memory is handed out as zeroes; the folder that the program lies in still makes a difference. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(HAS_ADDRESS_SANITIZER)
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "max_malloc_fill_size=1073741824:malloc_fill_byte=0";
}
#endif

typedef struct Planner {
    const char *folder; /* that libcudnn is looked for in; NULL: the system's */
    const char *driver; /* path of libgxc-nodriver.so */
    bool is_reproducible;
    const CudnnApi *dnn;
    char error[512];
} Planner;

/* --- requests and replies ------------------------------------------------------------------ */

static bool read_bytes(void *to, size_t bytes)
{
    char *at = to;
    while (bytes > 0) {
        ssize_t n = read(0, at, bytes);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return false;
        }
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool write_bytes(const void *from, size_t bytes)
{
    const char *at = from;
    while (bytes > 0) {
        ssize_t n = send(0, at, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Twice what the graph's own arrays take, and something for small ones. */
static uint64_t workspace_most(const Plan *p, const PlanGraph *g)
{
    uint64_t bytes = WORKSPACE_LEAST;
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        const PlanGraphTensor *t = &p->graph_tensors[g->tensors + i];
        if (t->storage == PLAN_GRAPH_STORED) {
            bytes += 2 * plan_graph_tensor_bytes(t);
        }
    }
    return bytes;
}

/* The plan as JSON, to be freed; NULL: it has no such form. */
static char *serialise(GraphBuild *b, const GraphChoice *c, uint64_t *out_bytes)
{
    int64_t bytes = 0, got = 0;
    if (b->dnn->get(c->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                    CUDNN_TYPE_CHAR, 0, &bytes, NULL) != 0 ||
        bytes <= 0) {
        return NULL;
    }
    char *json = malloc((size_t)bytes + 1);
    if (json && b->dnn->get(c->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                            CUDNN_TYPE_CHAR, bytes, &got, json) == 0) {
        *out_bytes = (uint64_t)bytes;
        return json;
    }
    free(json);
    return NULL;
}

static bool answer_graph(const Planner *planner, const Plan *p, const PlanGraph *g,
                         const char *device)
{
    GraphBuild *b = calloc(1, sizeof *b);
    GraphChoice choice = {0};
    PlannerAnswer answer = {0};
    char *json = NULL;
    if (!b) {
        return false;
    }
    b->dnn = planner->dnn;
    GraphDevice at = {.properties = graph_build_describe_device(b, device)};
    answer.is_possible = graph_build(b, p, g, &at) &&
                         graph_build_choose(b, g, &at, workspace_most(p, g), &choice);
    answer.configurations = choice.configurations;
    answer.workspace_bytes = choice.workspace_bytes;
    if (answer.is_possible && planner->is_reproducible) {
        json = serialise(b, &choice, &answer.plan_bytes);
    }
    answer.error_bytes = answer.is_possible ? 0 : strlen(b->error);
    bool ok = write_bytes(&answer, sizeof answer) &&
              write_bytes(json, (size_t)answer.plan_bytes) &&
              write_bytes(b->error, (size_t)answer.error_bytes);
    free(json);
    graph_build_destroy(b);
    free(b);
    return ok;
}

static bool answer_request(Planner *planner, const void *bytes, size_t size,
                           const char *device)
{
    Plan plan;
    PlannerReply reply = {.magic = PLANNER_MAGIC};
    if (planner->dnn) {
        reply.cudnn_version = (uint32_t)planner->dnn->version();
        if (!plan_read(&plan, bytes, size, planner->error, sizeof planner->error)) {
            planner->dnn = NULL;
        }
    }
    reply.error_bytes = planner->dnn ? 0 : (uint32_t)strlen(planner->error);
    if (!write_bytes(&reply, sizeof reply) ||
        !write_bytes(planner->error, reply.error_bytes)) {
        return false;
    }
    for (uint32_t i = 0; planner->dnn && i < plan.graphs_count; i++) {
        if (!answer_graph(planner, &plan, &plan.graphs[i], device)) {
            return false;
        }
    }
    return true;
}

static bool serve_one(Planner *planner)
{
    PlannerRequest request;
    if (!read_bytes(&request, sizeof request) ||
        memcmp(request.magic, PLANNER_MAGIC, sizeof request.magic) != 0 ||
        request.plan_bytes > MOST_REQUEST || request.device_bytes > MOST_REQUEST) {
        return false;
    }
    char *plan = malloc((size_t)request.plan_bytes + 1);
    char *device = calloc(1, (size_t)request.device_bytes + 1);
    bool ok = plan && device && read_bytes(plan, (size_t)request.plan_bytes) &&
              read_bytes(device, (size_t)request.device_bytes) &&
              answer_request(planner, plan, (size_t)request.plan_bytes, device);
    free(plan);
    free(device);
    return ok;
}

/* --- the process --------------------------------------------------------------------------- */

static const char *const fixed_names[] = {[DRIVER_FILE] = "/proc/self/fd/100",
                                          [FOLDER_FILE] = "/proc/self/fd/101",
                                          [COMPILER_FILE] = "/proc/self/fd/102"};
static const char *const compilers[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

/* Else cuDNN opens and closes the compiler for each plan that needs it. */
static void load_compiler(void)
{
    char path[64];
    for (size_t i = 0; i < sizeof compilers / sizeof *compilers; i++) {
        snprintf(path, sizeof path, "%s/%s", fixed_names[COMPILER_FILE], compilers[i]);
        if (dlopen(path, RTLD_NOW | RTLD_LOCAL) ||
            dlopen(compilers[i], RTLD_NOW | RTLD_LOCAL)) {
            return;
        }
    }
}

static void load(Planner *planner)
{
    if (!dlopen(planner->driver, RTLD_NOW | RTLD_GLOBAL)) {
        snprintf(planner->error, sizeof planner->error, "%s: %s", planner->driver,
                 dlerror());
        return;
    }
    planner->dnn =
        library_cudnn(false, planner->folder, planner->error, sizeof planner->error);
    if (planner->dnn && planner->dnn->version() < LEAST_VERSION) {
        snprintf(planner->error, sizeof planner->error,
                 "cuDNN %zu is too old: 9.10 or newer is needed",
                 planner->dnn->version());
        planner->dnn = NULL;
    }
    if (planner->dnn) {
        load_compiler();
    }
    /* The compiler keeps the name of the folder that it runs in. */
    if (planner->dnn && chdir("/") != 0) {
        planner->is_reproducible = false;
    }
}

static void *serve(void *argument)
{
    Planner *planner = argument;
    load(planner);
    while (serve_one(planner)) {
    }
    return NULL;
}

/* Runs on fresh memory at an address that is always the same; false: it is not to be had. */
static bool serve_on_fixed_stack(Planner *planner)
{
    pthread_attr_t attributes;
    pthread_t thread;
    void *stack =
        mmap(STACK_ADDRESS, STACK_BYTES, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (stack != STACK_ADDRESS) {
        return false;
    }
    pthread_attr_init(&attributes);
    bool ok = pthread_attr_setstack(&attributes, stack, STACK_BYTES) == 0 &&
              pthread_create(&thread, &attributes, serve, planner) == 0;
    if (ok) {
        pthread_join(thread, NULL);
    }
    return ok;
}

/* Another name of the file or folder, of the same length wherever that lies; it outlives exec. */
static const char *fixed_name(const char *path, int number)
{
    int file = open(path, O_PATH);
    if (file < 0 || dup2(file, FIRST_FILE + number) < 0) {
        return path;
    }
    close(file);
    return fixed_names[number];
}

/* The folder that cuDNN is found in: the given one, or that of the system; NULL: it is not found. */
static const char *find_folder(const char *given, char found[PATH_MAX])
{
    char unused[256];
    Dl_info info;
    const CudnnApi *dnn = library_cudnn(false, given, unused, sizeof unused);
    void *function = NULL;
    if (dnn) {
        memcpy(&function, &dnn->version, sizeof function);
    }
    const char *slash =
        dnn && dladdr(function, &info) ? strrchr(info.dli_fname, '/') : NULL;
    if (!slash || slash - info.dli_fname >= PATH_MAX) {
        return NULL;
    }
    snprintf(found, PATH_MAX, "%.*s", (int)(slash - info.dli_fname), info.dli_fname);
    return found;
}

static void find_compiler(void)
{
    char folder[PATH_MAX];
    void *handle = NULL;
    for (size_t i = 0; !handle && i < sizeof compilers / sizeof *compilers; i++) {
        handle = dlopen(compilers[i], RTLD_LAZY | RTLD_LOCAL);
    }
    if (handle && dlinfo(handle, RTLD_DI_ORIGIN, folder) == 0) {
        fixed_name(folder, COMPILER_FILE);
    }
}

/* Starts itself again without randomized addresses, and with libraries found under names of the same
 * length wherever they lie: what the loader keeps of names and of searches moves everything that is
 * allocated later, and serialised plans hold such addresses. Returns where that cannot be. */
static void start_again(char **argv)
{
    char found[PATH_MAX], libraries[PATH_MAX], again[] = "again";
    const char *old = getenv("LD_LIBRARY_PATH");
    const char *folder = find_folder(argv[1][0] ? argv[1] : NULL, found);
    const char *arguments[] = {argv[0],
                               folder ? fixed_name(folder, FOLDER_FILE) : argv[1],
                               fixed_name(argv[2], DRIVER_FILE), again, NULL};
    char *copy[5];
    find_compiler();
    int n = snprintf(libraries, sizeof libraries, "LD_LIBRARY_PATH=%s:%s%s%s",
                     fixed_names[FOLDER_FILE], fixed_names[COMPILER_FILE], old ? ":" : "",
                     old ? old : "");
    char *environment[] = {libraries, NULL};
    if (n > 0 && (size_t)n < sizeof libraries) {
        memcpy(copy, arguments, sizeof copy); /* execve changes none of them */
        execve("/proc/self/exe", copy, environment);
    }
}

int main(int argc, char **argv)
{
    /* A compiler that is killed leaves nobody to plan for; one that was killed before this has
     * closed its end of the socket. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc < 3) {
        fputs("gxc-cudnn is started by gxc, which tells it what to plan\n", stderr);
        return 2;
    }
    int now = personality(0xffffffff);
    if (argc == 3 && now >= 0 && !(now & ADDR_NO_RANDOMIZE) &&
        personality((unsigned long)now | ADDR_NO_RANDOMIZE) >= 0) {
        start_again(argv);
    }
    now = personality(0xffffffff);
    Planner planner = {.folder = argv[1][0] ? argv[1] : NULL,
                       .driver = argv[2],
                       .is_reproducible = now >= 0 && (now & ADDR_NO_RANDOMIZE) != 0};
    if (!serve_on_fixed_stack(&planner)) {
        planner.is_reproducible = false;
        serve(&planner);
    }
    return 0;
}
