/* Orders of execution that need little memory: several are made, the best one is taken.
 *
 *   a = broadcast(x)  b = broadcast(x)  s = slice(a)  t = slice(b)     ->  a  s  b  t
 *
 *   given      the order of the instructions as they stand
 *   forwards   at each step what frees most, less what it makes
 *   backwards  the same from the last instruction to the first: what is only needed late, such as a
 *              gradient's update or a weight in another type, is made late
 *
 * What an instruction would free grows when another reader of its operands has run, and only then for
 * the last reader: a heap whose entries rise keeps all of them in n log n. */
#include "passes/schedule/memory.h"

#include <string.h>

#include "passes/schedule/heap.h"

typedef struct Walk {
    const Graph *g;
    Heap ready;
    double *key;       /* [count] lowest first */
    uint32_t *waiting; /* [count] what has to come before */
    uint32_t *readers; /* [buffers] left */
    bool *is_live;     /* [buffers] backwards */
} Walk;

int64_t order_bytes(const Graph *g, const uint32_t *order)
{
    uint32_t *readers =
        arena_copy(g->scratch, g->readers, g->leaf_count * sizeof *readers);
    int64_t live = 0, most = 0;
    for (uint32_t at = 0; at < g->count; at++) {
        uint32_t x = order[at];
        live += graph_bytes_made(g, x);
        int64_t now = live + graph_bytes_inside(g, g->comp->instructions[x]);
        most = now > most ? now : most;
        live -= graph_bytes_freed(g, x, readers) + graph_bytes_unread(g, x);
        for (uint32_t k = 0; k < g->sources[x].count; k++)
            readers[g->sources[x].list[k]]--;
    }
    return most;
}

void rank_order(const Graph *g, const double *rank, uint32_t *order)
{
    uint32_t *waiting = arena_copy(g->scratch, g->waiting, g->count * sizeof *waiting);
    Heap ready = heap_make(g->scratch, rank, NULL);
    for (uint32_t i = 0; i < g->count; i++) {
        if (waiting[i] == 0)
            heap_put(&ready, i);
    }
    for (uint32_t done = 0; done < g->count; done++) {
        uint32_t x = order[done] = heap_take(&ready, 0);
        for (uint32_t k = 0; k < g->after[x].count; k++) {
            if (--waiting[g->after[x].list[k]] == 0)
                heap_put(&ready, g->after[x].list[k]);
        }
    }
}

/* -- forwards ------------------------------------------------------------------------------------- */

static void set_forward_key(Walk *w, uint32_t x)
{
    w->key[x] = (double)(graph_bytes_made(w->g, x) - graph_bytes_unread(w->g, x) -
                         graph_bytes_freed(w->g, x, w->readers));
}

/* Whoever is left to read the buffer alone would free it. */
static void raise_last_reader(Walk *w, uint32_t buffer)
{
    const Edges *reading = &w->g->reading[buffer];
    for (uint32_t k = 0; k < reading->count; k++) {
        uint32_t x = reading->list[k];
        if (heap_has(&w->ready, x)) {
            set_forward_key(w, x);
            heap_raise(&w->ready, x);
        }
    }
}

static void order_forwards(const Graph *g, uint32_t *order)
{
    Arena *a = g->scratch;
    size_t n = g->count;
    Walk w = {.g = g,
              .key = ARENA_ARRAY(a, double, n),
              .waiting = arena_copy(a, g->waiting, n * sizeof *w.waiting),
              .readers = arena_copy(a, g->readers, g->leaf_count * sizeof *w.readers)};
    w.ready = heap_make(a, w.key, NULL);
    heap_track(&w.ready, g->count);
    for (uint32_t i = 0; i < g->count; i++) {
        if (w.waiting[i] == 0) {
            set_forward_key(&w, i);
            heap_put(&w.ready, i);
        }
    }
    for (uint32_t done = 0; done < g->count; done++) {
        uint32_t x = order[done] = heap_take(&w.ready, 0);
        for (uint32_t k = 0; k < g->sources[x].count; k++) {
            uint32_t buffer = g->sources[x].list[k];
            if (--w.readers[buffer] == 1)
                raise_last_reader(&w, buffer);
        }
        for (uint32_t k = 0; k < g->after[x].count; k++) {
            uint32_t y = g->after[x].list[k];
            if (--w.waiting[y] == 0) {
                set_forward_key(&w, y);
                heap_put(&w.ready, y);
            }
        }
    }
}

/* -- backwards ------------------------------------------------------------------------------------ */

static int64_t bytes_begun(const Walk *w, uint32_t x)
{
    int64_t n = 0;
    for (uint32_t k = 0; k < w->g->sources[x].count; k++) {
        uint32_t buffer = w->g->sources[x].list[k];
        n += w->is_live[buffer] ? 0 : w->g->bytes[buffer];
    }
    return n;
}

static void set_backward_key(Walk *w, uint32_t x)
{
    w->key[x] = (double)(bytes_begun(w, x) + graph_bytes_unread(w->g, x) -
                         graph_bytes_made(w->g, x));
}

static void order_backwards(const Graph *g, uint32_t *order)
{
    Arena *a = g->scratch;
    size_t n = g->count;
    Walk w = {.g = g,
              .key = ARENA_ARRAY(a, double, n),
              .waiting = ARENA_ARRAY(a, uint32_t, n),
              .is_live = ARENA_ARRAY(a, bool, g->leaf_count)};
    uint32_t *position = ARENA_ARRAY(a, uint32_t, n);
    for (uint32_t i = 0; i < g->count; i++) {
        position[i] = g->count - i;
        w.waiting[i] = g->after[i].count;
    }
    w.ready = heap_make(a, w.key, position);
    heap_track(&w.ready, g->count);
    for (uint32_t i = 0; i < g->count; i++) {
        if (w.waiting[i] == 0) {
            set_backward_key(&w, i);
            heap_put(&w.ready, i);
        }
    }
    for (uint32_t at = g->count; at > 0; at--) {
        uint32_t x = order[at - 1] = heap_take(&w.ready, 0);
        for (uint32_t k = 0; k < g->sources[x].count; k++) {
            uint32_t buffer = g->sources[x].list[k];
            if (w.is_live[buffer] || g->bytes[buffer] == 0)
                continue;
            w.is_live[buffer] = true;
            for (uint32_t r = 0; r < g->reading[buffer].count; r++) {
                uint32_t y = g->reading[buffer].list[r];
                if (heap_has(&w.ready, y)) {
                    set_backward_key(&w, y);
                    heap_raise(&w.ready, y);
                }
            }
        }
        for (uint32_t k = 0; k < g->before[x].count; k++) {
            uint32_t y = g->before[x].list[k];
            if (--w.waiting[y] == 0) {
                set_backward_key(&w, y);
                heap_put(&w.ready, y);
            }
        }
    }
}

int64_t memory_order(const Graph *g, uint32_t *order)
{
    typedef void Orderer(const Graph *, uint32_t *);
    static Orderer *const orderers[] = {order_forwards, order_backwards};
    double *rank = ARENA_ARRAY(g->scratch, double, g->count);
    rank_order(g, rank, order);
    int64_t most = order_bytes(g, order);
    uint32_t *other = ARENA_ARRAY(g->scratch, uint32_t, g->count);
    for (size_t i = 0; i < sizeof orderers / sizeof *orderers; i++) {
        orderers[i](g, other);
        int64_t bytes = order_bytes(g, other);
        if (bytes >= most)
            continue;
        most = bytes;
        memcpy(order, other, g->count * sizeof *order);
    }
    return most;
}
