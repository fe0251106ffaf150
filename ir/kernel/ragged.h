/* Ragged dots as kernels carry them out: tiles of one launch belong to groups, whose sizes are read on the device.
 *
 *   RAGGED_FREE    rows of lhs are in groups, each multiplied by its own matrix:  d[m,n] = l[m,k] r[group(m),k,n]
 *   RAGGED_SUMMED  terms are in groups, each with a result of its own:            d[g,m,n] = l[k,m] r[k,n], k in g */
#ifndef GXC_IR_KERNEL_RAGGED_H
#define GXC_IR_KERNEL_RAGGED_H

#include "ir/module.h"

typedef enum { RAGGED_NONE, RAGGED_FREE, RAGGED_SUMMED } RaggedMode;

typedef struct RaggedForm {
    RaggedMode mode;
    int64_t groups;
    int64_t extent;      /* of the ragged dimension */
    uint32_t result_dim; /* FREE: the ragged one; SUMMED: that of the groups */
} RaggedForm;

/* False: it is another operation, or a form that has no kernel: sizes that depend on other dimensions, rows of
 * several dimensions, sums over several. */
bool ragged_form(const Instruction *inst, RaggedForm *out);

#endif
