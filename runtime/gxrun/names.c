/* See names.h. */
#include "runtime/gxrun/names.h"

#include <ctype.h>
#include <string.h>

#include "runtime/gxrun/gxrun.h"

static char *words_of(const char *name, size_t length)
{
    char *out = allocate(length + 1, 1);
    char *to = out;
    bool pending = false;
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)name[i] < 128 && !isalnum((unsigned char)name[i])) {
            pending = to != out;
            continue;
        }
        if (pending) {
            *to++ = '.';
        }
        pending = false;
        *to++ = name[i];
    }
    return out;
}

char *name_words(const char *name)
{
    return words_of(name, strlen(name));
}

char *name_words_unnumbered(const char *name)
{
    size_t length = strlen(name);
    size_t end = length;
    while (end > 0 && isdigit((unsigned char)name[end - 1])) {
        end--;
    }
    return words_of(name,
                    end > 1 && end < length && name[end - 1] == '.' ? end - 1 : length);
}

const char *name_behind(const char *words, const char *prefix)
{
    size_t length = strlen(prefix);
    if (length == 0) {
        return words;
    }
    return strncmp(words, prefix, length) == 0 && words[length] == '.'
               ? words + length + 1
               : NULL;
}
