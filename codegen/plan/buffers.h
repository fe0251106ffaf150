/* Buffer assignment: memory for every alias set of a scheduled module.
 *
 * The schedule is numbered in the order in which commands run (bodies of loops and branches
 * inside their caller); a set lives from its first definition to its last use. Sets that are
 * neither arguments, results nor constants share a block of temporary memory, one for each
 * colour: offsets are chosen by best fit, largest first. buffers_check proves independently that no two live sets
 * share bytes. */
#ifndef GXC_CODEGEN_PLAN_BUFFERS_H
#define GXC_CODEGEN_PLAN_BUFFERS_H

#include "ir/analysis/alias.h"
#include "ir/analysis/loop_slice.h"

#define BUFFER_ALIGNMENT 128 /* of offsets in temporary memory */
#define BUFFER_COLOURS 3     /* of memory, as PlanColour: each has a block of its own */

typedef enum {
    BUFFER_NONE,
    BUFFER_ARGUMENT,
    BUFFER_RESULT,
    BUFFER_CONSTANT,
    BUFFER_TEMP
} BufferKind;

typedef struct Buffer {
    BufferKind kind;
    uint32_t index;              /* argument or result leaf number */
    const Instruction *constant; /* BUFFER_CONSTANT: its leaf `index` */
    const Instruction *owner;    /* whose value it holds first, for messages */
    uint64_t bytes;
    uint64_t offset;     /* BUFFER_TEMP: in the block of its colour */
    uint32_t colour;     /* of its memory, as in PlanAllocation */
    uint32_t begin, end; /* first definition, last use: inclusive times */
    uint32_t order;      /* in which sets are met as the program runs */
    bool live;           /* it is defined or used at all */
    uint32_t holder; /* the set whose memory it has: its own number, or another's whose
                            value a reduction in place replaces by this one's */
    uint32_t last;   /* the end of the last set in its memory */
} Buffer;

typedef struct Buffers {
    Buffer *sets; /* [set_count] by alias_set */
    uint32_t set_count;
    uint64_t temp_bytes[BUFFER_COLOURS];
    uint32_t end;              /* time behind the last command */
    const Instruction **steps; /* [time - 1] what runs, from time 1 to end - 1 */
    uint32_t *result_sets;     /* [result leaves] */
    uint32_t *argument_sets;   /* [argument leaves] */
    uint32_t argument_count, result_count;
} Buffers;

/* `slices` have no buffers: they lie in that of what they are of. `colours`: by set, as memory_colours
 * gives them. */
Buffers *buffers_assign(const Module *m, const AliasSets *aliases,
                        const LoopSlices *slices, const uint32_t *colours, Arena *a);
/* True if all live ranges that overlap in time are apart in memory; else bug() names both. */
void buffers_check(const Buffers *b, Arena *scratch);

#endif
