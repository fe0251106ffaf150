/* For kernels that tests write by hand on the gx operations: a backend of both machines and an assembler. */
#ifndef GXC_TESTS_UNIT_SHARED_HAND_KERNELS_H
#define GXC_TESTS_UNIT_SHARED_HAND_KERNELS_H

#include "codegen/assembler/assemble.h"
#include "codegen/backend.h"
#include "runtime/emu/engine.h"

typedef struct HandKernels {
    Arena *arena;
    Cuda cuda;
    Libdevice *device;
    Backend *backend;
} HandKernels;

/* False: a part of CUDA is missing, which was printed. */
bool hand_kernels_open(HandKernels *h);
void hand_kernels_close(HandKernels *h);
/* cmocka's, where *state is nothing else. */
int hand_kernels_set_up(void **state);
int hand_kernels_tear_down(void **state);

/* Its PTX, which the assembler has taken: what each kernel uses is in `out`. */
const char *hand_kernels_assemble(HandKernels *h, Kernel *const *kernels, uint32_t count,
                                  const char *gpu, Cubin *out);
/* What is said of a kernel that the GPU has no instructions for. */
const char *hand_kernels_refusal(HandKernels *h, Kernel *k, const char *gpu);

/* One launch on the emulator's engine, which uses the kernel up, and all others that were made. */
typedef struct HandRun {
    const uint64_t *args, *extents; /* [count]: pointers, bytes behind them */
    uint32_t count;
    bool check_races, check_written;
    bool copies_early; /* asynchronous copies are made when they are issued */
} HandRun;
bool hand_kernels_run(HandKernels *h, Kernel *k, unsigned sm, const HandRun *run,
                      Finding *finding);
/* Races and unwritten bytes are checked, and anything wrong fails the test. */
void hand_kernels_run_well(HandKernels *h, Kernel *k, unsigned sm, HandRun run);

#endif
