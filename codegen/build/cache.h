/* Files of --cache-dir: whatever was made, by all that decides it. */
#ifndef GXC_CODEGEN_BUILD_CACHE_H
#define GXC_CODEGEN_BUILD_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "ir/base/arena.h"

/* Makes the folder if it is missing. 0 or an errno. */
int cache_open(const char *folder);

/* What was stored under this key; NULL if there is nothing or the file is damaged. */
const void *cache_load(Arena *a, const char *folder, const char *key, size_t key_length,
                       size_t *size);

/* Stores it; others see the whole file or none. 0 or an errno. */
int cache_store(Arena *a, const char *folder, const char *key, size_t key_length,
                const void *data, size_t size);

#endif
