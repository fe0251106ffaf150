/* A recursive-descent reader of JSON (RFC 8259). Values and strings come from blocks of memory that are freed
 * together. */
#include "runtime/gxrun/json_read.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A value takes more memory than its text: a file of zeros 32 times as much. */
enum { MAX_DEPTH = 32, MAX_VALUES = 1 << 22, BLOCK = 1 << 16 };

typedef struct Block {
    struct Block *older;
    size_t used, size;
    max_align_t data[];
} Block;

struct Json {
    Block *blocks;
    JsonValue *root;
};

typedef struct Reader {
    Json *json;
    const char *start, *at, *end;
    size_t values;
    char *error;
    size_t error_size;
} Reader;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static bool
fail(Reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = snprintf(r->error, r->error_size, "byte %zu: ", (size_t)(r->at - r->start));
    if (n > 0 && (size_t)n < r->error_size) {
        vsnprintf(r->error + n, r->error_size - (size_t)n, format, args);
    }
    va_end(args);
    return false;
}

/* Zeroed; NULL: no memory. */
static void *take(Reader *r, size_t bytes)
{
    bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    Block *b = r->json->blocks;
    if (!b || b->size - b->used < bytes) {
        size_t size = bytes > BLOCK ? bytes : BLOCK;
        b = calloc(1, sizeof *b + size);
        if (!b) {
            fail(r, "no memory");
            return NULL;
        }
        b->size = size;
        b->older = r->json->blocks;
        r->json->blocks = b;
    }
    void *out = (char *)b->data + b->used;
    b->used += bytes;
    return out;
}

static void skip_space(Reader *r)
{
    while (r->at < r->end && *r->at && strchr(" \t\r\n", *r->at)) {
        r->at++;
    }
}

static bool take_char(Reader *r, char c)
{
    skip_space(r);
    if (r->at == r->end || *r->at != c) {
        return false;
    }
    r->at++;
    return true;
}

/* --- strings ----------------------------------------------------------------------------- */

static bool read_hex(Reader *r, unsigned *out)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        char c = r->at < r->end ? *r->at++ : 0;
        const char *digit = c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
        if (!digit) {
            return fail(r, "\\u wants four hexadecimal digits");
        }
        value = value << 4 | (unsigned)(digit - digits);
    }
    *out = value;
    return true;
}

static char *put_utf8(char *to, unsigned c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    } else {
        *to++ = (char)(0xf0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3f));
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    }
    return to;
}

static bool read_unicode(Reader *r, char **to)
{
    unsigned c;
    unsigned low;
    if (!read_hex(r, &c)) {
        return false;
    }
    if (c >= 0xd800 && c < 0xdc00 && r->end - r->at > 6 && r->at[0] == '\\' &&
        r->at[1] == 'u') { /* a pair of surrogates */
        r->at += 2;
        if (!read_hex(r, &low)) {
            return false;
        }
        c = low >= 0xdc00 && low < 0xe000
                ? 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00)
                : 0;
    }
    if (c == 0 || (c >= 0xd800 && c < 0xe000)) {
        return fail(r, "\\u stands for no character");
    }
    *to = put_utf8(*to, c);
    return true;
}

static bool read_escape(Reader *r, char **to)
{
    static const char from[] = "\"\\/bfnrt";
    static const char is[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : 0;
    if (c == 'u') {
        return read_unicode(r, to);
    }
    const char *found = c ? strchr(from, c) : NULL;
    if (!found) {
        return fail(r, "an unknown escape in a string");
    }
    *(*to)++ = is[found - from];
    return true;
}

/* Behind the opening quote. */
static bool read_string(Reader *r, const char **out)
{
    const char *end = r->at;
    while (end < r->end && *end != '"') {
        end += *end == '\\' && end + 1 < r->end ? 2 : 1;
    }
    if (end >= r->end) {
        return fail(r, "a string without an end");
    }
    char *text = take(r, (size_t)(end - r->at) + 1); /* an escape is never shorter */
    char *to = text;
    while (text && r->at < end) {
        unsigned char c = (unsigned char)*r->at++;
        if (c == '\\' && !read_escape(r, &to)) {
            return false;
        }
        if (c < 0x20) {
            return fail(r, "a control character in a string");
        }
        if (c != '\\') {
            *to++ = (char)c;
        }
    }
    r->at = end + 1;
    *out = text;
    return text != NULL;
}

/* --- values ------------------------------------------------------------------------------ */

static bool read_number(Reader *r, JsonValue *v)
{
    char digits[64];
    size_t n = 0;
    while (r->at + n < r->end && n < sizeof digits - 1 && r->at[n] &&
           strchr("+-.0123456789eE", r->at[n])) {
        digits[n] = r->at[n];
        n++;
    }
    digits[n] = 0;
    char *end;
    strtod(digits, &end);
    if (n == 0 || *end || *digits == '+' || *digits == '.') {
        return fail(r, "a value is expected");
    }
    r->at += n;
    v->kind = JSON_NUMBER;
    v->is_whole = n < 19 && !strpbrk(digits, ".eE");
    v->whole = v->is_whole ? strtoll(digits, NULL, 10) : 0;
    return true;
}

static bool read_word(Reader *r, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) {
        return false;
    }
    r->at += n;
    return true;
}

static bool read_value(Reader *r, JsonValue *v, int depth);

static bool read_members(Reader *r, JsonValue *v, int depth)
{
    char close = v->kind == JSON_OBJECT ? '}' : ']';
    JsonValue **to = &v->first;
    if (take_char(r, close)) {
        return true;
    }
    do {
        if (r->values++ == MAX_VALUES) {
            return fail(r, "there are more than %d values", MAX_VALUES);
        }
        JsonValue *member = take(r, sizeof *member);
        if (!member) {
            return false;
        }
        if (v->kind == JSON_OBJECT) {
            if (!take_char(r, '"')) {
                return fail(r, "a key is expected");
            }
            if (!read_string(r, &member->key)) {
                return false;
            }
            if (!take_char(r, ':')) {
                return fail(r, "':' is expected behind \"%s\"", member->key);
            }
        }
        if (!read_value(r, member, depth + 1)) {
            return false;
        }
        *to = member;
        to = &member->next;
    } while (take_char(r, ','));
    return take_char(r, close) || fail(r, "',' or '%c' is expected", close);
}

static bool read_value(Reader *r, JsonValue *v, int depth)
{
    if (depth > MAX_DEPTH) {
        return fail(r, "values are nested deeper than %d levels", MAX_DEPTH);
    }
    skip_space(r);
    bool is_object = take_char(r, '{');
    if (is_object || take_char(r, '[')) {
        v->kind = is_object ? JSON_OBJECT : JSON_ARRAY;
        return read_members(r, v, depth);
    }
    if (take_char(r, '"')) {
        v->kind = JSON_STRING;
        return read_string(r, &v->text);
    }
    bool is_true = read_word(r, "true");
    if (is_true || read_word(r, "false")) {
        v->kind = JSON_BOOL;
        v->whole = is_true;
        return true;
    }
    return read_word(r, "null") || read_number(r, v);
}

Json *json_read(const char *text, size_t size, char *error, size_t error_size)
{
    Json *json = calloc(1, sizeof *json);
    Reader r = {.json = json,
                .start = text,
                .at = text,
                .end = text + size,
                .error = error,
                .error_size = error_size};
    if (!json) {
        snprintf(error, error_size, "no memory");
        return NULL;
    }
    json->root = take(&r, sizeof *json->root);
    bool ok = json->root && read_value(&r, json->root, 0);
    skip_space(&r);
    if (ok && r.at != r.end) {
        ok = fail(&r, "there is more behind the value");
    }
    if (!ok) {
        json_destroy(json);
    }
    return ok ? json : NULL;
}

const JsonValue *json_root(const Json *json)
{
    return json->root;
}

void json_destroy(Json *json)
{
    for (Block *b = json ? json->blocks : NULL, *older; b; b = older) {
        older = b->older;
        free(b);
    }
    free(json);
}

const JsonValue *json_member(const JsonValue *object, const char *key)
{
    const JsonValue *v = object && object->kind == JSON_OBJECT ? object->first : NULL;
    while (v && strcmp(v->key, key) != 0) {
        v = v->next;
    }
    return v;
}

bool json_sizes(const JsonValue *array, uint32_t most, int64_t *out, uint32_t *out_count)
{
    *out_count = 0;
    if (!array || array->kind != JSON_ARRAY) {
        return false;
    }
    for (const JsonValue *v = array->first; v; v = v->next) {
        if (!v->is_whole || v->whole < 0 || *out_count == most) {
            return false;
        }
        out[(*out_count)++] = v->whole;
    }
    return true;
}
