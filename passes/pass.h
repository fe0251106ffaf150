/* What a pass is: a function from module to module, one row in pipeline.c.
 *
 * A pass returns true if it changed the module. It does not print, does not fail, has no
 * options of its own (settings are in the context); bad input was stopped before, a broken
 * invariant is bug(). What no later stage could do, either, is a "not supported" in the module's
 * diagnostics, which ends the pipeline. */
#ifndef GXC_PASSES_PASS_H
#define GXC_PASSES_PASS_H

#include "ir/analysis/target.h"
#include "ir/kernel/graph_planner.h"
#include "ir/module.h"
#include "ir/verify/verify.h"

typedef struct PassSettings PassSettings; /* passes/settings.h: thresholds and switches */

typedef struct PassCounts {
#define COUNT(field, key, text) uint64_t field;
#include "passes/counts.def"
} PassCounts;

typedef struct PassContext {
    Arena *scratch; /* reset after each pass */
    const Target *target;
    const PassSettings *settings;
    GraphPlanner *graphs;           /* what cuDNN can do; NULL: it may not be called */
    const struct Tuning *tuning;    /* ir/kernel/tuning.h; NULL: there is none */
    struct CandidateMemo *products; /* ir/kernel/candidates.h; NULL: nothing is kept */
    int opt_level;                  /* 0, 1, 2 */
    bool lint;         /* check that every pass keeps what it must (passes/lint.h) */
    PassCounts counts; /* what passes did: they add to it, gxc --report prints it */
    struct PassMemory *memory; /* of pipeline_run, for pass_run; NULL outside */
} PassContext;

typedef bool PassFn(Module *m, PassContext *cx);

/* Instructions that a pass can change: those of any of the flags or opcodes. */
typedef struct PassTrigger {
    uint32_t flags;
    const OpCode *ops; /* ended by OP_COUNT; NULL, and no flags: it looks at all */
} PassTrigger;

typedef struct Pass {
    const char *name;
    PassFn *function;
    PassTrigger
        trigger;     /* without any of these it is left out, as it would change nothing */
    int least_level; /* the lowest -O at which it runs */
    bool required;   /* runs at every level: the next stage relies on it */
    Level yields;    /* level that holds after it */
    const char *why; /* why it stands here */
} Pass;

/* A pass that has a row in the table, from inside another, which leaves all changes to those that it
 * runs. It is left out, as in the pipeline, where the module has nothing that it looks for, or where
 * it found nothing to change and no pass has changed anything since. */
bool pass_run(PassFn *pass, Module *m, PassContext *cx);

#endif
