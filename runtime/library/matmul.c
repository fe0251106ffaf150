/* Matrix products by cuBLASLt: descriptors and algorithms are made with the session, a call
 * only sets the addresses. */
#include <stdlib.h>
#include <string.h>

#include "runtime/run/annotate.h"
#include "runtime/run/session.h"

static gxrt_status lt_error(const Device *d, uint32_t matmul, const char *call,
                            cublasStatus_t r)
{
    bool unsupported = r == 15; /* CUBLAS_STATUS_NOT_SUPPORTED */
    return status_set(unsupported ? GXRT_UNSUPPORTED : GXRT_DEVICE_FAILED,
                      "%s: cuBLASLt status %d for matrix product m%u on device %u%s",
                      call, r, matmul, d->number,
                      unsupported ? ": this cuBLASLt has no kernel for it on this GPU; "
                                    "compile with --libraries=none"
                                  : "");
}

/* alpha and beta are numbers of the scale type in host memory. */
static void set_scalar(unsigned char out[8], uint32_t type, double value)
{
    float single = (float)value;
    int32_t whole = (int32_t)value;
    memset(out, 0, 8);
    if (type == CUDA_R_64F) {
        memcpy(out, &value, sizeof value);
    } else if (type == CUDA_R_32I) {
        memcpy(out, &whole, sizeof whole);
    } else {
        memcpy(out, &single, sizeof single);
    }
}

static cublasStatus_t make_layout(const CublasltApi *lt, const PlanMatrix *m,
                                  uint32_t batch, cublasLtMatrixLayout_t *out)
{
    int32_t count = (int32_t)batch;
    cublasStatus_t r = lt->layout_create(out, (int)m->type, m->rows, m->columns, m->ld);
    if (r == 0 && batch > 1) {
        r = lt->layout_set(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                           sizeof count);
    }
    if (r == 0 && batch > 1) {
        r = lt->layout_set(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                           &m->batch_stride, sizeof m->batch_stride);
    }
    return r;
}

static cublasStatus_t set_int(const CublasltApi *lt, cublasLtMatmulDesc_t desc,
                              int attribute, uint32_t value)
{
    return lt->desc_set(desc, attribute, &value, sizeof value);
}

/* It lies as D does. */
static cublasStatus_t set_aux(const CublasltApi *lt, const PlanMatmul *m,
                              cublasLtMatmulDesc_t desc, void *anywhere)
{
    cublasStatus_t r = lt->desc_set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &m->d.ld,
                                    sizeof m->d.ld);
    return r != 0 ? r
                  : lt->desc_set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                                 &anywhere, sizeof anywhere);
}

static cublasStatus_t make_desc(const CublasltApi *lt, const PlanMatmul *m, Matmul *out)
{
    const uint32_t bias_bits =
        CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB;
    /* the heuristic only wants to see that there will be a bias or scales, and how aligned */
    void *anywhere = (void *)(uintptr_t)m->alignment;
    cublasStatus_t r = lt->desc_create(&out->desc, (int)m->compute, (int)m->scale_type);
    if (r == 0) {
        r = set_int(lt, out->desc, CUBLASLT_MATMUL_DESC_TRANSA, m->a.transpose);
    }
    if (r == 0) {
        r = set_int(lt, out->desc, CUBLASLT_MATMUL_DESC_TRANSB, m->b.transpose);
    }
    if (r == 0 && m->epilogue > CUBLASLT_EPILOGUE_DEFAULT) {
        r = set_int(lt, out->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, m->epilogue);
    }
    if (r == 0 && (m->epilogue & CUBLASLT_EPILOGUE_BIAS)) {
        r = set_int(lt, out->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, m->bias_type);
    }
    if (r == 0 && (m->epilogue & bias_bits)) {
        r = lt->desc_set(out->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &anywhere,
                         sizeof anywhere);
    }
    if (r == 0 &&
        (m->epilogue & CUBLASLT_EPILOGUE_GELU_AUX) == CUBLASLT_EPILOGUE_GELU_AUX) {
        r = set_aux(lt, m, out->desc, anywhere);
    }
    if (r == 0 && m->device_factors) {
        r = set_int(lt, out->desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, 1);
    }
    if (r == 0 && m->fast_accumulation) {
        const int8_t fast = 1;
        r = lt->desc_set(out->desc, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast);
    }
    const PlanMatrix *matrices[2] = {&m->a, &m->b};
    for (int i = 0; i < 2 && r == 0; i++) {
        if (matrices[i]->scale_mode) {
            r = set_int(lt, out->desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE + i,
                        matrices[i]->scale_mode);
        }
        if (r == 0 && matrices[i]->scale_mode) {
            r = lt->desc_set(out->desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER + i,
                             &anywhere, sizeof anywhere);
        }
    }
    return r;
}

cublasStatus_t matmul_heuristic(const Device *d, uint32_t number, int most,
                                cublasLtMatmulHeuristicResult_t *found, int *count)
{
    const CublasltApi *lt = d->session->cublaslt;
    const PlanMatmul *m = &d->session->plan->matmuls[number];
    const Matmul *ready = &d->matmuls[number];
    cublasLtMatmulPreference_t preference = NULL;
    *count = 0;
    cublasStatus_t r = lt->preference_create(&preference);
    if (r == 0) {
        r = lt->preference_set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                               &m->workspace_bytes, sizeof m->workspace_bytes);
    }
    for (int i = 0; i < 4 && r == 0; i++) {
        r = lt->preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i,
                               &m->alignment, sizeof m->alignment);
    }
    if (r == 0) {
        r = lt->heuristic(d->cublaslt, ready->desc, ready->a, ready->b, ready->c,
                          ready->d, preference, most, found, count);
    }
    if (preference) {
        lt->preference_destroy(preference);
    }
    return r;
}

/* What a tuner found, if it is of this version and the library takes it. */
static bool take_algorithm(const Device *d, uint32_t number, Matmul *out)
{
    const Plan *p = d->session->plan;
    const CublasltApi *lt = d->session->cublaslt;
    for (uint32_t i = 0; i < p->algorithms_count; i++) {
        const PlanAlgorithm *a = &p->algorithms[i];
        cublasLtMatmulHeuristicResult_t checked;
        if (a->matmul != number || a->version != lt->version()) {
            continue;
        }
        memcpy(&out->algorithm, a->algorithm, sizeof out->algorithm);
        if (lt->check(d->cublaslt, out->desc, out->a, out->b, out->c, out->d,
                      &out->algorithm, &checked) == 0 &&
            checked.workspaceSize <= p->matmuls[number].workspace_bytes) {
            return true;
        }
        session_log(
            d->session, 1,
            "cuBLASLt %u does not take the tuned algorithm of matrix product m%u: "
            "its heuristic chooses",
            a->version, number);
    }
    return false;
}

/* The tuner's choice, or the library's first. */
static cublasStatus_t choose(const Device *d, uint32_t number, Matmul *out)
{
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    if (take_algorithm(d, number, out)) {
        return 0;
    }
    cublasStatus_t r = matmul_heuristic(d, number, 1, &found, &count);
    if (r != 0 || count == 0) {
        return r != 0 ? r : 15;
    }
    out->algorithm = found.algo;
    return found.state;
}

gxrt_status matmul_create(Device *d)
{
    const gxrt_session *s = d->session;
    const Plan *p = s->plan;
    const CublasltApi *lt = s->cublaslt;
    if (p->matmuls_count == 0) {
        return GXRT_OK;
    }
    d->matmuls = calloc(p->matmuls_count, sizeof *d->matmuls);
    if (!d->matmuls) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    cublasStatus_t r = lt->create(&d->cublaslt);
    if (r != 0) {
        return lt_error(d, 0, "cublasLtCreate", r);
    }
    for (uint32_t i = 0; i < p->matmuls_count; i++) {
        const PlanMatmul *m = &p->matmuls[i];
        Matmul *out = &d->matmuls[i];
        set_scalar(out->alpha, m->scale_type, m->alpha);
        set_scalar(out->beta, m->scale_type, m->beta);
        r = make_desc(lt, m, out);
        r = r == 0 ? make_layout(lt, &m->a, m->batch, &out->a) : r;
        r = r == 0 ? make_layout(lt, &m->b, m->batch, &out->b) : r;
        r = r == 0 ? make_layout(lt, &m->c, m->batch, &out->c) : r;
        r = r == 0 ? make_layout(lt, &m->d, m->batch, &out->d) : r;
        if (r != 0) {
            return lt_error(d, i, "cublasLtMatmulDescCreate", r);
        }
        r = choose(d, i, out);
        if (r != 0) {
            return lt_error(d, i, "cublasLtMatmulAlgoGetHeuristic", r);
        }
    }
    return GXRT_OK;
}

void matmul_destroy(Device *d)
{
    const CublasltApi *lt = d->session->cublaslt;
    for (uint32_t i = 0; d->matmuls && i < d->session->plan->matmuls_count; i++) {
        Matmul *m = &d->matmuls[i];
        cublasLtMatrixLayout_t layouts[4] = {m->a, m->b, m->c, m->d};
        for (int j = 0; j < 4; j++) {
            if (layouts[j]) {
                lt->layout_destroy(layouts[j]);
            }
        }
        if (m->desc) {
            lt->desc_destroy(m->desc);
        }
    }
    if (d->cublaslt) {
        lt->destroy(d->cublaslt);
    }
    free(d->matmuls);
}

/* Pointer attributes of the descriptor, by operand. */
static const struct {
    int operand, attribute;
} pointers[] = {
    {PLAN_MATMUL_BIAS, CUBLASLT_MATMUL_DESC_BIAS_POINTER},
    {PLAN_MATMUL_SCALE_A, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER},
    {PLAN_MATMUL_SCALE_B, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER},
    {PLAN_MATMUL_AUX, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER},
};

cublasStatus_t matmul_queue(Device *d, const PlanCommand *c, void *const *at,
                            const cublasLtMatmulAlgo_t *algorithm, CUstream stream)
{
    const CublasltApi *lt = d->session->cublaslt;
    const PlanMatmul *m = &d->session->plan->matmuls[c->index];
    Matmul *ready = &d->matmuls[c->index];
    cublasStatus_t r = 0;
    /* NULL, too: scales are optional, and another command of this record may have left its own */
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers && r == 0; i++) {
        void *const *pointer = &at[pointers[i].operand];
        r = lt->desc_set(ready->desc, pointers[i].attribute, pointer, sizeof *pointer);
    }
    void *in_c = at[PLAN_MATMUL_C] ? at[PLAN_MATMUL_C] : at[PLAN_MATMUL_D];
    const void *alpha = ready->alpha, *beta = ready->beta;
    if (m->device_factors) {
        alpha = at[PLAN_MATMUL_FACTORS];
        beta = (char *)at[PLAN_MATMUL_FACTORS] + (m->scale_type == CUDA_R_64F ? 8 : 4);
    }
    if (r == 0) {
        r = lt->matmul(d->cublaslt, ready->desc, alpha, at[PLAN_MATMUL_A], ready->a,
                       at[PLAN_MATMUL_B], ready->b, beta, in_c, ready->c,
                       at[PLAN_MATMUL_D], ready->d,
                       algorithm ? algorithm : &ready->algorithm,
                       at[PLAN_MATMUL_WORKSPACE], m->workspace_bytes, stream);
    }
    return r;
}

gxrt_status run_matmul(Device *d, const PlanCommand *c, CUstream stream)
{
    const Plan *p = d->session->plan;
    void *at[PLAN_MATMUL_ARGS] = {NULL};
    for (uint32_t i = 0; i < c->arg_count; i++) {
        const PlanArg *a = &p->args[c->args + i];
        if (a->tag == PLAN_ARG_SLICE) {
            at[i] = (void *)(uintptr_t)slice_address(d, a->index);
        }
        if (a->tag == PLAN_ARG_SLICE && (a->access & PLAN_WRITE)) {
            annotate_written(stream, at[i], p->slices[a->index].bytes);
        }
    }
    cublasStatus_t r = matmul_queue(d, c, at, NULL, stream);
    if (r == 0) {
        return GXRT_OK;
    }
    d->session->failed = d->session->failed || d->phase == CAPTURE_OFF;
    char said[64];
    snprintf(said, sizeof said, "cublasLtMatmul: cuBLASLt status %d", r);
    return library_error(d, c, said);
}
