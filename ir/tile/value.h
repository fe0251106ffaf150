/* Tiles of any instruction of a fused computation, by its index maps: what propagation from the results to
 * the parameters is here. An instruction is asked for at an index - expressions over the program's
 * coordinates, one for each of its dimensions - and its operands at that index put through their maps, until
 * parameters are loaded at whatever has come out. Equal questions have one answer. */
#ifndef GXC_IR_TILE_VALUE_H
#define GXC_IR_TILE_VALUE_H

#include "ir/tile/tile.h"

/* Constraints under which a value is needed: outside, nothing is read. */
typedef struct TileGuard {
    const struct TileGuard *outer;
    uint32_t count;
    const IndexConstraint *constraints;
} TileGuard;

/* A value that is given: that of a hero, at its index. */
typedef struct TileGiven {
    const Instruction *inst;
    const IndexExpr *const *index;
    TileOp *value;
} TileGiven;

enum { TILE_MOST_GIVEN = 2 };

typedef struct TileBuilder {
    TileProgram *p;
    const Computation *comp;
    const char *why; /* what is in the way; NULL: nothing yet */
    TileOp
        *loop; /* what is made for its dimension stands in its body; NULL: none is open */
    TileGiven given[TILE_MOST_GIVEN];
    uint32_t given_count;
    /* Makes the tile of a dot that is not given; NULL: there is none. */
    TileOp *(*dot)(struct TileBuilder *b, const Instruction *inst,
                   const IndexExpr *const *index);
    struct TileMemo **memo; /* by instruction id */
    TileOp **ops;           /* by id */
    size_t op_capacity;
    const IndexExpr *const **forced; /* by instruction id: see tile_force; NULL: none */
    bool has_powers; /* exponentials are powers of two: see tile_exponential */
    const TileGuard
        *stored; /* where there are results; NULL: wherever the program has coordinates */
} TileBuilder;

void tile_builder_init(TileBuilder *b, TileProgram *p);

/* NULL: there is no such tile (b->why). guard: NULL without. */
TileOp *tile_value(TileBuilder *b, const Instruction *inst, const IndexExpr *const *index,
                   const TileGuard *guard);

/* The same with zeros where the constraints do not hold. */
TileOp *tile_padded(TileBuilder *b, const Instruction *inst,
                    const IndexExpr *const *index, IndexConstraint *constraints,
                    uint32_t count);

/* The index at which the value of an instruction was asked for first; NULL: never. */
const IndexExpr *const *tile_index_of(const TileBuilder *b, const Instruction *inst);

/* From the given values to the results: at which index each instruction on the way is needed, so that
 * the given ones are needed at their own. */
void tile_force(TileBuilder *b);

/* A store of each of the fusion's results, at the indices that tile_force finds; false: b->why. */
bool tile_store_results(TileBuilder *b);

/* Sets the index along `dims` from a number that counts through them, the last fastest; along `fastest` (-1: as
 * they are) fastest of all. */
void tile_spread(const TileProgram *p, const int64_t *sizes, const uint32_t *dims,
                 uint32_t count, int64_t fastest, const IndexExpr *number,
                 const IndexExpr **index);

/* Sets the loop's bounds when its body is complete: tiles of its dimension that the band leaves a score of for some row
 * of the tile of rows, or (skips: false) all; and those that it leaves all scores of. */
struct AttentionBand;
void tile_set_bounds(const TileProgram *p, TileOp *loop, uint32_t rows,
                     const struct AttentionBand *band, bool skips);

/* NULL, and says why, unless something was in the way before. */
TileOp *tile_refuse(TileBuilder *b, const char *why);
/* A shape of one number that is not the module's: programs may be made by several threads. */
const Shape *tile_scalar_shape(Arena *a, DType t);
/* An operation where its operands and expressions put it: inside the open loop or before it. */
TileOp *tile_make(TileBuilder *b, TileKind kind, DType dtype, uint32_t dims,
                  uint32_t operand_count, TileOp *const *operands, bool in_loop);
/* What a loop carries, inside (TILE_CARRIED) or behind it (TILE_FINAL). */
TileOp *tile_carried(TileBuilder *b, TileOp *loop, uint32_t number, TileKind kind);
TileOp *tile_broadcast(TileBuilder *b, TileOp *op, uint32_t dims);
/* `op` (elementwise, without attributes) on operands, which are brought to the same dimensions. */
TileOp *tile_apply(TileBuilder *b, OpCode op, DType dtype, uint32_t operand_count,
                   TileOp *const *operands);
/* The same for an instruction of the computation. */
TileOp *tile_apply_to(TileBuilder *b, const Instruction *inst, uint32_t count,
                      TileOp *const *operands);
TileOp *tile_convert(TileBuilder *b, TileOp *op, DType dtype); /* itself if it has it */
TileOp *tile_constant(TileBuilder *b, const Literal *l);       /* of one number */
TileOp *tile_number(TileBuilder *b, DType dtype, double value);
TileOp *tile_exp2(TileBuilder *b, TileOp *x); /* 2^x in f32: see tile_is_exp2 */
/* e^x in f32 as a power of two, exact to about |s| 2^-23 for the score s in x; what x was made of may be left unused. */
TileOp *tile_exponential(TileBuilder *b, TileOp *x);

/* Sets what a load, a store or an index needs of expressions: RUNTIMEs become operands behind those that it
 * has, dimensions and access follow. NULL shape: no array. */
typedef struct TileAccess {
    const Shape *shape;
    uint32_t index_count;
    const IndexExpr *const *index;
    uint32_t constraint_count;
    const IndexConstraint *constraints;
} TileAccess;
TileOp *tile_make_at(TileBuilder *b, TileKind kind, DType dtype, TileOp *value,
                     const TileAccess *access);
/* Dimensions that an expression depends on, also by what it reads. */
uint32_t tile_dims_of(TileBuilder *b, const IndexExpr *e);

#endif
