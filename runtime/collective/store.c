/* Which kind of store a text asks for. */
#include <string.h>

#include "runtime/collective/store_kind.h"

gxrt_status store_open(const char *where, uint32_t rank, uint32_t ranks, Store **out)
{
    *out = NULL;
    if (strncmp(where, "tcp://", 6) == 0) {
        return store_tcp_open(where + 6, rank, ranks, out);
    }
    bool is_file = strncmp(where, "file:", 5) == 0;
    const char *folder = is_file ? where + 5 : where;
    size_t name = strcspn(
        where,
        "/:"); /* HOST:PORT, perhaps, or a scheme; a folder's path may have colons */
    bool is_other = !is_file && where[name] == ':';
    if (!*folder || is_other) {
        return status_set(GXRT_INVALID_ARGUMENT,
                          "the store \"%s\": give file:FOLDER, a folder that all ranks "
                          "share, or tcp://HOST:PORT, where rank 0 can listen",
                          where);
    }
    return store_file_open(folder, rank, ranks, out);
}

void store_close(Store *s)
{
    if (s) {
        s->kind->close(s);
    }
}

gxrt_status store_put(Store *s, const char *key, const void *bytes, size_t size,
                      double seconds)
{
    return s->kind->put(s, key, bytes, size, seconds);
}

gxrt_status store_get(Store *s, const char *key, void *bytes, size_t size, double seconds)
{
    return s->kind->get(s, key, bytes, size, seconds);
}
