/* Collectives: the devices of a group rendezvous at an instruction; the last one to arrive makes the
 * results of all. A collective-permute waits for its source only. Started collectives run
 * where they start. */
#include "ir/analysis/collective.h"
#include "ir/eval/collective.h"

#include <string.h>

#include "ir/attribute/replica_groups.h"
#include "ir/eval/fold.h"
#include "ir/eval/run.h"
#include "ir/eval/strided.h"

/* -- groups ------------------------------------------------------------------------- */

typedef enum { BY_REPLICA, BY_PARTITION, BY_BOTH, BY_DEVICE } GroupMode;

static GroupMode group_mode(const Instruction *inst)
{
    bool channel = inst_has(inst, ATTR_CHANNEL_ID);
    if (op_attr(inst->op, "use_global_device_ids", 21) == NULL)
        return channel ? BY_PARTITION : BY_REPLICA;
    if (!channel)
        return BY_REPLICA;
    return inst_bool(inst, ATTR_USE_GLOBAL_DEVICE_IDS) ? BY_DEVICE : BY_BOTH;
}

/* The devices that meet with this one, in the order of the group. */
typedef struct Members {
    uint32_t count;
    uint32_t *ids;
    uint32_t own; /* position of this device */
} Members;

static IntLists group_lists(EvalCall *call)
{
    const Attr *attr = inst_attr(call->inst, ATTR_REPLICA_GROUPS);
    if (attr == NULL)
        return (IntLists){NULL, 0};
    IntLists *lists = pointer_map_get(&call->eval->groups, attr->groups);
    if (lists == NULL) {
        lists = ARENA_NEW(call->eval->arena, IntLists);
        *lists = replica_groups_lists(call->eval->arena, attr->groups);
        pointer_map_set(&call->eval->groups, call->eval->arena, attr->groups, lists);
    }
    return *lists;
}

static bool find_group(IntLists lists, int64_t id, Ints *out)
{
    for (uint32_t g = 0; g < lists.count; g++)
        for (uint32_t i = 0; i < lists.data[g].count; i++)
            if (lists.data[g].data[i] == id) {
                *out = lists.data[g];
                return true;
            }
    return false;
}

static void member_add(Members *m, const Eval *eval, int64_t id, const EvalCall *call)
{
    if (id < 0 || id >= eval->device_count)
        eval_fail(call, "device %lld of its group is not one of %u devices",
                  (long long)id, eval->device_count);
    if (id == call->device->id)
        m->own = m->count;
    m->ids[m->count++] = (uint32_t)id;
}

static Members group_members(EvalCall *call)
{
    const Eval *eval = call->eval;
    int64_t replica = call->device->replica, partition = call->device->partition;
    int64_t r = eval->replicas, p = eval->partitions;
    GroupMode mode = group_mode(call->inst);
    IntLists lists = group_lists(call);
    int64_t own = mode == BY_PARTITION ? partition
                  : mode == BY_DEVICE  ? call->device->id
                                       : replica;
    int64_t all = mode == BY_PARTITION ? p : mode == BY_DEVICE ? r * p : r;
    Ints group = {NULL, 0};
    if (lists.count > 0 && !find_group(lists, own, &group))
        eval_fail(call, "device %u is in none of its groups", call->device->id);
    uint32_t n = lists.count > 0 ? group.count : (uint32_t)all;
    Members m = {.ids = ARENA_ARRAY(call->scratch, uint32_t, n * (size_t)p)};
    for (uint32_t i = 0; i < n; i++) {
        int64_t id = lists.count > 0 ? group.data[i] : i;
        if (mode == BY_REPLICA)
            member_add(&m, eval, id * p + partition, call);
        else if (mode == BY_PARTITION)
            member_add(&m, eval, replica * p + id, call);
        else if (mode == BY_DEVICE)
            member_add(&m, eval, id, call);
        else
            for (int64_t k = 0; k < p; k++)
                member_add(&m, eval, id * p + k, call);
    }
    return m;
}

/* -- rendezvous ----------------------------------------------------------------------- */

typedef struct Rendezvous {
    struct Rendezvous *next;
    const Instruction *inst;
    uint32_t count, arrived, left;
    uint32_t *ids;
    Value ***operands; /* [count][operand_count] retained; NULL: has not come */
    Value **results;   /* [count] */
} Rendezvous;

/* A value on its way from one device to another. */
typedef struct Message {
    struct Message *next;
    const void *key; /* the instruction, or the channel */
    const Instruction *from;
    uint32_t source, target;
    uint32_t count;
    Value **values;
} Message;

/* What a recv waits for. Its value carries the number of this in its second element, so that
 * recv-done finds it whatever way the value has gone. */
typedef struct Expected {
    const void *key;
    int64_t source; /* device; -1: nobody sends */
} Expected;

struct CollectiveState {
    Expected *expected;
    size_t expected_count, expected_capacity;
    Rendezvous *rendezvous;
    Message *messages, **messages_end;
    Rendezvous **waiting; /* [device_count] */
    int64_t
        *awaited; /* [device_count] the device from which a value must come; -1: none */
    const TransferChannels *channels; /* of the module; NULL until asked */
};

CollectiveState *collective_state_create(Eval *eval)
{
    CollectiveState *c = ARENA_NEW(eval->arena, CollectiveState);
    c->messages_end = &c->messages;
    c->waiting = ARENA_ARRAY(eval->arena, Rendezvous *, eval->device_count);
    c->awaited = ARENA_ARRAY(eval->arena, int64_t, eval->device_count);
    for (uint32_t i = 0; i < eval->device_count; i++)
        c->awaited[i] = -1;
    return c;
}

static Rendezvous *rendezvous_find(CollectiveState *c, const Instruction *inst,
                                   const Members *m)
{
    for (Rendezvous *x = c->rendezvous; x != NULL; x = x->next)
        if (x->inst == inst && x->ids[0] == m->ids[0] && x->operands[m->own] == NULL)
            return x;
    return NULL;
}

static Rendezvous *rendezvous_create(EvalCall *call, const Members *m)
{
    Arena *a = call->eval->arena;
    Rendezvous *x = ARENA_NEW(a, Rendezvous);
    x->inst = call->inst;
    x->count = x->left = m->count;
    x->ids = arena_copy(a, m->ids, m->count * sizeof *m->ids);
    x->operands = ARENA_ARRAY(a, Value **, m->count);
    x->results = ARENA_ARRAY(a, Value *, m->count);
    x->next = call->eval->collectives->rendezvous;
    call->eval->collectives->rendezvous = x;
    return x;
}

static void rendezvous_remove(CollectiveState *c, const Rendezvous *x)
{
    for (Rendezvous **at = &c->rendezvous; *at != NULL; at = &(*at)->next)
        if (*at == x) {
            *at = x->next;
            return;
        }
}

/* -- results of a rendezvous ----------------------------------------------------------- */

/* A start whose shape is (operands, results, ...); that of all-reduce has results alone. */
static bool holds_operands(const Instruction *inst)
{
    const Shape *s = inst->shape;
    if (!op_is(inst->op, OPF_ASYNC_START))
        return false;
    return s->dtype == DT_TUPLE && s->rank >= 2 &&
           (inst->operand_count == 1 || s->elements[0]->dtype == DT_TUPLE);
}

/* Result k of the operation proper: of a start, inside the tuple of its shape. */
static const Shape *result_shape(const Instruction *inst, uint32_t k)
{
    const Shape *s = inst->shape;
    if (holds_operands(inst))
        s = s->elements[1];
    return s->dtype == DT_TUPLE ? s->elements[k] : s;
}

/* The value of the instruction, from the results proper; takes them over. */
static Value *packed(EvalCall *call, Value *const *operands, Value *const *parts)
{
    const Instruction *inst = call->inst;
    const Shape *s = inst->shape;
    ValueHeap *heap = &call->eval->heap;
    if (!holds_operands(inst)) {
        if (s->dtype != DT_TUPLE)
            return parts[0];
        Value *v = value_tuple(heap, s);
        memcpy(v->elements, parts, s->rank * sizeof *parts);
        return v;
    }
    Value *v = value_tuple(heap, s);
    for (uint32_t i = 0; i < 2; i++) {
        if (s->elements[i]->dtype != DT_TUPLE) {
            v->elements[i] = i == 0 ? value_retain(operands[0]) : parts[0];
            continue;
        }
        v->elements[i] = value_tuple(heap, s->elements[i]);
        for (uint32_t k = 0; k < s->elements[i]->rank; k++)
            v->elements[i]->elements[k] = i == 0 ? value_retain(operands[k]) : parts[k];
    }
    for (uint32_t i = 2; i < s->rank; i++)
        v->elements[i] = value_zero(heap, s->elements[i]);
    return v;
}

/* Operand k of all members folded in the order of the group, in the fold's type. */
static void *reduced(EvalCall *call, const Rendezvous *x, Fold *f, uint32_t k)
{
    const Value *first = x->operands[0][k];
    size_t n = (size_t)first->count, size = dtype_info[f->types[0]].storage;
    void *acc = eval_temp(call, n, size);
    number_convert(f->types[0], acc, first->shape->dtype, first->data, n);
    for (uint32_t i = 1; i < x->count; i++) {
        const Value *other = x->operands[i][k];
        void *const to[1] = {acc};
        const void *const in[1] = {fold_input(f, 0, other->shape->dtype, other->data, n)};
        fold_run(f, n, to, in);
    }
    return acc;
}

static Value *all_reduce(EvalCall *call, const Rendezvous *x, uint32_t k)
{
    Fold f;
    fold_init(&f, call, inst_called(x->inst, 0), 1);
    Value *v = eval_array(call, result_shape(x->inst, k));
    fold_output(&f, 0, v->shape->dtype, v->data, reduced(call, x, &f, k),
                (size_t)v->count);
    value_copy_sizes(v, x->operands[0][k]);
    return v;
}

/* Part `part` of `parts` equal ones of dimension d of an array, to or from one of its own. */
static void copy_part(const Shape *whole, char *array, uint32_t parts, uint32_t part,
                      int64_t d, char *piece, bool out)
{
    int64_t dims[EVAL_RANK_MAX], strides[EVAL_RANK_MAX], dense[EVAL_RANK_MAX];
    size_t size = dtype_info[whole->dtype].storage;
    strides_row_major(whole->rank, whole->dims, strides);
    memcpy(dims, whole->dims, whole->rank * sizeof *dims);
    dims[d] /= parts;
    strides_row_major(whole->rank, dims, dense);
    array += part * dims[d] * strides[d] * (int64_t)size;
    if (out)
        strided_copy(size, whole->rank, dims, array, strides, piece, dense);
    else
        strided_copy(size, whole->rank, dims, piece, dense, array, strides);
}

static int64_t split_dim(EvalCall *call, const Shape *s, uint32_t parts)
{
    Ints dims = inst_ints(call->inst, ATTR_DIMENSIONS);
    if (dims.count != 1 || dims.data[0] >= s->rank || s->rank > EVAL_RANK_MAX ||
        s->dims[dims.data[0]] % parts != 0)
        eval_fail(call, "%s cannot be split among %u devices",
                  shape_text(call->scratch, s, false), parts);
    return dims.data[0];
}

static void check_fits(const EvalCall *call, bool fits, uint32_t group)
{
    if (!fits)
        eval_fail(call, "a group of %u devices does not fit its shape", group);
}

/* Run-time sizes stay, in all dimensions but the one that is put together or divided. */
static void keep_sizes(EvalCall *call, const Value *x, Value *v, int64_t divided)
{
    for (uint32_t d = 0; x->sizes != NULL && d < x->shape->rank; d++) {
        if (d != divided)
            value_set_size(v, d, x->sizes[d]);
        else if (x->sizes[d] != x->shape->dims[d])
            eval_unsupported(call, "dimension %u of dynamic size among devices", d);
    }
}

static Value *reduce_scatter(EvalCall *call, const Rendezvous *x, uint32_t k,
                             uint32_t own)
{
    Fold f;
    fold_init(&f, call, inst_called(x->inst, 0), 1);
    const Shape *s = x->operands[0][k]->shape;
    int64_t d = split_dim(call, s, x->count);
    Value *v = eval_array(call, result_shape(x->inst, k));
    check_fits(call, v->count * x->count == x->operands[0][k]->count, x->count);
    void *sum = reduced(call, x, &f, k);
    const Shape *wide = shape_with_dtype(eval_intern(call), s, f.types[0]);
    char *piece = eval_temp(call, (size_t)v->count, dtype_info[f.types[0]].storage);
    copy_part(wide, sum, x->count, own, d, piece, false);
    fold_output(&f, 0, v->shape->dtype, v->data, piece, (size_t)v->count);
    keep_sizes(call, x->operands[own][k], v, d);
    return v;
}

static Value *all_gather(EvalCall *call, const Rendezvous *x, uint32_t k)
{
    Value *v = eval_array(call, result_shape(x->inst, k));
    int64_t d = split_dim(call, v->shape, x->count);
    for (uint32_t i = 0; i < x->count; i++) {
        check_fits(call, x->operands[i][k]->count * x->count == v->count, x->count);
        copy_part(v->shape, v->data, x->count, i, d, x->operands[i][k]->data, true);
    }
    keep_sizes(call, x->operands[0][k], v, d);
    return v;
}

/* With a dimension: part `own` of all members' operand, side by side. Without: operand `own`
 * of member k. */
static Value *all_to_all(EvalCall *call, const Rendezvous *x, uint32_t k, uint32_t own)
{
    if (!inst_has(x->inst, ATTR_DIMENSIONS)) {
        if (x->inst->operand_count != x->count)
            eval_fail(call, "%u operands for a group of %u devices",
                      x->inst->operand_count, x->count);
        return value_retain(x->operands[k][own]);
    }
    Value *v = eval_array(call, result_shape(x->inst, k));
    int64_t d = split_dim(call, v->shape, x->count);
    check_fits(call, x->operands[own][k]->count == v->count, x->count);
    char *piece = eval_temp(call, (size_t)v->count / x->count, value_element_bytes(v));
    for (uint32_t i = 0; i < x->count; i++) {
        copy_part(v->shape, x->operands[i][k]->data, x->count, own, d, piece, false);
        copy_part(v->shape, v->data, x->count, i, d, piece, true);
    }
    keep_sizes(call, x->operands[own][k], v, d);
    return v;
}

enum { RAGGED_INPUT, RAGGED_OUTPUT, RAGGED_FROM, RAGGED_SIZE, RAGGED_TO };

/* Each member sends rows [from, from + size) of its input to row `to` of member own's output;
 * the entries of the last four operands are so many for each receiver. */
static Value *ragged_all_to_all(EvalCall *call, const Rendezvous *x, uint32_t own)
{
    Value *v = eval_array(call, x->inst->shape);
    memcpy(v->data, x->operands[own][RAGGED_OUTPUT]->data, v->bytes);
    if (v->shape->rank == 0 || v->count == 0)
        return v;
    int64_t row = v->count / v->shape->dims[0], rows = v->shape->dims[0];
    size_t bytes = (size_t)row * value_element_bytes(v);
    for (uint32_t i = 0; i < x->count; i++) {
        Value **in = x->operands[i];
        int64_t each = in[RAGGED_FROM]->count / x->count;
        int64_t in_rows = in[RAGGED_INPUT]->shape->dims[0];
        for (int64_t e = own * each; e < (own + 1) * each; e++) {
            int64_t from = value_int(in[RAGGED_FROM], e),
                    n = value_int(in[RAGGED_SIZE], e);
            int64_t to = value_int(in[RAGGED_TO], e);
            if (n < 0 || from < 0 || to < 0 || from > in_rows - n || to > rows - n)
                eval_fail(call, "rows %lld to %lld + %lld of device %u do not lie inside",
                          (long long)from, (long long)to, (long long)n, x->ids[i]);
            memcpy((char *)v->data + (size_t)to * bytes,
                   (const char *)in[RAGGED_INPUT]->data + (size_t)from * bytes,
                   (size_t)n * bytes);
        }
    }
    return v;
}

/* Result k for one member; those that are equal for all are shared. */
static Value *member_result(EvalCall *call, const Rendezvous *x, uint32_t k, uint32_t own,
                            Value **shared)
{
    switch (op_plain(x->inst->op)) {
    case OP_ALL_REDUCE:
        if (*shared == NULL)
            *shared = all_reduce(call, x, k);
        return value_retain(*shared);
    case OP_ALL_GATHER:
        if (*shared == NULL)
            *shared = all_gather(call, x, k);
        return value_retain(*shared);
    case OP_REDUCE_SCATTER:
        return reduce_scatter(call, x, k, own);
    case OP_ALL_TO_ALL:
        return all_to_all(call, x, k, own);
    case OP_RAGGED_ALL_TO_ALL:
        return ragged_all_to_all(call, x, own);
    default:
        return value_retain(x->operands[0][k]); /* collective-broadcast */
    }
}

static void rendezvous_complete(EvalCall *call, Rendezvous *x)
{
    uint32_t results = x->inst->operand_count;
    if (x->inst->op == OP_RAGGED_ALL_TO_ALL)
        results = 1;
    Value ***parts = ARENA_ARRAY(call->scratch, Value **, x->count);
    for (uint32_t i = 0; i < x->count; i++)
        parts[i] = ARENA_ARRAY(call->scratch, Value *, results);
    for (uint32_t k = 0; k < results; k++) {
        Value *shared = NULL;
        struct Temp *mark = value_heap_mark(&call->eval->heap);
        for (uint32_t i = 0; i < x->count; i++)
            parts[i][k] = member_result(call, x, k, i, &shared);
        value_heap_release(&call->eval->heap, mark);
        value_release(shared);
    }
    for (uint32_t i = 0; i < x->count; i++)
        x->results[i] = packed(call, x->operands[i], parts[i]);
    for (uint32_t i = 0; i < x->count; i++)
        for (uint32_t k = 0; k < x->inst->operand_count; k++)
            value_release(x->operands[i][k]);
}

/* Arrays of dynamic size have the same sizes on all devices that exchange them. */
static void check_sizes(EvalCall *call, uint32_t k, const Value *own, const Value *other,
                        uint32_t device)
{
    for (uint32_t d = 0; own->shape->dynamic != NULL && d < own->shape->rank; d++) {
        int64_t n = value_size(own, d), m = value_size(other, d);
        if (n != m)
            eval_fail(
                call,
                "dimension %u of operand %u has size %lld on device %u, but %lld on "
                "device %u",
                d, k, (long long)n, call->device->id, (long long)m, device);
    }
}

static void check_sizes_agree(EvalCall *call, const Rendezvous *x, uint32_t own)
{
    uint32_t i = 0;
    while (x->operands[i] == NULL)
        i++;
    for (uint32_t k = 0; k < x->inst->operand_count; k++)
        check_sizes(call, k, x->operands[own][k], x->operands[i][k], x->ids[i]);
}

/* Operand k as it meets the others: what is reduced in the type of its reducer, what is only moved in
 * the type that it comes out in. */
static Value *given(EvalCall *call, uint32_t k)
{
    OpCode op = op_plain(call->inst->op);
    const Shape *s = result_shape(call->inst, k);
    if (op == OP_ALL_REDUCE || op == OP_REDUCE_SCATTER) {
        DType reduced_in = inst_called(call->inst, 0)->parameters[0]->shape->dtype;
        s = shape_with_dtype(eval_intern(call), call->operands[k]->shape, reduced_in);
    }
    return eval_as(call, call->operands[k], s);
}

static void meet(EvalCall *call)
{
    CollectiveState *c = call->eval->collectives;
    Rendezvous *x = c->waiting[call->device->id];
    if (x == NULL) {
        Members m = group_members(call);
        x = rendezvous_find(c, call->inst, &m);
        if (x == NULL)
            x = rendezvous_create(call, &m);
        uint32_t n = call->inst->operand_count;
        x->operands[m.own] = ARENA_ARRAY(call->eval->arena, Value *, n + 1);
        for (uint32_t k = 0; k < n; k++)
            x->operands[m.own][k] = given(call, k);
        check_sizes_agree(call, x, m.own);
        c->waiting[call->device->id] = x;
        if (++x->arrived == x->count)
            rendezvous_complete(call, x);
        call->phase = 1;
    }
    if (x->arrived < x->count) {
        call->parked = true;
        return;
    }
    for (uint32_t i = 0; i < x->count; i++) {
        if (x->ids[i] != call->device->id)
            continue;
        call->result = x->results[i];
        c->waiting[call->device->id] = NULL;
        if (--x->left == 0)
            rendezvous_remove(c, x);
    }
}

/* -- from device to device ---------------------------------------------------------- */

static void message_send(EvalCall *call, const void *key, uint32_t target, uint32_t count,
                         Value *const *values)
{
    CollectiveState *c = call->eval->collectives;
    Message *m = ARENA_NEW(call->eval->arena, Message);
    *m = (Message){.key = key,
                   .from = call->inst,
                   .source = call->device->id,
                   .target = target,
                   .count = count};
    m->values = ARENA_ARRAY(call->eval->arena, Value *, count);
    for (uint32_t k = 0; k < count; k++)
        m->values[k] = value_retain(values[k]);
    *c->messages_end = m;
    c->messages_end = &m->next;
}

/* The oldest message from source to this device, taken out of the queue; NULL: there is none, and
 * the device waits for it. */
static Message *message_take(EvalCall *call, const void *key, int64_t source)
{
    CollectiveState *c = call->eval->collectives;
    c->awaited[call->device->id] = -1;
    for (Message **at = &c->messages; *at != NULL; at = &(*at)->next) {
        Message *m = *at;
        if (m->key != key || m->source != source || m->target != call->device->id)
            continue;
        *at = m->next;
        if (m->next == NULL)
            c->messages_end = at;
        return m;
    }
    c->awaited[call->device->id] = source;
    call->parked = true;
    return NULL;
}

/* This device's partner in pairs of ids: whom it sends to, or (source) hears from; -1: nobody. */
static int64_t partner(const EvalCall *call, IntLists pairs, bool by_partition,
                       bool source)
{
    const Device *d = call->device;
    int64_t own = by_partition ? d->partition : d->replica, p = call->eval->partitions;
    for (uint32_t i = 0; i < pairs.count; i++) {
        if (pairs.data[i].count != 2 || pairs.data[i].data[source ? 1 : 0] != own)
            continue;
        int64_t other = pairs.data[i].data[source ? 0 : 1];
        if (other < 0 || other >= (by_partition ? p : call->eval->replicas))
            eval_fail(call, "there is no device %lld", (long long)other);
        return by_partition ? d->replica * p + other : other * p + d->partition;
    }
    return -1;
}

static void permute(EvalCall *call)
{
    const Instruction *inst = call->inst;
    if (inst_has(inst, ATTR_PERMUTE_SLICE_SIZES))
        eval_unsupported(call, "the in-place form of collective-permute");
    IntLists pairs = inst_int_lists(inst, ATTR_SOURCE_TARGET_PAIRS);
    bool by_partition = group_mode(inst) == BY_PARTITION;
    if (call->phase == 0) {
        int64_t target = partner(call, pairs, by_partition, false);
        if (target >= 0)
            message_send(call, inst, (uint32_t)target, inst->operand_count,
                         call->operands);
        call->phase = 1;
    }
    Value **parts = ARENA_ARRAY(call->scratch, Value *, inst->operand_count);
    int64_t source = partner(call, pairs, by_partition, true);
    if (source < 0) {
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            parts[k] = value_zero(&call->eval->heap, result_shape(inst, k));
            keep_sizes(call, call->operands[k], parts[k], -1);
        }
    } else {
        Message *m = message_take(call, inst, source);
        if (m == NULL)
            return;
        for (uint32_t k = 0; k < m->count; k++) {
            check_sizes(call, k, call->operands[k], m->values[k], m->source);
            parts[k] = eval_as(call, m->values[k], result_shape(inst, k));
            value_release(m->values[k]);
        }
    }
    call->result = packed(call, call->operands, parts);
}

void eval_collective(EvalCall *call)
{
    if (inst_bool(call->inst, ATTR_HAS_DYNAMIC_ROOT))
        eval_unsupported(call, "a broadcast whose root is computed");
    if (op_plain(call->inst->op) == OP_COLLECTIVE_PERMUTE)
        permute(call);
    else
        meet(call);
}

void eval_collective_done(EvalCall *call)
{
    Value *v = call->operands[0];
    const Instruction *start = call->inst->operands[0];
    bool all = op_is(start->op, OPF_COLLECTIVE) && !holds_operands(start);
    call->result = eval_as(call, all ? v : v->elements[1], call->inst->shape);
}

/* -- send and recv ------------------------------------------------------------------ */

/* {{0,1},{1,2}} of the frontend attribute that says who sends to whom. */
static IntLists send_pairs(EvalCall *call, const Instruction *inst)
{
    IntLists pairs = {0};
    if (inst_frontend_attribute(inst, "_xla_send_recv_source_target_pairs") == NULL ||
        inst_bool(inst, ATTR_IS_HOST_TRANSFER))
        eval_unsupported(call,
                         "transfers to or from the host, or without source-target pairs");
    collective_transfer_pairs(call->scratch, inst, &pairs);
    return pairs;
}

/* What joins a send and a recv (collective_transfer_channel), as a pointer. */
static const void *channel_key(EvalCall *call, const Instruction *inst)
{
    const void *key = pointer_map_get(&call->eval->groups, inst);
    if (key != NULL)
        return key;
    CollectiveState *c = call->eval->collectives;
    if (c->channels == NULL) {
        TransferChannels channels =
            collective_transfer_channels(call->eval->module, call->eval->arena);
        c->channels = arena_copy(call->eval->arena, &channels, sizeof channels);
    }
    const char *name =
        arena_printf(call->scratch, "channel %lld",
                     (long long)collective_transfer_channel(c->channels, inst));
    const char *text = intern_string(eval_intern(call), name);
    pointer_map_set(&call->eval->groups, call->eval->arena, inst,
                    (void *)(uintptr_t)text);
    return text;
}

static void send(EvalCall *call)
{
    int64_t target =
        partner(call, send_pairs(call, call->inst), call->eval->partitions > 1, false);
    if (target >= 0)
        message_send(call, channel_key(call, call->inst), (uint32_t)target, 1,
                     call->operands);
    Value *v = value_zero(&call->eval->heap, call->inst->shape);
    value_release(v->elements[0]);
    v->elements[0] = value_retain(call->operands[0]);
    call->result = v;
}

static void recv(EvalCall *call)
{
    CollectiveState *c = call->eval->collectives;
    Expected e = {
        channel_key(call, call->inst),
        partner(call, send_pairs(call, call->inst), call->eval->partitions > 1, true)};
    size_t i = 0;
    while (i < c->expected_count &&
           (c->expected[i].key != e.key || c->expected[i].source != e.source))
        i++;
    if (i == c->expected_count) {
        c->expected = arena_grow(call->eval->arena, c->expected, &c->expected_capacity,
                                 i + 1, sizeof *c->expected);
        c->expected[c->expected_count++] = e;
    }
    Value *v = value_zero(&call->eval->heap, call->inst->shape);
    number_set_int(v->elements[1]->shape->dtype, v->elements[1]->data, (int64_t)i);
    call->result = v;
}

static void recv_done(EvalCall *call)
{
    const Value *pending = call->operands[0];
    int64_t number = value_int(pending->elements[1], 0);
    const CollectiveState *c = call->eval->collectives;
    if (number < 0 || (uint64_t)number >= c->expected_count)
        eval_fail(call, "its operand does not come from a recv");
    const Expected *e = &c->expected[number];
    Value *data = pending->elements[0];
    if (e->source >= 0) {
        Message *m = message_take(call, e->key, e->source);
        if (m == NULL)
            return;
        if (!shape_compatible(m->values[0]->shape, data->shape))
            eval_fail(call, "device %u sends %s by '%s', but %s is to be received",
                      m->source, shape_text(call->scratch, m->values[0]->shape, false),
                      m->from->name, shape_text(call->scratch, data->shape, false));
        data = m->values[0];
    } else {
        value_retain(data);
    }
    Value *v = value_tuple(&call->eval->heap, call->inst->shape);
    v->elements[0] = data;
    v->elements[1] = value_token(&call->eval->heap, call->inst->shape->elements[1]);
    call->result = v;
}

void eval_send_recv(EvalCall *call)
{
    if (call->inst->op == OP_SEND)
        send(call);
    else if (call->inst->op == OP_RECV)
        recv(call);
    else if (call->inst->op == OP_RECV_DONE)
        recv_done(call);
    else
        call->result = value_token(&call->eval->heap, call->inst->shape);
}

/* -- what went wrong ---------------------------------------------------------------- */

void collective_describe_wait(const Eval *eval, uint32_t device, Text *t)
{
    const CollectiveState *c = eval->collectives;
    const Rendezvous *x = c->waiting[device];
    if (x == NULL && c->awaited[device] >= 0)
        text_printf(t, " for a value of device %lld", (long long)c->awaited[device]);
    bool first = true;
    for (uint32_t i = 0; x != NULL && i < x->count; i++) {
        if (x->operands[i] != NULL)
            continue;
        text_printf(t, first ? " for device %u" : ", %u", x->ids[i]);
        first = false;
    }
}

void collective_check_finished(const Eval *eval)
{
    const Message *m = eval->collectives->messages;
    if (m != NULL)
        escape_throw(ESCAPE_UNSUPPORTED,
                     "what device %u sends to device %u by %%%s = %s is never received",
                     m->source, m->target, m->from->name, op_info[m->from->op].name);
}
