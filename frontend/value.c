/* Values of attributes, each by the kind of its attribute (section 8.6). All read raw tokens
 * and are flat: what nests - shapes, computations - is the grammar's business. */
#include <stddef.h>
#include <stdlib.h>

#include "frontend/hlo.tab.h"
#include "frontend/parser.h"

static void unexpected_name(Parser *p, Token t, const char *what, const char *allowed)
{
    size_t length;
    const char *text = token_text(p, t, &length);
    diag_error(p->diag, t.span, "unexpected %s '%.*s'; expects %s", what, (int)length,
               text, allowed);
}

static const char *enum_names(Parser *p, AttrId id)
{
    const char *text = "";
    for (const char *const *n = attr_info[id].names; *n != NULL; n++)
        text = arena_printf(p->scratch, "%s%s%s", text, text[0] != '\0' ? ", " : "", *n);
    return text;
}

static bool parse_enum(Parser *p, AttrId id, int64_t *out)
{
    Token t = take(p);
    size_t length;
    const char *text = token_text(p, t, &length);
    if (attr_enum_find(id, text, length, out))
        return true;
    if (t.kind != TOK_BAD)
        unexpected_name(p, t, "value", enum_names(p, id));
    return false;
}

/* { item, item, ... } with items that parse_item puts on the ints stack. */
static bool parse_items(Parser *p, AttrId id, bool (*item)(Parser *p, AttrId id),
                        Ints *out)
{
    size_t mark = p->ints.count;
    if (!expect(p, '{', NULL))
        return false;
    if (!accept_token(p, '}', NULL)) {
        do {
            if (!item(p, id))
                return false;
        } while (accept_token(p, ',', NULL));
        if (!expect(p, '}', NULL))
            return false;
    }
    *out = ints_take(p, mark);
    return true;
}

static bool enum_item(Parser *p, AttrId id)
{
    int64_t value;
    if (!parse_enum(p, id, &value))
        return false;
    STACK_PUSH(p, p->ints, value);
    return true;
}

static bool bool_item(Parser *p, AttrId id)
{
    (void)id;
    bool value;
    if (!expect_bool(p, &value))
        return false;
    STACK_PUSH(p, p->ints, value);
    return true;
}

static bool parse_lists(Parser *p, IntLists *out)
{
    STACK(Ints) lists = {0};
    if (!expect(p, '{', NULL))
        return false;
    if (!accept_token(p, '}', NULL)) {
        do {
            Ints ints;
            if (!expect_ints(p, &ints))
                return false;
            STACK_PUSH(p, lists, ints);
        } while (accept_token(p, ',', NULL));
        if (!expect(p, '}', NULL))
            return false;
    }
    out->count = (uint32_t)lists.count;
    out->data = lists.count != 0
                    ? arena_copy(p->arena, lists.data, lists.count * sizeof *lists.data)
                    : NULL;
    return true;
}

static bool parse_controls(Parser *p)
{
    if (!expect(p, '{', NULL))
        return false;
    do {
        Token t = take(p);
        if (t.kind != TOK_NAME && t.kind != TOK_IDENT) {
            diag_error(p->diag, t.span, "expects the name of an instruction");
            return false;
        }
        bool known;
        Symbol *symbol = symbol_named(p, t.span);
        Instruction *inst = symbol_instruction(p, symbol, &known);
        if (!known && !scope_top(p)->lost_name)
            diag_error(p->diag, t.span, "instruction does not exist: %s", symbol->text);
        if (inst != NULL)
            STACK_PUSH(p, p->controls, inst);
        else
            pending_top(p)->broken = true;
    } while (accept_token(p, ',', NULL));
    return expect(p, '}', NULL);
}

/* -- sizes, windows, padding ------------------------------------------------------------- */

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

static bool parse_padding(Parser *p, const Padding **out)
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

static bool parse_window(Parser *p, const Window **out)
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
            unexpected_name(p, t, which < 0 ? "item of a window" : "second",
                            "size, stride, pad, lhs_dilate, rhs_dilate or rhs_reversal");
            return false;
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
static bool label_part(Parser *p, const char *text, const char *letters, int64_t *first,
                       int64_t *second, uint32_t rank, int64_t *spatial)
{
    *first = *second = -1;
    for (uint32_t i = 0; i < rank; i++)
        spatial[i] = -1;
    for (int64_t i = 0; text[i] != '\0'; i++) {
        if (text[i] == '?')
            continue;
        int64_t *place;
        if (text[i] == letters[0])
            place = first;
        else if (text[i] == letters[1])
            place = second;
        else if (text[i] >= '0' && text[i] <= '9' && (uint32_t)(text[i] - '0') < rank)
            place = &spatial[text[i] - '0'];
        else
            return false;
        if (*place >= 0)
            return false;
        *place = i;
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (spatial[i] < 0)
            return false;
    }
    (void)p;
    return *first >= 0 && *second >= 0;
}

static uint32_t spatial_count(const char *text)
{
    uint32_t n = 0;
    for (; *text != '\0'; text++)
        n += *text >= '0' && *text <= '9';
    return n;
}

static bool parse_labels(Parser *p, const DimLabels **out)
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
        label_part(p, l->lhs_text, "bf", &l->lhs_batch, &l->lhs_feature, n, spatial) &&
        label_part(p, l->rhs_text, "io", &l->rhs_input, &l->rhs_output, n, spatial + n) &&
        label_part(p, l->out_text, "bf", &l->out_batch, &l->out_feature, n,
                   spatial + 2 * n);
    if (!fits)
        diag_error(
            p->diag, t.span,
            "dimension labels need b and f (i and o in the middle) and each spatial "
            "dimension once in all three parts");
    *out = l;
    return fits;
}

static bool parse_slice(Parser *p, const SliceSpec **out)
{
    STACK(SliceDim) dims = {0};
    if (!expect(p, '{', NULL))
        return false;
    if (!accept_token(p, '}', NULL)) {
        do {
            SliceDim dim = {.stride = 1};
            if (!expect(p, '[', NULL) || !expect_int(p, &dim.start) ||
                !expect(p, ':', NULL) || !expect_int(p, &dim.limit))
                return false;
            if (accept_token(p, ':', NULL) && !expect_int(p, &dim.stride))
                return false;
            if (!expect(p, ']', NULL))
                return false;
            STACK_PUSH(p, dims, dim);
        } while (accept_token(p, ',', NULL));
        if (!expect(p, '}', NULL))
            return false;
    }
    SliceSpec *slice = ARENA_NEW(p->arena, SliceSpec);
    slice->rank = (uint32_t)dims.count;
    slice->dims = arena_copy(p->arena, dims.data, dims.count * sizeof *dims.data);
    *out = slice;
    return true;
}

/* { {oi}: (operand, {pi} [, may-alias]), ... } */
bool value_aliasing(Parser *p, bool header, Aliasing *out)
{
    STACK(AliasEntry) entries = {0};
    if (!expect(p, '{', NULL))
        return false;
    while (peek(p).kind == '{') {
        AliasEntry e = {0};
        Token t = peek(p);
        if (!expect_ints(p, &e.output) || !expect(p, ':', NULL) ||
            !expect(p, '(', NULL) || !expect_int(p, &e.operand) ||
            !expect(p, ',', NULL) || !expect_ints(p, &e.input))
            return false;
        if (header && accept_token(p, ',', NULL)) {
            t = take(p);
            e.must = token_is(p, t, "must-alias");
            if (!e.must && !token_is(p, t, "may-alias")) {
                unexpected_name(p, t, "kind of alias", "may-alias or must-alias");
                return false;
            }
        }
        if (!expect(p, ')', NULL))
            return false;
        STACK_PUSH(p, entries, e);
        if (!accept_token(p, ',', NULL))
            break;
    }
    out->count = (uint32_t)entries.count;
    out->entries =
        arena_copy(p->arena, entries.data, entries.count * sizeof *entries.data);
    return expect(p, '}', NULL);
}

/* -- smaller structures ------------------------------------------------------------------ */

static bool parse_domain(Parser *p, const Domain **out)
{
    Domain *domain = ARENA_NEW(p->arena, Domain);
    Token t;
    if (!expect(p, '{', NULL))
        return false;
    while (!accept_token(p, '}', NULL)) {
        if (!expect(p, TOK_ATTR, &t))
            return false;
        bool right = true;
        if (token_is(p, t, "kind")) {
            Bytes kind;
            Token value = peek(p);
            if (!expect_string(p, &kind))
                return false;
            if (strcmp(kind.data, "sharding") != 0) {
                diag_error(p->diag, value.span, "the kind of a domain is \"sharding\"");
                return false;
            }
        } else if (token_is(p, t, "entry")) {
            right = value_sharding(p, &domain->entry);
        } else if (token_is(p, t, "exit")) {
            right = value_sharding(p, &domain->exit);
        } else {
            unexpected_name(p, t, "item of a domain", "kind, entry or exit");
            right = false;
        }
        if (!right)
            return false;
        accept_token(p, ',', NULL);
    }
    if (domain->entry == NULL || domain->exit == NULL) {
        diag_error(p->diag, pending_top(p)->attr.span,
                   "a domain has an entry and an exit");
        return false;
    }
    *out = domain;
    return true;
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
                !split_numbers(p, sizes, 1, &rank, &columns) || rank != 2)
                return false;
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
            unexpected_name(p, t, "item", "sparsity, dimension or stride");
            return false;
        }
    }
    return true;
}

static bool parse_sparsity(Parser *p, const Sparsity **out)
{
    Sparsity *sparsity = ARENA_NEW(p->arena, Sparsity);
    Token t;
    if (!expect(p, '{', NULL))
        return false;
    while (!accept_token(p, '}', NULL)) {
        if (!expect(p, TOK_ATTR, &t))
            return false;
        bool lhs = token_is(p, t, "lhs");
        if (!lhs && !token_is(p, t, "rhs")) {
            unexpected_name(p, t, "side", "lhs or rhs");
            return false;
        }
        if (!sparsity_side(p, lhs ? &sparsity->lhs : &sparsity->rhs))
            return false;
    }
    *out = sparsity;
    return true;
}

static int compare_keys(const void *a, const void *b)
{
    return strcmp(((const DictEntry *)a)->key, ((const DictEntry *)b)->key);
}

/* { key=value, ... }: values are strings or JSON dictionaries; a later duplicate wins. */
bool value_dict(Parser *p, const Dict **out)
{
    STACK(DictEntry) entries = {0};
    Token t;
    if (!expect(p, '{', NULL))
        return false;
    if (!accept_token(p, '}', NULL)) {
        do {
            if (!expect(p, TOK_ATTR, &t))
                return false;
            DictEntry e = {.json = peek(p).kind == '{'};
            size_t length;
            const char *key = token_text(p, t, &length);
            e.key = intern_text(p->intern, key, length);
            if (!(e.json ? expect_json(p, &e.value) : expect_string(p, &e.value)))
                return false;
            size_t i = 0;
            while (i < entries.count && entries.data[i].key != e.key)
                i++;
            if (i < entries.count)
                entries.data[i] = e;
            else
                STACK_PUSH(p, entries, e);
        } while (accept_token(p, ',', NULL));
        if (!expect(p, '}', NULL))
            return false;
    }
    if (entries.count != 0)
        qsort(entries.data, entries.count, sizeof *entries.data, compare_keys);
    Dict *dict = ARENA_NEW(p->arena, Dict);
    dict->count = (uint32_t)entries.count;
    dict->entries =
        arena_copy(p->arena, entries.data, entries.count * sizeof *entries.data);
    *out = dict;
    return true;
}

static bool parse_statistics(Parser *p, const Statistics **out)
{
    Statistics *s = ARENA_NEW(p->arena, Statistics);
    STACK(StatisticEntry) entries = {0};
    Token t;
    if (!expect(p, '{', NULL))
        return false;
    if (!accept_token(p, '}', NULL)) {
        if (!expect(p, TOK_ATTR, &t) || !expect_int(p, &s->visualizing_index))
            return false;
        while (accept_token(p, ',', NULL)) {
            StatisticEntry e;
            if (!expect(p, TOK_ATTR, &t) || !expect_number(p, &e.value))
                return false;
            size_t length;
            const char *name = token_text(p, t, &length);
            e.name = arena_text(p->arena, name, length);
            STACK_PUSH(p, entries, e);
        }
        if (!expect(p, '}', NULL))
            return false;
    }
    s->count = (uint32_t)entries.count;
    s->entries = arena_copy(p->arena, entries.data, entries.count * sizeof *entries.data);
    *out = s;
    return true;
}

static bool parse_tolerance(Parser *p, Accuracy *a)
{
    Token t;
    a->tolerance = true;
    if (!expect(p, '{', NULL))
        return false;
    do {
        if (!expect(p, TOK_ATTR, &t))
            return false;
        Token value = peek(p);
        bool right;
        if (token_is(p, t, "atol"))
            right = expect_number(p, &a->atol);
        else if (token_is(p, t, "rtol"))
            right = expect_number(p, &a->rtol);
        else if (token_is(p, t, "ulps"))
            right = expect_int(p, &a->ulps);
        else {
            unexpected_name(p, t, "tolerance", "atol, rtol or ulps");
            right = false;
        }
        if (!right)
            return false;
        if (a->atol < 0 || a->rtol < 0 || a->ulps < 0) {
            diag_error(p->diag, value.span, "a tolerance is not negative");
            return false;
        }
    } while (accept_token(p, ',', NULL));
    return expect(p, '}', NULL);
}

static bool parse_accuracy(Parser *p, const Accuracy **out)
{
    Accuracy *a = ARENA_NEW(p->arena, Accuracy);
    Token t;
    if (!expect(p, '{', NULL) || !expect(p, TOK_ATTR, &t))
        return false;
    if (token_is(p, t, "tolerance")) {
        if (!parse_tolerance(p, a))
            return false;
    } else if (token_is(p, t, "mode")) {
        t = take(p);
        a->highest = token_is(p, t, "highest") || token_is(p, t, "HIGHEST");
        if (!a->highest && !token_is(p, t, "default") && !token_is(p, t, "DEFAULT")) {
            unexpected_name(p, t, "mode", "default or highest");
            return false;
        }
    } else {
        unexpected_name(p, t, "accuracy", "mode or tolerance");
        return false;
    }
    *out = a;
    return expect(p, '}', NULL);
}

#define TEXT(name, field)                                                                \
    {                                                                                    \
        name, sizeof name - 1, offsetof(Metadata, field), true                           \
    }
#define NUMBER(field)                                                                    \
    {                                                                                    \
#field, sizeof #field - 1, offsetof(Metadata, field), false                      \
    }
static const struct {
    const char *name;
    size_t length, place;
    bool is_text;
} metadata_fields[] = {TEXT("op_type", op_type),
                       TEXT("op_name", op_name),
                       TEXT("source_file", source_file),
                       TEXT("deduplicated_name", deduplicated_name),
                       TEXT("scheduling_name", scheduling_name),
                       TEXT("metadata_payload", payload),
                       NUMBER(source_line),
                       NUMBER(source_end_line),
                       NUMBER(source_column),
                       NUMBER(source_end_column),
                       NUMBER(stack_frame_id)};
#undef TEXT
#undef NUMBER

enum { METADATA_FIELDS = sizeof metadata_fields / sizeof *metadata_fields };

static int metadata_field(const Parser *p, Token name)
{
    size_t length;
    const char *text = token_text(p, name, &length);
    int i = 0;
    while (i < METADATA_FIELDS && (metadata_fields[i].length != length ||
                                   memcmp(metadata_fields[i].name, text, length) != 0))
        i++;
    return i;
}

static bool int_between(Parser *p, int64_t least, int64_t most, int64_t *out)
{
    Token t = peek(p);
    if (!expect_int(p, out))
        return false;
    if (*out >= least && *out <= most)
        return true;
    diag_error(p->diag, t.span, "expects an integer from %lld to %lld, but sees %lld",
               (long long)least, (long long)most, (long long)*out);
    return false;
}

static bool profile_item(Parser *p, AttrId id)
{
    (void)id;
    int64_t value;
    if (!int_between(p, 0, 3, &value))
        return false;
    STACK_PUSH(p, p->ints, value);
    return true;
}

static bool metadata_value(Parser *p, Metadata *m, int field)
{
    if (field == METADATA_FIELDS)
        return parse_items(p, ATTR_METADATA, profile_item, &m->profile_types);
    void *place = (char *)m + metadata_fields[field].place;
    return metadata_fields[field].is_text ? expect_string(p, place)
                                          : int_between(p, INT32_MIN, INT32_MAX, place);
}

bool value_metadata(Parser *p, const Metadata **out)
{
    Metadata *m = ARENA_NEW(p->arena, Metadata);
    Token t;
    if (!expect(p, '{', NULL))
        return false;
    unsigned seen = 0;
    while (!accept_token(p, '}', NULL)) {
        if (!expect(p, TOK_ATTR, &t))
            return false;
        int field = metadata_field(p, t);
        bool known = field < METADATA_FIELDS || token_is(p, t, "profile_type");
        if (!known) {
            unexpected_name(p, t, "metadata",
                            "op_type, op_name, source_file, source_line, ...");
            return false;
        }
        if ((seen >> field & 1) != 0) {
            diag_error(p->diag, t.span, "the metadata has this field already");
            return false;
        }
        seen |= 1u << field;
        if (!metadata_value(p, m, field))
            return false;
        accept_token(p, ',', NULL);
    }
    *out = m;
    return true;
}

/* -- by kind ----------------------------------------------------------------------------- */

static bool parse_flag(Parser *p, int64_t *out)
{
    bool value;
    if (!expect_bool(p, &value))
        return false;
    *out = value;
    return true;
}

static bool parse_aliasing(Parser *p, const Aliasing **out)
{
    Aliasing *aliasing = ARENA_NEW(p->arena, Aliasing);
    *out = aliasing;
    return value_aliasing(p, false, aliasing);
}

bool value_parse(Parser *p, Pending *at)
{
    Attr *a = &at->attr;
    switch (attr_info[a->id].kind) {
    case AK_INT:
        return expect_int(p, &a->i);
    case AK_BOOL:
        return parse_flag(p, &a->i);
    case AK_FLOAT:
        return expect_number(p, &a->f);
    case AK_STRING:
        return expect_string(p, &a->bytes);
    case AK_CONFIG:
        return peek(p).kind == '{' ? expect_json(p, &a->bytes)
                                   : expect_string(p, &a->bytes);
    case AK_ENUM:
        return parse_enum(p, a->id, &a->i);
    case AK_INTS:
        return expect_ints(p, &a->ints);
    case AK_INTSS:
        return parse_lists(p, &a->lists);
    case AK_BOOLS:
        return parse_items(p, a->id, bool_item, &a->ints);
    case AK_ENUMS:
        return parse_items(p, a->id, enum_item, &a->ints);
    case AK_INSTRUCTIONS:
        return parse_controls(p);
    case AK_WINDOW:
        return parse_window(p, &a->window);
    case AK_DIM_LABELS:
        return parse_labels(p, &a->labels);
    case AK_PADDING:
        return parse_padding(p, &a->padding);
    case AK_SLICE:
        return parse_slice(p, &a->slice);
    case AK_ALIASING:
        return parse_aliasing(p, &a->aliasing);
    case AK_LITERAL:
        return literal_parse_typed(p, &a->literal);
    case AK_SHARDING:
        return value_sharding(p, &a->sharding);
    case AK_REPLICA_GROUPS:
        return value_replica_groups(p, &a->groups);
    case AK_DOMAIN:
        return parse_domain(p, &a->domain);
    case AK_SPARSITY:
        return parse_sparsity(p, &a->sparsity);
    case AK_METADATA:
        return value_metadata(p, &a->metadata);
    case AK_DICT:
        return value_dict(p, &a->dict);
    case AK_STATISTICS:
        return parse_statistics(p, &a->statistics);
    case AK_ACCURACY:
        return parse_accuracy(p, &a->accuracy);
    case AK_ORIGIN:
        return value_origin(p, &a->origin);
    case AK_COMPUTATION:
    case AK_COMPUTATIONS:
    case AK_SHAPE:
    case AK_SHAPES:
        break; /* read by the grammar */
    }
    return false;
}
