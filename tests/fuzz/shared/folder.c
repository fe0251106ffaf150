/* See folder.h. */
#include "tests/fuzz/shared/folder.h"

#include <unistd.h>

#include "tests/fuzz/fuzz.h"

const char *fuzz_folder(void)
{
    static char folder[4096];
    if (folder[0] == '\0') {
        ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
        PROMISE(n > 0, "no /proc/self/exe");
        folder[n] = '\0';
        *strrchr(folder, '/') = '\0';
    }
    return folder;
}
