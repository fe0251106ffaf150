/* Lists of memory spaces in attributes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/analysis/memory_colour.h"

/* rows: collectives.M1 (edge: blanks, nothing, what is no list) */
static void test_lists(void **state)
{
    static const struct {
        const char *text;
        bool good;
        uint32_t count, index, space; /* of the last one */
    } rows[] = {
        {"{0:1}", true, 1, 0, 1},
        {" { 0 : 1 , 12 : 5 } ", true, 2, 12, 5},
        {"{}", true, 0, 0, 0},
        {"", false, 0, 0, 0},
        {"0:1", false, 0, 0, 0},
        {"{0:1", false, 0, 0, 0},
        {"{0,1}", false, 0, 0, 0},
        {"{0:1,}", false, 0, 0, 0},
        {"{0:1} x", false, 0, 0, 0},
        {"{0:x}", false, 0, 0, 0},
        {"{99999999999:1}", false, 0, 0, 0},
        {"{-1:1}", false, 0, 0, 0},
    };
    (void)state;
    Arena *a = arena_create();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        MemorySpace *list;
        uint32_t count;
        assert_int_equal(memory_spaces_read(rows[i].text, a, &list, &count),
                         rows[i].good);
        if (!rows[i].good)
            continue;
        assert_int_equal(count, rows[i].count);
        if (count > 0) {
            assert_int_equal(list[count - 1].index, rows[i].index);
            assert_int_equal(list[count - 1].space, rows[i].space);
        }
    }
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lists)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
