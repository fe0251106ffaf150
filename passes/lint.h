/* What every pass must keep, checked from outside: tests run it after each pass (gxc --lint).
 *
 * An instruction that stays keeps its name in the source (metadata), its frontend attributes
 * and its backend configuration, and what it had to wait for it still waits for. What is made
 * in place of collectives has, all together, the names and frontend attributes of those, comes
 * after what they came after and before what came after them. */
#ifndef GXC_PASSES_LINT_H
#define GXC_PASSES_LINT_H

#include "passes/pass.h"

typedef struct Lint Lint;

/* Runs a pass, and checks it if the context says so. */
bool lint_run(const char *name, PassFn *pass, Module *m, PassContext *cx);

/* bug() if a pass that is left out would have done something. Only where the context says so. */
void lint_idle(const char *name, PassFn *pass, Module *m, PassContext *cx);

/* Remembers the module as it is before a pass; `a` must live until lint_check. */
Lint *lint_begin(const Module *m, Arena *a);
/* bug() if the pass lost something. */
void lint_check(const Lint *before, const Module *m, const char *pass);

#endif
