/* See element.h. */
#include "runtime/emu/element.h"

#include <math.h>
#include <string.h>

double element_get(DType t, const unsigned char *p)
{
    switch (t) {
    case DT_F32: {
        float value;
        memcpy(&value, p, 4);
        return (double)value;
    }
    case DT_BF16:
    case DT_F16: {
        uint16_t bits;
        memcpy(&bits, p, 2);
        return (double)(t == DT_BF16 ? number_bf16_to_float(bits)
                                     : number_f16_to_float(bits));
    }
    case DT_PRED:
        return *p != 0;
    default:
        return number_get_double(t, p);
    }
}

void element_set(DType t, unsigned char *p, double value)
{
    if (dtype_info[t].class == DTC_SINT || dtype_info[t].class == DTC_UINT) {
        number_store(t, p, number_saturate(t, rint(value)));
        return;
    }
    if (t == DT_PRED) {
        *p = value != 0;
        return;
    }
    double most = dtype_info[t].bits == 8 ? number_max_finite(t) : 0;
    if (most != 0 && fabs(value) > most)
        value = copysign(most, value);
    if (t == DT_F64)
        memcpy(p, &value, 8);
    else
        number_store(t, p, number_from_float(t, (float)value));
}

float element_round_tf32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000) != 0x7f800000)
        bits = (bits + 0x1000) & 0xffffe000;
    memcpy(&x, &bits, sizeof x);
    return x;
}
