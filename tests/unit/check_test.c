/* What no program is made for, by what a module says: each refusal with its text, and the last that is taken beside the
 * first that is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/codegen.h"
#include "frontend/hlo/parse.h"

typedef struct Row {
    const char *what, *text;
    const char *message; /* of the first error; NULL: it is taken */
    const char *at;      /* where in the text; NULL: wherever */
} Row;

typedef bool Check(const Module *);

static void check_rows(Check *takes, const Row *rows, size_t count)
{
    uint32_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        const Row *r = &rows[i];
        Arena *a = arena_create();
        Diag *d = diag_create(a, "test", r->text, strlen(r->text));
        Module *m = hlo_parse(a, d);
        if (m == NULL)
            fail_msg("%s: %s", r->what, diag_render(d, false));
        bool good = takes(m);
        const char *found = d->first ? d->first->text : "nothing";
        if (good != (r->message == NULL) || d->error_count != !good ||
            (r->message && strcmp(found, r->message) != 0) ||
            (r->at && r->text + d->first->span.begin != strstr(r->text, r->at))) {
            print_error("%s: %s, with %s\n", r->what, good ? "taken" : "refused", found);
            wrong++;
        }
        arena_destroy(a);
    }
    assert_int_equal(wrong, 0);
}

/* -- before passes -------------------------------------------------------------------------- */

static void entry_shapes(void **state)
{
    static const Row rows[] = {
        {"arrays and tokens",
         "ENTRY e { p = (f32[2], (token[], s32[])) parameter(0) t = token[] after-all() "
         "a = f32[2] get-tuple-element(p), index=0 ROOT r = (f32[2], token[]) tuple(a, "
         "t) }",
         NULL, NULL},
        {"the result",
         "ENTRY e { ROOT r = opaque[] custom-call(), custom_call_target=\"f\" }",
         "not supported: entry result of shape opaque[]", "r = "},
        {"its last leaf",
         "ENTRY e { a = f32[] parameter(0) o = opaque[] custom-call(), "
         "custom_call_target=\"f\" i = (f32[], opaque[]) tuple(a, o) "
         "ROOT r = (f32[], (f32[], opaque[])) tuple(a, i) }",
         "not supported: entry result of shape opaque[]", "r = (f32[], (f"},
        {"the first parameter",
         "ENTRY e { p = opaque[] parameter(0) q = f32[] parameter(1) ROOT r = f32[] "
         "sine(q) }",
         "not supported: entry parameter of shape opaque[]", "p = "},
        {"a leaf of the last parameter",
         "ENTRY e { q = f32[] parameter(0) p = (f32[], opaque[]) parameter(1) "
         "ROOT r = f32[] sine(q) }",
         "not supported: entry parameter of shape opaque[]", "p = "},
        {"between them",
         "ENTRY e { q = f32[] parameter(0) o = opaque[] custom-call(), "
         "custom_call_target=\"f\" ROOT r = f32[] sine(q) }",
         NULL, NULL},
    };
    (void)state;
    check_rows(codegen_takes, rows, sizeof rows / sizeof *rows);
}

static void constants(void **state)
{
#define MOST                                                                             \
    ": an artefact holds constants of at most 1073741824 bytes; pass it as a parameter"
    static const Row rows[] = {
        {"1 GiB", "ENTRY e { ROOT c = u8[1073741824] constant({...}) }", NULL, NULL},
        {"1 byte more", "ENTRY e { ROOT c = u8[1073741825] constant({...}) }",
         "not supported: a constant of shape u8[1073741825]" MOST, "c = "},
        {"what is computed may be larger",
         "ENTRY e { ROOT c = u8[1073741825] parameter(0) }", NULL, NULL},
        {"a tuple", "ENTRY e { ROOT c = (s32[2], f32[]) constant(({1, 2}, 3)) }", NULL,
         NULL},
        {"behind others",
         "f { ROOT c = u8[1073741825] constant({...}) }\n"
         "ENTRY e { d = s32[] constant(1) ROOT c.1 = u8[1073741825] call(), to_apply=f }",
         "not supported: a constant of shape u8[1073741825]" MOST, "c = "},
    };
    (void)state;
    check_rows(codegen_takes, rows, sizeof rows / sizeof *rows);
}

static void forms(void **state)
{
    static const Row rows[] = {
        {"structured sparsity",
         "ENTRY e { x = f32[1,8] parameter(0) v = f32[2,1] parameter(1) i = s32[2,1] "
         "parameter(2) "
         "k = (f32[2,1], s32[2,1]) tuple(v, i) ROOT r = f32[1,1] convolution(x, k), "
         "dim_labels=bf_io->bf, sparsity_config={rhs={sparsity=1x4 dimension=0 "
         "stride=1}} }",
         "not supported: structured sparsity (sparsity_config)", "r = "},
        {"a convolution of arrays",
         "ENTRY e { x = f32[1,8] parameter(0) k = f32[8,1] parameter(1) "
         "ROOT r = f32[1,1] convolution(x, k), dim_labels=bf_io->bf }",
         NULL, NULL},
        {"two float types",
         "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] "
         "compare(a, b), "
         "direction=LT }\n"
         "ENTRY e { x = bf16[9] parameter(0) ROOT s = bf16[9] sort(x), dimensions={0}, "
         "to_apply=less }",
         "not supported: sort applies a computation to elements of several float types",
         "s = "},
        {"one float type",
         "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] "
         "compare(a, b), "
         "direction=LT }\n"
         "ENTRY e { x = f32[9] parameter(0) ROOT s = f32[9] sort(x), dimensions={0}, "
         "to_apply=less }",
         NULL, NULL},
    };
    (void)state;
    check_rows(codegen_takes, rows, sizeof rows / sizeof *rows);
}

/* -- devices -------------------------------------------------------------------------------- */

#define SUM                                                                              \
    "sum { x = f32[] parameter(0) y = f32[] parameter(1) ROOT r = f32[] add(x, y) }\n"
#define HEAD(replicas, partitions)                                                       \
    "HloModule m, replica_count=" #replicas ", num_partitions=" #partitions "\n" SUM
#define REDUCE(attributes)                                                               \
    "ENTRY e { p = f32[8] parameter(0) ROOT c = f32[8] all-reduce(p), "                  \
    "to_apply=sum, " attributes " }"
#define FOR(what, number, count, advice)                                                 \
    " is for " what " " #number ", too, but the program is compiled for " #count         \
    ": " advice " says how many there are"

static void numbers_of_devices(void **state)
{
    static const Row rows[] = {
        {"replicas", HEAD(2, 1) REDUCE("replica_groups={{0,1}}"), NULL, NULL},
        {"a replica too many", HEAD(2, 1) REDUCE("replica_groups={{0,2}}"),
         "all-reduce" FOR("replica", 2, 2, "--replicas=3"), "c = "},
        {"replicas, of partitions, too",
         HEAD(2, 3) REDUCE("channel_id=1, replica_groups={{0,1}}"), NULL, NULL},
        {"a replica too many, of partitions, too",
         HEAD(2, 3) REDUCE("channel_id=1, replica_groups={{0,1,2}}"),
         "all-reduce" FOR("replica", 2, 2, "--replicas=3"), "c = "},
        {"devices",
         HEAD(2, 2) REDUCE("channel_id=1, use_global_device_ids=true, "
                           "replica_groups={{0,1,2,3}}"),
         NULL, NULL},
        {"a device too many",
         HEAD(2, 2) REDUCE("channel_id=1, use_global_device_ids=true, "
                           "replica_groups={{0,1},{2,4}}"),
         "all-reduce" FOR("device", 4, 4, "--partitions=5 (or --replicas)"), "c = "},
        {"pairs of replicas",
         HEAD(2, 1) "ENTRY e { p = f32[8] parameter(0) ROOT c = f32[8] "
                    "collective-permute(p), source_target_pairs={{0,1},{1,0}} }",
         NULL, NULL},
        {"a pair with a partition too many",
         HEAD(9, 2) "ENTRY e { p = f32[8] parameter(0) ROOT c = f32[8] "
                    "collective-permute(p), channel_id=1, source_target_pairs={{0,2}} }",
         "collective-permute" FOR("partition", 2, 2, "--partitions=3"), "c = "},
        {"a pair of a start",
         HEAD(2, 1) "ENTRY e { p = f32[8] parameter(0) c = (f32[8], f32[8]) "
                    "collective-permute-start(p), source_target_pairs={{0,2}} "
                    "ROOT d = f32[8] collective-permute-done(c) }",
         "collective-permute-start" FOR("replica", 2, 2, "--replicas=3"), "c = "},
        {"too few members", HEAD(3, 1) REDUCE("replica_groups={{0,1}}"),
         "all-reduce has groups of 2 devices, of the 3 that the program is compiled for: "
         "--partitions (or --replicas) says how many there are",
         "c = "},
        {"members of all groups", HEAD(3, 1) REDUCE("replica_groups={{0,1},{2}}"), NULL,
         NULL},
        {"too few of both",
         HEAD(2, 2) REDUCE("channel_id=1, use_global_device_ids=true, "
                           "replica_groups={{0,1,2}}"),
         "all-reduce has groups of 3 devices, of the 4 that the program is compiled for: "
         "--partitions (or --replicas) says how many there are",
         "c = "},
        {"nothing to share",
         HEAD(3, 1) "ENTRY e { ROOT c = () all-reduce(), to_apply=sum, "
                    "replica_groups={{0,1}} }",
         NULL, NULL},
    };
    (void)state;
    check_rows(codegen_takes, rows, sizeof rows / sizeof *rows);
}

#define MISFIT(name, from, to, size, all)                                                \
    name                                                                                 \
        " of " from " to " to " does not fit a group of " #size " devices, of the " #all \
        " that the program is compiled for: --partitions (or --replicas) says how many " \
        "there are"
#define SCATTER(from, to)                                                                \
    "ENTRY e { p = " from " parameter(0) ROOT c = " to " reduce-scatter(p), "            \
    "dimensions={1}, to_apply=sum, replica_groups={{0,1,2}} }"
#define ALL(from, to, groups)                                                            \
    "ENTRY e { p = " from " parameter(0) ROOT c = " to " all-to-all(p), "                \
    "dimensions={1}, replica_groups=" groups " }"
#define GATHER(from, to, groups)                                                         \
    "ENTRY e { p = " from " parameter(0) ROOT c = " to " all-gather(p), "                \
    "dimensions={1}, replica_groups=" groups " }"

static void sizes_of_groups(void **state)
{
    static const Row rows[] = {
        {"a gather", HEAD(3, 1) GATHER("f32[5,2]", "f32[5,6]", "{{0,1,2}}"), NULL, NULL},
        {"a gather, too large", HEAD(3, 1) GATHER("f32[5,2]", "f32[5,7]", "{{0,1,2}}"),
         MISFIT("all-gather", "f32[5,2]", "f32[5,7]", 3, 3), "c = "},
        {"a gather's second group",
         HEAD(3, 1) GATHER("f32[5,2]", "f32[5,4]", "{{0,1},{2}}"),
         MISFIT("all-gather", "f32[5,2]", "f32[5,4]", 1, 3), "c = "},
        {"a gather's empty group",
         HEAD(3, 1) GATHER("f32[5,2]", "f32[5,6]", "{{},{0,1,2}}"), NULL, NULL},
        {"a gather of all", HEAD(3, 1) GATHER("f32[5,2]", "f32[5,6]", "{}"), NULL, NULL},
        {"a gather's start",
         HEAD(3, 1) "ENTRY e { p = f32[5,2] parameter(0) c = (f32[5,2], f32[5,5]) "
                    "all-gather-start(p), dimensions={1}, replica_groups={{0,1,2}} "
                    "ROOT d = f32[5,5] all-gather-done(c) }",
         MISFIT("all-gather-start", "f32[5,2]", "f32[5,5]", 3, 3), "c = "},
        {"a gather's second operand",
         HEAD(3, 1) "ENTRY e { p = f32[2] parameter(0) q = f32[3] parameter(1) "
                    "ROOT c = (f32[6], f32[8]) all-gather(p, q), dimensions={0}, "
                    "replica_groups={{0,1,2}} }",
         MISFIT("all-gather", "f32[2]", "f32[6]", 3, 3), "c = "},
        {"a scatter", HEAD(3, 1) SCATTER("f32[5,6]", "f32[5,2]"), NULL, NULL},
        {"a scatter, too small", HEAD(3, 1) SCATTER("f32[5,7]", "f32[5,2]"),
         MISFIT("reduce-scatter", "f32[5,7]", "f32[5,2]", 3, 3), "c = "},
        {"all to all", HEAD(3, 1) ALL("f32[5,6]", "f32[5,6]", "{{0,1,2}}"), NULL, NULL},
        {"all to all, undivided", HEAD(3, 1) ALL("f32[5,7]", "f32[5,7]", "{{0,1,2}}"),
         MISFIT("all-to-all", "f32[5,7]", "f32[5,7]", 3, 3), "c = "},
        {"all to all of operands",
         HEAD(2, 1) "ENTRY e { p = f32[3] parameter(0) ROOT c = (f32[3], f32[3]) "
                    "all-to-all(p, p), replica_groups={{0,1}} }",
         NULL, NULL},
        {"all to all, an operand too many",
         HEAD(2, 1) "ENTRY e { p = f32[3] parameter(0) ROOT c = (f32[3], f32[3], f32[3]) "
                    "all-to-all(p, p, p), replica_groups={{0,1}} }",
         MISFIT("all-to-all", "f32[3]", "f32[3]", 2, 2), "c = "},
        {"a reduction of any size", HEAD(3, 1) REDUCE("replica_groups={{0,1,2}}"), NULL,
         NULL},
    };
    (void)state;
    check_rows(codegen_takes, rows, sizeof rows / sizeof *rows);
}

/* -- after passes ----------------------------------------------------------------------------- */

#define ONES_8 "1,1,1,1,1,1,1,1"
#define ONES_64                                                                          \
    ONES_8 "," ONES_8 "," ONES_8 "," ONES_8 "," ONES_8 "," ONES_8 "," ONES_8 "," ONES_8

#define TOKENS_8 "token[], token[], token[], token[], token[], token[], token[], token[]"
#define TOKENS_64                                                                        \
    TOKENS_8 ", " TOKENS_8 ", " TOKENS_8 ", " TOKENS_8 ", " TOKENS_8 ", " TOKENS_8       \
             ", " TOKENS_8 ", " TOKENS_8

static void shapes_of_values(void **state)
{
    static const Row rows[] = {
        {"64 dimensions", "ENTRY e { ROOT p = f32[" ONES_64 "] parameter(0) }", NULL,
         NULL},
        {"65 dimensions", "ENTRY e { ROOT p = f32[" ONES_64 ",1] parameter(0) }",
         "not supported: p has an array of more than 64 dimensions", "p = "},
        {"65 dimensions in a kernel",
         "f { x = f32[] parameter(0) b = f32[" ONES_64 ",1] broadcast(x), dimensions={} "
         "ROOT r = f32[] bitcast(b) }\n"
         "ENTRY e { p = f32[] parameter(0) ROOT r.1 = f32[] fusion(p), kind=kLoop, "
         "calls=f }",
         "not supported: b has an array of more than 64 dimensions", "b = "},
        {"a tuple of 65 elements",
         "ENTRY e { ROOT p = (" TOKENS_64 ", token[]) parameter(0) }", NULL, NULL},
        {"a dynamic size", "ENTRY e { ROOT p = f32[<=4] parameter(0) }",
         "not supported: p has an array of dynamic size", "p = "},
        {"a dynamic size in a tuple",
         "ENTRY e { ROOT p = (f32[4], (s32[], f32[<=4])) parameter(0) }",
         "not supported: p has an array of dynamic size", "p = "},
        {"6 bits in memory", "ENTRY e { ROOT p = f6e3m2fn[4] parameter(0) }",
         "not supported: p has elements of f6e3m2fn in memory", "p = "},
        {"6 bits of a tuple's last element",
         "ENTRY e { ROOT p = (f32[4], f6e2m3fn[4]) parameter(0) }",
         "not supported: p has elements of f6e2m3fn in memory", "p = "},
        {"6 bits of a tuple's first element",
         "ENTRY e { ROOT p = (f6e2m3fn[4], f32[4]) parameter(0) }",
         "not supported: p has elements of f6e2m3fn in memory", "p = "},
        {"bits that divide a byte, and bytes",
         "ENTRY e { ROOT p = (pred[3], s2[3], u4[3], f4e2m1fn[3], f8e4m3fn[3], s16[3], "
         "c64[3], token[], opaque[]) parameter(0) }",
         NULL, NULL},
        {"6 bits in a kernel",
         "f { x = f32[4] parameter(0) b = f6e3m2fn[4] convert(x) ROOT r = f32[4] "
         "convert(b) }\n"
         "ENTRY e { p = f32[4] parameter(0) ROOT r.1 = f32[4] fusion(p), kind=kLoop, "
         "calls=f }",
         NULL, NULL},
        {"6 bits in a computation that is called",
         "f { x = f32[4] parameter(0) b = f6e3m2fn[4] convert(x) ROOT r = f32[4] "
         "convert(b) }\n"
         "ENTRY e { p = f32[4] parameter(0) ROOT r.1 = f32[4] call(p), to_apply=f }",
         "not supported: b has elements of f6e3m2fn in memory", "b = "},
        {"the first of two",
         "ENTRY e { p = f32[<=4] parameter(0) ROOT q = f6e3m2fn[4] parameter(1) }",
         "not supported: p has an array of dynamic size", "p = "},
    };
    (void)state;
    check_rows(codegen_fits, rows, sizeof rows / sizeof *rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entry_shapes),    cmocka_unit_test(constants),
        cmocka_unit_test(forms),           cmocka_unit_test(numbers_of_devices),
        cmocka_unit_test(sizes_of_groups), cmocka_unit_test(shapes_of_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
