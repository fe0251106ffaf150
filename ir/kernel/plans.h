/* A fusion as the family of its kernel sees it (KernelDesign.plan): what codegen and the choice of numbers go
 * by. Reductions have reduction.h, transposes transposition.h. */
#ifndef GXC_IR_KERNEL_PLANS_H
#define GXC_IR_KERNEL_PLANS_H

#include "ir/kernel/element.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/kinds/element_while.h"
#include "ir/kernel/kinds/fft.h"
#include "ir/kernel/kinds/triangle.h"
#include "ir/kernel/ragged.h"
#include "ir/kernel/reduction.h"
#include "ir/kernel/rules.h"
#include "ir/kernel/sort.h"
#include "ir/kernel/tensor_core.h"
#include "ir/kernel/transposition.h"

/* loop.c: results with equally many elements are made by the same threads. */
typedef struct LoopPlan {
    uint32_t count;
    const int64_t
        *sizes; /* elements; in the order of the results, each once, without 0 */
} LoopPlan;

/* Channels of one instruction of image_convolution.c and wide_convolution.c. */
#define TAPS_STEP 16

/* image_convolution.c: images [image, feature, y, x], whose positions count through all images; a window's positions are
 * at distances that are the same for all. */
typedef struct ImagePlan {
    const Instruction *inst;
    const TensorCore *core;          /* NULL: the target has none */
    int64_t features, channels;      /* of the result, of the image */
    int64_t positions;               /* of the result, of all images */
    int64_t size[2], result_size[2]; /* y, x */
    int64_t window[2], before[2];    /* before: padding */
    int64_t stride;
    int64_t near,
        far; /* positions from a window's own one to the first and last it reads */
} ImagePlan;

#define IMAGE_VECTOR 8 /* positions that are read and written at once: 16 bytes */

/* What lies where in a block's shared memory: positions by their number in the block's patch, then one of zeros, then
 * filters in stages. In place of all of it: the tile of sums. */
typedef struct ImageStorage {
    int64_t vectors; /* of positions that a block reads: IMAGE_VECTOR each */
    int64_t
        row_bytes; /* of a position, of an output feature: the channels that are there at a time */
    uint64_t patch_bytes, stage_bytes, bytes;
    int64_t sum_stride; /* elements from feature to feature of the tile of sums */
} ImageStorage;
void image_storage(const KernelDesign *d, ImageStorage *out);

/* wide_convolution.c: images [image, feature, y, x] or [image, y, x, feature]. */
typedef struct WidePlan {
    const Instruction *inst;
    const TensorCore *core;  /* of mma.sync; NULL: the target has wgmma or tcgen05 */
    bool in_tensor_memory;   /* are the sums: tcgen05; features are its rows, or, */
    bool positions_are_rows; /* where features are no multiple of 128, positions */
    int64_t images, features, channels; /* of the result, of the image */
    int64_t
        group_features; /* that four warps make: 64, by mma.sync any 16 that divide all */
    int64_t size[2], result_size[2]; /* y, x */
    int64_t window[2], before[2];    /* before: padding */
    int64_t stride;
    /* numbers of the filter from one tap, channel, feature to the next; one of the latter two is 1 */
    int64_t tap_step, channel_step, feature_step;
    bool is_last;        /* features are the last dimension of the image */
    bool result_is_last; /* and of the result */
    bool is_transposed;  /* and of the filter */
    bool is_reversed;    /* whose taps count backwards */
    /* Few channels: a row of a window's taps is one run of the image's numbers, or one for each channel where features
     * are first, in so many pieces of 16 bytes together; 0: each tap has whole steps of channels. */
    int64_t pieces;
    int64_t spare;    /* taps before the first, so that runs begin with whole words */
    bool takes_words; /* mma.sync has these from rows of the image: there is no patch */
    /* In tensor memory: rows of the patch's matrices are terms, of eight positions each, so that the taps of a window lie
     * one behind the other whatever their number is; there are no pieces of a position, and nothing is spare. */
    bool by_term;
    /* By wgmma: what is copied into shared memory as it is lies there in lines (WideStorage). */
    bool has_lines;
} WidePlan;

/* Of few channels: numbers of the image from one position of a row to the next. */
static inline int64_t wide_tap_numbers(const WidePlan *p)
{
    return p->is_last ? p->channels : 1;
}

/* Runs that a row of a window's taps is. */
static inline int64_t wide_runs(const WidePlan *p)
{
    return p->is_last ? 1 : p->channels;
}

/* WidePlan.pieces: rows of the image behind patch and filter, from which a patch is made, features first those of a
 * channel one behind the other. */
typedef struct WideRows {
    int64_t count;     /* of the image, or of a channel */
    int64_t row_bytes; /* with zeros around it: */
    int64_t lead;      /* so many numbers before it */
    int64_t zeros;     /* positions behind the patch, beside an odd piece */
    int64_t terms;     /* of the filter, in whole steps */
    uint64_t bytes;
    /* WidePlan.by_term: rows of 16 bytes from eight positions to the next; the first behind the terms of all rows of the
     * image: each result's last ones, up to eight with zeros, if there is a rest of its terms by eight; where there
     * are zeros beside an odd eight, else -1. */
    int64_t chunk, tails, beside;
    int64_t turn; /* threads from the first row of eight positions to that of the next */
} WideRows;

/* WidePlan.in_tensor_memory: the sums lie there as tiles of `rows`, 128 or 64, by `columns`, one beside the other. */
typedef struct WideTensor {
    int64_t rows, columns, tiles;
    int64_t width;  /* columns of all tiles that are multiplied */
    int64_t parts;  /* WidePlan.by_term, positions are rows: of a row of results */
    int64_t across; /* tiles of the same features */
    uint32_t taken; /* columns of tensor memory, as they can be asked for */
    uint32_t
        control; /* bytes of shared memory: where the address stands, and two mbarriers */
} WideTensor;

/* What lies where in a block's shared memory: the patch, filters in stages; in place of all of it, the sums. The patch
 * has, for eight channels each, positions of 16 bytes: a plane for each remainder by the stride, both ways, rows of `pitch`
 * positions one behind the other, so that a tap's positions begin a fixed distance behind the first one's. */
typedef struct WideStorage {
    int64_t pitch, rows; /* of a plane */
    int64_t width;       /* by positions: of a row that are read */
    int64_t
        image_rows; /* by positions: from an image's first row of a plane to the next one's */
    int64_t image_apart; /* by positions: positions between its last row and that */
    int64_t
        plane; /* positions of it, and some that only columns behind the last one read */
    int64_t group_rows; /* of results: four warps' */
    int64_t
        columns; /* of four warps: by wgmma a run of the patch, by mma.sync results only */
    int64_t sum_pitch; /* columns from a row of results to the next */
    int64_t parts; /* of the columns, by mma.sync: warps that have one; 1: each has all */
    int64_t slack; /* positions of the patch behind the last result's, at most */
    WideTensor tensor;
    int64_t
        chunk; /* positions from eight channels, or from a line of them, to the next */
    /* Bytes of a row of the patch or the filter, 32, 64 or 128, whose pieces are swizzled: GxMatrices.line. 0: pieces are
     * matrices' rows. */
    uint32_t patch_line, filter_line;
    uint32_t filter_lead, filter_stride; /* bytes: see GxMatrices */
    int64_t sum_stride;                  /* elements from row to row of the sums */
    uint64_t patch_bytes, stage_bytes, bytes;
    WideRows of_rows;
} WideStorage;
void wide_storage(const KernelDesign *d, WideStorage *out);
/* The patch is what wgmma reads, of whole steps of channels: it is filled through registers. */
static inline bool wide_by_registers(const WidePlan *p, const KernelConfig *c)
{
    return p->has_lines && !c->by_positions && p->pieces == 0;
}
/* Pieces of 16 bytes that a thread has under way then: all registers are theirs as long as there are no sums. */
enum { WIDE_AT_ONCE = 24, WIDE_BESIDE_SUMS = 8 };
static inline int64_t wide_at_once(const WidePlan *p, const KernelConfig *c)
{
    return wide_by_registers(p, c) && c->depth == p->channels ? WIDE_AT_ONCE
                                                              : WIDE_BESIDE_SUMS;
}
/* Registers of a thread then, of four warps with so many columns. */
int64_t wide_registers(const WidePlan *p, const KernelConfig *c, int64_t columns);
/* Eight positions of eight channels each: what is turned then, features first. */
int64_t wide_turned_vectors(const WidePlan *p, const KernelConfig *c);
/* A tap's products begin before those of the tap before are done. */
static inline bool wide_overlaps(const WidePlan *p, const KernelConfig *c)
{
    return wide_by_registers(p, c) && c->stages > 2;
}
/* Rows of the image that the windows of a block's rows of results reach. */
static inline int64_t wide_reached_rows(const WidePlan *p, const KernelConfig *c)
{
    return (c->tile[1] - 1) * p->stride + p->window[0];
}
/* What a row of so many pieces of 16 bytes, an even number, is cut into. */
uint32_t wide_line(int64_t pieces);
/* The filter in lines of so many pieces, `rows` of them, behind a patch whose size is known. */
void wide_line_filter(int64_t rows, int64_t pieces, WideStorage *out);
/* Vectors of fewer channels than there could be, whole positions apart, meet in banks as they are turned. */
bool wide_turning_meets(const WidePlan *p, int64_t depth, int64_t deep);
/* Into how many parts, of whole octets each, four warps divide so many columns by mma.sync: all warps, each with all
 * features, if that leaves no more of them empty than half of the warps. */
int64_t wide_parts(const WidePlan *p, int64_t columns);

/* wide_tensor.c: wide_convolution's sums in tensor memory. Positions and tiles; pitch is there. */
void wide_tensor_plan(WidePlan *p);
void wide_tensor_storage(const WidePlan *p, const KernelConfig *c, WideStorage *out);
/* Of tiles that are there: what has to be asked for. */
void wide_tensor_take(WideTensor *t);
/* What controls it stands behind so many bytes: how many there are with it. */
uint64_t wide_tensor_control(WideTensor *t, uint64_t bytes);
const char *wide_tensor_refused(const KernelDesign *d);
void configure_wide_tensor(const KernelDesign *d, int64_t deep, KernelConfig *c);

/* wide_positions.c: where config.by_positions says so. Rows of the patch, their pitch, columns of four warps, which are
 * positions. */
void wide_positions_storage(const WidePlan *p, const KernelConfig *c, WideStorage *out);
/* Rows of a plane that a block reads on average. */
double wide_positions_rows(const WidePlan *p, const KernelConfig *c);
/* How often 64 positions four warps have; registers of a thread for them, for those that are loaded meanwhile, and sums. */
int64_t wide_positions_parts(const KernelConfig *c);
int64_t wide_positions_registers(const KernelConfig *c);
const char *wide_positions_refused(const KernelDesign *d);
/* Sets the fastest of its shapes, if that takes less than `least` (0: there is nothing else). */
void wide_positions_configure(const KernelDesign *open, int64_t deep, double least,
                              KernelConfig *c);

/* wide_rows.c: what is said above of few channels. Of the sizes of a convolution alone, whatever order its filter has:
 * NULL, or why it is none. */
const char *wide_rows_illegal(const WidePlan *p);
/* Bytes that a block has on each GPU with asynchronous copies. */
#define WIDE_LEAST_SHARED (96 << 10)
/* Where shared memory begins, and in it the filter, if there are lines: they are swizzled by address. */
enum { WIDE_ALIGN = 1024 };
void wide_rows_plan(WidePlan *p);
int64_t
wide_rows_depth(const WidePlan *p); /* terms of a step: `stride` rows of a window */
/* WidePlan.by_term, where a block's shared memory has room for the patch. */
void wide_terms_plan(WidePlan *p, uint64_t most_shared);
int64_t wide_row_terms(const WidePlan *p); /* of the filter, of a window's row */
/* WidePlan.by_term: those of a window; pieces of 16 bytes that a thread reads of a row, or of each channel's; how many
 * threads that fill the patch side by side meet in a bank. */
enum { WIDE_TAIL_ROWS = 9 /* from tail to tail: not all in the same banks */ };
int64_t wide_window_terms(const WidePlan *p);
int64_t wide_terms_pitch(const WidePlan *p); /* positions of a row of results, */
int64_t wide_terms_parts(const WidePlan *p); /* tiles that these are rows of */
int64_t wide_terms_read(const WidePlan *p);
/* Tiles whose rows are positions end with some that no result has, for which they read what stands behind the patch: rows
 * of the image and the filter are enough. */
bool wide_terms_reach(const WidePlan *p, const WideStorage *s);
int64_t wide_terms_meet(const WidePlan *p);
/* Patch, filter and rows; pitch and columns are there. */
void wide_rows_storage(const WidePlan *p, const KernelConfig *c, WideStorage *out);

/* row_gradient.c: the gradient by the filter of a convolution that wide_rows.c takes. */
typedef struct GradientPlan {
    /* of the convolution: the image is the first operand, whose features are the images that the gradient sums over; the
     * window has whole strides of rows, of which some are none */
    WidePlan of;
    int64_t window_rows;
    int64_t groups, images; /* pieces of the sum, images of each */
    /* numbers of the second operand from one group, image, position to the next */
    int64_t group_step, image_step, position_step;
} GradientPlan;

typedef struct GradientStorage {
    WideStorage of;  /* patch and rows; the filter's is the second operand's */
    int64_t columns; /* a stride of rows of a window: what wgmma multiplies */
    int64_t calls; /* of each four warps: how many of these; mma.sync does all at once */
    int64_t terms; /* positions of a step */
    uint64_t bytes;
} GradientStorage;
void gradient_storage(const KernelDesign *d, GradientStorage *out);
/* In tensor memory: columns of this call, whose last one may have fewer rows of the window than a stride. */
int64_t gradient_call_columns(const GradientPlan *p, int64_t call);

/* tap_gradient.c: the same of one from whole blocks of channels. Positions of eight strips, as lines of 64 features, are an
 * octet. */
enum { GRADIENT_CHANNELS = 64, GRADIENT_LINE = 128, GRADIENT_OCTET = 8 * GRADIENT_LINE };
typedef struct TapGradientStorage {
    int64_t
        octets; /* of strips, that are multiplied together: two, or one of even columns */
    int64_t strips;     /* of an image */
    int64_t strip_rows; /* of the image: that a strip reads */
    int64_t across;     /* tiles of a row of y */
    int64_t width;      /* positions of the image that the windows of such a tile reach */
    int64_t runs, steps; /* of a block: octets' strips by tiles across, and their rows */
    int64_t ring;        /* rows of the image in shared memory, */
    int64_t buffers;     /* and of y */
    int64_t calls;       /* of a step: rows of a window that each four warps have, */
    int64_t parts;       /* and products that each of them takes */
    int64_t sum_columns; /* of a row of a window: taps by channels */
    int64_t row_bytes, y_bytes; /* of the image, of y */
    uint64_t bytes;
} TapGradientStorage;
void tap_gradient_storage(const KernelDesign *d, TapGradientStorage *out);

/* stencil.c */
typedef struct StencilPlan {
    const Shape *shape;
    uint32_t step_dim, row_dim; /* neighbours lie along both; equal: along one */
    bool is_along_rows;         /* and along the fastest dimension */
    int64_t outer, steps, between, rows, inner; /* elements along the dimensions before,
        along step_dim, after it, along row_dim (1: it is step_dim), after both */
} StencilPlan;

/* A block's number counts through these, the first fastest; outer dimensions last. */
typedef struct StencilGrid {
    int64_t width, lanes;                  /* threads along a row, elements of each */
    int64_t pieces, groups, walks, blocks; /* of rows, of rows of a block, of steps */
} StencilGrid;
void stencil_grid(const KernelDesign *d, StencilGrid *out);

/* update_slice.c */
typedef struct UpdatePlan {
    int64_t elements; /* that each update writes */
    uint32_t count;
    const Instruction **updates; /* dynamic-update-slices that are results */
} UpdatePlan;

/* The dynamic-update-slice that result `leaf` is, under another shape of the same bytes at most; or NULL. */
const Instruction *fusion_update(const Instruction *fusion, uint32_t leaf);

/* window_scan.c */
typedef struct ScanPlan {
    const Instruction *inst; /* reduce-window */
    const Shape *shape;      /* of each array */
    int64_t along, size, rows;
    uint32_t count; /* arrays */
    bool is_reverse;
} ScanPlan;

void plan_scan(KernelDesign *d, const FusionFacts *f);
/* Rows lie side by side, and are many or short: a thread walks along each. */
bool scan_walks_rows(const ScanPlan *p);
/* Elements side by side that a thread takes at once where they lie so; else 1. */
int64_t scan_items(const KernelDesign *d);

/* lookback_scan.c: what blocks tell each other of the tiles of rows, in scratch memory behind a ticket. A node of
 * level 0 is what one tile comes to; one of level l, 32 of level l - 1. It has a word of 64 bits for each 32 of the
 * values: the upper half says that it is there. */
#define LOOKBACK_LEVELS 7
#define LOOKBACK_LOG2 5    /* of the nodes that make one of the next level */
#define LOOKBACK_FIRST 128 /* where nodes begin */
/* Words of a node: with more, levels are asked for one by one, for registers hold the tile. */
#define LOOKBACK_ASKED_WORDS 2
typedef struct LookbackTree {
    int64_t tiles; /* of a row */
    uint32_t words;
    uint32_t levels;                /* 0: a row is one tile */
    int64_t nodes[LOOKBACK_LEVELS]; /* of a row */
    uint64_t offset[LOOKBACK_LEVELS], bytes;
} LookbackTree;
int64_t lookback_tile(const KernelConfig *c); /* elements */
void lookback_tree(const KernelDesign *d, LookbackTree *out);

/* scatter.c */
typedef enum {
    SCATTER_NOTHING, /* no update fits, or there is none */
    SCATTER_UNIQUE,  /* each element of the updates has a position of its own */
    SCATTER_ATOMIC,  /* they are combined by one atomic operation */
    SCATTER_SHARED, /* a block has all positions of a batch, and all updates, in shared memory */
    SCATTER_RUNS, /* those of one position stand side by side: a thread walks over each run */
    SCATTER_FIRST, /* the first one of each position has a thread, which takes those that follow, too */
    SCATTER_OWNERS, /* threads own positions, and walk over all updates */
} ScatterStrategy;

typedef struct ScatterPlan {
    const Instruction *inst, *indices;
    const Shape *operand, *update;
    uint32_t count; /* arrays */
    Ints window_dims, inserted, start_map, batching, index_batching;
    int64_t vector_dim;
    /* of one array: what its updates are combined in, where threads keep them */
    DType accumulator;
    ScatterStrategy strategy;
    OpCode operation; /* SCATTER_ATOMIC: of integers, or of what is compared as such */
    uint32_t free_count, walked_count; /* dimensions of the update: */
    const uint32_t
        *free_dims, /* that give one of the result's whatever the indices are */
        *walked;    /* the others; windows count fastest */
    int64_t free_positions, steps; /* along them */
    int64_t positions;             /* that the indices of one batch choose among */
    int64_t
        most_lanes; /* SCATTER_RUNS: free positions side by side that a thread can take at once */
} ScatterPlan;

/* Sums and products are cut, before they are kernels, into pieces of so many updates: a run has at most two. */
#define SCATTER_PIECE 64
/* Sums of floats may be made by atomics, in any order: a frontend attribute, so that it shows in dumps. */
void scatter_set_any_order(Instruction *scatter);
/* The atomic operation that combines updates, so that their order is no matter; OP_COUNT: there is none. */
OpCode scatter_atomic_operation(const Instruction *scatter);
/* A thread of a histogram takes updates side by side, which may share what they are made of, where such are few; else
 * one of each of as many parts of the updates, so that those of a warp lie side by side. */
bool histogram_takes_neighbours(const Shape *updates);
/* Each element of the updates, and each index vector for it alone, is read about once. */
bool scatter_reads_once(const Instruction *scatter);
/* Two index vectors that differ lead to no common position: windows have one element wherever indices choose. */
bool scatter_has_small_windows(const Instruction *scatter);

/* The size of the window along dimension d of the operand; *update_dim: where the update counts it, -1:
 * it is inserted or batching. */
int64_t scatter_window_size(const ScatterPlan *p, int64_t d, int64_t *update_dim);

/* sort.c */
typedef struct SortPlan {
    const Instruction *inst;
    const Shape *shape; /* of all arrays */
    int64_t along, size, rows;
    SortStep step;
    int64_t run,
        runs;       /* elements that are sorted together; how many such runs a row has */
    int64_t padded; /* run as a power of two */
    uint32_t count; /* arrays */
} SortPlan;

/* triangle.c: cholesky, triangular-solve */
typedef struct TrianglePlan {
    const Instruction *inst;
    int64_t size, matrices;                        /* rows of a matrix */
    uint32_t batch[KERNEL_MOST_RANK], batch_count; /* dimensions before the matrix's */
    Substitution how;                              /* triangular-solve: */
    int64_t columns; /* that are solved for, of each matrix */
} TrianglePlan;

/* fft.c: of the operand's last dimension. */
typedef struct FftPlan {
    const Instruction *inst;
    int64_t type, length;
    bool is_inverse;
    FftRow row;
    int64_t rows;
    bool reads_along, writes_along; /* what lies side by side in memory is of one row */
    uint32_t *order; /* the other dimensions, by which rows count, the fastest first */
    const uint32_t
        *position; /* the dimension of the result that each of the transform is */
} FftPlan;
/* tile_attention.c: scratch memory of an attention whose columns several blocks share: the ticket, then words of 32
 * bits with a mark. */
#define ATTENTION_FIRST 128
#define ATTENTION_WORD 8

/* radix_sort.c: a step sorts by a digit of a key that is a number without a sign. Where its digits go a tile is told by
 * the tiles before (look-back); or a block walks through a range of the row, and knows from counts of all ranges. */
#define RADIX_BITS 8
#define RADIX_DIGITS 256
#define RADIX_THREADS 1024  /* for which a multiprocessor has registers */
#define RADIX_LIVE_WORDS 48 /* of one of them */
#define RADIX_CHUNK                                                                      \
    8 /* bytes that say which digits so many elements have as a warp has lanes */
typedef struct RadixPlan {
    const Instruction *inst;
    const Shape *shape; /* of all arrays */
    int64_t along, size, rows;
    uint32_t count;     /* arrays */
    int64_t ranges;     /* that a row is cut into; 0: tiles look back */
    int64_t range;      /* elements of one */
    uint32_t histogram; /* the parameter that counts digits, u32: by row, step, digit; of
                           ranges up to each one, by row, digit, range */
    const Instruction *key; /* the digit is this, shifted by the kernel's scalar, & 255 */
    int64_t steps;          /* digits that are counted */
    uint64_t keys;          /* arrays on which the digit depends, as bits */
    unsigned widest; /* bytes of an element: arrays are in shared memory one by one */
    /* That a thread holds for each of its accesses while tiles wait for each other: keys, and digit and rank. */
    int64_t live_words;
} RadixPlan;
typedef struct RadixTiles {
    int64_t elements, tiles; /* of a tile; of a row, or of a range */
    uint64_t shared_bytes;   /* of the elements of a tile */
} RadixTiles;
/* Elements of each of so many ranges of a row; whole lines of memory. */
int64_t radix_range(int64_t size, int64_t ranges);
bool radix_is_key(const RadixPlan *p, uint32_t array);
/* By how many bits the key is shifted. */
bool radix_scalar(const Instruction *fusion, KernelScalar *out);
/* The same where such digits are counted, in batches of a scatter. */
bool radix_count_scalar(const Instruction *fusion, KernelScalar *out);
void radix_tiles(const KernelDesign *d, RadixTiles *out);

/* topk.c */
#define TOPK_LANES 8 /* at most */
typedef struct TopKPlan {
    const Instruction *inst;
    const Shape *shape;
    int64_t size, k, rows;
} TopKPlan;
/* Slots in use from which on they are sorted again. */
int64_t topk_limit(const TopKPlan *p, int64_t slots);

/* rng.c */
typedef struct RngPlan {
    const Instruction
        *inst; /* rng-bit-generator; NULL: the program's own state is advanced */
    const Shape *bits;
    uint32_t bits_leaf; /* of the results; the state is leaf 0 where there are two */
    bool is_threefry, has_state;
    uint32_t width;       /* bits of an element */
    uint32_t state_words; /* of 64 bits: 2 or 3 */
    int64_t elements;     /* at least 1 */
    uint32_t
        per_block; /* elements that one block of the counter gives side by side; 1: that lie apart */
} RngPlan;

/* contraction.c: the result's dimensions are divided into three: batch (a convolution's groups), and two sides,
 * each of which one operand has; side x is the one along which the result is contiguous. */
typedef struct ContractionSide {
    uint32_t operand, count;
    uint32_t dims[KERNEL_MOST_RANK]; /* of the result, the slowest first */
    int64_t size;
    bool depth_first;   /* neighbours in memory differ in depth */
    int64_t contiguous; /* such neighbours are in runs of so many; 0: there are none */
} ContractionSide;

typedef struct ContractionPlan {
    const Instruction *inst;
    DType type; /* of the sums */
    ContractionSide y, x;
    uint32_t batch_count, batch_dims[KERNEL_MOST_RANK];
    int64_t batch_size;
    int64_t feature_dim, per_group; /* a convolution's; -1: none */
    uint32_t symbols[KERNEL_MOST_RANK],
        symbol_count; /* of the operands' maps, the slowest first */
    int64_t depth;
    RaggedForm ragged; /* mode RAGGED_NONE: it is no ragged dot */
} ContractionPlan;

/* The one dot, convolution or ragged dot of a fusion; NULL: there are none or several. */
const Instruction *contraction_hero(const Instruction *fusion);
/* Of a dot, a convolution or a ragged dot (ragged_form). */
const ContractionPlan *contraction_plan(Arena *a, const Instruction *inst);
/* Tiles along one of its sides: of rows in groups at most, where each group begins with a tile of its own. */
int64_t contraction_tiles(const ContractionPlan *p, const ContractionSide *s,
                          int64_t tile);
/* The part of the tiles of m x n that have rows: of groups of about even sizes, whose last tile is half full. The
 * others' blocks end at once. */
double contraction_busy(const ContractionPlan *p, int64_t m, int64_t n);

/* tile.c */
typedef struct TilePlan {
    const ContractionPlan *contraction;
    DType factor; /* what both factors are converted to; DT_INVALID: nothing */
    struct TileMapped *mapped; /* the last mapping; in the arena of the design */
} TilePlan;

/* tile_stream.c: stream-K (Osama et al. 2023, arXiv:2301.03598). The last tiles are shared by blocks each of which has an
 * equal run of their steps, one tile's behind the other's; the tiles before have a block each. Scratch memory: a ticket,
 * for each of those blocks a flag that its sums are there, and its sums of the tile in which its run ends. */
#define STREAM_TICKET 4 /* bytes, in shared memory, too */
#define STREAM_FLAG 4   /* bytes */
typedef struct TileStream {
    int64_t steps;         /* of a tile */
    int64_t first, tiles;  /* the first one that is shared; how many are */
    int64_t blocks;        /* that share them; 0: nothing is shared */
    uint64_t words, bytes; /* of a thread's sums; of a word */
    uint64_t sums;         /* of a block, in bytes */
    uint64_t cleared;      /* bytes before the sums */
} TileStream;
struct TileMapping;
TileStream tile_stream(const KernelDesign *d, const struct TileMapping *m);
/* Why they cannot be shared so; NULL. */
const char *stream_refused(const KernelDesign *d, const struct TileMapping *m);
void geometry_stream(KernelDesign *d, const TileStream *s);
/* What takes least time of a kernel of which all else is known, and what it does without; false: nothing is worth it. */
struct KernelWork;
bool stream_choose(const KernelDesign *d, const struct TileMapping *m,
                   const struct KernelWork *without, double *seconds, int64_t best[2]);

/* Cycles that a multiprocessor is busy with its blocks of m x n results, each made by so many together, for each term of
 * the sums: they multiply, at so many percent of the peak, and bring factors. */
double tile_cycles(const KernelDesign *d, int64_t m, int64_t n, uint32_t together,
                   double percent);

/* tileir.c: products of factors of this type in tiles of so many rows are wgmma's or tcgen05.mma's, with fewer rows
 * mma.sync's; percent of the tensor cores' rate that kernels by CUDA Tile IR reach so. */
bool product_is_async(const Target *t, int64_t rows, DType factor);
double product_percent(const Target *t, int64_t rows, DType factor);

/* Elements from row to row of a tile in shared memory. */
static inline int64_t contraction_stride(int64_t tile)
{
    return tile + 4; /* keeps 16-byte accesses aligned */
}

#endif
