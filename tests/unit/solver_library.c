/* cuSOLVER that is too old: the message names it, the function that it lacks and how to get another. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/library/library.h"

/* A library without any of the functions, which lies beside the programs: two folders above this one. */
static void find_other(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    assert_true(n > 0);
    path[n] = 0;
    for (int i = 0; i < 3; i++)
        *strrchr(path, '/') = 0;
    snprintf(path + strlen(path), size - strlen(path), "/libgxc-nodriver.so");
}

static void test_too_old(void **state)
{
    char other[PATH_MAX], folder[] = "/tmp/gxc-solver-XXXXXX", path[64], error[512] = "";
    (void)state;
    find_other(other, sizeof other);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libcusolver.so.12", folder);
    assert_int_equal(symlink(other, path), 0);
    assert_null(library_cusolver(false, folder, error, sizeof error));
    assert_non_null(strstr(error,
                           "libcusolver.so.12 lacks cusolverGetVersion: it is too old; "
                           "install CUDA's toolkit, or the wheels nvidia-cusolver"));
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_too_old)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
