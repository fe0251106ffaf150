/* Objects in one file, in the form of ar: what the section .gxc.emu holds. */
#ifndef GXC_CODEGEN_BUILD_ARCHIVE_H
#define GXC_CODEGEN_BUILD_ARCHIVE_H

#include "ir/base/arena.h"

typedef struct ArchiveMember {
    const void *data;
    size_t bytes;
} ArchiveMember;

/* Members are named by their numbers, 0.o, 1.o, …; without dates and owners, without an index. */
const void *archive_make(Arena *a, const ArchiveMember *members, size_t count,
                         size_t *out_bytes);

#endif
