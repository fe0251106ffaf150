/* Block-scaled products in the terms of the libraries: where scales lie, and whether the real
 * cuBLASLt, where there is one, takes the descriptors that libgxrt makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/kernel/block_scaled.h"
#include "runtime/library/library.h"

/* rows: codegen.B5 (edge: first and last of a tile, second tile, second row of tiles) */
static void test_offsets(void **state)
{
    (void)state;
    static const struct {
        int64_t columns, row, column, offset;
    } rows[] = {
        {4, 0, 0, 0},     {4, 0, 3, 3},      {4, 1, 0, 16},     {4, 31, 0, 496},
        {4, 32, 0, 4},    {4, 64, 1, 9},     {4, 96, 3, 15},    {4, 127, 3, 511},
        {8, 0, 4, 512},   {8, 127, 7, 1023}, {8, 128, 0, 1024}, {8, 161, 6, 1558},
        {4, 128, 0, 512},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(
            block_scaled_offset(rows[i].columns, rows[i].row, rows[i].column),
            rows[i].offset);
    static unsigned char seen[256 * 8]; /* every offset once */
    for (int64_t r = 0; r < 256; r++)
        for (int64_t c = 0; c < 8; c++)
            seen[block_scaled_offset(8, r, c)]++;
    for (size_t i = 0; i < sizeof seen; i++)
        assert_int_equal(seen[i], 1);
}

/* rows: codegen.B4 codegen.B9 */
static void test_types(void **state)
{
    (void)state;
    const DType e4 = DT_F8E4M3FN, e5 = DT_F8E5M2, f4 = DT_F4E2M1FN, e8 = DT_F8E8M0FNU;
    assert_true(block_scaled_in_library(e4, e4, e8, e8, DT_F32, 32));
    assert_true(block_scaled_in_library(e4, e5, e8, e8, DT_BF16, 32));
    assert_true(block_scaled_in_library(e5, e4, e8, e8, DT_F16, 32));
    assert_true(block_scaled_in_library(f4, f4, e4, e4, DT_F32, 16));
    assert_false(block_scaled_in_library(e5, e5, e8, e8, DT_F32, 32));
    assert_false(block_scaled_in_library(e4, e4, e8, e8, DT_F32, 16));
    assert_false(block_scaled_in_library(e4, e4, e4, e4, DT_F32, 32));
    assert_false(block_scaled_in_library(e4, e4, e8, e8, DT_F64, 32));
    assert_false(block_scaled_in_library(f4, f4, e8, e8, DT_F32, 32));
    assert_false(block_scaled_in_library(f4, f4, e4, e4, DT_F32, 32));
    assert_false(block_scaled_in_library(f4, e4, e4, e8, DT_F32, 16));
}

static void describe(const CublasltApi *lt, int type, int32_t scale_mode)
{
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t layout;
    int32_t yes = 1, batch = 3;
    int64_t stride = 128 * 256;
    uint32_t alignment = 16;
    void *scale = (void *)(uintptr_t)4096;
    assert_int_equal(lt->desc_create(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), 0);
    assert_int_equal(lt->desc_set(desc, CUBLASLT_MATMUL_DESC_TRANSA, &yes, 4), 0);
    assert_int_equal(lt->desc_set(desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, &yes, 4), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            lt->desc_set(desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE + i, &scale_mode, 4), 0);
        assert_int_equal(lt->desc_set(desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER + i,
                                      &scale, sizeof scale),
                         0);
    }
    int32_t unknown = 99;
    assert_int_not_equal(
        lt->desc_set(desc, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &unknown, 2), 0);
    assert_int_equal(lt->layout_create(&layout, type, 256, 128, 256), 0);
    assert_int_equal(
        lt->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, 4), 0);
    assert_int_equal(
        lt->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, 8),
        0);
    cublasLtMatmulPreference_t preference;
    assert_int_equal(lt->preference_create(&preference), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            lt->preference_set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i,
                               &alignment, 4),
            0);
    assert_int_equal(lt->preference_destroy(preference), 0);
    assert_int_equal(lt->layout_destroy(layout), 0);
    assert_int_equal(lt->desc_destroy(desc), 0);
}

/* rows: codegen.B9 (edge: attributes and types by number, as the library knows them) */
static void test_descriptors(void **state)
{
    (void)state;
    char error[512];
    const CublasltApi *lt = library_cublaslt(false, NULL, error, sizeof error);
    if (lt == NULL || lt->version() < 120800)
        skip();
    describe(lt, CUDA_R_8F_E4M3, 2);
    describe(lt, CUDA_R_8F_E5M2, 2);
    describe(lt, CUDA_R_4F_E2M1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_offsets),
                                       cmocka_unit_test(test_types),
                                       cmocka_unit_test(test_descriptors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
