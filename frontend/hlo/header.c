/* Attributes of the module's header, and the stack-frame tables (section 3). */
#include <stdlib.h>

#include "frontend/hlo/hlo.tab.h"
#include "frontend/hlo/parse.h"
#include "frontend/hlo/parser.h"
#include "ir/attribute/stack_frames.h"

/* -- header attributes ------------------------------------------------------------------ */

static int compare_indices(Ints a, Ints b)
{
    for (uint32_t i = 0; i < a.count && i < b.count; i++) {
        if (a.data[i] != b.data[i])
            return a.data[i] < b.data[i] ? -1 : 1;
    }
    return a.count < b.count ? -1 : a.count > b.count;
}

static int compare_aliases(const void *a, const void *b)
{
    return compare_indices(((const AliasEntry *)a)->output,
                           ((const AliasEntry *)b)->output);
}

static int compare_donors(const void *a, const void *b)
{
    const DonorEntry *x = a, *y = b;
    if (x->parameter != y->parameter)
        return x->parameter < y->parameter ? -1 : 1;
    return compare_indices(x->index, y->index);
}

static bool header_aliases(Parser *p)
{
    Aliasing *a = &p->m->config.input_output_alias;
    p->alias_span = peek(p).span;
    if (!value_aliasing(p, true, a))
        return false;
    AliasEntry *sorted = arena_copy(p->arena, a->entries, a->count * sizeof *sorted);
    if (a->count != 0)
        qsort(sorted, a->count, sizeof *sorted, compare_aliases);
    a->entries = sorted;
    for (uint32_t i = 1; i < a->count; i++) {
        if (compare_aliases(&sorted[i - 1], &sorted[i]) == 0) {
            diag_error(p->diag, p->alias_span, "an output is aliased twice");
            return false;
        }
    }
    return true;
}

static bool header_donors(Parser *p)
{
    STACK(DonorEntry) donors = {0};
    if (!expect(p, '{', NULL))
        return false;
    while (accept_token(p, '(', NULL)) {
        DonorEntry d;
        if (!expect_int(p, &d.parameter) || !expect(p, ',', NULL) ||
            !expect_ints(p, &d.index) || !expect(p, ')', NULL))
            return false;
        STACK_PUSH(p, donors, d);
        if (!accept_token(p, ',', NULL))
            break;
    }
    if (donors.count != 0)
        qsort(donors.data, donors.count, sizeof *donors.data, compare_donors);
    size_t kept = 0; /* a set: what is said twice is said once */
    for (size_t i = 0; i < donors.count; i++)
        if (i == 0 || compare_donors(&donors.data[kept - 1], &donors.data[i]) != 0)
            donors.data[kept++] = donors.data[i];
    donors.count = kept;
    p->m->config.donor_count = (uint32_t)donors.count;
    p->m->config.donors = STACK_KEEP(p, donors);
    return expect(p, '}', NULL);
}

/* true, false or {bool, ...}; {false} is the same as nothing */
static bool header_bools(Parser *p, Ints *out)
{
    size_t mark = p->ints.count;
    bool list = accept_token(p, '{', NULL);
    do {
        bool value;
        if (!expect_bool(p, &value))
            return false;
        STACK_PUSH(p, p->ints, value);
    } while (list && accept_token(p, ',', NULL));
    *out = ints_take(p, mark);
    if (out->count == 1 && out->data[0] == 0)
        *out = (Ints){0};
    return !list || expect(p, '}', NULL);
}

enum {
    H_PASSTHROUGH, /* sorted by name */
    H_SPMD_OUTPUT,
    H_SPMD_PARAMETERS,
    H_DONOR,
    H_DEBUG,
    H_LAYOUT,
    H_FRONTEND,
    H_ALIAS,
    H_SCHEDULED,
    H_PARTITIONS,
    H_ORIGIN,
    H_REPLICAS,
    H_COUNT
};
static const char *const header_names[H_COUNT] = {
    [H_SPMD_PARAMETERS] = "allow_spmd_sharding_propagation_to_parameters",
    [H_SPMD_OUTPUT] = "allow_spmd_sharding_propagation_to_output",
    [H_PASSTHROUGH] = "alias_passthrough_params",
    [H_DONOR] = "buffer_donor",
    [H_DEBUG] = "debug_attributes",
    [H_LAYOUT] = "entry_computation_layout",
    [H_FRONTEND] = "frontend_attributes",
    [H_ALIAS] = "input_output_alias",
    [H_SCHEDULED] = "is_scheduled",
    [H_PARTITIONS] = "num_partitions",
    [H_ORIGIN] = "origin_recovery_table",
    [H_REPLICAS] = "replica_count"};

static bool positive(Parser *p, int64_t *out)
{
    Token t = peek(p);
    if (!expect_int(p, out))
        return false;
    p->m->config.devices_span = t.span;
    if (*out > 0 && *out <= MODULE_DEVICES_MOST)
        return true;
    diag_error(p->diag, t.span, "expects a number of devices from 1 to %d, but sees %lld",
               MODULE_DEVICES_MOST, (long long)*out);
    return false;
}

bool header_value(Parser *p)
{
    ModuleConfig *config = &p->m->config;
    Token name = {p->header_name, TOK_ATTR};
    int which = 0;
    while (which < H_COUNT && !token_is(p, name, header_names[which]))
        which++;
    if (which == H_COUNT) {
        const char *allowed = "";
        for (int i = 0; i < H_COUNT; i++)
            allowed = arena_printf(p->scratch, "%s%s%s", allowed, i == 0 ? "" : ", ",
                                   header_names[i]);
        diag_error(p->diag, name.span,
                   "unexpected attribute \"%.*s\". Allowed attributes: %s",
                   (int)(name.span.end - name.span.begin - 1), p->text + name.span.begin,
                   allowed);
        return false;
    }
    if ((p->header_seen >> which & 1) != 0) {
        diag_error(p->diag, name.span, "attribute %s already exists",
                   header_names[which]);
        return false;
    }
    p->header_seen |= UINT64_C(1) << which;
    switch (which) {
    case H_SPMD_PARAMETERS:
        return header_bools(p, &config->propagate_to_parameters);
    case H_SPMD_OUTPUT:
        return header_bools(p, &config->propagate_to_output);
    case H_PASSTHROUGH:
        return expect_bool(p, &config->alias_passthrough_params);
    case H_DONOR:
        return header_donors(p);
    case H_DEBUG:
        return value_debug_attributes(p, &config->debug_attributes);
    case H_FRONTEND:
        return value_dict(p, &config->frontend_attributes);
    case H_ALIAS:
        return header_aliases(p);
    case H_SCHEDULED:
        return expect_bool(p, &config->is_scheduled);
    case H_PARTITIONS:
        return positive(p, &config->num_partitions);
    case H_ORIGIN:
        return value_origin_table(p, &config->origin_recovery_table);
    case H_REPLICAS:
        return positive(p, &config->replica_count);
    default:
        return false; /* the layout is read by the grammar */
    }
}

/* -- tables of stack frames ------------------------------------------------------------- */

static bool parse_texts(Parser *p, uint32_t *count, const Bytes **out)
{
    STACK(Bytes) texts = {0};
    while (accept_token(p, TOK_INT, NULL)) {
        Bytes text;
        if (!expect_string(p, &text))
            return false;
        STACK_PUSH(p, texts, text);
    }
    *count = (uint32_t)texts.count;
    *out = STACK_KEEP(p, texts);
    return true;
}

/* {name=INT name=INT ...}: all of them, in any order, commas optional */
static bool parse_row(Parser *p, const char *const *names, int count, int64_t *values)
{
    unsigned seen = 0;
    Token open, t;
    if (!expect(p, '{', &open))
        return false;
    while (!accept_token(p, '}', NULL)) {
        if (!expect(p, TOK_ATTR, &t))
            return false;
        int which = 0;
        while (which < count && !token_is(p, t, names[which]))
            which++;
        if (which == count || (seen >> which & 1) != 0) {
            diag_error(p->diag, t.span, "unexpected or repeated entry of a table");
            return false;
        }
        seen |= 1u << which;
        if (!expect_int(p, &values[which]))
            return false;
        accept_token(p, ',', NULL);
    }
    for (int i = 0; i < count; i++) {
        if ((seen >> i & 1) == 0) {
            diag_error(p->diag, open.span, "attribute %s is expected but not seen",
                       names[i]);
            return false;
        }
    }
    return true;
}

static bool parse_locations(Parser *p, StackFrames *f)
{
    static const char *const names[] = {"file_name_id", "function_name_id", "line",
                                        "end_line",     "column",           "end_column"};
    STACK(FileLocation) rows = {0};
    while (accept_token(p, TOK_INT, NULL)) {
        int64_t v[6];
        if (!parse_row(p, names, 6, v))
            return false;
        FileLocation row = {v[0], v[1], v[2], v[3], v[4], v[5]};
        STACK_PUSH(p, rows, row);
    }
    f->location_count = (uint32_t)rows.count;
    f->locations = STACK_KEEP(p, rows);
    return true;
}

/* In the text parents are one higher than in memory: 1 = none. */
static bool parse_frames(Parser *p, StackFrames *f)
{
    static const char *const names[] = {"file_location_id", "parent_frame_id"};
    STACK(StackFrame) rows = {0};
    while (accept_token(p, TOK_INT, NULL)) {
        int64_t v[2];
        if (!parse_row(p, names, 2, v))
            return false;
        StackFrame row = {v[0], v[1] > 0 ? v[1] - 1 : 0};
        STACK_PUSH(p, rows, row);
    }
    f->frame_count = (uint32_t)rows.count;
    f->frames = STACK_KEEP(p, rows);
    return true;
}

bool table_parse(Parser *p, Token keyword)
{
    static const char *const order[] = {"FileNames", "FunctionNames", "FileLocations",
                                        "StackFrames"};
    if (p->table_count >= 4 || !token_is(p, keyword, order[p->table_count]))
        return token_unexpected(
            p, keyword, p->table_count < 4 ? order[p->table_count] : "a computation");
    StackFrames *f = ARENA_NEW(p->arena, StackFrames);
    if (p->m->config.stack_frames != NULL)
        *f = *p->m->config.stack_frames;
    p->m->config.stack_frames = f;
    switch (p->table_count++) {
    case 0:
        return parse_texts(p, &f->file_count, &f->files);
    case 1:
        return parse_texts(p, &f->function_count, &f->functions);
    case 2:
        return parse_locations(p, f);
    default:
        return parse_frames(p, f);
    }
}
