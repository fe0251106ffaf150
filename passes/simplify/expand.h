/* Expansions by family; expand.c runs them all. */
#ifndef GXC_PASSES_SIMPLIFY_EXPAND_H
#define GXC_PASSES_SIMPLIFY_EXPAND_H

#include "passes/simplify/rewrite.h"

extern const Rule rules_expand_scan[], rules_expand_ragged[], rules_expand_fft[],
    rules_expand_linalg[];

#endif
