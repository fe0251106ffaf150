/* HloModuleProto, damaged: every truncation and random flips of bits give a message or a module
 * that verifies and can be written; whole files become what they were. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/hlo/parse.h"
#include "frontend/proto/proto.h"
#include "ir/base/bug.h"
#include "ir/print/print.h"
#include "ir/verify/verify.h"

#include <cmocka.h>

static const char *const samples[] = {
    "HloModule plain, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, "
    "buffer_donor={ (1, {}) }, frontend_attributes={k=\"v\"}\n"
    "add {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
    "  ROOT s = f32[] add(x, y)\n}\n"
    "ENTRY e {\n  a = f32[2,3]{0,1} parameter(0), sharding={devices=[2,1]<=[2]}\n"
    "  b = f32[2,3]{1,0:T(8,128)S(1)} parameter(1)\n  z = f32[] constant(0)\n"
    "  l = s32[2,2]{0,1} constant({{1, 2}, {3, 4}})\n"
    "  n = bf16[4] constant({nan, inf, -inf, -0.0})\n"
    "  r = f32[2] reduce(a, z), dimensions={1}, to_apply=add, metadata={op_name=\"r\"}\n"
    "  d = f32[2,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
    "operand_precision={high,default}\n"
    "  ROOT t = (f32[2,3]{0,1}, f32[2], f32[2,2], s32[2,2]{0,1}, bf16[4]) "
    "tuple(a, r, d, l, n), origin={({\"a\"}, {\"b\" {1}}, {}, {}, {})}\n}\n",
    "HloModule meshes, num_partitions=8\n"
    "ENTRY e {\n  a = f32[8,8] parameter(0), sharding={mesh['x'=2,'y'=4], [{'x'}, "
    "{'y':(2)2, ?}]}\n"
    "  b = f32[8,8] copy(a), sharding={mesh['x'=2,'y'=4], replicated}\n"
    "  c = f32[8,8] copy(b), sharding={mesh['x'=2,'y'=4], [{}, {}], unreduced=max{'x'}}\n"
    "  d = f32[8,8] all-to-all(c), channel_id=0, replica_groups=mesh['x'=2,'y'=4] {'x'}, "
    "dimensions={0}\n"
    "  w = f32[1,4,8,2] reshape(c)\n  k = f32[3,3,2,2] constant({...})\n"
    "  v = f32[1,4,8,2] convolution(w, k), window={size=3x3 pad=1_1x1_1}, "
    "dim_labels=b01f_01io->b01f\n"
    "  ROOT t = (f32[8,8], f32[1,4,8,2]) tuple(d, v)\n}\n"};
enum { SAMPLE_COUNT = sizeof samples / sizeof *samples };

typedef struct Read {
    Module *m; /* NULL: refused */
    Diag *d;
} Read;

/* As the compiler reads its input. */
static Read read_input(Arena *a, const char *bytes, size_t size)
{
    Read r = {.d = diag_create(a, "test.pb", arena_text(a, bytes, size), size)};
    if (proto_is_cut_off(r.d->text, size))
        diag_error(r.d, (Span){0}, "cut off");
    else if (!proto_is(r.d->text, size) || proto_to_text(r.d))
        r.m = hlo_parse(a, r.d);
    Arena *scratch = arena_scratch();
    if (r.m != NULL && !module_verify(r.m, LEVEL_SKETCH, scratch))
        r.m = NULL;
    arena_destroy(scratch);
    return r;
}

/* Either a message, or a module that can be written. */
static bool check(const char *bytes, size_t size)
{
    volatile bool good = false;
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0) {
        Arena *a = arena_scratch();
        Read r = read_input(a, bytes, size);
        size_t length;
        if (r.m != NULL)
            good = proto_print(a, r.m, &length) != NULL;
        else
            good = r.d->error_count != 0 && diag_render(r.d, false)[0] != '\0';
        arena_destroy(a);
    } else {
        good = e.kind == ESCAPE_MEMORY;
    }
    escape_pop(&e);
    return good;
}

static const char *sample(Arena *a, int i, size_t *size)
{
    Read r = read_input(a, samples[i], strlen(samples[i]));
    if (r.m == NULL)
        fail_msg("%s", diag_render(r.d, false));
    return proto_print(a, r.m, size);
}

static void test_identity(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLE_COUNT; i++) {
        Arena *a = arena_scratch();
        size_t size;
        const char *bytes = sample(a, i, &size);
        Read text = read_input(a, samples[i], strlen(samples[i]));
        Read proto = read_input(a, bytes, size);
        if (proto.m == NULL)
            fail_msg("%s", diag_render(proto.d, false));
        assert_string_equal(module_print(a, proto.m, PRINT_LONG, NULL),
                            module_print(a, text.m, PRINT_LONG, NULL));
        arena_destroy(a);
    }
}

static void test_truncations(void **state)
{
    (void)state;
    for (int i = 0; i < SAMPLE_COUNT; i++) {
        Arena *a = arena_scratch();
        size_t size;
        const char *bytes = sample(a, i, &size);
        for (size_t length = 0; length < size; length++)
            if (!check(bytes, length))
                fail_msg("sample %d cut off at %zu of %zu", i, length, size);
        arena_destroy(a);
    }
}

static void test_flips(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int i = 0; i < SAMPLE_COUNT; i++) {
        Arena *a = arena_scratch();
        size_t size;
        const char *bytes = sample(a, i, &size);
        char *damaged = arena_text(a, bytes, size);
        for (int round = 0; round < 20000; round++) {
            memcpy(damaged, bytes, size);
            for (int k = round % 4; k >= 0; k--) {
                random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
                size_t bit = (size_t)(random >> 16) % (size * 8);
                damaged[bit / 8] ^= (char)(1 << bit % 8);
            }
            if (!check(damaged, size))
                fail_msg("sample %d, round %d", i, round);
        }
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_truncations),
        cmocka_unit_test(test_flips),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
