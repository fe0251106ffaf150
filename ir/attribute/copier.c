/* See copier.h. Two tables: objects by their address, plain data by its content. */
#include "ir/attribute/copier.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "ir/attribute/config.h"
#include "ir/attribute/origin.h"
#include "ir/attribute/sharding.h"
#include "ir/base/bug.h"

static CopierSlot *table_slot(CopierSlot *slots, size_t capacity, uint64_t key,
                              size_t bytes, const void *content)
{
    uint64_t h = key * UINT64_C(0x9e3779b97f4a7c15);
    size_t at = (h ^ (h >> 29)) & (capacity - 1);
    for (;; at = (at + 1) & (capacity - 1)) {
        CopierSlot *s = &slots[at];
        if (s->copy == NULL ||
            (s->key == key && s->bytes == bytes &&
             (content == NULL || memcmp(s->copy, content, bytes) == 0)))
            return s;
    }
}

/* The slot for it; if its copy is NULL, the caller sets one. content NULL: the key is enough. */
static CopierSlot *table_find(Copier *c, CopierTable *t, uint64_t key, size_t bytes,
                              const void *content)
{
    if (t->count * 2 >= t->capacity) {
        size_t capacity = t->capacity == 0 ? 64 : t->capacity * 2;
        CopierSlot *slots = ARENA_ARRAY(c->scratch, CopierSlot, capacity);
        for (size_t i = 0; i < t->capacity; i++) {
            const CopierSlot *s = &t->slots[i];
            if (s->copy != NULL)
                *table_slot(slots, capacity, s->key, s->bytes, s->copy) = *s;
        }
        arena_drop(c->scratch, t->slots, t->capacity * sizeof *t->slots);
        t->slots = slots;
        t->capacity = capacity;
    }
    CopierSlot *s = table_slot(t->slots, t->capacity, key, bytes, content);
    if (s->copy == NULL) {
        s->key = key;
        s->bytes = bytes;
        t->count++;
    }
    return s;
}

/* The copy of an object, as it is; *is_new: what it points to must be copied, too. */
static void *copy_object(Copier *c, const void *p, size_t bytes, bool *is_new)
{
    *is_new = false;
    if (p == NULL)
        return NULL;
    CopierSlot *s = table_find(c, &c->objects, (uintptr_t)p, bytes, NULL);
    *is_new = s->copy == NULL;
    if (*is_new)
        s->copy = arena_copy(c->to, p, bytes);
    return (void *)(uintptr_t)s->copy;
}

const void *copy_array(Copier *c, const void *data, size_t count, size_t size)
{
    static const uint64_t nothing[2];
    size_t bytes = count * size;
    if (data == NULL || bytes == 0)
        return data == NULL ? NULL : nothing;
    CopierSlot *s = table_find(c, &c->contents, XXH3_64bits(data, bytes), bytes, data);
    if (s->copy == NULL)
        s->copy = arena_copy(c->to, data, bytes);
    return s->copy;
}

#define COPY_ARRAY(c, data, count) copy_array(c, data, count, sizeof *(data))

Ints copy_ints(Copier *c, Ints ints)
{
    return (Ints){COPY_ARRAY(c, ints.data, ints.count), ints.count};
}

Bytes copy_bytes(Copier *c, Bytes bytes)
{
    return (Bytes){COPY_ARRAY(c, bytes.data, bytes.length + 1), bytes.length};
}

const char *copy_text(Copier *c, const char *text)
{
    return text == NULL ? NULL : copy_array(c, text, strlen(text) + 1, 1);
}

/* -- shapes and literals ------------------------------------------------------------------ */

const Shape *copy_shape(Copier *c, const Shape *s)
{
    if (s == NULL)
        return NULL;
    CopierSlot *slot = table_find(c, &c->objects, (uintptr_t)s, sizeof *s, NULL);
    if (slot->copy != NULL)
        return slot->copy;
    Shape key = *s;
    if (s->layout != NULL)
        key.layout = intern_layout(c->intern, s->layout);
    slot->copy = s; /* no other shape takes the slot meanwhile */
    if (s->elements != NULL) {
        const Shape **elements = ARENA_ARRAY(c->scratch, const Shape *, s->rank);
        for (uint32_t i = 0; i < s->rank; i++)
            elements[i] = copy_shape(c, s->elements[i]);
        key.elements = elements;
    }
    const Shape *copy = intern_shape(c->intern, &key);
    table_find(c, &c->objects, (uintptr_t)s, sizeof *s, NULL)->copy = copy;
    return copy;
}

static void *copy_elements(Copier *c, const void *data, size_t bytes)
{
    CopierSlot *s = table_find(c, &c->objects, (uintptr_t)data, bytes, NULL);
    if (s->copy == NULL && arena_hand_over(c->from, c->to, data, bytes))
        s->copy = data;
    else if (s->copy == NULL)
        s->copy = arena_copy(c->to, data, bytes);
    return (void *)(uintptr_t)s->copy;
}

static Literal *copy_literal_tree(Copier *c, const Literal *l)
{
    bool is_new;
    Literal *copy = copy_object(c, l, sizeof *l, &is_new);
    if (!is_new)
        return copy;
    if (l->data != NULL)
        copy->data = copy_elements(c, l->data, literal_bytes(l));
    copy->shape = copy_shape(c, l->shape);
    if (l->elements != NULL) {
        copy->elements = ARENA_ARRAY(c->to, Literal *, l->shape->rank);
        for (uint32_t i = 0; i < l->shape->rank; i++)
            copy->elements[i] = copy_literal_tree(c, l->elements[i]);
    }
    return copy;
}

const Literal *copy_literal(Copier *c, const Literal *l)
{
    return copy_literal_tree(c, l);
}

/* -- values of attributes ------------------------------------------------------------------ */

static IntLists copy_lists(Copier *c, IntLists lists)
{
    bool is_new;
    Ints *copy = copy_object(c, lists.data, lists.count * sizeof *lists.data, &is_new);
    for (uint32_t i = 0; is_new && i < lists.count; i++)
        copy[i] = copy_ints(c, lists.data[i]);
    return (IntLists){copy, lists.count};
}

Shapes copy_shapes(Copier *c, Shapes shapes)
{
    bool is_new;
    const Shape **copy =
        copy_object(c, shapes.data, shapes.count * sizeof *shapes.data, &is_new);
    for (uint32_t i = 0; is_new && i < shapes.count; i++)
        copy[i] = copy_shape(c, shapes.data[i]);
    return (Shapes){copy, shapes.count};
}

static Computations copy_computations(Copier *c, Computations list)
{
    bool is_new;
    Computation **copy =
        copy_object(c, list.data, list.count * sizeof *list.data, &is_new);
    for (uint32_t i = 0; is_new && i < list.count; i++)
        copy[i] = c->computations[list.data[i]->id];
    return (Computations){copy, list.count};
}

static const Window *copy_window(Copier *c, const Window *w)
{
    bool is_new;
    Window *copy = copy_object(c, w, sizeof *w, &is_new);
    if (is_new)
        copy->dims = COPY_ARRAY(c, w->dims, w->rank);
    return copy;
}

static const Padding *copy_padding(Copier *c, const Padding *p)
{
    bool is_new;
    Padding *copy = copy_object(c, p, sizeof *p, &is_new);
    if (is_new)
        copy->dims = COPY_ARRAY(c, p->dims, p->rank);
    return copy;
}

static const SliceSpec *copy_slice(Copier *c, const SliceSpec *s)
{
    bool is_new;
    SliceSpec *copy = copy_object(c, s, sizeof *s, &is_new);
    if (is_new)
        copy->dims = COPY_ARRAY(c, s->dims, s->rank);
    return copy;
}

static const DimLabels *copy_labels(Copier *c, const DimLabels *l)
{
    bool is_new;
    DimLabels *copy = copy_object(c, l, sizeof *l, &is_new);
    if (!is_new)
        return copy;
    copy->lhs_spatial = COPY_ARRAY(c, l->lhs_spatial, l->spatial_rank);
    copy->rhs_spatial = COPY_ARRAY(c, l->rhs_spatial, l->spatial_rank);
    copy->out_spatial = COPY_ARRAY(c, l->out_spatial, l->spatial_rank);
    copy->lhs_text = copy_text(c, l->lhs_text);
    copy->rhs_text = copy_text(c, l->rhs_text);
    copy->out_text = copy_text(c, l->out_text);
    return copy;
}

Aliasing copy_aliasing(Copier *c, Aliasing a)
{
    bool is_new;
    AliasEntry *copy = copy_object(c, a.entries, a.count * sizeof *a.entries, &is_new);
    for (uint32_t i = 0; is_new && i < a.count; i++) {
        copy[i].output = copy_ints(c, copy[i].output);
        copy[i].input = copy_ints(c, copy[i].input);
    }
    return (Aliasing){a.count, copy};
}

static const Aliasing *copy_aliasing_object(Copier *c, const Aliasing *a)
{
    bool is_new;
    Aliasing *copy = copy_object(c, a, sizeof *a, &is_new);
    if (is_new)
        *copy = copy_aliasing(c, *a);
    return copy;
}

static const Metadata *copy_metadata(Copier *c, const Metadata *m)
{
    bool is_new;
    Metadata *copy = copy_object(c, m, sizeof *m, &is_new);
    if (!is_new)
        return copy;
    copy->op_type = copy_bytes(c, m->op_type);
    copy->op_name = copy_bytes(c, m->op_name);
    copy->source_file = copy_bytes(c, m->source_file);
    copy->deduplicated_name = copy_bytes(c, m->deduplicated_name);
    copy->scheduling_name = copy_bytes(c, m->scheduling_name);
    copy->payload = copy_bytes(c, m->payload);
    copy->profile_types = copy_ints(c, m->profile_types);
    return copy;
}

const Dict *copy_dict(Copier *c, const Dict *d)
{
    bool is_new;
    Dict *copy = copy_object(c, d, sizeof *d, &is_new);
    if (!is_new || d->count == 0)
        return copy;
    DictEntry *entries = arena_copy(c->to, d->entries, d->count * sizeof *entries);
    for (uint32_t i = 0; i < d->count; i++) {
        entries[i].key = copy_text(c, d->entries[i].key);
        entries[i].value = copy_bytes(c, d->entries[i].value);
    }
    copy->entries = entries;
    return copy;
}

static const Statistics *copy_statistics(Copier *c, const Statistics *s)
{
    bool is_new;
    Statistics *copy = copy_object(c, s, sizeof *s, &is_new);
    if (!is_new || s->count == 0)
        return copy;
    StatisticEntry *entries = arena_copy(c->to, s->entries, s->count * sizeof *entries);
    for (uint32_t i = 0; i < s->count; i++)
        entries[i].name = copy_text(c, s->entries[i].name);
    copy->entries = entries;
    return copy;
}

static const Origin *copy_origin(Copier *c, const Origin *o)
{
    bool is_new;
    Origin *copy = copy_object(c, o, sizeof *o, &is_new);
    if (!is_new)
        return copy;
    copy->name = copy_bytes(c, o->name);
    copy->index = copy_ints(c, o->index);
    if (o->count == 0)
        return copy;
    const Origin **elements = ARENA_ARRAY(c->to, const Origin *, o->count);
    for (uint32_t i = 0; i < o->count; i++)
        elements[i] = copy_origin(c, o->elements[i]);
    copy->elements = elements;
    return copy;
}

/* -- devices --------------------------------------------------------------------------------- */

static Iota copy_iota(Copier *c, Iota iota)
{
    iota.dims = COPY_ARRAY(c, iota.dims, iota.rank);
    iota.order = COPY_ARRAY(c, iota.order, iota.rank);
    return iota;
}

static AxisRefs copy_axes(Copier *c, AxisRefs axes)
{
    axes.data = COPY_ARRAY(c, axes.data, axes.count);
    return axes;
}

static const Mesh *copy_mesh(Copier *c, const Mesh *m)
{
    bool is_new;
    Mesh *copy = copy_object(c, m, sizeof *m, &is_new);
    if (!is_new)
        return copy;
    copy->devices = copy_ints(c, m->devices);
    copy->iota = copy_iota(c, m->iota);
    if (m->axis_count == 0)
        return copy;
    MeshAxis *axes = arena_copy(c->to, m->axes, m->axis_count * sizeof *axes);
    for (uint32_t i = 0; i < m->axis_count; i++)
        axes[i].name = copy_text(c, m->axes[i].name);
    copy->axes = axes;
    return copy;
}

static const ReplicaGroups *copy_groups(Copier *c, const ReplicaGroups *g)
{
    bool is_new;
    ReplicaGroups *copy = copy_object(c, g, sizeof *g, &is_new);
    if (!is_new)
        return copy;
    copy->lists = copy_lists(c, g->lists);
    copy->iota = copy_iota(c, g->iota);
    copy->mesh = copy_mesh(c, g->mesh);
    copy->axes = copy_axes(c, g->axes);
    return copy;
}

static const Sharding *copy_sharding(Copier *c, const Sharding *s);

static void copy_sharding_lists(Copier *c, Sharding *copy)
{
    if (copy->dim_count != 0) {
        DimSharding *dims =
            arena_copy(c->to, copy->dim_shardings, copy->dim_count * sizeof *dims);
        for (uint32_t i = 0; i < copy->dim_count; i++)
            dims[i].axes = copy_axes(c, dims[i].axes);
        copy->dim_shardings = dims;
    }
    if (copy->metadata_count != 0) {
        const Metadata **metadata =
            arena_copy(c->to, copy->metadata, copy->metadata_count * sizeof *metadata);
        for (uint32_t i = 0; i < copy->metadata_count; i++)
            metadata[i] = copy_metadata(c, metadata[i]);
        copy->metadata = metadata;
    }
    if (copy->element_count != 0) {
        const Sharding **elements =
            arena_copy(c->to, copy->elements, copy->element_count * sizeof *elements);
        for (uint32_t i = 0; i < copy->element_count; i++)
            elements[i] = copy_sharding(c, elements[i]);
        copy->elements = elements;
    }
}

static const Sharding *copy_sharding(Copier *c, const Sharding *s)
{
    bool is_new;
    Sharding *copy = copy_object(c, s, sizeof *s, &is_new);
    if (!is_new)
        return copy;
    copy->dims = COPY_ARRAY(c, s->dims, s->rank);
    copy->iota = copy_iota(c, s->iota);
    copy->devices = copy_ints(c, s->devices);
    copy->subgroups = COPY_ARRAY(c, s->subgroups, s->subgroup_count);
    copy->mesh = copy_mesh(c, s->mesh);
    copy->replicated = copy_axes(c, s->replicated);
    copy->unreduced = copy_axes(c, s->unreduced);
    copy->manual = copy_axes(c, s->manual);
    copy_sharding_lists(c, copy);
    return copy;
}

static const Domain *copy_domain(Copier *c, const Domain *d)
{
    bool is_new;
    Domain *copy = copy_object(c, d, sizeof *d, &is_new);
    if (is_new)
        *copy = (Domain){copy_sharding(c, d->entry), copy_sharding(c, d->exit)};
    return copy;
}

static const Config *copy_config(Copier *c, const Config *config)
{
    bool is_new;
    Config *copy = copy_object(c, config, sizeof *config, &is_new);
    if (is_new)
        *copy = *config_parse(c->to, config->text.data, config->text.length);
    return copy;
}

void copy_attr_value(Copier *c, Attr *a)
{
    bool is_new;
    switch (attr_info[a->id].kind) {
    case AK_INT:
    case AK_BOOL:
    case AK_ENUM:
    case AK_FLOAT:
    case AK_INSTRUCTIONS:
        return;
    case AK_STRING:
        a->bytes = copy_bytes(c, a->bytes);
        return;
    case AK_CONFIG:
        a->config = copy_config(c, a->config);
        return;
    case AK_INTS:
    case AK_BOOLS:
    case AK_ENUMS:
        a->ints = copy_ints(c, a->ints);
        return;
    case AK_INTSS:
        a->lists = copy_lists(c, a->lists);
        return;
    case AK_COMPUTATION:
    case AK_COMPUTATIONS:
        a->computations = copy_computations(c, a->computations);
        return;
    case AK_WINDOW:
        a->window = copy_window(c, a->window);
        return;
    case AK_DIM_LABELS:
        a->labels = copy_labels(c, a->labels);
        return;
    case AK_PADDING:
        a->padding = copy_padding(c, a->padding);
        return;
    case AK_SLICE:
        a->slice = copy_slice(c, a->slice);
        return;
    case AK_ALIASING:
        a->aliasing = copy_aliasing_object(c, a->aliasing);
        return;
    case AK_SHAPE:
        a->shape = copy_shape(c, a->shape);
        return;
    case AK_SHAPES:
        a->shapes = copy_shapes(c, a->shapes);
        return;
    case AK_LITERAL:
        a->literal = copy_literal(c, a->literal);
        return;
    case AK_SHARDING:
        a->sharding = copy_sharding(c, a->sharding);
        return;
    case AK_REPLICA_GROUPS:
        a->groups = copy_groups(c, a->groups);
        return;
    case AK_DOMAIN:
        a->domain = copy_domain(c, a->domain);
        return;
    case AK_SPARSITY:
        a->sparsity = copy_object(c, a->sparsity, sizeof *a->sparsity, &is_new);
        return;
    case AK_METADATA:
        a->metadata = copy_metadata(c, a->metadata);
        return;
    case AK_DICT:
        a->dict = copy_dict(c, a->dict);
        return;
    case AK_STATISTICS:
        a->statistics = copy_statistics(c, a->statistics);
        return;
    case AK_ACCURACY:
        a->accuracy = copy_object(c, a->accuracy, sizeof *a->accuracy, &is_new);
        return;
    case AK_ORIGIN:
        a->origin = copy_origin(c, a->origin);
        return;
    }
}
