/* Values that say something about an instruction and change nothing: metadata, dictionaries, statistics
 * (section 8.6). */
#include <stddef.h>
#include <stdlib.h>

#include "frontend/hlo/hlo.tab.h"
#include "frontend/hlo/parser.h"

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
    size_t length, position;
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

static bool profile_types(Parser *p, Ints *out)
{
    size_t mark = p->ints.count;
    List l = list_open(p, '{', '}');
    while (list_next(p, &l)) {
        int64_t value;
        if (!int_between(p, 0, 3, &value))
            return false;
        STACK_PUSH(p, p->ints, value);
    }
    *out = ints_take(p, mark);
    return l.right;
}

static bool metadata_value(Parser *p, Metadata *m, int field)
{
    if (field == METADATA_FIELDS)
        return profile_types(p, &m->profile_types);
    void *position = (char *)m + metadata_fields[field].position;
    return metadata_fields[field].is_text
               ? expect_string(p, position)
               : int_between(p, INT32_MIN, INT32_MAX, position);
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
        if (!known)
            return token_unknown(p, t, "metadata",
                                 "op_type, op_name, source_file, source_line, ...");
        if ((seen >> field & 1) != 0)
            return token_wrong(p, t, "the metadata has this field already");
        seen |= 1u << field;
        if (!metadata_value(p, m, field))
            return false;
        accept_token(p, ',', NULL);
    }
    *out = m;
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
    List l = list_open(p, '{', '}');
    while (list_next(p, &l)) {
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
    }
    if (entries.count != 0)
        qsort(entries.data, entries.count, sizeof *entries.data, compare_keys);
    Dict *dict = ARENA_NEW(p->arena, Dict);
    *dict = (Dict){(uint32_t)entries.count, STACK_KEEP(p, entries)};
    *out = dict;
    return l.right;
}

bool value_statistics(Parser *p, const Statistics **out)
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
    s->entries = STACK_KEEP(p, entries);
    *out = s;
    return true;
}
