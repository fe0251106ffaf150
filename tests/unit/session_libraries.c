/* What a session opens of NVIDIA's libraries: those that its program calls. Where nothing can be opened, a program that calls
 * none runs, and another one says which it needs and how to get it. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/fake_driver.h"
#include "tests/unit/shared/program.h"

static int opened; /* so many libraries were asked for */

/* In place of the C library's: there is none. */
void *dlopen(const char *name, int flags)
{
    (void)name, (void)flags;
    opened++;
    return NULL;
}

static void test_none_needed(void **state)
{
    (void)state;
    Program p = loop_program();
    opened = 0;
    gxrt_session *s = open_session(&p);
    int32_t in[12] = {0}, out[12];
    const size_t twelve = 12;
    assert_int_equal(run_program(s, 1, (int32_t *[]){in}, &twelve, 1, (int32_t *[]){out},
                                 &twelve, NULL),
                     GXRT_OK);
    assert_string_equal(fake_log, "add add add ");
    gxrt_session_destroy(s);
    close_program(&p);
    assert_int_equal(opened, 0);
}

static void add_product(PlanBuilder *b)
{
    const PlanMatmul product = square_product(16);
    plan_add_matmuls(b, &product, 1);
}

static void add_graph(PlanBuilder *b)
{
    const PlanGraphTensor t = {.type = CUDNN_DATA_FLOAT,
                               .rank = 3,
                               .alignment = 16,
                               .dims = {1, 8, 8},
                               .strides = {64, 8, 1}};
    PlanGraphOperation op = {.kind = PLAN_GRAPH_MATMUL};
    memset(op.tensors, 0xff, sizeof op.tensors);
    for (uint32_t i = 0; i < 3; i++) {
        plan_add_graph_tensors(b, &t, 1);
        op.tensors[i] = i;
    }
    plan_add_graph_operations(b, &op, 1);
    const PlanGraph g = {
        .name = plan_string(b, "c"), .tensor_count = 3, .operation_count = 1};
    plan_add_graphs(b, &g, 1);
}

static void add_factorisation(PlanBuilder *b)
{
    const PlanSolver cholesky = {.kind = PLAN_SOLVER_POTRF,
                                 .type = CUSOLVER_R_32F,
                                 .batch = 1,
                                 .rows = 2,
                                 .columns = 2};
    plan_add_solvers(b, &cholesky, 1);
}

static void test_needed(void **state)
{
    static const struct {
        void (*add)(PlanBuilder *b);
        const char *begin, *advice;
    } rows[] = {
        {add_product, "the program calls cuBLASLt: libcublasLt.so.13 was not found",
         "install CUDA's toolkit, or the wheel nvidia-cublas and put its folder into "
         "LD_LIBRARY_PATH, or compile with --libraries=none"},
        {add_graph, "the program calls cuDNN: libcudnn.so.9 was not found",
         "install cuDNN 9.10 or newer"},
        {add_factorisation, "the program calls cuSOLVER: libcusolver.so.12 was not found",
         "install CUDA's toolkit"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Maker m;
        gxrt_session *s;
        maker_init(&m);
        rows[i].add(&m.b);
        Program p = open_program(&m, "", 0);
        opened = 0;
        assert_int_equal(session_create(p.program, NULL, &fake_api, NULL, NULL, &s),
                         GXRT_MISSING_LIBRARY);
        assert_null(s);
        assert_non_null(strstr(gxrt_last_error(), rows[i].begin));
        assert_non_null(strstr(gxrt_last_error(), rows[i].advice));
        assert_true(opened > 0);
        close_program(&p);
    }
}

static size_t old_version(void)
{
    return 110000;
}

static void test_too_old(void **state)
{
    static const CublasltApi lt = {.version = old_version};
    Maker m;
    gxrt_session *s;
    (void)state;
    maker_init(&m);
    add_product(&m.b);
    m.b.info[0].min_cublaslt = 120000;
    Program p = open_program(&m, "", 0);
    assert_int_equal(session_create(p.program, NULL, &fake_api, &lt, NULL, &s),
                     GXRT_MISSING_LIBRARY);
    assert_non_null(strstr(gxrt_last_error(),
                           "the program needs cuBLASLt 120000 or newer, this one is "
                           "110000: install a newer one"));
    close_program(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_none_needed),
                                       cmocka_unit_test(test_needed),
                                       cmocka_unit_test(test_too_old)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
