/* Loops over the columns of matrices, in HLO: what factorisations and solves are expanded to. Matrices are the
 * last two dimensions of arrays; those before count batches. */
#ifndef GXC_PASSES_SIMPLIFY_COLUMNS_H
#define GXC_PASSES_SIMPLIFY_COLUMNS_H

#include "passes/simplify/rewrite.h"

#define COLUMNS_MOST 3 /* arrays that a loop carries */

/* A loop over i = 0 .. n - 1 that carries i and arrays, all of one rank. */
typedef struct Columns {
    Module *m;
    Rewriter r; /* of the computation that is being made */
    uint32_t rank, count;
    int64_t n;
    const Shape *index, *state;
    Instruction *i, *zero; /* the step, counted up or down; 0 */
} Columns;

/* One step: `arrays` are what the body is given, and then what it gives. */
typedef void ColumnsStep(Columns *c, const void *user, Instruction **arrays);

/* The loop over n steps, i counted up or down; `arrays` [count] are what it begins with. */
Instruction *columns_loop(Rewriter *r, int64_t n, bool forward, uint32_t count,
                          Instruction *const *arrays, ColumnsStep *step,
                          const void *user);
/* Array k of what it leaves. */
Instruction *columns_result(Rewriter *r, Instruction *loop, uint32_t k);

/* -- in the body ------------------------------------------------------------------------------ */

/* As s, with other rows and columns. */
const Shape *columns_shape(Columns *c, const Shape *s, int64_t rows, int64_t columns);
/* The part of x that begins at (row, column); NULL: at 0. x with another one there. */
Instruction *columns_part(Columns *c, Instruction *x, const Shape *s, Instruction *row,
                          Instruction *column);
Instruction *columns_with_part(Columns *c, Instruction *x, Instruction *by,
                               Instruction *row, Instruction *column);
/* x, of size 1 in rows or columns or both, repeated to the sizes of s. */
Instruction *columns_repeated(Columns *c, Instruction *x, const Shape *s);
/* Numbers of the rows, or of the columns, s32. */
Instruction *columns_numbers(Columns *c, const Shape *s, bool rows);
/* Whether the number of its row (column) is less than, ... the step's. */
Instruction *columns_compare(Columns *c, const Shape *s, bool rows, int64_t direction);
/* Reduces the rows to one: op is OP_ADD, OP_MAXIMUM or OP_MINIMUM, `first` what it begins with. */
Instruction *columns_reduced(Columns *c, Instruction *x, OpCode op, Instruction *first);

/* -- matrices --------------------------------------------------------------------------------- */

DType matrix_real_type(DType t);
Instruction *matrix_compare(Rewriter *r, Instruction *a, Instruction *b,
                            int64_t direction);
Instruction *matrix_select(Rewriter *r, Instruction *p, Instruction *a, Instruction *b);
/* x itself where it is real; NULL for its imaginary part then. */
Instruction *matrix_real(Rewriter *r, Instruction *x);
Instruction *matrix_imag(Rewriter *r, Instruction *x);
Instruction *matrix_conjugate(Rewriter *r, Instruction *x);
Instruction *matrix_transposed(Rewriter *r, Instruction *x);

#endif
