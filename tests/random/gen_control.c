/* Random control flow, calls, tuples, and the module around them. */
#include <stdlib.h>
#include <string.h>

#include "tests/random/value.h"

Gen *begin(Gen *outer)
{
    Gen *g = calloc(1, sizeof *g);
    g->shared = outer->shared;
    g->nesting = outer->nesting + 1;
    g->body = tmpfile();
    return g;
}

static void end(Gen *g)
{
    char block[4096];
    size_t n;
    rewind(g->body);
    while ((n = fread(block, 1, sizeof block, g->body)) > 0)
        fwrite(block, 1, n, g->shared->head);
    fprintf(g->shared->head, "}\n");
    fclose(g->body);
    free(g);
}

static void head(Gen *g, const char *prefix, char out[24])
{
    snprintf(out, 24, "%s%d", prefix, g->shared->next_id++);
    fprintf(g->shared->head, "%s {\n", out);
}

const char *finish(Gen *g, const Value *root, const char *prefix, char out[24])
{
    char shape[128];
    head(g, prefix, out);
    say(g, "  ROOT root = %s copy(%s)\n", shape_of(root, shape), root->name);
    end(g);
    return out;
}

static void tuple_shape(Value **items, int n, char out[1024])
{
    size_t at = 0;
    char shape[128];
    at += (size_t)snprintf(out, 1024, "(");
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, 1024 - at, "%s%s", i ? ", " : "",
                               shape_of(items[i], shape));
    snprintf(out + at, 1024 - at, ")");
}

static void names(Value **items, int n, char out[512])
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, 512 - at, "%s%s", i ? ", " : "", items[i]->name);
}

const char *finish_tuple(Gen *g, Value **roots, int n, const char *prefix, char out[24])
{
    char shape[1024];
    char items[512];
    head(g, prefix, out);
    tuple_shape(roots, n, shape);
    names(roots, n, items);
    say(g, "  ROOT root = %s tuple(%s)\n", shape, items);
    end(g);
    return out;
}

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
    {gen_reduce_window, 3, true, false},
    {gen_select_and_scatter, 1, false, false},
    {gen_dot, 5, false, false},
    {gen_convolution, 2, false, false},
    {gen_sort, 3, false, false},
    {gen_topk, 1, false, false},
    {gen_fft, 1, false, true},
    {gen_cholesky, 1, false, true},
    {gen_reduce_window_pair, 1, true, false},
    {gen_norm, 1, false, true},
    {gen_random_bits, 1, false, false},
    {gen_while, 3, false, true},
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
};

enum { OPERATIONS = sizeof operations / sizeof *operations };

bool generate_plain;

/* Has no place in StableHLO, or gives XLA a choice. */
static bool is_own(GenFn *function)
{
    static GenFn *const own[] = {
        gen_topk,      gen_random_bits, gen_tuple,    gen_fusion, gen_collective,
        gen_device_id, gen_async,       gen_dynamic,  gen_scan,   gen_ragged_dot,
        gen_rng,       gen_scaled_dot,  gen_rounding, gen_wrapped};
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

/* Inside, what comes from outside is as exact as there; loops make floats inexact. */
static Value *inner_parameter(Gen *g, const Value *outer, int number)
{
    char text[64];
    snprintf(text, sizeof text, "parameter(%d)", number);
    Value *v = emit(g, outer->type, outer->rank, outer->dims, "%s", text);
    moved(v, outer, NULL);
    return v;
}

static bool is_later(const Value *v, int first)
{
    int id = atoi(v->name + strcspn(v->name, "0123456789"));
    return id >= first;
}

/* A value of this shape and type, better a new one than a parameter. */
static Value *find_result(Gen *g, const Value *like, int first, int most_depth)
{
    Value *found = NULL;
    int n = 0;
    for (int i = 0; i < g->count; i++) {
        Value *v = &g->values[i];
        if (v->type != like->type || v->rank != like->rank || v->depth > most_depth ||
            memcmp(v->dims, like->dims, sizeof v->dims[0] * (size_t)v->rank) != 0)
            continue;
        int weight = is_later(v, first) ? 8 : 1;
        n += weight;
        if (below(g, n) < weight)
            found = v;
    }
    return found;
}

void gen_call(Gen *g)
{
    Value *arguments[4];
    int n = 1 + (int)below(g, 4);
    char text[512];
    char name[24];
    Gen *inner = begin(g);
    for (int i = 0; i < n; i++) {
        arguments[i] = pick(g);
        inner_parameter(inner, arguments[i], i);
    }
    grow(inner, n + 4 + (int)below(g, 6));
    Value root = inner->values[inner->count - 1];
    finish(inner, &root, "called", name);
    names(arguments, n, text);
    Value *v =
        emit(g, root.type, root.rank, root.dims, "call(%s), to_apply=%s", text, name);
    moved(v, &root, NULL);
}

void gen_fusion(Gen *g)
{
    Value *arguments[4];
    int n = 1 + (int)below(g, 4);
    char text[512];
    char name[24];
    Gen *inner = begin(g);
    for (int i = 0; i < n; i++) {
        arguments[i] = pick(g);
        inner_parameter(inner, arguments[i], i);
    }
    grow_with(inner, n + 3 + (int)below(g, 6), true);
    Value *last = &inner->values[inner->count - 1];
    Value root = *last;
    if (elements_of(&root) > g->shared->most_elements)
        root.depth = MAX_DEPTH;
    finish(inner, &root, "fused", name);
    names(arguments, n, text);
    Value *v = emit(g, root.type, root.rank, root.dims,
                    "fusion(%s), kind=kLoop, calls=%s", text, name);
    moved(v, &root, NULL);
}

void gen_map(Gen *g)
{
    Value *a = pick(g);
    Value *b = same_shape(g, a, any_type(g));
    char name[24];
    char dims[128];
    Gen *inner = begin(g);
    Value x = *a;
    Value y = *b;
    x.rank = y.rank = 0;
    inner_parameter(inner, &x, 0);
    inner_parameter(inner, &y, 1);
    int64_t all[MAX_RANK];
    for (int i = 0; i < a->rank; i++)
        all[i] = i;
    static GenFn *const scalars[] = {gen_unary, gen_binary, gen_compare, gen_select,
                                     gen_convert};
    for (int i = 0; i < 12 && inner->count < 9; i++)
        scalars[below(g, 5)](inner);
    Value *last = &inner->values[inner->count - 1];
    for (int i = inner->count; i-- > 0 && last->rank != 0;)
        last = &inner->values[i];
    Value root = *last;
    if (root.rank != 0)
        root = inner->values[0];
    finish(inner, &root, "mapped", name);
    Value *v =
        emit(g, root.type, a->rank, a->dims, "map(%s, %s), dimensions={%s}, to_apply=%s",
             a->name, b->name, list(all, a->rank, dims), name);
    moved(v, &root, NULL);
}

void gen_tuple(Gen *g)
{
    Value *items[3];
    char shape[1024];
    char text[512];
    int n = 1 + (int)below(g, 3);
    for (int i = 0; i < n; i++)
        items[i] = pick(g);
    tuple_shape(items, n, shape);
    names(items, n, text);
    int id = g->shared->next_id++;
    say(g, "  t%d = %s tuple(%s)\n", id, shape, text);
    if (chance(g, 40)) {
        say(g, "  b%d = %s opt-barrier(t%d)\n", id, shape, id);
        say(g, "  t%dx = %s copy(b%d)\n", id, shape, id);
    } else {
        say(g, "  t%dx = %s copy(t%d)\n", id, shape, id);
    }
    int which = (int)below(g, n);
    Value item = *items[which];
    Value *v = emit(g, item.type, item.rank, item.dims,
                    "get-tuple-element(t%dx), index=%d", id, which);
    moved(v, &item, NULL);
}

void gen_conditional(Gen *g)
{
    Value *outer[3];
    char shape[1024];
    char text[512];
    char all[256] = "";
    size_t at = 0;
    int n = 1 + (int)below(g, 3);
    int branches = 1 + (int)below(g, 3);
    bool by_pred = branches == 2 && chance(g, 60);
    for (int i = 0; i < n; i++)
        outer[i] = pick(g);
    Value like[2] = {*outer[0], *pick(g)};
    Value facts[2] = {like[0], like[1]};
    int results = 1 + (int)below(g, 2);
    Value *selector = scalar(g, by_pred ? DT_PRED : DT_S32);
    tuple_shape(outer, n, shape);
    names(outer, n, text);
    int id = g->shared->next_id++;
    say(g, "  t%d = %s tuple(%s)\n", id, shape, text);
    for (int b = 0; b < branches; b++) {
        char name[24];
        Gen *inner = begin(g);
        say(inner, "  p = %s parameter(0)\n", shape);
        for (int i = 0; i < n; i++) {
            Value *v = emit(inner, outer[i]->type, outer[i]->rank, outer[i]->dims,
                            "get-tuple-element(p), index=%d", i);
            moved(v, outer[i], NULL);
        }
        grow(inner, n + 2 + (int)below(g, 6));
        Value *roots[2];
        for (int i = 0; i < results; i++) {
            roots[i] = find_result(inner, &like[i], 0, MAX_DEPTH);
            if (roots[i] == NULL)
                roots[i] = fresh(inner, like[i].type, like[i].rank, like[i].dims);
            Value sum = facts[i];
            if (b == 0)
                moved(&facts[i], roots[i], NULL);
            else
                moved(&facts[i], &sum, roots[i]);
        }
        at += (size_t)snprintf(all + at, sizeof all - at, "%s%s", b ? ", " : "",
                               finish_tuple(inner, roots, results, "branch", name));
    }
    Value *two[2] = {&facts[0], &facts[1]};
    char result[1024];
    char operands[128] = "";
    at = 0;
    for (int b = 0; b < branches; b++)
        at += (size_t)snprintf(operands + at, sizeof operands - at, ", t%d", id);
    tuple_shape(two, results, result);
    int out = g->shared->next_id++;
    if (by_pred) {
        char *second = strstr(all, ", ");
        *second = '\0';
        say(g,
            "  t%d = %s conditional(%s%s), true_computation=%s, false_computation=%s\n",
            out, result, selector->name, operands, all, second + 2);
    } else {
        say(g, "  t%d = %s conditional(%s%s), branch_computations={%s}\n", out, result,
            selector->name, operands, all);
    }
    for (int i = 0; i < results; i++) {
        Value *v = emit(g, facts[i].type, facts[i].rank, facts[i].dims,
                        "get-tuple-element(t%d), index=%d", out, i);
        moved(v, &facts[i], NULL);
    }
}

void gen_while(Gen *g)
{
    Value *outer[4];
    char shape[1024];
    char text[512];
    char body[24];
    char condition[24];
    int n = 1 + (int)below(g, 3);
    int trips = (int)below(g, 5);
    bool counted = chance(g, 70);
    outer[0] = counted ? constant_scalar(g, DT_S32, 0) : scalar(g, DT_S32);
    for (int i = 1; i <= n; i++) {
        outer[i] = pick(g);
        if (!is_int(outer[i]->type) && outer[i]->type != DT_PRED && outer[i]->depth > 2)
            outer[i] = pick_class(g, "su");
    }
    tuple_shape(outer, n + 1, shape);
    names(outer, n + 1, text);
    int id = g->shared->next_id++;
    say(g, "  t%d = %s tuple(%s)\n", id, shape, text);

    Gen *inner = begin(g);
    Value *roots[4];
    say(inner, "  p = %s parameter(0)\n", shape);
    for (int i = 0; i <= n; i++) {
        Value *v = emit(inner, outer[i]->type, outer[i]->rank, outer[i]->dims,
                        "get-tuple-element(p), index=%d", i);
        v->special = outer[i]->special;
        v->pure = is_int(v->type) || v->type == DT_PRED;
        if (!v->pure) {
            v->depth = outer[i]->depth < 1 ? 1 : outer[i]->depth;
            v->high = outer[i]->high < 10 ? 10 : outer[i]->high;
        }
    }
    int first = g->shared->next_id;
    grow(inner, n + 3 + (int)below(g, 8));
    Value *one = constant_scalar(inner, DT_S32, 1);
    roots[0] =
        emit(inner, DT_S32, 0, NULL, "add(%s, %s)", inner->values[0].name, one->name);
    for (int i = 1; i <= n; i++) {
        Value wanted = inner->values[i];
        roots[i] = find_result(inner, &wanted, first, wanted.depth);
        if (roots[i]->special && !wanted.special)
            roots[i] = &inner->values[i];
    }
    Value facts[4];
    for (int i = 0; i <= n; i++)
        facts[i] = *roots[i];
    finish_tuple(inner, roots, n + 1, "body", body);

    Gen *test = begin(g);
    say(test, "  p = %s parameter(0)\n", shape);
    Value *i = emit(test, DT_S32, 0, NULL, "get-tuple-element(p), index=0");
    Value *limit = constant_scalar(test, DT_S32, trips);
    Value *go = emit(test, DT_PRED, 0, NULL, "compare(%s, %s), direction=LT", i->name,
                     limit->name);
    /* whatever the start, few rounds: the start is not below -8 unless it is strange */
    Value *least = constant_scalar(test, DT_S32, -8);
    Value *sane = emit(test, DT_PRED, 0, NULL, "compare(%s, %s), direction=GE", i->name,
                       least->name);
    Value *both = emit(test, DT_PRED, 0, NULL, "and(%s, %s)", go->name, sane->name);
    Value root = counted ? *go : *both;
    head(test, "condition", condition);
    say(test, "  ROOT root = pred[] copy(%s)\n", root.name);
    end(test);
    int out = g->shared->next_id++;
    say(g, "  t%d = %s while(t%d), condition=%s, body=%s\n", out, shape, id, condition,
        body);
    for (int k = 0; k <= n; k++) {
        Value *v = emit(g, facts[k].type, facts[k].rank, facts[k].dims,
                        "get-tuple-element(t%d), index=%d", out, k);
        v->special = facts[k].special;
        v->pure = is_int(v->type) || v->type == DT_PRED;
        v->depth = v->pure ? 0 : facts[k].depth + 1;
        v->high = v->pure ? 2 : facts[k].high + 4;
        if (v->special && !v->pure)
            v->depth = MAX_DEPTH;
    }
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

static void entry_root(Gen *g)
{
    char names_text[512] = "";
    char shapes[2048] = "";
    size_t at = 0;
    size_t shapes_at = 0;
    int n = 0;
    for (int i = g->count; i-- > 0 && n < 6;) {
        if (!chance(g, g->values[i].used ? 15 : 60) && (i > 0 || n > 0))
            continue;
        char name[32];
        char shape[320];
        char layout[24];
        lay_out(g, &g->values[i], name, shape, layout);
        if (!generate_plain && chance(g, 40))
            alias(g, &g->values[i], layout, n);
        at += (size_t)snprintf(names_text + at, sizeof names_text - at, "%s%s",
                               n ? ", " : "", name);
        shapes_at += (size_t)snprintf(shapes + shapes_at, sizeof shapes - shapes_at,
                                      "%s%s", n ? ", " : "", shape);
        n++;
    }
    if (n == 1 && g->shared->aliases[0] == '\0' && chance(g, 50))
        say(g, "  ROOT root = %s copy(%s)\n", shapes, names_text);
    else
        say(g, "  ROOT root = (%s) tuple(%s)\n", shapes, names_text);
}

char *generate(uint64_t seed)
{
    char *text = NULL;
    size_t size = 0;
    Shared shared = {.random = {seed * UINT64_C(0x9e3779b97f4a7c15) + 1}};
    random_bits(&shared.random);
    shared.has_special = random_chance(&shared.random, 35) && !generate_plain;
    shared.most_elements = random_chance(&shared.random, 8) ? 100000 : 4096;
    shared.replicas = shared.partitions = 1;
    if (random_chance(&shared.random, 15) && !generate_plain) { /* several devices */
        static const int grids[][2] = {{2, 1}, {1, 2}, {4, 1}, {1, 4}, {2, 2}};
        int which = (int)random_below(&shared.random, 5);
        shared.replicas = grids[which][0];
        shared.partitions = grids[which][1];
    }
    shared.head = open_memstream(&text, &size);
    Gen *g = calloc(1, sizeof *g);
    g->shared = &shared;
    g->entry = true;
    g->body = tmpfile();
    grow(g, 4 + (int)below(g, chance(g, 20) ? 60 : 20));
    entry_root(g);
    fprintf(shared.head, "ENTRY main {\n");
    end(g);
    fclose(shared.head);
    char *all = malloc(size + sizeof shared.aliases + 200);
    bool aliased = shared.aliases[0] != '\0';
    int at = sprintf(all, "HloModule random_%llu%s%s%s", (unsigned long long)seed,
                     aliased ? ", input_output_alias={ " : "", shared.aliases,
                     aliased ? " }" : "");
    if (shared.replicas > 1)
        at += sprintf(all + at, ", replica_count=%d", shared.replicas);
    if (shared.partitions > 1)
        at += sprintf(all + at, ", num_partitions=%d", shared.partitions);
    sprintf(all + at, "\n\n%s", text);
    free(text);
    return all;
}
