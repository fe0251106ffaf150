/* Ranks as threads of one process, and the guest of a store. */
#ifndef GXC_TESTS_UNIT_SHARED_RANKS_H
#define GXC_TESTS_UNIT_SHARED_RANKS_H

#include <pthread.h>
#include <stdbool.h>

#include "runtime/gxrt.h"

/* Each rank on a thread of its own; all end well. `rank` is called with 0 to `count` - 1. */
void run_ranks(uint32_t count, gxrt_status (*rank)(uint32_t));

/* A port of this machine that nobody listens on. */
uint16_t free_port(void);

/* Rank 1 of 2 joins the store at this address, puts its value under the key or waits for one, and leaves. */
typedef struct StoreGuest {
    const char *address, *key;
    uint32_t value;
    bool puts;
    pthread_t thread;
} StoreGuest;

void guest_start(StoreGuest *guest);
gxrt_status guest_join(StoreGuest *guest);

#endif
