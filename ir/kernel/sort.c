/* See sort.h. A step is a frontend attribute, so that it shows in dumps and tells kernels apart. */
#include "ir/kernel/sort.h"

#include <stdlib.h>
#include <string.h>

static const char sorts[] = "sorts_runs", merges[] = "merges_runs",
                  merges_any[] = "merges_runs_of_any_order";

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

/* -- comparators ---------------------------------------------------------------------------------- */

enum { MOST_STEPS = 1000 };

/* A walk through expressions, which may share much. */
typedef struct Mirror {
    int steps;
} Mirror;

/* b is of the odd parameters what a is of the even ones. */
static bool mirrors(Mirror *m, const Instruction *a, const Instruction *b)
{
    if (m->steps++ > MOST_STEPS || a->op != b->op || a->shape != b->shape)
        return false;
    if (a->op == OP_PARAMETER)
        return a->parameter % 2 == 0 && b->parameter == a->parameter + 1;
    bool same = inst_same_operation(a, b) && a->operand_count == b->operand_count &&
                !op_is(a->op, OPF_EFFECT | OPF_RANDOM);
    for (uint32_t i = 0; same && i < a->operand_count; i++)
        same = mirrors(m, a->operands[i], b->operands[i]);
    return same;
}

static bool same_key(Mirror *m, const Instruction *a, const Instruction *b)
{
    if (m->steps++ > MOST_STEPS || a->operand_count != b->operand_count ||
        !inst_same_operation(a, b))
        return false;
    bool same = true;
    for (uint32_t i = 0; same && i < a->operand_count; i++)
        same = same_key(m, a->operands[i], b->operands[i]);
    return same;
}

/* The key of the first element in f(x) ~ f(y), or NULL. */
static const Instruction *compared(Mirror *m, const Instruction *c, bool wants_equal)
{
    if (c->op != OP_COMPARE)
        return NULL;
    int64_t d = inst_int(c, ATTR_DIRECTION, DIRECTION_EQ);
    if (d == DIRECTION_NE || (d == DIRECTION_EQ) != wants_equal)
        return NULL;
    const Instruction *a = c->operands[0], *b = c->operands[1];
    return mirrors(m, a, b) ? a : mirrors(m, b, a) ? b : NULL;
}

static bool orders(Mirror *m, const Instruction *c);

/* `equal` asks whether the keys of `less` are the same, and `rest` orders those. */
static bool orders_rest(Mirror *m, const Instruction *less, const Instruction *equal,
                        const Instruction *rest)
{
    const Instruction *first = compared(m, less, false);
    const Instruction *second = compared(m, equal, true);
    int64_t d = first != NULL ? inst_int(less, ATTR_DIRECTION, DIRECTION_EQ) : 0;
    return first != NULL && second != NULL && same_key(m, first, second) &&
           (d == DIRECTION_LT || d == DIRECTION_GT) && orders(m, rest);
}

/* f(x) < f(y), f(x) < f(y) or (f(x) = f(y) and ...), or that as a select */
static bool orders(Mirror *m, const Instruction *c)
{
    if (c->op == OP_SELECT)
        return orders_rest(m, c->operands[2], c->operands[0], c->operands[1]);
    if (c->op != OP_OR)
        return compared(m, c, false) != NULL;
    for (int i = 0; i < 2; i++) {
        const Instruction *less = c->operands[i], *both = c->operands[1 - i];
        for (int k = 0; both->op == OP_AND && k < 2; k++) {
            if (orders_rest(m, less, both->operands[k], both->operands[1 - k]))
                return true;
        }
    }
    return false;
}

bool sort_has_order(const Instruction *sort)
{
    Mirror m = {0};
    return orders(&m, inst_called(sort, 0)->root);
}

/* -- steps ---------------------------------------------------------------------------------------- */

SortStep sort_step(const Instruction *sort)
{
    const Attr *a = inst_attr(sort, ATTR_FRONTEND_ATTRIBUTES);
    for (uint32_t i = 0; a != NULL && i < a->dict->count; i++) {
        const DictEntry *e = &a->dict->entries[i];
        bool trusts = strcmp(e->key, merges) == 0;
        bool is_merge = trusts || strcmp(e->key, merges_any) == 0;
        if (is_merge || strcmp(e->key, sorts) == 0)
            return (SortStep){strtoll(e->value.data, NULL, 10), is_merge, trusts};
    }
    return (SortStep){0};
}

void sort_set_step(Instruction *sort, SortStep step)
{
    Arena *a = sort->parent->module->arena;
    const char *text = arena_printf(a, "%lld", (long long)step.run);
    DictEntry *entry = ARENA_NEW(a, DictEntry);
    const char *key = !step.merges ? sorts : step.trusts ? merges : merges_any;
    *entry = (DictEntry){.key = key, .value = {text, strlen(text)}};
    Dict *dict = ARENA_NEW(a, Dict);
    *dict = (Dict){1, entry};
    inst_set(sort, (Attr){.id = ATTR_FRONTEND_ATTRIBUTES, .dict = dict});
}
