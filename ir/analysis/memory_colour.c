/* See memory_colour.h. */
#include "ir/analysis/memory_colour.h"

#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/attribute/config.h"

typedef struct Colours {
    const Module *m;
    const AliasSets *sets;
    uint32_t *colour;         /* by set */
    const Instruction **from; /* by set: who asked; NULL: nobody */
    Arena *arena;
    bool ok;
} Colours;

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\n')
        at++;
    return at;
}

static const char *read_number(const char *at, uint32_t *out)
{
    uint64_t n = 0;
    const char *start = at = skip_blanks(at);
    for (; *at >= '0' && *at <= '9' && n < UINT32_MAX; at++)
        n = 10 * n + (uint64_t)(*at - '0');
    *out = (uint32_t)n;
    return at == start || n >= UINT32_MAX ? NULL : skip_blanks(at);
}

bool memory_spaces_read(const char *text, Arena *a, MemorySpace **out, uint32_t *count)
{
    *out = ARENA_ARRAY(a, MemorySpace, strlen(text) + 1);
    *count = 0;
    const char *at = skip_blanks(text);
    if (*at++ != '{')
        return false;
    at = skip_blanks(at);
    while (*at != '}') {
        MemorySpace *s = &(*out)[*count];
        if (*count > 0 && *at++ != ',')
            return false;
        at = read_number(at, &s->index);
        if (at == NULL || *at++ != ':' || (at = read_number(at, &s->space)) == NULL)
            return false;
        ++*count;
    }
    return *skip_blanks(at + 1) == '\0';
}

static void ask(Colours *c, const Instruction *value, size_t leaf, uint32_t colour,
                const Instruction *by)
{
    if (!shape_is_array(shape_leaf(value->shape, leaf)))
        return;
    uint32_t set = alias_set(c->sets, value, leaf);
    if (c->from[set] == NULL) {
        c->from[set] = by;
        c->colour[set] = colour;
    } else if (c->colour[set] != colour) {
        diag_error(c->m->diag, by->span,
                   "%s needs its buffer in memory space %u, %s the same buffer in %u",
                   by->name, colour, c->from[set]->name, c->colour[set]);
        c->ok = false;
    }
}

static void ask_for_layouts(Colours *c, const Instruction *inst)
{
    for (size_t leaf = 0; leaf < shape_leaf_count(inst->shape); leaf++) {
        const Shape *s = shape_leaf(inst->shape, leaf);
        if (shape_is_array(s) && s->layout != NULL && s->layout->memory_space != 0)
            ask(c, inst, leaf, (uint32_t)s->layout->memory_space, inst);
    }
}

static void ask_for_list(Colours *c, const Instruction *inst, const char *key)
{
    MemorySpace *list;
    uint32_t count;
    bool is_operands = key[0] == 'o';
    const char *text = inst_frontend_attribute(inst, key);
    if (text == NULL)
        return;
    if (!memory_spaces_read(text, c->arena, &list, &count)) {
        diag_error(c->m->diag, inst->span, "%s=\"%s\": expected a list as {0:1,2:1}", key,
                   text);
        c->ok = false;
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        size_t most = is_operands ? inst->operand_count : shape_leaf_count(inst->shape);
        if (list[i].index >= most) {
            diag_error(c->m->diag, inst->span, "%s=\"%s\": %s has no %s %u", key, text,
                       inst->name, is_operands ? "operand" : "result", list[i].index);
            c->ok = false;
        } else if (is_operands) {
            ask(c, inst->operands[list[i].index], 0, list[i].space, inst);
        } else {
            ask(c, inst, list[i].index, list[i].space, inst);
        }
    }
}

static bool is_symmetric(const Instruction *inst)
{
    return config_is(inst, CONFIG_COLLECTIVES_MODE, "SYMMETRIC");
}

/* What a collective reads and writes; a start's shape has its operands in it. */
static void ask_for_collective(Colours *c, const Instruction *inst)
{
    for (size_t leaf = 0; leaf < shape_leaf_count(inst->shape); leaf++)
        ask(c, inst, leaf, MEMORY_COLLECTIVE, inst);
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Instruction *operand = inst->operands[i];
        for (size_t leaf = 0; leaf < shape_leaf_count(operand->shape); leaf++)
            ask(c, operand, leaf, MEMORY_COLLECTIVE, inst);
    }
}

const uint32_t *memory_colours(const Module *m, const AliasSets *sets, bool collectives,
                               Arena *a)
{
    size_t n = (size_t)alias_set_count(sets) + 1;
    Colours c = {
        m, sets, ARENA_ARRAY(a, uint32_t, n), ARENA_ARRAY(a, const Instruction *, n),
        a, true};
    Computations programs = module_programs(m, a);
    for (uint32_t k = 0; k < programs.count; k++) {
        const Computation *comp = programs.data[k];
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            ask_for_layouts(&c, inst);
            if (inst->op == OP_CUSTOM_CALL) {
                ask_for_list(&c, inst, "operands_memory_spaces");
                ask_for_list(&c, inst, "results_memory_spaces");
            }
            if (op_is(inst->op, OPF_COLLECTIVE) && (collectives || is_symmetric(inst)))
                ask_for_collective(&c, inst);
        }
    }
    return c.ok ? c.colour : NULL;
}
