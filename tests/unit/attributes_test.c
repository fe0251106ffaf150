/* Which instructions are the same operation: those whose attributes are equal, of every kind that is compared by its
 * parts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/module.h"

/* An instruction of each row is written twice in the first form, then in the others. */
static const struct {
    const char *start, *forms[4];
} rows[] = {
    {"f32[32,8] all-gather(x), dimensions={0}, replica_groups=",
     {"{{0,1},{2,3}}", "{{0,2},{1,3}}", "[2,2]<=[4]", "[2,2]<=[2,2]T(1,0)"}},
    {"f32[16,8] all-reduce(x), to_apply=add, replica_groups=",
     {"[1,4]<=[4]", "[4,1]<=[4]", "{{0,1,2,3}}", "{{0,1},{2,3}}"}},
    {"f32[16,8] collective-permute(x), source_target_pairs=",
     {"{{0,1},{1,0}}", "{{0,1},{1,2}}", "{{0,1}}", "{}"}},
    {"(f32[16,8], f32[16,8]) custom-call(x, x), custom_call_target=\"t\", "
     "output_to_operand_aliasing=",
     {"{{0}: (0, {}), {1}: (1, {})}", "{{0}: (1, {}), {1}: (0, {})}", "{{0}: (0, {})}",
      "{{1}: (0, {})}"}},
};

static void test_same_operation(void **state)
{
    (void)state;
    Arena *a = arena_create();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const Instruction *all[5];
        const char *text = arena_printf(
            a, "HloModule m, replica_count=4\n"
               "add { p = f32[] parameter(0) q = f32[] parameter(1) ROOT s = "
               "f32[] add(p, q) }\n"
               "ENTRY e {\n x = f32[16,8] parameter(0)\n");
        for (int k = 0; k < 5; k++)
            text = arena_printf(a, "%s y%d = %s%s\n", text, k, rows[i].start,
                                rows[i].forms[k > 0 ? k - 1 : 0]);
        const Module *m = parse_module(
            a, arena_printf(a, "%s ROOT r = f32[16,8] negate(x)\n}\n", text));
        uint32_t n = 0;
        for (const Instruction *inst = inst_first(m->entry); inst; inst = inst_next(inst))
            if (inst->name[0] == 'y')
                all[n++] = inst;
        assert_int_equal(n, 5);
        for (int k = 0; k < 5; k++)
            for (int l = 0; l < 5; l++) {
                bool same = k == l || (k < 2 && l < 2);
                if (inst_same_operation(all[k], all[l]) != same)
                    fail_msg("row %zu: %s and %s", i, all[k]->name, all[l]->name);
            }
    }
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_operation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
