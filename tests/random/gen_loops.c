/* Random loops: of any body, along the rows of an array, and of elements that go their own ways. */
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

/* -- loops as users write them -------------------------------------------------------------------
 *
 * Elements go their own ways for a number of trips, with a row of an array taken and a row of another
 * filled in each (a scan), or until the data says that it is enough, for each element by itself (a
 * while under vmap) or for one. */

enum { MOST_CARRIED = 4, MOST_ITEMS = MOST_CARRIED + 4 };

/* What a loop carries: [0] how many trips were made or how many are left, then arrays of one shape. */
typedef struct Trips {
    Value *items[MOST_ITEMS], like; /* like: the shape of what elements are */
    int n, carried;                 /* items; [1 .. carried] change */
    int table, rows, filled; /* items: a row of which is read, taken, written; 0: none */
    int64_t trips;
    bool
        until; /* item 0 is an array: trips that each element still has, or each row of its first dimensions */
} Trips;

/* An array for a loop: one that there is, or one of more than a block. */
static Value *choose_array(Gen *g)
{
    if (!g->entry || chance(g, 70))
        return chance(g, 15) ? scalar(g, any_type(g)) : pick(g);
    int64_t dims[2] = {1 + below(g, 9), 100 + below(g, 1500)};
    bool flat = chance(g, 50);
    return small_argument(g, any_type(g), flat ? 1 : 2, flat ? dims + 1 : dims);
}

static Value *add_row(Gen *g, const Trips *t, DType type, bool is_new)
{
    Value all = {.type = type, .rank = t->like.rank + 1};
    all.dims[0] = t->trips;
    memcpy(all.dims + 1, t->like.dims, sizeof all.dims - sizeof *all.dims);
    if (!is_new)
        return fresh(g, type, all.rank, all.dims);
    Value *zero = constant_scalar(g, type, 0);
    return emit(g, type, all.rank, all.dims, "broadcast(%s), dimensions={}", zero->name);
}

/* May it be carried: nothing that is strange, few roundings behind it. */
static bool is_tame(const Value *v)
{
    return !v->special && v->depth <= 2 && elements_of(v) > 0 && !is_complex(v->type);
}

static Value *spread(Gen *g, const Value *like, DType type, int number)
{
    Value *s = constant_scalar(g, type, number);
    if (like->rank == 0)
        return s;
    Value *v =
        emit(g, type, like->rank, like->dims, "broadcast(%s), dimensions={}", s->name);
    moved(v, s, NULL);
    return v;
}

/* Sets what is carried; false: there is nothing of this kind. */
static bool choose_items(Gen *g, Trips *t)
{
    Value *first = choose_array(g);
    t->like = *first;
    t->trips = 1 + below(g, 6);
    t->until = first->rank < MAX_RANK && chance(g, 40);
    if (!is_tame(first) || elements_of(first) * t->trips > 20000)
        return false;
    if (t->until) {
        Value rows = t->like;
        if (rows.rank > 1 && chance(g, 50))
            rows.rank -= 1 + (int)below(g, rows.rank - 1);
        Value *given = g->entry ? small_argument(g, DT_S32, rows.rank, rows.dims)
                                : same_shape(g, &rows, DT_S32);
        Value *seven = spread(g, &rows, DT_S32, 7);
        t->items[0] = emit(g, DT_S32, rows.rank, rows.dims, "and(%s, %s)", given->name,
                           seven->name);
    } else {
        t->items[0] = constant_scalar(g, DT_S32, 0);
    }
    t->items[1] = first;
    t->n = 2;
    for (int more = (int)below(g, MOST_CARRIED - 1); more > 0; more--)
        t->items[t->n++] = same_shape(g, &t->like, any_type(g));
    t->carried = t->n - 1;
    if (chance(g, 40))
        t->items[t->table = t->n++] = same_shape(g, &t->like, any_type(g));
    if (!t->until && t->like.rank < MAX_RANK && chance(g, 60)) {
        t->items[t->rows = t->n++] = add_row(g, t, any_type(g), false);
        t->items[t->filled = t->n++] = add_row(g, t, first->type, true);
    }
    for (int i = 0; i < t->n; i++) {
        if (!is_tame(t->items[i]))
            return false;
    }
    return true;
}

/* Only what is computed for each element by itself. */
static void grow_elements(Gen *body, int n)
{
    static GenFn *const elements[] = {gen_unary,  gen_binary, gen_binary,  gen_compare,
                                      gen_select, gen_select, gen_convert, gen_bits};
    int end = body->count + n;
    for (int i = 0; i < 3 * n && body->count < end; i++)
        elements[below(body, 8)](body);
}

static Value *is_above_zero(Gen *g, const Value *left)
{
    Value *zero = spread(g, left, DT_S32, 0);
    return emit(g, DT_PRED, left->rank, left->dims, "compare(%s, %s), direction=GT",
                left->name, zero->name);
}

/* Is there an element that is not done? */
static void say_until(Gen *g, Nest carried, char out[24])
{
    char shape[1024], sizes[128];
    int64_t all[MAX_RANK] = {0, 1, 2, 3, 4, 5};
    Gen *test = begin(g);
    nest_shape(carried, shape);
    say(test, "  p = %s parameter(0)\n", shape);
    Value *go = is_above_zero(test, say_element(test, carried, "p", 0, carried.items[0]));
    if (go->rank > 0) {
        const char *any = reducer(test, DT_PRED, "or");
        Value *no = emit(test, DT_PRED, 0, NULL, "constant(false)");
        go = emit(test, DT_PRED, 0, NULL, "reduce(%s, %s), dimensions={%s}, to_apply=%s",
                  go->name, no->name, list(all, go->rank, sizes), any);
    }
    finish(test, go, "condition", out);
}

/* A value of the first dimensions of `like`. */
static Value *spread_rows(Gen *g, const Value *rows, const Value *like)
{
    char sizes[128];
    const int64_t first[MAX_RANK] = {0, 1, 2, 3, 4, 5};
    Value *v =
        emit(g, rows->type, like->rank, like->dims, "broadcast(%s), dimensions={%s}",
             rows->name, list(first, rows->rank, sizes));
    moved(v, rows, NULL);
    return v;
}

/* What a trip makes of item i; where an element is done it stays as it is. */
static Value *next_item(Gen *body, const Trips *t, Value **in, int i, const Value *going)
{
    Value *next = find_result(body, in[i], 0, in[i]->depth);
    if (next->special)
        return in[i];
    if (!t->until)
        return next;
    Value kept = *next;
    if (going->rank < kept.rank)
        going = spread_rows(body, going, &kept);
    Value *v = emit(body, kept.type, kept.rank, kept.dims, "select(%s, %s, %s)",
                    going->name, kept.name, in[i]->name);
    moved(v, &kept, in[i]);
    return v;
}

/* The body: its results, item by item. */
static void grow_trip(Gen *body, const Trips *t, Value **in, Value **roots)
{
    Walk w = {.row = t->like};
    Count count = count_rows(t->trips);
    Value *going = t->until ? is_above_zero(body, in[0]) : NULL;
    if (t->rows > 0) {
        w.row.type = in[t->rows]->type;
        choose_row(body, in[t->rows], in[0], &w);
        take_row(body, in[t->rows], &w);
    }
    grow_elements(body, 2 + (int)below(body, 9));
    for (int i = 0; i < t->n; i++)
        roots[i] = i > 0 && i <= t->carried ? next_item(body, t, in, i, going) : in[i];
    if (t->filled > 0) {
        Value row = t->like;
        row.type = in[t->filled]->type;
        Value *y = find_result(body, &row, 0, 3);
        roots[t->filled] = put_row(body, in[t->filled], y->special ? in[1] : y, &w);
    }
    if (!t->until) {
        roots[0] = next_index(body, in[0], &count);
        return;
    }
    Value *one = spread(body, in[0], DT_S32, 1);
    Value *less = emit(body, DT_S32, in[0]->rank, in[0]->dims, "subtract(%s, %s)",
                       in[0]->name, one->name);
    roots[0] = emit(body, DT_S32, in[0]->rank, in[0]->dims, "select(%s, %s, %s)",
                    going->name, less->name, in[0]->name);
}

void gen_trips(Gen *g)
{
    Trips t = {0};
    Value *in[MOST_ITEMS], *roots[MOST_ITEMS], facts[MOST_ITEMS];
    char tuple[24], body[24], condition[24];
    if (!choose_items(g, &t))
        return;
    Nest carried = {t.items, t.n, 0};
    Count count = count_rows(t.trips);
    count.anywhere = t.until; /* no known trip count */
    snprintf(tuple, sizeof tuple, "t%d", g->shared->next_id++);
    say_nest(g, carried, tuple, false);
    Gen *inner = begin_body(g, carried, !t.until, in);
    for (int i = t.carried + 1; i < t.n; i++)
        moved(in[i], t.items[i], NULL); /* they stay as they are */
    grow_trip(inner, &t, in, roots);
    for (int i = 0; i < t.n; i++)
        facts[i] = *roots[i];
    finish_nest(inner, (Nest){roots, t.n, 0}, "trip", body);
    if (t.until)
        say_until(g, carried, condition);
    else
        say_condition(g, carried, &count, condition);
    say_while(g, carried, condition, body, &count, tuple);
    for (int i = 1; i < t.n; i++) {
        if (i <= t.carried || i == t.filled)
            leave(say_element(g, carried, tuple, i, &facts[i]), &facts[i]);
    }
}
