/* The functions of cublaslt.def: descriptors, and matmuls that are operations of a stream. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/emu/allocation.h"
#include "runtime/emu/context.h"
#include "runtime/emu/matmul.h"
#include "runtime/emu/queue.h"
#include "runtime/emu/steps.h"
#include "runtime/plan/read.h"

#pragma GCC visibility push(default)
#define CUBLASLT_FUNCTION(name, symbol, parameters) cublasStatus_t symbol parameters;
#define CUBLASLT_VERSION_FUNCTION(name, symbol, parameters) size_t symbol parameters;
#include "runtime/library/cublaslt.def"
#pragma GCC visibility pop

enum {
    LT_SUCCESS = 0,
    LT_ALLOC_FAILED = 3,
    LT_INVALID_VALUE = 7,
    LT_EXECUTION_FAILED = 13,
    LT_NOT_SUPPORTED = 15,
    LT_VERSION = 130100,
};

struct cublasLtContext {
    int unused;
};

struct cublasLtMatmulDescOpaque {
    int32_t compute, scale_type, pointer_mode;
    int32_t transpose_a, transpose_b;
    uint32_t epilogue;
    void *bias, *aux;
    int64_t aux_ld, aux_batch_stride;
    const void *scale[4]; /* A, B, C, D */
    void *amax_d;
    int32_t aux_type, bias_type; /* -1: as D */
    int8_t fast_accumulation;
    int32_t scale_mode[4];
};

struct cublasLtMatrixLayoutOpaque {
    uint32_t type;
    int32_t order;
    uint64_t rows, columns;
    int64_t ld;
    int32_t batches;
    int64_t batch_stride;
};

struct cublasLtMatmulPreferenceOpaque {
    uint64_t workspace;
    uint32_t alignment[4];
};

typedef struct Attribute {
    int id;
    size_t offset, bytes;
} Attribute;

#define DESC(id, member)                                                                 \
    {                                                                                    \
        CUBLASLT_MATMUL_DESC_##id, offsetof(struct cublasLtMatmulDescOpaque, member),    \
            sizeof(((struct cublasLtMatmulDescOpaque *)0)->member)                       \
    }
#define LAYOUT(id, member)                                                               \
    {                                                                                    \
        CUBLASLT_MATRIX_LAYOUT_##id,                                                     \
            offsetof(struct cublasLtMatrixLayoutOpaque, member),                         \
            sizeof(((struct cublasLtMatrixLayoutOpaque *)0)->member)                     \
    }
#define PREFERENCE(id, member)                                                           \
    {                                                                                    \
        CUBLASLT_MATMUL_PREF_##id,                                                       \
            offsetof(struct cublasLtMatmulPreferenceOpaque, member),                     \
            sizeof(((struct cublasLtMatmulPreferenceOpaque *)0)->member)                 \
    }

static const Attribute desc_attributes[] = {
    DESC(POINTER_MODE, pointer_mode),
    DESC(TRANSA, transpose_a),
    DESC(TRANSB, transpose_b),
    DESC(EPILOGUE, epilogue),
    DESC(BIAS_POINTER, bias),
    DESC(EPILOGUE_AUX_POINTER, aux),
    DESC(EPILOGUE_AUX_LD, aux_ld),
    DESC(EPILOGUE_AUX_BATCH_STRIDE, aux_batch_stride),
    DESC(A_SCALE_POINTER, scale[0]),
    DESC(B_SCALE_POINTER, scale[1]),
    DESC(C_SCALE_POINTER, scale[2]),
    DESC(D_SCALE_POINTER, scale[3]),
    DESC(AMAX_D_POINTER, amax_d),
    DESC(EPILOGUE_AUX_DATA_TYPE, aux_type),
    DESC(BIAS_DATA_TYPE, bias_type),
    DESC(FAST_ACCUM, fast_accumulation),
    DESC(A_SCALE_MODE, scale_mode[0]),
    DESC(B_SCALE_MODE, scale_mode[1]),
    DESC(C_SCALE_MODE, scale_mode[2]),
    DESC(D_SCALE_MODE, scale_mode[3]),
    {0},
};

static const Attribute layout_attributes[] = {
    LAYOUT(TYPE, type),
    LAYOUT(ORDER, order),
    LAYOUT(ROWS, rows),
    LAYOUT(COLS, columns),
    LAYOUT(LD, ld),
    LAYOUT(BATCH_COUNT, batches),
    LAYOUT(STRIDED_BATCH_OFFSET, batch_stride),
    {0},
};

static const Attribute preference_attributes[] = {
    PREFERENCE(MAX_WORKSPACE_BYTES, workspace),
    PREFERENCE(MIN_ALIGNMENT_A_BYTES, alignment[0]),
    PREFERENCE(MIN_ALIGNMENT_B_BYTES, alignment[1]),
    PREFERENCE(MIN_ALIGNMENT_C_BYTES, alignment[2]),
    PREFERENCE(MIN_ALIGNMENT_D_BYTES, alignment[3]),
    {0},
};

static cublasStatus_t refuse(cublasStatus_t status, const char *text)
{
    emu_refuse(CUDA_ERROR_INVALID_VALUE, "cublasLt: %s", text);
    return status;
}

static cublasStatus_t attribute_set(const Attribute *table, void *object, int id,
                                    const void *value, size_t bytes)
{
    if (object == NULL || value == NULL)
        return refuse(LT_INVALID_VALUE, "an argument is NULL");
    for (const Attribute *a = table; a->bytes != 0; a++) {
        if (a->id != id)
            continue;
        if (a->bytes != bytes)
            return refuse(LT_INVALID_VALUE, "an attribute has the wrong size");
        memcpy((unsigned char *)object + a->offset, value, bytes);
        return LT_SUCCESS;
    }
    return refuse(LT_NOT_SUPPORTED, "the emulator does not know this attribute");
}

size_t cublasLtGetVersion(void)
{
    return LT_VERSION;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    CUcontext c;
    if (emu_enter("cublasLtCreate", &c) != CUDA_SUCCESS)
        return LT_EXECUTION_FAILED;
    *out = calloc(1, sizeof **out);
    return *out != NULL ? LT_SUCCESS : LT_ALLOC_FAILED;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return LT_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, int compute_type,
                                        int scale_type)
{
    cublasLtMatmulDesc_t d = calloc(1, sizeof *d);
    if (out != NULL)
        *out = d;
    if (d == NULL || out == NULL) {
        free(d);
        return LT_ALLOC_FAILED;
    }
    d->compute = compute_type;
    d->scale_type = scale_type;
    d->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    d->aux_type = d->bias_type = -1;
    return LT_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return LT_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, int attribute,
                                              const void *value, size_t bytes)
{
    return attribute_set(desc_attributes, desc, attribute, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, int type,
                                          uint64_t rows, uint64_t columns, int64_t ld)
{
    cublasLtMatrixLayout_t l = calloc(1, sizeof *l);
    if (out != NULL)
        *out = l;
    if (l == NULL || out == NULL) {
        free(l);
        return LT_ALLOC_FAILED;
    }
    *l = (struct cublasLtMatrixLayoutOpaque){
        .type = (uint32_t)type, .rows = rows, .columns = columns, .ld = ld, .batches = 1};
    return LT_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    free(layout);
    return LT_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                int attribute, const void *value,
                                                size_t bytes)
{
    return attribute_set(layout_attributes, layout, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    *out = calloc(1, sizeof **out);
    return *out != NULL ? LT_SUCCESS : LT_ALLOC_FAILED;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return LT_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    int attribute, const void *value,
                                                    size_t bytes)
{
    return attribute_set(preference_attributes, preference, attribute, value, bytes);
}

static DType type_find(uint32_t type)
{
    switch (type) {
#define DATA_TYPE(name, value, dtype, bits)                                              \
    case name:                                                                           \
        return DT_##dtype;
        CUDA_DATA_TYPES(DATA_TYPE)
#undef DATA_TYPE
    default:
        return DT_INVALID;
    }
}

/* The lines of a matrix and of all its batches lie in front of what any memory has, so that offsets do not wrap. */
static bool span_fits(uint64_t lines, int64_t ld, uint64_t batches, int64_t batch_stride)
{
    static const uint64_t most = UINT64_C(1) << 48;
    return ld >= 0 && batch_stride >= 0 && lines <= most &&
           (lines == 0 || (uint64_t)ld <= most / lines) &&
           (batches == 0 || (uint64_t)batch_stride <= most / batches);
}

static bool matrix_set(MatmulMatrix *x, cublasLtMatrixLayout_t l, int transpose)
{
    *x = (MatmulMatrix){.type = type_find(l->type),
                        .is_row_major = l->order == 1,
                        .is_transposed = transpose != 0,
                        .rows = l->rows,
                        .columns = l->columns,
                        .ld = l->ld,
                        .batch_stride = l->batch_stride};
    uint64_t least = x->is_row_major ? x->columns : x->rows;
    return x->type != DT_INVALID && (l->order == 0 || l->order == 1) && l->batches >= 1 &&
           transpose >= 0 && transpose <= 2 && l->ld >= 0 && (uint64_t)l->ld >= least &&
           l->rows < UINT64_C(1) << 40 && l->columns < UINT64_C(1) << 40 &&
           span_fits(x->is_row_major ? x->rows : x->columns, l->ld, (uint64_t)l->batches,
                     l->batch_stride);
}

static uint64_t op_rows(const MatmulMatrix *x)
{
    return x->is_transposed ? x->columns : x->rows;
}

static uint64_t op_columns(const MatmulMatrix *x)
{
    return x->is_transposed ? x->rows : x->columns;
}

/* What the library scales: 8-bit floats by 32 with e8m0 or with numbers of f32, e2m1 by 16 with e4m3. */
static bool scales_set(MatmulMatrix *x, int32_t mode, const void *data)
{
    static const struct {
        MatmulScales scales;
        bool is_byte; /* of what is scaled */
    } modes[] = {
        [CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3] = {{SCALES_IN_TILES, NULL, DT_F8E4M3FN,
                                                       16},
                                                      false},
        [CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0] = {{SCALES_IN_TILES, NULL,
                                                       DT_F8E8M0FNU, 32},
                                                      true},
        [CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F] = {{SCALES_OF_LINES, NULL, DT_F32,
                                                         1},
                                                        true},
        [CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F] = {{SCALES_BY_BLOCKS, NULL, DT_F32,
                                                      128},
                                                     true},
        [CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F] = {{SCALES_OF_SQUARES, NULL, DT_F32,
                                                          128},
                                                         true},
    };
    bool is_byte = x->type == DT_F8E4M3FN || x->type == DT_F8E5M2;
    if (mode == 0)
        return x->type != DT_F4E2M1FN;
    if (mode < 0 || (size_t)mode >= sizeof modes / sizeof *modes ||
        modes[mode].is_byte != is_byte || (!is_byte && x->type != DT_F4E2M1FN))
        return false;
    x->scales = modes[mode].scales;
    x->scales.data = data;
    return true;
}

static bool is_aligned(uint64_t bytes)
{
    return bytes % 16 == 0;
}

/* The tensor cores read blocks along k: both matrices k first, lines whole vectors. */
static bool scales_fit(const MatmulMatrix *x, bool is_transposed)
{
    bool is_tiled = x->scales.order == SCALES_IN_TILES;
    return x->scales.order == SCALES_NONE ||
           (!x->is_row_major && x->is_transposed == is_transposed && x->ld >= 0 &&
            is_aligned((uint64_t)x->ld * dtype_info[x->type].bits / 8) &&
            x->rows % (is_tiled ? x->scales.block : 16) == 0);
}

static bool is_wide_scale(MatmulScaleOrder order)
{
    return order != SCALES_NONE && order != SCALES_IN_TILES;
}

/* Both are scaled in one way; by f32, of one product in floats, whose rows and columns are fours where they are by
 * blocks, and not both in squares. */
static bool scales_agree(const Matmul *m)
{
    MatmulScaleOrder a = m->a.scales.order, b = m->b.scales.order;
    if (!is_wide_scale(a) && !is_wide_scale(b))
        return m->a.scales.block == m->b.scales.block;
    bool is_by_lines = a == SCALES_OF_LINES;
    return is_wide_scale(a) && is_wide_scale(b) &&
           is_by_lines == (b == SCALES_OF_LINES) && m->batches == 1 &&
           dtype_info[m->d.type].bits >= 16 &&
           (is_by_lines || (m->d.rows % 4 == 0 && m->d.columns % 4 == 0 &&
                            (a != SCALES_OF_SQUARES || b != SCALES_OF_SQUARES)));
}

/* Fills everything but the addresses; checks that the emulator can do it. */
static cublasStatus_t matmul_describe(Matmul *m, cublasLtMatmulDesc_t desc,
                                      cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d)
{
    if (desc == NULL || a == NULL || b == NULL || d == NULL)
        return refuse(LT_INVALID_VALUE, "a descriptor is NULL");
    *m = (Matmul){.scale_d = 1, .batches = (uint64_t)d->batches};
    if (c == NULL)
        c = d;
    if (!matrix_set(&m->a, a, desc->transpose_a) ||
        !matrix_set(&m->b, b, desc->transpose_b) || !matrix_set(&m->c, c, 0) ||
        !matrix_set(&m->d, d, 0))
        return refuse(LT_NOT_SUPPORTED,
                      "the emulator cannot do a matrix like this: complex "
                      "and 4-bit types, tiled orders");
    if (op_rows(&m->a) != d->rows || op_columns(&m->b) != d->columns ||
        op_columns(&m->a) != op_rows(&m->b) || c->rows != d->rows ||
        c->columns != d->columns || a->batches != d->batches ||
        b->batches != d->batches || c->batches != d->batches)
        return refuse(LT_INVALID_VALUE, "the matrices do not fit each other");
    m->rounds_to = m->a.type != DT_F32                             ? DT_INVALID
                   : desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? DT_F32
                   : desc->compute == CUBLAS_COMPUTE_32F_FAST_16BF ? DT_BF16
                                                                   : DT_INVALID;
    if (desc->scale_mode[2] != 0 || desc->scale_mode[3] != 0 ||
        m->d.type == DT_F4E2M1FN ||
        !scales_set(&m->a, desc->scale_mode[0], desc->scale[0]) ||
        !scales_set(&m->b, desc->scale_mode[1], desc->scale[1]))
        return refuse(
            LT_NOT_SUPPORTED,
            "the emulator scales A and B only: 8 bits by numbers of f32 or 32 values "
            "along k by e8m0, 4 bits by 16 values with e4m3");
    if (!scales_fit(&m->a, true) || !scales_fit(&m->b, false) || !scales_agree(m))
        return refuse(
            LT_NOT_SUPPORTED,
            "scaled products are of a transposed A and a B as it is, scaled alike, with "
            "whole blocks, and columns at multiples of 16 bytes");
    if (desc->pointer_mode != 0 && desc->pointer_mode != 1)
        return refuse(LT_NOT_SUPPORTED, "the emulator has no vectors of alphas");
    uint32_t e = desc->epilogue;
    bool has_aux =
        e == CUBLASLT_EPILOGUE_GELU_AUX || e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    m->has_relu = e == CUBLASLT_EPILOGUE_RELU || e == CUBLASLT_EPILOGUE_RELU_BIAS;
    m->has_gelu =
        e == CUBLASLT_EPILOGUE_GELU || e == CUBLASLT_EPILOGUE_GELU_BIAS || has_aux;
    bool has_bias = (e & CUBLASLT_EPILOGUE_BIAS) != 0;
    bool has_sums = e == CUBLASLT_EPILOGUE_BGRADA || e == CUBLASLT_EPILOGUE_BGRADB;
    if (e != CUBLASLT_EPILOGUE_DEFAULT && e != CUBLASLT_EPILOGUE_BIAS && !m->has_relu &&
        !m->has_gelu && !has_sums)
        return refuse(LT_NOT_SUPPORTED, "the emulator does not have this epilogue");
    if (has_sums && (m->batches != 1 || dtype_info[m->a.type].bits < 16))
        return refuse(LT_NOT_SUPPORTED, "the emulator adds up the factors of one product "
                                        "only, and none of 8 bits or less");
    m->bias_type = desc->bias_type < 0 ? m->d.type : type_find((uint32_t)desc->bias_type);
    m->aux_type = desc->aux_type < 0 ? m->d.type : type_find((uint32_t)desc->aux_type);
    m->aux_ld = desc->aux_ld;
    m->aux_batch_stride = desc->aux_batch_stride;
    if (m->bias_type == DT_INVALID || m->aux_type == DT_INVALID)
        return refuse(LT_NOT_SUPPORTED, "the emulator does not have this type of bias");
    m->bias = has_bias ? desc->bias : NULL;
    if (has_sums)
        m->sums[e == CUBLASLT_EPILOGUE_BGRADB] = desc->bias;
    m->aux = has_aux ? desc->aux : NULL;
    if (((has_bias || has_sums) && desc->bias == NULL) || (has_aux && desc->aux == NULL))
        return refuse(LT_INVALID_VALUE, "the epilogue's pointer is NULL");
    if (has_aux && (m->aux_ld < 0 || m->aux_ld % 8 != 0 ||
                    (uint64_t)m->aux_ld < d->rows || m->aux_batch_stride % 8 != 0 ||
                    !span_fits(d->columns, m->aux_ld, m->batches, m->aux_batch_stride)))
        return refuse(LT_INVALID_VALUE, "the auxiliary output's columns do not fit");
    return LT_SUCCESS;
}

/* All give the same result. */
enum { ALGORITHMS = 2, ALGORITHM_WORKSPACE = 4096 };

/* Pointers of the epilogue need not be known yet. */
static cublasStatus_t check_known(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                  cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                  cublasLtMatrixLayout_t d)
{
    Matmul m;
    struct cublasLtMatmulDescOpaque known = {0};
    if (desc != NULL)
        known = *desc;
    known.bias = known.aux = &m;
    return matmul_describe(&m, desc == NULL ? NULL : &known, a, b, c, d);
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                               cublasLtMatmulPreference_t preference, int requested,
                               cublasLtMatmulHeuristicResult_t *results, int *returned)
{
    if (handle == NULL || returned == NULL || requested < 1 || results == NULL)
        return refuse(LT_INVALID_VALUE, "an argument is NULL");
    *returned = 0;
    cublasStatus_t status = check_known(desc, a, b, c, d);
    if (status != LT_SUCCESS)
        return status;
    /* The first would like to have memory to work in. */
    uint64_t workspace = preference != NULL ? preference->workspace : 0;
    for (int i = 0; i < requested && i < ALGORITHMS; i++) {
        bool is_given = i == 0 && workspace >= ALGORITHM_WORKSPACE;
        results[i] = (cublasLtMatmulHeuristicResult_t){
            .algo.data[0] = (uint64_t)i,
            .workspaceSize = is_given ? ALGORITHM_WORKSPACE : 0,
            .wavesCount = 1.0F};
        ++*returned;
    }
    return LT_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algorithm,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    if (handle == NULL || algorithm == NULL || result == NULL)
        return refuse(LT_INVALID_VALUE, "an argument is NULL");
    if (algorithm->data[0] >= ALGORITHMS)
        return refuse(LT_INVALID_VALUE, "there is no such algorithm");
    cublasStatus_t status = check_known(desc, a, b, c, d);
    if (status == LT_SUCCESS)
        *result =
            (cublasLtMatmulHeuristicResult_t){.algo = *algorithm, .wavesCount = 1.0F};
    return status;
}

typedef struct MatmulOperation {
    Operation operation;
    Matmul matmul;
    const float *scale[4];  /* device memory or NULL */
    const void *factors[2]; /* alpha and beta in device memory, of scale_type; or NULL */
    int32_t scale_type;
    CUcontext context;
} MatmulOperation;

/* The bytes of one matrix of a batch, counted from its first element. */
static uint64_t matrix_bytes(const MatmulMatrix *x)
{
    if (x->rows == 0 || x->columns == 0)
        return 0;
    uint64_t last = (uint64_t)matrix_index(x, x->rows - 1, x->columns - 1);
    return matrix_elements_bytes(x->type, last + 1);
}

/* Checks that the elements lie in device memory; reads need all of them written. */
static bool range_check(const void *p, uint64_t bytes, DType type, bool is_read,
                        const char *what, Finding *out)
{
    char text[80];
    snprintf(text, sizeof text, "cublasLtMatmul, %s", what);
    Allocation *a = allocation_find((uintptr_t)p, bytes, text, out);
    if (a == NULL ||
        !allocation_is_aligned((uintptr_t)p, dtype_info[type].storage, text, out))
        return false;
    if (is_read)
        return allocation_is_written(a, (uintptr_t)p, bytes, text, out);
    shadow_set_written(&a->shadow, (uintptr_t)p - a->base, bytes, true);
    return true;
}

/* Lines (columns or rows, as they are stored) of all batches. */
static bool matrix_check(const MatmulMatrix *x, uint64_t batches, bool is_read,
                         const char *what, Finding *out)
{
    uint64_t lines = x->is_row_major ? x->rows : x->columns;
    uint64_t length = x->is_row_major ? x->columns : x->rows;
    if (matrix_bytes(x) == 0)
        return true;
    for (uint64_t batch = 0; batch < batches; batch++) {
        for (uint64_t i = 0; i < lines; i++) {
            uint64_t first = (uint64_t)x->batch_stride * batch + i * (uint64_t)x->ld;
            uint64_t start = first * dtype_info[x->type].bits / 8;
            uint64_t end = matrix_elements_bytes(x->type, first + length);
            const unsigned char *line =
                (const unsigned char *)((uintptr_t)x->data + start); /* may be NULL */
            if (!range_check(line, end - start, x->type, is_read, what, out))
                return false;
        }
    }
    return true;
}

/* The scales of all batches, padding included. */
static bool scales_check(const MatmulMatrix *x, uint64_t batches, uint64_t lines,
                         uint64_t k, const char *what, Finding *out)
{
    if (x->scales.order == SCALES_NONE)
        return true;
    return range_check(x->scales.data,
                       matmul_scales_bytes(&x->scales, lines, k) * batches,
                       x->scales.type, true, what, out);
}

static double factor_get(int32_t scale_type, const void *factor)
{
    DType t = type_find((uint32_t)scale_type);
    if (factor == NULL)
        return 0;
    return number_get_double(t == DT_INVALID ? DT_F32 : t, factor);
}

static bool matmul_check(MatmulOperation *op, Finding *out)
{
    Matmul *m = &op->matmul;
    static const char *const names[] = {"scale of A", "scale of B", "scale of C",
                                        "scale of D"};
    for (int i = 0; i < 4; i++)
        if (op->scale[i] != NULL &&
            !range_check(op->scale[i], 4, DT_F32, true, names[i], out))
            return false;
    DType factor = type_find((uint32_t)op->scale_type);
    for (int i = 0; i < 2; i++)
        if (op->factors[i] != NULL &&
            !range_check(op->factors[i], dtype_info[factor].storage, factor, true,
                         i == 0 ? "alpha" : "beta", out))
            return false;
    if (op->factors[0] != NULL) {
        m->alpha = factor_get(op->scale_type, op->factors[0]);
        m->beta = factor_get(op->scale_type, op->factors[1]);
    }
    if (!matrix_check(&m->a, m->batches, true, "A", out) ||
        !matrix_check(&m->b, m->batches, true, "B", out))
        return false;
    uint64_t k = op_columns(&m->a);
    if (!scales_check(&m->a, m->batches, m->d.rows, k, "scales of A", out) ||
        !scales_check(&m->b, m->batches, m->d.columns, k, "scales of B", out))
        return false;
    if (m->beta != 0 && !matrix_check(&m->c, m->batches, true, "C", out))
        return false;
    if (m->bias != NULL &&
        !range_check(m->bias, m->d.rows * dtype_info[m->bias_type].storage, m->bias_type,
                     true, "bias", out))
        return false;
    for (int i = 0; i < 2; i++) {
        uint64_t n = i == 0 ? m->d.rows : m->d.columns;
        if (m->sums[i] != NULL &&
            !range_check(m->sums[i], n * dtype_info[m->bias_type].storage, m->bias_type,
                         false, "sums of a factor", out))
            return false;
    }
    if (m->amax != NULL &&
        !range_check(m->amax, 4, DT_F32, false, "greatest value of D", out))
        return false;
    MatmulMatrix aux = m->d;
    aux.type = m->aux_type;
    aux.data = m->aux;
    aux.ld = m->aux_ld;
    aux.is_row_major = false;
    aux.batch_stride = m->aux_batch_stride;
    if (m->aux != NULL && !matrix_check(&aux, m->batches, false, "auxiliary output", out))
        return false;
    return matrix_check(&m->d, m->batches, false, "D", out);
}

static bool operation_run(Operation *operation, Finding *out)
{
    MatmulOperation *op = (MatmulOperation *)(void *)operation;
    const MatmulMatrix *d = &op->matmul.d;
    uint64_t elements =
        plan_multiply(plan_multiply(d->rows, d->columns), op->matmul.batches);
    if (!matmul_check(op, out) || !steps_take(elements, "cublasLtMatmul", out))
        return false;
    double scale[4] = {1, 1, 1, 1};
    for (int i = 0; i < 4; i++)
        if (op->scale[i] != NULL)
            scale[i] = (double)*op->scale[i];
    Matmul m = op->matmul; /* a graph runs the operation again */
    m.alpha *= scale[0] * scale[1];
    m.beta *= scale[2];
    m.scale_d = scale[3];
    if (!matmul_run(&m))
        finding_set(out, FINDING_MEMORY, "cublasLtMatmul: no memory");
    return out->kind == FINDING_NONE;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                              const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, CUstream stream)
{
    CUcontext context;
    Matmul m;
    (void)algorithm;
    (void)workspace;
    (void)workspace_bytes;
    if (emu_enter("cublasLtMatmul", &context) != CUDA_SUCCESS)
        return LT_EXECUTION_FAILED;
    if (handle == NULL || alpha == NULL)
        return refuse(LT_INVALID_VALUE, "an argument is NULL");
    cublasStatus_t status =
        matmul_describe(&m, desc, a_layout, b_layout, c_layout, d_layout);
    if (status != LT_SUCCESS)
        return status;
    if ((m.a.scales.order != SCALES_NONE && m.a.scales.data == NULL) ||
        (m.b.scales.order != SCALES_NONE && m.b.scales.data == NULL))
        return refuse(LT_INVALID_VALUE, "the pointer to scales is NULL");
    bool is_scaled = m.a.scales.order != SCALES_NONE || m.b.scales.order != SCALES_NONE;
    if (is_scaled && !is_aligned((uintptr_t)a | (uintptr_t)b | (uintptr_t)d |
                                 (uintptr_t)m.a.scales.data | (uintptr_t)m.b.scales.data))
        return refuse(LT_INVALID_VALUE, "a pointer is not a multiple of 16 bytes");
    bool on_device = desc->pointer_mode == 1;
    if (on_device &&
        (beta == NULL || type_find((uint32_t)desc->scale_type) == DT_INVALID))
        return refuse(LT_INVALID_VALUE, "alpha and beta on the device need a known type");
    MatmulOperation *op = calloc(1, sizeof *op);
    if (op == NULL)
        return LT_ALLOC_FAILED;
    if (!on_device) {
        m.alpha = factor_get(desc->scale_type, alpha);
        m.beta = factor_get(desc->scale_type, beta);
    }
    m.a.data = (unsigned char *)(uintptr_t)a;
    m.b.data = (unsigned char *)(uintptr_t)b;
    m.c.data = (unsigned char *)(uintptr_t)(c != NULL ? c : d);
    m.d.data = d;
    m.amax = desc->amax_d;
    op->matmul = m;
    op->context = context;
    op->scale_type = desc->scale_type;
    op->factors[0] = on_device ? alpha : NULL;
    op->factors[1] = on_device ? beta : NULL;
    for (int i = 0; i < 4; i++)
        op->scale[i] = desc->scale_mode[i] == 0 ? desc->scale[i] : NULL;
    op->operation.run = operation_run;
    return queue_submit(context, stream, &op->operation) == CUDA_SUCCESS
               ? LT_SUCCESS
               : LT_EXECUTION_FAILED;
}
