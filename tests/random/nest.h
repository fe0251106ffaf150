/* Tuples that go into computations and come out of them: some have tuples in them. */
#ifndef GXC_TESTS_RANDOM_NEST_H
#define GXC_TESTS_RANDOM_NEST_H

#include "tests/random/value.h"

/* n values as a tuple, the first `inner` of them as a tuple in it (0: none). */
typedef struct Nest {
    Value **items;
    int n, inner;
} Nest;

Nest make_nest(Gen *g, Value **items, int n);
void nest_shape(Nest t, char out[1024]);
void tuple_shape(Value **items, int n, char out[1024]); /* flat */
void names(Value **items, int n, char out[512]);        /* "a, b, c" */
/* "name = shape tuple(...)", or "ROOT name ..." */
void say_nest(Gen *g, Nest t, const char *name, bool is_root);
/* Item i of the nest `from`, as a value of its own with the shape of `like`. */
Value *say_element(Gen *g, Nest t, const char *from, int i, const Value *like);
/* Ends a computation whose result is the nest; its name: `prefix` and a number. */
const char *finish_nest(Gen *g, Nest t, const char *prefix, char out[24]);

/* A value of this shape and type and of no more roundings, better one with a number from `first`
 * on than a parameter. */
Value *find_result(Gen *g, const Value *like, int first, int most_depth);

#endif
