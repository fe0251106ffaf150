/* Values that name devices: shardings, replica groups, meshes (section 8.6). */
#include <stdlib.h>

#include "frontend/hlo/hlo.tab.h"
#include "frontend/hlo/parser.h"
#include "ir/attribute/replica_groups.h"
#include "ir/attribute/sharding.h"
#include "ir/base/limits.h"

/* One more size of a grid of devices, which has *count of them; false: it is none, or they are too many. */
static bool count_devices(int64_t size, int64_t *count)
{
    if (size <= 0 || size > MESH_DEVICES_MOST / *count)
        return false;
    *count *= size;
    return true;
}

/* i, i, ... without brackets; at least one */
static bool parse_ids(Parser *p, Ints *out)
{
    size_t mark = p->ints.count;
    do {
        int64_t id;
        if (!expect_int(p, &id))
            return false;
        STACK_PUSH(p, p->ints, id);
    } while (accept_token(p, ',', NULL));
    *out = ints_take(p, mark);
    return true;
}

/* name= */
static bool expect_attr(Parser *p, const char *name, const char *message)
{
    Token t = take(p);
    return (t.kind == TOK_ATTR && token_is(p, t, name)) || token_wrong(p, t, message);
}

/* [d0,d1,...]T(p0,p1,...): sizes positive, T there if there is more than one. */
static bool parse_iota(Parser *p, Iota *out)
{
    Token at = peek(p);
    Ints dims;
    if (!expect_ints_between(p, '[', ']', &dims))
        return false;
    int64_t count = 1;
    for (uint32_t i = 0; i < dims.count; i++) {
        if (!count_devices(dims.data[i], &count))
            return token_wrong(p, at,
                               "the sizes of an iota list are positive and not too many");
    }
    int64_t *order = ARENA_ARRAY(p->arena, int64_t, dims.count + 1u);
    bool *seen = ARENA_ARRAY(p->scratch, bool, dims.count + 1u);
    if (dims.count == 0)
        return token_wrong(p, at, "an iota list needs a size");
    if (accept_word(p, "T")) {
        if (!expect(p, '(', NULL))
            return false;
        for (uint32_t i = 0; i < dims.count; i++) {
            if ((i != 0 && !expect(p, ',', NULL)) || !expect_int(p, &order[i]))
                return false;
            if (order[i] < 0 || order[i] >= dims.count || seen[order[i]])
                return token_wrong(
                    p, at, "T(...) of an iota list is no permutation of its dimensions");
            seen[order[i]] = true;
        }
        if (!expect(p, ')', NULL))
            return false;
    } else if (dims.count > 1) {
        return token_wrong(p, peek(p),
                           "expects T(...) behind an iota list of several dimensions");
    }
    *out = iota_canonical(p->arena, (Iota){dims.count, dims.data, order});
    return true;
}

/* -- meshes ---------------------------------------------------------------------------- */

/* device_ids=(0,2,1,3) or device_ids=([4,2]T(1,0)); the name is read. */
static bool parse_device_ids(Parser *p, Mesh *mesh)
{
    Token at = peek(p);
    if (!expect(p, '(', NULL))
        return false;
    int64_t count = 0;
    if (peek(p).kind == '[') {
        if (!parse_iota(p, &mesh->iota))
            return false;
        count = iota_count(mesh->iota);
        if (mesh->iota.rank == 1)
            mesh->iota = (Iota){0};
    } else {
        if (!parse_ids(p, &mesh->devices))
            return false;
        count = mesh->devices.count;
    }
    if (count != mesh_device_count(mesh))
        return token_wrong(
            p, at, "the number of device_ids is not the product of the mesh's axes");
    return expect(p, ')', NULL);
}

static bool parse_mesh_axes(Parser *p, Mesh *mesh)
{
    STACK(MeshAxis) axes = {0};
    int64_t count = 1;
    while (peek(p).kind == TOK_STRING) {
        Bytes name;
        MeshAxis axis;
        Token at = peek(p);
        if (!expect_string(p, &name) || !expect(p, '=', NULL) ||
            !expect_int(p, &axis.size))
            return false;
        axis.name = name.data;
        if (!count_devices(axis.size, &count))
            return token_wrong(p, at,
                               "the size of a mesh axis is positive and not too large");
        for (size_t i = 0; i < axes.count; i++) {
            if (strcmp(axes.data[i].name, axis.name) == 0)
                return token_wrong(p, at, "a mesh has each axis once");
        }
        STACK_PUSH(p, axes, axis);
        if (!accept_token(p, ',', NULL))
            break;
    }
    mesh->axis_count = (uint32_t)axes.count;
    mesh->axes = STACK_KEEP(p, axes);
    return true;
}

/* mesh['x'=2,'y'=4] or maximal_mesh[device_id=3]; `, device_ids=(...)` is read by the
 * caller. */
static bool parse_mesh(Parser *p, Mesh **out)
{
    Mesh *mesh = ARENA_NEW(p->arena, Mesh);
    Token t = take(p);
    mesh->is_maximal = token_is(p, t, "maximal_mesh");
    *out = mesh;
    if (!mesh->is_maximal && !token_is(p, t, "mesh"))
        return token_wrong(p, t, "expects mesh[...] or maximal_mesh[...]");
    if (!expect(p, '[', NULL))
        return false;
    if (mesh->is_maximal) {
        return expect_attr(p, "device_id", "expects device_id=") &&
               expect_int(p, &mesh->device) && expect(p, ']', NULL);
    }
    return parse_mesh_axes(p, mesh) && expect(p, ']', NULL);
}

/* 'name', 'name':(pre)size, or the axis by its quoted number */
static bool parse_axis_ref(Parser *p, const Mesh *mesh, AxisRef *out)
{
    Token at = peek(p);
    Bytes name;
    if (!expect_string(p, &name))
        return false;
    *out = (AxisRef){.axis = mesh->axis_count};
    for (uint32_t i = 0; i < mesh->axis_count; i++) {
        if (strcmp(mesh->axes[i].name, name.data) == 0)
            out->axis = i;
    }
    if (out->axis == mesh->axis_count && name.length != 0 &&
        strspn(name.data, "0123456789") == name.length && name.length < 10)
        out->axis = (uint32_t)strtoul(name.data, NULL, 10);
    if (out->axis >= mesh->axis_count)
        return token_wrong(p, at, "the mesh has no such axis");
    if (!accept_token(p, ':', NULL))
        return true;
    if (!expect(p, '(', NULL) || !expect_int(p, &out->pre) || !expect(p, ')', NULL) ||
        !expect_int(p, &out->size))
        return false;
    int64_t size = mesh->axes[out->axis].size;
    if (out->pre < 1 || out->size < 1 || size % out->pre != 0 ||
        size / out->pre % out->size != 0)
        return token_wrong(p, at, "(pre)size does not divide the axis");
    return true;
}

/* { ref, ref, ... [?] }; open NULL: no `?` allowed */
static bool parse_axis_refs(Parser *p, const Mesh *mesh, AxisRefs *out, bool *open)
{
    STACK(AxisRef) refs = {0};
    List l = list_open(p, '{', '}');
    while (list_next(p, &l)) {
        if (open != NULL && accept_token(p, '?', NULL)) {
            *open = true;
            l.right = expect(p, '}', NULL);
            break;
        }
        AxisRef ref;
        if (!parse_axis_ref(p, mesh, &ref))
            return false;
        STACK_PUSH(p, refs, ref);
    }
    *out = (AxisRefs){(uint32_t)refs.count, STACK_KEEP(p, refs)};
    return l.right;
}

/* -- replica groups -------------------------------------------------------------------- */

static bool groups_iota(Parser *p, ReplicaGroups *g)
{
    Token at = peek(p);
    Ints shape;
    g->form = GROUPS_IOTA;
    if (!expect_ints_between(p, '[', ']', &shape) || !expect(p, TOK_LEQ, NULL) ||
        !parse_iota(p, &g->iota))
        return false;
    if (shape.count != 2)
        return token_wrong(p, at, "expects two sizes: groups and devices of a group");
    g->count = shape.data[0];
    g->size = shape.data[1];
    if (g->count <= 0 || g->size <= 0 || g->count > MESH_DEVICES_MOST ||
        g->size > MESH_DEVICES_MOST || g->count * g->size != iota_count(g->iota))
        return token_wrong(
            p, at, "groups times devices is not the number of devices on the right");
    return true;
}

/* mesh['x'=2,'y'=4], device_ids=(...) {'x'} */
static bool groups_mesh(Parser *p, ReplicaGroups *g)
{
    Mesh *mesh;
    g->form = GROUPS_MESH;
    if (!parse_mesh(p, &mesh))
        return false;
    g->mesh = mesh;
    if (accept_token(p, ',', NULL) &&
        (!expect_attr(p, "device_ids", "expects device_ids=") ||
         !parse_device_ids(p, mesh)))
        return false;
    return parse_axis_refs(p, mesh, &g->axes, NULL);
}

bool value_replica_groups(Parser *p, const ReplicaGroups **out)
{
    ReplicaGroups *g = ARENA_NEW(p->arena, ReplicaGroups);
    *out = g;
    Token t = peek(p);
    if (t.kind == '{')
        return expect_int_lists(p, &g->lists);
    if (t.kind == '[')
        return groups_iota(p, g);
    return groups_mesh(p, g);
}

/* -- shardings -------------------------------------------------------------------------- */

static bool parse_subgroups(Parser *p, Sharding *s)
{
    static const char *const names[] = {"manual", "unreduced", "replicated", "maximal"};
    STACK(Subgroup) kinds = {0};
    List l = list_open(p, '{', '}');
    while (list_next(p, &l)) {
        Token t = take(p);
        int kind = 0;
        while (kind < 4 && !token_is(p, t, names[kind]))
            kind++;
        if (kind == 4)
            return token_wrong(p, t, "expects manual, replicated, unreduced or maximal");
        STACK_PUSH(p, kinds, (Subgroup)kind);
    }
    s->subgroup_count = (uint32_t)kinds.count;
    s->subgroups = STACK_KEEP(p, kinds);
    return l.right;
}

/* [2,4]<=[8] or [2,2]0,1,2,3; `devices=` is read */
static bool parse_tiles(Parser *p, Sharding *s)
{
    Token at = peek(p);
    Ints dims;
    s->kind = SHARDING_TILED;
    if (!expect_ints_between(p, '[', ']', &dims))
        return false;
    s->rank = dims.count;
    s->dims = dims.data;
    int64_t count = 1, given;
    for (uint32_t i = 0; i < dims.count; i++) {
        if (!count_devices(dims.data[i], &count))
            return token_wrong(p, at,
                               "the tiling's sizes are positive and not too large");
    }
    if (accept_token(p, TOK_LEQ, NULL)) {
        if (!parse_iota(p, &s->iota))
            return false;
        given = iota_count(s->iota);
    } else {
        if (!parse_ids(p, &s->devices))
            return false;
        given = s->devices.count;
        if (given == 1)
            return token_wrong(p, at,
                               "a tiling on one device is written {maximal device=N}");
    }
    if (given != count)
        return token_wrong(
            p, at, "the number of devices is not the product of the tiling's sizes");
    return true;
}

static bool parse_sharding_metadata(Parser *p, Sharding *s)
{
    STACK(const Metadata *) all = {0};
    const Metadata *m;
    Token open = peek(p);
    if (open.kind != '{')
        return expect(p, '{', NULL);
    take(p);
    bool several = peek(p).kind == '{';
    if (!several) {
        put_back(p, open);
        if (!value_metadata(p, &m))
            return false;
        STACK_PUSH(p, all, m);
    } else {
        do {
            if (!value_metadata(p, &m))
                return false;
            STACK_PUSH(p, all, m);
        } while (accept_token(p, ',', NULL));
        if (!expect(p, '}', NULL))
            return false;
    }
    s->metadata_count = (uint32_t)all.count;
    s->metadata = STACK_KEEP(p, all);
    return true;
}

static bool parse_dim_shardings(Parser *p, Sharding *s)
{
    STACK(DimSharding) dims = {0};
    s->has_dims = true;
    List l = list_open(p, '[', ']');
    while (list_next(p, &l)) {
        DimSharding dim = {0};
        if (!parse_axis_refs(p, s->mesh, &dim.axes, &dim.is_open))
            return false;
        STACK_PUSH(p, dims, dim);
    }
    s->dim_count = (uint32_t)dims.count;
    s->dim_shardings = STACK_KEEP(p, dims);
    return l.right;
}

static bool parse_reduction(Parser *p, Reduction *out)
{
    static const char *const names[] = {"", "sum", "max", "min"};
    Token t = peek(p);
    for (int r = REDUCTION_SUM; t.kind == TOK_IDENT && r <= REDUCTION_MIN; r++) {
        if (token_is(p, t, names[r])) {
            take(p);
            *out = (Reduction)r;
            return true;
        }
    }
    return t.kind == '{' || token_wrong(p, t, "expects sum, max, min or '{'");
}

/* name=value of a named sharding */
static bool named_item(Parser *p, Sharding *s, Token t)
{
    if (token_is(p, t, "replicated"))
        return parse_axis_refs(p, s->mesh, &s->replicated, NULL);
    if (token_is(p, t, "manual"))
        return parse_axis_refs(p, s->mesh, &s->manual, NULL);
    if (token_is(p, t, "unreduced")) {
        if (!parse_reduction(p, &s->reduction))
            return false;
        if (peek(p).kind != '{') {
            s->whole_unreduced = true;
            return true;
        }
        return parse_axis_refs(p, s->mesh, &s->unreduced, NULL);
    }
    if (token_is(p, t, "metadata"))
        return parse_sharding_metadata(p, s);
    if (token_is(p, t, "device_ids")) {
        Mesh *mesh = arena_copy(p->arena, s->mesh, sizeof *mesh);
        s->mesh = mesh;
        return parse_device_ids(p, mesh);
    }
    return token_wrong(p, t,
                       "expects replicated, unreduced, manual, device_ids or metadata");
}

static bool parse_named(Parser *p, Sharding *s)
{
    Mesh *mesh;
    s->kind = SHARDING_NAMED;
    if (!parse_mesh(p, &mesh))
        return false;
    s->mesh = mesh;
    while (peek(p).kind != '}') {
        accept_token(p, ',', NULL);
        Token t = peek(p);
        if (t.kind == '[') {
            if (!parse_dim_shardings(p, s))
                return false;
        } else if (accept_word(p, "replicated")) {
            s->whole_replicated = true;
        } else if (accept_word(p, "manual")) {
            s->whole_manual = true;
        } else if (accept_word(p, "unreduced")) {
            s->whole_unreduced = true;
        } else if (accept_word(p, "shard_as")) {
            if (!expect_int(p, &s->shard_as))
                return false;
        } else if (accept_word(p, "shard_like")) {
            if (!expect_int(p, &s->shard_like))
                return false;
        } else if (t.kind != TOK_ATTR) {
            return token_wrong(p, t, "expects the dimensions of a named sharding");
        } else {
            take(p);
            if (!named_item(p, s, t))
                return false;
        }
    }
    return true;
}

/* The first word of a sharding that is not named. */
static bool parse_kind(Parser *p, Sharding *s, Token t)
{
    if (t.kind == TOK_ATTR && token_is(p, t, "devices"))
        return parse_tiles(p, s);
    if (token_is(p, t, "replicated")) {
        s->kind = SHARDING_REPLICATED;
    } else if (token_is(p, t, "manual")) {
        s->kind = SHARDING_MANUAL;
    } else if (token_is(p, t, "unknown")) {
        s->kind = SHARDING_UNKNOWN;
    } else if (token_is(p, t, "unreduced")) {
        s->kind = SHARDING_UNREDUCED;
    } else if (token_is(p, t, "maximal")) {
        s->kind = SHARDING_MAXIMAL;
        return expect_attr(p, "device", "expects device=") && expect_int(p, &s->device);
    } else {
        return token_wrong(
            p, t,
            "expects a sharding: replicated, manual, unknown, unreduced, maximal, "
            "devices=[...] or mesh[...]");
    }
    return true;
}

static bool parse_suffixes(Parser *p, Sharding *s)
{
    while (peek(p).kind != '}') {
        Token t = take(p);
        bool right = true;
        if (token_is(p, t, "last_tile_dim_replicate"))
            s->replicate_last = true;
        else if (t.kind == TOK_ATTR && token_is(p, t, "last_tile_dims"))
            right = parse_subgroups(p, s);
        else if (token_is(p, t, "shard_as"))
            right = expect_int(p, &s->shard_as);
        else if (token_is(p, t, "shard_like"))
            right = expect_int(p, &s->shard_like);
        else if (t.kind == TOK_ATTR && token_is(p, t, "metadata"))
            right = parse_sharding_metadata(p, s);
        else
            right = token_wrong(p, t, "unexpected text in a sharding");
        if (!right)
            return false;
    }
    return true;
}

/* Behind the `{`, up to and with the `}`. */
static bool parse_single(Parser *p, Token first, const Sharding **out)
{
    Sharding *s = ARENA_NEW(p->arena, Sharding);
    s->shard_as = s->shard_like = -1;
    if (token_is(p, first, "mesh") || token_is(p, first, "maximal_mesh")) {
        put_back(p, first);
        if (!parse_named(p, s))
            return false;
    } else if (!parse_kind(p, s, first) || !parse_suffixes(p, s)) {
        return false;
    }
    if (s->kind == SHARDING_TILED && s->subgroup_count + s->replicate_last > s->rank)
        return token_wrong(p, first, "the tiling has fewer dimensions than subgroups");
    *out = sharding_normal(p->arena, s);
    return expect(p, '}', NULL);
}

bool value_sharding(Parser *p, const Sharding **out)
{
    STACK(const Sharding *) elements = {0};
    if (!expect(p, '{', NULL))
        return false;
    Token t = take(p);
    if (t.kind != '{' && t.kind != '}')
        return parse_single(p, t, out);
    while (t.kind == '{') {
        const Sharding *element;
        if (!parse_single(p, take(p), &element))
            return false;
        STACK_PUSH(p, elements, element);
        t = take(p);
        if (t.kind == ',')
            t = take(p);
    }
    if (t.kind != '}')
        return token_wrong(p, t, "expects '{' or '}' in the sharding of a tuple");
    Sharding *tuple = ARENA_NEW(p->arena, Sharding);
    tuple->kind = SHARDING_TUPLE;
    tuple->shard_as = tuple->shard_like = -1;
    tuple->element_count = (uint32_t)elements.count;
    tuple->elements = STACK_KEEP(p, elements);
    *out = tuple;
    return true;
}
