/* StableHLO as a Module: finds the form, reads it, converts it. */
#include <string.h>

#include "frontend/hlo/parse.h"
#include "frontend/stablehlo/convert.h"

static bool begins(const char *data, size_t length, const char *word)
{
    size_t n = strlen(word);
    return length >= n && memcmp(data, word, n) == 0;
}

/* Behind blanks and comments. */
static size_t skip_comments(const char *data, size_t length)
{
    size_t at = 0;
    while (at < length) {
        if (data[at] == ' ' || data[at] == '\n' || data[at] == '\t' || data[at] == '\r') {
            at++;
        } else if (begins(data + at, length - at, "//")) {
            while (at < length && data[at] != '\n')
                at++;
        } else {
            break;
        }
    }
    return at;
}

static bool is_bytecode(const char *data, size_t length)
{
    return begins(data, length, "ML\xefR");
}

static bool begins_any(const char *data, size_t length, const char *const words[])
{
    for (size_t i = 0; words[i] != NULL; i++)
        if (begins(data, length, words[i]))
            return true;
    return false;
}

/* HLO's computations and instructions may have the name `module`, too. */
static bool begins_module(const char *data, size_t length)
{
    static const char *const behind[] = {"@", "{", "attributes", NULL};
    size_t at = strlen("module");
    if (!begins(data, length, "module"))
        return false;
    at += skip_comments(data + at, length - at);
    return begins_any(data + at, length - at, behind);
}

bool stablehlo_is(const char *data, size_t length)
{
    static const char *const starts[] = {"func.func",
                                         "\"func.func\"",
                                         "builtin.module",
                                         "\"builtin.module\"",
                                         "sdy.mesh",
                                         "\"sdy.mesh\"",
                                         "!",
                                         "#",
                                         NULL};
    size_t at = skip_comments(data, length);
    return is_bytecode(data, length) || begins_module(data + at, length - at) ||
           begins_any(data + at, length - at, starts);
}

Module *stablehlo_parse(Arena *a, Diag *d)
{
    if (d->length > UINT32_MAX - 8) {
        diag_error(d, (Span){0, 0}, "the text is larger than 4 GiB");
        return NULL;
    }
    Module *m = module_create(a, d, "module");
    MlirFile *file = is_bytecode(d->text, d->length)
                         ? mlir_read_bytecode(a, m->intern, d, d->text, d->length)
                         : mlir_read_text(a, m->intern, d);
    if (file != NULL)
        m = convert_module(file, a, d, m);
    return file != NULL ? m : NULL;
}
