/* The store over files and over TCP: values travel, and whatever is wrong is named within the
 * time given. Ranks are threads of one process, as the store does not mind. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <dirent.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/collective/store.h"
#include "tests/unit/shared/ranks.h"

enum { RANKS = 4 };

static char address[64];
static bool to_itself; /* connections come from the port that they go to */
static bool forbidden; /* no connection may be made */
static bool in_drops;  /* of what is sent a few bytes go at a time */

int __connect(int s, const struct sockaddr *to, socklen_t size); /* glibc's own name */

/* In the place of the C library's. */
int connect(int s, const struct sockaddr *to, socklen_t size)
{
    if (forbidden) {
        errno = EACCES;
        return -1;
    }
    if (to_itself) {
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &(int){true}, sizeof(int));
        bind(s, to, size);
    }
    return __connect(s, to, size);
}

ssize_t send(int s, const void *bytes, size_t size, int flags)
{
    return sendto(s, bytes, in_drops && size > 7 ? 7 : size, flags, NULL, 0);
}

/* The address is that of a socket. */
static void set_address(const char *secret, int s)
{
    struct sockaddr_in a;
    socklen_t size = sizeof a;
    assert_int_equal(getsockname(s, (struct sockaddr *)&a, &size), 0);
    snprintf(address, sizeof address, "tcp://%s%s127.0.0.1:%u", secret,
             *secret ? "@" : "", ntohs(a.sin_port));
}

/* A socket that listens on a free port of this machine; the address says which. */
static int take_port(const char *secret)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int s = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(s, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(s, 4), 0);
    set_address(secret, s);
    return s;
}

static void choose_port(const char *secret)
{
    close(take_port(secret));
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static gxrt_status share(Store *s, uint32_t rank)
{
    char key[16];
    gxrt_status st = GXRT_OK;
    for (uint32_t turn = 0; turn < 20 && st == GXRT_OK; turn++) {
        uint32_t mine = 100 * turn + rank;
        snprintf(key, sizeof key, "k.%u.%u", turn, rank);
        st = store_put(s, key, &mine, sizeof mine, 10);
        for (uint32_t i = 0; i < RANKS && st == GXRT_OK; i++) {
            uint32_t other = 0;
            snprintf(key, sizeof key, "k.%u.%u", turn, i);
            st = store_get(s, key, &other, sizeof other, 10);
            if (st == GXRT_OK && other != 100 * turn + i)
                st = status_set(GXRT_DEVICE_FAILED, "got %u", other);
        }
    }
    return st;
}

static gxrt_status one_rank(uint32_t rank)
{
    Store *s;
    if (rank == 0) /* comes last: the others wait for it */
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    gxrt_status st = store_open(address, rank, RANKS, &s);
    st = st == GXRT_OK ? share(s, rank) : st;
    store_close(s);
    return st;
}

/* rows: collectives.J2 (the store that carries the id; rank 0 may come last) */
static void test_all_ranks(void **state)
{
    (void)state;
    choose_port("");
    run_ranks(RANKS, one_rank);
    choose_port("a secret");
    in_drops = true;
    run_ranks(RANKS, one_rank);
    in_drops = false;
    snprintf(address, sizeof address, "file:/tmp/gxc-store-%ld", (long)getpid());
    run_ranks(RANKS, one_rank);
    assert_int_not_equal(access(address + 5, F_OK), 0); /* nothing is left */
}

/* What is in the folder already stays there. */
static void test_foreign_files(void **state)
{
    (void)state;
    char folder[64], file[80];
    snprintf(folder, sizeof folder, "/tmp/gxc-store-%ld", (long)getpid());
    snprintf(file, sizeof file, "%s/mine", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    fclose(f);
    snprintf(address, sizeof address, "%s", folder);
    run_ranks(RANKS, one_rank);
    assert_int_equal(remove(file), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* A process that opens as this rank, puts a key of its own, and is killed. */
static void kill_rank(const char *folder, uint32_t rank, uint32_t ranks)
{
    pid_t pid = fork();
    if (pid == 0) {
        Store *s;
        char key[16];
        snprintf(key, sizeof key, "stale.%u", rank);
        if (store_open(folder, rank, ranks, &s) != GXRT_OK ||
            store_put(s, key, "1234", 4, 1) != GXRT_OK)
            _exit(1);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
}

/* What killed ranks have left neither stops nor reaches the next run, and goes. */
static void test_killed_ranks(void **state)
{
    (void)state;
    char folder[64], key[80];
    Store *s, *other;
    uint32_t value;
    snprintf(folder, sizeof folder, "/tmp/gxc-store-%ld", (long)getpid());
    snprintf(key, sizeof key, "%s/gxrt.stale.1", folder);
    kill_rank(folder, 1, 2);
    assert_int_equal(access(key, F_OK), 0);
    kill_rank(folder, 0, 3); /* another run, killed too */
    assert_int_not_equal(access(key, F_OK), 0);
    assert_int_equal(store_open(folder, 1, 2, &s), GXRT_OK);
    assert_int_equal(store_get(s, "stale.0", &value, 4, 0.1), GXRT_WORLD_FAILED);
    kill_rank(folder, 0, 2); /* of the run that rank 1 is in */
    assert_int_equal(store_get(s, "stale.0", &value, 4, 1), GXRT_OK);
    assert_int_equal(store_open(folder, 0, 2, &other), GXRT_WORLD_FAILED);
    assert_non_null(
        strstr(gxrt_last_error(), "rank 0 of the run there has ended, but rank 1"));
    store_close(s);
    assert_int_not_equal(access(folder, F_OK), 0); /* the survivor has cleared up */
    snprintf(address, sizeof address, "%s", folder);
    kill_rank(folder, 2, RANKS);
    run_ranks(RANKS, one_rank);
    assert_int_not_equal(access(folder, F_OK), 0);
}

/* A rank that is killed while it waits for a key is not waited for. */
static void test_killed_while_waiting(void **state)
{
    (void)state;
    Store *s;
    uint32_t value = 1;
    choose_port("");
    assert_int_equal(store_open(address, 0, 2, &s), GXRT_OK);
    pid_t pid = fork();
    if (pid == 0) {
        Store *mine;
        if (store_open(address, 1, 2, &mine) == GXRT_OK &&
            store_put(mine, "came", &value, sizeof value, 10) == GXRT_OK)
            store_get(mine, "never", &value, sizeof value, 60);
        _exit(1);
    }
    assert_int_equal(store_get(s, "came", &value, sizeof value, 10), GXRT_OK);
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* it waits now */
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    double start = seconds();
    store_close(s);
    assert_true(seconds() - start < 5);
}

/* Who lives keeps its rank. */
static void test_taken_rank(void **state)
{
    (void)state;
    char folder[64];
    Store *s, *other;
    snprintf(folder, sizeof folder, "/tmp/gxc-store-%ld", (long)getpid());
    assert_int_equal(store_open(folder, 1, 3, &s), GXRT_OK);
    struct stat about;
    assert_int_equal(stat(folder, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0700); /* nobody else's business */
    assert_int_equal(store_open(folder, 2, 3, &other), GXRT_OK);
    uint32_t half;
    assert_int_equal(store_put(other, "eight", "12345678", 8, 1), GXRT_OK);
    assert_int_equal(store_get(s, "eight", &half, sizeof half, 1), GXRT_WORLD_FAILED);
    assert_non_null(strstr(gxrt_last_error(), "a key is damaged"));
    store_close(other);
    char process[64];
    snprintf(process, sizeof process, "(process %ld on ", (long)getpid());
    assert_int_equal(store_open(folder, 1, 3, &other), GXRT_WORLD_FAILED);
    assert_non_null(strstr(gxrt_last_error(), "has a rank 1 already (process "));
    assert_non_null(strstr(gxrt_last_error(), process));
    assert_int_equal(store_open(folder, 0, 2, &other), GXRT_WORLD_FAILED);
    assert_non_null(strstr(gxrt_last_error(), "is of a world of 3 ranks (rank 1 is"));
    store_close(s);
    assert_int_not_equal(access(folder, F_OK), 0);
}

/* Opens as `rank` of `ranks`, puts, and expects to be told `why` within 5 s. */
static void expect(const char *where, uint32_t rank, uint32_t ranks, gxrt_status want,
                   const char *why)
{
    Store *s = NULL;
    double before = seconds();
    gxrt_status st = store_open(where, rank, ranks, &s);
    st = st == GXRT_OK ? store_put(s, "k", "v", 1, 1) : st;
    if (st != want || !strstr(gxrt_last_error(), why))
        fail_msg("%s: %s", gxrt_status_name(st), gxrt_last_error());
    store_close(s);
    assert_true(seconds() - before < 5);
}

/* rows: collectives.J2 (edge: time is over; the missing key is named) */
static void test_wrong_stores(void **state)
{
    (void)state;
    Store *server;
    uint32_t value;
    expect("", 0, 2, GXRT_INVALID_ARGUMENT, "give file:FOLDER");
    expect("tcp:host:1", 1, 2, GXRT_INVALID_ARGUMENT, "or tcp://HOST:PORT");
    expect("tcp://nowhere", 1, 2, GXRT_INVALID_ARGUMENT, "expected tcp://HOST:PORT");
    expect("tcp://host:70000", 1, 2, GXRT_INVALID_ARGUMENT, "expected tcp://HOST:PORT");
    expect("tcp://no.such.host.invalid:29", 1, 2, GXRT_WORLD_FAILED,
           "its host is not known");
    expect("file:/no/such/folder", 1, 2, GXRT_WORLD_FAILED, "cannot be made");
    choose_port("");
    expect(address, 1, 2, GXRT_WORLD_FAILED,
           "cannot be reached within 1 s: Connection refused");
    choose_port("right");
    assert_int_equal(store_open(address, 0, 3, &server), GXRT_OK);
    expect(address, 0, 3, GXRT_WORLD_FAILED,
           "cannot listen there: Address already in use");
    char wrong[80];
    snprintf(wrong, sizeof wrong, "tcp://wrong@%s", strrchr(address, '@') + 1);
    expect(wrong, 1, 3, GXRT_WORLD_FAILED, "another secret");
    expect(address, 1, 2, GXRT_WORLD_FAILED, "a world of another size");
    Store *guest;
    assert_int_equal(store_open(address, 2, 3, &guest), GXRT_OK);
    assert_int_equal(store_put(guest, "two", &value, sizeof value, 1), GXRT_OK);
    expect(address, 2, 3, GXRT_WORLD_FAILED, "has this rank already");
    assert_int_equal(store_get(guest, "one", &value, sizeof value, 0.2),
                     GXRT_WORLD_FAILED);
    assert_non_null(strstr(gxrt_last_error(), "nobody has put one within"));
    assert_int_equal(store_get(server, "one", &value, sizeof value, 0.2),
                     GXRT_WORLD_FAILED);
    assert_int_equal(store_get(guest, "two", &value, 3, 1), GXRT_WORLD_FAILED);
    assert_non_null(strstr(gxrt_last_error(), "wrong size"));
    /* what was not read is not taken for the next answer: the connection is given up */
    assert_int_equal(store_get(guest, "two", &value, 4, 1), GXRT_WORLD_FAILED);
    assert_non_null(strstr(gxrt_last_error(), "has this rank already"));
    store_close(guest);
    double before = seconds(); /* of those who were refused nobody is waited for */
    store_close(server);
    assert_true(seconds() - before < 5);
}

/* Something else listens on the port, and says nothing; or rank 0 goes away. */
static void test_silence(void **state)
{
    (void)state;
    int other = take_port("");
    expect(address, 1, 2, GXRT_WORLD_FAILED, "is no store of gxrt");
    close(other);
    choose_port("");
    Store *server, *guest;
    uint32_t value;
    assert_int_equal(store_open(address, 0, 2, &server), GXRT_OK);
    assert_int_equal(store_open(address, 1, 2, &guest), GXRT_OK);
    assert_int_equal(store_put(guest, "k", "v", 1, 1), GXRT_OK);
    pthread_t closes;
    assert_int_equal(pthread_create(&closes, NULL,
                                    (void *(*)(void *))(void (*)(void))store_close,
                                    server),
                     0);
    double before = seconds();
    assert_int_equal(store_get(guest, "never", &value, sizeof value, 0.3),
                     GXRT_WORLD_FAILED);
    assert_true(seconds() - before < 5);
    store_close(guest);
    pthread_join(closes, NULL);
}

/* Takes the next guest, and answers its greeting. */
static int answer_guest(int listener, const char answer[16])
{
    char hello[144];
    int guest = accept(listener, NULL, NULL);
    recv(guest, hello, sizeof hello, MSG_WAITALL);
    send(guest, answer, 16, MSG_NOSIGNAL);
    return guest;
}

/* What only answers a question, and a yes in other words. */
static const char *const bad_answers[] = {"GXRTSTO1\0\0\0\4\0\0\0",
                                          "GXRTSTO2\0\0\0\0\0\0\0"};

/* Answers a greeting with them, one a guest. */
static void *answer_badly(void *argument)
{
    for (int i = 0; i < 2; i++)
        close(answer_guest(*(int *)argument, bad_answers[i]));
    return NULL;
}

static void test_bad_answer(void **state)
{
    (void)state;
    pthread_t thread;
    int listener = take_port("");
    assert_int_equal(pthread_create(&thread, NULL, answer_badly, &listener), 0);
    for (int i = 0; i < 2; i++)
        expect(address, 1, 2, GXRT_WORLD_FAILED, "is no store of gxrt");
    pthread_join(thread, NULL);
    close(listener);
}

static int open_files(void)
{
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

/* No more files may be opened: neither to listen nor to connect. */
static void few_files(const char *where)
{
    struct rlimit limit, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    expect(where, 0, 2, GXRT_WORLD_FAILED, "cannot listen there: Too many open files");
    expect(where, 1, 2, GXRT_WORLD_FAILED,
           "cannot be reached within 1 s: Too many open files");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* A server with a guest takes the number 0 of a descriptor where the process has closed its standard input; a port
 * that is taken leaves it free. */
static void test_descriptors(void **state)
{
    (void)state;
    Store *server;
    StoreGuest guest = {.address = address, .key = "k", .value = 7, .puts = true};
    uint32_t value = 0;
    int taken = take_port("");
    int input = dup(0), files = open_files();
    char nobody[64];
    close(0);
    choose_port("");
    snprintf(nobody, sizeof nobody, "%s", address);
    expect(nobody, 1, 2, GXRT_WORLD_FAILED, "cannot be reached within 1 s: Connection");
    assert_int_equal(open_files(), files - 1);
    few_files(nobody);
    set_address("", taken);
    assert_int_equal(store_open(address, 0, 2, &server), GXRT_WORLD_FAILED);
    assert_int_equal(open_files(), files - 1);
    close(taken);
    assert_int_equal(store_open(address, 0, 2, &server), GXRT_OK);
    guest_start(&guest);
    assert_int_equal(store_get(server, "k", &value, sizeof value, 10), GXRT_OK);
    assert_int_equal(guest_join(&guest), GXRT_OK);
    store_close(server);
    assert_int_equal(value, 7);
    assert_int_equal(dup2(input, 0), 0);
    close(input);
    assert_int_equal(open_files(), files - 2); /* `taken`, `input` */
}

/* Texts too long for host and secret; without a secret the host is none. */
static void test_addresses(void **state)
{
    (void)state;
    char text[400], words[260];
    Store *server, *guest;
    uint32_t value = 3;
    memset(words, 'a', sizeof words);
    for (int n = 127; n <= 257; n++) {
        snprintf(text, sizeof text, "tcp://%.*s:29", n, words);
        if (n >= 256)
            expect(text, 1, 2, GXRT_INVALID_ARGUMENT, "expected tcp://HOST:PORT");
        snprintf(text, sizeof text, "tcp://%.*s@nowhere:0", n, words);
        expect(text, 1, 2, GXRT_INVALID_ARGUMENT, "expected tcp://HOST:PORT");
        snprintf(text, sizeof text, "tcp://%.*s@no.such.host.invalid:29", n, words);
        if (n >= 128)
            expect(text, 1, 2, GXRT_INVALID_ARGUMENT, "expected tcp://HOST:PORT");
    }
    choose_port("");
    assert_int_equal(store_open(address, 0, 2, &server), GXRT_OK);
    snprintf(text, sizeof text, "tcp://localhost:%s", strrchr(address, ':') + 1);
    assert_int_equal(store_open(text, 1, 2, &guest), GXRT_OK);
    int input = dup(0);
    close(0); /* the connection has the number 0 */
    assert_int_equal(store_put(guest, "k", &value, sizeof value, 5), GXRT_OK);
    char byte = 0;
    assert_int_equal(store_put(server, "byte", "v", 1, 5), GXRT_OK);
    assert_int_equal(store_get(guest, "byte", &byte, 1, 5), GXRT_OK);
    assert_int_equal(byte, 'v');
    store_close(guest);
    assert_int_equal(dup2(input, 0), 0);
    close(input);
    store_close(server);
}

/* Who greets in other words is not answered; who is answered and left says so. */
static void test_other_words(void **state)
{
    (void)state;
    Store *server;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    unsigned char hello[8 + 4 + 4 + 128] = "GXRTSTO1", answer[16];
    choose_port("");
    a.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    assert_int_equal(store_open(address, 0, 2, &server), GXRT_OK);
    for (int wrong = 1; wrong >= 0; wrong--) {
        int s = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(s, (struct sockaddr *)&a, sizeof a), 0);
        hello[11] = 1; /* rank 1 of 2 */
        hello[15] = 2;
        hello[7] = wrong ? '0' : '1';
        assert_int_equal(send(s, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
        assert_int_equal(recv(s, answer, sizeof answer, MSG_WAITALL),
                         wrong ? 0 : (int)sizeof answer);
        close(s);
    }
    store_close(server);
}

/* Answers a greeting, and is gone. */
static void *answer_and_leave(void *argument)
{
    char rest[256];
    int guest = answer_guest(*(int *)argument, "GXRTSTO1\0\0\0\0\0\0\0");
    shutdown(guest, SHUT_WR);
    while (recv(guest, rest, sizeof rest, 0) > 0)
        ;
    close(guest);
    return NULL;
}

/* Who has lost the connection makes another one. */
static void test_left(void **state)
{
    (void)state;
    pthread_t thread;
    Store *s;
    int listener = take_port("");
    assert_int_equal(pthread_create(&thread, NULL, answer_and_leave, &listener), 0);
    assert_int_equal(store_open(address, 1, 2, &s), GXRT_OK);
    assert_int_equal(store_put(s, "k", "v", 1, 1), GXRT_WORLD_FAILED);
    assert_non_null(
        strstr(gxrt_last_error(), "the connection is lost: Connection reset by peer"));
    pthread_join(thread, NULL);
    close(listener);
    assert_int_equal(store_put(s, "k", "v", 1, 1), GXRT_WORLD_FAILED);
    assert_non_null(strstr(gxrt_last_error(), "cannot be reached within 1 s"));
    store_close(s);
}

/* Where nobody listens a connection may meet itself, and greet itself. */
static void test_own_end(void **state)
{
    (void)state;
    choose_port("");
    to_itself = true;
    expect(address, 1, 2, GXRT_WORLD_FAILED,
           "cannot be reached within 1 s: Connection refused");
    to_itself = false;
    forbidden = true;
    expect(address, 1, 2, GXRT_WORLD_FAILED,
           "cannot be reached within 1 s: Permission denied");
    forbidden = false;
}

/* The name of a folder leaves room for those of its files. */
static void test_long_folders(void **state)
{
    (void)state;
    char text[PATH_MAX + 8] = "/no/";
    for (size_t n = strlen(text); n < PATH_MAX; n++) {
        text[n] = n % 100 ? 'x' : '/';
        if (n + 1 < PATH_MAX - NAME_MAX - 2)
            continue;
        bool is_long = n + 1 > PATH_MAX - NAME_MAX - 2;
        expect(text, 0, 2, GXRT_WORLD_FAILED,
               is_long ? "bytes, at most 3839 may be" : "the store /no/xx");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ranks),
        cmocka_unit_test(test_foreign_files),
        cmocka_unit_test(test_killed_ranks),
        cmocka_unit_test(test_taken_rank),
        cmocka_unit_test(test_killed_while_waiting),
        cmocka_unit_test(test_wrong_stores),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_bad_answer),
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_other_words),
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_own_end),
        cmocka_unit_test(test_long_folders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
