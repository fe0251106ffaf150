/* Which parameter takes its values from where. */
#ifndef GXC_RUNTIME_GXRUN_FEED_H
#define GXC_RUNTIME_GXRUN_FEED_H

#include "runtime/gxrun/array_file.h"
#include "runtime/gxrun/gxrun.h"

typedef struct Feed {
    const Source *source; /* NULL: nobody said; random */
    char *array;          /* its name in an archive, or NULL */
} Feed;

/* Open files, each once. */
typedef struct FileSet {
    ArrayFile **files;
    size_t count;
} FileSet;

/* The file that `text` names, for a device, and the array in it: FILE or FILE:NAME. `*out_array` NULL: no name was
 * given; else to be freed. Complains and gives NULL if it cannot be opened. */
const ArrayFile *feed_open(FileSet *set, const char *text, uint32_t device,
                           char **out_array);
void feed_close(FileSet *set);

/* A feed for each parameter; an exit code. */
int feed_assign(const Options *o, const Signature *s, FileSet *set, Feed *feeds);
void feed_free(Feed *feeds, size_t count);

/* `text` with every {device} replaced; to be freed. */
char *feed_path(const char *text, uint32_t device, bool *out_replaced);

#endif
