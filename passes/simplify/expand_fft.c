/* Expansion of fft: along each of its dimensions a product with the matrix of the discrete
 * Fourier transform, real and imaginary parts apart.
 *
 *   y[k] = sum over j of x[j] e^(-+2 pi i j k / n), divided by n for the inverse
 *
 * The angles are exact: j k mod n is an integer, and cosine and sine are taken in f64. n^2
 * products are a matrix product, which is fast for short n. Longer transforms are made of short
 * ones: with j = b p + q and k = r + a s for n = a b
 *
 *   y[r + a s] = sum over q of (sum over p of x[b p + q] e^(.. p r / a)) e^(.. q r / n)
 *                e^(.. q s / b)
 *
 * and long ones of prime length are convolutions with e^(.. j^2 / 2n) (Bluestein), by transforms
 * whose length is a power of two. */
#include "passes/simplify/expand.h"

#define LENGTH_MOST_DIRECT 512 /* in one product */
#define PRIME_MOST_DIRECT 2048 /* where there are no factors */

static const double TWO_PI = 6.283185307179586476925286766559;

/* A value on its way through the dimensions: real and imaginary part. */
typedef struct Complex {
    Instruction *re, *im; /* im NULL: real */
} Complex;

/* f(2 pi j k / n) * scale for j < rows, k < columns */
static Instruction *wave(Rewriter *r, OpCode f, DType dtype, int64_t rows,
                         int64_t columns, int64_t n, double scale)
{
    int64_t dims[2] = {rows, columns};
    const Shape *whole = rw_shape(r, DT_S64, 2, dims);
    Instruction *index[2];
    for (int d = 0; d < 2; d++) {
        index[d] = rw_add(r, OP_IOTA, whole, 0, NULL);
        inst_set_int(index[d], ATTR_IOTA_DIMENSION, d);
    }
    Instruction *turns = rw_binary(r, OP_REMAINDER, whole,
                                   rw_binary(r, OP_MULTIPLY, whole, index[0], index[1]),
                                   rw_splat_int(r, whole, n));
    const Shape *fine = rw_shape(r, DT_F64, 2, dims);
    Instruction *angle = rw_binary(r, OP_MULTIPLY, fine, rw_convert(r, fine, turns),
                                   rw_splat(r, fine, TWO_PI / (double)n));
    Instruction *value = rw_binary(r, OP_MULTIPLY, fine, rw_unary(r, f, fine, angle),
                                   rw_splat(r, fine, scale));
    return rw_convert(r, rw_shape(r, dtype, 2, dims), value);
}

/* x times a matrix along dimension d, which gets the matrix's columns. */
static Instruction *along(Rewriter *r, Instruction *x, Instruction *matrix, int64_t d)
{
    static const int64_t highest[2] = {PRECISION_HIGHEST, PRECISION_HIGHEST};
    uint32_t rank = x->shape->rank;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, rank);
    int64_t *order = ARENA_ARRAY(r->scratch, int64_t, rank);
    int64_t *final = ARENA_ARRAY(r->scratch, int64_t, rank);
    uint32_t n = 0;
    for (uint32_t i = 0; i < rank; i++) {
        order[i] = i < d ? i : i == d ? (int64_t)rank - 1 : i - 1;
        final[i] = i == d ? matrix->shape->dims[1] : x->shape->dims[i];
        if (i != d)
            dims[n++] = x->shape->dims[i];
    }
    dims[n] = matrix->shape->dims[1];
    Instruction *dot =
        rw_binary(r, OP_DOT, rw_shape(r, x->shape->dtype, rank, dims), x, matrix);
    int64_t zero = 0;
    inst_set_ints(dot, ATTR_LHS_CONTRACTING_DIMS, &d, 1);
    inst_set_ints(dot, ATTR_RHS_CONTRACTING_DIMS, &zero, 1);
    inst_set_ints(dot, ATTR_OPERAND_PRECISION, highest, 2);
    if (d == (int64_t)rank - 1)
        return dot;
    return rw_transpose(r, rw_shape(r, x->shape->dtype, rank, final), dot, order);
}

/* The transform of length n along d by one product; of the result only the first `columns`. */
static Complex direct(Rewriter *r, Complex x, int64_t d, int64_t n, int64_t columns,
                      bool inverse)
{
    DType t = x.re->shape->dtype;
    double scale = inverse ? 1.0 / (double)n : 1.0, sign = inverse ? scale : -scale;
    Instruction *c = wave(r, OP_COSINE, t, n, columns, n, scale);
    Instruction *s = wave(r, OP_SINE, t, n, columns, n, sign);
    Complex y = {along(r, x.re, c, d), along(r, x.re, s, d)};
    if (x.im) {
        y.re = rw_binary(r, OP_SUBTRACT, y.re->shape, y.re, along(r, x.im, s, d));
        y.im = rw_binary(r, OP_ADD, y.im->shape, y.im, along(r, x.im, c, d));
    }
    return y;
}

/* -- long transforms: along the middle of three dimensions ------------------------------------- */

static Complex reshaped(Rewriter *r, Complex x, uint32_t rank, const int64_t *dims)
{
    const Shape *s = rw_shape(r, x.re->shape->dtype, rank, dims);
    return (Complex){rw_reshape(r, s, x.re), x.im ? rw_reshape(r, s, x.im) : NULL};
}

/* Dimension d in the middle, what is before it and behind it as one dimension each. */
static Complex around(Rewriter *r, Complex x, int64_t d)
{
    const Shape *s = x.re->shape;
    int64_t dims[3] = {1, s->dims[d], 1};
    for (uint32_t i = 0; i < s->rank; i++) {
        if (i != d)
            dims[i < d ? 0 : 2] *= s->dims[i];
    }
    return reshaped(r, x, 3, dims);
}

/* The other way: `n` as dimension d, the others as they are in `like`. */
static Complex spread(Rewriter *r, Complex x, const Shape *like, int64_t d)
{
    int64_t *dims = arena_copy(r->scratch, like->dims, like->rank * sizeof *dims);
    dims[d] = x.re->shape->dims[1];
    return reshaped(r, x, like->rank, dims);
}

/* The first n of the middle dimension. */
static Instruction *head(Rewriter *r, Instruction *x, int64_t n)
{
    const int64_t *from = x->shape->dims;
    int64_t dims[3] = {from[0], n, from[2]};
    SliceDim slice[3] = {{0, from[0], 1}, {0, n, 1}, {0, from[2], 1}};
    return rw_slice(r, rw_shape(r, x->shape->dtype, 3, dims), x, slice);
}

static Complex heads(Rewriter *r, Complex x, int64_t n)
{
    return (Complex){head(r, x.re, n), x.im ? head(r, x.im, n) : NULL};
}

static Instruction *joined(Rewriter *r, Instruction *a, Instruction *b)
{
    int64_t dims[3] = {a->shape->dims[0], a->shape->dims[1] + b->shape->dims[1],
                       a->shape->dims[2]},
            one = 1;
    Instruction *both[2] = {a, b};
    Instruction *c =
        rw_add(r, OP_CONCATENATE, rw_shape(r, a->shape->dtype, 3, dims), 2, both);
    inst_set_ints(c, ATTR_DIMENSIONS, &one, 1);
    return c;
}

/* Elementwise; w has x's dimensions from 1 on, `rank` of them. */
static Complex times(Rewriter *r, Complex x, Complex w, uint32_t rank)
{
    static const int64_t dims[2] = {1, 2};
    const Shape *s = x.re->shape;
    Instruction *c = rw_broadcast(r, s, w.re, rank, dims),
                *d = rw_broadcast(r, s, w.im, rank, dims);
    Complex y = {rw_binary(r, OP_MULTIPLY, s, x.re, c),
                 rw_binary(r, OP_MULTIPLY, s, x.re, d)};
    if (x.im) {
        y.re = rw_binary(r, OP_SUBTRACT, s, y.re, rw_binary(r, OP_MULTIPLY, s, x.im, d));
        y.im = rw_binary(r, OP_ADD, s, y.im, rw_binary(r, OP_MULTIPLY, s, x.im, c));
    }
    return y;
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

static Complex long_transform(Rewriter *r, Complex x, bool inverse);

static Complex by_factors(Rewriter *r, Complex x, int64_t a, bool inverse)
{
    static const int64_t swapped[4] = {0, 2, 1, 3};
    const int64_t *old = x.re->shape->dims;
    int64_t n = old[1], b = n / a;
    DType t = x.re->shape->dtype;
    int64_t inner[3] = {old[0], a, b * old[2]}, outer[3] = {old[0] * a, b, old[2]},
            split[4] = {old[0], a, b, old[2]}, turned[4] = {old[0], b, a, old[2]},
            whole[3] = {old[0], n, old[2]};
    x = long_transform(r, reshaped(r, x, 3, inner), inverse);
    Complex w = {wave(r, OP_COSINE, t, a, b, n, 1.0),
                 wave(r, OP_SINE, t, a, b, n, inverse ? 1.0 : -1.0)};
    x = times(r, reshaped(r, x, 4, split), w, 2);
    x = reshaped(r, long_transform(r, reshaped(r, x, 3, outer), inverse), 4, split);
    const Shape *s = rw_shape(r, t, 4, turned);
    x = (Complex){rw_transpose(r, s, x.re, swapped), rw_transpose(r, s, x.im, swapped)};
    return reshaped(r, x, 3, whole);
}

/* e^(2 pi i sign j^2 / 2n), real or imaginary part, for the numbers j in `at`, which are below n. */
static Instruction *chirp(Rewriter *r, OpCode f, DType dtype, Instruction *at, int64_t n,
                          double scale)
{
    const Shape *s = at->shape;
    Instruction *turns =
        rw_binary(r, OP_REMAINDER, s, rw_binary(r, OP_MULTIPLY, s, at, at),
                  rw_splat_int(r, s, 2 * n));
    const Shape *fine = rw_shape(r, DT_F64, 1, s->dims);
    Instruction *angle = rw_binary(r, OP_MULTIPLY, fine, rw_convert(r, fine, turns),
                                   rw_splat(r, fine, TWO_PI / (double)(2 * n)));
    Instruction *value = rw_binary(r, OP_MULTIPLY, fine, rw_unary(r, f, fine, angle),
                                   rw_splat(r, fine, scale));
    return rw_convert(r, rw_shape(r, dtype, 1, s->dims), value);
}

static Instruction *numbers(Rewriter *r, int64_t n)
{
    Instruction *j = rw_add(r, OP_IOTA, rw_shape(r, DT_S64, 1, &n), 0, NULL);
    inst_set_int(j, ATTR_IOTA_DIMENSION, 0);
    return j;
}

/* The transform of what the chirp is convolved with: it at the distance from 0 around a circle
 * of m places, 0 where that is n and more. */
static Complex chirp_filter(Rewriter *r, DType t, int64_t n, int64_t m, double sign)
{
    Instruction *j = numbers(r, m);
    const Shape *s = j->shape, *mask = rw_shape(r, DT_PRED, 1, &m),
                *values = rw_shape(r, t, 1, &m);
    Instruction *distance = rw_binary(
        r, OP_MINIMUM, s, j, rw_binary(r, OP_SUBTRACT, s, rw_splat_int(r, s, m), j));
    Instruction *is_near =
        rw_binary(r, OP_COMPARE, mask, distance, rw_splat_int(r, s, n));
    inst_set_int(is_near, ATTR_DIRECTION, DIRECTION_LT);
    Instruction *zero = rw_splat(r, values, 0.0), *part[2];
    for (int i = 0; i < 2; i++) {
        Instruction *operands[3] = {
            is_near, chirp(r, i ? OP_SINE : OP_COSINE, t, distance, n, i ? -sign : 1.0),
            zero};
        part[i] = rw_add(r, OP_SELECT, values, 3, operands);
    }
    int64_t dims[3] = {1, m, 1};
    Complex f = reshaped(r, (Complex){part[0], part[1]}, 3, dims);
    return reshaped(r, long_transform(r, f, false), 1, &m);
}

static Complex by_convolution(Rewriter *r, Complex x, bool inverse)
{
    const int64_t *dims = x.re->shape->dims;
    DType t = x.re->shape->dtype;
    int64_t n = dims[1], m = 1;
    double sign = inverse ? 1.0 : -1.0;
    while (m < 2 * n - 1)
        m *= 2;
    Instruction *j = numbers(r, n);
    Complex w = {chirp(r, OP_COSINE, t, j, n, 1.0), chirp(r, OP_SINE, t, j, n, sign)};
    int64_t rest[3] = {dims[0], m - n, dims[2]};
    Instruction *zeros = rw_splat(r, rw_shape(r, t, 3, rest), 0.0);
    x = times(r, x, w, 1);
    x = (Complex){joined(r, x.re, zeros), joined(r, x.im, zeros)};
    x = times(r, long_transform(r, x, false), chirp_filter(r, t, n, m, sign), 1);
    x = times(r, heads(r, long_transform(r, x, true), n), w, 1);
    if (!inverse)
        return x;
    Instruction *scale = rw_splat(r, x.re->shape, 1.0 / (double)n);
    return (Complex){rw_binary(r, OP_MULTIPLY, x.re->shape, x.re, scale),
                     rw_binary(r, OP_MULTIPLY, x.re->shape, x.im, scale)};
}

static Complex long_transform(Rewriter *r, Complex x, bool inverse)
{
    int64_t n = x.re->shape->dims[1];
    if (n <= LENGTH_MOST_DIRECT)
        return direct(r, x, 1, n, n, inverse);
    int64_t a = divisor(n);
    if (a > 1)
        return by_factors(r, x, a, inverse);
    if (n <= PRIME_MOST_DIRECT)
        return direct(r, x, 1, n, n, inverse);
    return by_convolution(r, x, inverse);
}

/* The transform of length n along d; of the result only the first `columns`. */
static Complex transform(Rewriter *r, Complex x, int64_t d, int64_t n, int64_t columns,
                         bool inverse)
{
    if (n <= LENGTH_MOST_DIRECT)
        return direct(r, x, d, n, columns, inverse);
    const Shape *s = x.re->shape;
    x = long_transform(r, around(r, x, d), inverse);
    return spread(r, columns < n ? heads(r, x, columns) : x, s, d);
}

/* -- real results ------------------------------------------------------------------------------ */

/* 1 for the first of the `half` frequencies and, if n is even, for the last; 2 for the others,
 * which stand for their mirror images, too. */
static Instruction *weights(Rewriter *r, const Shape *s, int64_t n, int64_t half)
{
    Instruction *k = rw_add(r, OP_IOTA, rw_shape(r, DT_S64, 2, s->dims), 0, NULL);
    inst_set_int(k, ATTR_IOTA_DIMENSION, 0);
    const Shape *mask = rw_shape(r, DT_PRED, 2, s->dims);
    Instruction *single = NULL;
    int64_t singles[2] = {0, half - 1};
    for (int i = 0; i < (n % 2 == 0 ? 2 : 1); i++) {
        Instruction *is =
            rw_binary(r, OP_COMPARE, mask, k, rw_splat_int(r, k->shape, singles[i]));
        inst_set_int(is, ATTR_DIRECTION, DIRECTION_EQ);
        single = single ? rw_binary(r, OP_OR, mask, single, is) : is;
    }
    Instruction *operands[3] = {single, rw_splat(r, s, 1.0), rw_splat(r, s, 2.0)};
    return rw_add(r, OP_SELECT, s, 3, operands);
}

/* All n frequencies of real values, of which the first half are given: the others mirror them. */
static Instruction *mirrored(Rewriter *r, Instruction *x, int64_t n, bool negated)
{
    const int64_t *from = x->shape->dims;
    int64_t count = n - from[1], one = 1;
    int64_t dims[3] = {from[0], count, from[2]};
    const Shape *s = rw_shape(r, x->shape->dtype, 3, dims);
    SliceDim slice[3] = {{0, from[0], 1}, {1, 1 + count, 1}, {0, from[2], 1}};
    Instruction *back = rw_unary(r, OP_REVERSE, s, rw_slice(r, s, x, slice));
    inst_set_ints(back, ATTR_DIMENSIONS, &one, 1);
    return joined(r, x, negated ? rw_unary(r, OP_NEGATE, s, back) : back);
}

/* The real values of which n / 2 + 1 frequencies are given along d. */
static Instruction *to_real(Rewriter *r, Complex x, int64_t d, int64_t n)
{
    DType t = x.re->shape->dtype;
    int64_t half = n / 2 + 1;
    if (n > LENGTH_MOST_DIRECT) {
        const Shape *s = x.re->shape;
        x = around(r, x, d);
        x = (Complex){mirrored(r, x.re, n, false), mirrored(r, x.im, n, true)};
        return spread(r, long_transform(r, x, true), s, d).re;
    }
    Instruction *c = wave(r, OP_COSINE, t, half, n, n, 1.0 / (double)n);
    Instruction *s = wave(r, OP_SINE, t, half, n, n, 1.0 / (double)n);
    Instruction *w = weights(r, c->shape, n, half);
    Instruction *re = along(r, x.re, rw_binary(r, OP_MULTIPLY, c->shape, c, w), d);
    Instruction *im = along(r, x.im, rw_binary(r, OP_MULTIPLY, s->shape, s, w), d);
    return rw_binary(r, OP_SUBTRACT, re->shape, re, im);
}

static Complex parts(Rewriter *r, Instruction *x)
{
    if (!dtype_is_complex(x->shape->dtype))
        return (Complex){x, NULL};
    DType t = x->shape->dtype == DT_C128 ? DT_F64 : DT_F32;
    const Shape *s = rw_shape(r, t, x->shape->rank, x->shape->dims);
    return (Complex){rw_unary(r, OP_REAL, s, x), rw_unary(r, OP_IMAG, s, x)};
}

static Instruction *fft(Rewriter *r, Instruction *inst)
{
    Ints length = inst_ints(inst, ATTR_FFT_LENGTH);
    int64_t type = inst_int(inst, ATTR_FFT_TYPE, FFT_FFT);
    const Shape *s = inst->operands[0]->shape;
    if (!rw_is_static(s) || rw_is_zero_size(s) || rw_is_zero_size(inst->shape))
        return NULL;
    for (uint32_t i = 0; i < length.count; i++) {
        if (length.data[i] == 0)
            return rw_splat(r, inst->shape, 0.0);
        bool halved = type == FFT_IRFFT && i + 1 == length.count;
        if (length.data[i] > INT32_MAX ||
            (!halved && s->dims[s->rank - length.count + i] != length.data[i]))
            return NULL;
    }
    bool inverse = type == FFT_IFFT || type == FFT_IRFFT;
    Complex x = parts(r, inst->operands[0]);
    int64_t last = length.data[length.count - 1];
    if (type != FFT_IRFFT)
        x = transform(r, x, (int64_t)s->rank - 1, last,
                      type == FFT_RFFT ? last / 2 + 1 : last, inverse);
    for (uint32_t i = length.count - 1; i-- > 0;)
        x = transform(r, x, (int64_t)s->rank - length.count + i, length.data[i],
                      length.data[i], inverse);
    Instruction *y =
        type == FFT_IRFFT
            ? to_real(r, x, (int64_t)s->rank - 1, last)
            : rw_binary(r, OP_COMPLEX,
                        shape_with_dtype(r->m->intern, x.re->shape, inst->shape->dtype),
                        x.re, x.im);
    if (y->shape == inst->shape)
        return y;
    return rw_unary(r, OP_COPY, inst->shape, y); /* another layout */
}

const Rule rules_expand_fft[] = {
    {OP_FFT, "fft", fft},
    {0},
};
