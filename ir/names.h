/* Unique names, by the rule of section 10.2 of the language: a name is a root and a number
 * (`x` is x with 0, `x.7` is x with 7); a name in use gets the root's smallest number that
 * was not given yet. Linear over all names of a module. */
#ifndef GXC_IR_NAMES_H
#define GXC_IR_NAMES_H

#include "ir/intern.h"

typedef struct Names Names;

Names *names_create(Arena *a, Intern *texts);
/* The name itself, or the next free one of its root; interned, and in use from now on. */
const char *names_take(Names *n, const char *wanted);

#endif
