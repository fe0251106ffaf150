/* Reading whole files; writing files that are there whole or not at all; whether what was printed has arrived. Includes
 * nothing of the project: programs, compiler and runtime use it. */
#ifndef GXC_IR_BASE_FILE_H
#define GXC_IR_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct FilePart {
    const void *data;
    size_t size; /* bytes */
} FilePart;

/* Writes the parts one behind another to a temporary name beside `path`, then renames it. Signals by
 * which users and the system end a process wait meanwhile, so that neither half a file nor the temporary one is left;
 * SIGXFSZ is EFBIG then. A file that was there keeps its mode, and a symbolic link stays one. A device or a pipe is written as it
 * is, and to what is open already (/dev/stdout) at its position. 0, or the errno of what failed. */
int file_write(const char *path, const FilePart *parts, size_t count);

/* The same where the name is not the user's: whatever has it is replaced, and no link is followed. */
int file_replace(const char *path, const FilePart *parts, size_t count);

/* What --max-input is if it is not given, in MiB: no proto can be larger than half of it. */
enum { FILE_MOST_MIB = 4096 };

/* The whole file, or standard input for "-", the caller's to free. 0, or an errno: EFBIG if there
 * are more bytes than `most`, before more is read; a file's size is looked at first. */
int file_read(const char *path, size_t most, void **out, size_t *out_size);
/* The same of what is open already, which is closed: a pipe cannot be opened twice. */
int file_read_open(int fd, size_t most, void **out, size_t *out_size);

/* Whether both names lead to one file: what is written to one would destroy the other. Not so of devices, pipes and
 * "-", or where there is no file yet. */
bool file_is_same(const char *path, const char *other);
/* Whether it is standard output: "-", or one of its names (/dev/stdout, /dev/fd/1). */
bool file_is_output(const char *path);
/* Whether what is written to one would replace what was written to the other: as above, or neither is there yet, and
 * name and folder are the same. Not so of what is open already (/dev/stdout). */
bool file_would_be_same(const char *path, const char *other);

/* Whether file_write() could begin now: said before a long run, not behind it. 0, or the errno of what is in the way. */
int file_check_place(const char *path);

/* What the program `name` does first. From now on standard input, output and error are open, so that no file that is opened
 * becomes one of them; a file that becomes larger than the process may write (ulimit -f) is EFBIG, not the end of the
 * process, though programs that it starts have their own way; and the end of the process, wherever it comes from, is exit
 * code 1 if file_flush_output() fails. */
void file_begin_process(const char *name);

/* Whether all that was printed has arrived. If not, says so once, as the program `name`. */
bool file_flush_output(const char *name);

#endif
