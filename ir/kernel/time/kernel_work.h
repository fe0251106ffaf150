/* What one launch of a kernel does, counted without making it: instructions by unit, bytes by level of
 * memory, and the cycles that a block needs at least because one thing waits for another. From the
 * fusion and its kernel's configuration only: no LLVM. Seconds come of it in kernel_time.h. */
#ifndef GXC_IR_KERNEL_TIME_KERNEL_WORK_H
#define GXC_IR_KERNEL_TIME_KERNEL_WORK_H

#include "ir/analysis/target.h"
#include "ir/module.h"

/* Units that execute instructions, each at its own rate. */
typedef enum {
    WORK_ALU,  /* integers, logic, comparisons */
    WORK_FMA,  /* f32 */
    WORK_IMUL, /* integer products */
    WORK_ADD,  /* sums of 32-bit integers: by either of the units of integers */
    WORK_MUFU, /* special functions and conversions */
    WORK_F64,
    WORK_TENSOR, /* counted in cycles of a multiprocessor */
    WORK_UNITS
} WorkUnit;

/* Warp instructions. */
typedef struct WorkCounts {
    double issued; /* of all units, loads, branches */
    double unit[WORK_UNITS];
    double shared; /* cycles of shared memory and L1 */
} WorkCounts;

typedef struct KernelWork {
    double blocks;
    uint32_t threads; /* of a block */
    uint64_t shared_bytes;
    uint32_t tensor_columns; /* of tensor memory, of a block */
    uint32_t registers;      /* of a thread: an estimate */
    WorkCounts counts;       /* of a block: the average */
    double longest;          /* block of uneven ones, by the average; 0: all are alike */
    double block_cycles;     /* that a block takes with a multiprocessor for itself */
    double serial_cycles;    /* of them: in the loop that takes longest */
    double serial_steps;     /* trips of that loop */
    double tail_cycles;      /* that one block goes on when all others are done */
    double read_bytes, written_bytes; /* of device memory */
    double l2_bytes;
    double l2_atomics;         /* on device memory */
    double needed_bytes;       /* what is read and written, each byte once */
    double operations;         /* arithmetic of the program: an fma is two */
    double product_operations; /* of them: of products of matrices of this type */
    DType product_type;
    /* The last so many blocks' work is shared evenly by so many (0: it is not), which takes all so many cycles longer. They
     * read so many bytes of memory, if that is more than others read. */
    struct {
        double blocks, by, cycles, bytes;
    } stream;
    int64_t panel;  /* of a product: of the order of its tiles (ir/tile/panels.h) */
    bool is_tileir; /* CUDA Tile IR makes it */
} KernelWork;

/* Cycles that both units of integers need at least. Assemblers give sums to the less busy one: as IADD3 to the ALU, as
 * IMAD.IADD to the unit of products (NVIDIA Nsight Compute's documentation, "Pipelines"; on an H100 threefry_normal, 38
 * sums and 68 other instructions of the ALU an element, takes 428 us, 679 with all of them in the ALU). */
double work_integer_cycles(const WorkCounts *c, const GpuRates *rates);

/* Blocks that a multiprocessor has room for. */
double kernel_resident(const KernelWork *w, const GpuModel *device);

/* Of a fusion, or of any operation that becomes a kernel by itself. Scratch lives in `scratch`. */
void kernel_work(const Instruction *inst, const Target *t, Arena *scratch,
                 KernelWork *out);
/* The same of our own code, whatever the best is. */
void kernel_work_gx(const Instruction *inst, const Target *t, Arena *scratch,
                    KernelWork *out);
/* Of that the registers alone, for a tenth of the time: where accesses lie does not matter to them. */
uint32_t kernel_registers(const Instruction *inst, const Target *t, Arena *scratch);

/* Of a kernel of which nothing is wrong, by each backend; !has: that one makes no such kernel on this target. */
typedef enum { KERNEL_BACKEND_GX, KERNEL_BACKEND_TILEIR, KERNEL_BACKENDS } KernelBackend;
struct KernelDesign;
void kernel_design_work(const struct KernelDesign *d,
                        KernelWork backends[KERNEL_BACKENDS], bool has[KERNEL_BACKENDS]);
/* By the best of them: what kernel_work gives for its fusion. */
void kernel_designed_work(const struct KernelDesign *d, KernelWork *out);

#endif
