/* Asynchronous pairs become the plain operation, at the position of the start.
 *
 *   s = (f32[4], f32[8]) all-gather-start(x), dimensions={0}      g = f32[8] all-gather(x), ...
 *   ROOT g = f32[8] all-gather-done(s)                        =>  ROOT g
 *
 *   s = ((f32[8]), f32[4]) async-start(x), calls=f                r = f32[4] call(x), to_apply=f
 *   u = ((f32[8]), f32[4]) async-update(s)                    =>
 *   ROOT r = f32[4] async-done(u)
 *
 *   r = recv(t), channel_id=1   s = send(x, t), channel_id=1      p = collective-permute(x)
 *   rd = recv-done(r)           sd = send-done(s)             =>  rd = tuple(p, t)  sd = t
 *
 * An end may lie in another turn of a loop, or behind it; what is received is then carried instead:
 *
 *   b = recv-done(get-tuple-element(state))  r = recv(t)      p = collective-permute(x)
 *   s = send(x, t)   ROOT (.., r, s)                      =>  b = elements 0 and 2 of what is carried
 *                                                             ROOT (.., (p, 0, t), (x, 0, t))
 *
 * What the text said about time is dropped, a schedule too: passes below move, combine and fuse, and pairs are
 * made again where they pay. A pair whose starts are not in one computation stays as it is.
 *
 * Needs: well formed. Keeps: values, metadata, control edges but for those that want
 * something between the start and its end. Ends: one sweep. */
#include <string.h>

#include "ir/attribute/config.h"
#include "passes/collectives/async/cycles.h"
#include "passes/collectives/async/transfer.h"
#include "passes/collectives/collectives.h"

typedef struct Sync {
    Computation *comp;
    Arena *scratch;
    Uses uses;
    Instruction **forward; /* [count] by old id */
    uint32_t count;
    Transfers *transfers;
} Sync;

static uint32_t use_count(const Sync *s, const Instruction *inst)
{
    return s->uses.start[inst->id + 1] - s->uses.start[inst->id];
}

static void copy_attributes(Instruction *to, const Instruction *from, AttrId but)
{
    for (uint32_t i = 0; i < from->attr_count; i++) {
        if (from->attrs[i].id != but && from->attrs[i].id != ATTR_SHARDING)
            inst_set(to, from->attrs[i]);
    }
    to->span = from->span;
}

/* Forwards start, done and what lies between to the operation; a control edge of any of them
 * is one of it, except those among themselves. */
static void finish_pair(Sync *s, Instruction *made, Instruction **parts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        s->forward[parts[i]->id] = made;
    for (uint32_t i = 0; i < count; i++)
        inst_add_controls(made, parts[i]);
    uint32_t n = 0;
    for (uint32_t i = 0; i < made->control_count; i++) {
        Instruction *c = made->control[i];
        if (c->id >= s->count || s->forward[c->id] != made)
            made->control[n++] = c;
    }
    made->control_count = n;
}

static bool convert_collective(Sync *s, Instruction *done)
{
    Instruction *start = done->operands[0];
    OpCode op = op_plain(start->op);
    if (op == start->op || use_count(s, start) != 1)
        return false;
    Instruction *made = computation_add(s->comp, op, done->shape, start->operand_count,
                                        start->operands, done->name);
    copy_attributes(made, start, ATTR_CROSS_PROGRAM_PREFETCH_INDEX);
    inst_take_origin(made, done);
    Instruction *parts[2] = {start, done};
    finish_pair(s, made, parts, 2);
    return true;
}

enum { NESTING_MOST = 1000 };

/* The computation and all that it calls. */
static void set_thread(Computation *comp, const char *thread, int depth)
{
    comp->execution_thread = thread;
    for (const Instruction *inst = inst_first(comp); inst && depth < NESTING_MOST;
         inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst_called_count(inst); k++)
            set_thread(inst_called(inst, k), thread, depth + 1);
    }
}

/* What is a group, asks for a stream, or runs on the thread "parallel", stays a call, which becomes
 * asynchronous again. */
static void keep_stream(Instruction *call, const Instruction *start, bool is_parallel)
{
    const char *stream = inst_frontend_attribute(start, "_xla_stream_annotation");
    const char *group = inst_frontend_attribute(start, "_collectives_group");
    const char *together = inst_frontend_attribute(start, "_scheduling_group_id");
    if (together !=
        NULL) /* pass_inline leaves it to what is inside, stream-calls gives it to the pair */
        inst_set_frontend_attribute(call, "_scheduling_group_id", together);
    if (group != NULL)
        inst_set_frontend_attribute(call, "_collectives_group", group);
    if (stream == NULL && !is_parallel)
        return;
    inst_set_frontend_attribute(call, "_xla_stream_annotation",
                                stream != NULL ? stream : "parallel");
    inst_set_frontend_attribute(call, "inlineable", "false");
}

/* async-done(async-update*(async-start)): a call with all operands that were bound. */
static bool convert_async(Sync *s, Instruction *done)
{
    uint32_t links = 1, operands = 0;
    Instruction *start = done->operands[0];
    while (start->op == OP_ASYNC_UPDATE && use_count(s, start) == 1) {
        links++;
        operands += start->operand_count - 1;
        start = start->operands[0];
    }
    if (start->op != OP_ASYNC_START || use_count(s, start) != 1)
        return false;
    operands += start->operand_count;
    Computation *callee = inst_called(start, 0);
    if (callee->parameter_count != operands ||
        !shape_compatible(callee->root->shape, done->shape))
        return false;
    Instruction **all = ARENA_ARRAY(s->scratch, Instruction *, (size_t)operands + 1);
    Instruction **parts = ARENA_ARRAY(s->scratch, Instruction *, (size_t)links + 1);
    uint32_t at = operands, n = 0;
    Instruction *link = done;
    for (uint32_t i = 0; i <= links; i++) {
        parts[n++] = link;
        uint32_t first = link->op == OP_ASYNC_START ? 0 : 1;
        for (uint32_t k = link->operand_count; link != done && k-- > first;)
            all[--at] = link->operands[k];
        link = link->op == OP_ASYNC_START ? NULL : link->operands[0];
    }
    bool is_parallel = strcmp(callee->execution_thread, "parallel") == 0 &&
                       !op_is(callee->root->op, OPF_COLLECTIVE);
    set_thread(callee, s->comp->execution_thread, 0);
    callee->is_async_wrapped = false;
    const char *together = inst_frontend_attribute(start, "_scheduling_group_id");
    if (together != NULL && op_is(callee->root->op, OPF_COLLECTIVE))
        inst_set_frontend_attribute(callee->root, "_scheduling_group_id", together);
    Instruction *made =
        computation_add(s->comp, OP_CALL, done->shape, operands, all, done->name);
    inst_set_computation(made, ATTR_TO_APPLY, callee);
    keep_stream(made, start, is_parallel);
    const Attr *metadata = inst_attr(start, ATTR_METADATA);
    if (metadata != NULL)
        inst_set(made, *metadata);
    made->span = start->span;
    finish_pair(s, made, parts, n);
    return true;
}

/* -- send and recv ------------------------------------------------------------------------ */

static Instruction *only_done(const Sync *s, const Instruction *start, OpCode op)
{
    if (use_count(s, start) != 1)
        return NULL;
    Instruction *user = s->uses.list[s->uses.start[start->id]];
    return user->op == op ? user : NULL;
}

/* What send and recv say besides who sends to whom: the one's attributes, or the other's. */
static void copy_notes(Instruction *to, const Instruction *send, const Instruction *recv)
{
    static const AttrId kept[] = {ATTR_METADATA, ATTR_FRONTEND_ATTRIBUTES};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        const Attr *attr = inst_attr(recv, kept[i]);
        attr = attr == NULL ? inst_attr(send, kept[i]) : attr;
        if (attr != NULL)
            inst_set(to, *attr);
    }
    config_copy(to, config_has_text(recv) ? recv : send);
    const Attr *attr = inst_attr(to, ATTR_FRONTEND_ATTRIBUTES);
    if (attr == NULL)
        return;
    Dict *dict = arena_copy(to->parent->module->arena, attr->dict, sizeof *dict);
    DictEntry *entries = arena_copy(to->parent->module->arena, dict->entries,
                                    dict->count * sizeof *entries);
    dict->entries = entries;
    uint32_t n = 0;
    for (uint32_t i = 0; i < dict->count; i++) {
        bool said = strcmp(entries[i].key, "_xla_send_recv_source_target_pairs") == 0 ||
                    strcmp(entries[i].key, "_xla_send_recv_validation") == 0;
        if (!said)
            entries[n++] = entries[i];
    }
    dict->count = n;
    if (n == 0)
        inst_unset(to, ATTR_FRONTEND_ATTRIBUTES);
    else
        inst_set(to, (Attr){.id = ATTR_FRONTEND_ATTRIBUTES, .dict = dict});
}

/* What stands for a start whose end is elsewhere: its data, and nothing to wait for. */
static Instruction *carried(Sync *s, const Instruction *start, Instruction *data)
{
    const Shape *number = start->shape->elements[1];
    Module *m = s->comp->module;
    Instruction *zero =
        computation_add_constant(s->comp, literal_create(m->arena, number), NULL);
    Instruction *parts[3] = {data, zero, start->operands[start->operand_count - 1]};
    return computation_add(s->comp, OP_TUPLE, start->shape, 3, parts, NULL);
}

static bool convert_transfer(Sync *s, Instruction *send)
{
    Instruction *recv = transfer_recv(s->transfers, send);
    if (recv == NULL)
        return false;
    Instruction *send_done = only_done(s, send, OP_SEND_DONE);
    Instruction *recv_done = only_done(s, recv, OP_RECV_DONE);
    Module *m = s->comp->module;
    Instruction *moved =
        computation_add(s->comp, OP_COLLECTIVE_PERMUTE, send->operands[0]->shape, 1,
                        send->operands, recv->name);
    IntLists pairs;
    collective_transfer_pairs(m->arena, send, &pairs);
    inst_set(moved, (Attr){.id = ATTR_SOURCE_TARGET_PAIRS, .lists = pairs});
    if (m->config.num_partitions > 1)
        inst_set_int(moved, ATTR_CHANNEL_ID, inst_int(send, ATTR_CHANNEL_ID, 1));
    copy_notes(moved, send, recv);
    moved->span = recv->span;
    s->forward[send->id] = s->forward[recv->id] = moved;
    if (recv_done != NULL) {
        Instruction *results[2] = {moved, recv->operands[0]};
        s->forward[recv_done->id] = computation_add(s->comp, OP_TUPLE, recv_done->shape,
                                                    2, results, recv_done->name);
    } else {
        s->forward[recv->id] = carried(s, recv, moved);
    }
    if (send_done != NULL) {
        Instruction *tokens[1] = {send->operands[1]};
        Instruction *after = computation_add(s->comp, OP_AFTER_ALL, send_done->shape, 1,
                                             tokens, send_done->name);
        inst_add_control(after, moved); /* who waits for the end waits for both */
        s->forward[send_done->id] = after;
    } else {
        s->forward[send->id] = carried(s, send, send->operands[0]);
    }
    inst_add_controls(moved, send);
    inst_add_controls(moved, recv);
    uint32_t n = 0;
    for (uint32_t i = 0; i < moved->control_count; i++) {
        Instruction *c = moved->control[i];
        if (c != send && c != recv && c != send_done && c != recv_done)
            moved->control[n++] = c;
    }
    moved->control_count = n;
    return true;
}

/* The end of a transfer that began elsewhere: elements of what is carried from there. */
static bool convert_late_end(Sync *s, Instruction *done)
{
    Instruction *from = done->operands[0], *parts[2];
    if (from->op == OP_SEND || from->op == OP_RECV ||
        inst_bool(done, ATTR_IS_HOST_TRANSFER) || !shape_is_tuple(from->shape) ||
        from->shape->rank != 3)
        return false;
    for (uint32_t i = 0; i < 2; i++)
        parts[i] = computation_add_element(from, 2 * i);
    s->forward[done->id] =
        done->op == OP_SEND_DONE
            ? parts[1]
            : computation_add(s->comp, OP_TUPLE, done->shape, 2, parts, done->name);
    return true;
}

/* -- the pass ------------------------------------------------------------------------------- */

static bool convert(Sync *s, Instruction *inst)
{
    if (inst->op == OP_ASYNC_DONE)
        return convert_async(s, inst);
    if (inst->op == OP_SEND)
        return convert_transfer(s, inst);
    if (inst->op == OP_SEND_DONE || inst->op == OP_RECV_DONE)
        return convert_late_end(s, inst);
    return op_is(inst->op, OPF_ASYNC_DONE) && convert_collective(s, inst);
}

static bool visit(Computation *comp, const TransferChannels *channels, Arena *scratch)
{
    Sync s = {.comp = comp, .scratch = scratch, .count = comp->instruction_count};
    bool any = false;
    for (uint32_t i = 0; i < s.count; i++) {
        const Instruction *inst = comp->instructions[i];
        any |= inst != NULL && (op_is(inst->op, OPF_ASYNC_DONE) || inst->op == OP_SEND);
    }
    if (!any)
        return false;
    s.uses = uses_compute(comp, scratch);
    s.forward = ARENA_ARRAY(scratch, Instruction *, (size_t)s.count + 1);
    s.transfers = transfers_find(comp, channels, s.forward, scratch);
    bool changed = false;
    for (uint32_t i = 0; i < s.count; i++) {
        if (comp->instructions[i] != NULL)
            changed |= convert(&s, comp->instructions[i]);
    }
    if (!changed)
        return false;
    computation_substitute(comp, s.forward, s.count);
    computation_break_cycles(comp, scratch);
    computation_sort(comp);
    return true;
}

bool pass_async_to_sync(Module *m, PassContext *cx)
{
    bool changed = m->config.is_scheduled;
    m->config.is_scheduled = false;
    TransferChannels channels = collective_transfer_channels(m, cx->scratch);
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        changed |= visit(comp, &channels, cx->scratch);
    if (changed)
        module_sort(m);
    return changed;
}
