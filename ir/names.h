/* Unique names, by the rule of section 10.2 of the language: a name is a root and a number
 * (`x` is x with 0, `x.7` is x with 7); a name in use gets the root's smallest number that
 * was not given yet. Linear over all names of a module. */
#ifndef GXC_IR_NAMES_H
#define GXC_IR_NAMES_H

#include "ir/base/arena.h"

typedef struct Names Names;

Names *names_create(Arena *a);
/* The name itself, or the next free one of its root: in use from now on, in the arena. */
const char *names_take(Names *n, const char *wanted);
/* The same for a text that lives as long as the arena: it is not copied. */
const char *names_keep(Names *n, const char *wanted);
/* A word of the language, which names something only behind a '%'. */
bool name_is_keyword(const char *name);
/* The same names in use; the other arena may go. */
Names *names_copy(Arena *a, const Names *from);

#endif
