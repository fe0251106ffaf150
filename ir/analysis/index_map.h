/* Index maps: how the elements that an operation reads depend on the element it makes.
 *
 * A map sends a result index (dimensions d0.. with ranges) to an operand index. Its
 * expressions are affine with floor division and modulus by constants over
 *   DIM      a dimension of the result,
 *   SYMBOL   a variable that runs over its range for each result (reduced, contracted
 *            dimensions, window offsets),
 *   RUNTIME  a value read from an operand (start of a dynamic-slice, gathered index),
 *            already clamped into its range.
 * Constraints restrict where the map applies (concatenate, pad, windows): outside, the
 * operand is not read. Expressions are made by the ix_ functions, which simplify by ranges
 * and make equal expressions the same pointer within one context.
 * One library for element addresses, vector width proofs, coalescing, tiles. */
#ifndef GXC_IR_ANALYSIS_INDEX_MAP_H
#define GXC_IR_ANALYSIS_INDEX_MAP_H

#include "ir/module.h"

typedef struct Range {
    int64_t lo, hi; /* inclusive; empty if lo > hi */
} Range;

typedef enum {
    IX_CONST,
    IX_DIM,
    IX_SYMBOL,
    IX_RUNTIME,
    IX_ADD,
    IX_MUL,
    IX_FLOORDIV,
    IX_MOD
} IxKind;

typedef struct IndexExpr IndexExpr;
struct IndexExpr {
    IxKind kind;
    uint32_t id; /* creation number in its context: a total order */
    int64_t
        value; /* CONST: value; DIM, SYMBOL, RUNTIME: number; MUL, FLOORDIV, MOD: constant */
    const IndexExpr *a, *b; /* ADD: both; MUL, FLOORDIV, MOD: a */
    Range range;
};

typedef struct IndexConstraint {
    const IndexExpr *expr;
    Range range;
} IndexConstraint;

typedef struct IndexRuntime {
    const Instruction *source;     /* integer array that is read */
    const IndexExpr *const *index; /* [rank of source] where, over the same variables */
    Range range;                   /* the value is clamped into it */
} IndexRuntime;

struct IndexMap {
    uint32_t dim_count;
    const Range *dims;
    uint32_t symbol_count;
    const Range *symbols;
    uint32_t runtime_count;
    const IndexRuntime *runtimes;
    uint32_t result_count;           /* rank of the operand */
    const IndexExpr *const *results; /* NULL: the operand is not read by an index map */
    uint32_t constraint_count;
    const IndexConstraint *constraints;
};

IndexContext *index_context_create(Arena *a);
Arena *index_arena(IndexContext *cx);

const IndexExpr *ix_const(IndexContext *cx, int64_t value);
const IndexExpr *ix_dim(IndexContext *cx, uint32_t number, Range range);
const IndexExpr *ix_symbol(IndexContext *cx, uint32_t number, Range range);
const IndexExpr *ix_runtime(IndexContext *cx, uint32_t number, Range range);
const IndexExpr *ix_add(IndexContext *cx, const IndexExpr *a, const IndexExpr *b);
const IndexExpr *ix_mul(IndexContext *cx, const IndexExpr *a, int64_t factor);
const IndexExpr *ix_floordiv(IndexContext *cx, const IndexExpr *a,
                             int64_t divisor);                                  /* > 0 */
const IndexExpr *ix_mod(IndexContext *cx, const IndexExpr *a, int64_t divisor); /* > 0 */

/* The maps of all operands of inst for one leaf of its result: [operand_count], by the INDEX
 * column; NULL if the opcode has none. */
IndexMap *index_maps(IndexContext *cx, const Instruction *inst, uint32_t leaf);

IndexMap index_identity(IndexContext *cx, const Shape *shape);

/* The layout of logical row-major order. */
const Layout *index_row_major(Arena *a, uint32_t rank);

/* The element's number in memory order (physical, by layout) from its logical index, and the
 * logical index from such a number: results/`index` have the shape's rank. */
const IndexExpr *index_linear(IndexContext *cx, const Shape *shape,
                              const IndexExpr *const *index);
void index_delinear(IndexContext *cx, const Shape *shape, const IndexExpr *linear,
                    const IndexExpr **index);

/* By how much the value changes when variable (kind, number) grows by 1, if that is the same
 * everywhere; false otherwise. */
bool ix_stride(const IndexExpr *e, IxKind kind, uint32_t number, int64_t *stride);
bool ix_depends(const IndexExpr *e, IxKind kind, uint32_t number);
const IndexExpr *ix_substitute(IndexContext *cx, const IndexExpr *e, IxKind kind,
                               uint32_t count, const IndexExpr *const *by);
/* The expression with one variable replaced. */
const IndexExpr *ix_replace(IndexContext *cx, const IndexExpr *e, IxKind kind,
                            uint32_t number, const IndexExpr *by);
/* The map where its variables are these (NULL where it has none of a kind). results: [map->result_count];
 * constraints, if not NULL: the expressions of all of them. */
void index_map_apply(IndexContext *cx, const IndexMap *map, const IndexExpr *const *dims,
                     const IndexExpr *const *symbols, const IndexExpr *const *runtimes,
                     const IndexExpr **results, const IndexExpr **constraints);
/* It is known that `of` > 0 divides all values. */
bool ix_is_multiple(const IndexExpr *e, int64_t of);
const char *ix_text(Arena *a, const IndexExpr *e);         /* (d0 floordiv 4) + s0 * 2 */
const char *index_map_text(Arena *a, const IndexMap *map); /* for tests and dumps */

#endif
