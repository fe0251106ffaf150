/* Random bits: ThreeFry 2x32 (Salmon et al., SC 2011) with 20 rounds and Philox 4x32 with 10,
 * drawn in the order that the language's programs rely on; rng and its state. */
#include <math.h>
#include <string.h>

#include "ir/eval/call.h"
#include "ir/eval/random.h"
#include "ir/eval/strided.h"

/* -- ThreeFry ----------------------------------------------------------------------- */

static uint32_t rotate(uint32_t x, uint32_t by)
{
    return x << by | x >> (32 - by);
}

void random_threefry(uint64_t key, uint64_t counter, uint32_t out[2])
{
    static const uint8_t rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    uint32_t ks[3] = {(uint32_t)key, (uint32_t)(key >> 32), 0};
    ks[2] = 0x1bd11bda ^ ks[0] ^ ks[1];
    uint32_t x0 = (uint32_t)counter + ks[0], x1 = (uint32_t)(counter >> 32) + ks[1];
    for (uint32_t group = 0; group < 5; group++) {
        for (uint32_t i = 0; i < 4; i++) {
            x0 += x1;
            x1 = rotate(x1, rotations[group % 2][i]) ^ x0;
        }
        x0 += ks[(group + 1) % 3];
        x1 += ks[(group + 2) % 3] + group + 1;
    }
    out[0] = x0;
    out[1] = x1;
}

/* The dimension whose even and odd elements are the two words of one counter: the first one
 * of even size, else the largest. */
static uint32_t split_dimension(const Shape *s)
{
    uint32_t best = 0;
    for (uint32_t d = 0; d < s->rank; d++)
        if (s->dims[d] % 2 == 0)
            return d;
    for (uint32_t d = 1; d < s->rank; d++)
        if (s->dims[d] > s->dims[best])
            best = d;
    return best;
}

/* 32-bit words in row-major order; gives how many counters were used. */
static uint64_t threefry_words(uint64_t key, uint64_t counter, const Shape *s,
                               uint32_t *out)
{
    int64_t outer = 1, inner = 1, size = 1;
    if (s->rank > 0) {
        uint32_t split = split_dimension(s);
        size = s->dims[split];
        for (uint32_t d = 0; d < s->rank; d++) {
            outer *= d < split ? s->dims[d] : 1;
            inner *= d > split ? s->dims[d] : 1;
        }
    }
    int64_t half = (size + 1) / 2;
    uint64_t used = 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t h = 0; h < half; h++)
            for (int64_t i = 0; i < inner; i++) {
                uint32_t words[2];
                random_threefry(key, counter + used++, words);
                out[(o * size + 2 * h) * inner + i] = words[0];
                if (2 * h + 1 < size)
                    out[(o * size + 2 * h + 1) * inner + i] = words[1];
            }
    return used;
}

/* -- Philox ------------------------------------------------------------------------- */

static void philox(uint64_t key, const uint64_t counter[2], uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t x[4] = {(uint32_t)counter[0], (uint32_t)(counter[0] >> 32),
                     (uint32_t)counter[1], (uint32_t)(counter[1] >> 32)};
    for (uint32_t round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xd2511f53 * x[0], b = (uint64_t)0xcd9e8d57 * x[2];
        uint32_t y0 = (uint32_t)(b >> 32) ^ x[1] ^ k0,
                 y2 = (uint32_t)(a >> 32) ^ x[3] ^ k1;
        x[0] = y0;
        x[1] = (uint32_t)b;
        x[2] = y2;
        x[3] = (uint32_t)a;
        k0 += 0x9e3779b9;
        k1 += 0xbb67ae85;
    }
    memcpy(out, x, sizeof x);
}

static void counter_add(uint64_t counter[2], uint64_t n)
{
    counter[0] += n;
    counter[1] += counter[0] < n;
}

/* n words, four of each counter. */
static void philox_words(uint64_t key, uint64_t counter[2], uint32_t *out, int64_t n)
{
    for (int64_t i = 0; i < n; i += 4) {
        uint32_t words[4];
        philox(key, counter, words);
        counter_add(counter, 1);
        memcpy(out + i, words, (size_t)(n - i < 4 ? n - i : 4) * sizeof *out);
    }
}

/* -- rng-bit-generator ------------------------------------------------------------------ */

/* Bits of each element from its words: one word up to 32 bits, else two, low word first. */
static void fill_bits(Value *v, const uint32_t *words)
{
    DType t = v->shape->dtype;
    uint32_t bits = dtype_info[t].bits;
    size_t size = value_element_bytes(v);
    char *data = v->data;
    for (int64_t i = 0; i < v->count; i++) {
        uint64_t w = words[i];
        if (bits == 64)
            w = words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
        number_store(t, data + (size_t)i * size, w);
    }
}

void eval_rng_bit_generator(EvalCall *call)
{
    const Value *state = call->operands[0];
    int64_t algorithm = inst_int(call->inst, ATTR_RNG_ALGORITHM, RNG_DEFAULT);
    uint64_t s[3] = {0};
    size_t state_bytes = (size_t)state->count * value_element_bytes(state);
    if ((state_bytes != 16 && state_bytes != 24) ||
        (state_bytes == 24 && algorithm == RNG_THREE_FRY))
        eval_unsupported(call, "a state of %s",
                         shape_text(call->scratch, state->shape, false));
    memcpy(s, state->data, state_bytes);
    Value *v = eval_result(call);
    Value *bits = v->shape->dtype == DT_TUPLE ? v->elements[1] : v;
    uint32_t width = dtype_info[bits->shape->dtype].bits;
    if (width > 64 || bits->shape->dtype == DT_PRED)
        eval_unsupported(call, "random bits of %s", dtype_name(bits->shape->dtype));
    uint32_t *words = eval_temp(call, 2 * (size_t)bits->count + 2, sizeof *words);
    if (algorithm == RNG_THREE_FRY && width == 64) {
        for (int64_t i = 0; i < bits->count; i++)
            random_threefry(s[0], s[1] + (uint64_t)i, words + 2 * i);
        s[1] += (uint64_t)bits->count;
    } else if (algorithm == RNG_THREE_FRY) {
        s[1] += threefry_words(s[0], s[1], bits->shape, words);
    } else {
        /* A state of two words: the second counts, the first is the key and the upper half. */
        uint64_t counter[2] = {s[1], state_bytes == 24 ? s[2] : s[0]};
        philox_words(s[0], counter, words, width == 64 ? 2 * bits->count : bits->count);
        s[1] = counter[0];
        s[2] = counter[1];
    }
    fill_bits(bits, words);
    if (v->shape->dtype == DT_TUPLE)
        memcpy(v->elements[0]->data, s, state_bytes);
}

/* -- rng ---------------------------------------------------------------------------- */

/* Words of the device's own generator, which rng-get-and-update-state counts; as the pass `random`
 * asks rng-bit-generator for them. */
static uint32_t *draw(EvalCall *call, int64_t n)
{
    uint32_t *words = eval_temp(call, (size_t)n + 1, sizeof *words);
    philox_words(RNG_OWN_KEY, call->device->counter, words, n);
    return words;
}

/* [0, 1) of the type that is computed in: 24 or 53 bits. */
static double unit(const uint32_t *words, int64_t i, bool wide)
{
    if (!wide)
        return (double)(words[i] >> 8) * 0x1p-24;
    uint64_t w = words[2 * i] | (uint64_t)words[2 * i + 1] << 32;
    return (double)(w >> 11) * 0x1p-53;
}

static void random_floats(EvalCall *call, Value *v, bool normal)
{
    DType t = v->shape->dtype;
    bool wide = t == DT_F64;
    int64_t n = v->count;
    size_t size = value_element_bytes(v);
    double a = number_get_double(t, call->operands[0]->data);
    double b = number_get_double(t, call->operands[1]->data);
    const uint32_t *words = draw(call, n * (wide ? 2 : 1) * (normal ? 2 : 1));
    for (int64_t i = 0; i < n; i++) {
        char *to = (char *)v->data + (size_t)i * size;
        double u = unit(words, i, wide), x;
        if (normal)
            x = a + b * sqrt(-2 * log(1 - u)) *
                        cos(6.283185307179586 * unit(words, n + i, wide));
        else
            x = a + (b - a) * u;
        number_set_double(t, to, wide ? x : (double)(float)x);
        if (!normal && a < b &&
            !(number_get_double(t, to) < b)) /* rounded up to the end */
            number_set_double(t, to, a);
    }
}

static void random_integers(EvalCall *call, Value *v)
{
    DType t = v->shape->dtype;
    bool wide = dtype_info[t].bits == 64;
    uint64_t low = (uint64_t)value_int(call->operands[0], 0);
    uint64_t span = (uint64_t)value_int(call->operands[1], 0) - low;
    const uint32_t *words = draw(call, v->count * (wide ? 2 : 1));
    size_t size = value_element_bytes(v);
    span = wide ? span : (uint32_t)span;
    for (int64_t i = 0; i < v->count; i++) {
        uint64_t w = wide ? words[2 * i] | (uint64_t)words[2 * i + 1] << 32 : words[i];
        w = low + (span == 0 ? 0 : w % span);
        number_set_int(t, (char *)v->data + (size_t)i * size, (int64_t)w);
    }
}

void eval_rng(EvalCall *call)
{
    Value *v = eval_result(call);
    DType t = v->shape->dtype;
    bool normal = inst_int(call->inst, ATTR_DISTRIBUTION, RNG_UNIFORM) == RNG_NORMAL;
    if (dtype_is_complex(t))
        eval_unsupported(call, "random numbers of %s", dtype_name(t));
    if (dtype_is_float(t)) {
        random_floats(call, v, normal);
    } else if (t == DT_PRED) {
        const uint32_t *words = draw(call, v->count);
        for (int64_t i = 0; i < v->count; i++)
            ((char *)v->data)[i] = (char)(words[i] >> 31);
    } else {
        random_integers(call, v);
    }
}

void eval_rng_get_and_update_state(EvalCall *call)
{
    Value *v = eval_result(call);
    if (v->bytes != sizeof call->device->counter)
        eval_unsupported(call, "a state of %s",
                         shape_text(call->scratch, v->shape, false));
    memcpy(v->data, call->device->counter, v->bytes);
    counter_add(call->device->counter, (uint64_t)inst_int(call->inst, ATTR_DELTA, 0));
}

void eval_seed(EvalCall *call)
{
    Value *v = eval_result(call);
    *(uint64_t *)v->data = call->device->counter[0];
    counter_add(call->device->counter, 1);
}
