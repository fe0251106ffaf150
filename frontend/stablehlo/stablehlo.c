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

bool stablehlo_is(const char *data, size_t length)
{
    static const char *const starts[] = {"module @",
                                         "module {",
                                         "module attributes",
                                         "module\n",
                                         "func.func",
                                         "\"builtin.module\"",
                                         "builtin.module",
                                         "#loc",
                                         "\"func.func\"",
                                         "!",
                                         "#"};
    if (is_bytecode(data, length))
        return true;
    size_t at = skip_comments(data, length);
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (begins(data + at, length - at, starts[i]))
            return true;
    return false;
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
