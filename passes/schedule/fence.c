/* Cuts an order where much more memory lives than at the cut before.
 *
 *   s1 d1 a b | s2 d2 c        b is large: c and s2 stay behind it, s1 and a before
 *
 * Hiding latency moves kernels into transfers from far away, and what they make lives all the way
 * back. A cut stands where nothing is in flight and more than `threshold` bytes have begun to live
 * since the last one: kernels then move only as far as memory stays even. One sweep. */
#include "passes/schedule/fence.h"

uint32_t fence_parts(const Graph *g, const uint32_t *base, int64_t threshold,
                     uint32_t *part)
{
    uint32_t *readers =
        arena_copy(g->scratch, g->readers, g->leaf_count * sizeof *readers);
    uint32_t in_flight = 0, now = 0;
    int64_t live = 0, live_at_cut = 0;
    bool cuts = false;
    for (uint32_t b = 0; b < g->count; b++) {
        uint32_t x = base[b];
        OpCode op = g->comp->instructions[x]->op;
        now += cuts;
        cuts = false;
        part[x] = now;
        live += graph_bytes_made(g, x) - graph_bytes_unread(g, x) -
                graph_bytes_freed(g, x, readers);
        for (uint32_t k = 0; k < g->sources[x].count; k++)
            readers[g->sources[x].list[k]]--;
        in_flight += op_is(op, OPF_ASYNC_START);
        in_flight -= op_is(op, OPF_ASYNC_DONE);
        if (in_flight == 0 && live - live_at_cut > threshold) {
            cuts = true;
            live_at_cut = live;
        } else if (live < live_at_cut) {
            live_at_cut = live;
        }
    }
    return now + 1;
}
