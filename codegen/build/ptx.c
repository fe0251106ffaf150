/* See ptx.h. */
#include "codegen/build/ptx.h"

#include <ctype.h>
#include <string.h>

#include "ir/base/bug.h"
#include "ir/base/text.h"

/* Behind the directives that every module begins with. */
static const char *body_of(const char *ptx)
{
    static const char last[] = ".address_size 64\n";
    const char *p = strstr(ptx, last);
    if (p == NULL)
        bug("PTX without an address size");
    return p + sizeof last - 1;
}

/* The text without its second and later .file: all kernels are of one file, its number 1. */
static void add_without_file(Text *t, const char *p)
{
    static const char directive[] = "\t.file\t";
    for (const char *found; (found = strstr(p, directive)) != NULL;) {
        text_add(t, p, (size_t)(found - p));
        p = found + strcspn(found, "\n");
        p += *p == '\n';
    }
    text_string(t, p);
}

const char *ptx_join(Arena *a, const char *const *texts, size_t count)
{
    Text t;
    text_init(&t, a);
    for (size_t i = 0; i < count; i++) {
        if (i == 0)
            text_string(&t, texts[i]);
        else
            add_without_file(&t, body_of(texts[i]));
    }
    return t.data;
}

/* -- several kernels' text -------------------------------------------------------------------------- */

/* What stands before each kernel, then its name and the end of the line. */
static const char mark[] = "\t// .globl\t";
static const char entry[] = ".visible .entry ";

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Behind "mark name\n"; NULL: another text is there. */
static const char *after_mark(const char *p, const char *name)
{
    size_t length = strlen(name);
    if (p == NULL || !starts_with(p, mark))
        return NULL;
    p += sizeof mark - 1;
    return strncmp(p, name, length) == 0 && p[length] == '\n' ? p + length + 1 : NULL;
}

/* A line before the first kernel about shared memory, `NAME$shared`, of this kernel. */
static bool is_shared_of(const char *line, size_t length, const char *name)
{
    const char *end = memchr(line, '$', length);
    size_t n = strlen(name);
    return end != NULL && (size_t)(end - line) > n && memcmp(end - n, name, n) == 0 &&
           end[-(ptrdiff_t)n - 1] == ' ';
}

/* A line that says nothing but where shared memory is. */
static bool is_shared(const char *line, size_t length)
{
    static const char demoted[] = " has been demoted";
    size_t n = sizeof demoted - 1;
    return starts_with(line, ".extern .shared ") ||
           (starts_with(line, "// ") && length > n &&
            memcmp(line + length - n, demoted, n) == 0);
}

static size_t line_length(const char *line)
{
    return strcspn(line, "\n");
}

/* Of the lines from `first` to `end` those of kernel `name`. */
static void add_shared(Text *t, const char *first, const char *end, const char *name)
{
    while (first < end) {
        size_t length = line_length(first);
        if (is_shared_of(first, length, name))
            text_add(t, first, length + 1);
        first += length + 1;
    }
}

static bool has_owners(const char *first, const char *end, const char *const *names,
                       size_t count)
{
    while (first < end) {
        size_t length = line_length(first);
        bool is_owned = false;
        for (size_t i = 0; i < count && !is_owned; i++)
            is_owned = is_shared_of(first, length, names[i]);
        if (!is_owned || !is_shared(first, length))
            return false;
        first += length + 1;
    }
    return true;
}

/* The text with the number of its function, which labels and the stack have in their names, as 0. */
static void add_renumbered(Text *t, const char *p, const char *end)
{
    static const char *const prefixes[] = {"$L__BB", "__local_depot"};
    const char *from = p;
    while (p < end) {
        size_t length = 0;
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
            if (*p == *prefixes[i] && starts_with(p, prefixes[i]))
                length = strlen(prefixes[i]);
        }
        if (length == 0) {
            p++;
            continue;
        }
        p += length;
        text_add(t, from, (size_t)(p - from));
        text_char(t, '0');
        while (isdigit((unsigned char)*p))
            p++;
        from = p;
    }
    text_add(t, from, (size_t)(end - from));
}

bool ptx_split(Arena *a, const char *text, const char *const *names, size_t count,
               const char **out)
{
    const char *first = strstr(text, mark), *shared = after_mark(first, names[0]);
    const char *kernel = shared != NULL ? strstr(shared, entry) : NULL;
    if (kernel == NULL || kernel[-1] != '\n')
        return false;
    const char *shared_end = kernel - 1; /* an empty line follows */
    if (!has_owners(shared, shared_end, names, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        const char *next = strstr(kernel, mark);
        const char *end = next != NULL ? next : kernel + strlen(kernel);
        Text t;
        text_init(&t, a);
        text_add(&t, text, (size_t)(first - text));
        text_printf(&t, "%s%s\n", mark, names[i]);
        add_shared(&t, shared, shared_end, names[i]);
        text_char(&t, '\n');
        add_renumbered(&t, kernel, end);
        out[i] = t.data;
        kernel = i + 1 < count ? after_mark(next, names[i + 1]) : next;
        if (i + 1 < count ? kernel == NULL || !starts_with(kernel, entry) : next != NULL)
            return false;
    }
    return true;
}

/* -- registers --------------------------------------------------------------------------------------- */

/* Behind the kernel's .reqntid; NULL: it has none, or says how many blocks there shall be. */
static const char *launch_bounds_of(const char *kernel)
{
    static const char threads[] = "\n.reqntid ", blocks[] = ".minnctapersm ";
    const char *body = strchr(kernel, '{');
    const char *at = strstr(kernel, threads), *limit = strstr(kernel, blocks);
    if (body == NULL || at == NULL || at > body || (limit != NULL && limit < body))
        return NULL;
    at++;
    return at + line_length(at) + 1;
}

/* Whether what follows the text of `entry` is one of the names. */
static bool is_named(const char *kernel, const char *const *names, size_t count)
{
    size_t length = strcspn(kernel, "(");
    for (size_t i = 0; i < count; i++)
        if (strlen(names[i]) == length && memcmp(kernel, names[i], length) == 0)
            return true;
    return false;
}

const char *ptx_without_limit(Arena *a, const char *text, const char *const *names,
                              size_t count)
{
    const char *from = text;
    Text t;
    text_init(&t, a);
    for (const char *kernel = text; (kernel = strstr(kernel, entry)) != NULL;) {
        kernel += sizeof entry - 1;
        const char *at = is_named(kernel, names, count) ? launch_bounds_of(kernel) : NULL;
        if (at == NULL)
            continue;
        text_add(&t, from, (size_t)(at - from));
        text_string(&t, ".minnctapersm 1\n");
        from = at;
    }
    if (from == text)
        return NULL;
    text_string(&t, from);
    return t.data;
}
