/* See text.h. */
#include "ir/base/text.h"

#include <stdio.h>

#include "ir/base/bug.h"

void text_init(Text *t, Arena *a)
{
    *t = (Text){.arena = a};
    text_reserve(t, 63);
    t->data[0] = '\0';
}

void text_reserve(Text *t, size_t more)
{
    size_t needed = t->length + more + 1;
    if (needed <= t->capacity)
        return;
    size_t capacity = t->capacity * 2 > needed ? t->capacity * 2 : needed;
    char *data = arena_alloc(t->arena, capacity);
    if (t->length != 0)
        memcpy(data, t->data, t->length);
    arena_drop(t->arena, t->data, t->capacity);
    t->data = data;
    t->capacity = capacity;
}

void text_add(Text *t, const char *data, size_t length)
{
    text_reserve(t, length);
    if (length != 0)
        memcpy(t->data + t->length, data, length);
    t->length += length;
    t->data[t->length] = '\0';
}

void text_char(Text *t, char c)
{
    text_add(t, &c, 1);
}

void text_int(Text *t, int64_t value)
{
    char digits[24];
    size_t at = sizeof digits;
    uint64_t remaining = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--at] = (char)('0' + remaining % 10);
        remaining /= 10;
    } while (remaining != 0);
    if (value < 0)
        digits[--at] = '-';
    text_add(t, digits + at, sizeof digits - at);
}

void text_printf(Text *t, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n < 0)
        bug("a text cannot be formatted");
    text_reserve(t, (size_t)n);
    vsnprintf(t->data + t->length, (size_t)n + 1, format, again);
    va_end(again);
    t->length += (size_t)n;
}
