/* See collective.h. */
#include "ir/analysis/collective.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ir/attribute/config.h"
#include "ir/attribute/replica_groups.h"

CollectiveMode collective_mode(const Instruction *inst)
{
    bool channel = inst_has(inst, ATTR_CHANNEL_ID);
    if (op_attr(inst->op, "use_global_device_ids", 21) == NULL)
        return channel ? COLLECTIVE_CROSS_PARTITION : COLLECTIVE_CROSS_REPLICA;
    if (!channel)
        return COLLECTIVE_CROSS_REPLICA;
    return inst_bool(inst, ATTR_USE_GLOBAL_DEVICE_IDS)
               ? COLLECTIVE_FLATTENED_ID
               : COLLECTIVE_CROSS_REPLICA_AND_PARTITION;
}

/* How many ids the mode has, and how often each group is repeated. */
static int64_t id_count(const ModuleConfig *c, CollectiveMode mode)
{
    switch (mode) {
    case COLLECTIVE_CROSS_PARTITION:
        return c->num_partitions;
    case COLLECTIVE_FLATTENED_ID:
        return c->replica_count * c->num_partitions;
    case COLLECTIVE_CROSS_REPLICA:
    case COLLECTIVE_CROSS_REPLICA_AND_PARTITION:
        break;
    }
    return c->replica_count;
}

static int64_t copy_count(const ModuleConfig *c, CollectiveMode mode)
{
    return mode == COLLECTIVE_CROSS_REPLICA     ? c->num_partitions
           : mode == COLLECTIVE_CROSS_PARTITION ? c->replica_count
                                                : 1;
}

/* The device that id `id` means in copy `copy` of the group. */
static int64_t device_of(const ModuleConfig *c, CollectiveMode mode, int64_t id,
                         int64_t copy)
{
    if (mode == COLLECTIVE_CROSS_REPLICA)
        return id * c->num_partitions + copy;
    return mode == COLLECTIVE_CROSS_PARTITION ? copy * c->num_partitions + id : id;
}

static Ints expand(Arena *a, const ModuleConfig *c, CollectiveMode mode, Ints ids,
                   int64_t copy)
{
    int64_t each = mode == COLLECTIVE_CROSS_REPLICA_AND_PARTITION ? c->num_partitions : 1;
    int64_t *devices = ARENA_ARRAY(a, int64_t, ids.count * (size_t)each + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < ids.count; i++) {
        for (int64_t k = 0; k < each; k++)
            devices[n++] =
                each > 1 ? ids.data[i] * each + k : device_of(c, mode, ids.data[i], copy);
    }
    return (Ints){devices, n};
}

/* Each list once for each copy of the program that has devices of its own. */
static IntLists expand_all(Arena *a, const ModuleConfig *c, CollectiveMode mode,
                           IntLists ids)
{
    int64_t copies = copy_count(c, mode);
    Ints *lists = ARENA_ARRAY(a, Ints, ids.count * (size_t)copies + 1);
    uint32_t n = 0;
    for (int64_t copy = 0; copy < copies; copy++) {
        for (uint32_t i = 0; i < ids.count; i++)
            lists[n++] = expand(a, c, mode, ids.data[i], copy);
    }
    return (IntLists){lists, n};
}

IntLists collective_groups(Arena *a, const Instruction *inst)
{
    const ModuleConfig *c = &inst->parent->module->config;
    CollectiveMode mode = collective_mode(inst);
    const Attr *attr = inst_attr(inst, ATTR_REPLICA_GROUPS);
    IntLists ids = {NULL, 0};
    if (attr != NULL)
        ids = replica_groups_lists(a, attr->groups);
    if (ids.count == 0 || (ids.count == 1 && ids.data[0].count == 0)) {
        int64_t n = id_count(c, mode);
        int64_t *all = ARENA_ARRAY(a, int64_t, (size_t)n + 1);
        for (int64_t i = 0; i < n; i++)
            all[i] = i;
        Ints *one = ARENA_NEW(a, Ints);
        *one = (Ints){all, (uint32_t)n};
        ids = (IntLists){one, 1};
    }
    return expand_all(a, c, mode, ids);
}

int64_t collective_id_count(const Instruction *inst)
{
    return id_count(&inst->parent->module->config, collective_mode(inst));
}

int64_t collective_last_id(Arena *a, const Instruction *inst)
{
    const Attr *groups = inst_attr(inst, ATTR_REPLICA_GROUPS);
    IntLists lists = groups != NULL ? replica_groups_lists(a, groups->groups)
                                    : inst_int_lists(inst, ATTR_SOURCE_TARGET_PAIRS);
    int64_t last = -1;
    for (uint32_t g = 0; g < lists.count; g++)
        for (uint32_t i = 0; i < lists.data[g].count; i++)
            last = lists.data[g].data[i] > last ? lists.data[g].data[i] : last;
    return last;
}

bool collective_groups_equal(IntLists a, IntLists b)
{
    if (a.count != b.count)
        return false;
    for (uint32_t g = 0; g < a.count; g++) {
        size_t bytes = a.data[g].count * sizeof *a.data[g].data;
        if (a.data[g].count != b.data[g].count ||
            memcmp(a.data[g].data, b.data[g].data, bytes) != 0)
            return false;
    }
    return true;
}

int64_t collective_group_size(Arena *a, const Instruction *inst)
{
    IntLists groups = collective_groups(a, inst);
    return groups.count == 0 ? 1 : groups.data[0].count;
}

IntLists collective_pairs(Arena *a, const Instruction *inst)
{
    const ModuleConfig *c = &inst->parent->module->config;
    CollectiveMode mode = collective_mode(inst);
    return expand_all(a, c, mode, inst_int_lists(inst, ATTR_SOURCE_TARGET_PAIRS));
}

/* -- devices in common ------------------------------------------------------------------------ */

static int64_t find(int64_t *parent, int64_t i)
{
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

/* The first device of each device's group, -1 for devices in none; false: there are no groups, or they name
 * devices that the header does not count. */
static bool group_numbers(Arena *a, const Instruction *inst, int64_t *out, int64_t n)
{
    if (collective_last_id(a, inst) >= collective_id_count(inst))
        return false;
    bool pairs = inst_has(inst, ATTR_SOURCE_TARGET_PAIRS);
    const Attr *groups = inst_attr(inst, ATTR_REPLICA_GROUPS);
    IntLists lists =
        pairs ? collective_pairs(a, inst)
        : groups != NULL && replica_groups_lists(a, groups->groups).count != 0
            ? collective_groups(a, inst)
            : (IntLists){NULL, 0};
    for (int64_t i = 0; i < n; i++)
        out[i] = pairs ? i : -1;
    for (uint32_t g = 0; g < lists.count; g++) {
        for (uint32_t i = 0; i < lists.data[g].count; i++) {
            int64_t device = lists.data[g].data[i];
            if (pairs)
                out[find(out, device)] = find(out, lists.data[g].data[0]);
            else
                out[device] = lists.data[g].data[0];
        }
    }
    for (int64_t i = 0; i < n && pairs; i++)
        out[i] = find(out, i);
    return lists.count != 0;
}

int64_t collective_shared_devices(Arena *a, const Instruction *x, const Instruction *y)
{
    const ModuleConfig *c = &x->parent->module->config;
    int64_t n = c->replica_count * c->num_partitions, most = 0;
    int64_t *gx = ARENA_ARRAY(a, int64_t, (size_t)n + 1);
    int64_t *gy = ARENA_ARRAY(a, int64_t, (size_t)n + 1);
    if (!group_numbers(a, x, gx, n) || !group_numbers(a, y, gy, n))
        return n;
    /* lists of the devices of each group of x, and how many of them each group of y has */
    int64_t *first = ARENA_ARRAY(a, int64_t, (size_t)n + 1);
    int64_t *next = ARENA_ARRAY(a, int64_t, (size_t)n + 1);
    int64_t *common = ARENA_ARRAY(a, int64_t, (size_t)n + 1);
    for (int64_t i = 0; i < n; i++) {
        if (gx[i] < 0 || gy[i] < 0)
            continue;
        next[i] = first[gx[i]];
        first[gx[i]] = i + 1;
    }
    for (int64_t g = 0; g < n; g++) {
        for (int64_t i = first[g]; i != 0; i = next[i - 1]) {
            common[gy[i - 1]]++;
            most = common[gy[i - 1]] > most ? common[gy[i - 1]] : most;
        }
        for (int64_t i = first[g]; i != 0; i = next[i - 1])
            common[gy[i - 1]] = 0;
    }
    return most;
}

const char *inst_frontend_attribute(const Instruction *inst, const char *key)
{
    const Attr *attr = inst_attr(inst, ATTR_FRONTEND_ATTRIBUTES);
    for (uint32_t i = 0; attr != NULL && i < attr->dict->count; i++) {
        if (strcmp(attr->dict->entries[i].key, key) == 0)
            return attr->dict->entries[i].value.data;
    }
    return NULL;
}

void inst_set_frontend_attribute(Instruction *inst, const char *key, const char *value)
{
    Arena *a = inst->parent->module->arena;
    const Attr *attr = inst_attr(inst, ATTR_FRONTEND_ATTRIBUTES);
    uint32_t count = attr != NULL ? attr->dict->count : 0, n = 0, i = 0;
    DictEntry *entries = ARENA_ARRAY(a, DictEntry, (size_t)count + 1);
    for (; i < count && strcmp(attr->dict->entries[i].key, key) < 0; i++)
        entries[n++] = attr->dict->entries[i];
    if (value != NULL)
        entries[n++] = (DictEntry){.key = key, .value = {value, strlen(value)}};
    for (; i < count; i++) {
        if (strcmp(attr->dict->entries[i].key, key) != 0)
            entries[n++] = attr->dict->entries[i];
    }
    if (n == 0) {
        inst_unset(inst, ATTR_FRONTEND_ATTRIBUTES);
        return;
    }
    Dict *dict = arena_alloc(a, sizeof *dict);
    *dict = (Dict){.count = n, .entries = entries};
    inst_set(inst, (Attr){.id = ATTR_FRONTEND_ATTRIBUTES, .dict = dict});
}

const char *const collective_keys[] = {"combiner_key", "collective_group_key",
                                       "_xla_send_recv_pipeline",
                                       "_xla_stream_annotation", NULL};

bool collective_same_keys(const Instruction *a, const Instruction *b)
{
    for (const char *const *key = collective_keys; *key != NULL; key++) {
        const char *x = inst_frontend_attribute(a, *key);
        const char *y = inst_frontend_attribute(b, *key);
        if ((x == NULL) != (y == NULL) || (x != NULL && strcmp(x, y) != 0))
            return false;
    }
    return true;
}

bool collective_is_pipelined(const Instruction *inst)
{
    return config_flag(inst, CONFIG_IS_PIPELINED);
}

void collective_set_pipelined(Instruction *inst)
{
    if (config_is_open(inst)) /* else it is somebody else's form */
        config_set_flag(inst, CONFIG_IS_PIPELINED, true);
}

bool collective_transfer_pairs(Arena *a, const Instruction *inst, IntLists *out)
{
    const char *text =
        inst_frontend_attribute(inst, "_xla_send_recv_source_target_pairs");
    if (text == NULL)
        return false;
    Ints *pairs = ARENA_ARRAY(a, Ints, strlen(text) + 1);
    int64_t *numbers = ARENA_ARRAY(a, int64_t, strlen(text) + 1);
    uint32_t n = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c < '0' || *c > '9')
            continue;
        for (; *c >= '0' && *c <= '9'; c++)
            if (numbers[n] <= INT32_MAX) /* what is larger names no device anyway */
                numbers[n] = 10 * numbers[n] + (*c - '0');
        c--;
        if (++n % 2 == 0)
            pairs[n / 2 - 1] = (Ints){numbers + n - 2, 2};
    }
    *out = (IntLists){pairs, n / 2};
    return n % 2 == 0;
}

static OpCode on_pred(OpCode op)
{
    switch (op) {
    case OP_AND:
    case OP_MULTIPLY:
        return OP_MINIMUM;
    case OP_OR:
    case OP_ADD:
        return OP_MAXIMUM;
    default:
        return op;
    }
}

OpCode collective_reduction(const Computation *reducer)
{
    const Instruction *root = reducer->root;
    if (reducer->parameter_count != 2 || root->operand_count != 2)
        return OP_COUNT;
    const Instruction *x = reducer->parameters[0], *y = reducer->parameters[1];
    bool both = (root->operands[0] == x && root->operands[1] == y) ||
                (root->operands[0] == y && root->operands[1] == x);
    OpCode op = root->shape->dtype == DT_PRED ? on_pred(root->op) : root->op;
    switch (op) {
    case OP_ADD:
    case OP_MULTIPLY:
    case OP_MINIMUM:
    case OP_MAXIMUM:
    case OP_AND:
    case OP_OR:
    case OP_XOR:
        return both && root->shape == x->shape ? op : OP_COUNT;
    default:
        return OP_COUNT;
    }
}

bool collective_reduces(DType t, const Target *target)
{
    static const struct {
        bool travels;
        int reduced_from;
    } types[DT_COUNT] = {
#define NEVER INT_MAX
#define COLLECTIVE_TYPE(dtype, carrier, parts, reduced_from)                             \
    [DT_##dtype] = {true, reduced_from},
#include "ir/attribute/collective_types.def"
#undef NEVER
    };
    int sm = target != NULL ? target->sm : 0;
    return types[t].travels && types[t].reduced_from <= sm;
}

/* -- channels ------------------------------------------------------------------------------ */

static int compare_ints(const void *x, const void *y)
{
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

static Ints channels_with(const Module *m, OpCode op, Arena *a)
{
    int64_t *all = NULL;
    size_t n = 0, capacity = 0;
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op != op)
                continue;
            all = arena_grow(a, all, &capacity, n + 1, sizeof *all);
            all[n++] = inst_int(inst, ATTR_CHANNEL_ID, 0);
        }
    }
    if (n > 0)
        qsort(all, n, sizeof *all, compare_ints);
    return (Ints){all, (uint32_t)n};
}

TransferChannels collective_transfer_channels(const Module *m, Arena *a)
{
    return (TransferChannels){channels_with(m, OP_SEND, a), channels_with(m, OP_RECV, a)};
}

int64_t collective_transfer_channel(const TransferChannels *c, const Instruction *inst)
{
    Ints others = inst->op == OP_SEND ? c->recvs : c->sends;
    int64_t channel = inst_int(inst, ATTR_CHANNEL_ID, 0);
    bool joined = others.count > 0 && bsearch(&channel, others.data, others.count,
                                              sizeof channel, compare_ints) != NULL;
    return joined ? channel : CHANNEL_NONE;
}

/* -- results ------------------------------------------------------------------------------- */

const Shape *collective_result(const Instruction *inst)
{
    const Shape *s = inst->shape;
    bool has_operands =
        op_is(inst->op, OPF_ASYNC_START) && inst->op != OP_ALL_REDUCE_START;
    return has_operands && shape_is_tuple(s) && s->rank >= 2 ? s->elements[1] : s;
}

const Shape *collective_result_part(const Instruction *inst, uint32_t k)
{
    const Shape *s = collective_result(inst);
    return shape_is_tuple(s) && k < s->rank ? s->elements[k] : s;
}
