/* The token filter between flex and bison: array shapes, literals and values of attributes are
 * one token; after a syntax error reading goes on where the next thing starts. */
#include "frontend/hlo/hlo.tab.h"
#include "frontend/hlo/parser.h"

/* -- where to go on after an error ------------------------------------------------------ */

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
    Token t = {{(uint32_t)p->length, (uint32_t)p->length}, TOK_END};
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
    p->taken.end = t.span.begin;
    p->depth = inside ? scope->depth : 0;
    lexer_seek(p, t.span.begin);
    return t;
}

/* -- the filter ------------------------------------------------------------------------ */

/* Asked once, at the start: which of the three forms has this text? */
static Token start_token(Parser *p)
{
    Token first = take(p), second = peek(p);
    Token start = {{first.span.begin, first.span.begin}, TOK_START_COMPUTATIONS};
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
    Token t = {{p->taken.end, p->taken.end}, TOK_VALUE};
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
        t.span.end = p->taken.end;
        return t;
    }
}

static Token header_token(Parser *p)
{
    Token t = {{p->taken.end, p->taken.end}, TOK_VALUE};
    if (token_is(p, (Token){p->header_name, TOK_ATTR}, "entry_computation_layout"))
        t.kind = TOK_AS_LAYOUT;
    else if (!header_value(p))
        t.kind = TOK_BAD;
    t.span.end = p->taken.end;
    return t;
}

static Token literal_token(Parser *p)
{
    Call *call = &p->calls.data[p->calls.count - 1];
    Token t = {{p->taken.end, p->taken.end}, TOK_LITERAL};
    size_t offset = p->taken.end;
    p->ahead_count = 0;
    if (!literal_parse(p, call->shape, &offset, &call->literal))
        t.kind = TOK_BAD;
    p->taken.end = (uint32_t)offset;
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
        Token t = {{p->taken.end, p->taken.end}, TOK_VALUE};
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

static Token array_token(Parser *p, Token first, const Shape **shape)
{
    int kind = parse_array_shape(p, first, shape) ? TOK_SHAPE : TOK_BAD;
    return (Token){{first.span.begin, p->taken.end}, kind};
}

int hlo_text_lex(HLO_TEXT_STYPE *value, Span *span, Parser *p)
{
    Token t = p->want == WANT_TOKEN ? take(p) : wanted_token(p);
    switch (t.kind) {
    case TOK_ARRAY:
    case TOK_PRIM:
        if (!p->wants_name) /* else the grammar misses the name */
            t = array_token(p, t, &value->shape);
        break;
    case TOK_TABLE:
        if (!table_parse(p, t))
            t.kind = TOK_BAD;
        break;
    case '(':
    case '{':
        if (!enter(p, t.span))
            t.kind = TOK_BAD;
        break;
    case ')':
    case '}':
        if (p->depth > 0)
            leave(p);
        break;
    default:
        break;
    }
    *span = t.span;
    p->last = t.span;
    p->wants_name = t.kind == TOK_HLO_MODULE || t.kind == TOK_ENTRY;
    p->bad = t.kind == TOK_BAD;
    return t.kind;
}
