/* Matrix products by cuBLASLt. A row-major result [m][n] = A B is, column-major, [n][m] = B' A':
 * the library's first operand is the dot's second. */
#include "codegen/library/cublaslt.h"

#include <string.h>

#include "ir/base/bug.h"
#include "ir/kernel/block_scaled.h"
#include "ir/kernel/matmul.h"

#define LEAST_VERSION 120000        /* CUDA 12.0 */
#define LEAST_VERSION_SCALED 120800 /* CUDA 12.8: scales of blocks */
#define LEAST_VERSION_ROWS 120900   /* CUDA 12.9: scales of f32 for rows */

static uint32_t library_type(DType t)
{
    switch (t) {
#define DATA_TYPE(name, value, dtype, bits)                                              \
    case DT_##dtype:                                                                     \
        return name;
        CUDA_DATA_TYPES(DATA_TYPE)
#undef DATA_TYPE
    default:
        bug("cuBLASLt has no matrices of %s", dtype_name(t));
    }
}

static uint32_t compute_type(const Instruction *dot)
{
    DType t = dot->operands[0]->shape->dtype;
    if (t == DT_F64)
        return CUBLAS_COMPUTE_64F;
    if (t == DT_S8)
        return CUBLAS_COMPUTE_32I;
    int64_t algorithm = inst_int(dot, ATTR_ALGORITHM, ALGORITHM_UNSET);
    if (t == DT_F32 && algorithm == ALGORITHM_TF32_TF32_F32)
        return CUBLAS_COMPUTE_32F_FAST_TF32;
    if (t == DT_F32 && algorithm == ALGORITHM_BF16_BF16_F32)
        return CUBLAS_COMPUTE_32F_FAST_16BF;
    return CUBLAS_COMPUTE_32F;
}

/* Of alpha and beta. */
static uint32_t scale_type(DType factors)
{
    return factors == DT_F64 ? CUDA_R_64F : factors == DT_S8 ? CUDA_R_32I : CUDA_R_32F;
}

static PlanMatrix matrix(DType t, int64_t rows, int64_t columns, bool transpose)
{
    return (PlanMatrix){.type = library_type(t),
                        .transpose = transpose,
                        .rows = (uint64_t)rows,
                        .columns = (uint64_t)columns,
                        .ld = rows,
                        .batch_stride = rows * columns};
}

/* The matrices of an operand with `kept` rows or columns beside those that are summed. */
static PlanMatrix operand(DType t, const MatmulSide *side, int64_t k, int64_t kept)
{
    PlanMatrix m = side->k_first ? matrix(t, kept, k, false) : matrix(t, k, kept, false);
    m.ld = side->ld;
    m.batch_stride = side->batch_stride;
    return m;
}

static uint64_t workspace_bytes(const Variant *v)
{
    /* what NVIDIA recommends for each */
    return target_has(v->target, FEATURE_LARGE_WORKSPACE) ? UINT64_C(32) << 20
                                                          : UINT64_C(4) << 20;
}

static uint32_t epilogue(const MatmulCall *call)
{
    static const uint32_t of[] = {[ACTIVATION_NONE] = 0,
                                  [ACTIVATION_RELU] = CUBLASLT_EPILOGUE_RELU,
                                  [ACTIVATION_GELU] = CUBLASLT_EPILOGUE_GELU};
    static const uint32_t of_second[] = {
        [MATMUL_NO_SECOND] = 0,
        [MATMUL_ARGUMENT] = CUBLASLT_EPILOGUE_GELU_AUX,
        [MATMUL_SUMS_LHS] = CUBLASLT_EPILOGUE_BGRADB, /* it is the library's B */
        [MATMUL_SUMS_RHS] = CUBLASLT_EPILOGUE_BGRADA};
    uint32_t bits = of[call->activation] | of_second[call->second] |
                    (call->bias != NULL ? CUBLASLT_EPILOGUE_BIAS : 0);
    return bits != 0 ? bits : CUBLASLT_EPILOGUE_DEFAULT;
}

static const uint32_t scale_modes[] = {
    [MATMUL_PRODUCT] = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
    [MATMUL_ROWS] = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F,
    [MATMUL_PIECES] = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
    [MATMUL_SQUARES] = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F};

/* C is what is added, a row-major result is column-major for the library: its rows are our last
 * dimension, along which the bias lies. */
static PlanMatmul describe(const Variant *v, const MatmulCall *call)
{
    const Instruction *dot = call->dot;
    MatmulShape s;
    if (!matmul_shape(dot, &s))
        bug("%s cannot be made by a library", dot->name);
    DType in = dot->operands[0]->shape->dtype, result = call->type;
    DType lhs = in, rhs = dot->operands[1]->shape->dtype; /* f8 of two kinds */
    PlanMatmul m = {.batch = (uint32_t)s.batch,
                    .compute = compute_type(dot),
                    .scale_type = scale_type(in),
                    .epilogue = epilogue(call),
                    .bias_type = call->bias != NULL ? library_type(result) : 0,
                    .alpha = call->alpha,
                    .fast_accumulation = inst_int(dot, ATTR_ALGORITHM, ALGORITHM_UNSET) ==
                                         ALGORITHM_ANY_F8_ANY_F8_F32_FAST_ACCUM,
                    .beta = call->addend != NULL ? 1 : 0,
                    .alignment = MATMUL_ALIGNMENT,
                    .workspace_bytes = workspace_bytes(v)};
    m.a = operand(rhs, &s.rhs, s.k, s.n);
    m.a.transpose = !s.rhs.k_first;
    m.b = operand(lhs, &s.lhs, s.k, s.m);
    m.b.transpose = s.lhs.k_first;
    m.c = matrix(result, s.n, s.m, false);
    m.c.ld = s.result_ld;
    m.c.batch_stride = s.result_batch_stride;
    m.d = m.c;
    m.a.scale_mode = scale_modes[call->scaling[0]];
    m.b.scale_mode = scale_modes[call->scaling[1]];
    return m;
}

/* What the tuning file says of the product, where the workspace that it needs is there. */
static void add_algorithm(Variant *v, const Instruction *inst, const PlanMatmul *m,
                          uint32_t number)
{
    const Tuning *t = v->options->tuning;
    const char *key = tuning_key(v->arena, m, sizeof *m, v->target);
    const TuningEntry *e = tuning_find(t, key);
    if (e == NULL && t != NULL && t->is_complete)
        diag_error(v->module->diag, inst->span,
                   "%s, by cublaslt: no entry of %s has its key %s", inst->name, t->file,
                   key);
    if (e == NULL || e->algorithm == NULL ||
        e->algorithm->workspace_bytes > m->workspace_bytes)
        return;
    PlanAlgorithm a = {.matmul = number,
                       .version = e->algorithm->version,
                       .workspace_bytes = e->algorithm->workspace_bytes};
    _Static_assert(sizeof a.algorithm == sizeof e->algorithm->bytes, "one algorithm");
    memcpy(a.algorithm, e->algorithm->bytes, sizeof a.algorithm);
    plan_add_algorithms(&v->plan, &a, 1);
}

/* A product's results are of these args, `second` for one that stands behind the first. */
static int result_arg(size_t leaf, int second)
{
    return leaf == 0 ? PLAN_MATMUL_D : second;
}

static uint32_t arg_count(const Instruction *inst, int second)
{
    bool has_aux = second == PLAN_MATMUL_AUX && shape_leaf_count(inst->shape) > 1;
    return has_aux ? PLAN_MATMUL_ARGS : PLAN_MATMUL_AUX;
}

/* For a tuner, which asks the library itself what else it has. */
static void add_tunable(Variant *v, const Instruction *inst, const PlanMatmul *m,
                        int second, uint32_t command)
{
    uint32_t dtypes[PLAN_MATMUL_ARGS] = {0};
    for (size_t leaf = 0; leaf < shape_leaf_count(inst->shape); leaf++)
        dtypes[result_arg(leaf, second)] =
            plan_string(&v->plan, dtype_info[shape_leaf(inst->shape, leaf)->dtype].name);
    PlanTunable t = {
        .command = command,
        .key = plan_string(&v->plan, tuning_key(v->arena, m, sizeof *m, v->target)),
        .dtypes = plan_add_refs(&v->plan, dtypes, arg_count(inst, second))};
    plan_add_tunables(&v->plan, &t, 1);
}

/* Equal products have one record: its descriptors are made once. */
static uint32_t add_record(Variant *v, const Instruction *inst, const PlanMatmul *m,
                           bool *is_new)
{
    *is_new = false;
    for (uint32_t i = 0; i < v->plan.matmuls_count; i++) {
        if (memcmp(&v->plan.matmuls[i], m, sizeof *m) == 0)
            return i;
    }
    *is_new = true;
    uint32_t number = plan_add_matmuls(&v->plan, m, 1);
    add_algorithm(v, inst, m, number);
    return number;
}

static PlanArg slice_arg(Variant *v, const Instruction *inst, uint16_t access)
{
    return (PlanArg){
        .tag = PLAN_ARG_SLICE, .access = access, .index = variant_slice(v, inst, 0)};
}

/* The command with its results and the workspace; args[] holds what is read. */
static void add_command(Variant *v, const Instruction *inst, const PlanMatmul *m,
                        PlanArg *args, int second, uint32_t least_version)
{
    for (size_t leaf = 0; leaf < shape_leaf_count(inst->shape); leaf++)
        args[result_arg(leaf, second)] = variant_slice_arg(v, inst, leaf, PLAN_WRITE);
    args[PLAN_MATMUL_WORKSPACE] =
        (PlanArg){.tag = PLAN_ARG_SLICE,
                  .access = PLAN_WRITE,
                  .index = variant_workspace_slice(v, workspace_bytes(v))};
    uint32_t stream = v->stream;
    v->stream = 0; /* all products share their workspace */
    bool is_new;
    uint32_t number = add_record(v, inst, m, &is_new);
    uint32_t command =
        variant_command(v, PLAN_MATMUL, inst, number, args, arg_count(inst, second));
    if (is_new && v->options->candidates != 0)
        add_tunable(v, inst, m, second, command);
    v->stream = stream;
    if (v->plan.info[0].min_cublaslt < least_version)
        v->plan.info[0].min_cublaslt = least_version;
}

void cublaslt_add_matmul(Variant *v, const Instruction *inst)
{
    MatmulCall call;
    if (!matmul_call_of(inst, &call))
        bug("%s is not marked for a library", inst->name);
    PlanMatmul m = describe(v, &call);
    PlanArg args[PLAN_MATMUL_ARGS] = {[PLAN_MATMUL_A] = slice_arg(v, call.rhs, PLAN_READ),
                                      [PLAN_MATMUL_B] =
                                          slice_arg(v, call.lhs, PLAN_READ)};
    if (call.addend != NULL)
        args[PLAN_MATMUL_C] = slice_arg(v, call.addend, PLAN_READ);
    if (call.bias != NULL)
        args[PLAN_MATMUL_BIAS] = slice_arg(v, call.bias, PLAN_READ);
    static const int scales[2] = {PLAN_MATMUL_SCALE_A, PLAN_MATMUL_SCALE_B};
    for (int i = 0; i < 2; i++) {
        if (call.scales[i] != NULL)
            args[scales[i]] = slice_arg(v, call.scales[i], PLAN_READ);
    }
    int second = call.second == MATMUL_SUMS_LHS || call.second == MATMUL_SUMS_RHS
                     ? PLAN_MATMUL_BIAS
                     : PLAN_MATMUL_AUX;
    add_command(v, inst, &m, args, second,
                call.scaling[0] != MATMUL_PRODUCT ? LEAST_VERSION_ROWS : LEAST_VERSION);
}

void cublaslt_add_block_scaled(Variant *v, const Instruction *call)
{
    BlockScaledDot d;
    const char *error = block_scaled_check(call, v->arena, &d);
    if (error != NULL)
        bug("%s: %s", call->name, error);
    DType lhs = call->operands[0]->shape->dtype, rhs = call->operands[1]->shape->dtype;
    PlanMatmul m = {.batch = (uint32_t)d.batch,
                    .compute = CUBLAS_COMPUTE_32F,
                    .scale_type = CUDA_R_32F,
                    .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                    .alpha = 1,
                    .alignment = MATMUL_ALIGNMENT,
                    .workspace_bytes = workspace_bytes(v),
                    .device_factors = d.has_factor};
    m.a = matrix(rhs, d.k, d.n, true);
    m.b = matrix(lhs, d.k, d.m, false);
    m.c = m.d = matrix(call->shape->dtype, d.n, d.m, false);
    m.a.scale_mode = m.b.scale_mode = lhs == DT_F4E2M1FN
                                          ? CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3
                                          : CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
    PlanArg args[PLAN_MATMUL_ARGS] = {
        [PLAN_MATMUL_A] = slice_arg(v, call->operands[1], PLAN_READ),
        [PLAN_MATMUL_B] = slice_arg(v, call->operands[0], PLAN_READ),
        [PLAN_MATMUL_SCALE_A] = slice_arg(v, call->operands[3], PLAN_READ),
        [PLAN_MATMUL_SCALE_B] = slice_arg(v, call->operands[2], PLAN_READ)};
    if (d.has_factor)
        args[PLAN_MATMUL_FACTORS] = slice_arg(v, call->operands[4], PLAN_READ);
    add_command(v, call, &m, args, PLAN_MATMUL_AUX, LEAST_VERSION_SCALED);
}
