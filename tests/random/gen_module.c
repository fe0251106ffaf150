/* Random modules: which operations they are made of, and what stands around them. */
#include <stdlib.h>
#include <string.h>

#include "tests/random/tolerance.h"
#include "tests/random/value.h"

/* -- growing ---------------------------------------------------------------------------------- */

static const struct {
    GenFn *function;
    int weight;
    bool fusible; /* may stand in fused computations and maps' surroundings */
    bool big;     /* only where little is nested */
} operations[] = {
    {gen_unary, 10, true, false},
    {gen_binary, 16, true, false},
    {gen_compare, 5, true, false},
    {gen_select, 5, true, false},
    {gen_convert, 6, true, false},
    {gen_bits, 2, true, false},
    {gen_complex, 1, true, false},
    {gen_broadcast, 7, true, false},
    {gen_reshape, 5, true, false},
    {gen_transpose, 5, true, false},
    {gen_slice, 5, true, false},
    {gen_pad, 4, true, false},
    {gen_concatenate, 4, true, false},
    {gen_reverse, 2, true, false},
    {gen_copy, 2, false, false},
    {gen_fresh, 3, true, false},
    {gen_dynamic_slice, 3, true, false},
    {gen_dynamic_update, 4, true, false},
    {gen_gather, 4, true, false},
    {gen_scatter, 3, false, false},
    {gen_reduce, 8, true, false},
    {gen_reduce_pair, 2, true, false},
    {gen_reduce_ordered, 2, true, false},
    {gen_reduce_window_ordered, 2, true, false},
    {gen_reduce_window, 3, true, false},
    {gen_select_and_scatter, 1, false, false},
    {gen_dot, 5, false, false},
    {gen_convolution, 2, false, false},
    {gen_sort, 3, false, false},
    {gen_topk, 1, false, false},
    {gen_fft, 1, false, true},
    {gen_cholesky, 1, false, true},
    {gen_spectrum, 1, false, true},
    {gen_reduce_window_pair, 1, true, false},
    {gen_norm, 1, false, true},
    {gen_random_bits, 1, false, false},
    {gen_while, 3, false, true},
    {gen_walk, 2, false, true},
    {gen_trips, 8, false, true},
    {gen_mixed, 2, true, false},
    {gen_tuple_parameter, 1, false, false},
    {gen_conditional, 3, false, true},
    {gen_call, 2, false, true},
    {gen_map, 1, false, false},
    {gen_tuple, 2, false, false},
    {gen_fusion, 2, false, true},
    {gen_collective, 6, false, false},
    {gen_device_id, 1, false, false},
    {gen_async, 2, false, false},
    {gen_dynamic, 2, false, false},
    {gen_scan, 1, false, true},
    {gen_ragged_dot, 1, false, false},
    {gen_scaled_dot, 1, false, false},
    {gen_sort_many, 1, false, false},
    {gen_rng, 1, false, false},
    {gen_rounding, 2, true, false},
    {gen_wrapped, 1, false, false},
    {gen_norm_others, 1, false, true},
    {gen_normalised, 4, false, false},
    {gen_attention, 1, false, false},
    {gen_product, 1, false, false},
    {gen_rows, 3, false, false},
    {gen_quantised, 1, false, false},
    {gen_moments, 1, false, false},
    {gen_sort_floats, 1, false, false},
    {gen_norm_gradient, 1, false, false},
    {gen_cross_entropy, 1, false, false},
    {gen_long, 3, false, false},
    {gen_stencil, 1, false, false},
};

enum { OPERATIONS = sizeof operations / sizeof *operations };

bool generate_plain, generate_products;

/* Is not in StableHLO, or gives XLA a choice. */
static bool is_own(GenFn *function)
{
    static GenFn *const own[] = {
        gen_topk,       gen_random_bits,    gen_tuple_parameter,
        gen_mixed,      gen_tuple,          gen_fusion,
        gen_collective, gen_device_id,      gen_async,
        gen_dynamic,    gen_scan,           gen_ragged_dot,
        gen_rng,        gen_scaled_dot,     gen_rounding,
        gen_wrapped,    gen_reduce_ordered, gen_reduce_window_ordered};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (own[i] == function)
            return true;
    }
    return false;
}

static void grow_with(Gen *g, int instructions, bool fusible)
{
    int total = 0;
    for (int i = 0; i < OPERATIONS; i++)
        total += operations[i].weight;
    for (int n = 0;
         n < instructions * 4 && g->count < instructions && g->count < MAX_VALUES - 40;
         n++) {
        if (g->shared->replicas * g->shared->partitions > 1 && chance(g, 12)) {
            gen_collective(g);
            continue;
        }
        int64_t at = below(g, total);
        int i = 0;
        while (at >= operations[i].weight)
            at -= operations[i++].weight;
        if (generate_plain && is_own(operations[i].function))
            continue;
        if ((fusible && !operations[i].fusible) || (operations[i].big && g->nesting > 1))
            continue;
        operations[i].function(g);
    }
}

void grow(Gen *g, int instructions)
{
    grow_with(g, instructions, false);
}

void grow_fusible(Gen *g, int instructions)
{
    grow_with(g, instructions, true);
}

/* -- the module ------------------------------------------------------------------------------- */

/* A result in some layout: a copy, if it is not the default one. Its shape goes to `shape`. */
static void lay_out(Gen *g, Value *v, char name[32], char shape[320], char layout[24])
{
    char plain[128];
    snprintf(name, 32, "%s", v->name);
    snprintf(shape, 320, "%s", shape_of(v, plain));
    layout[0] = '\0';
    if (v->rank < 2 || !chance(g, 20))
        return;
    int64_t order[MAX_RANK];
    char text[128];
    for (int i = 0; i < v->rank; i++) {
        int at = (int)below(g, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    snprintf(layout, 24, "%.20s", list(order, v->rank, text));
    snprintf(shape, 320, "%s{%s}", plain, text);
    snprintf(name, 32, "l%d", g->shared->next_id++);
    say(g, "  %s = %s copy(%s)\n", name, shape, v->name);
}

/* Gives result i a parameter's buffer that nothing else got. */
static void alias(Gen *g, const Value *v, const char *layout, int i)
{
    char *all = g->shared->aliases;
    size_t at = strlen(all);
    for (int k = 0; k < g->count && at < 400; k++) {
        const Value *p = &g->values[k];
        if (p->parameter == 0 || p->type != v->type || p->rank != v->rank ||
            p->layout[0] == '!' ||
            memcmp(p->dims, v->dims, sizeof p->dims[0] * (size_t)p->rank) != 0 ||
            strcmp(p->layout, layout) != 0)
            continue;
        snprintf(all + at, sizeof g->shared->aliases - at, "%s{%d}: (%d, {}, %s-alias)",
                 at ? ", " : "", i, p->parameter - 1, chance(g, 70) ? "may" : "must");
        g->values[k].layout[0] = '!'; /* taken */
        return;
    }
}

/* The results, sometimes the first two as a tuple of their own. */
static void entry_root(Gen *g)
{
    char items[6][32], shapes[6][320], layout[24], all[2048] = "", inner[656];
    int n = 0;
    for (int i = g->count; i-- > 0 && n < 6;) {
        if (!chance(g, g->values[i].used   ? 15
                       : generate_products ? 95
                                           : 60) &&
            (i > 0 || n > 0))
            continue;
        lay_out(g, &g->values[i], items[n], shapes[n], layout);
        if (!generate_plain && chance(g, 40))
            alias(g, &g->values[i], layout, n);
        n++;
    }
    bool aliased = g->shared->aliases[0] != '\0';
    if (n == 1 && !aliased && chance(g, 50)) {
        say(g, "  ROOT root = %s copy(%s)\n", shapes[0], items[0]);
        return;
    }
    bool nested = n > 1 && !aliased && !generate_plain && chance(g, 15);
    snprintf(inner, sizeof inner, "(%.300s, %.300s)", shapes[0], shapes[n > 1 ? 1 : 0]);
    if (nested)
        say(g, "  first = %s tuple(%s, %s)\n", inner, items[0], items[1]);
    strcpy(all, nested ? inner : shapes[0]);
    for (int i = nested ? 2 : 1; i < n; i++)
        sprintf(all + strlen(all), ", %s", shapes[i]);
    say(g, "  ROOT root = (%s) tuple(%s", all, nested ? "first" : items[0]);
    for (int i = nested ? 2 : 1; i < n; i++)
        say(g, ", %s", items[i]);
    say(g, ")\n");
}

char *generate(uint64_t seed)
{
    char *text = NULL, *inexact = NULL;
    size_t size = 0, inexact_size = 0;
    Shared shared = {.random = {seed}};
    shared.random.state = random_bits(&shared.random); /* neighbours differ in all bits */
    shared.has_special =
        random_chance(&shared.random, 35) && !generate_plain && !generate_products;
    shared.most_elements = random_chance(&shared.random, 8) ? 100000 : 4096;
    shared.other_words = random_chance(&shared.random, 30);
    shared.replicas = shared.partitions = 1;
    if (random_chance(&shared.random, 20) && !generate_plain &&
        !generate_products) { /* several devices */
        static const int grids[][2] = {{2, 1}, {1, 2}, {4, 1}, {1, 4}, {2, 2}};
        int which = (int)random_below(&shared.random, 5);
        shared.replicas = grids[which][0];
        shared.partitions = grids[which][1];
    }
    shared.head = open_memstream(&text, &size);
    shared.inexact = open_memstream(&inexact, &inexact_size);
    Gen *g = calloc(1, sizeof *g);
    g->shared = &shared;
    g->entry = g->uniform = true;
    g->body = tmpfile();
    if (generate_products)
        grow_products(g);
    else
        grow(g, 4 + (int)below(g, chance(g, 80) ? 20 : chance(g, 90) ? 60 : 250));
    entry_root(g);
    finish_entry(g);
    fclose(shared.head);
    fclose(shared.inexact);
    char *all = malloc(size + inexact_size + sizeof shared.aliases + 200);
    bool aliased = shared.aliases[0] != '\0';
    int at = sprintf(all, INEXACT_LINE "%s\n", inexact);
    at += sprintf(all + at, "HloModule %s%llu%s%s%s",
                  generate_products ? PRODUCTS_NAME : "random_", (unsigned long long)seed,
                  aliased ? ", input_output_alias={ " : "", shared.aliases,
                  aliased ? " }" : "");
    if (shared.replicas > 1)
        at += sprintf(all + at, ", replica_count=%d", shared.replicas);
    if (random_chance(&shared.random, 5) && !generate_plain)
        at += sprintf(all + at, ", is_scheduled=true");
    if (shared.partitions > 1)
        at += sprintf(all + at, ", num_partitions=%d", shared.partitions);
    if (random_chance(&shared.random, 3) && !generate_plain)
        at += sprintf(all + at, ", frontend_attributes={what=\"random\"}");
    sprintf(all + at, "\n\n%s", text);
    free(text);
    free(inexact);
    return all;
}
