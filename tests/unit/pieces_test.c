/* Kernels are cut into pieces by their keys: a kernel more changes its own piece only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "codegen/build/pieces.h"
#include "codegen/build/ptx.h"

enum { KERNELS = 300, LEAST = 8, MOST = 24 };

static KernelRequest *make_requests(Arena *a)
{
    KernelRequest *r = ARENA_ARRAY(a, KernelRequest, KERNELS);
    for (size_t i = 0; i < KERNELS; i++) {
        r[i].key = arena_printf(a, "kernel %zu", i);
        r[i].key_length = strlen(r[i].key);
    }
    return r;
}

static void pieces_have_all_kernels(void **state)
{
    (void)state;
    Arena *a = arena_create();
    const KernelRequest *r = make_requests(a);
    for (size_t count = 0; count <= KERNELS; count++) {
        Pieces p = pieces_cut(a, r, count, true);
        assert_int_equal(p.first[0], 0);
        assert_int_equal(p.first[p.count], count);
        for (size_t i = 0; i < p.count && p.count > 1; i++) {
            size_t size = p.first[i + 1] - p.first[i];
            assert_true(size >= LEAST);
            assert_true(size <= MOST + LEAST);
        }
        assert_int_equal(pieces_cut(a, r, count, false).count, 1);
    }
    assert_true(pieces_cut(a, r, KERNELS, true).count > KERNELS / MOST);
    assert_int_equal(pieces_cut(a, r, 2 * LEAST - 1, true).count, 1);
    arena_destroy(a);
}

/* Pieces of `p` that are pieces of `q` as well, where q lacks kernel `left_out`. */
static size_t count_kept(const Pieces *p, const Pieces *q, size_t left_out)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->count; i++) {
        size_t shift = p->first[i] > left_out;
        for (size_t j = 0; j < q->count; j++)
            kept += q->first[j] == p->first[i] - shift &&
                    q->first[j + 1] == p->first[i + 1] - shift;
    }
    return kept;
}

static void most_pieces_stay(void **state)
{
    (void)state;
    Arena *a = arena_create();
    const KernelRequest *r = make_requests(a);
    Pieces all = pieces_cut(a, r, KERNELS, true);
    size_t kept = 0;
    for (size_t i = 0; i < KERNELS; i++) {
        KernelRequest *less = arena_copy(a, r, KERNELS * sizeof *r);
        memmove(less + i, less + i + 1, (KERNELS - 1 - i) * sizeof *r);
        Pieces p = pieces_cut(a, less, KERNELS - 1, true);
        kept += count_kept(&all, &p, i);
    }
    /* all but two or three: a cut by position would keep half of them */
    assert_true(kept >= KERNELS * (all.count - 4));
    arena_destroy(a);
}

#define HEAD ".version 9.0\n.address_size 64\n\n"
#define KERNEL(name, body) ".visible .entry " name "(\n)\n{\n" body "}\n"

static void texts_of_kernels_come_apart(void **state)
{
    (void)state;
    static const char *const names[] = {"k", "kk"};
    static const char *const alone[] = {
        HEAD "\t// .globl\tk\n// k$shared has been demoted\n\n" KERNEL(
            "k", "\tbra \t$L__BB0_12;\n$L__BB0_12:\n"),
        HEAD "\t// .globl\tkk\n.extern .shared .align 16 .b8 kk$shared[];\n\n" KERNEL(
            "kk", "\t.local .align 4 .b8 \t__local_depot0[8];\n$L__BB0_3:\n"),
    };
    Arena *a = arena_create();
    const char *out[2];
    assert_true(ptx_split(
        a,
        HEAD
        "\t// .globl\tk\n.extern .shared .align 16 .b8 kk$shared[];\n"
        "// k$shared has been demoted\n\n" KERNEL(
            "k",
            "\tbra \t$L__BB0_12;\n$L__BB0_12:\n") "\t// .globl\tkk\n" KERNEL("kk",
                                                                             "\t.local "
                                                                             ".align 4 "
                                                                             ".b8 "
                                                                             "\t__local_"
                                                                             "depot1[8];"
                                                                             "\n$L__BB1_"
                                                                             "3:\n"),
        names, 2, out));
    assert_string_equal(out[0], alone[0]);
    assert_string_equal(out[1], alone[1]);
    const char *joined = ptx_join(a, out, 2);
    assert_non_null(
        strstr(joined, KERNEL("kk", "\t.local .align 4 .b8 \t__local_depot0[8]"
                                    ";\n$L__BB0_3:\n")));
    assert_null(strstr(strstr(joined, "address_size") + 1, "address_size"));
    arena_destroy(a);
}

/* A table, a function, another order: each kernel must be made alone. */
static void texts_that_share_stay_together(void **state)
{
    (void)state;
    static const char *const names[] = {"a", "b"}, *const others[] = {"b", "a"};
    static const char good[] =
        HEAD "\t// .globl\ta\n\n" KERNEL("a", "") "\t// .globl\tb\n" KERNEL("b", "");
    Arena *a = arena_create();
    const char *out[2];
    assert_true(ptx_split(a, good, names, 2, out));
    assert_false(ptx_split(a, good, others, 2, out));
    assert_false(ptx_split(a, good, names, 1, out));
    assert_false(ptx_split(a, HEAD, names, 2, out));
    assert_false(ptx_split(a,
                           HEAD "\t// .globl\ta\n.global .align 4 .b8 a$table[4];\n"
                                "\n" KERNEL("a", "") "\t// .globl\tb\n" KERNEL("b", ""),
                           names, 2, out));
    assert_false(ptx_split(a,
                           HEAD "\t// .globl\ta\n.func a$f\n()\n;\n\n" KERNEL(
                               "a", "") "\t// .globl\tb\n" KERNEL("b", ""),
                           names, 2, out));
    arena_destroy(a);
}

/* Only what leaves the number of blocks open, of the kernels that are named. */
static void limits_are_lifted(void **state)
{
    (void)state;
    static const char *const names[] = {"b", "c", "a"};
    static const char text[] = ".visible .entry aa(\n)\n.reqntid 32\n{\n}\n"
                               ".visible .entry b(\n)\n.reqntid 256\n"
                               ".minnctapersm 4\n{\n}\n"
                               ".visible .entry a(\n)\n.reqntid 64\n{\n}\n";
    Arena *a = arena_create();
    assert_null(ptx_without_limit(a, text, names, 2));
    assert_string_equal(ptx_without_limit(a, text, names, 3),
                        ".visible .entry aa(\n)\n.reqntid 32\n{\n}\n"
                        ".visible .entry b(\n)\n.reqntid 256\n"
                        ".minnctapersm 4\n{\n}\n"
                        ".visible .entry a(\n)\n.reqntid 64\n.minnctapersm 1\n{\n}\n");
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_have_all_kernels),
        cmocka_unit_test(most_pieces_stay),
        cmocka_unit_test(texts_of_kernels_come_apart),
        cmocka_unit_test(texts_that_share_stay_together),
        cmocka_unit_test(limits_are_lifted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
