/* Validating a matrix product of a plan: what the library is told about its matrices, scales,
 * bias and epilogue lies in the slices that the command gives it. */
#include "runtime/plan/read.h"

/* cudaDataType_t. */
enum {
    TYPE_R_32F = 0,
    TYPE_R_64F = 1,
    TYPE_R_16F = 2,
    TYPE_R_8I = 3,
    TYPE_C_32F = 4,
    TYPE_C_64F = 5,
    TYPE_R_8U = 8,
    TYPE_R_32I = 10,
    TYPE_R_16BF = 14,
    TYPE_R_8F_E4M3 = 28,
    TYPE_R_8F_E5M2 = 29,
    TYPE_R_4F_E2M1 = 33
};

/* cublasLtMatmulMatrixScale_t. */
enum { SCALE_SCALAR_32F, SCALE_VEC16_UE4M3, SCALE_VEC32_UE8M0 };

/* cublasLtEpilogue_t is a set of bits. A forward one is an activation, a bias or both, and may
 * keep for the backward one (AUX) what the activation was applied to: for relu, a bit each. */
enum {
    EPILOGUE_RELU = 2,
    EPILOGUE_BIAS = 4,
    EPILOGUE_DRELU = 8,
    EPILOGUE_BGRAD = 16,
    EPILOGUE_GELU = 32,
    EPILOGUE_DGELU = 64,
    EPILOGUE_AUX = 128,
    EPILOGUE_BGRADA = 256,
    EPILOGUE_BGRADB = 512,
    EPILOGUE_BIASES = EPILOGUE_BIAS | EPILOGUE_BGRAD | EPILOGUE_BGRADA | EPILOGUE_BGRADB
};

static uint64_t type_bits(uint32_t type) /* 0: not known */
{
    switch (type) {
    case TYPE_R_4F_E2M1:
        return 4;
    case TYPE_R_8I:
    case TYPE_R_8U:
    case TYPE_R_8F_E4M3:
    case TYPE_R_8F_E5M2:
        return 8;
    case TYPE_R_16F:
    case TYPE_R_16BF:
        return 16;
    case TYPE_R_32F:
    case TYPE_R_32I:
        return 32;
    case TYPE_R_64F:
    case TYPE_C_32F:
        return 64;
    case TYPE_C_64F:
        return 128;
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

/* Elements from the first to the last of `batch` matrices, `outer` lines of `inner` each. */
static uint64_t extent(uint64_t inner, uint64_t outer, int64_t ld, uint32_t batch,
                       int64_t batch_stride)
{
    return plan_add(plan_add(plan_multiply(outer - 1, (uint64_t)ld), inner),
                    plan_multiply(batch - 1, (uint64_t)batch_stride));
}

static bool is_matrix(const PlanMatrix *m)
{
    return m->ld >= 0 && m->batch_stride >= 0 && m->order <= 1 && m->transpose <= 2 &&
           m->rows != 0 && m->columns != 0 &&
           (uint64_t)m->ld >= (m->order ? m->columns : m->rows);
}

static bool matrix_fits(const Plan *p, const PlanMatrix *m, const PlanArg *a,
                        uint32_t batch)
{
    uint64_t inner = m->order ? m->columns : m->rows;
    uint64_t outer = m->order ? m->rows : m->columns;
    return has_bits(p, a, extent(inner, outer, m->ld, batch, m->batch_stride),
                    type_bits(m->type));
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

/* One scale of a whole matrix, which need not be there; or scales of blocks, in whole tiles of
 * 128 lines and 4 scales, which take 512 bytes each. */
static bool scales_fit(const Plan *p, const PlanMatrix *m, const PlanArg *a,
                       uint32_t batch)
{
    if (m->scale_mode == SCALE_SCALAR_32F) {
        return a->tag == PLAN_ARG_NONE || has_bytes(p, a, sizeof(float));
    }
    uint64_t block = m->scale_mode == SCALE_VEC16_UE4M3 ? 16 : 32;
    uint64_t tiles = plan_multiply(m->columns / 128 + (m->columns % 128 != 0),
                                   m->rows / (4 * block) + (m->rows % (4 * block) != 0));
    return has_bytes(p, a, plan_multiply(plan_multiply(tiles, 512), batch));
}

static bool all_scales_fit(const Plan *p, const PlanMatmul *m, const PlanArg *args)
{
    const PlanArg *factors = &args[PLAN_MATMUL_FACTORS];
    bool two = m->scale_type == TYPE_R_32F || m->scale_type == TYPE_R_64F;
    return scales_fit(p, &m->a, &args[PLAN_MATMUL_SCALE_A], m->batch) &&
           scales_fit(p, &m->b, &args[PLAN_MATMUL_SCALE_B], m->batch) &&
           scales_fit(p, &m->c, &args[PLAN_MATMUL_SCALE_C], m->batch) &&
           scales_fit(p, &m->d, &args[PLAN_MATMUL_SCALE_D], m->batch) &&
           (m->device_factors ? two && has_bits(p, factors, 2, type_bits(m->scale_type))
                              : factors->tag == PLAN_ARG_NONE);
}

static bool epilogue_is_known(uint32_t epilogue)
{
    static const uint32_t known[] = {
        0, /* the library's default, as is 1 */
        1,
        EPILOGUE_RELU,
        EPILOGUE_RELU | EPILOGUE_AUX,
        EPILOGUE_BIAS,
        EPILOGUE_RELU | EPILOGUE_BIAS,
        EPILOGUE_RELU | EPILOGUE_AUX | EPILOGUE_BIAS,
        EPILOGUE_DRELU | EPILOGUE_AUX,
        EPILOGUE_DRELU | EPILOGUE_AUX | EPILOGUE_BGRAD,
        EPILOGUE_GELU,
        EPILOGUE_GELU | EPILOGUE_AUX,
        EPILOGUE_GELU | EPILOGUE_BIAS,
        EPILOGUE_GELU | EPILOGUE_AUX | EPILOGUE_BIAS,
        EPILOGUE_DGELU | EPILOGUE_AUX,
        EPILOGUE_DGELU | EPILOGUE_AUX | EPILOGUE_BGRAD,
        EPILOGUE_BGRADA,
        EPILOGUE_BGRADB,
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (known[i] == epilogue) {
            return true;
        }
    }
    return false;
}

/* A number for each row of D, read; or its gradient, written, which for B is one for each
 * column. */
static bool bias_fits(const Plan *p, const PlanMatmul *m, const PlanArg *a)
{
    if ((m->epilogue & EPILOGUE_BIASES) == 0) {
        return a->tag == PLAN_ARG_NONE;
    }
    uint64_t length = m->epilogue & EPILOGUE_BGRADB ? m->d.columns : m->d.rows;
    return plan_is_slice(a, m->epilogue & EPILOGUE_BIAS ? PLAN_READ : PLAN_WRITE) &&
           type_bits(m->bias_type) != 0 &&
           has_bits(p, a, length, type_bits(m->bias_type));
}

/* A matrix like D, column by column: of D's type, or of bits for relu. */
static bool aux_fits(const Plan *p, const PlanMatmul *m, const PlanArg *a)
{
    if ((m->epilogue & EPILOGUE_AUX) == 0) {
        return a->tag == PLAN_ARG_NONE;
    }
    bool bits = m->epilogue & (EPILOGUE_RELU | EPILOGUE_DRELU);
    bool forward = m->epilogue & (EPILOGUE_RELU | EPILOGUE_GELU);
    return plan_is_slice(a, forward ? PLAN_WRITE : PLAN_READ) && m->aux_ld >= 0 &&
           (uint64_t)m->aux_ld >= m->d.rows && m->aux_batch_stride >= 0 &&
           (bits || m->aux_type == m->d.type) &&
           has_bits(
               p, a,
               extent(m->d.rows, m->d.columns, m->aux_ld, m->batch, m->aux_batch_stride),
               bits ? 1 : type_bits(m->d.type));
}

static bool amax_fits(const Plan *p, const PlanArg *a)
{
    return a->tag == PLAN_ARG_NONE ||
           (plan_is_slice(a, PLAN_WRITE) && has_bytes(p, a, sizeof(float)));
}

/* Numbers that the library knows and this reader does not. */
static bool read_kinds(PlanReader *r, const PlanMatmul *m)
{
    const PlanMatrix *matrices[4] = {&m->a, &m->b, &m->c, &m->d};
    for (int i = 0; i < 4; i++) {
        if (type_bits(matrices[i]->type) == 0) {
            return plan_newer(r, "a matrix of type", matrices[i]->type);
        }
        if (matrices[i]->scale_mode > (i < 2 ? SCALE_VEC32_UE8M0 : SCALE_SCALAR_32F)) {
            return plan_newer(r, "a matrix with scales of mode", matrices[i]->scale_mode);
        }
    }
    if (type_bits(m->scale_type) == 0) {
        return plan_newer(r, "a matrix product with factors of type", m->scale_type);
    }
    return epilogue_is_known(m->epilogue) ||
           plan_newer(r, "a matrix product with epilogue", m->epilogue);
}

bool plan_read_matmuls(PlanReader *r)
{
    for (uint32_t i = 0; i < r->p->matmuls_count; i++) {
        const PlanMatmul *m = &r->p->matmuls[i];
        if (!read_kinds(r, m)) {
            return false;
        }
        if (!is_matrix(&m->a) || !is_matrix(&m->b) || !is_matrix(&m->c) ||
            !is_matrix(&m->d) || m->batch == 0 || m->batch > INT32_MAX ||
            !sizes_agree(m)) {
            return plan_fail(r, "matrix product %u of the plan is damaged", i);
        }
    }
    return true;
}

bool plan_read_matmul(PlanReader *r, const PlanCommand *c, const PlanArg *args)
{
    const Plan *p = r->p;
    if (c->index >= p->matmuls_count || c->arg_count != PLAN_MATMUL_ARGS ||
        !plan_is_slice(&args[PLAN_MATMUL_A], PLAN_READ) ||
        !plan_is_slice(&args[PLAN_MATMUL_B], PLAN_READ) ||
        !plan_is_slice(&args[PLAN_MATMUL_D], PLAN_WRITE)) {
        return plan_fail(r, "a matrix product without its operands");
    }
    for (int i = 0; i < PLAN_MATMUL_ARGS; i++) {
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
    if (!aux_fits(p, m, &args[PLAN_MATMUL_AUX])) {
        return plan_fail(r, "a matrix product whose auxiliary matrix leaves its slice");
    }
    if (!amax_fits(p, &args[PLAN_MATMUL_AMAX_D])) {
        return plan_fail(r, "a matrix product whose largest value leaves its slice");
    }
    if (args[PLAN_MATMUL_WORKSPACE].tag
            ? !has_bytes(p, &args[PLAN_MATMUL_WORKSPACE], m->workspace_bytes)
            : m->workspace_bytes != 0) {
        return plan_fail(r, "a matrix product without its workspace");
    }
    return true;
}
