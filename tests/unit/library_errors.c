/* Libraries that are missing or too old: the message names the library, in the latter case the function that it lacks,
 * and says how to get another. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
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

static bool is_hidden; /* what the system knows by name alone is not there */

/* In place of the C library's. */
void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int);
    void *found = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&real, &found, sizeof real);
    char elsewhere[PATH_MAX];
    if (name && is_hidden && !strchr(name, '/')) {
        snprintf(elsewhere, sizeof elsewhere, "/nowhere/%s", name);
        name = elsewhere;
    }
    return real(name, flags);
}

typedef enum Which { CUDA, CUBLASLT, CUDNN, CUSOLVER, NCCL } Which;

/* True: it was loaded. */
static bool load(Which which, const char *folder, char *error, size_t size)
{
    switch (which) {
    case CUDA:
        return library_cuda(false, folder, error, size) != NULL;
    case CUBLASLT:
        return library_cublaslt(false, folder, error, size) != NULL;
    case CUDNN:
        return library_cudnn(false, folder, error, size) != NULL;
    case CUSOLVER:
        return library_cusolver(false, folder, error, size) != NULL;
    case NCCL:
        return library_nccl(false, folder, error, size) != NULL;
    }
    return false;
}

static const struct Row {
    Which which;
    const char *name,
        *first; /* function, NULL: the library beside the programs has those */
    const char *advice;
} rows[] = {
    {CUDA, "libcuda.so.1", NULL,
     "install NVIDIA's driver, or run on the emulator (device \"emu\")"},
    {CUBLASLT, "libcublasLt.so.13", "cublasLtGetVersion",
     "install CUDA's toolkit, or the wheel nvidia-cublas and put its folder into "
     "LD_LIBRARY_PATH, or compile with --libraries=none"},
    {CUDNN, "libcudnn.so.9", "cudnnGetVersion",
     "install cuDNN 9.10 or newer (package cudnn9-cuda-13, or the wheel "
     "nvidia-cudnn-cu13 and its folder in LD_LIBRARY_PATH), or compile with "
     "--libraries=cublaslt"},
    {CUSOLVER, "libcusolver.so.12", "cusolverGetVersion",
     "install CUDA's toolkit, or the wheels nvidia-cusolver and nvidia-cublas and put "
     "their folders into LD_LIBRARY_PATH, or compile with --libraries=cublaslt,cudnn"},
    {NCCL, "libnccl.so.2", "ncclGetVersion",
     "install NCCL 2.27 or newer (package libnccl2, or the wheel nvidia-nccl-cu13 and "
     "its folder in LD_LIBRARY_PATH)"},
};

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
    char other[PATH_MAX], folder[] = "/tmp/gxc-library-XXXXXX", path[64];
    char error[512], wanted[512];
    (void)state;
    find_other(other, sizeof other);
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct Row *row = &rows[i];
        if (!row->first)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, row->name);
        assert_int_equal(symlink(other, path), 0);
        assert_false(load(row->which, folder, error, sizeof error));
        snprintf(wanted, sizeof wanted, "%s lacks %s: it is too old; %s", row->name,
                 row->first, row->advice);
        assert_string_equal(error, wanted);
        unlink(path);
    }
    rmdir(folder);
}

static void test_missing(void **state)
{
    char error[512];
    (void)state;
    is_hidden = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct Row *row = &rows[i];
        assert_false(load(row->which, NULL, error, sizeof error));
        assert_int_equal(strncmp(error, row->name, strlen(row->name)), 0);
        assert_non_null(strstr(error, " was not found (/nowhere/"));
        size_t length = strlen(error), end = strlen(row->advice);
        assert_true(length > end);
        assert_string_equal(error + length - end, row->advice);
    }
    is_hidden = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_too_old),
                                       cmocka_unit_test(test_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
