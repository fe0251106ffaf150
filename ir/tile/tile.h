/* Tile programs: what a block of a tiled kernel computes, as a small SSA form of whole tiles.
 *
 * The program has dimensions (m, n, k, ...), each with an extent - elements of the problem - and a size: elements
 * of a tile. A block takes one tile of each GRID dimension, loops go through LOOP dimensions tile by tile,
 * and one tile has all of a WHOLE dimension. A value is a tile over some of the dimensions, with an element for
 * each of their coordinates; which dimensions, not in which order: there are no transpositions. A dimension of size
 * 1 has no coordinate in a tile. Coordinates behind the extent (of a last tile) do not exist: loads give zeros
 * there, reductions and dots leave them out, stores write nothing.
 *
 * Index expressions (ir/analysis/index_map.h) say where loads and stores go: DIM i is the coordinate along
 * dimension i, of the whole problem; RUNTIME i the value of operation i. Layouts - which thread has which
 * element - are no part of it: every lowering chooses its own. */
#ifndef GXC_IR_TILE_TILE_H
#define GXC_IR_TILE_TILE_H

#include "ir/analysis/index_map.h"

enum {
    TILE_MOST_DIMS = 6,
    TILE_MOST_ELEMENTS = 1 << 20, /* of one tile */
};

typedef enum { TILE_GRID, TILE_SEQUENTIAL, TILE_WHOLE } TileDimKind;

typedef struct TileDim {
    const char *name;
    TileDimKind kind;
    int64_t extent, size; /* size: a power of two */
} TileDim;

typedef enum {
    TILE_LOAD, /* of a parameter of the fused computation; zeros where a constraint does not hold */
    TILE_STORE,     /* operand 0 to a result leaf, where the constraints hold */
    TILE_INDEX,     /* the value of an index expression, s32 or s64 */
    TILE_IN_RANGE,  /* pred: all constraints hold */
    TILE_CONSTANT,  /* a scalar */
    TILE_APPLY,     /* inst, an elementwise opcode, on operands of the same dimensions */
    TILE_BROADCAST, /* operand 0 over more dimensions */
    TILE_REDUCE,    /* operand 0 combined over dimensions, by opcode `combine` */
    TILE_DOT,       /* operand 2 + sum over dimensions of operand 0 * operand 1 */
    TILE_LOOP, /* runs its body for those tiles of [begin, end) that dimension `dim` has; operands: what is carried, first */
    TILE_CARRIED, /* in a body: what `loop` carries, number `number` */
    TILE_FINAL,   /* behind a loop: the same, in the end */
    TILE_GROUP, /* s32: of the group that the block's tile belongs to, by sizes in an array: see TileGroup */
} TileKind;

/* Groups lie one behind the other along a dimension of the problem; each has tiles of its own, so its last one may
 * be short. Tiles behind the groups' are of what belongs to none; such a tile may be empty. */
typedef enum {
    GROUP_NUMBER, /* the last one's for a tile of none */
    GROUP_FIRST,  /* the tile's first coordinate */
    GROUP_END,  /* behind the group's last one; of the dimension's, for a tile of none */
    GROUP_USED, /* 1: the tile has some coordinates of a group, else 0 */
} TileGroup;

/* What becomes of the tiles that a loop leaves out. */
typedef enum TileRest {
    TILE_REST_NONE,
    TILE_REST_FIRST, /* all tiles are done where an element that is loaded, of one outside if it is of the loop's
                      * dimension, is not at least `least_met` */
    TILE_REST_AFTER /* those behind and then those before follow where a carried element is below it then */
} TileRest;

typedef struct TileOp TileOp;

typedef struct TileBlock {
    TileOp **ops; /* operands first */
    uint32_t count;
    size_t capacity;
} TileBlock;

struct TileOp {
    uint32_t id;    /* unique in the program */
    uint32_t depth; /* loops around it */
    TileKind kind;
    DType dtype;
    uint32_t dims; /* bit i: dimension i */
    uint32_t operand_count;
    TileOp **
        operands; /* LOAD, INDEX, IN_RANGE, and STORE behind the first: those that RUNTIMEs name */
    const Instruction *inst;       /* what it does (APPLY), or what of HLO it is for */
    uint32_t array;                /* LOAD, GROUP: parameter; STORE: result leaf */
    const Shape *shape;            /* LOAD, GROUP, STORE: of the array */
    const IndexExpr *const *index; /* LOAD, STORE: [rank]; INDEX: [1] */
    uint32_t constraint_count;     /* LOAD, STORE, IN_RANGE */
    const IndexConstraint *constraints;
    const Literal *literal; /* CONSTANT */
    uint32_t over;          /* REDUCE, DOT: dimensions that go */
    OpCode combine;         /* REDUCE */
    uint32_t dim;           /* LOOP */
    const IndexExpr *begin,
        *end; /* LOOP: SYMBOL i is the tile's number along dimension i; GROUP: begin, which tile */
    /* LOOP: tiles of [inside_begin, inside_end) as far as the loop runs for them are such that predicates of the body are
     * known there, for coordinates within the extents; NULL: there are no such predicates. */
    const IndexExpr *inside_begin, *inside_end;
    TileRest rest; /* LOOP: about the tiles outside of [begin, end) */
    TileOp *
        met_load; /* FIRST: f32 along the rows, or along the loop's dimension, by whose coordinate it is indexed */
    uint32_t met; /* AFTER: which operand */
    double least_met;
    int8_t known;   /* in a body: 1, a predicate that is true in those tiles; -1: false */
    TileOp *most;   /* LOOP: how many tiles it runs for at most, s32; NULL: all */
    int64_t rows;   /* GROUP: coordinates of a tile; 0: a group is one tile */
    int64_t among;  /* GROUP: coordinates of all */
    TileBlock body; /* LOOP */
    TileOp **next;  /* LOOP: [operand_count] what is carried to the next step */
    TileOp *loop;   /* CARRIED, FINAL */
    uint32_t number; /* CARRIED, FINAL; GROUP: TileGroup */
    bool
        is_fused; /* APPLY: a product of f32 that is rounded with each sum that needs it, as one instruction */
};

typedef struct TileProgram {
    Arena *arena;
    IndexContext *ix;
    const Instruction *fusion;
    uint32_t dim_count;
    TileDim dims[TILE_MOST_DIMS];
    TileBlock body;
    uint32_t op_count;  /* ids are below */
    double most_powers; /* times this an attention's maxima are powers of two */
} TileProgram;

/* What is decided outside about a contraction: elements of a tile along result rows, result columns and terms
 * of the sums, powers of two above 1; the type that both factors are converted to (DT_INVALID: none); and, of an
 * attention, whether blocks share the columns, so that none knows what a row has met in all. */
typedef struct TileConfig {
    int64_t m, n, k;
    DType factor;
    bool is_shared;
} TileConfig;

/* The program of a fusion of one dot, ragged dot or convolution; NULL: *why says what is in the way, as static text. */
TileProgram *tile_build(Arena *a, const Instruction *fusion, const TileConfig *config,
                        const char **why);

/* What the loop of an attention's program carries, by the number of its operand. */
enum { ATTENTION_SUMS, ATTENTION_MOST, ATTENTION_TOTAL, ATTENTION_CARRIED };

/* The program of an attention that is all of a fusion (ir/kernel/attention/attention.h): config has m, rows, and n, columns.
 * NULL: *why, as above. */
struct Attention;
TileProgram *tile_build_attention(Arena *a, const Instruction *fusion,
                                  const struct Attention *attention,
                                  const TileConfig *config, const char **why);

/* The program of a chain of dots that is all of a fusion (ir/kernel/dot_chain.h): config as above. NULL: *why. */
struct DotChain;
TileProgram *tile_build_chain(Arena *a, const Instruction *fusion,
                              const struct DotChain *chain, const TileConfig *config,
                              const char **why);

/* Tiles along a dimension; blocks of the grid. */
int64_t tile_count(const TileDim *d);
int64_t tile_blocks(const TileProgram *p);
/* Dimensions that have coordinates in tiles. */
bool tile_has_coordinate(const TileProgram *p, uint32_t dim);
/* Tiles along the dimension belong to groups: of the group's last one only some coordinates are there. */
bool tile_is_grouped(const TileProgram *p, uint32_t dim);
/* Every operation that makes a value keeps the zeros that loads give behind the extent of dimension `dim`: nobody
 * need make them for a dot. */
bool tile_is_zero_behind(const TileOp *op, uint32_t dim);
/* Elements of a tile over these dimensions. */
int64_t tile_elements(const TileProgram *p, uint32_t dims);

/* What a choice takes in those tiles of its loop where its predicate is known; NULL: it is not. */
const TileOp *tile_known_choice(const TileOp *op);
/* A power of the constant 2; e^x is 2^(x TILE_LOG2_E). */
bool tile_is_exp2(const TileOp *op);
#define TILE_LOG2_E 1.4426950408889634
/* The loads that a value is made of, each once, in the program's arena; how many. */
uint32_t tile_loads(const TileProgram *p, const TileOp *value, const TileOp ***out);
/* The operand of a sum or difference that is a fused product: 0 or 1; 2: none. */
uint32_t tile_fused_operand(const TileOp *op);

/* NULL if the program keeps the rules above, else what is wrong with it. */
const char *tile_verify(const TileProgram *p);
const char *tile_text(Arena *a, const TileProgram *p);

/* Runs all blocks on literals: arguments[parameter] to results[leaf], arrays that the caller made. Each element
 * of a result must be written once. NULL, or what went wrong. */
const char *tile_interpret(const TileProgram *p, const Literal *const *arguments,
                           Literal *const *results);

/* -- for those that make programs (ir/tile only) ----------------------------------------------- */

TileProgram *tile_program_create(Arena *a, const Instruction *fusion);
/* At the end of `block`, in so many loops; operands are copied. */
TileOp *tile_add(TileProgram *p, TileBlock *block, uint32_t depth, TileKind kind,
                 DType dtype, uint32_t dims, uint32_t operand_count,
                 TileOp *const *operands);
/* Moves an operation of the block behind all others: a loop that stood open. */
void tile_move_last(TileBlock *block, const TileOp *op);
/* At the end: removes operations that no result needs, and finds the products that are fused. */
void tile_finish(TileProgram *p);
/* The coordinate along a dimension, as an expression. */
const IndexExpr *tile_coordinate(const TileProgram *p, uint32_t dim);

#endif
