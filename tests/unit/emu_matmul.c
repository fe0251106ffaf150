/* cuBLASLt's matmul on the emulator against sums written out here: types, orders, transposes,
 * batches, epilogues, scales. Values are small integers, so that every sum is exact. */
#include <math.h>
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

enum { M = 5, N = 9, K = 7, BATCHES = 2, ELEMENTS = 1024 };

typedef struct Case {
    int type, out_type, compute;
    int transpose_a, transpose_b;
    int row_major; /* all matrices */
    uint32_t epilogue;
    double alpha, beta;
    float scale_a; /* 0: none */
} Case;

static const Case cases[] = {
    {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 0, 0, 0, 1, 1, 0, 0},
    {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 1, 0, 0, 1, 2, 3, 0},
    {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, 0, 1, 0, 1, -1, 1, 0},
    {CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, 1, 1, 0, CUBLASLT_EPILOGUE_BIAS, 1, 0,
     0},
    {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, 0, 0, 1, CUBLASLT_EPILOGUE_RELU, 1, 1,
     0},
    {CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 0, 1, 1, CUBLASLT_EPILOGUE_RELU_BIAS,
     1, 0, 0},
    {CUDA_R_8F_E4M3, CUDA_R_32F, CUBLAS_COMPUTE_32F, 1, 0, 0, 1, 1, 0, 0.5F},
    {CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, 1, 0, 0, 1, 1, 0, 0},
    {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 0, 0, 0, CUBLASLT_EPILOGUE_GELU, 0.125,
     0, 0},
    {CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 0, 1, 0,
     CUBLASLT_EPILOGUE_GELU_AUX_BIAS, 0.125, 0, 0},
};

static DType type_of(int type)
{
    switch (type) {
    case CUDA_R_64F:
        return DT_F64;
    case CUDA_R_16F:
        return DT_F16;
    case CUDA_R_16BF:
        return DT_BF16;
    case CUDA_R_8F_E4M3:
        return DT_F8E4M3FN;
    case CUDA_R_8I:
        return DT_S8;
    case CUDA_R_32I:
        return DT_S32;
    default:
        return DT_F32;
    }
}

typedef struct Matrix {
    int type;
    uint64_t rows, columns, ld, stride;
    int row_major;
    double values[ELEMENTS];
    CUdeviceptr memory;
    cublasLtMatrixLayout_t layout;
} Matrix;

static double *at(Matrix *x, uint64_t batch, uint64_t row, uint64_t column)
{
    uint64_t inside = x->row_major ? row * x->ld + column : row + column * x->ld;
    return &x->values[batch * x->stride + inside];
}

static void check(int status)
{
    if (status != 0)
        fail_msg("status %d: %s", status, emulator_said());
}

static void matrix_init(Matrix *x, int type, int row_major, uint64_t rows,
                        uint64_t columns, int seed)
{
    unsigned char bytes[ELEMENTS * 8];
    size_t each = dtype_info[type_of(type)].storage;
    int32_t batches = BATCHES, order = row_major;
    *x = (Matrix){.type = type, .rows = rows, .columns = columns, .row_major = row_major};
    x->ld = (row_major ? columns : rows) + 3;
    x->stride = x->ld * (row_major ? rows : columns) + 5;
    for (int i = 0; i < ELEMENTS; i++) {
        x->values[i] = (double)((i * 37 + seed) % 7 - 3);
        number_set_double(type_of(type), bytes + (size_t)i * each, x->values[i]);
    }
    check(cuMemAlloc_v2(&x->memory, ELEMENTS * each));
    check(cuMemcpyHtoDAsync_v2(x->memory, bytes, ELEMENTS * each, NULL));
    check(cublasLtMatrixLayoutCreate(&x->layout, type, rows, columns, (int64_t)x->ld));
    check(cublasLtMatrixLayoutSetAttribute(x->layout, CUBLASLT_MATRIX_LAYOUT_ORDER,
                                           &order, 4));
    check(cublasLtMatrixLayoutSetAttribute(x->layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                           &batches, 4));
    check(cublasLtMatrixLayoutSetAttribute(
        x->layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &x->stride, 8));
}

static void matrix_deinit(Matrix *x)
{
    check(cuMemFree_v2(x->memory));
    check(cublasLtMatrixLayoutDestroy(x->layout));
}

/* Before the epilogue's function. */
static double expected_at(const Case *c, Matrix *a, Matrix *b, Matrix *d, Matrix *bias,
                          uint64_t batch, uint64_t row, uint64_t column)
{
    double sum = 0;
    for (uint64_t k = 0; k < K; k++)
        sum += (c->transpose_a ? *at(a, batch, k, row) : *at(a, batch, row, k)) *
               (c->transpose_b ? *at(b, batch, column, k) : *at(b, batch, k, column));
    double value = c->alpha * sum * (c->scale_a != 0 ? (double)c->scale_a : 1) +
                   c->beta * *at(d, batch, row, column);
    if ((c->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0)
        value += bias->values[row];
    return value;
}

static double finished(const Case *c, double value)
{
    if ((c->epilogue & CUBLASLT_EPILOGUE_RELU) != 0 && value < 0)
        value = 0;
    if ((c->epilogue & CUBLASLT_EPILOGUE_GELU) != 0)
        value =
            0.5 * value *
            (1 + tanh(0.7978845608028654 * (value + 0.044715 * value * value * value)));
    return value;
}

/* Rounded as d's type is. */
static double rounded(const Case *c, double x)
{
    unsigned char bytes[8];
    number_set_double(type_of(c->out_type), bytes, x);
    return number_get_double(type_of(c->out_type), bytes);
}

static void set_aux(cublasLtMatmulDesc_t desc, const Matrix *aux)
{
    check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                         &aux->memory, 8));
    check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                                         &aux->ld, 8));
    check(cublasLtMatmulDescSetAttribute(
        desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, &aux->stride, 8));
}

static double read_at(const Case *c, Matrix *x, const unsigned char *bytes,
                      uint64_t batch, uint64_t row, uint64_t column)
{
    size_t i = (size_t)(at(x, batch, row, column) - x->values);
    DType type = type_of(c->out_type);
    return number_get_double(type, bytes + i * dtype_info[type].storage);
}

static void run_case(cublasLtHandle_t handle, const Case *c)
{
    static Matrix a, b, d, bias, aux;
    static unsigned char bytes[ELEMENTS * 8], aux_bytes[ELEMENTS * 8];
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result;
    CUdeviceptr scale;
    int returned = 0;
    int scale_type =
        c->out_type == CUDA_R_64F || c->out_type == CUDA_R_32I ? c->out_type : CUDA_R_32F;
    unsigned char alpha[8], beta[8];
    number_set_double(type_of(scale_type), alpha, c->alpha);
    number_set_double(type_of(scale_type), beta, c->beta);
    matrix_init(&a, c->type, c->row_major, c->transpose_a ? K : M, c->transpose_a ? M : K,
                1);
    matrix_init(&b, c->type, c->row_major, c->transpose_b ? N : K, c->transpose_b ? K : N,
                2);
    matrix_init(&d, c->out_type, c->row_major, M, N, 4);
    matrix_init(&bias, c->out_type, 0, M, 1, 5);
    matrix_init(&aux, c->out_type, 0, M, N, 6);
    aux.stride = aux.ld * (N + 1);
    check(cublasLtMatmulDescCreate(&desc, c->compute, scale_type));
    check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA,
                                         &c->transpose_a, 4));
    check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB,
                                         &c->transpose_b, 4));
    check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE,
                                         &c->epilogue, 4));
    check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                         &bias.memory, 8));
    set_aux(desc, &aux);
    check(cuMemAlloc_v2(&scale, 4));
    if (c->scale_a != 0) {
        check(cuMemcpyHtoDAsync_v2(scale, &c->scale_a, 4, NULL));
        check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                                             &scale, 8));
    }
    check(cublasLtMatmulPreferenceCreate(&preference));
    check(cublasLtMatmulAlgoGetHeuristic(handle, desc, a.layout, b.layout, d.layout,
                                         d.layout, preference, 1, &result, &returned));
    assert_int_equal(returned, 1);
    void *pa = (void *)(uintptr_t)a.memory, *pb = (void *)(uintptr_t)b.memory;
    void *pd = (void *)(uintptr_t)d.memory;
    check(cublasLtMatmul(handle, desc, alpha, pa, a.layout, pb, b.layout, beta, pd,
                         d.layout, pd, d.layout, &result.algo, NULL, 0, NULL));
    size_t each = dtype_info[type_of(c->out_type)].storage;
    check(cuMemcpyDtoHAsync_v2(bytes, d.memory, ELEMENTS * each, NULL));
    check(cuMemcpyDtoHAsync_v2(aux_bytes, aux.memory, ELEMENTS * each, NULL));
    bool has_aux =
        (c->epilogue & CUBLASLT_EPILOGUE_GELU_AUX) == CUBLASLT_EPILOGUE_GELU_AUX;
    for (uint64_t batch = 0; batch < BATCHES; batch++) {
        for (uint64_t row = 0; row < M; row++) {
            for (uint64_t column = 0; column < N; column++) {
                double actual = read_at(c, &d, bytes, batch, row, column);
                double before = expected_at(c, &a, &b, &d, &bias, batch, row, column);
                double wanted = rounded(c, finished(c, before));
                if (fabs(actual - wanted) > 1e-6)
                    fail_msg("case %zu, %d %d %d: %g, not %g", (size_t)(c - cases),
                             (int)batch, (int)row, (int)column, actual, wanted);
                double kept = read_at(c, &aux, aux_bytes, batch, row, column);
                if (has_aux && kept != rounded(c, before))
                    fail_msg("case %zu, %d %d %d: %g is kept, not %g",
                             (size_t)(c - cases), (int)batch, (int)row, (int)column, kept,
                             before);
            }
        }
    }
    check(cuMemFree_v2(scale));
    check(cublasLtMatmulPreferenceDestroy(preference));
    check(cublasLtMatmulDescDestroy(desc));
    matrix_deinit(&a);
    matrix_deinit(&b);
    matrix_deinit(&d);
    matrix_deinit(&bias);
    matrix_deinit(&aux);
}

static void test_matmul(void **state)
{
    (void)state;
    cublasLtHandle_t handle;
    CUcontext context;
    check(cuInit(0));
    check(cuDevicePrimaryCtxRetain(&context, 0));
    check(cuCtxPushCurrent_v2(context));
    check(cublasLtCreate(&handle));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run_case(handle, &cases[i]);
    check(cublasLtDestroy(handle));
    check(cuDevicePrimaryCtxRelease_v2(0));
}

enum { SCALED_M = 130, SCALED_N = 3, SCALED_K = 160 };

static CUdeviceptr upload(const void *bytes, size_t count)
{
    CUdeviceptr p;
    check(cuMemAlloc_v2(&p, count));
    check(cuMemcpyHtoDAsync_v2(p, bytes, count, NULL));
    return p;
}

/* Scales of `lines` rows in the order of tensor cores, written as the library documents it:
 * tiles of 128 x 4, in a tile 32 rows of 16 bytes, in those 4 groups of rows. */
static void tile_scales(unsigned char *out, const unsigned char *scales, size_t lines,
                        size_t count)
{
    size_t tiles = (count + 3) / 4;
    for (size_t line = 0; line < lines; line++)
        for (size_t i = 0; i < count; i++)
            out[(line / 128 * tiles + i / 4) * 512 + line % 32 * 16 +
                line % 128 / 32 * 4 + i % 4] = scales[line * count + i];
}

typedef struct ScaledCase {
    int type;
    int32_t mode;
    size_t block;
    DType t, scale_type;
    bool
        is_row_major; /* the scales lie as a program has them, not as tensor cores want */
    double factor;    /* alpha, in device memory; 0: alpha is 1 */
    double sign;      /* of the scales */
} ScaledCase;

/* D = A^T B with block scales; A and B hold one code per byte here. How many numbers are wrong. */
static size_t run_scaled(cublasLtHandle_t handle, const ScaledCase *c)
{
    int type = c->type;
    int32_t mode = c->mode;
    size_t block = c->block, wrong = 0;
    DType t = c->t, scale_type = c->scale_type;
    static unsigned char a[SCALED_M * SCALED_K], b[SCALED_N * SCALED_K];
    static unsigned char packed[SCALED_M * SCALED_K], sa[SCALED_M * 16],
        sb[SCALED_N * 16];
    static unsigned char tiled[2 * 3 * 512];
    static float d[SCALED_M * SCALED_N];
    size_t scales = SCALED_K / block, each = t == DT_F4E2M1FN ? 2 : 1;
    CUdeviceptr memory[5];
    for (size_t i = 0; i < sizeof a; i++)
        a[i] = (unsigned char)number_from_double(t, (double)(i * 7 % 9) - 4);
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (unsigned char)number_from_double(t, (double)(i * 5 % 7) - 3);
    for (size_t i = 0; i < SCALED_M * scales; i++)
        sa[i] =
            (unsigned char)number_from_double(scale_type, i % 3 == 0 ? 0.5 : c->sign * 2);
    for (size_t i = 0; i < SCALED_N * scales; i++)
        sb[i] = (unsigned char)number_from_double(scale_type, i % 2 == 0 ? 4 : 1);
    for (int side = 0; side < 2; side++) {
        const unsigned char *codes = side == 0 ? a : b;
        size_t count = (side == 0 ? sizeof a : sizeof b) / each;
        for (size_t i = 0; i < count; i++)
            packed[i] = (unsigned char)(each == 1 ? codes[i]
                                                  : codes[2 * i] | codes[2 * i + 1] << 4);
        memory[side] = upload(packed, count);
        memset(tiled, 0, sizeof tiled);
        const unsigned char *from = side == 0 ? sa : sb;
        size_t lines = side == 0 ? SCALED_M : SCALED_N;
        if (c->is_row_major)
            memcpy(tiled, from, lines * scales);
        else
            tile_scales(tiled, from, lines, scales);
        memory[2 + side] = upload(tiled, sizeof tiled);
    }
    memory[4] = upload(d, sizeof d);
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t la, lb, ld;
    int32_t transpose = 1;
    float alpha = 1, beta = 0;
    check(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    check(
        cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, 4));
    check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &mode,
                                         4));
    check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &mode,
                                         4));
    check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER,
                                         &memory[2], 8));
    check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
                                         &memory[3], 8));
    check(cublasLtMatrixLayoutCreate(&la, type, SCALED_K, SCALED_M, SCALED_K));
    check(cublasLtMatrixLayoutCreate(&lb, type, SCALED_K, SCALED_N, SCALED_K));
    check(cublasLtMatrixLayoutCreate(&ld, CUDA_R_32F, SCALED_M, SCALED_N, SCALED_M));
    void *p[5];
    for (int i = 0; i < 5; i++)
        p[i] = (void *)(uintptr_t)memory[i];
    const void *factors[2] = {&alpha, &beta};
    float on_device[2] = {(float)c->factor, 0};
    CUdeviceptr factor = upload((unsigned char *)on_device, sizeof on_device);
    if (c->factor != 0) {
        int32_t device = 1;
        check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_POINTER_MODE,
                                             &device, 4));
        factors[0] = (void *)(uintptr_t)factor;
        factors[1] = (void *)(uintptr_t)(factor + 4);
    }
    check(cublasLtMatmul(handle, desc, factors[0], p[0], la, p[1], lb, factors[1], p[4],
                         ld, p[4], ld, NULL, NULL, 0, NULL));
    check(cuMemcpyDtoHAsync_v2(d, memory[4], sizeof d, NULL));
    for (size_t m = 0; m < SCALED_M; m++) {
        for (size_t n = 0; n < SCALED_N; n++) {
            double sum = 0;
            for (size_t k = 0; k < SCALED_K; k++)
                sum += number_to_double(t, a[m * SCALED_K + k]) *
                       number_to_double(t, b[n * SCALED_K + k]) *
                       fabs(number_to_double(scale_type, sa[m * scales + k / block])) *
                       number_to_double(scale_type, sb[n * scales + k / block]);
            wrong +=
                (double)d[m + n * SCALED_M] != sum * (c->factor != 0 ? c->factor : 1);
        }
    }
    for (int i = 0; i < 5; i++)
        check(cuMemFree_v2(memory[i]));
    check(cublasLtMatrixLayoutDestroy(la));
    check(cublasLtMatrixLayoutDestroy(lb));
    check(cublasLtMatrixLayoutDestroy(ld));
    check(cublasLtMatmulDescDestroy(desc));
    check(cuMemFree_v2(factor));
    return wrong;
}

/* What the library refuses of block-scaled products, the emulator refuses, too. */
static void refuse_scaled(cublasLtHandle_t handle)
{
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d, odd;
    int32_t transpose = 1, none = 0, mx = 2;
    float alpha = 1, beta = 0;
    void *p = (void *)(uintptr_t)4096, *off = (void *)(uintptr_t)4104;
    check(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    check(cublasLtMatrixLayoutCreate(&a, CUDA_R_8F_E4M3, 64, 64, 64));
    check(cublasLtMatrixLayoutCreate(&b, CUDA_R_8F_E4M3, 64, 64, 64));
    check(cublasLtMatrixLayoutCreate(&d, CUDA_R_32F, 64, 64, 64));
    check(cublasLtMatrixLayoutCreate(&odd, CUDA_R_8F_E4M3, 64, 64, 72));
    for (int i = 0; i < 2; i++) {
        check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE + i,
                                             &mx, 4));
        check(cublasLtMatmulDescSetAttribute(
            desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER + i, &p, sizeof p));
    }
    /* A not transposed; then columns at odd offsets; then a pointer in the middle of 16 bytes */
    assert_int_equal(cublasLtMatmul(handle, desc, &alpha, p, a, p, b, &beta, p, d, p, d,
                                    NULL, NULL, 0, NULL),
                     15);
    check(
        cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, 4));
    assert_int_equal(cublasLtMatmul(handle, desc, &alpha, p, odd, p, b, &beta, p, d, p, d,
                                    NULL, NULL, 0, NULL),
                     15);
    assert_int_equal(cublasLtMatmul(handle, desc, &alpha, off, a, p, b, &beta, p, d, p, d,
                                    NULL, NULL, 0, NULL),
                     7);
    /* scales on one side only */
    check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &none,
                                         4));
    assert_int_equal(cublasLtMatmul(handle, desc, &alpha, p, a, p, b, &beta, p, d, p, d,
                                    NULL, NULL, 0, NULL),
                     15);
    cublasLtMatrixLayout_t layouts[] = {a, b, d, odd};
    for (int i = 0; i < 4; i++)
        check(cublasLtMatrixLayoutDestroy(layouts[i]));
    check(cublasLtMatmulDescDestroy(desc));
}

/* rows: codegen.B5 (edge: scales that are not in tiles give wrong numbers) codegen.B7
 * codegen.B9 (edge: what is refused) */
static void test_block_scales(void **state)
{
    (void)state;
    cublasLtHandle_t handle;
    CUcontext context;
    check(cuInit(0));
    check(cuDevicePrimaryCtxRetain(&context, 0));
    check(cuCtxPushCurrent_v2(context));
    check(cublasLtCreate(&handle));
    ScaledCase mx = {CUDA_R_8F_E4M3, 2, 32, DT_F8E4M3FN, DT_F8E8M0FNU, .sign = 1};
    ScaledCase nv = {CUDA_R_4F_E2M1, 1, 16, DT_F4E2M1FN, DT_F8E4M3FN, .sign = 1};
    assert_int_equal(run_scaled(handle, &mx), 0);
    assert_int_equal(run_scaled(handle, &nv), 0);
    nv.factor = 0.25;
    assert_int_equal(run_scaled(handle, &nv), 0);
    nv.sign = -1; /* tensor cores do not look at it */
    assert_int_equal(run_scaled(handle, &nv), 0);
    mx.is_row_major = nv.is_row_major = true;
    assert_true(run_scaled(handle, &mx) > SCALED_M * SCALED_N / 2);
    assert_true(run_scaled(handle, &nv) > SCALED_M * SCALED_N / 2);
    refuse_scaled(handle);
    check(cublasLtDestroy(handle));
    check(cuDevicePrimaryCtxRelease_v2(0));
}

/* What A gives for each row of D, B for each column, added up along k; d is the product, too. */
static void run_sums(cublasLtHandle_t handle, uint32_t epilogue, int transpose)
{
    static Matrix a, b, d;
    static unsigned char bytes[ELEMENTS * 8];
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulHeuristicResult_t result;
    CUdeviceptr sums;
    int returned = 0, one_batch = 1;
    const float alpha = 1, beta = 0;
    bool of_b = epilogue == CUBLASLT_EPILOGUE_BGRADB;
    uint64_t count = of_b ? N : M;
    matrix_init(&a, CUDA_R_16BF, 0, transpose ? K : M, transpose ? M : K, 1);
    matrix_init(&b, CUDA_R_16BF, 0, transpose ? N : K, transpose ? K : N, 2);
    matrix_init(&d, CUDA_R_32F, 0, M, N, 3);
    Matrix *all[] = {&a, &b, &d};
    for (int i = 0; i < 3; i++)
        check(cublasLtMatrixLayoutSetAttribute(
            all[i]->layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &one_batch, 4));
    check(cuMemAlloc_v2(&sums, 4 * count)); /* no byte more */
    check(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    check(
        cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &transpose, 4));
    check(
        cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, &transpose, 4));
    check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                         4));
    check(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &sums,
                                         8));
    check(cublasLtMatmulAlgoGetHeuristic(handle, desc, a.layout, b.layout, d.layout,
                                         d.layout, NULL, 1, &result, &returned));
    assert_int_equal(returned, 1);
    void *to = (void *)(uintptr_t)d.memory;
    check(cublasLtMatmul(handle, desc, &alpha, (void *)(uintptr_t)a.memory, a.layout,
                         (void *)(uintptr_t)b.memory, b.layout, &beta, to, d.layout, to,
                         d.layout, &result.algo, NULL, 0, NULL));
    check(cuMemcpyDtoHAsync_v2(bytes, sums, 4 * count, NULL));
    check(cuCtxSynchronize());
    for (uint64_t i = 0; i < count; i++) {
        double sum = 0;
        for (uint64_t k = 0; k < K; k++)
            sum += of_b == !transpose ? *at(of_b ? &b : &a, 0, k, i)
                                      : *at(of_b ? &b : &a, 0, i, k);
        assert_true(number_get_double(DT_F32, bytes + 4 * i) == sum);
    }
    /* of several products: not in the emulator */
    one_batch = 2;
    for (int i = 0; i < 3; i++)
        check(cublasLtMatrixLayoutSetAttribute(
            all[i]->layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &one_batch, 4));
    assert_int_equal(cublasLtMatmulAlgoGetHeuristic(handle, desc, a.layout, b.layout,
                                                    d.layout, d.layout, NULL, 1, &result,
                                                    &returned),
                     15);
    check(cuMemFree_v2(sums));
    check(cublasLtMatmulDescDestroy(desc));
    for (int i = 0; i < 3; i++)
        matrix_deinit(all[i]);
}

static void test_sums(void **state)
{
    (void)state;
    cublasLtHandle_t handle;
    CUcontext context;
    check(cuInit(0));
    check(cuDevicePrimaryCtxRetain(&context, 0));
    check(cuCtxPushCurrent_v2(context));
    check(cublasLtCreate(&handle));
    for (int transpose = 0; transpose < 2; transpose++) {
        run_sums(handle, CUBLASLT_EPILOGUE_BGRADA, transpose);
        run_sums(handle, CUBLASLT_EPILOGUE_BGRADB, transpose);
    }
    check(cublasLtDestroy(handle));
    check(cuCtxPopCurrent_v2(NULL));
    check(cuDevicePrimaryCtxRelease_v2(0));
}

/* Columns whose offsets would wrap, and matrices that do not lie as their elements have to. */
static void test_offsets(void **state)
{
    static Matrix a, b, d;
    (void)state;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulHeuristicResult_t result;
    CUcontext context;
    int returned = 0;
    float one = 1, zero = 0;
    int64_t far = INT64_C(1) << 61;
    check(cuInit(0));
    check(cuDevicePrimaryCtxRetain(&context, 0));
    check(cuCtxPushCurrent_v2(context));
    check(cublasLtCreate(&handle));
    check(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    matrix_init(&a, CUDA_R_32F, 0, M, K, 1);
    matrix_init(&b, CUDA_R_32F, 0, K, N, 2);
    matrix_init(&d, CUDA_R_32F, 0, M, N, 3);
    char *pointers[3] = {(char *)(uintptr_t)a.memory, (char *)(uintptr_t)b.memory,
                         (char *)(uintptr_t)d.memory};
    check(cublasLtMatmulAlgoGetHeuristic(handle, desc, a.layout, b.layout, d.layout,
                                         d.layout, NULL, 1, &result, &returned));
    check(cublasLtMatrixLayoutSetAttribute(a.layout, CUBLASLT_MATRIX_LAYOUT_LD, &far, 8));
    assert_int_equal(cublasLtMatmulAlgoGetHeuristic(handle, desc, a.layout, b.layout,
                                                    d.layout, d.layout, NULL, 1, &result,
                                                    &returned),
                     15); /* not supported */
    far = (int64_t)a.ld;
    check(cublasLtMatrixLayoutSetAttribute(a.layout, CUBLASLT_MATRIX_LAYOUT_LD, &far, 8));
    cublasLtMatmul(handle, desc, &one, pointers[0] + 1, a.layout, pointers[1], b.layout,
                   &zero, pointers[2], d.layout, pointers[2], d.layout, &result.algo,
                   NULL, 0, NULL);
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_non_null(strstr(emulator_said(), "misaligned: cublasLtMatmul, A"));
    cublasLtMatrixLayoutDestroy(a.layout);
    cublasLtMatrixLayoutDestroy(b.layout);
    cublasLtMatrixLayoutDestroy(d.layout);
    check(cublasLtMatmulDescDestroy(desc));
    check(cublasLtDestroy(handle));
    check(cuCtxPopCurrent_v2(NULL));
    check(cuDevicePrimaryCtxRelease_v2(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul), cmocka_unit_test(test_block_scales),
        cmocka_unit_test(test_sums), cmocka_unit_test(test_offsets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
