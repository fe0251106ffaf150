/* The families of row kernels that scalar_kernel() chooses from; each returns NULL for what it
 * does not have. Only ir/eval/scalar*.c include this. */
#ifndef GXC_IR_EVAL_SCALAR_TABLE_H
#define GXC_IR_EVAL_SCALAR_TABLE_H

#include "ir/eval/scalar.h"

ElementsFn *rows_int(OpCode op, DType t);   /* 8 to 64 bits; results of type t, or pred */
ElementsFn *rows_pred(OpCode op);           /* operands and result pred */
ElementsFn *rows_float(OpCode op, DType t); /* f32, f64; is-finite, compare: pred */
ElementsFn *rows_complex(OpCode op,
                         DType t); /* c64, c128; abs, real, imag: the component */
ElementsFn *rows_exact(OpCode op, DType t); /* f32, f64, by MPFR; abs of c64, c128 */

#endif
