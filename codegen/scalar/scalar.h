/* What the families of scalar code share. An operation is a row of four functions, one for each
 * class of element types; scalar_run brings the operands into the type that the class is
 * computed in and the result back. Only scalar*.c include this.
 *
 * Meaning is that of the evaluator's row kernels (ir/eval/scalar.h), except that NaN keeps no
 * particular sign or payload and transcendental functions differ by a few units in the last
 * place. */
#ifndef GXC_CODEGEN_SCALAR_SCALAR_H
#define GXC_CODEGEN_SCALAR_SCALAR_H

#include "codegen/element/emit.h"

typedef struct ScalarCall {
    Kernel *k;
    const Instruction *inst;
    DType type;        /* integers, pred, complex: the operands'; floats: f32 or f64 */
    LLVMValueRef x[3]; /* operands, converted to `type` */
    const LLVMValueRef *operands; /* as they came */
} ScalarCall;

/* The result is of type inst's, or i1, or - of floats - of c->type. */
typedef LLVMValueRef ScalarCode(const ScalarCall *c);

typedef struct ScalarRow { /* NULL: not defined for the class */
    ScalarCode *pred, *integer, *real, *complex;
} ScalarRow;

GXC_NORETURN void scalar_unsupported(const Instruction *inst);

/* Floats of any type to f32 (f64 stays), and from f32 or f64 to any type, rounded once. */
LLVMValueRef scalar_widen(Kernel *k, LLVMValueRef value, DType from);
/* The same for types of 8 bits and less (small.c): code <-> f32; f32 or f64 -> code. */
LLVMValueRef scalar_decode(Kernel *k, LLVMValueRef code, DType from);
LLVMValueRef scalar_encode(Kernel *k, LLVMValueRef value, DType to);

/* The same for two numbers, which an instruction may convert together. */
void scalar_encode_pair(Kernel *k, DType to, const LLVMValueRef value[2],
                        LLVMValueRef out[2]);
void scalar_decode_pair(Kernel *k, DType from, const LLVMValueRef code[2],
                        LLVMValueRef out[2]);

/* All bits of an element as one integer, and back; a complex number's real part is low. */
LLVMValueRef scalar_to_bits(Kernel *k, LLVMValueRef value, DType t);
LLVMValueRef scalar_from_bits(Kernel *k, LLVMValueRef bits, DType t);

/* libdevice's function for f32 (name with f behind) or f64. */
LLVMValueRef scalar_math(Kernel *k, const char *name, LLVMValueRef x);
/* The function of libdevice that computes this for f64; with "f" behind it for what is narrower. NULL: none. */
const char *scalar_function_name(OpCode op);
LLVMValueRef scalar_math2(Kernel *k, const char *name, LLVMValueRef x, LLVMValueRef y);

/* -- families -- */

ScalarCode pred_or, pred_and, int_xor, int_not, int_compare;
ScalarCode int_add, int_subtract, int_multiply, int_divide, int_remainder, int_power;
ScalarCode int_mulhi, int_and, int_or, int_maximum, int_minimum, int_clamp, int_negate;
ScalarCode int_abs, int_sign, int_popcnt, int_count_leading_zeros;
ScalarCode int_shift_left, int_shift_right_logical, int_shift_right_arithmetic;

ScalarCode real_add, real_subtract, real_multiply, real_divide, real_remainder;
ScalarCode real_maximum, real_minimum, real_clamp, real_negate, real_abs, real_sign;
ScalarCode real_floor, real_ceil, real_round_nearest_afz, real_round_nearest_even;
ScalarCode real_sqrt, real_rsqrt, real_logistic, real_is_finite, real_compare;
ScalarCode real_same, real_zero, real_complex;
ScalarCode real_function; /* one call of libdevice */

ScalarCode complex_add, complex_subtract, complex_multiply, complex_divide;
ScalarCode complex_negate, complex_abs, complex_sign, complex_compare;
ScalarCode complex_real, complex_imag;
ScalarCode complex_sqrt, complex_rsqrt, complex_exponential, complex_log, complex_power;
ScalarCode complex_exponential_minus_one, complex_log_plus_one, complex_logistic;
ScalarCode complex_sine, complex_cosine, complex_tan, complex_asin, complex_acos;
ScalarCode complex_sinh, complex_cosh, complex_tanh, complex_asinh, complex_acosh;
ScalarCode complex_atanh, complex_atan2;

LLVMValueRef complex_make(Kernel *k, LLVMValueRef re, LLVMValueRef im);

/* -- short names for LLVM's builder -- */

static inline bool is_f64(LLVMValueRef x)
{
    return LLVMGetTypeKind(LLVMTypeOf(x)) == LLVMDoubleTypeKind;
}
static inline LLVMValueRef f_number(LLVMValueRef like, double value)
{
    return LLVMConstReal(LLVMTypeOf(like), value);
}
static inline LLVMValueRef i_number(LLVMValueRef like, int64_t value)
{
    return LLVMConstInt(LLVMTypeOf(like), (uint64_t)value, 1);
}
static inline unsigned i_width(LLVMValueRef x)
{
    return LLVMGetIntTypeWidth(LLVMTypeOf(x));
}
static inline LLVMValueRef f_add(Kernel *k, LLVMValueRef a, LLVMValueRef b)
{
    return gx_float_op(k, LLVMFAdd, a, b);
}
static inline LLVMValueRef f_sub(Kernel *k, LLVMValueRef a, LLVMValueRef b)
{
    return gx_float_op(k, LLVMFSub, a, b);
}
static inline LLVMValueRef f_mul(Kernel *k, LLVMValueRef a, LLVMValueRef b)
{
    return gx_float_op(k, LLVMFMul, a, b);
}
static inline LLVMValueRef f_div(Kernel *k, LLVMValueRef a, LLVMValueRef b)
{
    return gx_float_op(k, LLVMFDiv, a, b);
}
static inline LLVMValueRef f_neg(Kernel *k, LLVMValueRef a)
{
    return LLVMBuildFNeg(k->builder, a, "");
}
static inline LLVMValueRef f_compare(Kernel *k, LLVMRealPredicate p, LLVMValueRef a,
                                     LLVMValueRef b)
{
    return LLVMBuildFCmp(k->builder, p, a, b, "");
}
static inline LLVMValueRef i_compare(Kernel *k, LLVMIntPredicate p, LLVMValueRef a,
                                     LLVMValueRef b)
{
    return LLVMBuildICmp(k->builder, p, a, b, "");
}
static inline LLVMValueRef f_intrinsic(Kernel *k, const char *name, LLVMValueRef a)
{
    return gx_intrinsic(k, name, &a, 1);
}
static inline LLVMValueRef f_intrinsic2(Kernel *k, const char *name, LLVMValueRef a,
                                        LLVMValueRef b)
{
    LLVMValueRef args[] = {a, b};
    return gx_intrinsic(k, name, args, 2);
}
static inline LLVMValueRef f_abs(Kernel *k, LLVMValueRef a)
{
    return f_intrinsic(k, "fabs", a);
}
static inline LLVMValueRef f_copysign(Kernel *k, LLVMValueRef size, LLVMValueRef sign)
{
    return f_intrinsic2(k, "copysign", size, sign);
}
/* A condition that is known chooses at once. */
static inline LLVMValueRef choose(Kernel *k, LLVMValueRef condition, LLVMValueRef a,
                                  LLVMValueRef b)
{
    if (LLVMIsAConstantInt(condition))
        return LLVMConstIntGetZExtValue(condition) ? a : b;
    return LLVMBuildSelect(k->builder, condition, a, b, "");
}

#endif
