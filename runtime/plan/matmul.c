/* Validating a matrix product of a plan: what the library is told about its matrices, scales,
 * bias and epilogue lies in the slices that the command gives it. */
#include "runtime/plan/read.h"

static uint64_t type_bits(uint32_t type) /* 0: not known */
{
    switch (type) {
#define DATA_TYPE(name, value, dtype, bits)                                              \
    case name:                                                                           \
        return bits;
        CUDA_DATA_TYPES(DATA_TYPE)
#undef DATA_TYPE
    default:
        return 0;
    }
}

static bool has_bytes(const Plan *p, const PlanArg *a, uint64_t bytes)
{
    return a->tag == PLAN_ARG_SLICE && bytes <= plan_slice_of(p, a)->bytes;
}

static bool has_bits(const Plan *p, const PlanArg *a, uint64_t elements, uint64_t bits)
{
    uint64_t all = plan_multiply(elements, bits);
    return all != UINT64_MAX && has_bytes(p, a, all / 8 + (all % 8 != 0));
}

static bool is_matrix(const PlanMatrix *m)
{
    return m->ld >= 0 && m->batch_stride >= 0 && m->transpose <= 2 && m->rows != 0 &&
           m->columns != 0 && (uint64_t)m->ld >= m->rows;
}

/* The elements from the first to the last of `batch` matrices lie in the slice. */
static bool matrix_fits(const Plan *p, const PlanMatrix *m, const PlanArg *a,
                        uint32_t batch)
{
    uint64_t one = plan_add(plan_multiply(m->columns - 1, (uint64_t)m->ld), m->rows);
    uint64_t others = plan_multiply(batch - 1, (uint64_t)m->batch_stride);
    return has_bits(p, a, plan_add(one, others), type_bits(m->type));
}

/* op(A) op(B) has the sizes of C and D. */
static bool sizes_agree(const PlanMatmul *m)
{
    uint64_t rows = m->a.transpose ? m->a.columns : m->a.rows;
    uint64_t inner = m->a.transpose ? m->a.rows : m->a.columns;
    uint64_t columns = m->b.transpose ? m->b.rows : m->b.columns;
    return inner == (m->b.transpose ? m->b.columns : m->b.rows) && m->d.rows == rows &&
           m->d.columns == columns && m->c.rows == rows && m->c.columns == columns;
}

static uint64_t divided_up(uint64_t n, uint64_t by)
{
    return n / by + (n % by != 0);
}

/* Scales of f32: how many there are for a matrix whose columns lie along k. */
static uint64_t wide_scale_count(const PlanMatrix *m)
{
    uint64_t blocks = divided_up(m->rows, 128);
    switch (m->scale_mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F:
        return m->columns;
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
        return plan_multiply(m->columns, blocks);
    default: /* those of a column of blocks begin at a multiple of four */
        return plan_multiply(divided_up(m->columns, 128),
                             plan_multiply(divided_up(blocks, 4), 4));
    }
}

/* One scale of a whole matrix, which need not be there; or scales of blocks, in whole tiles of
 * 128 lines and 4 scales, which take 512 bytes each. */
static bool scales_fit(const Plan *p, const PlanMatrix *m, const PlanArg *a,
                       uint32_t batch)
{
    if (m->scale_mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F) {
        return a->tag == PLAN_ARG_NONE || has_bytes(p, a, sizeof(float));
    }
    if (m->scale_mode >= CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F) {
        return has_bytes(p, a, plan_multiply(wide_scale_count(m), sizeof(float)));
    }
    uint64_t block = m->scale_mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 ? 16 : 32;
    uint64_t tiles =
        plan_multiply(divided_up(m->columns, 128), divided_up(m->rows, 4 * block));
    return has_bytes(p, a, plan_multiply(plan_multiply(tiles, 512), batch));
}

static bool all_scales_fit(const Plan *p, const PlanMatmul *m, const PlanArg *args)
{
    const PlanArg *factors = &args[PLAN_MATMUL_FACTORS];
    return scales_fit(p, &m->a, &args[PLAN_MATMUL_SCALE_A], m->batch) &&
           scales_fit(p, &m->b, &args[PLAN_MATMUL_SCALE_B], m->batch) &&
           (m->device_factors ? has_bits(p, factors, 2, type_bits(m->scale_type))
                              : factors->tag == PLAN_ARG_NONE);
}

/* What those of f32 are for: both factors of one product, whose columns lie along k. */
static bool wide_scales_are_right(const PlanMatmul *m)
{
    uint32_t a = m->a.scale_mode, b = m->b.scale_mode;
    uint32_t outer = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    if (a < outer && b < outer) {
        return true;
    }
    return a >= outer && b >= outer && (a == outer) == (b == outer) && m->batch == 1 &&
           m->a.transpose == 1 && m->b.transpose == 0;
}

static bool adds_up(const PlanMatmul *m)
{
    return m->epilogue == CUBLASLT_EPILOGUE_BGRADA ||
           m->epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

/* One number for each row of D, or what there is of a factor for each row or column of D. */
static bool bias_fits(const Plan *p, const PlanMatmul *m, const PlanArg *a)
{
    if (adds_up(m)) {
        uint64_t n = m->epilogue == CUBLASLT_EPILOGUE_BGRADA ? m->d.rows : m->d.columns;
        return m->batch == 1 && plan_is_slice(a, PLAN_WRITE) &&
               has_bits(p, a, n, type_bits(m->d.type));
    }
    if ((m->epilogue & CUBLASLT_EPILOGUE_BIAS) == 0) {
        return a->tag == PLAN_ARG_NONE;
    }
    return plan_is_slice(a, PLAN_READ) && type_bits(m->bias_type) != 0 &&
           has_bits(p, a, m->d.rows, type_bits(m->bias_type));
}

static bool has_aux(const PlanMatmul *m)
{
    return (m->epilogue & ~(uint32_t)CUBLASLT_EPILOGUE_BIAS) ==
           CUBLASLT_EPILOGUE_GELU_AUX;
}

static uint32_t arg_count(const PlanMatmul *m)
{
    return has_aux(m) ? PLAN_MATMUL_ARGS : PLAN_MATMUL_AUX;
}

/* What the function of the epilogue is applied to: it lies as D does, in columns of whole vectors. */
static bool aux_fits(const Plan *p, const PlanMatmul *m, const PlanArg *a)
{
    return plan_is_slice(a, PLAN_WRITE) && m->d.ld % 8 == 0 &&
           matrix_fits(p, &m->d, a, m->batch);
}

/* Numbers that the library knows and this reader does not. */
static bool read_kinds(PlanReader *r, const PlanMatmul *m)
{
    const PlanMatrix *matrices[4] = {&m->a, &m->b, &m->c, &m->d};
    for (int i = 0; i < 4; i++) {
        if (type_bits(matrices[i]->type) == 0) {
            return plan_newer(r, "a matrix of type", matrices[i]->type);
        }
        if (matrices[i]->scale_mode > (i < 2 ? CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
                                             : CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F)) {
            return plan_newer(r, "a matrix with scales of mode", matrices[i]->scale_mode);
        }
    }
    if (m->scale_type != CUDA_R_32F && m->scale_type != CUDA_R_64F &&
        m->scale_type != CUDA_R_32I) {
        return plan_newer(r, "a matrix product with factors of type", m->scale_type);
    }
    uint32_t function = m->epilogue & ~(uint32_t)CUBLASLT_EPILOGUE_BIAS;
    return m->epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
           m->epilogue == CUBLASLT_EPILOGUE_BIAS || adds_up(m) ||
           function == CUBLASLT_EPILOGUE_RELU || function == CUBLASLT_EPILOGUE_GELU ||
           has_aux(m) || plan_newer(r, "a matrix product with epilogue", m->epilogue);
}

bool plan_read_matmuls(PlanReader *r)
{
    for (uint32_t i = 0; i < r->p->matmuls_count; i++) {
        const PlanMatmul *m = &r->p->matmuls[i];
        if (!read_kinds(r, m)) {
            return false;
        }
        if (!is_matrix(&m->a) || !is_matrix(&m->b) || !is_matrix(&m->c) ||
            !is_matrix(&m->d) || m->fast_accumulation > 1 || m->batch == 0 ||
            m->batch > INT32_MAX || !sizes_agree(m) || !wide_scales_are_right(m)) {
            return plan_fail(r, "matrix product %u of the plan is damaged", i);
        }
    }
    return true;
}

bool plan_read_algorithms(PlanReader *r)
{
    const Plan *p = r->p;
    for (uint32_t i = 0; i < p->algorithms_count; i++) {
        const PlanAlgorithm *a = &p->algorithms[i];
        if (a->matmul >= p->matmuls_count ||
            a->workspace_bytes > p->matmuls[a->matmul].workspace_bytes) {
            return plan_fail(r, "algorithm %u of the plan is damaged", i);
        }
    }
    return true;
}

bool plan_read_matmul(PlanReader *r, const PlanCommand *c, const PlanArg *args)
{
    const Plan *p = r->p;
    if (c->index >= p->matmuls_count ||
        c->arg_count != arg_count(&p->matmuls[c->index]) ||
        !plan_is_slice(&args[PLAN_MATMUL_A], PLAN_READ) ||
        !plan_is_slice(&args[PLAN_MATMUL_B], PLAN_READ) ||
        !plan_is_slice(&args[PLAN_MATMUL_D], PLAN_WRITE)) {
        return plan_fail(r, "a matrix product without its operands");
    }
    for (uint32_t i = 0; i < c->arg_count; i++) {
        if (args[i].tag != PLAN_ARG_NONE && args[i].tag != PLAN_ARG_SLICE) {
            return plan_fail(r, "a matrix product with an operand that is no slice");
        }
    }
    const PlanMatmul *m = &p->matmuls[c->index];
    const PlanArg *in_c = &args[PLAN_MATMUL_C];
    if (!matrix_fits(p, &m->a, &args[PLAN_MATMUL_A], m->batch) ||
        !matrix_fits(p, &m->b, &args[PLAN_MATMUL_B], m->batch) ||
        !matrix_fits(p, &m->d, &args[PLAN_MATMUL_D], m->batch) ||
        !matrix_fits(p, &m->c, in_c->tag ? in_c : &args[PLAN_MATMUL_D], m->batch)) {
        return plan_fail(r, "a matrix product whose matrices leave their slices");
    }
    if (!all_scales_fit(p, m, args)) {
        return plan_fail(r, "a matrix product whose scales leave their slices");
    }
    if (!bias_fits(p, m, &args[PLAN_MATMUL_BIAS])) {
        return plan_fail(r, "a matrix product whose bias leaves its slice");
    }
    if (has_aux(m) && !aux_fits(p, m, &args[PLAN_MATMUL_AUX])) {
        return plan_fail(r, "a matrix product whose auxiliary output leaves its slice");
    }
    if (args[PLAN_MATMUL_WORKSPACE].tag
            ? !has_bytes(p, &args[PLAN_MATMUL_WORKSPACE], m->workspace_bytes)
            : m->workspace_bytes != 0) {
        return plan_fail(r, "a matrix product without its workspace");
    }
    return true;
}
