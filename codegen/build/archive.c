/* Writes archives. See archive.h. */
#include "codegen/build/archive.h"

#include <stdio.h>
#include <string.h>

static const char magic[] = "!<arch>\n";
enum { MAGIC_BYTES = sizeof magic - 1, HEADER_BYTES = 60 };

/* Members begin at even positions. */
static size_t padded(size_t bytes)
{
    return bytes + (bytes & 1);
}

const void *archive_make(Arena *a, const ArchiveMember *members, size_t count,
                         size_t *out_bytes)
{
    size_t bytes = MAGIC_BYTES;
    for (size_t i = 0; i < count; i++)
        bytes += HEADER_BYTES + padded(members[i].bytes);
    char *data = arena_alloc(a, bytes), *at = data + MAGIC_BYTES;
    memcpy(data, magic, MAGIC_BYTES);
    for (size_t i = 0; i < count; i++) {
        char name[24], header[HEADER_BYTES + 64];
        snprintf(name, sizeof name, "%zu.o/", i);
        snprintf(header, sizeof header, "%-16s%-12d%-6d%-6d%-8o%-10zu`\n", name, 0, 0, 0,
                 0644u, members[i].bytes);
        memcpy(at, header, HEADER_BYTES);
        at += HEADER_BYTES;
        memcpy(at, members[i].data, members[i].bytes);
        at += members[i].bytes;
        if (members[i].bytes & 1)
            *at++ = '\n';
    }
    *out_bytes = bytes;
    return data;
}
