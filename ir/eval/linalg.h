/* Matrices in the evaluator: complex f64 whatever the type, by rows. */
#ifndef GXC_IR_EVAL_LINALG_H
#define GXC_IR_EVAL_LINALG_H

#include "ir/custom_call.h"
#include "ir/eval/call.h"

typedef struct Complex {
    double re, im;
} Complex;

Complex linalg_sub_product(Complex s, Complex a, Complex b); /* s - a b */
Complex linalg_conjugate(Complex a);
Complex linalg_divide(Complex a, Complex b);
/* All numbers of an array, until the instruction is done; and back. */
Complex *linalg_read(EvalCall *call, const Value *x);
void linalg_store(const Complex *a, Value *v);

/* LAPACK's custom calls. */
void eval_lapack(EvalCall *call, const LapackCall *how);
/* The kinds LAPACK_GETRF, LAPACK_GEQRF, LAPACK_ORGQR. */
void eval_lapack_factor(EvalCall *call, LapackKind kind);

#endif
