/* Random arrays of dynamic size: made, changed a little, and padded to arrays of fixed size again. */
#include <string.h>

#include "tests/random/value.h"

/* An array on its way; `dynamic` by dimension. */
typedef struct Sized {
    Value v; /* facts, and the bounds */
    bool dynamic[MAX_RANK];
    char name[24];
} Sized;

static const char *shape_text(const Sized *s, char out[128])
{
    int at = snprintf(out, 128, "%s[", dtype_info[s->v.type].name);
    for (int i = 0; i < s->v.rank; i++)
        at += snprintf(out + at, (size_t)(128 - at), "%s%s%lld", i ? "," : "",
                       s->dynamic[i] ? "<=" : "", (long long)s->v.dims[i]);
    snprintf(out + at, (size_t)(128 - at), "]");
    return out;
}

static void add(Gen *g, Sized *s, const char *text)
{
    char shape[128];
    snprintf(s->name, sizeof s->name, "d%d", g->shared->next_id++);
    say(g, "  %s = %s %s\n", s->name, shape_text(s, shape), text);
}

static void set_size(Gen *g, Sized *s)
{
    char text[256];
    int d = (int)below(g, s->v.rank);
    if (s->dynamic[d])
        return; /* what a larger size would show is anything */
    Value *n = constant_scalar(g, DT_S32, 0);
    if (chance(g, 60)) {
        Value *size = constant_scalar(g, DT_S32, (double)below(g, s->v.dims[d] + 1));
        n = size;
    } else { /* known when it runs only */
        Value *x = scalar(g, DT_S32),
              *most = constant_scalar(g, DT_S32, (double)s->v.dims[d]);
        n = emit(g, DT_S32, 0, NULL, "clamp(%s, %s, %s)", n->name, x->name, most->name);
    }
    s->dynamic[d] = true;
    snprintf(text, sizeof text, "set-dimension-size(%s, %s), dimensions={%d}", s->name,
             n->name, d);
    add(g, s, text);
}

static void turn(Gen *g, Sized *s)
{
    char text[256], dims[128];
    int64_t order[MAX_RANK];
    Sized old = *s;
    for (int i = 0; i < s->v.rank; i++) {
        int at = (int)below(g, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    for (int i = 0; i < s->v.rank; i++) {
        s->v.dims[i] = old.v.dims[order[i]];
        s->dynamic[i] = old.dynamic[order[i]];
    }
    snprintf(text, sizeof text, "transpose(%s), dimensions={%s}", old.name,
             list(order, s->v.rank, dims));
    add(g, s, text);
}

static void join(Gen *g, Sized *s)
{
    char text[256];
    int d = (int)below(g, s->v.rank);
    Value like = s->v;
    like.dims[d] = 1 + below(g, 3);
    for (int i = 0; i < s->v.rank; i++) {
        if (s->dynamic[i] && i != d)
            return; /* its size would have to be the same */
    }
    Value *other = same_shape(g, &like, s->v.type);
    Value facts = s->v;
    bool first = chance(g, 50);
    s->v.dims[d] += like.dims[d];
    moved(&s->v, &facts, other);
    snprintf(text, sizeof text, "concatenate(%s, %s), dimensions={%d}",
             first ? s->name : other->name, first ? other->name : s->name, d);
    add(g, s, text);
}

static void pad(Gen *g, Sized *s)
{
    char text[256], dims[64] = "";
    int at = 0;
    Value *fill = constant_scalar(g, s->v.type, 1);
    Value facts = s->v;
    for (int i = 0; i < s->v.rank; i++) {
        int low = (int)below(g, 3), high = (int)below(g, 3), gap = (int)below(g, 2);
        int64_t n = s->v.dims[i];
        s->v.dims[i] = low + high + n + (n > 0 ? (n - 1) * gap : 0);
        at += snprintf(dims + at, sizeof dims - (size_t)at, "%s%d_%d_%d", i ? "x" : "",
                       low, high, gap);
    }
    moved(&s->v, &facts, fill);
    snprintf(text, sizeof text, "pad(%s, %s), padding=%s", s->name, fill->name, dims);
    add(g, s, text);
}

static void simple(Gen *g, Sized *s)
{
    char text[256], dims[128];
    int64_t d = below(g, s->v.rank);
    if (chance(g, 40)) {
        snprintf(text, sizeof text, "reverse(%s), dimensions={%s}", s->name,
                 list(&d, 1, dims));
    } else if (chance(g, 50) && is_arithmetic(s->v.type) && !is_complex(s->v.type)) {
        snprintf(text, sizeof text, "maximum(%s, %s)", s->name, s->name);
        s->v.pure = s->v.pure && !is_float(s->v.type);
    } else {
        snprintf(text, sizeof text, "copy(%s)", s->name);
    }
    add(g, s, text);
}

/* One more dimension, in front or behind. */
static void spread(Gen *g, Sized *s)
{
    char text[256], dims[128];
    bool front = chance(g, 50);
    int64_t map[MAX_RANK];
    if (s->v.rank == 4)
        return;
    for (int i = s->v.rank; front && i > 0; i--) {
        s->v.dims[i] = s->v.dims[i - 1];
        s->dynamic[i] = s->dynamic[i - 1];
    }
    for (int i = 0; i < s->v.rank; i++)
        map[i] = i + front;
    int at = front ? 0 : s->v.rank;
    s->v.dims[at] = 1 + below(g, 3);
    s->dynamic[at] = false;
    snprintf(text, sizeof text, "broadcast(%s), dimensions={%s}", s->name,
             list(map, s->v.rank, dims));
    s->v.rank++;
    add(g, s, text);
}

static void widen(Gen *g, Sized *s)
{
    char text[256];
    if (!is_int(s->v.type) && s->v.type != DT_PRED)
        return;
    snprintf(text, sizeof text, "convert(%s)", s->name);
    s->v.type = DT_S64;
    add(g, s, text);
}

static void order(Gen *g, Sized *s)
{
    char text[256];
    if (!is_int(s->v.type))
        return;
    int id = g->shared->next_id++;
    const char *t = dtype_info[s->v.type].name;
    fprintf(g->shared->head,
            "less%d {\n  a = %s[] parameter(0)\n  b = %s[] parameter(1)\n"
            "  ROOT r = pred[] compare(a, b), direction=%s\n}\n",
            id, t, t, chance(g, 50) ? "LT" : "GT");
    snprintf(text, sizeof text,
             "sort(%s), dimensions={%d}, is_stable=true, to_apply=less%d", s->name,
             (int)below(g, s->v.rank), id);
    add(g, s, text);
}

/* The sums, or the like, along one of several dimensions. */
static void lower(Gen *g, Sized *s)
{
    static const char *const ops[] = {"add", "maximum", "minimum"};
    const char *op = s->v.type == DT_PRED ? "or" : ops[below(g, 3)];
    char text[256];
    int d = (int)below(g, s->v.rank);
    if (s->v.rank < 2 || !can_reduce(&s->v, op) || is_complex(s->v.type) || s->v.special)
        return;
    Value *init = constant_scalar(g, s->v.type, 0), old = s->v;
    snprintf(text, sizeof text, "reduce(%s, %s), dimensions={%d}, to_apply=%s", s->name,
             init->name, d, reducer(g, s->v.type, op));
    s->v.rank--;
    for (int i = d; i < s->v.rank; i++) {
        s->v.dims[i] = s->v.dims[i + 1];
        s->dynamic[i] = s->dynamic[i + 1];
    }
    reduced(&s->v, &old, op, old.dims[d]);
    add(g, s, text);
}

/* Times a matrix of fixed size: sums go as far as both sides do. */
static void multiply(Gen *g, Sized *s)
{
    char text[300];
    if (s->v.rank != 2 || s->v.type == DT_PRED || !is_arithmetic(s->v.type) ||
        s->v.special || s->v.depth > 0 || dtype_info[s->v.type].bits < 16)
        return;
    int d = (int)below(g, 2);
    Value like = {.rank = 2, .dims = {s->v.dims[d], 1 + below(g, 5)}};
    Value *b = same_shape(g, &like, s->v.type);
    if (b->special || b->depth > 0)
        return;
    snprintf(text, sizeof text,
             "dot(%s, %s), lhs_contracting_dims={%d}, rhs_contracting_dims={0}", s->name,
             b->name, d);
    s->v.dims[0] = s->v.dims[1 - d];
    s->dynamic[0] = s->dynamic[1 - d];
    s->v.dims[1] = like.dims[1];
    s->dynamic[1] = false;
    s->v.high += b->high + log2_up(like.dims[0]) + is_complex(s->v.type);
    s->v.grain += b->grain;
    settle(&s->v, 0);
    add(g, s, text);
}

/* Round a loop a few times, reversed or as it is. */
static void circle(Gen *g, Sized *s)
{
    char shape[128], name[24];
    int id = g->shared->next_id++;
    FILE *f = g->shared->head;
    snprintf(name, sizeof name, "%s", s->name);
    Value *zero = constant_scalar(g, DT_S32, 0);
    shape_text(s, shape);
    fprintf(f,
            "turns%d {\n  p = (s32[], %s) parameter(0)\n"
            "  i = s32[] get-tuple-element(p), index=0\n"
            "  x = %s get-tuple-element(p), index=1\n  one = s32[] constant(1)\n"
            "  j = s32[] add(i, one)\n  y = %s reverse(x), dimensions={%d}\n"
            "  ROOT r = (s32[], %s) tuple(j, y)\n}\n",
            id, shape, shape, shape, (int)below(g, s->v.rank), shape);
    fprintf(f,
            "few%d {\n  p = (s32[], %s) parameter(0)\n"
            "  i = s32[] get-tuple-element(p), index=0\n  n = s32[] constant(%d)\n"
            "  ROOT r = pred[] compare(i, n), direction=LT\n}\n",
            id, shape, (int)below(g, 4));
    say(g, "  w%d = (s32[], %s) tuple(%s, %s)\n", id, shape, zero->name, name);
    say(g, "  w%dx = (s32[], %s) while(w%d), condition=few%d, body=turns%d\n", id, shape,
        id, id, id);
    snprintf(name, sizeof name, "w%dx", id);
    char text[64];
    snprintf(text, sizeof text, "get-tuple-element(%s), index=1", name);
    add(g, s, text);
}

/* Its elements behind one another. */
static void flatten(Gen *g, Sized *s)
{
    char text[256];
    int64_t n = elements_of(&s->v);
    char count[24] = "";
    if (chance(g, 50)) { /* as many as there are, said in so many words */
        for (int i = 0; i < s->v.rank; i++) {
            Value *size = emit(g, DT_S32, 0, NULL,
                               "get-dimension-size(%s), dimensions={%d}", s->name, i);
            Value *all = size;
            if (i > 0)
                all = emit(g, DT_S32, 0, NULL, "multiply(%s, %s)", count, size->name);
            snprintf(count, sizeof count, "%s", all->name);
        }
    }
    s->v.rank = 1;
    s->v.dims[0] = n;
    memset(s->dynamic, 0, sizeof s->dynamic);
    s->dynamic[0] = true;
    if (count[0] != '\0')
        snprintf(text, sizeof text, "dynamic-reshape(%s, %s)", s->name, count);
    else
        snprintf(text, sizeof text, "reshape(%s)", s->name);
    add(g, s, text);
}

static void sum(Gen *g, const Sized *s)
{
    static const char *const ops[] = {"add", "maximum", "minimum"};
    const char *op = s->v.type == DT_PRED ? "or" : ops[below(g, 3)];
    if (!can_reduce(&s->v, op) || is_complex(s->v.type) || s->v.special)
        return;
    int64_t all[MAX_RANK];
    char dims[128];
    for (int i = 0; i < s->v.rank; i++)
        all[i] = i;
    Value *init = constant_scalar(g, s->v.type, 0);
    Value *v =
        emit(g, s->v.type, 0, NULL, "reduce(%s, %s), dimensions={%s}, to_apply=%s",
             s->name, init->name, list(all, s->v.rank, dims), reducer(g, s->v.type, op));
    reduced(v, &s->v, op, elements_of(&s->v));
}

static void to_static(Gen *g, const Sized *s)
{
    char shape[128], sizes[128] = "";
    for (int i = 0; i < s->v.rank; i++)
        strcat(sizes, ", s32[]");
    shape_of(&s->v, shape);
    int id = g->shared->next_id++;
    say(g, "  t%d = (%s%s) custom-call(%s), custom_call_target=\"PadToStatic\"\n", id,
        shape, sizes, s->name);
    Value *v =
        emit(g, s->v.type, s->v.rank, s->v.dims, "get-tuple-element(t%d), index=0", id);
    moved(v, &s->v, NULL);
    for (int i = 0; i < s->v.rank; i++)
        emit(g, DT_S32, 0, NULL, "get-tuple-element(t%d), index=%d", id, i + 1);
}

/* A parameter whose sizes the caller says. */
static void sized_parameter(Gen *g, Sized *s)
{
    char text[64];
    *s = (Sized){.v = {.type = any_type(g),
                       .rank = 1 + (int)below(g, 3),
                       .high = 2,
                       .grain = -2,
                       .pure = true}};
    for (int i = 0; i < s->v.rank; i++) {
        s->v.dims[i] = 1 + below(g, 7);
        s->dynamic[i] = chance(g, 60);
    }
    snprintf(text, sizeof text, "parameter(%d)", g->parameters++);
    add(g, s, text);
}

static bool sized_value(Gen *g, Sized *s)
{
    Value *a = pick_rank(g, 1);
    if (elements_of(a) == 0 || elements_of(a) > 512 || a->rank > 3)
        return false;
    *s = (Sized){.v = *a};
    snprintf(s->name, sizeof s->name, "%s", a->name);
    set_size(g, s);
    return true;
}

void gen_dynamic(Gen *g)
{
    Sized s;
    if (g->entry && chance(g, 30))
        sized_parameter(g, &s);
    else if (!sized_value(g, &s))
        return;
    for (int n = (int)below(g, 6); n > 0 && elements_of(&s.v) < 2000; n--) {
        static void (*const steps[])(Gen *, Sized *) = {set_size, turn,     join,  pad,
                                                        simple,   spread,   widen, order,
                                                        lower,    multiply, circle};
        steps[below(g, 11)](g, &s);
    }
    if (chance(g, 20))
        flatten(g, &s);
    if (chance(g, 30))
        emit(g, DT_S32, 0, NULL, "get-dimension-size(%s), dimensions={%d}", s.name,
             (int)below(g, s.v.rank));
    if (chance(g, 40))
        sum(g, &s);
    to_static(g, &s);
}
