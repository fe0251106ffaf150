/* Numbers as text. Neither strtod nor printf is given a decimal point to read or asked for one
 * that is kept: the point of the process's locale never matters. */
#include "ir/number/number.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Reading --- */

enum {
    DIGITS_KEPT =
        800 /* 767 significant digits decide any double; one more stands for the rest */
};

/* digits[0..count) * 10^exponent, count <= DIGITS_KEPT, no leading zero. */
typedef struct {
    char digits[DIGITS_KEPT + 1];
    int count;
    int64_t exponent;
    bool negative;
} Decimal;

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void push_digit(Decimal *d, char c, bool fraction)
{
    if (d->count == 0 && c == '0') {
        d->exponent -= fraction;
        return;
    }
    if (d->count < DIGITS_KEPT) {
        d->digits[d->count++] = c;
        d->exponent -= fraction;
    } else {
        if (c != '0')
            d->digits[DIGITS_KEPT - 1] = '1'; /* keeps "more than half" more than half */
        d->exponent += !fraction;
    }
}

static bool scan_decimal(const char *text, size_t length, Decimal *d)
{
    const char *p = text, *end = text + length;
    size_t seen = 0;
    d->count = 0;
    d->exponent = 0;
    d->negative = p < end && *p == '-';
    p += d->negative;
    for (; p < end && is_digit(*p); p++, seen++)
        push_digit(d, *p, false);
    if (p < end && *p == '.')
        for (p++; p < end && is_digit(*p); p++, seen++)
            push_digit(d, *p, true);
    if (seen == 0)
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        bool negative = p < end && *p == '-';
        if (p < end && (*p == '-' || *p == '+'))
            p++;
        if (p == end)
            return false;
        int64_t e = 0;
        for (; p < end && is_digit(*p); p++)
            e = e < 1000000000 ? e * 10 + (*p - '0') : e;
        d->exponent += negative ? -e : e;
    }
    return p == end;
}

static double decimal_value(Decimal *d)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    double x = 0;
    if (d->count <= 15 && d->exponent >= -22 && d->exponent <= 22) {
        /* Both factors are exact, so one operation rounds once (Clinger 1990). */
        int64_t integer = 0;
        for (int i = 0; i < d->count; i++)
            integer = integer * 10 + (d->digits[i] - '0');
        x = (double)integer;
        x = d->exponent < 0 ? x / power[-d->exponent] : x * power[d->exponent];
    } else if (d->count > 0) {
        char text[DIGITS_KEPT + 32];
        snprintf(text, sizeof text, "%.*se%" PRId64, d->count, d->digits, d->exponent);
        x = strtod(text, NULL);
    }
    return d->negative ? -x : x;
}

bool number_parse_double(const char *text, size_t length, double *out)
{
    Decimal d;
    if (!scan_decimal(text, length, &d))
        return false;
    *out = decimal_value(&d);
    return true;
}

static bool has_payload(DType t)
{
    return dtype_info[t].special == SPECIAL_IEEE;
}

/* digits: what follows "nan" in the token. */
static NumberStatus parse_nan(DType t, bool negative, const char *digits, size_t length,
                              void *element)
{
    unsigned mantissa = dtype_info[t].mantissa_bits;
    uint64_t bits = number_from_double(t, negative ? -(double)NAN : (double)NAN);
    if (length > 0) {
        uint64_t payload = 0;
        if (length < 5 || memcmp(digits, "(0x", 3) != 0 || digits[length - 1] != ')')
            return NUMBER_SYNTAX;
        for (size_t i = 3; i < length - 1; i++) {
            char c = digits[i];
            int digit = is_digit(c)            ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
            if (digit < 0)
                return NUMBER_SYNTAX;
            if (payload >> 60)
                return NUMBER_PAYLOAD;
            payload = payload << 4 | (uint64_t)digit;
        }
        if (!has_payload(t))
            return NUMBER_NO_PAYLOAD;
        if (payload == 0 || payload >> mantissa)
            return NUMBER_PAYLOAD;
        bits = (bits & ~(((uint64_t)1 << mantissa) - 1)) | payload;
    }
    number_store(t, element, bits);
    return NUMBER_OK;
}

static NumberStatus parse_float(DType t, const char *text, size_t length, void *element)
{
    bool negative = length > 0 && text[0] == '-';
    const char *word = text + negative;
    size_t digits = length - negative;
    double x = negative ? -(double)INFINITY : (double)INFINITY;
    if (digits >= 3 && memcmp(word, "nan", 3) == 0)
        return parse_nan(t, negative, word + 3, digits - 3, element);
    if (!(digits == 3 && memcmp(word, "inf", 3) == 0)) {
        Decimal d;
        if (!scan_decimal(text, length, &d))
            return NUMBER_SYNTAX;
        x = decimal_value(&d);
        if (isinf(x))
            return NUMBER_RANGE_DOUBLE;
        if (!number_fits(t, x))
            return NUMBER_RANGE;
        /* 5.9e-39 is how 2^-127 prints: text must come back to it */
        if (dtype_info[t].special == SPECIAL_E8M0 && x > 0x1p-127 && x < 0x1.8p-127)
            x = 0x1p-127;
    }
    number_store(t, element, number_from_double(t, x));
    return NUMBER_OK;
}

/* *magnitude is 0 before. */
static NumberStatus scan_integer(const char *text, size_t length, bool *negative,
                                 uint64_t *magnitude)
{
    *negative = length > 0 && text[0] == '-';
    if (length == *negative)
        return NUMBER_SYNTAX;
    for (size_t i = *negative; i < length; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (!is_digit(text[i]))
            return NUMBER_NOT_INTEGER;
        if (*magnitude > (UINT64_MAX - digit) / 10)
            return NUMBER_RANGE;
        *magnitude = *magnitude * 10 + digit;
    }
    return NUMBER_OK;
}

static NumberStatus parse_integer(DType t, const char *text, size_t length, void *element)
{
    bool negative;
    uint64_t magnitude = 0;
    NumberStatus st = scan_integer(text, length, &negative, &magnitude);
    if (st != NUMBER_OK)
        return st;
    const DTypeInfo *info = &dtype_info[t];
    uint64_t limit; /* of the magnitude */
    if (info->class == DTC_PRED) {
        limit = UINT64_MAX;
    } else if (info->class == DTC_SINT) {
        uint64_t top = (uint64_t)1 << (info->bits - 1);
        if (!negative && magnitude >> 63 != 0) { /* a pattern of 64 bits, with its sign */
            negative = true;
            magnitude = (uint64_t)0 - magnitude;
        }
        limit = negative ? top : top - 1;
    } else {
        limit = negative ? 0 : ~(uint64_t)0 >> (64 - info->bits);
        if (negative && info->bits == 64) /* the pattern is what counts, and it fits */
            limit = (uint64_t)1 << 63;
    }
    if (magnitude > limit)
        return NUMBER_RANGE;
    if (info->class == DTC_PRED) {
        negative = false;
        magnitude = magnitude != 0;
    }
    number_store(t, element, negative ? (uint64_t)0 - magnitude : magnitude);
    return NUMBER_OK;
}

NumberStatus number_parse(DType t, const char *text, size_t length, void *element)
{
    bool is_true = length == 4 && memcmp(text, "true", 4) == 0;
    bool is_false = length == 5 && memcmp(text, "false", 5) == 0;
    if (is_true || is_false) {
        if (t != DT_PRED)
            return NUMBER_NOT_BOOL;
        number_store(t, element, is_true);
        return NUMBER_OK;
    }
    switch (dtype_info[t].class) {
    case DTC_PRED: {
        NumberStatus st = parse_integer(t, text, length, element);
        return st == NUMBER_NOT_INTEGER ? NUMBER_NOT_BOOL : st;
    }
    case DTC_SINT:
    case DTC_UINT:
        return parse_integer(t, text, length, element);
    case DTC_FLOAT:
        return parse_float(t, text, length, element);
    case DTC_COMPLEX:
    case DTC_OTHER:
        break;
    }
    return NUMBER_SYNTAX;
}

static void upper_name(DType t, char out[16])
{
    const char *name = dtype_info[t].name;
    size_t i = 0;
    for (; name[i] != 0 && i < 15; i++)
        out[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 'a' + 'A') : name[i];
    out[i] = 0;
}

static void range_text(DType t, char *lowest, char *highest)
{
    if (dtype_info[t].class == DTC_FLOAT) {
        number_print_double(number_min_finite(t), 6, lowest);
        number_print_double(number_max_finite(t), 6, highest);
        return;
    }
    uint64_t element = 0;
    number_lowest(t, &element);
    number_print(t, &element, false, lowest);
    number_highest(t, &element);
    number_print(t, &element, false, highest);
}

void number_status_text(NumberStatus st, DType t, const char *text, size_t length,
                        char *out, size_t capacity)
{
    char type[16], lowest[NUMBER_TEXT_MAX], highest[NUMBER_TEXT_MAX];
    int shown = length > 60 ? 60 : (int)length;
    const char *dots = length > 60 ? "..." : "";
    upper_name(t, type);
    switch (st) {
    case NUMBER_OK:
        snprintf(out, capacity, "no error");
        break;
    case NUMBER_SYNTAX:
        snprintf(out, capacity, "expects a value of type %s, but sees '%.*s%s'", type,
                 shown, text, dots);
        break;
    case NUMBER_NOT_INTEGER:
        snprintf(out, capacity, "expects integer for primitive type: %s", type);
        break;
    case NUMBER_NOT_BOOL:
        snprintf(out, capacity,
                 t == DT_PRED
                     ? "expects 'true', 'false' or an integer for primitive type: %s"
                     : "'true' and 'false' are no values of primitive type: %s",
                 type);
        break;
    case NUMBER_RANGE:
        range_text(t, lowest, highest);
        snprintf(out, capacity,
                 "value %.*s%s is out of range for literal's primitive type %s, namely "
                 "[%s, %s].",
                 shown, text, dots, type, lowest, highest);
        break;
    case NUMBER_RANGE_DOUBLE:
        snprintf(out, capacity,
                 "Constant is out of range for double (+/-1.79769e+308) and so is "
                 "unparsable.");
        break;
    case NUMBER_NO_PAYLOAD:
        snprintf(out, capacity, "a NaN of primitive type %s has no payload", type);
        break;
    case NUMBER_PAYLOAD:
        snprintf(out, capacity,
                 "the payload of a NaN of primitive type %s has 1 to %d bits", type,
                 dtype_info[t].mantissa_bits);
        break;
    }
}

/* --- Printing --- */

/* x is finite. */
size_t number_print_double(double x, int digits, char *out)
{
    if (isnan(x) || isinf(x)) {
        const char *word = isnan(x) ? "nan" : "inf";
        return (size_t)snprintf(out, NUMBER_TEXT_MAX, "%s%s", signbit(x) ? "-" : "",
                                word);
    }
    char raw[64], figure[32];
    snprintf(raw, sizeof raw, "%.*e", digits - 1, x);
    const char *p = raw;
    char *to = out;
    int count = 0;
    if (*p == '-')
        *to++ = *p++;
    for (; *p != 'e'; p++)
        if (is_digit(*p))
            figure[count++] = *p;
    int exponent = atoi(p + 1);
    while (count > 1 && figure[count - 1] == '0')
        count--;
    if (exponent < -4 || exponent >= digits) {
        *to++ = figure[0];
        if (count > 1)
            *to++ = '.';
        for (int i = 1; i < count; i++)
            *to++ = figure[i];
        to += snprintf(to, 8, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    } else if (exponent < 0) {
        *to++ = '0';
        *to++ = '.';
        for (int i = -1; i > exponent; i--)
            *to++ = '0';
        for (int i = 0; i < count; i++)
            *to++ = figure[i];
    } else {
        for (int i = 0; i < count || i <= exponent; i++) {
            if (i == exponent + 1)
                *to++ = '.';
            *to++ = i < count ? figure[i] : '0';
        }
    }
    *to = 0;
    return (size_t)(to - out);
}

static size_t print_integer(uint64_t magnitude, bool negative, char *out)
{
    char reversed[24];
    size_t count = 0, length = 0;
    do {
        reversed[count++] = (char)('0' + magnitude % 10);
        magnitude /= 10;
    } while (magnitude != 0);
    if (negative)
        out[length++] = '-';
    while (count > 0)
        out[length++] = reversed[--count];
    out[length] = 0;
    return length;
}

static bool reads_back(DType t, const char *text, size_t length, double x)
{
    double y;
    if (!number_parse_double(text, length, &y))
        return false;
    return t == DT_F32 ? (float)y == (float)x : y == x;
}

static size_t print_nan(DType t, uint64_t bits, char *out)
{
    const DTypeInfo *f = &dtype_info[t];
    unsigned width = f->exponent_bits + f->mantissa_bits;
    bool negative = f->special != SPECIAL_E8M0 && (bits >> width & 1);
    size_t length = (size_t)snprintf(out, NUMBER_TEXT_MAX, negative ? "-nan" : "nan");
    if (has_payload(t)) {
        uint64_t payload = bits & (((uint64_t)1 << f->mantissa_bits) - 1);
        if (payload != (uint64_t)1 << (f->mantissa_bits - 1))
            length += (size_t)snprintf(out + length, NUMBER_TEXT_MAX - length,
                                       "(0x%" PRIx64 ")", payload);
    }
    return length;
}

static size_t print_float(DType t, uint64_t bits, char *out)
{
    double x = number_to_double(t, bits);
    if (isnan(x))
        return print_nan(t, bits, out);
    int digits = dtype_info[t].digits;
    if (digits == 0)
        digits = t == DT_F32 ? 6 : 15;
    if (x > -100 && x < 100 && x == (double)(int)x &&
        digits > 2) /* %.Ng of a small integer */
        return print_integer((uint64_t)fabs(x), signbit(x), out);
    size_t length = number_print_double(x, digits, out);
    if (dtype_info[t].digits == 0 && !reads_back(t, out, length, x))
        length = number_print_double(x, t == DT_F32 ? 9 : 17, out);
    return length;
}

size_t number_print(DType t, const void *element, bool words, char *out)
{
    const DTypeInfo *info = &dtype_info[t];
    switch (info->class) {
    case DTC_COMPLEX: {
        DType part = number_component(t);
        size_t length = 0;
        out[length++] = '(';
        length += print_float(part, number_load(part, element), out + length);
        out[length++] = ',';
        out[length++] = ' ';
        const char *imaginary = (const char *)element + dtype_info[part].storage;
        length += print_float(part, number_load(part, imaginary), out + length);
        out[length++] = ')';
        out[length] = 0;
        return length;
    }
    case DTC_FLOAT:
        return print_float(t, number_load(t, element), out);
    case DTC_SINT: {
        int64_t x = number_get_int(t, element);
        return print_integer(x < 0 ? (uint64_t)0 - (uint64_t)x : (uint64_t)x, x < 0, out);
    }
    case DTC_UINT:
        return print_integer(number_load(t, element), false, out);
    case DTC_PRED: {
        bool is_true = number_load(t, element) != 0;
        const char *word = is_true ? (words ? "true" : "1") : (words ? "false" : "0");
        return (size_t)snprintf(out, NUMBER_TEXT_MAX, "%s", word);
    }
    case DTC_OTHER:
        break;
    }
    out[0] = 0;
    return 0;
}
