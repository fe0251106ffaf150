/* Where values come from in the program that was translated (section 4), and the tables of the header whose keys
 * are such origins: these are kept as the text that is printed. */
#include "frontend/hlo/hlo.tab.h"
#include "frontend/hlo/parse.h"
#include "frontend/hlo/parser.h"
#include "ir/attribute/origin.h"
#include "ir/print/value.h"

/* {"name"} or {"name" {i,j}} or {}; the `{` is read. */
static bool origin_leaf(Parser *p, Origin *o)
{
    if (accept_token(p, '}', NULL))
        return true;
    o->kind = ORIGIN_LEAF;
    if (!expect_string(p, &o->name))
        return false;
    if (peek(p).kind == '{' && !expect_ints(p, &o->index))
        return false;
    return expect(p, '}', NULL);
}

static bool origin_tree(Parser *p, const Origin **out)
{
    Origin *o = ARENA_NEW(p->arena, Origin);
    Token t = take(p);
    *out = o;
    if (t.kind == '{')
        return origin_leaf(p, o);
    if (t.kind != '(') {
        diag_error(p->diag, t.span, "expects '{' or '(' in an origin");
        return false;
    }
    STACK(const Origin *) elements = {0};
    o->kind = ORIGIN_TUPLE;
    if (!enter(p, t.span))
        return false;
    if (peek(p).kind != ')') {
        do {
            const Origin *element;
            if (!origin_tree(p, &element))
                return false;
            STACK_PUSH(p, elements, element);
        } while (accept_token(p, ',', NULL));
    }
    leave(p);
    o->count = (uint32_t)elements.count;
    o->elements = STACK_KEEP(p, elements);
    return expect(p, ')', NULL);
}

bool value_origin(Parser *p, const Origin **out)
{
    if (!expect(p, '{', NULL))
        return false;
    if (accept_token(p, '[', NULL)) {
        Origin *o = ARENA_NEW(p->arena, Origin);
        o->kind = ORIGIN_SYNTHETIC_CALL;
        *out = o;
        if (!accept_word(p, "synthetic_call")) {
            diag_error(p->diag, peek(p).span, "expects synthetic_call");
            return false;
        }
        return expect(p, ']', NULL) && expect(p, '}', NULL);
    }
    return origin_tree(p, out) && expect(p, '}', NULL);
}

static bool origin_key(Parser *p, Text *t)
{
    Origin o = {0};
    if (!expect(p, '{', NULL) || !origin_leaf(p, &o))
        return false;
    text_char(t, '{');
    if (o.kind == ORIGIN_LEAF) {
        escaped_print(t, o.name);
        if (o.index.count != 0)
            text_string(t, " {");
        for (uint32_t i = 0; i < o.index.count; i++)
            text_printf(t, "%s%lld", i == 0 ? "" : ",", (long long)o.index.data[i]);
        text_string(t, o.index.count != 0 ? "}" : "");
    }
    text_char(t, '}');
    return true;
}

/* The text in the quotes must be a module; it is kept as it is written. */
static bool origin_module(Parser *p, Text *t)
{
    Span at = peek(p).span;
    Bytes text;
    if (!expect_string(p, &text))
        return false;
    text_string(t, ",\n  ");
    text_add(t, p->text + at.begin, at.end - at.begin);
    Arena *scratch = arena_scratch();
    Diag *inner = diag_create(scratch, p->diag->file, text.data, text.length);
    bool right = hlo_parse(scratch, inner) != NULL;
    if (!right)
        diag_error(p->diag, at, "the module of the origin_recovery_table is wrong: %s",
                   inner->first->text);
    arena_destroy(scratch);
    return right;
}

/* { {"name" {i}} : {"name" {i}} [, "module text"] ... }, kept as the text that is printed. */
bool value_origin_table(Parser *p, Bytes *out)
{
    Text t;
    text_init(&t, p->arena);
    if (!expect(p, '{', NULL))
        return false;
    while (!accept_token(p, '}', NULL)) {
        text_string(&t, "  ");
        if (!origin_key(p, &t) || !expect(p, ':', NULL))
            return false;
        text_string(&t, " : ");
        if (!origin_key(p, &t))
            return false;
        if (accept_token(p, ',', NULL) && peek(p).kind == TOK_STRING) {
            if (!origin_module(p, &t))
                return false;
            accept_token(p, ',', NULL);
        }
        text_char(&t, '\n');
    }
    *out = (Bytes){t.data, t.length};
    return true;
}

static bool debug_item(Parser *p, Text *t, bool first)
{
    Token name, value;
    if (!expect(p, TOK_ATTR, &name))
        return false;
    value = take(p);
    bool right = false;
    if (token_is(p, name, "log_mode"))
        right = token_is(p, value, "default") || token_is(p, value, "fusion_debugger");
    else if (token_is(p, name, "callback_id") || token_is(p, name, "op_id"))
        right = value.kind == TOK_INT;
    else if (token_is(p, name, "partitioned"))
        right = value.kind == TOK_TRUE || value.kind == TOK_FALSE;
    if (!right) {
        diag_error(
            p->diag, value.span,
            "expects log_mode=default or fusion_debugger, callback_id=INT, op_id=INT or "
            "partitioned=true or false");
        return false;
    }
    size_t length;
    const char *text = token_text(p, name, &length);
    text_printf(t, "%s%.*s=", first ? "" : ",", (int)length, text);
    text = token_text(p, value, &length);
    text_add(t, text, length);
    return true;
}

static bool debug_entry(Parser *p, Text *t)
{
    bool first = true;
    if (!expect(p, '{', NULL))
        return false;
    text_char(t, '{');
    if (peek(p).kind != '}') {
        do {
            if (!debug_item(p, t, first))
                return false;
            first = false;
        } while (accept_token(p, ',', NULL));
    }
    text_char(t, '}');
    return expect(p, '}', NULL);
}

/* { {"name" {i}} : debug | ({debug},...) , ... }, kept as the text that is printed. */
bool value_debug_attributes(Parser *p, Bytes *out)
{
    Text t;
    text_init(&t, p->arena);
    if (!expect(p, '{', NULL))
        return false;
    while (!accept_token(p, '}', NULL)) {
        text_string(&t, t.length == 0 ? "  " : ",\n  ");
        if (!origin_key(p, &t) || !expect(p, ':', NULL))
            return false;
        text_string(&t, ":(");
        bool list = accept_token(p, '(', NULL);
        bool first = true;
        do {
            text_string(&t, first ? "" : ",");
            first = false;
            if (!debug_entry(p, &t))
                return false;
        } while (list && accept_token(p, ',', NULL));
        if (list && !expect(p, ')', NULL))
            return false;
        text_char(&t, ')');
        accept_token(p, ',', NULL);
    }
    text_string(&t, t.length != 0 ? "\n" : "");
    *out = (Bytes){t.data, t.length};
    return true;
}
