/* A file whose kernel does what gxc's never do - opens files, makes a socket, another process -
 * as gxrun meets it. Each forgery is shown to work where there is no sandbox. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/shared/emu_file.h"

#define TEXT(x) #x
#define NUMBER(x) TEXT(x)
/* Calls the system with three numbers, or a file's name between two. If it answers with no error,
 * the process ends with exit code 77. */
#if defined(__x86_64__)
#define SET_SECOND(second) "mov $$" NUMBER(second) ", %esi; "
#define SET_TEXT(text) "lea 1f(%rip), %rsi; jmp 2f; 1: .asciz \"" text "\"; 2: "
#define CALL(call, first, set_second, third)                                             \
    set_second                                                                           \
        "mov $$" NUMBER(call) ", %eax; mov $$" NUMBER(first) ", %edi; mov $$" NUMBER(    \
            third) ", %edx; mov $$384, %r10d; syscall; test %eax, %eax; js 3f; "         \
                   "mov $$77, %edi; mov $$231, %eax; syscall; 3:"
#define JUMP "jmp"
#elif defined(__aarch64__)
#define SET_SECOND(second) "mov x1, #" NUMBER(second) "; "
#define SET_TEXT(text) "adr x1, 1f; b 2f; 1: .asciz \"" text "\"; .p2align 2; 2: "
#define CALL(call, first, set_second, third)                                             \
    set_second "mov x8, #" NUMBER(call) "; mov x0, #" NUMBER(                            \
        first) "; mov x2, #" NUMBER(third) "; mov x3, #384; svc #0; tbnz x0, #63, 3f; "  \
                                           "mov x0, #77; mov x8, #94; "                  \
                                           "svc #0; 3:"
#define JUMP "b"
#endif
enum { SUCCEEDED = 77 };

static char folder[] = "/tmp/gxc-sandbox-XXXXXX";

/* gxrun's exit code, or 128 + the signal; what it said is in `out`. */
static int gxrun(const char *options, char out[4096])
{
    char command[8192];
    snprintf(command, sizeof command,
             "cd %s && exec %s/gxrun forged.cubin --device=emu -q %s 2>&1", folder,
             emu_folder(), options);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    out[fread(out, 1, 4095, f)] = 0;
    int status = pclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void forge(const char *assembly)
{
    size_t bytes;
    void *file = emu_file_make(EMU_FILE_BYTES, assembly, &bytes);
    FILE *f = fopen("forged.cubin", "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(file, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
    free(file);
}

/* The call works without the sandbox; with it the program is ended, or sees an error. */
static void check_forbidden(const char *assembly, bool ends)
{
    char out[4096];
    forge(assembly);
    assert_int_equal(gxrun("--no-sandbox", out), SUCCEEDED);
    unlink("forged");
    assert_int_equal(gxrun("", out), ends ? 1 : 0);
    assert_true(!ends == !strstr(out, "the sandbox forbids"));
    assert_int_equal(access("forged", F_OK), -1);
}

static void test_honest(void **state)
{
    (void)state;
    char out[4096];
    forge(NULL);
    assert_int_equal(gxrun("", out), 0);
}

static void test_files(void **state)
{
    (void)state;
    check_forbidden(CALL(SYS_openat, -100, SET_TEXT("forged"), 0x41),
                    true); /* O_WRONLY | O_CREAT */
    int file = open("forged", O_CREAT | O_WRONLY, 0600);
    assert_true(file >= 0);
    close(file);
    check_forbidden(CALL(SYS_unlinkat, -100, SET_TEXT("forged"), 0), true);
}

/* The C library looks for files as well: those are not there. */
static void test_reading(void **state)
{
    (void)state;
    check_forbidden(CALL(SYS_openat, -100, SET_TEXT("/"), 0), false);
}

static void test_network(void **state)
{
    (void)state;
    check_forbidden(CALL(SYS_socket, 1, SET_SECOND(1), 0),
                    true); /* AF_UNIX, SOCK_STREAM */
}

static void test_processes(void **state)
{
    (void)state;
    check_forbidden(CALL(SYS_clone, 17, SET_SECOND(0), 0), true); /* SIGCHLD: fork */
    check_forbidden(CALL(SYS_kill, 0, SET_SECOND(0), 0), true);
}

/* x86-64's 32-bit calls have numbers of their own: 24 is sched_yield there, getuid here. A system
 * that lacks them ends the program. */
static void test_other_numbers(void **state)
{
    (void)state;
#if defined(__x86_64__)
    const char *assembly = "mov $$24, %eax; int $$0x80; test %eax, %eax; js 3f; "
                           "mov $$77, %edi; mov $$231, %eax; syscall; 3:";
    char out[4096];
    forge(assembly);
    if (gxrun("--no-sandbox", out) == SUCCEEDED)
        check_forbidden(assembly, true);
#endif
}

/* Memory that no limit counts is not to be had. */
static void test_memory(void **state)
{
    (void)state;
#if defined(__x86_64__)
    static const char *const flags[] = {"0x21", "0x122"}; /* shared; growing downwards */
    for (int i = 0; i < 2; i++) {
        char assembly[400];
        snprintf(
            assembly, sizeof assembly,
            "push %%r8; push %%r9; xor %%edi, %%edi; mov $$4096, %%esi; mov $$3, %%edx; "
            "mov $$%s, %%r10d; mov $$-1, %%r8; xor %%r9d, %%r9d; mov $$9, %%eax; "
            "syscall; pop %%r9; pop %%r8; test %%rax, %%rax; js 3f; "
            "mov $$77, %%edi; mov $$231, %%eax; syscall; 3:",
            flags[i]);
        check_forbidden(assembly, false);
    }
#endif
}

/* A kernel that never ends cannot be counted, only killed. */
static void test_endless(void **state)
{
    (void)state;
    char out[4096];
    forge("1: " JUMP " 1b");
    assert_int_equal(gxrun("--max-seconds=1", out), 1);
    assert_non_null(strstr(out, "--max-seconds=N allows more"));
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    unlink("forged");
    unlink("forged.cubin");
    return chdir("/") || rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_honest),        cmocka_unit_test(test_files),
        cmocka_unit_test(test_reading),       cmocka_unit_test(test_network),
        cmocka_unit_test(test_processes),     cmocka_unit_test(test_endless),
        cmocka_unit_test(test_other_numbers), cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
