/* Matrices in the evaluator: complex f64 whatever the type, by rows. */
#ifndef GXC_IR_EVAL_LINALG_H
#define GXC_IR_EVAL_LINALG_H

#include "ir/eval/call.h"
#include "ir/lapack.h"

typedef struct Complex {
    double re, im;
} Complex;

Complex linalg_sub_product(Complex s, Complex a, Complex b); /* s - a b */
Complex linalg_product(Complex a, Complex b);
Complex linalg_conjugate(Complex a);
Complex linalg_divide(Complex a, Complex b);
double linalg_square(Complex a); /* |a|^2 */
/* All numbers of an array, until the instruction is done; and back. */
Complex *linalg_read(EvalCall *call, const Value *x);
void linalg_store(const Complex *a, Value *v);

typedef struct Matrix {
    Complex *a; /* by rows */
    int64_t rows, columns;
    bool is_single; /* of f32 or c64: pivots are compared as such */
} Matrix;

/* The first matrix of an array whose numbers are `all`; how many there are. */
Matrix matrix_of(const Value *x, Complex *all, int64_t *out_count);
Matrix matrix_create(EvalCall *call, int64_t rows, int64_t columns); /* of zeros */
void matrix_set_unit(const Matrix *m);
Matrix matrix_next(Matrix m, int64_t steps); /* so many further on */
Complex *matrix_at(const Matrix *m, int64_t i, int64_t j);
void matrix_adjoin(EvalCall *call,
                   Matrix *m); /* its conjugate transpose, in other memory */
/* Columns i and j change places. */
void matrix_exchange_columns(const Matrix *m, int64_t i, int64_t j);

/* Makes column k zero below row i by h^H, h = 1 - t v v^H, leaves v (but its 1) there; t. */
Complex matrix_reflection(const Matrix *m, int64_t i, int64_t k);
/* Columns from `first` on of m times 1 - t v v^H, v of column k of `from` below row i. */
void matrix_reflect(const Matrix *from, int64_t i, int64_t k, Complex t, const Matrix *m,
                    int64_t first);
/* Makes column k zero below the diagonal and reflects the columns to come; t. */
Complex matrix_qr_step(const Matrix *m, int64_t k);
/* The product of `steps` of them, v of columns 0 .. below the diagonal. */
void matrix_unreflect(const Matrix *v, const Complex *t, int64_t steps, const Matrix *q);

/* A custom call of ir/lapack.def. */
void eval_lapack(EvalCall *call, const LapackCall *how);
#define LAPACK(id, function, real, complex, cuda, operands, results, layout, doc)        \
    void eval_##function(EvalCall *call, const LapackCall *how);
#include "ir/lapack.def"

#endif
