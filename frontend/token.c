/* The token filter between flex and bison, and what readers of attribute values need: taking,
 * peeking and expecting raw tokens. */
#include <stdio.h>

#include "frontend/hlo.tab.h"
#include "ir/bug.h"
#include "ir/dtype.h"
#include "ir/number.h"

/* -- raw tokens ------------------------------------------------------------------------ */

Token take(Parser *p)
{
    Token t = p->ahead_count != 0 ? p->ahead[--p->ahead_count] : lexer_next(p);
    p->end = t.span.end;
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

bool accept(Parser *p, int kind, Token *out)
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
    if (t.kind != TOK_IDENT || !token_is(p, t, word))
        return false;
    take(p);
    return true;
}

const char *token_kind_name(int kind)
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

static void unexpected(Parser *p, Token t, const char *wanted)
{
    if (t.kind == TOK_BAD)
        return; /* said by the lexer */
    size_t length = t.span.end - t.span.begin;
    if (length == 0)
        diag_error(p->diag, t.span, "expects %s, but sees the end of the text", wanted);
    else
        diag_error(p->diag, t.span, "expects %s, but sees '%.*s%s'", wanted,
                   (int)(length < 40 ? length : 40), p->text + t.span.begin,
                   length > 40 ? "..." : "");
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
    unexpected(p, t, name != NULL ? name : one);
    return false;
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
    if (t.kind != TOK_INT) {
        unexpected(p, t, "integer");
        return false;
    }
    return token_int(p, t, out);
}

bool expect_number(Parser *p, double *out)
{
    Token t = take(p);
    size_t length = t.span.end - t.span.begin;
    if (t.kind == TOK_INT || t.kind == TOK_FLOAT)
        if (number_parse(DT_F64, p->text + t.span.begin, length, out) == NUMBER_OK)
            return true;
    unexpected(p, t, "number");
    return false;
}

bool expect_bool(Parser *p, bool *out)
{
    Token t = take(p);
    *out = t.kind == TOK_TRUE;
    if (t.kind == TOK_TRUE || t.kind == TOK_FALSE)
        return true;
    unexpected(p, t, "true or false");
    return false;
}

bool expect_ints(Parser *p, Ints *out)
{
    size_t mark = p->ints.count;
    if (!expect(p, '{', NULL))
        return false;
    if (!accept(p, '}', NULL)) {
        do {
            int64_t value;
            if (!expect_int(p, &value))
                return false;
            STACK_PUSH(p, p->ints, value);
        } while (accept(p, ',', NULL));
        if (!expect(p, '}', NULL))
            return false;
    }
    *out = ints_take(p, mark);
    return true;
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
    if (t.kind != TOK_STRING) {
        unexpected(p, t, "string");
        return false;
    }
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
    p->end = (size_t)(in - p->text);
    p->ahead_count = 0;
    lexer_seek(p, p->end);
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

/* -- array shapes ---------------------------------------------------------------------- */

/* A list of numbers in parentheses, on the ints stack; `star` allows TILE_COMBINE. */
static bool layout_numbers(Parser *p, bool star)
{
    if (!expect(p, '(', NULL))
        return false;
    do {
        int64_t value;
        if (star && accept(p, '*', NULL))
            value = TILE_COMBINE;
        else if (!expect_int(p, &value))
            return false;
        STACK_PUSH(p, p->ints, value);
    } while (accept(p, ',', NULL));
    return expect(p, ')', NULL);
}

static bool layout_number(Parser *p, const char *letter, int64_t *out)
{
    if (!accept_word(p, letter))
        return true;
    size_t mark = p->ints.count;
    if (!layout_numbers(p, false))
        return false;
    *out = p->ints.data[mark];
    p->ints.count = mark;
    return true;
}

static bool layout_type(Parser *p, int letter, DType *out)
{
    if (!accept(p, letter, NULL))
        return true;
    Token t;
    if (!expect(p, '(', NULL))
        return false;
    t = take(p);
    size_t length;
    const char *text = token_text(p, t, &length);
    if (t.kind != TOK_PRIM || !dtype_from_name(text, length, out) ||
        !dtype_is_unsigned(*out)) {
        unexpected(p, t, "an unsigned integer type");
        return false;
    }
    return expect(p, ')', NULL);
}

static bool layout_tiles(Parser *p, Layout *l)
{
    STACK(Tile) tiles = {0};
    while (peek(p).kind == '(') {
        size_t mark = p->ints.count;
        if (!layout_numbers(p, true))
            return false;
        Ints dims = ints_take(p, mark);
        STACK_PUSH(p, tiles, ((Tile){dims.count, dims.data}));
    }
    l->tiles = tiles.data;
    l->tile_count = (uint32_t)tiles.count;
    if (l->tile_count != 0)
        return true;
    unexpected(p, peek(p), "'('");
    return false;
}

static bool layout_splits(Parser *p, Layout *l)
{
    STACK(SplitConfig) splits = {0};
    while (accept(p, '(', NULL)) {
        SplitConfig split = {0};
        size_t mark = p->ints.count;
        if (!expect_int(p, &split.dimension) || !expect(p, ':', NULL))
            return false;
        do {
            int64_t index;
            if (!expect_int(p, &index))
                return false;
            STACK_PUSH(p, p->ints, index);
        } while (accept(p, ',', NULL));
        if (!expect(p, ')', NULL))
            return false;
        Ints indices = ints_take(p, mark);
        split.count = indices.count;
        split.indices = indices.data;
        STACK_PUSH(p, splits, split);
    }
    l->splits = splits.data;
    l->split_count = (uint32_t)splits.count;
    return true;
}

/* D(...) says how dimensions are stored; all arrays are dense, so it is read and dropped. */
static bool layout_dim_levels(Parser *p)
{
    if (!accept_word(p, "D"))
        return true;
    if (!expect(p, '(', NULL))
        return false;
    do {
        Token t = take(p);
        if (t.kind != TOK_IDENT) {
            unexpected(p, t, "a dimension level type");
            return false;
        }
        while (accept(p, '+', NULL) || accept(p, '~', NULL))
            ;
    } while (accept(p, ',', NULL));
    return expect(p, ')', NULL);
}

static bool layout_properties(Parser *p, Layout *l)
{
    if (!layout_dim_levels(p))
        return false;
    if (accept_word(p, "T") && !layout_tiles(p, l))
        return false;
    if (!layout_number(p, "L", &l->tail_padding_alignment) ||
        !layout_type(p, '#', &l->index_type) || !layout_type(p, '*', &l->pointer_type) ||
        !layout_number(p, "E", &l->element_bits) ||
        !layout_number(p, "S", &l->memory_space))
        return false;
    if (accept_word(p, "SC") && !layout_splits(p, l))
        return false;
    Token t = peek(p);
    if (t.kind == TOK_IDENT && token_is(p, t, "P")) {
        diag_error(p->diag, t.span, "a dense array has no physical shape P(...)");
        return false;
    }
    return layout_number(p, "M", &l->metadata_prefix_bytes);
}

/* `{1,0:T(8,128)}`; the `{` is the next token. */
static bool layout_parse(Parser *p, uint32_t rank, const Layout **out)
{
    Layout l = {.tail_padding_alignment = 1};
    size_t mark = p->ints.count;
    Token open = take(p);
    if (peek(p).kind == TOK_INT) {
        do {
            int64_t dim;
            if (!expect_int(p, &dim))
                return false;
            STACK_PUSH(p, p->ints, dim);
        } while (accept(p, ',', NULL));
    }
    l.rank = (uint32_t)(p->ints.count - mark);
    int64_t *order = ARENA_ARRAY(p->scratch, int64_t, l.rank + 1u);
    bool *seen = ARENA_ARRAY(p->scratch, bool, rank + 1u);
    if (l.rank != 0)
        memcpy(order, p->ints.data + mark, l.rank * sizeof *order);
    p->ints.count = mark;
    l.minor_to_major = order;
    bool fits = l.rank == rank;
    for (uint32_t i = 0; fits && i < rank; i++) {
        fits = order[i] >= 0 && order[i] < rank && !seen[order[i]];
        if (fits)
            seen[order[i]] = true;
    }
    if (accept(p, ':', NULL)) {
        if (l.rank == 0 && rank != 0) { /* {:S(5)}: the default order */
            l = (Layout){.tail_padding_alignment = 1, .rank = rank};
            int64_t *down = ARENA_ARRAY(p->scratch, int64_t, rank);
            for (uint32_t i = 0; i < rank; i++)
                down[i] = rank - 1 - i;
            l.minor_to_major = down;
            fits = true;
        }
        if (!layout_properties(p, &l))
            return false;
    }
    Token close;
    if (!expect(p, '}', &close))
        return false;
    Span span = {open.span.begin, close.span.end};
    if (l.rank != rank)
        diag_error(p->diag, span, "Dimensions size is %u, but minor to major size is %u.",
                   rank, l.rank);
    else if (!fits)
        diag_error(p->diag, span, "a layout lists each dimension from 0 to %u once",
                   rank - 1);
    if (!fits)
        return false;
    *out = intern_layout(p->intern, &l);
    return true;
}

/* A `{` behind a shape is a layout only if an integer or `:` comes next. */
static bool layout_follows(Parser *p)
{
    if (peek(p).kind != '{')
        return false;
    size_t end = p->end;
    Token open = take(p);
    int next = peek(p).kind;
    put_back(p, open);
    p->end = end;
    return next == TOK_INT || next == ':';
}

typedef struct ShapeMemo {
    const char *text; /* in the source */
    uint32_t length, hash;
    const Shape *shape;
} ShapeMemo;

static ShapeMemo *memo_slot(ShapeMemo *memo, size_t capacity, const char *text,
                            uint32_t length, uint32_t hash)
{
    size_t at = hash & (capacity - 1);
    while (memo[at].shape != NULL &&
           (memo[at].hash != hash || memo[at].length != length ||
            memcmp(memo[at].text, text, length) != 0))
        at = (at + 1) & (capacity - 1);
    return &memo[at];
}

static ShapeMemo *memo_find(Parser *p, Span span)
{
    if (p->memo_count * 2 >= p->memo_capacity) {
        size_t capacity = p->memo_capacity == 0 ? 256 : p->memo_capacity * 2;
        ShapeMemo *grown = ARENA_ARRAY(p->scratch, ShapeMemo, capacity);
        for (size_t i = 0; i < p->memo_capacity; i++) {
            const ShapeMemo *s = &p->shape_memo[i];
            if (s->shape != NULL)
                *memo_slot(grown, capacity, s->text, s->length, s->hash) = *s;
        }
        p->shape_memo = grown;
        p->memo_capacity = capacity;
    }
    const char *text = p->text + span.begin;
    uint32_t length = span.end - span.begin, hash = 2166136261u;
    for (uint32_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    hash ^= hash >> 15;
    ShapeMemo *slot = memo_slot(p->shape_memo, p->memo_capacity, text, length, hash);
    slot->text = text;
    slot->length = length;
    slot->hash = hash;
    return slot;
}

static bool dims_parse(Parser *p, uint32_t *rank, int64_t **dims, bool **dynamic)
{
    size_t mark = p->ints.count;
    if (!expect(p, '[', NULL))
        return false;
    bool any = false;
    if (peek(p).kind != ']') {
        do { /* size and kind by turns */
            Token t = peek(p);
            int64_t size = DIM_UNBOUNDED;
            bool bounded = accept(p, TOK_LEQ, NULL);
            bool unbounded = !bounded && accept(p, '?', NULL);
            if (!unbounded) {
                t = peek(p);
                if (!expect_int(p, &size))
                    return false;
                if (size < 0) {
                    diag_error(p->diag, t.span,
                               "the size of a dimension is not negative");
                    return false;
                }
            }
            any = any || bounded || unbounded;
            STACK_PUSH(p, p->ints, size);
            STACK_PUSH(p, p->ints, bounded || unbounded);
        } while (accept(p, ',', NULL));
    }
    *rank = (uint32_t)((p->ints.count - mark) / 2);
    *dims = ARENA_ARRAY(p->scratch, int64_t, *rank + 1u);
    *dynamic = any ? ARENA_ARRAY(p->scratch, bool, *rank) : NULL;
    for (uint32_t i = 0; i < *rank; i++) {
        (*dims)[i] = p->ints.data[mark + 2 * i];
        if (any)
            (*dynamic)[i] = p->ints.data[mark + 2 * i + 1] != 0;
    }
    p->ints.count = mark;
    return expect(p, ']', NULL);
}

static bool array_from_tokens(Parser *p, Token prim, const Shape **out)
{
    DType dtype;
    uint32_t rank;
    int64_t *dims;
    bool *dynamic;
    size_t length;
    const char *text = token_text(p, prim, &length);
    if (!dtype_from_name(text, length, &dtype)) {
        diag_error(p->diag, prim.span, "'%.*s' is no element type", (int)length, text);
        return false;
    }
    if (peek(p).kind == '=') {
        diag_error(p->diag, prim.span,
                   "illegal instruction name: %.*s; suggest renaming to: %.*s_",
                   (int)length, text, (int)length, text);
        return false;
    }
    if (!dims_parse(p, &rank, &dims, &dynamic))
        return false;
    if (!dtype_is_array(dtype)) {
        if (rank != 0)
            diag_error(p->diag, prim.span, "%s has no dimensions: %s[]",
                       dtype_name(dtype), dtype_name(dtype));
        *out = dtype == DT_TOKEN ? shape_token(p->intern) : shape_opaque(p->intern);
        return rank == 0;
    }
    const Layout *layout = NULL;
    if (layout_follows(p) && !layout_parse(p, rank, &layout))
        return false;
    *out = shape_array(p->intern, dtype, rank, dims, dynamic, layout);
    return true;
}

bool parse_array_shape(Parser *p, Token first, const Shape **out)
{
    if (first.kind == TOK_PRIM)
        return array_from_tokens(p, first, out);
    if (first.kind != TOK_ARRAY) {
        unexpected(p, first, "shape");
        return false;
    }
    bool whole = p->text[first.span.end - 1] == '}' || !layout_follows(p);
    if (whole) {
        const ShapeMemo *memo = memo_find(p, first.span);
        if (memo->shape != NULL) {
            *out = memo->shape;
            return true;
        }
    }
    const char *text = p->text + first.span.begin;
    Token prim = {TOK_PRIM, first.span};
    prim.span.end = prim.span.begin + (uint32_t)strcspn(text, "[");
    p->ahead_count = 0;
    lexer_seek(p, prim.span.end);
    if (!array_from_tokens(p, prim, out))
        return false;
    if (whole) {
        memo_find(p, first.span)->shape = *out;
        p->memo_count++;
    }
    return true;
}

/* -- errors: where to go on ------------------------------------------------------------ */

static const char *skip_name(const char *s, const char *end)
{
    if (s < end && *s == '%')
        s++;
    const char *from = s;
    while (s < end && (*s == '.' || *s == '-' || *s == '_' || (*s >= '0' && *s <= '9') ||
                       (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z')))
        s++;
    return s > from ? s : NULL;
}

static const char *skip_blanks(const char *s, const char *end)
{
    while (s < end && (*s == ' ' || *s == '\t'))
        s++;
    return s;
}

/* Does a line at `s` start an instruction: `[ROOT] name =` ? */
static bool starts_instruction(const char *s, const char *end)
{
    s = skip_blanks(s, end);
    if (end - s > 5 && memcmp(s, "ROOT ", 5) == 0)
        s = skip_blanks(s + 5, end);
    s = skip_name(s, end);
    if (s == NULL)
        return false;
    const char *after = skip_blanks(s, end);
    return after < end && *after == '=' && (after > s || s[-1] != ')');
}

/* Does a line at `s` open a computation: `[ENTRY] name ... {` ? */
static bool starts_computation(const char *s, const char *end)
{
    s = skip_blanks(s, end);
    if (s == end)
        return false;
    const char *newline = memchr(s, '\n', (size_t)(end - s));
    const char *last = newline != NULL ? newline : end;
    while (last > s && (last[-1] == ' ' || last[-1] == '\r' || last[-1] == '\t'))
        last--;
    return last > s && last[-1] == '{' && skip_name(s, end) != NULL &&
           !starts_instruction(s, end);
}

/* After a syntax error at `at`: the next line that starts an instruction or closes the
 * computation (RESYNC); outside of a body the next computation. */
static Token resync(Parser *p, size_t at)
{
    const char *end = p->text + p->length;
    const char *s = p->text + at;
    const char *line = s;
    while (line > p->text && line[-1] != '\n')
        line--;
    const Scope *scope =
        p->scopes.count != 0 ? &p->scopes.data[p->scopes.count - 1] : NULL;
    bool inside = scope != NULL && scope->in_body;
    bool busy = inside && p->pending.count == p->scopes.count;
    bool first_on_line = skip_blanks(line, end) >= s;
    Token t = {TOK_END, {(uint32_t)p->length, (uint32_t)p->length}};
    if (inside && first_on_line && starts_computation(line, end))
        return t; /* a lost `}`: all that follows would be read wrongly */
    s = busy && first_on_line ? line : memchr(s, '\n', (size_t)(end - s));
    for (; s != NULL && s < end; s = memchr(s, '\n', (size_t)(end - s))) {
        if (*s == '\n')
            s++;
        const char *first = skip_blanks(s, end);
        if (inside && ((first < end && *first == '}') || starts_instruction(s, end)))
            t.kind = TOK_RESYNC;
        else if (starts_computation(s, end))
            t.kind = inside ? TOK_END : TOK_RESYNC_COMPUTATION;
        else
            continue;
        t.span.begin = t.span.end = (uint32_t)(first - p->text);
        break;
    }
    p->ahead_count = 0;
    p->end = t.span.begin;
    p->depth = inside ? scope->depth : 0;
    lexer_seek(p, t.span.begin);
    return t;
}

/* -- the filter ------------------------------------------------------------------------ */

/* Asked once, at the start: which of the three forms has this text? */
static Token start_token(Parser *p)
{
    Token first = take(p), second = peek(p);
    Token start = {TOK_START_COMPUTATIONS, {first.span.begin, first.span.begin}};
    put_back(p, first);
    if (first.kind == TOK_HLO_MODULE || first.kind == TOK_END || first.kind == TOK_BAD) {
        return take(p);
    }
    if (first.kind == TOK_ENTRY || second.kind == '{') {
        p->is_headerless = true;
        return start;
    }
    p->is_single = true;
    start.kind =
        first.kind == TOK_ROOT || second.kind == '=' ? TOK_START_NAMED : TOK_START_SINGLE;
    return start;
}

static Token attribute_token(Parser *p)
{
    Token t = {TOK_VALUE, {(uint32_t)p->end, (uint32_t)p->end}};
    Pending *at = &p->pending.data[p->pending.count - 1];
    switch (attr_info[at->attr.id].kind) {
    case AK_COMPUTATION:
        t.kind = TOK_AS_COMPUTATION;
        return t;
    case AK_COMPUTATIONS:
        t.kind = TOK_AS_COMPUTATIONS;
        return t;
    case AK_SHAPE:
        t.kind = TOK_AS_SHAPE;
        return t;
    case AK_SHAPES:
        t.kind = TOK_AS_SHAPES;
        return t;
    default:
        if (!value_parse(p, at))
            t.kind = TOK_BAD;
        t.span.end = (uint32_t)p->end;
        return t;
    }
}

static Token header_token(Parser *p)
{
    Token t = {TOK_VALUE, {(uint32_t)p->end, (uint32_t)p->end}};
    if (token_is(p, (Token){TOK_ATTR, p->header_name}, "entry_computation_layout"))
        t.kind = TOK_AS_LAYOUT;
    else if (!header_value(p))
        t.kind = TOK_BAD;
    t.span.end = (uint32_t)p->end;
    return t;
}

static Token literal_token(Parser *p)
{
    Call *call = &p->calls.data[p->calls.count - 1];
    Token t = {TOK_LITERAL, {(uint32_t)p->end, (uint32_t)p->end}};
    size_t offset = p->end;
    p->ahead_count = 0;
    if (!literal_parse(p, call->shape, &offset, &call->literal))
        t.kind = TOK_BAD;
    p->end = offset;
    t.span.end = (uint32_t)offset;
    lexer_seek(p, offset);
    return t;
}

static Token wanted_token(Parser *p)
{
    Want want = p->want;
    p->want = WANT_TOKEN;
    switch (want) {
    case WANT_START:
        return start_token(p);
    case WANT_ATTRIBUTE:
        return attribute_token(p);
    case WANT_HEADER:
        return header_token(p);
    case WANT_THREAD: {
        Token t = {TOK_VALUE, {(uint32_t)p->end, (uint32_t)p->end}};
        Bytes thread;
        if (!expect_string(p, &thread))
            t.kind = TOK_BAD;
        else
            p->finished.data[p->finished.count - 1]->execution_thread = thread.data;
        return t;
    }
    case WANT_LITERAL:
        return literal_token(p);
    case WANT_RESYNC:
        return resync(p, p->last.begin);
    case WANT_TOKEN:
        break;
    }
    return take(p);
}

int hlo_text_lex(HLO_TEXT_STYPE *value, Span *span, Parser *p)
{
    Token t = p->want == WANT_TOKEN ? take(p) : wanted_token(p);
    value->span = t.span;
    if (t.kind == TOK_ARRAY || t.kind == TOK_PRIM) {
        if (parse_array_shape(p, t, &value->shape))
            t.kind = TOK_SHAPE;
        else
            t.kind = TOK_BAD;
        t.span.end = (uint32_t)p->end;
    } else if (t.kind == TOK_TABLE) {
        if (!table_parse(p, t))
            t.kind = TOK_BAD;
    } else if (t.kind == '(' || t.kind == '{') {
        if (!enter(p, t.span))
            t.kind = TOK_BAD;
    } else if (t.kind == ')' || t.kind == '}') {
        if (p->depth > 0)
            leave(p);
    }
    *span = t.span;
    p->last = t.span;
    p->bad = t.kind == TOK_BAD;
    return t.kind;
}
