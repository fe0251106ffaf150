/* Array shapes, with all that layouts can say (section 6). Texts hold the same few shapes again
 * and again, so whole shapes are remembered by their text. */
#include "frontend/hlo/hlo.tab.h"
#include "frontend/hlo/parser.h"
#include "ir/dtype.h"

/* A list of numbers in parentheses, on the ints stack; `star` allows TILE_COMBINE. */
static bool layout_numbers(Parser *p, bool star)
{
    if (!expect(p, '(', NULL))
        return false;
    do {
        int64_t value;
        if (star && accept_token(p, '*', NULL))
            value = TILE_COMBINE;
        else if (!expect_int(p, &value))
            return false;
        STACK_PUSH(p, p->ints, value);
    } while (accept_token(p, ',', NULL));
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
    if (!accept_token(p, letter, NULL))
        return true;
    Token t;
    if (!expect(p, '(', NULL))
        return false;
    t = take(p);
    size_t length;
    const char *text = token_text(p, t, &length);
    if (t.kind != TOK_PRIM || !dtype_from_name(text, length, out) ||
        !dtype_is_unsigned(*out)) {
        token_unexpected(p, t, "an unsigned integer type");
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
    token_unexpected(p, peek(p), "'('");
    return false;
}

static bool layout_splits(Parser *p, Layout *l)
{
    STACK(SplitConfig) splits = {0};
    while (accept_token(p, '(', NULL)) {
        SplitConfig split = {0};
        size_t mark = p->ints.count;
        if (!expect_int(p, &split.dimension) || !expect(p, ':', NULL))
            return false;
        do {
            int64_t index;
            if (!expect_int(p, &index))
                return false;
            STACK_PUSH(p, p->ints, index);
        } while (accept_token(p, ',', NULL));
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

/* D(...) says how each dimension is stored: dense, compressed, singleton or loose compressed;
 * all arrays are dense, so it is read and dropped. */
static bool layout_dim_levels(Parser *p, uint32_t rank)
{
    uint32_t count = 0;
    Token open = peek(p);
    if (!accept_word(p, "D"))
        return true;
    if (!expect(p, '(', NULL))
        return false;
    do {
        Token t = take(p);
        if (t.kind != TOK_IDENT || t.span.end - t.span.begin != 1 ||
            strchr("DCSH", p->text[t.span.begin]) == NULL) {
            token_unexpected(p, t, "a dimension level type: D, C, S or H");
            return false;
        }
        count++;
        while (accept_token(p, '+', NULL) || accept_token(p, '~', NULL))
            ;
    } while (accept_token(p, ',', NULL));
    if (!expect(p, ')', NULL))
        return false;
    if (count == rank)
        return true;
    diag_error(p->diag, open.span, "D(...) has %u levels for %u dimensions", count, rank);
    return false;
}

static bool layout_properties(Parser *p, Layout *l)
{
    if (!layout_dim_levels(p, l->rank))
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
        } while (accept_token(p, ',', NULL));
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
    if (accept_token(p, ':', NULL)) {
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
    uint32_t end = p->taken.end;
    Token open = take(p);
    int next = peek(p).kind;
    put_back(p, open);
    p->taken.end = end;
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
    uint32_t length = span.end - span.begin, hash = text_hash(text, length);
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
            bool bounded = accept_token(p, TOK_LEQ, NULL);
            bool unbounded = !bounded && accept_token(p, '?', NULL);
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
        } while (accept_token(p, ',', NULL));
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
        token_unexpected(p, first, "shape");
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
    Token prim = {first.span, TOK_PRIM};
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
