/* Products by cuBLASLt. */
#include "tests/fuzz/emulator/told.h"

#define CUBLASLT_FUNCTION(name, symbol, parameters) cublasStatus_t symbol parameters;
#define CUBLASLT_VERSION_FUNCTION(name, symbol, parameters) size_t symbol parameters;
#include "runtime/library/cublaslt.def"

enum { PIECE = TOLD_MEMORY / 8, OPERANDS = 4 }; /* a, b, c, d */

typedef struct Product {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatmulPreference_t preference;
    cublasLtMatrixLayout_t layouts[OPERANDS];
    CUdeviceptr data[OPERANDS], more; /* of scales, bias, aux, amax */
} Product;

typedef struct Form {
    int a, b, d; /* types */
    int compute, scale, block;
} Form;

static const Form forms[] = {
    {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F, 0},
    {CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F, 0},
    {CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F, 0},
    {CUDA_R_8I, CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, CUDA_R_32I, 0},
    {CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F, 0},
    {CUDA_R_8F_E4M3, CUDA_R_8F_E5M2, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, 0},
    {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, 0},
    {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_16BF, CUDA_R_32F, 0},
    {CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F, 32},
    {CUDA_R_4F_E2M1, CUDA_R_4F_E2M1, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, 16}};

/* There are as many bytes as the largest attribute has, whatever size is told. */
static void set_int(cublasLtMatmulDesc_t d, int attribute, int64_t value)
{
    DONE(cublasLtMatmulDescSetAttribute(d, (int)told(attribute), &value,
                                        (size_t)told(sizeof(int32_t))));
}

static void set_address(cublasLtMatmulDesc_t d, int attribute, CUdeviceptr address)
{
    void *value = told_pointer((void *)(uintptr_t)address);
    DONE(cublasLtMatmulDescSetAttribute(d, attribute, (void *)&value, sizeof value));
}

static void make_layout(Product *p, int i, int type, int64_t rows, int64_t columns,
                        int batches)
{
    int32_t order = (int32_t)told(0), count = (int32_t)told(batches);
    int64_t stride = told(rows * columns);
    count = count < 1000 ? count : 1000; /* each takes its time, wherever it lies */
    cublasLtMatrixLayout_t *l = &p->layouts[i];
    if (!DONE(cublasLtMatrixLayoutCreate(l, (int)told(type), (uint64_t)told(rows),
                                         (uint64_t)told(columns), told(rows))))
        return;
    DONE(cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_ORDER, &order,
                                          (size_t)told(sizeof order)));
    DONE(cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                          sizeof count));
    DONE(cublasLtMatrixLayoutSetAttribute(
        *l, (int)told(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET), &stride,
        sizeof stride));
}

static void set_scales(const Product *p, const Form *f)
{
    static const int scales[] = {
        CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
        CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER};
    static const int modes[] = {
        CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE,
        CUBLASLT_MATMUL_DESC_C_SCALE_MODE, CUBLASLT_MATMUL_DESC_D_SCALE_MODE};
    int mode = f->block == 32   ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0
               : f->block == 16 ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3
                                : CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    bool has_scales = f->block != 0 || told_choice(2) != 0;
    for (int i = 0; i < OPERANDS && has_scales; i++)
        set_address(p->desc, scales[i], p->more + 4096 * (CUdeviceptr)i);
    for (int i = 0; i < OPERANDS; i++)
        set_int(p->desc, modes[i], (int32_t)told(i < 2 ? mode : 0));
}

/* Factors are added up beside one product, and not those of 8 bits or less. */
static bool adds_up_factors(const Form *f, int batches)
{
    bool is_wide = f->a == CUDA_R_16F || f->a == CUDA_R_16BF || f->a == CUDA_R_32F ||
                   f->a == CUDA_R_64F;
    return is_wide && batches == 1;
}

static void set_epilogue(const Product *p, const Form *f, int64_t rows, int batches)
{
    static const int32_t epilogues[] = {
        CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_BIAS,
        CUBLASLT_EPILOGUE_RELU,     CUBLASLT_EPILOGUE_RELU_BIAS,
        CUBLASLT_EPILOGUE_GELU,     CUBLASLT_EPILOGUE_GELU_BIAS,
        CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_BGRADA,   CUBLASLT_EPILOGUE_BGRADB};
    unsigned which = told_choice(10);
    if (which >= 8 && !adds_up_factors(f, batches))
        which -= 8;
    int64_t whole = (rows + 7) / 8 * 8; /* its columns begin at multiples of 8 elements */
    int64_t ld = told(whole), stride = told(whole * 16);
    set_int(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, (int32_t)told(epilogues[which]));
    if (which != 0)
        set_address(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p->more + 512);
    if (which < 6)
        return;
    set_address(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p->more + 8192);
    DONE(cublasLtMatmulDescSetAttribute(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                                        &ld, sizeof ld));
    DONE(cublasLtMatmulDescSetAttribute(
        p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, &stride, sizeof stride));
    set_int(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE,
            (int32_t)told(CUDA_R_16BF));
    set_int(p->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, (int32_t)told(CUDA_R_32F));
}

static void multiply(const Told *t, const Product *p, bool on_device)
{
    cublasLtMatmulHeuristicResult_t results[3], checked;
    static const struct {
        float value;
        char more[12]; /* of wider types */
    } one = {.value = 1};
    const void *alpha = &one, *beta = &one;
    int count = 0;
    if (!DONE(cublasLtMatmulAlgoGetHeuristic(
            told_pointer(p->handle) == NULL ? NULL : p->handle, p->desc, p->layouts[0],
            p->layouts[1], p->layouts[2], p->layouts[3], p->preference, (int)told(3) % 4,
            results, &count)) ||
        count == 0)
        return;
    results[0].algo.data[0] = (uint64_t)told((int64_t)results[0].algo.data[0]);
    DONE(cublasLtMatmulAlgoCheck(p->handle, p->desc, p->layouts[0], p->layouts[1],
                                 p->layouts[2], p->layouts[3], &results[0].algo,
                                 &checked));
    if (on_device) {
        alpha = told_pointer((void *)(uintptr_t)p->more);
        beta = told_pointer((void *)(uintptr_t)(p->more + 64));
    }
    void *data[OPERANDS];
    for (int i = 0; i < OPERANDS; i++)
        data[i] = told_pointer((void *)(uintptr_t)p->data[i]);
    DONE(cublasLtMatmul(p->handle, p->desc, alpha, data[0], p->layouts[0], data[1],
                        p->layouts[1], beta, data[2], p->layouts[2], data[3],
                        p->layouts[3], &results[0].algo, NULL, 0, t->stream));
}

/* Whether alpha and beta lie on the device. */
static bool describe(Product *p, const Form *f)
{
    bool is_blocked = f->block != 0, on_device = told_choice(2) != 0;
    bool turns_a = is_blocked || told_choice(2) != 0,
         turns_b = !is_blocked && told_choice(2) != 0;
    int64_t m = is_blocked ? 16 : 1 + told_choice(16),
            n = is_blocked ? 16 : 1 + told_choice(16);
    int64_t k = is_blocked ? 64 : 1 + told_choice(16);
    int batches = 1 + (int)told_choice(2);
    set_int(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, (int32_t)told(turns_a));
    set_int(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, (int32_t)told(turns_b));
    set_int(p->desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, (int32_t)told(on_device));
    set_scales(p, f);
    set_epilogue(p, f, m, batches);
    if (told_choice(2))
        set_address(p->desc, CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, p->more + 128);
    make_layout(p, 0, f->a, turns_a ? k : m, turns_a ? m : k, batches);
    make_layout(p, 1, f->b, turns_b ? n : k, turns_b ? k : n, batches);
    make_layout(p, 2, f->d, m, n, batches);
    make_layout(p, 3, f->d, m, n, batches);
    uint64_t workspace = (uint64_t)told(8192);
    DONE(cublasLtMatmulPreferenceSetAttribute(
        p->preference, (int)told(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES), &workspace,
        sizeof workspace));
    return on_device;
}

void tell_products(const Told *t)
{
    const Form *f = &forms[told_choice(sizeof forms / sizeof *forms)];
    Product p = {.more = t->memory + OPERANDS * PIECE};
    for (unsigned i = 0; i < OPERANDS; i++)
        p.data[i] = t->memory + i * PIECE;
    if (DONE(cublasLtCreate(&p.handle)) &&
        DONE(cublasLtMatmulDescCreate(&p.desc, (int)told(f->compute),
                                      (int)told(f->scale))) &&
        DONE(cublasLtMatmulPreferenceCreate(&p.preference))) {
        bool on_device = describe(&p, f);
        multiply(t, &p, on_device);
        DONE(cuStreamSynchronize(t->stream));
    }
    for (int i = 0; i < OPERANDS; i++)
        cublasLtMatrixLayoutDestroy(p.layouts[i]);
    cublasLtMatmulPreferenceDestroy(p.preference);
    cublasLtMatmulDescDestroy(p.desc);
    cublasLtDestroy(p.handle);
}
