/* From text to Module (the HLO text language). */
#ifndef GXC_FRONTEND_PARSE_H
#define GXC_FRONTEND_PARSE_H

#include "ir/module.h"

/* Reads the text of `d` (d->text, d->length): a module, computations without a header, or a
 * single instruction. The module lives in `a` and refers to d's text for positions only.
 * NULL after errors, which are in `d`. Linear in the text; recursion is bounded. */
Module *hlo_parse(Arena *a, Diag *d);

#endif
