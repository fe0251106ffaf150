/* What each kind of kernel does: work_<family> for the rows of kernels.def. A function begins a builder
 * (work_builder.h) for the kernel's geometry, walks through the kernel as its emitter does with the numbers of
 * the design, and leaves the counts in `out`. */
#ifndef GXC_IR_KERNEL_WORK_KINDS_H
#define GXC_IR_KERNEL_WORK_KINDS_H

#include "ir/kernel/kernel.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/tensor_core.h"
#include "ir/kernel/work_builder.h"

typedef void WorkFn(const KernelDesign *d, KernelWork *out);
#define KERNEL(id, name, family, ...) WorkFn work_##family;
#include "ir/kernel/kernels.def"

/* -- what kinds share ------------------------------------------------------------------------------ */

/* A value combined with an accumulator by a reduction's computation, so often, with what converts it;
 * gives the cycles of one. */
double work_combine(WorkBuilder *b, const Instruction *reduction, double times);
/* Bytes that the values of a reduction take in shared memory and shuffles, all together. */
double work_reduction_bytes(const Instruction *reduction);
/* Sets the index along `dims` from a number that counts through them, the last fastest. */
void work_spread(WorkBuilder *b, const Shape *s, const uint32_t *dims, uint32_t count,
                 const IndexExpr *number, const IndexExpr **index);
/* The numbers of the elements that thread 0, 1, … takes: `lanes` of `elements` each. */
const IndexExpr *work_elements_of_thread(WorkBuilder *b, int64_t elements,
                                         uint32_t lanes);
/* Index of place `at` of row `row`; rows count through the dimensions but `along` as they lie in memory. */
void work_place(WorkBuilder *b, const Shape *s, int64_t along, const IndexExpr *row,
                const IndexExpr *at, const IndexExpr **out);
/* Cycles of a multiprocessor for one multiplication of a warp on tensor cores. */
double work_core_cycles(const WorkBuilder *b, const TensorCore *core);
/* A dot of a chain in its loop: fragments that are loaded, 16 bytes of each lane at once, and multiplied. Gives the
 * operations of a block. */
struct TileMapping;
double work_chain_dot(WorkBuilder *b, const struct TileMapping *m, bool loads_a);
/* Tiles of columns that a tile of rows goes through, on the average. */
struct TileChainMapping;
double work_chain_trips(const struct TileChainMapping *m);
uint32_t work_log2(int64_t n); /* of the power of two that is not below n */

#endif
