/* Writing files that are there whole or not at all. Includes nothing of the project: programs, compiler
 * and runtime use it. */
#ifndef GXC_IR_FILE_H
#define GXC_IR_FILE_H

#include <stddef.h>

typedef struct FilePart {
    const void *data;
    size_t size; /* bytes */
} FilePart;

/* Writes the parts one behind another to a temporary name beside `path`, then renames it. SIGINT, SIGTERM
 * and SIGHUP wait meanwhile, so that neither half a file nor the temporary one is left. A file that
 * was there keeps its mode, and a symbolic link stays one. A device or a pipe is written as it
 * is, and to what is open already (/dev/stdout) is appended. 0, or the errno of what failed. */
int file_write(const char *path, const FilePart *parts, size_t count);

#endif
