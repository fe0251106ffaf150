/* Matrix products: panels of PANEL columns and DEPTH rows of b are packed, so that the inner
 * loop runs over a constant number of neighbouring elements and the compiler vectorises it. */
#include "ir/eval/gemm.h"

#include <string.h>

#define PANEL 64
#define DEPTH 256

DType gemm_type(DType lhs, DType rhs, DType out)
{
    if (dtype_is_complex(lhs) || dtype_is_complex(rhs) || dtype_is_complex(out))
        return DT_C128;
    if (dtype_is_float(lhs) || dtype_is_float(rhs) || dtype_is_float(out))
        return DT_F64;
    if (out == DT_PRED)
        return DT_PRED;
    return dtype_info[out].bits <= 32 ? DT_U32 : DT_U64;
}

/* panel[k][PANEL], zero beyond the matrix; c rows are summed in row, then stored. */
#define GEMM(name, type)                                                                 \
    static void name##_rows(int64_t m, int64_t width, int64_t depth, const type *a,      \
                            int64_t lda, const type *panel, type *c, int64_t ldc)        \
    {                                                                                    \
        for (int64_t i = 0; i < m; i++) {                                                \
            type row[PANEL] = {0};                                                       \
            const type *restrict x = a + i * lda;                                        \
            for (int64_t j = 0; j < width; j++)                                          \
                row[j] = c[i * ldc + j];                                                 \
            int64_t k = 0;                                                               \
            for (; k + 4 <= depth; k += 4) {                                             \
                const type *restrict b0 = panel + k * PANEL, *restrict b1 = b0 + PANEL;  \
                const type *restrict b2 = b1 + PANEL, *restrict b3 = b2 + PANEL;         \
                type x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3];             \
                for (int j = 0; j < PANEL; j++)                                          \
                    row[j] = (((row[j] + x0 * b0[j]) + x1 * b1[j]) + x2 * b2[j]) +       \
                             x3 * b3[j];                                                 \
            }                                                                            \
            for (; k < depth; k++)                                                       \
                for (int j = 0; j < PANEL; j++)                                          \
                    row[j] += x[k] * panel[k * PANEL + j];                               \
            for (int64_t j = 0; j < width; j++)                                          \
                c[i * ldc + j] = row[j];                                                 \
        }                                                                                \
    }                                                                                    \
    static void name##_narrow(int64_t m, int64_t n, int64_t k, const type *a,            \
                              const type *b, type *c)                                    \
    {                                                                                    \
        for (int64_t l = 0; l < k && n >= 8; l++)                                        \
            for (int64_t j = 0; j < n; j++)                                              \
                c[j] += a[l] * b[l * n + j]; /* m is 1 */                                \
        for (int64_t i = 0; i < m && n < 8; i++)                                         \
            for (int64_t j = 0; j < n; j++) {                                            \
                type sum = c[i * n + j];                                                 \
                for (int64_t l = 0; l < k; l++)                                          \
                    sum += a[i * k + l] * b[l * n + j];                                  \
                c[i * n + j] = sum;                                                      \
            }                                                                            \
    }                                                                                    \
    static void name(EvalCall *call, int64_t m, int64_t n, int64_t k, const type *a,     \
                     const type *b, type *c)                                             \
    {                                                                                    \
        if (n < 8 || m == 1) {                                                           \
            name##_narrow(m, n, k, a, b, c);                                             \
            return;                                                                      \
        }                                                                                \
        type *panel = eval_temp(call, PANEL * DEPTH, sizeof *panel);                     \
        for (int64_t j = 0; j < n; j += PANEL) {                                         \
            int64_t width = n - j < PANEL ? n - j : PANEL;                               \
            for (int64_t l = 0; l < k; l += DEPTH) {                                     \
                int64_t depth = k - l < DEPTH ? k - l : DEPTH;                           \
                memset(panel, 0, (size_t)(depth * PANEL) * sizeof *panel);               \
                for (int64_t r = 0; r < depth; r++)                                      \
                    memcpy(panel + r * PANEL, b + (l + r) * n + j,                       \
                           (size_t)width * sizeof *panel);                               \
                name##_rows(m, width, depth, a + l, k, panel, c + j, n);                 \
            }                                                                            \
        }                                                                                \
    }
GEMM(gemm_f64, double)
GEMM(gemm_u32, uint32_t)
GEMM(gemm_u64, uint64_t)

typedef struct Complex {
    double re, im;
} Complex;

static void gemm_c128(int64_t m, int64_t n, int64_t k, const Complex *a, const Complex *b,
                      Complex *c)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++) {
            Complex x = a[i * k + l];
            for (int64_t j = 0; j < n; j++) {
                Complex y = b[l * n + j];
                c[i * n + j].re += x.re * y.re - x.im * y.im;
                c[i * n + j].im += x.re * y.im + x.im * y.re;
            }
        }
}

static void gemm_pred(int64_t m, int64_t n, int64_t k, const uint8_t *a, const uint8_t *b,
                      uint8_t *c)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t l = 0; l < k; l++)
            for (int64_t j = 0; j < n; j++)
                c[i * n + j] |= a[i * k + l] & b[l * n + j];
}

void gemm(EvalCall *call, DType t, int64_t m, int64_t n, int64_t k, const void *a,
          const void *b, void *c)
{
    if (t == DT_F64)
        gemm_f64(call, m, n, k, a, b, c);
    else if (t == DT_U32)
        gemm_u32(call, m, n, k, a, b, c);
    else if (t == DT_U64)
        gemm_u64(call, m, n, k, a, b, c);
    else if (t == DT_C128)
        gemm_c128(m, n, k, a, b, c);
    else
        gemm_pred(m, n, k, a, b, c);
}
