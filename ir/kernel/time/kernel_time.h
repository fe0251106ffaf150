/* Seconds of one launch, from what it does: as long as the unit or the wait that takes longest, and the
 * launch itself. */
#ifndef GXC_IR_KERNEL_TIME_KERNEL_TIME_H
#define GXC_IR_KERNEL_TIME_KERNEL_TIME_H

#include "ir/kernel/matmul.h"
#include "ir/kernel/time/kernel_work.h"

/* What a kernel's time is bound by: LIMIT(ID, word). */
#define KERNEL_LIMITS(LIMIT)                                                             \
    LIMIT(NONE, "none")                                                                  \
    LIMIT(MEMORY, "memory") /* device memory */                                          \
    LIMIT(L2, "l2")                                                                      \
    LIMIT(SHARED, "shared") /* shared memory and L1 */                                   \
    LIMIT(ISSUE, "issue")   /* instructions of all units */                              \
    LIMIT(ALU, "alu")                                                                    \
    LIMIT(FMA, "fma")                                                                    \
    LIMIT(INT, "int") /* integer products */                                             \
    LIMIT(MUFU, "mufu")                                                                  \
    LIMIT(F64, "f64")                                                                    \
    LIMIT(TENSOR, "tensor")                                                              \
    LIMIT(ATOMICS, "atomics")                                                            \
    LIMIT(LATENCY, "latency") /* loads that too few threads wait for */                  \
    LIMIT(CHAIN, "chain")     /* a loop whose trips come one after the other */          \
    LIMIT(LAUNCH, "launch")                                                              \
    LIMIT(LINK, "link") /* between devices */                                            \
    LIMIT(HOST, "host")

typedef enum {
#define LIMIT(id, word) LIMIT_##id,
    KERNEL_LIMITS(LIMIT)
#undef LIMIT
        LIMIT_COUNT
} KernelLimit;
/* "memory" */
const char *kernel_limit_word(KernelLimit limit);

typedef struct KernelTime {
    double seconds; /* the launch included */
    KernelLimit limit;
    double
        share; /* of that limit's rate on the data sheet reached; of waits: of `least` */
    double waves;         /* rounds in which the blocks run */
    double least_seconds; /* for the same operation on this device */
    double bytes, operations;
    double needed_bytes; /* of its arrays: each once */
    double l2_bytes, blocks, steps,
        instructions; /* of threads; steps: of its longest loop */
    DType
        product_type; /* of matrices that it multiplies without tensor cores; else invalid */
    bool is_tileir; /* CUDA Tile IR makes it */
} KernelTime;

/* Of a kernel. */
KernelTime kernel_time(const KernelWork *w, const GpuModel *device);
/* Of a product that a library makes; NULL operands: see library_time.c. */
KernelTime library_time(const Instruction *inst, const GpuModel *device);
/* The same of a dot or convolution that is not marked; false: no library makes it. */
bool library_product_time(const Instruction *product, const GpuModel *device,
                          KernelTime *out);
/* What the second result of a product of cuBLASLt's adds to it. */
double library_second_seconds(const Instruction *dot, MatmulSecond second,
                              const GpuModel *device);
/* Of a copy or a fill of so many bytes, read and written. */
KernelTime copy_time(double bytes, const GpuModel *device);
/* Operations a second of products of this type, by the data sheet: of the fastest units that take them, and
 * of those that are no tensor cores. */
double product_peak(DType type, const GpuModel *device);
/* Percent of it that mma.sync reaches. */
double product_mma_percent(const GpuRates *r, DType factor);
double plain_peak(DType type, const GpuModel *device);

#endif
