/* Which targets convert narrow floats in hardware. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/gx/row.h"

static bool has(GxRow row, const char *name, uint32_t ptx)
{
    Target t;
    assert_true(target_find(name, &t));
    return target_can(&t, ptx, gx_info[row].features);
}

/* rows: codegen.F4 (edge: PTX 7.8 and 8.1) (edge: plain targets from Blackwell on) */
static void test_hardware(void **state)
{
    (void)state;
    static const GxRow bytes[] = {ROW_ENCODE_E4M3, ROW_ENCODE_E5M2, ROW_DECODE_E4M3,
                                  ROW_DECODE_E5M2};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        assert_false(has(bytes[i], "sm_88", 90));
        assert_false(has(bytes[i], "sm_89", 80));
        assert_true(has(bytes[i], "sm_89", 81));
        assert_true(has(bytes[i], "sm_90", 78));
        assert_true(has(bytes[i], "sm_121", 88));
    }
    static const GxRow blackwell[] = {ROW_ENCODE_E2M1, ROW_DECODE_E2M1, ROW_DECODE_E8M0};
    for (size_t i = 0; i < sizeof blackwell / sizeof *blackwell; i++) {
        assert_false(has(blackwell[i], "sm_90a", 90));
        assert_false(has(blackwell[i], "sm_100", 90));
        assert_false(has(blackwell[i], "sm_120", 90));
        assert_false(has(blackwell[i], "sm_100a", 85));
        assert_true(has(blackwell[i], "sm_100a", 86));
        assert_true(has(blackwell[i], "sm_103f", 88));
        assert_true(has(blackwell[i], "sm_110a", 90));
        assert_true(has(blackwell[i], "sm_121f", 88));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hardware)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
