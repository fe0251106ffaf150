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

/* Of ASCII, or one of U+0080 to U+009f. */
static bool is_control(const char *at)
{
    const unsigned char *c = (const unsigned char *)at;
    return c[0] < 0x20 || c[0] == 0x7f || (c[0] == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0);
}

void text_make_plain(char *text, const char *kept)
{
    for (char *c = text; *c; c++) {
        if (!is_control(c) || strchr(kept, *c)) {
            continue;
        }
        if (*c & 0x80) { /* of two bytes */
            *c++ = '?';
        }
        *c = '?';
    }
}

const char *plain_text(const char *text)
{
    typedef struct Copy {
        struct Copy *older;
        char text[];
    } Copy;
    static Copy *copies;
    const char *at = text;
    while (*at && !is_control(at)) {
        at++;
    }
    if (!*at) {
        return text;
    }
    Copy *copy = allocate(sizeof *copy + strlen(text) + 1, 1);
    copy->older = copies;
    copies = copy;
    strcpy(copy->text, text);
    text_make_plain(copy->text, "");
    return copy->text;
}
