/* libgxrt: loads a program that gxc compiled and runs it on NVIDIA GPUs, or on emulated ones.
 *
 *     gxrt_program *program;  gxrt_session *session;
 *     gxrt_program_open("prog.cubin", &program);            the file: immutable, needs no GPU
 *     gxrt_session_create(program, &options, &session);     the program on its devices
 *     gxrt_execute(session, 1, &run);                       queued on run.stream; many times
 *     gxrt_synchronize(session, 0);
 *     gxrt_session_destroy(session);  gxrt_program_destroy(program);
 *
 * Every call that can fail returns a gxrt_status; gxrt_last_error() has the text for people. The
 * library never prints, exits or aborts, and reads the environment only in
 * gxrt_world_from_environment(), but for two: NVTX_INJECTION64_PATH, in which tools name a library
 * that is loaded at the first run, and the emulator's GXEMU_*. CUDA and its libraries are found when
 * they are first needed; programs that use libgxrt link nothing of NVIDIA's.
 *
 * Every struct that you pass starts with struct_size = sizeof(that struct): set it, zero the rest,
 * fill in what you need. Those that your functions are given (gxrt_event, gxrt_trial) need none.
 * Fields may be added at the end of a struct, so programs that were compiled against an older header
 * go on working.
 *
 * Trust: opening a file checks it and runs nothing of it. A session runs it: on a GPU its kernels
 * reach all memory of this process there; on the emulator they are machine code in this process,
 * with all of its rights, and run only if the session's options say allow_native. So make sessions
 * only of files that you would run as programs. Hashes find damage; they are no signature.
 *
 * Threads: programs may be shared by all threads. A session is used by one thread at a time;
 * different sessions run beside each other; those with collectives queue their work one after
 * the other, and in a world of several processes must do so in the same order in all of them.
 *
 * fork(): a process that was forked after a session was made has none of its devices. Calls with
 * that session but gxrt_session_get_info(), and new sessions, are GXRT_INVALID_ARGUMENT there. */
#ifndef GXRT_H
#define GXRT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GXRT_VERSION_MAJOR 0
#define GXRT_VERSION_MINOR 1

#if defined(__GNUC__)
#define GXRT_API __attribute__((visibility("default")))
#else
#define GXRT_API
#endif

/* What the caller should do about it. */
typedef enum gxrt_status {
    GXRT_OK = 0,
    GXRT_INVALID_ARGUMENT =
        1, /* the call is wrong: fix the calling program; nothing was done */
    GXRT_INVALID_FILE =
        2, /* missing, damaged or not made by gxc: compile or copy it again */
    GXRT_UNSUPPORTED =
        3, /* the file needs a newer libgxrt, or a feature that it lacks: update it */
    GXRT_MISSING_LIBRARY =
        4, /* the message names the library and how to get it: install it */
    GXRT_WRONG_DEVICE =
        5, /* no such device, compiled for another GPU, or the driver is too
                                  old: compile for the target named, or update the driver */
    GXRT_OUT_OF_MEMORY =
        6, /* host or device: free some, or use a larger device; the session
                                  is still good, unless an execution with collectives failed so */
    GXRT_DEVICE_FAILED =
        7, /* a kernel or a call failed on the device: destroy the session;
                                  results are undefined */
    GXRT_WORLD_FAILED =
        8, /* another rank is missing, late or different: end or restart all
                                  ranks; destroy the session and the world. A thread that was in
                                  a call of NCCL can make no other session with collectives */
    GXRT_HOST_CALL_FAILED =
        9 /* a function that the caller registered reported failure; a session
                                 with collectives between devices or processes has failed then */
} gxrt_status;

/* A short name, such as "invalid argument". Never NULL. */
GXRT_API const char *gxrt_status_name(gxrt_status status);

/* Why the last call that failed on this thread failed: names the call, the command, the HLO
 * instruction and what to do. Valid until the next failing call on this thread. Never NULL. */
GXRT_API const char *gxrt_last_error(void);

/* "0.1.0 ..." */
GXRT_API const char *gxrt_version(void);

/* --- program ----------------------------------------------------------------------------- */

/* A compiled file: one or more variants (one for each GPU it was compiled for), its signature
 * and its constants. Immutable; opening it validates all of it, and needs no GPU. */
typedef struct gxrt_program gxrt_program;

/* Maps the file, which must be a plain one, no pipe and no device. It must not change while the program is open. */
GXRT_API gxrt_status gxrt_program_open(const char *path, gxrt_program **out);
/* The same for a file in memory, which is not copied and must outlive the program. */
GXRT_API gxrt_status gxrt_program_open_memory(const void *bytes, size_t size,
                                              gxrt_program **out);
/* NULL is fine. Sessions of the program must be destroyed before it. */
GXRT_API void gxrt_program_destroy(gxrt_program *program);

typedef struct gxrt_program_info {
    size_t struct_size;
    const char *module;      /* name of the HLO module */
    const char *gxc_version; /* the compiler that made it */
    size_t argument_count;
    size_t result_count; /* leaves of the result */
    uint32_t replicas;
    uint32_t partitions; /* it runs on replicas x partitions devices */
    size_t variant_count;
    uint8_t module_hash[16]; /* of the module that was compiled */
    const char *hlo;         /* its text, if it was embedded, else NULL; not terminated */
    size_t hlo_size;
    uint32_t has_tf32; /* factors of f32 products lose bits to TF32 */
    size_t
        tunable_count; /* of variant 0: launches that gxrt_tune has other kernels for */
} gxrt_program_info;

GXRT_API gxrt_status gxrt_program_get_info(const gxrt_program *program,
                                           gxrt_program_info *info);

/* One argument or result. Strings and arrays live as long as the program. */
typedef struct gxrt_value_info {
    size_t struct_size;
    const char *name;  /* parameter name; results: index in the tuple, "0" or "1.2" */
    const char *dtype; /* HLO name: "f32", "bf16", "s4" */
    uint32_t
        element_bits; /* in the device buffer: pred 8; s4 4, packed, low half first */
    uint32_t rank;
    const int64_t *dims;           /* rank sizes */
    const int64_t *minor_to_major; /* rank dimensions, the fastest varying one first */
    uint64_t bytes;                /* of the device buffer: dense in that order */
    uint64_t alignment;            /* least alignment of the device buffer */
    int64_t alias;   /* argument: the result that may (must) be written into its
                                      buffer; result: that argument; -1 if none */
    int must_alias;  /* 1: both have to be the same buffer */
    int64_t size_of; /* carries, as an s32, the size of a bounded dimension: the argument
                                      (result) that has it, and the dimension; else -1. Elements
                                      of arguments beyond the sizes are not read, those of
                                      results are 0 */
    int64_t size_dimension;
    int donated; /* argument: 1 if a run may overwrite it though no result takes its buffer */
} gxrt_value_info;

GXRT_API gxrt_status gxrt_program_get_argument(const gxrt_program *program, size_t index,
                                               gxrt_value_info *info);
GXRT_API gxrt_status gxrt_program_get_result(const gxrt_program *program, size_t index,
                                             gxrt_value_info *info);

typedef struct gxrt_variant_info {
    size_t struct_size;
    const char *target;      /* "sm_90a" */
    const char *assembler;   /* kind and version */
    uint32_t minimum_driver; /* CUDA version: 12080 is 12.8 */
    int has_emulator;        /* 1: also runs on the emulator */
    uint64_t constant_bytes;
    uint64_t temp_bytes;      /* device memory that a session takes besides the buffers */
    uint64_t workspace_bytes; /* and for libraries */
    uint64_t peak_bytes;      /* arguments + results - aliases + constants + temp */
    size_t launch_count;      /* kernels and library calls, each counted once */
    size_t copy_count;
    size_t collective_count;
    uint32_t host_syncs; /* points where a run waits for the device */
    uint64_t
        host_bytes; /* pinned memory of the host: what a session takes, and buffers there */
    size_t command_count, buffer_count, step_count; /* of the functions below */
    uint32_t plan_major, plan_minor;                /* version of its plan */
    uint32_t least_cublaslt, least_cudnn,
        least_nccl; /* versions as the libraries report them; 0: not used */
    const char *llvm_version;
    const char *options; /* of the compiler, that change the result: "-O1 ..." */
    uint64_t
        ptx_bytes; /* of all kernels, for the driver's compiler on newer GPUs; 0: none */
    uint32_t tileir_cubins,
        tileir_bytecodes;    /* kernels by CUDA Tile IR: as code, for that compiler */
    uint32_t least_cusolver; /* as the others: 12004 is 12.0.4 */
} gxrt_variant_info;

GXRT_API gxrt_status gxrt_program_get_variant(const gxrt_program *program, size_t index,
                                              gxrt_variant_info *info);

/* --- looking into a program -------------------------------------------------------------- */

/* A command of a variant: what one line of a profile is about. Strings live as long as the
 * program; those that are not known are "". */
typedef struct gxrt_command_info {
    size_t struct_size;
    const char *name; /* HLO instruction */
    const char *kind; /* "launch", "copy", "collective", "while", ... */
    const char *
        what; /* kernel, collective ("all-reduce"), function of the host, cuDNN's graph, factorisation; else "" */
    const char *op_name, *source_file; /* of the HLO's metadata */
    uint32_t source_line;              /* 0: not known */
    uint32_t stream;
    uint64_t bytes;     /* that one run of it reads and writes */
    double modelled_us; /* that it takes by the compiler's model; 0: not known */
    size_t subtree;     /* this command, and those in it, which follow it */
    uint32_t group_size, group_count; /* of a collective: devices of a group; else 0 */
    const char *tuning_key;   /* if gxrt_tune measures others in its place; else "" */
    uint32_t candidate_count; /* kernels that are measured; 0: a library names them */
} gxrt_command_info;

GXRT_API gxrt_status gxrt_program_get_command(const gxrt_program *program, size_t variant,
                                              size_t index, gxrt_command_info *info);

/* A buffer of a variant: what lies in a piece of its memory, and when. Steps are the
 * instructions in the order of a run, those in a loop once. None are known of programs of
 * older compilers. */
typedef struct gxrt_memory_info {
    size_t struct_size;
    const char *name; /* HLO instruction whose value it holds first */
    const char *kind; /* "argument", "result", "temp", "constant" */
    const char *op_name, *source_file;
    uint32_t source_line;
    uint32_t allocation; /* offsets count in it */
    uint64_t offset, bytes;
    size_t first_step, last_step; /* both included */
    int is_host;                  /* 1: memory of the host */
} gxrt_memory_info;

GXRT_API gxrt_status gxrt_program_get_memory(const gxrt_program *program, size_t variant,
                                             size_t index, gxrt_memory_info *info);
/* Name of the HLO instruction of a step; NULL if there is none. */
GXRT_API const char *gxrt_program_get_step(const gxrt_program *program, size_t variant,
                                           size_t index);

/* --- world ------------------------------------------------------------------------------- */

/* The processes that run one program together. A program for R x P devices is run by ranks
 * that have some of them each: rank r of W has devices [r N/W, (r + 1) N/W). */
typedef struct gxrt_world gxrt_world;

/* From GXRT_RANK and GXRT_WORLD_SIZE, or from what torchrun (RANK, WORLD_SIZE), mpirun
 * (OMPI_COMM_WORLD_x, PMI_x) or srun (SLURM_PROCID, SLURM_NTASKS) sets; one process if there is
 * nothing. Which of a machine's ranks this is says GXRT_LOCAL_RANK, or what the launcher sets beside
 * the others. The store is GXRT_STORE, the secret of a tcp store GXRT_SECRET. */
GXRT_API gxrt_status gxrt_world_from_environment(gxrt_world **out);
/* The same with the values given. `store` carries NCCL's id and what the ranks tell each other
 * about a hang: "tcp://HOST:PORT" or "tcp://SECRET@HOST:PORT", where rank 0 listens, or
 * "file:FOLDER" or FOLDER alone, a folder that all ranks share, for one run at a time (what killed ranks have left
 * there does not matter). For trusted networks: nothing is encrypted, and the secret keeps jobs apart, not attackers out. NULL for programs
 * without collectives between the processes. */
GXRT_API gxrt_status gxrt_world_create(uint32_t rank, uint32_t size, const char *store,
                                       gxrt_world **out);
/* After its sessions; NULL is fine. Rank 0 of a tcp store waits for the others to leave, 10 s at
 * most. */
GXRT_API void gxrt_world_destroy(gxrt_world *world);
GXRT_API uint32_t gxrt_world_rank(const gxrt_world *world);
GXRT_API uint32_t gxrt_world_size(const gxrt_world *world);

/* --- session ----------------------------------------------------------------------------- */

/* A program on its devices: modules, constants and temporary memory on each of them. One
 * execution at a time. */
typedef struct gxrt_session gxrt_session;

/* Called for warnings and for what is worth knowing, by any thread. level: 0 information,
 * 1 warning. */
typedef void (*gxrt_log_function)(void *user, int level, const char *text);

/* Device memory from the caller. allocate: 0 for success, *out aligned to `alignment`, on the
 * device with that CUDA ordinal (`device`); called only while a session is created and
 * destroyed. */
typedef struct gxrt_allocator {
    size_t struct_size;
    void *user;
    int (*allocate)(void *user, int device, size_t bytes, size_t alignment, void **out);
    void (*release)(void *user, int device, void *pointer);
} gxrt_allocator;

/* A host function of the program (custom calls by name). `buffers` are the device addresses
 * of its operands, then of its results; it queues its work on `stream` (a CUstream).
 * 0 for success. */
typedef int (*gxrt_host_function)(void *user, void *stream, size_t buffer_count,
                                  void *const *buffers, const uint64_t *bytes);

/* The same with all that the program says of the call. Strings live as long as the program. */
typedef struct gxrt_host_arguments {
    size_t struct_size;
    void *stream;         /* a CUstream */
    size_t buffer_count;  /* leaves of the operands, then of the result */
    void *const *buffers; /* device addresses; dense, in the layouts that `shapes` has */
    const uint64_t *bytes;
    const char *instruction; /* its name in the HLO */
    const char *
        shapes; /* until the function returns; in HLO's words: "(f32[8]{0}, s32[]) -> f32[4]{0}" */
    const char *attributes; /* its backend_config as it stands, "" if it has none */
} gxrt_host_arguments;
typedef int (*gxrt_described_function)(void *user, const gxrt_host_arguments *arguments);

typedef struct gxrt_host_call {
    size_t struct_size;
    const char *name;
    gxrt_host_function function; /* or, if this is NULL, */
    void *user;
    gxrt_described_function described;
} gxrt_host_call;

/* Streams from the caller, for what runs beside the stream of an execution. borrow: 0 for
 * success, *out a CUstream of the device with that CUDA ordinal, which the session uses until
 * it gives it back; anything else: there is none left, and that work runs on the stream of
 * each execution, in order and without overlap. Called only while a session is created and
 * destroyed. */
typedef struct gxrt_streams {
    size_t struct_size;
    void *user;
    int (*borrow)(void *user, int device, int high_priority, void **out);
    void (*give_back)(void *user, int device, void *stream);
} gxrt_streams;

/* Copied when the session is made; what `world`, `allocator`, `host_calls` and `streams` point
 * to must outlive the session. */
typedef struct gxrt_session_options {
    size_t struct_size;
    const char *device;  /* "auto" (NULL): GPUs if there are any, else emulated ones;
                                "cuda"; "emu"; "emu:sm_80": that variant on the emulator */
    const int *devices;  /* CUDA ordinals of the local devices, in order of device number;
                                NULL: 0, 1, 2, ...; of several ranks on one machine each its
                                own, by LOCAL_RANK or what else its launcher says */
    size_t device_count; /* 0: as many as the program (and the world) needs */
    gxrt_world *world;   /* NULL: this process runs all devices */
    const gxrt_allocator *allocator;  /* NULL: cuMemAlloc */
    const gxrt_host_call *host_calls; /* functions that the program may call */
    size_t host_call_count;
    gxrt_log_function log; /* NULL: silence */
    void *log_user;
    const char
        *library_path; /* folder in which CUDA's libraries and libgxemu are looked for
                                 first; NULL: beside the program, ../lib, then the system's */
    int exact_emulated_devices; /* 1 to 64: the emulator has so many devices, whatever
                                   GXEMU_DEVICES says; 0: GXEMU_DEVICES, or else as many as
                                   are needed */
    uint32_t
        replicas; /* n > 0: run a program that was compiled for one device, and has no
                          collectives, as n replicas; 0: as it was compiled */
    double timeout_seconds; /* collectives: how long to wait for a late rank: more than 0,
                               INFINITY for ever; 0: 40 */
    const gxrt_streams *streams; /* NULL: the session makes its own */
    uint32_t
        max_channels; /* most that NCCL may use for a collective; 0: its default, and 32
                              on Blackwell with NCCL 2.28 or newer, whose default slows
                              computation beside it */
    int allow_native; /* 1: the file's kernels may run on the emulator, which is machine code of
                         the file with all of this process's rights; 0: such sessions are
                         refused. Set it for files that this process compiled, and for those
                         that you would run as programs. GPUs do not need it */
    int graphs; /* 1: from the second execution on, what a device does is one launch of a CUDA
                   graph where the program allows it (gxc --report says so) and the driver is of
                   CUDA 12.4 or newer; the log says where it is not. Buffers may move between
                   executions. 0: commands are queued one by one */
    double
        max_seconds; /* how long a call may take that waits for a device, before it fails with
                           GXRT_DEVICE_FAILED: more than 0; 0 and INFINITY: as long as the device does. The session has
                           failed then. A kernel that never ends cannot be ended but by the end
                           of the process: what it may use is kept when the session is destroyed */
} gxrt_session_options;

/* The name that gxc's --target takes for the GPU that a session on `device` (as in
 * gxrt_session_options) would use: "sm_90a"; "emu" if it would be an emulated one. `size` 16
 * is enough. */
GXRT_API gxrt_status gxrt_device_target(const char *device, char *target, size_t size);

/* Chooses the variant, loads it on every device, uploads constants, allocates temporary
 * memory. `options` may be NULL, which is for GPUs: the emulator needs allow_native. */
GXRT_API gxrt_status gxrt_session_create(const gxrt_program *program,
                                         const gxrt_session_options *options,
                                         gxrt_session **out);
/* Waits for its devices and gives everything back; NULL is fine. */
GXRT_API void gxrt_session_destroy(gxrt_session *session);

typedef struct gxrt_session_info {
    size_t struct_size;
    const char
        *device_name; /* of the first device, "NVIDIA H100 ..." or "gxc emulator" */
    int emulated;
    size_t variant;        /* the variant that runs */
    size_t device_count;   /* local devices */
    uint32_t first_device; /* number of the first: replica x partitions + partition */
    int first_ordinal;     /* CUDA's number of it */
} gxrt_session_info;

GXRT_API gxrt_status gxrt_session_get_info(const gxrt_session *session,
                                           gxrt_session_info *info);

/* A device buffer that the caller owns. dtype, rank and dims are checked if they are given. */
typedef struct gxrt_buffer {
    size_t struct_size;
    void *data;        /* device address, or pinned memory of the host where the program's
                          * type says S(5); may be NULL if bytes is 0 */
    uint64_t bytes;    /* at least what the signature says */
    const char *dtype; /* HLO name, or NULL: not checked */
    const int64_t *dims; /* `rank` sizes, or NULL: not checked */
    uint32_t rank;
} gxrt_buffer;

/* What one device does in an execution. For an argument and a result that alias, pass the
 * same buffer twice to donate it; pass two, and the argument is kept. */
typedef struct gxrt_run {
    size_t struct_size;
    void *stream; /* a CUstream of the device's primary context; NULL: the default stream.
                   * CU_STREAM_PER_THREAD only in sessions of one device without collectives */
    const gxrt_buffer *arguments;
    size_t argument_count;
    const gxrt_buffer *results;
    size_t result_count;
} gxrt_run;

/* Checks everything, then queues one execution on every local device: run i is device
 * first_device + i. n must be the session's device count. Returns when all is queued; the
 * results are there when the stream has come to that point. Errors of kernels surface at a
 * later call. Runs of the same session are in the order of the calls if they are on the same
 * streams; else wait between them. n > 1 uses a thread of the library for each device. */
GXRT_API gxrt_status gxrt_execute(gxrt_session *session, size_t n, const gxrt_run *runs);

/* --- memory, for programs that have no CUDA of their own ---------------------------------- */

/* `device` counts the session's local devices from 0. */
GXRT_API gxrt_status gxrt_allocate(gxrt_session *session, size_t device, size_t bytes,
                                   void **out);
GXRT_API void gxrt_free(gxrt_session *session, size_t device, void *pointer);
/* Both return when the copy is done; they wait for the default stream first. */
GXRT_API gxrt_status gxrt_copy_to_device(gxrt_session *session, size_t device, void *to,
                                         const void *from, size_t bytes);
GXRT_API gxrt_status gxrt_copy_to_host(gxrt_session *session, size_t device, void *to,
                                       const void *from, size_t bytes);
/* Waits until the device has done all that was queued, and reports what failed. */
GXRT_API gxrt_status gxrt_synchronize(gxrt_session *session, size_t device);

/* --- profile ------------------------------------------------------------------------------ */

typedef struct gxrt_event {
    const char *name; /* HLO instruction */
    const char *kind; /* "launch", "copy", "fill", "matmul", ... */
    uint32_t device;  /* device number */
    uint32_t stream;
    double start_us; /* since the start of the execution */
    double duration_us;
    size_t command; /* of the session's variant: gxrt_program_get_command says more */
} gxrt_event;

/* Runs once as gxrt_execute does, timing every command on its stream, waits for the end, and
 * calls `event` for each command in order. Slower than an execution without. */
GXRT_API gxrt_status gxrt_profile(gxrt_session *session, size_t n, const gxrt_run *runs,
                                  void (*event)(void *user, const gxrt_event *event),
                                  void *user);

/* --- tuning ------------------------------------------------------------------------------- */

/* A kernel that was tried in place of one of the program's. Texts are valid during the call. */
typedef struct gxrt_trial {
    const char *name; /* HLO instruction */
    const char *key;  /* in the compiler's tuning file, as the next two */
    const char *kind;
    const char *config;   /* JSON */
    const char *failure;  /* NULL, or why it is out of the question */
    uint64_t picoseconds; /* of one launch; 0: it failed */
    int is_own;           /* the program has this one */
    int is_chosen;
} gxrt_trial;

typedef struct gxrt_tuner {
    size_t struct_size;
    uint32_t shard,
        shards; /* of `shards` processes that share the work this is `shard`; 0, 0: all */
    /* Whether results of an HLO type ("bf16"), packed as devices have them, are the same but for rounding. */
    int (*agree)(void *user, const char *dtype, const void *wanted, const void *found,
                 size_t bytes);
    /* Each kernel that was tried, all of one key behind each other, the program's own first. */
    void (*trial)(void *user, const gxrt_trial *trial);
    void *
        user; /* both are called by one thread at a time, which need not be the caller's */
} gxrt_tuner;

/* Runs once as gxrt_execute does, waits for the end, and on the session's first device tries all kernels that a
 * program of `gxc --emit=candidates` has for its launches, where each is reached first: with the operands that are
 * there, on memory of its own. Emulated devices go by the model of time. Session without graphs. */
GXRT_API gxrt_status gxrt_tune(gxrt_session *session, size_t n, const gxrt_run *runs,
                               const gxrt_tuner *tuner);

/* Gives every rank what each one has: `take` is called for all ranks in order. All ranks call it, and wait
 * `seconds` (0 or more) for each other; NULL is a world of one. */
GXRT_API gxrt_status gxrt_world_gather(
    gxrt_world *world, const void *bytes, size_t size, double seconds,
    void (*take)(void *user, uint32_t rank, const void *bytes, size_t size), void *user);

#ifdef __cplusplus
}
#endif
#endif
