/* From tile programs to Tile IR, between the files of this folder. A tile of a program is asked for with its
 * dimensions in some order; what it is made of is asked for so that nothing needs to be turned that is not. */
#ifndef GXC_CODEGEN_TILEIR_LOWER_H
#define GXC_CODEGEN_TILEIR_LOWER_H

#include "codegen/tileir/tileir.h"

/* A value that is a tile. A function that makes one returns NULL if it was given NULL, or there is no such
 * operation (TileIrLower.why). */
typedef struct TileIrTile {
    const TileIrValue *value;
    TileIrScalar element;
    uint32_t rank;
    int64_t sizes[TILEIR_MOST_RANK];
} TileIrTile;

/* Dimensions of a program that have coordinates, the slowest first. */
typedef struct TileOrder {
    uint32_t rank;
    uint8_t dims[TILE_MOST_DIMS];
} TileOrder;

typedef struct TileIrLower {
    Arena *arena;
    TileIrModule *m;
    const TileProgram *p;
    const KernelRequest *r;
    const char *why;                         /* NULL: nothing is in the way yet */
    TileIrBlock *blocks[TILE_MOST_DIMS + 1]; /* by loops around */
    TileIrBlock *at;                         /* where operations go */
    const TileIrTile **arguments;            /* pointers */
    const TileIrTile *tile[TILE_MOST_DIMS];  /* number of the tile at hand, i32 */
    const TileOp **ops;                      /* by id */
    struct TileIrMemo **memo;                /* by id */
    bool is_inside; /* predicates that are known of tiles inside a loop's band hold */
    const TileIrTile *groups[GROUP_USED + 1]; /* NULL: not asked for yet */
} TileIrLower;

/* -- lower.c -------------------------------------------------------------------------------------- */

/* Notes what is in the way. */
const TileIrTile *tileir_lacks(TileIrLower *l, const char *why);
/* The dimensions of a set that have coordinates, in the program's order. */
TileOrder tileir_order(const TileIrLower *l, uint32_t dims);
TileOrder tileir_without(const TileOrder *order, uint32_t dims);
/* The tile of an operation over order's dimensions, at least its own. */
const TileIrTile *tileir_value(TileIrLower *l, const TileOp *op, const TileOrder *order);
/* The operation's tile, for those who ask for it over these dimensions. */
void tileir_remember(TileIrLower *l, const TileOp *op, const TileOrder *order,
                     const TileIrTile *tile);

/* A tile's elements along its last dimension combined (TILEIR_REDUCE), or each with all before it (TILEIR_SCAN).
 * `neutral`: the bits of what makes no difference. */
const TileIrTile *tileir_combined(TileIrLower *l, TileIrOpcode op, OpCode combine,
                                  const TileIrTile *x, uint64_t neutral);

/* -- loops.c -------------------------------------------------------------------------------------- */

/* The loop, and what it carries behind it: FINAL operations are known then. False: there is no such operation
 * (TileIrLower.why). */
bool tileir_loop(TileIrLower *l, const TileOp *op);

/* -- tiles.c: operations -------------------------------------------------------------------------- */

/* Appends an operation with one result like `like`, of another element type. attributes NULL: the table's. */
const TileIrTile *tileir_make(TileIrLower *l, TileIrOpcode op, TileIrScalar element,
                              const char *attributes, uint32_t count,
                              const TileIrTile *const *in);
const TileIrTile *tileir_unary(TileIrLower *l, TileIrOpcode op, const TileIrTile *x);
const TileIrTile *tileir_binary(TileIrLower *l, TileIrOpcode op, const TileIrTile *x,
                                const TileIrTile *y);
/* The value of an operation that was appended. */
const TileIrTile *tileir_tile_of(TileIrLower *l, const TileIrOp *op, uint32_t result,
                                 TileIrScalar element, uint32_t rank,
                                 const int64_t *sizes);
uint32_t tileir_type(TileIrLower *l, TileIrScalar element, uint32_t rank,
                     const int64_t *sizes);
/* The same number everywhere, as its bits. */
const TileIrTile *tileir_bits(TileIrLower *l, TileIrScalar t, uint64_t bits,
                              uint32_t rank, const int64_t *sizes);
/* As integers of another width. */
const TileIrTile *tileir_resize(TileIrLower *l, const TileIrTile *x, TileIrScalar to,
                                bool is_signed);
const TileIrTile *tileir_number(TileIrLower *l, double value, const TileIrTile *like);
const TileIrTile *tileir_reshape(TileIrLower *l, const TileIrTile *x, uint32_t rank,
                                 const int64_t *sizes);
/* Of the parts of these sizes that a tile has along a dimension, one. */
const TileIrTile *tileir_part(TileIrLower *l, const TileIrTile *x, const int64_t *sizes,
                              uint32_t dim, int64_t number);
const TileIrTile *tileir_spread(TileIrLower *l, const TileIrTile *x,
                                const int64_t *sizes);
/* An operation on two tiles whose sizes differ where one of them has 1. */
const TileIrTile *tileir_combine(TileIrLower *l, TileIrOpcode op, const char *attributes,
                                 const TileIrTile *x, const TileIrTile *y);
/* From one order of dimensions to another, which may have more. */
const TileIrTile *tileir_arrange(TileIrLower *l, const TileIrTile *x,
                                 const TileOrder *from, const TileOrder *to);
/* Predicates: NULL is true. */
const TileIrTile *tileir_both(TileIrLower *l, const TileIrTile *x, const TileIrTile *y);
/* The type of a value in registers and in memory; false: Tile IR has none. */
bool tileir_type_of(DType t, bool is_memory, TileIrScalar *out);
uint32_t tileir_scalar_bits(TileIrScalar t);

/* -- index.c -------------------------------------------------------------------------------------- */

/* An expression over order's dimensions; its tile has size 1 along those that it does not depend on. */
const TileIrTile *tileir_index(TileIrLower *l, const IndexExpr *e, const TileOp *op,
                               const TileOrder *order, bool is_wide);
/* Some value on the way to it needs more than 32 bits. */
bool tileir_is_wide(const IndexExpr *e);
/* i1: the coordinates along `dims` lie within the extents, and the operation's constraints hold. NULL: everywhere,
 * or there is something in the way. */
const TileIrTile *tileir_is_there(TileIrLower *l, const TileOp *op,
                                  const TileOrder *order, uint32_t dims);

/* -- memory.c ------------------------------------------------------------------------------------- */

const TileIrTile *tileir_load(TileIrLower *l, const TileOp *op, const TileOrder *order);
bool tileir_store(TileIrLower *l, const TileOp *op);
/* The first elements of an operation's array, which has one dimension, as one tile with zeros behind them. */
const TileIrTile *tileir_load_row(TileIrLower *l, const TileOp *op, int64_t size);

/* -- functions.c ---------------------------------------------------------------------------------- */

/* Of a function of f32 or f64 that has no operation of its own; false: it is none of those. */
bool tileir_function(TileIrLower *l, OpCode op, const TileIrTile *x,
                     const TileIrTile **out);
const TileIrTile *tileir_is_finite(TileIrLower *l, const TileIrTile *x);

/* -- groups.c ------------------------------------------------------------------------------------- */

/* What a GROUP operation finds. */
const TileIrTile *tileir_group(TileIrLower *l, const TileOp *op);

/* -- apply.c -------------------------------------------------------------------------------------- */

const TileIrTile *tileir_convert(TileIrLower *l, const TileIrTile *x, DType from,
                                 DType to);
const TileIrTile *tileir_apply(TileIrLower *l, const TileOp *op, const TileOrder *order);

#endif
