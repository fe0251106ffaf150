/* Text in JSON. */
#include "runtime/gxrun/json.h"

#include <inttypes.h>

/* Bytes of the UTF-8 character that begins here; 0: none does. */
static size_t utf8_bytes(const char *text)
{
    const unsigned char *t = (const unsigned char *)text;
    size_t n = t[0] < 0x80 ? 1 : t[0] < 0xc2 ? 0 : t[0] < 0xe0 ? 2 : t[0] < 0xf0 ? 3 : 4;
    if (t[0] > 0xf4 || (t[0] == 0xe0 && t[1] < 0xa0) || (t[0] == 0xed && t[1] > 0x9f) ||
        (t[0] == 0xf0 && t[1] < 0x90) || (t[0] == 0xf4 && t[1] > 0x8f)) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((t[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return n;
}

void json_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (size_t n; *text; text += n) {
        n = utf8_bytes(text);
        if (n == 0) { /* JSON is UTF-8: of other text each byte is shown as Latin-1 */
            fprintf(out, "\\u%04x", (unsigned char)*text);
            n = 1;
        } else if (*text == '"' || *text == '\\') {
            fprintf(out, "\\%c", *text);
        } else if (n == 1 && (unsigned char)*text < 32) {
            fprintf(out, "\\u%04x", *text);
        } else {
            fwrite(text, 1, n, out);
        }
    }
    fputc('"', out);
}

void json_key(FILE *out, JsonList *list, const char *key)
{
    json_next(out, list);
    json_text(out, key);
    fputs(": ", out);
}

void json_next(FILE *out, JsonList *list)
{
    fputs(list->count++ ? ", " : "", out);
}

void json_member_text(FILE *out, JsonList *list, const char *key, const char *text)
{
    json_key(out, list, key);
    json_text(out, text);
}

void json_member_number(FILE *out, JsonList *list, const char *key, uint64_t value)
{
    json_key(out, list, key);
    fprintf(out, "%" PRIu64, value);
}

void json_member_bool(FILE *out, JsonList *list, const char *key, bool value)
{
    json_key(out, list, key);
    fputs(value ? "true" : "false", out);
}
