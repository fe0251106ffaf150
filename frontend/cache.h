/* The cache of --cache-dir: artefacts by all that decides their bytes. */
#ifndef GXC_FRONTEND_CACHE_H
#define GXC_FRONTEND_CACHE_H

#include <stdbool.h>
#include <stddef.h>

#include "ir/arena.h"

/* The file of an artefact in `folder`, named by a hash of the key: everything that the bytes
 * depend on, as text. */
const char *cache_path(Arena *a, const char *folder, const char *key, size_t key_length);

/* The artefact that was stored under this key; NULL if there is none or the file is damaged. */
const void *cache_load(Arena *a, const char *path, const char *key, size_t key_length,
                       size_t *size);

/* Stores it; others see the whole file or none. False: errno. */
bool cache_store(const char *path, const char *key, size_t key_length, const void *data,
                 size_t size);

#endif
