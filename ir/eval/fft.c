/* fft: discrete Fourier transforms in f64 along the innermost dimensions, by splitting into
 * prime factors; factors above SMALL_MOST by Bluestein's convolution (1970). */
#include <math.h>
#include <string.h>

#include "ir/eval/call.h"
#include "ir/eval/strided.h"

typedef struct Complex {
    double re, im;
} Complex;

#define SMALL_MOST 64 /* largest prime factor that is done directly */

static Complex multiply(Complex a, Complex b)
{
    return (Complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* e^(sign 2 pi i k / n), exact at the quarters. */
static Complex root(int64_t k, int64_t n, double sign)
{
    k %= n;
    if (4 * k % n == 0) {
        static const Complex quarters[4] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
        Complex q = quarters[4 * k / n];
        return (Complex){q.re, sign * q.im};
    }
    double angle = 6.283185307179586476925 * ((double)k / (double)n);
    return (Complex){cos(angle), sign * sin(angle)};
}

typedef struct Transform {
    EvalCall *call;
    double sign;
    int64_t whole; /* roots[k] = e^(sign 2 pi i k / whole) */
    const Complex *roots;
} Transform;

static const Complex *make_roots(EvalCall *call, int64_t n, double sign)
{
    Complex *roots = eval_temp(call, (size_t)n, sizeof *roots);
    for (int64_t k = 0; k < n; k++)
        roots[k] = root(k, n, sign);
    return roots;
}

static int64_t smallest_factor(int64_t n)
{
    for (int64_t p = 2; p * p <= n; p++)
        if (n % p == 0)
            return p;
    return n;
}

static void transform(const Transform *t, int64_t n, const Complex *in, int64_t stride,
                      Complex *out);

/* A large prime: x_k = w_k sum_j (x_j w_j) conj(w_(k-j)), w_k = e^(sign pi i k^2 / n). */
static void bluestein(const Transform *t, int64_t n, const Complex *in, int64_t stride,
                      Complex *out)
{
    int64_t size = 1;
    while (size < 2 * n - 1)
        size *= 2;
    struct Temp *mark = value_heap_mark(&t->call->eval->heap);
    Complex *w = eval_temp(t->call, (size_t)n, sizeof *w);
    Complex *a = eval_temp(t->call, (size_t)size, sizeof *a);
    Complex *b = eval_temp(t->call, (size_t)size, sizeof *b);
    Complex *fa = eval_temp(t->call, (size_t)size, sizeof *fa);
    Complex *fb = eval_temp(t->call, (size_t)size, sizeof *fb);
    memset(a, 0, (size_t)size * sizeof *a);
    memset(b, 0, (size_t)size * sizeof *b);
    for (int64_t k = 0; k < n; k++) {
        w[k] = root(k * k % (2 * n), 2 * n, t->sign);
        a[k] = multiply(in[k * stride], w[k]);
        b[k] = (Complex){w[k].re, -w[k].im};
        if (k > 0)
            b[size - k] = b[k];
    }
    Transform forward = {t->call, -1, size, make_roots(t->call, size, -1)};
    transform(&forward, size, a, 1, fa);
    transform(&forward, size, b, 1, fb);
    for (int64_t k = 0; k < size; k++)
        a[k] = multiply(fa[k], fb[k]);
    Transform back = {t->call, 1, size, make_roots(t->call, size, 1)};
    transform(&back, size, a, 1, fa);
    for (int64_t k = 0; k < n; k++) {
        Complex x = multiply(fa[k], w[k]);
        out[k] = (Complex){x.re / (double)size, x.im / (double)size};
    }
    value_heap_release(&t->call->eval->heap, mark);
}

/* out[0 .. n) of in[0], in[stride], ...; n divides t->whole. Recursion is as deep as n has
 * prime factors. */
static void transform(const Transform *t, int64_t n, const Complex *in, int64_t stride,
                      Complex *out)
{
    if (n == 1) {
        out[0] = in[0];
        return;
    }
    int64_t p = smallest_factor(n), m = n / p;
    if (p > SMALL_MOST && m == 1) {
        bluestein(t, n, in, stride, out);
        return;
    }
    if (p > SMALL_MOST) { /* split off the rest, the prime last */
        m = p;
        p = n / m;
    }
    for (int64_t r = 0; r < p; r++)
        transform(t, m, in + r * stride, stride * p, out + r * m);
    struct Temp *mark = value_heap_mark(&t->call->eval->heap);
    Complex *column = eval_temp(t->call, 2 * (size_t)p, sizeof *column);
    int64_t step = t->whole / n;
    for (int64_t k = 0; k < m; k++) {
        for (int64_t r = 0; r < p; r++)
            column[r] = multiply(out[r * m + k], t->roots[r * k * step % t->whole]);
        for (int64_t q = 0; q < p; q++) {
            Complex sum = column[0];
            for (int64_t r = 1; r < p; r++) {
                Complex x = multiply(column[r], t->roots[r * q % p * (t->whole / p)]);
                sum.re += x.re;
                sum.im += x.im;
            }
            column[p + q] = sum;
        }
        for (int64_t q = 0; q < p; q++)
            out[q * m + k] = column[p + q];
    }
    value_heap_release(&t->call->eval->heap, mark);
}

/* One dimension of data[dims], in place. */
static void transform_dimension(EvalCall *call, Complex *data, uint32_t rank,
                                const int64_t *dims, uint32_t d, double sign)
{
    int64_t n = dims[d], outer = 1, inner = 1;
    for (uint32_t k = 0; k < rank; k++) {
        outer *= k < d ? dims[k] : 1;
        inner *= k > d ? dims[k] : 1;
    }
    if (n == 0)
        return;
    Transform t = {call, sign, n, make_roots(call, n, sign)};
    Complex *in = eval_temp(call, (size_t)n, sizeof *in),
            *out = eval_temp(call, (size_t)n, sizeof *out);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            Complex *row = data + o * n * inner + i;
            for (int64_t k = 0; k < n; k++)
                in[k] = row[k * inner];
            transform(&t, n, in, 1, out);
            for (int64_t k = 0; k < n; k++)
                row[k * inner] = out[k];
        }
}

/* The first part of the last dimension of data[.., n] into out[.., size], rows of the rest. */
static void resize_last(Complex *out, int64_t size, const Complex *data, int64_t n,
                        int64_t rows)
{
    int64_t both = size < n ? size : n;
    for (int64_t r = 0; r < rows; r++)
        memcpy(out + r * size, data + r * n, (size_t)both * sizeof *out);
}

/* The missing half of the last dimension from the Hermitian symmetry over all transformed
 * dimensions: x[-k] = conj(x[k]). data[.., n], n / 2 + 1 of each row are there. */
static void complete(Complex *data, uint32_t rank, const int64_t *dims, uint32_t first)
{
    int64_t index[EVAL_RANK_MAX] = {0}, strides[EVAL_RANK_MAX], n = dims[rank - 1];
    strides_row_major(rank, dims, strides);
    do {
        int64_t k = index[rank - 1];
        if (k <= n / 2)
            continue;
        int64_t at = 0, from = 0;
        for (uint32_t d = 0; d < rank; d++) {
            at += index[d] * strides[d];
            from += (d < first ? index[d] : (dims[d] - index[d]) % dims[d]) * strides[d];
        }
        data[at] = (Complex){data[from].re, -data[from].im};
    } while (index_next(rank, dims, index));
}

void eval_fft(EvalCall *call)
{
    if (call->eval->options.exact)
        eval_unsupported(call, "correctly rounded Fourier transforms");
    const Instruction *inst = call->inst;
    const Value *x = call->operands[0];
    Value *v = eval_result(call);
    int64_t type = inst_int(inst, ATTR_FFT_TYPE, FFT_FFT);
    Ints lengths = inst_ints(inst, ATTR_FFT_LENGTH);
    uint32_t rank = x->shape->rank, first = rank - lengths.count;
    if (rank == 0 || rank > EVAL_RANK_MAX || lengths.count > rank)
        eval_fail(call, "the operand has too few dimensions");
    for (uint32_t i = 0; i < lengths.count; i++) {
        if (lengths.data[i] != 0)
            continue;
        memset(v->data, 0, v->bytes); /* sums of nothing */
        return;
    }
    if (v->count == 0)
        return;
    bool inverse = type == FFT_IFFT || type == FFT_IRFFT;
    int64_t dims[EVAL_RANK_MAX], n = x->shape->dims[rank - 1], total = 1;
    memcpy(dims, x->shape->dims, rank * sizeof *dims);
    dims[rank - 1] = lengths.data[lengths.count - 1];
    double scale = 1;
    for (uint32_t d = 0; d < rank; d++)
        total *= dims[d];
    Complex *in = eval_temp(call, (size_t)x->count, sizeof *in);
    Complex *data = eval_temp(call, (size_t)total, sizeof *data);
    number_convert(DT_C128, in, x->shape->dtype, x->data, (size_t)x->count);
    memset(data, 0, (size_t)total * sizeof *data);
    if (n > 0)
        resize_last(data, dims[rank - 1], in, n, x->count / n);
    if (type == FFT_IRFFT)
        complete(data, rank, dims, first);
    for (uint32_t d = first; d < rank; d++) {
        transform_dimension(call, data, rank, dims, d, inverse ? 1 : -1);
        scale *= inverse ? (double)dims[d] : 1;
    }
    int64_t size = v->shape->dims[rank - 1];
    Complex *out = eval_temp(call, (size_t)v->count, sizeof *out);
    memset(out, 0, (size_t)v->count * sizeof *out);
    resize_last(out, size, data, dims[rank - 1], v->count / size);
    for (int64_t i = 0; i < v->count; i++)
        out[i] = (Complex){out[i].re / scale, out[i].im / scale};
    number_convert(v->shape->dtype, v->data, DT_C128, out, (size_t)v->count);
}
