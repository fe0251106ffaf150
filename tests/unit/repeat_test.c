/* Loops that are written out in PTX: which text becomes which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "codegen/gx/repeat.h"

#define MARK(count) "\t// begin inline asm\n\t// repeat " count "\n\t// end inline asm\n"
#define HEAD "\tmov.b32 \t%r1, 0;\n$L__BB0_1:                    // %repeat\n"
#define BACK "\t@%p1 bra \t$L__BB0_1;\n"

static void check(const char *ptx, const char *expected)
{
    Arena *a = arena_create();
    assert_string_equal(ptx_write_out(a, ptx), expected);
    arena_destroy(a);
}

static void steps_stand_one_behind_the_other(void **state)
{
    (void)state;
    check(HEAD "\tA;\n" MARK("3") "\tB;\n" BACK "\tC;\n",
          HEAD "\tA;\n\tB;\n\tA;\n\tB;\n\tA;\n\tB;\n\tC;\n");
    check(HEAD MARK("1") "\tB;\n" BACK, HEAD "\tB;\n");
    check(HEAD MARK("2") "\tB;\n" BACK
                         "$L__BB0_2:\n" MARK("2") "\tD;\n\t@%p2 bra \t$L__BB0_2;\n",
          HEAD "\tB;\n\tB;\n$L__BB0_2:\n\tD;\n\tD;\n");
    /* names with the letters of a jump */
    check(HEAD MARK("2") "\tld.b32 \t%r2, [library_1+4];\n\tbrand;\n" BACK,
          HEAD "\tld.b32 \t%r2, [library_1+4];\n\tbrand;\n"
               "\tld.b32 \t%r2, [library_1+4];\n\tbrand;\n");
}

/* Whatever is not a block that jumps to itself alone, by a condition, stays as it is. */
static void other_text_stays(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        HEAD "\tB;\n" BACK,
        HEAD MARK("2") "\tB;\n\tbra.uni \t$L__BB0_1;\n",
        HEAD MARK("2") "\tB;\n\t@%p1 bra \t$L__BB0_10;\n" BACK,
        HEAD MARK("2") "\tB;\n$L__BB0_2:\n\tC;\n" BACK,
        HEAD MARK("2") "\tB;\n\tret;\n",
        MARK("2") "\tB;\n" BACK,
        HEAD "\t@%p2 bra \t$L__BB0_3;\n" MARK("2") "\tB;\n" BACK,
        HEAD "\t@!%p2 bra.uni \t$L__BB0_3;\n" MARK("2") "\tB;\n" BACK,
        HEAD MARK("2") "\tB;\n" MARK("2") "\tB;\n" BACK,
        HEAD "\t.loc\t1 7 3 // a\t// repeat 2\n\tB;\n" BACK,
        "\t// repeat 2\n" HEAD "\tB;\n" BACK,
        HEAD "\t// begin inline asm\n\t// repeat 2\n\tB;\n" BACK,
        HEAD "\t// begin inline asm\n\t// repeat 2",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check(texts[i], texts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_stand_one_behind_the_other),
        cmocka_unit_test(other_text_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
