/* A small store that all ranks of a world reach: it carries NCCL's id, plan hashes and, when
 * something hangs, who is where. For trusted networks and folders only. */
#ifndef GXC_RUNTIME_STORE_H
#define GXC_RUNTIME_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/status.h"

typedef struct Store Store;

/* "file:FOLDER" or a path: a folder that all ranks share and no earlier run has used; it is
 * made if it is missing, and removed by the last rank that closes the store. */
gxrt_status store_open(const char *where, uint32_t rank, uint32_t ranks, Store **out);
void store_close(Store *s); /* NULL is fine */

gxrt_status store_put(Store *s, const char *key, const void *bytes, size_t size);
/* Waits until somebody has put the key. GXRT_WORLD_FAILED when `seconds` are over; size is
 * what has to be there. */
gxrt_status store_get(Store *s, const char *key, void *bytes, size_t size,
                      double seconds);

#endif
