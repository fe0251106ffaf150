/* See hlo_edit.h. */
#include "tests/fuzz/shared/hlo_edit.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum EditKind {
    EDIT_OP,         /* another operation of its kind, or direction of a comparison */
    EDIT_NUMBER,     /* a number behind the shape */
    EDIT_OPERAND,    /* another value of the same shape */
    EDIT_SIZE,       /* a size of a shape, wherever this shape stands */
    EDIT_TYPE,       /* an element type, everywhere */
    EDIT_LAYOUT,     /* the dimensions of this value the other way round */
    EDIT_SKIP,       /* an operand takes its place */
    EDIT_TWICE,      /* it is computed twice, the second time for who reads it later */
    EDIT_BETWEEN,    /* something stands between it and who reads it later */
    EDIT_ATTRIBUTES, /* those of another instruction of the same operation */
    EDIT_RESULT,     /* the entry gives it, too */
    EDIT_KINDS
} EditKind;

enum { EDIT_RANK_MOST = 8 };

/* A piece of the text. */
typedef struct Span {
    size_t start, end;
} Span;

static size_t length(Span s)
{
    return s.end - s.start;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

static bool replace(HloText *t, Span s, const char *with, size_t n)
{
    if (t->size - length(s) + n > HLO_TEXT_MOST)
        return false;
    memmove(t->bytes + s.start + n, t->bytes + s.end, t->size - s.end + 1);
    memcpy(t->bytes + s.start, with, n);
    t->size = t->size - length(s) + n;
    return true;
}

/* From `at` on, each offset where `what` stands as a word, or as it is. */
static void replace_all(HloText *t, size_t at, const char *what, const char *with,
                        bool words)
{
    size_t n = strlen(what), m = strlen(with);
    for (const char *found; (found = strstr(t->bytes + at, what)) != NULL;) {
        at = (size_t)(found - t->bytes);
        bool apart = !words || (!is_word(t->bytes[at + n]) &&
                                (at == 0 || !is_word(t->bytes[at - 1])));
        if (apart && !replace(t, (Span){at, at + n}, with, m))
            return;
        at += apart ? m : n;
    }
}

/* The piece as a string of its own; false: it is too long. */
static bool take(const HloText *t, Span s, char *out, size_t room)
{
    if (length(s) >= room)
        return false;
    memcpy(out, t->bytes + s.start, length(s));
    out[length(s)] = '\0';
    return true;
}

/* --- what a line has ------------------------------------------------------------------------ */

/* "  [ROOT ]name = shape op(operands), attributes" */
typedef struct Line {
    Span all, name, shape, op, operands;
} Line;

static size_t skip(const HloText *t, size_t at, const char *to)
{
    return at + strcspn(t->bytes + at, to);
}

static bool read_line(const HloText *t, size_t start, Line *out)
{
    const char *b = t->bytes;
    Line l = {.all = {start, skip(t, start, "\n")}};
    const char *equals = strstr(b + start, " = ");
    if (equals == NULL || (size_t)(equals - b) >= l.all.end || b[start] != ' ')
        return false;
    l.name.end = (size_t)(equals - b);
    for (l.name.start = l.name.end; is_word(b[l.name.start - 1]);)
        l.name.start--;
    l.shape = (Span){l.name.end + 3, 0};
    int depth = 0;
    size_t at = l.shape.start;
    for (; at < l.all.end && (depth > 0 || b[at] != ' '); at++)
        depth += strchr("([{", b[at]) != NULL ? 1 : strchr(")]}", b[at]) != NULL ? -1 : 0;
    l.shape.end = at;
    l.op = (Span){at + 1, skip(t, at, "(\n")};
    if (l.op.end >= l.all.end || l.op.start >= l.op.end || b[l.op.end] != '(')
        return false;
    l.operands = (Span){l.op.end + 1, skip(t, l.op.end, ")\n")};
    *out = l;
    return l.operands.end < l.all.end;
}

static bool same(const HloText *t, Span a, Span b)
{
    return length(a) == length(b) &&
           memcmp(t->bytes + a.start, t->bytes + b.start, length(a)) == 0;
}

/* What an instruction has to be. */
typedef struct Wanted {
    const Span *shape, *op; /* NULL: any */
    size_t but;             /* not the line that starts here; 0 starts the header */
} Wanted;

static bool is_wanted(const HloText *t, const Line *l, const Wanted *w)
{
    return (w->shape == NULL || same(t, l->shape, *w->shape)) &&
           (w->op == NULL || same(t, l->op, *w->op)) && l->all.start != w->but;
}

/* Of the lines from `begin` to `end` that are wanted the instruction with that number, counted round; its computation's
 * first. */
static bool find_between(const HloText *t, size_t begin, size_t end, const Wanted *w,
                         unsigned which, Line *out, size_t *out_first)
{
    unsigned count = 0;
    for (int round = 0; round < 2; round++) {
        unsigned seen = 0;
        size_t first = begin;
        for (size_t at = begin; at < end; at = skip(t, at, "\n") + 1) {
            if (t->bytes[at] != ' ')
                first = at;
            if (!read_line(t, at, out) || !is_wanted(t, out, w))
                continue;
            *out_first = first;
            if (round == 1 && seen == which % count)
                return true;
            seen++;
        }
        count = seen;
        if (count == 0)
            return false;
    }
    return false;
}

static bool find_line(const HloText *t, unsigned which, Line *out, size_t *out_first)
{
    return find_between(t, 0, t->size, &(Wanted){0}, which, out, out_first);
}

static bool is_floating(const HloText *t, Span shape)
{
    char c = t->bytes[shape.start];
    return c == 'f' || c == 'b' || c == 'c' || c == '(';
}

/* --- edits ---------------------------------------------------------------------------------- */

/* Outside of the entry floats keep their operation: a maximum that became a sum would make what reduces by it
 * inexact. */
static void edit_op(HloText *t, const Line *l, size_t first, uint8_t choice)
{
    static const char *const kinds[][7] = {
        {"add", "subtract", "multiply", "maximum", "minimum"},
        {"and", "or", "xor"},
        {"negate", "abs", "sign", "floor", "ceil", "round-nearest-even", "copy"},
        {"shift-left", "shift-right-logical", "shift-right-arithmetic"},
        {"direction=EQ", "direction=NE", "direction=LT", "direction=LE", "direction=GT",
         "direction=GE"}};
    bool in_entry = strncmp(t->bytes + first, "ENTRY", 5) == 0;
    const char *direction = strstr(t->bytes + l->all.start, "direction=");
    Span op = l->op;
    if (direction != NULL && (size_t)(direction - t->bytes) < l->all.end)
        op = (Span){(size_t)(direction - t->bytes), (size_t)(direction - t->bytes) + 12};
    else if (!in_entry && is_floating(t, l->shape))
        return;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t count = 0;
        bool found = false;
        for (; count < 7 && kinds[k][count] != NULL; count++)
            found =
                found || (strlen(kinds[k][count]) == length(op) &&
                          memcmp(kinds[k][count], t->bytes + op.start, length(op)) == 0);
        if (found) {
            const char *other = kinds[k][choice % count];
            replace(t, op, other, strlen(other));
            return;
        }
    }
}

/* The `which`th number in the span, counted round. */
static bool find_number(const HloText *t, Span in, unsigned which, Span *out)
{
    unsigned count = 0;
    for (int round = 0; round < 2; round++) {
        unsigned seen = 0;
        for (size_t at = in.start; at < in.end; at++) {
            if (!isdigit((unsigned char)t->bytes[at]) || is_word(t->bytes[at - 1]))
                continue;
            size_t end = at + strspn(t->bytes + at, "0123456789");
            if (round == 1 && seen++ == which % count) {
                *out = (Span){at, end};
                return true;
            }
            seen += round == 0;
            at = end;
        }
        count = seen;
        if (count == 0)
            return false;
    }
    return false;
}

static const char *another_number(const HloText *t, Span s, uint8_t choice, char text[32])
{
    long long was = strtoll(t->bytes + s.start, NULL, 10);
    const long long numbers[] = {0,       1,       2,   3,   was + 1, was - 1,
                                 2 * was, was / 2, 127, 255, 65536,   2147483647};
    snprintf(text, 32, "%lld", numbers[choice % (sizeof numbers / sizeof *numbers)]);
    return text;
}

static void edit_number(HloText *t, const Line *l, uint8_t choice)
{
    char text[32];
    Span number;
    if (!find_number(t, (Span){l->op.end, l->all.end}, choice / 12, &number))
        return;
    another_number(t, number, choice, text);
    replace(t, number, text, strlen(text));
}

static void edit_size(HloText *t, const Line *l, uint8_t choice)
{
    char text[32], was[200], is[232];
    Span size, bracket = {skip(t, l->shape.start, "["), 0};
    if (bracket.start >= l->shape.end)
        return;
    bracket.end = skip(t, bracket.start, "]") + 1;
    if (!take(t, bracket, was, sizeof was) || !find_number(t, bracket, choice / 6, &size))
        return;
    long long more = strtoll(t->bytes + size.start, NULL, 10) + (choice % 6) - 2;
    snprintf(text, sizeof text, "%lld", choice % 6 == 2 ? 33 : more < 0 ? 0 : more);
    snprintf(is, sizeof is, "%.*s%s%.*s", (int)(size.start - bracket.start),
             t->bytes + bracket.start, text, (int)(bracket.end - size.end),
             t->bytes + size.end);
    replace_all(t, 0, was, is, false);
}

/* The values before this line in its computation that have the shape; the one with the number, counted round. */
static bool find_value(const HloText *t, size_t first, const Line *l, Span shape,
                       unsigned which, Span *out)
{
    Line other;
    size_t ignored;
    const Wanted w = {.shape = &shape};
    if (!find_between(t, first, l->all.start, &w, which, &other, &ignored))
        return false;
    *out = other.name;
    return true;
}

/* The `which`th operand, counted round, and the line that makes it. */
static bool find_operand(const HloText *t, size_t first, const Line *l, unsigned which,
                         Span *out, Line *maker)
{
    unsigned count = 1;
    for (size_t at = l->operands.start; at < l->operands.end; at++)
        count += t->bytes[at] == ',';
    size_t at = l->operands.start;
    for (unsigned i = 0; i < which % count; i++)
        at = skip(t, at, ",") + 2;
    *out = (Span){at, skip(t, at, ",)")};
    for (size_t k = first; k < l->all.start; k = skip(t, k, "\n") + 1) {
        if (read_line(t, k, maker) && same(t, maker->name, *out))
            return true;
    }
    return false;
}

static void edit_operand(HloText *t, const Line *l, size_t first, uint8_t choice)
{
    char name[64];
    Span operand, other;
    Line maker;
    if (!find_operand(t, first, l, choice, &operand, &maker) ||
        !find_value(t, first, l, maker.shape, choice / 4, &other) ||
        !take(t, other, name, sizeof name))
        return;
    replace(t, operand, name, strlen(name));
}

static void edit_type(HloText *t, const Line *l, uint8_t choice)
{
    static const char *const types[] = {"f32[", "f16[", "bf16[", "f64[", "s32[", "s8[",
                                        "u8[",  "u32[", "s64[",  "u64[", "s4[",  "pred["};
    char was[10];
    size_t bracket = skip(t, l->shape.start, "[");
    if (bracket >= l->shape.end ||
        !take(t, (Span){l->shape.start, bracket + 1}, was, sizeof was))
        return;
    replace_all(t, 0, was, types[choice % (sizeof types / sizeof *types)], false);
}

static void edit_layout(HloText *t, const Line *l)
{
    char text[64];
    int rank = 1, n = 0;
    size_t bracket = skip(t, l->shape.start, "[");
    if (t->bytes[l->shape.end - 1] != ']' || bracket >= l->shape.end ||
        bracket + 2 == l->shape.end || t->bytes[l->shape.start] == '(')
        return;
    for (size_t at = bracket; at < l->shape.end; at++)
        rank += t->bytes[at] == ',';
    for (int i = 0; i < rank && i < 9; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%c%d", i == 0 ? '{' : ',', i);
    text[n++] = '}';
    replace(t, (Span){l->shape.end, l->shape.end}, text, (size_t)n);
}

/* Who reads the value reads an operand of the same shape. */
static void edit_skip(HloText *t, const Line *l, size_t first, uint8_t choice)
{
    char was[64], is[64];
    Span operand;
    Line maker;
    if (!find_operand(t, first, l, choice, &operand, &maker) ||
        !same(t, maker.shape, l->shape) || !take(t, l->name, was, sizeof was) ||
        !take(t, operand, is, sizeof is))
        return;
    /* later computations seldom have the name */
    replace_all(t, l->all.end, was, is, true);
}

static void edit_twice(HloText *t, const Line *l)
{
    char line[2000], was[64], is[72];
    if (length(l->all) + 16 > sizeof line || t->bytes[l->all.start + 2] == 'R' ||
        !take(t, l->name, was, sizeof was))
        return;
    snprintf(is, sizeof is, "%s_b", was);
    int n = snprintf(line, sizeof line, "\n  %s%.*s", is, (int)(l->all.end - l->name.end),
                     t->bytes + l->name.end);
    size_t end = l->all.end;
    replace_all(t, end, was, is, true);
    replace(t, (Span){end, end}, line, (size_t)n);
}

/* Sizes of an array without bounds; their count, or -1. */
static int read_sizes(const HloText *t, Span shape, long long sizes[EDIT_RANK_MOST])
{
    size_t at = skip(t, shape.start, "[");
    int rank = 0;
    if (at >= shape.end || t->bytes[shape.start] == '(')
        return -1;
    for (at++; t->bytes[at] != ']'; at += t->bytes[at] == ',') {
        char *end;
        if (rank == EDIT_RANK_MOST || !isdigit((unsigned char)t->bytes[at]))
            return -1;
        sizes[rank++] = strtoll(t->bytes + at, &end, 10);
        at = (size_t)(end - t->bytes);
    }
    return rank;
}

/* "a,b,c" of the numbers, the other way round if `turned`. */
static void print_list(char *out, size_t room, const long long *numbers, int n,
                       bool turned)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < n && used < room; i++)
        used += (size_t)snprintf(out + used, room - used, "%s%lld", i ? "," : "",
                                 numbers[turned ? n - 1 - i : i]);
}

/* What may stand between: nothing that rounds. N new name, O old name, S shape, T type, R sizes turned, P dimensions
 * turned, C count of elements, W all of it as slices. */
static const char *const between[] = {
    "N = S copy(O)",
    "N = S optimization-barrier(O)",
    "N = S reverse(O), dimensions={0}",
    "N_t = T[R] transpose(O), dimensions={P}\n  N = S transpose(N_t), dimensions={P}",
    "N_f = T[C] reshape(O)\n  N = S reshape(N_f)",
    "N = S maximum(O, O)",
    "N_n = S negate(O)\n  N = S negate(N_n)",
    "N = S slice(O), slice={W}",
    "N_t = (S, S) tuple(O, O)\n  N = S get-tuple-element(N_t), index=1",
    "N_f = T[C] reshape(O)\n  N_r = T[C] reverse(N_f), dimensions={0}\n  N = S "
    "reshape(N_r)",
    "N_s = (S, S, u32[]) copy-start(O)\n  N = S copy-done(N_s)"};

/* A capital of the pattern that stands alone is replaced by its text. False: there is no room. */
static bool fill_pattern(char *out, size_t room, const char *pattern,
                         const char *const texts['Z' - 'A' + 1])
{
    size_t used = 0;
    for (const char *at = pattern; *at != '\0'; at++) {
        char alone[2] = {*at, '\0'};
        const char *text = *at >= 'A' && *at <= 'Z' ? texts[*at - 'A'] : alone;
        size_t n = strlen(text);
        if (used + n >= room)
            return false;
        memcpy(out + used, text, n + 1);
        used += n;
    }
    return true;
}

static void edit_between(HloText *t, const Line *l, uint8_t choice)
{
    enum { KINDS = sizeof between / sizeof *between };
    char line[2000], was[64], is[72], shape[256], type[16], turned[200], dimensions[200],
        slices[400] = "", elements[32];
    long long sizes[EDIT_RANK_MOST], dimension[EDIT_RANK_MOST], count = 1;
    int rank = read_sizes(t, l->shape, sizes);
    if (rank < 1 || t->bytes[l->all.start + 2] == 'R' ||
        !take(t, l->name, was, sizeof was) || !take(t, l->shape, shape, sizeof shape))
        return;
    for (int i = 0, used = 0; i < rank; i++) {
        dimension[i] = i;
        count *= sizes[i] < HLO_TEXT_MOST ? sizes[i] : 1; /* nothing overflows */
        used += snprintf(slices + used, sizeof slices - (size_t)used, "%s[0:%lld]",
                         i ? ", " : "", sizes[i]);
    }
    snprintf(is, sizeof is, "%s_c", was);
    snprintf(type, sizeof type, "%.*s", (int)strcspn(shape, "["), shape);
    print_list(turned, sizeof turned, sizes, rank, true);
    print_list(dimensions, sizeof dimensions, dimension, rank, true);
    snprintf(elements, sizeof elements, "%lld", count);
    const char *const texts['Z' - 'A' + 1] = {
        ['N' - 'A'] = is,       ['O' - 'A'] = was,    ['S' - 'A'] = shape,
        ['T' - 'A'] = type,     ['R' - 'A'] = turned, ['P' - 'A'] = dimensions,
        ['C' - 'A'] = elements, ['W' - 'A'] = slices};
    memcpy(line, "\n  ", 3);
    if (!fill_pattern(line + 3, sizeof line - 3, between[choice % KINDS], texts))
        return;
    replace_all(t, l->all.end, was, is, true);
    replace(t, (Span){l->all.end, l->all.end}, line, strlen(line));
}

/* From behind the operands to the end of the line. */
static void edit_attributes(HloText *t, const Line *l, uint8_t choice)
{
    char text[2000];
    Line other;
    size_t ignored;
    const Wanted w = {.op = &l->op, .but = l->all.start};
    if (find_between(t, 0, t->size, &w, choice, &other, &ignored) &&
        take(t, (Span){other.operands.end, other.all.end}, text, sizeof text))
        replace(t, (Span){l->operands.end, l->all.end}, text, strlen(text));
}

/* The root of the entry becomes a tuple of it and this value. */
static void edit_result(HloText *t, const Line *l, size_t first)
{
    char line[2000];
    Line root;
    size_t at = l->all.start;
    if (strncmp(t->bytes + first, "ENTRY", 5) != 0)
        return;
    while (at < t->size && strncmp(t->bytes + at, "  ROOT ", 7) != 0)
        at = skip(t, at, "\n") + 1;
    if (at >= t->size || !read_line(t, at, &root))
        return;
    int n = snprintf(
        line, sizeof line, "\n  ROOT %.*s_r = (%.*s, %.*s) tuple(%.*s, %.*s)",
        (int)length(root.name), t->bytes + root.name.start, (int)length(root.shape),
        t->bytes + root.shape.start, (int)length(l->shape), t->bytes + l->shape.start,
        (int)length(root.name), t->bytes + root.name.start, (int)length(l->name),
        t->bytes + l->name.start);
    if (n < 0 || (size_t)n >= sizeof line)
        return;
    replace(t, (Span){root.all.end, root.all.end}, line, (size_t)n);
    replace(t, (Span){root.all.start + 2, root.all.start + 7}, "", 0);
}

void hlo_plain(HloText *t)
{
    static const char layout[] = "entry_computation_layout={";
    char *header = strstr(t->bytes, layout);
    if (header != NULL) {
        size_t at = (size_t)(header - t->bytes), end = at + sizeof layout - 1;
        for (int depth = 1; depth > 0 && end < t->size; end++)
            depth += t->bytes[end] == '{' ? 1 : t->bytes[end] == '}' ? -1 : 0;
        replace(t, (Span){at - 2, end}, "", 0); /* ", " before it */
    }
    for (size_t at = 0; at + 1 < t->size; at++) {
        if (t->bytes[at] != ']' || t->bytes[at + 1] != '{')
            continue;
        size_t end = at + 2;
        long next = -2; /* of a descending list the number that has to come */
        while (isdigit((unsigned char)t->bytes[end])) {
            char *behind;
            long number = strtol(t->bytes + end, &behind, 10);
            if (next != -2 && number != next)
                break;
            next = number - 1;
            end = (size_t)(behind - t->bytes) + (*behind == ',');
        }
        if (t->bytes[end] == '}' && next == -1)
            replace(t, (Span){at + 1, end + 1}, "", 0);
    }
}

void hlo_edit(HloText *t, const uint8_t *data, size_t size)
{
    for (size_t at = 0; at + HLO_EDIT_BYTES <= size; at += HLO_EDIT_BYTES) {
        const uint8_t *e = data + at;
        Line l;
        size_t first;
        if (!find_line(t, e[1] | (unsigned)e[2] << 8, &l, &first))
            return;
        switch ((EditKind)(e[0] % EDIT_KINDS)) {
        case EDIT_OP:
            edit_op(t, &l, first, e[3]);
            break;
        case EDIT_NUMBER:
            edit_number(t, &l, e[3]);
            break;
        case EDIT_OPERAND:
            edit_operand(t, &l, first, e[3]);
            break;
        case EDIT_SIZE:
            edit_size(t, &l, e[3]);
            break;
        case EDIT_TYPE:
            edit_type(t, &l, e[3]);
            break;
        case EDIT_LAYOUT:
            edit_layout(t, &l);
            break;
        case EDIT_SKIP:
            edit_skip(t, &l, first, e[3]);
            break;
        case EDIT_TWICE:
            edit_twice(t, &l);
            break;
        case EDIT_BETWEEN:
            edit_between(t, &l, e[3]);
            break;
        case EDIT_ATTRIBUTES:
            edit_attributes(t, &l, e[3]);
            break;
        case EDIT_RESULT:
        case EDIT_KINDS:
            edit_result(t, &l, first);
            break;
        }
    }
}
