/* See nest.h. Computations are written to files of their own and appended when they end. */
#include "tests/random/nest.h"

#include <stdlib.h>
#include <string.h>

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
    for (int i = 0; i < g->count; i++) {
        if (g->values[i].depth > 0)
            fprintf(g->shared->inexact, " %s", g->values[i].name);
    }
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

Nest make_nest(Gen *g, Value **items, int n)
{
    Nest t = {items, n, 0};
    if (!generate_plain && chance(g, 25))
        t.inner = 1 + (int)below(g, n);
    return t;
}

void nest_shape(Nest t, char out[1024])
{
    size_t at = 0;
    char shape[128];
    at += (size_t)snprintf(out, 1024, t.inner > 0 ? "((" : "(");
    for (int i = 0; i < t.n; i++)
        at += (size_t)snprintf(out + at, 1024 - at, "%s%s%s", i ? ", " : "",
                               shape_of(t.items[i], shape), t.inner == i + 1 ? ")" : "");
    snprintf(out + at, 1024 - at, ")");
}

void tuple_shape(Value **items, int n, char out[1024])
{
    nest_shape((Nest){items, n, 0}, out);
}

void names(Value **items, int n, char out[512])
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, 512 - at, "%s%s", i ? ", " : "", items[i]->name);
}

void say_nest(Gen *g, Nest t, const char *name, bool is_root)
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

Value *say_element(Gen *g, Nest t, const char *from, int i, const Value *like)
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

const char *finish_nest(Gen *g, Nest t, const char *prefix, char out[24])
{
    head(g, prefix, out);
    say_nest(g, t, "root", true);
    end(g);
    return out;
}

static bool is_later(const Value *v, int first)
{
    int id = atoi(v->name + strcspn(v->name, "0123456789"));
    return id >= first;
}

Value *find_result(Gen *g, const Value *like, int first, int most_depth)
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
