/* Diagnostics. The lines of the source are indexed once, on the first rendering; until then
 * a message is only a span and a text. */
#include "ir/base/diag.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_COLUMNS 160 /* bytes of a source line that are shown around the caret */

static const char *const kind_names[] = {
    [DIAG_ERROR] = "error", [DIAG_WARNING] = "warning", [DIAG_NOTE] = "note"};
static const char *const kind_colours[] = {[DIAG_ERROR] = "\033[1;31m",
                                           [DIAG_WARNING] = "\033[1;35m",
                                           [DIAG_NOTE] = "\033[1;36m"};

Diag *diag_create(Arena *a, const char *file, const char *text, size_t length)
{
    Diag *d = ARENA_NEW(a, Diag);
    d->arena = a;
    d->file = file;
    d->text = text;
    d->length = text != NULL ? length : 0;
    return d;
}

static GXC_FORMAT(5, 0) void add(Diag *d, DiagKind kind, Span span, const char *prefix,
                                 const char *format, va_list args)
{
    DiagMessage *message = ARENA_NEW(d->arena, DiagMessage);
    message->kind = kind;
    message->span = span;
    message->text = arena_vprintf(d->arena, format, args);
    if (prefix[0] != '\0')
        message->text = arena_printf(d->arena, "%s%s", prefix, message->text);
    if (d->last != NULL)
        d->last->next = message;
    else
        d->first = message;
    d->last = message;
}

void diag_error(Diag *d, Span span, const char *format, ...)
{
    if (d->error_count++ >= DIAG_ERROR_LIMIT)
        return;
    va_list args;
    va_start(args, format);
    add(d, DIAG_ERROR, span, "", format, args);
    va_end(args);
}

void diag_unsupported(Diag *d, Span span, const char *format, ...)
{
    d->unsupported_count++;
    if (d->error_count++ >= DIAG_ERROR_LIMIT)
        return;
    va_list args;
    va_start(args, format);
    add(d, DIAG_ERROR, span, "not supported: ", format, args);
    va_end(args);
}

void diag_warning(Diag *d, Span span, const char *format, ...)
{
    if (d->error_count > DIAG_ERROR_LIMIT)
        return;
    va_list args;
    va_start(args, format);
    add(d, DIAG_WARNING, span, "", format, args);
    va_end(args);
}

void diag_note(Diag *d, Span span, const char *format, ...)
{
    if (d->error_count > DIAG_ERROR_LIMIT)
        return;
    va_list args;
    va_start(args, format);
    add(d, DIAG_NOTE, span, "", format, args);
    va_end(args);
}

/* The line that holds an offset: its first byte and number. `from` and `line` carry on from
 * the message before, so that rendering in text order reads the source once. */
typedef struct Line {
    size_t begin;
    size_t number;
} Line;

static Line find_line(const Diag *d, size_t offset, Line from)
{
    if (offset > d->length)
        offset = d->length;
    if (d->text == NULL || offset < from.begin)
        from = (Line){0, 1};
    while (d->text != NULL) {
        const char *newline = memchr(d->text + from.begin, '\n', offset - from.begin);
        if (newline == NULL)
            break;
        from.begin = (size_t)(newline - d->text) + 1;
        from.number++;
    }
    return from;
}

typedef struct Out {
    Arena *arena;
    char *data;
    size_t length, capacity;
} Out;

static void put(Out *out, const char *data, size_t length)
{
    out->data =
        arena_grow(out->arena, out->data, &out->capacity, out->length + length + 1, 1);
    memcpy(out->data + out->length, data, length);
    out->length += length;
    out->data[out->length] = '\0';
}

static void put_text(Out *out, const char *text)
{
    put(out, text, strlen(text));
}

/* Bytes of the character in UTF-8 at `data`; 0 if there is none, or one that controls. */
static size_t character_bytes(const unsigned char *data, size_t length)
{
    if (data[0] < 0x80)
        return (data[0] >= 0x20 && data[0] != 0x7f) || data[0] == '\t';
    size_t n = data[0] >= 0xf0 ? 4 : data[0] >= 0xe0 ? 3 : 2;
    if (data[0] < 0xc2 || data[0] > 0xf4 || n > length ||
        (data[0] == 0xc2 && data[1] < 0xa0))
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((data[i] & 0xc0) != 0x80)
            return 0;
    }
    return n;
}

/* Bytes that would move the cursor or are no text are shown as `?`; tabs stay. */
static void put_source(Out *out, const char *data, size_t length)
{
    for (size_t i = 0, n; i < length; i += n) {
        n = character_bytes((const unsigned char *)data + i, length - i);
        put(out, n ? data + i : "?", n ? n : 1);
        n += n == 0;
    }
}

/* Names in a message may come from a file. It may have lines. */
static void put_message(Out *out, const char *text)
{
    for (const char *end; (end = strchr(text, '\n')) != NULL; text = end + 1) {
        put_source(out, text, (size_t)(end - text));
        put(out, "\n", 1);
    }
    put_source(out, text, strlen(text));
}

/* The source line and a caret under the span's first byte, tildes under the rest. */
static void put_excerpt(Out *out, const Diag *d, Line line, Span span, const char *colour,
                        const char *plain)
{
    const char *text = d->text + line.begin;
    const char *newline = memchr(text, '\n', d->length - line.begin);
    size_t length = newline != NULL ? (size_t)(newline - text) : d->length - line.begin;
    if (length > 0 && text[length - 1] == '\r')
        length--;
    size_t caret = span.begin - line.begin;
    if (caret > length)
        caret = length;
    size_t first = caret > SHOWN_COLUMNS / 2 && length > SHOWN_COLUMNS
                       ? caret - SHOWN_COLUMNS / 2
                       : 0;
    size_t end = length - first > SHOWN_COLUMNS ? first + SHOWN_COLUMNS : length;
    put_text(out, "  ");
    put_text(out, first > 0 ? "..." : "");
    put_source(out, text + first, end - first);
    put_text(out, end < length ? "...\n  " : "\n  ");
    put_text(out, first > 0 ? "   " : "");
    for (size_t i = first; i < caret; i++)
        put(out, text[i] == '\t' ? "\t" : " ", 1);
    put_text(out, colour);
    put_text(out, "^");
    size_t last = span.end > line.begin ? span.end - line.begin : 0;
    for (size_t i = caret + 1; i < last && i < end; i++)
        put_text(out, "~");
    put_text(out, plain);
    put_text(out, "\n");
}

const char *diag_render(const Diag *d, bool colour)
{
    Out out = {.arena = d->arena};
    put_text(&out, "");
    Line line = {0, 1};
    const char *bold = colour ? "\033[1m" : "";
    const char *plain = colour ? "\033[0m" : "";
    for (const DiagMessage *message = d->first; message != NULL;
         message = message->next) {
        const char *tint = colour ? kind_colours[message->kind] : "";
        bool has_location =
            d->text != NULL && (message->span.begin != 0 || message->span.end != 0);
        put_text(&out, bold);
        put_message(&out, d->file);
        if (has_location) {
            line = find_line(d, message->span.begin, line);
            size_t begin =
                message->span.begin < d->length ? message->span.begin : d->length;
            char position[64];
            snprintf(position, sizeof position, ":%zu:%zu", line.number,
                     begin - line.begin + 1);
            put_text(&out, position);
        }
        put_text(&out, ": ");
        put_text(&out, tint);
        put_text(&out, kind_names[message->kind]);
        put_text(&out, ": ");
        put_text(&out, plain);
        put_message(&out, message->text);
        put_text(&out, "\n");
        if (has_location)
            put_excerpt(&out, d, line, message->span, tint, plain);
    }
    if (d->error_count > DIAG_ERROR_LIMIT) {
        char hidden[96];
        snprintf(hidden, sizeof hidden, ": error: %zu further errors are not shown\n",
                 d->error_count - DIAG_ERROR_LIMIT);
        put_message(&out, d->file);
        put_text(&out, hidden);
    }
    return out.data;
}
