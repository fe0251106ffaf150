/* Matrices in the evaluator. */
#ifndef GXC_IR_EVAL_LINALG_H
#define GXC_IR_EVAL_LINALG_H

#include "ir/custom_call/lapack.h"
#include "ir/eval/call.h"
#include "ir/number/matrix.h"

/* All numbers of an array, until the instruction is done; and back. */
Complex *linalg_read(EvalCall *call, const Value *x);
void linalg_store(const Complex *a, Value *v);

/* The first matrix of an array whose numbers are `all`; how many there are. */
Matrix matrix_of(const Value *x, Complex *all, int64_t *out_count);
Matrix matrix_create(EvalCall *call, int64_t rows, int64_t columns); /* of zeros */
/* Its conjugate transpose, in other memory. */
void matrix_adjoin(EvalCall *call, Matrix *m);

/* A custom call of ir/custom_call/lapack.def. */
void eval_lapack(EvalCall *call, const LapackCall *how);
#define LAPACK(id, function, real, complex, cuda, operands, results, layout, doc)        \
    void eval_##function(EvalCall *call, const LapackCall *how);
#include "ir/custom_call/lapack.def"

#endif
