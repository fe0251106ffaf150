/* Element types: lookups by name and by number, and the order of precision. */
#include "ir/dtype.h"

#include <string.h>

/* Every word of a text asks this, so words that no type's name resembles go first: all names but
 * four are a letter and a number. */
static bool may_be_name(const char *name, size_t length)
{
    if (length < 2 || length > 13)
        return false;
    if (name[1] >= '0' && name[1] <= '9')
        return name[0] == 's' || name[0] == 'u' || name[0] == 'f' || name[0] == 'c';
    static const char other[][2] = {{'p', 'r'}, {'b', 'f'}, {'t', 'o'}, {'o', 'p'}};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        if (name[0] == other[i][0] && name[1] == other[i][1])
            return true;
    }
    return false;
}

bool dtype_from_name(const char *name, size_t length, DType *out)
{
    if (!may_be_name(name, length))
        return false;
    for (int t = DT_INVALID + 1; t < DT_TUPLE; t++) {
        const char *candidate = dtype_info[t].name;
        if (candidate[0] == name[0] && candidate[1] == name[1] &&
            strncmp(candidate, name, length) == 0 && candidate[length] == 0) {
            *out = (DType)t;
            return true;
        }
    }
    return false;
}

bool dtype_from_proto(int64_t proto, DType *out)
{
    for (int t = DT_INVALID + 1; t < DT_TUPLE; t++)
        if (dtype_info[t].proto == proto && proto != 0) {
            *out = (DType)t;
            return true;
        }
    return false;
}

/* Exponent of the power of two just above the largest finite number. */
static int overflow_exponent(DType t)
{
    const DTypeInfo *f = &dtype_info[t];
    int last = (1 << f->exponent_bits) - 1 - f->bias;
    return f->special == SPECIAL_IEEE || f->special == SPECIAL_E8M0 ? last : last + 1;
}

static int class_rank(DType t)
{
    switch (dtype_info[t].class) {
    case DTC_COMPLEX:
        return 3;
    case DTC_FLOAT:
        return 2;
    case DTC_SINT:
    case DTC_UINT:
        return 1;
    case DTC_PRED:
    case DTC_OTHER:
        return 0;
    }
    return 0;
}

DType dtype_higher_precision(DType a, DType b)
{
    const DTypeInfo *x = &dtype_info[a], *y = &dtype_info[b];
    if (class_rank(a) != class_rank(b))
        return class_rank(a) > class_rank(b) ? a : b;
    if (dtype_is_float(a)) {
        if (overflow_exponent(a) != overflow_exponent(b))
            return overflow_exponent(a) > overflow_exponent(b) ? a : b;
        if (x->mantissa_bits != y->mantissa_bits)
            return x->mantissa_bits > y->mantissa_bits ? a : b;
    }
    if (x->bits != y->bits)
        return x->bits > y->bits ? a : b;
    return dtype_is_signed(b) && !dtype_is_signed(a) ? b : a;
}

DType dtype_complex_of(DType component)
{
    return component == DT_F64 ? DT_C128 : DT_C64;
}
