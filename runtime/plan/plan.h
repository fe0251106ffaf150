/* The execution plan: what libgxrt does to run a compiled program, as one block of bytes.
 *
 * The compiler fills a PlanBuilder (builder.h) and writes it; the runtime maps the bytes, validates
 * them once and reads the same records in place. All numbers are little-endian. A plan is
 *
 *     PlanHeader | PlanSection[section_count] | the sections' records, each 16-byte aligned
 *
 * Every section is an array of one kind of record; records name each other by index. A
 * string is an offset into the string section (offset 0 is ""). Numbers that have no record
 * of their own (dims, groups, ...) are runs in the sections `numbers` (int64) and `refs`
 * (uint32). No two of cliques, collectives, commands and tunables share a run of numbers, refs,
 * args or candidates; images share no bytes, and one of them at most is PTX. Names of element types
 * have 31 bytes at most. In one major version records keep their size; a newer minor version only
 * gives meaning to reserved fields (0 before), to new kinds and tags, and adds sections. Whoever
 * meets a kind that it does not know answers "needs a newer libgxrt".
 *
 * This header depends on libc only and is what codegen/ and runtime/ share. */
#ifndef GXC_RUNTIME_PLAN_PLAN_H
#define GXC_RUNTIME_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/plan/library.h"

#define PLAN_MAGIC "GXCPLAN"
#define PLAN_MAJOR 3
#define PLAN_MINOR 6
#define PLAN_NONE UINT32_MAX        /* "no index" in every uint32 index */
#define PLAN_MAX_DEPTH 64           /* of nested commands */
#define PLAN_MAX_HOST_BUFFERS 256   /* of one host call */
#define PLAN_CONSTANT_ALIGNMENT 256 /* of constants in .gxc.const and on the device */

/* PLAN_SECTION(id, name, Record): the sections, in file order. `name` is the member of Plan,
 * of PlanBuilder, and the suffix of plan_add_name(). */
/* clang-format off */
#define PLAN_SECTIONS(PLAN_SECTION)                \
    PLAN_SECTION(INFO,        info,       PlanInfo)       \
    PLAN_SECTION(STRINGS,     strings,    char)           \
    PLAN_SECTION(NUMBERS,     numbers,    int64_t)        \
    PLAN_SECTION(REFS,        refs,       uint32_t)       \
    PLAN_SECTION(ARGUMENTS,   arguments,  PlanValue)      \
    PLAN_SECTION(RESULTS,     results,    PlanValue)      \
    PLAN_SECTION(ALLOCATIONS, allocations, PlanAllocation) \
    PLAN_SECTION(TERMS,       terms,      PlanTerm)       \
    PLAN_SECTION(SLICES,      slices,     PlanSlice)      \
    PLAN_SECTION(STREAMS,     streams,    PlanStream)     \
    PLAN_SECTION(KERNELS,     kernels,    PlanKernel)     \
    PLAN_SECTION(MATMULS,     matmuls,    PlanMatmul)     \
    PLAN_SECTION(CLIQUES,     cliques,    PlanClique)     \
    PLAN_SECTION(COLLECTIVES, collectives, PlanCollective) \
    PLAN_SECTION(LOOPS,       loops,      PlanLoop)       \
    PLAN_SECTION(ARGS,        args,       PlanArg)        \
    PLAN_SECTION(COMMANDS,    commands,   PlanCommand)    \
    PLAN_SECTION(GRAPHS,      graphs,     PlanGraph)      \
    PLAN_SECTION(GRAPH_TENSORS, graph_tensors, PlanGraphTensor) \
    PLAN_SECTION(GRAPH_OPERATIONS, graph_operations, PlanGraphOperation) \
    PLAN_SECTION(GRAPH_PLANS, graph_plans, char)          \
    PLAN_SECTION(ORIGINS,     origins,    PlanOrigin)     \
    PLAN_SECTION(STEPS,       steps,      uint32_t)       \
    PLAN_SECTION(BUFFERS,     buffers,    PlanBuffer)     \
    PLAN_SECTION(IMAGES,      images,     PlanImage)      \
    PLAN_SECTION(TUNABLES,    tunables,   PlanTunable)    \
    PLAN_SECTION(CANDIDATES,  candidates, PlanCandidate)  \
    PLAN_SECTION(ALGORITHMS,  algorithms, PlanAlgorithm)  \
    PLAN_SECTION(SOLVERS,     solvers,    PlanSolver)     \
    PLAN_SECTION(CHOICES,     choices,    PlanChoice)
/* clang-format on */

typedef struct PlanHeader {
    char magic[8];  /* PLAN_MAGIC */
    uint16_t major; /* another one cannot be read */
    uint16_t minor;
    uint32_t section_count;
    uint64_t total_bytes; /* of the whole plan */
    uint8_t hash[16];     /* XXH3-128 of header and section table, this field zero */
} PlanHeader;

typedef struct PlanSection {
    uint32_t id; /* PLAN_SECTION_x; an unknown id is skipped if `optional` */
    uint32_t optional;
    uint32_t record_bytes;
    uint32_t reserved;
    uint64_t offset; /* from the start of the plan */
    uint64_t bytes;
    uint8_t hash[16]; /* XXH3-128 of the section's bytes */
} PlanSection;

/* Facts about the whole plan: the INFO section holds exactly one. */
typedef struct PlanInfo {
    uint32_t module;       /* string: the module's name */
    uint32_t target;       /* string: "sm_90a" */
    uint32_t sm;           /* 90: compute capability x 10 of that target */
    uint32_t suffix;       /* 0, 'a' (this GPU only) or 'f' (this family only) */
    uint32_t gxc_version;  /* string */
    uint32_t llvm_version; /* string */
    uint32_t assembler;    /* string: kind and version of the assembler */
    uint32_t options;      /* string: the options that changed the result, as text */
    uint32_t
        min_driver; /* CUDA version of the oldest driver that loads the cubin: 12080 */
    uint32_t
        min_cublaslt; /* library versions as the libraries report them; 0: not used */
    uint32_t min_cudnn;
    uint32_t min_nccl;
    uint32_t replicas;
    uint32_t partitions;
    uint32_t signal_count;  /* slots that commands signal and wait for */
    uint32_t async_count;   /* slots of async start and done */
    uint32_t counter_count; /* loop counters */
    uint32_t host_syncs;    /* points where the host waits for the device */
    uint32_t flags;         /* PLAN_ELIDED, PLAN_TF32 */
    uint32_t min_cusolver;
    uint64_t constant_bytes; /* size of .gxc.const that this plan expects */
    uint8_t constant_hash
        [16]; /* XXH3-128 of .gxc.const; each is checked when a session is made */
    uint8_t cubin_hash[16];  /* of the variant's original cubin */
    uint8_t emu_hash[16];    /* of its .gxc.emu section */
    uint8_t module_hash[16]; /* of the canonical text of the input module */
    uint64_t cubin_bytes;    /* length of the variant's original cubin */
    uint8_t elf_header[64];  /* the original ELF header, if the cubin is the host file;
                                  zero if it is a .gxc.cubin.N section */
} PlanInfo;

enum {
    PLAN_ELIDED = 1, /* the text had a constant {...}: compiled, but must not run */
    PLAN_TF32 = 2,   /* factors of f32 products lose bits to TF32 */
    PLAN_INFO_FLAGS = 3
};

/* One entry parameter or one leaf of the result. */
typedef enum PlanAliasKind {
    PLAN_ALIAS_NONE,
    PLAN_ALIAS_MAY,
    PLAN_ALIAS_MUST
} PlanAliasKind;

typedef struct PlanValue {
    uint32_t name;         /* string; results: "0", "1.2", the path in the result tuple */
    uint32_t dtype;        /* string: the HLO name, "bf16" */
    uint32_t element_bits; /* as stored on the device: pred is 8, s4 is 4 (packed) */
    uint32_t rank;
    uint32_t dims;  /* numbers: `rank` sizes, then `rank` dimensions minor to major */
    uint32_t slice; /* where it lives: a whole allocation */
    uint32_t alias; /* argument: the result that is written into its buffer; result:
                              the argument whose buffer it takes; else PLAN_NONE */
    uint32_t alias_kind; /* PlanAliasKind, the same on both sides */
    uint32_t donated; /* argument: 1 if its contents may be overwritten without alias */
    uint32_t
        size_of; /* carries a bounded dynamic size: the argument (result) it belongs to */
    uint32_t size_dimension; /* and the dimension; else PLAN_NONE and 0 */
    uint32_t reserved;
    uint64_t bytes; /* of the device buffer */
} PlanValue;

/* One piece of device memory.
 * ARGUMENT and RESULT are the caller's buffers. An argument and a result that alias share
 * ONE allocation, of kind ARGUMENT: when the caller passes two buffers for a may-alias pair,
 * the runtime first copies the argument into the result's buffer and works there. */
typedef enum PlanAllocationKind {
    PLAN_ARGUMENT, /* index: argument number */
    PLAN_RESULT,   /* index: result number */
    PLAN_TEMP,     /* the runtime provides it; contents undefined between executions */
    PLAN_WORKSPACE, /* as TEMP, for libraries and what blocks tell each other: reported apart */
    PLAN_CONSTANT, /* `offset` in .gxc.const */
    PLAN_STATE, /* the runtime provides it, zero at first, and keeps it from run to run */
    PLAN_ALLOCATION_KINDS
} PlanAllocationKind;

/* Which memory, PlanAllocation.colour. Kernels reach pinned memory of the host over the bus, copies go by
 * the DMA engines. */
typedef enum PlanColour {
    PLAN_DEVICE_MEMORY,
    PLAN_COLLECTIVE_MEMORY, /* ncclMemAlloc */
    PLAN_HOST_MEMORY, /* pinned; temporary memory, or what the caller's types say is there */
    PLAN_COLOURS
} PlanColour;

typedef struct PlanAllocation {
    uint32_t kind; /* PlanAllocationKind */
    uint32_t index;
    uint32_t colour;    /* PlanColour */
    uint32_t alignment; /* power of two */
    uint64_t bytes;
    uint64_t offset; /* CONSTANT: in .gxc.const, PLAN_CONSTANT_ALIGNMENT-aligned */
    uint32_t name;   /* string: constant's HLO name; "" otherwise */
    uint32_t elided; /* CONSTANT: 1 if the text had {...}; its bytes are zero */
} PlanAllocation;

/* One address term: clamp(counter x scale + bias, low, high) x stride. `counter` counts the
 * finished iterations of a loop from 0. With low and high known, the reader proves that a
 * slice stays inside its allocation. */
typedef struct PlanTerm {
    uint32_t counter;
    uint32_t reserved;
    int64_t scale;
    int64_t bias;
    int64_t low;
    int64_t high;
    int64_t stride; /* bytes for slices */
} PlanTerm;

/* Bytes [offset + sum of terms, + bytes) of an allocation. */
typedef struct PlanSlice {
    uint32_t allocation;
    uint32_t terms;      /* first of term_count in the terms section */
    uint32_t term_count; /* 0 for most */
    uint32_t reserved;
    uint64_t offset;
    uint64_t bytes;
} PlanSlice;

typedef enum PlanStreamKind {
    PLAN_STREAM_COMPUTE,
    PLAN_STREAM_COLLECTIVE,
    PLAN_STREAM_KINDS
} PlanStreamKind;

/* Stream 0 is the caller's; the runtime makes the others. */
typedef struct PlanStream {
    uint32_t kind;     /* PlanStreamKind */
    uint32_t priority; /* 1: highest the device offers */
} PlanStream;

enum { /* PlanKernel.flags */
       PLAN_KERNEL_BARRIERS =
           1, /* has barriers or warp operations: the emulator runs fibres */
       PLAN_KERNEL_COOPERATIVE = 2, /* the whole grid must be resident */
       PLAN_KERNEL_FLAGS = 3
};

typedef struct PlanKernel {
    uint32_t name; /* string: symbol in the cubin and in the emulator object */
    uint32_t flags;
    uint32_t grid[3];
    uint32_t block[3];
    uint32_t cluster[3];          /* 1, 1, 1: no cluster */
    uint32_t shared_bytes;        /* dynamic shared memory */
    uint32_t static_shared_bytes; /* for the emulator and the limit check */
    uint32_t parameter_count;     /* each launch has as many args */
} PlanKernel;

/* Other code than the cubin's. CUBIN and TILEIR: a file for cuModuleLoadData with a kernel of the same name and
 * parameters, which is started with one thread and no shared memory in each of `blocks` blocks, for it knows its
 * own; where it does not load, the kernel is that of the cubin, or of the PTX. PTX: all kernels as text, zero at its
 * end, for GPUs newer than the cubin, where the driver's compiler makes code of it. On these, TILEIR stands in for
 * CUBIN. The emulator has no use for any. */
typedef enum PlanImageKind {
    PLAN_IMAGE_CUBIN,
    PLAN_IMAGE_TILEIR, /* bytecode of CUDA Tile IR */
    PLAN_IMAGE_PTX,
    PLAN_IMAGE_KINDS
} PlanImageKind;

#define PLAN_TILEIR_MAGIC "\x7fTileIR" /* and a zero: the first bytes of such bytecode */

typedef struct PlanImage {
    uint32_t kernel; /* PTX: PLAN_NONE */
    uint32_t kind;   /* PlanImageKind */
    uint32_t blocks;
    uint32_t threads, registers; /* of a block, of a thread; 0: its code does not say */
    uint32_t reserved;
    uint64_t shared_bytes;  /* the same */
    uint64_t offset, bytes; /* in .gxc.images */
    uint8_t hash[16];       /* XXH3-128 of those bytes */
} PlanImage;

typedef enum PlanGroupMode {
    PLAN_CROSS_REPLICA,
    PLAN_CROSS_PARTITION,
    PLAN_CROSS_REPLICA_AND_PARTITION,
    PLAN_FLATTENED_ID,
    PLAN_GROUP_MODES
} PlanGroupMode;

/* The devices that take part in one kind of group: every group is a communicator. Device
 * numbers are replica x partitions + partition; the groups are disjoint. */
typedef struct PlanClique {
    uint32_t name; /* string, for messages */
    uint32_t mode; /* PlanGroupMode it came from, for messages */
    uint32_t group_count;
    uint32_t groups;       /* numbers: for each group its size, then its device numbers */
    uint32_t number_count; /* numbers used by `groups` */
    uint32_t reserved;
} PlanClique;

typedef enum PlanCollectiveKind {
    PLAN_ALL_REDUCE,
    PLAN_ALL_GATHER,
    PLAN_REDUCE_SCATTER,
    PLAN_ALL_TO_ALL,
    PLAN_COLLECTIVE_PERMUTE,
    PLAN_BROADCAST,
    PLAN_COLLECTIVE_KINDS
} PlanCollectiveKind;

typedef enum PlanReduction {
    PLAN_REDUCE_NONE,
    PLAN_REDUCE_SUM,
    PLAN_REDUCE_PRODUCT,
    PLAN_REDUCE_MIN,
    PLAN_REDUCE_MAX,
    PLAN_REDUCTIONS
} PlanReduction;

enum {
    PLAN_COLLECTIVE_TUPLE = 1, /* all-to-all of a tuple: buffer k is for rank k */
    PLAN_COLLECTIVE_JOINED =
        2 /* one NCCL group with the next command, a collective of the same
                                * clique and stream that neither needs the other */
};

/* One collective. Its command's args are pairs (operand slice, read; result slice, write), a
 * pair for each buffer. Element counts follow from the operand slices. */
typedef struct PlanCollective {
    uint32_t kind;      /* PlanCollectiveKind */
    uint32_t reduction; /* PlanReduction */
    uint32_t dtype; /* string: HLO name; buffers of other types have their own in refs */
    uint32_t clique;
    uint32_t pairs; /* numbers: pair_count x (source, target) device numbers */
    uint32_t pair_count;
    uint32_t dtypes; /* refs: a string for each buffer, or PLAN_NONE: all are `dtype` */
    uint32_t flags;  /* PLAN_COLLECTIVE_... */
    int64_t channel; /* HLO's channel_id, 0 if none: for messages */
} PlanCollective;

enum { PLAN_LOOP_CONDITION, PLAN_LOOP_BODY }; /* regions of a while */

/* A while loop. Children of the command: condition_commands commands of the condition, then
 * body_commands of the body (whole subtrees each).
 * Known trip count: the body runs trip_count times and the condition is never run.
 * Unknown (-1): { condition; read arg 0 (one pred byte) back; body } until it is false. */
typedef struct PlanLoop {
    int64_t trip_count;
    uint32_t counter; /* PLAN_NONE if nobody asks */
    uint32_t condition_commands;
    uint32_t body_commands;
    uint32_t reserved;
} PlanLoop;

typedef enum PlanArgTag {
    PLAN_ARG_NONE,
    PLAN_ARG_SLICE,     /* index: slice. value: bytes really touched, if fewer; else 0 */
    PLAN_ARG_IMMEDIATE, /* value */
    PLAN_ARG_PARTITION, /* this device's partition id */
    PLAN_ARG_REPLICA,   /* this device's replica id */
    PLAN_ARG_TAGS
} PlanArgTag;

enum { PLAN_READ = 1, PLAN_WRITE = 2 };

typedef struct PlanArg {
    uint16_t tag;    /* PlanArgTag */
    uint16_t access; /* PLAN_READ | PLAN_WRITE, for slices */
    uint32_t index;
    uint64_t value;
} PlanArg;

typedef enum PlanCommandKind { /* the rows of commands.def say what each is */
#define COMMAND(id, ...) PLAN_##id,
#include "runtime/plan/commands.def"
                               PLAN_COMMAND_KINDS
} PlanCommandKind;

/* Commands are a tree in preorder. The host walks it in order; what a command does is queued
 * on `stream`, after the signals it waits for; when done it signals. The slices that it reads
 * and writes are its args. */
typedef struct PlanCommand {
    uint16_t kind; /* PlanCommandKind */
    uint16_t wait_count;
    uint32_t subtree; /* commands in the subtree, this one included: >= 1 */
    uint32_t name;    /* string: the HLO instruction */
    uint32_t stream;
    uint32_t waits;  /* refs: signal slots, each signalled by an earlier command */
    uint32_t signal; /* slot, or PLAN_NONE */
    uint32_t index;  /* see PlanCommandKind */
    uint32_t count;
    uint32_t args; /* first of arg_count */
    uint32_t arg_count;
} PlanCommand;

/* Where something comes from, by the metadata of the HLO: for those who look at a program, never
 * for running it. Strings are "" and the line 0 where nothing is known. */
typedef struct PlanSource {
    uint32_t op_name; /* string */
    uint32_t file;    /* string */
    uint32_t line;
    uint32_t reserved;
} PlanSource;

/* ORIGINS: one for each command, or none at all. */
typedef struct PlanOrigin {
    PlanSource source;
    uint64_t modelled; /* picoseconds that it takes by the model of time; 0: not known */
} PlanOrigin;

/* STEPS: strings, the instruction that runs at each time, in the order of a run (bodies of loops
 * inside their loop, once).
 * BUFFERS: what lies in the allocations, and from which step to which, both included. Arguments,
 * results and constants have all steps. */
typedef struct PlanBuffer {
    uint32_t name; /* string: the instruction whose value it holds first */
    uint32_t allocation;
    uint32_t first, last; /* steps */
    uint64_t offset, bytes;
    PlanSource source;
} PlanBuffer;

/* ALGORITHMS: of matrix products, found by a tuner: used by the version of cuBLASLt that they are of, if it takes
 * them; else its heuristic chooses. */
enum { PLAN_ALGORITHM_BYTES = 64 };
typedef struct PlanAlgorithm {
    uint32_t matmul;
    uint32_t version; /* as the library reports it */
    uint64_t workspace_bytes;
    uint8_t algorithm[PLAN_ALGORITHM_BYTES]; /* cublasLtMatmulAlgo_t */
} PlanAlgorithm;

/* CHOICES: of configurations for graphs, found by a tuner: used by the version of cuDNN that they are of, if it has
 * so many; else its first is. */
typedef struct PlanChoice {
    uint32_t graph;
    uint32_t version; /* as the library reports it */
    uint32_t
        configuration; /* its number in the library's order, of those that the graph's flags allow */
    uint32_t reserved;
} PlanChoice;

/* TUNABLES: launches for which other kernels stand in the plan, CANDIDATES: those kernels, which a tuner may
 * launch in place of the command's, with the same arguments; and matrix products and graphs, for which the library has
 * other algorithms. A run uses neither. Kinds and configurations are
 * written as in the tuning file (frontend/tuning.h). */
typedef struct PlanCandidate {
    uint32_t kernel;
    uint32_t kind;   /* string */
    uint32_t config; /* string */
    uint32_t reserved;
    uint64_t modelled; /* picoseconds by the model of time; 0: not known */
} PlanCandidate;

typedef struct PlanTunable {
    uint32_t command;
    uint32_t key; /* string, of the tuning file */
    uint32_t
        candidates; /* first of candidate_count: the command's own is the first; 0 of a product */
    uint32_t candidate_count;
    uint32_t
        dtypes; /* refs: a string for each arg, what a result is made of; "": not compared */
    uint32_t reserved;
} PlanTunable;

enum {
#define PLAN_SECTION(id, name, Record) PLAN_SECTION_##id,
    PLAN_SECTIONS(PLAN_SECTION)
#undef PLAN_SECTION
        PLAN_SECTION_COUNT,
    PLAN_SECTION_OPTIONAL = PLAN_SECTION_ORIGINS /* from here on: a run needs none */
};

/* A validated plan: pointers into the caller's bytes, which must outlive it. */
typedef struct Plan {
    const void *bytes;
    size_t size;
#define PLAN_SECTION(id, name, Record)                                                   \
    const Record *name;                                                                  \
    uint32_t name##_count;
    PLAN_SECTIONS(PLAN_SECTION)
#undef PLAN_SECTION
} Plan;

/* Text of a string index of a validated plan. */
static inline const char *plan_text(const Plan *p, uint32_t string)
{
    return p->strings + string;
}

/* How the children of a command are divided: each region is so many commands, one region
 * behind the other. */
typedef enum PlanRegions {
    PLAN_REGIONS_NONE, /* it has no children */
    PLAN_REGIONS_ONE,
    PLAN_REGIONS_LOOP, /* condition, body */
    PLAN_REGIONS_BRANCHES
} PlanRegions;

PlanRegions plan_regions(const PlanCommand *c);
uint32_t plan_region_count(const PlanCommand *c);
uint32_t plan_region_size(const Plan *p, const PlanCommand *c, uint32_t region);

const char *plan_command_name(uint32_t kind); /* "launch" */
/* The name of the kernel, operation or function that it works on; "": none. */
const char *plan_command_subject(const Plan *p, const PlanCommand *c);
const char *plan_collective_name(uint32_t kind);
const char *plan_allocation_name(uint32_t kind); /* "argument" */

/* Whether the command itself queues work that reads or writes memory: others only decide what
 * is queued, and in which order. */
bool plan_command_works(uint32_t kind);

/* Validates all of `bytes` (8-byte aligned) and points *out into it. Every access that code
 * makes by following the plan's indices is then in bounds, every slice lies in its
 * allocation, every launch is within CUDA's limits, the tree is well formed. Otherwise false,
 * and `error` says what is wrong. Safe on hostile bytes; recursion-free; linear. */
bool plan_read(Plan *out, const void *bytes, size_t size, char *error, size_t error_size);
/* Whether plan_read() or plan_check() failed with this error for want of memory: the plan may be
 * right. */
bool plan_lacked_memory(const char *error);

/* Proves that the streams of a plan that plan_read() has taken are in order: no two commands
 * touch the same bytes, one of them writing, without a fixed order between them, so nothing
 * else uses a buffer of an asynchronous region between its start and its done. Else false, and
 * `error` names both commands. About linear, for plans made by gxc. */
bool plan_check(const Plan *p, char *error, size_t error_size);

/* Prints the plan as text: what `gxc --emit=plan` shows. */
void plan_print(const Plan *p, FILE *out);
void plan_print_graph(const Plan *p, uint32_t graph, FILE *out);

/* Bytes by kind, as the reports give them. */
typedef struct PlanSizes {
    uint64_t arguments, results, aliased, constants, temp, workspace;
    uint64_t host; /* memory of the host: temporary, and of arguments and results */
    uint64_t peak; /* on the device: arguments + results - aliased + constants + temp */
} PlanSizes;
PlanSizes plan_sizes(const Plan *p);

/* What a run does, for the reports: launches and library calls, copies and fills, and
 * collectives are counted once, loops or not; bytes_accessed counts each slice of a command
 * but a library's workspace once (PlanArg.value where it is set), times the known trip counts
 * around it. */
typedef struct PlanCounts {
    uint64_t launches, copies, collectives, host_calls;
    uint64_t control; /* loops, conditionals, calls, starts and dones */
    uint64_t bytes_accessed;
    uint64_t bytes_accessed_once; /* loops as one trip, of branches the one with most */
} PlanCounts;
PlanCounts plan_counts(const Plan *p);
/* What one run of a command reads and writes, as bytes_accessed counts it. */
uint64_t plan_command_bytes(const Plan *p, const PlanCommand *c);

/* An execution as one CUDA graph: why that cannot be, or NULL; its nodes (a library's call counts as
 * one) and, among them, the loops and branches that the device decides. */
enum { PLAN_CAPTURE_MOST_NODES = 1 << 14 };
typedef struct PlanCapture {
    const char *refused;
    uint64_t nodes, conditionals;
} PlanCapture;
PlanCapture plan_capture(const Plan *p);

/* XXH3-128 as 16 bytes, in the canonical (big-endian) order. */
void plan_hash(const void *bytes, size_t size, uint8_t out[16]);

#endif
