/* Special functions of floats as graphs of HLO's operations: HLO has no opcodes for them. */
#ifndef GXC_FRONTEND_STABLEHLO_MATH_H
#define GXC_FRONTEND_STABLEHLO_MATH_H

#include <math.h>

#include "frontend/stablehlo/convert.h"

/* Where a formula is written: all its values are arrays of this shape, of f32 or f64. */
typedef struct Math {
    Converter *c;
    const Shape *shape;
} Math;

typedef Instruction *UnaryMathFn(Math *m, Instruction *x);
typedef Instruction *BinaryMathFn(Math *m, Instruction *a, Instruction *b);

/* Narrow floats are computed in f32. NULL after a message, or of NULL. */
Instruction *math_unary(Converter *c, Instruction *x, UnaryMathFn *function);
Instruction *math_binary(Converter *c, Instruction *a, Instruction *b,
                         BinaryMathFn *function);

UnaryMathFn math_bessel_i1e, math_digamma, math_erf_inv, math_erfc, math_lgamma;
BinaryMathFn math_zeta, math_polygamma;
Instruction *math_next_after(Converter *c, Instruction *x, Instruction *y);

#endif
