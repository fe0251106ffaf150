/* Which positions of memory the threads of a warp ask for together, in the next trip of a loop, in the next warp
 * and in another block. Where the address moves by a constant from one to the next that follows from the
 * strides; else the index expression is evaluated for threads somewhere in the middle of the kernel. */
#include "ir/kernel/time/work_builder.h"

#include <string.h>

#include "ir/base/bug.h"
#include "ir/base/divide.h"

enum {
    LANES_MOST = 16,
    STEPS_SAMPLED = 4,                         /* of a loop */
    UNITS_MOST = TARGET_WARP * LANES_MOST * 2, /* positions */
    VARIABLES_MOST = 16, /* of an expression that is looked at for strides */
    STEPS_WALKED = 6,
    WARPS_WALKED = 4,
};

/* -- strides ------------------------------------------------------------------------------------------ */

/* The numbers of an expression's variables; false: there are too many. */
static bool find_variables(const IndexExpr *e, uint32_t *out, uint32_t *count)
{
    if (e->kind == IX_RUNTIME) {
        for (uint32_t i = 0; i < *count; i++) {
            if (out[i] == (uint32_t)e->value)
                return true;
        }
        if (*count == VARIABLES_MOST)
            return false;
        out[(*count)++] = (uint32_t)e->value;
        return true;
    }
    return (e->a == NULL || find_variables(e->a, out, count)) &&
           (e->b == NULL || find_variables(e->b, out, count));
}

/* What an address is moved by. */
typedef enum { NEXT_THREAD, NEXT_WARP, NEXT_STEP } Move;

static bool moves_by(WorkBuilder *b, const IndexExpr *e, Move move, uint32_t loop,
                     int64_t *out);

/* A coordinate's change; false: it is not the same everywhere. */
static bool coordinate_moves(const WorkCoordinate *c, Move move, int64_t *out)
{
    int64_t div = c->thread_div, mod = c->thread_mod;
    *out = 0;
    if (div == 0 || move == NEXT_STEP)
        return true;
    if (move == NEXT_THREAD) {
        *out = div == 1;
        return div % TARGET_WARP == 0 || (div == 1 && mod % TARGET_WARP == 0);
    }
    if (div == 1) {
        *out = mod == TARGET_WARP ? 0 : TARGET_WARP;
        return mod % TARGET_WARP == 0;
    }
    *out = div <= TARGET_WARP && mod != 1 ? TARGET_WARP / div : 0;
    return TARGET_WARP % div == 0 || div % TARGET_WARP == 0;
}

static bool variable_moves(WorkBuilder *b, const WorkVariable *v, Move move,
                           uint32_t loop, int64_t *out)
{
    *out = 0;
    switch (v->kind) {
    case WORK_COORDINATE:
        return coordinate_moves(&v->coordinate, move, out);
    case WORK_STEP:
        *out = move == NEXT_STEP && v->loop == loop;
        return true;
    case WORK_LANE:
        return true;
    case WORK_SEARCHED:
        return moves_by(b, v->key, move, loop, out);
    case WORK_DATA: /* the same as long as it is read at the same position */
        return moves_by(b, v->key, move, loop, out) && *out == 0;
    }
    return false;
}

/* By how much the expression's value changes, if that is the same everywhere. */
static bool moves_by(WorkBuilder *b, const IndexExpr *e, Move move, uint32_t loop,
                     int64_t *out)
{
    uint32_t variables[VARIABLES_MOST], count = 0;
    *out = 0;
    if (!find_variables(e, variables, &count))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        int64_t by, stride;
        if (!variable_moves(b, &b->variables[variables[i]], move, loop, &by))
            return false;
        if (by == 0)
            continue;
        if (!ix_stride(e, IX_RUNTIME, variables[i], &stride) ||
            __builtin_mul_overflow(by, stride, &by) ||
            __builtin_add_overflow(*out, by, out))
            return false;
    }
    return true;
}

/* -- samples ---------------------------------------------------------------------------------------- */

/* Where the kernel is looked at. */
typedef struct Sample {
    int64_t block, thread, lane;
    uint32_t loop; /* whose variable is `step`; those of others are in the middle */
    int64_t step;
    bool all_steps; /* `step` counts in all loops */
} Sample;

static int64_t clamped(int64_t v, Range r)
{
    return v < r.lo ? r.lo : v > r.hi ? r.hi : v;
}

/* The part of a coordinate that all threads of a block have. */
static int64_t block_value(const WorkCoordinate *c, const Sample *s)
{
    if (c->block_mul == 0)
        return 0;
    int64_t value = s->block / (c->block_div == 0 ? 1 : c->block_div);
    return (c->block_mod == 0 ? value : value % c->block_mod) * c->block_mul;
}

/* Any number of the range, the same for the same key. */
static int64_t random_value(uint64_t key, Range r)
{
    key = (key ^ (key >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    key = (key ^ (key >> 27)) * UINT64_C(0x94d049bb133111eb);
    uint64_t size = (uint64_t)r.hi - (uint64_t)r.lo + 1;
    return r.lo + (int64_t)((key >> 16) % (size == 0 ? 1 : size));
}

/* An expression's nodes, each behind what it is made of: evaluated for many threads. */
typedef struct Node {
    IxKind kind;
    bool
        has_thread; /* else its value is the same for all threads of a block, and kept once */
    uint32_t a,
        b; /* numbers of nodes; of a variable that was read or searched: a is its key */
    int64_t value; /* constant; number of the variable */
} Node;

struct WorkNodes {
    uint32_t count;
    Node node[];
};

/* Marks nodes by `stamp`: a node that is used twice is one. */
static uint32_t add_nodes(WorkBuilder *b, const IndexExpr *e, Node *nodes,
                          uint32_t *count)
{
    WorkIndex *slot = work_index(b, e);
    if (slot->stamp == b->stamp)
        return slot->node;
    Node n = {.kind = e->kind, .value = e->value};
    const IndexExpr *key = e->kind == IX_RUNTIME ? b->variables[e->value].key : e->a;
    if (e->kind == IX_RUNTIME)
        n.has_thread = b->variables[e->value].kind == WORK_COORDINATE &&
                       b->variables[e->value].coordinate.thread_div != 0;
    if (key != NULL) {
        n.a = add_nodes(b, key, nodes, count);
        n.has_thread |= nodes[n.a].has_thread;
    }
    if (e->b != NULL) {
        n.b = add_nodes(b, e->b, nodes, count);
        n.has_thread |= nodes[n.b].has_thread;
    }
    slot = work_index(b, e);
    slot->stamp = b->stamp;
    slot->node = *count;
    nodes[*count] = n;
    return (*count)++;
}

/* Upper bound of add_nodes, keys included. */
static uint32_t bound_nodes(const WorkBuilder *b, const IndexExpr *e)
{
    if (e->kind == IX_RUNTIME && b->variables[e->value].key != NULL)
        return 1 + bound_nodes(b, b->variables[e->value].key);
    return 1 + (e->a != NULL ? bound_nodes(b, e->a) : 0) +
           (e->b != NULL ? bound_nodes(b, e->b) : 0);
}

static struct WorkNodes *nodes_of(WorkBuilder *b, const IndexExpr *e)
{
    struct WorkNodes *n =
        arena_alloc(b->arena, sizeof *n + (size_t)bound_nodes(b, e) * sizeof(Node));
    b->stamp++;
    add_nodes(b, e, n->node, &n->count);
    return n;
}

/* Of what all threads of a block have, but for keys. */
static int64_t variable_value(const WorkVariable *v, uint32_t number, int64_t key,
                              const Sample *s)
{
    int64_t step = v->range.lo + (v->range.hi - v->range.lo) / 2;
    switch (v->kind) {
    case WORK_COORDINATE:
        return clamped(block_value(&v->coordinate, s), v->range);
    case WORK_STEP:
        if (s->all_steps || s->loop == v->loop)
            step = v->range.lo + s->step;
        return clamped(step, v->range);
    case WORK_LANE:
        return s->lane;
    case WORK_SEARCHED:
        return clamped(key, v->range);
    case WORK_DATA:
        break;
    }
    return random_value((uint64_t)key + number, v->range);
}

/* Threads that follow one another are looked at together. */
enum { TOGETHER = TARGET_WARP };

static void coordinate_values(const WorkVariable *v, const Sample *s, uint32_t count,
                              int64_t *out)
{
    const WorkCoordinate *c = &v->coordinate;
    int64_t base = block_value(c, s), div = c->thread_div, mod = c->thread_mod;
    int64_t thread = s->thread / div, left = div - s->thread % div;
    thread = mod == 0 ? thread : thread % mod;
    for (uint32_t t = 0; t < count; t++) {
        out[t] = clamped(base + thread, v->range);
        if (--left == 0) {
            left = div;
            thread = ++thread == mod ? 0 : thread;
        }
    }
}

/* A variable's values for `count` threads from the sample's on. */
static void variable_values(const WorkVariable *v, uint32_t number, const int64_t *keys,
                            const Sample *s, uint32_t count, int64_t *out)
{
    if (v->kind == WORK_COORDINATE && v->coordinate.thread_div != 0) {
        coordinate_values(v, s, count, out);
        return;
    }
    for (uint32_t t = 0; t < count; t++)
        out[t] = variable_value(v, number, keys[t], s);
}

/* Wraps as the numbers of the machine do: a sample may lie outside of every array. */
static int64_t wrapping_add(int64_t x, int64_t y)
{
    return (int64_t)((uint64_t)x + (uint64_t)y);
}

static int64_t wrapping_mul(int64_t x, int64_t y)
{
    return (int64_t)((uint64_t)x * (uint64_t)y);
}

/* Sums, of which one term may be the same for all threads. */
static void add_values(const Node *nodes, const Node *n, const int64_t *x,
                       const int64_t *y, uint32_t count, int64_t *out)
{
    if (!nodes[n->b].has_thread) {
        for (uint32_t t = 0; t < count; t++)
            out[t] = wrapping_add(x[t], *y);
    } else if (!nodes[n->a].has_thread) {
        for (uint32_t t = 0; t < count; t++)
            out[t] = wrapping_add(*x, y[t]);
    } else {
        for (uint32_t t = 0; t < count; t++)
            out[t] = wrapping_add(x[t], y[t]);
    }
}

/* Quotients or remainders by a constant, which is a power of two most often. */
static void divided_values(const Node *n, const int64_t *x, uint32_t count, int64_t *out)
{
    bool is_power = n->value > 0 && (n->value & (n->value - 1)) == 0;
    int shift = is_power ? __builtin_ctzll((uint64_t)n->value) : 0;
    if (is_power && n->kind == IX_MOD) {
        for (uint32_t t = 0; t < count; t++)
            out[t] = x[t] & (n->value - 1);
    } else if (is_power) {
        for (uint32_t t = 0; t < count; t++)
            out[t] = x[t] >> shift;
    } else if (n->kind == IX_MOD) {
        for (uint32_t t = 0; t < count; t++)
            out[t] =
                wrapping_add(x[t], wrapping_mul(floor_div(x[t], n->value), -n->value));
    } else {
        for (uint32_t t = 0; t < count; t++)
            out[t] = floor_div(x[t], n->value);
    }
}

/* What of a node its operands' values make for `count` threads; those of a node without threads: one. */
static void node_values(const WorkBuilder *b, const Node *nodes, const Node *n,
                        const Sample *s, uint32_t count, int64_t *out)
{
    const int64_t *x = b->values + (size_t)n->a * TOGETHER,
                  *y = b->values + (size_t)n->b * TOGETHER;
    switch (n->kind) {
    case IX_CONST:
        *out = n->value;
        return;
    case IX_RUNTIME:
        variable_values(&b->variables[n->value], (uint32_t)n->value, x, s, count, out);
        return;
    case IX_ADD:
        add_values(nodes, n, x, y, count, out);
        return;
    case IX_MUL:
        for (uint32_t t = 0; t < count; t++)
            out[t] = wrapping_mul(x[t], n->value);
        return;
    case IX_FLOORDIV:
    case IX_MOD:
        divided_values(n, x, count, out);
        return;
    case IX_DIM:
    case IX_SYMBOL:
        break;
    }
    bug("a sample has a variable that nobody bound");
}

/* The expression's values for *count threads, at most TOGETHER, from the sample's on. *count becomes 1 where all
 * threads of a block have the same. */
static const int64_t *values_at(WorkBuilder *b, const struct WorkNodes *nodes,
                                const Sample *s, uint32_t *count)
{
    size_t needed = (size_t)nodes->count * TOGETHER;
    if (needed > b->value_capacity)
        b->values = arena_grow(b->arena, b->values, &b->value_capacity, needed,
                               sizeof *b->values);
    for (uint32_t i = 0; i < nodes->count; i++)
        node_values(b, nodes->node, &nodes->node[i], s,
                    nodes->node[i].has_thread ? *count : 1,
                    b->values + (size_t)i * TOGETHER);
    if (!nodes->node[nodes->count - 1].has_thread)
        *count = 1;
    return b->values + (size_t)(nodes->count - 1) * TOGETHER;
}

static Sample middle_of(const WorkBuilder *b)
{
    return (Sample){.block = (int64_t)(b->blocks / 2), .loop = UINT32_MAX};
}

/* -- positions --------------------------------------------------------------------------------------------- */

/* Positions of memory, in units of `bytes`, each once. */
typedef struct Units {
    int64_t bytes;
    uint32_t count;
    int64_t unit[UNITS_MOST];
} Units;

static void units_clear(Units *u, double bytes)
{
    u->bytes = (int64_t)bytes;
    u->count = 0;
}

static void units_add(Units *u, int64_t unit)
{
    uint32_t at = 0, end = u->count;
    if (end > 0 && u->unit[end - 1] < unit) /* threads mostly walk upwards */
        at = end;
    while (at < end) {
        uint32_t middle = at + (end - at) / 2;
        if (u->unit[middle] < unit)
            at = middle + 1;
        else
            end = middle;
    }
    if ((at < u->count && u->unit[at] == unit) || u->count == UNITS_MOST)
        return;
    memmove(u->unit + at + 1, u->unit + at, (u->count - at) * sizeof *u->unit);
    u->unit[at] = unit;
    u->count++;
}

static void units_of_warp(WorkBuilder *b, WorkPattern *p, Sample s, Units *u)
{
    if (p->nodes == NULL)
        p->nodes = nodes_of(b, p->element);
    int64_t step = p->is_together ? u->bytes * 8 / p->bits : 1;
    for (int64_t lane = 0; lane < p->lanes + step - 1; lane += step) {
        uint32_t threads = b->threads < TARGET_WARP ? b->threads : TARGET_WARP;
        s.lane = lane < p->lanes ? lane : p->lanes - 1;
        const int64_t *at = values_at(b, p->nodes, &s, &threads);
        int64_t before = 0;
        for (uint32_t t = 0; t < threads; t++) {
            int64_t unit =
                floor_div((int64_t)((uint64_t)at[t] * (uint64_t)p->bits) / 8, u->bytes);
            if (t == 0 || unit != before)
                units_add(u, unit);
            before = unit;
        }
    }
}

/* Of two requests' sectors those that one would touch: 1 if both touch the same, 2 if none. */
static double together(WorkBuilder *b, WorkPattern *p, const Sample *x, const Sample *y)
{
    Units u;
    units_clear(&u, costs.sector_bytes);
    units_of_warp(b, p, *x, &u);
    uint32_t alone = u.count;
    units_of_warp(b, p, *y, &u);
    return alone == 0 ? 2 : (double)u.count / alone;
}

/* A warp's request as equal intervals of memory at equal distances. */
typedef struct Intervals {
    double count, bytes, stride;
} Intervals;

static double magnitude(double x)
{
    return x < 0 ? -x : x;
}

/* False: the threads' addresses are not so regular. */
static bool intervals_of(WorkBuilder *b, WorkPattern *p, Intervals *out)
{
    int64_t stride;
    if (!(p->lanes == 1 || p->is_together) ||
        !moves_by(b, p->element, NEXT_THREAD, 0, &stride))
        return false;
    double threads = b->threads < TARGET_WARP ? b->threads : TARGET_WARP;
    double bytes = (double)p->bits * p->lanes / 8;
    double distance = magnitude((double)stride * (double)p->bits / 8);
    *out = (Intervals){threads, bytes, distance};
    if (distance <= bytes) /* they touch: one */
        *out = (Intervals){1, distance * (threads - 1) + bytes, 0};
    return true;
}

static double units_of_bytes(double bytes, double unit)
{
    double n = bytes / unit, down = (double)(int64_t)n;
    return down < n ? down + 1 : down;
}

static double interval_units(const Intervals *i, double unit)
{
    double each = units_of_bytes(i->bytes, unit);
    double all = units_of_bytes(i->stride * (i->count - 1) + i->bytes, unit);
    return smaller(i->count * each, all);
}

/* -- the calls -------------------------------------------------------------------------------------------- */

double pattern_units(WorkBuilder *b, WorkPattern *p, double bytes)
{
    Intervals i;
    if (intervals_of(b, p, &i))
        return interval_units(&i, bytes);
    Units u;
    Sample middle = middle_of(b);
    units_clear(&u, bytes);
    units_of_warp(b, p, middle, &u);
    return u.count;
}

/* Of `n` requests, each moved by so many bytes against the one before, what part touches new sectors. */
static double new_of_moved(const Intervals *i, int64_t elements, int64_t bits, double n)
{
    Intervals all = *i;
    double shift = magnitude((double)elements * (double)bits / 8);
    double one = interval_units(i, costs.sector_bytes);
    if (shift >= i->bytes && (i->count == 1 || i->stride >= shift * n))
        return smaller(
            units_of_bytes(shift, costs.sector_bytes) * n * i->count / (one * n), 1);
    all.bytes += shift * (n - 1);
    return smaller(interval_units(&all, costs.sector_bytes) / (one * n), 1);
}

static double new_by_step(WorkBuilder *b, WorkPattern *p, uint32_t loop, double sectors)
{
    const WorkLoop *l = &b->loops[loop];
    int64_t steps = l->trips < STEPS_SAMPLED ? (int64_t)l->trips : STEPS_SAMPLED, by;
    Intervals i;
    if (loop == 0 || steps < 2 || sectors == 0)
        return 1;
    if (intervals_of(b, p, &i) && moves_by(b, p->element, NEXT_STEP, loop, &by))
        return new_of_moved(&i, by, p->bits, l->trips < 8 ? l->trips : 8);
    Sample s = middle_of(b);
    Units u;
    units_clear(&u, costs.sector_bytes);
    s.loop = loop;
    for (s.step = 0; s.step < steps; s.step++)
        units_of_warp(b, p, s, &u);
    return smaller(u.count / (sectors * (double)steps), 1);
}

static double new_by_warp(WorkBuilder *b, WorkPattern *p)
{
    Intervals i;
    int64_t by;
    if (b->warps < 2)
        return 1;
    if (intervals_of(b, p, &i) && moves_by(b, p->element, NEXT_WARP, 0, &by))
        return new_of_moved(&i, by, p->bits, b->warps);
    Sample x = middle_of(b), y = x;
    y.thread = TARGET_WARP;
    double more = together(b, p, &x, &y) - 1;
    return (1 + (b->warps - 1) * (more < 0 ? 0 : smaller(more, 1))) / b->warps;
}

/* Distinct positions of `steps` trips by `warps` warps that walk on by constants; 0: they do not. */
static double walked_positions(WorkBuilder *b, WorkPattern *p, uint32_t loop,
                               int64_t steps, int64_t warps)
{
    int64_t step, warp;
    Intervals i;
    Units u;
    if (!intervals_of(b, p, &i) || !moves_by(b, p->element, NEXT_STEP, loop, &step) ||
        !moves_by(b, p->element, NEXT_WARP, 0, &warp))
        return 0;
    if (step == 0 || warp == 0) /* looked at by themselves */
        return (double)(steps * warps);
    units_clear(&u, 1);
    for (int64_t s = 0; s < steps; s++) {
        for (int64_t w = 0; w < warps; w++)
            units_add(&u, (int64_t)((uint64_t)s * (uint64_t)step +
                                    (uint64_t)w * (uint64_t)warp));
    }
    return u.count;
}

/* The same by looking at their sectors, of which there are not too many: in parts of one request's. */
static double sampled_positions(WorkBuilder *b, WorkPattern *p, uint32_t loop,
                                int64_t steps, int64_t warps)
{
    Units u;
    Sample s = middle_of(b);
    units_clear(&u, costs.sector_bytes);
    s.loop = loop;
    for (s.step = 0; s.step < steps; s.step++) {
        for (int64_t w = 0; w < warps; w++) {
            s.thread = w * TARGET_WARP;
            units_of_warp(b, p, s, &u);
        }
    }
    return u.count;
}

/* Warps side by side that walk on come to where others were. */
static double new_by_both(WorkBuilder *b, WorkPattern *p, uint32_t loop, double sectors)
{
    int64_t warps = b->warps < WARPS_WALKED ? b->warps : WARPS_WALKED;
    int64_t steps = loop == 0 ? 1 : (int64_t)smaller(b->loops[loop].trips, STEPS_WALKED);
    if (warps < 2 || steps < 2 || sectors == 0)
        return 1;
    double positions = walked_positions(b, p, loop, steps, warps);
    bool is_random = work_index(b, p->element)->is_random;
    if (positions == 0 && (is_random || sectors * (double)(steps * warps) > UNITS_MOST))
        return 1;
    if (positions == 0)
        positions = sampled_positions(b, p, loop, steps, warps) / sectors;
    return smaller(positions / (double)(steps * warps), 1);
}

double pattern_new(WorkBuilder *b, WorkPattern *p, uint32_t loop, double sectors)
{
    double each = new_by_step(b, p, loop, sectors) * new_by_warp(b, p);
    return each < 1 ? each : new_by_both(b, p, loop, sectors);
}

/* Sectors that a block's requests touch in a loop's first trips, in order: of all that are looked at but the last;
 * then of that one. */
struct WorkTrips {
    uint32_t before, last;
    int64_t unit[];
};

static void units_of_trip(WorkBuilder *b, WorkPattern *p, Sample s, Units *u)
{
    for (uint32_t w = 0; w < b->warps; w++) {
        s.thread = (int64_t)w * TARGET_WARP;
        units_of_warp(b, p, s, u);
    }
}

static const struct WorkTrips *trips_of(WorkBuilder *b, WorkPattern *p, uint32_t loop,
                                        int64_t steps)
{
    Units before, last;
    Sample s = middle_of(b);
    if (p->walked != NULL)
        return p->walked;
    units_clear(&before, costs.sector_bytes);
    units_clear(&last, costs.sector_bytes);
    s.loop = loop;
    for (s.step = 0; s.step < steps; s.step++)
        units_of_trip(b, p, s, s.step < steps - 1 ? &before : &last);
    struct WorkTrips *t = arena_alloc(
        b->arena, sizeof *t + (size_t)(before.count + last.count) * sizeof *t->unit);
    t->before = before.count;
    t->last = last.count;
    memcpy(t->unit, before.unit, before.count * sizeof *t->unit);
    memcpy(t->unit + before.count, last.unit, last.count * sizeof *t->unit);
    p->walked = t;
    return t;
}

/* Adds those of a list, which are in order. */
static void units_join(Units *u, const int64_t *unit, uint32_t count)
{
    Units x;
    uint32_t i = 0, k = 0;
    units_clear(&x, (double)u->bytes);
    while ((i < u->count || k < count) && x.count < UNITS_MOST) {
        bool is_own = k == count || (i < u->count && u->unit[i] <= unit[k]);
        int64_t next = is_own ? u->unit[i] : unit[k];
        k += k < count && unit[k] == next;
        i += is_own;
        x.unit[x.count++] = next;
    }
    memcpy(u->unit, x.unit, x.count * sizeof *x.unit);
    u->count = x.count;
}

static void units_join_trips(Units *u, const struct WorkTrips *t, bool with_last)
{
    units_join(u, t->unit, t->before);
    if (with_last)
        units_join(u, t->unit + t->before, t->last);
}

/* Sectors of `p` in the trips that were looked at, the last one too or not; *added: those that no other one touches;
 * *all: of all of them. */
static double count_beside(const WorkPattern *p, const WorkPattern *others,
                           uint32_t count, bool with_last, double *added, double *all)
{
    Units u;
    units_clear(&u, costs.sector_bytes);
    units_join_trips(&u, p->walked, with_last);
    double own = u.count;
    units_clear(&u, costs.sector_bytes);
    for (uint32_t i = 0; i < count; i++)
        units_join_trips(&u, others[i].walked, with_last);
    double before = u.count;
    units_join_trips(&u, p->walked, with_last);
    *added = u.count - before;
    *all = u.count;
    return own;
}

double pattern_beside(WorkBuilder *b, WorkPattern *p, WorkPattern *others, uint32_t count,
                      uint32_t loop, double sectors, double l1)
{
    int64_t trips = loop == 0 ? 1 : (int64_t)b->loops[loop].trips;
    int64_t steps = trips < STEPS_SAMPLED ? trips : STEPS_SAMPLED;
    if (steps < 1 || sectors * (double)steps * b->warps * (count + 1) > UNITS_MOST)
        return 1;
    trips_of(b, p, loop, steps);
    for (uint32_t i = 0; i < count; i++)
        trips_of(b, &others[i], loop, steps);
    double added, less, all, more = 0;
    double own = count_beside(p, others, count, true, &added, &all);
    if (all * costs.sector_bytes * smaller(2 / (double)steps, 1) > l1)
        return 1;
    if (trips > steps) { /* each further one as the last */
        more = (double)(trips - steps);
        double shorter = count_beside(p, others, count, false, &less, &all);
        added += more * (added - less);
        own += more * (own - shorter);
    }
    return own == 0 ? 1 : smaller(added / own, 1);
}

bool pattern_meets(WorkBuilder *b, WorkPattern *p, int64_t distance)
{
    Sample x = middle_of(b), y = x;
    y.block += distance;
    return (double)y.block < b->blocks && together(b, p, &x, &y) < 2;
}

bool pattern_same(WorkBuilder *b, const IndexExpr *x, const IndexExpr *y)
{
    Sample s = middle_of(b);
    const struct WorkNodes *first = nodes_of(b, x), *second = nodes_of(b, y);
    s.all_steps = true;
    for (s.step = 0; s.step < 2; s.step++) {
        uint32_t one = 1;
        int64_t x_at = *values_at(b, first, &s, &one);
        if (x_at != *values_at(b, second, &s, &one))
            return false;
    }
    return true;
}
