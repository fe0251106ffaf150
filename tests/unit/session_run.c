/* Sessions on fake devices: commands, streams, replicas, host calls. Any call can be told to fail:
 * then nothing may leak. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/fake_driver.h"
#include "tests/unit/shared/program.h"

static gxrt_status run_loop(gxrt_session *s, int32_t out[12])
{
    int32_t in[12];
    for (int i = 0; i < 12; i++)
        in[i] = i;
    const size_t twelve = 12;
    return run_program(s, 1, (int32_t *[]){in}, &twelve, 1, &out, &twelve, NULL);
}

static void test_loop(void **state)
{
    (void)state;
    Program p = loop_program();
    gxrt_session *s = open_session(&p);
    int32_t out[12];
    assert_int_equal(run_loop(s, out), GXRT_OK);
    const int32_t want[12] = {77, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 2};
    assert_memory_equal(out, want, sizeof want);
    assert_string_equal(fake_log, "add add add ");
    gxrt_session_destroy(s);
    close_program(&p);
}

static void copy_bytes(Maker *m, uint32_t to, uint64_t at, uint32_t from,
                       uint64_t from_at, uint64_t bytes)
{
    PlanArg copy[2] = {writes(maker_slice(m, to, at, bytes)),
                       reads(maker_slice(m, from, from_at, bytes))};
    maker_command(m, PLAN_COPY, 0, copy, 2);
}

static uint32_t allocation_of(const Maker *m, uint32_t slice)
{
    return m->b.slices[slice].allocation;
}

/* Copies of one byte each: the word is turned round. One that fails is named. */
static void test_bytes(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    uint32_t in = maker_value(&m, false, 1, PLAN_NONE, PLAN_ALIAS_NONE),
             out = maker_value(&m, true, 1, PLAN_NONE, PLAN_ALIAS_NONE);
    for (uint64_t i = 0; i < 4; i++)
        copy_bytes(&m, allocation_of(&m, out), 3 - i, allocation_of(&m, in), i, 1);
    Program p = open_program(&m, "", 0);
    gxrt_session *s = open_session(&p);
    int32_t x = 0x01020304, y = 0;
    const size_t one = 1;
    assert_int_equal(
        run_program(s, 1, (int32_t *[]){&x}, &one, 1, (int32_t *[]){&y}, &one, NULL),
        GXRT_OK);
    assert_int_equal(y, 0x04030201);
    gxrt_session_destroy(s);
    bool is_named = false;
    gxrt_status st = GXRT_DEVICE_FAILED;
    for (int call = 1; st != GXRT_OK; call++) {
        s = open_session(&p);
        fake_calls = 0;
        fake_fail_at = call;
        st = run_program(s, 1, (int32_t *[]){&x}, &one, 1, (int32_t *[]){&y}, &one, NULL);
        fake_fail_at = 0;
        is_named |= st != GXRT_OK && strstr(gxrt_last_error(), "in command 2 (copy) of");
        gxrt_session_destroy(s);
    }
    assert_true(is_named);
    close_program(&p);
}

static int undefined; /* pieces of memory that have no contents any more */

static CUresult undefine(CUdeviceptr at, size_t bytes, CUstream stream)
{
    (void)at, (void)stream;
    assert_int_equal(bytes, 48);
    undefined++;
    return CUDA_SUCCESS;
}

/* An emulator is told of each temporary allocation, and of no more than there are: the records of slices that follow
 * look like one here. */
static void test_undefined(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    enum { TEMPS = 2 }; /* PLAN_TEMP is the argument's number, too */
    for (uint32_t i = 0; i < TEMPS; i++)
        maker_allocation(&m, PLAN_TEMP, 0, 48);
    uint32_t source = maker_slice(&m, PLAN_TEMP, 16, 4);
    uint32_t in = maker_value(&m, false, 8, PLAN_NONE, PLAN_ALIAS_NONE),
             out = maker_value(&m, true, 1, PLAN_NONE, PLAN_ALIAS_NONE);
    assert_int_equal(m.b.slices[in].allocation, PLAN_TEMP);
    maker_allocation(&m, PLAN_TEMP, 0, 0); /* has no contents to lose */
    maker_command(&m, PLAN_COPY, 0, (PlanArg[]){writes(out), reads(source)}, 2);
    Program p = open_program(&m, "", 0);
    gxrt_session *s = open_session(&p);
    CudaApi emulator = fake_api;
    emulator.emulated = true;
    emulator.emu_undefine = undefine;
    s->cuda = &emulator;
    int32_t x[8] = {[4] = 5}, y = 0;
    const size_t one = 1, eight = 8;
    undefined = 0;
    assert_int_equal(
        run_program(s, 1, (int32_t *[]){x}, &eight, 1, (int32_t *[]){&y}, &one, NULL),
        GXRT_OK);
    assert_int_equal(y, 5);
    assert_int_equal(undefined, TEMPS);
    s->cuda = &fake_api;
    gxrt_session_destroy(s);
    close_program(&p);
}

static void run_image(Program *p, uint32_t grid, uint32_t block)
{
    gxrt_session *s = open_session(p);
    int32_t x = 2, y = 0;
    const size_t one = 1;
    assert_int_equal(
        run_program(s, 1, (int32_t *[]){&x}, &one, 1, (int32_t *[]){&y}, &one, NULL),
        GXRT_OK);
    assert_int_equal(y, 7);
    assert_int_equal(fake_grid, grid);
    assert_int_equal(fake_block, block);
    gxrt_session_destroy(s);
}

/* An image is started with one thread in each of its own blocks; an older driver takes the cubin's kernel. */
static void test_image(void **state)
{
    (void)state;
    Program p = image_program(false);
    fake_driver = 12090;
    run_image(&p, 1, 32);
    fake_driver = 13000;
    run_image(&p, 7, 1);
    close_program(&p);
    Program damaged = image_program(true);
    gxrt_session *s;
    gxrt_session_options options = {.struct_size = sizeof options};
    assert_int_equal(session_create(damaged.program, &options, &fake_api, NULL, NULL, &s),
                     GXRT_INVALID_FILE);
    assert_non_null(strstr(gxrt_last_error(), "images of kernels are damaged"));
    close_program(&damaged);
}

static Program portable_program(void)
{
    static const char ptx[] = ".version 9.0";
    size_t size;
    Program p = {.file = portable_file(ptx, sizeof ptx, &size)};
    assert_int_equal(gxrt_program_open_memory(p.file, size, &p.program), GXRT_OK);
    return p;
}

static void run_portable(int sm, int driver, uint32_t grid, uint32_t block)
{
    Program p = portable_program();
    fake_sm = sm;
    fake_driver = driver;
    run_image(&p, grid, block);
    close_program(&p);
    fake_sm = 90;
    fake_driver = 13000;
}

static void refuse_portable(int sm, const char *ptx, const char *message)
{
    size_t size;
    Program p = {.file = portable_file(ptx, strlen(ptx) + 1, &size)};
    gxrt_session_options options = {.struct_size = sizeof options};
    gxrt_session *s;
    assert_int_equal(gxrt_program_open_memory(p.file, size, &p.program), GXRT_OK);
    fake_sm = sm;
    assert_int_equal(session_create(p.program, &options, &fake_api, NULL, NULL, &s),
                     GXRT_WRONG_DEVICE);
    assert_non_null(strstr(gxrt_last_error(), message));
    close_program(&p);
    fake_sm = 90;
}

/* A GPU newer than the cubin takes the PTX, and bytecode where the driver has a compiler for it; any other the cubin
 * and its images. What the compiler says of PTX that it refuses is in the message. */
static void test_portable(void **state)
{
    (void)state;
    run_portable(86, 13010, 7, 1);
    run_portable(90, 13000, 1, 32);
    run_portable(90, 13010, 9, 1);
    refuse_portable(90, ".version 9.0\nwrong", "ptxas: line 2: no such word");
    refuse_portable(75, ".version 9.0", "holds sm_80, this is sm_75");
    Program cut = {0};
    size_t size;
    const size_t lengths[] = {12, 14}; /* without a zero; with two */
    for (size_t i = 0; i < 2; i++) {
        cut.file = portable_file(".version 9.0\0", lengths[i], &size);
        assert_int_equal(gxrt_program_open_memory(cut.file, size, &cut.program),
                         GXRT_INVALID_FILE);
        assert_non_null(strstr(gxrt_last_error(), "an image for sm_80 is cut off"));
        free(cut.file);
    }
}

static void test_predicate(void **state)
{
    (void)state;
    Program p = predicate_program();
    gxrt_session *s = open_session(&p);
    int32_t x = 2;
    int32_t out[2] = {0, 0};
    const size_t one[2] = {1, 1};
    int32_t *in[1] = {&x};
    int32_t *outs[2] = {&out[0], &out[1]};
    assert_int_equal(run_program(s, 1, in, one, 2, outs, one, NULL), GXRT_OK);
    assert_int_equal(out[0], 5);   /* the loop */
    assert_int_equal(out[1], 405); /* 5 is no branch: the last one */
    assert_int_equal(x, 2);        /* not donated, so kept */
    const int shared[2] = {0, -1};
    assert_int_equal(run_program(s, 1, in, one, 2, outs, one, shared), GXRT_OK);
    assert_int_equal(x, 5);
    gxrt_session_destroy(s);
    close_program(&p);
}

/* Every call fails once, in opening, running and closing: an error with text, unless the program has another kernel
 * for one that cannot be loaded, and no leak. */
static void fail_every_call(Program (*make)(void), gxrt_status (*use)(gxrt_session *),
                            bool has_another)
{
    Program p = make();
    int n = 1;
    for (bool failed = true; failed; n++) {
        gxrt_session *s = NULL;
        fake_calls = fake_failures = 0;
        fake_fail_at = n;
        gxrt_session_options options = {.struct_size = sizeof options};
        gxrt_status st = session_create(p.program, &options, &fake_api, NULL, NULL, &s);
        if (st == GXRT_OK)
            st = use(s);
        failed = fake_calls >= n;
        if (!has_another)
            assert_true(fake_failures == 0 || st != GXRT_OK); /* nobody loses it */
        if (st != GXRT_OK)
            assert_true(strlen(gxrt_last_error()) > 10);
        gxrt_session_destroy(s);
        assert_int_equal(fake_live, 0);
        assert_int_equal(fake_current, -1);
    }
    fake_fail_at = 0;
    assert_true(n > 20);
    close_program(&p);
}

static gxrt_status use_loop(gxrt_session *s)
{
    int32_t out[12];
    return run_loop(s, out);
}

static gxrt_status use_predicate(gxrt_session *s)
{
    int32_t x = 2;
    int32_t out[2];
    const size_t one[2] = {1, 1};
    return run_program(s, 1, (int32_t *[]){&x}, one, 2, (int32_t *[]){&out[0], &out[1]},
                       one, NULL);
}

static gxrt_status use_addition(gxrt_session *s)
{
    int32_t x = 2, y = 0;
    const size_t one = 1;
    return run_program(s, 1, (int32_t *[]){&x}, &one, 1, (int32_t *[]){&y}, &one, NULL);
}

/* Stream 1 adds to the argument asynchronously while stream 0 adds too; slot 0 joins them. */
static Program stream_program(void)
{
    Maker m;
    maker_init(&m);
    m.b.info[0].signal_count = 1;
    m.b.info[0].async_count = 1;
    plan_add_streams(&m.b, &(PlanStream){.kind = PLAN_STREAM_COLLECTIVE, .priority = 1},
                     1);
    uint32_t in = maker_value(&m, false, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t a = maker_value(&m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t b = maker_value(&m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t start = maker_command(&m, PLAN_ASYNC_START, 0, NULL, 0);
    uint32_t child = maker_add(&m, in, a, 4, immediate(1));
    m.b.commands[child].stream = 1;
    plan_close(&m.b, start);
    maker_add(&m, in, b, 4, immediate(2));
    maker_command(&m, PLAN_ASYNC_DONE, 0, NULL, 0);
    uint32_t giver = maker_add(&m, a, a, 4, immediate(3));
    m.b.commands[giver].signal = 0;
    uint32_t taker = maker_add(&m, b, b, 4, immediate(4));
    m.b.commands[taker].stream = 1;
    m.b.commands[taker].waits = plan_add_refs(&m.b, (uint32_t[]){0}, 1);
    m.b.commands[taker].wait_count = 1;
    return open_program(&m, "", 0);
}

static gxrt_status use_streams(gxrt_session *s)
{
    int32_t in[4] = {0};
    int32_t a[4];
    int32_t b[4];
    const size_t four[2] = {4, 4};
    gxrt_status st =
        run_program(s, 1, (int32_t *[]){in}, four, 2, (int32_t *[]){a, b}, four, NULL);
    if (st == GXRT_OK) {
        assert_int_equal(a[0], 4);
        assert_int_equal(b[0], 6);
    }
    return st;
}

/* rows: collectives.H3 (start: the other stream waits for this one; done: this one waits for
 * the end of what was started, and for nothing else) */
static void test_streams(void **state)
{
    (void)state;
    Program p = stream_program();
    gxrt_session *s = open_session(&p);
    assert_int_equal(use_streams(s), GXRT_OK);
    assert_string_equal(fake_log,
                        "record wait "     /* fork */
                        "record wait add " /* async start: stream 1 waits for stream 0 */
                        "record add "      /* started; main goes on */
                        "wait "            /* done */
                        "add record "      /* gives the signal */
                        "wait add "        /* takes it */
                        "record wait ");   /* join */
    gxrt_session_destroy(s);
    close_program(&p);
}

/* Lends `left` streams, and takes them back. */
static int left;

static int borrow(void *user, int device, int high_priority, void **out)
{
    assert_int_equal(device, 0);
    assert_int_equal(high_priority, 1); /* the plan's stream is one of collectives */
    *out = left > 0 ? user : NULL;
    return left-- > 0 ? 0 : 1;
}

static void give_back(void *user, int device, void *stream)
{
    assert_int_equal(device, 0);
    assert_ptr_equal(user, stream);
    left++;
}

/* rows: collectives.H4 (nobody lends a stream: all work runs on the caller's, the results are
 * the same, and nothing waits) */
static void test_no_stream_lent(void **state)
{
    (void)state;
    Program p = stream_program();
    int lent;
    gxrt_streams lender = {sizeof lender, &lent, borrow, give_back};
    gxrt_session_options options = {.struct_size = sizeof options, .streams = &lender};
    for (int streams = 0; streams < 2; streams++) {
        gxrt_session *s;
        left = streams;
        assert_int_equal(session_create(p.program, &options, &fake_api, NULL, NULL, &s),
                         GXRT_OK);
        fake_log[0] = 0;
        assert_int_equal(use_streams(s), GXRT_OK);
        if (streams == 0)
            assert_string_equal(fake_log, "add add add record add ");
        else
            assert_non_null(strstr(fake_log, "record wait record wait add "));
        assert_ptr_equal(s->devices[0].streams[1], streams ? (void *)&lent : NULL);
        gxrt_session_destroy(s);
        assert_int_equal(left, streams ? 1 : -1);
    }
    close_program(&p);
}

static void no_event(void *user, const gxrt_event *event)
{
    (void)user, (void)event;
}

static gxrt_status measure_streams(gxrt_session *s, bool tunes)
{
    static const gxrt_tuner tuner = {
        .struct_size = sizeof tuner, .agree = accept_results, .trial = ignore_trial};
    gxrt_buffer b[3];
    gxrt_status st = GXRT_OK;
    for (size_t i = 0; i < 3; i++) {
        b[i] = (gxrt_buffer){.struct_size = sizeof *b, .bytes = 16};
        st = st == GXRT_OK ? gxrt_allocate(s, 0, 16, &b[i].data) : st;
    }
    const gxrt_run run = {sizeof run, NULL, b, 1, b + 1, 2};
    if (st == GXRT_OK) {
        memset(b[0].data, 0, 16);
        st = tunes ? gxrt_tune(s, 1, &run, &tuner)
                   : gxrt_profile(s, 1, &run, no_event, NULL);
    }
    int stop = fake_fail_at;
    fake_fail_at = 0;
    for (size_t i = 0; i < 3; i++)
        gxrt_free(s, 0, b[i].data);
    fake_fail_at = stop;
    return st;
}

/* Measuring does not hide that a command before has failed. */
static gxrt_status profile_streams(gxrt_session *s)
{
    return measure_streams(s, false);
}

static gxrt_status tune_streams(gxrt_session *s)
{
    return measure_streams(s, true);
}

static void test_fail_every_call(void **state)
{
    (void)state;
    fail_every_call(loop_program, use_loop, false);
    fail_every_call(predicate_program, use_predicate, false);
    fail_every_call(stream_program, use_streams, false);
    fail_every_call(stream_program, profile_streams, false);
    fail_every_call(stream_program, tune_streams, false);
    fake_driver = 13010; /* that compiles PTX and bytecode */
    fail_every_call(portable_program, use_addition, true);
    fake_driver = 13000;
}

/* Two replicas: each device adds its own replica id. */
static void test_replicas(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    uint32_t in = maker_value(&m, false, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t out = maker_value(&m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    maker_add(&m, in, out, 4, (PlanArg){.tag = PLAN_ARG_REPLICA});
    Program p = open_program(&m, "", 0);
    gxrt_session *s;
    gxrt_session_options options = {.struct_size = sizeof options, .replicas = 3};
    assert_int_equal(session_create(p.program, &options, &fake_api, NULL, NULL, &s),
                     GXRT_OK);
    gxrt_buffer a[3];
    gxrt_buffer r[3];
    gxrt_run runs[3];
    for (size_t d = 0; d < 3; d++) {
        a[d] = r[d] = (gxrt_buffer){.struct_size = sizeof *a, .bytes = 16};
        assert_int_equal(gxrt_allocate(s, d, 16, &a[d].data), GXRT_OK);
        assert_int_equal(gxrt_allocate(s, d, 16, &r[d].data), GXRT_OK);
        const int32_t x[4] = {10, 20, 30, 40};
        assert_int_equal(gxrt_copy_to_device(s, d, a[d].data, x, 16), GXRT_OK);
        runs[d] = (gxrt_run){sizeof *runs, NULL, &a[d], 1, &r[d], 1};
    }
    for (int times = 0; times < 100; times++)
        assert_int_equal(gxrt_execute(s, 3, runs), GXRT_OK);
    for (size_t d = 0; d < 3; d++) {
        int32_t y[4];
        assert_int_equal(gxrt_copy_to_host(s, d, y, r[d].data, 16), GXRT_OK);
        assert_int_equal(y[3], 40 + (int32_t)d);
    }
    runs[1].arguments = &a[2];
    assert_int_equal(gxrt_execute(s, 3, runs), GXRT_INVALID_ARGUMENT);
    assert_non_null(strstr(gxrt_last_error(), "is on CUDA device 2, the run on 1"));
    runs[1].arguments = &a[1];
    runs[1].stream = CU_STREAM_PER_THREAD; /* the device's thread has another one */
    assert_int_equal(gxrt_execute(s, 3, runs), GXRT_INVALID_ARGUMENT);
    assert_string_equal(
        gxrt_last_error(),
        "gxrt_execute: device 1: CU_STREAM_PER_THREAD is another stream in the threads "
        "of a session with several devices or collectives: give a stream that you have "
        "made");
    runs[1].stream = NULL;
    fake_fail_at =
        fake_calls + 1; /* on a thread of the session; the caller's has the words */
    assert_int_not_equal(gxrt_execute(s, 3, runs), GXRT_OK);
    assert_null(strstr(gxrt_last_error(), "is on CUDA device 2"));
    fake_fail_at = 0;
    for (size_t d = 0; d < 3; d++) {
        gxrt_free(s, d, a[d].data);
        gxrt_free(s, d, r[d].data);
    }
    gxrt_session_destroy(s);
    close_program(&p);
}

/* Memory of the host that was pinned while device 0 was current, for which the driver names that device: any device
 * may use it. */
static void test_pinned(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    uint32_t in = maker_value(&m, false, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t out = maker_value(&m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    m.b.allocations[m.b.slices[in].allocation].colour = PLAN_HOST_MEMORY;
    maker_command(&m, PLAN_COPY, 0, (PlanArg[]){writes(out), reads(in)}, 2);
    Program p = open_program(&m, "", 0);
    gxrt_session *s;
    gxrt_session_options options = {.struct_size = sizeof options, .replicas = 2};
    assert_int_equal(session_create(p.program, &options, &fake_api, NULL, NULL, &s),
                     GXRT_OK);
    const int32_t x[4] = {10, 20, 30, 40};
    gxrt_buffer a[2], r[2];
    gxrt_run runs[2];
    for (size_t d = 0; d < 2; d++) {
        a[d] = r[d] = (gxrt_buffer){.struct_size = sizeof *a, .bytes = 16};
        assert_int_equal(gxrt_allocate(s, 0, 16, &a[d].data), GXRT_OK);
        assert_int_equal(gxrt_allocate(s, d, 16, &r[d].data), GXRT_OK);
        memcpy(a[d].data, x, sizeof x);
        runs[d] = (gxrt_run){sizeof *runs, NULL, &a[d], 1, &r[d], 1};
    }
    assert_int_equal(gxrt_execute(s, 2, runs), GXRT_OK);
    assert_memory_equal(r[1].data, x, sizeof x);
    for (size_t d = 0; d < 2; d++) {
        gxrt_free(s, 0, a[d].data);
        gxrt_free(s, d, r[d].data);
    }
    gxrt_session_destroy(s);
    close_program(&p);
}

/* A value's branch is the last one if it has none of its own; of a predicate, true is the first. */
static void test_choices(void **state)
{
    static const struct {
        uint32_t bytes, branches;
        int32_t selector, branch;
    } rows[] = {{4, 3, 0, 0},  {4, 3, 1, 1}, {4, 3, 2, 2}, {4, 3, 3, 2},
                {4, 3, -1, 2}, {1, 2, 1, 0}, {1, 2, 0, 1}, {1, 2, 255, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Maker m;
        maker_init(&m);
        uint32_t in = maker_value(&m, false, 1, PLAN_NONE, PLAN_ALIAS_NONE);
        uint32_t out = maker_value(&m, true, 1, PLAN_NONE, PLAN_ALIAS_NONE);
        PlanArg selector =
            reads(maker_slice(&m, m.b.slices[in].allocation, 0, rows[i].bytes));
        PlanCommand c = {.kind = PLAN_CONDITIONAL,
                         .signal = PLAN_NONE,
                         .index =
                             plan_add_refs(&m.b, (uint32_t[]){1, 1, 1}, rows[i].branches),
                         .count = rows[i].branches};
        uint32_t conditional = plan_command(&m.b, &c, &selector, 1);
        for (uint32_t k = 0; k < rows[i].branches; k++)
            maker_add(&m, in, out, 1, immediate(100 * (k + 1)));
        plan_close(&m.b, conditional);
        Program p = open_program(&m, "", 0);
        gxrt_session *s = open_session(&p);
        int32_t x = rows[i].selector, y = 0;
        const size_t one = 1;
        assert_int_equal(
            run_program(s, 1, (int32_t *[]){&x}, &one, 1, (int32_t *[]){&y}, &one, NULL),
            GXRT_OK);
        assert_int_equal(y, rows[i].selector + 100 * (rows[i].branch + 1));
        gxrt_session_destroy(s);
        close_program(&p);
    }
}

/* A loop of so many trips, none among them. */
static void test_trips(void **state)
{
    (void)state;
    for (int trips = 0; trips < 4; trips++) {
        Program p = trips_program(trips);
        gxrt_session *s = open_session(&p);
        int32_t x = 1, y = 0;
        const size_t one = 1;
        assert_int_equal(run_program(s, 1, (int32_t *[]){&x}, &one, 1, (int32_t *[]){&y},
                                     &one, (const int[]){0}),
                         GXRT_OK);
        assert_int_equal(y, 1 + 10 * trips);
        gxrt_session_destroy(s);
        close_program(&p);
    }
}

static void count_event(void *user, const gxrt_event *e)
{
    assert_string_equal(e->name, e->kind[0] == 'f' ? "" : "instruction");
    ++*(int *)user;
}

/* What a call holds runs once, and what follows it comes after it. */
static void test_call(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    uint32_t in = maker_value(&m, false, 1, PLAN_NONE, PLAN_ALIAS_NONE),
             out = maker_value(&m, true, 1, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t open = maker_command(&m, PLAN_CALL, 0, NULL, 0);
    maker_add(&m, in, out, 1, immediate(3));
    plan_close(&m.b, open);
    maker_add(&m, out, out, 1, immediate(4));
    Program p = open_program(&m, "", 0);
    gxrt_session *s = open_session(&p);
    int32_t x = 2, y = 0;
    const size_t one = 1;
    assert_int_equal(
        run_program(s, 1, (int32_t *[]){&x}, &one, 1, (int32_t *[]){&y}, &one, NULL),
        GXRT_OK);
    assert_int_equal(y, 9);
    assert_string_equal(fake_log, "add add ");
    gxrt_session_destroy(s);
    close_program(&p);
}

static void test_profile(void **state)
{
    (void)state;
    Program p = loop_program();
    gxrt_session *s = open_session(&p);
    gxrt_buffer a = {.struct_size = sizeof a, .bytes = 48};
    gxrt_buffer r = a;
    gxrt_run job = {sizeof job, NULL, &a, 1, &r, 1};
    int events = 0;
    assert_int_equal(gxrt_allocate(s, 0, 48, &a.data), GXRT_OK);
    assert_int_equal(gxrt_allocate(s, 0, 48, &r.data), GXRT_OK);
    memset(a.data, 0, 48);
    assert_int_equal(gxrt_profile(s, 1, &job, count_event, &events), GXRT_OK);
    assert_int_equal(events, 5); /* three launches, a copy, a fill */
    int live = fake_live;
    assert_int_equal(gxrt_execute(s, 1, &job), GXRT_OK); /* which is not measured */
    assert_int_equal(fake_live, live);
    assert_int_equal(gxrt_profile(s, 1, &job, count_event, &events), GXRT_OK);
    assert_int_equal(events, 10);
    gxrt_free(s, 0, a.data);
    gxrt_free(s, 0, r.data);
    gxrt_session_destroy(s);
    close_program(&p);
}

static int32_t *host_call_seen;

static int host_function(void *user, void *stream, size_t count, void *const *buffers,
                         const uint64_t *bytes)
{
    (void)stream;
    assert_int_equal(count, 2);
    assert_int_equal(bytes[1], 16);
    host_call_seen = buffers[0];
    memcpy(buffers[1], buffers[0], 16);
    return *(int *)user;
}

typedef struct OldHostCall {
    size_t struct_size;
    const char *name;
    gxrt_host_function function;
    void *user;
} OldHostCall;

static void test_host_call(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    uint32_t in = maker_value(&m, false, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t out = maker_value(&m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    PlanArg args[2] = {reads(in), writes(out)};
    maker_command(&m, PLAN_HOST_CALL, plan_string(&m.b, "mine"), args, 2);
    Program p = open_program(&m, "", 0);
    int answer = 0;
    /* as programs pass them that know no `described`: an array of shorter structs */
    OldHostCall h[2] = {{sizeof *h, "another", host_function, NULL},
                        {sizeof *h, "mine", NULL, &answer}};
    gxrt_session_options options = {.struct_size = sizeof options,
                                    .host_calls = (const gxrt_host_call *)(void *)h,
                                    .host_call_count = 2};
    gxrt_session *s;
    assert_int_equal(session_create(p.program, &options, &fake_api, NULL, NULL, &s),
                     GXRT_INVALID_ARGUMENT);
    assert_non_null(strstr(gxrt_last_error(), "host call 1 lacks its name"));
    h[1].function = host_function;
    assert_int_equal(session_create(p.program, &options, &fake_api, NULL, NULL, &s),
                     GXRT_OK);
    int32_t x[4] = {1, 2, 3, 4};
    int32_t y[4];
    const size_t four = 4;
    assert_int_equal(
        run_program(s, 1, (int32_t *[]){x}, &four, 1, (int32_t *[]){y}, &four, NULL),
        GXRT_OK);
    assert_int_equal(y[3], 4);
    answer = 7;
    assert_int_equal(
        run_program(s, 1, (int32_t *[]){x}, &four, 1, (int32_t *[]){y}, &four, NULL),
        GXRT_HOST_CALL_FAILED);
    assert_non_null(
        strstr(gxrt_last_error(), "mine of HLO instruction instruction returned 7"));
    gxrt_session_destroy(s);
    close_program(&p);
}

/* Stream 1 adds while a host call on stream 0 fails: the session is still good, and what the caller queues next waits
 * for the addition. */
static void test_failed_host_call(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    m.b.info[0].async_count = 1;
    plan_add_streams(&m.b, &(PlanStream){.kind = PLAN_STREAM_COLLECTIVE, .priority = 1},
                     1);
    uint32_t in = maker_value(&m, false, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t a = maker_value(&m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t b = maker_value(&m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t start = maker_command(&m, PLAN_ASYNC_START, 0, NULL, 0);
    m.b.commands[maker_add(&m, in, a, 4, immediate(1))].stream = 1;
    plan_close(&m.b, start);
    PlanArg args[2] = {reads(in), writes(b)};
    maker_command(&m, PLAN_HOST_CALL, plan_string(&m.b, "mine"), args, 2);
    maker_command(&m, PLAN_ASYNC_DONE, 0, NULL, 0);
    Program p = open_program(&m, "", 0);
    int answer = 7;
    gxrt_host_call h = {sizeof h, "mine", host_function, &answer, NULL};
    gxrt_session_options options = {
        .struct_size = sizeof options, .host_calls = &h, .host_call_count = 1};
    gxrt_session *s;
    assert_int_equal(session_create(p.program, &options, &fake_api, NULL, NULL, &s),
                     GXRT_OK);
    fake_log[0] = 0;
    assert_int_equal(use_streams(s), GXRT_HOST_CALL_FAILED);
    assert_non_null(strstr(gxrt_last_error(), "returned 7"));
    assert_string_equal(fake_log, "record wait "     /* fork */
                                  "record wait add " /* async start */
                                  "record "          /* started */
                                  "record wait ");   /* join */
    gxrt_session_destroy(s);
    close_program(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_undefined),
        cmocka_unit_test(test_predicate),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_no_stream_lent),
        cmocka_unit_test(test_fail_every_call),
        cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_pinned),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_trips),
        cmocka_unit_test(test_call),
        cmocka_unit_test(test_profile),
        cmocka_unit_test(test_image),
        cmocka_unit_test(test_portable),
        cmocka_unit_test(test_host_call),
        cmocka_unit_test(test_failed_host_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
