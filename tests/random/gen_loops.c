/* Random loops: of any body, and along the rows of an array. */
#include <string.h>

#include "tests/random/nest.h"

/* What a body gets of a value that it changes: sums grow, and round, from step to step. */
static void carry(Value *v, const Value *start)
{
    moved(v, start, NULL);
    v->pure = is_int(v->type) || v->type == DT_PRED;
    if (v->pure)
        return;
    v->depth = start->depth < 1 ? 1 : start->depth;
    v->high = start->high < 10 ? 10 : start->high;
}

/* Facts of a loop's result from those of the last step's. */
static void leave(Value *v, const Value *last)
{
    v->special = last->special;
    v->pure = is_int(v->type) || v->type == DT_PRED;
    v->depth = v->pure ? 0 : v->special ? MAX_DEPTH : last->depth + 1;
    v->high = v->pure ? 2 : last->high + 4;
}

/* How a loop counts: i = start; while (i < limit) i += step. */
typedef struct Count {
    DType type;
    int64_t start, limit, step, trips;
    const char *direction; /* of compare(i, limit) */
    bool down;             /* i -= step */
    bool anywhere; /* the start is not known, but for its being above -9 or strange */
} Count;

static Count count_rows(int64_t trips)
{
    return (Count){DT_S32, 0, trips, 1, trips, "LT", false, false};
}

/* Counts that know their start: upwards or downwards, in any type, to a limit that the index
 * may jump over. */
static Count choose_count(Gen *g)
{
    static const DType types[] = {DT_S32, DT_S32, DT_S32, DT_S32, DT_S64,
                                  DT_U32, DT_S8,  DT_U8,  DT_S16, DT_U64};
    static const char *const ups[] = {"LT", "LT", "LE", "NE"};
    static const char *const downs[] = {"GT", "GT", "GE", "NE"};
    Count c = count_rows(below(g, 5));
    if (generate_plain || chance(g, 50))
        return c;
    c.type = types[below(g, 10)];
    c.step = chance(g, 60) ? 1 : 1 + below(g, 3);
    c.down = chance(g, 30);
    c.start = chance(g, 50) ? 0 : below(g, 5);
    c.limit = c.start + c.trips * c.step; /* where it stands at the end */
    int64_t slack = c.trips > 0 ? below(g, c.step) : 0;
    c.direction = (c.down ? downs : ups)[c.trips == 0 ? 0 : below(g, 4)];
    if (c.down) {
        int64_t low = c.start;
        c.start = c.limit;
        c.limit = low;
    }
    slack += c.direction[1] == 'E' && c.direction[0] != 'N';
    if (c.direction[0] != 'N')
        c.limit += c.down ? slack : -slack;
    return c;
}

/* A computation that asks whether there is another round. If it started anywhere, it runs few
 * rounds all the same. */
static void say_condition(Gen *g, Nest carried, const Count *c, char out[24])
{
    static const char *const turned[][2] = {
        {"LT", "GT"}, {"LE", "GE"}, {"GT", "LT"}, {"GE", "LE"}, {"NE", "NE"}};
    char shape[1024];
    Gen *test = begin(g);
    nest_shape(carried, shape);
    say(test, "  p = %s parameter(0)\n", shape);
    Value *i = say_element(test, carried, "p", 0, carried.items[0]);
    Value *limit = constant_scalar(test, c->type, (double)c->limit), *go = NULL;
    bool turns = chance(g, 15);
    for (int k = 0; k < 5 && go == NULL; k++) {
        if (strcmp(turned[k][0], c->direction) == 0)
            go = emit(test, DT_PRED, 0, NULL, "compare(%s, %s), direction=%s",
                      turns ? limit->name : i->name, turns ? i->name : limit->name,
                      turned[k][turns]);
    }
    if (c->anywhere) {
        Value *least = constant_scalar(test, DT_S32, -8);
        Value *sane = emit(test, DT_PRED, 0, NULL, "compare(%s, %s), direction=GE",
                           i->name, least->name);
        go = emit(test, DT_PRED, 0, NULL, "and(%s, %s)", go->name, sane->name);
    }
    finish(test, go, "condition", out);
}

static Value *next_index(Gen *body, const Value *i, const Count *c)
{
    Value *step = constant_scalar(body, c->type, (double)c->step);
    bool turns = !c->down && chance(body, 15);
    return emit(body, c->type, 0, NULL, "%s(%s, %s)", c->down ? "subtract" : "add",
                turns ? step->name : i->name, turns ? i->name : step->name);
}

/* "t = while(...)" of the nest `tuple`; the name goes to `tuple`. */
static void say_while(Gen *g, Nest carried, const char *condition, const char *body,
                      const Count *c, char tuple[24])
{
    char shape[1024];
    int id = g->shared->next_id++;
    nest_shape(carried, shape);
    say(g, "  t%d = %s while(%s), condition=%s, body=%s", id, shape, tuple, condition,
        body);
    if (!c->anywhere && !generate_plain && chance(g, 15))
        say(g, ", backend_config={\"known_trip_count\":{\"n\":\"%d\"}}", (int)c->trips);
    say(g, "\n");
    snprintf(tuple, 24, "t%d", id);
}

/* Begins a body: its parameter's items. */
static Gen *begin_body(Gen *g, Nest carried, bool counted, Value **out)
{
    char shape[1024];
    Gen *inner = begin(g);
    inner->uniform = g->uniform && counted;
    nest_shape(carried, shape);
    say(inner, "  p = %s parameter(0)\n", shape);
    for (int i = 0; i < carried.n; i++) {
        out[i] = say_element(inner, carried, "p", i, carried.items[i]);
        carry(out[i], carried.items[i]);
    }
    return inner;
}

void gen_while(Gen *g)
{
    Value *outer[4], *roots[4], *in[4], facts[4];
    char tuple[24], body[24], condition[24];
    int n = 1 + (int)below(g, 3);
    bool counted = chance(g, 70);
    Count c = counted ? choose_count(g) : count_rows(below(g, 5));
    c.anywhere = !counted;
    outer[0] = counted ? constant_scalar(g, c.type, (double)c.start) : scalar(g, DT_S32);
    for (int i = 1; i <= n; i++) {
        outer[i] = pick(g);
        if (!is_int(outer[i]->type) && outer[i]->type != DT_PRED && outer[i]->depth > 2)
            outer[i] = pick_class(g, "su");
    }
    Nest carried = make_nest(g, outer, n + 1);
    snprintf(tuple, sizeof tuple, "t%d", g->shared->next_id++);
    say_nest(g, carried, tuple, false);
    Gen *inner = begin_body(g, carried, counted, in);
    int first = g->shared->next_id;
    grow(inner, n + 3 + (int)below(g, 8));
    roots[0] = next_index(inner, in[0], &c);
    for (int i = 1; i <= n; i++) {
        roots[i] = find_result(inner, in[i], first, in[i]->depth);
        if (roots[i]->special && !in[i]->special)
            roots[i] = in[i];
    }
    for (int i = 0; i <= n; i++)
        facts[i] = *roots[i];
    finish_nest(inner, (Nest){roots, n + 1, carried.inner}, "body", body);
    say_condition(g, carried, &c, condition);
    say_while(g, carried, condition, body, &c, tuple);
    for (int i = 0; i <= n; i++)
        leave(say_element(g, carried, tuple, i, &facts[i]), &facts[i]);
}

/* Along the rows of an array. */
typedef struct Walk {
    Value row;
    int64_t one[MAX_RANK]; /* dimensions of a slice of one row */
    char zeros[64];        /* ", v1, v1": where it starts in the other dimensions */
    const char *at;
} Walk;

/* Which row it is, from the front or the back. */
static void choose_row(Gen *body, const Value *from, const Value *i, Walk *w)
{
    Value *nought = constant_scalar(body, DT_S32, 0);
    w->at = i->name;
    if (chance(body, 30)) {
        Value *last = constant_scalar(body, DT_S32, (double)from->dims[0] - 1);
        w->at =
            emit(body, DT_S32, 0, NULL, "subtract(%s, %s)", last->name, i->name)->name;
    }
    w->one[0] = 1;
    memcpy(w->one + 1, w->row.dims, sizeof w->one - sizeof *w->one);
    for (int k = 0; k < w->row.rank; k++)
        sprintf(w->zeros + strlen(w->zeros), ", %s", nought->name);
}

static Value *take_row(Gen *body, const Value *from, const Walk *w)
{
    char sizes[128];
    Value *slice = emit(body, from->type, from->rank, w->one,
                        "dynamic-slice(%s, %s%s), dynamic_slice_sizes={%s}", from->name,
                        w->at, w->zeros, list(w->one, from->rank, sizes));
    moved(slice, from, NULL);
    Value *x =
        emit(body, w->row.type, w->row.rank, w->row.dims, "reshape(%s)", slice->name);
    moved(x, from, NULL);
    return x;
}

static Value *put_row(Gen *body, const Value *to, const Value *x, const Walk *w)
{
    Value *slice = emit(body, to->type, to->rank, w->one, "reshape(%s)", x->name);
    moved(slice, x, NULL);
    Value *all =
        emit(body, to->type, to->rank, to->dims, "dynamic-update-slice(%s, %s, %s%s)",
             to->name, slice->name, w->at, w->zeros);
    moved(all, to, x);
    return all;
}

/* A loop over the rows of an array that makes a row of a result of each, and carries another
 * along. */
void gen_walk(Gen *g)
{
    Value *from = pick_rank(g, 1), *in[4];
    Walk w = {.row = {.type = from->type, .rank = from->rank - 1}};
    char tuple[24], body[24], condition[24];
    if (from->dims[0] < 1 || from->dims[0] > 9 || elements_of(from) > 512 ||
        from->special || from->depth > 2)
        return;
    memcpy(w.row.dims, from->dims + 1, sizeof w.row.dims - sizeof *w.row.dims);
    Value *zero = constant_scalar(g, from->type, 0);
    Value *items[4] = {constant_scalar(g, DT_S32, 0), from,
                       emit(g, from->type, from->rank, from->dims,
                            "broadcast(%s), dimensions={}", zero->name),
                       same_shape(g, &w.row, from->type)};
    if (items[3]->special || items[3]->depth > 2)
        return;
    Nest carried = {items, 4, 0};
    snprintf(tuple, sizeof tuple, "t%d", g->shared->next_id++);
    say_nest(g, carried, tuple, false);
    Gen *inner = begin_body(g, carried, true, in);
    moved(in[1], from, NULL); /* it stays as it is */
    choose_row(inner, from, in[0], &w);
    Value *x = take_row(inner, in[1], &w);
    int first = g->shared->next_id - 1;
    grow(inner, inner->count + 2 + (int)below(g, 7));
    Value *y = find_result(inner, &w.row, first, 3);
    Value *c = find_result(inner, &w.row, first, in[3]->depth);
    Value *out = put_row(inner, in[2], y->special ? x : y, &w);
    Count count = count_rows(from->dims[0]);
    Value *roots[4] = {next_index(inner, in[0], &count), in[1], out,
                       c->special ? in[3] : c};
    Value facts[2] = {*roots[2], *roots[3]};
    finish_nest(inner, (Nest){roots, 4, 0}, "row", body);
    say_condition(g, carried, &count, condition);
    say_while(g, carried, condition, body, &count, tuple);
    for (int i = 0; i < 2; i++)
        leave(say_element(g, carried, tuple, 2 + i, &facts[i]), &facts[i]);
}
