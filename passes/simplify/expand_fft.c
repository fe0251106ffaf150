/* Expansion of fft to transforms of one dimension, the last, that a block holds in shared memory: those have
 * kernels (ir/kernel/kinds/fft.h). Dimensions become the last one by transposes, which the kernels take in.
 *
 *   y[k] = sum over j of x[j] e^(-+2 pi i j k / n), divided by n for the inverse
 *
 * Longer ones are made of short ones: with j = b p + q and k = r + a s for n = a b
 *
 *   y[r + a s] = sum over q of (sum over p of x[b p + q] e^(.. p r / a)) e^(.. q r / n)
 *                e^(.. q s / b)
 *
 * those with larger prime factors than kernels take are convolutions with e^(.. j^2 / 2n) (Bluestein 1970), by
 * transforms whose length is a power of two, or, where they are short, products with the matrix of the transform. */
#include "ir/kernel/kinds/fft.h"
#include "passes/simplify/columns.h"
#include "passes/simplify/expand.h"

#define LENGTH_MOST_DIRECT 64 /* in one product */

static const double PI = 3.14159265358979323846;

static DType part_of(const Shape *s)
{
    bool is_wide = s->dtype == DT_C128 || s->dtype == DT_F64;
    return is_wide ? DT_F64 : DT_F32;
}

static const Shape *with_type(Rewriter *r, const Shape *s, DType t)
{
    return rw_shape(r, t, s->rank, s->dims);
}

static DType complex_type(DType part)
{
    return part == DT_F64 ? DT_C128 : DT_C64;
}

static Instruction *complex_of(Rewriter *r, Instruction *re, Instruction *im)
{
    const Shape *s = with_type(r, re->shape, complex_type(re->shape->dtype));
    return rw_binary(r, OP_COMPLEX, s, re, im);
}

/* s with a last dimension of n. */
static const Shape *of_length(Rewriter *r, const Shape *s, int64_t n)
{
    int64_t *dims = arena_copy(r->scratch, s->dims, s->rank * sizeof *dims);
    dims[s->rank - 1] = n;
    return rw_shape(r, s->dtype, s->rank, dims);
}

/* Elements first, first + step, … of the last dimension, n of them. */
static Instruction *part(Rewriter *r, Instruction *x, int64_t first, int64_t n,
                         int64_t step)
{
    const Shape *s = x->shape;
    SliceDim *dims = ARENA_ARRAY(r->scratch, SliceDim, s->rank);
    for (uint32_t d = 0; d < s->rank; d++)
        dims[d] = (SliceDim){0, s->dims[d], 1};
    dims[s->rank - 1] = (SliceDim){first, first + (n - 1) * step + 1, step};
    return rw_slice(r, of_length(r, s, n), x, dims);
}

static Instruction *joined(Rewriter *r, Instruction *a, Instruction *b)
{
    int64_t last = (int64_t)a->shape->rank - 1;
    Instruction *both[2] = {a, b};
    int64_t n = a->shape->dims[last] + b->shape->dims[last];
    Instruction *c = rw_add(r, OP_CONCATENATE, of_length(r, a->shape, n), 2, both);
    inst_set_ints(c, ATTR_DIMENSIONS, &last, 1);
    return c;
}

static Instruction *reversed(Rewriter *r, Instruction *x)
{
    int64_t last = (int64_t)x->shape->rank - 1;
    Instruction *y = rw_unary(r, OP_REVERSE, x->shape, x);
    inst_set_ints(y, ATTR_DIMENSIONS, &last, 1);
    return y;
}

/* -- roots of unity ------------------------------------------------------------------------------ */

static Instruction *numbers(Rewriter *r, DType t, uint32_t rank, const int64_t *dims,
                            uint32_t d)
{
    Instruction *j = rw_add(r, OP_IOTA, rw_shape(r, t, rank, dims), 0, NULL);
    inst_set_int(j, ATTR_IOTA_DIMENSION, d);
    return j;
}

/* Integers in which the roots of order n are counted. */
static DType count_type(int64_t n)
{
    return n <= INT32_MAX / 16 ? DT_S32 : DT_S64;
}

static Instruction *has_bit(Rewriter *r, Instruction *x, int64_t bit)
{
    Instruction *b = rw_binary(r, OP_AND, x->shape, x, rw_splat_int(r, x->shape, bit));
    return rw_compare(r, b, rw_splat_int(r, x->shape, 0), DIRECTION_NE);
}

static Instruction *negated_if(Rewriter *r, Instruction *is_negated, Instruction *x)
{
    return matrix_select(r, is_negated, rw_unary(r, OP_NEGATE, x->shape, x), x);
}

/* a b + c */
static Instruction *product_plus(Rewriter *r, Instruction *a, Instruction *b,
                                 Instruction *c)
{
    return rw_binary(r, OP_ADD, a->shape, rw_binary(r, OP_MULTIPLY, a->shape, a, b), c);
}

static Instruction *polynomial(Rewriter *r, Instruction *x, FftPolynomial p)
{
    Instruction *sum = rw_splat(r, x->shape, p.c[0]);
    for (uint32_t i = 1; i < p.count; i++)
        sum = product_plus(r, sum, x, rw_splat(r, x->shape, p.c[i]));
    return sum;
}

static Instruction *sine_of(Rewriter *r, Instruction *x, Instruction *square)
{
    const Shape *s = x->shape;
    Instruction *cube = rw_binary(r, OP_MULTIPLY, s, square, x);
    return product_plus(r, cube, polynomial(r, square, fft_sine(s->dtype)), x);
}

static Instruction *cosine_of(Rewriter *r, Instruction *square)
{
    const Shape *s = square->shape;
    Instruction *most = product_plus(r, square, rw_splat(r, s, -0.5), rw_splat(r, s, 1));
    Instruction *fourth = rw_binary(r, OP_MULTIPLY, s, square, square);
    return product_plus(r, fourth, polynomial(r, square, fft_cosine(s->dtype)), most);
}

/* e^(2 pi i at / n), conjugate unless `positive`: at = 0 … n - 1, integers. The angle is that to the nearest
 * quarter, at most pi / 4, where polynomials do and little is lost by its rounding. */
static Instruction *roots(Rewriter *r, DType t, Instruction *at, int64_t n, bool positive)
{
    const Shape *s = at->shape, *real = with_type(r, s, t);
    Instruction *eight = rw_binary(r, OP_MULTIPLY, s, at, rw_splat_int(r, s, 8));
    eight = rw_binary(r, OP_ADD, s, eight, rw_splat_int(r, s, n));
    Instruction *quarter = rw_binary(r, OP_DIVIDE, s, eight, rw_splat_int(r, s, 2 * n));
    Instruction *remainder = rw_binary(
        r, OP_SUBTRACT, s, rw_binary(r, OP_MULTIPLY, s, at, rw_splat_int(r, s, 4)),
        rw_binary(r, OP_MULTIPLY, s, quarter, rw_splat_int(r, s, n)));
    Instruction *angle = rw_binary(r, OP_MULTIPLY, real, rw_convert(r, real, remainder),
                                   rw_splat(r, real, PI / 2 / (double)n));
    Instruction *square = rw_binary(r, OP_MULTIPLY, real, angle, angle);
    Instruction *c = cosine_of(r, square), *i = sine_of(r, angle, square);
    Instruction *is_odd = has_bit(r, quarter, 1);
    Instruction *next = rw_binary(r, OP_ADD, s, quarter, rw_splat_int(r, s, 1));
    Instruction *re = negated_if(r, has_bit(r, next, 2), matrix_select(r, is_odd, i, c));
    Instruction *im =
        negated_if(r, has_bit(r, quarter, 2), matrix_select(r, is_odd, c, i));
    return complex_of(r, re, positive ? im : rw_unary(r, OP_NEGATE, real, im));
}

/* The roots of order n by the products of the positions along two dimensions. */
static Instruction *wave(Rewriter *r, DType t, int64_t rows, int64_t columns, int64_t n,
                         bool positive)
{
    int64_t dims[2] = {rows, columns};
    DType counts = rows > 1 && (rows - 1) * (columns - 1) >= n ? DT_S64 : count_type(n);
    Instruction *y = numbers(r, counts, 2, dims, 0), *x = numbers(r, counts, 2, dims, 1);
    Instruction *at = rw_binary(r, OP_MULTIPLY, y->shape, y, x);
    if (counts == DT_S64)
        at = rw_binary(r, OP_REMAINDER, y->shape, at, rw_splat_int(r, y->shape, n));
    return roots(r, t, at, n, positive);
}

/* Elementwise; w has x's last dimensions. */
static Instruction *times(Rewriter *r, Instruction *x, Instruction *w)
{
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, w->shape->rank + 1);
    for (uint32_t d = 0; d < w->shape->rank; d++)
        dims[d] = x->shape->rank - w->shape->rank + d;
    w = rw_broadcast(r, x->shape, w, w->shape->rank, dims);
    return rw_binary(r, OP_MULTIPLY, x->shape, x, w);
}

static Instruction *scaled(Rewriter *r, Instruction *x, double by)
{
    return rw_binary(r, OP_MULTIPLY, x->shape, x, rw_splat(r, x->shape, by));
}

/* -- complex rows: along the last dimension ---------------------------------------------------------- */

static Instruction *transform(Rewriter *r, Instruction *x, bool is_inverse);

static Instruction *by_kernel(Rewriter *r, const Shape *s, Instruction *x, int64_t type,
                              int64_t n)
{
    Instruction *y = rw_unary(r, OP_FFT, s, x);
    inst_set_int(y, ATTR_FFT_TYPE, type);
    inst_set_ints(y, ATTR_FFT_LENGTH, &n, 1);
    return y;
}

/* One product with the matrix of the transform. */
static Instruction *direct(Rewriter *r, Instruction *x, int64_t n, bool is_inverse)
{
    static const int64_t highest[2] = {PRECISION_HIGHEST, PRECISION_HIGHEST};
    int64_t last = (int64_t)x->shape->rank - 1, zero = 0;
    Instruction *w = wave(r, part_of(x->shape), n, n, n, is_inverse);
    if (is_inverse)
        w = scaled(r, w, 1.0 / (double)n);
    Instruction *dot = rw_binary(r, OP_DOT, x->shape, x, w);
    inst_set_ints(dot, ATTR_LHS_CONTRACTING_DIMS, &last, 1);
    inst_set_ints(dot, ATTR_RHS_CONTRACTING_DIMS, &zero, 1);
    inst_set_ints(dot, ATTR_OPERAND_PRECISION, highest, 2);
    return dot;
}

/* Dimensions d and e exchanged. */
static Instruction *swapped(Rewriter *r, Instruction *x, uint32_t d, uint32_t e)
{
    uint32_t rank = x->shape->rank;
    int64_t *order = ARENA_ARRAY(r->scratch, int64_t, rank);
    if (d == e)
        return x;
    for (uint32_t i = 0; i < rank; i++)
        order[i] = i == d ? e : i == e ? d : i;
    return rw_in_order(r, x, order);
}

/* The last dimension as two, of which the first has a elements. */
static Instruction *split(Rewriter *r, Instruction *x, int64_t a)
{
    uint32_t rank = x->shape->rank;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, rank + 1);
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = x->shape->dims[d];
    dims[rank] = dims[rank - 1] / a;
    dims[rank - 1] = a;
    return rw_reshape(r, rw_shape(r, x->shape->dtype, rank + 1, dims), x);
}

static Instruction *by_factors(Rewriter *r, Instruction *x, int64_t a, bool is_inverse)
{
    const Shape *s = x->shape;
    uint32_t d = s->rank - 1;
    int64_t n = s->dims[d], b = n / a;
    x = transform(r, swapped(r, split(r, x, a), d, d + 1), is_inverse);
    x = swapped(r, x, d, d + 1);
    x = times(r, x, wave(r, part_of(s), a, b, n, is_inverse));
    x = swapped(r, transform(r, x, is_inverse), d, d + 1);
    return rw_reshape(r, s, x);
}

/* e^(2 pi i j^2 / 2n) for the numbers j in `at`, which are below n. */
static Instruction *chirp(Rewriter *r, DType t, Instruction *at, int64_t n, bool positive)
{
    const Shape *s = at->shape;
    Instruction *square = rw_binary(r, OP_MULTIPLY, s, at, at);
    square = rw_binary(r, OP_REMAINDER, s, square, rw_splat_int(r, s, 2 * n));
    return roots(r, t, square, 2 * n, positive);
}

/* The transform of what the chirp is convolved with: it at the distance from 0 around a circle
 * of m positions, 0 where that is n and more. */
static Instruction *chirp_filter(Rewriter *r, DType t, int64_t n, int64_t m,
                                 bool positive)
{
    Instruction *j = numbers(r, DT_S64, 1, &m, 0);
    const Shape *s = j->shape;
    Instruction *distance = rw_binary(
        r, OP_MINIMUM, s, j, rw_binary(r, OP_SUBTRACT, s, rw_splat_int(r, s, m), j));
    Instruction *is_near = rw_compare(r, distance, rw_splat_int(r, s, n), DIRECTION_LT);
    Instruction *w = chirp(r, t, distance, n, !positive);
    w = matrix_select(r, is_near, w, rw_splat(r, w->shape, 0.0));
    return transform(r, w, false);
}

/* Positions of the convolution. */
static int64_t circle_of(int64_t n)
{
    int64_t m = 1;
    while (m < 2 * n - 1)
        m *= 2;
    return m;
}

static Instruction *by_convolution(Rewriter *r, Instruction *x, bool is_inverse)
{
    const Shape *s = x->shape;
    DType t = part_of(s);
    int64_t n = s->dims[s->rank - 1], m = circle_of(n);
    Instruction *w = chirp(r, t, numbers(r, DT_S64, 1, &n, 0), n, is_inverse);
    Instruction *zeros = rw_splat(r, of_length(r, s, m - n), 0.0);
    x = transform(r, joined(r, times(r, x, w), zeros), false);
    x = transform(r, times(r, x, chirp_filter(r, t, n, m, is_inverse)), true);
    if (is_inverse)
        w = scaled(r, w, 1.0 / (double)n);
    return times(r, part(r, x, 0, n, 1), w);
}

/* The largest divisor of n that is not above its root. */
static int64_t divisor(int64_t n)
{
    int64_t best = 1;
    for (int64_t a = 2; a * a <= n; a++) {
        if (n % a == 0)
            best = a;
    }
    return best;
}

static bool has_kernel(Rewriter *r, int64_t type, int64_t n, DType t)
{
    return fft_row(type, n, t, r->cx->target).passes > 0;
}

static Instruction *transform(Rewriter *r, Instruction *x, bool is_inverse)
{
    const Shape *s = x->shape;
    DType t = part_of(s);
    int64_t n = s->dims[s->rank - 1], rough = fft_rough_part(n);
    if (n == 1)
        return x;
    if (has_kernel(r, FFT_FFT, n, t))
        return by_kernel(r, s, x, is_inverse ? FFT_IFFT : FFT_FFT, n);
    if (rough == 1)
        return by_factors(r, x, divisor(n), is_inverse);
    if (n <= LENGTH_MOST_DIRECT)
        return direct(r, x, n, is_inverse);
    bool is_short = rough <= LENGTH_MOST_DIRECT;
    if (rough < n && (is_short || !has_kernel(r, FFT_FFT, circle_of(n), t)))
        return by_factors(r, x, n / rough, is_inverse);
    return by_convolution(r, x, is_inverse);
}

/* -- real rows ------------------------------------------------------------------------------------- */

/* Of the parts a, b of z[k] and c, d of z[m - k]: the transforms of the even positions and of the odd ones,
 * ((a + c) / 2, (b - d) / 2) and ((b + d) / 2, (c - a) / 2). */
static Instruction *halves_joined(Rewriter *r, Instruction *z, int64_t n)
{
    Instruction *back = reversed(r, z);
    Instruction *a = matrix_real(r, z), *b = matrix_imag(r, z), *c = matrix_real(r, back),
                *d = matrix_imag(r, back);
    const Shape *s = a->shape;
    Instruction *even =
        complex_of(r, rw_binary(r, OP_ADD, s, a, c), rw_binary(r, OP_SUBTRACT, s, b, d));
    Instruction *odd =
        complex_of(r, rw_binary(r, OP_ADD, s, b, d), rw_binary(r, OP_SUBTRACT, s, c, a));
    int64_t count = n / 2 + 1;
    Instruction *k = numbers(r, count_type(n), 1, &count, 0);
    odd = times(r, odd, roots(r, s->dtype, k, n, false));
    return scaled(r, rw_binary(r, OP_ADD, z->shape, even, odd), 0.5);
}

/* Frequencies 0 … n / 2 of real rows. */
static Instruction *from_real(Rewriter *r, Instruction *x, int64_t n)
{
    DType t = part_of(x->shape);
    int64_t half = n / 2;
    const Shape *s = of_length(r, with_type(r, x->shape, complex_type(t)), half + 1);
    if (n > 1 && has_kernel(r, FFT_RFFT, n, t))
        return by_kernel(r, s, x, FFT_RFFT, n);
    if (n % 2 != 0) {
        x = complex_of(r, x, rw_splat(r, x->shape, 0.0));
        return part(r, transform(r, x, false), 0, half + 1, 1);
    }
    x = complex_of(r, part(r, x, 0, half, 2), part(r, x, 1, half, 2));
    x = transform(r, x, false);
    return halves_joined(r, joined(r, x, part(r, x, 0, 1, 1)), n);
}

/* All n frequencies of real values, of which the first half are given: the others mirror them. */
static Instruction *mirrored(Rewriter *r, Instruction *x, int64_t n)
{
    int64_t count = n - x->shape->dims[x->shape->rank - 1];
    if (count == 0)
        return x;
    Instruction *back = reversed(r, part(r, x, 1, count, 1));
    return joined(r, x, matrix_conjugate(r, back));
}

/* s + i w d, s and d = x[k] +- conj x[n / 2 - k]: frequencies of even positions + i odd ones. Those of x[0] and of
 * x[n / 2] are real. */
static Instruction *halves_split(Rewriter *r, Instruction *x, int64_t n)
{
    int64_t half = n / 2;
    Instruction *z = part(r, x, 0, half, 1), *back = reversed(r, part(r, x, 1, half, 1));
    const Shape *s = z->shape;
    Instruction *a = matrix_real(r, z), *b = matrix_imag(r, z), *c = matrix_real(r, back),
                *d = matrix_imag(r, back);
    const Shape *real = a->shape;
    Instruction *k = numbers(r, count_type(n), s->rank, s->dims, s->rank - 1);
    Instruction *is_first = rw_compare(r, k, rw_splat_int(r, k->shape, 0), DIRECTION_EQ);
    b = matrix_select(r, is_first, rw_splat(r, real, 0.0), b);
    d = matrix_select(r, is_first, rw_splat(r, real, 0.0), d);
    Instruction *sum = complex_of(r, rw_binary(r, OP_ADD, real, a, c),
                                  rw_binary(r, OP_SUBTRACT, real, b, d));
    Instruction *turned =
        complex_of(r, rw_unary(r, OP_NEGATE, real, rw_binary(r, OP_ADD, real, b, d)),
                   rw_binary(r, OP_SUBTRACT, real, a, c));
    int64_t count = half;
    Instruction *w =
        roots(r, real->dtype, numbers(r, count_type(n), 1, &count, 0), n, true);
    return scaled(r, rw_binary(r, OP_ADD, s, sum, times(r, turned, w)), 0.5);
}

/* The real values of which n / 2 + 1 frequencies are given. */
static Instruction *to_real(Rewriter *r, Instruction *x, int64_t n)
{
    DType t = part_of(x->shape);
    const Shape *s = of_length(r, with_type(r, x->shape, t), n);
    if (n > 1 && has_kernel(r, FFT_IRFFT, n, t))
        return by_kernel(r, s, x, FFT_IRFFT, n);
    if (n % 2 != 0)
        return matrix_real(r, transform(r, mirrored(r, x, n), true));
    x = transform(r, halves_split(r, x, n), true);
    uint32_t rank = s->rank;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, rank + 1);
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = x->shape->dims[d];
    dims[rank] = 1;
    const Shape *one = rw_shape(r, t, rank + 1, dims);
    return rw_reshape(r, s,
                      joined(r, rw_reshape(r, one, matrix_real(r, x)),
                             rw_reshape(r, one, matrix_imag(r, x))));
}

/* -- the rule ---------------------------------------------------------------------------------------- */

static Instruction *by_dimension(Rewriter *r, Instruction *x, int64_t type, Ints length)
{
    uint32_t last = x->shape->rank - 1;
    int64_t n = length.data[length.count - 1];
    bool is_inverse = type == FFT_IFFT || type == FFT_IRFFT;
    if (type == FFT_RFFT)
        x = from_real(r, x, n);
    else if (type != FFT_IRFFT)
        x = transform(r, x, is_inverse);
    for (uint32_t i = length.count - 1; i-- > 0;) {
        uint32_t d = last + 1 - length.count + i;
        x = swapped(r, transform(r, swapped(r, x, d, last), is_inverse), d, last);
    }
    return type == FFT_IRFFT ? to_real(r, x, n) : x;
}

static Instruction *fft(Rewriter *r, Instruction *inst)
{
    Ints length = inst_ints(inst, ATTR_FFT_LENGTH);
    int64_t type = inst_int(inst, ATTR_FFT_TYPE, FFT_FFT);
    Instruction *x = inst->operands[0];
    const Shape *s = x->shape;
    if (!rw_is_static(s))
        return NULL;
    if (rw_is_zero_size(s) || rw_is_zero_size(inst->shape))
        return rw_splat(r, inst->shape, 0.0);
    for (uint32_t i = 0; i < length.count; i++) {
        if (length.data[i] == 0)
            return rw_splat(r, inst->shape, 0.0);
        if (length.data[i] > INT32_MAX)
            return NULL;
    }
    if (length.count == 1 && length.data[0] > 1 &&
        has_kernel(r, type, length.data[0], part_of(s)))
        return NULL;
    Instruction *y = by_dimension(r, x, type, length);
    if (y->shape == inst->shape)
        return y;
    return rw_unary(r, OP_COPY, inst->shape, y); /* another layout */
}

const Rule rules_expand_fft[] = {
    {OP_FFT, "fft", fft},
    {0},
};
