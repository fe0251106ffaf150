/* Raw tokens, for those who read what the grammar does not: taking, peeking, expecting, and
 * what strings and numbers mean. */
#include "frontend/hlo/hlo.tab.h"
#include "frontend/hlo/parser.h"
#include "ir/number/number.h"

/* -- raw tokens ------------------------------------------------------------------------ */

Token take(Parser *p)
{
    Token t = p->ahead_count != 0 ? p->ahead[--p->ahead_count] : lexer_next(p);
    p->taken = t.span;
    return t;
}

void put_back(Parser *p, Token t)
{
    p->ahead[p->ahead_count++] = t;
}

Token peek(Parser *p)
{
    if (p->ahead_count == 0)
        put_back(p, lexer_next(p));
    return p->ahead[p->ahead_count - 1];
}

bool accept_token(Parser *p, int kind, Token *out)
{
    if (peek(p).kind != kind)
        return false;
    Token t = take(p);
    if (out != NULL)
        *out = t;
    return true;
}

const char *token_text(const Parser *p, Token t, size_t *length)
{
    const char *text = p->text + t.span.begin;
    *length = t.span.end - t.span.begin;
    if (t.kind == TOK_ATTR) {
        *length -= 1;
    } else if (t.kind == TOK_NAME) {
        *length -= 1;
        if (text[0] == '%')
            text++;
    } else if (t.kind == TOK_STRING) {
        text++;
        *length -= 2;
    }
    return text;
}

bool token_is(const Parser *p, Token t, const char *word)
{
    size_t length;
    const char *text = token_text(p, t, &length);
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

bool accept_word(Parser *p, const char *word)
{
    Token t = peek(p);
    if ((t.kind != TOK_IDENT && t.kind != TOK_SHARDING) || !token_is(p, t, word))
        return false;
    take(p);
    return true;
}

static const char *token_kind_name(int kind)
{
    switch (kind) {
    case TOK_IDENT:
    case TOK_NAME:
        return "name";
    case TOK_ATTR:
        return "an attribute name";
    case TOK_INT:
        return "integer";
    case TOK_STRING:
        return "string";
    case TOK_DIM_LABELS:
        return "dimension labels such as b01f_01io->b01f";
    case TOK_DXD:
        return "sizes such as 2x3";
    case TOK_PAD:
        return "padding such as 0_1x0_0";
    case TOK_LEQ:
        return "'<='";
    case TOK_ARROW:
        return "'->'";
    case TOK_END:
        return "end of text";
    default:
        return NULL;
    }
}

bool token_unexpected(Parser *p, Token t, const char *wanted)
{
    if (t.kind == TOK_BAD)
        return false;
    size_t length = t.span.end - t.span.begin;
    if (length == 0)
        diag_error(p->diag, t.span, "expects %s, but sees the end of the text", wanted);
    else
        diag_error(p->diag, t.span, "expects %s, but sees '%.*s%s'", wanted,
                   (int)(length < 40 ? length : 40), p->text + t.span.begin,
                   length > 40 ? "..." : "");
    return false;
}

bool token_unknown(Parser *p, Token t, const char *what, const char *allowed)
{
    size_t length;
    const char *text = token_text(p, t, &length);
    if (t.kind != TOK_BAD)
        diag_error(p->diag, t.span, "unexpected %s '%.*s'; expects %s", what, (int)length,
                   text, allowed);
    return false;
}

bool token_wrong(Parser *p, Token t, const char *message)
{
    if (t.kind != TOK_BAD)
        diag_error(p->diag, t.span, "%s", message);
    return false;
}

bool expect(Parser *p, int kind, Token *out)
{
    Token t = take(p);
    if (out != NULL)
        *out = t;
    if (t.kind == kind)
        return true;
    char one[4] = {'\'', (char)kind, '\'', '\0'};
    const char *name = token_kind_name(kind);
    return token_unexpected(p, t, name != NULL ? name : one);
}

/* Integers up to 2^64 - 1 are read; those from 2^63 on keep their bits. */
bool token_int(Parser *p, Token t, int64_t *out)
{
    const char *text = p->text + t.span.begin;
    size_t length = t.span.end - t.span.begin;
    bool negative = text[0] == '-';
    uint64_t value = 0;
    bool fits = true;
    for (size_t i = negative ? 1 : 0; i < length; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        fits = fits && value <= (UINT64_MAX - digit) / 10;
        value = value * 10 + digit;
    }
    if (negative && value > (uint64_t)INT64_MAX + 1)
        fits = false;
    if (!fits)
        diag_error(p->diag, t.span, "integer %.*s does not fit in 64 bits", (int)length,
                   text);
    *out = (int64_t)(negative ? 0 - value : value);
    return fits;
}

bool expect_int(Parser *p, int64_t *out)
{
    Token t = take(p);
    *out = 0;
    return t.kind == TOK_INT ? token_int(p, t, out) : token_unexpected(p, t, "integer");
}

bool expect_number(Parser *p, double *out)
{
    Token t = take(p);
    size_t length = t.span.end - t.span.begin;
    if (t.kind == TOK_INT || t.kind == TOK_FLOAT)
        if (number_parse(DT_F64, p->text + t.span.begin, length, out) == NUMBER_OK)
            return true;
    return token_unexpected(p, t, "number");
}

bool expect_bool(Parser *p, bool *out)
{
    Token t = take(p);
    *out = t.kind == TOK_TRUE;
    return t.kind == TOK_TRUE || t.kind == TOK_FALSE ||
           token_unexpected(p, t, "true or false");
}

List list_open(Parser *p, int open, int close)
{
    return (List){.close = close, .right = expect(p, open, NULL)};
}

bool list_next(Parser *p, List *l)
{
    if (!l->right || (!l->begun && accept_token(p, l->close, NULL)))
        return false;
    if (!l->begun || accept_token(p, ',', NULL))
        return l->begun = true;
    l->right = expect(p, l->close, NULL);
    return false;
}

bool expect_ints_between(Parser *p, int open, int close, Ints *out)
{
    size_t mark = p->ints.count;
    List l = list_open(p, open, close);
    while (list_next(p, &l)) {
        int64_t value;
        if (!expect_int(p, &value))
            return false;
        STACK_PUSH(p, p->ints, value);
    }
    *out = ints_take(p, mark);
    return l.right;
}

bool expect_ints(Parser *p, Ints *out)
{
    return expect_ints_between(p, '{', '}', out);
}

bool expect_int_lists(Parser *p, IntLists *out)
{
    STACK(Ints) lists = {0};
    List l = list_open(p, '{', '}');
    while (list_next(p, &l)) {
        Ints ints;
        if (!expect_ints(p, &ints))
            return false;
        STACK_PUSH(p, lists, ints);
    }
    *out = (IntLists){STACK_KEEP(p, lists), (uint32_t)lists.count};
    return l.right;
}

Ints ints_take(Parser *p, size_t mark)
{
    Ints ints = {.count = (uint32_t)(p->ints.count - mark)};
    if (ints.count != 0)
        ints.data =
            arena_copy(p->arena, p->ints.data + mark, ints.count * sizeof(int64_t));
    p->ints.count = mark;
    return ints;
}

/* -- strings --------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static char *put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
    } else if (c < 0x800) {
        *out++ = (char)(0xc0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *out++ = (char)(0xe0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    } else {
        *out++ = (char)(0xf0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3f));
        *out++ = (char)(0x80 | (c >> 6 & 0x3f));
        *out++ = (char)(0x80 | (c & 0x3f));
    }
    return out;
}

/* One escape behind a backslash; returns its end, NULL if it is none of C's. */
static const char *unescape(const char *in, const char *end, char **out)
{
    static const char letters[] = "abfnrtv\\?'\"", values[] = "\a\b\f\n\r\t\v\\?'\"";
    const char *letter = strchr(letters, *in);
    if (*in != '\0' && letter != NULL) {
        *(*out)++ = values[letter - letters];
        return in + 1;
    }
    uint32_t value = 0;
    if (*in >= '0' && *in <= '7') {
        for (int n = 0; n < 3 && in < end && *in >= '0' && *in <= '7'; n++)
            value = value * 8 + (uint32_t)(*in++ - '0');
        *(*out)++ = (char)value;
        return value <= 0xff ? in : NULL;
    }
    if (*in == 'x' || *in == 'X') {
        const char *first = ++in;
        while (in < end && hex_digit(*in) >= 0 && value <= 0xff)
            value = value * 16 + (uint32_t)hex_digit(*in++);
        *(*out)++ = (char)value;
        return in > first && value <= 0xff ? in : NULL;
    }
    if (*in != 'u' && *in != 'U')
        return NULL;
    int digits = *in++ == 'u' ? 4 : 8;
    for (int n = 0; n < digits; n++) {
        if (in >= end || hex_digit(*in) < 0)
            return NULL;
        value = value * 16 + (uint32_t)hex_digit(*in++);
    }
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return NULL;
    *out = put_utf8(*out, value);
    return in;
}

bool expect_string(Parser *p, Bytes *out)
{
    Token t = take(p);
    *out = (Bytes){.data = "", .length = 0};
    if (t.kind != TOK_STRING)
        return token_unexpected(p, t, "string");
    size_t length;
    const char *in = token_text(p, t, &length), *end = in + length;
    char *data = arena_text(p->arena, in, length);
    out->data = data;
    out->length = length;
    if (memchr(in, '\\', length) == NULL)
        return true;
    char *to = data;
    while (in < end) {
        if (*in != '\\') {
            *to++ = *in++;
            continue;
        }
        const char *next = unescape(in + 1, end, &to);
        if (next == NULL) {
            uint32_t at = (uint32_t)(in - p->text);
            diag_error(p->diag, (Span){at, at + 2}, "bad escape in a string");
            return false;
        }
        in = next;
    }
    *to = '\0';
    out->length = (size_t)(to - data);
    return true;
}

bool expect_json(Parser *p, Bytes *out)
{
    Token open;
    if (!expect(p, '{', &open))
        return false;
    const char *in = p->text + open.span.begin, *end = p->text + p->length;
    size_t depth = 0;
    bool quoted = false;
    for (; in < end; in++) {
        if (quoted) {
            if (*in == '\\' && in + 1 < end)
                in++;
            else if (*in == '"')
                quoted = false;
        } else if (*in == '"') {
            quoted = true;
        } else if (*in == '{') {
            depth++;
        } else if (*in == '}' && --depth == 0) {
            break;
        } else if (*in == '\0') {
            break;
        }
    }
    if (in >= end || *in == '\0') {
        diag_error(p->diag, open.span, "this '{' of a dictionary is not closed");
        return false;
    }
    in++;
    const char *from = p->text + open.span.begin;
    *out = (Bytes){arena_text(p->arena, from, (size_t)(in - from)), (size_t)(in - from)};
    p->taken.end = (uint32_t)(in - p->text);
    p->ahead_count = 0;
    lexer_seek(p, p->taken.end);
    return true;
}

bool enter(Parser *p, Span at)
{
    if (p->depth++ < PARSE_DEPTH)
        return true;
    diag_error(p->diag, at, "maximum recursion depth exceeded");
    return false;
}

void leave(Parser *p)
{
    p->depth--;
}
