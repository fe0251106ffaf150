/* Number formats: every element type of dtypes.def, its values, its text, its conversions.
 *
 * Elements are passed in storage form, as literals and .npy files keep them: the integers and
 * f32, f64 as in C, every smaller float as its raw code in a uint8_t or uint16_t, types below
 * 8 bits one per byte, complex numbers as two components. Nothing here depends on the locale
 * or on the CPU model; the rounding mode must be to nearest even.
 *
 * Conversions round once, to nearest even, from the exact value of the source. What happens
 * above the largest finite number depends on the format: those with infinities give them, FN
 * and FNUZ give NaN, FINITE saturates. NaN keeps its sign and becomes the format's quiet NaN;
 * FINITE gives negative zero. E8M0 rounds halfway cases up, everything not above 2^-127 but
 * positive gives 2^-127, and zero, negative numbers, infinities and NaN give NaN. */
#ifndef GXC_IR_NUMBER_NUMBER_H
#define GXC_IR_NUMBER_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    DT_INVALID, /* no type; what zeroed memory holds */
#define DTYPE(id, ...) DT_##id,
#include "ir/dtypes.def"
#undef DTYPE
    DT_TUPLE,
    DT_BUFFER,
    DT_COUNT
} DType;

typedef enum {
    DTC_PRED,
    DTC_SINT,
    DTC_UINT,
    DTC_FLOAT,
    DTC_COMPLEX,
    DTC_OTHER
} DTypeClass;

typedef enum {
    SPECIAL_NONE,
    SPECIAL_IEEE,
    SPECIAL_FN,
    SPECIAL_FNUZ,
    SPECIAL_E8M0,
    SPECIAL_FINITE
} SpecialKind;

typedef struct DTypeInfo {
    const char *name;
    DTypeClass class;
    uint8_t bits;          /* in device memory */
    uint8_t storage;       /* bytes in literals */
    uint8_t exponent_bits; /* complex: of a component, as the next three */
    uint8_t mantissa_bits;
    int16_t bias;
    SpecialKind special;
    uint8_t digits;
    bool text_only;
    uint8_t proto;
} DTypeInfo;

/* DT_INVALID, DT_TUPLE and DT_BUFFER have names and class OTHER. */
extern const DTypeInfo dtype_info[DT_COUNT];

/* One float. `bits` is the code in the low bits; other types are bug of the caller: 0. */
uint64_t number_from_double(DType t, double value);
uint64_t number_from_float(DType t, float value);
double number_to_double(DType t, uint64_t bits);
float number_to_float(DType t, uint64_t bits); /* f64 rounds */
uint64_t number_from_int(DType t, int64_t value);
uint64_t number_from_uint(DType t, uint64_t value);
/* False: a finite value that is beyond the format's range even after rounding; formats of finite numbers alone take all. */
bool number_fits(DType t, double value);
/* Float to integer type: truncates toward zero, saturates, NaN gives 0. */
uint64_t number_saturate(DType t, double value);

/* The formats that are met most; same results as the general functions. */
uint16_t number_float_to_bf16(float value);
float number_bf16_to_float(uint16_t bits);
uint16_t number_float_to_f16(float value);
float number_f16_to_float(uint16_t bits);

/* Reads and writes the raw code of an element in storage form, zero-extended to 64 bits
 * (complex types: not allowed, do it by component). Store truncates to the type's width. */
uint64_t number_load(DType t, const void *element);
void number_store(DType t, void *element, uint64_t bits);

/* convert() of HLO for n elements; out and in must not overlap. Float to integer truncates,
 * saturates, NaN gives 0; between integers it wraps; to pred it is != 0; real to complex adds a
 * zero, complex to real drops the imaginary part. Types of class OTHER are not allowed. */
void number_convert(DType to, void *out, DType from, const void *in, size_t n);

/* Single elements in the widest form. number_get_double of an integer rounds. */
double number_get_double(DType t, const void *element); /* complex: the real part */
int64_t number_get_int(DType t,
                       const void *element); /* as convert to s64, but u64 wraps */
void number_set_double(DType t, void *element, double value);
void number_set_int(DType t, void *element, int64_t value);
void number_get_complex(DType t, const void *element, double out[2]);
void number_set_complex(DType t, void *element, double re, double im);

bool number_is_nan(DType t,
                   const void *element); /* complex: either component; ints: false */

/* A number that orders like the element, of no complex type. Floats: the total order, which is that of their bits, NaN's
 * too. */
uint64_t number_rank(DType t, const void *element);

/* Values every type has; written in storage form. Lowest and highest are what max and min
 * reductions start from: infinities where the format has them. Complex: component-wise. */
void number_lowest(DType t, void *element);
void number_highest(DType t, void *element);
double number_max_finite(DType t); /* floats and integers (rounded) */
double number_min_finite(DType t);
double number_least_positive(DType t); /* floats: denormal numbers count */

/* The real part's type of a complex type; any other type itself. */
DType number_component(DType t);

/* --- Text --- */

typedef enum {
    NUMBER_OK,
    NUMBER_SYNTAX,      /* no number token of the language */
    NUMBER_NOT_INTEGER, /* a float where the type is an integer */
    NUMBER_NOT_BOOL, /* neither true, false nor an integer, for pred; or a bool elsewhere */
    NUMBER_RANGE,    /* a finite number that the type cannot hold */
    NUMBER_RANGE_DOUBLE, /* not even double can hold it */
    NUMBER_NO_PAYLOAD,   /* the type's NaN takes no payload */
    NUMBER_PAYLOAD       /* payload is 0 or too wide */
} NumberStatus;

/* Reads one token (spec: INT, DEC, inf, -inf, nan, -nan with optional payload, true, false) as
 * an element of a non-complex type; `element` is written only for NUMBER_OK. */
NumberStatus number_parse(DType t, const char *text, size_t length, void *element);

/* The diagnostic's sentence for a status, NUL-terminated; `capacity` 256 always suffices. */
void number_status_text(NumberStatus st, DType t, const char *text, size_t length,
                        char *out, size_t capacity);

enum { NUMBER_TEXT_MAX = 96 }; /* bytes that number_print may write, NUL included */

/* Prints an element, complex ones as "(re, im)"; pred as true/false if `words`, else 1/0.
 * Returns the length without the NUL. `out` has NUMBER_TEXT_MAX bytes. */
size_t number_print(DType t, const void *element, bool words, char *out);

/* Prints like C's %.<digits>g in the C locale; for attributes such as epsilon. */
size_t number_print_double(double value, int digits, char *out);

/* Reads a decimal float as strtod in the C locale does, the whole of text[0..length). False:
 * not a number. Overflow gives an infinity. */
bool number_parse_double(const char *text, size_t length, double *out);

/* --- Packing of 1-, 2- and 4-bit types: element 0 in the low bits of byte 0 --- */

size_t number_packed_bytes(DType t,
                           size_t n); /* device bytes of n elements of any type */
void number_pack(DType t, void *packed, const void *elements, size_t n);
void number_unpack(DType t, void *elements, const void *packed, size_t n);

/* --- Tolerances: |got - want| <= atol + rtol * |want|, where nothing else is said --- */

typedef struct Tolerance {
    double rtol, atol;
} Tolerance;

Tolerance number_tolerance(DType t); /* integers, pred: zero */

#endif
