/* Accesses of memory: which of the sectors that a warp's request touches L1 and L2 hold from an earlier one,
 * and what device memory has to move. */
#include "ir/kernel/time/work_builder.h"

enum {
    DIVISORS_MOST = 16,
    ACCESS_BYTES = 16, /* of the widest one */
    BESIDE_MOST = 8,   /* earlier loads of an array that are looked at */
};

#define BESIDE_PART 0.9 /* of the warps: so many ask for them */

/* -- what L1 holds --------------------------------------------------------------------------------------- */

/* Blocks that a multiprocessor has room for, registers left aside. */
static double resident_by_threads(const WorkBuilder *b)
{
    const GpuModel *d = b->device;
    double most = d->multiprocessor_threads / larger(b->threads, 1);
    double shared = (double)b->shared_bytes + TARGET_RESERVED_SHARED;
    most = smaller(most, d->multiprocessor_shared / shared);
    most = smaller(most, d->multiprocessor_blocks);
    most = smaller(most, b->blocks / d->multiprocessors);
    return larger(most, 1);
}

static double l1_bytes(const WorkBuilder *b, double resident)
{
    double used = resident * ((double)b->shared_bytes + TARGET_RESERVED_SHARED);
    double left = b->device->multiprocessor_shared - used;
    return larger(left, 0) * costs.l1_kept;
}

/* A small array that all blocks read: those at work on a multiprocessor fetch it once. */
static double shared_by_blocks(const WorkBuilder *b, const WorkAccess *a, double resident,
                               double l1)
{
    double requests = a->sectors * costs.sector_bytes * a->runs * b->warps * resident;
    return a->reach <= l1 / 4 && requests > 0 ? a->reach / requests : 1;
}

/* Part of the sectors that L1 does not have. */
static double l1_share(WorkBuilder *b, WorkPattern *p, const WorkAccess *a)
{
    double resident = resident_by_threads(b), l1 = l1_bytes(b, resident);
    double warps = resident * b->warps;
    if (pattern_units(b, p, costs.line_bytes) * costs.line_bytes * warps > l1)
        return 1;
    double share = pattern_new(b, p, a->loop, a->sectors);
    double block = share * a->sectors * costs.sector_bytes * b->warps;
    bool is_random =
        work_index(b, p->element)->is_random; /* another position each time */
    for (uint32_t l = a->loop; l != 0; l = b->loops[l].parent) {
        if (is_random || ix_depends(p->element, IX_RUNTIME, b->loops[l].step))
            block *= b->loops[l].trips;
        else if (block * resident <= l1)
            share /= larger(b->loops[l].trips, 1);
    }
    return smaller(share, shared_by_blocks(b, a, resident, l1));
}

/* Loads of the same array, at constant distances in the same trips: L1 has what one of them fetched. Part of the
 * sectors that none of the earlier ones did. */
static double beside_earlier(WorkBuilder *b, WorkPattern *p, const WorkAccess *a)
{
    WorkPattern earlier[BESIDE_MOST];
    WorkAccess *of[BESIDE_MOST];
    uint32_t count = 0;
    if (a->runs <
        BESIDE_PART * b->loops[a->loop].runs) /* others ask for what is between */
        return 1;
    for (size_t i = b->access_count; i-- > 0 && count < BESIDE_MOST;) {
        WorkAccess *x = &b->accesses[i];
        if (x->array != a->array || x->is_store || x->loop != a->loop ||
            x->runs < a->runs || x->bits != a->bits ||
            ix_add(b->ix, x->element, ix_mul(b->ix, a->element, -1))->kind != IX_CONST)
            continue;
        of[count] = x;
        earlier[count++] =
            (WorkPattern){x->element, x->bits, x->lanes, x->is_together, NULL, x->walked};
    }
    if (count == 0)
        return 1;
    double resident = resident_by_threads(b);
    double part = pattern_beside(b, p, earlier, count, a->loop, a->sectors,
                                 l1_bytes(b, resident) / resident);
    for (uint32_t i = 0; i < count; i++)
        of[i]->walked = earlier[i].walked;
    return part;
}

/* -- what L2 holds ---------------------------------------------------------------------------------------- */

double work_l2_kept(const WorkBuilder *b)
{
    return b->device->l2_kib * 1024.0 * costs.l2_kept;
}

static double access_total(const WorkBuilder *b, const WorkAccess *a)
{
    return a->sectors * a->l1_share * costs.sector_bytes * a->runs * b->warps * b->blocks;
}

/* Divisors of thread numbers in the expression: distances at which neighbours in memory may lie. */
static uint32_t divisors(const IndexExpr *e, int64_t *out, uint32_t count)
{
    if (count == DIVISORS_MOST || e->a == NULL)
        return count;
    if (e->kind == IX_FLOORDIV)
        out[count++] = e->value;
    count = divisors(e->a, out, count);
    return e->b != NULL ? divisors(e->b, out, count) : count;
}

/* Blocks from one to the next that touches the same sectors; 0: none is found. */
static double blocks_to_next(WorkBuilder *b, WorkPattern *p)
{
    int64_t by[DIVISORS_MOST + 1] = {0};
    uint32_t count = divisors(p->element, by, 0);
    by[count++] = 1;
    double nearest = 0;
    for (uint32_t i = 0; i < count; i++) {
        double distance = larger((double)by[i] / (b->threads * b->lanes), 1);
        if ((nearest == 0 || distance < nearest) &&
            pattern_meets(b, p, (int64_t)distance))
            nearest = distance;
    }
    return nearest;
}

/* Bytes that device memory moves for an access by itself. */
static double access_memory(WorkBuilder *b, const WorkAccess *a, double block_bytes,
                            double resident)
{
    double total = access_total(b, a);
    if (total <= a->reach || a->reach <= work_l2_kept(b))
        return smaller(total, a->reach);
    double read;
    if (panels_memory(b, a, &read))
        return smaller(total, read);
    WorkPattern p = {a->element, a->bits, a->lanes, a->is_together, NULL, NULL};
    double next = blocks_to_next(b, &p), wave = resident * b->device->multiprocessors;
    if (next == 0) /* anywhere, or from trip to trip, which is soon */
        return work_index(b, a->element)->is_random ? total : a->reach;
    if (next <=
        1) { /* the blocks of a wave read it together, or as many as there are in a row that do */
        double readers = total / a->reach, together = smaller(readers, wave);
        if (!pattern_meets(b, &p, (int64_t)larger(together / 2, 1)))
            readers = b->blocks;
        return smaller(total, a->reach * larger(readers / wave, 1));
    }
    return next * block_bytes <= work_l2_kept(b) ? a->reach : total;
}

/* How a later access of an array stands to an earlier one. */
typedef enum {
    FAR,   /* elsewhere, as far as is known */
    NEAR,  /* at a constant distance, which L2 spans */
    AGAIN, /* at the same positions, still held by L2 */
} Relation;

static Relation relation(WorkBuilder *b, const WorkAccess *first,
                         const WorkAccess *second, double resident)
{
    double blocks = smaller(resident * b->device->multiprocessors, b->blocks);
    const IndexExpr *difference =
        ix_add(b->ix, second->element, ix_mul(b->ix, first->element, -1));
    if (difference->kind == IX_CONST) {
        double distance = (double)difference->value * (double)first->bits / 8;
        if (distance == 0)
            return AGAIN;
        return larger(distance, -distance) <= work_l2_kept(b) ? NEAR : FAR;
    }
    /* walked over again: all that the blocks at work touch meanwhile */
    if (!pattern_same(b, first->element, second->element))
        return FAR;
    return blocks * access_total(b, first) / b->blocks <= work_l2_kept(b) ? AGAIN : FAR;
}

static Relation relation_to_earlier(WorkBuilder *b, size_t first, size_t i,
                                    double resident)
{
    Relation best = FAR;
    for (size_t k = first; k < i && best != AGAIN; k++) {
        if (b->accesses[k].array != b->accesses[i].array)
            continue;
        Relation r = relation(b, &b->accesses[k], &b->accesses[i], resident);
        best = r > best ? r : best;
    }
    return best;
}

/* What an array's accesses move, and of what the kernel needs it. Those at constant distances touch the same
 * sectors sooner or later: together no more than all of them, or than one of them alone. */
static double array_memory(WorkBuilder *b, size_t first, double block_bytes,
                           double resident, double *needed)
{
    const WorkAccess *a = &b->accesses[first];
    double far = 0, near = 0, alone = 0, total = 0, reach = 0;
    for (size_t i = first; i < b->access_count; i++) {
        const WorkAccess *x = &b->accesses[i];
        if (x->array != a->array)
            continue;
        Relation r = relation_to_earlier(b, first, i, resident);
        double moved = r == AGAIN ? 0 : access_memory(b, x, block_bytes, resident);
        bool is_near = i == first || r == NEAR;
        near += is_near ? moved : 0;
        far += is_near ? 0 : moved;
        alone = larger(alone, is_near ? moved : 0);
        total += access_total(b, x);
        reach = larger(reach, x->reach);
    }
    *needed = smaller(total, reach);
    double sum = far + smaller(near, larger(alone, reach));
    return reach <= work_l2_kept(b) ? smaller(sum, reach) : sum;
}

void work_traffic(WorkBuilder *b, double resident, KernelWork *out)
{
    double block_bytes = 0;
    panels_choose(b, resident);
    out->panel = b->matrix.panels.panel;
    for (size_t i = 0; i < b->access_count; i++)
        block_bytes += access_total(b, &b->accesses[i]) / larger(b->blocks, 1);
    out->l2_bytes = block_bytes * b->blocks + b->torn_l2;
    out->read_bytes += b->torn_read;
    out->written_bytes += b->torn_written;
    for (size_t i = 0; i < b->access_count; i++) {
        const WorkAccess *a = &b->accesses[i];
        double needed;
        bool is_first = true;
        for (size_t k = 0; k < i && is_first; k++)
            is_first = b->accesses[k].array != a->array;
        if (!is_first)
            continue;
        *(a->is_store ? &out->written_bytes : &out->read_bytes) +=
            array_memory(b, i, block_bytes, resident, &needed);
        out->needed_bytes += needed;
    }
}

/* -- accesses ----------------------------------------------------------------------------------------------- */

/* Elements that one instruction takes: as emit_load chooses. */
static uint32_t access_width(WorkBuilder *b, const IndexExpr *e, int64_t bits,
                             bool *is_together)
{
    int64_t stride;
    *is_together = b->lanes == 1;
    if (b->lanes == 1 || b->lane == NULL ||
        !ix_stride(e, IX_RUNTIME, (uint32_t)b->lane->value, &stride) || stride != 1)
        return 1;
    *is_together = true;
    const IndexExpr *first =
        ix_replace(b->ix, e, IX_RUNTIME, (uint32_t)b->lane->value, ix_const(b->ix, 0));
    uint32_t width = b->lanes;
    while (width > 1 &&
           (width * bits > 8 * ACCESS_BYTES || !ix_is_multiple(first, width)))
        width /= 2;
    return width;
}

/* Cycles from the load to its value. */
static double load_cycles(const WorkBuilder *b, const WorkAccess *a)
{
    double total = access_total(b, a);
    double far = total <= a->reach ? 1 : a->reach / total;
    if (a->array_bytes <= work_l2_kept(b) * costs.l2_recent)
        far = 0;
    double missed = far * b->rates->memory_cycles + (1 - far) * b->rates->l2_cycles;
    return (1 - a->l1_share) * costs.l1_cycles + a->l1_share * missed;
}

static double reach_of(const IndexExpr *e, int64_t bits, double array_bytes)
{
    double elements = (double)e->range.hi - (double)e->range.lo + 1;
    return smaller(array_bytes, elements * (double)bits / 8);
}

/* An earlier access of the same positions, of an array of the same size; NULL: none. */
static const WorkAccess *find_alike(const WorkBuilder *b, const WorkAccess *a)
{
    for (size_t i = b->access_count; i-- > 0;) {
        const WorkAccess *x = &b->accesses[i];
        if (x->element == a->element && x->bits == a->bits && x->lanes == a->lanes &&
            x->is_together == a->is_together && x->is_store == a->is_store &&
            x->loop == a->loop && x->runs == a->runs && x->reach == a->reach)
            return x;
    }
    return NULL;
}

static WorkAccess describe(WorkBuilder *b, uint32_t array, const Shape *s,
                           const IndexExpr *e, uint32_t loop, bool is_store)
{
    int64_t bits = dtype_info[s->dtype].bits;
    WorkAccess a = {.array = array,
                    .is_store = is_store,
                    .element = e,
                    .bits = bits,
                    .loop = loop,
                    .array_bytes = (double)shape_bytes(s)};
    uint32_t width = access_width(b, e, bits, &a.is_together);
    a.lanes = work_index(b, e)->has_lane ? b->lanes : 1;
    a.requests = a.lanes == 1 ? 1 : (double)(b->lanes / width);
    a.runs = b->loops[loop].runs * b->part;
    a.reach = reach_of(e, bits, a.array_bytes);
    if (b->registers_only)
        return a;
    const WorkAccess *alike = find_alike(b, &a);
    if (alike != NULL) {
        a.sectors = alike->sectors;
        a.l1_share = alike->l1_share;
        a.walked = alike->walked;
        return a;
    }
    WorkPattern p = {e, bits, a.lanes, a.is_together, NULL, NULL};
    a.sectors = pattern_units(b, &p, costs.sector_bytes);
    a.l1_share = is_store ? 1 : l1_share(b, &p, &a) * beside_earlier(b, &p, &a);
    a.walked = p.walked;
    return a;
}

/* Loads and stores, what they look up in L1, and the addresses that no other access has made. */
static void count_requests(WorkBuilder *b, const WorkAccess *a)
{
    WorkLoop *l = &b->loops[a->loop];
    double bytes = (double)a->bits / 8 * a->lanes * TARGET_WARP;
    double cycles = larger(a->sectors * costs.sector_bytes, smaller(bytes, 4096)) /
                    costs.shared_bytes;
    l->counts.issued += a->requests * b->issued_part;
    l->counts.shared += larger(cycles, a->requests) * b->part;
    OpCost address = {.alu = 1, .imul = 1};
    work_add(b, a->loop, address, a->is_together ? 1 : a->requests);
    double words = (double)a->lanes * (double)a->bits / 32 * smaller(b->part, 1);
    if (!a->is_store)
        *(b->keeps_values ? &b->registers : &l->value_words) += words;
}

static WorkAccess *add_access(WorkBuilder *b, WorkAccess a)
{
    b->accesses = arena_grow(b->arena, b->accesses, &b->access_capacity,
                             b->access_count + 1, sizeof *b->accesses);
    b->accesses[b->access_count] = a;
    return &b->accesses[b->access_count++];
}

/* Code of the address: of lane 0 where the others lie at constant distances. */
static double count_address(WorkBuilder *b, const IndexExpr *e)
{
    int64_t stride;
    if (b->lanes > 1 && b->lane != NULL &&
        ix_stride(e, IX_RUNTIME, (uint32_t)b->lane->value, &stride))
        e = ix_replace(b->ix, e, IX_RUNTIME, (uint32_t)b->lane->value,
                       ix_const(b->ix, 0));
    return work_count_index(b, e);
}

WorkValue work_load(WorkBuilder *b, uint32_t array, const Shape *s,
                    const IndexExpr *const *index)
{
    const IndexExpr *e = index_linear(b->ix, s, index);
    double ready = count_address(b, e);
    WorkIndex w = *work_index(b, e);
    WorkAccess a = describe(b, array, s, e, w.loop, false);
    count_requests(b, &a);
    ready = larger(ready, b->loops[w.loop].now) + load_cycles(b, &a);
    work_ready(b, w.loop, ready);
    add_access(b, a);
    return (WorkValue){.loop = w.loop, .ready = ready, .has_lane = w.has_lane};
}

void work_store(WorkBuilder *b, uint32_t array, const Shape *s,
                const IndexExpr *const *index)
{
    const IndexExpr *e = index_linear(b->ix, s, index);
    count_address(b, e);
    WorkAccess a = describe(b, array, s, e, b->loop, true);
    count_requests(b, &a);
    add_access(b, a);
}
