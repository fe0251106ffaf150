/* The store over TCP: rank 0 serves, on a thread for each of the others; each of them has one
 * connection, made when it is first needed.
 *
 * A connection starts with a Hello and its answer; then come Requests, each answered by a Reply
 * and, if a value was found, its bytes. Numbers are in network order. */
#define _GNU_SOURCE /* POLLRDHUP, ppoll */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "ir/base/clock.h"
#include "ir/base/hash.h"
#include "runtime/collective/store_kind.h"

/* Every rank of a large world asks for keys of every other one. */
enum { BUCKETS = 4096 };

enum { MOST_SECRET = 128, MOST_HOST = 256, HELLO_SECONDS = 10, CLOSE_SECONDS = 10 };

enum { ANSWER_YES, ANSWER_SECRET, ANSWER_SIZE, ANSWER_TAKEN, ANSWER_NOT_THERE, ANSWERS };

typedef struct Hello {
    char magic[8]; /* "GXRTSTO1" */
    uint32_t rank, ranks;
    char secret[MOST_SECRET];
} Hello;

typedef struct Request {
    char key[STORE_MOST_KEY];
    uint32_t is_put;
    uint32_t size;         /* put: bytes that follow */
    uint32_t milliseconds; /* get: to wait for the key */
} Request;

typedef struct Reply {
    char magic[8];
    uint32_t answer;
    uint32_t size;
} Reply;

static const char magic[8] = {'G', 'X', 'R', 'T', 'S', 'T', 'O', '1'};

typedef struct Entry {
    struct Entry *next;
    char key[STORE_MOST_KEY];
    size_t size;
    unsigned char bytes[];
} Entry;

typedef struct TcpStore {
    Store store;
    char host[MOST_HOST], port[16];
    char secret[MOST_SECRET];
    char name[MOST_HOST + 32]; /* for messages, without the secret */
    int socket;                /* rank 0: listens; others: the connection; -1: none yet */
    pthread_mutex_t mutex; /* others: one request at a time; rank 0: all that follows */
    pthread_cond_t changed;
    pthread_t thread;
    bool has_thread, stop;
    Entry *entries[BUCKETS]; /* by the hash of their keys */
    bool *joined;            /* by rank: it has come */
    unsigned connections;    /* that are open */
} TcpStore;

/* One connection of the server. */
typedef struct Guest {
    TcpStore *s;
    int socket;
} Guest;

/* --- bytes ---------------------------------------------------------------------------------- */

/* Waits until the socket is ready for `events`; false when the time is over. */
static bool wait_ready(int socket, short events, double end)
{
    for (;;) {
        struct timespec left = time_until(end);
        struct pollfd p = {.fd = socket, .events = events};
        int n = ppoll(&p, 1, &left, NULL);
        if (n > 0) {
            return true;
        }
        if ((n < 0 && errno != EINTR) || seconds_now() >= end) {
            errno = n < 0 ? errno : ETIMEDOUT;
            return false;
        }
    }
}

/* The last call found nothing to do after all: poll() may say so. */
static bool may_retry(void)
{
    return errno == EAGAIN || errno == EINTR;
}

/* A peer that takes only a part must not keep us beyond `end`: no call blocks. */
static bool send_all(int socket, const void *bytes, size_t size, double end)
{
    const char *at = bytes;
    while (size > 0) {
        if (!wait_ready(socket, POLLOUT, end)) {
            return false;
        }
        ssize_t n = send(socket, at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && !may_retry()) {
            return false;
        }
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static bool receive_all(int socket, void *bytes, size_t size, double end)
{
    char *at = bytes;
    while (size > 0) {
        if (!wait_ready(socket, POLLIN, end)) {
            return false;
        }
        ssize_t n = recv(socket, at, size, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && !may_retry())) {
            errno = n == 0 ? ECONNRESET : errno;
            return false;
        }
        at += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* --- the server ------------------------------------------------------------------------------- */

static Entry *find(const TcpStore *s, const char *key)
{
    Entry *e = s->entries[hash_text(key) % BUCKETS];
    while (e && strcmp(e->key, key) != 0) {
        e = e->next;
    }
    return e;
}

/* The first value of a key stays. */
static bool keep(TcpStore *s, const char *key, const void *bytes, size_t size)
{
    pthread_mutex_lock(&s->mutex);
    Entry *e = find(s, key) ? NULL : malloc(sizeof *e + size);
    bool ok = e || find(s, key);
    if (e) {
        snprintf(e->key, sizeof e->key, "%s", key);
        e->size = size;
        if (size) {
            memcpy(e->bytes, bytes, size);
        }
        Entry **first = &s->entries[hash_text(key) % BUCKETS];
        e->next = *first;
        *first = e;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->mutex);
    return ok;
}

/* A rank that was killed waits for nothing any more. */
static bool has_left(int guest)
{
    struct pollfd p = {.fd = guest, .events = POLLRDHUP};
    return guest >= 0 && poll(&p, 1, 0) > 0;
}

/* Entries stay where they are until the store is closed. guest: who waits; -1: this process. */
static const Entry *await(TcpStore *s, const char *key, double end, int guest)
{
    pthread_mutex_lock(&s->mutex);
    const Entry *e = find(s, key);
    while (!e && !s->stop && seconds_now() < end && !has_left(guest)) {
        condition_wait(&s->changed, &s->mutex, 0.02);
        e = find(s, key);
    }
    pthread_mutex_unlock(&s->mutex);
    return e;
}

static bool reply(int socket, uint32_t answer, const void *bytes, size_t size)
{
    Reply r = {.answer = htonl(answer), .size = htonl((uint32_t)size)};
    memcpy(r.magic, magic, sizeof magic);
    double end = seconds_now() + HELLO_SECONDS;
    return send_all(socket, &r, sizeof r, end) &&
           (size == 0 || send_all(socket, bytes, size, end));
}

/* Takes as long whatever is different. */
static bool is_secret(const TcpStore *s, const char secret[MOST_SECRET])
{
    unsigned char different = 0;
    for (size_t i = 0; i < MOST_SECRET; i++) {
        different |= (unsigned char)(s->secret[i] ^ secret[i]);
    }
    return different == 0;
}

static bool greet(TcpStore *s, int socket)
{
    Hello h;
    if (!receive_all(socket, &h, sizeof h, seconds_now() + HELLO_SECONDS) ||
        memcmp(h.magic, magic, sizeof magic) != 0) {
        return false;
    }
    uint32_t rank = ntohl(h.rank);
    uint32_t answer = ANSWER_YES;
    if (!is_secret(s, h.secret)) {
        answer = ANSWER_SECRET;
    } else if (ntohl(h.ranks) != s->store.ranks || rank >= s->store.ranks) {
        answer = ANSWER_SIZE;
    } else {
        pthread_mutex_lock(&s->mutex);
        answer = rank == 0 || s->joined[rank] ? ANSWER_TAKEN : ANSWER_YES;
        s->joined[rank] = true;
        pthread_mutex_unlock(&s->mutex);
    }
    return reply(socket, answer, NULL, 0) && answer == ANSWER_YES;
}

static bool serve_put(TcpStore *s, int socket, const Request *r, size_t size)
{
    unsigned char *bytes = malloc(size + 1);
    bool ok = bytes && receive_all(socket, bytes, size, seconds_now() + HELLO_SECONDS) &&
              keep(s, r->key, bytes, size) && reply(socket, ANSWER_YES, NULL, 0);
    free(bytes);
    return ok;
}

static bool serve_get(TcpStore *s, int socket, const Request *r)
{
    const Entry *e =
        await(s, r->key, seconds_now() + 0.001 * ntohl(r->milliseconds), socket);
    return e ? reply(socket, ANSWER_YES, e->bytes, e->size)
             : reply(socket, ANSWER_NOT_THERE, NULL, 0);
}

static bool is_stopped(TcpStore *s)
{
    pthread_mutex_lock(&s->mutex);
    bool stop = s->stop;
    pthread_mutex_unlock(&s->mutex);
    return stop;
}

static void *serve(void *argument)
{
    Guest *g = argument;
    TcpStore *s = g->s;
    bool ok = greet(s, g->socket);
    while (ok && !is_stopped(s)) {
        Request r;
        if (!wait_ready(g->socket, POLLIN, seconds_now() + 0.1)) {
            continue;
        }
        ok = receive_all(g->socket, &r, sizeof r, seconds_now() + HELLO_SECONDS);
        r.key[sizeof r.key - 1] = 0;
        uint32_t size = ntohl(r.size);
        ok = ok && size <= STORE_MOST_VALUE &&
             (r.is_put ? serve_put(s, g->socket, &r, size) : serve_get(s, g->socket, &r));
    }
    close(g->socket);
    free(g);
    pthread_mutex_lock(&s->mutex);
    s->connections--;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

static void welcome(TcpStore *s, int socket)
{
    Guest *g = malloc(sizeof *g);
    pthread_attr_t detached;
    pthread_t thread;
    if (!g) {
        close(socket);
        return;
    }
    *g = (Guest){s, socket};
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &(int){true}, sizeof(int));
    fcntl(socket, F_SETFD, FD_CLOEXEC);
    pthread_mutex_lock(&s->mutex);
    s->connections++;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &detached, serve, g) != 0) {
        s->connections--;
        close(socket);
        free(g);
    }
    pthread_attr_destroy(&detached);
    pthread_mutex_unlock(&s->mutex);
}

static void *listen_on(void *argument)
{
    TcpStore *s = argument;
    while (!is_stopped(s)) {
        int guest = wait_ready(s->socket, POLLIN, seconds_now() + 0.1)
                        ? accept(s->socket, NULL, NULL)
                        : -1;
        if (guest >= 0) {
            welcome(s, guest);
        }
    }
    return NULL;
}

/* --- addresses --------------------------------------------------------------------------------- */

/* "[SECRET@]HOST:PORT"; HOST may be in brackets. */
static bool read_address(TcpStore *s, const char *address)
{
    const char *at = strrchr(address, '@');
    const char *host = at ? at + 1 : address;
    const char *colon = strrchr(host, ':');
    size_t secret = at ? (size_t)(at - address) : 0;
    size_t n = colon ? (size_t)(colon - host) : 0;
    char *end;
    unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (n == 0 || n >= sizeof s->host || secret >= sizeof s->secret || port < 1 ||
        port > 65535 || *end) {
        return false;
    }
    bool in_brackets = host[0] == '[' && host[n - 1] == ']' && n > 2;
    memcpy(s->secret, address, secret);
    memcpy(s->host, host + in_brackets, n - 2 * in_brackets);
    snprintf(s->port, sizeof s->port, "%lu", port);
    snprintf(s->name, sizeof s->name, "tcp://%s", host);
    return true;
}

static gxrt_status resolve(const TcpStore *s, struct addrinfo **out)
{
    struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int error = getaddrinfo(s->host, s->port, &want, out);
    return error == 0
               ? GXRT_OK
               : status_set(GXRT_WORLD_FAILED, "the store %s: its host is not known: %s",
                            s->name, gai_strerror(error));
}

/* -1: none of the addresses can be had; why, is in errno. */
static int open_listener(const struct addrinfo *list)
{
    int error = 0;
    /* on another address of the host another run's ranks would come to us, and ours to it */
    for (const struct addrinfo *a = list; a && error != EADDRINUSE; a = a->ai_next) {
        int made = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (made >= 0) {
            setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &(int){true}, sizeof(int));
        }
        if (made >= 0 && bind(made, a->ai_addr, a->ai_addrlen) == 0 &&
            listen(made, 1024) == 0) {
            return made;
        }
        error = errno;
        if (made >= 0) {
            close(made);
        }
    }
    errno = error;
    return -1;
}

static gxrt_status start_server(TcpStore *s)
{
    struct addrinfo *list;
    gxrt_status st = resolve(s, &list);
    if (st != GXRT_OK) {
        return st;
    }
    s->socket = open_listener(list);
    int error = errno;
    freeaddrinfo(list);
    if (s->socket < 0) {
        return status_set(
            GXRT_WORLD_FAILED,
            "the store %s: rank 0 cannot listen there: %s: give a port that "
            "is free, on the host of rank 0",
            s->name, strerror(error));
    }
    s->joined = calloc(s->store.ranks, sizeof *s->joined);
    s->has_thread = s->joined && pthread_create(&s->thread, NULL, listen_on, s) == 0;
    return s->has_thread ? GXRT_OK
                         : status_set(GXRT_OUT_OF_MEMORY, "gxrt_world_create: no memory");
}

/* --- the others ----------------------------------------------------------------------------- */

static void drop(TcpStore *s)
{
    close(s->socket);
    s->socket = -1;
}

static gxrt_status lost(TcpStore *s, int error)
{
    drop(s);
    return status_set(GXRT_WORLD_FAILED,
                      "the store %s: the connection is lost: %s: has rank 0 ended?",
                      s->name, strerror(error));
}

/* While nobody listens on a port that the system gives out itself, connect() may meet itself. */
static bool is_own_end(int socket)
{
    struct sockaddr_storage here = {0};
    struct sockaddr_storage there = {0};
    socklen_t here_size = sizeof here;
    socklen_t there_size = sizeof there;
    return getsockname(socket, (struct sockaddr *)&here, &here_size) == 0 &&
           getpeername(socket, (struct sockaddr *)&there, &there_size) == 0 &&
           here_size == there_size && memcmp(&here, &there, here_size) == 0;
}

/* connect() of a socket that does not block, with a limit of time: an error number, or 0. */
static int connect_until(int socket, const struct addrinfo *a, double end)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (connect(socket, a->ai_addr, a->ai_addrlen) != 0) {
        if (errno != EINPROGRESS || !wait_ready(socket, POLLOUT, end)) {
            return errno;
        }
        getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    return error == 0 && is_own_end(socket) ? ECONNREFUSED : error;
}

/* -1: no address can be reached; *error says why. */
static int try_connect(const struct addrinfo *list, double end, int *error)
{
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        int made = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                          a->ai_protocol);
        *error = made >= 0 ? connect_until(made, a, end) : errno;
        if (*error == 0) {
            return made;
        }
        if (made >= 0) {
            close(made);
        }
        if (seconds_now() > end) {
            break;
        }
    }
    return -1;
}

static gxrt_status introduce(TcpStore *s, double end)
{
    static const char *const words[ANSWERS] = {
        [ANSWER_SECRET] = "it has another secret: give all ranks of one job the same "
                          "GXRT_SECRET, and every job a port of its own",
        [ANSWER_SIZE] = "it is for a world of another size: give all ranks the same one",
        [ANSWER_TAKEN] = "it has this rank already: give every process its own rank",
    };
    Hello h = {.rank = htonl(s->store.rank), .ranks = htonl(s->store.ranks)};
    Reply r;
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.secret, s->secret, sizeof h.secret);
    setsockopt(s->socket, IPPROTO_TCP, TCP_NODELAY, &(int){true}, sizeof(int));
    if (!send_all(s->socket, &h, sizeof h, end) ||
        !receive_all(s->socket, &r, sizeof r, end) ||
        memcmp(r.magic, magic, sizeof magic) != 0 ||
        (ntohl(r.answer) != ANSWER_YES &&
         (ntohl(r.answer) >= ANSWERS || !words[ntohl(r.answer)]))) {
        drop(s);
        return status_set(GXRT_WORLD_FAILED,
                          "the store %s: what listens there is no store of gxrt, or its "
                          "rank 0 is stopped: give a port that nothing else uses",
                          s->name);
    }
    if (ntohl(r.answer) != ANSWER_YES) {
        drop(s);
        return status_set(GXRT_WORLD_FAILED, "the store %s refuses rank %u: %s", s->name,
                          s->store.rank, words[ntohl(r.answer)]);
    }
    return GXRT_OK;
}

/* Rank 0 may come later: tries until the time is over. */
static gxrt_status join(TcpStore *s, double seconds)
{
    double end = seconds_now() + seconds;
    struct addrinfo *list;
    gxrt_status st = s->socket < 0 ? resolve(s, &list) : GXRT_OK;
    if (s->socket >= 0 || st != GXRT_OK) {
        return st;
    }
    int error = ETIMEDOUT;
    while ((s->socket = try_connect(list, end, &error)) < 0 && seconds_now() < end) {
        sleep_seconds(0.02);
    }
    freeaddrinfo(list);
    return s->socket >= 0
               ? introduce(s, end)
               : status_set(GXRT_WORLD_FAILED,
                            "the store %s cannot be reached within %.0f s: %s: is rank 0 "
                            "running there, and may its port be reached?",
                            s->name, seconds, strerror(error));
}

static gxrt_status not_there(const TcpStore *s, const char *key, double seconds)
{
    return status_set(GXRT_WORLD_FAILED, "the store %s: nobody has put %s within %.0f s",
                      s->name, key, seconds);
}

static gxrt_status wrong_size(const TcpStore *s)
{
    return status_set(
        GXRT_WORLD_FAILED,
        "the store %s: a value has the wrong size: do all ranks have the same "
        "libgxrt?",
        s->name);
}

/* Asks, and takes the answer; a value must have `size` bytes. */
static gxrt_status ask(TcpStore *s, Request *r, const void *put, void *bytes, size_t size,
                       double seconds)
{
    gxrt_status st = join(s, seconds);
    double end = seconds_now() + seconds + 5; /* the server ends the wait itself */
    Reply answer;
    if (st != GXRT_OK) {
        return st;
    }
    if (!send_all(s->socket, r, sizeof *r, end) ||
        (put && !send_all(s->socket, put, ntohl(r->size), end)) ||
        !receive_all(s->socket, &answer, sizeof answer, end)) {
        return lost(s, errno);
    }
    if (ntohl(answer.answer) == ANSWER_NOT_THERE) {
        return not_there(s, r->key, seconds);
    }
    if (put) {
        return GXRT_OK;
    }
    if (ntohl(answer.size) != size) {
        drop(s);
        return wrong_size(s);
    }
    return receive_all(s->socket, bytes, size, end) ? GXRT_OK : lost(s, errno);
}

/* --- the interface ---------------------------------------------------------------------------- */

static gxrt_status tcp_put(Store *store, const char *key, const void *bytes, size_t size,
                           double seconds)
{
    TcpStore *s = (TcpStore *)store;
    Request r = {.is_put = true, .size = htonl((uint32_t)size)};
    if (store->rank == 0) {
        return keep(s, key, bytes, size)
                   ? GXRT_OK
                   : status_set(GXRT_OUT_OF_MEMORY, "the store %s: no memory", s->name);
    }
    snprintf(r.key, sizeof r.key, "%s", key);
    pthread_mutex_lock(&s->mutex);
    gxrt_status st = ask(s, &r, bytes, NULL, 0, seconds);
    pthread_mutex_unlock(&s->mutex);
    return st;
}

static gxrt_status tcp_get(Store *store, const char *key, void *bytes, size_t size,
                           double seconds)
{
    TcpStore *s = (TcpStore *)store;
    if (store->rank == 0) {
        const Entry *e = await(s, key, seconds_now() + seconds, -1);
        if (!e || e->size != size) {
            return e ? wrong_size(s) : not_there(s, key, seconds);
        }
        memcpy(bytes, e->bytes, size);
        return GXRT_OK;
    }
    double milliseconds = seconds < 1e6 ? 1000 * seconds : 1e9;
    Request r = {.milliseconds = htonl((uint32_t)milliseconds)};
    snprintf(r.key, sizeof r.key, "%s", key);
    pthread_mutex_lock(&s->mutex);
    gxrt_status st = ask(s, &r, NULL, bytes, size, seconds);
    pthread_mutex_unlock(&s->mutex);
    return st;
}

/* Until all connections have ended. */
static void await_leaving(TcpStore *s, double end)
{
    pthread_mutex_lock(&s->mutex);
    while (s->connections > 0 && seconds_now() < end) {
        condition_wait(&s->changed, &s->mutex, 1);
    }
    pthread_mutex_unlock(&s->mutex);
}

/* The others may still read what they were told: they have left when their connections end. */
static void stop_server(TcpStore *s)
{
    await_leaving(s, seconds_now() + CLOSE_SECONDS);
    pthread_mutex_lock(&s->mutex);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL); /* from here on nobody comes */
    await_leaving(s, INFINITY);    /* each looks at `stop` ten times a second */
}

static void tcp_close(Store *store)
{
    TcpStore *s = (TcpStore *)store;
    if (s->has_thread) {
        stop_server(s);
    }
    if (s->socket >= 0) {
        close(s->socket);
    }
    for (size_t i = 0; i < BUCKETS; i++) {
        for (Entry *e = s->entries[i], *next; e; e = next) {
            next = e->next;
            free(e);
        }
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    free(s->joined);
    free(s);
}

static const StoreKind tcp_kind = {tcp_put, tcp_get, tcp_close};

gxrt_status store_tcp_open(const char *address, uint32_t rank, uint32_t ranks,
                           Store **out)
{
    TcpStore *s = calloc(1, sizeof *s);
    if (!s) {
        return status_set(GXRT_OUT_OF_MEMORY, "gxrt_world_create: no memory");
    }
    s->store = (Store){&tcp_kind, rank, ranks};
    s->socket = -1;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    gxrt_status st =
        read_address(s, address)
            ? GXRT_OK
            : status_set(GXRT_INVALID_ARGUMENT,
                         "the store \"tcp://...\": expected tcp://HOST:PORT or "
                         "tcp://SECRET@HOST:PORT");
    if (st == GXRT_OK && rank == 0) {
        st = start_server(s);
    }
    if (st != GXRT_OK) {
        tcp_close(&s->store);
        return st;
    }
    *out = &s->store;
    return GXRT_OK;
}
