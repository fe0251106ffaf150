/* Counts what a thread of a kernel does, in the order in which its code does it. The function of a kind of
 * kernel (work_<name>) walks through its algorithm as the emitter does, but where that makes code this
 * counts it: coordinates of threads and blocks, loops with their trips, elements of instructions by
 * their index maps, accesses, shuffles, barriers.
 *
 * Instructions belong to the innermost loop that they depend on: what does not change in a loop is
 * counted outside of it, as compilers move it there. A value is "ready" so many cycles after the
 * beginning of a trip of its loop. */
#ifndef GXC_IR_KERNEL_TIME_WORK_BUILDER_H
#define GXC_IR_KERNEL_TIME_WORK_BUILDER_H

#include "ir/analysis/index_map.h"
#include "ir/base/extremes.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/time/costs.h"
#include "ir/kernel/time/kernel_work.h"
#include "ir/tile/panels.h"

/* (block / block_div % block_mod) * block_mul + thread / thread_div % thread_mod. A factor or divisor
 * that is 0 leaves its part out; a modulus that is 0 is none. */
typedef struct WorkCoordinate {
    int64_t block_div, block_mod, block_mul, thread_div, thread_mod;
} WorkCoordinate;

typedef enum {
    WORK_COORDINATE, /* of a thread */
    WORK_STEP,       /* of a loop */
    WORK_LANE,       /* of the elements that a thread takes at once */
    WORK_DATA,       /* read from memory: as good as random */
    WORK_SEARCHED,   /* found by a search: grows with the thread */
} WorkVariableKind;

typedef struct WorkVariable {
    WorkVariableKind kind;
    Range range;
    WorkCoordinate coordinate;
    uint32_t loop;        /* STEP: whose; DATA, SEARCHED: where it is known */
    double ready;         /* DATA */
    const IndexExpr *key; /* DATA: equal keys, equal values */
} WorkVariable;

typedef struct WorkLoop {
    uint32_t parent, depth;
    double trips;      /* of one run */
    double runs;       /* of its body, by a thread */
    double overlap;    /* trips under way at once */
    bool is_unrolled;  /* written out, trip by trip: its variable is a constant in each */
    uint32_t step;     /* number of its variable */
    WorkCounts counts; /* of a trip, without the loops inside */
    WorkCounts waited; /* of them: before `now` */
    double now;        /* cycles of the trip that are over */
    double path;       /* when everything asked for is ready */
    double value_words, value_words_most; /* of values loaded since `now`; at most so */
} WorkLoop;

/* What an index expression is made of, by its id. */
typedef struct WorkIndex {
    bool is_known, is_counted, has_lane, has_thread;
    bool is_random; /* threads, or trips, have values that were read */
    bool is_fixed;  /* only of constants and of variables of loops that are written out */
    uint32_t loop;  /* the innermost one that it depends on */
    double ready;   /* of its variables */
    uint32_t stamp, node; /* its number among the nodes that were listed last */
} WorkIndex;

typedef struct WorkValue {
    uint32_t loop;
    double ready;
    bool has_lane;
} WorkValue;

typedef struct WorkAccess {
    uint32_t array;
    bool is_store;
    const IndexExpr *element; /* its number in memory order */
    int64_t bits;             /* of an element */
    uint32_t lanes;           /* of a thread */
    bool is_together;         /* they lie side by side */
    uint32_t loop;
    double requests;                /* instructions of a trip */
    double runs;                    /* trips of a thread; parts of warps included */
    double sectors;                 /* that a warp's requests of a trip touch */
    double l1_share;                /* of them that go on to L2 */
    double reach;                   /* bytes of the array that the kernel can touch */
    double array_bytes;             /* all of it */
    const struct WorkTrips *walked; /* as a pattern's */
} WorkAccess;

typedef struct WorkMemo {
    const Instruction *inst; /* NULL: free */
    const IndexExpr *const *index;
    uint32_t rank, lanes;
    WorkValue value;
} WorkMemo;

/* The tiles of a product's result. */
typedef struct WorkMatrix {
    TilePanels
        panels; /* no tiles: it is no product; panel 0: the best by the bytes read */
    const IndexExpr *batch, *origin[PANEL_SIDES]; /* of the block's tile */
    const IndexExpr
        *term;         /* of the step that is multiplied; NULL: rows are in no groups */
    int64_t groups;    /* of rows, each with columns of its own; else 1 */
    uint32_t together; /* blocks that share a tile */
    double times[PANEL_SIDES]; /* that each tile of a factor is read of memory */
} WorkMatrix;

typedef struct WorkBuilder {
    Arena *arena;
    const Instruction *fusion;
    const Computation *comp;
    const uint32_t *leaf_arrays; /* work_enter: of a loop's tuple; else NULL */
    const GpuModel *device;
    const GpuRates *rates;
    IndexContext *ix;
    bool is_wide; /* indices have 64 bits */
    double blocks;
    uint32_t threads, warps;
    uint64_t shared_bytes;
    double torn_l2, torn_read,
        torn_written; /* bytes beside those of accesses: of sectors written in parts, of partial results */
    uint32_t tensor_columns; /* set by the kind */
    uint32_t lanes;
    /* NULL: not asked for. Kept while lanes are 1, so that what a second walk asks for is known. */
    const IndexExpr *lane;
    uint32_t lane_count; /* that it counts */
    double part;         /* of the warps that do what is counted now */
    double issued_part;  /* that issue it */
    WorkVariable *variables;
    size_t variable_count, variable_capacity;
    WorkLoop *loops; /* 0: the thread itself */
    size_t loop_count, loop_capacity;
    uint32_t loop; /* innermost open one */
    WorkIndex *index;
    size_t index_capacity;
    uint32_t stamp;
    int64_t *values; /* of nodes, for a sample */
    size_t value_capacity;
    WorkAccess *accesses;
    size_t access_count, access_capacity;
    WorkMemo *memo;
    size_t memo_count, memo_capacity;
    IndexMap **maps;      /* by instruction id */
    bool *is_preset;      /* by instruction id */
    uint32_t preset_loop; /* in each trip of which those have other values; 0: none */
    bool keeps_values;    /* what is loaded now stays in registers */
    bool is_paired;       /* instructions of 16-bit floats take two elements */
    bool registers_only;
    double registers;       /* words that live through the kernel */
    double registers_apart; /* words that do while no values of loops do */
    double serial_cycles, serial_steps, tail_cycles;
    double atomics;
    double operations, product_operations;
    DType product_type;
    WorkMatrix matrix;
} WorkBuilder;

/* A kernel with the geometry of this design. */
WorkBuilder *work_begin(const KernelDesign *d);
void work_end(WorkBuilder *b, KernelWork *out);

/* -- coordinates ------------------------------------------------------------------------------- */

const IndexExpr *work_coordinate(WorkBuilder *b, WorkCoordinate c, int64_t size);
/* block * threads + thread, below `size`. */
const IndexExpr *work_thread_number(WorkBuilder *b, int64_t size);
/* A position in 0 … size - 1 that a thread finds by searching: it grows with `key`. */
const IndexExpr *work_searched(WorkBuilder *b, const IndexExpr *key, int64_t size);

/* Neighbouring elements that a thread takes at once, where work_lane is 0, 1, …: as Emit.lanes. */
void work_set_lanes(WorkBuilder *b, uint32_t lanes);
const IndexExpr *work_lane(WorkBuilder *b);

/* -- loops and parts ----------------------------------------------------------------------------- */

/* A loop of so many trips, whose variable takes values of 0 … size - 1. `overlap`: how many trips are
 * under way at once, as they do not wait for each other; 1: one. */
const IndexExpr *work_loop_begin(WorkBuilder *b, double trips, int64_t size,
                                 double overlap);
/* `carried`: cycles from what a trip hands on to what the next one does. */
void work_loop_end(WorkBuilder *b, double carried);
/* What is counted until the end is done by this part of the warps that do what stands around it, or so often:
 * its instructions and cycles count that much. Of what is predicated all warps issue the instructions. */
typedef struct WorkPart {
    double part, issued, now, path;
} WorkPart;
WorkPart work_part_begin(WorkBuilder *b, double part);
WorkPart work_predicate_begin(WorkBuilder *b, double part);
void work_part_end(WorkBuilder *b, WorkPart before);

/* -- what is done ---------------------------------------------------------------------------------- */

/* An element of an instruction; known from now on. */
WorkValue work_element(WorkBuilder *b, const Instruction *inst,
                       const IndexExpr *const *index);
/* From here on elements are those of a loop's body. `leaf_arrays`: the arrays that its tuple is. */
void work_enter(WorkBuilder *b, const Computation *body, const uint32_t *leaf_arrays);
/* From here on elements of the instruction are in registers. */
void work_preset(WorkBuilder *b, const Instruction *inst);
/* Result `leaf` of the fusion at an index: its element and its store. */
void work_result(WorkBuilder *b, uint32_t leaf, const IndexExpr *const *index);

/* The index map of an operand at an index: results, and constraints where they are wanted, with the values that
 * it reads. `symbols`: NULL if it has none. */
void work_apply(WorkBuilder *b, const Instruction *inst, uint32_t operand,
                const IndexExpr *const *index, const IndexExpr *const *symbols,
                const IndexExpr **results, const IndexExpr **constraints);
/* The tests of those constraints that ranges do not decide. */
WorkValue work_check(WorkBuilder *b, const IndexMap *map,
                     const IndexExpr *const *constraints);
const IndexMap *work_map(WorkBuilder *b, const Instruction *inst, uint32_t operand);

/* An element, or as many as there are lanes, of an array in memory. `array` tells arrays apart. */
WorkValue work_load(WorkBuilder *b, uint32_t array, const Shape *s,
                    const IndexExpr *const *index);
void work_store(WorkBuilder *b, uint32_t array, const Shape *s,
                const IndexExpr *const *index);

/* Instructions of each thread in a trip of loop `loop`. */
void work_add(WorkBuilder *b, uint32_t loop, OpCost cost, double times);
/* The same in the innermost loop; gives the cycles that they take if each waits for the one before. */
double work_instructions(WorkBuilder *b, OpCost cost, double times);
/* A computation on scalars (reducer, comparator), called so often; gives the cycles of one call. */
double work_computation(WorkBuilder *b, const Computation *comp, double times);
/* Accesses of shared memory by each thread, of so many bytes; `conflicts`: threads of a warp that ask
 * the same bank for different words (1: no conflict). */
void work_shared(WorkBuilder *b, double accesses, double bytes, double conflicts);
void work_shuffles(WorkBuilder *b, double count, double bytes);
void work_atomics(WorkBuilder *b, double count);
/* All that was asked for has to be ready, and so many cycles go by. */
void work_wait(WorkBuilder *b, double cycles);
void work_barrier(WorkBuilder *b);
/* Words of 32 bits that stay in a thread's registers. */
void work_registers(WorkBuilder *b, double words);
/* The same of words that are gone where loops have values, or not there yet. */
void work_registers_apart(WorkBuilder *b, double words);

/* -- among the builder's files ------------------------------------------------------------------------ */

/* What is known of an expression: its loop, whether it differs by lane and thread. */
WorkIndex *work_index(WorkBuilder *b, const IndexExpr *e);
/* Counts the code of an expression, once; gives when it is ready. */
double work_count_index(WorkBuilder *b, const IndexExpr *e);
const IndexExpr *work_data(WorkBuilder *b, const IndexExpr *key, Range range,
                           WorkValue v);
WorkLoop *work_loop_at(WorkBuilder *b, uint32_t loop);
/* The deeper one of two open loops. */
uint32_t work_deeper(const WorkBuilder *b, uint32_t x, uint32_t y);
/* Notes that a value of this loop is ready then. */
void work_ready(WorkBuilder *b, uint32_t loop, double ready);
/* Cycles of a multiprocessor for these instructions of each of `warps` warps. */
double work_cycles(const GpuRates *r, const GpuModel *device, const WorkCounts *c,
                   double warps);
/* How an element is asked for (work_pattern.c). */
typedef struct WorkPattern {
    const IndexExpr *element;
    int64_t bits;                   /* of an element */
    uint32_t lanes;                 /* of a thread */
    bool is_together;               /* they lie side by side */
    const struct WorkNodes *nodes;  /* of the element; NULL: not listed yet */
    const struct WorkTrips *walked; /* the first trips of its loop; NULL: not looked at */
} WorkPattern;
/* Positions of memory, of so many bytes, that a request of a warp touches. */
double pattern_units(WorkBuilder *b, WorkPattern *p, double bytes);
/* Part of the sectors that the requests of a block's warps in a loop's trips, one after the other, touch for the
 * first time. `sectors`: of one request. */
double pattern_new(WorkBuilder *b, WorkPattern *p, uint32_t loop, double sectors);
/* Part of the sectors that a block's requests in a loop's trips touch and that those of `others`, made just before in
 * each trip, do not: where `l1` bytes hold what two trips touch, and it is not too much to look at; else 1. */
double pattern_beside(WorkBuilder *b, WorkPattern *p, WorkPattern *others, uint32_t count,
                      uint32_t loop, double sectors, double l1);
/* Blocks with numbers so far apart touch the same sectors. */
bool pattern_meets(WorkBuilder *b, WorkPattern *p, int64_t distance);
/* Both expressions are equal at the same steps of their loops. */
bool pattern_same(WorkBuilder *b, const IndexExpr *x, const IndexExpr *y);
/* Of L2's bytes those that kernels find again. */
double work_l2_kept(const WorkBuilder *b);
/* work_panels.c: the order of a product's tiles, if it is open; how often each is read then. */
void panels_choose(WorkBuilder *b, double resident);
/* Bytes that device memory moves for an access of a factor of which L2 has no room for all; false: it is none. */
bool panels_memory(const WorkBuilder *b, const WorkAccess *a, double *bytes);
/* Bytes that the accesses move: sets the fields of `out`. */
void work_traffic(WorkBuilder *b, double resident, KernelWork *out);

#endif
