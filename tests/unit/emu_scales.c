/* cuBLASLt's products of f8 on the emulator with scales of f32 - one for each line, for 128 values of a line along k, for
 * 128 lines of so many - against sums written out here, with the scales where NVIDIA documents them. All sums are exact. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/number/number.h"
#include "tests/unit/shared/emulator.h"

#define CUBLASLT_FUNCTION(name, symbol, parameters) cublasStatus_t symbol parameters;
#define CUBLASLT_VERSION_FUNCTION(name, symbol, parameters) size_t symbol parameters;
#include "runtime/library/cublaslt.def"

enum { M = 132, N = 36, K = 400, BLOCK = 128, BLOCKS = 4, OUTER = 3, PIECES, SQUARES };

static CUdeviceptr upload(const void *bytes, size_t count)
{
    CUdeviceptr p;
    ok(cuMemAlloc_v2(&p, count));
    ok(cuMemcpyHtoDAsync_v2(p, bytes, count, NULL));
    return p;
}

/* A power of two, of either sign. */
static float scale_value(size_t i)
{
    static const float values[] = {1, -2, 0.5F, 4, 0.25F};
    return values[i * 3 % 5];
}

/* Where the scale of a line and k lies. */
static size_t scale_offset(int mode, size_t lines, size_t line, size_t k)
{
    size_t block = k / BLOCK;
    return mode == OUTER    ? line
           : mode == PIECES ? block * lines + line
                            : line / BLOCK * 4 + block;
}

typedef struct Product {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
} Product;

static Product make_product(const int32_t modes[2], int32_t transpose, uint64_t m,
                            int type)
{
    Product p;
    ok(cublasLtMatmulDescCreate(&p.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    ok(cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, &transpose,
                                      4));
    for (int i = 0; i < 2; i++)
        ok(cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE + i,
                                          &modes[i], 4));
    ok(cublasLtMatrixLayoutCreate(&p.a, CUDA_R_8F_E4M3, K, m, K));
    ok(cublasLtMatrixLayoutCreate(&p.b, CUDA_R_8F_E5M2, K, N, K));
    ok(cublasLtMatrixLayoutCreate(&p.d, type, m, N, m));
    return p;
}

static void drop_product(Product *p)
{
    ok(cublasLtMatrixLayoutDestroy(p->a));
    ok(cublasLtMatrixLayoutDestroy(p->b));
    ok(cublasLtMatrixLayoutDestroy(p->d));
    ok(cublasLtMatmulDescDestroy(p->desc));
}

static const float alpha = 2, beta = 0;

/* How many numbers are wrong. */
static size_t run(cublasLtHandle_t handle, const int32_t modes[2])
{
    static unsigned char a[M * K], b[N * K];
    static float scales[2][M * BLOCKS], d[M * N];
    for (size_t i = 0; i < sizeof a; i++)
        a[i] = (unsigned char)number_from_double(DT_F8E4M3FN, (double)(i * 7 % 9) - 4);
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (unsigned char)number_from_double(DT_F8E5M2, (double)(i * 5 % 7) - 3);
    for (size_t i = 0; i < (size_t)M * BLOCKS; i++) {
        scales[0][i] = scale_value(i);
        scales[1][i] = scale_value(i + 2);
    }
    Product p = make_product(modes, 1, M, CUDA_R_32F);
    CUdeviceptr memory[5] = {upload(a, sizeof a), upload(b, sizeof b),
                             upload(scales[0], sizeof scales[0]),
                             upload(scales[1], sizeof scales[1]), upload(d, sizeof d)};
    void *at[5];
    for (int i = 0; i < 5; i++)
        at[i] = (void *)(uintptr_t)memory[i];
    for (int i = 0; i < 2; i++)
        ok(cublasLtMatmulDescSetAttribute(
            p.desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER + i, &at[2 + i], 8));
    ok(cublasLtMatmul(handle, p.desc, &alpha, at[0], p.a, at[1], p.b, &beta, at[4], p.d,
                      at[4], p.d, NULL, NULL, 0, NULL));
    ok(cuMemcpyDtoHAsync_v2(d, memory[4], sizeof d, NULL));
    size_t wrong = 0;
    for (size_t m = 0; m < M; m++) {
        for (size_t n = 0; n < N; n++) {
            double sum = 0;
            for (size_t k = 0; k < K; k++)
                sum += number_to_double(DT_F8E4M3FN, a[m * K + k]) *
                       (double)scales[0][scale_offset(modes[0], M, m, k)] *
                       number_to_double(DT_F8E5M2, b[n * K + k]) *
                       (double)scales[1][scale_offset(modes[1], N, n, k)];
            wrong += (double)d[m + n * M] != 2 * sum;
        }
    }
    for (int i = 0; i < 5; i++)
        ok(cuMemFree_v2(memory[i]));
    drop_product(&p);
    return wrong;
}

static cublasStatus_t ask(cublasLtHandle_t handle, const int32_t modes[2],
                          int32_t transpose, uint64_t m, int type)
{
    Product p = make_product(modes, transpose, m, type);
    cublasLtMatmulHeuristicResult_t result;
    int count = 0;
    cublasStatus_t r = cublasLtMatmulAlgoGetHeuristic(handle, p.desc, p.a, p.b, p.d, p.d,
                                                      NULL, 1, &result, &count);
    drop_product(&p);
    return r;
}

static void test_scales(void **state)
{
    (void)state;
    static const int32_t good[][2] = {
        {OUTER, OUTER}, {PIECES, PIECES}, {PIECES, SQUARES}, {SQUARES, PIECES}};
    static const int32_t bad[][2] = {
        {SQUARES, SQUARES}, {OUTER, PIECES}, {SQUARES, OUTER}, {OUTER, 0}, {0, PIECES},
        {PIECES, 2},        {6, 6}};
    cublasLtHandle_t handle;
    CUcontext context;
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxPushCurrent_v2(context));
    ok(cublasLtCreate(&handle));
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(run(handle, good[i]), 0);
        assert_int_equal(ask(handle, good[i], 1, M, CUDA_R_16BF), 0);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(ask(handle, bad[i], 1, M, CUDA_R_32F), 15);
    /* rows that are no fours go with scales of lines only; results of 8 bits with none */
    assert_int_equal(ask(handle, good[0], 1, M + 2, CUDA_R_32F), 0);
    assert_int_equal(ask(handle, good[1], 1, M + 2, CUDA_R_32F), 15);
    assert_int_equal(ask(handle, good[1], 1, M, CUDA_R_8F_E4M3), 15);
    ok(cublasLtDestroy(handle));
    ok(cuCtxPopCurrent_v2(NULL));
    ok(cuDevicePrimaryCtxRelease_v2(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_scales)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
