/* convert() of HLO over arrays: a row is widened in blocks to one of four canonical types -
 * float, double, int64_t, uint64_t, none of which loses anything - and narrowed from there. So
 * n types need 2n loops instead of n * n, and no loop decides anything per element. */
#include "ir/number/number.h"

#include <string.h>

enum { BLOCK = 256 };

typedef enum { WIDE_FLOAT, WIDE_DOUBLE, WIDE_SIGNED, WIDE_UNSIGNED } WideKind;

typedef union {
    float f[BLOCK];
    double d[BLOCK];
    int64_t s[BLOCK];
    uint64_t u[BLOCK];
} Wide;

static WideKind wide_kind(DType t)
{
    if (t == DT_F64)
        return WIDE_DOUBLE;
    if (dtype_info[t].class == DTC_FLOAT)
        return WIDE_FLOAT;
    return t == DT_U64 ? WIDE_UNSIGNED : WIDE_SIGNED;
}

#define WIDEN(type, member, expression)                                                  \
    {                                                                                    \
        const type *from = in;                                                           \
        for (size_t i = 0; i < n; i++)                                                   \
            w->member[i] = (expression);                                                 \
        break;                                                                           \
    }

static void widen(DType t, const void *in, size_t n, Wide *w)
{
    switch (t) {
    case DT_PRED:
        WIDEN(uint8_t, s, from[i] != 0)
    case DT_S8:
        WIDEN(int8_t, s, from[i])
    case DT_S16:
        WIDEN(int16_t, s, from[i])
    case DT_S32:
        WIDEN(int32_t, s, from[i])
    case DT_S64:
        memcpy(w->s, in, n * sizeof(int64_t));
        break;
    case DT_U8:
        WIDEN(uint8_t, s, from[i])
    case DT_U16:
        WIDEN(uint16_t, s, from[i])
    case DT_U32:
        WIDEN(uint32_t, s, from[i])
    case DT_U64:
        memcpy(w->u, in, n * sizeof(uint64_t));
        break;
    case DT_F64:
        memcpy(w->d, in, n * sizeof(double));
        break;
    case DT_F32:
        memcpy(w->f, in, n * sizeof(float));
        break;
    case DT_BF16:
        WIDEN(uint16_t, f, number_bf16_to_float(from[i]))
    case DT_F16:
        WIDEN(uint16_t, f, number_f16_to_float(from[i]))
    default:
        if (dtype_info[t].class == DTC_FLOAT)
            WIDEN(uint8_t, f, number_to_float(t, from[i]))
        else
            WIDEN(uint8_t, s, number_get_int(t, &from[i]))
    }
}

#define NARROW(type, expression)                                                         \
    {                                                                                    \
        type *to = out;                                                                  \
        for (size_t i = 0; i < n; i++)                                                   \
            to[i] = (type)(expression);                                                  \
        return;                                                                          \
    }

static void narrow_float(DType t, void *out, size_t n, const float *x)
{
    switch (t) {
    case DT_F32:
        memcpy(out, x, n * sizeof *x);
        return;
    case DT_F64:
        NARROW(double, x[i])
    case DT_BF16:
        NARROW(uint16_t, number_float_to_bf16(x[i]))
    case DT_F16:
        NARROW(uint16_t, number_float_to_f16(x[i]))
    case DT_PRED:
        NARROW(uint8_t, x[i] != 0)
    case DT_S32:
        NARROW(int32_t, x[i] >= 0x1p31f   ? INT32_MAX
                        : x[i] < -0x1p31f ? INT32_MIN
                        : x[i] == x[i]    ? (int32_t)x[i]
                                          : 0)
    default:
        break;
    }
    char *to = out;
    for (size_t i = 0, step = dtype_info[t].storage; i < n; i++)
        number_set_double(t, to + i * step, (double)x[i]);
}

static void narrow_double(DType t, void *out, size_t n, const double *x)
{
    if (t == DT_F32)
        NARROW(float, x[i])
    char *to = out;
    for (size_t i = 0, step = dtype_info[t].storage; i < n; i++)
        number_set_double(t, to + i * step, x[i]);
}

static void narrow_int(DType t, void *out, size_t n, const int64_t *x)
{
    switch (t) {
    case DT_PRED:
        NARROW(uint8_t, x[i] != 0)
    case DT_S8:
    case DT_U8:
        NARROW(uint8_t, x[i])
    case DT_S16:
    case DT_U16:
        NARROW(uint16_t, x[i])
    case DT_S32:
    case DT_U32:
        NARROW(uint32_t, x[i])
    case DT_S64:
    case DT_U64:
        memcpy(out, x, n * sizeof *x);
        return;
    case DT_F32:
        NARROW(float, x[i])
    case DT_F64:
        NARROW(double, x[i])
    default:
        break;
    }
    char *to = out;
    for (size_t i = 0, step = dtype_info[t].storage; i < n; i++)
        number_set_int(t, to + i * step, x[i]);
}

static void narrow_unsigned(DType t, void *out, size_t n, const uint64_t *x)
{
    if (dtype_info[t].class != DTC_FLOAT) { /* the low bits are what counts */
        int64_t same[BLOCK];
        memcpy(same, x, n * sizeof *x);
        narrow_int(t, out, n, same);
        return;
    }
    char *to = out;
    for (size_t i = 0, step = dtype_info[t].storage; i < n; i++)
        number_store(t, to + i * step, number_from_uint(t, x[i]));
}

static void convert_real(DType to, void *out, DType from, const void *in, size_t n)
{
    char *dst = out;
    const char *src = in;
    size_t dst_step = dtype_info[to].storage, src_step = dtype_info[from].storage;
    if (to == from) {
        memcpy(out, in, n * src_step);
        return;
    }
    for (size_t done = 0; done < n; done += BLOCK) {
        Wide w;
        size_t count = n - done < BLOCK ? n - done : BLOCK;
        widen(from, src + done * src_step, count, &w);
        void *block = dst + done * dst_step;
        switch (wide_kind(from)) {
        case WIDE_FLOAT:
            narrow_float(to, block, count, w.f);
            break;
        case WIDE_DOUBLE:
            narrow_double(to, block, count, w.d);
            break;
        case WIDE_SIGNED:
            narrow_int(to, block, count, w.s);
            break;
        case WIDE_UNSIGNED:
            narrow_unsigned(to, block, count, w.u);
            break;
        }
    }
}

static void complex_to_pred(void *out, DType from, const void *in, size_t n)
{
    uint8_t *to = out;
    const char *src = in;
    for (size_t i = 0; i < n; i++) {
        double pair[2];
        number_get_complex(from, src + i * dtype_info[from].storage, pair);
        to[i] = pair[0] != 0 || pair[1] != 0;
    }
}

void number_convert(DType to, void *out, DType from, const void *in, size_t n)
{
    bool to_complex = dtype_info[to].class == DTC_COMPLEX;
    bool from_complex = dtype_info[from].class == DTC_COMPLEX;
    DType to_part = number_component(to), from_part = number_component(from);
    if (to_complex && from_complex) {
        convert_real(to_part, out, from_part, in, 2 * n);
    } else if (to_complex) {
        char *dst = out;
        const char *src = in;
        memset(out, 0, n * dtype_info[to].storage);
        for (size_t i = 0; i < n; i++)
            convert_real(to_part, dst + i * dtype_info[to].storage, from,
                         src + i * dtype_info[from].storage, 1);
    } else if (to == DT_PRED && from_complex) {
        complex_to_pred(out, from, in, n);
    } else if (from_complex) {
        char *dst = out;
        const char *src = in;
        for (size_t i = 0; i < n; i++)
            convert_real(to, dst + i * dtype_info[to].storage, from_part,
                         src + i * dtype_info[from].storage, 1);
    } else {
        convert_real(to, out, from, in, n);
    }
}
