/* The rewrite driver: rules that look at an instruction and its near operands and give what
 * may stand in its place.
 *
 * A rule returns the replacement - an operand of the instruction, or new instructions made
 * with the rw_ functions - or NULL. The replacement has the same shape, layout included. Each
 * rule lowers the measure (instructions that are not free, then elements, then operands not
 * yet in normal form); the driver stops with bug() if a computation is rewritten more than
 * REWRITE_CAP times as often as it has instructions. Rules leave instructions with control
 * edges, effects and fused computations alone: the driver does not offer those. */
#ifndef GXC_PASSES_SIMPLIFY_REWRITE_H
#define GXC_PASSES_SIMPLIFY_REWRITE_H

#include "passes/pass.h"

enum { REWRITE_CAP = 10 };

typedef struct Rewriter {
    Module *m;
    Computation *comp;
    Arena *scratch;
    PassContext *cx; /* target, settings, counts */
    Instruction *at; /* the instruction that is being rewritten */
    Uses uses;       /* see rw_uses */
    uint32_t known;
} Rewriter;

typedef Instruction *RuleFn(Rewriter *r, Instruction *inst);

typedef struct Rule {
    OpCode op; /* OP_COUNT: offered every opcode */
    const char *name;
    RuleFn *apply;
} Rule;

/* The rules by family, each ended by a row without function. */
extern const Rule rules_arithmetic[], rules_logic[], rules_move[], rules_slice[],
    rules_scatter[], rules_stencil[], rules_tuple[], rules_reduce[], rules_contract[],
    rules_control[], rules_softmax[], rules_one_hot[], rules_topk[], rules_sort[];

/* Applies the tables until nothing changes. */
bool rewrite_module(Module *m, PassContext *cx, const Rule *const *tables,
                    size_t table_count);
/* The same with rules that must be applied, also to instructions with control predecessors, on which their
 * replacements then wait. */
bool rewrite_all(Module *m, PassContext *cx, const Rule *const *tables,
                 size_t table_count);
/* Calls `by` for all programs (module_programs) that are there at the call. Where one has changed, instructions are put
 * in order, and those that nobody reads any more go. */
typedef bool ProgramFn(Computation *comp, PassContext *cx);
bool rewrite_programs(Module *m, PassContext *cx, ProgramFn *by);

/* -- for rules ----------------------------------------------------------------------- */

/* Users as they were when a rule first asked in this sweep: of instructions whose id is below r->known. Made once. */
const Uses *rw_uses(Rewriter *r);

/* A new instruction; it gets the metadata of the instruction that is rewritten. */
Instruction *rw_add(Rewriter *r, OpCode op, const Shape *shape, uint32_t operand_count,
                    Instruction *const *operands);
Instruction *rw_unary(Rewriter *r, OpCode op, const Shape *shape, Instruction *a);
Instruction *rw_binary(Rewriter *r, OpCode op, const Shape *shape, Instruction *a,
                       Instruction *b);
/* a compared with b, element by element: lies as a does. */
Instruction *rw_compare(Rewriter *r, Instruction *a, Instruction *b, int64_t direction);
/* Attributes of inst, other operands and shape. */
Instruction *rw_like(Rewriter *r, const Instruction *inst, const Shape *shape,
                     uint32_t operand_count, Instruction *const *operands);
/* A constant of the shape with every element `value`: a scalar, or a broadcast of one. */
Instruction *rw_splat(Rewriter *r, const Shape *shape, double value);
Instruction *rw_splat_int(Rewriter *r, const Shape *shape, int64_t value);
Instruction *rw_constant(Rewriter *r, const Literal *l);
Instruction *rw_broadcast(Rewriter *r, const Shape *shape, Instruction *a, uint32_t count,
                          const int64_t *dims);
/* a over `shape`: its dimension d stands at position[d], in any order; -1: it has one element and goes. */
Instruction *rw_spread(Rewriter *r, const Shape *shape, Instruction *a,
                       const int64_t *position);
/* The dimensions of s, the last one in so many pieces, of equal size. In scratch. */
const int64_t *rw_cut_dims(Rewriter *r, const Shape *s, int64_t pieces);
/* a itself if it has the shape already. Equal element counts. */
Instruction *rw_reshape(Rewriter *r, const Shape *shape, Instruction *a);
/* x, whose dimensions are those of s already, copied if they lie in another order. */
Instruction *rw_in_layout(Rewriter *r, const Shape *s, Instruction *x);
Instruction *rw_transpose(Rewriter *r, const Shape *shape, Instruction *a,
                          const int64_t *dims);
/* dims[d] is d, of so many. */
bool rw_is_identity(const int64_t *dims, uint32_t count);
/* Packed; dimension d is the order[d]-th of s, or of a. */
const Shape *rw_shape_in_order(Rewriter *r, const Shape *s, const int64_t *order);
Instruction *rw_in_order(Rewriter *r, Instruction *a, const int64_t *order);
Instruction *rw_element(Rewriter *r, Instruction *tuple, uint32_t i);
/* Dimensions named in an array that `names` takes from another: names[dims[i]] for each i. In scratch. */
const int64_t *rw_through(Rewriter *r, Ints names, Ints dims);
/* The windows of a reduce-window: from the beginning (the end) of dimension `along` up to each element. */
void rw_set_cumulative(Rewriter *r, Instruction *windows, int64_t along, bool from_end);
Instruction *rw_slice(Rewriter *r, const Shape *shape, Instruction *a,
                      const SliceDim *dims);
/* a with `more` elements `fill` (a scalar) behind those of dimension `dim`. */
Instruction *rw_fill_up(Rewriter *r, Instruction *a, Instruction *fill, uint32_t dim,
                        int64_t more);
/* a, unless it is of the type already, converted: to this shape, or with its own layout to type t. */
Instruction *rw_convert(Rewriter *r, const Shape *shape, Instruction *a);
Instruction *rw_in_type(Rewriter *r, Instruction *a, DType t);
/* A dot with its operands exchanged, of which `left` and `right` are the new ones: what is of the second one stands
 * before what is of the first one. */
Instruction *rw_turned_dot(Rewriter *r, const Instruction *dot, Instruction *left,
                           Instruction *right);
/* Which dimension of the dot's result each of the turned one's is; `back`: the other way round. */
const int64_t *rw_turned_dims(Rewriter *r, const Instruction *dot, bool back);
/* The sum of a along some dimensions, in its own type. */
Instruction *rw_sum(Rewriter *r, const Shape *shape, Instruction *a, uint32_t count,
                    const int64_t *dims);
/* Rows of x, its first dimension, by number: s32[n]. */
Instruction *rw_rows(Rewriter *r, Instruction *x, Instruction *numbers);
/* Static array of the element type and sizes with default layout. */
const Shape *rw_shape(Rewriter *r, DType dtype, uint32_t rank, const int64_t *dims);

/* inst, or NULL if it has not the shape of the instruction that is rewritten. */
Instruction *rw_as(const Instruction *like, Instruction *inst);

/* The scalar constant that the value is everywhere: of a constant or of a broadcast of one. */
const Literal *rw_splat_of(const Instruction *inst);
bool rw_is_splat(const Instruction *inst, double value); /* exactly: -0 is not 0 */
bool rw_is_static(const Shape *s);                       /* array, no dynamic dimension */
bool rw_is_zero_size(const Shape *s);
/* Dimensions of size 1 aside, both have the same sizes in the same order. */
bool rw_same_but_ones(const Shape *a, const Shape *b);
/* An operation on parameters 0 and 1 of a reducer and nothing else; OP_COUNT if it is more. */
OpCode rw_reducer_op(const Computation *comp);

#endif
