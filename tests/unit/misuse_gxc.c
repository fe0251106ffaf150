/* Wrong calls of every function of gxc.h: NULL in place of each pointer, wrong sizes and counts, two
 * threads at once. What comes back is a status with text; nothing crashes, and the next call works. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "frontend/gxc.h"
#include "ir/base/bug.h"

static const char text[] = "HloModule m\n"
                           "ENTRY e {\n"
                           "  x = f32[2] parameter(0)\n"
                           "  ROOT y = f32[2] add(x, x)\n"
                           "}\n";
static const size_t size = sizeof text - 1;

static const gxc_options emulated = {.struct_size = sizeof emulated,
                                     .targets = (const char *const[]){"emu"},
                                     .target_count = 1};

/* The call ended with this status, and said this. */
static void expect(gxc_status got, gxc_status want, gxc_result **at, const char *says)
{
    gxc_result *r = *at; /* set by the call whose status is `got` */
    const char *said = gxc_result_diagnostics(r);
    if (got != want || strstr(said, says) == NULL)
        fail_msg("status %d, not %d; '%s' lacks '%s'", got, want, said, says);
    size_t bytes = 1;
    if (want != GXC_OK) {
        assert_null(gxc_result_bytes(r, &bytes));
        assert_int_equal(bytes, 0);
    }
    gxc_result_destroy(r);
}

static gxc_status signature_of(const gxc_options *options, gxc_result **out)
{
    return gxc_signature("m.hlo", text, size, options, out);
}

/* --- gxc_compile, gxc_signature, gxc_evaluate ---------------------------------------------- */

static void test_null_input(void **state)
{
    static const char says[] = "the input is NULL, but its size is 7";
    gxc_result *r;
    (void)state;
    expect(gxc_compile("m.hlo", NULL, 7, NULL, &r), GXC_USAGE, &r, says);
    expect(gxc_signature("m.hlo", NULL, 7, NULL, &r), GXC_USAGE, &r, says);
    expect(gxc_evaluate("m.hlo", NULL, 7, NULL, 1, 0, NULL, &r), GXC_USAGE, &r, says);
    expect(gxc_signature("m.hlo", NULL, 0, NULL, &r), GXC_INVALID, &r, "m.hlo:1");
    expect(gxc_signature("m.hlo", text, 0, NULL, &r), GXC_INVALID, &r, "m.hlo:1");
    expect(gxc_signature(NULL, "x", 1, NULL, &r), GXC_INVALID, &r, "input:1");
    expect(gxc_signature(NULL, text, size, NULL, &r), GXC_OK, &r, "");
}

static void test_null_result(void **state)
{
    (void)state;
    assert_int_equal(gxc_compile("m.hlo", text, size, NULL, NULL), GXC_USAGE);
    assert_int_equal(gxc_signature("m.hlo", text, size, NULL, NULL), GXC_USAGE);
    assert_int_equal(gxc_evaluate("m.hlo", text, size, NULL, 0, 0, NULL, NULL),
                     GXC_USAGE);
}

/* What the last bytes of the input are followed by is not read. */
static void test_sizes_of_input(void **state)
{
    (void)state;
    for (size_t n = 0; n < size; n++) {
        char *cut = malloc(n ? n : 1);
        memcpy(cut, text, n);
        gxc_result *r;
        gxc_status st = gxc_signature("m.hlo", cut, n, NULL, &r);
        assert_int_equal(st, n < size - 1 ? GXC_INVALID : GXC_OK);
        gxc_result_destroy(r);
        free(cut);
    }
}

static void test_struct_size(void **state)
{
    gxc_result *r;
    (void)state;
    for (size_t n = 0; n < sizeof(gxc_options); n++) {
        if (n == 0 || n % sizeof(size_t) != 0)
            expect(signature_of(&(gxc_options){.struct_size = n}, &r), GXC_USAGE, &r,
                   "struct_size of the options is not set");
    }
    /* an older caller's struct ends before this field, a newer one's goes on behind the last */
    gxc_options older = {.struct_size = offsetof(gxc_options, opt_level),
                         .opt_level = 9,
                         .opt_level_set = 1};
    expect(signature_of(&older, &r), GXC_OK, &r, "");
    older.struct_size = sizeof older;
    expect(signature_of(&older, &r), GXC_USAGE, &r, "optimisation level 9");
    struct {
        gxc_options now;
        char later[64];
    } newer = {.now = {.struct_size = sizeof newer}};
    memset(newer.later, 0x55, sizeof newer.later);
    expect(signature_of(&newer.now, &r), GXC_OK, &r, "");
}

static void test_options(void **state)
{
    static const char *const nothing[] = {"emu", NULL};
    static const char *const wrong[] = {"sm_1"}, *const setting[] = {"no-such=1"};
    static const char *const no_value[] = {"level="};
    static const struct {
        gxc_options options;
        const char *says;
    } cases[] = {
        {{.target_count = 1}, "targets is NULL, but target_count is 1"},
        {{.target_count = SIZE_MAX}, "targets is NULL, but target_count is"},
        {{.targets = nothing, .target_count = 2}, "target 1 is NULL"},
        {{.targets = wrong, .target_count = 1}, "unknown target \"sm_1\""},
        {{.setting_count = 3}, "settings is NULL, but setting_count is 3"},
        {{.settings = nothing + 1, .setting_count = 1}, "setting 0 is NULL"},
        {{.settings = setting, .setting_count = 1}, "unknown setting \"no-such=1\""},
        {{.settings = no_value, .setting_count = 1}, "setting \"level=\""},
        {{.opt_level = -1, .opt_level_set = 1}, "optimisation level -1"},
        {{.replicas = -1}, "replica and partition counts must be positive"},
        {{.partitions = INT64_MIN}, "replica and partition counts must be positive"},
        {{.passes = "no-such"}, "unknown pass \"no-such\""},
        {{.skip = "cse,no-such"}, "unknown pass \"no-such\""},
        {{.print_after = "no-such"}, "unknown pass \"no-such\""},
        {{.libraries = "cufft"}, "unknown library \"cufft\""},
        {{.tiles = "no-such"}, "--tiles=no-such"},
        {{.f32_dots = "f64"}, "unknown form \"f64\""},
        {{.emit = "no-such"}, "unknown --emit form \"no-such\""},
        {{.print = "no-such"}, "unknown print form \"no-such\""},
        {{.jobs = -1}, "-1 jobs"},
        {{.dump_dir = ""}, "--dump-dir= names no folder"},
        {{.cache_dir = ""}, "--cache-dir= names no folder"},
        {{.cuda = ""}, "--cuda= names no folder"},
        {{.tuning = "/nonexistent"}, "/nonexistent"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gxc_options options = cases[i].options;
        options.struct_size = sizeof options;
        gxc_result *r;
        gxc_status st = gxc_compile("m.hlo", text, size, &options, &r);
        if (st != GXC_USAGE && st != GXC_INVALID)
            fail_msg("status %d, nothing was wrong with: %s", st, cases[i].says);
        expect(st, st, &r, cases[i].says);
    }
}

static void test_folders(void **state)
{
    gxc_result *r;
    (void)state;
    gxc_options options = emulated;
    options.dump_dir = "/nonexistent/folder";
    expect(gxc_compile("m.hlo", text, size, &options, &r), GXC_INVALID, &r,
           "/nonexistent/folder");
    options = emulated;
    options.cache_dir = "/nonexistent/folder"; /* it only makes compiling faster */
    expect(gxc_compile("m.hlo", text, size, &options, &r), GXC_OK, &r, "");
}

static void test_arrays(void **state)
{
    static const int64_t two[] = {2}, three[] = {3}, negative[] = {-2};
    static const float data[2] = {1, 2};
    static const struct {
        gxc_array array;
        const char *says;
    } cases[] = {
        {{NULL, 1, two, data, 8}, "an input has no dtype, the parameter is f32[2]"},
        {{"f32", 1, NULL, data, 8}, "an input has no dims"},
        {{"f32", 1, two, NULL, 8}, "an input has no data"},
        {{"f32", 1, two, data, 4}, "an input is f32 with 4 bytes"},
        {{"f32", 1, two, data, SIZE_MAX}, "an input is f32 with"},
        {{"f32", 1, three, data, 8}, "the parameter is f32[2]"},
        {{"f32", 1, negative, data, 8}, "the parameter is f32[2]"},
        {{"f32", 0, NULL, data, 8}, "the parameter is f32[2]"},
        {{"f32", UINT32_MAX, two, data, 8}, "the parameter is f32[2]"},
        {{"s32", 1, two, data, 8}, "an input is s32 with 8 bytes"},
        {{"", 1, two, data, 8}, "the parameter is f32[2]"},
        {{"f32", 1, two, NULL, 0}, "an input is f32 with 0 bytes"},
    };
    gxc_result *r;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(gxc_evaluate("m.hlo", text, size, NULL, 1, 1, &cases[i].array, &r),
               GXC_INVALID, &r, cases[i].says);
    const gxc_array right = {"f32", 1, two, data, 8};
    expect(gxc_evaluate("m.hlo", text, size, NULL, 1, 1, NULL, &r), GXC_INVALID, &r,
           "inputs is NULL, but the program has 1");
    static const size_t counts[][2] = {
        {0, 0}, {0, 1},        {1, 0},        {1, 2},
        {2, 1}, {SIZE_MAX, 1}, {1, SIZE_MAX}, {SIZE_MAX, SIZE_MAX}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        expect(gxc_evaluate("m.hlo", text, size, NULL, counts[i][0], counts[i][1], &right,
                            &r),
               GXC_INVALID, &r, "the program has 1 and 1");
    gxc_status st = gxc_evaluate("m.hlo", text, size, NULL, 1, 1, &right, &r);
    assert_int_equal(st, GXC_OK);
    gxc_array sum = gxc_result_output(r, 0, 0);
    assert_true(((const float *)sum.data)[1] == 4);
    gxc_result_destroy(r);
}

/* Bytes that no value of the type has: what is computed of them is not said, that is all. */
static void test_values(void **state)
{
    static const char odd[] = "ENTRY e {\n"
                              "  p = pred[4] parameter(0)\n"
                              "  n = s4[4] parameter(1)\n"
                              "  z = s4[4] constant({0, 0, 0, 0})\n"
                              "  s = s4[4] select(p, n, z)\n"
                              "  c = f8e5m2[4] convert(s)\n"
                              "  i = s32[4] convert(s)\n"
                              "  ROOT t = (f8e5m2[4], s32[4]) tuple(c, i)\n"
                              "}\n";
    static const int64_t four[] = {4};
    static const unsigned char bytes[4] = {0, 7, 128, 255};
    const gxc_array inputs[] = {{"pred", 1, four, bytes, 4}, {"s4", 1, four, bytes, 4}};
    gxc_result *r;
    (void)state;
    gxc_status st = gxc_evaluate("m.hlo", odd, sizeof odd - 1, NULL, 1, 2, inputs, &r);
    if (st != GXC_OK)
        expect(st, GXC_INVALID, &r, "pred");
    else
        gxc_result_destroy(r);
}

/* --- results ------------------------------------------------------------------------------- */

static void expect_nothing(gxc_array a)
{
    assert_null(a.dtype);
    assert_null(a.dims);
    assert_null(a.data);
    assert_int_equal(a.bytes, 0);
}

static void test_no_result(void **state)
{
    size_t bytes = 1;
    uint8_t hash[16] = {1}, zeros[16] = {0};
    (void)state;
    assert_null(gxc_result_bytes(NULL, &bytes));
    assert_int_equal(bytes, 0);
    assert_null(gxc_result_bytes(NULL, NULL));
    assert_string_equal(gxc_result_diagnostics(NULL), "");
    assert_string_equal(gxc_result_report(NULL, "text"), "");
    assert_null(gxc_result_report(NULL, NULL));
    assert_int_equal(gxc_result_output_count(NULL), 0);
    assert_int_equal(gxc_result_parameter_count(NULL), 0);
    assert_int_equal(gxc_result_device_count(NULL), 0);
    assert_int_equal(gxc_result_partition_count(NULL), 0);
    expect_nothing(gxc_result_output(NULL, 0, 0));
    expect_nothing(gxc_result_parameter(NULL, 0));
    assert_null(gxc_result_parameter_name(NULL, 0));
    assert_null(gxc_result_output_name(NULL, 0));
    gxc_result_module_hash(NULL, hash);
    assert_memory_equal(hash, zeros, 16);
    gxc_result_module_hash(NULL, NULL);
    gxc_result_destroy(NULL);
}

static void test_indices(void **state)
{
    static const size_t wrong[] = {1, 2, SIZE_MAX / 2, SIZE_MAX};
    gxc_result *r;
    uint8_t hash[16] = {0}, zeros[16] = {0};
    (void)state;
    assert_int_equal(signature_of(NULL, &r), GXC_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        expect_nothing(gxc_result_output(r, 0, wrong[i]));
        expect_nothing(gxc_result_output(r, wrong[i], 0));
        expect_nothing(gxc_result_parameter(r, wrong[i]));
        assert_null(gxc_result_parameter_name(r, wrong[i]));
        assert_null(gxc_result_output_name(r, wrong[i]));
    }
    assert_null(gxc_result_output(r, 0, 0).data); /* a signature has no values */
    assert_string_equal(gxc_result_parameter_name(r, 0), "x");
    assert_null(gxc_result_report(r, NULL));
    assert_null(gxc_result_report(r, ""));
    assert_null(gxc_result_report(r, "table"));
    assert_string_equal(gxc_result_report(r, "json"), "");
    gxc_result_module_hash(r, NULL);
    gxc_result_module_hash(r, hash);
    assert_memory_not_equal(hash, zeros, 16);
    gxc_result_destroy(r);
}

/* --- the rest ------------------------------------------------------------------------------ */

static void test_lists(void **state)
{
    static const char *const wrong[] = {
        "", "op", "opss", ".json", "ops.", "ops.j", "ops.json.json", "ops.jsonx", "OPS"};
    (void)state;
    assert_null(gxc_list(NULL));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_null(gxc_list(wrong[i]));
    assert_non_null(strstr(gxc_list("ops"), "add"));
    assert_null(gxc_explain(NULL));
    assert_null(gxc_explain(""));
    assert_null(gxc_explain("adds"));
    char *about = gxc_explain("add");
    assert_non_null(about);
    gxc_free(about);
    gxc_free(NULL);
}

static void expect_no_folder(const char *folder, const char *module, const char *says)
{
    char *message = NULL;
    assert_null(gxc_folder_program(folder, module, &message));
    assert_non_null(message);
    if (strstr(message, says) == NULL)
        fail_msg("'%s' lacks '%s'", message, says);
    gxc_free(message);
    assert_null(gxc_folder_program(folder, module, NULL));
}

static void test_folder_program(void **state)
{
    (void)state;
    expect_no_folder(NULL, NULL, "the folder is NULL");
    expect_no_folder("", NULL, "cannot read : No such file");
    expect_no_folder("/nonexistent", "m", "cannot read /nonexistent: No such file");
    expect_no_folder("/dev/null", NULL, "cannot read /dev/null: Not a directory");
    expect_no_folder("/proc/self/fd", NULL, "/proc/self/fd: no module in this folder");
}

/* --- threads and processes ----------------------------------------------------------------- */

/* A right call, a wrong one whose words are its own, and lists. */
static bool compiles_once(void)
{
    gxc_result *r;
    bool ok = gxc_compile("m.hlo", text, size, &emulated, &r) == GXC_OK &&
              gxc_result_bytes(r, NULL) != NULL;
    gxc_result_destroy(r);
    ok &= gxc_signature("wrong.hlo", "ENTRY", 5, NULL, &r) == GXC_INVALID &&
          strstr(gxc_result_diagnostics(r), "wrong.hlo:1") != NULL;
    gxc_result_destroy(r);
    char *about = gxc_explain("dot");
    ok &= about != NULL && gxc_list("passes") != NULL;
    gxc_free(about);
    return ok;
}

static void *compile_beside(void *ok)
{
    *(bool *)ok = compiles_once() && compiles_once();
    return NULL;
}

static void test_threads(void **state)
{
    enum { THREADS = 2 };
    pthread_t threads[THREADS];
    bool ok[THREADS] = {false};
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, compile_beside, &ok[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(ok[i]);
    }
}

static void stop(void *user, const char *stage, size_t done, size_t of)
{
    (void)user, (void)stage, (void)done, (void)of;
    bug("stopped by a test");
}

/* The name of a replay file can be told beforehand: a link that has it is not followed. */
static void test_replay_link(void **state)
{
    (void)state;
    char folder[] = "/tmp/misuse_gxc_XXXXXX", link[256], victim[64];
    assert_non_null(mkdtemp(folder));
    const gxc_options options = {
        .struct_size = sizeof options, .progress = stop, .replay_dir = folder};
    gxc_result *r;
    struct stat info;
    assert_int_equal(signature_of(&options, &r), GXC_BUG);
    const char *name = strstr(gxc_result_diagnostics(r), folder);
    assert_non_null(name);
    snprintf(link, sizeof link, "%.*s", (int)strcspn(name, "\n"), name);
    snprintf(victim, sizeof victim, "%s/victim", folder);
    gxc_result_destroy(r);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink(victim, link), 0);
    expect(signature_of(&options, &r), GXC_BUG, &r, link);
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISREG(info.st_mode) && info.st_size > (off_t)size);
    assert_int_equal(access(victim, F_OK), -1);
    unlink(link);
    rmdir(folder);
}

/* A process that was forked after compiling compiles, too. */
static void test_fork(void **state)
{
    int status;
    (void)state;
    assert_true(compiles_once());
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(compiles_once() ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_input),     cmocka_unit_test(test_null_result),
        cmocka_unit_test(test_sizes_of_input), cmocka_unit_test(test_struct_size),
        cmocka_unit_test(test_options),        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_arrays),         cmocka_unit_test(test_values),
        cmocka_unit_test(test_no_result),      cmocka_unit_test(test_indices),
        cmocka_unit_test(test_lists),          cmocka_unit_test(test_folder_program),
        cmocka_unit_test(test_threads),        cmocka_unit_test(test_fork),
        cmocka_unit_test(test_replay_link),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
