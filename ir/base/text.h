/* Text that grows: what printers write into. It lives in an arena; the data is always
 * NUL-terminated. */
#ifndef GXC_IR_BASE_TEXT_H
#define GXC_IR_BASE_TEXT_H

#include <string.h>

#include "ir/base/arena.h"

typedef struct Text Text;

struct Text {
    Arena *arena;
    char *data;
    size_t length, capacity;
};

void text_init(Text *t, Arena *a);
void text_reserve(Text *t, size_t more);
void text_add(Text *t, const char *data, size_t length);
void text_char(Text *t, char c);
void text_int(Text *t, int64_t value);
void text_printf(Text *t, const char *format, ...) GXC_FORMAT(2, 3);

static inline void text_string(Text *t, const char *s)
{
    text_add(t, s, strlen(s));
}

#endif
