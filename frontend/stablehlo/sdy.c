/* Shardy's meshes and shardings, replica groups, and what is done by hand on each device.
 *
 * gxc has no partitioner. A main function all of whose work stands in manual computations says what each
 * device does: its arguments and results are then the device's parts. Other programs keep their shardings, and
 * are refused where those would need a partitioner (ir/analysis/partition.h). */
#include <string.h>

#include "frontend/stablehlo/functions.h"
#include "ir/base/limits.h"
#include "ir/dtype.h"

/* -- meshes --------------------------------------------------------------------------------- */

static bool add_axis(Converter *c, const char *name, int64_t size, MeshAxis *axes,
                     uint32_t count, int64_t *devices)
{
    bool right = size > 0 && size <= MESH_DEVICES_MOST / *devices;
    for (uint32_t i = 0; right && i < count; i++)
        right = strcmp(axes[i].name, name) != 0;
    if (!right)
        return convert_error(
                   c, "the axes of a mesh have different names and sizes above 0") !=
               NULL;
    axes[count] = (MeshAxis){name, size};
    *devices *= size;
    return true;
}

/* {"a" = 2}, or #stablehlo.mesh_axis<name = "a", size = 2> */
static bool read_axis(Converter *c, const MlirAttr *a, const char **name, int64_t *size)
{
    a = mlir_resolve(c->file, a);
    if (a != NULL && a->kind == MLIR_DICT && a->dict.count == 1) {
        *name = a->dict.entries[0].name;
        return *name != NULL && ask_int(c, a->dict.entries[0].value, size);
    }
    *name = ask_word(c, field(c, a, "name"));
    return *name != NULL && ask_int(c, field(c, a, "size"), size);
}

/* <["a"=2, "b"=4], device_ids=[...]>, #stablehlo.mesh<axes = [...], device_ids = dense<...>> */
static const Mesh *read_mesh(Converter *c, const MlirAttr *a)
{
    const MlirAttr *list = field(c, a, "axes");
    if (list == NULL && a->kind == MLIR_STRUCT && a->fields.count != 0 &&
        a->fields.entries[0].name == NULL)
        list = mlir_resolve(c->file, a->fields.entries[0].value);
    if (list == NULL || list->kind != MLIR_LIST)
        return convert_error(c, "a mesh is a list of axes");
    Mesh *mesh = ARENA_NEW(c->arena, Mesh);
    MeshAxis *axes = ARENA_ARRAY(c->arena, MeshAxis, list->list.count + 1u);
    int64_t devices = 1;
    for (uint32_t i = 0; i < list->list.count; i++) {
        const char *name;
        int64_t size = 0;
        if (!read_axis(c, list->list.items[i], &name, &size))
            return convert_error(c, "an axis of a mesh is \"name\"=size");
        if (!add_axis(c, name, size, axes, i, &devices))
            return NULL;
    }
    mesh->axis_count = list->list.count;
    mesh->axes = axes;
    if (!ask_ints(c, field(c, a, "device_ids"), &mesh->devices))
        return NULL;
    if (mesh->devices.count != 0 && mesh->axis_count == 0 && mesh->devices.count == 1) {
        mesh->is_maximal = true;
        mesh->device = mesh->devices.data[0];
    } else if (mesh->devices.count != 0 && mesh->devices.count != devices) {
        return convert_error(c, "a mesh of %lld devices has %u device_ids",
                             (long long)devices, mesh->devices.count);
    }
    return mesh;
}

const Mesh *find_mesh(Converter *c, const MlirAttr *a)
{
    a = mlir_resolve(c->file, a);
    if (a != NULL && a->kind == MLIR_STRUCT)
        return read_mesh(c, a);
    bool is_name = a != NULL && (a->kind == MLIR_SYMBOL || a->kind == MLIR_STRING);
    const char *name = is_name ? a->text.data : ""; /* in a portable artefact a string */
    for (uint32_t i = 0; i < c->mesh_count; i++)
        if (strcmp(c->meshes[i].name, name) == 0)
            return c->meshes[i].mesh;
    return convert_error(c, "there is no mesh @%s", name);
}

void add_mesh(Converter *c, const MlirOp *op)
{
    c->op = op;
    const char *name = ask_symbol(c, op, "sym_name");
    const MlirAttr *a = ask(c, op, NULL, "mesh");
    const Mesh *mesh = a != NULL ? read_mesh(c, a) : NULL;
    if (name != NULL && mesh != NULL)
        c->meshes[c->mesh_count++] = (NamedMesh){name, mesh};
}

/* -- axes ----------------------------------------------------------------------------------- */

static bool find_axis(Converter *c, const Mesh *mesh, const char *name, AxisRef *out)
{
    for (uint32_t i = 0; name != NULL && i < mesh->axis_count; i++) {
        if (strcmp(mesh->axes[i].name, name) == 0) {
            *out = (AxisRef){.axis = i};
            return true;
        }
    }
    return convert_error(c, "the mesh has no axis \"%s\"", name != NULL ? name : "?") !=
           NULL;
}

/* :(1)2 is a list of both numbers. */
static bool set_part(Converter *c, const Mesh *mesh, const MlirAttr *part, AxisRef *ref)
{
    Ints both;
    if (part == NULL)
        return true;
    const MlirAttr *pre = field(c, part, "pre_size"), *size = field(c, part, "size");
    if (pre != NULL) {
        ask_int(c, pre, &ref->pre);
        ask_int(c, size, &ref->size);
    } else if (ask_ints(c, part, &both) && both.count == 2) {
        ref->pre = both.data[0];
        ref->size = both.data[1];
    }
    int64_t whole = mesh->axes[ref->axis].size;
    if (ref->pre >= 1 && ref->size >= 1 && whole % ref->pre == 0 &&
        whole / ref->pre % ref->size == 0)
        return true;
    return convert_error(c, "(pre)size does not divide the axis") != NULL;
}

/* #stablehlo.axis_ref<name = "a", sub_axis_info = (1)2> */
bool axis_refs(Converter *c, const Mesh *mesh, const MlirAttr *list, AxisRefs *out)
{
    *out = (AxisRefs){0};
    list = mlir_resolve(c->file, list);
    if (list == NULL)
        return true;
    if (list->kind != MLIR_LIST)
        return convert_error(c, "axes are a list") != NULL;
    AxisRef *refs = ARENA_ARRAY(c->arena, AxisRef, list->list.count + 1u);
    for (uint32_t i = 0; i < list->list.count; i++) {
        const MlirAttr *a = mlir_resolve(c->file, list->list.items[i]);
        const char *name =
            ask_word(c, a != NULL && a->kind == MLIR_STRUCT ? field(c, a, "name") : a);
        if (!find_axis(c, mesh, name, &refs[i]) ||
            !set_part(c, mesh, field(c, a, "sub_axis_info"), &refs[i]))
            return false;
    }
    *out = (AxisRefs){list->list.count, refs};
    return true;
}

/* {"a", "b":(1)2, ?}: of Shardy, a dictionary of names without values and lists of a part's numbers */
static bool braced_axes(Converter *c, const Mesh *mesh, const MlirAttr *dict,
                        DimSharding *out)
{
    *out = (DimSharding){0};
    dict = mlir_resolve(c->file, dict);
    if (dict == NULL)
        return true;
    if (dict->kind != MLIR_DICT)
        return convert_error(c, "axes are written {\"a\", ...}") != NULL;
    AxisRef *refs = ARENA_ARRAY(c->arena, AxisRef, dict->dict.count + 1u);
    for (uint32_t i = 0; i < dict->dict.count; i++) {
        const char *name = dict->dict.entries[i].name;
        const MlirAttr *value = dict->dict.entries[i].value;
        if (name != NULL && strcmp(name, "?") == 0) {
            out->is_open = true;
            continue;
        }
        AxisRef *ref = &refs[out->axes.count++];
        if (!find_axis(c, mesh, name, ref) ||
            !set_part(c, mesh, value->kind == MLIR_UNIT ? NULL : value, ref))
            return false;
    }
    out->axes.data = refs;
    return true;
}

/* -- replica groups ------------------------------------------------------------------------- */

static const ReplicaGroups *mesh_groups(Converter *c, const MlirAttr *a)
{
    ReplicaGroups *g = ARENA_NEW(c->arena, ReplicaGroups);
    g->form = GROUPS_MESH;
    g->mesh = find_mesh(c, field(c, a, "mesh"));
    if (g->mesh == NULL || !axis_refs(c, g->mesh, field(c, a, "axes"), &g->axes))
        return NULL;
    return g;
}

/* Rows may be filled up with -1. */
const ReplicaGroups *ask_groups(Converter *c, const MlirOp *op)
{
    const MlirAttr *a = ask(c, op, NULL, "replica_groups");
    if (a == NULL)
        return convert_error(c, "%s lacks the attribute replica_groups", op->name);
    if (a->kind == MLIR_STRUCT)
        return mesh_groups(c, a);
    ReplicaGroups *g = ARENA_NEW(c->arena, ReplicaGroups);
    if (!ask_pairs(c, a, &g->lists))
        return NULL;
    Ints *rows = ARENA_ARRAY(c->arena, Ints, g->lists.count + 1u);
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->lists.count; i++) {
        Ints row = g->lists.data[i];
        while (row.count != 0 && row.data[row.count - 1] == -1)
            row.count--;
        if (row.count != 0)
            rows[count++] = row;
    }
    g->lists = (IntLists){rows, count};
    return g;
}

/* -- shardings ------------------------------------------------------------------------------ */

static const Sharding *read_sharding(Converter *c, const MlirAttr *a)
{
    const MlirAttr *mesh = NULL, *dims = NULL;
    for (uint32_t i = 0; i < a->fields.count; i++) {
        const MlirAttr *value = mlir_resolve(c->file, a->fields.entries[i].value);
        if (a->fields.entries[i].name != NULL || value == NULL)
            continue;
        if (value->kind == MLIR_LIST)
            dims = value;
        else if (mesh == NULL)
            mesh = value;
    }
    Sharding *s = ARENA_NEW(c->arena, Sharding);
    s->kind = SHARDING_NAMED;
    s->shard_as = s->shard_like = -1;
    s->mesh = mesh != NULL ? find_mesh(c, mesh) : NULL;
    if (s->mesh == NULL || dims == NULL)
        return mesh == NULL || dims == NULL
                   ? convert_error(c, "a sharding is <@mesh, [{\"axis\", ...}, ...]>")
                   : NULL;
    s->has_dims = true;
    s->dim_count = dims->list.count;
    DimSharding *each = ARENA_ARRAY(c->arena, DimSharding, s->dim_count + 1u);
    for (uint32_t i = 0; i < s->dim_count; i++)
        if (!braced_axes(c, s->mesh, dims->list.items[i], &each[i]))
            return NULL;
    s->dim_shardings = each;
    DimSharding replicated, unreduced;
    if (!braced_axes(c, s->mesh, field(c, a, "replicated"), &replicated) ||
        !braced_axes(c, s->mesh, field(c, a, "unreduced"), &unreduced))
        return NULL;
    s->replicated = replicated.axes;
    s->unreduced = unreduced.axes;
    return s;
}

/* One, or <[<...>, <...>]>: one for each value. */
const Sharding *sdy_sharding(Converter *c, const MlirAttr *a)
{
    if (a->kind == MLIR_OPAQUE || a->kind != MLIR_STRUCT)
        return convert_error(c, "a sharding is <@mesh, [...]>");
    const MlirAttr *first = a->fields.count != 0 ? a->fields.entries[0].value : NULL;
    if (first == NULL || first->kind != MLIR_LIST || a->fields.count != 1)
        return read_sharding(c, a);
    Sharding *tuple = ARENA_NEW(c->arena, Sharding);
    const Sharding **elements =
        ARENA_ARRAY(c->arena, const Sharding *, first->list.count + 1u);
    for (uint32_t i = 0; i < first->list.count; i++) {
        const MlirAttr *item = mlir_resolve(c->file, first->list.items[i]);
        elements[i] =
            item != NULL && item->kind == MLIR_STRUCT ? read_sharding(c, item) : NULL;
        if (elements[i] == NULL)
            return NULL;
    }
    if (first->list.count == 1)
        return elements[0];
    tuple->kind = SHARDING_TUPLE;
    tuple->shard_as = tuple->shard_like = -1;
    tuple->element_count = first->list.count;
    tuple->elements = elements;
    return tuple;
}

/* What the partitioner would be asked: HLO has a call for it. */
void convert_sdy_constraint(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    const MlirAttr *a = ask(c, op, NULL, "sharding");
    Instruction *inst =
        make1(c, OP_CUSTOM_CALL, operand_of(op, 0)->shape, operand_of(op, 0));
    const Sharding *s = a != NULL ? sdy_sharding(c, a) : NULL;
    inst_set_bytes(inst, ATTR_CUSTOM_CALL_TARGET, "Sharding", strlen("Sharding"));
    if (s != NULL)
        inst_set(inst, (Attr){.id = ATTR_SHARDING, .sharding = s});
    op->results[0].inst = make_finish(c, inst);
}

void convert_sdy_reshard(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    convert_unsupported(c, "%s: gxc has no partitioner", op->name);
}

/* -- manual computations -------------------------------------------------------------------- */

static bool is_whole_mesh(Converter *c, const MlirOp *op)
{
    const MlirAttr *manual = ask(c, op, NULL, "manual_axes");
    for (uint32_t m = 0; m < c->mesh_count; m++) {
        const Mesh *mesh = c->meshes[m].mesh;
        for (uint32_t i = 0; i < mesh->axis_count; i++)
            if (mesh->axes[i].size > 1 &&
                (manual == NULL || manual->kind != MLIR_DICT ||
                 mlir_find(manual->dict, mesh->axes[i].name) == NULL))
                return false;
    }
    return true;
}

/* Its body in place: arguments are the operands' parts. is_manual has seen that operands are parts. */
void convert_sdy_manual(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    MlirRegion *body = op->regions[0];
    if (!c->is_manual || body->argument_count != op->operand_count ||
        !is_whole_mesh(c, op)) {
        convert_unsupported(c,
                            "a manual computation that is not all that main does, or not "
                            "for all axes of the mesh: gxc has no partitioner");
        return;
    }
    for (uint32_t i = 0; i < op->operand_count; i++)
        body->arguments[i].inst = operand_of(op, i);
    body->is_open = true;
    convert_ops(c, body);
    body->is_open = false;
    const MlirOp *last = body->op_count != 0 ? body->ops[body->op_count - 1] : NULL;
    if (last == NULL || strcmp(last->name, "sdy.return") != 0 ||
        last->operand_count != op->result_count) {
        convert_error(
            c, "the body of a manual computation ends in sdy.return of its results");
        return;
    }
    for (uint32_t i = 0; i < op->result_count; i++)
        op->results[i].inst = operand_of(last, i);
}

/* The type of each value is the part that the first computation to use or make it says. */
static bool agrees(MlirValue *value, const MlirType *part, bool first)
{
    if (first || value->part == NULL)
        value->part = part;
    return mlir_type_equal(value->part, part);
}

/* Whether main is manual computations and a return alone, which agree about the parts of each value. */
bool is_manual(const MlirRegion *main)
{
    bool any = false;
    for (uint32_t i = 0; i < main->argument_count; i++)
        main->arguments[i].part = NULL;
    for (uint32_t i = 0; i < main->op_count; i++) {
        const MlirOp *op = main->ops[i];
        if (strcmp(op->name, "sdy.manual_computation") != 0) {
            if (i + 1 != main->op_count)
                return false;
            continue;
        }
        const MlirRegion *body = op->region_count == 1 ? op->regions[0] : NULL;
        const MlirOp *last =
            body != NULL && body->op_count != 0 ? body->ops[body->op_count - 1] : NULL;
        if (last == NULL || body->argument_count != op->operand_count ||
            last->operand_count != op->result_count)
            return false;
        any = true;
        for (uint32_t k = 0; k < op->operand_count; k++)
            if (!agrees(op->operands[k], body->arguments[k].type, false))
                return false;
        for (uint32_t k = 0; k < op->result_count; k++)
            agrees(&op->results[k], last->operands[k]->type, true);
    }
    return any;
}

/* A name for what stands in it; with all devices doing the same it is a call. */
void convert_sdy_named(Converter *c, const MlirOp *op, const OpRow *row)
{
    (void)row;
    Computation *callee = applied_computation(c, op, 0);
    if (callee == NULL)
        return;
    Instruction **operands =
        ARENA_ARRAY(c->scratch, Instruction *, op->operand_count + 1u);
    for (uint32_t i = 0; i < op->operand_count; i++)
        operands[i] = operand_of(op, i);
    bind_elements(
        c, op,
        make_finish(c, make_call(c, OP_CALL, callee->root->shape, op->operand_count,
                                 operands, ATTR_TO_APPLY, callee)));
}
