/* See sort.h. A step is a frontend attribute, so that it shows in dumps and tells kernels apart. */
#include "ir/kernel/sort.h"

#include <stdlib.h>
#include <string.h>

#include "ir/kernel/plans.h"
#include "ir/kernel/rules.h"

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

bool sort_is_in_block(const Instruction *sort, const Target *t)
{
    const Shape *s = sort->operands[0]->shape;
    int64_t size = s->dims[inst_ints(sort, ATTR_DIMENSIONS).data[0]];
    if (size > sort_slots(sort, target_block_shared(t)))
        return false;
    return size <= SORT_MOST_RUN ||
           shape_elements(s) / size > target_multiprocessors(t) / 2;
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

/* `equal` asks whether the keys of `less` are the same, so that something else orders those. */
static bool asks_first(Mirror *m, const Instruction *less, const Instruction *equal)
{
    const Instruction *first = compared(m, less, false);
    const Instruction *second = compared(m, equal, true);
    int64_t d = first != NULL ? inst_int(less, ATTR_DIRECTION, DIRECTION_EQ) : 0;
    return first != NULL && second != NULL && same_key(m, first, second) &&
           (d == DIRECTION_LT || d == DIRECTION_GT);
}

/* f(x) < f(y) or (f(x) = f(y) and others), or that as a select */
typedef struct Order {
    const Instruction *less, *equal, *others;
} Order;

static bool find_order(Mirror *m, const Instruction *c, Order *o)
{
    if (c->op == OP_SELECT) {
        *o = (Order){c->operands[2], c->operands[0], c->operands[1]};
        return asks_first(m, o->less, o->equal);
    }
    for (int i = 0; c->op == OP_OR && i < 2; i++) {
        const Instruction *both = c->operands[1 - i];
        for (int k = 0; both->op == OP_AND && k < 2; k++) {
            *o = (Order){c->operands[i], both->operands[k], both->operands[1 - k]};
            if (asks_first(m, o->less, o->equal))
                return true;
        }
    }
    return false;
}

bool sort_has_order(const Instruction *sort)
{
    Mirror m = {0};
    Order o;
    const Instruction *c = inst_called(sort, 0)->root;
    while (find_order(&m, c, &o))
        c = o.others;
    return compared(&m, c, false) != NULL;
}

uint32_t sort_comparisons(const Instruction *sort, const Instruction **less,
                          uint32_t most)
{
    Mirror m = {0};
    Order o;
    uint32_t count = 0;
    const Instruction *c = inst_called(sort, 0)->root;
    for (; count < most && find_order(&m, c, &o); c = o.others) {
        if (inst_int(o.less, ATTR_TYPE, COMPARE_FLOAT) !=
            inst_int(o.equal, ATTR_TYPE, COMPARE_FLOAT))
            return 0; /* zeros are equal for one of them only */
        less[count++] = o.less;
    }
    if (count == most || compared(&m, c, false) == NULL)
        return 0;
    less[count++] = c;
    return count;
}

bool sort_compares(const Instruction *sort, const Instruction **first,
                   const Instruction **second, bool *is_greater)
{
    Mirror m = {0};
    const Instruction *c = inst_called(sort, 0)->root;
    if (compared(&m, c, false) == NULL)
        return false;
    int64_t d = inst_int(c, ATTR_DIRECTION, DIRECTION_EQ);
    bool turns = !mirrors(&m, c->operands[0], c->operands[1]);
    *first = c->operands[turns];
    *second = c->operands[!turns];
    *is_greater = (d == DIRECTION_GT) != turns;
    return d == DIRECTION_LT || d == DIRECTION_GT;
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

/* -- the kernel ------------------------------------------------------------------------------------ */

#define LONG_ROW 1024
#define LONG_THREADS 512
#define SHORT_THREADS 128
#define BLOCK_SLOTS                                                                      \
    256 /* short rows lie side by side in a block, up to so many elements */

const char *illegal_sort(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    const Instruction *hero = fusion_hero(f->fusion, OP_SORT);
    if (hero == NULL || sort_step(hero).run != 0)
        return hero_root_illegal(f->fusion, OP_SORT);
    /* whole rows may leave out arrays that nobody reads sorted */
    return hero_leaves_illegal(f->fusion, OP_SORT);
}

bool suits_sort(FusionFacts *f, KernelKind kind)
{
    (void)f;
    (void)kind;
    return true;
}

void plan_sort(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    const Instruction *inst = fusion_hero(d->fusion, OP_SORT);
    SortPlan *p = ARENA_NEW(d->arena, SortPlan);
    *p = (SortPlan){.inst = inst,
                    .shape = inst->operands[0]->shape,
                    .along = inst_ints(inst, ATTR_DIMENSIONS).data[0],
                    .step = sort_step(inst),
                    .padded = 1,
                    .count = inst->operand_count};
    d->plan.sort = p;
    p->size = p->shape->dims[p->along];
    p->rows = p->size == 0 ? 0 : shape_elements(p->shape) / p->size;
    p->run = p->step.run == 0 ? p->size : p->step.run;
    p->runs = p->run == 0 ? 0 : p->size / p->run + (p->size % p->run != 0);
    int64_t most = sort_slots(inst, target_block_shared(d->target));
    if (p->count > KERNEL_MOST_VALUES)
        d->unsupported = refuse_text(d, "%s sorts %u arrays; kernels handle %d",
                                     inst->name, p->count, KERNEL_MOST_VALUES);
    else if (p->step.merges)
        return;
    else if (p->run > most)
        d->unsupported =
            refuse_text(d, "%s sorts %lld elements at once; a block holds %lld",
                        inst->name, (long long)p->run, (long long)most);
    while (d->unsupported == NULL && p->padded < p->run)
        p->padded *= 2;
}

static uint64_t slot_bytes(const SortPlan *p)
{
    uint64_t bytes = 4; /* the position */
    for (uint32_t i = 0; i < p->count; i++)
        bytes += shared_bytes(p->inst->operands[i]->shape->dtype);
    return bytes;
}

bool sort_is_indices(const Instruction *x, int64_t along)
{
    for (; x->op == OP_BROADCAST; x = x->operands[0]) {
        along = ints_find(inst_ints(x, ATTR_DIMENSIONS), along);
        if (along < 0)
            return false;
    }
    return x->op == OP_IOTA && inst_int(x, ATTR_IOTA_DIMENSION, 0) == along;
}

void configure_sort(const KernelDesign *d, KernelConfig *c)
{
    const SortPlan *p = d->plan.sort;
    bool has_rows = !config_lacks(c, KERNEL_KEY_ROWS);
    if (p->step.merges) {
        c->rows = has_rows ? c->rows : 1;
        configure_threads(c, p->rows * p->size);
        return;
    }
    if (!has_rows) {
        c->rows = 1;
        while (c->rows * 2 <= p->rows * p->runs && c->rows * p->padded < BLOCK_SLOTS)
            c->rows *= 2;
    }
    if (config_lacks(c, KERNEL_KEY_BLOCK)) {
        int64_t pairs = p->padded / 2 * c->rows;
        int64_t most = p->padded > LONG_ROW ? LONG_THREADS : SHORT_THREADS;
        int64_t warps = (pairs + TARGET_WARP - 1) / TARGET_WARP * TARGET_WARP;
        c->block = pairs < TARGET_WARP ? TARGET_WARP : warps < most ? warps : most;
    }
}

const char *refuse_sort(const KernelDesign *d)
{
    const SortPlan *p = d->plan.sort;
    int64_t rows = d->config.rows;
    const char *wrong = block_refused(d);
    if (wrong != NULL)
        return wrong;
    if (p->step.merges)
        return rows == 1 ? NULL : "\"rows\" must be 1 where runs are merged";
    return shared_refused(d, slot_bytes(p) * (uint64_t)(p->padded * rows));
}

void geometry_sort(KernelDesign *d)
{
    const SortPlan *p = d->plan.sort;
    KernelGeometry *g = &d->geometry;
    int64_t all = p->rows * p->runs, rows = d->config.rows;
    if (p->step.merges) {
        geometry_threads(d, p->rows * p->size);
        return;
    }
    geometry_blocks(d, all / rows + (all % rows != 0), d->config.block, 1);
    for (uint32_t i = 0; i <= p->count; i++) {
        unsigned bytes =
            i < p->count ? shared_bytes(p->inst->operands[i]->shape->dtype) : 4;
        geometry_shared(g, (uint64_t)(p->padded * rows) * bytes, bytes);
    }
    g->has_barriers = true;
}
