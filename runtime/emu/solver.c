/* The functions of cusolver.def: factorisations are operations of a stream, computed in f64 by ir/number/matrix.h, one matrix
 * at a time. Workspaces are asked for and looked at, though nothing is computed in them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/number/matrix.h"
#include "ir/number/number.h"
#include "runtime/emu/allocation.h"
#include "runtime/emu/context.h"
#include "runtime/emu/queue.h"
#include "runtime/emu/steps.h"
#include "runtime/plan/read.h"

#pragma GCC visibility push(default)
#define CUSOLVER_FUNCTION(name, symbol, parameters) cusolverStatus_t symbol parameters;
#include "runtime/library/cusolver.def"
#pragma GCC visibility pop

enum {
    SOLVER_SUCCESS = 0,
    SOLVER_ALLOC_FAILED = 2,
    SOLVER_INVALID_VALUE = 3,
    SOLVER_EXECUTION_FAILED = 6,
    HOST_BYTES = 64, /* that some functions ask for */
};

struct cusolverDnContext {
    CUstream stream;
};

struct cusolverDnParams {
    int unused;
};

/* An array of a call; bytes 0: there is none. */
typedef struct Range {
    const char *name;
    unsigned char *data;
    uint64_t bytes;
    uint32_t alignment;
    bool is_read, is_written;
} Range;

enum { RANGE_A, RANGE_VECTOR, RANGE_INFO, RANGE_U, RANGE_V, RANGE_WORK, RANGES };

typedef struct Factorisation Factorisation;
struct Factorisation {
    Operation operation;
    const char *function;
    bool (*compute)(const Factorisation *f); /* false: no memory */
    DType type;
    bool lower;
    int64_t rows, columns, steps; /* steps: columns of u, factors of q */
    Range ranges[RANGES];
};

static cusolverStatus_t refuse(const char *function, const char *text)
{
    emu_refuse(CUDA_ERROR_INVALID_VALUE, "%s: %s", function, text);
    return SOLVER_INVALID_VALUE;
}

static bool find_type(int type, DType *out)
{
    switch (type) {
#define TYPE(name, value, letter, dtype, bytes, real, real_bytes)                        \
    case name:                                                                           \
        *out = DT_##dtype;                                                               \
        return true;
        CUSOLVER_TYPES(TYPE)
#undef TYPE
    default:
        return false;
    }
}

static DType real_of(const Factorisation *f)
{
    return number_component(f->type);
}

/* -- numbers ------------------------------------------------------------------------------------ */

/* A matrix by columns as one by rows, in new memory; NULL data: no memory. */
static Matrix read_matrix(const Factorisation *f, const Range *from, int64_t rows,
                          int64_t columns)
{
    Matrix m = {.a = calloc((size_t)(rows * columns) + 1, sizeof *m.a),
                .rows = rows,
                .columns = columns,
                .is_single = real_of(f) == DT_F32};
    size_t each = dtype_info[f->type].storage;
    for (int64_t j = 0; m.a != NULL && from != NULL && j < columns; j++) {
        for (int64_t i = 0; i < rows; i++)
            number_convert(DT_C128, matrix_at(&m, i, j), f->type,
                           from->data + (size_t)(j * rows + i) * each, 1);
    }
    return m;
}

static void write_matrix(const Factorisation *f, const Matrix *m, const Range *to,
                         bool adjoint)
{
    size_t each = dtype_info[f->type].storage;
    for (int64_t i = 0; i < m->rows; i++) {
        for (int64_t j = 0; j < m->columns; j++) {
            Complex x = *matrix_at(m, i, j);
            x = adjoint ? linalg_conjugate(x) : x;
            int64_t at = adjoint ? i * m->columns + j : j * m->rows + i;
            number_convert(f->type, to->data + (size_t)at * each, DT_C128, &x, 1);
        }
    }
}

static void write_reals(const Factorisation *f, const double *values, int64_t n)
{
    number_convert(real_of(f), f->ranges[RANGE_VECTOR].data, DT_F64, values, (size_t)n);
}

static void write_info(const Factorisation *f, int32_t info)
{
    memcpy(f->ranges[RANGE_INFO].data, &info, sizeof info);
}

/* -- factorisations ----------------------------------------------------------------------------- */

/* As LAPACK does it: the other triangle stays as it was. */
static bool compute_potrf(const Factorisation *f)
{
    const Range *a = &f->ranges[RANGE_A];
    int64_t n = f->rows;
    Matrix given = read_matrix(f, a, n, n), m = read_matrix(f, a, n, n);
    bool ok = given.a != NULL && m.a != NULL;
    int32_t info = ok ? matrix_cholesky(&m, f->lower) : 0;
    for (int64_t i = 0; ok && i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            if (f->lower ? j > i : j < i)
                *matrix_at(&m, i, j) = *matrix_at(&given, i, j);
        }
    }
    if (ok) {
        write_matrix(f, &m, a, false);
        write_info(f, info);
    }
    free(given.a);
    free(m.a);
    return ok;
}

static bool compute_getrf(const Factorisation *f)
{
    const Range *a = &f->ranges[RANGE_A];
    int64_t steps = f->rows < f->columns ? f->rows : f->columns;
    int32_t info = 0, *pivots = calloc((size_t)steps + 1, sizeof *pivots);
    Matrix m = read_matrix(f, a, f->rows, f->columns);
    bool ok = pivots != NULL && m.a != NULL;
    if (ok) {
        matrix_lu(&m, steps, pivots, &info);
        write_matrix(f, &m, a, false);
        memcpy(f->ranges[RANGE_VECTOR].data, pivots, (size_t)steps * sizeof *pivots);
        write_info(f, info);
    }
    free(pivots);
    free(m.a);
    return ok;
}

static bool compute_geqrf(const Factorisation *f)
{
    const Range *a = &f->ranges[RANGE_A];
    int64_t steps = f->rows < f->columns ? f->rows : f->columns;
    Complex *t = calloc((size_t)steps + 1, sizeof *t);
    Matrix m = read_matrix(f, a, f->rows, f->columns);
    bool ok = t != NULL && m.a != NULL;
    for (int64_t k = 0; ok && k < steps; k++)
        t[k] = matrix_qr_step(&m, k);
    if (ok) {
        write_matrix(f, &m, a, false);
        number_convert(f->type, f->ranges[RANGE_VECTOR].data, DT_C128, t, (size_t)steps);
        write_info(f, 0);
    }
    free(t);
    free(m.a);
    return ok;
}

static bool compute_orgqr(const Factorisation *f)
{
    const Range *a = &f->ranges[RANGE_A];
    Complex *t = calloc((size_t)f->steps + 1, sizeof *t);
    Matrix v = read_matrix(f, a, f->rows, f->columns),
           q = read_matrix(f, NULL, f->rows, f->columns);
    bool ok = t != NULL && v.a != NULL && q.a != NULL;
    if (ok) {
        number_convert(DT_C128, t, f->type, f->ranges[RANGE_VECTOR].data,
                       (size_t)f->steps);
        matrix_unreflect(&v, t, f->steps, &q);
        write_matrix(f, &q, a, false);
        write_info(f, 0);
    }
    free(t);
    free(v.a);
    free(q.a);
    return ok;
}

static bool compute_syevd(const Factorisation *f)
{
    const Range *a = &f->ranges[RANGE_A];
    double *values = calloc((size_t)f->rows + 1, sizeof *values);
    Matrix m = read_matrix(f, a, f->rows, f->rows),
           v = read_matrix(f, NULL, f->rows, f->rows);
    bool ok = values != NULL && m.a != NULL && v.a != NULL;
    if (ok) {
        bool done = matrix_eigen(&m, f->lower, &v, values);
        write_matrix(f, &v, a, false);
        write_reals(f, values, f->rows);
        write_info(f, done ? 0 : (int32_t)f->rows + 1);
    }
    free(values);
    free(m.a);
    free(v.a);
    return ok;
}

static bool compute_gesvd(const Factorisation *f)
{
    int64_t n = f->columns, wide = f->steps != 0 ? f->steps : n;
    double *values = calloc((size_t)n + 1, sizeof *values);
    Complex *t = calloc((size_t)n + 1, sizeof *t);
    Matrix m = read_matrix(f, &f->ranges[RANGE_A], f->rows, n),
           v = read_matrix(f, NULL, n, n), work = read_matrix(f, NULL, f->rows, wide),
           u = read_matrix(f, NULL, f->rows, wide);
    bool ok = values != NULL && t != NULL && m.a != NULL && v.a != NULL &&
              work.a != NULL && u.a != NULL;
    if (ok) {
        bool done = matrix_singular(&m, &v, values);
        write_reals(f, values, n);
        write_info(f, !done);
        memset(f->ranges[RANGE_A].data, 0xff, f->ranges[RANGE_A].bytes);
        if (f->steps != 0) {
            matrix_left_vectors(&m, &work, t, &u);
            write_matrix(f, &u, &f->ranges[RANGE_U], false);
            write_matrix(f, &v, &f->ranges[RANGE_V], true);
        }
    }
    free(values);
    free(t);
    free(m.a);
    free(v.a);
    free(work.a);
    free(u.a);
    return ok;
}

/* -- operations --------------------------------------------------------------------------------- */

/* Checks that the bytes lie in device memory; reads need all of them written. */
static bool range_check(const Factorisation *f, const Range *r, Finding *out)
{
    char text[80];
    snprintf(text, sizeof text, "%s, %s", f->function, r->name);
    Allocation *a = allocation_find((uintptr_t)r->data, r->bytes, text, out);
    if (a == NULL || !allocation_is_aligned((uintptr_t)r->data, r->alignment, text, out))
        return false;
    if (r->is_read && !allocation_is_written(a, (uintptr_t)r->data, r->bytes, text, out))
        return false;
    if (r->is_written)
        shadow_set_written(&a->shadow, (uintptr_t)r->data - a->base, r->bytes, true);
    return true;
}

static bool operation_run(Operation *operation, Finding *out)
{
    const Factorisation *f = (Factorisation *)(void *)operation;
    for (int i = 0; i < RANGES; i++) {
        if (f->ranges[i].bytes != 0 && !range_check(f, &f->ranges[i], out))
            return false;
    }
    uint64_t elements = plan_multiply((uint64_t)f->rows, (uint64_t)f->columns);
    if (!steps_take(elements, f->function, out))
        return false;
    if (!f->compute(f))
        finding_set(out, FINDING_MEMORY, "%s: no memory", f->function);
    return out->kind == FINDING_NONE;
}

/* A complex number is two of its components. */
static uint32_t alignment_of(DType type)
{
    return dtype_info[number_component(type)].storage;
}

static Range written(const char *name, void *data, uint64_t elements, DType type)
{
    return (Range){.name = name,
                   .data = data,
                   .bytes = elements * dtype_info[type].storage,
                   .alignment = alignment_of(type),
                   .is_written = true};
}

/* The matrix, which the result takes the place of. */
static Range matrix_range(void *a, int64_t rows, int64_t columns, DType type)
{
    Range r = written("A", a, (uint64_t)rows * (uint64_t)columns, type);
    r.is_read = true;
    return r;
}

static cusolverStatus_t submit(cusolverDnHandle_t handle, const Factorisation *f,
                               int64_t lda, uint64_t work_bytes)
{
    CUcontext context;
    if (emu_enter(f->function, &context) != CUDA_SUCCESS)
        return SOLVER_EXECUTION_FAILED;
    if (handle == NULL)
        return refuse(f->function, "the handle is NULL");
    if (f->rows < 1 || f->columns < 1 || lda != f->rows)
        return refuse(f->function, "the emulator wants matrices that lie dense");
    if (f->ranges[RANGE_WORK].bytes < work_bytes)
        return refuse(f->function, "the workspace is smaller than _bufferSize says");
    Factorisation *op = malloc(sizeof *op);
    if (op == NULL)
        return SOLVER_ALLOC_FAILED;
    *op = *f;
    op->operation.run = operation_run;
    return queue_submit(context, handle->stream, &op->operation) == CUDA_SUCCESS
               ? SOLVER_SUCCESS
               : SOLVER_EXECUTION_FAILED;
}

/* -- handles -------------------------------------------------------------------------------------- */

cusolverStatus_t cusolverGetVersion(int *version)
{
    *version = emu_config()->cusolver_version;
    return SOLVER_SUCCESS;
}

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *out)
{
    *out = calloc(1, sizeof **out);
    return *out != NULL ? SOLVER_SUCCESS : SOLVER_ALLOC_FAILED;
}

cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle)
{
    free(handle);
    return SOLVER_SUCCESS;
}

cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, CUstream stream)
{
    if (handle == NULL)
        return refuse("cusolverDnSetStream", "the handle is NULL");
    handle->stream = stream;
    return SOLVER_SUCCESS;
}

cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t *out)
{
    *out = calloc(1, sizeof **out);
    return *out != NULL ? SOLVER_SUCCESS : SOLVER_ALLOC_FAILED;
}

cusolverStatus_t cusolverDnDestroyParams(cusolverDnParams_t params)
{
    free(params);
    return SOLVER_SUCCESS;
}

/* -- functions of any type -------------------------------------------------------------------------- */

/* What is asked for: a row of the matrix. */
static uint64_t work_of(int64_t columns, DType type)
{
    return (uint64_t)columns * dtype_info[type].storage;
}

static cusolverStatus_t say_bytes(const char *function, int64_t columns, int type,
                                  size_t *device, size_t *host)
{
    DType t;
    if (!find_type(type, &t) || columns < 1)
        return refuse(function, "a type or a size that there is not");
    *device = work_of(columns, t);
    *host = HOST_BYTES;
    return SOLVER_SUCCESS;
}

/* The operation that they have in common; false: wrong arguments. */
static bool describe(Factorisation *f, int type, int compute, void *a, int64_t rows,
                     int64_t columns, void *device, size_t device_bytes, const void *host,
                     size_t host_bytes, int *info)
{
    if (!find_type(type, &f->type) || compute != type || rows < 1 || columns < 1 ||
        host == NULL || host_bytes < HOST_BYTES) {
        refuse(f->function, "a type, a size or a workspace of the host that is wrong");
        return false;
    }
    f->rows = rows;
    f->columns = columns;
    f->ranges[RANGE_A] = matrix_range(a, rows, columns, f->type);
    f->ranges[RANGE_INFO] = written("info", info, 1, DT_S32);
    f->ranges[RANGE_WORK] = written("workspace", device, device_bytes, DT_U8);
    return true;
}

cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t handle,
                                             cusolverDnParams_t params, int fill,
                                             int64_t n, cudaDataType_t type,
                                             const void *a, int64_t lda,
                                             cudaDataType_t compute, size_t *device_bytes,
                                             size_t *host_bytes)
{
    (void)handle, (void)params, (void)fill, (void)a, (void)lda, (void)compute;
    return say_bytes("cusolverDnXpotrf_bufferSize", n, type, device_bytes, host_bytes);
}

cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                  int fill, int64_t n, cudaDataType_t type, void *a,
                                  int64_t lda, cudaDataType_t compute, void *device,
                                  size_t device_bytes, void *host, size_t host_bytes,
                                  int *info)
{
    (void)params;
    Factorisation f = {.function = "cusolverDnXpotrf",
                       .compute = compute_potrf,
                       .lower = fill == CUBLAS_FILL_MODE_LOWER};
    return describe(&f, type, compute, a, n, n, device, device_bytes, host, host_bytes,
                    info)
               ? submit(handle, &f, lda, work_of(n, f.type))
               : SOLVER_INVALID_VALUE;
}

cusolverStatus_t cusolverDnXgeqrf_bufferSize(
    cusolverDnHandle_t handle, cusolverDnParams_t params, int64_t m, int64_t n,
    cudaDataType_t type, const void *a, int64_t lda, cudaDataType_t tau_type,
    const void *tau, cudaDataType_t compute, size_t *device_bytes, size_t *host_bytes)
{
    (void)handle, (void)params, (void)m, (void)a, (void)lda, (void)tau_type;
    (void)tau, (void)compute;
    return say_bytes("cusolverDnXgeqrf_bufferSize", n, type, device_bytes, host_bytes);
}

cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                  int64_t m, int64_t n, cudaDataType_t type, void *a,
                                  int64_t lda, cudaDataType_t tau_type, void *tau,
                                  cudaDataType_t compute, void *device,
                                  size_t device_bytes, void *host, size_t host_bytes,
                                  int *info)
{
    (void)params;
    Factorisation f = {.function = "cusolverDnXgeqrf", .compute = compute_geqrf};
    if (!describe(&f, type, compute, a, m, n, device, device_bytes, host, host_bytes,
                  info) ||
        tau_type != type)
        return SOLVER_INVALID_VALUE;
    f.ranges[RANGE_VECTOR] = written("tau", tau, (uint64_t)(m < n ? m : n), f.type);
    return submit(handle, &f, lda, work_of(n, f.type));
}

cusolverStatus_t cusolverDnXsyevd_bufferSize(
    cusolverDnHandle_t handle, cusolverDnParams_t params, int mode, int fill, int64_t n,
    cudaDataType_t type, const void *a, int64_t lda, cudaDataType_t w_type, const void *w,
    cudaDataType_t compute, size_t *device_bytes, size_t *host_bytes)
{
    (void)handle, (void)params, (void)mode, (void)fill, (void)a, (void)lda;
    (void)w_type, (void)w, (void)compute;
    return say_bytes("cusolverDnXsyevd_bufferSize", n, type, device_bytes, host_bytes);
}

cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                  int mode, int fill, int64_t n, cudaDataType_t type,
                                  void *a, int64_t lda, cudaDataType_t w_type, void *w,
                                  cudaDataType_t compute, void *device,
                                  size_t device_bytes, void *host, size_t host_bytes,
                                  int *info)
{
    (void)params;
    Factorisation f = {.function = "cusolverDnXsyevd",
                       .compute = compute_syevd,
                       .lower = fill == CUBLAS_FILL_MODE_LOWER};
    DType w_is;
    if (!describe(&f, type, compute, a, n, n, device, device_bytes, host, host_bytes,
                  info))
        return SOLVER_INVALID_VALUE;
    if (mode != CUSOLVER_EIG_MODE_VECTOR || !find_type(w_type, &w_is) ||
        w_is != real_of(&f))
        return refuse(f.function, "eigenvalues of another type, or without vectors");
    f.ranges[RANGE_VECTOR] = written("W", w, (uint64_t)n, real_of(&f));
    return submit(handle, &f, lda, work_of(n, f.type));
}

cusolverStatus_t cusolverDnXgesvd_bufferSize(
    cusolverDnHandle_t handle, cusolverDnParams_t params, signed char u_job,
    signed char v_job, int64_t m, int64_t n, cudaDataType_t type, const void *a,
    int64_t lda, cudaDataType_t s_type, const void *s, cudaDataType_t u_type,
    const void *u, int64_t ldu, cudaDataType_t v_type, const void *v, int64_t ldv,
    cudaDataType_t compute, size_t *device_bytes, size_t *host_bytes)
{
    (void)handle, (void)params, (void)u_job, (void)v_job, (void)a, (void)lda;
    (void)s_type, (void)s, (void)u_type, (void)u, (void)ldu, (void)v_type, (void)v;
    (void)ldv, (void)compute;
    if (m < n)
        return refuse("cusolverDnXgesvd_bufferSize", "fewer rows than columns");
    return say_bytes("cusolverDnXgesvd_bufferSize", n, type, device_bytes, host_bytes);
}

cusolverStatus_t cusolverDnXgesvd(cusolverDnHandle_t handle, cusolverDnParams_t params,
                                  signed char u_job, signed char v_job, int64_t m,
                                  int64_t n, cudaDataType_t type, void *a, int64_t lda,
                                  cudaDataType_t s_type, void *s, cudaDataType_t u_type,
                                  void *u, int64_t ldu, cudaDataType_t v_type, void *v,
                                  int64_t ldv, cudaDataType_t compute, void *device,
                                  size_t device_bytes, void *host, size_t host_bytes,
                                  int *info)
{
    (void)params;
    Factorisation f = {.function = "cusolverDnXgesvd", .compute = compute_gesvd};
    DType s_is;
    if (!describe(&f, type, compute, a, m, n, device, device_bytes, host, host_bytes,
                  info))
        return SOLVER_INVALID_VALUE;
    if (m < n || u_job != v_job || u_type != type || v_type != type || ldu < m ||
        ldv < n || !find_type(s_type, &s_is) || s_is != real_of(&f))
        return refuse(f.function, "fewer rows than columns, or another type");
    f.steps = u_job == 'A' ? m : u_job == 'S' ? n : 0;
    f.ranges[RANGE_VECTOR] = written("S", s, (uint64_t)n, real_of(&f));
    f.ranges[RANGE_U] = written("U", u, (uint64_t)m * (uint64_t)f.steps, f.type);
    f.ranges[RANGE_V] =
        written("V^H", v, f.steps != 0 ? (uint64_t)n * (uint64_t)n : 0, f.type);
    return submit(handle, &f, lda, work_of(n, f.type));
}

/* -- functions of one type -------------------------------------------------------------------------- */

static cusolverStatus_t factor_lu(cusolverDnHandle_t handle, const char *function,
                                  int type, int m, int n, void *a, int lda, void *work,
                                  int *pivots, int *info)
{
    Factorisation f = {
        .function = function, .compute = compute_getrf, .rows = m, .columns = n};
    if (!find_type(type, &f.type) || m < 1 || n < 1)
        return refuse(function, "a size that there is not");
    f.ranges[RANGE_A] = matrix_range(a, m, n, f.type);
    f.ranges[RANGE_VECTOR] =
        written("devIpiv", pivots, (uint64_t)(m < n ? m : n), DT_S32);
    f.ranges[RANGE_INFO] = written("devInfo", info, 1, DT_S32);
    f.ranges[RANGE_WORK] = written("Workspace", work, (uint64_t)n, f.type);
    return submit(handle, &f, lda, work_of(n, f.type));
}

static cusolverStatus_t make_q(cusolverDnHandle_t handle, const char *function, int type,
                               int m, int n, int k, void *a, int lda, const void *tau,
                               void *work, int elements, int *info)
{
    Factorisation f = {.function = function,
                       .compute = compute_orgqr,
                       .rows = m,
                       .columns = n,
                       .steps = k};
    if (!find_type(type, &f.type) || n < 1 || m < n || k < 1 || k > n || elements < 1)
        return refuse(function, "a size that there is not");
    f.ranges[RANGE_A] = matrix_range(a, m, n, f.type);
    f.ranges[RANGE_VECTOR] = (Range){.name = "tau",
                                     .data = (unsigned char *)(uintptr_t)tau,
                                     .bytes = (uint64_t)k * dtype_info[f.type].storage,
                                     .alignment = alignment_of(f.type),
                                     .is_read = true};
    f.ranges[RANGE_INFO] = written("info", info, 1, DT_S32);
    f.ranges[RANGE_WORK] = written("work", work, (uint64_t)elements, f.type);
    return submit(handle, &f, lda, work_of(n, f.type));
}

#define TYPED(letter, type, q)                                                           \
    cusolverStatus_t cusolverDn##letter##getrf_bufferSize(                               \
        cusolverDnHandle_t handle, int m, int n, void *a, int lda, int *elements)        \
    {                                                                                    \
        (void)handle, (void)m, (void)a, (void)lda;                                       \
        *elements = n;                                                                   \
        return SOLVER_SUCCESS;                                                           \
    }                                                                                    \
    cusolverStatus_t cusolverDn##letter##getrf(cusolverDnHandle_t handle, int m, int n,  \
                                               void *a, int lda, void *work,             \
                                               int *pivots, int *info)                   \
    {                                                                                    \
        return factor_lu(handle, "cusolverDn" #letter "getrf", type, m, n, a, lda, work, \
                         pivots, info);                                                  \
    }                                                                                    \
    cusolverStatus_t cusolverDn##letter##q##_bufferSize(                                 \
        cusolverDnHandle_t handle, int m, int n, int k, const void *a, int lda,          \
        const void *tau, int *elements)                                                  \
    {                                                                                    \
        (void)handle, (void)m, (void)k, (void)a, (void)lda, (void)tau;                   \
        *elements = n;                                                                   \
        return SOLVER_SUCCESS;                                                           \
    }                                                                                    \
    cusolverStatus_t cusolverDn##letter##q(cusolverDnHandle_t handle, int m, int n,      \
                                           int k, void *a, int lda, const void *tau,     \
                                           void *work, int elements, int *info)          \
    {                                                                                    \
        return make_q(handle, "cusolverDn" #letter #q, type, m, n, k, a, lda, tau, work, \
                      elements, info);                                                   \
    }
TYPED(S, CUSOLVER_R_32F, orgqr)
TYPED(D, CUSOLVER_R_64F, orgqr)
TYPED(C, CUSOLVER_C_32F, ungqr)
TYPED(Z, CUSOLVER_C_64F, ungqr)
#undef TYPED
