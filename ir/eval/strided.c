/* Strided copies. Dimensions that can be walked as one are merged first; the innermost two
 * loops are typed, the others are a counter. */
#include "ir/eval/strided.h"

#include <stdlib.h>
#include <string.h>

#include "ir/base/bug.h"

#define RANK_MAX 64

void strides_row_major(uint32_t rank, const int64_t *dims, int64_t *strides)
{
    int64_t s = 1;
    for (uint32_t d = rank; d-- > 0;) {
        strides[d] = s;
        s *= dims[d];
    }
}

typedef struct Wide {
    uint64_t a, b;
} Wide;

typedef struct Loop {
    uint32_t rank;
    int64_t dims[RANK_MAX], out[RANK_MAX], in[RANK_MAX];
} Loop;

#define COPY_ROWS(name, type)                                                            \
    static void name(type *out, const type *in, int64_t rows, int64_t out_row,           \
                     int64_t in_row, int64_t n, int64_t os, int64_t is)                  \
    {                                                                                    \
        for (int64_t r = 0; r < rows; r++) {                                             \
            type *o = out + r * out_row;                                                 \
            const type *p = in + r * in_row;                                             \
            if (os == 1 && is == 1) {                                                    \
                memcpy(o, p, (size_t)n * sizeof(type));                                  \
            } else if (os == 1 && is == 0) {                                             \
                type v = *p;                                                             \
                for (int64_t i = 0; i < n; i++)                                          \
                    o[i] = v;                                                            \
            } else {                                                                     \
                for (int64_t i = 0; i < n; i++)                                          \
                    o[i * os] = p[i * is];                                               \
            }                                                                            \
        }                                                                                \
    }
COPY_ROWS(rows_1, uint8_t)
COPY_ROWS(rows_2, uint16_t)
COPY_ROWS(rows_4, uint32_t)
COPY_ROWS(rows_8, uint64_t)
COPY_ROWS(rows_16, Wide)

/* A transposition walks one side across cache lines: done in tiles of 32 x 32. */
static void copy_plane(size_t size, char *out, const char *in, int64_t rows,
                       int64_t out_row, int64_t in_row, int64_t n, int64_t os, int64_t is)
{
    int64_t tile_r = rows, tile_n = n;
    if (is != 0 && is != 1 && rows > 1 && n > 32) {
        tile_r = 32;
        tile_n = 32;
    }
    for (int64_t r = 0; r < rows; r += tile_r) {
        int64_t rn = rows - r < tile_r ? rows - r : tile_r;
        for (int64_t c = 0; c < n; c += tile_n) {
            int64_t cn = n - c < tile_n ? n - c : tile_n;
            void *o = out + (r * out_row + c * os) * (int64_t)size;
            const void *p = in + (r * in_row + c * is) * (int64_t)size;
            switch (size) {
            case 1:
                rows_1(o, p, rn, out_row, in_row, cn, os, is);
                break;
            case 2:
                rows_2(o, p, rn, out_row, in_row, cn, os, is);
                break;
            case 4:
                rows_4(o, p, rn, out_row, in_row, cn, os, is);
                break;
            case 8:
                rows_8(o, p, rn, out_row, in_row, cn, os, is);
                break;
            case 16:
                rows_16(o, p, rn, out_row, in_row, cn, os, is);
                break;
            default:
                bug("strided copy of elements of %zu bytes", size);
            }
        }
    }
}

/* Drops dimensions of size 1 and merges neighbours that both sides walk as one. */
static void loop_make(Loop *l, uint32_t rank, const int64_t *dims, const int64_t *out,
                      const int64_t *in)
{
    l->rank = 0;
    for (uint32_t d = 0; d < rank; d++) {
        if (dims[d] == 1)
            continue;
        uint32_t top = l->rank;
        if (top > 0 && l->out[top - 1] == out[d] * dims[d] &&
            l->in[top - 1] == in[d] * dims[d]) {
            l->dims[top - 1] *= dims[d];
            l->out[top - 1] = out[d];
            l->in[top - 1] = in[d];
            continue;
        }
        if (top == RANK_MAX)
            bug("strided copy of more than %d dimensions", RANK_MAX);
        l->dims[top] = dims[d];
        l->out[top] = out[d];
        l->in[top] = in[d];
        l->rank++;
    }
    while (l->rank < 2) {
        memmove(l->dims + 1, l->dims, l->rank * sizeof *l->dims);
        memmove(l->out + 1, l->out, l->rank * sizeof *l->out);
        memmove(l->in + 1, l->in, l->rank * sizeof *l->in);
        l->dims[0] = 1;
        l->out[0] = l->in[0] = 0;
        l->rank++;
    }
}

void strided_copy(size_t size, uint32_t rank, const int64_t *dims, void *out,
                  const int64_t *out_strides, const void *in, const int64_t *in_strides)
{
    for (uint32_t d = 0; d < rank; d++)
        if (dims[d] == 0)
            return;
    Loop l;
    loop_make(&l, rank, dims, out_strides, in_strides);
    /* The dimension that the source walks densely goes second to last, for the tiles. */
    uint32_t outer = l.rank - 2;
    for (uint32_t d = 0; d < outer; d++) {
        if (l.in[d] != 1 || l.in[outer + 1] == 1)
            continue;
        int64_t t[3] = {l.dims[d], l.out[d], l.in[d]};
        memmove(l.dims + d, l.dims + d + 1, (outer - d) * sizeof *l.dims);
        memmove(l.out + d, l.out + d + 1, (outer - d) * sizeof *l.out);
        memmove(l.in + d, l.in + d + 1, (outer - d) * sizeof *l.in);
        l.dims[outer] = t[0];
        l.out[outer] = t[1];
        l.in[outer] = t[2];
        break;
    }
    int64_t index[RANK_MAX] = {0};
    do {
        int64_t o = 0, p = 0;
        for (uint32_t d = 0; d < outer; d++) {
            o += index[d] * l.out[d];
            p += index[d] * l.in[d];
        }
        copy_plane(size, (char *)out + o * (int64_t)size,
                   (const char *)in + p * (int64_t)size, l.dims[outer], l.out[outer],
                   l.in[outer], l.dims[outer + 1], l.out[outer + 1], l.in[outer + 1]);
    } while (index_next(outer, l.dims, index));
}

void strided_fill(size_t size, void *out, const void *value, int64_t n)
{
    const int64_t one = 1, zero = 0;
    strided_copy(size, 1, &n, out, &one, value, &zero);
}
