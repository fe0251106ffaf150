/* From a scheduled module to kernels and plan. See codegen.c. */
#ifndef GXC_CODEGEN_CODEGEN_H
#define GXC_CODEGEN_CODEGEN_H

#include <stdio.h>

#include "codegen/assembler/assemble.h"
#include "ir/analysis/target.h"
#include "ir/module.h"

typedef enum {
    STAGE_ARTEFACT,
    STAGE_LLVM,   /* the kernels in gx.* form, text */
    STAGE_PTX,    /* text */
    STAGE_CUBIN,  /* the cubin alone */
    STAGE_TILEIR, /* bytecode of the kernels that CUDA Tile IR can make */
    STAGE_PLAN,   /* the plan as text */
} CodegenStage;

typedef struct CodegenOptions {
    Cuda cuda; /* found by cuda_find */
    const char
        *cuda_error; /* why it was not found: an error only once something needs it */
    bool emu;        /* add the host object */
    bool contract;   /* a * b + c may become fma */
    struct Planner *planner;     /* of cuDNN's graphs; NULL: there are none */
    const struct Tuning *tuning; /* ir/kernel/tuning.h; NULL: there is none */
    uint32_t
        candidates; /* other configurations of each kernel that go with it, for a tuner */
    uint32_t jobs;  /* threads; 0: one a processor */
    uint32_t compute_streams, communication_streams; /* for asynchronous work: >= 1 */
    bool collective_memory; /* collectives work in memory of NCCL's */
    CodegenStage stage;
    const char *cache_dir;    /* where kernels are kept from run to run; NULL: nowhere */
    const char *options_text; /* for the plan's record */
    const char *gxc_version;
    uint8_t module_hash[16];
    bool embed_ptx,
        embed_tileir; /* for the driver's compiler on GPUs newer than a variant's */
    const char *hlo;  /* text to embed, or NULL */
    size_t hlo_length;
    /* Called as kernels are made, by any thread, never by two at once; NULL: nobody asks. */
    void (*progress)(void *user, const char *what, size_t done, size_t of);
    void *progress_user;
} CodegenOptions;

/* Kernels, and calls of the assembler: those that the cache had, and those that were made. */
typedef struct CacheCounts {
    uint64_t kernel_hits, kernel_misses, cubin_hits, cubin_misses;
} CacheCounts;

/* Numbers of one variant, for the report. */
typedef struct CodegenReport {
    const char *target;
    bool has_code; /* kernels were made, not only planned */
    uint64_t launches, copies, collectives, host_calls, host_syncs, distinct_kernels;
    /* Of arrays that loops and row reductions read and write, and what of it by accesses of 16
     * bytes. */
    uint64_t loop_bytes, loop_bytes_wide;
    uint64_t bytes_accessed, bytes_accessed_once, argument_bytes, result_bytes,
        aliased_bytes, constant_bytes;
    uint64_t temp_bytes, workspace_bytes, peak_bytes;
    uint64_t graphs, graph_configurations; /* of cuDNN; what it had for them in all */
    uint64_t host_bytes;                   /* pinned memory of the host */
    const char *not_captured; /* why a run is no CUDA graph; NULL: it can be one ... */
    uint64_t captured_nodes, captured_conditionals; /* ... of this many nodes */
    uint64_t spill_bytes,
        lossy_kernels /* of which the assembler says that they lose time */,
        registers_most, cubin_bytes, emu_bytes;
    double llvm_seconds, assembler_seconds, plan_seconds,
        emu_seconds;       /* processor time */
    double assembler_wall; /* that its calls took, one behind the other */
    bool has_cache;
    CacheCounts cache;
} CodegenReport;

/* A command of the plan, for the report. */
typedef struct CodegenCommand {
    const Instruction *inst;
    const char *kernel; /* NULL: it launches none */
    uint32_t grid[3], block[3];
    uint64_t shared_bytes;
    uint32_t registers,
        spill_bytes;        /* of a thread, as the assembler says; 0: not known */
    const char *loss;       /* of time, as the assembler says; NULL: none */
    bool is_tileir;         /* CUDA Tile IR made it: sizes are what its code says */
    const char *tileir_why; /* it did not, though it was asked to; NULL: it was not */
} CodegenCommand;

/* A buffer of the plan: what lies in a piece of an allocation from one step of a run to another. */
typedef struct CodegenBuffer {
    const char *name, *kind; /* of the instruction whose value it holds first; "temp" */
    uint32_t allocation;
    uint32_t first, last; /* steps, both included */
    uint64_t offset, bytes;
} CodegenBuffer;

/* Where an instruction comes from, by its metadata or by that of what is fused in it. */
typedef struct CodegenSource {
    const char *op_name, *file; /* "": not known */
    uint32_t line;              /* 0: not known */
} CodegenSource;
CodegenSource codegen_source(const Module *m, const Instruction *inst);

typedef struct Codegen Codegen;

/* What artefacts are made with, besides gxc itself: a line each, for --version. */
void codegen_versions(FILE *out);

/* No kernel can be made for this opcode: its row says so. */
bool codegen_lacks(OpCode op);

/* Whether the module can become a program, as far as its text tells: asked before passes, for
 * what they would not bring into another form. Says what is not supported, and where. */
bool codegen_takes(const Module *m);
/* The same of what passes have left, by its shapes and the devices that it names. */
bool codegen_fits(const Module *m);

/* One Codegen makes one artefact; variants are added in order. All memory is in `a`. */
Codegen *codegen_create(Arena *a, const CodegenOptions *options);
/* Compiles a module at LEVEL_SCHEDULED for a target. False after messages to m->diag. */
bool codegen_add_variant(Codegen *cg, Module *m, const Target *target);
/* The bytes that the stage asks for; false after messages to `d`. */
bool codegen_finish(Codegen *cg, Diag *d, const void **out, size_t *out_size);
/* Numbers of variant i; NULL if there are fewer. */
const CodegenReport *codegen_report(const Codegen *cg, size_t i);
/* Its commands that keep the device busy, in order. */
const CodegenCommand *codegen_commands(const Codegen *cg, size_t i, size_t *count);
/* Buffer k of variant i; false if it has fewer. */
bool codegen_buffer(const Codegen *cg, size_t i, size_t k, CodegenBuffer *out);
/* Name of the instruction of its step k; NULL if it has fewer. */
const char *codegen_step(const Codegen *cg, size_t i, size_t k);
/* Gives back what is not in the arena (LLVM's objects). NULL is fine. */
void codegen_destroy(Codegen *cg);

#endif
