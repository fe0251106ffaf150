/* Number formats: encoding, decoding and conversion. The one thing to know: every float format
 * but f32 and f64 goes through encode(), which rounds the exact double once. Since a double
 * holds every value of every smaller format, decoding and widening are exact. */
#include "ir/number/number.h"

#include <math.h>
#include <string.h>

/* clang-format off */
const DTypeInfo dtype_info[DT_COUNT] = {
#define DTYPE(id, name, class, bits, storage, exponent, mantissa, bias, special, digits, text, proto) \
    [DT_##id] = {name, DTC_##class, bits, storage, exponent, mantissa, bias, SPECIAL_##special, digits, text, proto},
#include "ir/dtypes.def"
#undef DTYPE
    [DT_INVALID] = {"invalid", DTC_OTHER, 0, 0, 0, 0, 0, SPECIAL_NONE, 0, false, 0},
    [DT_TUPLE] = {"tuple", DTC_OTHER, 0, 0, 0, 0, 0, SPECIAL_NONE, 0, false, 13},
    [DT_BUFFER] = {"buffer", DTC_OTHER, 0, 0, 0, 0, 0, SPECIAL_NONE, 0, false, 0},
};
/* clang-format on */

static uint64_t double_bits(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static double bits_double(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static uint32_t float_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float bits_float(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* --- Formats --- */

/* The largest code without sign that is a finite number. */
static uint64_t finite_limit(const DTypeInfo *f)
{
    uint64_t all = ((uint64_t)1 << (f->exponent_bits + f->mantissa_bits)) - 1;
    switch (f->special) {
    case SPECIAL_IEEE:
        return all - ((uint64_t)1 << f->mantissa_bits);
    case SPECIAL_FN:
    case SPECIAL_E8M0:
        return all - 1;
    case SPECIAL_FNUZ:
    case SPECIAL_FINITE:
    case SPECIAL_NONE:
        return all;
    }
    return all;
}

static uint64_t sign_bit(const DTypeInfo *f)
{
    return (uint64_t)1 << (f->exponent_bits + f->mantissa_bits);
}

static uint64_t nan_code(const DTypeInfo *f, bool negative)
{
    uint64_t sign = negative ? sign_bit(f) : 0;
    switch (f->special) {
    case SPECIAL_IEEE:
        return sign | (finite_limit(f) + 1) | (uint64_t)1 << (f->mantissa_bits - 1);
    case SPECIAL_FN:
        return sign | (finite_limit(f) + 1);
    case SPECIAL_FNUZ:
    case SPECIAL_FINITE:
    case SPECIAL_E8M0: /* encode_e8m0 does not ask */
    case SPECIAL_NONE:
        return sign_bit(f);
    }
    return 0;
}

static uint64_t overflow_code(const DTypeInfo *f, bool negative)
{
    uint64_t sign = negative ? sign_bit(f) : 0;
    if (f->special == SPECIAL_IEEE)
        return sign | (finite_limit(f) + 1);
    if (f->special == SPECIAL_FINITE)
        return sign | finite_limit(f);
    return nan_code(f, negative);
}

static uint64_t encode_e8m0(double x, bool *overflow)
{
    if (x > 0 && x <= 0x1p-127)
        return 0;
    if (!(x > 0 && x < 0x1.8p127)) {
        *overflow = true;
        return 0xff;
    }
    if (x < 0x1p-126)
        return 1;
    uint64_t u = double_bits(x);
    return (u >> 52) - 1023 + 127 + (u >> 51 & 1); /* halfway cases go up */
}

/* Rounds sig / 2^shift to nearest even; sig < 2^53. */
static uint64_t shift_round(uint64_t sig, int shift)
{
    if (shift >= 54)
        return 0;
    uint64_t half = (uint64_t)1 << (shift - 1);
    uint64_t q = sig >> shift, remainder = sig & (2 * half - 1);
    return q + (remainder > half || (remainder == half && (q & 1)));
}

/* Sets *overflow, which nobody else does, where a finite x became something that is not its rounded value. */
static uint64_t encode(const DTypeInfo *f, double x, bool *overflow)
{
    if (f->special == SPECIAL_E8M0)
        return encode_e8m0(x, overflow);
    uint64_t u = double_bits(x), magnitude = u & ~((uint64_t)1 << 63);
    bool negative = u >> 63;
    uint64_t infinity = (uint64_t)0x7ff << 52;
    if (magnitude > infinity)
        return nan_code(f, negative);
    if (magnitude == infinity)
        return overflow_code(f, negative);
    int exponent = (int)(magnitude >> 52) - 1023, least = 1 - f->bias;
    /* Zeros and subnormal doubles are far below half of every format's least number, whatever sig is. */
    uint64_t implicit = (uint64_t)1 << 52, sig = (magnitude & (implicit - 1)) | implicit;
    int shift = 52 - f->mantissa_bits;
    uint64_t code;
    if (exponent < least) {
        code = shift_round(sig, shift + (least - exponent));
    } else {
        uint64_t rounded =
            shift_round(sig, shift); /* carries into the exponent by itself */
        code = ((uint64_t)(exponent + f->bias - 1) << f->mantissa_bits) + rounded;
    }
    if (code > finite_limit(f)) {
        *overflow = true;
        return overflow_code(f, negative);
    }
    if (code == 0 && f->special == SPECIAL_FNUZ)
        return 0;
    return negative ? code | sign_bit(f) : code;
}

static double power_of_two(int exponent) /* -1022 .. 1023 */
{
    return bits_double((uint64_t)(exponent + 1023) << 52);
}

static double decode(const DTypeInfo *f, uint64_t code)
{
    if (f->special == SPECIAL_E8M0) {
        code &= 0xff;
        return code == 0xff ? (double)NAN : power_of_two((int)code - 127);
    }
    bool negative = code & sign_bit(f);
    uint64_t magnitude = code & (sign_bit(f) - 1);
    uint64_t sign = (uint64_t)negative << 63;
    if (f->special == SPECIAL_FNUZ && negative && magnitude == 0)
        return bits_double(sign | (uint64_t)0x7ff8 << 48);
    if (magnitude > finite_limit(f)) {
        uint64_t mantissa = magnitude & (((uint64_t)1 << f->mantissa_bits) - 1);
        bool is_infinity = f->special == SPECIAL_IEEE && mantissa == 0;
        return bits_double(sign | (uint64_t)(is_infinity ? 0x7ff0 : 0x7ff8) << 48);
    }
    uint64_t exponent = magnitude >> f->mantissa_bits;
    uint64_t mantissa = magnitude & (((uint64_t)1 << f->mantissa_bits) - 1);
    if (exponent == 0) {
        double x = (double)mantissa * power_of_two(1 - f->bias - f->mantissa_bits);
        return negative ? -x : x;
    }
    uint64_t e = exponent + 1023 - (uint64_t)f->bias;
    return bits_double(sign | e << 52 | mantissa << (52 - f->mantissa_bits));
}

uint64_t number_from_double(DType t, double value)
{
    bool overflow;
    if (t == DT_F64)
        return double_bits(value);
    if (t == DT_F32)
        return float_bits((float)value);
    return dtype_info[t].class == DTC_FLOAT ? encode(&dtype_info[t], value, &overflow)
                                            : 0;
}

uint64_t number_from_float(DType t, float value)
{
    if (t == DT_F32)
        return float_bits(value);
    if (t == DT_BF16)
        return number_float_to_bf16(value);
    if (t == DT_F16)
        return number_float_to_f16(value);
    return number_from_double(t, (double)value);
}

double number_to_double(DType t, uint64_t bits)
{
    if (t == DT_F64)
        return bits_double(bits);
    if (t == DT_F32)
        return (double)bits_float((uint32_t)bits);
    return dtype_info[t].class == DTC_FLOAT ? decode(&dtype_info[t], bits) : 0;
}

float number_to_float(DType t, uint64_t bits)
{
    if (t == DT_F32)
        return bits_float((uint32_t)bits);
    if (t == DT_BF16)
        return number_bf16_to_float((uint16_t)bits);
    if (t == DT_F16)
        return number_f16_to_float((uint16_t)bits);
    return (float)number_to_double(t, bits);
}

bool number_fits(DType t, double value)
{
    bool overflow = false;
    if (t == DT_F32)
        overflow = isfinite(value) && isinf((float)value);
    else if (t != DT_F64 &&
             dtype_info[t].special !=
                 SPECIAL_FINITE) /* the largest number is its rounded value */
        encode(&dtype_info[t], value, &overflow);
    return !overflow || !isfinite(value);
}

uint16_t number_float_to_bf16(float value)
{
    uint32_t u = float_bits(value);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)((u >> 16 & 0x8000) | 0x7fc0);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float number_bf16_to_float(uint16_t bits)
{
    return bits_float((uint32_t)bits << 16);
}

uint16_t number_float_to_f16(float value)
{
    uint32_t u = float_bits(value), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a >= 0x47800000) /* 2^16 and above, infinity, NaN */
        return (uint16_t)(sign | (a > 0x7f800000 ? 0x7e00 : 0x7c00));
    if (a < 0x38800000) { /* below 2^-14: the addition of 0.5 rounds at 2^-24 */
        float shifted = bits_float(a) + 0.5f;
        return (uint16_t)(sign | (float_bits(shifted) - 0x3f000000));
    }
    uint32_t rounded = a - 0x38000000 + 0xfff + (a >> 13 & 1); /* may carry to infinity */
    return (uint16_t)(sign | rounded >> 13);
}

float number_f16_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, a = bits & 0x7fff;
    if (a < 0x400) {
        float x = (float)a * 0x1p-24f;
        return bits_float(sign | float_bits(x));
    }
    if (a > 0x7c00)
        a |= 0x200; /* quiet */
    uint32_t rebias = a >= 0x7c00 ? 0x70000000 : 0x38000000;
    return bits_float(sign | ((a << 13) + rebias));
}

/* --- Elements --- */

uint64_t number_load(DType t, const void *element)
{
    uint64_t u = 0;
    memcpy(&u, element, dtype_info[t].storage); /* little-endian hosts only */
    if (dtype_info[t].bits < 8)
        u &= ((uint64_t)1 << dtype_info[t].bits) - 1;
    return u;
}

void number_store(DType t, void *element, uint64_t bits)
{
    unsigned width = dtype_info[t].bits;
    if (width < 8) {
        bits &= ((uint64_t)1 << width) - 1;
        if (dtype_info[t].class == DTC_SINT && bits >> (width - 1))
            bits |= ~(uint64_t)0 << width;
    }
    memcpy(element, &bits, dtype_info[t].storage);
}

DType number_component(DType t)
{
    return t == DT_C64 ? DT_F32 : t == DT_C128 ? DT_F64 : t;
}

static int64_t sign_extend(uint64_t u, unsigned width)
{
    uint64_t top = (uint64_t)1 << (width - 1);
    return (int64_t)((u ^ top) - top);
}

uint64_t number_saturate(DType t, double x)
{
    unsigned width = dtype_info[t].bits;
    if (dtype_info[t].class == DTC_SINT) {
        double limit = power_of_two((int)width - 1);
        uint64_t top = (uint64_t)1 << (width - 1);
        if (x >= limit)
            return top - 1;
        if (x < -limit)
            return (uint64_t)0 - top;
        return x == x ? (uint64_t)(int64_t)x : 0;
    }
    if (x >= power_of_two((int)width))
        return ~(uint64_t)0 >> (64 - width);
    return x > 0 ? (uint64_t)x : 0;
}

/* A double that rounds to any format of at most 50 mantissa bits as the integer does. */
static double odd_double(uint64_t magnitude, bool negative)
{
    double x;
    if (magnitude >> 53) {
        uint64_t sticky = (magnitude & 0x7ff) != 0;
        x = (double)(magnitude >> 11 | sticky) * 2048.0;
    } else {
        x = (double)magnitude;
    }
    return negative ? -x : x;
}

uint64_t number_from_int(DType t, int64_t value)
{
    if (t == DT_F64)
        return double_bits((double)value);
    if (t == DT_F32)
        return float_bits((float)value);
    uint64_t magnitude = value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
    return number_from_double(t, odd_double(magnitude, value < 0));
}

uint64_t number_from_uint(DType t, uint64_t value)
{
    if (t == DT_F64)
        return double_bits((double)value);
    if (t == DT_F32)
        return float_bits((float)value);
    return number_from_double(t, odd_double(value, false));
}

double number_get_double(DType t, const void *element)
{
    t = number_component(t);
    uint64_t u = number_load(t, element);
    switch (dtype_info[t].class) {
    case DTC_FLOAT:
        return number_to_double(t, u);
    case DTC_SINT:
        return (double)sign_extend(u, dtype_info[t].bits);
    case DTC_UINT:
        return (double)u;
    case DTC_PRED:
        return u != 0;
    case DTC_COMPLEX:
    case DTC_OTHER:
        break;
    }
    return 0;
}

int64_t number_get_int(DType t, const void *element)
{
    t = number_component(t);
    uint64_t u = number_load(t, element);
    switch (dtype_info[t].class) {
    case DTC_FLOAT:
        return (int64_t)number_saturate(DT_S64, number_to_double(t, u));
    case DTC_SINT:
        return sign_extend(u, dtype_info[t].bits);
    case DTC_UINT:
        return (int64_t)u;
    case DTC_PRED:
        return u != 0;
    case DTC_COMPLEX:
    case DTC_OTHER:
        break;
    }
    return 0;
}

void number_set_complex(DType t, void *element, double re, double im)
{
    if (t == DT_C64) {
        float pair[2] = {(float)re, (float)im};
        memcpy(element, pair, sizeof pair);
    } else {
        double pair[2] = {re, im};
        memcpy(element, pair, sizeof pair);
    }
}

void number_get_complex(DType t, const void *element, double out[2])
{
    if (t == DT_C64) {
        float pair[2];
        memcpy(pair, element, sizeof pair);
        out[0] = (double)pair[0];
        out[1] = (double)pair[1];
    } else {
        memcpy(out, element, 2 * sizeof *out);
    }
}

void number_set_double(DType t, void *element, double value)
{
    switch (dtype_info[t].class) {
    case DTC_FLOAT:
        number_store(t, element, number_from_double(t, value));
        break;
    case DTC_SINT:
    case DTC_UINT:
        number_store(t, element, number_saturate(t, value));
        break;
    case DTC_PRED:
        number_store(t, element, value != 0);
        break;
    case DTC_COMPLEX:
        number_set_complex(t, element, value, 0);
        break;
    case DTC_OTHER:
        break;
    }
}

void number_set_int(DType t, void *element, int64_t value)
{
    switch (dtype_info[t].class) {
    case DTC_FLOAT:
        number_store(t, element, number_from_int(t, value));
        break;
    case DTC_SINT:
    case DTC_UINT:
        number_store(t, element, (uint64_t)value);
        break;
    case DTC_PRED:
        number_store(t, element, value != 0);
        break;
    case DTC_COMPLEX:
        memset(element, 0, dtype_info[t].storage);
        t = number_component(t);
        number_store(t, element, number_from_int(t, value));
        break;
    case DTC_OTHER:
        break;
    }
}

bool number_is_nan(DType t, const void *element)
{
    if (dtype_info[t].class == DTC_COMPLEX) {
        double pair[2];
        number_get_complex(t, element, pair);
        return isnan(pair[0]) || isnan(pair[1]);
    }
    return isnan(
        number_to_double(t, number_load(t, element))); /* 0 of what is no float */
}

uint64_t number_rank(DType t, const void *element)
{
    uint64_t bits = number_load(t, element);
    uint32_t width = dtype_info[t].bits;
    DTypeClass class = dtype_info[t].class;
    if (class == DTC_PRED || class == DTC_UINT)
        return bits;
    uint64_t mask = width == 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1;
    uint64_t sign = (uint64_t)1 << (width - 1);
    bits &= mask;
    if (class != DTC_FLOAT)
        return bits ^ sign;
    if (dtype_info[t].special == SPECIAL_E8M0) /* no sign */
        return bits;
    if (dtype_info[t].special ==
        SPECIAL_FNUZ) /* the code of -0 is -NaN, below all others */
        return bits == sign ? 0 : ((bits & sign) != 0 ? ~bits & mask : bits | sign) + 1;
    return (bits & sign) != 0 ? ~bits & mask : bits | sign;
}

/* --- Limits --- */

double number_max_finite(DType t)
{
    const DTypeInfo *f = &dtype_info[t];
    switch (f->class) {
    case DTC_FLOAT:
    case DTC_COMPLEX:
        t = number_component(t);
        return number_to_double(t, finite_limit(f));
    case DTC_SINT:
        return (double)(((uint64_t)1 << (f->bits - 1)) - 1);
    case DTC_UINT:
        return (double)(~(uint64_t)0 >> (64 - f->bits));
    case DTC_PRED:
        return 1;
    case DTC_OTHER:
        break;
    }
    return 0;
}

double number_least_positive(DType t)
{
    return number_to_double(t, dtype_info[t].special == SPECIAL_E8M0 ? 0 : 1);
}

double number_min_finite(DType t)
{
    const DTypeInfo *f = &dtype_info[t];
    if (f->special == SPECIAL_E8M0)
        return 0x1p-127;
    if (f->class == DTC_FLOAT || f->class == DTC_COMPLEX)
        return -number_max_finite(t);
    return f->class == DTC_SINT ? -power_of_two(f->bits - 1) : 0;
}

static void store_limit(DType t, void *element, bool lowest)
{
    const DTypeInfo *f = &dtype_info[t];
    if (f->class == DTC_COMPLEX) {
        double x = lowest ? -(double)INFINITY : (double)INFINITY;
        number_set_complex(t, element, x, x);
    } else if (f->class == DTC_FLOAT) {
        bool has_infinity = f->special == SPECIAL_IEEE;
        double finite = lowest ? number_min_finite(t) : number_max_finite(t);
        double x =
            has_infinity ? (lowest ? -(double)INFINITY : (double)INFINITY) : finite;
        number_store(t, element, number_from_double(t, x));
    } else if (f->class == DTC_SINT) {
        uint64_t top = (uint64_t)1 << (f->bits - 1);
        number_store(t, element, lowest ? (uint64_t)0 - top : top - 1);
    } else {
        uint64_t highest = f->class == DTC_PRED ? 1 : ~(uint64_t)0;
        number_store(t, element, lowest ? 0 : highest);
    }
}

void number_lowest(DType t, void *element)
{
    store_limit(t, element, true);
}

void number_highest(DType t, void *element)
{
    store_limit(t, element, false);
}

/* --- Packing --- */

size_t number_packed_bytes(DType t, size_t n)
{
    size_t bits = dtype_info[t].bits;
    if (bits == 1 || bits == 2 || bits == 4)
        return (n * bits + 7) / 8;
    return n * dtype_info[t].storage;
}

void number_pack(DType t, void *packed, const void *elements, size_t n)
{
    unsigned bits = dtype_info[t].bits;
    if (bits != 1 && bits != 2 && bits != 4) {
        memcpy(packed, elements, n * dtype_info[t].storage);
        return;
    }
    uint8_t *to = packed;
    const uint8_t *from = elements;
    unsigned mask = (1u << bits) - 1;
    memset(to, 0, number_packed_bytes(t, n));
    for (size_t i = 0; i < n; i++)
        to[i * bits / 8] |= (uint8_t)((from[i] & mask) << (i * bits % 8));
}

void number_unpack(DType t, void *elements, const void *packed, size_t n)
{
    unsigned bits = dtype_info[t].bits;
    if (bits != 1 && bits != 2 && bits != 4) {
        memcpy(elements, packed, n * dtype_info[t].storage);
        return;
    }
    uint8_t *to = elements;
    const uint8_t *from = packed;
    unsigned mask = (1u << bits) - 1;
    for (size_t i = 0; i < n; i++)
        number_store(t, to + i, from[i * bits / 8] >> (i * bits % 8) & mask);
}

/* --- Tolerances --- */

/* About four units in the last place of the type, and for f32 and f64 room for sums taken in
 * another order. */
Tolerance number_tolerance(DType t)
{
    Tolerance exact = {0, 0};
    if (dtype_info[t].class != DTC_FLOAT && dtype_info[t].class != DTC_COMPLEX)
        return exact;
    switch (number_component(t)) {
    case DT_F64:
        return (Tolerance){1e-9, 1e-11};
    case DT_F32:
        return (Tolerance){1e-4, 1e-5};
    case DT_F16:
        return (Tolerance){4e-3, 1e-3};
    case DT_BF16:
        return (Tolerance){3.2e-2, 8e-3};
    default: { /* one unit: neighbours of a value that lies near a tie */
        double unit = power_of_two(-dtype_info[t].mantissa_bits);
        return (Tolerance){unit, unit / 8};
    }
    }
}
