/* Programs of collectives, each of which reads the one argument and writes a result of its own. */
#ifndef GXC_TESTS_UNIT_SHARED_COLLECTIVE_PROGRAM_H
#define GXC_TESTS_UNIT_SHARED_COLLECTIVE_PROGRAM_H

#include "runtime/gxrt.h"
#include "runtime/plan/builder.h"
#include "runtime/plan/plan.h"

typedef struct CollectiveMaker {
    PlanBuilder b;
    uint32_t in; /* the slice of the argument */
} CollectiveMaker;

/* A plan for sm_90a on so many devices (partitions), with an argument f32[n]. */
void collectives_init(CollectiveMaker *m, const char *module, uint32_t devices,
                      int64_t n);
/* Groups of devices: `count` numbers, for each group its size and its members. */
uint32_t collectives_clique(CollectiveMaker *m, const char *name, uint32_t groups,
                            const int64_t *numbers, uint32_t count);
/* One collective, a sum if it reduces, into a new result f32[n]. What is returned may be changed
 * until the next is added. */
PlanCollective *collectives_add(CollectiveMaker *m, uint32_t kind, const char *name,
                                uint32_t clique, int64_t n);
/* The program; *out_file, which it lies in, is the caller's to free after it. */
gxrt_program *collectives_open(CollectiveMaker *m, void **out_file);

#endif
