/* Expansion of fft: along each of its dimensions a product with the matrix of the discrete
 * Fourier transform, real and imaginary parts apart.
 *
 *   y[k] = sum over j of x[j] e^(-+2 pi i j k / n), divided by n for the inverse
 *
 * The angles are exact: j k mod n is an integer, and cosine and sine are taken in f64. n^2
 * products instead of n log n: the transforms of programs that need no library are short. */
#include "passes/simplify/expand.h"

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

/* The transform of length n along d; of the result only the first `columns`. */
static Complex transform(Rewriter *r, Complex x, int64_t d, int64_t n, int64_t columns,
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

/* The real values of which n / 2 + 1 frequencies are given along d. */
static Instruction *to_real(Rewriter *r, Complex x, int64_t d, int64_t n)
{
    DType t = x.re->shape->dtype;
    int64_t half = n / 2 + 1;
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
