/* The program's boundary: a parameter of dynamic size becomes an array of the size of its bounds
 * and one s32 parameter more for each dynamic dimension; a result alike, with zeros beyond its
 * sizes. What was there keeps its number, the sizes come behind. A token, which is no data, goes
 * in and out as an array without elements, pred[0], so that all numbers stay.
 *
 *   ENTRY e { p = f32[<=8] parameter(0)  ROOT r = f32[<=8] negate(p) }
 *     =>  q = f32[8] parameter(0)   n = s32[] parameter(1)
 *         p = f32[<=8] custom-call(q, clamp(0, n, 8)), custom_call_target="SliceToDynamic"
 *         r = f32[<=8] negate(p)
 *         s = (f32[8], s32[]) custom-call(r), custom_call_target="PadToStatic"
 *         ROOT t = (f32[8], s32[]) tuple(s#0, s#1)
 *
 * The header's frontend attributes argument_sizes and result_sizes say what belongs together:
 * "1=0.0" - number 1 is the size of number 0 in dimension 0 - for the plan's signature.
 * Needs: nothing. Keeps: values. Ends: one sweep over the entry's boundary. */
#include <string.h>

#include "passes/dynamic/dynamic.h"

typedef struct Boundary {
    Rewriter r;
    Instruction **sizes; /* new parameters, or results */
    const char *names;   /* of what each of them is the size: "1=0.0,..." */
    size_t count, capacity;
    size_t leaf;       /* number of the array that is looked at */
    size_t leaf_count; /* of all arrays that were there */
    int64_t parameter; /* the next one's number */
} Boundary;

const Shape *dynamic_bounds(Intern *t, const Shape *s)
{
    if (shape_is_array(s))
        return s->dynamic == NULL
                   ? s
                   : shape_array(t, s->dtype, s->rank, s->dims, NULL, s->layout);
    if (!shape_is_tuple(s) || !shape_is_dynamic(s))
        return s;
    const Shape **elements = ARENA_ARRAY(intern_arena(t), const Shape *, s->rank);
    for (uint32_t i = 0; i < s->rank; i++)
        elements[i] = dynamic_bounds(t, s->elements[i]);
    return shape_tuple(t, s->rank, elements);
}

/* The shape that the caller sees. */
static const Shape *at_boundary(Intern *t, const Shape *s)
{
    static const int64_t none = 0;
    if (s->dtype == DT_TOKEN)
        return shape_array(t, DT_PRED, 1, &none, NULL, NULL);
    if (!shape_is_tuple(s))
        return dynamic_bounds(t, s);
    const Shape **elements = ARENA_ARRAY(intern_arena(t), const Shape *, s->rank + 1u);
    for (uint32_t i = 0; i < s->rank; i++)
        elements[i] = at_boundary(t, s->elements[i]);
    return shape_tuple(t, s->rank, elements);
}

static bool is_dynamic_at(const Shape *s, uint32_t d)
{
    return s->dynamic != NULL && s->dynamic[d];
}

static void note_size(Boundary *b, Instruction *size, uint32_t d)
{
    b->names = arena_printf(b->r.m->arena, "%s%s%zu=%zu.%u", b->names,
                            b->count ? "," : "", b->leaf_count + b->count, b->leaf, d);
    b->sizes =
        arena_grow(b->r.scratch, b->sizes, &b->capacity, b->count + 1, sizeof *b->sizes);
    b->sizes[b->count++] = size;
}

static Instruction *call(Boundary *b, const Shape *s, uint32_t count,
                         Instruction *const *operands, const char *target)
{
    Instruction *c = rw_add(&b->r, OP_CUSTOM_CALL, s, count, operands);
    inst_set_bytes(c, ATTR_CUSTOM_CALL_TARGET, target, strlen(target));
    return c;
}

/* -- parameters ------------------------------------------------------------------------------- */

/* A new parameter between 0 and the bound. */
static Instruction *size_parameter(Boundary *b, const char *name, uint32_t d,
                                   int64_t bound)
{
    const Shape *s32 = shape_scalar(b->r.m->intern, DT_S32);
    name = arena_printf(b->r.m->arena, "%s.size.%u", name, d);
    Instruction *size = computation_add_parameter(b->r.comp, b->parameter++, s32,
                                                  module_unique_name(b->r.m, name));
    note_size(b, size, d);
    Instruction *limits[3] = {
        rw_splat_int(&b->r, s32, 0), size,
        rw_splat_int(&b->r, s32, bound < INT32_MAX ? bound : INT32_MAX)};
    return rw_add(&b->r, OP_CLAMP, s32, 3, limits);
}

/* What the caller gives as a value of the wanted shape. */
static Instruction *from_boundary(Boundary *b, Instruction *x, const Shape *wanted)
{
    const Shape *s32 = shape_scalar(b->r.m->intern, DT_S32);
    if (shape_is_tuple(wanted)) {
        Instruction **parts = ARENA_ARRAY(b->r.scratch, Instruction *, wanted->rank + 1u);
        for (uint32_t i = 0; i < wanted->rank; i++)
            parts[i] = from_boundary(b, rw_element(&b->r, x, i), wanted->elements[i]);
        return rw_add(&b->r, OP_TUPLE, wanted, wanted->rank, parts);
    }
    if (shape_is_dynamic(wanted)) {
        Instruction **parts = ARENA_ARRAY(b->r.scratch, Instruction *, wanted->rank + 1u);
        parts[0] = x;
        for (uint32_t d = 0; d < wanted->rank; d++)
            parts[d + 1] = is_dynamic_at(wanted, d)
                               ? size_parameter(b, b->r.at->name, d, wanted->dims[d])
                               : rw_splat_int(&b->r, s32, wanted->dims[d]);
        x = call(b, wanted, wanted->rank + 1, parts, "SliceToDynamic");
    } else if (wanted->dtype == DT_TOKEN) {
        x = rw_add(&b->r, OP_AFTER_ALL, wanted, 0, NULL);
    }
    b->leaf++;
    return x;
}

static Instruction *replace_parameter(Boundary *b, Instruction *old)
{
    const Shape *s = at_boundary(b->r.m->intern, old->shape);
    Instruction *p = computation_append(b->r.comp, OP_PARAMETER, s, 0, NULL);
    p->name = old->name;
    p->span = old->span;
    for (uint32_t i = 0; i < old->attr_count; i++)
        inst_set(p, old->attrs[i]);
    computation_register_parameter(b->r.comp, p, old->parameter);
    b->r.at = p;
    return from_boundary(b, p, old->shape);
}

static void set_layout(Module *m)
{
    const Computation *entry = m->entry;
    ModuleConfig *c = &m->config;
    const Shape **all = ARENA_ARRAY(m->arena, const Shape *, entry->parameter_count + 1u);
    for (uint32_t i = 0; i < entry->parameter_count; i++)
        all[i] = i < c->entry_parameter_count
                     ? at_boundary(m->intern, c->entry_parameters[i])
                     : entry->parameters[i]->shape;
    c->entry_parameters = all;
    c->entry_parameter_count = entry->parameter_count;
}

static bool replace_parameters(Boundary *b)
{
    Computation *entry = b->r.comp;
    uint32_t count = entry->parameter_count, before = entry->instruction_count;
    Instruction **old = ARENA_ARRAY(b->r.scratch, Instruction *, count + 1u);
    Instruction **by = ARENA_ARRAY(b->r.scratch, Instruction *, count + 1u);
    b->parameter = count;
    for (uint32_t i = 0; i < count; i++)
        b->leaf_count += shape_leaf_count(entry->parameters[i]->shape);
    for (uint32_t i = 0; i < count; i++) {
        old[i] = entry->parameters[i];
        if (at_boundary(b->r.m->intern, old[i]->shape) != old[i]->shape)
            by[i] = replace_parameter(b, old[i]);
        else
            b->leaf += shape_leaf_count(old[i]->shape);
    }
    if (entry->instruction_count == before)
        return false;
    Instruction **forward =
        ARENA_ARRAY(b->r.scratch, Instruction *, entry->instruction_count + 1u);
    for (uint32_t i = 0; i < count; i++)
        forward[old[i]->id] = by[i];
    computation_substitute(entry, forward, entry->instruction_count);
    set_layout(b->r.m);
    return true;
}

/* -- results ---------------------------------------------------------------------------------- */

static Instruction *to_boundary(Boundary *b, Instruction *x)
{
    Intern *t = b->r.m->intern;
    if (shape_is_tuple(x->shape)) {
        uint32_t n = x->shape->rank;
        Instruction **parts = ARENA_ARRAY(b->r.scratch, Instruction *, n + 1u);
        const Shape *s = at_boundary(t, x->shape);
        for (uint32_t i = 0; i < n; i++)
            parts[i] = to_boundary(b, rw_element(&b->r, x, i));
        return rw_add(&b->r, OP_TUPLE, s, n, parts);
    }
    const Shape *s = x->shape;
    if (shape_is_dynamic(s)) {
        const Shape **leaves = ARENA_ARRAY(b->r.scratch, const Shape *, s->rank + 1u);
        leaves[0] = dynamic_bounds(t, s);
        for (uint32_t d = 0; d < s->rank; d++)
            leaves[d + 1] = shape_scalar(t, DT_S32);
        Instruction *all =
            call(b, shape_tuple(t, s->rank + 1, leaves), 1, &x, "PadToStatic");
        x = rw_element(&b->r, all, 0);
        for (uint32_t d = 0; d < s->rank; d++) {
            if (is_dynamic_at(s, d))
                note_size(b, rw_element(&b->r, all, d + 1), d);
        }
    } else if (s->dtype == DT_TOKEN) {
        x = rw_constant(&b->r, literal_create(b->r.m->arena, at_boundary(t, s)));
    }
    b->leaf++;
    return x;
}

/* A result that was no tuple is element 0 of one now. */
static void move_aliases(Module *m)
{
    Aliasing *a = &m->config.input_output_alias;
    static const int64_t first = 0;
    AliasEntry *entries = arena_copy(m->arena, a->entries, a->count * sizeof *entries);
    for (uint32_t i = 0; i < a->count; i++)
        entries[i].output = (Ints){&first, 1};
    a->entries = entries;
}

static bool replace_result(Boundary *b)
{
    Computation *entry = b->r.comp;
    Instruction *root = entry->root;
    Module *m = b->r.m;
    const Shape *declared = at_boundary(m->intern, root->shape);
    if (declared == root->shape)
        return false;
    b->r.at = root;
    b->leaf_count = shape_leaf_count(root->shape);
    if (m->config.entry_result != NULL)
        declared = at_boundary(m->intern, m->config.entry_result);
    bool was_tuple = shape_is_tuple(root->shape);
    Instruction *all = to_boundary(b, root);
    uint32_t had = was_tuple ? all->shape->rank : 1;
    uint32_t n = had + (uint32_t)b->count;
    m->config.entry_result = declared;
    entry->root = all;
    if (b->count == 0)
        return true;
    Instruction **parts = ARENA_ARRAY(b->r.scratch, Instruction *, n);
    const Shape **shapes = ARENA_ARRAY(b->r.scratch, const Shape *, n);
    const Shape **layouts = ARENA_ARRAY(b->r.scratch, const Shape *, n);
    for (uint32_t i = 0; i < n; i++) {
        parts[i] = i >= had ? b->sizes[i - had] : was_tuple ? all->operands[i] : all;
        layouts[i] = shapes[i] = parts[i]->shape;
        if (i < had)
            layouts[i] = was_tuple ? declared->elements[i] : declared;
    }
    entry->root = rw_add(&b->r, OP_TUPLE, shape_tuple(m->intern, n, shapes), n, parts);
    m->config.entry_result = shape_tuple(m->intern, n, layouts);
    if (!was_tuple && m->config.input_output_alias.count > 0)
        move_aliases(m);
    return true;
}

static void note_names(Module *m, const char *key, const char *names)
{
    if (*names == '\0')
        return;
    const Dict *old = m->config.frontend_attributes;
    uint32_t count = old ? old->count : 0, at = 0;
    DictEntry *entries = ARENA_ARRAY(m->arena, DictEntry, count + 1u);
    while (at < count && strcmp(old->entries[at].key, key) < 0) {
        entries[at] = old->entries[at];
        at++;
    }
    entries[at] = (DictEntry){.key = key, .value = {names, strlen(names)}};
    for (uint32_t i = at; i < count; i++)
        entries[i + 1] = old->entries[i];
    Dict *dict = ARENA_NEW(m->arena, Dict);
    *dict = (Dict){count + 1, entries};
    m->config.frontend_attributes = dict;
}

/* Of an array without a bound nothing can be made. */
static bool is_possible(const Module *m)
{
    const Computation *entry = m->entry;
    bool possible = !shape_is_unbounded(entry->root->shape);
    for (uint32_t i = 0; i < entry->parameter_count; i++)
        possible &= !shape_is_unbounded(entry->parameters[i]->shape);
    return possible;
}

bool pass_dynamic_interface(Module *m, PassContext *cx)
{
    if (!is_possible(m))
        return false;
    Boundary in = {.r = {.m = m, .comp = m->entry, .scratch = cx->scratch}, .names = ""};
    Boundary out = in;
    bool changed = replace_parameters(&in);
    changed |= replace_result(&out);
    note_names(m, "argument_sizes", in.names);
    note_names(m, "result_sizes", out.names);
    if (!changed)
        return false;
    m->config.is_scheduled = false; /* there will be others to schedule */
    computation_sort(m->entry);
    return true;
}
