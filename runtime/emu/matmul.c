/* Operands are converted into panels (ROWS rows of A, COLUMNS columns of B, k innermost but
 * one, zeros behind the edge), which one small kernel multiplies. See matmul.h. */
#include "runtime/emu/matmul.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/emu/element.h"

enum { ROWS = 4, COLUMNS = 8 };

int64_t matrix_index(const MatmulMatrix *x, uint64_t row, uint64_t column)
{
    int64_t r = (int64_t)row, c = (int64_t)column;
    return x->is_row_major ? r * x->ld + c : r + c * x->ld;
}

uint64_t matrix_elements_bytes(DType t, uint64_t n)
{
    return dtype_info[t].bits < 8 ? (n * dtype_info[t].bits + 7) / 8
                                  : n * dtype_info[t].storage;
}

/* Panels of an operand: `width` lines (rows of op(A), columns of op(B)) side by side for each
 * k. */
typedef struct Panels {
    bool is_double;
    uint64_t width, lines, k;
    void *data;
} Panels;

static uint64_t divided_up(uint64_t n, uint64_t by)
{
    return (n + by - 1) / by;
}

uint64_t matmul_scales_bytes(const MatmulScales *s, uint64_t lines, uint64_t k)
{
    uint64_t count = 0;
    if (s->order == SCALES_OF_LINES)
        count = lines;
    else if (s->order == SCALES_BY_BLOCKS)
        count = lines * divided_up(k, s->block);
    else if (s->order == SCALES_OF_SQUARES)
        count = divided_up(lines, s->block) * divided_up(divided_up(k, s->block), 4) * 4;
    else if (s->order == SCALES_IN_TILES)
        count = divided_up(lines, 128) * 128 * divided_up(divided_up(k, s->block), 4) * 4;
    return count * dtype_info[s->type].storage;
}

/* Where the scale of (line, block along k) lies in those of one batch. */
static uint64_t scale_index(const Panels *p, const MatmulScales *s, uint64_t line,
                            uint64_t block)
{
    uint64_t blocks = divided_up(p->k, s->block);
    if (s->order == SCALES_BY_BLOCKS)
        return block * p->lines + line;
    if (s->order == SCALES_OF_SQUARES)
        return line / s->block * divided_up(blocks, 4) * 4 + block;
    uint64_t tile = line / 128 * divided_up(blocks, 4) + block / 4;
    return tile * 512 + line % 32 * 16 + line % 128 / 32 * 4 + block % 4;
}

static double scale_get(const Panels *p, const MatmulScales *s, uint64_t batch,
                        uint64_t line, uint64_t block)
{
    const unsigned char *first = s->data + matmul_scales_bytes(s, p->lines, p->k) * batch;
    double scale = number_get_double(s->type, first + scale_index(p, s, line, block) *
                                                          dtype_info[s->type].storage);
    return s->order == SCALES_IN_TILES ? fabs(scale) : scale;
}

static void kernel_f32(const float *a, const float *b, uint64_t k,
                       float out[ROWS][COLUMNS])
{
    float sum[ROWS][COLUMNS] = {{0}};
    for (uint64_t i = 0; i < k; i++, a += ROWS, b += COLUMNS)
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++)
                sum[r][c] += a[r] * b[c];
    memcpy(out, sum, sizeof sum);
}

static void kernel_f64(const double *a, const double *b, uint64_t k,
                       double out[ROWS][COLUMNS])
{
    double sum[ROWS][COLUMNS] = {{0}};
    for (uint64_t i = 0; i < k; i++, a += ROWS, b += COLUMNS)
        for (int r = 0; r < ROWS; r++)
            for (int c = 0; c < COLUMNS; c++)
                sum[r][c] += a[r] * b[c];
    memcpy(out, sum, sizeof sum);
}

static int64_t batch_offset(const MatmulMatrix *x, uint64_t batch)
{
    return x->batch_stride * (int64_t)batch * dtype_info[x->type].bits / 8;
}

static void panel_set(const Panels *p, uint64_t line, uint64_t k, double value)
{
    uint64_t at = (line / p->width * p->k + k) * p->width + line % p->width;
    if (p->is_double)
        ((double *)p->data)[at] = value;
    else
        ((float *)p->data)[at] = (float)value;
}

/* Element `at` of a matrix that starts at `data`. */
static double matrix_get(DType t, const unsigned char *data, int64_t at)
{
    if (dtype_info[t].bits != 4)
        return element_get(t, data + at * dtype_info[t].storage);
    unsigned char code = (unsigned char)(data[at / 2] >> at % 2 * 4 & 15);
    return number_get_double(t, &code);
}

static double round_factor(DType to, double x)
{
    unsigned char element[4];
    if (to == DT_F32)
        return (double)element_round_tf32((float)x);
    element_set(to, element, x);
    return element_get(to, element);
}

/* `lines_are_rows`: whether a line is a row of the stored matrix. */
static void panels_fill(Panels *p, const MatmulMatrix *x, bool lines_are_rows,
                        uint64_t batch, DType rounds_to)
{
    const unsigned char *data = x->data + batch_offset(x, batch);
    const MatmulScales *s = &x->scales;
    bool scales_blocks = s->order != SCALES_NONE && s->order != SCALES_OF_LINES;
    for (uint64_t line = 0; line < p->lines; line++) {
        double scale = 1;
        for (uint64_t k = 0; k < p->k; k++) {
            int64_t at =
                lines_are_rows ? matrix_index(x, line, k) : matrix_index(x, k, line);
            if (scales_blocks && k % s->block == 0)
                scale = scale_get(p, s, batch, line, k / s->block);
            double value = scale * matrix_get(x->type, data, at);
            panel_set(p, line, k,
                      rounds_to == DT_INVALID ? value : round_factor(rounds_to, value));
        }
    }
}

static bool panels_init(Panels *p, bool is_double, uint64_t width, uint64_t lines,
                        uint64_t k)
{
    *p = (Panels){.is_double = is_double, .width = width, .lines = lines, .k = k};
    uint64_t padded = (lines + width - 1) / width * width;
    size_t each = is_double ? 8 : 4;
    if (k != 0 && padded > SIZE_MAX / each / k)
        return false;
    p->data = calloc(padded * k + 1, each);
    return p->data != NULL;
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double line_scale(const MatmulMatrix *x, uint64_t line)
{
    return x->scales.order == SCALES_OF_LINES
               ? element_get(x->scales.type,
                             x->scales.data + line * dtype_info[x->scales.type].storage)
               : 1;
}

/* Finishes and stores one element of D. */
static void element_finish(const Matmul *m, uint64_t batch, uint64_t row, uint64_t column,
                           double sum)
{
    double value = m->alpha * line_scale(&m->a, row) * line_scale(&m->b, column) * sum;
    if (m->c.data != NULL && m->beta != 0) {
        int64_t at = matrix_index(&m->c, row, column) * dtype_info[m->c.type].storage;
        value +=
            m->beta * element_get(m->c.type, m->c.data + batch_offset(&m->c, batch) + at);
    }
    if (m->bias != NULL)
        value +=
            element_get(m->bias_type, m->bias + row * dtype_info[m->bias_type].storage);
    if (m->aux != NULL) {
        int64_t at = m->aux_batch_stride * (int64_t)batch + (int64_t)row +
                     (int64_t)column * m->aux_ld;
        element_set(m->aux_type, m->aux + at * dtype_info[m->aux_type].storage, value);
    }
    if (m->has_relu)
        value = value < 0 ? 0 : value;
    if (m->has_gelu)
        value = gelu(value);
    if (m->amax != NULL && fabs(value) > (double)*m->amax)
        *m->amax = (float)fabs(value);
    int64_t at = matrix_index(&m->d, row, column) * dtype_info[m->d.type].storage;
    element_set(m->d.type, m->d.data + batch_offset(&m->d, batch) + at,
                value * m->scale_d);
}

static void tile_run(const Matmul *m, uint64_t batch, const Panels *a, const Panels *b,
                     uint64_t row, uint64_t column)
{
    float narrow[ROWS][COLUMNS];
    double wide[ROWS][COLUMNS];
    uint64_t a_at = row * a->k, b_at = column * b->k;
    if (a->is_double)
        kernel_f64((double *)a->data + a_at, (double *)b->data + b_at, a->k, wide);
    else
        kernel_f32((float *)a->data + a_at, (float *)b->data + b_at, a->k, narrow);
    for (uint64_t r = 0; r < ROWS && row + r < m->d.rows; r++)
        for (uint64_t c = 0; c < COLUMNS && column + c < m->d.columns; c++)
            element_finish(m, batch, row + r, column + c,
                           a->is_double ? wide[r][c] : (double)narrow[r][c]);
}

static void sums_store(const Matmul *m, const Panels *p, unsigned char *out)
{
    for (uint64_t line = 0; line < p->lines; line++) {
        double wide = 0;
        float narrow = 0;
        for (uint64_t k = 0; k < p->k; k++) {
            uint64_t at = (line / p->width * p->k + k) * p->width + line % p->width;
            if (p->is_double)
                wide += ((const double *)p->data)[at];
            else
                narrow += ((const float *)p->data)[at];
        }
        element_set(m->bias_type, out + line * dtype_info[m->bias_type].storage,
                    p->is_double ? wide : (double)narrow);
    }
}

bool matmul_run(const Matmul *m)
{
    DTypeClass class = dtype_info[m->a.type].class;
    bool is_double = m->a.type == DT_F64 || class == DTC_SINT || class == DTC_UINT;
    uint64_t k = m->a.is_transposed ? m->a.rows : m->a.columns;
    Panels a, b;
    if (!panels_init(&a, is_double, ROWS, m->d.rows, k))
        return false;
    if (!panels_init(&b, is_double, COLUMNS, m->d.columns, k)) {
        free(a.data);
        return false;
    }
    if (m->amax != NULL)
        *m->amax = 0;
    for (uint64_t batch = 0; batch < m->batches; batch++) {
        panels_fill(&a, &m->a, !m->a.is_transposed, batch, m->rounds_to);
        panels_fill(&b, &m->b, m->b.is_transposed, batch, m->rounds_to);
        for (uint64_t row = 0; row < m->d.rows; row += ROWS)
            for (uint64_t column = 0; column < m->d.columns; column += COLUMNS)
                tile_run(m, batch, &a, &b, row, column);
    }
    if (m->sums[0] != NULL)
        sums_store(m, &a, m->sums[0]);
    if (m->sums[1] != NULL)
        sums_store(m, &b, m->sums[1]);
    free(a.data);
    free(b.data);
    return true;
}
