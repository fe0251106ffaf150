/* Files are written whole or not at all, whatever stands in the way, and no other name is left. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "ir/base/file.h"

enum { LIMIT = 1024 };

static char folder[32];

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int write_bytes(const char *name, size_t size)
{
    static const char bytes[4 * LIMIT];
    return file_write(path_of(name), &(FilePart){bytes, size}, 1);
}

static size_t count_files(void)
{
    size_t count = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    while (readdir(d) != NULL)
        count++;
    closedir(d);
    return count - 2; /* . and .. */
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/file_XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

/* SIGXFSZ ends no process that has the library; one that was to come still does. */
static void test_limit(void **state)
{
    (void)state;
    struct rlimit before;
    sigset_t own, pending;
    sigemptyset(&own);
    sigaddset(&own, SIGXFSZ);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit limit = {LIMIT, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int large = write_bytes("large", LIMIT + 1), most = write_bytes("most", LIMIT);
    pthread_sigmask(SIG_BLOCK, &own, NULL);
    raise(SIGXFSZ);
    int again = write_bytes("large", LIMIT + 1);
    sigpending(&pending);
    sigtimedwait(&own, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_UNBLOCK, &own, NULL);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(large, EFBIG);
    assert_int_equal(again, EFBIG);
    assert_true(sigismember(&pending, SIGXFSZ));
    assert_int_equal(most, 0);
    assert_int_equal(count_files(), 1);
    unlink(path_of("most"));
}

/* A name may be as long as the system allows. */
static void test_long_name(void **state)
{
    (void)state;
    char name[NAME_MAX + 1];
    memset(name, 'n', NAME_MAX);
    name[NAME_MAX] = '\0';
    assert_int_equal(write_bytes(name, 1), 0);
    assert_int_equal(write_bytes(name, 2), 0);
    assert_int_equal(count_files(), 1);
    unlink(path_of(name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_limit, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_long_name, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
