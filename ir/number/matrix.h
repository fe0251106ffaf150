/* Linear algebra of dense matrices, complex f64 whatever the type, by rows: what the evaluator computes,
 * and the emulator for cuSOLVER. Knows nothing but the C library. */
#ifndef GXC_IR_NUMBER_MATRIX_H
#define GXC_IR_NUMBER_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Complex {
    double re, im;
} Complex;

Complex linalg_sub_product(Complex s, Complex a, Complex b); /* s - a b */
Complex linalg_product(Complex a, Complex b);
Complex linalg_conjugate(Complex a);
Complex linalg_divide(Complex a, Complex b);
double linalg_square(Complex a); /* |a|^2 */

typedef struct Matrix {
    Complex *a; /* by rows */
    int64_t rows, columns;
    bool is_single; /* of f32 or c64: pivots are compared as such */
} Matrix;

Complex *matrix_at(const Matrix *m, int64_t i, int64_t j);
Matrix matrix_next(Matrix m, int64_t steps); /* so many further on */
void matrix_set_unit(const Matrix *m);
/* Swaps columns i and j. */
void matrix_exchange_columns(const Matrix *m, int64_t i, int64_t j);

/* m = l l^H from the lower triangle, or u^H u from the upper one; zeros in the other; NaN where m is not
 * positive definite. The order of the first leading minor that is not positive, or 0. */
int32_t matrix_cholesky(const Matrix *m, bool lower);
/* l and u with so many pivots, counted from 1; info: the first that is 0, or 0. */
void matrix_lu(const Matrix *m, int64_t steps, int32_t *pivots, int32_t *info);

/* Makes column k zero below row i by h^H, h = 1 - t v v^H, leaves v (but its 1) there; t. */
Complex matrix_reflection(const Matrix *m, int64_t i, int64_t k);
/* Columns from `first` on of m times 1 - t v v^H, v of column k of `from` below row i. */
void matrix_reflect(const Matrix *from, int64_t i, int64_t k, Complex t, const Matrix *m,
                    int64_t first);
/* Makes column k zero below the diagonal and reflects the columns to come; t. */
Complex matrix_qr_step(const Matrix *m, int64_t k);
/* The product of `steps` of them, v of columns 0 .. below the diagonal. */
void matrix_unreflect(const Matrix *v, const Complex *t, int64_t steps, const Matrix *q);

/* Eigenvectors and eigenvalues, in rising order, of the Hermitian matrix that a triangle of m says; m is used up.
 * False: they were not found. */
bool matrix_eigen(const Matrix *m, bool lower, const Matrix *v, double *values);
/* Of at least as many rows as columns: singular values, falling; m becomes u s, v is v. */
bool matrix_singular(const Matrix *m, const Matrix *v, double *values);
/* q = u of orthogonal columns, the longest first, by reflections: also where columns are 0, or q has more of them.
 * work: zeros, as large as q; t: one for each column of m. */
void matrix_left_vectors(const Matrix *m, const Matrix *work, Complex *t,
                         const Matrix *q);

#endif
