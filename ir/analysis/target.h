/* The GPU that a program is compiled for: what its instruction set is, and what a cost model
 * has to know about the machine. No LLVM here; the rows are in targets.def. */
#ifndef GXC_IR_ANALYSIS_TARGET_H
#define GXC_IR_ANALYSIS_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What every GPU of targets.def has in common. */
enum {
    TARGET_WARP = 32,
    TARGET_BLOCK_THREADS = 1024,   /* at most */
    TARGET_STATIC_SHARED = 49152,  /* shared memory that needs no opt-in */
    TARGET_RESERVED_SHARED = 1024, /* of each block, taken from the multiprocessor's */
    TARGET_REGISTERS = 65536,      /* of a multiprocessor */
    TARGET_THREAD_REGISTERS = 255, /* at most */
};

/* What not all of them have: bits. */
enum {
#define FEATURE(id, ptx, doc) FEATURE_NUMBER_##id,
#include "ir/analysis/targets.def"
    FEATURE_COUNT
};
enum {
#define FEATURE(id, ptx, doc) FEATURE_##id = 1 << FEATURE_NUMBER_##id,
#include "ir/analysis/targets.def"
};

typedef struct GpuModel {
    const char *name, *text; /* "h100", "H100-SXM" */
    uint32_t sm;             /* 90 */
    char variant;            /* 'a', or 0 */
    uint32_t multiprocessors;
    uint32_t lanes; /* f32 operations a cycle and multiprocessor; a fma is one */
    uint32_t mhz;   /* clock */
    uint32_t gigabytes_per_second; /* device memory */
    uint32_t l2_kib;
    uint32_t block_shared; /* bytes of shared memory: of a block at most, opted in */
    uint32_t multiprocessor_shared;                         /* bytes */
    uint32_t multiprocessor_threads, multiprocessor_blocks; /* resident at most */
    uint32_t tensor_teraflops;                              /* dense, of 16-bit floats */
    uint32_t memory_gib;
    uint32_t link_gigabytes_per_second; /* to other devices near by, each way */
    uint32_t link_nanoseconds;          /* for a short message */
    uint32_t linked_devices;            /* that those links join: by number, in runs */
    uint32_t network_gigabytes_per_second, network_nanoseconds; /* to all others */
} GpuModel;

/* What a device reaches besides, for the model of time: the RATES rows of targets.def. */
typedef struct GpuRates {
    const char *name;
    uint32_t mhz;                          /* clock under load */
    uint32_t alu, imul, mufu, f64;         /* results of a multiprocessor a cycle */
    uint32_t l2_bytes;                     /* a cycle, of the device */
    uint32_t l2_cycles, memory_cycles;     /* from a load to its value */
    uint32_t tf32, f8, s8, f4, f64_tensor; /* dense Tflop/s of its tensor cores */
    uint32_t mma;                          /* percent of them that mma.sync reaches */
    uint32_t mma_f8, mma_s8;               /* the same with factors of 8 bits */
    uint32_t async_mma; /* the same of wgmma and tcgen05.mma, where there are such */
} GpuRates;

/* The rates of a device of targets.def. */
const GpuRates *gpu_rates(const GpuModel *device);

/* Which products are kernels on tensor cores (kernels.def, tile): --tiles. */
typedef enum {
    TILES_AUTO,   /* where the model of time says so */
    TILES_GX,     /* all that can be */
    TILES_TILEIR, /* the same, by CUDA Tile IR where it makes them */
    TILES_NONE
} TileUse;

typedef struct Target {
    const char *name;           /* "sm_90a": what assemblers and LLVM call it */
    uint32_t sm;                /* 90 */
    char variant;               /* 'a' this one only, 'f' its family, 0 */
    uint32_t min_ptx, min_cuda; /* 8.0 is 80, 12.8 is 128 */
    uint32_t features;          /* FEATURE_x */
    const GpuModel *device;
    TileUse tiles;
    bool has_tileir;      /* tiles are made by CUDA Tile IR, where it makes them */
    bool compiles_graphs; /* cuDNN may compile kernels for what it has none ready for */
} Target;

/* By the name of a target ("sm_90a") or of a device ("h100", "gpu_h100"), in lower or upper case. False:
 * there is none. `out` points into constant memory. */
bool target_find(const char *name, Target *out);

/* Newer GPUs have all that it has, so PTX for it is PTX for them. */
static inline bool target_is_portable(const Target *t)
{
    return t->variant == 0;
}

/* Registers that a thread of a block of so many may have. */
int64_t target_thread_registers(int64_t threads);

/* It has all of these features; a target NULL has none. */
bool target_has(const Target *t, uint32_t features);
/* And this version of PTX can say it. */
bool target_can(const Target *t, uint32_t ptx, uint32_t features);
/* The first of these that it lacks, or that this version cannot say: what it is, for messages; NULL: none. */
const char *target_lacks(const Target *t, uint32_t ptx, uint32_t features);

/* The rows of --list-targets: one a line, name first. */
void target_list(FILE *out);

/* The names of all targets and devices, for messages: "sm_75, sm_80, …, h100, …". */
const char *target_names(void);

/* Version of PTX that a CUDA toolkit's assembler takes: 13.0 (130) gives 90, 12.8 gives 87. */
uint32_t target_ptx_of_cuda(uint32_t cuda);

#endif
