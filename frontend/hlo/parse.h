/* From text to Module (the HLO text language). */
#ifndef GXC_FRONTEND_HLO_PARSE_H
#define GXC_FRONTEND_HLO_PARSE_H

#include "ir/base/limits.h"
#include "ir/module.h"

/* Reads the text of `d` (d->text, d->length): a module, computations without a header, or a
 * single instruction. The module lives in `a` and refers to d's text for positions only.
 * NULL after errors, which are in `d`. Linear in the text; recursion is bounded. */
Module *hlo_parse(Arena *a, Diag *d);

/* MLIR - StableHLO as text or bytecode, also inside of what jax.export writes -, by its first bytes. */
bool stablehlo_is(const char *data, size_t length);
/* The same of it: reads the input of `d`. In bytecode there are no positions. */
Module *stablehlo_parse(Arena *a, Diag *d);

/* The end of making a module: its computations are these, callees first; names become unique.
 * has_layout: the layouts of the entry's parameters and result are known, else they are those of their shapes. */
void import_module(Module *m, Computation *const *order, size_t count, bool has_layout);

#endif
