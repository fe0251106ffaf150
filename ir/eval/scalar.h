/* Row kernels: what every elementwise opcode does to n elements lying side by side in storage
 * form (ir/number/number.h). A kernel is chosen once for opcode and element types, so that no loop
 * decides anything per element.
 *
 * Integers wrap. f32 and f64 are computed as such; smaller floats as f32, rounded once to the
 * type. Transcendental functions of f32 are computed in f64 by libm; with `exact`, by MPFR and
 * rounded correctly, so that a folded constant has the same bits on every CPU. A NaN that an
 * operation makes is the positive quiet one without payload, also where a CPU would make
 * another; moving a NaN keeps it. */
#ifndef GXC_IR_EVAL_SCALAR_H
#define GXC_IR_EVAL_SCALAR_H

#include "ir/op.h"

typedef struct ScalarKernel ScalarKernel;

/* Operands and result may not overlap. n may be 0. */
typedef void ElementsFn(void *out, const void *const *in, size_t n,
                        const ScalarKernel *k);

struct ScalarKernel {
    ElementsFn *run; /* k.run(out, in, n, &k) */
    OpCode op;
    DType in, out; /* see scalar_kernel */
    uint32_t arity;
    /* To be set by the caller where the opcode has the attribute. */
    int64_t direction;     /* compare: DIRECTION_ */
    bool total_order;      /* compare: type=TOTALORDER of floats */
    int64_t exponent_bits; /* reduce-precision */
    int64_t mantissa_bits;
    uint32_t
        single; /* clamp, select: bit i = operand i is one element that stands for all */
    /* Private. */
    ElementsFn
        *inner; /* what works on the wider type that the elements are computed in */
};

/* The kernel of an opcode with operands of type `in` and a result of type `out`. `in` is
 * operand 0's type, in clamp and select operand 1's; the other operands have the same type,
 * but for select's predicate (pred) and stochastic-convert's random bits (the unsigned type of
 * in's width). n counts elements of the result; for bitcast-convert, which may change their
 * number, elements of the operand. False: the opcode is not elementwise, is not defined for the types,
 * or (`exact`) needs a function that has no correctly rounded version: functions of complex
 * numbers. */
bool scalar_kernel(OpCode op, DType in, DType out, bool exact, ScalarKernel *k);

#endif
