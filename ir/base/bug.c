/* The thread's chain of escapes. See bug.h. */
#include "ir/base/bug.h"

#include <stdio.h>
#include <stdlib.h>

static _Thread_local Escape *innermost;

void escape_push(Escape *e)
{
    e->kind = ESCAPE_NONE;
    e->message[0] = '\0';
    e->scratch = NULL;
    e->at = (Span){0, 0};
    e->outer = innermost;
    innermost = e;
}

void escape_pop(Escape *e)
{
    innermost = e->outer;
}

Escape *escape_innermost(void)
{
    return innermost;
}

void escape_throw(EscapeKind kind, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    Escape *e = innermost;
    if (e == NULL) {
        fputs("gxc: ", stderr);
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
        abort();
    }
    e->kind = kind;
    vsnprintf(e->message, sizeof e->message, format, args);
    va_end(args);
    while (e->scratch != NULL)
        arena_destroy(e->scratch);
    longjmp(e->target, 1);
}
