/* Transposes inside a fusion, for the kernel that turns tiles in shared memory: transposes and copies
 * that change the layout (heroes), read where they were written by every result.
 *
 * Dimensions that lie side by side in the same order on both sides count as one. `inner` are those
 * along which the results are contiguous, `outer` those along which the heroes' operands are; both
 * are dimensions of the result, the slowest first. */
#ifndef GXC_IR_KERNEL_TRANSPOSITION_H
#define GXC_IR_KERNEL_TRANSPOSITION_H

#include "ir/analysis/index_map.h"
#include "ir/kernel/kind.h"

#define TRANSPOSITION_HEROES 4
#define TRANSPOSITION_RANK 64

typedef struct TransposePlan {
    uint32_t hero_count;
    const Instruction *heroes[TRANSPOSITION_HEROES];
    uint32_t rank;
    uint32_t inner_count, outer_count, batch_count;
    uint32_t inner[TRANSPOSITION_RANK], outer[TRANSPOSITION_RANK],
        batch[TRANSPOSITION_RANK];
    int64_t inner_size, outer_size, batch_size;
} TransposePlan;

/* Elements from row to row of a tile in shared memory: an odd number keeps both ways of walking free of bank
 * conflicts. */
static inline int64_t transpose_stride(int64_t tile)
{
    return tile + 1;
}

/* False, and the reason in *why: the fusion is no such transpose. */
bool transpose_plan(const Instruction *fusion, TransposePlan *out, const char **why);
/* The fusion turns something and turns it back: no transpose is left, and a loop reads what it writes side by side. */
bool transposes_cancel(const Instruction *fusion);
/* Both sides of a tile are long enough to be worth it. */
bool transpose_is_large(const TransposePlan *plan);

#endif
