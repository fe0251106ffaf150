/* Literals, read straight from the source: constants are most of a big text, so there are no
 * tokens on this road. What a literal looks like depends on its shape (section 7). */
#include "frontend/hlo/hlo.tab.h"
#include "frontend/hlo/parser.h"
#include "ir/dtype.h"
#include "ir/number/number.h"

typedef struct Cursor {
    Parser *p;
    const char *s, *end;
    bool shown; /* a message was made */
} Cursor;

static bool fail(Cursor *c, const char *at, size_t length, const char *message)
{
    uint32_t begin = (uint32_t)(at - c->p->text);
    diag_error(c->p->diag, (Span){begin, begin + (uint32_t)length}, "%s", message);
    return false;
}

static bool expects(Cursor *c, const char *what)
{
    const char *seen = c->s < c->end ? arena_printf(c->p->scratch, "'%.1s'", c->s)
                                     : "the end of the text";
    return fail(c, c->s, c->s < c->end,
                arena_printf(c->p->scratch, "expects %s, but sees %s", what, seen));
}

/* White space and comments; false: an open comment. */
static bool skip_space(Cursor *c)
{
    for (;;) {
        while (c->s < c->end &&
               (*c->s == ' ' || *c->s == '\n' || *c->s == '\t' || *c->s == '\r'))
            c->s++;
        if (c->end - c->s < 2 || c->s[0] != '/')
            return true;
        if (c->s[1] == '/') {
            while (c->s < c->end && *c->s != '\n' && *c->s != '\r')
                c->s++;
        } else if (c->s[1] == '*') {
            const char *close = c->s + 2;
            while (close + 1 < c->end && (close[0] != '*' || close[1] != '/'))
                close++;
            if (close + 1 >= c->end)
                return fail(c, c->s, 2, "unterminated comment");
            c->s = close + 2;
        } else {
            return true;
        }
    }
}

static bool next_is(Cursor *c, char wanted)
{
    return skip_space(c) && c->s < c->end && *c->s == wanted;
}

static bool expect_char(Cursor *c, char wanted)
{
    if (!next_is(c, wanted)) {
        const char name[] = {'\'', wanted, '\'', '\0'};
        return expects(c, name);
    }
    c->s++;
    return true;
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           c == '.' || c == '-' || c == '+' || c == '_';
}

/* One number, true or false; of a component of complex types. */
static bool parse_number(Cursor *c, DType dtype, void *out)
{
    if (!skip_space(c))
        return false;
    const char *from = c->s;
    while (c->s < c->end && is_word(*c->s) && *from != '.') /* .5 is no number */
        c->s++;
    if (c->s == from)
        return expects(c, dtype == DT_PRED ? "true, false or an integer" : "a number");
    if (c->s[-1] == 'n' && c->end - c->s > 3 &&
        memcmp(c->s, "(0x", 3) == 0) { /* a payload */
        const char *close = memchr(c->s, ')', (size_t)(c->end - c->s));
        if (close != NULL)
            c->s = close + 1;
    }
    size_t length = (size_t)(c->s - from);
    NumberStatus status = number_parse(dtype, from, length, out);
    if (status == NUMBER_OK)
        return true;
    char text[256];
    number_status_text(status, dtype, from, length, text, sizeof text);
    return fail(c, from, length, text);
}

static bool parse_element(Cursor *c, DType dtype, void *out)
{
    if (!dtype_is_complex(dtype))
        return parse_number(c, dtype, out);
    DType part = number_component(dtype);
    char *parts = out;
    return expect_char(c, '(') && parse_number(c, part, parts) && expect_char(c, ',') &&
           parse_number(c, part, parts + dtype_info[part].storage) && expect_char(c, ')');
}

/* " in the [i,j]th element": the sub-array that ends here. */
static const char *position_text(Cursor *c, const int64_t *seen, uint32_t depth)
{
    if (depth == 1)
        return "";
    const char *text = " in the [";
    for (uint32_t i = 0; i + 1 < depth; i++)
        text = arena_printf(c->p->scratch, "%s%s%lld", text, i == 0 ? "" : ",",
                            (long long)seen[i]);
    return arena_printf(c->p->scratch, "%s]th element", text);
}

static bool wrong_count(Cursor *c, const char *at, const Shape *shape,
                        const int64_t *seen, uint32_t depth)
{
    return fail(c, at, 1,
                arena_printf(c->p->scratch, "expects %lld elements%s, but sees %s%lld",
                             (long long)shape->dims[depth - 1],
                             position_text(c, seen, depth),
                             seen[depth - 1] > shape->dims[depth - 1] ? "at least " : "",
                             (long long)seen[depth - 1]));
}

static Literal *make_elided(Parser *p, const Shape *shape, int64_t count)
{
    Literal *l = ARENA_NEW(p->arena, Literal);
    l->shape = shape;
    l->count = count;
    l->elided = true;
    return l;
}

/* The elements between the outermost braces, in row-major order; `{` is the next character.
 * seen[d - 1] counts what stands at depth d. */
static bool parse_nested(Cursor *c, const Shape *shape, int64_t count, Literal **out)
{
    uint32_t rank = shape->rank, depth = 0;
    int64_t *seen = ARENA_ARRAY(c->p->scratch, int64_t, rank + 1u);
    size_t size = dtype_info[shape->dtype].storage;
    int64_t at = 0;
    char *data = NULL;
    do {
        if (!skip_space(c))
            return false;
        char next = c->s < c->end ? *c->s : '\0';
        const char *here = c->s;
        if (next == '{') {
            if (depth == rank)
                return fail(
                    c, here, 1,
                    arena_printf(c->p->scratch,
                                 "expects nested array in rank %u, but sees larger",
                                 rank));
            c->s++;
            seen[depth++] = 0;
        } else if (next == '}') {
            if (seen[depth - 1] != shape->dims[depth - 1])
                return wrong_count(c, here, shape, seen, depth);
            c->s++;
            if (--depth != 0)
                seen[depth - 1]++;
        } else if (next == ',') {
            c->s++;
            continue;
        } else if (next == '.' && depth == 1 && c->end - c->s >= 3 &&
                   memcmp(c->s, "...", 3) == 0) {
            c->s += 3;
            *out = make_elided(c->p, shape, count);
            return expect_char(c, '}');
        } else {
            if (depth != rank)
                return fail(c, here, 1,
                            arena_printf(c->p->scratch,
                                         "expects nested array in rank %u, but sees %u",
                                         rank, depth));
            if (++seen[depth - 1] > shape->dims[depth - 1] || at >= count)
                return wrong_count(c, here, shape, seen, depth);
            if (data == NULL) {
                if (count > c->end - c->s)
                    return fail(c, here, 1, "the text is too short for all elements");
                *out = literal_create(c->p->arena, shape);
                data = (*out)->data;
            }
            if (!parse_element(c, shape->dtype, data + (size_t)at++ * size))
                return false;
        }
        if (depth != 0 && seen[depth - 1] > shape->dims[depth - 1])
            return wrong_count(c, here, shape, seen, depth);
    } while (depth != 0);
    if (data == NULL)
        *out = literal_create(c->p->arena, shape);
    return true;
}

static bool parse_array(Cursor *c, const Shape *shape, Literal **out)
{
    int64_t count;
    if (!skip_space(c))
        return false;
    if (!shape_element_count(shape, &count) || count > (INT64_C(1) << 40))
        return fail(c, c->s, 1, "a constant of this shape is too large");
    if (shape->rank != 0 && next_is(c, '{'))
        return parse_nested(c, shape, count, out);
    /* A scalar; also in place of an array, where it is element 0 and the others are 0. */
    if (count > (INT64_C(1) << 30))
        return fail(c, c->s, 1, "a constant of this shape is too large");
    *out = literal_create(c->p->arena, shape);
    if (count == 0)
        return expects(c, "'{'");
    return parse_element(c, shape->dtype, (*out)->data);
}

static bool parse_any(Cursor *c, const Shape *shape, Literal **out)
{
    if (shape_is_array(shape))
        return parse_array(c, shape, out);
    if (!shape_is_tuple(shape))
        return fail(c, c->s, 1,
                    arena_printf(c->p->scratch, "there is no constant of shape %s",
                                 shape_text(c->p->scratch, shape, false)));
    uint32_t at = (uint32_t)(c->s - c->p->text);
    Literal *l = ARENA_NEW(c->p->arena, Literal);
    l->shape = shape;
    l->elements = ARENA_ARRAY(c->p->arena, Literal *, shape->rank);
    if (!enter(c->p, (Span){at, at + 1}) || !expect_char(c, '('))
        return false;
    for (uint32_t i = 0; i < shape->rank; i++) {
        if (i != 0 && !expect_char(c, ','))
            return false;
        if (!skip_space(c) || !parse_any(c, shape->elements[i], &l->elements[i]))
            return false;
    }
    leave(c->p);
    *out = l;
    return expect_char(c, ')');
}

bool literal_parse(Parser *p, const Shape *shape, size_t *offset, const Literal **out)
{
    Cursor c = {.p = p, .s = p->text + *offset, .end = p->text + p->length};
    Literal *l = NULL;
    bool right = skip_space(&c) && parse_any(&c, shape, &l);
    *offset = (size_t)(c.s - p->text);
    *out = l;
    return right;
}

/* `s32[2]{0} {1, 2}` or `( s32[] 1, f32[2]{0} {3, 4} )` */
bool literal_parse_typed(Parser *p, const Literal **out)
{
    Token first = take(p);
    if (first.kind != '(') {
        const Shape *shape;
        if (!parse_array_shape(p, first, &shape))
            return false;
        size_t offset = p->taken.end;
        p->ahead_count = 0;
        bool right = literal_parse(p, shape, &offset, out);
        p->taken.end = (uint32_t)offset;
        lexer_seek(p, offset);
        return right;
    }
    STACK(Literal *) elements = {0};
    STACK(const Shape *) shapes = {0};
    if (!enter(p, first.span))
        return false;
    if (peek(p).kind != ')') {
        do {
            const Literal *l;
            if (!literal_parse_typed(p, &l))
                return false;
            Literal *element = literal_copy(p->arena, l);
            STACK_PUSH(p, elements, element);
            STACK_PUSH(p, shapes, l->shape);
        } while (accept_token(p, ',', NULL));
    }
    leave(p);
    Literal *tuple = ARENA_NEW(p->arena, Literal);
    tuple->shape = shape_tuple(p->intern, (uint32_t)shapes.count, shapes.data);
    if (elements.count != 0)
        tuple->elements =
            arena_copy(p->arena, elements.data, elements.count * sizeof *elements.data);
    *out = tuple;
    return expect(p, ')', NULL);
}
