/* Looking at a compiled program: --emit=dot and --emit=html. */
#ifndef GXC_FRONTEND_PAGE_PAGE_H
#define GXC_FRONTEND_PAGE_PAGE_H

#include "codegen/codegen.h"
#include "ir/analysis/target.h"
#include "ir/module.h"

/* The scheduled module as a graph for Graphviz: a cluster for each computation that is no kernel, with the times of the
 * model. In `a`. */
const char *page_dot(Arena *a, const Module *m, const Target *t, size_t *size);

typedef struct PageSource {
    const Module *module; /* scheduled */
    const Target *target;
    const Codegen *codegen; /* its variant 0 was made of the module */
    const char *input;      /* what was compiled, as text; NULL: it was none */
    size_t input_size;
    const char *ptx; /* of all kernels */
    size_t ptx_size;
} PageSource;

/* One page of HTML with all that it needs: graph, kernels with their times by the model, memory, HLO and PTX. In
 * `a`; NULL without memory. */
const char *page_html(Arena *a, const PageSource *source, size_t *size);

#endif
