/* Loops over the columns of matrices, in HLO: what factorisations and solves are expanded to. Matrices are the
 * last two dimensions of arrays; those before count batches. */
#ifndef GXC_PASSES_SIMPLIFY_COLUMNS_H
#define GXC_PASSES_SIMPLIFY_COLUMNS_H

#include "passes/simplify/rewrite.h"

#define COLUMNS_MOST 4 /* arrays that a loop carries */

/* A loop over i = 0 .. n - 1 that carries i and arrays, all of the first one's rank (but see columns_loop_while). */
typedef struct Columns {
    Module *m;
    Rewriter r; /* of the computation that is being made */
    uint32_t rank, count;
    bool is_while; /* ends before n, too */
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
/* The same, upwards, until the last array, a pred[], is false. */
Instruction *columns_loop_while(Rewriter *r, int64_t n, uint32_t count,
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
Instruction *columns_product(Columns *c, Instruction *a, Instruction *b, const Shape *s);
/* Reduces the rows to one: op is OP_ADD, OP_MAXIMUM or OP_MINIMUM, `first` what it begins with. */
Instruction *columns_reduced(Columns *c, Instruction *x, OpCode op, Instruction *first);

/* -- matrices --------------------------------------------------------------------------------- */

Instruction *matrix_select(Rewriter *r, Instruction *p, Instruction *a, Instruction *b);
Instruction *matrix_both(Rewriter *r, Instruction *a, Instruction *b); /* of two preds */
/* x itself where it is real; NULL for its imaginary part then. */
Instruction *matrix_real(Rewriter *r, Instruction *x);
Instruction *matrix_imag(Rewriter *r, Instruction *x);
Instruction *matrix_conjugate(Rewriter *r, Instruction *x);
Instruction *matrix_transposed(Rewriter *r, Instruction *x);
Instruction *matrix_squares(Rewriter *r, Instruction *x, DType t); /* |x|^2, in real t */
Instruction *matrix_by_rows(Rewriter *r, Instruction *x); /* in the default layout */
/* What was made by rows, in the layout and of the dimensions that are wanted. */
Instruction *matrix_given_as(Rewriter *r, const Shape *s, Instruction *x);
/* The Hermitian matrix of which one triangle is given. */
Instruction *matrix_hermitian(Rewriter *r, Instruction *a, bool lower);
/* One for each of `count` steps, as a column of s. */
const Shape *matrix_for_steps(Rewriter *r, const Shape *s, DType t, int64_t count);
/* As s, with other rows and columns. */
const Shape *matrix_sized(Rewriter *r, const Shape *s, int64_t rows, int64_t columns);
/* Rows y … y + rows - 1, columns x … x + columns - 1. */
Instruction *matrix_part(Rewriter *r, Instruction *a, int64_t y, int64_t rows, int64_t x,
                         int64_t columns);
/* One above the other, or side by side. */
Instruction *matrix_joined(Rewriter *r, Instruction *a, Instruction *b, bool above);
/* b c, precisely; they are transposed before, if so said. */
Instruction *matrix_dot(Rewriter *r, Instruction *b, bool b_turned, Instruction *c,
                        bool c_turned);
/* Numbers of the rows (of the columns), s32. */
Instruction *matrix_numbers(Rewriter *r, const Shape *s, bool rows);
/* 1 where row and column are the same, 0 elsewhere; a pred, too. */
Instruction *matrix_unit(Rewriter *r, const Shape *s);
/* x reduced along dimensions, from the scalar `first` on. */
Instruction *matrix_reduced(Rewriter *r, OpCode op, Instruction *x, Instruction *first,
                            uint32_t count, const int64_t *dims);

#endif
