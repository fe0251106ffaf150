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
    for (int n = (int)below(g, 4); n > 0 && elements_of(&s.v) < 2000; n--) {
        static void (*const steps[])(Gen *, Sized *) = {set_size, turn, join, pad,
                                                        simple};
        steps[below(g, 5)](g, &s);
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
