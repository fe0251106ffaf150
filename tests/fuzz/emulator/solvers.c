/* Factorisations by cuSOLVER. */
#include "tests/fuzz/emulator/told.h"

#define CUSOLVER_FUNCTION(name, symbol, parameters) cusolverStatus_t symbol parameters;
#include "runtime/library/cusolver.def"

enum { HOST = 64, MOST = 6 };

/* Where the parts of a call lie. */
typedef struct Buffers {
    cusolverDnHandle_t handle;
    cusolverDnParams_t params;
    void *a, *vector, *u, *v, *work;
    int *info;
    int64_t m, n, lda;
    int type, real;
} Buffers;

static size_t smaller(size_t asked, int64_t wanted)
{
    return (uint64_t)wanted < asked ? (size_t)wanted : asked;
}

static void factor_square(const Buffers *p, bool wants_values)
{
    static char host[HOST];
    size_t device = 0, bytes = 0;
    int fill = told_choice(2) ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER;
    if (wants_values) {
        DONE(cusolverDnXsyevd_bufferSize(p->handle, p->params, CUSOLVER_EIG_MODE_VECTOR,
                                         fill, told(p->n), (int)told(p->type), p->a, p->n,
                                         p->real, p->vector, p->type, &device, &bytes));
        DONE(cusolverDnXsyevd(p->handle, p->params, (int)told(CUSOLVER_EIG_MODE_VECTOR),
                              fill, told(p->n), p->type, p->a, told(p->n),
                              (int)told(p->real), p->vector, (int)told(p->type), p->work,
                              (size_t)told((int64_t)device), told(1) ? host : NULL,
                              smaller(bytes, told(HOST)), p->info));
        return;
    }
    DONE(cusolverDnXpotrf_bufferSize(p->handle, p->params, fill, told(p->n),
                                     (int)told(p->type), p->a, p->n, p->type, &device,
                                     &bytes));
    DONE(cusolverDnXpotrf(told(1) ? p->handle : NULL, p->params, fill, told(p->n),
                          (int)told(p->type), p->a, told(p->n), p->type, p->work,
                          (size_t)told((int64_t)device), host, smaller(bytes, told(HOST)),
                          p->info));
}

static void factor_qr(const Buffers *p)
{
    static char host[HOST];
    size_t device = 0, bytes = 0;
    DONE(cusolverDnXgeqrf_bufferSize(p->handle, p->params, p->m, told(p->n),
                                     (int)told(p->type), p->a, p->lda, p->type, p->vector,
                                     p->type, &device, &bytes));
    DONE(cusolverDnXgeqrf(p->handle, p->params, told(p->m), told(p->n), p->type, p->a,
                          told(p->lda), (int)told(p->type), p->vector, p->type, p->work,
                          (size_t)told((int64_t)device), host, smaller(bytes, told(HOST)),
                          p->info));
}

static void factor_singular(const Buffers *p)
{
    static char host[HOST];
    static const signed char jobs[] = {'A', 'S', 'N'};
    signed char job = jobs[told_choice(3)];
    size_t device = 0, bytes = 0;
    DONE(cusolverDnXgesvd_bufferSize(p->handle, p->params, job, job, told(p->m),
                                     told(p->n), (int)told(p->type), p->a, p->lda,
                                     p->real, p->vector, p->type, p->u, p->m, p->type,
                                     p->v, p->n, p->type, &device, &bytes));
    DONE(cusolverDnXgesvd(p->handle, p->params, job, (signed char)told(job), told(p->m),
                          told(p->n), p->type, p->a, told(p->lda), (int)told(p->real),
                          p->vector, (int)told(p->type), p->u, told(p->m), p->type, p->v,
                          told(p->n), p->type, p->work, (size_t)told((int64_t)device),
                          host, smaller(bytes, told(HOST)), p->info));
}

/* Functions that have a name for each type. */
static void factor_typed(const Buffers *p, bool is_q)
{
    int m = (int)told(p->m), n = (int)told(p->n), lda = (int)told(p->lda), elements = 0;
    int k = (int)told(p->n);
#define TYPED(type_, letter, q)                                                          \
    if (p->type == type_ && is_q) {                                                      \
        DONE(cusolverDn##letter##q##_bufferSize(p->handle, m, n, k, p->a, lda,           \
                                                p->vector, &elements));                  \
        elements = (int)told(elements);                                                  \
        DONE(cusolverDn##letter##q(p->handle, m, n, k, p->a, lda, p->vector, p->work,    \
                                   elements, p->info));                                  \
    } else if (p->type == type_) {                                                       \
        DONE(cusolverDn##letter##getrf_bufferSize(p->handle, m, n, p->a, lda,            \
                                                  &elements));                           \
        DONE(cusolverDn##letter##getrf(p->handle, m, n, p->a, lda, p->work, p->vector,   \
                                       p->info));                                        \
    }
    TYPED(CUSOLVER_R_32F, S, orgqr)
    TYPED(CUSOLVER_R_64F, D, orgqr)
    TYPED(CUSOLVER_C_32F, C, ungqr)
    TYPED(CUSOLVER_C_64F, Z, ungqr)
#undef TYPED
}

/* All pieces lie apart, however large their elements are. */
static void *piece(const Told *t, unsigned i)
{
    return told_pointer((void *)(uintptr_t)(t->memory + i * (TOLD_MEMORY / 8)));
}

void tell_solvers(const Told *t)
{
    static const int types[][2] = {{CUSOLVER_R_32F, CUSOLVER_R_32F},
                                   {CUSOLVER_R_64F, CUSOLVER_R_64F},
                                   {CUSOLVER_C_32F, CUSOLVER_R_32F},
                                   {CUSOLVER_C_64F, CUSOLVER_R_64F}};
    const int *type = types[told_choice(4)];
    int version = 0;
    Buffers p = {.n = 1 + told_choice(MOST), .type = type[0], .real = type[1]};
    unsigned which = told_choice(6);
    p.m = p.lda = which < 2 ? p.n : p.n + told_choice(3);
    p.a = piece(t, 0), p.vector = piece(t, 1), p.u = piece(t, 2), p.v = piece(t, 3);
    p.work = piece(t, 4), p.info = piece(t, 5);
    DONE(cusolverGetVersion(&version));
    if (!DONE(cusolverDnCreate(&p.handle)))
        return;
    DONE(cusolverDnCreateParams(&p.params));
    DONE(cusolverDnSetStream(told(1) ? p.handle : NULL, t->stream));
    if (which < 2)
        factor_square(&p, which == 1);
    else if (which == 2)
        factor_qr(&p);
    else if (which == 3)
        factor_singular(&p);
    else
        factor_typed(&p, which == 4);
    DONE(cuStreamSynchronize(t->stream));
    cusolverDnDestroyParams(p.params);
    cusolverDnDestroy(p.handle);
}
