/* Diagnostics: what the user is told about the input, with position, source line and caret.
 *
 * A Diag collects messages; nothing is printed until diag_render. Messages are kept in the
 * order they were made; after DIAG_ERROR_LIMIT errors further ones are only counted. */
#ifndef GXC_IR_BASE_DIAG_H
#define GXC_IR_BASE_DIAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/base/arena.h"

#define DIAG_ERROR_LIMIT 20

/* Bytes [begin, end) of the source text; {0, 0} means no position. */
typedef struct Span {
    uint32_t begin;
    uint32_t end;
} Span;

typedef enum { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE } DiagKind;

typedef struct DiagMessage {
    DiagKind kind;
    Span span;
    const char *text;
    struct DiagMessage *next;
} DiagMessage;

typedef struct Diag {
    Arena *arena;
    const char *file; /* shown name of the input; "<stdin>" for - */
    const char *text; /* the source; may hold NULs; NULL if the input is no text */
    size_t length;
    DiagMessage *first, *last;
    size_t error_count;
    size_t unsupported_count; /* of the errors: those made by diag_unsupported */
} Diag;

Diag *diag_create(Arena *a, const char *file, const char *text, size_t length);

void diag_error(Diag *d, Span span, const char *format, ...) GXC_FORMAT(3, 4);
void diag_warning(Diag *d, Span span, const char *format, ...) GXC_FORMAT(3, 4);
/* A note belongs to the message before it; it is dropped with that message. */
void diag_note(Diag *d, Span span, const char *format, ...) GXC_FORMAT(3, 4);
/* An error "not supported: ..." : the input is right, gxc cannot handle it (exit code 4). */
void diag_unsupported(Diag *d, Span span, const char *format, ...) GXC_FORMAT(3, 4);

/* All messages as text, "file:line:col: error: ..." with source line and caret, in the
 * Diag's arena. Long source lines are cut around the caret. */
const char *diag_render(const Diag *d, bool colour);

#endif
