/* Which instructions of a stretch of a computation's order must come before which, while some of them become one.
 * See paths.c. */
#ifndef GXC_PASSES_FUSION_PATHS_H
#define GXC_PASSES_FUSION_PATHS_H

#include "ir/module.h"

typedef struct Paths {
    uint32_t first, count; /* the stretch: ids first .. first + count - 1 */
    size_t words;
    uint64_t *ancestors; /* [count][words] */
} Paths;

/* Of a computation in order; made in `a`. */
Paths paths_find(const Computation *comp, uint32_t first, uint32_t count, Arena *a);
/* `to` needs `from`; false of what is outside the stretch. */
bool paths_lead(const Paths *p, const Instruction *from, const Instruction *to);
/* These members of the stretch become one, all but the last of which are one already. */
void paths_join(Paths *p, Instruction *const *members, uint32_t count, Arena *scratch);

#endif
