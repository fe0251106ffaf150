/* See sort.h. A step is a frontend attribute, so that it shows in dumps and tells kernels apart. */
#include "ir/analysis/sort.h"

#include <stdlib.h>
#include <string.h>

static const char sorts[] = "sorts_runs", merges[] = "merges_runs";

int64_t sort_slots(const Instruction *sort, uint64_t bytes)
{
    uint64_t slot = 4;
    for (uint32_t i = 0; i < sort->operand_count; i++)
        slot += dtype_info[sort->operands[i]->shape->dtype].storage;
    int64_t n = 1;
    while ((uint64_t)n * 2 * slot <= bytes)
        n *= 2;
    return n;
}

SortStep sort_step(const Instruction *sort)
{
    const Attr *a = inst_attr(sort, ATTR_FRONTEND_ATTRIBUTES);
    for (uint32_t i = 0; a != NULL && i < a->dict->count; i++) {
        const DictEntry *e = &a->dict->entries[i];
        bool is_merge = strcmp(e->key, merges) == 0;
        if (is_merge || strcmp(e->key, sorts) == 0)
            return (SortStep){strtoll(e->value.data, NULL, 10), is_merge};
    }
    return (SortStep){0, false};
}

void sort_set_step(Instruction *sort, SortStep step)
{
    Arena *a = sort->parent->module->arena;
    const char *text = arena_printf(a, "%lld", (long long)step.run);
    DictEntry *entry = ARENA_NEW(a, DictEntry);
    *entry =
        (DictEntry){.key = step.merges ? merges : sorts, .value = {text, strlen(text)}};
    Dict *dict = ARENA_NEW(a, Dict);
    *dict = (Dict){1, entry};
    inst_set(sort, (Attr){.id = ATTR_FRONTEND_ATTRIBUTES, .dict = dict});
}
