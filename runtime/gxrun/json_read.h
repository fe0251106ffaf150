/* Reading JSON that a user gives: a tree of values, bounded in depth. */
#ifndef GXC_RUNTIME_GXRUN_JSON_READ_H
#define GXC_RUNTIME_GXRUN_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum JsonKind {
    JSON_NULL,
    JSON_BOOL,
    JSON_NUMBER,
    JSON_STRING,
    JSON_ARRAY,
    JSON_OBJECT
} JsonKind;

typedef struct JsonValue {
    JsonKind kind;
    const char *key;         /* of a member of an object, else NULL */
    const char *text;        /* of a string: UTF-8, without NUL in it */
    bool is_whole;           /* a number that `whole` has */
    int64_t whole;           /* of a Boolean: 1 or 0 */
    struct JsonValue *first; /* of an array or object */
    struct JsonValue *next;  /* beside it in its array or object */
} JsonValue;

typedef struct Json Json;

/* `text` need not be terminated, and is not needed afterwards. NULL: `error` says what is wrong and at which byte. */
Json *json_read(const char *text, size_t size, char *error, size_t error_size);
const JsonValue *json_root(const Json *json);
void json_destroy(Json *json); /* NULL is fine */

/* The member of an object; NULL: it has none, or is no object. */
const JsonValue *json_member(const JsonValue *object, const char *key);
/* The sizes of an array; false: it is none of numbers from 0 on, or has more than `most`. */
bool json_sizes(const JsonValue *array, uint32_t most, int64_t *out, uint32_t *out_count);

#endif
