/* Large arrays that a value is made of by cheap operations: whoever has read them makes the value again for nothing. */
#ifndef GXC_IR_ANALYSIS_SOURCES_H
#define GXC_IR_ANALYSIS_SOURCES_H

#include "ir/module.h"

enum {
    SOURCES_MOST = 64,
    SOURCES_LOOKS =
        32 /* instructions that are looked through: sums of sums have many paths */
};

/* Starts as {0}. */
typedef struct Sources {
    const Instruction *list[SOURCES_MOST];
    uint32_t count, looked;
} Sources;

bool sources_have(const Sources *s, const Instruction *inst);
void sources_add(Sources *s, const Instruction *inst);
/* Adds those of inst; arrays with many times fewer than so many elements are none. */
void sources_find(Sources *s, const Instruction *inst, int64_t elements);

/* What only gives the same elements other indices or repeats them: it is never a source. */
bool sources_see_through(const Instruction *inst);
/* Work on elements that is done again in passing. */
bool inst_is_cheap(const Instruction *inst);

#endif
