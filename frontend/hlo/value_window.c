/* Values that are made of sizes: windows, padding, slices, dimension labels, sparsity (section 8.6). */
#include "frontend/hlo/hlo.tab.h"
#include "frontend/hlo/parser.h"

/* The numbers of a token such as 2x3 or 0_1x-2_3_1, on the ints stack: `width` of them per
 * dimension, the missing ones 0. *columns is how many the longest has. */
static bool split_numbers(Parser *p, Token t, uint32_t width, uint32_t *rank,
                          uint32_t *columns)
{
    const char *s = p->text + t.span.begin, *end = p->text + t.span.end;
    uint32_t column = 0;
    *rank = 1;
    *columns = 0;
    while (s < end) {
        Token part = {{(uint32_t)(s - p->text), 0}, TOK_INT};
        while (s < end && *s != 'x' && *s != '_')
            s++;
        part.span.end = (uint32_t)(s - p->text);
        int64_t value;
        if (!token_int(p, part, &value))
            return false;
        STACK_PUSH(p, p->ints, value);
        column++;
        *columns = column > *columns ? column : *columns;
        if (s == end || *s == 'x') {
            for (; column < width; column++)
                STACK_PUSH(p, p->ints, 0);
            column = 0;
            *rank += s < end;
        }
        s++;
    }
    return true;
}

bool value_padding(Parser *p, const Padding **out)
{
    Token t;
    uint32_t rank = 0, columns = 0;
    size_t mark = p->ints.count;
    if (peek(p).kind == TOK_STRING) { /* a scalar has no dimension to pad */
        Bytes text;
        if (!expect_string(p, &text))
            return false;
    } else if (!expect(p, TOK_PAD, &t) || !split_numbers(p, t, 3, &rank, &columns)) {
        return false;
    }
    PaddingDim *dims = ARENA_ARRAY(p->arena, PaddingDim, rank);
    for (uint32_t i = 0; i < rank; i++) {
        const int64_t *from = p->ints.data + mark + 3 * (size_t)i;
        dims[i] = (PaddingDim){from[0], from[1], from[2]};
    }
    p->ints.count = mark;
    Padding *padding = ARENA_NEW(p->arena, Padding);
    *padding = (Padding){rank, dims};
    *out = padding;
    return true;
}

enum { W_SIZE, W_STRIDE, W_PAD, W_LHS_DILATE, W_RHS_DILATE, W_REVERSAL, W_COUNT };
static const char *const window_names[W_COUNT] = {
    "size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal"};

static void set_window(WindowDim *dims, uint32_t rank, int which, const int64_t *from)
{
    for (uint32_t i = 0; i < rank; i++) {
        switch (which) {
        case W_SIZE:
            dims[i].size = from[i];
            break;
        case W_STRIDE:
            dims[i].stride = from[i];
            break;
        case W_PAD:
            dims[i].pad_low = from[2 * (size_t)i];
            dims[i].pad_high = from[2 * (size_t)i + 1];
            break;
        case W_LHS_DILATE:
            dims[i].base_dilation = from[i];
            break;
        case W_RHS_DILATE:
            dims[i].window_dilation = from[i];
            break;
        default:
            dims[i].reversal = from[i] != 0;
            break;
        }
    }
}

/* One item of a window: numbers on the ints stack. */
static bool window_item(Parser *p, int which, uint32_t *rank)
{
    Token t = take(p);
    uint32_t columns;
    bool fits =
        which == W_PAD ? t.kind == TOK_PAD : t.kind == TOK_INT || t.kind == TOK_DXD;
    uint32_t width = which == W_PAD ? 2 : 1;
    if (fits && split_numbers(p, t, width, rank, &columns) && columns == width)
        return true;
    if (t.kind != TOK_BAD)
        diag_error(p->diag, t.span, "expects %s for %s of a window",
                   which == W_PAD ? "padding such as 0_1x0_0" : "sizes such as 2x3",
                   window_names[which]);
    return false;
}

static int find_name(Parser *p, Token t, const char *const *names, int count)
{
    for (int i = 0; i < count; i++) {
        if (token_is(p, t, names[i]))
            return i;
    }
    return -1;
}

bool value_window(Parser *p, const Window **out)
{
    Token open, t;
    size_t marks[W_COUNT], base = p->ints.count;
    uint32_t ranks[W_COUNT] = {0};
    bool seen[W_COUNT] = {false};
    if (!expect(p, '{', &open))
        return false;
    while (!accept_token(p, '}', NULL)) {
        if (!expect(p, TOK_ATTR, &t))
            return false;
        int which = find_name(p, t, window_names, W_COUNT);
        if (which < 0 || seen[which]) {
            return token_unknown(
                p, t, which < 0 ? "item of a window" : "second",
                "size, stride, pad, lhs_dilate, rhs_dilate or rhs_reversal");
        }
        seen[which] = true;
        marks[which] = p->ints.count;
        if (!window_item(p, which, &ranks[which]))
            return false;
    }
    uint32_t rank = ranks[W_SIZE];
    WindowDim *dims = ARENA_ARRAY(p->arena, WindowDim, rank);
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = (WindowDim){.stride = 1, .base_dilation = 1, .window_dilation = 1};
    for (int which = 0; which < W_COUNT; which++) {
        if (!seen[which])
            continue;
        if (ranks[which] != rank) {
            diag_error(p->diag, open.span,
                       "%s of the window has %u dimensions, size has %u",
                       window_names[which], ranks[which], rank);
            return false;
        }
        set_window(dims, rank, which, p->ints.data + marks[which]);
    }
    p->ints.count = base;
    Window *window = ARENA_NEW(p->arena, Window);
    *window = (Window){rank, dims};
    *out = window;
    return true;
}

/* One part of dimension labels: positions of two letters and of the spatial numbers. */
static bool label_part(const char *text, const char *letters, int64_t *first,
                       int64_t *second, uint32_t rank, int64_t *spatial)
{
    *first = *second = -1;
    for (uint32_t i = 0; i < rank; i++)
        spatial[i] = -1;
    for (int64_t i = 0; text[i] != '\0'; i++) {
        if (text[i] == '?')
            continue;
        int64_t *position;
        if (text[i] == letters[0])
            position = first;
        else if (text[i] == letters[1])
            position = second;
        else if (text[i] >= '0' && text[i] <= '9' && (uint32_t)(text[i] - '0') < rank)
            position = &spatial[text[i] - '0'];
        else
            return false;
        if (*position >= 0)
            return false;
        *position = i;
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (spatial[i] < 0)
            return false;
    }
    return *first >= 0 && *second >= 0;
}

static uint32_t spatial_count(const char *text)
{
    uint32_t n = 0;
    for (; *text != '\0'; text++)
        n += *text >= '0' && *text <= '9';
    return n;
}

bool value_labels(Parser *p, const DimLabels **out)
{
    Token t;
    if (!expect(p, TOK_DIM_LABELS, &t))
        return false;
    const char *s = p->text + t.span.begin;
    size_t length = t.span.end - t.span.begin;
    size_t lhs = strcspn(s, "_"), rhs = (size_t)(strstr(s, "->") - s) - lhs - 1;
    DimLabels *l = ARENA_NEW(p->arena, DimLabels);
    l->lhs_text = arena_text(p->arena, s, lhs);
    l->rhs_text = arena_text(p->arena, s + lhs + 1, rhs);
    l->out_text = arena_text(p->arena, s + lhs + rhs + 3, length - lhs - rhs - 3);
    l->spatial_rank = spatial_count(l->lhs_text);
    int64_t *spatial = ARENA_ARRAY(p->arena, int64_t, 3 * (size_t)l->spatial_rank + 1);
    uint32_t n = l->spatial_rank;
    l->lhs_spatial = spatial;
    l->rhs_spatial = spatial + n;
    l->out_spatial = spatial + 2 * n;
    bool fits = spatial_count(l->rhs_text) == n && spatial_count(l->out_text) == n;
    fits =
        fits &&
        label_part(l->lhs_text, "bf", &l->lhs_batch, &l->lhs_feature, n, spatial) &&
        label_part(l->rhs_text, "io", &l->rhs_input, &l->rhs_output, n, spatial + n) &&
        label_part(l->out_text, "bf", &l->out_batch, &l->out_feature, n, spatial + 2 * n);
    if (!fits)
        diag_error(
            p->diag, t.span,
            "dimension labels need b and f (i and o in the middle) and each spatial "
            "dimension once in all three parts");
    *out = l;
    return fits;
}

bool value_slice(Parser *p, const SliceSpec **out)
{
    STACK(SliceDim) dims = {0};
    List l = list_open(p, '{', '}');
    while (list_next(p, &l)) {
        SliceDim dim = {.stride = 1};
        if (!expect(p, '[', NULL) || !expect_int(p, &dim.start) ||
            !expect(p, ':', NULL) || !expect_int(p, &dim.limit))
            return false;
        if (accept_token(p, ':', NULL) && !expect_int(p, &dim.stride))
            return false;
        if (!expect(p, ']', NULL))
            return false;
        STACK_PUSH(p, dims, dim);
    }
    SliceSpec *slice = ARENA_NEW(p->arena, SliceSpec);
    *slice = (SliceSpec){(uint32_t)dims.count, STACK_KEEP(p, dims)};
    *out = slice;
    return l.right;
}

static bool sparsity_side(Parser *p, SparsitySide *side)
{
    Token t;
    side->present = true;
    if (!expect(p, '{', NULL))
        return false;
    while (!accept_token(p, '}', NULL)) {
        if (!expect(p, TOK_ATTR, &t))
            return false;
        if (token_is(p, t, "sparsity")) {
            Token sizes;
            uint32_t rank, columns;
            size_t mark = p->ints.count;
            if (!expect(p, TOK_DXD, &sizes) ||
                !split_numbers(p, sizes, 1, &rank, &columns))
                return false;
            if (rank != 2)
                return token_wrong(p, sizes, "expects N x M for a sparsity");
            side->n = p->ints.data[mark];
            side->m = p->ints.data[mark + 1];
            p->ints.count = mark;
        } else if (token_is(p, t, "dimension")) {
            if (!expect_int(p, &side->dimension))
                return false;
        } else if (token_is(p, t, "stride")) {
            if (!expect_int(p, &side->stride))
                return false;
        } else {
            return token_unknown(p, t, "item", "sparsity, dimension or stride");
        }
    }
    return true;
}

bool value_sparsity(Parser *p, const Sparsity **out)
{
    Sparsity *sparsity = ARENA_NEW(p->arena, Sparsity);
    Token t;
    if (!expect(p, '{', NULL))
        return false;
    while (!accept_token(p, '}', NULL)) {
        if (!expect(p, TOK_ATTR, &t))
            return false;
        bool lhs = token_is(p, t, "lhs");
        if (!lhs && !token_is(p, t, "rhs"))
            return token_unknown(p, t, "side", "lhs or rhs");
        if (!sparsity_side(p, lhs ? &sparsity->lhs : &sparsity->rhs))
            return false;
    }
    *out = sparsity;
    return true;
}
