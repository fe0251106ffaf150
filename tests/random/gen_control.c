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

void finish_entry(Gen *g)
{
    fprintf(g->shared->head, "ENTRY main {\n");
    end(g);
}

const char *finish(Gen *g, const Value *root, const char *prefix, char out[24])
{
    char shape[128];
    head(g, prefix, out);
    say(g, "  ROOT root = %s copy(%s)\n", shape_of(root, shape), root->name);
    end(g);
    return out;
}

/* n values as a tuple, the first `inner` of them as a tuple in it (0: none). */
typedef struct Nest {
    Value **items;
    int n, inner;
} Nest;

static Nest make_nest(Gen *g, Value **items, int n)
{
    Nest t = {items, n, 0};
    if (!generate_plain && chance(g, 25))
        t.inner = 1 + (int)below(g, n);
    return t;
}

static void nest_shape(Nest t, char out[1024])
{
    size_t at = 0;
    char shape[128];
    at += (size_t)snprintf(out, 1024, t.inner > 0 ? "((" : "(");
    for (int i = 0; i < t.n; i++)
        at += (size_t)snprintf(out + at, 1024 - at, "%s%s%s", i ? ", " : "",
                               shape_of(t.items[i], shape), t.inner == i + 1 ? ")" : "");
    snprintf(out + at, 1024 - at, ")");
}

static void tuple_shape(Value **items, int n, char out[1024])
{
    nest_shape((Nest){items, n, 0}, out);
}

static void names(Value **items, int n, char out[512])
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, 512 - at, "%s%s", i ? ", " : "", items[i]->name);
}

/* "name = shape tuple(...)", or "ROOT name ..." */
static void say_nest(Gen *g, Nest t, const char *name, bool is_root)
{
    char shape[1024], items[512], inner[64] = "";
    if (t.inner > 0) {
        snprintf(inner, sizeof inner, "n%d", g->shared->next_id++);
        nest_shape((Nest){t.items, t.inner, 0}, shape);
        names(t.items, t.inner, items);
        say(g, "  %s = %s tuple(%s)\n", inner, shape, items);
    }
    nest_shape(t, shape);
    names(t.items + t.inner, t.n - t.inner, items);
    say(g, "  %s%s = %s tuple(%s%s%s)\n", is_root ? "ROOT " : "", name, shape, inner,
        t.inner > 0 && t.inner < t.n ? ", " : "", items);
}

/* Item i of the nest `from`, as a value of its own with the shape of `like`. */
static Value *say_element(Gen *g, Nest t, const char *from, int i, const Value *like)
{
    char inner[64], shape[1024];
    if (i >= t.inner)
        return emit(g, like->type, like->rank, like->dims,
                    "get-tuple-element(%s), index=%d", from,
                    t.inner > 0 ? i - t.inner + 1 : i);
    snprintf(inner, sizeof inner, "n%d", g->shared->next_id++);
    nest_shape((Nest){t.items, t.inner, 0}, shape);
    say(g, "  %s = %s get-tuple-element(%s), index=0\n", inner, shape, from);
    return emit(g, like->type, like->rank, like->dims, "get-tuple-element(%s), index=%d",
                inner, i);
}

static const char *finish_nest(Gen *g, Nest t, const char *prefix, char out[24])
{
    head(g, prefix, out);
    say_nest(g, t, "root", true);
    end(g);
    return out;
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
    int branches = 1 + (int)below(g, 3);
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
    say_nest(g, given, tuple, false);
    Value *two[2] = {&facts[0], &facts[1]};
    Nest taken = make_nest(g, two, results);
    for (int b = 0; b < branches; b++) {
        char name[24];
        Gen *inner = begin(g);
        say(inner, "  p = %s parameter(0)\n", shape);
        for (int i = 0; i < n; i++) {
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
    char operands[128] = "";
    at = 0;
    for (int b = 0; b < branches; b++)
        at += (size_t)snprintf(operands + at, sizeof operands - at, ", %s", tuple);
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

void gen_while(Gen *g)
{
    Value *outer[4];
    char shape[1024];
    char tuple[24];
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
    Nest carried = make_nest(g, outer, n + 1);
    nest_shape(carried, shape);
    snprintf(tuple, sizeof tuple, "t%d", g->shared->next_id++);
    say_nest(g, carried, tuple, false);

    Gen *inner = begin(g);
    inner->uniform = g->uniform && counted;
    Value *roots[4];
    say(inner, "  p = %s parameter(0)\n", shape);
    for (int i = 0; i <= n; i++) {
        Value *v = say_element(inner, carried, "p", i, outer[i]);
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
    finish_nest(inner, (Nest){roots, n + 1, carried.inner}, "body", body);

    Gen *test = begin(g);
    say(test, "  p = %s parameter(0)\n", shape);
    Value *i = say_element(test, carried, "p", 0, outer[0]);
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
    say(g, "  t%d = %s while(%s), condition=%s, body=%s\n", out, shape, tuple, condition,
        body);
    snprintf(tuple, sizeof tuple, "t%d", out);
    for (int k = 0; k <= n; k++) {
        Value *v = say_element(g, carried, tuple, k, &facts[k]);
        v->special = facts[k].special;
        v->pure = is_int(v->type) || v->type == DT_PRED;
        v->depth = v->pure ? 0 : facts[k].depth + 1;
        v->high = v->pure ? 2 : facts[k].high + 4;
        if (v->special && !v->pure)
            v->depth = MAX_DEPTH;
    }
}

/* A loop over the rows of an array, from the front or the back, that makes a row of a result of
 * each, and carries another along. */
void gen_walk(Gen *g)
{
    Value *from = pick_rank(g, 1);
    int64_t n = from->dims[0];
    Value row = {.type = from->type, .rank = from->rank - 1};
    char shape[1024], name[24], text[512], zeros[64] = "", sizes[128];
    if (n < 1 || n > 9 || elements_of(from) > 512 || from->special || from->depth > 2)
        return;
    memcpy(row.dims, from->dims + 1, sizeof row.dims - sizeof *row.dims);
    Value *zero = constant_scalar(g, from->type, 0);
    Value *items[4] = {constant_scalar(g, DT_S32, 0), from,
                       emit(g, from->type, from->rank, from->dims,
                            "broadcast(%s), dimensions={}", zero->name),
                       same_shape(g, &row, from->type)};
    if (items[3]->special || items[3]->depth > 2)
        return;
    tuple_shape(items, 4, shape);
    names(items, 4, text);
    int id = g->shared->next_id++;
    say(g, "  t%d = %s tuple(%s)\n", id, shape, text);

    Gen *inner = begin(g);
    inner->uniform = g->uniform;
    say(inner, "  p = %s parameter(0)\n", shape);
    Value *in[4];
    for (int i = 0; i < 4; i++) {
        in[i] = say_element(inner, (Nest){items, 4, 0}, "p", i, items[i]);
        moved(in[i], items[i], NULL);
        if (i >= 2 && !is_int(from->type) && from->type != DT_PRED) {
            in[i]->pure = false;
            in[i]->depth = items[i]->depth < 1 ? 1 : items[i]->depth;
            in[i]->high = items[i]->high < 10 ? 10 : items[i]->high;
        }
    }
    Value *at = in[0], *nought = constant_scalar(inner, DT_S32, 0);
    if (chance(g, 30)) {
        Value *last = constant_scalar(inner, DT_S32, (double)n - 1);
        at = emit(inner, DT_S32, 0, NULL, "subtract(%s, %s)", last->name, at->name);
    }
    int64_t one_row[MAX_RANK] = {1};
    memcpy(one_row + 1, row.dims, sizeof row.dims - sizeof *row.dims);
    for (int i = 0; i < row.rank; i++)
        sprintf(zeros + strlen(zeros), ", %s", nought->name);
    Value *slice = emit(inner, from->type, from->rank, one_row,
                        "dynamic-slice(%s, %s%s), dynamic_slice_sizes={%s}", in[1]->name,
                        at->name, zeros, list(one_row, from->rank, sizes));
    moved(slice, in[1], NULL);
    Value *x = emit(inner, row.type, row.rank, row.dims, "reshape(%s)", slice->name);
    moved(x, in[1], NULL);
    int first = g->shared->next_id - 1;
    grow(inner, inner->count + 2 + (int)below(g, 7));
    Value *y = find_result(inner, &row, first, 3),
          *c = find_result(inner, &row, first, in[3]->depth);
    y = y->special ? x : y;
    c = c->special ? in[3] : c;
    Value *made = emit(inner, row.type, from->rank, one_row, "reshape(%s)", y->name);
    Value *out = emit(inner, row.type, from->rank, from->dims,
                      "dynamic-update-slice(%s, %s, %s%s)", in[2]->name, made->name,
                      at->name, zeros);
    Value *one = constant_scalar(inner, DT_S32, 1);
    Value *next = emit(inner, DT_S32, 0, NULL, "add(%s, %s)", in[0]->name, one->name);
    moved(out, in[2], y);
    Value facts[2] = {*out, *c};
    finish_nest(inner, (Nest){(Value *[]){next, in[1], out, c}, 4, 0}, "row", name);
    fprintf(
        g->shared->head,
        "rows%d {\n  p = %s parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n"
        "  n = s32[] constant(%lld)\n  ROOT r = pred[] compare(i, n), direction=LT\n}\n",
        id, shape, (long long)n);
    say(g, "  t%dw = %s while(t%d), condition=rows%d, body=%s\n", id, shape, id, id,
        name);
    for (int i = 0; i < 2; i++) {
        Value *v = emit(g, facts[i].type, facts[i].rank, facts[i].dims,
                        "get-tuple-element(t%dw), index=%d", id, 2 + i);
        v->pure = is_int(v->type) || v->type == DT_PRED;
        v->depth = v->pure ? 0 : facts[i].depth + 1;
        v->high = v->pure ? 2 : facts[i].high + 4;
    }
}
