/* The assembler's process: its files, its exit, and that it does not outlive who waits for it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "codegen/assembler/assemblers.h"

enum { PATIENCE = 20000 }; /* milliseconds */

static int shell(const char *script, const ProcessFiles *files)
{
    const char *args[] = {"sh", "-c", script, NULL};
    double seconds = 0;
    return process_run("/bin/sh", args, files, &seconds);
}

static ProcessFiles no_files(void)
{
    ProcessFiles f = {.log = open("/dev/null", O_WRONLY | O_CLOEXEC)};
    assert_true(f.log >= 0);
    return f;
}

static void test_exit(void **state)
{
    (void)state;
    static const char *const args[] = {"x", NULL};
    double seconds = 0;
    ProcessFiles f = no_files();
    assert_int_equal(shell("exit 0", &f), 0);
    assert_int_equal(shell("exit 7", &f), 7);
    assert_int_equal(shell("kill -TERM $$", &f), 128 + SIGTERM);
    signal(SIGXFSZ, SIG_IGN); /* of this process alone */
    assert_int_equal(shell("ulimit -c 0; kill -XFSZ $$", &f), 128 + SIGXFSZ);
    signal(SIGXFSZ, SIG_DFL);
#ifndef __SANITIZE_THREAD__ /* there vfork is fork, and the child's memory its own */
    assert_int_equal(process_run("/nonexistent", args, &f, &seconds), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(process_run("/dev/null", args, &f, &seconds), -1);
    assert_int_equal(errno, EACCES);
#else
    assert_int_equal(process_run("/nonexistent", args, &f, &seconds), 127);
#endif
    close(f.log);
}

static void test_files(void **state)
{
    (void)state;
    int in[2], out[2];
    char text[16] = "";
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    assert_int_equal(write(in[1], "seven\n", 6), 6);
    ProcessFiles f = {.log = out[1], .files = {in[0], out[1]}, .file_count = 2};
    assert_int_equal(shell("read x <&3; echo $x; echo $x >&4", &f), 0);
    assert_int_equal(read(out[0], text, sizeof text), 12);
    assert_memory_equal(text, "seven\nseven\n", 12);
    close(in[0]);
    close(in[1]);
    close(out[0]);
    close(out[1]);
}

/* Numbers of files above the limit are as many files too many. */
static void test_file_limit(void **state)
{
    (void)state;
    ProcessFiles f = no_files();
    f.files[0] = f.log;
    f.file_count = 1;
    struct rlimit before, few;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){(rlim_t)f.log + 1, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int status = shell("exit 0", &f), error = errno;
    setrlimit(RLIMIT_NOFILE, &before);
#ifndef __SANITIZE_THREAD__
    assert_int_equal(status, -1);
    assert_int_equal(error, EMFILE);
#else
    assert_int_equal(status, 127);
#endif
    close(f.log);
}

/* One that has an end to come by; one that waits; one that works, itself or by another, is not ended, unless it may
 * work for so long only. */
static void test_stuck(void **state)
{
    (void)state;
    ProcessFiles f = no_files();
    f.deadline = 1;
    assert_int_equal(shell("exec sleep 60", &f), 128 + SIGALRM);
    f.deadline = 0;
    f.idle = 1;
    assert_int_equal(shell("exec sleep 60", &f), 128 + SIGALRM);
    assert_int_equal(shell("sleep 2; exit 5", &f), 5);
    assert_int_equal(shell("ulimit -S -t 2; while :; do :; done", &f), 128 + SIGXCPU);
    f.most_seconds = 1;
    assert_int_equal(shell("while :; do :; done", &f), PROCESS_OUT_OF_TIME);
    assert_int_equal(shell("trap '' XCPU; while :; do :; done", &f), PROCESS_OUT_OF_TIME);
    /* another that works for it ends as well */
    assert_int_equal(shell("sh -c 'while :; do :; done'; exit 6", &f), 6);
    assert_int_equal(shell("kill -KILL $$", &f), 128 + SIGKILL);
    assert_int_equal(shell("exit 7", &f), 7);
    f.most_seconds = UINT_MAX;
    assert_int_equal(shell("exit 8", &f), 8);
    close(f.log);
    assert_int_equal(process_failure(1), ASSEMBLER_REFUSED);
    assert_int_equal(process_failure(128 + SIGSEGV), ASSEMBLER_REFUSED);
    assert_int_equal(process_failure(128 + SIGKILL), ASSEMBLER_LOST);
    assert_int_equal(process_failure(-1), ASSEMBLER_LOST);
    assert_int_equal(process_failure(PROCESS_OUT_OF_TIME), ASSEMBLER_OUT_OF_TIME);
    assert_string_equal(process_trouble(1, "words", "none"), "words");
    assert_string_equal(process_trouble(1, "", "none"), "none");
    assert_string_equal(process_trouble(1, NULL, "none"), "none");
    assert_non_null(strstr(process_trouble(128 + SIGALRM, "words", "none"), "too long"));
    assert_non_null(strstr(process_trouble(PROCESS_OUT_OF_TIME, "words", "none"),
                           "--max-assembler-seconds=N"));
}

/* The program holds the only open end of a pipe: that it ends is seen there. */
static void test_dies_with_parent(void **state)
{
    (void)state;
    int end[2];
    assert_int_equal(pipe(end), 0);
    pid_t waiting = fork();
    if (waiting == 0) {
        ProcessFiles f = no_files();
        f.files[0] = end[1];
        f.file_count = 1;
        _exit(shell("echo x >&3; exec sleep 60", &f));
    }
    assert_true(waiting > 0);
    close(end[1]);
    char byte;
    assert_int_equal(read(end[0], &byte, 1), 1); /* it runs */
    assert_int_equal(read(end[0], &byte, 1), 1);
    assert_int_equal(kill(waiting, SIGKILL), 0);
    assert_int_equal(waitpid(waiting, NULL, 0), waiting);
    struct pollfd p = {.fd = end[0], .events = POLLIN};
    assert_int_equal(poll(&p, 1, PATIENCE), 1);
    assert_int_equal(read(end[0], &byte, 1), 0);
    close(end[0]);
}

/* The same of gxc-cudnn, which waits for questions: others hold the socket open here. */
static void test_planner_dies_with_parent(void **state)
{
    (void)state;
    int ends[2];
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 30);
    assert_true(n > 0);
    path[n] = 0;
    strcpy(strrchr(path, '/'), "/../../gxc-cudnn");
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t asking = fork();
    if (asking == 0) {
        pid_t planning = fork();
        if (planning == 0) {
            dup2(ends[1], 0);
            execl(path, "gxc-cudnn", "", "/nonexistent", "again", (char *)NULL);
            _exit(127);
        }
        pause();
    }
    assert_true(asking > 0);
    close(ends[1]);
    static const unsigned char nothing[1] = {0};
    assert_int_equal(send(ends[0], nothing, 1, 0), 1); /* the start of a question */
    int left = 1;
    for (int i = 0; i < PATIENCE && left; i++) { /* it has read it: it runs */
        poll(NULL, 0, 1);
        assert_int_equal(ioctl(ends[0], SIOCOUTQ, &left), 0);
    }
    assert_int_equal(left, 0);
    assert_int_equal(kill(asking, SIGKILL), 0);
    assert_int_equal(waitpid(asking, NULL, 0), asking);
    struct pollfd p = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&p, 1, PATIENCE), 1);
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit),
        cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_file_limit),
        cmocka_unit_test(test_dies_with_parent),
        cmocka_unit_test(test_planner_dies_with_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
