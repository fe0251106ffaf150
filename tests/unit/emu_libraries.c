/* What the emulated cuBLASLt, cuSOLVER and NCCL refuse: the status, and the reason in words. A library of NVIDIA
 * gives a status for the same mistakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/emulator.h"

#define CUBLASLT_FUNCTION(name, symbol, parameters) cublasStatus_t symbol parameters;
#define CUBLASLT_VERSION_FUNCTION(name, symbol, parameters) size_t symbol parameters;
#include "runtime/library/cublaslt.def"
#define CUSOLVER_FUNCTION(name, symbol, parameters) cusolverStatus_t symbol parameters;
#include "runtime/library/cusolver.def"
#define NCCL_FUNCTION(name, symbol, parameters) ncclResult_t symbol parameters;
#define NCCL_TEXT_FUNCTION(name, symbol, parameters) const char *symbol parameters;
#include "runtime/library/nccl.def"

enum { LT_INVALID = 7, LT_NOT_SUPPORTED = 15, SOLVER_INVALID = 3 };
enum { NCCL_INVALID = 4, NCCL_USAGE = 5, SIZE = 16 };

static CUcontext context;
static CUdeviceptr memory; /* 4096 bytes */

static int setup(void **state)
{
    (void)state;
    ok(cuInit(0));
    ok(cuDevicePrimaryCtxRetain(&context, 0));
    ok(cuCtxPushCurrent_v2(context));
    ok(cuMemAlloc_v2(&memory, 4096));
    ok(cuMemsetD8Async(memory, 0, 4096, NULL));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ok(cuMemFree_v2(memory));
    ok(cuCtxPopCurrent_v2(NULL));
    ok(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}

#define REFUSED(call, status, words) refused(__LINE__, call, status, words)
static void refused(int line, int got, int wanted, const char *words)
{
    if (got != wanted)
        fail_msg("line %d: status %d, not %d: %s", line, got, wanted, emulator_said());
    if (strstr(emulator_said(), words) == NULL)
        fail_msg("line %d: '%s' does not say '%s'", line, emulator_said(), words);
}

static void *at(size_t byte)
{
    return (void *)(uintptr_t)(memory + byte);
}

/* --- cuBLASLt ------------------------------------------------------------------------------ */

typedef struct Product {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, d;
} Product;

static Product product_make(void)
{
    Product p;
    assert_int_equal(cublasLtCreate(&p.handle), 0);
    assert_int_equal(cublasLtMatmulDescCreate(&p.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                     0);
    assert_int_equal(cublasLtMatrixLayoutCreate(&p.a, CUDA_R_32F, 4, 4, 4), 0);
    assert_int_equal(cublasLtMatrixLayoutCreate(&p.b, CUDA_R_32F, 4, 4, 4), 0);
    assert_int_equal(cublasLtMatrixLayoutCreate(&p.d, CUDA_R_32F, 4, 4, 4), 0);
    return p;
}

static void product_free(Product *p)
{
    cublasLtMatrixLayoutDestroy(p->a);
    cublasLtMatrixLayoutDestroy(p->b);
    cublasLtMatrixLayoutDestroy(p->d);
    cublasLtMatmulDescDestroy(p->desc);
    cublasLtDestroy(p->handle);
}

static int multiply(const Product *p)
{
    static const float alpha = 1, beta = 0;
    return cublasLtMatmul(p->handle, p->desc, &alpha, at(0), p->a, at(256), p->b, &beta,
                          at(512), p->d, at(512), p->d, NULL, NULL, 0, NULL);
}

/* With one attribute of the description as it is not allowed to be. */
static void refused_with(int attribute, int32_t value, int status, const char *words)
{
    Product p = product_make();
    assert_int_equal(cublasLtMatmulDescSetAttribute(p.desc, attribute, &value, 4), 0);
    REFUSED(multiply(&p), status, words);
    product_free(&p);
}

static void test_product(void **state)
{
    (void)state;
    Product p = product_make(), none = p;
    assert_int_equal(multiply(&p), 0);
    none.desc = NULL;
    REFUSED(multiply(&none), LT_INVALID, "a descriptor is NULL");
    none = p;
    none.handle = NULL;
    REFUSED(multiply(&none), LT_INVALID, "an argument is NULL");
    cublasLtMatrixLayout_t wide, complex, tight;
    assert_int_equal(cublasLtMatrixLayoutCreate(&wide, CUDA_R_32F, 4, 5, 4), 0);
    assert_int_equal(cublasLtMatrixLayoutCreate(&complex, 4 /* CUDA_C_32F */, 4, 4, 4),
                     0);
    assert_int_equal(cublasLtMatrixLayoutCreate(&tight, CUDA_R_32F, 4, 4, 3), 0);
    none = p;
    none.a = wide;
    REFUSED(multiply(&none), LT_INVALID, "do not fit each other");
    none.a = complex;
    REFUSED(multiply(&none), LT_NOT_SUPPORTED, "cannot do a matrix like this");
    none.a = tight;
    REFUSED(multiply(&none), LT_NOT_SUPPORTED, "cannot do a matrix like this");
    cublasLtMatrixLayoutDestroy(wide);
    cublasLtMatrixLayoutDestroy(complex);
    cublasLtMatrixLayoutDestroy(tight);
    product_free(&p);
    refused_with(CUBLASLT_MATMUL_DESC_POINTER_MODE, 3, LT_NOT_SUPPORTED,
                 "no vectors of alphas");
    refused_with(CUBLASLT_MATMUL_DESC_EPILOGUE, 152 /* DRELU_BGRAD */, LT_NOT_SUPPORTED,
                 "does not have this epilogue");
    refused_with(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB, LT_INVALID,
                 "the epilogue's pointer is NULL");
    refused_with(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, LT_INVALID,
                 "the epilogue's pointer is NULL");
    refused_with(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 99, LT_NOT_SUPPORTED,
                 "this type of bias");
    refused_with(CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
                 CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0, LT_NOT_SUPPORTED,
                 "scales A and B only");
    refused_with(CUBLASLT_MATMUL_DESC_D_SCALE_MODE, 1, LT_NOT_SUPPORTED,
                 "scales A and B only");
    refused_with(CUBLASLT_MATMUL_DESC_TRANSA, 7, LT_NOT_SUPPORTED,
                 "cannot do a matrix like this");
}

static void test_attributes(void **state)
{
    (void)state;
    Product p = product_make();
    int32_t value = 0;
    REFUSED(cublasLtMatmulDescSetAttribute(NULL, CUBLASLT_MATMUL_DESC_TRANSA, &value, 4),
            LT_INVALID, "an argument is NULL");
    REFUSED(cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, NULL, 4),
            LT_INVALID, "an argument is NULL");
    REFUSED(
        cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_TRANSA, &value, 8),
        LT_INVALID, "the wrong size");
    REFUSED(cublasLtMatrixLayoutSetAttribute(p.a, 77, &value, 4), LT_NOT_SUPPORTED,
            "does not know this attribute");
    product_free(&p);
}

static void test_algorithms(void **state)
{
    (void)state;
    Product p = product_make();
    cublasLtMatmulHeuristicResult_t found[4];
    int count = -1;
    REFUSED(cublasLtMatmulAlgoGetHeuristic(p.handle, p.desc, p.a, p.b, p.d, p.d, NULL, 0,
                                           found, &count),
            LT_INVALID, "an argument is NULL");
    REFUSED(cublasLtMatmulAlgoGetHeuristic(p.handle, NULL, p.a, p.b, p.d, p.d, NULL, 4,
                                           found, &count),
            LT_INVALID, "a descriptor is NULL");
    assert_int_equal(count, 0);
    assert_int_equal(cublasLtMatmulAlgoGetHeuristic(p.handle, p.desc, p.a, p.b, p.d, p.d,
                                                    NULL, 4, found, &count),
                     0);
    assert_true(count >= 1);
    cublasLtMatmulAlgo_t algorithm = found[0].algo, unknown = {.data = {1000}};
    assert_int_equal(cublasLtMatmulAlgoCheck(p.handle, p.desc, p.a, p.b, p.d, p.d,
                                             &algorithm, &found[1]),
                     0);
    REFUSED(cublasLtMatmulAlgoCheck(p.handle, p.desc, p.a, p.b, p.d, p.d, &unknown,
                                    &found[1]),
            LT_INVALID, "no such algorithm");
    REFUSED(
        cublasLtMatmulAlgoCheck(p.handle, p.desc, p.a, p.b, p.d, p.d, NULL, &found[1]),
        LT_INVALID, "an argument is NULL");
    product_free(&p);
}

/* --- cuSOLVER ------------------------------------------------------------------------------ */

static cusolverDnHandle_t solver;
static char host[64];

static int potrf(cusolverDnHandle_t handle, int64_t n, int type, int64_t lda,
                 size_t device_bytes, size_t host_bytes)
{
    return cusolverDnXpotrf(handle, NULL, 0, n, type, at(0), lda, CUDA_R_32F, at(1024),
                            device_bytes, host, host_bytes, at(2048));
}

static int gesvd(int64_t m, int64_t n, int s_type)
{
    return cusolverDnXgesvd(solver, NULL, 'A', 'A', m, n, CUDA_R_32F, at(0), m, s_type,
                            at(512), CUDA_R_32F, at(768), m, CUDA_R_32F, at(1024), n,
                            CUDA_R_32F, at(1536), 256, host, sizeof host, at(2048));
}

static void test_solver(void **state)
{
    (void)state;
    size_t device = 0, on_host = 0;
    assert_int_equal(cusolverDnCreate(&solver), 0);
    REFUSED(cusolverDnSetStream(NULL, NULL), SOLVER_INVALID, "the handle is NULL");
    REFUSED(potrf(NULL, 4, CUDA_R_32F, 4, 256, 64), SOLVER_INVALID, "the handle is NULL");
    REFUSED(potrf(solver, 4, CUDA_R_32F, 5, 256, 64), SOLVER_INVALID, "lie dense");
    REFUSED(potrf(solver, 4, CUDA_R_32F, 4, 8, 64), SOLVER_INVALID,
            "the workspace is smaller");
    REFUSED(potrf(solver, 4, CUDA_R_32F, 4, 256, 8), SOLVER_INVALID,
            "a workspace of the host");
    REFUSED(potrf(solver, 0, CUDA_R_32F, 4, 256, 64), SOLVER_INVALID, "a size");
    REFUSED(potrf(solver, 4, CUDA_R_16F, 4, 256, 64), SOLVER_INVALID, "a type");
    REFUSED(cusolverDnXpotrf_bufferSize(solver, NULL, 0, 4, CUDA_R_16F, at(0), 4,
                                        CUDA_R_16F, &device, &on_host),
            SOLVER_INVALID, "a type or a size that there is not");
    REFUSED(cusolverDnXgeqrf_bufferSize(solver, NULL, 4, 0, CUDA_R_32F, at(0), 4,
                                        CUDA_R_32F, at(0), CUDA_R_32F, &device, &on_host),
            SOLVER_INVALID, "a type or a size that there is not");
    REFUSED(cusolverDnXsyevd(solver, NULL, 0 /* values only */, 0, 4, CUDA_R_32F, at(0),
                             4, CUDA_R_32F, at(512), CUDA_R_32F, at(1024), 256, host,
                             sizeof host, at(2048)),
            SOLVER_INVALID, "without vectors");
    REFUSED(cusolverDnXgesvd_bufferSize(solver, NULL, 'A', 'A', 3, 4, CUDA_R_32F, at(0),
                                        3, CUDA_R_32F, at(0), CUDA_R_32F, at(0), 3,
                                        CUDA_R_32F, at(0), 4, CUDA_R_32F, &device,
                                        &on_host),
            SOLVER_INVALID, "fewer rows than columns");
    REFUSED(gesvd(3, 4, CUDA_R_32F), SOLVER_INVALID, "fewer rows than columns");
    REFUSED(gesvd(4, 3, CUDA_R_64F), SOLVER_INVALID, "or another type");
    REFUSED(cusolverDnSgetrf(solver, 0, 4, at(0), 4, at(1024), at(1536), at(2048)),
            SOLVER_INVALID, "a size that there is not");
    REFUSED(cusolverDnSorgqr(solver, 4, 4, 5, at(0), 4, at(512), at(1024), 4, at(2048)),
            SOLVER_INVALID, "a size that there is not");
    assert_int_equal(cusolverDnDestroy(solver), 0);
}

/* A row of each type swaps with the other: 0 2 / 4 1 is 1 0 / 0 1 times 4 1 / 0 2. */
static void test_solver_types(void **state)
{
    (void)state;
    static const float s[] = {0, 4, 2, 1};
    static const double d[] = {0, 4, 2, 1};
    static const double z[] = {0, 0, 4, 0, 2, 0, 1, 0};
    float s_out[4];
    double d_out[4], z_out[8];
    int pivots[2], elements[4] = {0};
    assert_int_equal(cusolverDnCreate(&solver), 0);
    assert_int_equal(cusolverDnSgetrf_bufferSize(solver, 2, 2, at(0), 2, &elements[0]),
                     0);
    assert_int_equal(cusolverDnDgetrf_bufferSize(solver, 2, 2, at(0), 2, &elements[1]),
                     0);
    assert_int_equal(cusolverDnZgetrf_bufferSize(solver, 2, 2, at(0), 2, &elements[2]),
                     0);
    assert_true(elements[0] == 2 && elements[1] == 2 && elements[2] == 2);
    ok(cuMemcpyHtoDAsync_v2(memory, s, sizeof s, NULL));
    ok(cuMemcpyHtoDAsync_v2(memory + 256, d, sizeof d, NULL));
    ok(cuMemcpyHtoDAsync_v2(memory + 512, z, sizeof z, NULL));
    assert_int_equal(
        cusolverDnSgetrf(solver, 2, 2, at(0), 2, at(1024), at(1536), at(2048)), 0);
    assert_int_equal(
        cusolverDnDgetrf(solver, 2, 2, at(256), 2, at(1024), at(1544), at(2048)), 0);
    assert_int_equal(
        cusolverDnZgetrf(solver, 2, 2, at(512), 2, at(1024), at(1552), at(2048)), 0);
    ok(cuMemcpyDtoHAsync_v2(s_out, memory, sizeof s_out, NULL));
    ok(cuMemcpyDtoHAsync_v2(d_out, memory + 256, sizeof d_out, NULL));
    ok(cuMemcpyDtoHAsync_v2(z_out, memory + 512, sizeof z_out, NULL));
    ok(cuMemcpyDtoHAsync_v2(pivots, memory + 1552, sizeof pivots, NULL));
    ok(cuCtxSynchronize());
    int at_least[2] = {0};
    assert_int_equal(
        cusolverDnCungqr_bufferSize(solver, 2, 2, 1, at(512), 2, at(1024), &at_least[0]),
        0);
    assert_int_equal(
        cusolverDnZungqr_bufferSize(solver, 2, 2, 1, at(512), 2, at(1024), &at_least[1]),
        0);
    assert_true(at_least[0] > 0 && at_least[1] > 0);
    static const double wanted[] = {4, 0, 1, 2};
    for (int i = 0; i < 4; i++) {
        assert_true((double)s_out[i] == wanted[i] && d_out[i] == wanted[i]);
        assert_true(z_out[2 * i] == wanted[i] && z_out[2 * i + 1] == 0);
    }
    assert_true(pivots[0] == 2 && pivots[1] == 2);
    assert_int_equal(cusolverDnDestroy(solver), 0);
}

/* A reflector of v = (1, 1) and tau = 1 swaps the two rows with other signs. */
static void test_solver_complex(void **state)
{
    (void)state;
    static const float c[] = {0, 0, 1, 0, 0, 0, 0, 0}, c_tau[] = {1, 0};
    static const double z[] = {0, 0, 1, 0, 0, 0, 0, 0}, z_tau[] = {1, 0};
    static const double wanted[] = {0, 0, -1, 0, -1, 0, 0, 0};
    float c_out[8];
    double z_out[8];
    assert_int_equal(cusolverDnCreate(&solver), 0);
    ok(cuMemcpyHtoDAsync_v2(memory, c, sizeof c, NULL));
    ok(cuMemcpyHtoDAsync_v2(memory + 256, z, sizeof z, NULL));
    ok(cuMemcpyHtoDAsync_v2(memory + 512, c_tau, sizeof c_tau, NULL));
    ok(cuMemcpyHtoDAsync_v2(memory + 768, z_tau, sizeof z_tau, NULL));
    assert_int_equal(
        cusolverDnCungqr(solver, 2, 2, 1, at(0), 2, at(512), at(1024), 64, at(2048)), 0);
    assert_int_equal(
        cusolverDnZungqr(solver, 2, 2, 1, at(256), 2, at(768), at(1024), 64, at(2048)),
        0);
    ok(cuMemcpyDtoHAsync_v2(c_out, memory, sizeof c_out, NULL));
    ok(cuMemcpyDtoHAsync_v2(z_out, memory + 256, sizeof z_out, NULL));
    ok(cuCtxSynchronize());
    for (int i = 0; i < 8; i++)
        assert_true((double)c_out[i] == wanted[i] && z_out[i] == wanted[i]);
    assert_int_equal(cusolverDnDestroy(solver), 0);
}

/* --- NCCL ---------------------------------------------------------------------------------- */

static void test_nccl(void **state)
{
    (void)state;
    ncclUniqueId id, wild = {.internal = "/etc/passwd"};
    ncclComm_t comm = NULL, other = NULL;
    void *handle = NULL;
    REFUSED(ncclGetUniqueId(NULL), NCCL_INVALID, "NULL");
    assert_int_equal(ncclGetUniqueId(&id), 0);
    REFUSED(ncclCommInitRankConfig(&comm, 1, wild, 0, NULL), NCCL_INVALID,
            "an id that is not the emulator's");
    REFUSED(ncclCommInitRankConfig(&comm, 0, id, 0, NULL), NCCL_INVALID, "a bad rank");
    assert_int_equal(ncclCommInitRankConfig(&comm, 1, id, 0, NULL), 0);
    REFUSED(ncclCommSplit(comm, -2, 0, &other, NULL), NCCL_INVALID, "a colour below -1");
    REFUSED(ncclGroupEnd(), NCCL_USAGE, "without ncclGroupStart");
    REFUSED(ncclAllReduce(at(0), at(512), SIZE, ncclFloat32, ncclSum, NULL, NULL),
            NCCL_INVALID, "the communicator is NULL");
    REFUSED(ncclAllReduce(at(0), at(512), SIZE, 99, ncclSum, comm, NULL), NCCL_INVALID,
            "a type, reduction, root, peer or count is wrong");
    REFUSED(ncclAllReduce(at(0), at(512), SIZE_MAX / 2, ncclFloat32, ncclSum, comm, NULL),
            NCCL_INVALID, "or count is wrong");
    REFUSED(ncclBroadcast(at(0), at(512), SIZE, ncclFloat32, 1, comm, NULL), NCCL_INVALID,
            "root, peer or count is wrong");
    REFUSED(ncclAllGather(at(4096), at(512), SIZE, ncclFloat32, comm, NULL), NCCL_INVALID,
            "send buffer of a collective");
    REFUSED(ncclAllGather(at(0), at(4080), SIZE, ncclFloat32, comm, NULL), NCCL_INVALID,
            "receive buffer of a collective");
    REFUSED(ncclCommRegister(NULL, at(0), SIZE, &handle), NCCL_INVALID,
            "ncclCommRegister: NULL");
    REFUSED(ncclCommRegister(comm, at(4096), SIZE, &handle), NCCL_INVALID,
            "a registered buffer");
    assert_int_equal(
        ncclAllReduce(at(0), at(512), SIZE, ncclFloat32, ncclSum, comm, NULL), 0);
    ok(cuCtxSynchronize());
    assert_int_equal(ncclCommDestroy(comm), 0);
}

/* A group of which a call fails does not wait for it. */
static void test_nccl_failing_group(void **state)
{
    (void)state;
    ncclUniqueId id;
    ncclComm_t comms[2], parts[2] = {NULL, NULL};
    assert_int_equal(ncclGetUniqueId(&id), 0);
    assert_int_equal(ncclGroupStart(), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ncclCommInitRankConfig(&comms[i], 2, id, i, NULL), 0);
    assert_int_equal(ncclGroupEnd(), 0);
    assert_int_equal(ncclGroupStart(), 0);
    ok(gxemuFailCall(2));
    assert_int_equal(ncclCommSplit(comms[0], 0, 0, &parts[0], NULL), 0);
    assert_int_not_equal(ncclCommSplit(comms[1], 0, 1, &parts[1], NULL), 0);
    assert_int_not_equal(ncclGroupEnd(), 0);
    assert_int_equal(ncclGetUniqueId(&id), 0);
    assert_int_equal(ncclGroupStart(), 0);
    ok(gxemuFailCall(2));
    assert_int_equal(ncclCommInitRankConfig(&parts[0], 2, id, 0, NULL), 0);
    assert_int_not_equal(ncclCommInitRankConfig(&parts[1], 2, id, 1, NULL), 0);
    assert_int_not_equal(ncclGroupEnd(), 0);
    assert_int_equal(ncclCommAbort(parts[0]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ncclCommAbort(comms[i]), 0);
}

/* Of a communicator that waits for a rank no part can be made: it might wait for ever. */
static void test_nccl_unready(void **state)
{
    (void)state;
    ncclUniqueId id;
    ncclComm_t comm = NULL, part = NULL;
    ncclConfig_t config = {.size = sizeof config, .blocking = 0};
    assert_int_equal(ncclGetUniqueId(&id), 0);
    ncclCommInitRankConfig(&comm, 2, id, 0, &config);
    assert_non_null(comm);
    REFUSED(ncclCommSplit(comm, 0, 0, &part, NULL), NCCL_INVALID,
            "not all of its ranks have come");
    assert_int_equal(ncclCommAbort(comm), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product),      cmocka_unit_test(test_attributes),
        cmocka_unit_test(test_algorithms),   cmocka_unit_test(test_solver),
        cmocka_unit_test(test_solver_types), cmocka_unit_test(test_solver_complex),
        cmocka_unit_test(test_nccl),         cmocka_unit_test(test_nccl_failing_group),
        cmocka_unit_test(test_nccl_unready),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
