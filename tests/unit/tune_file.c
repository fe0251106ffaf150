/* What gxrun --tune has measured comes from a process that may have written anything: entries get into the tuning file,
 * all else is an error that leaves the file as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ir/base/file.h"
#include "runtime/gxrun/tune.h"

static char path[64];
static char said[1024];

/* As gxrun.c has them, for the objects that this program takes of gxrun. */
int complain(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(said, sizeof said, format, args);
    va_end(args);
    return code;
}

void *allocate(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);
    assert_non_null(p);
    return p;
}

static int write_lines(const char *lines)
{
    Options o = {.tune = path};
    said[0] = 0;
    return tune_write(&o, lines, strlen(lines));
}

static void expect_file(const char *text)
{
    void *data;
    size_t size;
    assert_int_equal(file_read(path, 1 << 20, &data, &size), 0);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(data, text, size);
    free(data);
}

#define FIRST "{\"key\": \"a\", \"config\": {\"tile\":[16,8]}, \"picoseconds\": 7}"
#define SECOND "{\"key\": \"b\", \"kind\": \"loop\"}"

static void test_entries(void **state)
{
    (void)state;
    remove(path);
    assert_int_equal(write_lines(SECOND "\n"), EXIT_DONE);
    expect_file("[\n" SECOND "\n]\n");
    assert_int_equal(write_lines(FIRST "\n{\"key\": \"b\", \"kind\": \"dot\"}\n"),
                     EXIT_DONE);
    expect_file("[\n" FIRST ",\n{\"key\": \"b\", \"kind\": \"dot\"}\n]\n");
    assert_int_equal(write_lines(""), EXIT_DONE);
}

static void test_forged(void **state)
{
    static const char *const forged[] = {
        "x\n",
        "\n\n",
        "{\"key\": \"no end",
        "{\"kind\": \"loop\"}\n",
        "{\"key\": 5}\n",
        "{\"key\": \"c\", \"picoseconds\": 1.5}\n",
        "[]\n",
        "{\"key\": \"c\"} , more\n",
        "{\"key\": \"c\"}]\n",
    };
    (void)state;
    remove(path);
    assert_int_equal(write_lines(FIRST "\n"), EXIT_DONE);
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        if (write_lines(forged[i]) != EXIT_WRONG)
            fail_msg("'%s' is taken", forged[i]);
        assert_ptr_equal(strstr(said, "what was measured: "), said);
        expect_file("[\n" FIRST "\n]\n");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_entries),
                                       cmocka_unit_test(test_forged)};
    snprintf(path, sizeof path, "/dev/shm/gxc-tune-file-%d", (int)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove(path);
    return failed;
}
