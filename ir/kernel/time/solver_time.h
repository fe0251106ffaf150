/* Seconds of factorisations: by cuSOLVER, and as loops of kernels. */
#ifndef GXC_IR_KERNEL_TIME_SOLVER_TIME_H
#define GXC_IR_KERNEL_TIME_SOLVER_TIME_H

#include "ir/analysis/target.h"
#include "ir/kernel/solver.h"

/* One call for each matrix. */
double solver_library_seconds(const SolverCall *c, const GpuModel *d);
/* All matrices at once. */
double solver_own_seconds(const SolverCall *c, const GpuModel *d);

#endif
