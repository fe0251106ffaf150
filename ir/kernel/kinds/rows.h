/* What kernels share in which a group of threads reduces each row: row_reduction.c and two_way_reduction.c. */
#ifndef GXC_IR_KERNEL_KINDS_ROWS_H
#define GXC_IR_KERNEL_KINDS_ROWS_H

#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

#define ROW_KEPT_CODE 1500 /* instructions of a walk that is written out to keep a row */

/* Besides reductions of rows and sums of columns, a few instructions make an element. */
bool rows_are_plain(const Instruction *fusion, const ReductionPlan *p);
/* Columns that a thread takes at once, for wide accesses of the arrays that have all columns. */
int64_t rows_lanes(const KernelDesign *d);
/* Columns of a row that one thread of its group has, at most. */
int64_t rows_thread_columns(const ReductionPlan *p, int64_t lanes, int64_t group);
/* Instructions of a walk over them, written out, of so many threads. */
int64_t rows_kept_code(const KernelDesign *d, int64_t threads);
/* NULL, or what is wrong with lanes, block or group. */
const char *rows_group_refused(const KernelDesign *d);
/* What warps of a group leave each other in shared memory. */
void rows_shared(const KernelDesign *d, KernelGeometry *g);

/* Of a thread of a two-way reduction: what it reads of a row stays there as numbers of 32 bits, beside its sums. */
int64_t two_way_registers(const KernelDesign *d);

#endif
