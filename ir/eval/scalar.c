/* Choosing row kernels, and the kernels that work on any element type: moves between types,
 * reduce-precision, and those that lead narrow types through a wider one. */
#include "ir/eval/scalar.h"

#include <math.h>
#include <string.h>

#include "ir/eval/scalar_table.h"

enum {
    BLOCK = 512 /* elements that are widened at once; a multiple of 8 */
};

/* --- Through wider types --- */

/* f16, bf16, f8..., f4: computed as f32, rounded once. A result of pred needs no rounding. */
static void through_f32(void *out, const void *const *in, size_t n, const ScalarKernel *k)
{
    float wide[3][BLOCK], result[BLOCK];
    size_t in_step = dtype_storage_bytes(k->in), out_step = dtype_storage_bytes(k->out);
    for (size_t done = 0; done < n; done += BLOCK) {
        size_t count = n - done < BLOCK ? n - done : BLOCK;
        const void *rows[3] = {wide[0], wide[1], wide[2]};
        for (uint32_t j = 0; j < k->arity; j++) {
            bool single = k->single >> j & 1;
            const char *from = (const char *)in[j] + (single ? 0 : done * in_step);
            number_convert(DT_F32, wide[j], k->in, from, single ? 1 : count);
        }
        char *to = (char *)out + done * out_step;
        if (k->out == DT_PRED) {
            k->inner(to, rows, count, k);
        } else {
            k->inner(result, rows, count, k);
            number_convert(k->out, to, DT_F32, result, count);
        }
    }
}

/* f16, bf16, f8..., f4. The total order is that of the bits, also among NaNs, of which widening keeps the sign alone:
 * numbers of that order are compared, as the bits of positive floats. */
static void compare_narrow(void *out, const void *const *in, size_t n,
                           const ScalarKernel *k)
{
    uint32_t wide[2][BLOCK];
    size_t step = dtype_storage_bytes(k->in);
    if (!k->total_order) {
        through_f32(out, in, n, k);
        return;
    }
    for (size_t done = 0; done < n; done += BLOCK) {
        size_t count = n - done < BLOCK ? n - done : BLOCK;
        const void *rows[2] = {wide[0], wide[1]};
        for (uint32_t j = 0; j < 2; j++) {
            const char *from = (const char *)in[j] + done * step;
            for (size_t i = 0; i < count; i++)
                wide[j][i] = (uint32_t)number_rank(k->in, from + i * step);
        }
        k->inner((char *)out + done, rows, count, k);
    }
}

/* The elements of a row as numbers without sign, in a byte each. */
static void mask_row(uint8_t *to, const uint8_t *from, size_t n, unsigned mask)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)(from[i] & mask);
}

/* Integers below 8 bits: storage form is that of s8 or u8, so most kernels of those serve and
 * only the result must be cut to the type. Those that see the upper bits get them as zeros. */
static void through_byte(void *out, const void *const *in, size_t n,
                         const ScalarKernel *k)
{
    unsigned bits = dtype_info[k->in].bits;
    bool zero_extend = k->op == OP_SHIFT_RIGHT_LOGICAL || k->op == OP_POPCNT ||
                       k->op == OP_COUNT_LEADING_ZEROS;
    uint8_t rows[2][BLOCK], *to = out;
    for (size_t done = 0; done < n; done += BLOCK) {
        size_t count = n - done < BLOCK ? n - done : BLOCK;
        const void *operands[3] = {0};
        for (uint32_t j = 0; j < k->arity; j++) {
            const uint8_t *from = in[j];
            operands[j] = k->single >> j & 1 ? from : from + done;
            if (zero_extend) {
                mask_row(rows[j], from + done, count, (1u << bits) - 1);
                operands[j] = rows[j];
            }
        }
        k->inner(to + done, operands, count, k);
        if (k->op == OP_COUNT_LEADING_ZEROS)
            for (size_t i = 0; i < count; i++)
                to[done + i] = (uint8_t)(to[done + i] - (8 - bits));
        for (size_t i = 0; k->out == k->in && i < count; i++)
            number_store(k->out, to + done + i, to[done + i]);
    }
}

/* The two operations below 8 bits that depend on the true width all through. */
static void narrow_shift_or_high(void *out, const void *const *in, size_t n,
                                 const ScalarKernel *k)
{
    unsigned bits = dtype_info[k->in].bits;
    const uint8_t *a = in[0], *b = in[1];
    uint8_t *r = out;
    for (size_t i = 0; i < n; i++) {
        int64_t x = number_get_int(k->in, &a[i]), y = number_get_int(k->in, &b[i]);
        int64_t z;
        if (k->op == OP_MULHI) {
            z = x * y >> bits;
        } else {
            uint64_t top = (uint64_t)1 << (bits - 1), u = number_load(k->in, &a[i]);
            uint64_t count = number_load(k->in, &b[i]);
            z = (int64_t)((u ^ top) - top) >> (count < bits ? count : bits - 1);
        }
        number_store(k->in, &r[i], (uint64_t)z);
    }
}

/* --- Moves --- */

static void convert(void *out, const void *const *in, size_t n, const ScalarKernel *k)
{
    number_convert(k->out, out, k->in, in[0], n);
}

#define SELECT(type)                                                                     \
    static void select_##type(void *out, const void *const *in, size_t n,                \
                              const ScalarKernel *k)                                     \
    {                                                                                    \
        const uint8_t *restrict p = in[0];                                               \
        const type *restrict a = in[1], *restrict b = in[2];                             \
        type *restrict r = out;                                                          \
        size_t ps = !(k->single & 1), as = !(k->single & 2), bs = !(k->single & 4);      \
        for (size_t i = 0; i < n; i++)                                                   \
            r[i] = p[i * ps] ? a[i * as] : b[i * bs];                                    \
    }
typedef struct {
    uint64_t half[2];
} Pair;
SELECT(uint8_t)
SELECT(uint16_t)
SELECT(uint32_t)
SELECT(uint64_t)
SELECT(Pair)

static ElementsFn *choose_select(DType t)
{
    switch (dtype_storage_bytes(t)) {
    case 1:
        return select_uint8_t;
    case 2:
        return select_uint16_t;
    case 4:
        return select_uint32_t;
    case 8:
        return select_uint64_t;
    case 16:
        return select_Pair;
    default:
        return NULL;
    }
}

static void copy(void *out, const void *const *in, size_t n, const ScalarKernel *k)
{
    memcpy(out, in[0], n * dtype_storage_bytes(k->in));
}

/* Only the sign changes, NaN keeps its payload. */
static void sign_of_half(void *out, const void *const *in, size_t n,
                         const ScalarKernel *k)
{
    const uint16_t *a = in[0], sign = UINT16_C(1) << 15;
    uint16_t *r = out;
    for (size_t i = 0; i < n; i++)
        r[i] = k->op == OP_ABS ? a[i] & (uint16_t)~sign : a[i] ^ sign;
}

static void zero(void *out, const void *const *in, size_t n, const ScalarKernel *k)
{
    (void)in;
    memset(out, 0, n * dtype_storage_bytes(k->out));
}

static void join_complex(void *out, const void *const *in, size_t n,
                         const ScalarKernel *k)
{
    size_t step = dtype_storage_bytes(k->in);
    char *to = out;
    const char *re = in[0], *im = in[1];
    for (size_t i = 0; i < n; i++) {
        memcpy(to + 2 * i * step, re + i * step, step);
        memcpy(to + (2 * i + 1) * step, im + i * step, step);
    }
}

/* The bits of n elements in memory form, read as another type. */
static void bitcast(void *out, const void *const *in, size_t n, const ScalarKernel *k)
{
    size_t in_bits = dtype_info[k->in].bits, out_bits = dtype_info[k->out].bits;
    uint8_t packed[BLOCK * 16];
    const char *from = in[0];
    char *to = out;
    for (size_t done = 0; done < n; done += BLOCK) {
        size_t count = n - done < BLOCK ? n - done : BLOCK;
        size_t results = count * in_bits / out_bits;
        number_pack(k->in, packed, from, count);
        number_unpack(k->out, to, packed, results);
        from += count * dtype_storage_bytes(k->in);
        to += results * dtype_storage_bytes(k->out);
    }
}

static bool can_bitcast(DType in, DType out)
{
    unsigned a = dtype_info[in].bits, b = dtype_info[out].bits;
    bool six = a == 6 || b == 6;
    return dtype_is_array(in) && dtype_is_array(out) && (six ? a == b : true);
}

/* --- Precision --- */

/* Rounds one IEEE number to fewer mantissa bits, to nearest even, and to the range of fewer
 * exponent bits: too large gives infinity, too small zero. A NaN stays; without mantissa bits there
 * is none, and it becomes infinity. */
static uint64_t reduce(uint64_t x, const DTypeInfo *f, int64_t exponent_bits,
                       int64_t mantissa_bits)
{
    unsigned m = f->mantissa_bits, e = f->exponent_bits;
    uint64_t sign = x & (uint64_t)1 << (m + e), one = 1;
    uint64_t infinity = ((one << e) - 1) << m, magnitude = x ^ sign;
    if (magnitude > infinity)
        return mantissa_bits > 0 ? x : infinity;
    if (mantissa_bits < m) {
        unsigned drop = m - (unsigned)mantissa_bits;
        uint64_t bias = (one << (drop - 1)) - 1 + (magnitude >> drop & 1);
        magnitude = (magnitude + bias) & ~((one << drop) - 1);
    }
    if (exponent_bits < e) {
        int64_t bias = ((int64_t)1 << (e - 1)) - 1;
        int64_t reduced = ((int64_t)1 << (exponent_bits - 1)) - 1;
        int64_t exponent = (int64_t)(magnitude >> m);
        if (exponent > bias + reduced)
            magnitude = infinity;
        else if (exponent <= bias - reduced)
            magnitude = 0;
    }
    return sign | magnitude;
}

static void reduce_precision(void *out, const void *const *in, size_t n,
                             const ScalarKernel *k)
{
    const DTypeInfo *f = &dtype_info[k->in];
    const char *a = in[0];
    char *r = out;
    for (size_t i = 0; i < n; i++) {
        uint64_t x = number_load(k->in, a + i * f->storage);
        number_store(k->in, r + i * f->storage,
                     reduce(x, f, k->exponent_bits, k->mantissa_bits));
    }
}

/* Rounds x away from zero with the probability of its fraction: if the random bits, taken as a
 * fraction, are below it. Saturates; NaN gives 0. */
static uint64_t stochastic(double x, uint64_t random, unsigned random_bits, DType out)
{
    double magnitude = fabs(x), whole = trunc(magnitude);
    if (!(magnitude < 0x1p64))
        return number_saturate(out, x);
    uint64_t fraction = (uint64_t)ldexp(magnitude - whole, (int)random_bits);
    if (random < fraction)
        whole += 1;
    return number_saturate(out, x < 0 ? -whole : whole);
}

static void stochastic_convert(void *out, const void *const *in, size_t n,
                               const ScalarKernel *k)
{
    unsigned bits = dtype_info[k->in].bits;
    size_t in_step = dtype_storage_bytes(k->in), out_step = dtype_storage_bytes(k->out);
    for (size_t i = 0; i < n; i++) {
        double x = number_get_double(k->in, (const char *)in[0] + i * in_step);
        uint64_t random = 0;
        memcpy(&random, (const char *)in[1] + i * in_step, in_step);
        number_store(k->out, (char *)out + i * out_step,
                     stochastic(x, random, bits, k->out));
    }
}

/* --- Choice --- */

static const int8_t arities[OP_COUNT] = {
#define OP(id, name, arity, ...) [OP_##id] = arity,
#include "ir/ops.def"
};

/* Operations on operands of type `in` whose result has a fixed type. */
static bool result_type_fits(OpCode op, DType in, DType out)
{
    switch (op) {
    case OP_COMPARE:
    case OP_IS_FINITE:
        return out == DT_PRED;
    case OP_ABS:
    case OP_REAL:
    case OP_IMAG:
        return out == number_component(in);
    default:
        return out == in;
    }
}

static ElementsFn *choose_small_int(OpCode op, DType in)
{
    bool is_signed = dtype_is_signed(in);
    bool zero_extend =
        op == OP_SHIFT_RIGHT_LOGICAL || op == OP_POPCNT || op == OP_COUNT_LEADING_ZEROS;
    return rows_int(op, is_signed && !zero_extend ? DT_S8 : DT_U8);
}

/* The four opcodes that go from any type to any other; false: not one of them. */
static bool choose_between(OpCode op, DType in, DType out, ScalarKernel *k)
{
    if (op == OP_CONVERT) {
        k->run = dtype_is_array(in) && dtype_is_array(out) ? convert : NULL;
        return true;
    }
    if (op == OP_BITCAST_CONVERT) {
        k->run = can_bitcast(in, out) ? bitcast : NULL;
        return true;
    }
    if (op == OP_COMPLEX) {
        bool fits = in == number_component(out) && in != out;
        k->run = fits ? join_complex : NULL;
        return true;
    }
    if (op == OP_STOCHASTIC_CONVERT) {
        bool fits = dtype_is_float(in) && dtype_is_integer(out);
        k->run = fits ? stochastic_convert : NULL;
        return true;
    }
    return false;
}

static void choose_float(OpCode op, DType in, bool exact, ScalarKernel *k)
{
    bool small = in != DT_F32 && in != DT_F64;
    DType wide = small ? DT_F32 : in;
    if (op == OP_REAL || op == OP_IMAG) {
        k->run = op == OP_REAL ? copy : zero;
        return;
    }
    if (dtype_is_half(in) && (op == OP_ABS || op == OP_NEGATE)) {
        k->run = sign_of_half;
        return;
    }
    if (op == OP_REDUCE_PRECISION) {
        k->run = dtype_info[in].special == SPECIAL_IEEE ? reduce_precision : NULL;
        return;
    }
    ElementsFn *fn = exact ? rows_exact(op, wide) : NULL;
    if (fn == NULL)
        fn = rows_float(op, wide);
    k->run = small && fn != NULL ? through_f32 : fn;
    k->inner = small ? fn : NULL;
    if (op == OP_COMPARE && small)
        k->run = compare_narrow;
}

static void choose_int(OpCode op, DType in, ScalarKernel *k)
{
    if (dtype_info[in].bits >= 8) {
        k->run = rows_int(op, in);
    } else if (op == OP_MULHI || op == OP_SHIFT_RIGHT_ARITHMETIC) {
        k->run = narrow_shift_or_high;
    } else {
        k->inner = choose_small_int(op, in);
        k->run = k->inner != NULL ? through_byte : NULL;
    }
}

static void choose_complex(OpCode op, DType in, bool exact, ScalarKernel *k)
{
    switch (op) {
    case OP_ADD:
    case OP_SUBTRACT:
    case OP_MULTIPLY:
    case OP_DIVIDE:
    case OP_NEGATE:
    case OP_REAL:
    case OP_IMAG:
    case OP_COMPARE:
        k->run = rows_complex(op, in);
        break;
    default:
        k->run = exact ? rows_exact(op, in) : rows_complex(op, in);
    }
}

bool scalar_kernel(OpCode op, DType in, DType out, bool exact, ScalarKernel *k)
{
    memset(k, 0, sizeof *k);
    k->op = op;
    k->in = in;
    k->out = out;
    k->arity = arities[op] < 0 ? 0 : (uint32_t)arities[op];
    if (!dtype_is_array(in) || !dtype_is_array(out))
        return false;
    if (choose_between(op, in, out, k))
        return k->run != NULL;
    if (!result_type_fits(op, in, out))
        return false;
    if (op == OP_SELECT) {
        k->run = choose_select(in);
        return k->run != NULL;
    }
    switch (dtype_info[in].class) {
    case DTC_FLOAT:
        choose_float(op, in, exact, k);
        break;
    case DTC_SINT:
    case DTC_UINT:
        choose_int(op, in, k);
        break;
    case DTC_PRED:
        k->run = rows_pred(op);
        break;
    case DTC_COMPLEX:
        choose_complex(op, in, exact, k);
        break;
    case DTC_OTHER:
        break;
    }
    return k->run != NULL;
}
