/* The verifier's rules about pairs (12.5 and 9.6 of the language): X-start and X-done, the
 * chain of async-start, -update and -done, send and recv. */
#include <stdlib.h>
#include <string.h>

#include "ir/verify/rules.h"

static const char *with_article(Verify *v, OpCode op)
{
    const char *name = op_info[op].name;
    return arena_printf(v->scratch, "%s %s", strchr("aeiou", *name) ? "an" : "a", name);
}

static void check_start(Verify *v, const Instruction *inst, Uses uses, OpCode done)
{
    const Instruction *user = uses_only(&uses, inst);
    if (!user || user->op != done)
        verify_error(v, inst, "must have exactly one user, %s, but has %u%s%s",
                     with_article(v, done), uses_count(&uses, inst), user ? ", " : "",
                     user ? with_article(v, user->op) : "");
}

static void check_done(Verify *v, const Instruction *inst, OpCode start)
{
    if (inst->operand_count == 0) /* in a sketch, what sugar wraps may get it late */
        return;
    if (inst->operands[0]->op != start)
        verify_error(v, inst, "its operand %s must be %s, but is %s",
                     inst->operands[0]->name, with_article(v, start),
                     with_article(v, inst->operands[0]->op));
}

/* -- async-start, async-update, async-done -------------------------------------------- */

static bool continues(OpCode op)
{
    return op == OP_ASYNC_UPDATE || op == OP_ASYNC_DONE;
}

static const Computation *wrapped(const Instruction *start)
{
    const Attr *a = inst_attr(start, ATTR_CALLS);
    return a && a->computations.count ? a->computations.data[0] : NULL;
}

/* In a sketch a chain may end before its operation has all operands. */
static void check_async_user(Verify *v, const Instruction *inst, const Instruction *start,
                             Uses uses)
{
    const Instruction *user = uses_only(&uses, inst);
    const Computation *comp = start ? wrapped(start) : NULL;
    if (v->level == LEVEL_SKETCH && uses_count(&uses, inst) == 0 && comp &&
        verify_lacks_operands(comp->root))
        return;
    if (!user || !continues(user->op) || user->operands[0] != inst)
        verify_error(v, inst,
                     "must have exactly one user, an async-update or async-done, but "
                     "has %u%s%s",
                     uses_count(&uses, inst), user ? ", a " : "",
                     user ? op_info[user->op].name : "");
}

static bool same_thread(const Instruction *a, const Instruction *b)
{
    Bytes x = inst_bytes(a, ATTR_ASYNC_EXECUTION_THREAD);
    Bytes y = inst_bytes(b, ATTR_ASYNC_EXECUTION_THREAD);
    const char *s = x.length ? x.data : "main", *t = y.length ? y.data : "main";
    return strcmp(s, t) == 0;
}

/* `part` is `whole`, or a tuple of the first of its elements. */
static bool is_prefix(const Shape *part, const Shape *whole)
{
    if (shape_compatible(part, whole))
        return true;
    if (!shape_is_tuple(part))
        return false;
    if (part->rank == 0)
        return true;
    if (!shape_is_tuple(whole) || part->rank > whole->rank)
        return false;
    for (uint32_t i = 0; i < part->rank; i++)
        if (!shape_compatible(part->elements[i], whole->elements[i]))
            return false;
    return true;
}

/* The operands bound so far are the computation's first parameters. */
static bool fits_parameters(const Shape *bound, const Computation *comp)
{
    if (bound->rank > comp->parameter_count)
        return false;
    for (uint32_t i = 0; i < bound->rank; i++)
        if (!shape_compatible(bound->elements[i], comp->parameters[i]->shape))
            return false;
    return true;
}

static bool is_async_shape(const Shape *s)
{
    return shape_is_tuple(s) && s->rank >= 2 && shape_is_tuple(s->elements[0]);
}

static void check_link(Verify *v, const Instruction *inst, const Instruction *start)
{
    const Computation *comp = wrapped(start);
    const Shape *s = inst->op == OP_ASYNC_DONE ? inst->operands[0]->shape : inst->shape;
    if (!comp || !is_async_shape(s))
        return; /* reported by the shape rules */
    if (wrapped(inst) && wrapped(inst) != comp)
        verify_error(v, inst, "calls %s, but %s calls %s", wrapped(inst)->name,
                     start->name, comp->name);
    if (inst_has(inst, ATTR_ASYNC_EXECUTION_THREAD) && !same_thread(inst, start))
        verify_error(v, inst, "its execution thread is not that of %s", start->name);
    bool open = shape_is_tuple(comp->root->shape) && comp->root->shape->rank == 0;
    if (v->level == LEVEL_SKETCH && open)
        return; /* operands and result may be bound late */
    const Shape *bound = s->elements[0], *result = comp->root->shape;
    bool fits = fits_parameters(bound, comp);
    if (inst->op == OP_ASYNC_DONE)
        fits = fits && bound->rank == comp->parameter_count &&
               shape_compatible(inst->shape, result);
    else
        fits = fits && is_prefix(s->elements[1], result);
    if (!fits)
        verify_error(v, inst,
                     "%s does not fit computation %s, which has %u parameters and gives "
                     "%s",
                     verify_text(v, s), comp->name, comp->parameter_count,
                     verify_text(v, result));
}

/* The async-start of a chain; `starts` remembers it for each instruction. */
static const Instruction *chain_start(const Instruction *inst, const Instruction **starts)
{
    const Instruction *at = inst;
    while (at->op != OP_ASYNC_START && !starts[at->id]) {
        if (!continues(at->op) || at->operand_count == 0)
            return NULL;
        at = at->operands[0];
    }
    const Instruction *start = at->op == OP_ASYNC_START ? at : starts[at->id];
    for (at = inst; at != start && !starts[at->id]; at = at->operands[0])
        starts[at->id] = start;
    return start;
}

static void check_chain(Verify *v, const Instruction *inst, const Instruction *start,
                        Uses uses)
{
    if (inst->op != OP_ASYNC_DONE)
        check_async_user(v, inst, start, uses);
    if (start)
        check_link(v, inst, start);
    else
        verify_error(v, inst, "does not continue an async-start");
}

/* -- send and recv ----------------------------------------------------------------------- */

static const Instruction *transfer_of(const Instruction *done)
{
    const Instruction *from = done->operands[0];
    return from->op == OP_GET_TUPLE_ELEMENT ? NULL : from;
}

static void check_transfer(Verify *v, const Instruction *inst, Uses uses)
{
    OpCode done = inst->op == OP_SEND ? OP_SEND_DONE : OP_RECV_DONE;
    const Instruction *user = uses_only(&uses, inst);
    if (!user || (user->op != done && user->op != OP_TUPLE))
        verify_error(v, inst,
                     "must have exactly one user, a %s or a tuple, but has %u%s%s",
                     op_info[done].name, uses_count(&uses, inst), user ? ", a " : "",
                     user ? op_info[user->op].name : "");
}

static void check_transfer_done(Verify *v, const Instruction *inst)
{
    OpCode start = inst->op == OP_SEND_DONE ? OP_SEND : OP_RECV;
    const Instruction *from = inst->operand_count != 0 ? transfer_of(inst) : NULL;
    if (!from)
        return;
    if (from->op != start) {
        verify_error(v, inst, "its operand %s must be a %s, but is a %s", from->name,
                     op_info[start].name, op_info[from->op].name);
        return;
    }
    if (inst_int(inst, ATTR_CHANNEL_ID, 0) != inst_int(from, ATTR_CHANNEL_ID, 0) ||
        inst_bool(inst, ATTR_IS_HOST_TRANSFER) != inst_bool(from, ATTR_IS_HOST_TRANSFER))
        verify_error(v, inst, "channel_id and is_host_transfer must be those of %s",
                     from->name);
}

static size_t channel_hash(int64_t channel)
{
    return (size_t)((uint64_t)channel * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

/* Host transfers of one kind that share a channel are the same transfer. */
static void check_host_channel(Verify *v, const Instruction *inst)
{
    if (!inst_bool(inst, ATTR_IS_HOST_TRANSFER) || !inst_has(inst, ATTR_CHANNEL_ID))
        return;
    if ((v->channel_count + 1) * 2 > v->channel_size) {
        size_t size = v->channel_size ? v->channel_size * 2 : 16;
        const Instruction **table = ARENA_ARRAY(v->scratch, const Instruction *, size);
        for (size_t i = 0; i < v->channel_size; i++) {
            const Instruction *old = v->channels[i];
            if (!old)
                continue;
            size_t at = channel_hash(inst_int(old, ATTR_CHANNEL_ID, 0)) & (size - 1);
            while (table[at])
                at = (at + 1) & (size - 1);
            table[at] = old;
        }
        v->channels = table;
        v->channel_size = size;
    }
    int64_t channel = inst_int(inst, ATTR_CHANNEL_ID, 0);
    size_t at = channel_hash(channel) & (v->channel_size - 1);
    for (; v->channels[at]; at = (at + 1) & (v->channel_size - 1)) {
        const Instruction *other = v->channels[at];
        if (inst_int(other, ATTR_CHANNEL_ID, 0) != channel || other->op != inst->op)
            continue;
        if (!shape_compatible(other->shape, inst->shape))
            verify_error(v, inst,
                         "shares host channel %lld with %s, but transfers %s, not %s",
                         (long long)channel, other->name, verify_text(v, inst->shape),
                         verify_text(v, other->shape));
        return;
    }
    v->channels[at] = inst;
    v->channel_count++;
}

static const Bytes *pairs_attribute(const Instruction *inst)
{
    const Attr *a = inst_attr(inst, ATTR_FRONTEND_ATTRIBUTES);
    for (uint32_t i = 0; a && i < a->dict->count; i++)
        if (strcmp(a->dict->entries[i].key, "_xla_send_recv_source_target_pairs") == 0)
            return &a->dict->entries[i].value;
    return NULL;
}

/* "{{0,1},{1,2}}": no device sends twice or receives twice. */
static void check_source_targets(Verify *v, const Instruction *inst, Bytes text)
{
    int64_t seen[2][64];
    uint32_t count[2] = {0, 0}, side = 0;
    for (size_t i = 0; i < text.length;) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            i++;
            continue;
        }
        int64_t id = 0;
        for (; i < text.length && text.data[i] >= '0' && text.data[i] <= '9'; i++)
            id = id > INT32_MAX ? id : id * 10 + (text.data[i] - '0');
        for (uint32_t k = 0; k < count[side]; k++)
            if (seen[side][k] == id) {
                verify_error(v, inst, "%s: device %lld is %s twice",
                             "_xla_send_recv_source_target_pairs", (long long)id,
                             side == 0 ? "source" : "target");
                return;
            }
        if (count[side] == 64)
            return;
        seen[side][count[side]++] = id;
        side = !side;
    }
}

static void note_transfer(Verify *v, const Instruction *inst)
{
    const Bytes *text = pairs_attribute(inst);
    if (!text || inst_bool(inst, ATTR_IS_HOST_TRANSFER) ||
        !inst_has(inst, ATTR_CHANNEL_ID))
        return;
    check_source_targets(v, inst, *text);
    v->transfers = arena_grow(v->scratch, v->transfers, &v->transfer_capacity,
                              v->transfer_count + 1, sizeof *v->transfers);
    v->transfers[v->transfer_count++] = inst;
}

static int by_pairs(const void *a, const void *b)
{
    const Instruction *x = *(const Instruction *const *)a,
                      *y = *(const Instruction *const *)b;
    const Bytes *s = pairs_attribute(x), *t = pairs_attribute(y);
    size_t least = s->length < t->length ? s->length : t->length;
    int order = memcmp(s->data, t->data, least);
    if (order == 0 && s->length != t->length)
        order = s->length < t->length ? -1 : 1;
    if (order == 0 && x->op != y->op)
        order = x->op < y->op ? -1 : 1;
    return order ? order : strcmp(x->name, y->name);
}

static bool same_pairs(const Instruction *a, const Instruction *b)
{
    const Bytes *s = pairs_attribute(a), *t = pairs_attribute(b);
    return s->length == t->length && memcmp(s->data, t->data, s->length) == 0;
}

/* Transfers whose other half has not come, in the order in which a schedule runs. */
typedef struct Open {
    Verify *v;
    const Instruction **list;
    size_t count, capacity;
    bool *seen; /* by computation id */
    bool failed;
} Open;

static bool is_device_transfer(const Instruction *inst)
{
    return (inst->op == OP_SEND || inst->op == OP_RECV) && pairs_attribute(inst) &&
           !inst_bool(inst, ATTR_IS_HOST_TRANSFER);
}

/* A transfer closes the first one of the other kind between the same devices, or is open. */
static void meet_transfer(Open *o, const Instruction *inst)
{
    for (size_t i = 0; i < o->count; i++) {
        if (o->list[i]->op == inst->op || !same_pairs(o->list[i], inst))
            continue;
        o->list[i] = o->list[--o->count];
        return;
    }
    o->list =
        arena_grow(o->v->scratch, o->list, &o->capacity, o->count + 1, sizeof *o->list);
    o->list[o->count++] = inst;
}

/* A group is started as one, in no order. */
static bool is_group(const Instruction *inst)
{
    const Attr *a = inst_attr(inst, ATTR_FRONTEND_ATTRIBUTES);
    for (uint32_t i = 0; a && i < a->dict->count; i++)
        if (strcmp(a->dict->entries[i].key, "_collectives_group") == 0)
            return true;
    return false;
}

enum { WALK_DEPTH = 200 };

static void walk_order(Open *o, const Computation *comp, int depth)
{
    if (o->seen[comp->id] || depth > WALK_DEPTH)
        return;
    o->seen[comp->id] = true;
    for (const Instruction *inst = inst_first(comp); inst && !o->failed;
         inst = inst_next(inst)) {
        if (is_device_transfer(inst)) {
            meet_transfer(o, inst);
        } else if (inst->op == OP_WHILE || inst->op == OP_CALL ||
                   (inst->op == OP_ASYNC_START && !is_group(inst))) {
            for (uint32_t k = 0; k < inst_called_count(inst); k++)
                walk_order(o, inst_called(inst, k), depth + 1);
        } else if (o->count && op_is(inst->op, OPF_COLLECTIVE) && inst->op != OP_SEND &&
                   inst->op != OP_RECV && inst->op != OP_SEND_DONE &&
                   inst->op != OP_RECV_DONE) {
            const Instruction *open = o->list[0];
            verify_error(o->v, inst,
                         "deadlock: it comes while %s waits for its %s, which comes "
                         "later or never",
                         open->name, open->op == OP_SEND ? "recv" : "send");
            o->failed = true;
        }
    }
}

/* Nothing else talks to other devices between a send and its recv. */
static void check_order(Verify *v)
{
    Open o = {.v = v};
    o.seen = ARENA_ARRAY(v->scratch, bool, (size_t)v->m->computation_count + 1);
    if (v->m->entry)
        walk_order(&o, v->m->entry, 0);
}

/* In a scheduled module every send has its recv, with the same devices, and the other way
 * round: whatever waits for one that never comes is a deadlock. */
void verify_transfers(Verify *v)
{
    if (!v->m->config.is_scheduled || v->transfer_count == 0)
        return;
    check_order(v);
    qsort(v->transfers, v->transfer_count, sizeof *v->transfers, by_pairs);
    for (size_t i = 0; i < v->transfer_count;) {
        size_t end = i, sends = 0;
        for (; end < v->transfer_count && same_pairs(v->transfers[i], v->transfers[end]);
             end++)
            sends += v->transfers[end]->op == OP_SEND;
        if (sends * 2 != end - i) {
            verify_error(v, v->transfers[i],
                         "deadlock: %zu sends and %zu recvs have its "
                         "_xla_send_recv_source_target_pairs",
                         sends, end - i - sends);
            return;
        }
        i = end;
    }
}

void verify_pairs(Verify *v, const Computation *comp, Uses uses)
{
    const Instruction **starts =
        ARENA_ARRAY(v->scratch, const Instruction *, comp->instruction_count);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        const OpPair *pair =
            op_is(inst->op, OPF_ASYNC_START | OPF_ASYNC_DONE) ? op_pair(inst->op) : NULL;
        if (pair != NULL && inst->op == pair->start)
            check_start(v, inst, uses, pair->done);
        else if (pair != NULL)
            check_done(v, inst, pair->start);
        if (inst->op == OP_ASYNC_START || continues(inst->op))
            check_chain(v, inst, chain_start(inst, starts), uses);
        if (inst->op == OP_SEND || inst->op == OP_RECV) {
            note_transfer(v, inst);
            check_transfer(v, inst, uses);
            check_host_channel(v, inst);
        }
        if (inst->op == OP_SEND_DONE || inst->op == OP_RECV_DONE)
            check_transfer_done(v, inst);
    }
}
