/* The collective-permute decomposer: in the body of a loop a permute becomes what sends and
 * receives it, which the schedule may pull apart.
 *
 *   r = f32[8] collective-permute(x), source_target_pairs={{0,1},{1,2}}, channel_id=1
 *   ->  t = after-all()
 *       rv = recv(t), channel_id=1
 *       sd = send(x, t), channel_id=1, control-predecessors={rv}
 *       rd = recv-done(rv), channel_id=1, control-predecessors={sd}
 *       send-done(sd), channel_id=1
 *       r = get-tuple-element(rd), index=0
 *
 * Taken are permutes of one array, of at least collective-permute-decomposer-threshold bytes - none
 * by default -, whose pairs have no cycle: on a ring every rank would wait for the one before.
 * Those between replicas stay where there are several partitions: transfers are between these.
 * Several stay in order: the send of one comes before the recv of the next, its end before the
 * next one's end. Collectives that share two devices or more with a transfer, and that no transfer
 * waits for, come behind the last one's end: two communicators that hold the same devices must be
 * entered in one order everywhere.
 *
 * Needs: plain collectives. Keeps: values, control edges, metadata. Ends: one sweep. */
#include <stdlib.h>

#include "ir/analysis/carried.h"
#include "ir/analysis/collective.h"
#include "ir/base/text.h"
#include "passes/collectives/collectives.h"
#include "passes/collectives/loops/step.h"
#include "passes/settings.h"

typedef struct Transfer {
    Instruction *recv, *send, *recv_done, *send_done;
} Transfer;

/* Channels of transfers differ: a permute's own is kept while it is above those kept before. */
typedef struct Channels {
    FreshIds fresh;
    int64_t kept; /* the highest */
} Channels;

typedef struct Decomposer {
    Computation *comp;
    PassContext *cx;
    uint32_t count;        /* of instructions before */
    Instruction **forward; /* by old id */
    bool *is_before;       /* by old id: a transfer waits for it */
    Instruction **taken;   /* [taken_count] permutes in topological order */
    uint32_t taken_count;
    int64_t *devices; /* of all transfers, ascending, once each */
    uint32_t device_count;
} Decomposer;

static int by_source(const void *a, const void *b)
{
    int64_t x = (*(const Ints *)a).data[0], y = (*(const Ints *)b).data[0];
    return (x > y) - (x < y);
}

static const Ints *from_source(const Ints *pairs, uint32_t count, int64_t source)
{
    Ints key = {&source, 1};
    return bsearch(&key, pairs, count, sizeof *pairs, by_source);
}

/* Each source has one target: follows the chains, each pair once. */
static bool has_cycle(IntLists pairs, Arena *scratch)
{
    Ints *sorted =
        arena_copy(scratch, pairs.data, (pairs.count + (size_t)1) * sizeof *sorted);
    uint32_t *chain = ARENA_ARRAY(scratch, uint32_t, (size_t)pairs.count + 1);
    qsort(sorted, pairs.count, sizeof *sorted, by_source);
    for (uint32_t i = 0; i < pairs.count; i++) {
        const Ints *at = &sorted[i];
        while (at != NULL && chain[at - sorted] == 0) {
            chain[at - sorted] = i + 1;
            at = from_source(sorted, pairs.count, at->data[1]);
        }
        if (at != NULL && chain[at - sorted] == i + 1)
            return true;
    }
    return false;
}

/* The pairs of transfers are partitions where there are several, replicas otherwise. */
static bool is_other_mode(const Instruction *inst)
{
    bool has_partitions = inst->parent->module->config.num_partitions > 1;
    return (collective_mode(inst) == COLLECTIVE_CROSS_PARTITION) != has_partitions;
}

static bool may_take(const Instruction *inst, const PassContext *cx)
{
    return inst->op == OP_COLLECTIVE_PERMUTE && inst->operand_count == 1 &&
           shape_is_array(inst->shape) &&
           shape_bytes(inst->shape) >=
               cx->settings->collective_permute_decomposer_threshold &&
           !is_other_mode(inst) &&
           !has_cycle(inst_int_lists(inst, ATTR_SOURCE_TARGET_PAIRS), cx->scratch);
}

/* -- conflicts ----------------------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void find_devices(Decomposer *d)
{
    size_t n = 0, most = 0;
    for (uint32_t i = 0; i < d->taken_count; i++)
        most += 2 * (size_t)collective_pairs(d->cx->scratch, d->taken[i]).count;
    d->devices = ARENA_ARRAY(d->cx->scratch, int64_t, most + 1);
    for (uint32_t i = 0; i < d->taken_count; i++) {
        IntLists pairs = collective_pairs(d->cx->scratch, d->taken[i]);
        for (uint32_t k = 0; k < 2 * pairs.count; k++)
            d->devices[n++] = pairs.data[k / 2].data[k % 2];
    }
    qsort(d->devices, n, sizeof *d->devices, compare_numbers);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || d->devices[i] != d->devices[i - 1])
            d->devices[d->device_count++] = d->devices[i];
    }
}

static bool is_conflicting(const Decomposer *d, const Instruction *inst)
{
    IntLists groups = inst->op == OP_COLLECTIVE_PERMUTE
                          ? collective_pairs(d->cx->scratch, inst)
                          : collective_groups(d->cx->scratch, inst);
    for (uint32_t g = 0; g < groups.count; g++) {
        uint32_t shared = 0;
        for (uint32_t i = 0; i < groups.data[g].count; i++)
            shared += bsearch(&groups.data[g].data[i], d->devices, d->device_count,
                              sizeof *d->devices, compare_numbers) != NULL;
        if (shared >= 2)
            return true;
    }
    return false;
}

/* -- the rewrite ---------------------------------------------------------------------------- */

static const char *pairs_text(const Instruction *permute)
{
    IntLists pairs = inst_int_lists(permute, ATTR_SOURCE_TARGET_PAIRS);
    Text t;
    text_init(&t, permute->parent->module->arena);
    text_char(&t, '{');
    for (uint32_t i = 0; i < pairs.count; i++)
        text_printf(&t, "%s{%lld,%lld}", i == 0 ? "" : ",",
                    (long long)pairs.data[i].data[0], (long long)pairs.data[i].data[1]);
    text_char(&t, '}');
    return t.data;
}

/* One of the four, with the permute's channel, attributes and metadata. */
static Instruction *add_part(const Instruction *permute, OpCode op, const Shape *shape,
                             uint32_t operand_count, Instruction *const *operands,
                             int64_t channel, const char *pairs)
{
    Instruction *inst =
        computation_add(permute->parent, op, shape, operand_count, operands, NULL);
    const Attr *metadata = inst_attr(permute, ATTR_METADATA);
    const Attr *frontend = inst_attr(permute, ATTR_FRONTEND_ATTRIBUTES);
    inst->span = permute->span;
    inst_set_int(inst, ATTR_CHANNEL_ID, channel);
    if (metadata != NULL)
        inst_set(inst, *metadata);
    if (frontend != NULL)
        inst_set(inst, *frontend);
    if (pairs != NULL)
        inst_set_frontend_attribute(inst, "_xla_send_recv_source_target_pairs", pairs);
    return inst;
}

static Transfer decompose(Decomposer *d, const Instruction *permute, Channels *channels)
{
    Computation *comp = d->comp;
    Intern *intern = comp->module->intern;
    const Shape *token = shape_token(intern), *number = shape_scalar(intern, DT_U32);
    const Shape *pending[3] = {permute->shape, number, token};
    const Shape *begun = shape_tuple(intern, 3, pending);
    const Shape *received[2] = {permute->shape, token};
    int64_t channel = inst_int(permute, ATTR_CHANNEL_ID, 0);
    if (channel > channels->kept)
        channels->kept = channel;
    else
        channel = channels->fresh.channel++;
    const char *pairs = pairs_text(permute);
    Instruction *after = computation_add(comp, OP_AFTER_ALL, token, 0, NULL, NULL);
    Instruction *sent[2] = {permute->operands[0], after};
    Transfer t;
    t.recv = add_part(permute, OP_RECV, begun, 1, &after, channel, pairs);
    t.send = add_part(permute, OP_SEND, begun, 2, sent, channel, pairs);
    t.recv_done = add_part(permute, OP_RECV_DONE, shape_tuple(intern, 2, received), 1,
                           &t.recv, channel, NULL);
    t.send_done = add_part(permute, OP_SEND_DONE, token, 1, &t.send, channel, NULL);
    inst_add_controls(t.recv, permute);
    inst_add_control(t.send, t.recv);
    inst_add_control(t.recv_done, t.send);
    Instruction *result = computation_add(comp, OP_GET_TUPLE_ELEMENT, permute->shape, 1,
                                          &t.recv_done, permute->name);
    inst_set_int(result, ATTR_INDEX, 0);
    d->forward[permute->id] = result;
    return t;
}

/* Permutes that can be taken, and all that they wait for. */
static void find_taken(Decomposer *d)
{
    uint32_t n;
    Instruction **order = computation_post_order(d->comp, d->cx->scratch, &n);
    d->taken = ARENA_ARRAY(d->cx->scratch, Instruction *, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++) {
        if (may_take(order[i], d->cx))
            d->taken[d->taken_count++] = order[i];
    }
    d->is_before = ARENA_ARRAY(d->cx->scratch, bool, (size_t)d->count + 1);
    for (uint32_t i = 0; i < d->taken_count; i++)
        d->is_before[d->taken[i]->id] = true;
    for (uint32_t i = n; d->taken_count != 0 && i-- > 0;) {
        const Instruction *inst = order[i];
        for (uint32_t k = 0; d->is_before[inst->id] && k < inst->operand_count; k++)
            d->is_before[inst->operands[k]->id] = true;
        for (uint32_t k = 0; d->is_before[inst->id] && k < inst->control_count; k++)
            d->is_before[inst->control[k]->id] = true;
    }
}

static bool visit(Computation *comp, PassContext *cx, Channels *channels)
{
    Decomposer d = {.comp = comp, .cx = cx, .count = comp->instruction_count};
    find_taken(&d);
    if (d.taken_count == 0)
        return false;
    find_devices(&d);
    d.forward = ARENA_ARRAY(cx->scratch, Instruction *, (size_t)d.count + 1);
    Transfer last = {0};
    for (uint32_t i = 0; i < d.taken_count; i++) {
        Transfer next = decompose(&d, d.taken[i], channels);
        if (i != 0) {
            inst_add_control(next.recv, last.send);
            inst_add_control(next.recv_done, last.send_done);
        }
        last = next;
    }
    cx->counts.permutes_decomposed += d.taken_count;
    for (uint32_t i = 0; i < d.count; i++) {
        Instruction *inst = comp->instructions[i];
        if (inst != NULL && op_is(inst->op, OPF_COLLECTIVE) &&
            !op_is(inst->op, OPF_EFFECT | OPF_ASYNC_START | OPF_ASYNC_DONE) &&
            !d.is_before[i] && is_conflicting(&d, inst))
            inst_add_control(inst, last.send_done);
    }
    computation_substitute(comp, d.forward, d.count);
    computation_sort(comp);
    return true;
}

bool pass_permute_decomposer(Module *m, PassContext *cx)
{
    if (cx->settings->collective_permute_decomposer_threshold == INT64_MAX ||
        m->config.is_scheduled)
        return false;
    Channels channels = {fresh_ids(m), 0};
    const bool *is_body = module_loop_bodies(m, cx->scratch);
    const uint32_t *calls = module_call_counts(m, cx->scratch);
    bool changed = false;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (is_body[comp->id] && calls[comp->id] == 1)
            changed |= visit(comp, cx, &channels);
    }
    return changed;
}
