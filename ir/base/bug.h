/* How a compile ends early without ending the process.
 *
 * Every entry point of the library sets up an Escape on its own stack. Whatever cannot be
 * reported as a diagnostic - a broken invariant of ours, no memory, a fatal error inside
 * LLVM - is thrown to the innermost one of the calling thread. Only the programs exit. */
#ifndef GXC_IR_BASE_BUG_H
#define GXC_IR_BASE_BUG_H

#include <setjmp.h>

#include "ir/base/arena.h"
#include "ir/base/diag.h"

typedef enum {
    ESCAPE_NONE,
    ESCAPE_BUG,         /* a broken invariant of gxc: GXC_BUG, with a replay file */
    ESCAPE_MEMORY,      /* the system has no memory, or a size overflows */
    ESCAPE_UNSUPPORTED, /* an input that is right but that gxc cannot handle yet */
    ESCAPE_LATE,        /* a program that gxc runs took longer than it may */
} EscapeKind;

typedef struct Escape {
    jmp_buf target;
    struct Escape *outer;
    Arena
        *scratch; /* arenas that are destroyed when something is thrown (arena_scratch) */
    EscapeKind kind;
    Span at; /* where in the text what is done now stands; {0, 0}: not known */
    char message[2048];
} Escape;

/* Use: Escape e; escape_push(&e); if (setjmp(e.target) == 0) { work } escape_pop(&e);
 * afterwards e.kind tells whether the work ended early. Locals that the work changes and
 * that are read after setjmp returned a second time must be volatile. */
void escape_push(Escape *e);
void escape_pop(Escape *e);

/* Where a throw of this thread would go; NULL: nowhere. */
Escape *escape_innermost(void);

/* Does not return. Without an Escape on this thread it prints the message and aborts: that
 * only happens in code that runs outside the library's entry points. */
GXC_NORETURN void escape_throw(EscapeKind kind, const char *format, ...) GXC_FORMAT(2, 3);

/* A broken invariant; the text says which. Does not return. */
#define bug(...) escape_throw(ESCAPE_BUG, __VA_ARGS__)

#endif
