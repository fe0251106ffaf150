/* One fusion as a kernel against the evaluator: compiled for the host and run by the emulator's engine, races and
 * unwritten bytes checked. Values are small quarters, so that sums are exact in any order. */
#ifndef GXC_TESTS_UNIT_SHARED_KERNEL_CASE_H
#define GXC_TESTS_UNIT_SHARED_KERNEL_CASE_H

#include "ir/module.h"

enum { KERNEL_CASE_ARGS = 16 };

typedef struct KernelCase {
    const char *name; /* for messages */
    const char *text; /* a module, whose entry becomes the fusion */
    const char *kind; /* of kernel; NULL: the one that is chosen */
    const char
        *config; /* its configuration, as text {"tile":[16,16]}; NULL: the heuristic */
    const char *target; /* NULL: sm_75 */
    bool copies_early;  /* asynchronous copies are made when they are issued */
    bool is_tf32;     /* its dots are made of TF32, so that f32 has the tolerance, too */
    double tolerance; /* relative, of floats of 16 bits and less; 0: 1e-5, as of others */
    double least;     /* smaller results may differ as much as those of this size */
    uint64_t conflicts; /* out: of banks of shared memory */
} KernelCase;

/* cmocka's: *state is an arena, and libdevice has been found. Not 0: it is not there, which was printed. */
int kernel_case_set_up(void **state);
int kernel_case_tear_down(void **state);

/* The entry computation of the text as a fusion; the module lives in `a`. */
Instruction *kernel_case_fusion(Arena *a, const char *text);

/* Fails the test if anything is wrong. */
void kernel_case_check(KernelCase *c);

/* The module with its dots made of TF32. */
const char *kernel_case_tf32(Arena *a, const char *text);

#endif
