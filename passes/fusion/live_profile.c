/* Live bytes along an order of execution.
 *
 *   a  b  c(a)  d(b)  e                a and e as one kernel: at e's position, c behind it
 *   live:  a's operands until e, a's result only from there on
 *
 * A slot is a position in the order. Kernels that are joined share a slot, and so does what has to wait for
 * them. A tree over the slots adds to ranges of them and knows the largest sum, so that a join costs
 * n log n of the buffers that it touches; where it is refused, a journal takes all back. Ranges of what
 * comes earlier are not shortened, so that the sums are a little too large rather than too small.
 *
 * Two kernels as one make what one of them reads, or what it makes, live for longer: across the layers of a
 * network that is most of the memory. Joins are refused where more than the order's own most would live. */
#include "passes/fusion/live_profile.h"

#include "ir/analysis/alias.h"

#define WAITING_MOST 32 /* kernels that wait for one to move */
#define SLACK_BYTES (INT64_C(1) << 20)
#define SLACK_PART 64 /* of the most that lives */

typedef struct BufferRange {
    uint32_t begin, end; /* slots, inclusive */
    int64_t bytes;
} BufferRange;

typedef struct SpanAdded {
    uint32_t first, last;
    int64_t bytes;
} SpanAdded;

typedef struct RangeChange {
    uint32_t buffer;
    BufferRange was;
} RangeChange;

typedef struct SlotChange {
    uint32_t instruction, was;
} SlotChange;

struct LiveProfile {
    const Graph *g;
    Arena *arena;
    uint32_t *slot;      /* [instructions] */
    uint32_t *next;      /* [instructions] rings of those that are one kernel */
    BufferRange *ranges; /* [buffers] */
    uint32_t leaves;     /* of the tree: a power of two */
    int64_t *added;      /* [2 * leaves] to all slots below a node */
    int64_t *most;       /* [2 * leaves] of them, what nodes above have added apart */
    int64_t limit;
    uint32_t *stamp; /* [instructions] of the search that has seen it */
    uint32_t search;
    Edges moved; /* what that search has found */
    uint32_t joined[2];
    SpanAdded *spans;
    size_t span_count, span_capacity;
    RangeChange *range_changes;
    size_t range_count, range_capacity;
    SlotChange *slot_changes;
    size_t slot_count, slot_capacity;
};

/* -- sums --------------------------------------------------------------------------------------- */

static void add_below(LiveProfile *p, uint32_t node, uint32_t from, uint32_t size,
                      const SpanAdded *s)
{
    uint32_t to = from + size - 1;
    if (s->last < from || s->first > to)
        return;
    if (s->first <= from && to <= s->last) {
        p->added[node] += s->bytes;
        p->most[node] += s->bytes;
        return;
    }
    add_below(p, 2 * node, from, size / 2, s);
    add_below(p, 2 * node + 1, from + size / 2, size / 2, s);
    int64_t left = p->most[2 * node], right = p->most[2 * node + 1];
    p->most[node] = p->added[node] + (left > right ? left : right);
}

static void add(LiveProfile *p, uint32_t first, uint32_t last, int64_t bytes)
{
    SpanAdded s = {first, last, bytes};
    if (bytes == 0)
        return;
    p->spans = arena_grow(p->arena, p->spans, &p->span_capacity, p->span_count + 1,
                          sizeof *p->spans);
    p->spans[p->span_count++] = s;
    add_below(p, 1, 0, p->leaves, &s);
}

/* The sums before any change. */
static void build(LiveProfile *p, int64_t *change)
{
    const Graph *g = p->g;
    int64_t live = 0;
    for (uint32_t s = 0; s < g->count; s++) {
        live += change[s];
        p->most[p->leaves + s] += live;
    }
    for (uint32_t node = p->leaves - 1; node > 0; node--) {
        int64_t left = p->most[2 * node], right = p->most[2 * node + 1];
        p->most[node] = left > right ? left : right;
    }
}

/* -- the order ------------------------------------------------------------------------------------ */

static void find_ranges(LiveProfile *p, const uint32_t *order)
{
    const Graph *g = p->g;
    int64_t *change = ARENA_ARRAY(p->arena, int64_t, (size_t)g->count + 2);
    for (uint32_t at = 0; at < g->count; at++) {
        uint32_t x = order[at];
        const Instruction *inst = g->comp->instructions[x];
        p->slot[x] = at;
        p->next[x] = x;
        p->most[p->leaves + at] = graph_bytes_inside(g, inst);
        for (size_t leaf = 0; leaf < shape_leaf_count(inst->shape); leaf++) {
            uint32_t id = g->first_leaf[x] + (uint32_t)leaf;
            p->ranges[id] = (BufferRange){at, at, g->bytes[id]};
        }
        for (uint32_t k = 0; k < g->sources[x].count; k++)
            p->ranges[g->sources[x].list[k]].end = at;
    }
    for (size_t leaf = 0; leaf < shape_leaf_count(g->comp->root->shape); leaf++)
        p->ranges[graph_buffer(g, g->comp->root, leaf)].end = g->count - 1;
    for (uint32_t b = 0; b < g->leaf_count; b++) {
        change[p->ranges[b].begin] += p->ranges[b].bytes;
        change[p->ranges[b].end + 1] -= p->ranges[b].bytes;
    }
    build(p, change);
}

LiveProfile *live_profile_create(const Graph *g, const uint32_t *order)
{
    Arena *a = g->scratch;
    size_t n = (size_t)g->count + 1;
    LiveProfile *p = ARENA_NEW(a, LiveProfile);
    p->g = g;
    p->arena = a;
    p->slot = ARENA_ARRAY(a, uint32_t, n);
    p->next = ARENA_ARRAY(a, uint32_t, n);
    p->stamp = ARENA_ARRAY(a, uint32_t, n);
    p->ranges = ARENA_ARRAY(a, BufferRange, (size_t)g->leaf_count + 1);
    p->leaves = 1;
    while (p->leaves < g->count)
        p->leaves *= 2;
    p->added = ARENA_ARRAY(a, int64_t, 2 * (size_t)p->leaves);
    p->most = ARENA_ARRAY(a, int64_t, 2 * (size_t)p->leaves);
    find_ranges(p, order);
    p->limit = p->most[1] + p->most[1] / SLACK_PART + SLACK_BYTES;
    return p;
}

uint32_t live_profile_slot(const LiveProfile *p, uint32_t instruction)
{
    return p->slot[instruction];
}

/* -- moves ---------------------------------------------------------------------------------------- */

static void set_range(LiveProfile *p, uint32_t buffer, BufferRange range)
{
    BufferRange *r = &p->ranges[buffer];
    p->range_changes = arena_grow(p->arena, p->range_changes, &p->range_capacity,
                                  p->range_count + 1, sizeof *p->range_changes);
    p->range_changes[p->range_count++] = (RangeChange){buffer, *r};
    add(p, r->begin, r->end, -r->bytes);
    add(p, range.begin, range.end, range.bytes);
    *r = range;
}

static void move(LiveProfile *p, uint32_t x, uint32_t to)
{
    const Graph *g = p->g;
    p->slot_changes = arena_grow(p->arena, p->slot_changes, &p->slot_capacity,
                                 p->slot_count + 1, sizeof *p->slot_changes);
    p->slot_changes[p->slot_count++] = (SlotChange){x, p->slot[x]};
    p->slot[x] = to;
    size_t leaves = shape_leaf_count(g->comp->instructions[x]->shape);
    for (size_t leaf = 0; leaf < leaves; leaf++) {
        uint32_t buffer = g->first_leaf[x] + (uint32_t)leaf;
        BufferRange r = p->ranges[buffer];
        r.begin = to;
        r.end = r.end > to ? r.end : to;
        if (r.bytes != 0)
            set_range(p, buffer, r);
    }
    for (uint32_t k = 0; k < g->sources[x].count; k++) {
        uint32_t buffer = g->sources[x].list[k];
        BufferRange r = p->ranges[buffer];
        if (r.bytes == 0 || r.end >= to)
            continue;
        r.end = to;
        set_range(p, buffer, r);
    }
}

/* x, what is one kernel with it, and all that comes behind them before the slot `to`; false: too much, or a
 * loop. */
static bool find_waiting(LiveProfile *p, uint32_t x, uint32_t to)
{
    const Graph *g = p->g;
    uint32_t kernels = 0;
    p->search++;
    p->moved.count = 0;
    p->stamp[x] = p->search;
    edges_add(p->arena, &p->moved, x);
    for (uint32_t i = 0; i < p->moved.count; i++) {
        uint32_t y = p->moved.list[i], other = p->next[y];
        if (op_is(g->comp->instructions[y]->op, OPF_CONTROL))
            return false;
        if (p->stamp[other] != p->search) {
            p->stamp[other] = p->search;
            edges_add(p->arena, &p->moved, other);
        } else {
            kernels += alias_defines(g->comp->instructions[y]);
        }
        if (kernels > WAITING_MOST)
            return false;
        for (uint32_t k = 0; k < g->after[y].count; k++) {
            uint32_t z = g->after[y].list[k];
            if (p->slot[z] >= to || p->stamp[z] == p->search)
                continue;
            p->stamp[z] = p->search;
            edges_add(p->arena, &p->moved, z);
        }
    }
    return true;
}

/* The kernel of x runs at the slot `to`, which is behind its own. */
static bool delay(LiveProfile *p, uint32_t x, uint32_t to)
{
    if (!find_waiting(p, x, to))
        return false;
    for (uint32_t i = 0; i < p->moved.count; i++)
        move(p, p->moved.list[i], to);
    return true;
}

static bool advance(LiveProfile *p, uint32_t x, uint32_t to)
{
    for (uint32_t k = 0; k < p->g->before[x].count; k++) {
        if (p->slot[p->g->before[x].list[k]] > to)
            return false;
    }
    move(p, x, to);
    return true;
}

/* What only the kernel itself reads is no buffer any more. */
static void drop_inner(LiveProfile *p, uint32_t x)
{
    const Graph *g = p->g;
    p->search++;
    uint32_t y = x;
    do {
        p->stamp[y] = p->search;
        y = p->next[y];
    } while (y != x);
    do {
        size_t leaves = shape_leaf_count(g->comp->instructions[y]->shape);
        for (size_t leaf = 0; leaf < leaves; leaf++) {
            uint32_t buffer = g->first_leaf[y] + (uint32_t)leaf;
            BufferRange r = p->ranges[buffer];
            const Edges *reading = &g->reading[buffer];
            bool inner = reading->count != 0 && r.bytes != 0 &&
                         g->readers[buffer] == reading->count;
            for (uint32_t k = 0; k < reading->count && inner; k++)
                inner = p->stamp[reading->list[k]] == p->search;
            r.bytes = 0;
            if (inner)
                set_range(p, buffer, r);
        }
        y = p->next[y];
    } while (y != x);
}

static void swap_rings(LiveProfile *p)
{
    uint32_t a = p->joined[0], b = p->joined[1], next = p->next[a];
    p->next[a] = p->next[b];
    p->next[b] = next;
}

static void take_back(LiveProfile *p)
{
    while (p->span_count > 0) {
        SpanAdded s = p->spans[--p->span_count];
        s.bytes = -s.bytes;
        add_below(p, 1, 0, p->leaves, &s);
    }
    for (; p->range_count > 0; p->range_count--) {
        const RangeChange *c = &p->range_changes[p->range_count - 1];
        p->ranges[c->buffer] = c->was;
    }
    for (; p->slot_count > 0; p->slot_count--) {
        const SlotChange *c = &p->slot_changes[p->slot_count - 1];
        p->slot[c->instruction] = c->was;
    }
}

void live_profile_undo(LiveProfile *p)
{
    take_back(p);
    swap_rings(p);
}

bool live_profile_join(LiveProfile *p, uint32_t a, uint32_t b)
{
    p->span_count = p->range_count = p->slot_count = 0;
    for (int way = 0; way < 2; way++) {
        bool a_first = p->slot[a] <= p->slot[b];
        uint32_t first = a_first ? a : b, last = a_first ? b : a;
        bool moves = way == 0 ? delay(p, first, p->slot[last])
                              : b == last && advance(p, b, p->slot[a]);
        if (moves) {
            p->joined[0] = a;
            p->joined[1] = b;
            swap_rings(p);
            drop_inner(p, a);
            if (p->most[1] <= p->limit)
                return true;
            swap_rings(p);
        }
        take_back(p);
    }
    return false;
}
