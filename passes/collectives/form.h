/* What the files of the pass collective-form share: making instructions. */
#ifndef GXC_PASSES_COLLECTIVES_FORM_H
#define GXC_PASSES_COLLECTIVES_FORM_H

#include "ir/analysis/target.h"
#include "passes/collectives/collectives.h"

typedef struct Form {
    Module *m;
    Computation *comp;
    const Target *target;
    Arena *scratch;
    Computation *reducers[DT_COUNT][4]; /* made so far: by type and operation */
} Form;

const Shape *form_array(Form *f, DType t, uint32_t rank, const int64_t *dims);
/* The shape with another first dimension. */
const Shape *form_with_front(Form *f, const Shape *s, int64_t n);
Instruction *form_unary(OpCode op, const Shape *s, Instruction *x);
Instruction *form_reshape(const Shape *s,
                          Instruction *x); /* x itself if it has the shape */
Instruction *form_convert(Form *f, Instruction *x, DType t);
/* Of whole bytes: in which elements of type t can be cut apart. */
DType form_carrier(DType t);
/* The scalar `op`, one of add, multiply, minimum, maximum, of two values of type t. */
Computation *form_reducer(Form *f, OpCode op, DType t);
/* The collective `op` with the groups, names and control edges of `like` on other operands;
 * its results one by one. */
void form_collective(Form *f, const Instruction *like, OpCode op, uint32_t count,
                     Instruction *const *operands, const Shape *const *shapes,
                     Instruction **out);

/* Of x, cut along dimension d, the part that is this device's by its rank in its group of the
 * collective. (form_part.c) */
Instruction *form_own_part(Form *f, const Instruction *inst, Instruction *x, uint32_t d,
                           const Shape *part);
/* Of rows, which an all-gather among all ids of inst's mode gives, that of member i of this
 * device's group of inst; of the first if there are fewer. pred[]: there are more than i. */
Instruction *form_member_row(Form *f, const Instruction *inst, Instruction *rows,
                             int64_t i);
Instruction *form_has_member(Form *f, const Instruction *inst, int64_t i);

/* Floats x as integers of the same order, of which `op`, maximum or minimum, gives NaN where there is one; and back, as
 * floats of type t. (form_keys.c) */
DType form_key_type(DType t);
Instruction *form_to_keys(Form *f, Instruction *x, OpCode op);
Instruction *form_from_keys(Form *f, Instruction *keys, DType t);

/* A ragged-all-to-all by all-gather, all-to-all of its sizes, and one gather. NULL: it cannot
 * be expressed so. (ragged.c) */
Instruction *form_ragged(Form *f, const Instruction *inst);

#endif
