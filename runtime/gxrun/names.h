/* Names of parameters and of arrays in files, compared as people write them: JAX's key paths, what JAX makes of them in
 * HLO, names with dots. */
#ifndef GXC_RUNTIME_GXRUN_NAMES_H
#define GXC_RUNTIME_GXRUN_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/* The words of a name with dots between: params['layers'][0]['w'], params__layers___0___w__ and params.layers.0.w are
 * the same. To be freed. */
char *name_words(const char *name);
/* The same without JAX's number at the end: x.1 is x. To be freed. */
char *name_words_unnumbered(const char *name);
/* What is behind `prefix` and a dot; NULL: `words` does not begin so. "" is the prefix of all. */
const char *name_behind(const char *words, const char *prefix);

/* Puts '?' for control characters, in place; those in `kept` stay. */
void text_make_plain(char *text, const char *kept);
/* Of a file, for a terminal, which control characters could tell to do anything: '?' stands for them. Itself where it has
 * none, else a copy that lives as long as the process. */
const char *plain_text(const char *text);

#endif
