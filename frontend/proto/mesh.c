/* What names devices by the axes of a mesh - named shardings and groups - in HloModuleProto. */
#include <string.h>

#include "frontend/proto/reader.h"
#include "ir/base/limits.h"

/* Fields of NamedShardingProto. The last two are ours: how the sharding was written, which
 * others tell by its axes, and the reduction of what is unreduced. */
enum {
    NAMED_MESH = 2,
    NAMED_DIM = 3,
    NAMED_REPLICATED = 4,
    NAMED_UNREDUCED = 5,
    NAMED_METADATA = 6,
    NAMED_MANUAL = 7,
    NAMED_FORM = PROTO_TEXT,
    NAMED_REDUCTION
};
enum { FORM_DIMS = 1, FORM_REPLICATED = 2, FORM_MANUAL = 4, FORM_UNREDUCED = 8 };

/* -- reading ----------------------------------------------------------------------------- */

static size_t count_fields(Message m, uint32_t number)
{
    size_t count = 0;
    for (size_t i = 0; i < m.count; i++)
        count += m.fields[i].number == number && m.fields[i].type == 2;
    return count;
}

/* The next message of a repeated field from *at on; false at the end. */
static bool next_part(Reader *r, Message m, uint32_t number, size_t *at, Message *out)
{
    for (; *at < m.count; (*at)++) {
        if (m.fields[*at].number != number || m.fields[*at].type != 2)
            continue;
        *out = message_scan(r, m.fields[(*at)++].bytes);
        return true;
    }
    return false;
}

static bool is_permutation(Reader *r, Ints order, uint32_t count)
{
    bool *seen = ARENA_ARRAY(r->a, bool, count);
    for (uint32_t i = 0; i < order.count; i++) {
        int64_t k = order.data[i];
        if (k < 0 || k >= count || seen[k])
            return false;
        seen[k] = true;
    }
    return order.count == count;
}

static bool read_axes(Reader *r, Message message, Mesh *mesh, int64_t *devices)
{
    MeshAxis *axes = ARENA_ARRAY(r->a, MeshAxis, count_fields(message, 1));
    Message axis;
    *devices = 1;
    for (size_t at = 0; next_part(r, message, 1, &at, &axis); mesh->axis_count++) {
        Bytes name = message_bytes(axis, 1);
        int64_t size = message_int(axis, 2);
        if (size <= 0 || size > MESH_DEVICES_MOST / *devices ||
            memchr(name.data, '\0', name.length) != NULL)
            return reader_trouble(r, "an axis of a mesh has no right name and size");
        *devices *= size;
        axes[mesh->axis_count] =
            (MeshAxis){arena_text(r->a, name.data, name.length), size};
    }
    mesh->axes = axes;
    return true;
}

static const Mesh *read_mesh(Reader *r, Message message)
{
    Mesh *mesh = ARENA_NEW(r->a, Mesh);
    Message iota = message_part(r, message, 3);
    int64_t devices, count = 1;
    if (!read_axes(r, message, mesh, &devices))
        return NULL;
    mesh->devices = message_ints(r, message, 2);
    mesh->is_maximal = mesh->axis_count == 0 && mesh->devices.count == 1;
    if (mesh->is_maximal) {
        mesh->device = mesh->devices.data[0];
        mesh->devices = (Ints){0};
        return mesh;
    }
    Ints dims = message_ints(r, iota, 1), order = message_ints(r, iota, 2);
    for (uint32_t i = 0; i < dims.count; i++) {
        if (dims.data[i] <= 0 || dims.data[i] > MESH_DEVICES_MOST / count)
            count = MESH_DEVICES_MOST + 1;
        else
            count *= dims.data[i];
    }
    bool listed = mesh->devices.count != 0;
    if ((listed && mesh->devices.count != devices) ||
        (dims.count != 0 &&
         (count != devices || !is_permutation(r, order, dims.count)))) {
        reader_trouble(r, "the devices of a mesh are not those of its axes");
        return NULL;
    }
    if (dims.count > 1)
        mesh->iota = (Iota){dims.count, dims.data, order.data};
    return mesh;
}

static bool read_axis_ref(Reader *r, Message message, const Mesh *mesh, AxisRef *out)
{
    uint64_t axis = (uint64_t)message_int(message, 1);
    if (axis >= mesh->axis_count)
        return reader_trouble(r, "a sharding names an axis that its mesh does not have");
    *out = (AxisRef){.axis = (uint32_t)axis};
    if (message_find(message, 2) == NULL)
        return true;
    Message part = message_part(r, message, 2);
    int64_t pre = message_int(part, 1), size = message_int(part, 2);
    int64_t whole = mesh->axes[axis].size;
    if (pre <= 0 || size <= 0 || whole % pre != 0 || whole / pre % size != 0)
        return reader_trouble(r, "a part of a mesh axis does not divide the axis");
    out->pre = pre;
    out->size = size;
    return true;
}

static bool read_axis_refs(Reader *r, Message message, uint32_t number, const Mesh *mesh,
                           AxisRefs *out)
{
    AxisRef *refs = ARENA_ARRAY(r->a, AxisRef, count_fields(message, number));
    Message ref;
    uint32_t count = 0;
    for (size_t at = 0; next_part(r, message, number, &at, &ref); count++) {
        if (!read_axis_ref(r, ref, mesh, &refs[count]))
            return false;
    }
    *out = (AxisRefs){count, refs};
    return true;
}

static bool covers(AxisRefs refs, const Mesh *mesh)
{
    for (uint32_t i = 0; i < refs.count; i++) {
        if (refs.data[i].axis != i || refs.data[i].size != 0)
            return false;
    }
    return refs.count == mesh->axis_count && refs.count != 0;
}

/* What holds of the whole mesh is written as all of its axes. */
static void name_form(Message message, Sharding *s)
{
    bool bare = s->dim_count == 0 && s->replicated.count == 0;
    int64_t form = message_int(message, NAMED_FORM);
    if (message_find(message, NAMED_FORM) == NULL) {
        if (s->mesh->is_maximal)
            form = 0;
        else if (bare && s->unreduced.count == 0 && covers(s->manual, s->mesh))
            form = FORM_MANUAL;
        else if (bare && s->manual.count == 0 && covers(s->unreduced, s->mesh))
            form = FORM_UNREDUCED;
        else if (bare && s->manual.count == 0 && s->unreduced.count == 0)
            form = FORM_REPLICATED;
        else
            form = FORM_DIMS;
    }
    s->has_dims = (form & FORM_DIMS) != 0;
    s->whole_replicated = (form & FORM_REPLICATED) != 0;
    s->whole_manual = (form & FORM_MANUAL) != 0;
    s->whole_unreduced = (form & FORM_UNREDUCED) != 0;
    if (s->whole_manual)
        s->manual = (AxisRefs){0};
    if (s->whole_unreduced)
        s->unreduced = (AxisRefs){0};
}

static bool read_dims(Reader *r, Message message, Sharding *s)
{
    DimSharding *dims = ARENA_ARRAY(r->a, DimSharding, count_fields(message, NAMED_DIM));
    Message dim;
    for (size_t at = 0; next_part(r, message, NAMED_DIM, &at, &dim); s->dim_count++) {
        DimSharding *d = &dims[s->dim_count];
        if (!read_axis_refs(r, dim, 1, s->mesh, &d->axes))
            return false;
        d->is_open = message_int(dim, 2) == 0;
    }
    s->dim_shardings = dims;
    return true;
}

static void read_metadata(Reader *r, Message message, Sharding *s)
{
    size_t count = count_fields(message, NAMED_METADATA);
    const Metadata **all = ARENA_ARRAY(r->a, const Metadata *, count);
    Message m;
    for (size_t at = 0; next_part(r, message, NAMED_METADATA, &at, &m);) {
        Metadata *one = ARENA_NEW(r->a, Metadata);
        *one = reader_metadata(r, m);
        all[s->metadata_count++] = one;
    }
    s->metadata = all;
}

const Sharding *reader_named_sharding(Reader *r, Message named)
{
    Sharding *s = ARENA_NEW(r->a, Sharding);
    int64_t reduction = message_int(named, NAMED_REDUCTION);
    *s = (Sharding){.kind = SHARDING_NAMED,
                    .mesh = read_mesh(r, message_part(r, named, NAMED_MESH)),
                    .shard_as = -1,
                    .shard_like = -1};
    if (s->mesh == NULL || !read_dims(r, named, s) ||
        !read_axis_refs(r, named, NAMED_REPLICATED, s->mesh, &s->replicated) ||
        !read_axis_refs(r, named, NAMED_UNREDUCED, s->mesh, &s->unreduced) ||
        !read_axis_refs(r, named, NAMED_MANUAL, s->mesh, &s->manual))
        return NULL;
    if (reduction < REDUCTION_NONE || reduction > REDUCTION_MIN) {
        reader_trouble(r, "a sharding has an unknown reduction");
        return NULL;
    }
    s->reduction = (Reduction)reduction;
    name_form(named, s);
    read_metadata(r, named, s);
    return s;
}

const ReplicaGroups *reader_mesh_groups(Reader *r, Message groups)
{
    ReplicaGroups *g = ARENA_NEW(r->a, ReplicaGroups);
    g->form = GROUPS_MESH;
    g->mesh = read_mesh(r, message_part(r, groups, 1));
    if (g->mesh == NULL || !read_axis_refs(r, groups, 2, g->mesh, &g->axes))
        return NULL;
    return g;
}

/* -- writing ----------------------------------------------------------------------------- */

static Text make(Arena *a)
{
    Text t;
    text_init(&t, a);
    return t;
}

static void put_mesh(Text *t, uint32_t field, const Mesh *mesh)
{
    Text m = make(t->arena);
    for (uint32_t i = 0; i < mesh->axis_count; i++) {
        Text axis = make(t->arena);
        wire_string(&axis, 1, mesh->axes[i].name);
        wire_int(&axis, 2, mesh->axes[i].size);
        wire_message(&m, 1, &axis);
    }
    if (mesh->is_maximal)
        wire_ints(&m, 2, &mesh->device, 1);
    else
        wire_ints(&m, 2, mesh->devices.data, mesh->devices.count);
    if (mesh->iota.rank != 0) {
        Text iota = make(t->arena);
        wire_ints(&iota, 1, mesh->iota.dims, mesh->iota.rank);
        wire_ints(&iota, 2, mesh->iota.order, mesh->iota.rank);
        wire_message(&m, 3, &iota);
    }
    wire_message(t, field, &m);
}

static void put_axis_ref(Text *t, uint32_t field, AxisRef ref)
{
    Text m = make(t->arena);
    wire_int(&m, 1, ref.axis);
    if (ref.size != 0) {
        Text part = make(t->arena);
        wire_int(&part, 1, ref.pre);
        wire_int(&part, 2, ref.size);
        wire_message(&m, 2, &part);
    }
    wire_message(t, field, &m);
}

/* `whole`: all axes of the mesh. */
static void put_axis_refs(Text *t, uint32_t field, const Mesh *mesh, AxisRefs refs,
                          bool whole)
{
    for (uint32_t i = 0; whole && i < mesh->axis_count; i++)
        put_axis_ref(t, field, (AxisRef){.axis = i});
    for (uint32_t i = 0; !whole && i < refs.count; i++)
        put_axis_ref(t, field, refs.data[i]);
}

void proto_put_named_sharding(Text *t, uint32_t field, const Sharding *s)
{
    Text m = make(t->arena);
    put_mesh(&m, NAMED_MESH, s->mesh);
    for (uint32_t i = 0; i < s->dim_count; i++) {
        Text dim = make(t->arena);
        put_axis_refs(&dim, 1, s->mesh, s->dim_shardings[i].axes, false);
        wire_flag(&dim, 2, !s->dim_shardings[i].is_open);
        wire_message(&m, NAMED_DIM, &dim);
    }
    put_axis_refs(&m, NAMED_REPLICATED, s->mesh, s->replicated, false);
    put_axis_refs(&m, NAMED_UNREDUCED, s->mesh, s->unreduced, s->whole_unreduced);
    put_axis_refs(&m, NAMED_MANUAL, s->mesh, s->manual, s->whole_manual);
    wire_int(&m, NAMED_FORM,
             (s->has_dims ? FORM_DIMS : 0) | (s->whole_replicated ? FORM_REPLICATED : 0) |
                 (s->whole_manual ? FORM_MANUAL : 0) |
                 (s->whole_unreduced ? FORM_UNREDUCED : 0));
    if (s->reduction != REDUCTION_NONE)
        wire_int(&m, NAMED_REDUCTION, s->reduction);
    wire_message(t, field, &m);
}

void proto_put_mesh_groups(Text *t, uint32_t field, const ReplicaGroups *g)
{
    Text m = make(t->arena);
    put_mesh(&m, 1, g->mesh);
    put_axis_refs(&m, 2, g->mesh, g->axes, false);
    wire_message(t, field, &m);
}
