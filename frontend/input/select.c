/* See select.h. */
#include "frontend/input/select.h"

#include <string.h>

#include "ir/base/text.h"

typedef struct Part {
    size_t begin, end, name, name_length;
} Part;

typedef struct Parts {
    Part *data;
    size_t count, capacity;
} Parts;

static void add_part(Diag *d, Parts *parts, Part part)
{
    parts->data = arena_grow(d->arena, parts->data, &parts->capacity, parts->count + 1,
                             sizeof *parts->data);
    parts->data[parts->count++] = part;
}

/* The next line that begins so, from `at` on; the length if there is none. */
static size_t find_line(const Diag *d, size_t at, const char *start)
{
    size_t length = strlen(start);
    while (at + length <= d->length) {
        if (memcmp(d->text + at, start, length) == 0)
            return at;
        const char *end = memchr(d->text + at, '\n', d->length - at);
        if (end == NULL)
            break;
        at = (size_t)(end - d->text) + 1;
    }
    return d->length;
}

/* The next line that divides MLIR: // ----- alone, or what MLIR prints above a module, "// -----// IR Dump After x
 * //----- //". A longer ruler, or one with words behind it, is a comment. The length if there is none. */
static size_t find_divider(const Diag *d, size_t at)
{
    static const char mark[] = "// -----";
    while ((at = find_line(d, at, mark)) < d->length) {
        size_t end = at + strlen(mark);
        bool is_dump = end < d->length && d->text[end] == '/';
        while (end < d->length &&
               (d->text[end] == ' ' || d->text[end] == '\t' || d->text[end] == '\r'))
            end++;
        if (is_dump || end == d->length || d->text[end] == '\n')
            return at;
        const char *line = memchr(d->text + end, '\n', d->length - end);
        at = line != NULL ? (size_t)(line - d->text) + 1 : d->length;
    }
    return d->length;
}

static size_t name_end(const Diag *d, size_t at)
{
    while (at < d->length && d->text[at] != '\0' &&
           strchr(" \t\r\n,{(", d->text[at]) == NULL)
        at++;
    return at;
}

static size_t find_quote(const Diag *d, size_t at)
{
    while (at < d->length && d->text[at] != '"')
        at++;
    return at;
}

/* Parts begin with `HloModule NAME`. */
static void split_hlo(Diag *d, Parts *parts)
{
    static const char start[] = "HloModule ";
    for (size_t at = find_line(d, 0, start); at < d->length;) {
        size_t name = at + strlen(start), next = find_line(d, name, start);
        add_part(d, parts, (Part){at, next, name, name_end(d, name) - name});
        at = next;
    }
}

/* Parts end with a divider; each has a module, `module @NAME`, somewhere. */
static void split_mlir(Diag *d, Parts *parts)
{
    for (size_t at = 0; at < d->length;) {
        size_t next = find_divider(d, at);
        size_t name = find_line(d, at, "module @");
        Part part = {at, next, at, 0};
        if (name < next) {
            part.name = name + strlen("module @");
            bool quoted = part.name < d->length && d->text[part.name] == '"';
            part.name += quoted; /* @"a name" */
            part.name_length = (quoted ? find_quote : name_end)(d, part.name) - part.name;
        }
        if (strspn(d->text + at, " \t\r\n") < next - at)
            add_part(d, parts, part);
        at = next < d->length ? next + 1 : next;
        const char *line = memchr(d->text + at, '\n', d->length - at);
        if (next < d->length)
            at = line != NULL ? (size_t)(line - d->text) + 1 : d->length;
    }
}

static bool report(Diag *d, const Parts *parts, const char *name)
{
    Text names;
    text_init(&names, d->arena);
    for (size_t i = 0; i < parts->count && i < 20; i++)
        text_printf(&names, "%s%.*s", i != 0 ? ", " : "", (int)parts->data[i].name_length,
                    d->text + parts->data[i].name);
    const Part *at = &parts->data[name == NULL && parts->count > 1];
    Span span = {(uint32_t)at->name, (uint32_t)(at->name + at->name_length)};
    if (name != NULL)
        diag_error(d, span, "there is no module %s here, but %s", name, names.data);
    else
        diag_error(d, span, "the text has %zu modules: choose one by --module=NAME: %s",
                   parts->count, names.data);
    return false;
}

static void keep_part(Diag *d, const Part *part)
{
    char *text = arena_text(d->arena, d->text, d->length);
    for (size_t i = 0; i < d->length; i++)
        if ((i < part->begin || i >= part->end) && text[i] != '\n')
            text[i] = ' ';
    d->text = text;
}

bool select_module(Diag *d, const char *name, bool *out_chosen)
{
    Parts parts = {0};
    *out_chosen = false;
    split_hlo(d, &parts);
    if (parts.count == 0 && find_divider(d, 0) < d->length)
        split_mlir(d, &parts);
    if (parts.count < 2)
        return true;
    for (size_t i = 0; name != NULL && i < parts.count; i++) {
        const Part *part = &parts.data[i];
        if (strlen(name) != part->name_length ||
            memcmp(d->text + part->name, name, part->name_length) != 0)
            continue;
        keep_part(d, part);
        return *out_chosen = true;
    }
    return report(d, &parts, name);
}
