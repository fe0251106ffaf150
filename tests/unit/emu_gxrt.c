/* libgxrt on libgxemu: a plan with a launch and a loop, its kernel made by codegen, runs on
 * emulated devices, one and two; what the emulator finds comes back as gxrt's error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/gxrt.h"
#include "tests/unit/shared/emu_file.h"

enum { COUNT = EMU_FILE_COUNT, BYTES = EMU_FILE_BYTES, TRIPS = EMU_FILE_TRIPS };

static void ok(gxrt_status status)
{
    if (status != GXRT_OK)
        fail_msg("%s", gxrt_last_error());
}

typedef struct Fixture {
    void *file;
    gxrt_program *program;
    gxrt_session *session;
    gxrt_buffer arguments[2], results[2];
    gxrt_run runs[2];
} Fixture;

static void fixture_init(Fixture *f, uint64_t launched_bytes, uint32_t devices)
{
    static float values[COUNT];
    size_t bytes;
    memset(f, 0, sizeof *f);
    f->file = emu_file_make(launched_bytes, NULL, &bytes);
    ok(gxrt_program_open_memory(f->file, bytes, &f->program));
    gxrt_session_options options = {.struct_size = sizeof options,
                                    .device = "emu",
                                    .allow_native = 1,
                                    .library_path = emu_folder(),
                                    .replicas = devices};
    ok(gxrt_session_create(f->program, &options, &f->session));
    for (uint32_t d = 0; d < devices; d++) {
        f->arguments[d] =
            (gxrt_buffer){.struct_size = sizeof(gxrt_buffer), .bytes = BYTES};
        f->results[d] = f->arguments[d];
        ok(gxrt_allocate(f->session, d, BYTES, &f->arguments[d].data));
        ok(gxrt_allocate(f->session, d, BYTES, &f->results[d].data));
        for (int i = 0; i < COUNT; i++)
            values[i] = (float)(i + (int)d * 5);
        ok(gxrt_copy_to_device(f->session, d, f->arguments[d].data, values, BYTES));
        f->runs[d] = (gxrt_run){.struct_size = sizeof(gxrt_run),
                                .arguments = &f->arguments[d],
                                .argument_count = 1,
                                .results = &f->results[d],
                                .result_count = 1};
    }
}

static void fixture_deinit(Fixture *f, uint32_t devices)
{
    for (uint32_t d = 0; d < devices; d++) {
        gxrt_free(f->session, d, f->arguments[d].data);
        gxrt_free(f->session, d, f->results[d].data);
    }
    gxrt_session_destroy(f->session);
    gxrt_program_destroy(f->program);
    free(f->file);
}

static void test_run(void **state)
{
    (void)state;
    for (uint32_t devices = 1; devices <= 2; devices++) {
        static float values[COUNT];
        Fixture f;
        fixture_init(&f, BYTES, devices);
        for (int repeat = 0; repeat < 3; repeat++)
            ok(gxrt_execute(f.session, devices, f.runs));
        for (uint32_t d = 0; d < devices; d++) {
            ok(gxrt_copy_to_host(f.session, d, values, f.results[d].data, BYTES));
            for (int i = 0; i < COUNT; i++)
                assert_true(values[i] == (float)(i + (int)d * 5 + 1 + TRIPS));
        }
        fixture_deinit(&f, devices);
    }
}

/* The file's code runs in this process only for callers that ask for it. */
static void test_native_is_asked_for(void **state)
{
    (void)state;
    size_t bytes;
    void *file = emu_file_make(BYTES, NULL, &bytes);
    gxrt_program *program;
    gxrt_session *session = NULL;
    ok(gxrt_program_open_memory(file, bytes, &program));
    gxrt_session_options options = {
        .struct_size = sizeof options, .device = "emu", .library_path = emu_folder()};
    assert_int_equal(gxrt_session_create(program, &options, &session),
                     GXRT_INVALID_ARGUMENT);
    assert_null(session);
    assert_non_null(strstr(gxrt_last_error(), "set allow_native"));
    /* callers compiled against a header without the field ask for nothing */
    options.allow_native = 1;
    size_t before = offsetof(gxrt_session_options, allow_native);
    options.struct_size = before - before % sizeof(size_t);
    assert_int_equal(gxrt_session_create(program, &options, &session),
                     GXRT_INVALID_ARGUMENT);
    options.struct_size = sizeof options;
    ok(gxrt_session_create(program, &options, &session));
    gxrt_session_destroy(session);
    gxrt_program_destroy(program);
    free(file);
}

static void test_finding(void **state)
{
    (void)state;
    Fixture f;
    fixture_init(&f, 3600, 1);
    gxrt_status status = gxrt_execute(f.session, 1, f.runs);
    if (status == GXRT_OK)
        status = gxrt_synchronize(f.session, 0);
    assert_int_equal(status, GXRT_DEVICE_FAILED);
    static const char words[] =
        "instruction add.1 (site 0), thread (4,0,0) of block (7,0,0) "
        "writes 4 bytes at byte 3600 of argument 1";
    if (strstr(gxrt_last_error(), words) == NULL)
        fail_msg("'%s' lacks '%s'", gxrt_last_error(), words);
    fixture_deinit(&f, 1);
    test_run(state); /* the next session works */
}

static char logged[256];

static void keep_log(void *user, int level, const char *text)
{
    (void)user;
    (void)level;
    snprintf(logged, sizeof logged, "%s", text);
}

/* A driver that counts GPUs but cannot start is none, and that is said: the emulator, under the driver's name, whose second
 * start fails. */
static void test_driver_cannot_start(void **state)
{
    (void)state;
    char folder[64], driver[96], library[4200];
    Fixture f;
    snprintf(folder, sizeof folder, "/tmp/gxc-driver-%ld", (long)getpid());
    snprintf(driver, sizeof driver, "%s/libcuda.so.1", folder);
    snprintf(library, sizeof library, "%s/libgxemu.so", emu_folder());
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(symlink(library, driver), 0);
    fixture_init(&f, BYTES, 1);
    gxrt_session_options options = {.struct_size = sizeof options,
                                    .allow_native = 1,
                                    .library_path = folder,
                                    .log = keep_log};
    gxrt_session *session = NULL;
    ok(gxrt_session_create(f.program, &options, &session));
    assert_string_equal(logged, "no NVIDIA GPU that works (cuInit: unknown error): "
                                "running on the emulator");
    gxrt_session_destroy(session);
    fixture_deinit(&f, 1);
    assert_int_equal(remove(driver), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    setenv("GXEMU_FAIL_CALL", "cuInit:2", 1); /* of the first test */
    setenv("GXEMU_SHADOW", "1", 1);
    setenv("GXEMU_RACE", "1", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_driver_cannot_start), /* first */
        cmocka_unit_test(test_run),
        cmocka_unit_test(test_native_is_asked_for),
        cmocka_unit_test(test_finding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
