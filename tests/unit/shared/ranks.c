#include "tests/unit/shared/ranks.h"

#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/collective/store.h"

enum { RANKS_MOST = 16, SECONDS = 10 };

typedef struct Rank {
    gxrt_status (*run)(uint32_t);
    uint32_t number;
    gxrt_status status;
    pthread_t thread;
} Rank;

static void *run_rank(void *argument)
{
    Rank *r = argument;
    r->status = r->run(r->number);
    if (r->status != GXRT_OK)
        fprintf(stderr, "rank %u: %s\n", r->number, gxrt_last_error());
    return NULL;
}

void run_ranks(uint32_t count, gxrt_status (*rank)(uint32_t))
{
    Rank ranks[RANKS_MOST];
    assert_true(count <= RANKS_MOST);
    for (uint32_t i = 0; i < count; i++) {
        ranks[i] = (Rank){.run = rank, .number = i};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        pthread_join(ranks[i].thread, NULL);
        assert_int_equal(ranks[i].status, GXRT_OK);
    }
}

static void *visit(void *argument)
{
    StoreGuest *g = argument;
    Store *s;
    gxrt_status st = store_open(g->address, 1, 2, &s);
    if (st == GXRT_OK && g->puts)
        st = store_put(s, g->key, &g->value, sizeof g->value, SECONDS);
    else if (st == GXRT_OK)
        st = store_get(s, g->key, &g->value, sizeof g->value, SECONDS);
    store_close(s);
    return (void *)(uintptr_t)st;
}

void guest_start(StoreGuest *guest)
{
    assert_int_equal(pthread_create(&guest->thread, NULL, visit, guest), 0);
}

gxrt_status guest_join(StoreGuest *guest)
{
    void *st;
    pthread_join(guest->thread, &st);
    return (gxrt_status)(uintptr_t)st;
}

uint16_t free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(s, (struct sockaddr *)&a, size), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&a, &size), 0);
    close(s);
    return ntohs(a.sin_port);
}
