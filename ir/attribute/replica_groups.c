/* Replica groups, iota lists and meshes. See replica_groups.h. */
#include "ir/attribute/replica_groups.h"

#include <string.h>

#include "ir/print/value.h"

/* -- iota ---------------------------------------------------------------------------- */

int64_t iota_count(Iota iota)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < iota.rank; i++)
        count *= iota.dims[i];
    return count;
}

bool iota_equal(Iota a, Iota b)
{
    return a.rank == b.rank &&
           (a.rank == 0 || (memcmp(a.dims, b.dims, a.rank * sizeof *a.dims) == 0 &&
                            memcmp(a.order, b.order, a.rank * sizeof *a.order) == 0));
}

Iota iota_canonical(Arena *a, Iota iota)
{
    uint32_t n = iota.rank;
    int64_t *dims = ARENA_ARRAY(a, int64_t, n + 1u);
    int64_t *order = ARENA_ARRAY(a, int64_t, n + 1u);
    int64_t *merged =
        ARENA_ARRAY(a, int64_t, n + 1u);        /* new number of a dimension, or -1 */
    bool *joins = ARENA_ARRAY(a, bool, n + 1u); /* dimension d continues the one before */
    int64_t before = -2;
    for (uint32_t i = 0; i < n;
         i++) { /* before: the last dimension in the order, 1s skipped */
        int64_t d = iota.order[i];
        if (iota.dims[d] == 1)
            continue;
        int64_t next = before + 1;
        while (before >= 0 && next < d && iota.dims[next] == 1)
            next++;
        joins[d] = before >= 0 && next == d;
        before = d;
    }
    uint32_t rank = 0;
    for (uint32_t d = 0; d < n; d++) {
        merged[d] = -1;
        if (iota.dims[d] == 1)
            continue;
        if (joins[d]) {
            dims[rank - 1] *= iota.dims[d];
        } else {
            merged[d] = rank;
            dims[rank++] = iota.dims[d];
        }
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (merged[iota.order[i]] >= 0)
            order[at++] = merged[iota.order[i]];
    }
    if (rank == 0)
        dims[rank++] = 1;
    return (Iota){rank, dims, order};
}

void iota_print(Text *t, Iota iota)
{
    text_char(t, '[');
    for (uint32_t i = 0; i < iota.rank; i++) {
        if (i != 0)
            text_char(t, ',');
        text_int(t, iota.dims[i]);
    }
    text_char(t, ']');
    if (iota.rank < 2)
        return;
    text_string(t, "T(");
    for (uint32_t i = 0; i < iota.rank; i++) {
        if (i != 0)
            text_char(t, ',');
        text_int(t, iota.order[i]);
    }
    text_char(t, ')');
}

int64_t *iota_expand(Arena *a, Iota iota)
{
    int64_t count = iota_count(iota);
    int64_t *out = ARENA_ARRAY(a, int64_t, (size_t)count);
    int64_t *stride =
        ARENA_ARRAY(a, int64_t, iota.rank + 1u); /* of each transposed dimension */
    int64_t *index = ARENA_ARRAY(a, int64_t, iota.rank + 1u);
    for (uint32_t i = 0; i < iota.rank; i++) {
        stride[i] = 1;
        for (uint32_t d = (uint32_t)iota.order[i] + 1; d < iota.rank; d++)
            stride[i] *= iota.dims[d];
    }
    int64_t value = 0;
    for (int64_t n = 0; n < count; n++) {
        out[n] = value;
        for (uint32_t i = iota.rank; i-- > 0;) {
            value += stride[i];
            if (++index[i] < iota.dims[iota.order[i]])
                break;
            value -= index[i] * stride[i];
            index[i] = 0;
        }
    }
    return out;
}

/* -- meshes -------------------------------------------------------------------------- */

bool mesh_equal(const Mesh *a, const Mesh *b)
{
    if (a->is_maximal != b->is_maximal || a->device != b->device ||
        a->axis_count != b->axis_count || !ints_equal(a->devices, b->devices) ||
        !iota_equal(a->iota, b->iota))
        return false;
    for (uint32_t i = 0; i < a->axis_count; i++) {
        if (a->axes[i].size != b->axes[i].size ||
            strcmp(a->axes[i].name, b->axes[i].name) != 0)
            return false;
    }
    return true;
}

int64_t mesh_device_count(const Mesh *mesh)
{
    int64_t count = 1;
    for (uint32_t i = 0; i < mesh->axis_count; i++)
        count *= mesh->axes[i].size;
    return count;
}

static void print_axis(Text *t, const MeshAxis *axis)
{
    if (strpbrk(axis->name, "'\\\n\r") == NULL)
        text_printf(t, "'%s'", axis->name);
    else /* as other texts, which a reader takes here, too */
        escaped_print(t, (Bytes){axis->name, strlen(axis->name)});
}

void mesh_print(Text *t, const Mesh *mesh)
{
    if (mesh->is_maximal) {
        text_printf(t, "maximal_mesh[device_id=%lld]", (long long)mesh->device);
        return;
    }
    text_string(t, "mesh[");
    for (uint32_t i = 0; i < mesh->axis_count; i++) {
        text_string(t, i == 0 ? "" : ",");
        print_axis(t, &mesh->axes[i]);
        text_printf(t, "=%lld", (long long)mesh->axes[i].size);
    }
    text_char(t, ']');
    if (mesh->devices.count != 0) {
        text_string(t, ", device_ids=(");
        for (uint32_t i = 0; i < mesh->devices.count; i++) {
            if (i != 0)
                text_char(t, ',');
            text_int(t, mesh->devices.data[i]);
        }
        text_char(t, ')');
    } else if (mesh->iota.rank != 0) {
        text_string(t, ", device_ids=(");
        iota_print(t, mesh->iota);
        text_char(t, ')');
    }
}

void axis_refs_print(Text *t, const Mesh *mesh, AxisRefs refs, const char *separator)
{
    for (uint32_t i = 0; i < refs.count; i++) {
        const AxisRef *r = &refs.data[i];
        text_string(t, i == 0 ? "" : separator);
        print_axis(t, &mesh->axes[r->axis]);
        if (r->size != 0)
            text_printf(t, ":(%lld)%lld", (long long)r->pre, (long long)r->size);
    }
}

bool axis_refs_equal(AxisRefs a, AxisRefs b)
{
    if (a.count != b.count)
        return false;
    for (uint32_t i = 0; i < a.count; i++) {
        if (a.data[i].axis != b.data[i].axis || a.data[i].pre != b.data[i].pre ||
            a.data[i].size != b.data[i].size)
            return false;
    }
    return true;
}

/* Parts of more than one device that do not meet are few: their sizes multiply up to the mesh's. */
bool axis_refs_apart(const Mesh *mesh, AxisRefs refs)
{
    enum { PARTS_MOST = 64 };
    AxisRef parts[PARTS_MOST]; /* size: where the part ends */
    uint32_t count = 0;
    for (uint32_t i = 0; i < refs.count; i++) {
        AxisRef r = refs.data[i];
        if (r.size == 0)
            r = (AxisRef){r.axis, 1, mesh->axes[r.axis].size};
        if (r.size == 1)
            continue;
        r.size *= r.pre;
        for (uint32_t k = 0; k < count; k++) {
            const AxisRef *p = &parts[k];
            if (p->axis == r.axis && !(p->size <= r.pre && r.pre % p->size == 0) &&
                !(r.size <= p->pre && p->pre % r.size == 0))
                return false;
        }
        if (count == PARTS_MOST)
            return false;
        parts[count++] = r;
    }
    return true;
}

/* -- groups -------------------------------------------------------------------------- */

int64_t replica_groups_count(const ReplicaGroups *g)
{
    switch (g->form) {
    case GROUPS_LISTS:
        return g->lists.count;
    case GROUPS_IOTA:
        return g->count;
    case GROUPS_MESH:
        break;
    }
    int64_t size = 1;
    for (uint32_t i = 0; i < g->axes.count; i++) {
        const AxisRef *r = &g->axes.data[i];
        size *= r->size != 0 ? r->size : g->mesh->axes[r->axis].size;
    }
    return size == 0 ? 0 : mesh_device_count(g->mesh) / size;
}

static IntLists equal_lists(Arena *a, const int64_t *data, int64_t count, int64_t size)
{
    Ints *lists = ARENA_ARRAY(a, Ints, (size_t)count);
    for (int64_t i = 0; i < count; i++)
        lists[i] = (Ints){data + i * size, (uint32_t)size};
    return (IntLists){lists, (uint32_t)count};
}

/* The stride, in the row-major order of the mesh, of the part of an axis, and its size. */
static void axis_part(const Mesh *mesh, const AxisRef *r, int64_t *stride, int64_t *size)
{
    const MeshAxis *axis = &mesh->axes[r->axis];
    *stride = 1;
    for (uint32_t i = r->axis + 1; i < mesh->axis_count; i++)
        *stride *= mesh->axes[i].size;
    *size = axis->size;
    if (r->size != 0) {
        *stride *= axis->size / (r->pre * r->size);
        *size = r->size;
    }
}

static IntLists mesh_lists(Arena *a, const ReplicaGroups *g)
{
    const Mesh *mesh = g->mesh;
    int64_t all = mesh_device_count(mesh), count = replica_groups_count(g);
    int64_t size = count == 0 ? 0 : all / count;
    const int64_t *ids = mesh->devices.count != 0 ? mesh->devices.data
                         : mesh->iota.rank != 0   ? iota_expand(a, mesh->iota)
                                                  : NULL;
    int64_t *data = ARENA_ARRAY(a, int64_t, (size_t)all);
    int64_t *group_of =
        ARENA_ARRAY(a, int64_t, (size_t)all); /* of a group's first device */
    int64_t groups = 0;
    int64_t *stride = ARENA_ARRAY(a, int64_t, g->axes.count + 1u);
    int64_t *part = ARENA_ARRAY(a, int64_t, g->axes.count + 1u);
    uint32_t parts = 0; /* of more than one device */
    for (uint32_t i = 0; i < g->axes.count; i++) {
        const AxisRef *r = &g->axes.data[i];
        if ((r->size != 0 ? r->size : mesh->axes[r->axis].size) == 1)
            continue;
        axis_part(mesh, r, &stride[parts], &part[parts]);
        parts++;
    }
    for (int64_t d = 0; d < all; d++) {
        int64_t first = d, at = 0;
        for (uint32_t i = 0; i < parts; i++) {
            int64_t digit = d / stride[i] % part[i];
            first -= digit * stride[i];
            at = at * part[i] + digit;
        }
        if (first == d)
            group_of[d] = groups++;
        data[group_of[first] * size + at] = ids != NULL ? ids[d] : d;
    }
    return equal_lists(a, data, count, size);
}

IntLists replica_groups_lists(Arena *a, const ReplicaGroups *g)
{
    switch (g->form) {
    case GROUPS_LISTS:
        return g->lists;
    case GROUPS_IOTA:
        return equal_lists(a, iota_expand(a, g->iota), g->count, g->size);
    case GROUPS_MESH:
        break;
    }
    if (!g->mesh->is_maximal)
        return mesh_lists(a, g);
    int64_t *device = ARENA_NEW(a, int64_t);
    *device = g->mesh->device;
    return equal_lists(a, device, 1, 1);
}

bool replica_groups_equal(const ReplicaGroups *a, const ReplicaGroups *b)
{
    if (a == b)
        return true;
    if (a->form != b->form)
        return false;
    switch (a->form) {
    case GROUPS_LISTS:
        if (a->lists.count != b->lists.count)
            return false;
        for (uint32_t i = 0; i < a->lists.count; i++) {
            if (!ints_equal(a->lists.data[i], b->lists.data[i]))
                return false;
        }
        return true;
    case GROUPS_IOTA:
        return a->count == b->count && a->size == b->size && iota_equal(a->iota, b->iota);
    case GROUPS_MESH:
        break;
    }
    return mesh_equal(a->mesh, b->mesh) && axis_refs_equal(a->axes, b->axes);
}

static void print_lists(Text *t, IntLists lists)
{
    text_char(t, '{');
    for (uint32_t i = 0; i < lists.count; i++) {
        text_string(t, i == 0 ? "{" : ",{");
        for (uint32_t k = 0; k < lists.data[i].count; k++) {
            if (k != 0)
                text_char(t, ',');
            text_int(t, lists.data[i].data[k]);
        }
        text_char(t, '}');
    }
    text_char(t, '}');
}

void replica_groups_print(Text *t, const ReplicaGroups *g)
{
    switch (g->form) {
    case GROUPS_LISTS:
        print_lists(t, g->lists);
        return;
    case GROUPS_IOTA:
        text_printf(t, "[%lld,%lld]<=", (long long)g->count, (long long)g->size);
        iota_print(t, g->iota);
        return;
    case GROUPS_MESH:
        break;
    }
    mesh_print(t, g->mesh);
    text_string(t, " {");
    axis_refs_print(t, g->mesh, g->axes, ",");
    text_char(t, '}');
}
