/* Arenas: zeroed, aligned memory that is given back all at once; sizes that overflow end the
 * compile through the innermost Escape. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base/arena.h"
#include "ir/base/bug.h"

static void memory_is_zeroed_and_aligned(void **state)
{
    (void)state;
    Arena *a = arena_create();
    for (size_t bytes = 0; bytes < 300000; bytes = bytes * 3 + 1) {
        unsigned char *p = arena_alloc(a, bytes);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(p[i], 0);
        if (bytes != 0)
            memset(p, 0xff, bytes);
    }
    arena_destroy(a);
}

static void reset_gives_zeroed_memory_again(void **state)
{
    (void)state;
    Arena *a = arena_create();
    for (int round = 0; round < 3; round++) {
        char *p = arena_alloc(a, 1000);
        for (size_t i = 0; i < 1000; i++)
            assert_int_equal(p[i], 0);
        memset(p, 1, 1000);
        arena_reset(a);
    }
    arena_destroy(a);
}

static void text_and_growth(void **state)
{
    (void)state;
    Arena *a = arena_create();
    assert_string_equal(arena_text(a, "abcdef", 3), "abc");
    assert_string_equal(arena_printf(a, "%d-%s", 42, "x"), "42-x");
    assert_null(arena_take_text(a, NULL));
    assert_string_equal(arena_take_text(a, strdup("taken")), "taken");
    int *numbers = NULL;
    size_t capacity = 0;
    for (int i = 0; i < 5000; i++) {
        numbers = arena_grow(a, numbers, &capacity, (size_t)i + 1, sizeof *numbers);
        numbers[i] = i;
    }
    for (int i = 0; i < 5000; i++)
        assert_int_equal(numbers[i], i);
    arena_destroy(a);
}

static void large_things_go_back_or_move(void **state)
{
    (void)state;
    Arena *a = arena_create(), *b = arena_create();
    enum { BYTES = 3000000 };
    char *small = arena_alloc(a, 100), *kept = arena_alloc(a, BYTES);
    char *dropped = arena_alloc(a, BYTES);
    kept[BYTES - 1] = 7;
    arena_drop(a, dropped, BYTES);
    arena_drop(a, small, 100);
    arena_drop(a, NULL, BYTES);
    assert_in_range(arena_bytes(a), BYTES, BYTES * 3 / 2);
    assert_false(arena_hand_over(a, b, small, 100));
    assert_true(arena_hand_over(a, b, kept, BYTES));
    assert_in_range(arena_bytes(a), 1, BYTES / 2);
    arena_destroy(a);
    Arena *c = arena_move(b);
    assert_int_equal(arena_bytes(b), 0);
    assert_int_equal(kept[BYTES - 1], 7);
    char *fresh = arena_alloc(b, 10);
    arena_destroy(c);
    assert_int_equal(fresh[9], 0);
    arena_destroy(b);
}

static void a_size_that_overflows_is_thrown(void **state)
{
    (void)state;
    Arena *a = arena_create();
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0)
        arena_array(a, SIZE_MAX / 2, 8);
    escape_pop(&e);
    assert_int_equal(e.kind, ESCAPE_MEMORY);
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed_and_aligned),
        cmocka_unit_test(reset_gives_zeroed_memory_again),
        cmocka_unit_test(text_and_growth),
        cmocka_unit_test(large_things_go_back_or_move),
        cmocka_unit_test(a_size_that_overflows_is_thrown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
