/* See alternatives.h. The model of time has chosen a configuration by what it knows; what it does not know is
 * found near that choice: each number twice and half as large, alone and with each other one. What the kind's own
 * rules refuse falls away, and the model orders the rest. */
#include "ir/kernel/alternatives.h"

#include <stdlib.h>
#include <string.h>

#include "ir/kernel/rules.h"
#include "ir/kernel/time/kernel_time.h"

enum {
    SLOTS_MOST = 16, /* numbers of a configuration that are changed */
    SLOWER_MOST = 4  /* times the fusion's own kernel, by the model: not worth a run */
};

typedef struct Search {
    Arena *arena;
    Module *module; /* of the copies */
    const Instruction *fusion;
    const Target *target;
    const KernelDesign *own;
    const char *own_config;
    double own_seconds;
    Alternative *found;
    size_t count, capacity;
} Search;

/* A fusion of the same computation with such operands, of which the text may be changed. */
static Instruction *copy_fusion(const Search *s)
{
    const Instruction *f = s->fusion;
    Computation *comp = module_add_computation(s->module, "alternative");
    Instruction **operands =
        ARENA_ARRAY(s->arena, Instruction *, (size_t)f->operand_count + 1);
    for (uint32_t i = 0; i < f->operand_count; i++)
        operands[i] = computation_add_parameter(comp, i, f->operands[i]->shape, NULL);
    Instruction *copy =
        computation_add(comp, OP_FUSION, f->shape, f->operand_count, operands, NULL);
    copy->name = f->name;
    inst_set_int(copy, ATTR_KIND, FUSION_LOOP);
    inst_set_computation(copy, ATTR_CALLS, inst_called(f, 0));
    return copy;
}

static double seconds_of(const Search *s, const Instruction *fusion)
{
    KernelWork work;
    Arena *scratch = arena_scratch();
    kernel_work(fusion, s->target, scratch, &work);
    arena_destroy(scratch);
    return kernel_time(&work, s->target->device).seconds;
}

static bool is_known(const Search *s, KernelKind kind, const char *config)
{
    bool is_known = s->own->kind == kind && strcmp(s->own_config, config) == 0;
    for (size_t i = 0; i < s->count && !is_known; i++)
        is_known =
            s->found[i].design->kind == kind && strcmp(s->found[i].config, config) == 0;
    return is_known;
}

/* The kernel of this kind, with this configuration or, if it is NULL, its heuristic's. */
static void try_kernel(Search *s, KernelKind kind, const char *config)
{
    if (config != NULL && is_known(s, kind, config))
        return;
    Instruction *copy = copy_fusion(s);
    kernel_kind_set(copy, kind);
    if (config != NULL)
        config_set_object(copy, "config", config);
    KernelDesign *d = ARENA_NEW(s->arena, KernelDesign);
    kernel_design(copy, s->target, s->arena, d);
    if (d->wrong != NULL || d->unsupported != NULL)
        return;
    const char *whole = kernel_config_text(s->arena, &d->config);
    config_set_object(copy, "config", whole);
    Alternative alternative = {copy, d, whole, seconds_of(s, copy)};
    if (alternative.seconds > SLOWER_MOST * s->own_seconds)
        return;
    s->found =
        arena_grow(s->arena, s->found, &s->capacity, s->count + 1, sizeof *s->found);
    s->found[s->count++] = alternative;
}

/* -- other configurations ------------------------------------------------------------------------ */

/* A number of a configuration, in the configuration that is being changed. */
typedef struct Slot {
    int64_t *number;
    bool *flag; /* not NULL: it is this one */
    int64_t least, most;
} Slot;

static size_t add_numbers(Slot *slots, size_t count, int64_t *numbers, uint32_t n,
                          int64_t least, int64_t most)
{
    for (uint32_t i = 0; i < n && count < SLOTS_MOST; i++)
        slots[count++] = (Slot){numbers + i, NULL, least, most};
    return count;
}

static size_t add_list(Slot *slots, size_t count, Arena *a, Ints *list, int64_t least,
                       int64_t most)
{
    int64_t *numbers = arena_copy(a, list->data, list->count * sizeof *numbers);
    list->data = numbers;
    return add_numbers(slots, count, numbers, list->count, least, most);
}

/* All numbers that the kind has. */
static size_t find_slots(Arena *a, KernelConfig *c, Slot slots[SLOTS_MOST])
{
    size_t n = 0;
#define KERNEL_SLOTS_ONE(field, least, most)                                             \
    add_numbers(slots, n, &c->field, 1, least, most)
#define KERNEL_SLOTS_PAIR(field, least, most)                                            \
    add_numbers(slots, n, c->field, 2, least, most)
#define KERNEL_SLOTS_LIST(field, least, most)                                            \
    add_list(slots, n, a, &c->field, least, most)
#define KERNEL_SLOTS_FLAG(field, least, most)                                            \
    (n < SLOTS_MOST ? (slots[n] = (Slot){NULL, &c->field, least, most}, n + 1) : n)
#define KERNEL_KEY(id, field, shape, least, most, doc)                                   \
    if ((c->set & 1u << KERNEL_KEY_##id) != 0)                                           \
        n = KERNEL_SLOTS_##shape(field, least, most);
#include "ir/attribute/config.def"
    return n;
}

enum { STEPS = 3 };

/* Step `step` away from what the slot has; false: there is none. */
static bool slot_step(const Slot *s, int step)
{
    if (s->flag != NULL) {
        *s->flag = !*s->flag;
        return step == 0;
    }
    int64_t n = *s->number, changed = step == 0 ? n * 2 : step == 1 ? n / 2 : n + 1;
    bool is_other = changed != n && (step != 2 || (n * 2 != changed && s->most <= 8));
    *s->number = changed;
    return is_other && changed >= s->least && changed <= s->most;
}

static int64_t slot_value(const Slot *s)
{
    return s->flag != NULL ? *s->flag : *s->number;
}

static void slot_set(const Slot *s, int64_t value)
{
    if (s->flag != NULL)
        *s->flag = value != 0;
    else
        *s->number = value;
}

/* The configuration with slot i a step away, and each later one, too. */
static void try_steps(Search *s, const KernelConfig *c, const Slot *slots, size_t count,
                      size_t i)
{
    int64_t first = slot_value(&slots[i]);
    for (int step = 0; step < STEPS; step++) {
        bool good = slot_step(&slots[i], step);
        if (good)
            try_kernel(s, s->own->kind, kernel_config_text(s->arena, c));
        for (size_t k = i + 1; k < count && good; k++) {
            int64_t second = slot_value(&slots[k]);
            for (int other = 0; other < STEPS; other++) {
                if (slot_step(&slots[k], other))
                    try_kernel(s, s->own->kind, kernel_config_text(s->arena, c));
                slot_set(&slots[k], second);
            }
        }
        slot_set(&slots[i], first);
    }
}

static int compare(const void *a, const void *b)
{
    const Alternative *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    if (x->design->kind != y->design->kind)
        return x->design->kind < y->design->kind ? -1 : 1;
    return strcmp(x->config, y->config);
}

static void sort(Search *s)
{
    if (s->count != 0)
        qsort(s->found, s->count, sizeof *s->found, compare);
}

static void try_configurations(Search *s, size_t most)
{
    KernelConfig c = s->own->config;
    Slot slots[SLOTS_MOST];
    size_t count = find_slots(s->arena, &c, slots);
    for (size_t i = 0; i < count; i++)
        try_steps(s, &c, slots, count, i);
    sort(s);
    s->count = s->count < most ? s->count : most;
}

/* -- other kinds --------------------------------------------------------------------------------- */

/* Buffers were given out for the fusion's own kind: what it changes in place, and which operand lies where a
 * result does because each thread reads only what it writes, or has reduced what it then writes over. */
static bool takes_buffers(KernelKind own, KernelKind other, bool shares_buffers)
{
    enum { WRITES = KERNEL_IN_PLACE | KERNEL_UPDATES };
    uint32_t flags = kernel_kind_info[other].flags,
             reduces = kernel_kind_info[own].flags & KERNEL_REDUCES;
    return (kernel_kind_info[own].flags & WRITES) == (flags & WRITES) &&
           (!shares_buffers ||
            ((flags & KERNEL_OWN_ELEMENTS) != 0 && reduces == (flags & KERNEL_REDUCES)));
}

Alternatives kernel_alternatives(const Instruction *fusion, const Target *t,
                                 bool shares_buffers, size_t most, Arena *a)
{
    KernelDesign own;
    kernel_design(fusion, t, a, &own);
    Search s = {.arena = a, .fusion = fusion, .target = t, .own = &own};
    if (own.wrong != NULL || own.unsupported != NULL)
        return (Alternatives){.count = 0};
    s.module = module_create(a, diag_create(a, "", "", 0), "alternatives");
    s.own_config = kernel_config_text(a, &own.config);
    s.own_seconds = seconds_of(&s, fusion);
    try_configurations(&s, most);
    for (KernelKind kind = 0; kind < KERNEL_COUNT; kind++) {
        if (kind != own.kind && takes_buffers(own.kind, kind, shares_buffers))
            try_kernel(&s, kind, NULL);
    }
    sort(&s);
    return (Alternatives){s.found, s.count, s.own_seconds};
}
