/* See emulator.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/emulator.h"

const char *emulator_said(void)
{
    static char text[2000];
    assert_int_equal(gxemuGetLastError(text, sizeof text), CUDA_SUCCESS);
    return text;
}

void ok(CUresult r)
{
    if (r != CUDA_SUCCESS)
        fail_msg("CUresult %d: %s", r, emulator_said());
}

void expect_result(int line, CUresult got, CUresult wanted, const char *words)
{
    if (got != wanted)
        fail_msg("line %d: CUresult %d, wanted %d: %s", line, got, wanted,
                 emulator_said());
    if (words != NULL && strstr(emulator_said(), words) == NULL)
        fail_msg("line %d: \"%s\" without \"%s\"", line, emulator_said(), words);
}
