/* The verifier's rules about shardings (12.2, 12.4 of the language): a tiling has the rank of
 * the array, names each device once; values that a loop carries keep their sharding. */
#include "ir/attribute/sharding.h"
#include "ir/attribute/replica_groups.h"
#include "ir/base/limits.h"

#include "ir/verify/rules.h"

static const Sharding *sharding_of(const Instruction *inst)
{
    const Attr *a = inst_attr(inst, ATTR_SHARDING);
    return a ? a->sharding : NULL;
}

/* Of 1 or no partition shardings say nothing about the devices that there are. */
static void check_device(Verify *v, const Instruction *inst, int64_t device)
{
    int64_t devices = v->m->config.num_partitions;
    if (device < 0 || device >= MESH_DEVICES_MOST)
        verify_error(v, inst, "sharding: device %lld does not exist", (long long)device);
    else if (devices > 1 && device >= devices)
        verify_error(v, inst, "sharding: device %lld of %lld", (long long)device,
                     (long long)devices);
}

static void check_devices(Verify *v, const Instruction *inst, Ints devices)
{
    if (devices.count == 0)
        return;
    int64_t most = devices.data[0], least = most;
    for (uint32_t i = 0; i < devices.count; i++) {
        most = devices.data[i] > most ? devices.data[i] : most;
        least = devices.data[i] < least ? devices.data[i] : least;
    }
    check_device(v, inst, least < 0 ? least : most);
    if (least < 0 || most >= MESH_DEVICES_MOST)
        return;
    bool *seen = ARENA_ARRAY(v->scratch, bool, (size_t)most + 1);
    for (uint32_t i = 0; i < devices.count; i++) {
        int64_t id = devices.data[i];
        if (seen[id]) {
            verify_error(v, inst, "sharding: device %lld occurs twice", (long long)id);
            return;
        }
        seen[id] = true;
    }
}

static void check_mesh(Verify *v, const Instruction *inst, const Mesh *mesh)
{
    if (mesh->is_maximal)
        check_device(v, inst, mesh->device);
    else if (mesh->devices.count != 0)
        check_devices(v, inst, mesh->devices);
    else
        check_device(v, inst, mesh_device_count(mesh) - 1);
}

/* A part of a mesh's axis that is spoken for: the sizes behind `begin` and before `end`. */
typedef struct AxisPart {
    int64_t begin, end;
    struct AxisPart *next;
} AxisPart;

/* Notes a whole axis, or the part (pre)size of it; false if it meets one noted before. Parts that
 * do not meet are few, for the sizes of what they hold multiply up to the axis'. */
static bool take_axis(Verify *v, AxisPart **taken, const Mesh *mesh, AxisRef ref)
{
    int64_t whole = mesh->axes[ref.axis].size;
    AxisPart part = {1, whole > 1 ? whole : 2, taken[ref.axis]};
    if (ref.size != 0)
        part = (AxisPart){ref.pre, ref.pre * ref.size, taken[ref.axis]};
    for (const AxisPart *t = part.next; t != NULL; t = t->next)
        if (t->begin < part.end && part.begin < t->end)
            return false;
    if (part.begin < part.end)
        taken[ref.axis] = arena_copy(v->scratch, &part, sizeof part);
    return true;
}

/* A dimension of the array for each of the sharding, each axis of the mesh once. */
static void check_named(Verify *v, const Instruction *inst, const Sharding *sharding,
                        const Shape *s)
{
    if (sharding->dim_count != 0 && shape_is_array(s) && sharding->dim_count != s->rank) {
        verify_error(v, inst, "sharding: %u dimensions for %s", sharding->dim_count,
                     verify_text(v, s));
        return;
    }
    const AxisRefs *lists[] = {&sharding->replicated, &sharding->unreduced,
                               &sharding->manual};
    AxisPart **taken = ARENA_ARRAY(v->scratch, AxisPart *, sharding->mesh->axis_count);
    uint32_t count = sharding->dim_count + 3;
    for (uint32_t i = 0; i < count; i++) {
        AxisRefs refs = i < sharding->dim_count ? sharding->dim_shardings[i].axes
                                                : *lists[i - sharding->dim_count];
        for (uint32_t k = 0; k < refs.count; k++) {
            if (take_axis(v, taken, sharding->mesh, refs.data[k]))
                continue;
            verify_error(v, inst, "sharding: axis '%s' of the mesh occurs twice",
                         sharding->mesh->axes[refs.data[k].axis].name);
            return;
        }
    }
}

static void check_tiling(Verify *v, const Instruction *inst, const Sharding *sharding,
                         const Shape *s)
{
    uint32_t subgroups = sharding->subgroup_count + (sharding->replicate_last ? 1 : 0);
    if (sharding->kind == SHARDING_NAMED) {
        check_mesh(v, inst, sharding->mesh);
        check_named(v, inst, sharding, s);
    }
    if (sharding->kind == SHARDING_MAXIMAL)
        check_device(v, inst, sharding->device);
    if (sharding->kind != SHARDING_TILED || !shape_is_array(s))
        return;
    if (sharding->rank != s->rank + subgroups) {
        verify_error(v, inst, "sharding: a tiling of %u dimensions for %s",
                     sharding->rank - subgroups, verify_text(v, s));
        return;
    }
    if (sharding->devices.count != 0)
        check_devices(v, inst, sharding->devices);
    else
        check_device(v, inst, iota_count(sharding->iota) - 1);
}

static void check_fit(Verify *v, const Instruction *inst, const Sharding *sharding)
{
    const Shape *s = inst->shape;
    if (sharding->kind != SHARDING_TUPLE) {
        check_tiling(v, inst, sharding, s);
        return;
    }
    size_t leaves = shape_leaf_count(s);
    if (!shape_is_tuple(s) || sharding->element_count != leaves) {
        if (inst->op == OP_OUTFEED)
            return; /* its sharding is that of what it sends, and of the token */
        if (!shape_is_tuple(s) || leaves > 0 || sharding->element_count > 1)
            verify_error(v, inst, "sharding: %u elements for %s", sharding->element_count,
                         verify_text(v, s));
        return;
    }
    const Sharding *last = NULL; /* one sharding may be spread to all leaves */
    const Shape *of = NULL;
    for (size_t i = 0; i < leaves; i++) {
        const Shape *leaf = shape_leaf(s, i);
        if (sharding->elements[i] == last && leaf == of)
            continue;
        last = sharding->elements[i];
        of = leaf;
        check_tiling(v, inst, last, of);
    }
}

static void check_same(Verify *v, const Instruction *inst, const Instruction *a,
                       const Instruction *b)
{
    const Sharding *x = sharding_of(a), *y = sharding_of(b);
    if (x && y && !sharding_equal(x, y))
        verify_error(v, inst,
                     "the loop's values are sharded in different ways by %s and %s",
                     a->name, b->name);
}

/* Its branches give what the conditional gives, sharded in one way. */
static void check_branches(Verify *v, const Instruction *inst)
{
    const Instruction *first = inst;
    for (uint32_t i = 0; i < inst_called_count(inst); i++) {
        const Instruction *root = inst_called(inst, i)->root;
        const Sharding *x = sharding_of(first), *y = sharding_of(root);
        if (x && y && !sharding_equal(x, y)) {
            verify_error(v, inst,
                         "the conditional's results are sharded in different ways by %s "
                         "and %s",
                         first->name, root->name);
            return;
        }
        first = x ? first : root;
    }
}

void verify_sharding(Verify *v, const Instruction *inst)
{
    const Sharding *sharding = sharding_of(inst);
    if (sharding)
        check_fit(v, inst, sharding);
    if (inst->op == OP_CONDITIONAL)
        check_branches(v, inst);
    if (inst->op != OP_WHILE)
        return;
    const Computation *condition = inst_attr(inst, ATTR_CONDITION)->computations.data[0];
    const Computation *body = inst_attr(inst, ATTR_BODY)->computations.data[0];
    check_same(v, inst, condition->parameters[0], body->parameters[0]);
    check_same(v, inst, body->parameters[0], body->root);
    check_same(v, inst, inst, body->root);
}
