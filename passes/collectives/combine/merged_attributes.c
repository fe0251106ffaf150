/* See merged_attributes.h. */
#include "passes/collectives/combine/merged_attributes.h"

#include <string.h>

#include "ir/attribute/config.h"
#include "ir/base/text.h"

static size_t common_prefix(Bytes a, Bytes b)
{
    size_t n = 0, slash = 0;
    for (; n < a.length && n < b.length && a.data[n] == b.data[n]; n++) {
        if (a.data[n] == '/')
            slash = n + 1;
    }
    return n == a.length && n == b.length ? n : slash;
}

/* op_name: "net/a" and "net/b" give "net/a,b"; source lines: from the first to the last. */
static void merge_metadata(Instruction *to, Instruction *const *members, uint32_t count)
{
    Arena *a = to->parent->module->arena;
    Metadata *merged = NULL;
    Text names;
    for (uint32_t i = 0; i < count; i++) {
        const Attr *attr = inst_attr(members[i], ATTR_METADATA);
        if (attr == NULL)
            continue;
        const Metadata *m = attr->metadata;
        if (merged == NULL) {
            merged = arena_copy(a, m, sizeof *m);
            text_init(&names, a);
            text_add(&names, m->op_name.data == NULL ? "" : m->op_name.data,
                     m->op_name.length);
            continue;
        }
        size_t prefix = common_prefix(merged->op_name, m->op_name);
        if (prefix < m->op_name.length) {
            text_string(&names, names.length == 0 ? "" : ",");
            text_add(&names, m->op_name.data + prefix, m->op_name.length - prefix);
        }
        int64_t end =
            m->source_end_line > m->source_line ? m->source_end_line : m->source_line;
        bool same = merged->source_file.length == m->source_file.length &&
                    (m->source_file.length == 0 ||
                     memcmp(merged->source_file.data, m->source_file.data,
                            m->source_file.length) == 0);
        if (same && m->source_line < merged->source_line)
            merged->source_line = m->source_line;
        if (same && end > merged->source_line && end > merged->source_end_line)
            merged->source_end_line = end;
    }
    if (merged == NULL)
        return;
    merged->op_name = (Bytes){names.data, names.length};
    inst_set(to, (Attr){.id = ATTR_METADATA, .metadata = merged});
}

static bool has_value(Bytes list, Bytes value)
{
    for (size_t at = 0; at + value.length <= list.length; at++) {
        bool starts = at == 0 || list.data[at - 1] == ',';
        bool ends =
            at + value.length == list.length || list.data[at + value.length] == ',';
        if (starts && ends && memcmp(list.data + at, value.data, value.length) == 0)
            return true;
    }
    return false;
}

/* Adds an entry to a dict sorted by key; values of one key are joined by commas. */
static void add_entry(Arena *a, DictEntry *entries, uint32_t *count, const DictEntry *e)
{
    uint32_t i = 0;
    while (i < *count && strcmp(entries[i].key, e->key) < 0)
        i++;
    if (i < *count && strcmp(entries[i].key, e->key) == 0) {
        if (has_value(entries[i].value, e->value))
            return;
        const char *both = arena_printf(a, "%s,%s", entries[i].value.data, e->value.data);
        entries[i].value = (Bytes){both, strlen(both)};
        return;
    }
    for (uint32_t k = *count; k > i; k--)
        entries[k] = entries[k - 1];
    entries[i] = *e;
    ++*count;
}

static void merge_frontend(Instruction *to, Instruction *const *members, uint32_t count)
{
    Arena *a = to->parent->module->arena;
    uint32_t most = 0, n = 0;
    for (uint32_t i = 0; i < count; i++) {
        const Attr *attr = inst_attr(members[i], ATTR_FRONTEND_ATTRIBUTES);
        most += attr == NULL ? 0 : attr->dict->count;
    }
    if (most == 0)
        return;
    DictEntry *entries = ARENA_ARRAY(a, DictEntry, most);
    for (uint32_t i = 0; i < count; i++) {
        const Attr *attr = inst_attr(members[i], ATTR_FRONTEND_ATTRIBUTES);
        for (uint32_t k = 0; attr != NULL && k < attr->dict->count; k++)
            add_entry(a, entries, &n, &attr->dict->entries[k]);
    }
    Dict *dict = ARENA_NEW(a, Dict);
    *dict = (Dict){n, entries};
    inst_set(to, (Attr){.id = ATTR_FRONTEND_ATTRIBUTES, .dict = dict});
}

/* What was made by the partitioner stays known to be, whichever member it was. */
static void merge_config(Instruction *to, Instruction *const *members, uint32_t count)
{
    bool any = false;
    for (uint32_t i = 0; i < count && !any; i++)
        any = config_flag(members[i], CONFIG_IS_SPMD);
    if (any && !config_flag(to, CONFIG_IS_SPMD) && config_is_open(to))
        config_set_flag(to, CONFIG_IS_SPMD, true);
}

static void merge_controls(Instruction *to, Instruction *const *members, uint32_t count)
{
    size_t capacity = 0;
    to->control_count = 0;
    to->control = NULL;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < members[i]->control_count; k++) {
            Instruction *before = members[i]->control[k];
            bool known = false;
            for (uint32_t e = 0; e < to->control_count && !known; e++)
                known = to->control[e] == before;
            if (known)
                continue;
            to->control = arena_grow(to->parent->module->arena, to->control, &capacity,
                                     (size_t)to->control_count + 1, sizeof *to->control);
            to->control[to->control_count++] = before;
        }
    }
}

void merge_attributes(Instruction *to, Instruction *const *members, uint32_t count)
{
    merge_metadata(to, members, count);
    merge_frontend(to, members, count);
    merge_config(to, members, count);
    merge_controls(to, members, count);
    to->span = members[0]->span;
}
