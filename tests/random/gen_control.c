/* Random calls, fusions, conditionals, tuples. Loops: gen_loops.c. */
#include <string.h>

#include "tests/random/nest.h"

/* Inside, what comes from outside is as exact as there; loops make floats inexact. */
static Value *inner_parameter(Gen *g, const Value *outer, int number)
{
    char text[64];
    snprintf(text, sizeof text, "parameter(%d)", number);
    Value *v = emit(g, outer->type, outer->rank, outer->dims, "%s", text);
    moved(v, outer, NULL);
    return v;
}

/* The last value of a computation, and others. */
static Nest choose_roots(Gen *g, Gen *inner, Value **roots, bool may_nest)
{
    int n = chance(g, 60) ? 1 : 2 + (int)below(g, 2);
    roots[0] = &inner->values[inner->count - 1];
    for (int i = 1; i < n; i++)
        roots[i] = &inner->values[below(g, inner->count)];
    return may_nest ? make_nest(g, roots, n) : (Nest){roots, n, 0};
}

/* "shape op(arguments), attributes", whose result is a value, or a nest of several. */
static void say_call(Gen *g, Nest roots, const char *op, Value **arguments, int n,
                     const char *attributes)
{
    char text[512], shape[1024];
    char tuple[24];
    Value facts[3];
    names(arguments, n, text);
    for (int i = 0; i < roots.n; i++)
        facts[i] = *roots.items[i];
    if (roots.n == 1 && roots.inner == 0) {
        Value *v = emit(g, facts[0].type, facts[0].rank, facts[0].dims, "%s(%s), %s", op,
                        text, attributes);
        moved(v, &facts[0], NULL);
        return;
    }
    nest_shape(roots, shape);
    snprintf(tuple, sizeof tuple, "t%d", g->shared->next_id++);
    say(g, "  %s = %s %s(%s), %s\n", tuple, shape, op, text, attributes);
    for (int i = 0; i < roots.n; i++)
        moved(say_element(g, roots, tuple, i, &facts[i]), &facts[i], NULL);
}

void gen_call(Gen *g)
{
    Value *arguments[4], *items[3];
    int n = 1 + (int)below(g, 4);
    char name[24], attributes[200];
    Gen *inner = begin(g);
    inner->uniform = g->uniform;
    for (int i = 0; i < n; i++) {
        arguments[i] = pick(g);
        inner_parameter(inner, arguments[i], i);
    }
    grow(inner, n + 4 + (int)below(g, 6));
    Nest roots = choose_roots(g, inner, items, true);
    Value kept[3];
    for (int i = 0; i < roots.n; i++)
        kept[i] = *items[i];
    if (roots.n == 1 && roots.inner == 0)
        finish(inner, items[0], "called", name);
    else
        finish_nest(inner, roots, "called", name);
    for (int i = 0; i < roots.n; i++)
        items[i] = &kept[i];
    snprintf(attributes, sizeof attributes, "to_apply=%s%s", name,
             !generate_plain && chance(g, 20)
                 ? ", is_composite=true, frontend_attributes={composite.name=\"own.op\","
                   "composite.version=\"1\"}"
                 : "");
    say_call(g, roots, "call", arguments, n, attributes);
}

void gen_fusion(Gen *g)
{
    static const char *const kinds[] = {"kLoop", "kLoop", "kInput", "kOutput", "kCustom"};
    Value *arguments[4], *items[3];
    int n = 1 + (int)below(g, 4);
    char name[24], attributes[64];
    Gen *inner = begin(g);
    for (int i = 0; i < n; i++) {
        arguments[i] = pick(g);
        inner_parameter(inner, arguments[i], i);
    }
    grow_fusible(inner, n + 3 + (int)below(g, 6));
    Nest roots = choose_roots(g, inner, items, false);
    Value kept[3];
    for (int i = 0; i < roots.n; i++) {
        kept[i] = *items[i];
        if (elements_of(&kept[i]) > g->shared->most_elements)
            kept[i].depth = MAX_DEPTH;
    }
    if (roots.n == 1)
        finish(inner, items[0], "fused", name);
    else
        finish_nest(inner, roots, "fused", name);
    for (int i = 0; i < roots.n; i++)
        items[i] = &kept[i];
    snprintf(attributes, sizeof attributes, "kind=%s, calls=%s", kinds[below(g, 5)],
             name);
    say_call(g, roots, "fusion", arguments, n, attributes);
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
    char tuple[24];
    char all[256] = "";
    size_t at = 0;
    int n = 1 + (int)below(g, 3);
    int branches = 1 + (int)below(g, chance(g, 15) ? 8 : 3);
    bool bare = chance(g, 20); /* each branch gets an array */
    bool by_pred = branches == 2 && chance(g, 60);
    for (int i = 0; i < n; i++)
        outer[i] = pick(g);
    Value like[2] = {*outer[0], *pick(g)};
    Value facts[2] = {like[0], like[1]};
    int results = 1 + (int)below(g, 2);
    Value *selector = scalar(g, by_pred ? DT_PRED : DT_S32);
    Nest given = make_nest(g, outer, n);
    nest_shape(given, shape);
    snprintf(tuple, sizeof tuple, "t%d", g->shared->next_id++);
    if (!bare)
        say_nest(g, given, tuple, false);
    Value *two[2] = {&facts[0], &facts[1]};
    Nest taken = make_nest(g, two, results);
    for (int b = 0; b < branches; b++) {
        char name[24];
        Gen *inner = begin(g);
        if (bare)
            inner_parameter(inner, outer[b % n], 0);
        else
            say(inner, "  p = %s parameter(0)\n", shape);
        for (int i = 0; i < n && !bare; i++) {
            Value *v = say_element(inner, given, "p", i, outer[i]);
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
        at += (size_t)snprintf(
            all + at, sizeof all - at, "%s%s", b ? ", " : "",
            finish_nest(inner, (Nest){roots, results, taken.inner}, "branch", name));
    }
    char result[1024];
    char operands[256] = "";
    at = 0;
    for (int b = 0; b < branches; b++)
        at += (size_t)snprintf(operands + at, sizeof operands - at, ", %s",
                               bare ? outer[b % n]->name : tuple);
    nest_shape(taken, result);
    snprintf(tuple, sizeof tuple, "t%d", g->shared->next_id++);
    if (by_pred) {
        char *second = strstr(all, ", ");
        *second = '\0';
        say(g, "  %s = %s conditional(%s%s), true_computation=%s, false_computation=%s\n",
            tuple, result, selector->name, operands, all, second + 2);
    } else {
        say(g, "  %s = %s conditional(%s%s), branch_computations={%s}\n", tuple, result,
            selector->name, operands, all);
    }
    for (int i = 0; i < results; i++) {
        Value *v = say_element(g, taken, tuple, i, &facts[i]);
        moved(v, &facts[i], NULL);
    }
}
