/* Stages: a collective of a loop's body, all that follows from it, and where that is stored.
 *
 * A stage is closed: nobody else reads what it makes, and what it stores, into elements of the
 * loop, is read by nobody before the next step's store. */
#ifndef GXC_PASSES_COLLECTIVES_LOOPS_PIPELINE_STAGE_H
#define GXC_PASSES_COLLECTIVES_LOOPS_PIPELINE_STAGE_H

#include "passes/collectives/loops/pipeline.h"

enum { STAGE_MEMBERS_MOST = 64 };

typedef struct Stage {
    Instruction **members; /* ascending by id */
    uint32_t count;
    Instruction *collective;
    Instruction **updates; /* dynamic-update-slices, the last of the members */
    uint32_t update_count;
} Stage;

typedef struct Stages {
    PipelineLoop *p;
    uint32_t updates_most; /* of one stage */
    uint32_t *stage_of;    /* by id: number of its stage + 1; 0: none */
    Stage *stages;
    uint32_t count;
    Instruction *found[STAGE_MEMBERS_MOST]; /* of the stage that is being looked at */
    uint32_t found_count;
} Stages;

void stages_init(Stages *f, PipelineLoop *p, uint32_t updates_most);
/* Finds the collective's stage; it is one of f->stages once stages_keep was called, and else given up
 * by stages_drop. */
bool stages_find(Stages *f, Instruction *collective, Stage *out);
void stages_keep(Stages *f, const Stage *s);
void stages_drop(Stages *f);

/* The element of the loop that an update of a stage stores into. */
uint32_t stage_element(const Instruction *update);
bool stage_is_update(const Stage *s, const Instruction *inst);

#endif
