/* A file is: magic, length of key, length of data, XXH3-128 of the data, key, data. It is named by a
 * hash of the key, which is compared in full. See cache.h. */
#include "codegen/build/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/base/file.h"

#define CACHE_MAGIC "GXCCACHE"
#define MOST_BYTES (UINT64_C(1) << 30) /* of an entry's data */

typedef struct CacheHeader {
    char magic[8];
    uint64_t key_length, size;
    XXH128_canonical_t hash;
} CacheHeader;

static CacheHeader header_of(size_t key_length, const void *data, size_t size)
{
    CacheHeader h = {.key_length = key_length, .size = size};
    memcpy(h.magic, CACHE_MAGIC, sizeof h.magic);
    XXH128_canonicalFromHash(&h.hash, XXH3_128bits(data, size));
    return h;
}

static const char *entry_path(Arena *a, const char *folder, const char *key,
                              size_t key_length)
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, XXH3_128bits(key, key_length));
    char hex[33];
    for (int i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", c.digest[i]);
    return arena_printf(a, "%s/%s.gxc", folder, hex);
}

/* Only a file of the folder itself: no link, nothing that would be waited for. */
static FILE *open_entry(const char *path, uint64_t *bytes)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat info;
    if (fd < 0)
        return NULL;
    FILE *f = fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? fdopen(fd, "rb") : NULL;
    if (f == NULL)
        close(fd);
    else
        *bytes = (uint64_t)info.st_size;
    return f;
}

static const void *read_entry(Arena *a, FILE *f, uint64_t bytes, const char *key,
                              size_t key_length, size_t *size)
{
    CacheHeader h;
    if (fread(&h, sizeof h, 1, f) != 1 ||
        memcmp(h.magic, CACHE_MAGIC, sizeof h.magic) != 0 || h.key_length != key_length ||
        h.size > MOST_BYTES || bytes != sizeof h + key_length + h.size)
        return NULL;
    char *stored = arena_alloc(a, key_length + 1);
    if (fread(stored, 1, key_length, f) != key_length ||
        memcmp(stored, key, key_length) != 0)
        return NULL;
    void *data = arena_alloc(a, h.size + 1);
    if (fread(data, 1, h.size, f) != h.size)
        return NULL;
    CacheHeader again = header_of(key_length, data, h.size);
    if (memcmp(&again.hash, &h.hash, sizeof h.hash) != 0)
        return NULL;
    *size = h.size;
    return data;
}

int cache_open(const char *folder)
{
    struct stat info;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return errno;
    if (stat(folder, &info) != 0)
        return errno;
    return S_ISDIR(info.st_mode) ? 0 : ENOTDIR;
}

const void *cache_load(Arena *a, const char *folder, const char *key, size_t key_length,
                       size_t *size)
{
    uint64_t bytes;
    FILE *f = open_entry(entry_path(a, folder, key, key_length), &bytes);
    if (f == NULL)
        return NULL;
    const void *data = read_entry(a, f, bytes, key, key_length, size);
    fclose(f);
    return data;
}

int cache_store(Arena *a, const char *folder, const char *key, size_t key_length,
                const void *data, size_t size)
{
    if (size > MOST_BYTES)
        return EFBIG;
    CacheHeader h = header_of(key_length, data, size);
    FilePart parts[] = {{&h, sizeof h}, {key, key_length}, {data, size}};
    return file_replace(entry_path(a, folder, key, key_length), parts, 3);
}
