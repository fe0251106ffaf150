/* The functions that an emulated kernel may call, by name: the emulator's own (abi.def),
 * libm's, and what compilers leave to their run-time library. The half and bfloat helpers are
 * written here because libgcc 12 lacks them; a 16-bit float travels in the low bits of a
 * float register, whatever C calls the type. */
#include <math.h>
#include <string.h>

#include "ir/number/number.h"
#include "runtime/emu/object.h"

typedef union FloatBits {
    float value;
    uint32_t bits;
} FloatBits;

static float low_bits(uint16_t bits)
{
    FloatBits u = {.bits = bits};
    return u.value;
}

static float trunc_sf_bf(float x)
{
    return low_bits((uint16_t)number_from_float(DT_BF16, x));
}

static float trunc_df_bf(double x)
{
    return low_bits((uint16_t)number_from_double(DT_BF16, x));
}

static float trunc_sf_hf(float x)
{
    return low_bits((uint16_t)number_from_float(DT_F16, x));
}

static float trunc_df_hf(double x)
{
    return low_bits((uint16_t)number_from_double(DT_F16, x));
}

static float extend_hf_sf(float x)
{
    FloatBits u = {x};
    return number_f16_to_float((uint16_t)u.bits);
}

static double extend_hf_df(float x)
{
    return (double)extend_hf_sf(x);
}

static float extend_bf_sf(float x)
{
    FloatBits u = {x};
    u.bits <<= 16;
    return u.value;
}

__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 WideUnsigned;

static Wide multiply_wide(Wide a, Wide b)
{
    return a * b;
}

static Wide divide_wide(Wide a, Wide b)
{
    return a / b;
}

static Wide remainder_wide(Wide a, Wide b)
{
    return a % b;
}

static WideUnsigned divide_wide_unsigned(WideUnsigned a, WideUnsigned b)
{
    return a / b;
}

static WideUnsigned remainder_wide_unsigned(WideUnsigned a, WideUnsigned b)
{
    return a % b;
}

/* clang-format off */
#define LIBM_BOTH(X)                                                                     \
    X(acos) X(acosh) X(asin) X(asinh) X(atan) X(atan2) X(atanh) X(cbrt) X(ceil)          \
    X(copysign) X(cos) X(cosh) X(erf) X(erfc) X(exp) X(exp2) X(expm1) X(fabs) X(floor)   \
    X(fma) X(fmax) X(fmin) X(fmod) X(frexp) X(hypot) X(ldexp) X(lgamma) X(log) X(log10)  \
    X(log1p) X(log2) X(lrint) X(llrint) X(modf) X(nearbyint) X(pow) X(remainder) X(rint) \
    X(round) X(scalbn) X(sin) X(sinh) X(sqrt) X(tan) X(tanh) X(tgamma) X(trunc)
/* clang-format on */

static uintptr_t libm_find(const char *name)
{
#define X(function)                                                                      \
    if (strcmp(name, #function) == 0)                                                    \
        return (uintptr_t)(function);                                                    \
    if (strcmp(name, #function "f") == 0)                                                \
        return (uintptr_t)(function##f);
    LIBM_BOTH(X)
#undef X
    return 0;
}

#define FUNCTION(f) ((void (*)(void))(f))

typedef struct Export {
    const char *name;
    void (*function)(void);
} Export;

static const Export exports[] = {
#define EMU_FUNCTION(name, result, parameters) {#name, FUNCTION(name)},
#include "runtime/emu/abi.def"
    {"memcpy", FUNCTION(memcpy)},
    {"memmove", FUNCTION(memmove)},
    {"memset", FUNCTION(memset)},
    {"memcmp", FUNCTION(memcmp)},
    {"roundeven", FUNCTION(rint)}, /* the rounding mode is to nearest even */
    {"roundevenf", FUNCTION(rintf)},
    {"__truncsfbf2", FUNCTION(trunc_sf_bf)},
    {"__truncdfbf2", FUNCTION(trunc_df_bf)},
    {"__extendbfsf2", FUNCTION(extend_bf_sf)},
    {"__truncsfhf2", FUNCTION(trunc_sf_hf)},
    {"__truncdfhf2", FUNCTION(trunc_df_hf)},
    {"__extendhfsf2", FUNCTION(extend_hf_sf)},
    {"__extendhfdf2", FUNCTION(extend_hf_df)},
    {"__divti3", FUNCTION(divide_wide)},
    {"__modti3", FUNCTION(remainder_wide)},
    {"__multi3", FUNCTION(multiply_wide)},
    {"__udivti3", FUNCTION(divide_wide_unsigned)},
    {"__umodti3", FUNCTION(remainder_wide_unsigned)},
};

uintptr_t export_find(const char *name)
{
    for (size_t i = 0; i < sizeof exports / sizeof exports[0]; i++)
        if (strcmp(name, exports[i].name) == 0)
            return (uintptr_t)exports[i].function;
    return libm_find(name);
}
