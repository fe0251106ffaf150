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

/* Values that are given: that of a hero, at its index. */
typedef struct TileGiven {
    const Instruction *inst;
    const IndexExpr *const *index;
    TileOp *value;
} TileGiven;

typedef struct TileBuilder {
    TileProgram *p;
    const Computation *comp;
    const char *why; /* what is in the way; NULL: nothing yet */
    TileOp
        *loop; /* what is made for its dimension stands in its body; NULL: none is open */
    TileGiven given;        /* inst NULL: none */
    struct TileMemo **memo; /* by instruction id */
    TileOp **ops;           /* by id */
    size_t op_capacity;
    const IndexExpr *const **forced; /* by instruction id: see tile_force; NULL: none */
} TileBuilder;

void tile_builder_init(TileBuilder *b, TileProgram *p);

/* NULL: there is no such tile (b->why). guard: NULL without. */
TileOp *tile_value(TileBuilder *b, const Instruction *inst, const IndexExpr *const *index,
                   const TileGuard *guard);

/* The same with zeros where the constraints do not hold. */
TileOp *tile_padded(TileBuilder *b, const Instruction *inst,
                    const IndexExpr *const *index, IndexConstraint *constraints,
                    uint32_t count);

/* From the given value to the results: at which index each instruction on the way is needed, so that
 * the given one is needed at its own. */
void tile_force(TileBuilder *b);

/* An operation where its operands and expressions put it: inside the open loop or before it. */
TileOp *tile_make(TileBuilder *b, TileKind kind, DType dtype, uint32_t dims,
                  uint32_t operand_count, TileOp *const *operands, bool in_loop);
TileOp *tile_broadcast(TileBuilder *b, TileOp *op, uint32_t dims);
/* `op` (elementwise, without attributes) on operands, which are brought to the same dimensions. */
TileOp *tile_apply(TileBuilder *b, OpCode op, DType dtype, uint32_t operand_count,
                   TileOp *const *operands);
TileOp *tile_convert(TileBuilder *b, TileOp *op, DType dtype); /* itself if it has it */
TileOp *tile_number(TileBuilder *b, DType dtype, double value);

/* Sets what a load, a store or an index needs of expressions: RUNTIMEs become operands behind those that it
 * has, dimensions and place follow. NULL shape: no array. */
typedef struct TilePlace {
    const Shape *shape;
    uint32_t index_count;
    const IndexExpr *const *index;
    uint32_t constraint_count;
    const IndexConstraint *constraints;
} TilePlace;
TileOp *tile_make_at(TileBuilder *b, TileKind kind, DType dtype, TileOp *value,
                     const TilePlace *place);

#endif
