/* Tensor cores of the emulator: the rows of tensor_cores.def, executed on the registers of a warp.
 *
 * Products and the sums of one instruction are taken in f64 and rounded once. A GPU rounds otherwise, so that
 * results agree within a tolerance, and exactly where all sums are exact; integers wrap.
 * Indices come from the table's text, read here once more: the compiler's reading is checked against it. */
#include <pthread.h>
#include <string.h>

#include "ir/number/number.h"
#include "runtime/emu/engine_parts.h"

enum {
    LANES = 32,
    OPERANDS = 3, /* a, b, c */
    MOST_M = 16,
    MOST_N = 8,
    MOST_K = 64,
    MOST_ELEMENTS = MOST_M * MOST_K,
};

typedef struct Operand {
    DType type;
    uint32_t elements;  /* of a lane */
    uint32_t registers; /* words of a lane */
    /* [lane * elements + element]: where it lies in a matrix [m][k], [k][n] or [m][n] */
    uint16_t indices[MOST_ELEMENTS];
} Operand;

typedef struct Row {
    uint32_t number, sizes[3]; /* m, n, k */
    const char *layouts[OPERANDS];
    Operand operands[OPERANDS];
} Row;

static Row rows[] = {
#define TENSOR_CORE(number, name, m, n, k, a, b, c, sm, ptx, a_layout, b_layout,         \
                    c_layout)                                                            \
    {number,                                                                             \
     {m, n, k},                                                                          \
     {a_layout, b_layout, c_layout},                                                     \
     {{.type = DT_##a}, {.type = DT_##b}, {.type = DT_##c}}},
#include "ir/kernel/tensor_cores.def"
};

static float small_floats[DT_COUNT][256]; /* of formats of 8 bits, by code */

/* Reads a layout, elements | lanes: columns[0..4] are the lanes', the elements' follow. A column is the step in
 * the matrix with these dimensions. Returns how many element bits there are. */
static uint32_t columns_read(const char *text, const char *dims, const uint32_t steps[2],
                             uint32_t columns[16])
{
    uint32_t bits = 0, lane = 0;
    bool is_lane = false;
    for (const char *p = text; *p != 0; p++) {
        if (*p == '|')
            is_lane = true;
        if (*p != dims[0] && *p != dims[1])
            continue;
        uint32_t step = steps[*p == dims[1]] << (p[1] - '0');
        columns[is_lane ? lane++ : 5 + bits++] = step;
    }
    return bits;
}

static void operand_prepare(Operand *o, const char *layout, const char *dims,
                            const uint32_t steps[2])
{
    uint32_t columns[16] = {0};
    uint32_t bits = columns_read(layout, dims, steps, columns);
    o->elements = UINT32_C(1) << bits;
    o->registers = o->elements * dtype_info[o->type].bits / 32;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        for (uint32_t i = 0; i < o->elements; i++) {
            uint32_t index = 0;
            for (uint32_t bit = 0; bit < 5 + bits; bit++) {
                uint32_t from = bit < 5 ? lane >> bit : i >> (bit - 5);
                index += (from & 1) * columns[bit];
            }
            o->indices[lane * o->elements + i] = (uint16_t)index;
        }
    }
}

static void rows_prepare(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Row *r = &rows[i];
        operand_prepare(&r->operands[0], r->layouts[0], "mk",
                        (uint32_t[]){r->sizes[2], 1});
        operand_prepare(&r->operands[1], r->layouts[1], "kn",
                        (uint32_t[]){r->sizes[1], 1});
        operand_prepare(&r->operands[2], r->layouts[2], "mn",
                        (uint32_t[]){r->sizes[1], 1});
        for (uint32_t j = 0; j < 2; j++) {
            DType t = r->operands[j].type;
            for (uint32_t code = 0; code < 256 && dtype_info[t].bits == 8; code++)
                small_floats[t][code] = number_to_float(t, code);
        }
    }
}

static const Row *row_find(uint32_t number)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, rows_prepare);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].number == number)
            return &rows[i];
    }
    return NULL;
}

/* -- elements ----------------------------------------------------------------------------------------------- */

/* Element i of packed codes of `bits` bits. */
static uint32_t code_of(const uint32_t *words, uint32_t i, uint32_t bits)
{
    uint32_t at = i * bits;
    uint32_t word = words[at / 32] >> at % 32;
    return bits == 32 ? word : word & ((UINT32_C(1) << bits) - 1);
}

static double value_of(DType t, const uint32_t *words, uint32_t i)
{
    uint32_t bits = dtype_info[t].bits;
    if (t == DT_F64) {
        double value;
        memcpy(&value, words + (size_t)2 * i, 8);
        return value;
    }
    uint32_t code = code_of(words, i, bits), sign = UINT32_C(1) << (bits - 1);
    switch (dtype_info[t].class) {
    case DTC_UINT:
        return code;
    case DTC_SINT:
        return (double)code - ((code & sign) != 0 ? 2.0 * sign : 0);
    default:
        break;
    }
    float value;
    if (bits == 8)
        return (double)small_floats[t][code];
    if (bits == 16)
        return (double)(t == DT_F16 ? number_f16_to_float((uint16_t)code)
                                    : number_bf16_to_float((uint16_t)code));
    memcpy(&value, &code, 4);
    return (double)value;
}

/* The elements of an operand of all lanes, [m][k], [k][n] or [m][n]. */
static void gather(const Row *r, const Thread *warp, uint32_t operand, double *out)
{
    const Operand *o = &r->operands[operand];
    for (uint32_t lane = 0; lane < LANES; lane++) {
        const uint32_t *words = warp[lane].call.registers;
        for (uint32_t i = 0; i < operand; i++)
            words += r->operands[i].registers;
        for (uint32_t i = 0; i < o->elements; i++)
            out[o->indices[lane * o->elements + i]] = value_of(o->type, words, i);
    }
}

/* tf32: the last 13 bits of the mantissa are not seen. */
static void round_factors(double *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        float value = (float)values[i];
        uint32_t code;
        memcpy(&code, &value, 4);
        code &= UINT32_C(0xffffe000);
        memcpy(&value, &code, 4);
        values[i] = (double)value;
    }
}

/* Gives lanes their elements of the result. */
static void scatter(const Row *r, Thread *warp, const double *c)
{
    const Operand *o = &r->operands[2];
    uint32_t before = r->operands[0].registers + r->operands[1].registers;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        uint32_t *words = warp[lane].call.registers + before;
        for (uint32_t i = 0; i < o->elements; i++) {
            double sum = c[o->indices[lane * o->elements + i]];
            float rounded = (float)sum;
            if (o->type == DT_S32)
                words[i] = (uint32_t)(int64_t)sum;
            else if (o->type == DT_F64)
                memcpy(words + (size_t)2 * i, &sum, 8);
            else
                memcpy(words + i, &rounded, 4);
        }
    }
}

void warp_mma(Engine *e, Thread *warp)
{
    const Row *r = row_find(warp->call.number);
    double a[MOST_ELEMENTS], b[MOST_K * MOST_N], c[MOST_M * MOST_N];
    if (r == NULL) {
        finding_set(
            e->finding, FINDING_INVALID,
            "mma number %u, which this emulator does not know: ", warp->call.number);
        engine_describe(e, warp, warp->site);
        e->aborted = true;
        return;
    }
    uint32_t m = r->sizes[0], n = r->sizes[1], k = r->sizes[2];
    gather(r, warp, 0, a);
    gather(r, warp, 1, b);
    gather(r, warp, 2, c);
    if (r->operands[0].type == DT_F32) {
        round_factors(a, m * k);
        round_factors(b, k * n);
    }
    for (uint32_t row = 0; row < m; row++)
        for (uint32_t i = 0; i < k; i++)
            for (uint32_t column = 0; column < n; column++)
                c[row * n + column] += a[row * k + i] * b[i * n + column];
    scatter(r, warp, c);
}
