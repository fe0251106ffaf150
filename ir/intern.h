/* Interned strings, layouts and shapes: equal values are the same pointer, so that they are
 * compared with == and a module of 10^6 instructions holds each shape once.
 *
 * All of it lives in the arena that the table was made with and is immutable. */
#ifndef GXC_IR_INTERN_H
#define GXC_IR_INTERN_H

#include <stddef.h>

#include "ir/base/arena.h"
#include "ir/shape.h"

typedef struct Intern Intern;

Intern *intern_create(Arena *a);
Arena *intern_arena(const Intern *t);

/* A NUL-terminated copy; the text must not hold a NUL. */
const char *intern_text(Intern *t, const char *data, size_t length);
const char *intern_string(Intern *t, const char *text);

/* The fields are copied; what they point to, too. */
const Layout *intern_layout(Intern *t, const Layout *layout);
/* Layouts and element shapes inside must be interned in the same table already. */
const Shape *intern_shape(Intern *t, const Shape *shape);

#endif
