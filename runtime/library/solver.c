/* Factorisations by cuSOLVER. Handle and workspace are made with the session: the library says there what the largest
 * of the plan's calls wants. All of them share it, on one stream. */
#include <stdlib.h>

#include "runtime/run/annotate.h"
#include "runtime/run/session.h"

enum { INFO_BYTES = 256, NOT_SUPPORTED = 9 };

struct Solvers {
    cusolverDnHandle_t handle;
    cusolverDnParams_t params;
    void *device; /* room for info that nobody asks for, then what the library works in */
    void *host;
    size_t device_bytes, host_bytes;
};

/* One matrix of a call: addresses by PLAN_SOLVER_x. */
typedef struct Call {
    const CusolverApi *api;
    const PlanSolver *what;
    Solvers *solvers;
    char *at[PLAN_SOLVER_ARGS];
} Call;

static gxrt_status solver_error(const Device *d, uint32_t number, const char *call,
                                cusolverStatus_t r)
{
    const PlanSolver *s = &d->session->plan->solvers[number];
    return status_set(r == NOT_SUPPORTED ? GXRT_UNSUPPORTED : GXRT_DEVICE_FAILED,
                      "%s: cuSOLVER status %d for factorisation f%u (%s) on device %u%s",
                      call, r, number, plan_solver_name(s->kind), d->number,
                      r == NOT_SUPPORTED ? "; compile with --libraries=cublaslt,cudnn"
                                         : "");
}

/* By cudaDataType_t. */
static const struct {
    int letter;
    cudaDataType_t real;
    size_t bytes; /* of an element */
} types[] = {
#define TYPE(name, value, letter, dtype, bytes, real, real_bytes)                        \
    [name] = {CUSOLVER_##letter, real, bytes},
    CUSOLVER_TYPES(TYPE)
#undef TYPE
};

/* Whether u has as many columns as rows, as the columns of the matrix, or is not wanted. */
static signed char job_of(const PlanSolver *s)
{
    return s->vectors == 0 ? 'N' : s->vectors == s->rows ? 'A' : 'S';
}

/* --- how much memory ----------------------------------------------------------------------- */

/* In elements of the matrix. */
static cusolverStatus_t count_elements(const Call *c, size_t *device)
{
    const PlanSolver *s = c->what;
    int rows = (int)s->rows, columns = (int)s->columns, letter = types[s->type].letter,
        n = 0;
    cusolverStatus_t r =
        s->kind == PLAN_SOLVER_GETRF
            ? c->api->getrf_elements[letter](c->solvers->handle, rows, columns, NULL,
                                             rows, &n)
            : c->api->orgqr_elements[letter](c->solvers->handle, rows, columns,
                                             (int)s->vectors, NULL, rows, NULL, &n);
    *device = n > 0 ? (size_t)n * types[s->type].bytes : 0;
    return r;
}

static cusolverStatus_t count_bytes(const Call *c, size_t *device, size_t *host)
{
    const PlanSolver *s = c->what;
    const CusolverApi *api = c->api;
    cusolverDnHandle_t handle = c->solvers->handle;
    cusolverDnParams_t params = c->solvers->params;
    int64_t rows = (int64_t)s->rows, columns = (int64_t)s->columns;
    cudaDataType_t type = (int)s->type, real = types[s->type].real;
    signed char job = job_of(s);
    *device = *host = 0;
    switch ((PlanSolverKind)s->kind) {
    case PLAN_SOLVER_POTRF:
        return api->potrf_bytes(handle, params, (int)s->fill, rows, type, NULL, rows,
                                type, device, host);
    case PLAN_SOLVER_GEQRF:
        return api->geqrf_bytes(handle, params, rows, columns, type, NULL, rows, type,
                                NULL, type, device, host);
    case PLAN_SOLVER_SYEVD:
        return api->syevd_bytes(handle, params, CUSOLVER_EIG_MODE_VECTOR, (int)s->fill,
                                rows, type, NULL, rows, real, NULL, type, device, host);
    case PLAN_SOLVER_GESVD:
        return api->gesvd_bytes(handle, params, job, job, rows, columns, type, NULL, rows,
                                real, NULL, type, NULL, rows, type, NULL, columns, type,
                                device, host);
    case PLAN_SOLVER_GETRF:
    case PLAN_SOLVER_ORGQR:
    case PLAN_SOLVER_KINDS:
        break;
    }
    return count_elements(c, device);
}

static gxrt_status take_memory(Device *d)
{
    const gxrt_session *s = d->session;
    Solvers *all = d->solvers;
    all->device_bytes = INFO_BYTES;
    for (uint32_t i = 0; i < s->plan->solvers_count; i++) {
        Call c = {.api = s->cusolver, .what = &s->plan->solvers[i], .solvers = all};
        size_t device, host;
        cusolverStatus_t r = count_bytes(&c, &device, &host);
        if (r != 0) {
            return solver_error(d, i, "cusolverDn..._bufferSize", r);
        }
        if (device > SIZE_MAX - INFO_BYTES) {
            return status_set(GXRT_OUT_OF_MEMORY, "cuSOLVER wants %zu bytes", device);
        }
        device += INFO_BYTES;
        all->device_bytes = device > all->device_bytes ? device : all->device_bytes;
        all->host_bytes = host > all->host_bytes ? host : all->host_bytes;
    }
    all->host = malloc(all->host_bytes + 1);
    if (!all->host) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    return memory_take(d, all->device_bytes, INFO_BYTES, &all->device);
}

gxrt_status solvers_create(Device *d)
{
    const CusolverApi *api = d->session->cusolver;
    if (d->session->plan->solvers_count == 0) {
        return GXRT_OK;
    }
    d->solvers = calloc(1, sizeof *d->solvers);
    if (!d->solvers) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_session_create: no memory");
    }
    cusolverStatus_t r = api->create(&d->solvers->handle);
    r = r == 0 ? api->params_create(&d->solvers->params) : r;
    return r == 0 ? take_memory(d) : solver_error(d, 0, "cusolverDnCreate", r);
}

void solvers_destroy(Device *d)
{
    const CusolverApi *api = d->session->cusolver;
    Solvers *s = d->solvers;
    if (!s) {
        return;
    }
    memory_give_back(d, s->device);
    free(s->host);
    if (s->params) {
        api->params_destroy(s->params);
    }
    if (s->handle) {
        api->destroy(s->handle);
    }
    free(s);
    d->solvers = NULL;
}

/* --- calls ----------------------------------------------------------------------------------- */

static cusolverStatus_t call_typed(const Call *c, void *work, size_t bytes, int *info)
{
    const PlanSolver *s = c->what;
    void *a = c->at[PLAN_SOLVER_OUT], *vector = c->at[PLAN_SOLVER_VECTOR];
    int rows = (int)s->rows, columns = (int)s->columns, letter = types[s->type].letter;
    size_t elements = bytes / types[s->type].bytes;
    if (s->kind == PLAN_SOLVER_GETRF) {
        return c->api->getrf[letter](c->solvers->handle, rows, columns, a, rows, work,
                                     vector, info);
    }
    return c->api->orgqr[letter](c->solvers->handle, rows, columns, (int)s->vectors, a,
                                 rows, vector, work,
                                 elements > INT32_MAX ? INT32_MAX : (int)elements, info);
}

static cusolverStatus_t call_one(const Call *c)
{
    const PlanSolver *s = c->what;
    const CusolverApi *api = c->api;
    Solvers *all = c->solvers;
    int64_t rows = (int64_t)s->rows, columns = (int64_t)s->columns;
    cudaDataType_t type = (int)s->type, real = types[s->type].real;
    signed char job = job_of(s);
    void *a = c->at[PLAN_SOLVER_OUT], *vector = c->at[PLAN_SOLVER_VECTOR];
    void *work = (char *)all->device + INFO_BYTES;
    size_t bytes = all->device_bytes - INFO_BYTES;
    int *info =
        c->at[PLAN_SOLVER_INFO] ? (void *)c->at[PLAN_SOLVER_INFO] : (int *)all->device;
    switch ((PlanSolverKind)s->kind) {
    case PLAN_SOLVER_POTRF:
        return api->potrf(all->handle, all->params, (int)s->fill, rows, type, a, rows,
                          type, work, bytes, all->host, all->host_bytes, info);
    case PLAN_SOLVER_GEQRF:
        return api->geqrf(all->handle, all->params, rows, columns, type, a, rows, type,
                          vector, type, work, bytes, all->host, all->host_bytes, info);
    case PLAN_SOLVER_SYEVD:
        return api->syevd(all->handle, all->params, CUSOLVER_EIG_MODE_VECTOR,
                          (int)s->fill, rows, type, a, rows, real, vector, type, work,
                          bytes, all->host, all->host_bytes, info);
    case PLAN_SOLVER_GESVD:
        return api->gesvd(all->handle, all->params, job, job, rows, columns, type, a,
                          rows, real, vector, type, c->at[PLAN_SOLVER_U], rows, type,
                          c->at[PLAN_SOLVER_V], columns, type, work, bytes, all->host,
                          all->host_bytes, info);
    case PLAN_SOLVER_GETRF:
    case PLAN_SOLVER_ORGQR:
    case PLAN_SOLVER_KINDS:
        break;
    }
    return call_typed(c, work, bytes, info);
}

/* Addresses of the first matrix; announces what is written. */
static void find_args(const Device *d, const PlanCommand *c, CUstream stream, Call *out)
{
    const Plan *p = d->session->plan;
    for (int i = 0; i < PLAN_SOLVER_ARGS; i++) {
        const PlanArg *a = &p->args[c->args + i];
        if (a->tag != PLAN_ARG_SLICE) {
            continue;
        }
        out->at[i] = (char *)(uintptr_t)slice_address(d, a->index);
        if (a->access & PLAN_WRITE) {
            annotate_written(stream, out->at[i], p->slices[a->index].bytes);
        }
    }
}

gxrt_status run_solver(Device *d, const PlanCommand *c, CUstream stream)
{
    const gxrt_session *s = d->session;
    const PlanSolver *what = &s->plan->solvers[c->index];
    Call call = {.api = s->cusolver, .what = what, .solvers = d->solvers};
    find_args(d, c, stream, &call);
    if (call.at[PLAN_SOLVER_OUT] != call.at[PLAN_SOLVER_A]) {
        CUresult copied =
            s->cuda->copy_on_device((CUdeviceptr)(uintptr_t)call.at[PLAN_SOLVER_OUT],
                                    (CUdeviceptr)(uintptr_t)call.at[PLAN_SOLVER_A],
                                    plan_solver_bytes(what, PLAN_SOLVER_A), stream);
        if (copied != CUDA_SUCCESS) {
            return command_error(d, c, "cuMemcpyDtoDAsync", copied);
        }
    }
    cusolverStatus_t r = s->cusolver->set_stream(d->solvers->handle, stream);
    for (uint32_t i = 0; i < what->batch && r == 0; i++) {
        r = call_one(&call);
        for (uint32_t arg = 0; arg < PLAN_SOLVER_ARGS; arg++) {
            if (call.at[arg]) {
                call.at[arg] += plan_solver_step(what, arg);
            }
        }
    }
    if (r == 0) {
        return GXRT_OK;
    }
    d->session->failed = true;
    char said[64];
    snprintf(said, sizeof said, "cusolverDn: cuSOLVER status %d", r);
    return library_error(d, c, said);
}
