/* Matrix products of a plan: sizes that agree, matrices that lie in their slices, kinds that are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/limits.h"
#include "tests/unit/shared/program.h"

enum { TEMP_BYTES = 1024 };

/* d [2, 4] = a [2, 3] b [3, 4] + c, each in a slice of its size; where they begin. */
static uint32_t factors[PLAN_MATMUL_ARGS];

static void make_product(PlanBuilder *out)
{
    static const struct {
        int arg;
        uint64_t rows, columns;
    } sides[] = {{PLAN_MATMUL_A, 2, 3},
                 {PLAN_MATMUL_B, 3, 4},
                 {PLAN_MATMUL_C, 2, 4},
                 {PLAN_MATMUL_D, 2, 4}};
    Maker m;
    maker_init(&m);
    PlanMatmul product = square_product(2);
    PlanMatrix *matrices[] = {&product.a, &product.b, &product.c, &product.d};
    PlanArg args[PLAN_MATMUL_ARGS] = {{0}};
    uint32_t temp = maker_allocation(&m, PLAN_TEMP, 0, TEMP_BYTES);
    for (uint32_t i = 0; i < 4; i++) {
        *matrices[i] = (PlanMatrix){.type = CUDA_R_32F,
                                    .rows = sides[i].rows,
                                    .columns = sides[i].columns,
                                    .ld = (int64_t)sides[i].rows};
        uint32_t s = maker_slice(&m, temp, 64 * i, 4 * sides[i].rows * sides[i].columns);
        factors[sides[i].arg] = s;
        args[sides[i].arg] = sides[i].arg == PLAN_MATMUL_D ? writes(s) : reads(s);
    }
    maker_command(&m, PLAN_MATMUL, plan_add_matmuls(&m.b, &product, 1), args,
                  PLAN_MATMUL_AUX);
    *out = m.b;
}

#define PRODUCT(member) AT(matmuls, PlanMatmul, 0, member)
#define PRODUCT_ARG(arg, member) AT(args, PlanArg, PLAN_MATMUL_##arg, member)
#define SLICE_OF(arg) AT(slices, PlanSlice, factors[PLAN_MATMUL_##arg], bytes)

static void test_matrices(void **state)
{
    static const char wrong[] = "matrix product 0 of the plan is damaged",
                      leave[] = "whose matrices leave their slices",
                      lack[] = "a matrix product without its operands",
                      no_slice[] = "with an operand that is no slice",
                      type[] = "a matrix of type",
                      mode[] = "a matrix with scales of mode";
    (void)state;
    expect_made(make_product);
    const uint64_t minus = (uint64_t)-1;
    const Limit limits[] = {
        {PRODUCT(a.rows), 2, 1, wrong},
        {PRODUCT(a.columns), 3, 2, wrong},
        {PRODUCT(b.rows), 3, 2, wrong},
        {PRODUCT(b.columns), 4, 5, wrong},
        {PRODUCT(c.rows), 2, 1, wrong},
        {PRODUCT(c.columns), 4, 3, wrong},
        {PRODUCT(d.rows), 2, 1, wrong},
        {PRODUCT(d.columns), 4, 3, wrong},
        {PRODUCT(a.ld), 2, 1, wrong},
        {PRODUCT(b.ld), 3, 2, wrong},
        {PRODUCT(c.ld), 2, minus, wrong},
        {PRODUCT(d.ld), 2, 1, wrong},
        {PRODUCT(a.batch_stride), 100, minus, wrong},
        {PRODUCT(d.batch_stride), 100, minus, wrong},
        {PRODUCT(a.transpose), 0, 1, wrong},
        {PRODUCT(b.transpose), 0, 2, wrong},
        {PRODUCT(c.transpose), 2, 3, wrong},
        {PRODUCT(d.transpose), 2, 3, wrong},
        {PRODUCT(batch), INT32_MAX, UINT32_C(1) << 31, wrong},
        {PRODUCT(batch), 1, 0, wrong},
        {PRODUCT(fast_accumulation), 1, 2, wrong},
        {SLICE_OF(A), 24, 23, leave},
        {SLICE_OF(B), 48, 47, leave},
        {SLICE_OF(C), 32, 31, leave},
        {SLICE_OF(D), 32, 31, leave},
        {PRODUCT(a.ld), 2, 3, leave},
        {PRODUCT_ARG(C, tag), PLAN_ARG_NONE, PLAN_ARG_IMMEDIATE, no_slice},
        {PRODUCT_ARG(BIAS, tag), PLAN_ARG_NONE, PLAN_ARG_PARTITION, no_slice},
        {PRODUCT_ARG(A, access), 3, PLAN_WRITE, lack},
        {PRODUCT_ARG(B, access), 3, PLAN_WRITE, lack},
        {PRODUCT_ARG(D, access), 3, PLAN_READ, lack},
        {AT(commands, PlanCommand, 0, index), 0, 1, lack},
        {AT(commands, PlanCommand, 0, arg_count), PLAN_MATMUL_AUX, PLAN_MATMUL_AUX - 1,
         lack},
        {PRODUCT(epilogue), CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_AUX, lack},
        {PRODUCT(workspace_bytes), 0, 1, "without its workspace"},
        {PRODUCT(a.type), CUDA_R_16F, 1000, type},
        {PRODUCT(d.type), CUDA_R_16F, 1000, type},
        {PRODUCT(c.scale_mode), 0, 1, mode},
        {PRODUCT(b.scale_mode), 0, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F + 1, mode},
        {PRODUCT(epilogue), CUBLASLT_EPILOGUE_RELU, 3, "epilogue"},
        {PRODUCT(epilogue), CUBLASLT_EPILOGUE_GELU, 34, "epilogue"},
        {PRODUCT(epilogue), CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS, "bias"},
        {PRODUCT(scale_type), CUDA_R_32I, 1000, "with factors of type"},
        {PRODUCT(scale_type), CUDA_R_64F, CUDA_R_16F, "with factors of type"},
    };
    CHECK_LIMITS(make_product, limits);
}

/* Matrices of no rows or columns, all of which agree; transposed ones; several of each. */
static void test_products(void **state)
{
    static const struct {
        uint64_t m, k, n;
        uint32_t a, b; /* transposed */
        uint32_t batch;
        int64_t stride;
        const char *says;
    } cases[] = {
        {2, 3, 4, 0, 0, 1, 0, NULL},
        {2, 3, 4, 1, 0, 1, 0, NULL},
        {2, 3, 4, 0, 1, 1, 0, NULL},
        {2, 3, 4, 2, 2, 1, 0, NULL},
        {0, 3, 4, 0, 0, 1, 0, "is damaged"},
        {2, 0, 4, 0, 0, 1, 0, "is damaged"},
        {2, 3, 0, 0, 0, 1, 0, "is damaged"},
        {1, 1, 1, 0, 0, 7, 1, NULL},
        {1, 1, 1, 0, 0, 4, 2, NULL},
        {1, 1, 1, 0, 0, 5, 2, "leave their slices"},
        {1, 1, 1, 0, 0, INT32_MAX, 0, NULL},
        {1, 1, 1, 0, 0, 3, INT64_MAX, "leave their slices"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        PlanBuilder b;
        make_product(&b);
        PlanMatmul *p = &b.matmuls[0];
        p->a.rows = cases[i].a ? cases[i].k : cases[i].m;
        p->a.columns = cases[i].a ? cases[i].m : cases[i].k;
        p->b.rows = cases[i].b ? cases[i].n : cases[i].k;
        p->b.columns = cases[i].b ? cases[i].k : cases[i].n;
        p->c.rows = p->d.rows = cases[i].m;
        p->c.columns = p->d.columns = cases[i].n;
        p->a.transpose = cases[i].a;
        p->b.transpose = cases[i].b;
        p->batch = cases[i].batch;
        p->a.batch_stride = cases[i].stride;
        PlanMatrix *matrices[] = {&p->a, &p->b, &p->c, &p->d};
        for (int k = 0; k < 4; k++)
            matrices[k]->ld = (int64_t)matrices[k]->rows;
        if (cases[i].stride) /* 7 elements, or a byte less than 9 */
            b.slices[factors[PLAN_MATMUL_A]].bytes = cases[i].says ? 35 : 28;
        expect_verdict(&b, "product", i, cases[i].says);
        plan_builder_deinit(&b);
    }
}

/* One scale is four bytes, where there is one. */
static void test_scale(void **state)
{
    (void)state;
    for (uint64_t bytes = 3; bytes <= 4; bytes++) {
        PlanBuilder b;
        make_product(&b);
        b.slices[factors[PLAN_MATMUL_C]].bytes = bytes;
        b.args[PLAN_MATMUL_SCALE_B] = b.args[PLAN_MATMUL_C];
        b.args[PLAN_MATMUL_C].tag = PLAN_ARG_NONE;
        expect_verdict(&b, "bytes", bytes,
                       bytes == 4 ? NULL : "whose scales leave their slices");
        plan_builder_deinit(&b);
    }
}

/* d [8, 4] = gelu(a [8, 8] b [8, 4]), and what gelu is applied to. */
static void make_gelu(PlanBuilder *out)
{
    static const uint64_t bytes[] = {8 * 8 * 4, 8 * 4 * 4, 8 * 4 * 4, 8 * 4 * 4};
    static const int at[] = {PLAN_MATMUL_A, PLAN_MATMUL_B, PLAN_MATMUL_D,
                             PLAN_MATMUL_AUX};
    Maker m;
    maker_init(&m);
    PlanMatmul product = square_product(8);
    product.b.columns = product.c.columns = product.d.columns = 4;
    product.epilogue = CUBLASLT_EPILOGUE_GELU_AUX;
    PlanArg args[PLAN_MATMUL_ARGS] = {{0}};
    uint32_t temp = maker_allocation(&m, PLAN_TEMP, 0, TEMP_BYTES);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t s = maker_slice(&m, temp, 256 * i, bytes[i]);
        factors[at[i]] = s;
        args[at[i]] = i < 2 ? reads(s) : writes(s);
    }
    maker_command(&m, PLAN_MATMUL, plan_add_matmuls(&m.b, &product, 1), args,
                  PLAN_MATMUL_ARGS);
    *out = m.b;
}

static void test_aux(void **state)
{
    static const char leaves[] = "whose auxiliary output leaves its slice",
                      lack[] = "a matrix product without its operands";
    (void)state;
    expect_made(make_gelu);
    const Limit limits[] = {
        {SLICE_OF(AUX), 128, 127, leaves},
        {PRODUCT_ARG(AUX, access), PLAN_WRITE, PLAN_READ, leaves},
        {PRODUCT_ARG(AUX, tag), PLAN_ARG_SLICE, PLAN_ARG_NONE, leaves},
        {PRODUCT(epilogue), CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU, lack},
        {PRODUCT(epilogue), CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
         "whose bias leaves its slice"},
        {AT(commands, PlanCommand, 0, arg_count), PLAN_MATMUL_ARGS, PLAN_MATMUL_AUX,
         lack},
    };
    CHECK_LIMITS(make_gelu, limits);
    PlanBuilder b; /* columns of 4 elements are no whole vectors */
    make_gelu(&b);
    PlanMatmul *p = &b.matmuls[0];
    p->a.rows = p->c.rows = p->d.rows = 4;
    p->a.ld = p->c.ld = p->d.ld = 4;
    expect_verdict(&b, "lines", 4, leaves);
    plan_builder_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrices), cmocka_unit_test(test_products),
        cmocka_unit_test(test_scale), cmocka_unit_test(test_aux)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
