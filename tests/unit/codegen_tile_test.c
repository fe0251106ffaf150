/* Tiled kernels against the evaluator, on the emulator: every contraction of the table, for targets with and
 * without asynchronous copies, both times at which copies may be made, with tiles, warps and stages of several
 * sizes. No thread races with another; the loops have no conflicts of banks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "ir/attribute/config.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/kind.h"
#include "tests/unit/shared/kernel_case.h"

static const struct {
    const char *name, *body;
} programs[] = {
#define PROGRAM(name, body) {name, body},
#include "tests/unit/shared/tile_programs.def"
};

/* f32 factors lose bits to tf32, where the program allows it. */
static const char *module_of(Arena *a, const char *body)
{
    const char *text = arena_printf(a, "HloModule m\nENTRY e { %s }\n", body);
    if (strstr(body, "f32[36,24] parameter") == NULL &&
        strstr(body, "f32[32,40] parameter") == NULL)
        return text;
    return arena_printf(a, "HloModule m\nENTRY e { %s, algorithm=dot_tf32_tf32_f32 }\n",
                        body);
}

static bool has_cores(const char *text, const char *target)
{
    bool is_old = strcmp(target, "sm_75") == 0;
    if (is_old)
        return strstr(text, "bf16") == NULL && strstr(text, "f64") == NULL &&
               strstr(text, "tf32") == NULL && strstr(text, "f8") == NULL;
    return true;
}

/* How often banks conflicted. */
static uint64_t check(Arena *a, size_t program, const char *target, const char *config,
                      bool early)
{
    const char *text = module_of(a, programs[program].body);
    if (!has_cores(text, target))
        return 0;
    KernelCase c = {.name = programs[program].name,
                    .text = text,
                    .kind = "tile",
                    .config = config,
                    .target = target,
                    .copies_early = early,
                    .tolerance = 1.0 / 128};
    kernel_case_check(&c);
    return c.conflicts;
}

static void chosen_kernels_are_right(void **state)
{
    Arena *a = *state;
    static const char *const targets[] = {"sm_75", "sm_80", "sm_90"};
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++)
        for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
            assert_int_equal(check(a, i, targets[t], NULL, t == 1), 0);
}

static void configured_kernels_are_right(void **state)
{
    Arena *a = *state;
    static const char *const configs[] = {
        "{\"tile\":[32,16],\"depth\":32,\"warps\":[1,1],\"stages\":2}",
        "{\"tile\":[64,32],\"depth\":64,\"warps\":[2,2],\"stages\":3}",
        "{\"tile\":[16,64],\"depth\":32,\"warps\":[1,2],\"stages\":1}",
        "{\"tile\":[32,64],\"depth\":128,\"warps\":[2,1],\"stages\":4}",
        "{\"tile\":[16,64],\"depth\":128,\"warps\":[1,1],\"slices\":4,\"stages\":2}",
        "{\"tile\":[64,16],\"depth\":64,\"warps\":[2,1],\"slices\":2,\"stages\":3}",
        "{\"tile\":[8,64],\"depth\":256,\"warps\":[1,1],\"slices\":8,\"stages\":2}",
    };
    for (size_t c = 0; c < sizeof configs / sizeof *configs; c++)
        for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
            if ((c != 3 && c != 6) || strstr(programs[i].body, "f64") == NULL)
                check(a, i, "sm_90", configs[c], c % 2 == 1);
}

/* Four warps together, where a program's factors are copied in pieces of 16 bytes; as mma.sync of others. */
static void wide_kernels_are_right(void **state)
{
    Arena *a = *state;
    static const char *const configs[] = {
        "{\"tile\":[64,64],\"depth\":32,\"warps\":[4,1],\"stages\":1}",
        "{\"tile\":[128,64],\"depth\":32,\"warps\":[4,1],\"stages\":3}",
        "{\"tile\":[128,128],\"depth\":64,\"warps\":[2,4],\"stages\":2}",
    };
    for (size_t c = 0; c < sizeof configs / sizeof *configs; c++)
        for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
            if (strstr(programs[i].body, "f64") == NULL)
                check(a, i, "sm_90a", configs[c], c % 2 == 1);
}

static bool is_possible(Arena *a, size_t program, const char *target, const char *config)
{
    if (!has_cores(module_of(a, programs[program].body), target))
        return false;
    Instruction *fusion = kernel_case_fusion(a, module_of(a, programs[program].body));
    KernelDesign d;
    Target t;
    assert_true(target_find(target, &t));
    kernel_kind_set(fusion, KERNEL_TILE);
    config_set_object(fusion, "config", config);
    kernel_design(fusion, &t, a, &d);
    return d.wrong == NULL && d.unsupported == NULL;
}

/* Blocks that share tiles: more and fewer than tiles, runs that begin and end within them, tiles before with blocks of
 * their own. */
static void shared_tiles_are_right(void **state)
{
    Arena *a = *state;
    static const struct {
        const char *target, *config;
        size_t least; /* of the programs that can be so */
    } kernels[] = {
        {"sm_80", "\"tile\":[16,16],\"depth\":16,\"warps\":[1,1],\"stages\":3", 8},
        {"sm_90", "\"tile\":[16,32],\"depth\":32,\"warps\":[1,1],\"stages\":2", 8},
        {"sm_90",
         "\"tile\":[16,64],\"depth\":32,\"warps\":[1,1],\"slices\":2,\"stages\":2", 4},
        {"sm_90a", "\"tile\":[64,64],\"depth\":16,\"warps\":[4,1],\"stages\":3", 4},
    };
    static const char *const shares[] = {"[6,4]", "[3,5]", "[2,3]", "[1,2]"};
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        size_t done = 0;
        for (size_t i = k % 2; i < sizeof programs / sizeof *programs; i += 2) {
            for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
                const char *config =
                    arena_printf(a, "{%s,\"stream_k\":%s}", kernels[k].config, shares[s]);
                if (!is_possible(a, i, kernels[k].target, config))
                    continue;
                check(a, i, kernels[k].target, config, s % 2 == 1);
                done++;
                break;
            }
        }
        assert_true(done >= kernels[k].least);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen_kernels_are_right),
        cmocka_unit_test(configured_kernels_are_right),
        cmocka_unit_test(wide_kernels_are_right),
        cmocka_unit_test(shared_tiles_are_right),
    };
    return cmocka_run_group_tests(tests, kernel_case_set_up, kernel_case_tear_down);
}
