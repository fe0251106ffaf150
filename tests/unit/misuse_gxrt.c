/* Wrong calls of every function of gxrt.h, on the emulator: NULL in place of each pointer, wrong sizes and
 * indices, what belongs to another session, wrong orders, several threads, a forked process. What
 * comes back is a status with text; nothing crashes, and the session goes on working. */
#include <limits.h>
#include <math.h>
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

#include "runtime/gxrt.h"
#include "tests/unit/shared/emu_file.h"
#include "tests/unit/shared/refusing.h"

enum { COUNT = EMU_FILE_COUNT, BYTES = EMU_FILE_BYTES, TRIPS = EMU_FILE_TRIPS };

static const double no_time[] = {-1, -1e300, (double)NAN, -(double)INFINITY};

static void *file;
static size_t file_bytes;
static gxrt_program *program;

static gxrt_session_options options_of(uint32_t replicas)
{
    return (gxrt_session_options){.struct_size = sizeof(gxrt_session_options),
                                  .device = "emu",
                                  .allow_native = 1,
                                  .library_path = emu_folder(),
                                  .replicas = replicas};
}

static void ok(gxrt_status status)
{
    if (status != GXRT_OK)
        fail_msg("%s", gxrt_last_error());
}

static void expect(gxrt_status got, gxrt_status want, const char *says)
{
    if (got != want || strstr(gxrt_last_error(), says) == NULL)
        fail_msg("%s, not %s; '%s' lacks '%s'", gxrt_status_name(got),
                 gxrt_status_name(want), gxrt_last_error(), says);
}

static void invalid(gxrt_status got, const char *says)
{
    expect(got, GXRT_INVALID_ARGUMENT, says);
}

static int set_up(void **state)
{
    (void)state;
    file = emu_file_make(BYTES, NULL, &file_bytes);
    return gxrt_program_open_memory(file, file_bytes, &program) == GXRT_OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    gxrt_program_destroy(program);
    free(file);
    return 0;
}

/* A session on one device with its buffers. */
typedef struct Fixture {
    gxrt_session *session;
    gxrt_buffer argument, result;
    gxrt_run run;
} Fixture;

static void fixture_init(Fixture *f)
{
    static float values[COUNT];
    gxrt_session_options options = options_of(0);
    memset(f, 0, sizeof *f);
    ok(gxrt_session_create(program, &options, &f->session));
    f->argument = (gxrt_buffer){.struct_size = sizeof(gxrt_buffer), .bytes = BYTES};
    f->result = f->argument;
    ok(gxrt_allocate(f->session, 0, BYTES, &f->argument.data));
    ok(gxrt_allocate(f->session, 0, BYTES, &f->result.data));
    ok(gxrt_copy_to_device(f->session, 0, f->argument.data, values, BYTES));
    f->run = (gxrt_run){.struct_size = sizeof(gxrt_run),
                        .arguments = &f->argument,
                        .argument_count = 1,
                        .results = &f->result,
                        .result_count = 1};
}

/* The session runs, and its results are right. */
static void expect_works(Fixture *f)
{
    static float values[COUNT];
    ok(gxrt_execute(f->session, 1, &f->run));
    ok(gxrt_synchronize(f->session, 0));
    ok(gxrt_copy_to_host(f->session, 0, values, f->result.data, BYTES));
    for (int i = 0; i < COUNT; i++)
        assert_true(values[i] == 1 + TRIPS);
}

static void fixture_deinit(Fixture *f)
{
    expect_works(f);
    gxrt_free(f->session, 0, f->argument.data);
    gxrt_free(f->session, 0, f->result.data);
    gxrt_session_destroy(f->session);
}

/* --- programs ------------------------------------------------------------------------------ */

static void test_words(void **state)
{
    static const int wrong[] = {-1, GXRT_HOST_CALL_FAILED + 1, 1 << 30};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_string_equal(gxrt_status_name((gxrt_status)wrong[i]), "unknown status");
    for (int i = 0; i <= GXRT_HOST_CALL_FAILED; i++)
        assert_string_not_equal(gxrt_status_name((gxrt_status)i), "unknown status");
    assert_non_null(gxrt_last_error());
    assert_true(strlen(gxrt_version()) > 0);
}

static void test_open(void **state)
{
    gxrt_program *p = program;
    (void)state;
    invalid(gxrt_program_open(NULL, &p), "gxrt_program_open: NULL path or result");
    invalid(gxrt_program_open("x", NULL), "gxrt_program_open: NULL path or result");
    invalid(gxrt_program_open_memory(NULL, 8, &p), "NULL bytes or result");
    invalid(gxrt_program_open_memory(file, file_bytes, NULL), "NULL bytes or result");
    assert_ptr_equal(p, program);
    expect(gxrt_program_open_memory(file, 0, &p), GXRT_INVALID_FILE, "no ELF file");
    assert_null(p);
    expect(gxrt_program_open("", &p), GXRT_INVALID_FILE, "No such file");
    expect(gxrt_program_open("/", &p), GXRT_INVALID_FILE, "/: Is a directory");
    gxrt_program_destroy(NULL);
}

/* Of a pipe that nobody writes, nothing is waited for. */
static void test_no_plain_file(void **state)
{
    (void)state;
    static const char *const devices[] = {"/dev/null", "/dev/zero"};
    gxrt_program *p = program;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        expect(gxrt_program_open(devices[i], &p), GXRT_INVALID_FILE, "no plain file");
        assert_null(p);
    }
    char folder[] = "/tmp/misuse-XXXXXX", pipe[64];
    assert_non_null(mkdtemp(folder));
    snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    expect(gxrt_program_open(pipe, &p), GXRT_INVALID_FILE, "no plain file");
    assert_null(p);
    unlink(pipe);
    rmdir(folder);
}

/* Queries write no further than struct_size, and refuse what has none. */
typedef gxrt_status Query(void *info, size_t index);

static gxrt_status query_info(void *info, size_t index)
{
    return gxrt_program_get_info(index ? NULL : program, info);
}

static gxrt_status query_argument(void *info, size_t index)
{
    return gxrt_program_get_argument(program, index, info);
}

static gxrt_status query_result(void *info, size_t index)
{
    return gxrt_program_get_result(program, index, info);
}

static gxrt_status query_variant(void *info, size_t index)
{
    return gxrt_program_get_variant(program, index, info);
}

static gxrt_status query_command(void *info, size_t index)
{
    return gxrt_program_get_command(program, 0, index, info);
}

static gxrt_session *asked;

static gxrt_status query_session(void *info, size_t index)
{
    return gxrt_session_get_info(index ? NULL : asked, info);
}

static void check_query(Query *query, size_t whole, const char *name)
{
    union {
        size_t struct_size;
        unsigned char bytes[512];
    } info;
    invalid(query(NULL, 0), name);
    for (size_t n = 0; n < sizeof(size_t); n++) {
        info.struct_size = n;
        invalid(query(&info, 0), name);
    }
    for (size_t n = sizeof(size_t); n <= sizeof info; n++) {
        memset(&info, 0xa5, sizeof info);
        info.struct_size = n;
        ok(query(&info, 0));
        assert_int_equal(info.struct_size, n);
        for (size_t i = n < whole ? n : whole; i < sizeof info; i++)
            assert_int_equal(info.bytes[i], 0xa5);
    }
    invalid(query(&info, SIZE_MAX), name);
}

static void test_queries(void **state)
{
    Fixture f;
    (void)state;
    fixture_init(&f);
    asked = f.session;
    check_query(query_info, sizeof(gxrt_program_info), "gxrt_program_get_info");
    check_query(query_argument, sizeof(gxrt_value_info), "gxrt_program_get_argument");
    check_query(query_result, sizeof(gxrt_value_info), "gxrt_program_get_result");
    check_query(query_variant, sizeof(gxrt_variant_info), "gxrt_program_get_variant");
    check_query(query_command, sizeof(gxrt_command_info), "gxrt_program_get_command");
    check_query(query_session, sizeof(gxrt_session_info), "gxrt_session_get_info");
    gxrt_value_info value = {.struct_size = sizeof value};
    ok(gxrt_program_get_argument(program, 0, &value));
    assert_true(value.size_of == -1 && value.size_dimension == -1);
    fixture_deinit(&f);
}

static void test_indices(void **state)
{
    static const size_t wrong[] = {1, 2, SIZE_MAX / 2, SIZE_MAX};
    gxrt_value_info value = {.struct_size = sizeof value};
    gxrt_variant_info variant = {.struct_size = sizeof variant};
    gxrt_command_info command = {.struct_size = sizeof command};
    gxrt_memory_info memory = {.struct_size = sizeof memory};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        invalid(gxrt_program_get_argument(program, wrong[i], &value), "no such index");
        invalid(gxrt_program_get_result(program, wrong[i], &value), "no such index");
        invalid(gxrt_program_get_variant(program, wrong[i], &variant), "no such index");
        invalid(gxrt_program_get_command(program, wrong[i], 0, &command), "no such");
        invalid(gxrt_program_get_memory(program, wrong[i], 0, &memory), "no such");
        assert_null(gxrt_program_get_step(program, wrong[i], 0));
    }
    ok(gxrt_program_get_variant(program, 0, &variant));
    invalid(gxrt_program_get_command(program, 0, variant.command_count, &command),
            "no such index");
    invalid(gxrt_program_get_memory(program, 0, variant.buffer_count, &memory),
            "no such index");
    assert_null(gxrt_program_get_step(program, 0, variant.step_count));
    invalid(gxrt_program_get_argument(NULL, 0, &value), "gxrt_program_get_argument");
    invalid(gxrt_program_get_result(NULL, 0, &value), "gxrt_program_get_result");
    invalid(gxrt_program_get_variant(NULL, 0, &variant), "gxrt_program_get_variant");
    invalid(gxrt_program_get_command(NULL, 0, 0, &command), "gxrt_program_get_command");
    invalid(gxrt_program_get_memory(NULL, 0, 0, &memory), "gxrt_program_get_memory");
    invalid(gxrt_program_get_memory(program, 0, 0, NULL), "gxrt_program_get_memory");
    assert_null(gxrt_program_get_step(NULL, 0, 0));
}

/* --- worlds -------------------------------------------------------------------------------- */

static void test_worlds(void **state)
{
    static const char *const wrong[] = {"",          "file:",        "tcp://",
                                        "tcp://:1",  "tcp://h:",     "tcp:h:1",
                                        "bogus://x", "tcp://h:70000"};
    char unset;
    gxrt_world *world = (gxrt_world *)&unset; /* what callers have in it is not read */
    (void)state;
    invalid(gxrt_world_create(0, 1, NULL, NULL), "gxrt_world_create: NULL result");
    invalid(gxrt_world_create(0, 0, NULL, &world), "rank 0 of a world of 0 ranks");
    assert_null(world);
    invalid(gxrt_world_create(UINT32_MAX, UINT32_MAX, NULL, &world), "rank 4294967295");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        world = (gxrt_world *)&unset;
        gxrt_status st = gxrt_world_create(1, 2, wrong[i], &world);
        if (st != GXRT_INVALID_ARGUMENT)
            fail_msg("%s: %s", wrong[i], gxrt_status_name(st));
        assert_null(world);
    }
    invalid(gxrt_world_from_environment(NULL), "gxrt_world_from_environment: NULL");
    setenv("GXRT_RANK", "first", 1);
    setenv("GXRT_WORLD_SIZE", "2", 1);
    world = (gxrt_world *)&unset;
    invalid(gxrt_world_from_environment(&world), "GXRT_RANK=first");
    assert_null(world);
    unsetenv("GXRT_RANK");
    unsetenv("GXRT_WORLD_SIZE");
    gxrt_world_destroy(NULL);
    assert_int_equal(gxrt_world_rank(NULL), 0);
    assert_int_equal(gxrt_world_size(NULL), 1);
}

/* --- sessions ------------------------------------------------------------------------------ */

static void refused(const gxrt_session_options *options, gxrt_status want,
                    const char *says)
{
    gxrt_session *s = (gxrt_session *)&s;
    expect(gxrt_session_create(program, options, &s), want, says);
    assert_null(s);
}

/* What the options point to: functions that are NULL are found before they are needed. */
static void test_callbacks(void **state)
{
    gxrt_allocator allocators[3];
    gxrt_streams streams[3];
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        allocators[i] = refusing_allocator;
        streams[i] = refusing_streams;
    }
    allocators[0].struct_size = streams[0].struct_size = 0;
    allocators[1].allocate = NULL;
    streams[1].borrow = NULL;
    allocators[2].release = NULL;
    streams[2].give_back = NULL;
    for (size_t i = 0; i < 3; i++) {
        gxrt_session_options options = options_of(0);
        options.allocator = &allocators[i];
        refused(&options, GXRT_INVALID_ARGUMENT,
                "struct_size, allocate or release of the allocator is not set");
        options = options_of(0);
        options.streams = &streams[i];
        refused(&options, GXRT_INVALID_ARGUMENT,
                "struct_size, borrow or give_back of the streams is not set");
    }
    gxrt_session_options options = options_of(0);
    options.allocator = &refusing_allocator; /* taken, whatever they then say */
    options.streams = &refusing_streams;
    gxrt_session *s;
    gxrt_status st = gxrt_session_create(program, &options, &s);
    assert_true(st == GXRT_OK || st == GXRT_OUT_OF_MEMORY);
    gxrt_session_destroy(s);
    options = options_of(0);
    options.host_call_count = 1;
    refused(&options, GXRT_INVALID_ARGUMENT, "host_calls is NULL");
    gxrt_host_call call = {.struct_size = 0};
    options.host_calls = &call;
    refused(&options, GXRT_INVALID_ARGUMENT, "struct_size of its elements is not set");
    call.struct_size = sizeof call - 1;
    refused(&options, GXRT_INVALID_ARGUMENT, "struct_size of its elements is not set");
    call.struct_size = sizeof call;
    refused(&options, GXRT_INVALID_ARGUMENT, "lacks its name");
}

static void test_options(void **state)
{
    gxrt_session *s = NULL;
    (void)state;
    gxrt_session_options options = options_of(0);
    invalid(gxrt_session_create(NULL, &options, &s), "NULL program or result");
    invalid(gxrt_session_create(program, &options, NULL), "NULL program or result");
    for (size_t n = 0; n < sizeof options; n++) {
        options.struct_size = n;
        if (n == 0 || n % sizeof(size_t) != 0)
            refused(&options, GXRT_INVALID_ARGUMENT, "struct_size of the options");
    }
    static const char *const devices[] = {"",       "gpu", "emulator",
                                          "cuda:0", "EMU", "auto "};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        options = options_of(0);
        options.device = devices[i];
        refused(&options, GXRT_INVALID_ARGUMENT, "there is auto, cuda, emu");
    }
    options = options_of(0);
    options.device = "emu:sm_1";
    refused(&options, GXRT_WRONG_DEVICE, "nothing for the emulator of sm_1");
    options = options_of(0);
    options.device_count = 2;
    refused(&options, GXRT_INVALID_ARGUMENT, "needs 1 devices, not 2");
    options = options_of(0);
    options.devices = (const int[]){-1};
    refused(&options, GXRT_INVALID_ARGUMENT, "devices[0] is -1");
    options.devices = (const int[]){1 << 20};
    refused(&options, GXRT_WRONG_DEVICE, "(the last is CUDA device 1048576)");
    options = options_of(UINT32_MAX);
    refused(&options, GXRT_WRONG_DEVICE, "needs 4294967295 devices");
    gxrt_session_destroy(NULL);
}

static void test_option_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof no_time / sizeof *no_time; i++) {
        gxrt_session_options options = options_of(0);
        options.timeout_seconds = no_time[i];
        refused(&options, GXRT_INVALID_ARGUMENT, "timeout_seconds: ");
        options = options_of(0);
        options.max_seconds = no_time[i];
        refused(&options, GXRT_INVALID_ARGUMENT, "max_seconds: ");
    }
    const double times[] = {0, 1e-300, 1e300, (double)INFINITY};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        gxrt_session *s = NULL;
        gxrt_session_options options = options_of(0);
        options.timeout_seconds = times[i];
        options.max_seconds = i == 1 ? 60 : times[i];
        ok(gxrt_session_create(program, &options, &s));
        gxrt_session_destroy(s);
    }
    static const int wrong[] = {-1, INT_MIN, 65, 1 << 30};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        gxrt_session_options options = options_of(0);
        options.exact_emulated_devices = wrong[i];
        refused(&options, GXRT_INVALID_ARGUMENT,
                wrong[i] < 0 ? "exact_emulated_devices is -" : "has 1 to 64 devices");
    }
}

static void test_target(void **state)
{
    char target[16] = "none";
    (void)state;
    invalid(gxrt_device_target("emu", NULL, 16), "NULL target");
    invalid(gxrt_device_target("gpu", target, sizeof target), "there is auto, cuda");
    invalid(gxrt_device_target("emu", target, 0), "emu needs 4 bytes, 0 are given");
    invalid(gxrt_device_target("emu", target, 3), "emu needs 4 bytes, 3 are given");
    assert_string_equal(target, "none");
}

/* --- running ------------------------------------------------------------------------------- */

static void no_event(void *user, const gxrt_event *event)
{
    (void)user, (void)event;
}

static void test_runs(void **state)
{
    Fixture f;
    (void)state;
    fixture_init(&f);
    invalid(gxrt_execute(NULL, 1, &f.run), "NULL session or runs");
    invalid(gxrt_execute(f.session, 1, NULL), "NULL session or runs");
    invalid(gxrt_execute(f.session, 0, &f.run), "0 runs for a session with 1 devices");
    invalid(gxrt_execute(f.session, SIZE_MAX, &f.run), "runs for a session with 1");
    invalid(gxrt_profile(NULL, 1, &f.run, no_event, NULL), "NULL session or runs");
    invalid(gxrt_profile(f.session, 1, NULL, no_event, NULL), "NULL session or runs");
    invalid(gxrt_profile(f.session, 2, &f.run, no_event, NULL), "2 runs for a session");
    invalid(gxrt_profile(f.session, 1, &f.run, NULL, NULL), "gxrt_profile: NULL event");
    for (size_t n = 0; n < sizeof f.run; n++) {
        gxrt_run run = f.run;
        run.struct_size = n;
        invalid(gxrt_execute(f.session, 1, &run), "struct_size of the gxrt_run");
    }
    static const size_t counts[] = {0, 2, SIZE_MAX};
    for (size_t i = 0; i < 3; i++) {
        gxrt_run run = f.run;
        run.argument_count = counts[i];
        invalid(gxrt_execute(f.session, 1, &run), "arguments and 1 results were given");
        run = f.run;
        run.result_count = counts[i];
        invalid(gxrt_execute(f.session, 1, &run), "1 arguments and ");
    }
    gxrt_run run = f.run;
    run.arguments = NULL;
    invalid(gxrt_execute(f.session, 1, &run), "no arguments, but a count");
    run = f.run;
    run.results = NULL;
    invalid(gxrt_execute(f.session, 1, &run), "no results, but a count");
    fixture_deinit(&f);
}

static void wrong_buffer(Fixture *f, gxrt_buffer b, const char *says)
{
    gxrt_run run = f->run;
    run.arguments = &b;
    invalid(gxrt_execute(f->session, 1, &run), says);
    run = f->run;
    run.results = &b;
    invalid(gxrt_execute(f->session, 1, &run), says);
    expect_works(f);
}

static void refuse_after_good(Fixture *f, const gxrt_run *run, const char *says)
{
    expect_works(f);
    invalid(gxrt_execute(f->session, 1, run), says);
}

/* What the last run has had is looked at again where something differs. */
static void wrong_again(Fixture *f)
{
    for (int i = 0; i < 2; i++) {
        gxrt_run run = f->run;
        const gxrt_buffer *whole = i ? run.results : run.arguments;
        gxrt_buffer b = *whole;
        *(i ? &run.results : &run.arguments) = &b;
        b.bytes = BYTES - 1;
        refuse_after_good(f, &run, "has 3999 bytes, 4000 are needed");
        b = *whole;
        b.struct_size = sizeof b - 1;
        refuse_after_good(f, &run, "struct_size of its gxrt_buffer");
        b = *whole;
        b.dtype = "";
        refuse_after_good(f, &run, "the buffer holds ");
        b = *whole;
        b.dims = (const int64_t[]){COUNT, 1};
        b.rank = 2;
        refuse_after_good(f, &run, "the buffer has rank 2, not 1");
        b = *whole;
        b.data = (char *)b.data + 1;
        refuse_after_good(f, &run, "must be aligned");
    }
}

static void test_buffers(void **state)
{
    static char mine[BYTES + 512];
    Fixture f;
    (void)state;
    fixture_init(&f);
    gxrt_buffer b = f.argument;
    b.data = NULL;
    wrong_buffer(&f, b, "the buffer is at");
    b.data = mine + (512 - (uintptr_t)mine % 256);
    wrong_buffer(&f, b, "is no memory of a device");
    b = f.argument;
    b.data = (char *)b.data + 1;
    wrong_buffer(&f, b, "must be aligned");
    b = f.argument;
    b.bytes = BYTES - 1;
    wrong_buffer(&f, b, "the buffer has 3999 bytes, 4000 are needed");
    b = f.argument;
    b.dtype = "";
    wrong_buffer(&f, b, "the buffer holds ");
    b = f.argument;
    b.dims = (const int64_t[]){COUNT};
    b.rank = UINT32_MAX;
    wrong_buffer(&f, b, "the buffer has rank 4294967295, not 1");
    b.rank = 1;
    b.dims = (const int64_t[]){-COUNT};
    wrong_buffer(&f, b, "dimension 0 of the buffer is -1000");
    b = f.argument;
    b.struct_size = sizeof b - 1;
    wrong_buffer(&f, b, "struct_size of its gxrt_buffer");
    wrong_again(&f);
    gxrt_buffer gone = f.argument;
    ok(gxrt_allocate(f.session, 0, BYTES, &gone.data));
    gxrt_free(f.session, 0, gone.data);
    wrong_buffer(&f, gone, "is no memory of a device"); /* given back */
    fixture_deinit(&f);
}

/* Buffers of a session on the same device do; those of another device do not. */
static void test_other_session(void **state)
{
    static float values[COUNT];
    Fixture f;
    gxrt_session *other;
    (void)state;
    fixture_init(&f);
    gxrt_session_options options = options_of(2);
    ok(gxrt_session_create(program, &options, &other));
    gxrt_buffer b = f.argument;
    ok(gxrt_allocate(other, 1, BYTES, &b.data));
    wrong_buffer(&f, b, "the buffer is on CUDA device 1, the run on 0");
    gxrt_free(f.session, 0, b.data); /* it is no memory of that device: it stays */
    ok(gxrt_copy_to_device(other, 1, b.data, values, BYTES));
    gxrt_free(other, 1, b.data);
    ok(gxrt_allocate(other, 0, BYTES, &b.data));
    ok(gxrt_copy_to_device(other, 0, b.data, values, BYTES));
    gxrt_session_destroy(other); /* memory outlives the session */
    f.run.arguments = &b;
    expect_works(&f);
    gxrt_free(f.session, 0, b.data);
    f.run.arguments = &f.argument;
    fixture_deinit(&f);
}

/* --- tuning and gathering ------------------------------------------------------------------ */

static int never_agrees(void *user, const char *dtype, const void *wanted,
                        const void *found, size_t bytes)
{
    (void)dtype, (void)wanted, (void)found, (void)bytes;
    ++*(int *)user;
    return 0;
}

static void count_trial(void *user, const gxrt_trial *trial)
{
    (void)trial;
    ++*(int *)user;
}

static void test_tune(void **state)
{
    static const char wanted[] =
        "gxrt_tune: a session and a tuner with agree and trial are wanted";
    int calls = 0;
    const gxrt_tuner right = {.struct_size = sizeof right,
                              .agree = never_agrees,
                              .trial = count_trial,
                              .user = &calls};
    Fixture f;
    (void)state;
    fixture_init(&f);
    invalid(gxrt_tune(NULL, 1, &f.run, &right), wanted);
    invalid(gxrt_tune(f.session, 1, &f.run, NULL), wanted);
    invalid(gxrt_tune(f.session, 1, NULL, &right), "NULL session or runs");
    static const size_t counts[] = {0, 2, SIZE_MAX};
    for (size_t i = 0; i < 3; i++)
        invalid(gxrt_tune(f.session, counts[i], &f.run, &right), "runs for a session");
    for (size_t n = 0; n < sizeof right; n++) {
        gxrt_tuner tuner = right;
        tuner.struct_size = n;
        invalid(gxrt_tune(f.session, 1, &f.run, &tuner), wanted);
    }
    gxrt_tuner tuner = right;
    tuner.agree = NULL;
    invalid(gxrt_tune(f.session, 1, &f.run, &tuner), wanted);
    tuner = right;
    tuner.trial = NULL;
    invalid(gxrt_tune(f.session, 1, &f.run, &tuner), wanted);
    static const uint32_t shards[][2] = {{1, 1}, {2, 1}, {UINT32_MAX, UINT32_MAX}};
    for (size_t i = 0; i < 3; i++) {
        tuner = right;
        tuner.shard = shards[i][0], tuner.shards = shards[i][1];
        invalid(gxrt_tune(f.session, 1, &f.run, &tuner), wanted);
    }
    gxrt_run run = f.run;
    run.arguments = NULL;
    invalid(gxrt_tune(f.session, 1, &run, &right), "no arguments, but a count");
    expect_works(&f);
    ok(gxrt_tune(f.session, 1, &f.run, &right)); /* it has nothing to try */
    assert_int_equal(calls, 0);
    expect_works(&f);
    fixture_deinit(&f);
}

static void test_tune_graphs(void **state)
{
    int calls = 0;
    const gxrt_tuner tuner = {.struct_size = sizeof tuner,
                              .agree = never_agrees,
                              .trial = count_trial,
                              .user = &calls};
    const gxrt_run run = {.struct_size = sizeof run};
    gxrt_session_options options = options_of(0);
    gxrt_session *s;
    (void)state;
    options.graphs = 1;
    ok(gxrt_session_create(program, &options, &s));
    invalid(gxrt_tune(s, 1, &run, &tuner), "the session runs CUDA graphs");
    gxrt_session_destroy(s);
}

static void count_bytes(void *user, uint32_t rank, const void *bytes, size_t size)
{
    (void)bytes;
    *(size_t *)user += size + rank;
}

static void test_gather(void **state)
{
    static const char words[] = "NULL argument";
    gxrt_world *one, *two;
    size_t got = 0;
    (void)state;
    ok(gxrt_world_create(0, 1, NULL, &one));
    ok(gxrt_world_create(1, 2, NULL, &two));
    gxrt_world *worlds[] = {NULL, one, two};
    for (size_t i = 0; i < 3; i++) {
        gxrt_world *w = worlds[i];
        invalid(gxrt_world_gather(w, "x", 1, 1, NULL, &got), words);
        invalid(gxrt_world_gather(w, NULL, 1, 1, count_bytes, &got), words);
        invalid(gxrt_world_gather(w, NULL, SIZE_MAX, 1, count_bytes, &got), words);
        for (size_t k = 0; k < sizeof no_time / sizeof *no_time; k++)
            invalid(gxrt_world_gather(w, "x", 1, no_time[k], count_bytes, &got),
                    "are no time to wait");
    }
    invalid(gxrt_world_gather(two, "x", 1, 1, count_bytes, &got), "has no store");
    assert_int_equal(got, 0);
    ok(gxrt_world_gather(one, NULL, 0, 0, count_bytes, &got)); /* waits for nobody */
    ok(gxrt_world_gather(NULL, "x", 1, (double)INFINITY, count_bytes, &got));
    assert_int_equal(got, 1);
    gxrt_world_destroy(one);
    gxrt_world_destroy(two);
}

/* --- memory -------------------------------------------------------------------------------- */

static void test_memory(void **state)
{
    static char mine[64];
    static const size_t devices[] = {1, 2, SIZE_MAX};
    void *at = mine;
    Fixture f;
    (void)state;
    fixture_init(&f);
    gxrt_session *s = f.session;
    for (size_t i = 0; i < 3; i++) {
        invalid(gxrt_allocate(s, devices[i], 8, &at), "gxrt_allocate: no session, or");
        assert_null(at);
        invalid(gxrt_copy_to_device(s, devices[i], at, mine, 8), "it has no device");
        invalid(gxrt_copy_to_host(s, devices[i], mine, at, 8), "it has no device");
        invalid(gxrt_synchronize(s, devices[i]), "gxrt_synchronize: no session, or");
        gxrt_free(s, devices[i], f.argument.data);
    }
    invalid(gxrt_allocate(NULL, 0, 8, &at), "gxrt_allocate: no session");
    invalid(gxrt_allocate(s, 0, 8, NULL), "gxrt_allocate: NULL result");
    invalid(gxrt_copy_to_device(NULL, 0, f.argument.data, mine, 8), "no session");
    invalid(gxrt_copy_to_host(NULL, 0, mine, f.argument.data, 8), "no session");
    invalid(gxrt_synchronize(NULL, 0), "gxrt_synchronize: no session");
    gxrt_free(NULL, 0, f.argument.data);
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 4095, SIZE_MAX / 2, SIZE_MAX / 4};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        expect(gxrt_allocate(s, 0, sizes[i], &at), GXRT_OUT_OF_MEMORY, "too little");
        assert_null(at);
    }
    ok(gxrt_allocate(s, 0, 0, &at));
    assert_non_null(at);
    gxrt_free(s, 0, at);
    fixture_deinit(&f);
}

static void test_copies(void **state)
{
    static char mine[BYTES];
    Fixture f;
    (void)state;
    fixture_init(&f);
    gxrt_session *s = f.session;
    void *device = f.argument.data;
    invalid(gxrt_copy_to_device(s, 0, NULL, mine, 8), "NULL memory");
    invalid(gxrt_copy_to_device(s, 0, device, NULL, 8), "NULL memory");
    invalid(gxrt_copy_to_host(s, 0, NULL, device, 8), "NULL memory");
    invalid(gxrt_copy_to_host(s, 0, mine, NULL, 8), "NULL memory");
    ok(gxrt_copy_to_device(s, 0, NULL, NULL, 0));
    ok(gxrt_copy_to_host(s, 0, NULL, NULL, 0));
    static const size_t sizes[] = {BYTES + 1, SIZE_MAX / 2, SIZE_MAX};
    for (size_t i = 0; i < 3; i++) {
        invalid(gxrt_copy_to_device(s, 0, device, mine, sizes[i]), "gxrt_copy_to_device");
        invalid(gxrt_copy_to_host(s, 0, mine, device, sizes[i]), "gxrt_copy_to_host");
    }
    invalid(gxrt_copy_to_device(s, 0, (void *)(uintptr_t)64, mine, 8), "no memory");
    invalid(gxrt_copy_to_host(s, 0, mine, (void *)(uintptr_t)64, 8), "no memory");
    invalid(gxrt_copy_to_host(s, 0, mine, mine, 8), "no memory");
    void *gone;
    ok(gxrt_allocate(s, 0, 8, &gone));
    gxrt_free(s, 0, gone);
    gxrt_free(s, 0, gone); /* twice */
    invalid(gxrt_copy_to_device(s, 0, gone, mine, 8), "no memory");
    gxrt_free(s, 0, mine);
    gxrt_free(s, 0, (char *)device + 256);
    gxrt_free(s, 0, NULL);
    memset(mine, 0, sizeof mine);
    ok(gxrt_copy_to_device(s, 0, device, mine, BYTES));
    fixture_deinit(&f);
}

/* --- threads and processes ----------------------------------------------------------------- */

static void *run_beside(void *done)
{
    static float zeros[COUNT];
    float *values = malloc(BYTES);
    gxrt_session_options options = options_of(0);
    gxrt_buffer b[2] = {{.struct_size = sizeof *b, .bytes = BYTES}, {0}};
    gxrt_session *s = NULL;
    b[1] = b[0];
    gxrt_run run = {sizeof run, NULL, &b[0], 1, &b[1], 1};
    bool good = values && gxrt_session_create(program, &options, &s) == GXRT_OK &&
                gxrt_allocate(s, 0, BYTES, &b[0].data) == GXRT_OK &&
                gxrt_allocate(s, 0, BYTES, &b[1].data) == GXRT_OK;
    for (int i = 0; i < 4 && good; i++) {
        good = gxrt_copy_to_device(s, 0, b[0].data, zeros, BYTES) == GXRT_OK &&
               gxrt_execute(s, 3, &run) == GXRT_INVALID_ARGUMENT && /* its own words */
               strstr(gxrt_last_error(), "3 runs for a session") &&
               gxrt_execute(s, 1, &run) == GXRT_OK && gxrt_synchronize(s, 0) == GXRT_OK &&
               gxrt_copy_to_host(s, 0, values, b[1].data, BYTES) == GXRT_OK &&
               values[COUNT - 1] == 1 + TRIPS;
    }
    gxrt_free(s, 0, b[0].data);
    gxrt_free(s, 0, b[1].data);
    gxrt_session_destroy(s);
    free(values);
    *(bool *)done = good;
    return NULL;
}

/* Sessions of one program in several threads, and the words of each thread's own errors. */
static void test_threads(void **state)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    bool done[THREADS] = {false};
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_beside, &done[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(done[i]);
    }
}

static bool says(gxrt_status status)
{
    return status == GXRT_INVALID_ARGUMENT && strstr(gxrt_last_error(), "forked") != NULL;
}

/* What a process does with a session of the one that it was forked from; 0 if all is refused. */
static int use_forked(Fixture *f)
{
    char byte = 0;
    void *at;
    gxrt_session *s;
    gxrt_session_options options = options_of(0);
    const gxrt_tuner tuner = {
        .struct_size = sizeof tuner, .agree = never_agrees, .trial = count_trial};
    if (!says(gxrt_execute(f->session, 1, &f->run)) ||
        !says(gxrt_profile(f->session, 1, &f->run, no_event, NULL)) ||
        !says(gxrt_tune(f->session, 1, &f->run, &tuner)) ||
        !says(gxrt_allocate(f->session, 0, 8, &at)) ||
        !says(gxrt_copy_to_device(f->session, 0, f->argument.data, &byte, 1)) ||
        !says(gxrt_copy_to_host(f->session, 0, &byte, f->argument.data, 1)) ||
        !says(gxrt_synchronize(f->session, 0)))
        return 1;
    if (!says(gxrt_session_create(program, &options, &s)) || s)
        return 2;
    gxrt_session_info info = {.struct_size = sizeof info}; /* needs no device */
    if (gxrt_session_get_info(f->session, &info) != GXRT_OK)
        return 3;
    gxrt_free(f->session, 0, f->argument.data);
    gxrt_session_destroy(f->session);
    return 0;
}

static void test_fork(void **state)
{
    int status;
    Fixture f;
    gxrt_session *second;
    (void)state;
    fixture_init(&f);
    gxrt_session_options options = options_of(2); /* with threads of its own */
    ok(gxrt_session_create(program, &options, &second));
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        status = use_forked(&f);
        gxrt_session_destroy(second);
        gxrt_program_destroy(program);
        _exit(status);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    gxrt_session_destroy(second);
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),          cmocka_unit_test(test_open),
        cmocka_unit_test(test_option_numbers), cmocka_unit_test(test_no_plain_file),
        cmocka_unit_test(test_queries),        cmocka_unit_test(test_indices),
        cmocka_unit_test(test_worlds),         cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_options),        cmocka_unit_test(test_target),
        cmocka_unit_test(test_runs),           cmocka_unit_test(test_buffers),
        cmocka_unit_test(test_other_session),  cmocka_unit_test(test_memory),
        cmocka_unit_test(test_copies),         cmocka_unit_test(test_threads),
        cmocka_unit_test(test_fork),           cmocka_unit_test(test_tune),
        cmocka_unit_test(test_tune_graphs),    cmocka_unit_test(test_gather),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
