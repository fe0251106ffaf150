/* Waits that end where max_seconds says so, on a fake device whose kernels need not end. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/fake_driver.h"
#include "tests/unit/shared/program.h"

static char logged[256];

static void keep_log(void *user, int level, const char *text)
{
    (void)user;
    (void)level;
    strncpy(logged, text, sizeof logged - 1);
}

static gxrt_session *open_limited(const Program *p, double seconds)
{
    gxrt_session *s;
    const gxrt_session_options options = {
        .struct_size = sizeof options, .max_seconds = seconds, .log = keep_log};
    logged[0] = 0;
    if (session_create(p->program, &options, &fake_api, NULL, NULL, &s) != GXRT_OK)
        fail_msg("%s", gxrt_last_error());
    return s;
}

static void expect_late(gxrt_status st, const char *where)
{
    char text[256];
    snprintf(
        text, sizeof text,
        "%s: device 0 was not done within 0.02 s; max_seconds of gxrt_session_options "
        "allows more",
        where);
    assert_int_equal(st, GXRT_DEVICE_FAILED);
    assert_string_equal(gxrt_last_error(), text);
}

typedef struct Run {
    gxrt_session *session;
    gxrt_buffer a, r;
    gxrt_run run;
} Run;

static void run_init(Run *x, gxrt_session *s)
{
    const int32_t one = 1;
    *x = (Run){.session = s, .a = {.struct_size = sizeof x->a, .bytes = 4}};
    assert_int_equal(gxrt_allocate(s, 0, 4, &x->a.data), GXRT_OK);
    assert_int_equal(gxrt_copy_to_device(s, 0, x->a.data, &one, 4), GXRT_OK);
    x->r = x->a;
    x->run = (gxrt_run){sizeof x->run, NULL, &x->a, 1, &x->r, 1};
}

/* A kernel that does not end: every wait fails, what it uses is kept until it has ended after all. */
static void test_kernel(void **state)
{
    (void)state;
    Program p = trips_program(1);
    gxrt_session *s = open_limited(&p, 0.02);
    Run x;
    int32_t y;
    run_init(&x, s);
    fake_endless = 1;
    assert_int_equal(gxrt_execute(s, 1, &x.run), GXRT_OK);
    expect_late(gxrt_synchronize(s, 0), "gxrt_synchronize");
    expect_late(gxrt_copy_to_host(s, 0, &y, x.a.data, 4), "gxrt_copy_to_host");
    expect_late(gxrt_copy_to_device(s, 0, x.a.data, &y, 4), "gxrt_copy_to_device");
    assert_int_equal(gxrt_execute(s, 1, &x.run), GXRT_DEVICE_FAILED);
    assert_non_null(strstr(gxrt_last_error(), "has failed before"));
    int live = fake_live;
    gxrt_free(s, 0, x.a.data);
    gxrt_session_destroy(s);
    assert_int_equal(fake_live, live);
    assert_non_null(strstr(logged, "memory and the session are kept"));
    fake_endless = 0;
    gxrt_free(s, 0, x.a.data);
    gxrt_session_destroy(s);
    close_program(&p);
}

/* The first wait after the execution may be that of giving back memory, or of destroying the session. */
static void test_first_wait(void **state)
{
    (void)state;
    for (int frees = 0; frees < 2; frees++) {
        Program p = trips_program(1);
        gxrt_session *s = open_limited(&p, 0.02);
        Run x;
        run_init(&x, s);
        fake_endless = 1;
        assert_int_equal(gxrt_execute(s, 1, &x.run), GXRT_OK);
        int live = fake_live;
        if (frees)
            gxrt_free(s, 0, x.a.data);
        else
            gxrt_session_destroy(s);
        assert_int_equal(fake_live, live);
        fake_endless = 0;
        gxrt_free(s, 0, x.a.data);
        gxrt_session_destroy(s);
        close_program(&p);
    }
}

static CUresult fail_launch(const CUlaunchConfig *config, CUfunction function,
                            void **parameters, void **extra)
{
    (void)config, (void)function, (void)parameters, (void)extra;
    return CUDA_ERROR_UNKNOWN;
}

static CUresult fail_record(CUevent event, CUstream stream)
{
    (void)event, (void)stream;
    return CUDA_ERROR_INVALID_VALUE;
}

/* A device on which a call has failed fails all that follow: the first one is told. */
static void test_first_failure(void **state)
{
    (void)state;
    Program p = trips_program(1);
    gxrt_session *s = open_limited(&p, 1000);
    CudaApi failing = fake_api;
    failing.launch = fail_launch;
    failing.event_record = fail_record;
    Run x;
    run_init(&x, s);
    s->cuda = &failing;
    assert_int_equal(gxrt_execute(s, 1, &x.run), GXRT_DEVICE_FAILED);
    assert_string_equal(
        gxrt_last_error(),
        "cuLaunchKernelEx: the fake failure (the fake failure) in command 1 (launch add) "
        "of HLO instruction instruction on device 0");
    s->cuda = &fake_api;
    gxrt_free(s, 0, x.a.data);
    gxrt_session_destroy(s);
    close_program(&p);
}

static void no_event(void *user, const gxrt_event *e)
{
    (void)user;
    fail_msg("%s was timed", e->name);
}

static void test_profile(void **state)
{
    (void)state;
    Program p = trips_program(1);
    gxrt_session *s = open_limited(&p, 0.02);
    Run x;
    run_init(&x, s);
    fake_endless = 1;
    expect_late(gxrt_profile(s, 1, &x.run, no_event, NULL), "gxrt_profile");
    fake_endless = 0;
    gxrt_free(s, 0, x.a.data);
    gxrt_session_destroy(s);
    close_program(&p);
}

/* A loop of the host whose commands come back at once, and one that waits for the device's predicate. */
static void test_loops(void **state)
{
    (void)state;
    Program p = trips_program(INT64_C(1) << 40);
    gxrt_session *s = open_limited(&p, 0.02);
    Run x;
    run_init(&x, s);
    expect_late(gxrt_execute(s, 1, &x.run), "instruction");
    gxrt_free(s, 0, x.a.data);
    gxrt_session_destroy(s);
    close_program(&p);
    p = predicate_program();
    s = open_limited(&p, 0.02);
    gxrt_buffer b[3]; /* an argument, two results */
    for (size_t i = 0; i < 3; i++) {
        b[i] = (gxrt_buffer){.struct_size = sizeof *b, .bytes = 4};
        assert_int_equal(gxrt_allocate(s, 0, b[i].bytes, &b[i].data), GXRT_OK);
    }
    int32_t in = 2;
    assert_int_equal(gxrt_copy_to_device(s, 0, b[0].data, &in, sizeof in), GXRT_OK);
    gxrt_run run = {sizeof run, NULL, b, 1, b + 1, 2};
    fake_endless = 1;
    assert_int_equal(gxrt_execute(s, 1, &run), GXRT_DEVICE_FAILED);
    assert_non_null(strstr(gxrt_last_error(), "device 0 was not done within 0.02 s"));
    int live = fake_live;
    for (size_t i = 0; i < 3; i++)
        gxrt_free(s, 0, b[i].data);
    assert_int_equal(fake_live, live); /* they may be in use */
    fake_endless = 0;
    for (size_t i = 0; i < 3; i++)
        gxrt_free(s, 0, b[i].data);
    gxrt_session_destroy(s);
    close_program(&p);
}

/* Without a limit, and with one that is not met, all is as ever. */
static void test_none(void **state)
{
    (void)state;
    const double limits[] = {0, (double)INFINITY, 1000};
    for (size_t i = 0; i < 3; i++) {
        Program p = predicate_program();
        gxrt_session *s = open_limited(&p, limits[i]);
        int32_t in = 2, out[2] = {0};
        const size_t one[2] = {1, 1};
        assert_int_equal(run_program(s, 1, (int32_t *[]){&in}, one, 2,
                                     (int32_t *[]){&out[0], &out[1]}, one, NULL),
                         GXRT_OK);
        assert_int_equal(out[0], 5);
        assert_int_equal(out[1], 405);
        gxrt_session_destroy(s);
        close_program(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernel),        cmocka_unit_test(test_first_wait),
        cmocka_unit_test(test_first_failure), cmocka_unit_test(test_profile),
        cmocka_unit_test(test_loops),         cmocka_unit_test(test_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
