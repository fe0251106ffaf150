/* A program on its devices. */
#ifndef GXC_RUNTIME_RUN_SESSION_H
#define GXC_RUNTIME_RUN_SESSION_H

#include <pthread.h>
#include <stdbool.h>

#include "runtime/collective/transport.h"
#include "runtime/library/library.h"
#include "runtime/run/program.h"
#include "runtime/run/status.h"

struct gxrt_world {
    uint32_t rank;
    uint32_t size;
    uint32_t local_rank; /* among the ranks of its machine; the rank where nobody says */
    struct Store *store; /* NULL: none */
    unsigned sessions;   /* that exchanged something through the store */
    unsigned gathers;    /* calls of gxrt_world_gather */
    unsigned generation; /* of the process that made it */
};

typedef struct Solvers Solvers; /* library/solver.c */

/* A cublasLtMatmul that is ready to be called. */
typedef struct Matmul {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c, d;
    cublasLtMatmulAlgo_t algorithm;
    unsigned char alpha[8]; /* in the scale type */
    unsigned char beta[8];
} Matmul;

typedef struct Graph Graph; /* of cuDNN, ready to be called: library/graph.c */

typedef struct Capture Capture; /* the plan as a graph of CUDA: run/capture.c */

/* What a walk of the plan is for. */
typedef enum CapturePhase {
    CAPTURE_OFF,     /* its commands are run */
    CAPTURE_RECORDS, /* it makes the graph */
    CAPTURE_UPDATES /* it gives the graph's nodes the addresses of this execution, and queues nothing */
} CapturePhase;

/* The configuration of a kernel, ready to be passed. */
typedef struct Launch {
    CUlaunchConfig config;
    CUlaunchAttribute attributes[2];
} Launch;

/* What one execution records when it is timed. */
typedef struct Timing {
    uint32_t command;
    uint32_t stream;
    CUevent start, end;
} Timing;

/* One local device: everything that executions on it use. Only one thread at a time works on
 * it: the caller's, or its own worker. */
typedef struct Device {
    gxrt_session *session;
    uint32_t number; /* replica x partitions + partition */
    int ordinal;     /* CUDA's */
    CUdevice device;
    CUcontext context; /* NULL: not retained */
    CUmodule module;
    CUfunction *functions;   /* by kernel */
    CUmodule *images;        /* by image; NULL: it did not load */
    CUdeviceptr *base;       /* by allocation; arguments and results: of this execution */
    void **owned;            /* by allocation: what must be given back */
    void *constants;         /* the block that holds .gxc.const, to be given back */
    CUstream *streams;       /* by plan stream; [0] is the caller's of this execution */
    bool *is_lacking;        /* by plan stream: nobody lent one, streams[0] stands in */
    CUevent *signals;        /* by slot */
    uint32_t *signal_stream; /* by slot: the stream that gave it last */
    CUevent *async;          /* two for each async slot: started, done */
    uint32_t *async_stream;  /* by async slot: the stream of its commands */
    CUevent fork;            /* the caller's stream at the start of an execution */
    CUevent *joins;          /* by plan stream */
    CUevent done;            /* the end of the last execution; NULL: no limit on waits */
    double deadline;         /* of this execution's call, by seconds_now; 0: none */
    _Atomic bool is_late;    /* a wait was given up */
    uint64_t *counters;
    uint64_t *slots;    /* by arg of the plan: the values that launches pass */
    void **parameters;  /* by arg: where the value is */
    bool *has_counters; /* by command: a loop counter is in its parameters */
    bool is_bound;      /* the slots without counters fit the buffers of this execution */
    Launch *launches;   /* by kernel */
    GxemuParameter *emu_parameters; /* by arg; emulator: what each may touch */
    int32_t *flag; /* pinned: predicates and selectors that are read back */
    cublasLtHandle_t cublaslt;
    Matmul *matmuls; /* by plan matmul */
    cudnnHandle_t cudnn;
    Solvers *solvers;     /* NULL: the plan has none */
    Graph **graphs;       /* by plan graph */
    CUdeviceptr *checked; /* addresses that passed the check: arguments, then results */
    uint64_t *intervals;  /* room for the overlap check */

    struct Group *groups; /* by clique; NULL: no collectives */
    struct Collectives *collectives;
    TransportComm *world_comm;  /* of all devices of the world */
    pthread_mutex_t comm_mutex; /* held while this device's communicators are called */
    bool has_comm_mutex;
    _Atomic bool
        is_aborted;      /* the watchdog has aborted the communicators: they are gone */
    uint64_t executions; /* finished ones */
    Capture *capture;    /* NULL: the session runs without graphs */
    CapturePhase phase;  /* unless it is off, failures of calls only end the capture */

    struct Tune *tune; /* only while gxrt_tune executes */
    Timing *timings;   /* only while profiling */
    size_t timing_count, timing_capacity;
    bool profiling;

    const gxrt_run *run; /* this execution */
    gxrt_status status;
    bool is_stopped; /* it failed only because another one did */
    char error[STATUS_TEXT];

    pthread_t thread; /* its worker; runs where has_work is set */
    pthread_cond_t wake;
    bool has_thread, has_wake, has_work;
} Device;

/* A barrier of the local members of a group, in their first execution. */
typedef struct Rendezvous {
    uint32_t present;
    uint64_t rounds; /* that are over */
} Rendezvous;

struct gxrt_session {
    const gxrt_program *program;
    const Variant *variant;
    const Plan *plan; /* the variant's */
    bool is_from_ptx; /* the GPU is newer than the variant's cubin */
    const CudaApi *cuda;
    const CublasltApi *cublaslt; /* NULL: not needed, as the next ones */
    const CudnnApi *cudnn;
    const CusolverApi *cusolver;
    const NcclApi *nccl;
    int nccl_version;
    const Transport *transport; /* NULL: no collective leaves a device */
    uint32_t *calls; /* by command: which of a device's collectives it is; NULL: none */
    const gxrt_host_call *
        *host_calls; /* by command: the caller's function; NULL: there are none */
    gxrt_session_options options;
    char device_name[256];
    Device *devices;
    size_t device_count;
    uint32_t world_devices; /* of all ranks */
    TransportId world_id;
    struct Watchdog *watchdog; /* NULL: no collectives */
    Rendezvous *rendezvous;    /* clique x device_count + the lowest local member */
    pthread_mutex_t mutex;     /* guards has_work, busy, stop and the rendezvous */
    pthread_cond_t round_over;
    pthread_cond_t idle;
    size_t busy; /* workers that have work */
    bool stop, has_mutex, has_idle, has_round_over;
    gxrt_status (*job)(Device *); /* what the workers do */
    _Atomic bool failed;          /* a device has failed: nothing more can run */
    unsigned generation;          /* of the process that made it */
    _Atomic bool is_tuning;       /* ranks wait for one that tries kernels */
};

/* gxrt_session_create with the tables given: for tests, which pass their own. Tables that are
 * NULL are loaded when they are needed. */
gxrt_status session_create(const gxrt_program *program,
                           const gxrt_session_options *options, const CudaApi *cuda,
                           const CublasltApi *cublaslt, const NcclApi *nccl,
                           gxrt_session **out);

/* requirements.c: that s->variant may and can run; loads the libraries that its plan calls. */
gxrt_status requirements_check(gxrt_session *s);

/* workers.c: the threads of the devices, where there are several; stop takes what start began. */
gxrt_status workers_start(gxrt_session *s);
void workers_stop(gxrt_session *s);
/* Does `job` on every local device at once, each on its own thread where there are several. */
gxrt_status session_each(gxrt_session *s, gxrt_status (*job)(Device *));

/* GXRT_DEVICE_FAILED once a device of the session has failed: its results are undefined. */
gxrt_status session_verdict(const gxrt_session *s, const char *function);

enum { DEVICE_REPORT = 1024 };
/* What the emulator says of a call that failed, as a line; of a GPU "". */
void device_report(const Device *d, char report[DEVICE_REPORT]);

/* The status of a CUDA call that failed: its name, CUDA's words, the emulator's report. */
gxrt_status device_error(Device *d, const char *call, CUresult result, const char *what);

/* The same, naming a command of the plan. */
gxrt_status command_error(Device *d, const PlanCommand *c, const char *call,
                          CUresult result);
/* The same of a library's call, which `said` names with its status. */
gxrt_status library_error(Device *d, const PlanCommand *c, const char *said);

/* Makes the device's context current on this thread; leave undoes it. */
gxrt_status device_enter(Device *d);
void device_leave(Device *d);

void session_log(const gxrt_session *session, int level, const char *format, ...)
    GXRT_FORMAT(3, 4);

/* memory.c: constants and temporary memory of one device. */
gxrt_status memory_take(Device *d, size_t bytes, size_t alignment, void **out);
void memory_give_back(Device *d, void *pointer); /* NULL is fine */
gxrt_status memory_create(Device *d);
void memory_destroy(Device *d);

/* library/matmul.c: cuBLASLt. create makes all of the plan's products ready. */
gxrt_status matmul_create(Device *d);
void matmul_destroy(Device *d);
/* At most `most` algorithms for product `number` of the plan, by the library's order. */
cublasStatus_t matmul_heuristic(const Device *d, uint32_t number, int most,
                                cublasLtMatmulHeuristicResult_t *found, int *count);
/* Queues the product of a command on these addresses, by operand; algorithm NULL: the one chosen. */
cublasStatus_t matmul_queue(Device *d, const PlanCommand *c, void *const *at,
                            const cublasLtMatmulAlgo_t *algorithm, CUstream stream);

/* library/solver.c: cuSOLVER. create asks it how much memory its functions want, and takes that. */
gxrt_status solvers_create(Device *d);
void solvers_destroy(Device *d);

/* library/graph.c: cuDNN. create makes all of the plan's graphs ready. */
gxrt_status graphs_create(Device *d);
void graphs_destroy(Device *d);

/* For a tuner: the library's configurations for a graph that find room in its workspace, in the library's order; *own:
 * that of the program. Each runs with the command's args where the slots say. NULL: it is queued; else the library's
 * words. */
enum { GRAPH_TRIALS_MOST = 8 };
typedef struct GraphTrials GraphTrials;
gxrt_status graph_trials_make(Device *d, uint32_t graph, GraphTrials **out,
                              uint32_t *count, uint32_t *own);
void graph_trials_destroy(const Device *d, GraphTrials *t); /* NULL is fine */
void graph_trial_describe(const GraphTrials *t, uint32_t i, uint32_t *number,
                          uint64_t *workspace_bytes);
const char *graph_trial_queue(Device *d, const PlanCommand *c, GraphTrials *t, uint32_t i,
                              const uint64_t *slots, CUstream stream);

/* check.c: the buffers of d->run, and which memory each allocation is in this execution. */
gxrt_status check_run(Device *d);
gxrt_status bind_run(Device *d);

/* launch.c: tables, made with the device; the parameters of all launches, when d->base has
 * changed. */
bool launch_create(Device *d);
/* From now on the image's kernel is launched as images are. */
void launch_use_image(Device *d, const PlanImage *m);
void launch_destroy(Device *d);
void launch_bind(Device *d);
/* The launch of command c with its parameters of this moment. */
CUlaunchConfig *launch_prepare(Device *d, const PlanCommand *c);

/* execute.c: queues d->run on d's streams. walk_run queues the plan's commands. */
gxrt_status execute_run(Device *d);
gxrt_status walk_run(Device *d);

/* A command with regions while it is executed: region `region` is, until command `end`. */
typedef struct Frame {
    uint32_t command;
    uint32_t region; /* PLAN_NONE: before the first one, or after the last */
    uint32_t end;
    uint64_t iteration; /* of a loop: finished ones */
} Frame;

/* capture.c: executions as one launch of a graph. create decides whether the plan can be captured;
 * execute queues d->run, *done: as a graph; `moved`: buffers have changed since the last execution.
 * While the graph is made or changed, the walk calls leaf and step in place of the commands' own
 * functions. */
gxrt_status capture_create(Device *d);
void capture_destroy(Device *d);
gxrt_status capture_execute(Device *d, bool moved, bool *done);
gxrt_status capture_leaf(Device *d, const PlanCommand *c);
gxrt_status capture_step(Device *d, const PlanCommand *c, Frame *f);

/* Columns of commands.def: `run` queues a command without regions on `stream`; `step` sets
 * f->region to the next region of one with regions. */
typedef gxrt_status PlanRunCommand(Device *d, const PlanCommand *c, CUstream stream);
typedef gxrt_status PlanStepCommand(Device *d, const PlanCommand *c, Frame *f);
#define COMMAND(id, name, counts, read, print, subject, order, refusal, node, run)       \
    PlanRunCommand run_##run;
#define REGIONS(id, name, regions, read, print, subject, order, refusal, step)           \
    PlanStepCommand step_##step;
#include "runtime/plan/commands.def"
gxrt_status run_command(Device *d, const PlanCommand *c, CUstream stream);
gxrt_status step_command(Device *d, const PlanCommand *c, Frame *f);

/* Events between streams of the plan, on behalf of a command. */
gxrt_status record_event(Device *d, const PlanCommand *c, CUevent event, uint32_t stream);
gxrt_status wait_event(Device *d, const PlanCommand *c, CUevent event, uint32_t stream);
/* Plan streams that are one stream of CUDA are in order with each other. */
bool is_same_stream(const Device *d, uint32_t a, uint32_t b);
/* wait.c: waits that end where gxrt_session_options.max_seconds says so, with CUDA_ERROR_LAUNCH_TIMEOUT,
 * of which device_error knows. The device's context is current. */
/* Refuses what is no time to wait, less than none and no number, of the caller's `what`. */
gxrt_status wait_check_seconds(const char *what, double seconds);
void wait_begin(Device *d); /* the time of an execution's call counts from here on */
/* For what an execution has queued on a stream; where there is no limit, the driver's own wait follows. */
CUresult wait_stream(Device *d, CUstream stream);
/* The same for all that the session has queued on the device, and the default stream. */
CUresult wait_executions(Device *d);
CUresult wait_context(Device *d); /* with the driver's wait for all of the context */
/* Host code of an execution that goes on for ever. `what`: where it is. */
gxrt_status wait_check(Device *d, const char *what);
gxrt_status wait_mark(Device *d); /* all of an execution is queued */
/* A wait was given up, and what was waited for is not done yet: the driver's waits, which giving
 * memory back has, would not return. */
bool wait_is_hopeless(Device *d);

/* All streams of the plan go on after what `stream` has; `stream` goes on after what all have. */
gxrt_status fork_streams(Device *d, uint32_t stream);
gxrt_status join_streams(Device *d, uint32_t stream);
/* Both ends of a copy are memory of the device. */
bool is_device_copy(const Plan *p, const PlanCommand *c);
/* The pattern that a fill's argument stands for on this device. */
uint32_t fill_pattern(const Device *d, const PlanArg *a);

/* host_call.c. The host functions of the options: each has its name, a function and its size. */
gxrt_status check_host_calls(const gxrt_session *s);
/* Finds the function of each command that calls one. One that is not there is an error of its command. */
gxrt_status host_calls_resolve(gxrt_session *s);

/* Address of a slice of the plan, with the loop counters of this moment. */
int64_t term_value(const Device *d, const PlanTerm *t);
CUdeviceptr slice_address(const Device *d, uint32_t slice);

#endif
