/* Both stores of a world against who does not keep to them: a server whose guests send anything, a rank whose
 * server answers anything, and a folder that holds anything. Each call ends in time, with a status or a value that
 * somebody put; what is not the store's stays in the folder.
 *
 * An input is what it is about (its first byte), then the bytes that are sent, or the folder's files. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "runtime/collective/store.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/shared/listener.h"

enum {
    RANKS = 4096, /* of the server, one for each input until it is made again */
    SECRET_BYTES = 128,
    KEY_BYTES = STORE_MOST_KEY,
    SECONDS_MOST = 8
};

static void check(gxrt_status st, const char *what)
{
    PROMISE(st == GXRT_OK || (st == GXRT_WORLD_FAILED && gxrt_last_error()[0] != '\0'),
            "%s: status %d, %s", what, (int)st, gxrt_last_error());
}

/* --- a server ------------------------------------------------------------------------------ */

static Store *server;
static Listener server_listener;
static uint32_t next_rank;

static void make_server(void)
{
    if (server != NULL && next_rank < RANKS)
        return;
    store_close(server);
    close(listener_open(&server_listener));
    PROMISE(store_open(server_listener.address, 0, RANKS, &server) == GXRT_OK, "%s",
            gxrt_last_error());
    next_rank = 1;
}

static size_t put_number(unsigned char *to, uint32_t number)
{
    number = htonl(number);
    memcpy(to, &number, sizeof number);
    return sizeof number;
}

/* A right greeting, but for what `bits` says. */
static size_t write_hello(unsigned char *to, uint8_t bits)
{
    size_t n = 8;
    memcpy(to, bits & 1 ? "GXRTSTO0" : "GXRTSTO1", 8);
    n += put_number(to + n, bits & 2 ? UINT32_MAX : bits & 4 ? 0 : next_rank++);
    n += put_number(to + n, bits & 8 ? RANKS + 1 : RANKS);
    memset(to + n, 0, SECRET_BYTES);
    to[n] = bits & 16 ? 'x' : 'k';
    return n + SECRET_BYTES;
}

/* A request for each four bytes: key and kind, sizes, what is cut off. */
static size_t write_request(unsigned char *to, const uint8_t at[4])
{
    static const uint32_t sizes[] = {
        0, 1, 8, 100, STORE_MOST_VALUE, STORE_MOST_VALUE + 1, UINT32_MAX};
    uint32_t size = sizes[at[1] % 7];
    bool is_put = at[0] & 1;
    size_t n = KEY_BYTES;
    memset(to, at[0] & 2 ? 'k' : 0, KEY_BYTES); /* the one has no end */
    to[0] = (unsigned char)('a' + at[0] / 4 % 8);
    n += put_number(to + n, is_put ? at[2] + 1u : 0);
    n += put_number(to + n, size);
    n += put_number(to + n, at[2] % 4);
    uint32_t there = is_put && size <= STORE_MOST_VALUE ? size : 0;
    memset(to + n, at[3], there);
    n += there;
    return at[3] == 255 ? n - n % 50 : n;
}

static void send_bytes(int s, const unsigned char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t n = send(s, bytes, size, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* the server has gone away */
        bytes += n;
        size -= (size_t)n;
    }
}

/* Reads until the other end closes. False: it neither answers nor closes for so long. */
static bool read_replies(int s, int milliseconds)
{
    unsigned char bytes[4096];
    struct pollfd p = {.fd = s, .events = POLLIN};
    while (poll(&p, 1, milliseconds) == 1) {
        if (recv(s, bytes, sizeof bytes, 0) <= 0)
            return true;
    }
    return false;
}

static void visit_server(const uint8_t *data, size_t size)
{
    static unsigned char message[KEY_BYTES + 12 + STORE_MOST_VALUE];
    static uint32_t turn;
    make_server();
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    PROMISE(s >= 0 && connect(s, (struct sockaddr *)&server_listener.socket,
                              sizeof server_listener.socket) == 0,
            "no server");
    if (data[0] & 32) {
        send_bytes(s, data + 1, size - 1);
    } else {
        send_bytes(s, message, write_hello(message, data[0]));
        for (size_t at = 1; at + 4 <= size; at += 4)
            send_bytes(s, message, write_request(message, data + at));
    }
    shutdown(s, SHUT_WR);
    read_replies(s, 200); /* what it sent may ask to wait for days; others are served */
    close(s);
    uint32_t mine = ++turn, got = 0;
    char key[KEY_BYTES];
    snprintf(key, sizeof key, "mine.%u", mine);
    PROMISE(store_put(server, key, &mine, sizeof mine, 1) == GXRT_OK &&
                store_get(server, key, &got, sizeof got, 1) == GXRT_OK && got == mine,
            "the server does not serve any more: %s", gxrt_last_error());
}

/* --- a rank -------------------------------------------------------------------------------- */

typedef struct Answer {
    int socket;
    const uint8_t *data;
    size_t size;
} Answer;

/* Each connection gets the next bytes, as many as the byte before them says. */
static void *answer(void *argument)
{
    Answer *a = argument;
    struct pollfd p = {.fd = a->socket, .events = POLLIN};
    while (poll(&p, 1, 100) == 1) {
        int guest = accept(a->socket, NULL, NULL);
        size_t n = a->size != 0 ? a->data[0] : 0;
        n = n + 1 < a->size ? n : a->size - (a->size != 0);
        send_bytes(guest, a->data + 1, n);
        shutdown(guest, SHUT_WR);
        PROMISE(read_replies(guest, SECONDS_MOST * 1000), "the rank does not go");
        close(guest);
        a->data += n + (a->size != 0);
        a->size -= n + (a->size != 0);
    }
    return NULL;
}

static void be_rank(const uint8_t *data, size_t size)
{
    Answer a = {.data = data + 1, .size = size - 1};
    pthread_t thread;
    Listener own;
    Store *s;
    uint64_t value = 7;
    a.socket = listener_open(&own);
    PROMISE(pthread_create(&thread, NULL, answer, &a) == 0, "no thread");
    PROMISE(store_open(own.address, 1, 2, &s) == GXRT_OK, "%s", gxrt_last_error());
    double start = seconds_now();
    check(store_put(s, "a", &value, sizeof value, 0.05), "store_put");
    check(store_get(s, "b", &value, sizeof value, 0.05), "store_get");
    PROMISE(seconds_now() - start < SECONDS_MOST, "a rank waits too long");
    store_close(s);
    pthread_join(thread, NULL);
    close(a.socket);
}

/* --- a folder ------------------------------------------------------------------------------ */

static char folder[64];

/* A file for each: its name (kind, number), how many bytes, the bytes. */
static void make_files(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"gxrt.rank.%u", "gxrt.key.%u", "gxrt.rank.%ux",
                                        "gxrt.lock",    "other.%u",    "gxrt."};
    char path[128];
    for (size_t at = 0; at + 2 <= size;) {
        size_t n = data[at + 1] < size - at - 2 ? data[at + 1] : size - at - 2;
        size_t used = (size_t)snprintf(path, sizeof path, "%s/", folder);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(path + used, sizeof path - used, names[data[at] % 6], data[at] / 6u % 4);
#pragma GCC diagnostic pop
        if (data[at] >= 240) {
            mkdir(path, 0700);
        } else {
            int f = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
            PROMISE(f < 0 || write(f, data + at + 2, n) == (ssize_t)n, "%s", path);
            close(f);
        }
        at += 2 + n;
    }
}

/* How many files the folder has that are none of the store's; they and all others go if `clear`. */
static int count_others(bool clear)
{
    char path[400];
    int count = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        count += strncmp(e->d_name, "gxrt.", 5) != 0;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (clear && unlink(path) != 0)
            rmdir(path);
    }
    if (d != NULL)
        closedir(d);
    return count;
}

static void use_folder(const uint8_t *data, size_t size)
{
    uint64_t put = 7, got = 0;
    Store *s = NULL, *second = NULL;
    snprintf(folder, sizeof folder, "/tmp/gxrt-fuzz-%ld", (long)getpid());
    PROMISE(mkdir(folder, 0700) == 0, "no folder %s", folder);
    make_files(data + 1, size - 1);
    int others = count_others(false);
    gxrt_status st = store_open(folder, data[0] / 3 % 3, 3, &s);
    check(st, "store_open");
    PROMISE((st == GXRT_OK) == (s != NULL), "a store that was refused");
    if (s != NULL) {
        check(store_open(folder, data[0] / 9 % 3, 2 + data[0] % 2, &second),
              "store_open");
        gxrt_status first = store_put(s, "key.1", &put, sizeof put, 0);
        check(first, "store_put");
        st = store_get(second != NULL ? second : s, "key.1", &got, sizeof got, 0);
        check(st, "store_get");
        PROMISE(first != GXRT_OK || (st == GXRT_OK && got == put),
                "what was put is lost");
        check(store_get(s, "key.2", &got, sizeof got, 0), "store_get");
    }
    store_close(second);
    store_close(s);
    PROMISE(count_others(true) == others, "a file that is not the store's is gone");
    rmdir(folder);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    static void (*const parts[])(const uint8_t *, size_t) = {visit_server, be_rank,
                                                             use_folder};
    if (size != 0)
        parts[data[0] % 3](data, size);
}
