/* A list scheduler that hides latency, from the last instruction to the first.
 *
 *   s1 = start(a)  d1 = done(s1)  s2 = start(b)  d2 = done(s2)  f(c)  g(e)  h(d1, d2, f, g)
 *   ->  s1  f  d1  s2  g  d2  h           if f is as long as the first transfer
 *
 * A clock runs backwards over kernels and transfers. An instruction is ready once all its users are scheduled; of those
 * comes, in this order of preference,
 *   - what costs nothing;
 *   - a done, the one behind the longest way from the inputs, if its kind of stream is free: the
 *     time before it, up to its start, is now to be filled;
 *   - a start whose transfer the clock has passed, so that the next one may have the stream; with
 *     nothing waiting for the stream, starts that wait for no other transfer stay for later, that
 *     is they come as early as they can;
 *   - the same, with a little of it still bare, where kernels are too few to waste the next one;
 *   - a kernel: first those behind the most transfers, which make the next done ready, then in
 *     the order of `base`;
 *   - a start that was not hidden: the clock jumps;
 *   - what asks for the earliest position; parameters and constants.
 * With fences (fence.c) all that comes after one is scheduled before anything else is ready.
 * Where a done or a kernel would make more live than the limit, what lets most die comes before it.
 * A scheduling group (groups.h) is scheduled at once when all that comes after it is: its dones, its
 * kernels, its starts. Where limits leave nothing to schedule they give way.
 *
 * n log n with n edges. Gibbons and Muchnick 1986; the backward clock after XLA's documentation. */
#include "passes/schedule/latency.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/base/bug.h"
#include "passes/schedule/fence.h"
#include "passes/schedule/groups.h"
#include "passes/schedule/heap.h"

enum { LOOKED_AT = 32 }; /* entries of a heap of which one is chosen */

typedef struct Latency {
    const Graph *g;
    CostModel *cost;
    const LatencyLimits *limits;
    const LatencyUse *called;
    Arena *arena;
    uint32_t count, group_count; /* numbers from count on are groups */
    uint32_t *left;              /* [count + groups] edges to what is not scheduled yet */
    uint32_t *group;             /* [count] 0: none; g: number count + g - 1 */
    Edges *members;              /* [groups] */
    double *seconds;             /* [count] of kernels, loops, plain collectives */
    double *latency;             /* [count] of starts and their dones */
    Instruction **start;         /* [count] of a done: what it waits for; else NULL */
    double *hidden_at;       /* [count] of starts: the clock when its transfer is over */
    double *zero;            /* [count + groups] */
    bool *is_first_transfer; /* [count] a start that waits for no other transfer */
    uint32_t *by_depth,
        *by_transfers; /* [count + groups] positions in orders of preference */
    Heap free, dones, starts, kernels, forced, inputs;
    Heap early_starts[RESOURCE_COUNT];
    uint32_t waiting[RESOURCE_COUNT]; /* dones, and groups with dones, that are ready */
    uint32_t waiting_groups;
    Heap *open; /* group that is being scheduled: its kernels and starts */
    Heap inner_dones, inner_kernels, inner_starts;
    uint32_t *part;      /* [count + groups] between fences; NULL: there are none */
    uint32_t *part_left; /* [parts] what of it is not scheduled */
    Edges *held;         /* [parts] ready, but of an earlier part than the one at hand */
    uint32_t now_part;
    uint32_t opened;  /* number of that group, 0: none */
    uint32_t *flying; /* starts of collectives whose dones are scheduled */
    uint32_t flying_count;
    uint32_t used[RESOURCE_COUNT];
    LatencyUse most_used;
    double now;
    double kernels_left, transfers_left; /* seconds of what is not scheduled */
    bool *is_live;                       /* [leaves] */
    int64_t live, most_live;
    uint32_t *order, at; /* order[at] is scheduled last */
} Latency;

/* -- what is known beforehand --------------------------------------------------------------------- */

static Resource resource_of(const Instruction *start)
{
    if (cost_is_transfer(start))
        return RESOURCE_COLLECTIVE;
    return start->op == OP_COPY_START ? RESOURCE_COPY : RESOURCE_COMPUTE;
}

static Instruction *start_of(const Instruction *done)
{
    Instruction *start = done->operands[0];
    while (start->op == OP_ASYNC_UPDATE)
        start = start->operands[0];
    return start;
}

static void find_costs(Latency *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const Instruction *inst = l->g->comp->instructions[i];
        if (op_is(inst->op, OPF_ASYNC_START)) {
            l->latency[i] = cost_started(l->cost, inst);
        } else if (op_is(inst->op, OPF_ASYNC_DONE)) {
            l->start[i] = start_of(inst);
            l->latency[i] = l->latency[l->start[i]->id];
            l->transfers_left += l->latency[i];
        } else {
            l->seconds[i] = cost_compute(l->cost, inst) + cost_transfer(l->cost, inst);
            l->kernels_left += l->seconds[i];
        }
    }
}

typedef struct Preference {
    double most;       /* larger ones first */
    uint32_t position; /* in the base order: later ones first */
    uint32_t x;
} Preference;

static int compare(const void *a, const void *b)
{
    const Preference *p = a, *q = b;
    if (p->most != q->most)
        return p->most > q->most ? -1 : 1;
    return p->position < q->position ? 1 : p->position > q->position ? -1 : 0;
}

/* The position of each number by falling `most`. */
static uint32_t *rank(const Latency *l, const double *most, const uint32_t *position)
{
    uint32_t n = l->count + l->group_count;
    Preference *list = ARENA_ARRAY(l->arena, Preference, (size_t)n + 1);
    uint32_t *out = ARENA_ARRAY(l->arena, uint32_t, (size_t)n + 1);
    for (uint32_t x = 0; x < n; x++)
        list[x] = (Preference){most[x], position[x], x};
    qsort(list, n, sizeof *list, compare);
    for (uint32_t i = 0; i < n; i++)
        out[list[i].x] = i;
    return out;
}

/* Whole nanoseconds, so that sums do not depend on their order. */
static double rounded(double seconds)
{
    return (double)(int64_t)(seconds * 1e9 + 0.5);
}

static void raise_to(double *x, double least)
{
    *x = *x > least ? *x : least;
}

/* The longest ways from the inputs: of all, and of transfers alone. */
static void find_depths(Latency *l, const uint32_t *base)
{
    uint32_t n = l->count + l->group_count;
    double *depth = ARENA_ARRAY(l->arena, double, (size_t)n + 1);
    double *transfers = ARENA_ARRAY(l->arena, double, (size_t)n + 1);
    uint32_t *position = ARENA_ARRAY(l->arena, uint32_t, (size_t)n + 1);
    for (uint32_t b = 0; b < l->count; b++) {
        uint32_t i = base[b];
        position[i] = b;
        l->is_first_transfer[i] = transfers[i] == 0;
        double wait = l->start[i] != NULL ? rounded(l->latency[i]) : 0;
        depth[i] += wait + rounded(l->seconds[i]);
        transfers[i] += wait;
        for (uint32_t k = 0; k < l->g->after[i].count; k++) {
            raise_to(&depth[l->g->after[i].list[k]], depth[i]);
            raise_to(&transfers[l->g->after[i].list[k]], transfers[i]);
        }
        if (l->group[i] != 0) {
            uint32_t g = l->count + l->group[i] - 1;
            raise_to(&depth[g], depth[i]);
            raise_to(&transfers[g], transfers[i]);
            position[g] = b;
        }
    }
    l->by_depth = rank(l, depth, position);
    l->by_transfers = rank(l, transfers, position);
}

static void find_groups(Latency *l)
{
    l->group = ARENA_ARRAY(l->arena, uint32_t, (size_t)l->count + 1);
    const char *const *names;
    l->group_count = groups_number(l->g->comp, l->arena, l->group, &names);
    l->members = ARENA_ARRAY(l->arena, Edges, (size_t)l->group_count + 1);
    l->left = ARENA_ARRAY(l->arena, uint32_t, (size_t)l->count + l->group_count + 1);
    for (uint32_t i = 0; i < l->count; i++) {
        l->left[i] = l->g->after[i].count;
        if (l->group[i] == 0)
            continue;
        edges_add(l->arena, &l->members[l->group[i] - 1], i);
        for (uint32_t k = 0; k < l->g->after[i].count; k++)
            l->left[l->count + l->group[i] - 1] +=
                l->group[l->g->after[i].list[k]] != l->group[i];
    }
}

/* A group stands where the last of it does. */
static void find_parts(Latency *l, const uint32_t *base)
{
    uint32_t n = l->count + l->group_count;
    l->part = ARENA_ARRAY(l->arena, uint32_t, (size_t)n + 1);
    uint32_t parts = fence_parts(l->g, base, l->limits->fencing, l->part);
    l->part_left = ARENA_ARRAY(l->arena, uint32_t, (size_t)parts + 1);
    l->held = ARENA_ARRAY(l->arena, Edges, (size_t)parts + 1);
    l->now_part = parts - 1;
    for (uint32_t i = 0; i < l->count; i++) {
        uint32_t g = l->count + l->group[i] - 1;
        if (l->group[i] != 0 && l->part[i] > l->part[g])
            l->part[g] = l->part[i];
    }
    for (uint32_t i = 0; i < l->count; i++) {
        if (l->group[i] != 0)
            l->part[i] = l->part[l->count + l->group[i] - 1];
        l->part_left[l->part[i]]++;
    }
}

static void init(Latency *l, const uint32_t *base)
{
    Arena *a = l->arena;
    size_t n = (size_t)l->count + 1;
    l->seconds = ARENA_ARRAY(a, double, n);
    l->latency = ARENA_ARRAY(a, double, n);
    l->hidden_at = ARENA_ARRAY(a, double, n);
    l->start = ARENA_ARRAY(a, Instruction *, n);
    l->is_first_transfer = ARENA_ARRAY(a, bool, n);
    l->flying = ARENA_ARRAY(a, uint32_t, n);
    l->is_live = ARENA_ARRAY(a, bool, (size_t)l->g->leaf_count + 1);
    find_costs(l);
    find_groups(l);
    find_depths(l, base);
    if (l->limits->fencing >= 0)
        find_parts(l, base);
    l->zero = ARENA_ARRAY(a, double, n + l->group_count);
    l->free = l->inputs = heap_make(a, l->zero, l->by_transfers);
    l->dones = l->inner_dones = heap_make(a, l->zero, l->by_depth);
    l->starts = l->inner_starts = heap_make(a, l->hidden_at, l->by_depth);
    for (int r = 0; r < RESOURCE_COUNT; r++)
        l->early_starts[r] = heap_make(a, l->hidden_at, l->by_depth);
    l->kernels = l->inner_kernels = l->forced = heap_make(a, l->zero, l->by_transfers);
    l->at = l->count;
    Instruction *root = l->g->comp->root;
    for (size_t leaf = 0; leaf < shape_leaf_count(root->shape); leaf++)
        graph_revive(l->g, root, leaf, l->is_live, &l->live);
}

/* -- limits --------------------------------------------------------------------------------------- */

/* What it calls has streams left for it. */
static bool fits_inside(const Latency *l, const Instruction *inst)
{
    for (uint32_t k = 0; op_is(inst->op, OPF_CONTROL) && k < inst_called_count(inst);
         k++) {
        const LatencyUse *use = &l->called[inst_called(inst, k)->id];
        for (int r = 0; r < RESOURCE_COUNT; r++) {
            if (use->most[r] != 0 && l->used[r] != 0 &&
                use->most[r] + l->used[r] > l->limits->most[r])
                return false;
        }
    }
    return true;
}

static bool may_fly(const Latency *l, const Instruction *start)
{
    Resource r = resource_of(start);
    if (l->used[r] >= l->limits->most[r])
        return false;
    for (uint32_t i = 0;
         i < l->flying_count && l->limits->shared_ranks && r == RESOURCE_COLLECTIVE;
         i++) {
        const Instruction *other = l->g->comp->instructions[l->flying[i]];
        if (collective_shared_devices(l->arena, cost_started_collective(start),
                                      cost_started_collective(other)) > 1)
            return false;
    }
    return true;
}

/* A group may need more than there is: then it has all to itself. */
static bool group_may_fly(const Latency *l, uint32_t group)
{
    uint32_t need[RESOURCE_COUNT] = {0}, used = 0;
    for (uint32_t k = 0; k < l->members[group].count; k++) {
        const Instruction *start = l->start[l->members[group].list[k]];
        if (start != NULL)
            need[resource_of(start)]++;
    }
    bool fits = true;
    for (int r = 0; r < RESOURCE_COUNT; r++) {
        used += l->used[r];
        fits &= need[r] == 0 || need[r] + l->used[r] <= l->limits->most[r];
    }
    return fits || used == 0;
}

static bool may_schedule(const Latency *l, uint32_t x)
{
    if (x >= l->count)
        return group_may_fly(l, x - l->count);
    if (l->start[x] != NULL)
        return may_fly(l, l->start[x]);
    return fits_inside(l, l->g->comp->instructions[x]);
}

/* -- placing -------------------------------------------------------------------------------------- */

static bool has_done(const Latency *l, uint32_t group)
{
    for (uint32_t k = 0; k < l->members[group].count; k++) {
        if (l->start[l->members[group].list[k]] != NULL)
            return true;
    }
    return false;
}

static void put_done(Latency *l, uint32_t x)
{
    l->waiting[resource_of(l->start[x])]++;
    heap_put(&l->dones, x);
}

/* All that comes after x is scheduled. */
static void make_ready(Latency *l, uint32_t x)
{
    bool is_member = x < l->count && l->group[x] != 0;
    if (l->part != NULL && !is_member && l->part[x] < l->now_part) {
        edges_add(l->arena, &l->held[l->part[x]], x);
        return;
    }
    if (x >= l->count) {
        bool waits = has_done(l, x - l->count);
        heap_put(waits ? &l->dones : &l->kernels, x);
        l->waiting[RESOURCE_COLLECTIVE] += waits;
        l->waiting_groups += waits;
        return;
    }
    const Instruction *inst = l->g->comp->instructions[x];
    bool starts = op_is(inst->op, OPF_ASYNC_START);
    if (l->group[x] != 0)
        heap_put(l->start[x] != NULL ? &l->inner_dones
                 : starts            ? &l->inner_starts
                                     : &l->inner_kernels,
                 x);
    else if (l->start[x] != NULL)
        put_done(l, x);
    else if (groups_is_forced_early(inst))
        heap_put(&l->forced, x);
    else if (starts && (l->limits->starts_early || l->is_first_transfer[x]))
        heap_put(&l->early_starts[resource_of(inst)], x);
    else if (starts)
        heap_put(&l->starts, x);
    else if (inst->op == OP_PARAMETER || inst->op == OP_CONSTANT)
        heap_put(&l->inputs, x);
    else if (l->seconds[x] == 0)
        heap_put(&l->free, x);
    else
        heap_put(&l->kernels, x);
}

/* Goes on to the part before, and to what of it was held back. */
static void pass_fence(Latency *l)
{
    Edges *held = &l->held[--l->now_part];
    for (uint32_t k = 0; k < held->count; k++)
        make_ready(l, held->list[k]);
}

/* Backwards: what it reads lives from here on, what it makes no longer. */
static void count_memory(Latency *l, uint32_t x)
{
    const Graph *g = l->g;
    const Instruction *inst = g->comp->instructions[x];
    int64_t unread = 0;
    for (uint32_t k = 0; k < g->sources[x].count; k++) {
        uint32_t id = g->sources[x].list[k];
        l->live += l->is_live[id] ? 0 : g->bytes[id];
        l->is_live[id] = true;
    }
    size_t leaves = shape_leaf_count(inst->shape);
    for (size_t leaf = 0; leaf < leaves; leaf++)
        unread +=
            l->is_live[g->first_leaf[x] + leaf] ? 0 : g->bytes[g->first_leaf[x] + leaf];
    int64_t here = l->live + unread + graph_bytes_inside(g, inst);
    l->most_live = here > l->most_live ? here : l->most_live;
    for (size_t leaf = 0; leaf < leaves; leaf++) {
        uint32_t id = g->first_leaf[x] + (uint32_t)leaf;
        l->live -= l->is_live[id] ? g->bytes[id] : 0;
        l->is_live[id] = false;
    }
}

static void count_use(Latency *l, const Instruction *inst)
{
    LatencyUse use = {{0}};
    for (uint32_t k = 0; op_is(inst->op, OPF_CONTROL) && k < inst_called_count(inst);
         k++) {
        for (int r = 0; r < RESOURCE_COUNT; r++) {
            uint32_t inside = l->called[inst_called(inst, k)->id].most[r];
            use.most[r] = inside > use.most[r] ? inside : use.most[r];
        }
    }
    for (int r = 0; r < RESOURCE_COUNT; r++) {
        uint32_t n = l->used[r] + use.most[r];
        l->most_used.most[r] = n > l->most_used.most[r] ? n : l->most_used.most[r];
    }
}

static void land(Latency *l, uint32_t start)
{
    uint32_t i = 0;
    while (i < l->flying_count && l->flying[i] != start)
        i++;
    if (i < l->flying_count)
        l->flying[i] = l->flying[--l->flying_count];
    l->used[resource_of(l->g->comp->instructions[start])]--;
}

static void schedule_next(Latency *l, uint32_t x)
{
    const Instruction *inst = l->g->comp->instructions[x];
    const Instruction *start = l->start[x];
    l->order[--l->at] = x;
    count_memory(l, x);
    if (start != NULL) {
        Resource r = resource_of(start);
        l->used[r]++;
        l->waiting[r] -= l->group[x] == 0;
        if (r == RESOURCE_COLLECTIVE)
            l->flying[l->flying_count++] = start->id;
        raise_to(&l->hidden_at[start->id], l->now + l->latency[x]);
        l->transfers_left -= l->latency[x];
    }
    count_use(l, inst);
    if (op_is(inst->op, OPF_ASYNC_START)) {
        raise_to(&l->now, l->hidden_at[x]);
        land(l, x);
    }
    l->now += l->seconds[x];
    l->kernels_left -= l->seconds[x];
    for (uint32_t k = 0; k < l->g->before[x].count; k++) {
        uint32_t y = l->g->before[x].list[k];
        uint32_t group = l->group[y];
        if (--l->left[y] == 0 && (group == 0 || group == l->opened))
            make_ready(l, y);
        if (group != 0 && group != l->group[x] && --l->left[l->count + group - 1] == 0)
            make_ready(l, l->count + group - 1);
    }
    if (l->part == NULL)
        return;
    l->part_left[l->part[x]]--;
    while (l->now_part > 0 && l->part_left[l->now_part] == 0)
        pass_fence(l);
}

static void schedule_group(Latency *l, uint32_t group)
{
    l->opened = group + 1;
    l->waiting[RESOURCE_COLLECTIVE] -= has_done(l, group);
    l->waiting_groups -= has_done(l, group);
    for (uint32_t k = 0; k < l->members[group].count; k++) {
        if (l->left[l->members[group].list[k]] == 0)
            make_ready(l, l->members[group].list[k]);
    }
    for (;;) {
        Heap *next = l->inner_dones.count != 0     ? &l->inner_dones
                     : l->inner_kernels.count != 0 ? &l->inner_kernels
                                                   : &l->inner_starts;
        if (next->count == 0)
            break;
        schedule_next(l, heap_take(next, 0));
    }
    l->opened = 0;
}

/* -- choosing ------------------------------------------------------------------------------------- */

/* The best of the first entries that limits allow; false if there is none. */
static bool take_allowed(Latency *l, Heap *h, uint32_t *out)
{
    uint32_t passed[LOOKED_AT], n = 0;
    bool found = false;
    while (!found && h->count != 0 && n < LOOKED_AT) {
        uint32_t x = heap_take(h, 0);
        found = may_schedule(l, x);
        if (found)
            *out = x;
        else
            passed[n++] = x;
    }
    for (uint32_t i = 0; i < n; i++)
        heap_put(h, passed[i]);
    return found;
}

/* The heap that holds the start whose transfer is over first; NULL: there is none. Those that may come
 * as early as they like count if a done waits for their kind of stream. */
static Heap *next_start(Latency *l, bool all)
{
    Heap *best = &l->starts;
    for (int r = 0; r < RESOURCE_COUNT; r++) {
        Heap *h = &l->early_starts[r];
        if (h->count != 0 && (all || l->waiting[r] != 0) &&
            (best->count == 0 || l->hidden_at[h->list[0]] < l->hidden_at[best->list[0]]))
            best = h;
    }
    return best->count != 0 ? best : NULL;
}

static bool take_start(Latency *l, double latest, bool all, uint32_t *out)
{
    Heap *h = next_start(l, all);
    if (h == NULL || l->hidden_at[h->list[0]] > latest)
        return false;
    *out = heap_take(h, 0);
    return true;
}

/* A little of a transfer stays bare, for the next kernel would hide much more of the next one, and
 * there are not kernels enough for both. */
static bool take_start_before_kernel(Latency *l, uint32_t *out)
{
    Heap *h = next_start(l, false);
    if (h == NULL || l->dones.count == 0 || l->kernels.count == 0 ||
        l->kernels.list[0] >= l->count)
        return false;
    double bare = l->hidden_at[h->list[0]] - l->now;
    double wasted = l->seconds[l->kernels.list[0]] - bare;
    if (bare >= wasted || l->kernels_left - l->transfers_left >= wasted)
        return false;
    *out = heap_take(h, 0);
    return true;
}

/* Bytes that begin to live, backwards, when x is scheduled; those that nobody reads, too. */
static int64_t bytes_added(const Latency *l, uint32_t x)
{
    const Graph *g = l->g;
    int64_t n = 0;
    if (x >= l->count)
        return 0;
    for (uint32_t k = 0; k < g->sources[x].count; k++)
        n += l->is_live[g->sources[x].list[k]] ? 0 : g->bytes[g->sources[x].list[k]];
    for (size_t leaf = 0; leaf < shape_leaf_count(g->comp->instructions[x]->shape);
         leaf++)
        n += l->is_live[g->first_leaf[x] + leaf] ? 0 : g->bytes[g->first_leaf[x] + leaf];
    return n + graph_bytes_inside(g, g->comp->instructions[x]);
}

/* Bytes that live no longer, less those that have to. */
static int64_t gain(const Latency *l, uint32_t x)
{
    const Graph *g = l->g;
    int64_t n = 0;
    if (x >= l->count)
        return 0;
    for (size_t leaf = 0; leaf < shape_leaf_count(g->comp->instructions[x]->shape);
         leaf++)
        n += l->is_live[g->first_leaf[x] + leaf] ? g->bytes[g->first_leaf[x] + leaf] : 0;
    for (uint32_t k = 0; k < g->sources[x].count; k++)
        n -= l->is_live[g->sources[x].list[k]] ? 0 : g->bytes[g->sources[x].list[k]];
    return n;
}

/* The start or kernel, of the first ones, that lets most die; false: none has a larger gain than
 * `most`. */
static bool take_smaller(Latency *l, int64_t most, uint32_t *out)
{
    Heap *heaps[] = {&l->starts, &l->early_starts[RESOURCE_COLLECTIVE],
                     &l->early_starts[RESOURCE_COMPUTE], &l->early_starts[RESOURCE_COPY],
                     &l->kernels},
         *best = NULL;
    uint32_t at = 0;
    for (size_t h = 0; h < sizeof heaps / sizeof *heaps; h++) {
        for (uint32_t i = 0; i < heaps[h]->count && i < LOOKED_AT; i++) {
            uint32_t x = heaps[h]->list[i];
            int64_t n = gain(l, x);
            if (n > most && may_schedule(l, x)) {
                most = n;
                best = heaps[h];
                at = i;
            }
        }
    }
    if (best != NULL)
        *out = heap_take(best, at);
    return best != NULL;
}

/* A stream is free that a done waits for. */
static bool has_slot_for_dones(const Latency *l)
{
    bool has_capacity = l->waiting_groups != 0;
    for (int r = 0; r < RESOURCE_COUNT; r++)
        has_capacity |= l->waiting[r] != 0 && l->used[r] < l->limits->most[r];
    return has_capacity;
}

/* As if there were memory for everything. */
static bool take_any(Latency *l, Heap **from, uint32_t *out)
{
    *from = &l->dones;
    if (has_slot_for_dones(l) && take_allowed(l, &l->dones, out))
        return true;
    if (take_start(l, l->now, false, out) || take_start_before_kernel(l, out)) {
        *from = NULL;
        return true;
    }
    *from = &l->kernels;
    return take_allowed(l, &l->kernels, out);
}

static bool is_empty(const Latency *l)
{
    return l->forced.count + l->kernels.count + l->dones.count + l->inputs.count == 0;
}

static uint32_t take_next(Latency *l)
{
    uint32_t x, smaller;
    Heap *from;
    if (l->free.count != 0)
        return heap_take(&l->free, 0);
    bool found = take_any(l, &from, &x);
    if (found && from != NULL && l->live + bytes_added(l, x) > l->limits->memory &&
        take_smaller(l, gain(l, x), &smaller)) {
        heap_put(from, x);
        return smaller;
    }
    if (found || take_start(l, DBL_MAX, true, &x))
        return x;
    while (is_empty(l)) { /* what a group waits for lies beyond a fence */
        if (l->part == NULL || l->now_part == 0)
            bug("nothing of %s can be scheduled", l->g->comp->name);
        pass_fence(l);
    }
    Heap *ready = l->forced.count != 0    ? &l->forced
                  : l->kernels.count != 0 ? &l->kernels
                  : l->dones.count != 0   ? &l->dones
                                          : &l->inputs;
    return heap_take(ready, 0);
}

int64_t latency_order(const Graph *g, CostModel *cost, const LatencyLimits *limits,
                      const LatencyUse *called, const uint32_t *base, uint32_t *order,
                      LatencyUse *out_use)
{
    Latency l = {.g = g,
                 .cost = cost,
                 .limits = limits,
                 .called = called,
                 .arena = g->scratch,
                 .count = g->count,
                 .order = order};
    init(&l, base);
    for (uint32_t x = 0; x < l.count; x++) {
        if (l.left[x] == 0 && l.group[x] == 0)
            make_ready(&l, x);
    }
    for (uint32_t k = 0; k < l.group_count; k++) {
        if (l.left[l.count + k] == 0)
            make_ready(&l, l.count + k);
    }
    while (l.at != 0) {
        uint32_t x = take_next(&l);
        if (x >= l.count)
            schedule_group(&l, x - l.count);
        else
            schedule_next(&l, x);
    }
    *out_use = l.most_used;
    return l.most_live;
}
