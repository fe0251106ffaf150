/* Writing JSON, piece by piece. The caller writes braces and brackets. */
#ifndef GXC_RUNTIME_GXRUN_JSON_H
#define GXC_RUNTIME_GXRUN_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Members of an object or an array so far. */
typedef struct JsonList {
    size_t count;
} JsonList;

/* Quoted. Bytes that are no UTF-8 count as Latin-1. */
void json_text(FILE *out, const char *text);
void json_next(FILE *out, JsonList *list); /* a comma, but before the first */
void json_key(FILE *out, JsonList *list, const char *key);
void json_member_text(FILE *out, JsonList *list, const char *key, const char *text);
void json_member_number(FILE *out, JsonList *list, const char *key, uint64_t value);
void json_member_bool(FILE *out, JsonList *list, const char *key, bool value);

#endif
