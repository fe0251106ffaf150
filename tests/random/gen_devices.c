/* Random collectives and asynchronous pairs. Collectives stand only where all devices come equally often: control flow may
 * differ from device to device. */
#include <string.h>

#include "tests/random/value.h"

/* Who talks to whom: groups of equal size, and what has to be said of them. */
typedef struct Groups {
    char text[200]; /* ", replica_groups=..., channel_id=..." */
    int size;       /* devices of a group */
    int ids;        /* how many there are: replicas, partitions or all devices */
    bool flat;      /* ids count all devices */
    bool both;      /* ids count replicas; a group has all partitions of each */
    bool channel;   /* ids are partitions, or one of the above */
} Groups;

static void print_groups(Gen *g, Groups *x)
{
    int order[8];
    for (int i = 0; i < x->ids; i++) {
        int at = (int)below(g, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    int at = 0;
    if (chance(g, 30) && x->size == x->ids && !x->flat) {
        snprintf(x->text, sizeof x->text, ", replica_groups={}");
        return;
    }
    if (chance(g, 15) && x->ids == 4) {
        snprintf(x->text, sizeof x->text, ", replica_groups=mesh['a'=2,'b'=2] {%s}",
                 x->size == 4    ? "'a','b'"
                 : chance(g, 50) ? "'a'"
                                 : "'b'");
        return;
    }
    if (chance(g, 30)) { /* iota */
        bool turned = x->size != x->ids && chance(g, 50);
        at = snprintf(x->text, sizeof x->text, ", replica_groups=[%d,%d]<=[%d",
                      x->ids / x->size, x->size, turned ? x->size : x->ids);
        snprintf(x->text + at, sizeof x->text - (size_t)at, turned ? ",%d]T(1,0)" : "]",
                 x->ids / x->size);
        return;
    }
    at = snprintf(x->text, sizeof x->text, ", replica_groups={");
    for (int i = 0; i < x->ids; i++)
        at += snprintf(x->text + at, sizeof x->text - (size_t)at, "%s%d%s",
                       i % x->size == 0 ? (i ? ",{" : "{") : ",", order[i],
                       i % x->size == x->size - 1 ? "}" : "");
    snprintf(x->text + at, sizeof x->text - (size_t)at, "}");
}

/* may_be_flat: the operation knows use_global_device_ids. */
static bool choose_groups(Gen *g, bool may_be_flat, Groups *x)
{
    Shared *s = g->shared;
    *x = (Groups){.ids = 1};
    if (s->replicas * s->partitions == 1)
        return false;
    x->flat = may_be_flat && chance(g, 50);
    x->channel = x->flat || s->replicas == 1 ||
                 (!may_be_flat && s->partitions > 1 && chance(g, 50));
    if (may_be_flat && !x->flat && (x->channel || chance(g, 15)))
        x->both = x->channel = true; /* what a channel means without the flag */
    x->ids = x->flat                  ? s->replicas * s->partitions
             : x->channel && !x->both ? s->partitions
                                      : s->replicas;
    if (x->ids == 1 && !x->both)
        return false;
    x->size = x->ids == 4 && chance(g, 50) ? 2 : x->ids;
    print_groups(g, x);
    x->size *= x->both ? s->partitions : 1;
    size_t at = strlen(x->text);
    if (x->channel)
        snprintf(x->text + at, sizeof x->text - at, ", channel_id=%d%s", ++s->channels,
                 x->flat ? ", use_global_device_ids=true" : "");
    return true;
}

/* "add.2 = shape op(x), attributes", or the pair of start and done; `pair` is the start's shape. */
static Value *emit_collective(Gen *g, const Value *a, const int64_t *dims, const char *op,
                              const char *attributes, bool may_pair)
{
    char in[128];
    char out[128];
    Value like = *a;
    memcpy(like.dims, dims, sizeof like.dims);
    shape_of(a, in);
    shape_of(&like, out);
    if (!may_pair || chance(g, 60))
        return emit(g, a->type, a->rank, dims, "%s(%s)%s", op, a->name, attributes);
    int id = g->shared->next_id++;
    bool native = strcmp(op, "all-gather") == 0 || strcmp(op, "collective-permute") == 0;
    if (strcmp(op, "all-reduce") == 0)
        say(g, "  t%d = %s %s-start(%s)%s\n", id, out, op, a->name, attributes);
    else if (native)
        say(g, "  t%d = (%s, %s) %s-start(%s)%s\n", id, in, out, op, a->name, attributes);
    else
        say(g, "  t%d = ((%s), %s) %s-start(%s)%s\n", id, in, out, op, a->name,
            attributes);
    return emit(g, a->type, a->rank, dims, "%s-done(t%d)", op, id);
}

static const char *combination(Gen *g, const Value *a)
{
    static const char *const floats[] = {"add", "add", "maximum", "minimum"};
    static const char *const ints[] = {"add", "add", "maximum", "minimum",
                                       "and", "or",  "xor",     "multiply"};
    static const char *const preds[] = {"or", "and", "xor"};
    return a->type == DT_PRED ? preds[below(g, 3)]
           : is_int(a->type)  ? ints[below(g, 8)]
                              : floats[below(g, 4)];
}

static void all_reduce(Gen *g, Value *a)
{
    const char *op = combination(g, a);
    Groups x;
    char text[400];
    if (!can_reduce(a, op) || is_complex(a->type) || !choose_groups(g, true, &x))
        return;
    bool scatter = a->rank > 0 && chance(g, 40);
    int d = scatter ? (int)below(g, a->rank) : 0;
    int64_t dims[MAX_RANK];
    memcpy(dims, a->dims, sizeof dims);
    scatter = scatter && a->dims[d] % x.size == 0;
    if (scatter)
        dims[d] /= x.size;
    int at =
        snprintf(text, sizeof text, "%s, to_apply=%s", x.text, reducer(g, a->type, op));
    if (scatter)
        snprintf(text + at, sizeof text - (size_t)at, ", dimensions={%d}", d);
    Value *v = emit_collective(g, a, dims, scatter ? "reduce-scatter" : "all-reduce",
                               text, true);
    reduced(v, a, op, x.size);
}

/* Two arrays by one operation. */
static void pair(Gen *g, Value *a)
{
    static const char *const ops[] = {"all-reduce", "all-gather", "reduce-scatter"};
    const char *op = ops[below(g, 3)], *how = combination(g, a);
    Groups x;
    char in[2][128], out[2][128], text[300] = "";
    bool reduces = strcmp(op, "all-gather") != 0, moves = strcmp(op, "all-reduce") != 0;
    Value *b = same_shape(g, a, reduces ? a->type : any_type(g));
    if ((reduces &&
         (!can_reduce(a, how) || !can_reduce(b, how) || is_complex(a->type))) ||
        a->rank < moves || !choose_groups(g, true, &x))
        return;
    int d = moves ? (int)below(g, a->rank) : 0;
    Value facts[2] = {*a, *b};
    for (int i = 0; i < 2; i++) {
        shape_of(&facts[i], in[i]);
        if (moves && !reduces)
            facts[i].dims[d] *= x.size;
        else if (moves && facts[i].dims[d] % x.size != 0)
            return;
        else if (moves)
            facts[i].dims[d] /= x.size;
        shape_of(&facts[i], out[i]);
    }
    int at = reduces ? sprintf(text, ", to_apply=%s", reducer(g, a->type, how)) : 0;
    if (moves)
        sprintf(text + at, ", dimensions={%d}", d);
    int id = g->shared->next_id++;
    if (chance(g, 60))
        say(g, "  t%d = (%s, %s) %s(%s, %s)%s%s\n", id, out[0], out[1], op, a->name,
            b->name, x.text, text);
    else if (!moves)
        say(g, "  t%ds = (%s, %s) %s-start(%s, %s)%s%s\n  t%d = (%s, %s) %s-done(t%ds)\n",
            id, out[0], out[1], op, a->name, b->name, x.text, text, id, out[0], out[1],
            op, id);
    else
        say(g,
            "  t%ds = ((%s, %s), (%s, %s)) %s-start(%s, %s)%s%s\n"
            "  t%d = (%s, %s) %s-done(t%ds)\n",
            id, in[0], in[1], out[0], out[1], op, a->name, b->name, x.text, text, id,
            out[0], out[1], op, id);
    for (int i = 0; i < 2; i++) {
        Value *v = emit(g, facts[i].type, facts[i].rank, facts[i].dims,
                        "get-tuple-element(t%d), index=%d", id, i);
        if (reduces)
            reduced(v, &facts[i], how, x.size);
        else
            moved(v, &facts[i], NULL);
    }
}

/* Each device sends array i to device i of its group. */
static void swap(Gen *g, Value *a)
{
    Groups x;
    char shape[128], operands[200] = "", shapes[600] = "";
    if (!choose_groups(g, false, &x))
        return;
    Value facts = *a;
    shape_of(a, shape);
    for (int i = 0; i < x.size; i++) {
        Value *v = i == 0 ? a : same_shape(g, a, a->type);
        Value old = facts;
        moved(&facts, &old, v);
        sprintf(operands + strlen(operands), "%s%s", i ? ", " : "", v->name);
        sprintf(shapes + strlen(shapes), "%s%s", i ? ", " : "", shape);
    }
    int id = g->shared->next_id++;
    say(g, "  t%d = (%s) all-to-all(%s)%s\n", id, shapes, operands, x.text);
    for (int i = 0; i < x.size; i++) {
        Value *v =
            emit(g, a->type, a->rank, a->dims, "get-tuple-element(t%d), index=%d", id, i);
        moved(v, &facts, NULL);
    }
}

static void move(Gen *g, Value *a)
{
    Groups x;
    char text[400];
    int64_t dims[MAX_RANK];
    memcpy(dims, a->dims, sizeof dims);
    int d = a->rank > 0 ? (int)below(g, a->rank) : 0;
    int kind = (int)below(g, 4);
    Value *v = NULL;
    if (kind == 0 && a->rank > 0 && choose_groups(g, true, &x)) {
        dims[d] *= x.size;
        snprintf(text, sizeof text, "%s, dimensions={%d}", x.text, d);
        v = emit_collective(g, a, dims, "all-gather", text, true);
    } else if (kind == 1 && a->rank > 0 && choose_groups(g, false, &x) &&
               a->dims[d] % x.size == 0) {
        snprintf(text, sizeof text, "%s, dimensions={%d}", x.text, d);
        v = emit_collective(g, a, dims, "all-to-all", text, true);
    } else if (kind == 2 && choose_groups(g, false, &x)) {
        v = emit_collective(g, a, dims, "collective-broadcast", x.text, false);
    } else if (kind == 3 && choose_groups(g, false, &x)) {
        int shift = 1 + (int)below(g, x.ids - 1), at = 0;
        int count = chance(g, 60) ? x.ids : (int)below(g, x.ids + 1);
        at = snprintf(text, sizeof text, ", source_target_pairs={");
        for (int i = 0; i < count; i++)
            at += snprintf(text + at, sizeof text - (size_t)at, "%s{%d,%d}", i ? "," : "",
                           i, (i + shift) % x.ids);
        at += snprintf(text + at, sizeof text - (size_t)at, "}");
        if (x.channel)
            snprintf(text + at, sizeof text - (size_t)at, ", channel_id=%d",
                     g->shared->channels);
        v = emit_collective(g, a, dims, "collective-permute", text, true);
    }
    if (v == NULL)
        return;
    moved(v, a, NULL);
    v->pure = v->pure && kind != 3;
}

/* Rows of each device to offsets of their own on every other. */
static void ragged(Gen *g, Value *a)
{
    bool partitions =
        g->shared->partitions > 1 && (g->shared->replicas == 1 || chance(g, 50));
    int n = partitions ? g->shared->partitions : g->shared->replicas;
    if (a->rank == 0 || a->dims[0] < n)
        return;
    int64_t each = a->dims[0] / n, sent = 1 + below(g, each), count = n;
    int64_t offsets[4], sizes[4];
    char text[2][128], groups[80] = "";
    for (int i = 0; i < n; i++) {
        offsets[i] = i * each;
        sizes[i] = sent;
        sprintf(groups + strlen(groups), "%s%d", i ? "," : "", i);
    }
    if (partitions)
        sprintf(groups + strlen(groups), "}}, channel_id=%d", ++g->shared->channels);
    else
        strcat(groups, "}}");
    Value *out = same_shape(g, a, a->type);
    Value *from = emit(g, DT_S32, 1, &count, "constant({%s})", list(offsets, n, text[0]));
    Value *size = emit(g, DT_S32, 1, &count, "constant({%s})", list(sizes, n, text[1]));
    Value *id = emit(g, DT_U32, 0, NULL, partitions ? "partition-id()" : "replica-id()");
    Value *own = emit(g, DT_S32, 0, NULL, "convert(%s)", id->name);
    Value *step = constant_scalar(g, DT_S32, (double)each);
    Value *offset = emit(g, DT_S32, 0, NULL, "multiply(%s, %s)", own->name, step->name);
    Value *to = emit(g, DT_S32, 1, &count, "broadcast(%s), dimensions={}", offset->name);
    Value *v =
        emit(g, a->type, a->rank, a->dims,
             "ragged-all-to-all(%s, %s, %s, %s, %s, %s), replica_groups={{%s", a->name,
             out->name, from->name, size->name, to->name, size->name, groups);
    moved(v, a, out);
}

/* To the next device, if it is not the last; the others have zeros. */
static void send(Gen *g, Value *a)
{
    int n = g->shared->replicas * g->shared->partitions, at = 0;
    if (g->shared->replicas > 1 && g->shared->partitions > 1)
        return;
    char shape[128], pairs[64] = "";
    for (int i = 0; i + 1 < n; i++)
        at += snprintf(pairs + at, sizeof pairs - (size_t)at, "%s{%d,%d}", i ? "," : "",
                       i, i + 1);
    int id = g->shared->next_id++, channel = ++g->shared->channels;
    shape_of(a, shape);
    say(g, "  t%d = token[] after-all()\n", id);
    say(g,
        "  t%dr = (%s, u32[], token[]) recv(t%d), channel_id=%d, "
        "frontend_attributes={_xla_send_recv_source_target_pairs=\"{%s}\"}\n",
        id, shape, id, channel, pairs);
    say(g,
        "  t%ds = (%s, u32[], token[]) send(%s, t%d), channel_id=%d, "
        "frontend_attributes={_xla_send_recv_source_target_pairs=\"{%s}\"}, "
        "control-predecessors={t%dr}\n",
        id, shape, a->name, id, channel, pairs, id);
    say(g,
        "  t%dd = (%s, token[]) recv-done(t%dr), channel_id=%d, "
        "control-predecessors={t%ds}\n",
        id, shape, id, channel, id);
    say(g,
        "  t%de = token[] send-done(t%ds), channel_id=%d, control-predecessors={t%dd}\n",
        id, id, channel, id);
    Value *v = emit(g, a->type, a->rank, a->dims, "get-tuple-element(t%dd), index=0", id);
    moved(v, a, NULL);
    v->pure = false;
}

void gen_collective(Gen *g)
{
    Value *a;
    if (!g->uniform || g->shared->replicas * g->shared->partitions == 1)
        return;
    a = pick(g);
    if (elements_of(a) * 4 > g->shared->most_elements)
        return;
    static void (*const kinds[])(Gen *, Value *) = {
        all_reduce, all_reduce, all_reduce, move, move, move, pair, swap, ragged, send};
    kinds[below(g, 10)](g, a);
}

void gen_device_id(Gen *g)
{
    if (g->shared->replicas * g->shared->partitions > 1)
        emit(g, DT_U32, 0, NULL, chance(g, 50) ? "partition-id()" : "replica-id()");
}

/* "op-start" and "op-done" of what moves elements. */
static void moving_pair(Gen *g, Value *a, int id)
{
    static const char *const ops[] = {"transpose", "reverse", "broadcast", "concatenate"};
    int kind = (int)below(g, 4), rank = a->rank;
    int64_t dims[MAX_RANK], order[MAX_RANK];
    char in[128], out[128], text[128], second[64] = "", second_shape[140] = "";
    memcpy(dims, a->dims, sizeof dims);
    for (int i = 0; i < rank; i++) {
        int at = (int)below(g, i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    if ((kind == 1 || kind == 3) && rank == 0)
        return;
    if (kind == 0) {
        for (int i = 0; i < rank; i++)
            dims[i] = a->dims[order[i]];
    } else if (kind == 2) {
        if (rank == MAX_RANK || elements_of(a) * 2 > g->shared->most_elements)
            return;
        memmove(dims + 1, dims, sizeof dims - sizeof *dims);
        dims[0] = 2;
        for (int i = 0; i < a->rank; i++)
            order[i] = i + 1;
        rank++;
    }
    Value *b = kind == 3 ? same_shape(g, a, a->type) : NULL;
    Value facts = *a;
    shape_of(a, in);
    if (b != NULL) {
        dims[order[0]] *= 2;
        snprintf(second, sizeof second, ", %s", b->name);
        snprintf(second_shape, sizeof second_shape, ", %s", in);
    }
    Value like = {.type = a->type, .rank = rank};
    memcpy(like.dims, dims, sizeof dims);
    shape_of(&like, out);
    say(g, "  t%d = ((%s%s), %s) %s-start(%s%s), dimensions={%s}\n", id, in, second_shape,
        out, ops[kind], a->name, second,
        list(order, kind == 1 || kind == 3 ? 1 : a->rank, text));
    Value *v = emit(g, a->type, rank, dims, "%s-done(t%d)", ops[kind], id);
    moved(v, &facts, b);
}

/* Pairs of other operations, which run beside the program or at once. */
void gen_async(Gen *g)
{
    if (!g->entry)
        return;
    Value *a = pick(g);
    char shape[128];
    shape_of(a, shape);
    int id = g->shared->next_id++;
    Value *v;
    if (a->layout[0] == '\0' && chance(g, 40)) {
        say(g, "  t%d = (%s, %s, u32[]) copy-start(%s)\n", id, shape, shape, a->name);
        v = emit(g, a->type, a->rank, a->dims, "copy-done(t%d)", id);
        moved(v, a, NULL);
        return;
    }
    if (chance(g, 50)) {
        moving_pair(g, a, id);
        return;
    }
    Value *b = same_shape(g, a, a->type);
    if (!is_arithmetic(a->type) || is_complex(a->type))
        return;
    fprintf(g->shared->head,
            "side%d {\n  a = %s parameter(0)\n  b = %s parameter(1)\n"
            "  ROOT r = %s maximum(a, b)\n}\n",
            id, shape, shape, shape);
    bool late = chance(g, 30);
    say(g, "  t%d = ((%s, %s), %s) async-start(%s, %s), calls=side%d\n", id, shape, shape,
        shape, a->name, b->name, id);
    if (late)
        say(g, "  t%du = ((%s, %s), %s) async-update(t%d)\n", id, shape, shape, shape,
            id);
    v = emit(g, a->type, a->rank, a->dims, "async-done(t%d%s)", id, late ? "u" : "");
    moved(v, a, b);
    v->pure = !is_float(a->type);
}
