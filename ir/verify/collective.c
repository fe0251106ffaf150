/* The verifier's rules about which devices talk to each other (9.5 of the language). */
#include "ir/attribute/replica_groups.h"
#include "ir/base/limits.h"
#include "ir/verify/rules.h"

static bool is_all_reduce(OpCode op)
{
    return op_plain(op) == OP_ALL_REDUCE;
}

static void check_all_reduce(Verify *v, const Instruction *inst)
{
    const Attr *channel = inst_attr(inst, ATTR_CHANNEL_ID);
    if (channel && channel->i <= 0)
        verify_error(v, inst, "channel_id must be positive, but is %lld",
                     (long long)channel->i);
    if (!v->all_reduce)
        v->all_reduce = inst;
    if (inst_bool(v->all_reduce, ATTR_CONSTRAIN_LAYOUT) !=
        inst_bool(inst, ATTR_CONSTRAIN_LAYOUT))
        verify_error(v, inst, "one of it and %s has constrain_layout, one has not",
                     v->all_reduce->name);
}

static bool has_global_ids_attribute(OpCode op)
{
    for (const OpAttr *a = op_info[op].attrs; a->id != ATTR_COUNT; a++)
        if (a->id == ATTR_USE_GLOBAL_DEVICE_IDS)
            return true;
    return false;
}

/* How many devices the numbers in the groups count; 0: not known from the header. */
static int64_t group_devices(Verify *v, const Instruction *inst)
{
    const ModuleConfig *config = &v->m->config;
    int64_t replicas = config->replica_count, partitions = config->num_partitions;
    if (!inst_has(inst, ATTR_CHANNEL_ID))
        return replicas > 1 ? replicas : 0;
    if (!has_global_ids_attribute(inst->op))
        return partitions > 1 ? partitions : 0;
    if (!inst_bool(inst, ATTR_USE_GLOBAL_DEVICE_IDS))
        return replicas > 1 ? replicas : 0;
    return replicas * partitions > 1 ? replicas * partitions : 0;
}

/* Every device is in exactly one group; groups are of one size but for all-reduce. */
static void check_lists(Verify *v, const Instruction *inst, IntLists groups)
{
    int64_t total = 0, devices = group_devices(v, inst);
    bool even = true;
    for (uint32_t i = 0; i < groups.count; i++) {
        total += groups.data[i].count;
        even &= groups.data[i].count == groups.data[0].count;
        if (groups.data[i].count == 0) {
            verify_error(v, inst, "replica_groups: a group is empty");
            return;
        }
    }
    bool *seen = ARENA_ARRAY(v->scratch, bool, (size_t)total);
    for (uint32_t i = 0; i < groups.count; i++)
        for (uint32_t k = 0; k < groups.data[i].count; k++) {
            int64_t id = groups.data[i].data[k];
            if (id < 0 || id >= total || seen[id]) {
                verify_error(
                    v, inst,
                    "replica_groups: device %lld is %s; the groups must hold 0 to %lld, "
                    "each once",
                    (long long)id, id >= 0 && id < total ? "repeated" : "out of range",
                    (long long)total - 1);
                return;
            }
            seen[id] = true;
        }
    if (v->level > LEVEL_SKETCH && devices && total != devices)
        verify_error(v, inst, "replica_groups hold %lld devices, but there are %lld",
                     (long long)total, (long long)devices);
    bool strict = v->level > LEVEL_SKETCH || inst->op == OP_REDUCE_SCATTER;
    if (strict && !even && !is_all_reduce(inst->op))
        verify_error(v, inst, "replica_groups must be of one size");
}

/* In sketches a start may give the output alone. */
static bool is_bare_start(const Instruction *inst)
{
    return inst->op == OP_ALL_GATHER_START && shape_is_array(inst->shape);
}

/* Gathered (scattered) dimension = shard times group size. */
static void check_shards(Verify *v, const Instruction *inst, int64_t size)
{
    if (size <= 0)
        return; /* an empty group, which was reported */
    bool gathers = inst->op != OP_REDUCE_SCATTER;
    const Shape *r = is_bare_start(inst) || inst->op != OP_ALL_GATHER_START
                         ? inst->shape
                         : inst->shape->elements[1];
    const Shape *s = inst->operands[0]->shape;
    if (shape_is_tuple(r))
        r = r->elements[0];
    int64_t d = inst_ints(inst, ATTR_DIMENSIONS).data[0];
    int64_t shard = (gathers ? s : r)->dims[d], whole = (gathers ? r : s)->dims[d];
    int64_t parts = 1; /* in this mode a group takes in all partitions of its replicas */
    int64_t covered;
    bool is_countable = !__builtin_mul_overflow(shard, size, &covered);
    if (inst_has(inst, ATTR_CHANNEL_ID) && !inst_bool(inst, ATTR_USE_GLOBAL_DEVICE_IDS))
        parts = is_countable && shard > 0 && v->m->config.num_partitions == 1 &&
                        whole % covered == 0
                    ? whole / covered
                    : v->m->config.num_partitions;
    is_countable = is_countable && !__builtin_mul_overflow(covered, parts, &covered);
    if (parts > 0 && size > 1 && shard >= 0 && whole >= 0 &&
        (!is_countable || covered != whole))
        verify_error(v, inst, "%s and %s do not fit groups of %lld devices",
                     verify_text(v, s), verify_text(v, r), (long long)size);
}

static void check_groups(Verify *v, const Instruction *inst)
{
    const Attr *a = inst_attr(inst, ATTR_REPLICA_GROUPS);
    const ReplicaGroups *g = a ? a->groups : NULL;
    if (g && g->form == GROUPS_MESH && !g->mesh->is_maximal &&
        !axis_refs_apart(g->mesh, g->axes)) {
        verify_error(v, inst, "replica_groups: parts of an axis of the mesh meet");
        return;
    }
    if (inst_bool(inst, ATTR_USE_GLOBAL_DEVICE_IDS) && inst_has(inst, ATTR_CHANNEL_ID) &&
        (!g || replica_groups_count(g) == 0)) {
        verify_error(v, inst,
                     "with use_global_device_ids=true replica_groups must not be empty");
        return;
    }
    bool all = !g || replica_groups_count(g) == 0; /* one group of all devices */
    int64_t size = all ? group_devices(v, inst) : g->size;
    if (all && size == 0)
        return;
    if (!all && g->form == GROUPS_LISTS) {
        check_lists(v, inst, g->lists);
        size = g->lists.data[0].count;
    } else if (!all && g->form == GROUPS_MESH) {
        IntLists lists = replica_groups_lists(v->scratch, g);
        if (!g->mesh->is_maximal)
            check_lists(v, inst, lists);
        size = lists.count ? lists.data[0].count : 0;
    }
    bool shards = op_plain(inst->op) == OP_ALL_GATHER;
    if (inst->op == OP_REDUCE_SCATTER ||
        (shards && (v->level > LEVEL_SKETCH || is_bare_start(inst))))
        check_shards(v, inst, size);
    if (inst->op == OP_ALL_TO_ALL && !inst_has(inst, ATTR_DIMENSIONS) &&
        inst->operand_count != size)
        verify_error(v, inst, "has %u operands for groups of %lld devices",
                     inst->operand_count, (long long)size);
    if (inst->op == OP_ALL_TO_ALL && inst_has(inst, ATTR_DIMENSIONS)) {
        int64_t n = inst->shape->dims[inst_ints(inst, ATTR_DIMENSIONS).data[0]];
        if (size > 0 && n % size != 0)
            verify_error(v, inst, "groups of %lld devices do not divide %s",
                         (long long)size, verify_text(v, inst->shape));
    }
}

/* All the chunks are of one layout: they are exchanged as bytes. The result says which: what an
 * operand lies in is brought into it, and passes are free to change. */
static void check_all_to_all(Verify *v, const Instruction *inst)
{
    for (uint32_t i = 1; shape_is_tuple(inst->shape) && i < inst->shape->rank; i++) {
        const Shape *first = inst->shape->elements[0], *s = inst->shape->elements[i];
        if (!shape_layouts_equal(first, s)) {
            verify_error(v, inst, "results must have one layout, but are %s and %s",
                         verify_text(v, first), verify_text(v, s));
            return;
        }
    }
}

/* How many tuples of start indices the in-place form has: its slices. */
static size_t slice_count(const Shape *offsets)
{
    bool one = shape_is_tuple(offsets) && offsets->rank > 0 &&
               shape_is_array(offsets->elements[0]);
    return one || !shape_is_tuple(offsets) ? 1 : offsets->rank;
}

/* Slices of one array, or of the arrays of a tuple, and their offsets. */
static void check_in_place(Verify *v, const Instruction *inst)
{
    const Shape *in = inst->operands[0]->shape, *out = inst->operands[1]->shape;
    const Shape *from = inst->operands[2]->shape, *to = inst->operands[3]->shape;
    bool fits = shape_is_tuple(in) == shape_is_tuple(out) || shape_is_array(in);
    if (shape_is_tuple(out)) {
        fits = fits && shape_is_tuple(in) && in->rank == out->rank &&
               shape_is_tuple(from) && from->rank == in->rank && shape_is_tuple(to) &&
               to->rank == out->rank;
        for (uint32_t i = 0; fits && i < out->rank; i++)
            fits = in->elements[i]->dtype == out->elements[i]->dtype &&
                   in->elements[i]->rank == out->elements[i]->rank &&
                   slice_count(from->elements[i]) == slice_count(to->elements[i]);
    } else {
        fits = fits && in->dtype == out->dtype && in->rank == out->rank &&
               slice_count(from) == slice_count(to);
    }
    if (!fits)
        verify_error(v, inst, "input %s at %s does not fit output %s at %s",
                     verify_text(v, in), verify_text(v, from), verify_text(v, out),
                     verify_text(v, to));
}

/* How often one source or target may occur. */
static int64_t pair_limit(const Instruction *inst)
{
    if (!inst_has(inst, ATTR_PERMUTE_SLICE_SIZES))
        return 1;
    const Shape *offsets = inst->operands[2]->shape;
    if (!shape_is_tuple(inst->operands[0]->shape))
        return (int64_t)slice_count(offsets);
    int64_t most = 1;
    for (uint32_t i = 0; shape_is_tuple(offsets) && i < offsets->rank; i++)
        if ((int64_t)slice_count(offsets->elements[i]) > most)
            most = (int64_t)slice_count(offsets->elements[i]);
    return most;
}

static void check_pairs(Verify *v, const Instruction *inst)
{
    IntLists pairs = inst_int_lists(inst, ATTR_SOURCE_TARGET_PAIRS);
    bool cross_partition = inst_has(inst, ATTR_CHANNEL_ID);
    int64_t devices =
        cross_partition ? v->m->config.num_partitions : v->m->config.replica_count;
    int64_t limit = pair_limit(inst), most = 0;
    for (uint32_t i = 0; i < pairs.count; i++)
        for (uint32_t side = 0; side < 2; side++)
            if (pairs.data[i].data[side] > most)
                most = pairs.data[i].data[side];
    if (devices > 1 && most >= devices) {
        verify_error(v, inst, "source_target_pairs names device %lld of %lld",
                     (long long)most, (long long)devices);
        return;
    }
    if (most > MESH_DEVICES_MOST) {
        verify_error(v, inst, "source_target_pairs names device %lld", (long long)most);
        return;
    }
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t *count = ARENA_ARRAY(v->scratch, uint32_t, (size_t)most + 1);
        for (uint32_t i = 0; i < pairs.count; i++)
            if (++count[pairs.data[i].data[side]] == limit + 1)
                verify_error(v, inst,
                             "source_target_pairs: device %lld may be a %s %lld times, "
                             "but is more often",
                             (long long)pairs.data[i].data[side],
                             side == 0 ? "source" : "target", (long long)limit);
    }
}

void verify_collective(Verify *v, const Instruction *inst)
{
    if (is_all_reduce(inst->op))
        check_all_reduce(v, inst);
    if (inst->op == OP_ALL_TO_ALL)
        check_all_to_all(v, inst);
    check_groups(v, inst);
    if (inst_has(inst, ATTR_SOURCE_TARGET_PAIRS)) {
        if (inst_has(inst, ATTR_PERMUTE_SLICE_SIZES))
            check_in_place(v, inst);
        check_pairs(v, inst);
    }
}
