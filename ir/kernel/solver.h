/* Factorisations by cuSOLVER: custom calls of ir/custom_call/lapack.def that are marked for it. Their arrays are the transposes
 * of the matrices (LapackCall.is_transposed), so that what lies by rows is what the library wants by columns. */
#ifndef GXC_IR_KERNEL_SOLVER_H
#define GXC_IR_KERNEL_SOLVER_H

#include "ir/custom_call/lapack.h"

typedef struct SolverCall {
    LapackCall how;
    DType type;
    int64_t batch;
    int64_t rows, columns; /* of the matrix */
    int64_t vectors; /* columns of u (0: not wanted); of q: how many factors there are */
} SolverCall;

bool solver_is_library(const Instruction *inst);
void solver_set_library(Instruction *inst);
/* Type, batch, rows and columns of the matrices of s, which has their transposes if `is_transposed`. False: there are
 * none, or none that the library takes: it knows their type, and counts in 32 bits. */
bool solver_matrices_of(const Shape *s, bool is_transposed, SolverCall *out);
/* False: it is not marked, or the library has no function for it. */
bool solver_call_of(const Instruction *inst, SolverCall *out);

#endif
