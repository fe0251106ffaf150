/* The functions that an emulated kernel may call, by name: the emulator's own (emu_abi.def),
 * libm's, and what compilers leave to their run-time library. The half and bfloat helpers are
 * written here because libgcc 12 lacks them; a 16-bit float travels in the low bits of a
 * float register, whatever C calls the type. */
#include <math.h>
#include <string.h>

#include "ir/number.h"
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

#define LIBM_BOTH(X)                                                                     \
    X(acos)                                                                              \
    X(acosh)                                                                             \
    X(asin)                                                                              \
    X(asinh)                                                                             \
    X(atan)                                                                              \
    X(atan2)                                                                             \
    X(atanh) X(cbrt) X(ceil) X(copysign) X(cos) X(cosh) X(erf) X(erfc) X(exp) X(exp2)    \
        X(expm1) X(fabs) X(floor) X(fma) X(fmax) X(fmin) X(fmod) X(frexp) X(hypot)       \
            X(ldexp) X(lgamma) X(log) X(log10) X(log1p) X(log2) X(lrint) X(llrint)       \
                X(modf) X(nearbyint) X(pow) X(remainder) X(rint) X(round) X(scalbn)      \
                    X(sin) X(sinh) X(sqrt) X(tan) X(tanh) X(tgamma) X(trunc)

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

uintptr_t export_find(const char *name)
{
    static const struct {
        const char *name;
        void (*function)(void);
    } table[] = {
#define ROW(name, function) {name, (void (*)(void))(function)},
#define EMU_FUNCTION(name, result, parameters) ROW(#name, name)
#include "runtime/emu_abi.def"
        ROW("memcpy", memcpy) ROW("memmove", memmove) ROW("memset", memset)
            ROW("memcmp", memcmp) ROW("__truncsfbf2", trunc_sf_bf) ROW("__truncdfbf2",
                                                                       trunc_df_bf)
                ROW("__extendbfsf2", extend_bf_sf) ROW("__truncsfhf2", trunc_sf_hf)
                    ROW("__truncdfhf2", trunc_df_hf) ROW("__extendhfsf2", extend_hf_sf)
                        ROW("__extendhfdf2", extend_hf_df) ROW("__divti3", divide_wide)
                            ROW("__modti3", remainder_wide) ROW("__multi3", multiply_wide)
                                ROW("__udivti3", divide_wide_unsigned)
                                    ROW("__umodti3", remainder_wide_unsigned)
#undef ROW
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(name, table[i].name) == 0)
            return (uintptr_t)table[i].function;
    return libm_find(name);
}
