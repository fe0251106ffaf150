/* Element types: questions about them that the compiler asks. The facts are in dtypes.def. */
#ifndef GXC_IR_DTYPE_H
#define GXC_IR_DTYPE_H

#include "ir/number/number.h"

/* False: no primitive type has this name ("tuple" and "buffer" are none). */
bool dtype_from_name(const char *name, size_t length, DType *out);
/* False: no primitive type has this number in HloModuleProto. */
bool dtype_from_proto(int64_t proto, DType *out);

static inline const char *dtype_name(DType t)
{
    return dtype_info[t].name;
}

static inline size_t dtype_storage_bytes(DType t) /* of one element in a literal */
{
    return dtype_info[t].storage;
}

static inline bool dtype_is_float(DType t)
{
    return dtype_info[t].class == DTC_FLOAT;
}

static inline bool dtype_is_half(DType t) /* a float of 16 bits: f16, bf16 */
{
    return dtype_is_float(t) && dtype_info[t].bits == 16;
}

/* A float of 8 bits of the Open Compute Project, which tensor cores multiply: f8e4m3fn, f8e5m2, and no other. */
static inline bool dtype_is_ofp8(DType t)
{
    return t == DT_F8E4M3FN || t == DT_F8E5M2;
}

static inline bool dtype_is_complex(DType t)
{
    return dtype_info[t].class == DTC_COMPLEX;
}

static inline bool dtype_is_signed(DType t) /* signed integers only */
{
    return dtype_info[t].class == DTC_SINT;
}

static inline bool dtype_is_unsigned(DType t) /* unsigned integers only */
{
    return dtype_info[t].class == DTC_UINT;
}

static inline bool dtype_is_integer(DType t) /* pred is none */
{
    return dtype_is_signed(t) || dtype_is_unsigned(t);
}

static inline bool dtype_is_array(DType t) /* may be the element of an array */
{
    return dtype_info[t].class != DTC_OTHER;
}

static inline bool dtype_is_sub_byte(DType t)
{
    return dtype_info[t].bits != 0 && dtype_info[t].bits < 8;
}

/* The type that implicit conversion between two types of one kind gives: complex before float
 * before integer; floats: larger largest exponent, then more mantissa bits, then wider;
 * integers: wider, then signed. */
DType dtype_higher_precision(DType a, DType b);

DType dtype_complex_of(
    DType component); /* f32 -> c64, f64 -> c128, others: bug of the caller */

#endif
