/* Shardings. See sharding.h. */
#include "ir/attribute/sharding.h"

#include <stdlib.h>
#include <string.h>

#include "ir/print/value.h"

/* -- equality ------------------------------------------------------------------------ */

static bool longs_equal(const int64_t *a, const int64_t *b, uint32_t n)
{
    return n == 0 || memcmp(a, b, n * sizeof *a) == 0;
}

/* An iota may stand for a list. */
static bool devices_equal(const Sharding *a, const Sharding *b)
{
    if ((a->iota.rank != 0) == (b->iota.rank != 0))
        return iota_equal(a->iota, b->iota) && a->devices.count == b->devices.count &&
               longs_equal(a->devices.data, b->devices.data, a->devices.count);
    Iota iota = a->iota.rank != 0 ? a->iota : b->iota;
    Ints list = a->iota.rank != 0 ? b->devices : a->devices;
    if (iota_count(iota) != list.count)
        return false;
    Arena *scratch = arena_create();
    bool same = longs_equal(iota_expand(scratch, iota), list.data, list.count);
    arena_destroy(scratch);
    return same;
}

static bool tiled_equal(const Sharding *a, const Sharding *b)
{
    return a->rank == b->rank && longs_equal(a->dims, b->dims, a->rank) &&
           devices_equal(a, b) && a->replicate_last == b->replicate_last &&
           a->subgroup_count == b->subgroup_count &&
           (a->subgroup_count == 0 ||
            memcmp(a->subgroups, b->subgroups,
                   a->subgroup_count * sizeof *a->subgroups) == 0);
}

static bool named_equal(const Sharding *a, const Sharding *b)
{
    if (!mesh_equal(a->mesh, b->mesh) || a->has_dims != b->has_dims ||
        a->whole_replicated != b->whole_replicated ||
        a->whole_manual != b->whole_manual || a->whole_unreduced != b->whole_unreduced ||
        a->dim_count != b->dim_count || a->reduction != b->reduction ||
        !axis_refs_equal(a->replicated, b->replicated) ||
        !axis_refs_equal(a->unreduced, b->unreduced) ||
        !axis_refs_equal(a->manual, b->manual))
        return false;
    for (uint32_t i = 0; i < a->dim_count; i++) {
        if (a->dim_shardings[i].is_open != b->dim_shardings[i].is_open ||
            !axis_refs_equal(a->dim_shardings[i].axes, b->dim_shardings[i].axes))
            return false;
    }
    return true;
}

bool sharding_equal(const Sharding *a, const Sharding *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind || a->shard_as != b->shard_as ||
        a->shard_like != b->shard_like)
        return false;
    if (a->kind == SHARDING_MAXIMAL)
        return a->device == b->device;
    if (a->kind == SHARDING_TILED)
        return tiled_equal(a, b);
    if (a->kind == SHARDING_NAMED)
        return named_equal(a, b);
    if (a->kind != SHARDING_TUPLE)
        return true;
    if (a->element_count != b->element_count)
        return false;
    for (uint32_t i = 0; i < a->element_count; i++) {
        if (!sharding_equal(a->elements[i], b->elements[i]))
            return false;
    }
    return true;
}

/* -- normal forms -------------------------------------------------------------------- */

/* of the tiling or mesh; 0 = any */
static int64_t sharding_device_count(const Sharding *s)
{
    if (s->kind == SHARDING_NAMED)
        return s->mesh->is_maximal ? 1 : mesh_device_count(s->mesh);
    if (s->kind != SHARDING_TILED)
        return 0;
    return s->iota.rank != 0 ? iota_count(s->iota) : s->devices.count;
}

const Sharding *sharding_for_leaves(Arena *a, const Sharding *s, size_t leaves)
{
    if (s->kind == SHARDING_TUPLE)
        return s;
    const Sharding **elements = ARENA_ARRAY(a, const Sharding *, leaves);
    for (size_t i = 0; i < leaves; i++)
        elements[i] = s;
    Sharding *tuple = ARENA_NEW(a, Sharding);
    *tuple = (Sharding){.kind = SHARDING_TUPLE,
                        .shard_as = -1,
                        .shard_like = -1,
                        .element_count = (uint32_t)leaves,
                        .elements = elements};
    return tuple;
}

static int compare_longs(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* The device list, made explicit, with the tiling's dimensions in another order. */
static void transpose_devices(Arena *a, Sharding *s, const uint32_t *order)
{
    int64_t count = sharding_device_count(s);
    const int64_t *from = s->iota.rank != 0 ? iota_expand(a, s->iota) : s->devices.data;
    int64_t *to = ARENA_ARRAY(a, int64_t, (size_t)count);
    int64_t *stride = ARENA_ARRAY(a, int64_t, s->rank + 1u);
    int64_t *index = ARENA_ARRAY(a, int64_t, s->rank + 1u);
    int64_t *dims = ARENA_ARRAY(a, int64_t, s->rank + 1u);
    for (uint32_t i = 0; i < s->rank; i++) {
        dims[i] = s->dims[order[i]];
        stride[i] = 1;
        for (uint32_t d = order[i] + 1; d < s->rank; d++)
            stride[i] *= s->dims[d];
    }
    int64_t at = 0;
    for (int64_t n = 0; n < count; n++) {
        to[n] = from[at];
        for (uint32_t i = s->rank; i-- > 0;) {
            at += stride[i];
            if (++index[i] < dims[i])
                break;
            at -= index[i] * stride[i];
            index[i] = 0;
        }
    }
    s->dims = dims;
    s->iota = (Iota){0};
    s->devices = (Ints){to, (uint32_t)count};
}

/* A factor of a dimension of an iota, and the dimension of the tiling that it is in. */
typedef struct IotaPart {
    uint32_t dim, tile;
    int64_t size;
} IotaPart;

/* The factors, in the order of the device list: how many; -1: some dimension of the tiling is no product of them. */
static int64_t iota_parts(const Sharding *s, IotaPart *parts)
{
    int64_t have = 1, want = 1, count = 0;
    uint32_t dim = 0, tile = 0;
    for (;;) {
        while (have == 1 && dim < s->iota.rank)
            have = s->iota.dims[s->iota.order[dim++]];
        while (want == 1 && tile < s->rank)
            want = s->dims[tile++];
        if (have == 1 || want == 1)
            return count;
        int64_t size = have < want ? have : want;
        if (have % size != 0 || want % size != 0)
            return -1;
        parts[count++] = (IotaPart){(uint32_t)s->iota.order[dim - 1], tile - 1, size};
        have /= size;
        want /= size;
    }
}

/* The iota with the tiling's dimensions in another order, of which the last `replicas` hold the same part: their
 * devices ascend. False: that is no iota. */
static bool transpose_iota(Arena *a, Sharding *s, const uint32_t *order,
                           uint32_t replicas)
{
    size_t most = (size_t)s->iota.rank + s->rank + 1;
    IotaPart *parts = ARENA_ARRAY(a, IotaPart, most);
    uint32_t *number = ARENA_ARRAY(a, uint32_t, most);
    int64_t *sizes = ARENA_ARRAY(a, int64_t, most), *to = ARENA_ARRAY(a, int64_t, most);
    int64_t count = iota_parts(s, parts);
    uint32_t at = 0, first = 0;
    if (count < 0)
        return false;
    for (uint32_t d = 0; d < s->iota.rank; d++)
        for (int64_t k = 0; k < count; k++)
            if (parts[k].dim == d) {
                sizes[at] = parts[k].size;
                number[k] = at++;
            }
    at = 0;
    for (uint32_t i = 0; i < s->rank; i++) {
        if (i + replicas <= s->rank)
            first = at;
        for (int64_t k = 0; k < count; k++)
            if (parts[k].tile == order[i])
                to[at++] = number[k];
    }
    if (replicas > 0)
        qsort(to + first, at - first, sizeof *to, compare_longs);
    s->iota = iota_canonical(a, (Iota){(uint32_t)count, sizes, to});
    return true;
}

/* Brings the subgroups into the order of their kinds, one dimension per kind, none of size 1. */
static void merge_subgroups(Arena *a, Sharding *s)
{
    uint32_t first = s->rank - s->subgroup_count, n = s->subgroup_count;
    uint32_t *order = ARENA_ARRAY(a, uint32_t, s->rank), replicas = 0, last = 0;
    int64_t *sizes = ARENA_ARRAY(a, int64_t, s->rank + 1u);
    bool moves = false; /* a dimension of more than one device */
    for (uint32_t i = 0; i < s->rank; i++)
        order[i] = i;
    for (uint32_t i = 1; i < n; i++) { /* stable insertion by kind */
        uint32_t moved = order[first + i], k = i;
        for (; k > 0 &&
               s->subgroups[order[first + k - 1] - first] > s->subgroups[moved - first];
             k--)
            order[first + k] = order[first + k - 1];
        order[first + k] = moved;
    }
    for (uint32_t i = 0; i < s->rank; i++) {
        sizes[i] = s->dims[order[i]];
        moves = moves || (sizes[i] != 1 && order[i] < last);
        last = sizes[i] != 1 ? order[i] : last;
    }
    while (replicas < n &&
           s->subgroups[order[s->rank - 1 - replicas] - first] == SUBGROUP_REPLICATED)
        replicas++;
    if ((moves || (replicas > 0 && s->iota.rank != 0)) &&
        (s->iota.rank == 0 || !transpose_iota(a, s, order, replicas)))
        transpose_devices(a, s, order);
    s->dims = sizes;
    int64_t *dims = arena_copy(a, s->dims, s->rank * sizeof *dims);
    Subgroup *kinds = ARENA_ARRAY(a, Subgroup, n);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        Subgroup kind = s->subgroups[order[first + i] - first];
        if (kept != 0 && kinds[kept - 1] == kind) {
            dims[first + kept - 1] *= s->dims[first + i];
        } else if (s->dims[first + i] != 1) {
            kinds[kept] = kind;
            dims[first + kept++] = s->dims[first + i];
        }
    }
    s->dims = dims;
    s->rank = first + kept;
    s->subgroups = kinds;
    s->subgroup_count = kept;
}

/* The devices that hold the same part, in ascending order. */
static void sort_replicas(Arena *a, Sharding *s)
{
    int64_t group = s->dims[s->rank - 1];
    if (s->iota.rank != 0 || group <= 0)
        return;
    int64_t *devices = arena_copy(a, s->devices.data, s->devices.count * sizeof *devices);
    for (uint32_t i = 0; i + group <= s->devices.count; i += (uint32_t)group)
        qsort(devices + i, (size_t)group, sizeof *devices, compare_longs);
    s->devices.data = devices;
}

const Sharding *sharding_normal(Arena *a, Sharding *s)
{
    if (s->kind != SHARDING_TILED)
        return s;
    if (s->iota.rank != 0)
        s->iota = iota_canonical(a, s->iota);
    bool had_subgroups = s->replicate_last || s->subgroup_count != 0;
    if (s->replicate_last) {
        Subgroup *kind = ARENA_NEW(a, Subgroup);
        *kind = SUBGROUP_REPLICATED;
        s->subgroups = kind;
        s->subgroup_count = 1;
        s->replicate_last = false;
    }
    if (!had_subgroups || s->rank < s->subgroup_count)
        return s;
    merge_subgroups(a, s);
    int64_t tiles = 1;
    for (uint32_t i = 0; i < s->rank - s->subgroup_count; i++)
        tiles *= s->dims[i];
    if (tiles == 1 && s->subgroup_count == 1) {
        static const ShardingKind whole[] = {[SUBGROUP_MANUAL] = SHARDING_MANUAL,
                                             [SUBGROUP_UNREDUCED] = SHARDING_UNREDUCED,
                                             [SUBGROUP_REPLICATED] = SHARDING_REPLICATED,
                                             [SUBGROUP_MAXIMAL] = SHARDING_TILED};
        s->kind = whole[s->subgroups[0]];
        if (s->kind != SHARDING_TILED)
            return s;
    }
    if (s->subgroup_count > 0 &&
        s->subgroups[s->subgroup_count - 1] == SUBGROUP_REPLICATED)
        sort_replicas(a, s);
    if (s->subgroup_count == 1 && s->subgroups[0] == SUBGROUP_REPLICATED) {
        s->replicate_last = true;
        s->subgroup_count = 0;
    }
    return s;
}

/* -- printing ------------------------------------------------------------------------ */

static void print_sharding_metadata(Text *t, const Sharding *s, const char *before)
{
    if (s->metadata_count == 0)
        return;
    bool is_list = s->metadata_count > 1 || s->kind == SHARDING_NAMED;
    text_string(t, before);
    text_string(t, is_list ? "metadata={" : "metadata=");
    for (uint32_t i = 0; i < s->metadata_count; i++) {
        text_string(t, i == 0 ? "{" : ", {");
        metadata_print(t, s->metadata[i]);
        text_char(t, '}');
    }
    if (is_list)
        text_char(t, '}');
}

static void print_list(Text *t, const int64_t *data, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (i != 0)
            text_char(t, ',');
        text_int(t, data[i]);
    }
}

static void print_tiled(Text *t, const Sharding *s)
{
    static const char *const names[] = {[SUBGROUP_MANUAL] = "manual",
                                        [SUBGROUP_UNREDUCED] = "unreduced",
                                        [SUBGROUP_REPLICATED] = "replicated",
                                        [SUBGROUP_MAXIMAL] = "maximal"};
    text_string(t, "devices=[");
    print_list(t, s->dims, s->rank);
    text_char(t, ']');
    if (s->iota.rank != 0) {
        text_string(t, "<=");
        iota_print(t, s->iota);
    } else {
        print_list(t, s->devices.data, s->devices.count);
    }
    if (s->replicate_last)
        text_string(t, " last_tile_dim_replicate");
    if (s->subgroup_count != 0) {
        text_string(t, " last_tile_dims={");
        for (uint32_t i = 0; i < s->subgroup_count; i++) {
            text_string(t, i == 0 ? "" : ", ");
            text_string(t, names[s->subgroups[i]]);
        }
        text_char(t, '}');
    }
}

static void print_axes(Text *t, const Sharding *s, const char *name, AxisRefs axes)
{
    if (axes.count == 0)
        return;
    text_string(t, name);
    text_char(t, '{');
    axis_refs_print(t, s->mesh, axes, ", ");
    text_char(t, '}');
}

static const char *const reduction_names[] = {[REDUCTION_NONE] = "",
                                              [REDUCTION_SUM] = "sum",
                                              [REDUCTION_MAX] = "max",
                                              [REDUCTION_MIN] = "min"};

static void print_named(Text *t, const Sharding *s)
{
    mesh_print(t, s->mesh);
    if (s->whole_replicated)
        text_string(t, ", replicated");
    if (s->whole_manual)
        text_string(t, ", manual");
    if (s->whole_unreduced) {
        text_string(t, ", unreduced");
        text_string(t, s->reduction != REDUCTION_NONE ? "=" : "");
        text_string(t, reduction_names[s->reduction]);
    }
    if (s->has_dims) {
        text_string(t, ", [");
        for (uint32_t i = 0; i < s->dim_count; i++) {
            const DimSharding *dim = &s->dim_shardings[i];
            text_string(t, i == 0 ? "{" : ", {");
            axis_refs_print(t, s->mesh, dim->axes, ", ");
            if (dim->is_open)
                text_string(t, dim->axes.count != 0 ? ", ?" : "?");
            text_char(t, '}');
        }
        text_char(t, ']');
    }
    print_axes(t, s, ", replicated=", s->replicated);
    if (s->unreduced.count != 0) {
        text_string(t, ", unreduced=");
        print_axes(t, s, reduction_names[s->reduction], s->unreduced);
    }
    print_axes(t, s, ", manual=", s->manual);
}

static void print_single(Text *t, const Sharding *s, bool metadata)
{
    switch (s->kind) {
    case SHARDING_REPLICATED:
        text_string(t, "replicated");
        break;
    case SHARDING_MANUAL:
        text_string(t, "manual");
        break;
    case SHARDING_UNKNOWN:
        text_string(t, "unknown");
        break;
    case SHARDING_UNREDUCED:
        text_string(t, "unreduced");
        break;
    case SHARDING_MAXIMAL:
        text_string(t, "maximal device=");
        text_int(t, s->device);
        break;
    case SHARDING_TILED:
        print_tiled(t, s);
        break;
    case SHARDING_NAMED:
        print_named(t, s);
        break;
    case SHARDING_TUPLE:
        break;
    }
    if (s->shard_as >= 0)
        text_printf(t, " shard_as %lld", (long long)s->shard_as);
    if (s->shard_like >= 0)
        text_printf(t, " shard_like %lld", (long long)s->shard_like);
    if (metadata)
        print_sharding_metadata(t, s, s->kind == SHARDING_NAMED ? ", " : " ");
}

void sharding_print(Text *t, const Sharding *s, bool metadata)
{
    text_char(t, '{');
    if (s->kind != SHARDING_TUPLE) {
        print_single(t, s, metadata);
    } else {
        for (uint32_t i = 0; i < s->element_count; i++) {
            if (i != 0)
                text_string(t, ", ");
            if (i != 0 && i % 5 == 0)
                text_printf(t, "/*index=%u*/", i);
            sharding_print(t, s->elements[i], metadata);
        }
    }
    text_char(t, '}');
}
