/* The arguments and results of a plan: types, layouts, names, aliases, and which one is the size of another. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "codegen/plan/variant.h"

static PlanValue plan_value(Variant *v, const char *name, const Shape *s, uint32_t set)
{
    PlanValue p = {.name = plan_string(&v->plan, name),
                   .dtype = plan_string(&v->plan, dtype_name(s->dtype)),
                   .element_bits = dtype_info[s->dtype].bits,
                   .rank = s->rank,
                   .alias = PLAN_NONE,
                   .size_of = PLAN_NONE,
                   .bytes = (uint64_t)shape_bytes(s)};
    p.dims = plan_add_numbers(&v->plan, s->dims, s->rank);
    plan_add_numbers(&v->plan, s->layout->minor_to_major, s->rank);
    p.slice = variant_set_slice(v, set);
    return p;
}

/* Argument number of a parameter's first leaf. */
static uint32_t first_argument(const Computation *entry, int64_t parameter)
{
    size_t n = 0;
    for (int64_t i = 0; i < parameter; i++)
        n += shape_leaf_count(entry->parameters[i]->shape);
    return (uint32_t)n;
}

static void add_aliases(Variant *v)
{
    const Module *m = v->module;
    const Computation *entry = m->entry;
    const Aliasing *aliasing = &m->config.input_output_alias;
    for (uint32_t i = 0; i < aliasing->count; i++) {
        const AliasEntry *e = &aliasing->entries[i];
        const Shape *parameter = entry->parameters[e->operand]->shape;
        uint32_t argument = first_argument(entry, e->operand) +
                            (uint32_t)alias_index_leaf(parameter, e->input);
        uint32_t result = (uint32_t)alias_index_leaf(entry->root->shape, e->output);
        if (v->buffers->argument_sets[argument] != v->buffers->result_sets[result])
            continue; /* copy insertion could not make them one */
        uint32_t kind = e->must ? PLAN_ALIAS_MUST : PLAN_ALIAS_MAY;
        v->plan.arguments[argument].alias = result;
        v->plan.arguments[argument].alias_kind = kind;
        v->plan.results[result].alias = argument;
        v->plan.results[result].alias_kind = kind;
    }
    for (uint32_t i = 0; i < m->config.donor_count; i++) {
        const DonorEntry *d = &m->config.donors[i];
        const Shape *parameter = entry->parameters[d->parameter]->shape;
        uint32_t argument = first_argument(entry, d->parameter) +
                            (uint32_t)alias_index_leaf(parameter, d->index);
        v->plan.arguments[argument].donated = 1;
    }
}

/* "1=0.0,3=2.1": value 1 is the size of value 0 in dimension 0, ... (passes/dynamic). */
static void add_sizes(const Module *m, const char *key, PlanValue *values, uint32_t count)
{
    const Dict *d = m->config.frontend_attributes;
    const char *at = NULL;
    for (uint32_t i = 0; d != NULL && i < d->count; i++) {
        if (strcmp(d->entries[i].key, key) == 0)
            at = d->entries[i].value.data;
    }
    uint32_t size, of, dimension;
    while (at != NULL &&
           sscanf(at, "%" SCNu32 "=%" SCNu32 ".%" SCNu32, &size, &of, &dimension) == 3) {
        if (size < count && of < count && dimension < values[of].rank) {
            values[size].size_of = of;
            values[size].size_dimension = dimension;
        }
        at = strchr(at, ',');
        at = at != NULL ? at + 1 : NULL;
    }
}

void variant_add_signature(Variant *v)
{
    const Computation *entry = v->module->entry;
    uint32_t n = 0;
    for (uint32_t p = 0; p < entry->parameter_count; p++) {
        const Instruction *inst = entry->parameters[p];
        size_t leaves = shape_leaf_count(inst->shape);
        for (size_t leaf = 0; leaf < leaves; leaf++) {
            const Shape *s = shape_leaf(inst->shape, leaf);
            const char *name =
                leaves == 1 ? inst->name
                            : arena_printf(v->arena, "%s.%s", inst->name,
                                           shape_leaf_path(v->arena, inst->shape, leaf));
            PlanValue value = plan_value(v, name, s, v->buffers->argument_sets[n++]);
            plan_add_arguments(&v->plan, &value, 1);
        }
    }
    for (uint32_t leaf = 0; leaf < v->buffers->result_count; leaf++) {
        const Shape *s = shape_leaf(entry->root->shape, leaf);
        PlanValue value =
            plan_value(v, shape_leaf_path(v->arena, entry->root->shape, leaf), s,
                       v->buffers->result_sets[leaf]);
        plan_add_results(&v->plan, &value, 1);
    }
    add_sizes(v->module, "argument_sizes", v->plan.arguments, n);
    add_sizes(v->module, "result_sizes", v->plan.results, v->buffers->result_count);
    add_aliases(v);
}
