/* Costs and gains of fusing producers into consumers. See fuse_cost.c. */
#ifndef GXC_PASSES_FUSION_FUSE_COST_H
#define GXC_PASSES_FUSION_FUSE_COST_H

#include "ir/analysis/target.h"
#include "ir/module.h"

#define FUSE_MOST_CODE 500 /* copies in the code that one producer adds */

/* A producer inside a consumer. */
typedef struct Inside {
    int64_t evaluations; /* of its elements */
    int64_t copies;      /* of its code */
    int64_t others;      /* copies of all else in the consumer */
    int64_t
        hidden; /* picoseconds of its arithmetic while the consumer waits for memory */
} Inside;
Inside fuse_inside(const Instruction *producer, const Instruction *consumer,
                   const GpuModel *device, Arena *scratch);
void fuse_inside_add(Inside *sum, const Inside *one);

/* Fused into all its consumers, `inside` them, it takes less time than by itself. */
bool fuse_is_worth_it(const Instruction *producer, const Inside *inside,
                      Instruction *const *consumers, uint32_t count,
                      const GpuModel *device);
/* No work and no memory: repeated anywhere. */
bool fuse_is_free(const Instruction *producer);
/* Heavy readers take only what costs nothing to compute again. */
bool fuse_is_heavy(const Instruction *consumer);
/* Instructions of one element. */
int64_t fuse_work(const Instruction *producer);
/* Instructions of its code. Two of one element count as one: each is computed once for all lanes of a thread.
 * Constants are no code. */
uint32_t fuse_nodes(const Instruction *inst);

#endif
