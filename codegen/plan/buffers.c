/* See buffers.h. */
#include "codegen/plan/buffers.h"

#include <stdlib.h>
#include <string.h>

#include "ir/analysis/memory_colour.h"
#include "ir/base/bug.h"
#include "ir/custom_call/custom_call.h"
#include "ir/kernel/kind.h"
#include "runtime/plan/plan.h"

#define NESTING_MOST 1000
#define SMALL_PART 128     /* of the largest buffer: smaller ones are small */
#define LARGE_MOST 8192    /* large buffers for which orders are tried */
#define REUSED_LEAST 65536 /* bytes of an operand whose memory may become a result's */

/* An operand and a result that may be one buffer, if nobody reads the operand afterwards. They
 * take part at two times, `time` and the one behind it. */
typedef struct InPlace {
    uint32_t operand, result, time;
    bool always; /* else only where that saves memory: the kernel is another one then */
} InPlace;

/* What an asynchronous computation touches: touched[first] to touched[end - 1]. */
typedef struct AsyncRegion {
    const Instruction *start;
    size_t first, end;
} AsyncRegion;

typedef struct Walk {
    const AliasSets *aliases;
    const LoopSlices *slices;
    Buffers *b;
    Arena *arena;
    uint32_t time; /* from 1 on */
    size_t step_capacity;
    uint32_t met; /* sets so far */
    uint32_t depth;
    InPlace *pairs;
    size_t pair_count, pair_capacity;
    uint32_t async_depth; /* of asynchronous computations around this point */
    uint32_t *touched;    /* sets, by asynchronous computations */
    size_t touched_count, touched_capacity;
    AsyncRegion *regions; /* started and not yet done */
    size_t region_count, region_capacity;
} Walk;

/* `inst` has this time to itself; the next one begins. */
static void next_time(Walk *w, const Instruction *inst)
{
    w->b->steps = arena_grow(w->arena, (void *)w->b->steps, &w->step_capacity, w->time,
                             sizeof *w->b->steps);
    w->b->steps[w->time++ - 1] = inst;
}

static void touch(Walk *w, const Instruction *inst, size_t leaf, uint32_t time)
{
    if (loop_slice_of(w->slices, inst) != NULL)
        return; /* it lies in what the loop carries, which lives as long as the loop runs */
    uint32_t set = alias_set(w->aliases, inst, leaf);
    Buffer *s = &w->b->sets[set];
    uint64_t bytes = (uint64_t)shape_bytes(shape_leaf(inst->shape, leaf));
    if (w->async_depth > 0) {
        w->touched = arena_grow(w->arena, w->touched, &w->touched_capacity,
                                w->touched_count + 1, sizeof *w->touched);
        w->touched[w->touched_count++] = set;
    }
    if (bytes > s->bytes)
        s->bytes = bytes;
    if (!s->live) {
        s->live = true;
        s->begin = time;
        s->order = w->met++;
        s->owner = inst;
    }
    s->end = time; /* which only grows */
}

static void touch_all(Walk *w, const Instruction *inst, uint32_t time)
{
    size_t n = shape_leaf_count(inst->shape);
    for (size_t i = 0; i < n; i++)
        touch(w, inst, i, time);
}

static void touch_operands(Walk *w, const Instruction *inst, uint32_t time)
{
    for (uint32_t i = 0; i < inst->operand_count; i++)
        touch_all(w, inst->operands[i], time);
}

/* Another operand lies in the buffer of operand k: it is still read when k's result is written. */
static bool is_read_twice(const Walk *w, const Instruction *inst, uint32_t k)
{
    uint32_t set = alias_set(w->aliases, inst->operands[k], 0), times = 0;
    for (uint32_t i = 0; i < inst->operand_count; i++)
        times += alias_set(w->aliases, inst->operands[i], 0) == set;
    return times > 1;
}

static void add_pair(Walk *w, const Instruction *inst, uint32_t operand, size_t leaf,
                     bool always)
{
    InPlace pair = {alias_set(w->aliases, inst->operands[operand], 0),
                    alias_set(w->aliases, inst, leaf), w->time, always};
    w->pairs = arena_grow(w->arena, w->pairs, &w->pair_capacity, w->pair_count + 1,
                          sizeof *w->pairs);
    w->pairs[w->pair_count++] = pair;
}

/* What reads and writes takes two times: operands end at the first, results begin at the second where
 * they are one buffer. */
static void touch_twice(Walk *w, const Instruction *inst)
{
    for (uint32_t k = 0; k < 2; k++) {
        touch_operands(w, inst, w->time + k);
        touch_all(w, inst, w->time + k);
    }
}

/* NCCL reduces and sends along into the buffer that it reads. */
static void walk_in_place(Walk *w, const Instruction *inst)
{
    touch_twice(w, inst);
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (!is_read_twice(w, inst, i))
            add_pair(w, inst, i, i, true);
    }
    next_time(w, inst);
    next_time(w, inst);
}

/* A kernel that reads an element only where the same thread writes. */
static void walk_kernel(Walk *w, const Instruction *inst)
{
    size_t leaves = shape_leaf_count(inst->shape), first = w->pair_count;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Shape *s = inst->operands[i]->shape;
        if (shape_bytes(s) < REUSED_LEAST || is_read_twice(w, inst, i))
            continue;
        for (size_t leaf = 0; leaf < leaves; leaf++) {
            if (shape_bytes(shape_leaf(inst->shape, leaf)) == shape_bytes(s) &&
                kernel_writes_where_it_reads(inst, (uint32_t)leaf, i))
                add_pair(w, inst, i, leaf, false);
        }
    }
    if (w->pair_count != first) {
        touch_twice(w, inst);
        next_time(w, inst);
        next_time(w, inst);
        return;
    }
    touch_operands(w, inst, w->time);
    touch_all(w, inst, w->time);
    next_time(w, inst);
}

static void walk(Walk *w, const Computation *comp);

static void walk_called(Walk *w, const Instruction *inst)
{
    touch_operands(w, inst, w->time);
    next_time(w, inst);
    for (uint32_t i = 0; i < inst_called_count(inst); i++) {
        const Computation *callee = inst_called(inst, i);
        walk(w, callee);
        touch_all(w, callee->root, w->time);
        next_time(w, inst);
    }
    /* a carried or passed value is there until the caller ends, whatever its last use inside */
    touch_operands(w, inst, w->time);
    next_time(w, inst);
}

/* The callee runs on another stream from its start to its done: what it touches on the way is
 * live all that time, for the starting stream goes on meanwhile. */
static void walk_async_start(Walk *w, const Instruction *start)
{
    AsyncRegion region = {.start = start, .first = w->touched_count};
    w->async_depth++;
    walk_called(w, start);
    w->async_depth--;
    region.end = w->touched_count;
    w->regions = arena_grow(w->arena, w->regions, &w->region_capacity,
                            w->region_count + 1, sizeof *w->regions);
    w->regions[w->region_count++] = region;
}

static void walk_async_done(Walk *w, const Instruction *done)
{
    touch_operands(w, done, w->time);
    touch_operands(w, done->operands[0], w->time);
    size_t i = w->region_count;
    while (i > 0 && w->regions[i - 1].start != done->operands[0])
        i--;
    if (i > 0) {
        AsyncRegion *r = &w->regions[i - 1];
        for (size_t k = r->first; k < r->end; k++)
            w->b->sets[w->touched[k]].end = w->time;
        *r = w->regions[--w->region_count];
    }
    next_time(w, done);
}

static void walk(Walk *w, const Computation *comp)
{
    if (++w->depth > NESTING_MOST) {
        escape_innermost()->at = comp->span;
        escape_throw(ESCAPE_UNSUPPORTED, "computations nested more than %d deep",
                     NESTING_MOST);
    }
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op == OP_PARAMETER || inst->op == OP_CONSTANT ||
            custom_call_is_new_buffer(inst)) /* it is there when it is used */
            continue;
        if (inst->op == OP_ASYNC_START) {
            walk_async_start(w, inst);
        } else if (op_is(inst->op, OPF_CONTROL)) {
            walk_called(w, inst);
        } else if (op_is(inst->op, OPF_ASYNC_DONE)) {
            walk_async_done(w, inst);
        } else if (inst->op == OP_ALL_REDUCE || inst->op == OP_COLLECTIVE_BROADCAST) {
            walk_in_place(w, inst);
        } else if (alias_defines(inst)) {
            walk_kernel(w, inst);
        }
    }
    w->depth--;
}

/* -- kinds ----------------------------------------------------------------------------- */

/* The pass copy-insertion sees to it that nobody gets here, where it has run. */
GXC_NORETURN static void throw_without_copy(const Instruction *inst, const char *what)
{
    escape_innermost()->at = inst->span;
    escape_throw(ESCAPE_UNSUPPORTED,
                 "%s %s without a copy, which the pass copy-insertion makes", what,
                 inst->name);
}

static void set_kind(Buffers *b, uint32_t set, BufferKind kind, uint32_t index,
                     const Instruction *inst)
{
    Buffer *s = &b->sets[set];
    if (s->kind == kind && kind == BUFFER_RESULT)
        throw_without_copy(inst, "the same buffer for two results of");
    if (s->kind == kind && kind == BUFFER_ARGUMENT)
        throw_without_copy(inst, "another argument's buffer for");
    if (s->kind == BUFFER_CONSTANT && kind != BUFFER_CONSTANT)
        throw_without_copy(s->constant, "a written or returned constant");
    if (s->kind == BUFFER_ARGUMENT)
        return; /* an aliased pair: the argument's buffer is the result's */
    s->kind = kind;
    s->index = index;
    s->owner = inst;
    if (kind == BUFFER_CONSTANT)
        s->constant = inst;
}

static bool is_aliased(const Module *m, size_t result)
{
    const Aliasing *aliasing = &m->config.input_output_alias;
    bool found = false;
    for (uint32_t i = 0; i < aliasing->count && !found; i++)
        found = alias_index_leaf(m->entry->root->shape, aliasing->entries[i].output) ==
                result;
    return found;
}

static void find_kinds(const Module *m, const AliasSets *aliases, Buffers *b, Arena *a)
{
    const Computation *entry = m->entry;
    size_t capacity = 0;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (comp->is_fused)
            continue;
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op != OP_CONSTANT)
                continue;
            for (size_t leaf = 0; leaf < shape_leaf_count(inst->shape); leaf++) {
                uint32_t set = alias_set(aliases, inst, leaf);
                set_kind(b, set, BUFFER_CONSTANT, (uint32_t)leaf, inst);
                b->sets[set].bytes = (uint64_t)shape_bytes(shape_leaf(inst->shape, leaf));
            }
        }
    }
    for (uint32_t p = 0; p < entry->parameter_count; p++) {
        const Instruction *inst = entry->parameters[p];
        for (size_t leaf = 0; leaf < shape_leaf_count(inst->shape); leaf++) {
            uint32_t set = alias_set(aliases, inst, leaf);
            b->argument_sets = arena_grow(a, b->argument_sets, &capacity,
                                          b->argument_count + 1u, sizeof set);
            b->argument_sets[b->argument_count] = set;
            set_kind(b, set, BUFFER_ARGUMENT, b->argument_count++, inst);
            b->sets[set].bytes = (uint64_t)shape_bytes(shape_leaf(inst->shape, leaf));
        }
    }
    b->result_count = (uint32_t)shape_leaf_count(entry->root->shape);
    b->result_sets = ARENA_ARRAY(a, uint32_t, b->result_count);
    for (uint32_t leaf = 0; leaf < b->result_count; leaf++) {
        b->result_sets[leaf] = alias_set(aliases, entry->root, leaf);
        if (b->sets[b->result_sets[leaf]].kind == BUFFER_ARGUMENT && !is_aliased(m, leaf))
            throw_without_copy(entry->root, "an argument as a result of");
        set_kind(b, b->result_sets[leaf], BUFFER_RESULT, leaf, entry->root);
    }
}

/* -- offsets --------------------------------------------------------------------------- */

typedef struct Item {
    uint32_t set;
    const Buffer *buffer;
} Item;

static int ascending(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_size(const void *x, const void *y)
{
    const Buffer *a = ((const Item *)x)->buffer, *b = ((const Item *)y)->buffer;
    /* then not by number, which goes by the order of computations: a text may have another */
    int order = ascending(b->bytes, a->bytes);
    return order != 0 ? order : ascending(a->order, b->order);
}

/* Of all that is in both sets. */
static bool overlap_in_time(const Buffer *x, const Buffer *y)
{
    return x->begin <= y->last && y->begin <= x->last;
}

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + BUFFER_ALIGNMENT - 1) / BUFFER_ALIGNMENT * BUFFER_ALIGNMENT;
}

/* Smallest gap between the placed sets that live at the same time; placed is sorted by offset. */
static uint64_t best_offset(const Buffer *s, Item *placed, size_t count)
{
    uint64_t at = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
    for (size_t i = 0; i < count; i++) {
        const Buffer *o = placed[i].buffer;
        if (!overlap_in_time(s, o) || s->colour != o->colour)
            continue;
        if (o->offset >= at + rounded(s->bytes) && o->offset - at < best_gap) {
            best = at;
            best_gap = o->offset - at;
        }
        uint64_t end = o->offset + rounded(o->bytes);
        at = end > at ? end : at;
    }
    return best != UINT64_MAX ? best : at;
}

/* -- one buffer for an operand and a result --------------------------------------------------- */

/* Bytes of temporary memory at each time. */
static int64_t *live_bytes(const Buffers *b, Arena *a)
{
    int64_t *live = ARENA_ARRAY(a, int64_t, (size_t)b->end + 2);
    for (uint32_t i = 0; i < b->set_count; i++) {
        const Buffer *s = &b->sets[i];
        if (s->kind != BUFFER_NONE)
            continue;
        live[s->begin] += (int64_t)s->bytes;
        live[s->end + 1] -= (int64_t)s->bytes;
    }
    for (uint32_t t = 1; t <= b->end; t++)
        live[t + 1] += live[t];
    return live;
}

/* The operand's buffer becomes the result's where both are temporary and the operand dies. `live`
 * NULL: everywhere; else, unless it is always so, where more than `most` lives. */
static void join_pairs(const Walk *w, const uint32_t *colours, const int64_t *live,
                       int64_t most)
{
    Buffer *sets = w->b->sets;
    for (uint32_t i = 0; i < w->b->set_count; i++) {
        sets[i].holder = i;
        sets[i].last = sets[i].end;
    }
    for (size_t i = 0; i < w->pair_count; i++) {
        const InPlace *p = &w->pairs[i];
        Buffer *from = &sets[p->operand], *to = &sets[p->result];
        bool saves = live == NULL || live[p->time] > most || live[p->time + 1] > most;
        if (p->operand == p->result || from->kind != BUFFER_NONE ||
            to->kind != BUFFER_NONE || colours[p->operand] != colours[p->result] ||
            from->end != p->time + 1 || to->begin != p->time || !(p->always || saves))
            continue;
        from->end = p->time;
        to->begin = p->time + 1;
        to->holder = from->holder;
        sets[to->holder].last = to->end;
    }
}

/* Joins what must be joined for the least memory that joining can reach, and no more. */
static void reuse_operands(const Walk *w, const uint32_t *colours)
{
    Buffers *b = w->b;
    size_t bytes = b->set_count * sizeof *b->sets;
    const int64_t *live = live_bytes(b, w->arena);
    Buffer *before = arena_copy(w->arena, b->sets, bytes);
    join_pairs(w, colours, NULL, 0);
    const int64_t *after = live_bytes(b, w->arena);
    int64_t most = 0;
    for (uint32_t t = 1; t <= b->end; t++)
        most = after[t] > most ? after[t] : most;
    memcpy(b->sets, before, bytes);
    join_pairs(w, colours, live, most);
}

/* Assigns offsets to the items one after the other; returns how many bytes that takes, by colour in out[]. */
static uint64_t pack(Buffers *b, const Item *items, Item *placed, size_t count,
                     uint64_t *out)
{
    uint64_t total = 0;
    memset(out, 0, sizeof b->temp_bytes);
    for (size_t i = 0; i < count; i++) {
        Buffer *s = &b->sets[items[i].set];
        s->offset = best_offset(s, placed, i);
        if (s->offset + rounded(s->bytes) > out[s->colour])
            out[s->colour] = s->offset + rounded(s->bytes);
        size_t at = i;
        for (; at > 0 && placed[at - 1].buffer->offset > s->offset; at--)
            placed[at] = placed[at - 1];
        placed[at] = items[i];
    }
    for (uint32_t c = 0; c < BUFFER_COLOURS; c++)
        total += out[c];
    return total;
}

static uint64_t duration(const Buffer *s)
{
    return (uint64_t)s->last - s->begin + 1;
}

static int by_bytes_and_time(const void *x, const void *y)
{
    const Buffer *a = ((const Item *)x)->buffer, *b = ((const Item *)y)->buffer;
    int order = ascending(b->bytes / BUFFER_ALIGNMENT * duration(b),
                          a->bytes / BUFFER_ALIGNMENT * duration(a));
    return order != 0 ? order : by_size(x, y);
}

static int by_begin(const void *x, const void *y)
{
    const Buffer *a = ((const Item *)x)->buffer, *b = ((const Item *)y)->buffer;
    int order = ascending(a->begin, b->begin);
    return order != 0 ? order : by_size(x, y);
}

static int by_time(const void *x, const void *y)
{
    const Buffer *a = ((const Item *)x)->buffer, *b = ((const Item *)y)->buffer;
    int order = ascending(duration(b), duration(a));
    return order != 0 ? order : by_size(x, y);
}

typedef int ItemOrder(const void *, const void *);

/* No order is best for all programs. Small items fit between the others: how the large ones fit says
 * which one to take. */
static ItemOrder *best_order(Buffers *b, const Item *all, Item *placed, size_t count,
                             Arena *a)
{
    static ItemOrder *const orders[] = {by_size, by_bytes_and_time, by_time, by_begin};
    Item *items = ARENA_ARRAY(a, Item, count);
    uint64_t largest = 0, least = UINT64_MAX, out[BUFFER_COLOURS];
    ItemOrder *best = by_size;
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        largest = all[i].buffer->bytes > largest ? all[i].buffer->bytes : largest;
    for (size_t i = 0; i < count; i++) {
        if (all[i].buffer->bytes >= largest / SMALL_PART)
            items[n++] = all[i];
    }
    for (size_t k = 0; k < sizeof orders / sizeof *orders && n <= LARGE_MOST; k++) {
        qsort(items, n, sizeof *items, orders[k]);
        uint64_t bytes = pack(b, items, placed, n, out);
        if (bytes < least) {
            least = bytes;
            best = orders[k];
        }
    }
    return best;
}

static void pack_temporaries(Buffers *b, const uint32_t *colours, Arena *a)
{
    Item *items = ARENA_ARRAY(a, Item, b->set_count);
    Item *placed = ARENA_ARRAY(a, Item, b->set_count);
    size_t count = 0;
    for (uint32_t i = 0; i < b->set_count; i++) {
        Buffer *s = &b->sets[i];
        s->colour = colours[i] == MEMORY_COLLECTIVE ? PLAN_COLLECTIVE_MEMORY
                    : colours[i] == MEMORY_HOST     ? PLAN_HOST_MEMORY
                                                    : PLAN_DEVICE_MEMORY;
        if (s->kind == BUFFER_NONE && s->live) {
            s->kind = BUFFER_TEMP;
            if (s->bytes != 0 && s->holder == i)
                items[count++] = (Item){i, s};
        }
    }
    if (count == 0)
        return;
    qsort(items, count, sizeof *items, best_order(b, items, placed, count, a));
    pack(b, items, placed, count, b->temp_bytes);
    for (uint32_t i = 0; i < b->set_count; i++)
        b->sets[i].offset = b->sets[b->sets[i].holder].offset;
}

Buffers *buffers_assign(const Module *m, const AliasSets *aliases,
                        const LoopSlices *slices, const uint32_t *colours, Arena *a)
{
    Buffers *b = ARENA_NEW(a, Buffers);
    b->set_count = alias_set_count(aliases);
    b->sets = ARENA_ARRAY(a, Buffer, b->set_count);
    find_kinds(m, aliases, b, a);
    Walk w = {.aliases = aliases, .slices = slices, .b = b, .arena = a, .time = 1};
    walk(&w, m->entry);
    touch_all(&w, m->entry->root, w.time);
    b->end = w.time;
    reuse_operands(&w, colours);
    pack_temporaries(b, colours, a);
    return b;
}

static bool takes_memory(const Buffer *s)
{
    return s->kind == BUFFER_TEMP && s->bytes != 0;
}

void buffers_check(const Buffers *b, Arena *scratch)
{
    /* by begin; every set against those that began before and have not ended */
    const Buffer **order = ARENA_ARRAY(scratch, const Buffer *, b->set_count);
    const Buffer **open = ARENA_ARRAY(scratch, const Buffer *, b->set_count);
    size_t *count_at = ARENA_ARRAY(scratch, size_t, (size_t)b->end + 2);
    size_t count = 0, open_count = 0;
    for (uint32_t i = 0; i < b->set_count; i++) {
        if (takes_memory(&b->sets[i])) {
            count_at[b->sets[i].begin + 1]++;
            count++;
        }
    }
    for (uint32_t t = 1; t <= b->end; t++)
        count_at[t + 1] += count_at[t];
    for (uint32_t i = 0; i < b->set_count; i++) {
        if (takes_memory(&b->sets[i]))
            order[count_at[b->sets[i].begin]++] = &b->sets[i];
    }
    for (size_t i = 0; i < count; i++) {
        const Buffer *s = order[i];
        size_t kept = 0;
        for (size_t k = 0; k < open_count; k++) {
            const Buffer *o = open[k];
            if (o->end < s->begin)
                continue;
            open[kept++] = o;
            if (s->colour == o->colour && s->offset < o->offset + o->bytes &&
                o->offset < s->offset + s->bytes)
                bug("the buffers of %s and %s share bytes while both are live",
                    o->owner->name, s->owner->name);
        }
        open[kept++] = s;
        open_count = kept;
    }
}
