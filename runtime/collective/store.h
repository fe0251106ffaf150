/* A small store that all ranks of a world reach: it carries NCCL's id, plan hashes and, when
 * something hangs, who is where. For trusted networks and folders only: what is sent is not
 * encrypted, and the secret keeps jobs apart, not attackers out. */
#ifndef GXC_RUNTIME_COLLECTIVE_STORE_H
#define GXC_RUNTIME_COLLECTIVE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/run/status.h"

typedef struct Store Store;

/* "tcp://HOST:PORT" or "tcp://SECRET@HOST:PORT": rank 0 listens there, the others connect when
 * they first put or get something; all ranks have the same secret. "file:FOLDER" or a path: a
 * folder that all ranks share, on a file system with locks, for one run at a time; it is made if it
 * is missing, and removed by the last rank that closes the store. What a run has left whose ranks
 * were killed is cleared away. */
gxrt_status store_open(const char *where, uint32_t rank, uint32_t ranks, Store **out);
void store_close(Store *s); /* NULL is fine */

enum { STORE_MOST_KEY = 64, STORE_MOST_VALUE = 1 << 16 };

/* Both wait no longer than `seconds` and then answer GXRT_WORLD_FAILED. */
gxrt_status store_put(Store *s, const char *key, const void *bytes, size_t size,
                      double seconds);
/* Waits until somebody has put the key; size is what has to be there. */
gxrt_status store_get(Store *s, const char *key, void *bytes, size_t size,
                      double seconds);

#endif
