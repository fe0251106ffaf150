/* What each kind of kernel does: work_<family> for the rows of kernels.def. A function begins a builder
 * (work_builder.h) for the kernel's geometry, walks through the kernel as its emitter does with the numbers of
 * the design, and leaves the counts in `out`. */
#ifndef GXC_IR_KERNEL_TIME_WORK_KINDS_H
#define GXC_IR_KERNEL_TIME_WORK_KINDS_H

#include "ir/kernel/kernel.h"
#include "ir/kernel/plans.h"
#include "ir/kernel/tensor_core.h"
#include "ir/kernel/time/work_builder.h"
#include "ir/tile/tile.h"

typedef void WorkFn(const KernelDesign *d, KernelWork *out);
#define KERNEL(id, name, family, ...) WorkFn work_##family;
#include "ir/kernel/kernels.def"
/* By the function of the design's kind. */
void work_of_kind(const KernelDesign *d, KernelWork *out);

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
/* Index of position `at` of row `row`; rows count through the dimensions but `along` as they lie in memory. */
void work_position(WorkBuilder *b, const Shape *s, int64_t along, const IndexExpr *row,
                   const IndexExpr *at, const IndexExpr **out);
/* Of a product by tiles whose last ones blocks share: what the design says of that is added to the rest. */
struct TileMapping;
void work_stream(const KernelDesign *d, const struct TileMapping *m, KernelWork *w);
/* Cycles of a multiprocessor for one multiplication of a warp on tensor cores. */
double work_core_cycles(const WorkBuilder *b, const TensorCore *core);

/* Convolutions whose block keeps a patch of the image in shared memory: the loops over channels and taps. */
typedef struct TapWork {
    WorkBuilder *b;
    const Instruction *inst;
    const KernelConfig *config;
    int64_t channels, taps; /* of the image, of the window */
    double patch_bytes;     /* of a channel: what a block reads of the image */
    double
        filter_share; /* of what L2 does for as many bytes, those of filters take, if more than 1 */
    /* cycles: of a tap, which the next one waits for whatever is copied meanwhile */
    double carried;
    const void *of; /* what the functions get */
    void (*fill)(const void *of);
    void (*multiply)(const void *of); /* of a tap */
} TapWork;
void work_tap_loops(const TapWork *t);
/* Ends the builder. A block's patch and filters come through L2; of memory each array is read once. */
void work_tap_end(const TapWork *t, KernelWork *out);
/* Of a gradient by the filter, each of whose blocks has copied so many bytes. */
void work_gradient_end(WorkBuilder *b, const GradientPlan *p, double copied,
                       KernelWork *out);
/* A convolution by windows of several positions: it finds the positions of each tile again, between the multiplications. */
bool work_reads_windows(const Instruction *product);
/* A dot of a chain in its loop: fragments that are loaded, 16 bytes of each lane at once, and multiplied. Gives the
 * operations of a block. */
struct TileMapping;
double work_chain_dot(WorkBuilder *b, const struct TileMapping *m, bool loads_a);
/* Products of a stage by wgmma: four warps read their columns, and 64 rows that are not in registers, from shared memory
 * once, and wait for the end, where steps do not overlap. Gives the cycles that tensor cores take for the block; *times:
 * how often each four multiply. */
double work_async_products(WorkBuilder *b, const struct TileMapping *m, bool loads_left,
                           bool overlaps, double *times);
/* Cycles of a multiprocessor for so many operations of products, at so many percent of the tensor cores' rate. */
double work_product_cycles(const WorkBuilder *b, DType factor, double operations,
                           double percent);
/* Tiles of the terms that a block takes on average: of groups of even sizes, whose last tile is half full. */
double work_tile_steps(const ContractionPlan *c, int64_t depth);
uint32_t work_log2(int64_t n); /* of the power of two that is not below n */

/* -- tile programs (work_program.c) ----------------------------------------------------------------- */

typedef struct TileWork {
    WorkBuilder *b;
    const TileProgram *p;
    uint32_t together; /* blocks that share a tile: each moves its part */
    const IndexExpr *first[TILE_MOST_DIMS]; /* coordinates of the block's tile */
} TileWork;

/* Blocks count through the tiles of the grid, the last dimension's fastest. From here on the builder's expressions
 * are the program's. */
void work_tile_begin(TileWork *w, WorkBuilder *b, const TileProgram *p,
                     uint32_t together);
/* A tile between memory and the block's threads: so many neighbours along `fast` at once, then along the other
 * dimensions. */
void work_tile_move(const TileWork *w, const TileOp *op, uint32_t array, uint32_t fast,
                    int64_t lanes);
/* The part of them in which predicates of a band have to be computed: the others are all inside. */
double work_tile_edges(const TileProgram *p, const TileOp *loop);
/* It is made there only. */
bool work_is_of_edges(const TileOp *op);
/* An elementwise operation, of one element. */
OpCost work_tile_cost(const TileOp *op);
/* Trips of a loop, on the average of the blocks. */
double work_tile_trips(const TileProgram *p, const TileOp *loop);
/* Of a kernel by CUDA Tile IR, in place of what its kind's function left in `out`; false: there is no such
 * kernel. */
bool work_tileir(const KernelDesign *d, KernelWork *out);

#endif
