/* See settings.h. */
#include "passes/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const Setting rows[] = {
#define SETTING(field, name, value, least, most, doc)                                    \
    {name, offsetof(PassSettings, field), value, least, most, doc},
#include "passes/settings.def"
};
#define ROW_COUNT (sizeof rows / sizeof *rows)

static int64_t *field(PassSettings *s, const Setting *r)
{
    return (int64_t *)(void *)((char *)s + r->offset);
}

static int64_t field_value(const PassSettings *s, const Setting *r)
{
    int64_t value;
    memcpy(&value, (const char *)s + r->offset, sizeof value);
    return value;
}

void settings_init(PassSettings *s)
{
    *s = (PassSettings){.level = 1};
    for (size_t i = 0; i < ROW_COUNT; i++)
        *field(s, &rows[i]) = rows[i].value;
}

static bool parse_value(const char *text, int64_t *out)
{
    static const struct {
        const char *word;
        int64_t value;
    } words[] = {{"false", 0},
                 {"true", 1},
                 {"off", MODE_OFF},
                 {"on", MODE_ON},
                 {"default", MODE_DEFAULT},
                 {"explicit", MODE_EXPLICIT}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i].word) == 0) {
            *out = words[i].value;
            return true;
        }
    }
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0';
}

SettingStatus settings_set(PassSettings *s, const char *text)
{
    const char *equals = strchr(text, '=');
    size_t length = equals != NULL ? (size_t)(equals - text) : strlen(text);
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (strlen(rows[i].name) != length || strncmp(rows[i].name, text, length) != 0)
            continue;
        int64_t value = 1;
        if (equals != NULL && !parse_value(equals + 1, &value))
            return SETTING_BAD_VALUE;
        if (value < rows[i].least || value > rows[i].most)
            return SETTING_BAD_VALUE;
        *field(s, &rows[i]) = value;
        return SETTING_OK;
    }
    return SETTING_UNKNOWN;
}

const Setting *settings_row(size_t i)
{
    return i < ROW_COUNT ? &rows[i] : NULL;
}

size_t settings_text(const PassSettings *s, char *out, size_t size)
{
    size_t length = 0;
    if (size != 0)
        out[0] = '\0';
    for (size_t i = 0; i < ROW_COUNT; i++) {
        int64_t value = field_value(s, &rows[i]);
        if (value == rows[i].value)
            continue; /* defaults belong to the version */
        size_t left = length < size ? size - length : 0;
        int n = snprintf(left != 0 ? out + length : NULL, left, " %s=%lld", rows[i].name,
                         (long long)value);
        length += n > 0 ? (size_t)n : 0;
    }
    return length;
}
