/* The side of libgxc: see planner.h, and runtime/planner/planner.c for the other one. */

#include "codegen/library/planner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "codegen/assembler/assemble.h"
#include "codegen/library/graph.h"
#include "ir/base/bug.h"
#include "ir/base/clock.h"
#include "runtime/plan/planner.h"

enum {
    STOP_SECONDS = 5, /* that it may take to end when nobody asks any more */
    MOST_ANSWER = 1 << 28,
    SLOTS = 256
};

/* A question that was asked. */
typedef struct Known {
    struct Known *next;
    const void *key;
    size_t key_bytes;
    PlannedGraph planned;
} Known;

/* What is being asked. The planner owns it: a throw may end the question anywhere. */
typedef struct Request {
    PlanBuilder plan;
    void *bytes; /* of the plan, as it is sent */
    struct Request *outer;
} Request;

struct Planner {
    GraphPlanner interface; /* first: passes know the planner by it */
    Arena *arena;
    PlannerOptions options;
    Request *request; /* the innermost one */
    pid_t pid;        /* 0: not started */
    int file;         /* both ways */
    const char *trouble;
    Known *known[SLOTS];
};

/* -- the process -------------------------------------------------------------------------------- */

static const char *find_beside(Arena *a, const char *name)
{
    static const char *const positions[] = {"", "/../lib/gxc", "/gxc", "/../libexec/gxc"};
    const char *own = cuda_own_folder(a);
    for (size_t i = 0; own != NULL && i < sizeof positions / sizeof *positions; i++) {
        const char *path = arena_printf(a, "%s%s/%s", own, positions[i], name);
        if (access(path, R_OK) == 0)
            return path;
    }
    return NULL;
}

/* The folder of --cuda in which cuDNN lies; "": where the system looks. */
static const char *cudnn_folder(Arena *a, const char *cuda)
{
    static const char *const positions[] = {"lib64",
                                            "lib",
                                            "nvidia/cudnn/lib",
                                            "nvidia/cu13/lib",
                                            "targets/x86_64-linux/lib",
                                            "targets/sbsa-linux/lib"};
    for (size_t i = 0; cuda != NULL && i < sizeof positions / sizeof *positions; i++) {
        const char *folder = arena_printf(a, "%s/%s", cuda, positions[i]);
        if (access(arena_printf(a, "%s/libcudnn.so.9", folder), R_OK) == 0)
            return folder;
    }
    return "";
}

/* Its surroundings are always the same, but for where libraries are looked for. */
static int spawn(Planner *p, const char *path, const char *driver, int file)
{
    const char *libraries = getenv("LD_LIBRARY_PATH");
    char *environment[2] = {NULL, NULL};
    const char *arguments[] = {"gxc-cudnn", cudnn_folder(p->arena, p->options.cuda),
                               driver, NULL};
    char *argv[4];
    posix_spawn_file_actions_t actions;
    if (libraries != NULL)
        environment[0] = arena_printf(p->arena, "LD_LIBRARY_PATH=%s", libraries);
    memcpy(argv, arguments, sizeof argv); /* posix_spawn changes none of them */
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, file, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawn(&p->pid, path, &actions, NULL, argv, environment);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0)
        p->pid = 0;
    return failed;
}

static bool start(Planner *p)
{
    int files[2];
    const char *path = find_beside(p->arena, "gxc-cudnn");
    const char *driver = find_beside(p->arena, "libgxc-nodriver.so");
    if (path == NULL || driver == NULL) {
        p->trouble = "gxc-cudnn and libgxc-nodriver.so are not beside gxc, nor in "
                     "../lib/gxc";
        return false;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, files) != 0) {
        p->trouble = arena_printf(p->arena, "socketpair: %s", strerror(errno));
        return false;
    }
    int failed = spawn(p, path, driver, files[1]);
    close(files[1]);
    p->file = files[0];
    if (failed != 0) {
        close(p->file);
        p->trouble = arena_printf(p->arena, "cannot run %s: %s", path, strerror(failed));
    }
    return failed == 0;
}

static int64_t now_milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void stop(Planner *p, bool at_once)
{
    int status;
    if (p->pid == 0)
        return;
    close(p->file); /* it ends when nobody asks any more */
    int64_t until = now_milliseconds() + (at_once ? 0 : STOP_SECONDS * 1000);
    pid_t ended = 0;
    while ((ended = waitpid(p->pid, &status, WNOHANG)) == 0 && now_milliseconds() < until)
        sleep_seconds(0.001);
    if (ended == 0) {
        kill(p->pid, SIGKILL);
        while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
            continue;
    }
    p->pid = 0;
}

/* -- talking ------------------------------------------------------------------------------------ */

/* When an answer that is asked for now has to be there, in milliseconds. */
static int64_t deadline(const Planner *p)
{
    return now_milliseconds() + p->options.seconds * 1000;
}

/* Throws ESCAPE_LATE: what a busy machine does not find out in time must not change what is compiled. */
GXC_NORETURN static void give_up(Planner *p)
{
    stop(p, true);
    escape_throw(ESCAPE_LATE,
                 "gxc-cudnn gave no answer in %lld seconds (library-seconds); "
                 "--libraries without cudnn compiles without it",
                 (long long)p->options.seconds);
}

/* Waits for the file; false: there is an error. Throws at `until`, a time in milliseconds. */
static bool wait_for(Planner *p, short events, int64_t until)
{
    for (;;) {
        struct pollfd wait = {.fd = p->file, .events = events};
        int64_t left = until - now_milliseconds();
        int ready = left > 0 ? poll(&wait, 1, (int)left) : 0;
        if (ready == 0)
            give_up(p);
        if (ready > 0 || errno != EINTR)
            return ready > 0;
    }
}

static bool send_bytes(Planner *p, const void *from, size_t bytes)
{
    const char *at = from;
    int64_t until = deadline(p);
    while (bytes > 0) {
        if (!wait_for(p, POLLOUT, until))
            return false;
        ssize_t n = send(p->file, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool receive(Planner *p, void *to, size_t bytes, int64_t until)
{
    char *at = to;
    while (bytes > 0) {
        if (!wait_for(p, POLLIN, until))
            return false;
        ssize_t n = recv(p->file, at, bytes, 0);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static const char *receive_text(Planner *p, uint64_t bytes, int64_t until)
{
    if (bytes > MOST_ANSWER)
        return NULL;
    char *text = arena_alloc(p->arena, (size_t)bytes + 1);
    return receive(p, text, (size_t)bytes, until) ? text : NULL;
}

static bool receive_answer(Planner *p, uint32_t version, PlannedGraph *out)
{
    PlannerAnswer answer;
    int64_t until = deadline(p);
    if (!receive(p, &answer, sizeof answer, until))
        return false;
    const char *plan = receive_text(p, answer.plan_bytes, until);
    const char *error = plan != NULL ? receive_text(p, answer.error_bytes, until) : NULL;
    *out = (PlannedGraph){.why = answer.is_possible ? NULL : error,
                          .cudnn_version = version,
                          .configurations = answer.configurations,
                          .workspace_bytes = answer.workspace_bytes,
                          .plan = plan,
                          .plan_bytes = answer.plan_bytes};
    return error != NULL;
}

/* What cuDNN is told of the device: its own words for it. */
static const char *describe_device(Arena *a, const Target *t)
{
    const GpuModel *m = t->device;
    return arena_printf(
        a,
        "{\"deviceVer\":%u,\"multiProcessorCount\":%u,\"warpSize\":%d,"
        "\"maxSharedMemoryPerBlock\":%d,\"maxSharedMemoryPerBlockOptin\":%u,"
        "\"reservedSharedMemoryPerBlock\":%d,\"maxRegistersPerSM\":%d,"
        "\"maxCtasPerSM\":%u,\"maxThreadsPerBlock\":%d,\"maxThreadsPerSM\":%u,"
        "\"regsPerBlock\":%d,\"totalGlobalMem\":%llu,\"smClockRateKHz\":%u,"
        "\"l2CacheSize\":%u,\"maxBlockSize\":[1024,1024,64],\"memClockRateKHz\":%u,"
        "\"maxGridSize\":[2147483647,65535,65535],\"supportCoopLaunch\":1,"
        "\"pciDeviceId\":0,\"isTccDriver\":0,\"cudaDeviceId\":0,\"driverVer\":13000,"
        "\"deviceName\":\"NVIDIA %s\"}",
        t->sm * 10, m->multiprocessors, TARGET_WARP, TARGET_STATIC_SHARED,
        m->block_shared, TARGET_RESERVED_SHARED, TARGET_REGISTERS,
        m->multiprocessor_blocks, TARGET_BLOCK_THREADS, m->multiprocessor_threads,
        TARGET_REGISTERS, (unsigned long long)m->memory_gib << 30, m->mhz * 1000,
        m->l2_kib * 1024, m->gigabytes_per_second * 1000, m->text);
}

/* Asks for all graphs of a request, once. False: nobody answers any more, p->trouble says why. */
static bool ask(Planner *p, const Target *target, Request *r, PlannedGraph *out)
{
    PlannerRequest request = {.magic = PLANNER_MAGIC};
    PlannerReply reply;
    size_t size;
    const char *device = describe_device(p->arena, target);
    if (p->pid == 0 && !start(p))
        return false;
    if (!plan_write(&r->plan, &r->bytes, &size))
        escape_throw(ESCAPE_MEMORY, "out of memory while graphs were planned");
    request.plan_bytes = size;
    request.device_bytes = strlen(device);
    bool ok = send_bytes(p, &request, sizeof request) && send_bytes(p, r->bytes, size) &&
              send_bytes(p, device, strlen(device)) &&
              receive(p, &reply, sizeof reply, deadline(p));
    if (ok && reply.error_bytes != 0) {
        p->trouble = receive_text(p, reply.error_bytes, deadline(p));
        ok = false;
    }
    for (uint32_t i = 0; ok && i < r->plan.graphs_count; i++)
        ok = receive_answer(p, reply.cudnn_version, &out[i]);
    if (!ok && p->trouble == NULL)
        p->trouble = "gxc-cudnn gave no answer";
    if (!ok)
        stop(p, true);
    return ok;
}

/* -- what is known ------------------------------------------------------------------------------- */

/* All that an answer depends on. */
static const void *key_of(Planner *p, const Target *t, const PlanBuilder *b,
                          uint32_t graph, size_t *out_bytes)
{
    const PlanGraph *g = &b->graphs[graph];
    size_t tensors = g->tensor_count * sizeof(PlanGraphTensor);
    size_t operations = g->operation_count * sizeof(PlanGraphOperation);
    const char *head = arena_printf(p->arena, "%s %s %u %u;", t->name, t->device->name,
                                    g->flags, g->tensor_count);
    size_t head_bytes = strlen(head);
    char *key = arena_alloc(p->arena, head_bytes + tensors + operations);
    memcpy(key, head, head_bytes);
    memcpy(key + head_bytes, b->graph_tensors + g->tensors, tensors);
    memcpy(key + head_bytes + tensors, b->graph_operations + g->operations, operations);
    *out_bytes = head_bytes + tensors + operations;
    return key;
}

static Known **find(Planner *p, const void *key, size_t bytes)
{
    uint8_t hash[16];
    plan_hash(key, bytes, hash);
    Known **at = &p->known[hash[0]];
    while (*at != NULL &&
           ((*at)->key_bytes != bytes || memcmp((*at)->key, key, bytes) != 0))
        at = &(*at)->next;
    return at;
}

static Request *begin_request(Planner *p, const Target *target)
{
    Request *r = malloc(sizeof *r);
    if (r == NULL)
        escape_throw(ESCAPE_MEMORY, "out of memory while graphs were planned");
    r->bytes = NULL;
    r->outer = p->request;
    p->request = r;
    PlanBuilder *b = &r->plan;
    plan_builder_init(b);
    if (!b->failed) {
        b->info[0].target = plan_string(b, target->name);
        b->info[0].sm = target->sm;
        b->info[0].suffix = (uint32_t)target->variant;
    }
    return r;
}

/* The innermost one. */
static void end_request(Planner *p)
{
    Request *r = p->request;
    p->request = r->outer;
    plan_builder_deinit(&r->plan);
    free(r->bytes);
    free(r);
}

/* Copies a graph from one plan to another. */
static void copy_graph(PlanBuilder *to, const PlanBuilder *from, uint32_t graph)
{
    PlanGraph g = from->graphs[graph];
    uint32_t tensors = to->graph_tensors_count, operations = to->graph_operations_count;
    plan_add_graph_tensors(to, from->graph_tensors + g.tensors, g.tensor_count);
    plan_add_graph_operations(to, from->graph_operations + g.operations,
                              g.operation_count);
    g.name = 0;
    g.tensors = tensors;
    g.operations = operations;
    plan_add_graphs(to, &g, 1);
}

/* Plans those graphs of `b` that are not known yet, in one question. */
static void plan_unknown(Planner *p, const Target *target, const PlanBuilder *b)
{
    Request *request = begin_request(p, target);
    Known **asked = ARENA_ARRAY(p->arena, Known *, b->graphs_count + 1);
    for (uint32_t i = 0; i < b->graphs_count; i++) {
        size_t bytes;
        const void *key = key_of(p, target, b, i, &bytes);
        Known **at = find(p, key, bytes);
        if (*at != NULL)
            continue;
        *at = ARENA_NEW(p->arena, Known);
        **at = (Known){.key = key, .key_bytes = bytes};
        asked[request->plan.graphs_count] = *at;
        copy_graph(&request->plan, b, i);
    }
    uint32_t n = request->plan.graphs_count;
    PlannedGraph *planned = ARENA_ARRAY(p->arena, PlannedGraph, n + 1);
    bool ok = n == 0 || (p->trouble == NULL && ask(p, target, request, planned));
    for (uint32_t i = 0; i < n; i++)
        asked[i]->planned = ok ? planned[i] : (PlannedGraph){.why = p->trouble};
    end_request(p);
}

const PlannedGraph *planner_plan(Planner *p, const Target *target, const PlanBuilder *b,
                                 uint32_t graph)
{
    size_t bytes;
    const void *key = key_of(p, target, b, graph, &bytes);
    if (*find(p, key, bytes) == NULL) {
        PlanBuilder *one = &begin_request(p, target)->plan;
        copy_graph(one, b, graph);
        plan_unknown(p, target, one);
        end_request(p);
    }
    return &(*find(p, key, bytes))->planned;
}

static void ask_for(GraphPlanner *interface, const Target *target,
                    Instruction *const *marked, size_t count, bool *possible)
{
    Planner *p = (Planner *)(void *)interface;
    PlanBuilder *b = &begin_request(p, target)->plan;
    GraphOperands *operands = ARENA_NEW(p->arena, GraphOperands);
    uint32_t *numbers = ARENA_ARRAY(p->arena, uint32_t, count + 1);
    for (size_t i = 0; i < count; i++)
        numbers[i] = graph_describe(b, marked[i], p->options.flags, operands)
                         ? b->graphs_count - 1
                         : PLAN_NONE;
    plan_unknown(p, target, b);
    for (size_t i = 0; i < count; i++)
        possible[i] = numbers[i] != PLAN_NONE &&
                      planner_plan(p, target, b, numbers[i])->why == NULL;
    end_request(p);
}

static bool is_there(GraphPlanner *interface)
{
    Planner *p = (Planner *)(void *)interface;
    if (p->trouble == NULL && p->pid == 0) {
        Target any;
        target_find("sm_90a", &any); /* a question about no graph needs a device, too */
        ask(p, &any, begin_request(p, &any), NULL);
        end_request(p);
    }
    return p->trouble == NULL;
}

/* -- the planner ---------------------------------------------------------------------------------- */

Planner *planner_create(Arena *a, const PlannerOptions *options)
{
    Planner *p = ARENA_NEW(a, Planner);
    *p = (Planner){.interface = {ask_for, is_there}, .arena = a, .options = *options};
    return p;
}

void planner_destroy(Planner *p)
{
    if (p == NULL)
        return;
    stop(p, false);
    while (p->request != NULL) /* a throw left it */
        end_request(p);
}

GraphPlanner *planner_interface(Planner *p)
{
    return &p->interface;
}

uint32_t planner_flags(const Planner *p)
{
    return p->options.flags;
}

const char *planner_trouble(const Planner *p)
{
    return p->trouble;
}
