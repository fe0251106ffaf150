/* The families of row kernels that scalar_kernel() chooses from; each returns NULL for what it
 * does not have. Only ir/eval/scalar*.c include this. */
#ifndef GXC_IR_EVAL_SCALAR_TABLE_H
#define GXC_IR_EVAL_SCALAR_TABLE_H

#include "ir/eval/scalar.h"

ScalarFn *scalar_int(OpCode op, DType t);   /* 8 to 64 bits; results of type t, or pred */
ScalarFn *scalar_pred(OpCode op);           /* operands and result pred */
ScalarFn *scalar_float(OpCode op, DType t); /* f32, f64; is-finite, compare: pred */
ScalarFn *scalar_complex(OpCode op,
                         DType t); /* c64, c128; abs, real, imag: the component */
ScalarFn *scalar_exact(OpCode op, DType t); /* f32, f64, by MPFR; abs of c64, c128 */

#endif
