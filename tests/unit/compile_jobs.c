/* Kernels that several threads of a compilation make at once, by CUDA Tile IR's own compiler in processes of its own: the
 * file is the same as one thread makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "frontend/gxc.h"

static const char text[] =
    "HloModule products\n"
    "ENTRY e {\n"
    "  a = bf16[512,512] parameter(0)\n"
    "  b = bf16[512,1024] parameter(1)\n"
    "  c = bf16[1024,512] parameter(2)\n"
    "  d = bf16[512,1024] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  e = bf16[512,512] dot(d, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
    "  f = bf16[512,512] dot(e, a), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n"
    "  ROOT g = f32[512,512] dot(f, e), lhs_contracting_dims={0}, "
    "rhs_contracting_dims={0}\n"
    "}\n";

/* NULL: CUDA Tile IR's compiler is not there. */
static gxc_result *compile(const char *tiles, int jobs)
{
    gxc_options options = {.struct_size = sizeof options,
                           .targets = (const char *const[]){"sm_90a"},
                           .target_count = 1,
                           .opt_level = 2,
                           .opt_level_set = 1,
                           .libraries = "none",
                           .tiles = tiles,
                           .jobs = jobs};
    gxc_result *r;
    gxc_status status = gxc_compile("products.hlo", text, sizeof text - 1, &options, &r);
    if (status == GXC_OK)
        return r;
    if (strstr(gxc_result_diagnostics(r), "no tileiras found") == NULL)
        fail_msg("status %d: %s", (int)status, gxc_result_diagnostics(r));
    gxc_result_destroy(r);
    return NULL;
}

static int differ(const gxc_result *x, const gxc_result *y)
{
    size_t sizes[2];
    const void *bytes[] = {gxc_result_bytes(x, &sizes[0]),
                           gxc_result_bytes(y, &sizes[1])};
    return sizes[0] != sizes[1] || memcmp(bytes[0], bytes[1], sizes[0]) != 0;
}

static void test_jobs(void **state)
{
    (void)state;
    gxc_result *one = compile("tileir", 1);
    if (one == NULL)
        skip();
    gxc_result *gx = compile("gx", 1), *four = compile("tileir", 4);
    assert_true(differ(one, gx));
    assert_false(differ(one, four));
    gxc_result_destroy(one);
    gxc_result_destroy(gx);
    gxc_result_destroy(four);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_jobs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
