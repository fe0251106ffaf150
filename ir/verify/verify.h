/* The verifier: what must hold of a module at each level. Levels are predicates on the one
 * structure, each includes those before it. */
#ifndef GXC_IR_VERIFY_VERIFY_H
#define GXC_IR_VERIFY_VERIFY_H

#include "ir/module.h"

typedef enum {
    LEVEL_SKETCH,      /* what may be read, checked and printed, but not compiled */
    LEVEL_WELL_FORMED, /* what the language demands of any module */
    LEVEL_OPTIMISED,   /* what the simplification passes leave: no calls, no dead code */
    LEVEL_LAID_OUT,    /* layouts are final; only copy, bitcast, fusion, ... change one */
    LEVEL_FUSED,     /* every instruction is a kernel, a library call, or moves nothing */
    LEVEL_SCHEDULED, /* the order of instructions is the order of execution */
} Level;

/* True if the module fulfils the level; messages to m->diag otherwise. */
bool module_verify(Module *m, Level level, Arena *scratch);

#endif
