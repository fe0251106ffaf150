/* Collectives in the form that NCCL carries out: pieces contiguous, reductions that it knows.
 *
 *   g = f32[6,4] all-gather(f32[6,2] p), dimensions={1}           of 2 devices
 *   ->  r = f32[1,6,2] form_reshape(p)     a = f32[2,6,2] all-gather(r), dimensions={0}
 *       t = f32[6,2,2] transpose(a), dimensions={1,0,2}     g = f32[6,4] form_reshape(t)
 *
 * Dimensions: all-gather and reduce-scatter along a later dimension get a dimension of the
 * group's size in front, and one transpose moves it behind (before) the collective; all-to-all
 * needs both. Types: elements of less than a byte travel as bytes where pieces are cut; types
 * that NCCL does not add are widened around the reduction, as is an operand whose reducer
 * computes in another type; maxima and minima of floats are those of integers (form_keys.c).
 * Reducers that NCCL does not know, such as xor or a complex product, become an all-gather
 * (for reduce-scatter an all-to-all, if it has such groups) and operations on its parts; where
 * groups differ in size, an all-gather among all devices, of which each takes what is its
 * group's.
 *
 * What none of this can express stays, and codegen refuses it by name.
 * Needs: nothing. Keeps: values, operand order, groups, channel. Ends: one sweep. */
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/attribute/replica_groups.h"
#include "passes/collectives/form.h"

/* -- building ------------------------------------------------------------------------------- */

const Shape *form_array(Form *f, DType t, uint32_t rank, const int64_t *dims)
{
    return shape_array(f->m->intern, t, rank, dims, NULL, NULL);
}

Instruction *form_unary(OpCode op, const Shape *s, Instruction *x)
{
    Instruction *made = computation_add(x->parent, op, s, 1, &x, NULL);
    made->span = x->span;
    return made;
}

Instruction *form_reshape(const Shape *s, Instruction *x)
{
    return x->shape == s ? x : form_unary(OP_RESHAPE, s, x);
}

Instruction *form_convert(Form *f, Instruction *x, DType t)
{
    return x->shape->dtype == t
               ? x
               : form_unary(OP_CONVERT, shape_with_dtype(f->m->intern, x->shape, t), x);
}

/* Moves dimension `from` to position `to`, the others keep their order. */
static Instruction *move_dimension(Form *f, Instruction *x, uint32_t from, uint32_t to)
{
    const Shape *s = x->shape;
    int64_t *order = ARENA_ARRAY(f->scratch, int64_t, (size_t)s->rank + 1);
    int64_t *dims = ARENA_ARRAY(f->scratch, int64_t, (size_t)s->rank + 1);
    bool free_of_cost = true; /* only dimensions of size 1 are passed */
    for (uint32_t i = 0, next = 0; i < s->rank; i++) {
        if (i == to) {
            order[i] = from;
        } else {
            next += next == from;
            order[i] = next++;
        }
        dims[i] = s->dims[order[i]];
    }
    for (uint32_t i = from < to ? from : to; i <= (from < to ? to : from); i++)
        free_of_cost &= i == from || s->dims[i] == 1;
    const Shape *moved = form_array(f, s->dtype, s->rank, dims);
    if (free_of_cost)
        return form_reshape(moved, x);
    Instruction *t = form_unary(OP_TRANSPOSE, moved, x);
    inst_set_ints(t, ATTR_DIMENSIONS, order, s->rank);
    return t;
}

/* The same elements with dimension d as two, `n` times the rest. */
static Instruction *split_dimension(Form *f, Instruction *x, uint32_t d, int64_t n)
{
    const Shape *s = x->shape;
    int64_t *dims = ARENA_ARRAY(f->scratch, int64_t, (size_t)s->rank + 1);
    for (uint32_t i = 0; i < s->rank; i++)
        dims[i < d ? i : i + 1] = s->dims[i];
    dims[d] = n;
    dims[d + 1] = s->dims[d] / n;
    return form_reshape(form_array(f, s->dtype, s->rank + 1, dims), x);
}

/* A dimension of size 1 in front. */
static Instruction *form_add_front(Form *f, Instruction *x)
{
    const Shape *s = x->shape;
    int64_t *dims = ARENA_ARRAY(f->scratch, int64_t, (size_t)s->rank + 1);
    dims[0] = 1;
    if (s->rank != 0)
        memcpy(dims + 1, s->dims, s->rank * sizeof *dims);
    return form_reshape(form_array(f, s->dtype, s->rank + 1, dims), x);
}

const Shape *form_with_front(Form *f, const Shape *s, int64_t n)
{
    int64_t *dims = arena_copy(f->scratch, s->dims, s->rank * sizeof *dims);
    dims[0] = n;
    return form_array(f, s->dtype, s->rank, dims);
}

/* The collective `like` on other operands; its results one by one. */
void form_collective(Form *f, const Instruction *like, OpCode op, uint32_t count,
                     Instruction *const *operands, const Shape *const *shapes,
                     Instruction **out)
{
    const Shape *s = count == 1 ? shapes[0] : shape_tuple(f->m->intern, count, shapes);
    Instruction *made = computation_add(f->comp, op, s, count, operands, like->name);
    for (uint32_t i = 0; i < like->attr_count; i++) {
        AttrId id = like->attrs[i].id;
        bool own = id == ATTR_TO_APPLY || id == ATTR_USE_GLOBAL_DEVICE_IDS;
        if (op == like->op || !own)
            inst_set(made, like->attrs[i]);
    }
    inst_unset(made, ATTR_SHARDING);
    inst_unset(made, ATTR_ORIGIN); /* its operands are others */
    inst_unset(made, ATTR_CONSTRAIN_LAYOUT);
    made->span = like->span;
    made->control = like->control;
    made->control_count = like->control_count;
    for (uint32_t i = 0; i < count; i++) {
        out[i] = count == 1 ? made : computation_add_element(made, i);
    }
}

/* The value that takes the place of the collective. */
static Instruction *gather_results(const Instruction *inst, Instruction **results)
{
    if (!shape_is_tuple(inst->shape))
        return results[0];
    return computation_add(inst->parent, OP_TUPLE, inst->shape, inst->shape->rank,
                           results, NULL);
}

static const Shape *result_shape(const Instruction *inst, uint32_t k)
{
    return shape_is_tuple(inst->shape) ? inst->shape->elements[k] : inst->shape;
}

/* -- dimensions -------------------------------------------------------------------------------- */

static bool is_plain(const Shape *s)
{
    return shape_is_array(s) && !shape_is_dynamic(s);
}

/* Dimensions before d are of size 1 in all operands: pieces lie one behind the other. */
static bool is_contiguous(const Instruction *inst, int64_t d)
{
    for (uint32_t k = 0; k < inst->operand_count; k++) {
        for (int64_t i = 0; i < d; i++) {
            if (inst->operands[k]->shape->dims[i] != 1)
                return false;
        }
    }
    return true;
}

static Instruction *bring_forward(Form *f, Instruction *inst)
{
    Ints attr = inst_ints(inst, ATTR_DIMENSIONS);
    if (attr.count != 1 || is_contiguous(inst, attr.data[0]))
        return NULL;
    uint32_t n = inst->operand_count, d = (uint32_t)attr.data[0];
    int64_t size = collective_group_size(f->scratch, inst);
    Instruction **operands = ARENA_ARRAY(f->scratch, Instruction *, (size_t)n + 1);
    Instruction **results = ARENA_ARRAY(f->scratch, Instruction *, (size_t)n + 1);
    const Shape **shapes = ARENA_ARRAY(f->scratch, const Shape *, (size_t)n + 1);
    for (uint32_t k = 0; k < n; k++) {
        Instruction *x = inst->operands[k];
        if (!is_plain(x->shape))
            return NULL;
        operands[k] = inst->op == OP_ALL_GATHER
                          ? form_add_front(f, x)
                          : move_dimension(f, split_dimension(f, x, d, size), d, 0);
        int64_t front = inst->op == OP_REDUCE_SCATTER ? 1 : size;
        shapes[k] = form_with_front(f, operands[k]->shape, front);
    }
    form_collective(f, inst, inst->op, n, operands, shapes, results);
    Instruction *made = n == 1 ? results[0] : results[0]->operands[0];
    inst_set_ints(made, ATTR_DIMENSIONS, &(int64_t){0}, 1);
    for (uint32_t k = 0; k < n; k++) {
        if (inst->op != OP_REDUCE_SCATTER)
            results[k] = move_dimension(f, results[k], 0, d);
        results[k] = form_reshape(result_shape(inst, k), results[k]);
    }
    return gather_results(inst, results);
}

/* -- types ---------------------------------------------------------------------------------------- */

DType form_carrier(DType t)
{
    if (!dtype_is_sub_byte(t))
        return t;
    return dtype_is_float(t) ? DT_BF16 : dtype_is_signed(t) ? DT_S8 : DT_U8;
}

/* The type in which elements travel. */
static DType carrier_of(const Instruction *inst, DType t)
{
    bool cuts = inst->op == OP_ALL_GATHER || inst->op == OP_ALL_TO_ALL;
    return cuts ? form_carrier(t) : t;
}

/* The type in which NCCL can reduce values of type t. */
static DType reduced_in(const Form *f, DType t)
{
    if (collective_reduces(t, f->target))
        return t;
    return dtype_is_float(t) ? DT_F32 : dtype_is_signed(t) ? DT_S32 : DT_U32;
}

static int reduction_index(OpCode op)
{
    return op == OP_ADD ? 0 : op == OP_MULTIPLY ? 1 : op == OP_MINIMUM ? 2 : 3;
}

/* `op` on two scalars of type t. */
Computation *form_reducer(Form *f, OpCode op, DType t)
{
    Computation **known = &f->reducers[t][reduction_index(op)];
    if (*known != NULL)
        return *known;
    *known = module_add_reducer(f->m, op, t);
    return *known;
}

/* The collective on operands of other types, converted before and after. `apply`: its reducer. `own`: of the values whose
 * keys these types are; as a type of no array: they are values. */
static Instruction *with_types(Form *f, Instruction *inst, const DType *types,
                               Computation *apply, DType own)
{
    bool has_keys = dtype_is_float(own);
    uint32_t n = inst->operand_count;
    Instruction **operands = ARENA_ARRAY(f->scratch, Instruction *, (size_t)n + 1);
    Instruction **results = ARENA_ARRAY(f->scratch, Instruction *, (size_t)n + 1);
    const Shape **shapes = ARENA_ARRAY(f->scratch, const Shape *, (size_t)n + 1);
    for (uint32_t k = 0; k < n; k++) {
        Instruction *x = inst->operands[k];
        operands[k] = has_keys ? form_to_keys(f, form_convert(f, x, own),
                                              collective_reduction(apply))
                               : form_convert(f, x, types[k]);
        shapes[k] = shape_with_dtype(f->m->intern, result_shape(inst, k), types[k]);
    }
    form_collective(f, inst, inst->op, n, operands, shapes, results);
    Instruction *made = n == 1 ? results[0] : results[0]->operands[0];
    if (apply != NULL)
        inst_set_computation(made, ATTR_TO_APPLY, apply);
    for (uint32_t k = 0; k < n; k++) {
        DType t = inst->operands[k]->shape->dtype;
        if (has_keys)
            results[k] = form_from_keys(f, results[k], own);
        results[k] = form_convert(f, results[k], t);
    }
    return gather_results(inst, results);
}

static Instruction *widen_moved(Form *f, Instruction *inst)
{
    uint32_t n = inst->operand_count;
    DType *types = ARENA_ARRAY(f->scratch, DType, (size_t)n + 1);
    bool differ = false;
    for (uint32_t k = 0; k < n; k++) {
        DType t = inst->operands[k]->shape->dtype;
        types[k] = carrier_of(inst, t);
        differ |= types[k] != t;
    }
    return differ ? with_types(f, inst, types, NULL, DT_TOKEN) : NULL;
}

/* -- reductions by hand ----------------------------------------------------------------------- */

/* The reducer applied to arrays, element by element. NULL if it cannot be. */
static Instruction *apply(Form *f, const Computation *reducer_of, Instruction *x,
                          Instruction *y)
{
    uint32_t n;
    Instruction **order = computation_post_order(reducer_of, f->scratch, &n);
    Instruction **made =
        ARENA_ARRAY(f->scratch, Instruction *, (size_t)reducer_of->instruction_count + 1);
    for (uint32_t i = 0; i < n; i++) {
        const Instruction *from = order[i];
        const Shape *s = shape_with_dtype(f->m->intern, x->shape, from->shape->dtype);
        if (from->op == OP_PARAMETER) {
            made[from->id] =
                form_convert(f, from->parameter == 0 ? x : y, from->shape->dtype);
        } else if (from->op == OP_CONSTANT) {
            Instruction *c = computation_add_constant(f->comp, from->literal, NULL);
            made[from->id] = form_unary(OP_BROADCAST, s, c);
            inst_set_ints(made[from->id], ATTR_DIMENSIONS, NULL, 0);
        } else {
            Instruction **operands =
                ARENA_ARRAY(f->scratch, Instruction *, (size_t)from->operand_count + 1);
            for (uint32_t k = 0; k < from->operand_count; k++)
                operands[k] = made[from->operands[k]->id];
            made[from->id] =
                computation_add_like(f->comp, from, s, from->operand_count, operands);
        }
    }
    return made[reducer_of->root->id];
}

static bool is_elementwise(const Computation *c)
{
    for (const Instruction *inst = inst_first(c); inst; inst = inst_next(inst)) {
        if (inst->op != OP_PARAMETER && inst->op != OP_CONSTANT &&
            (!op_is(inst->op, OPF_ELEMENTWISE) || inst->op == OP_MAP ||
             inst->shape->rank != 0))
            return false;
    }
    return c->parameter_count == 2;
}

/* Part i of n along the first dimension, which vanishes. */
static Instruction *part(Form *f, Instruction *x, int64_t i, const Shape *shape)
{
    const Shape *s = x->shape;
    SliceDim *dims = ARENA_ARRAY(f->m->arena, SliceDim, s->rank);
    for (uint32_t k = 0; k < s->rank; k++)
        dims[k] = (SliceDim){0, s->dims[k], 1};
    dims[0] = (SliceDim){i, i + 1, 1};
    Instruction *slice = form_unary(OP_SLICE, form_with_front(f, s, 1), x);
    inst_set_slice(slice, dims, s->rank);
    return form_reshape(shape, slice);
}

/* An all-to-all has no use_global_device_ids: its channel means partitions. */
static bool has_all_to_all_groups(const Instruction *inst)
{
    const ModuleConfig *c = &inst->parent->module->config;
    switch (collective_mode(inst)) {
    case COLLECTIVE_CROSS_REPLICA:
        return true;
    case COLLECTIVE_FLATTENED_ID:
        return c->replica_count == 1;
    default:
        return false;
    }
}

/* The largest group; 0: all are of one size. */
static int64_t largest_of_several(Form *f, const Instruction *inst)
{
    IntLists groups = collective_groups(f->scratch, inst);
    int64_t largest = 0;
    bool differ = false;
    for (uint32_t g = 0; g < groups.count; g++) {
        int64_t n = groups.data[g].count;
        differ |= n != groups.data[0].count;
        largest = n > largest ? n : largest;
    }
    return differ ? largest : 0;
}

/* An all-gather has groups of one size only: one of all ids. */
static Instruction *gather_from_all(Form *f, const Instruction *inst, Instruction *x)
{
    int64_t n = collective_id_count(inst);
    int64_t *ids = ARENA_ARRAY(f->m->arena, int64_t, (size_t)n + 1);
    for (int64_t i = 0; i < n; i++)
        ids[i] = i;
    Ints *all = ARENA_NEW(f->m->arena, Ints);
    *all = (Ints){ids, (uint32_t)n};
    ReplicaGroups *groups = ARENA_NEW(f->m->arena, ReplicaGroups);
    groups->form = GROUPS_LISTS;
    groups->lists = (IntLists){all, 1};
    Instruction *piece = form_add_front(f, x), *rows;
    bool each = collective_mode(inst) == COLLECTIVE_CROSS_REPLICA_AND_PARTITION;
    int64_t count = each ? n * f->m->config.num_partitions : n;
    const Shape *s = form_with_front(f, piece->shape, count);
    form_collective(f, inst, OP_ALL_GATHER, 1, &piece, &s, &rows);
    inst_set(rows, (Attr){.id = ATTR_REPLICA_GROUPS, .groups = groups});
    if (inst_bool(inst, ATTR_USE_GLOBAL_DEVICE_IDS))
        inst_set(rows, *inst_attr(inst, ATTR_USE_GLOBAL_DEVICE_IDS));
    inst_set_ints(rows, ATTR_DIMENSIONS, &(int64_t){0}, 1);
    return rows;
}

/* The all-reduce of one operand in groups of several sizes, the largest of `most` devices. */
static Instruction *reduce_members(Form *f, Instruction *inst, Instruction *x,
                                   int64_t most)
{
    const Computation *by = inst_called(inst, 0);
    DType t = by->root->shape->dtype;
    Instruction *rows = gather_from_all(f, inst, x);
    Instruction *sum = form_reshape(x->shape, form_member_row(f, inst, rows, 0));
    sum = form_convert(f, sum, t);
    for (int64_t i = 1; i < most; i++) {
        Instruction *next = form_reshape(x->shape, form_member_row(f, inst, rows, i));
        const Shape *masks = shape_with_dtype(f->m->intern, x->shape, DT_PRED);
        Instruction *has = form_unary(OP_BROADCAST, masks, form_has_member(f, inst, i));
        inst_set_ints(has, ATTR_DIMENSIONS, NULL, 0);
        Instruction *operands[3] = {has, apply(f, by, sum, next), sum};
        sum = computation_add(f->comp, OP_SELECT, sum->shape, 3, operands, NULL);
    }
    return sum;
}

/* NULL: an operand is of dynamic size; or it is not done once by each device, as it is in a loop or a branch, so
 * that one group may come more often than another. */
static Instruction *reduce_uneven(Form *f, Instruction *inst, int64_t most)
{
    if (f->comp != f->m->entry)
        return NULL;
    uint32_t n = inst->operand_count;
    Instruction **results = ARENA_ARRAY(f->scratch, Instruction *, (size_t)n + 1);
    for (uint32_t k = 0; k < n; k++) {
        if (!is_plain(inst->operands[k]->shape))
            return NULL;
        Instruction *sum = reduce_members(f, inst, inst->operands[k], most);
        results[k] = form_convert(f, sum, result_shape(inst, k)->dtype);
    }
    return gather_results(inst, results);
}

/* Gathers what the devices have (of a reduce-scatter: what is for this one) and reduces here. */
static Instruction *reduce_here(Form *f, Instruction *inst)
{
    const Computation *by = inst_called(inst, 0);
    bool cuts = inst->op == OP_REDUCE_SCATTER;
    bool scatters = cuts && has_all_to_all_groups(inst);
    if (!is_elementwise(by))
        return NULL;
    int64_t most = largest_of_several(f, inst);
    if (most > 0)
        return reduce_uneven(f, inst, most);
    uint32_t n = inst->operand_count;
    int64_t size = collective_group_size(f->scratch, inst);
    Instruction **results = ARENA_ARRAY(f->scratch, Instruction *, (size_t)n + 1);
    for (uint32_t k = 0; k < n; k++) {
        Instruction *x = inst->operands[k];
        const Shape *s = result_shape(inst, k);
        if (!is_plain(x->shape))
            return NULL;
        uint32_t d = cuts ? (uint32_t)inst_ints(inst, ATTR_DIMENSIONS).data[0] : 0;
        Instruction *pieces =
            scatters ? move_dimension(f, split_dimension(f, x, d, size), d, 0)
                     : form_add_front(f, x);
        const Shape *all = form_with_front(f, pieces->shape, size);
        const Shape *one = scatters ? s : x->shape;
        Instruction *moved;
        form_collective(f, inst, scatters ? OP_ALL_TO_ALL : OP_ALL_GATHER, 1, &pieces,
                        &all, &moved);
        if (!scatters && inst_bool(inst, ATTR_USE_GLOBAL_DEVICE_IDS))
            inst_set(moved, *inst_attr(inst, ATTR_USE_GLOBAL_DEVICE_IDS));
        inst_set_ints(moved, ATTR_DIMENSIONS, &(int64_t){0}, 1);
        Instruction *sum = part(f, moved, 0, one);
        for (int64_t i = 1; i < size; i++)
            sum = apply(f, by, sum, part(f, moved, i, one));
        sum = form_convert(f, sum, s->dtype);
        results[k] = cuts && !scatters ? form_own_part(f, inst, sum, d, s) : sum;
    }
    return gather_results(inst, results);
}

static bool has_plain_operands(const Instruction *inst)
{
    for (uint32_t k = 0; k < inst->operand_count; k++) {
        if (!is_plain(inst->operands[k]->shape))
            return false;
    }
    return true;
}

/* Reductions in a type and by an operation that NCCL has. */
static Instruction *known_reduction(Form *f, Instruction *inst)
{
    Computation *by = inst_called(inst, 0);
    OpCode op = collective_reduction(by);
    DType own = by->root->shape->dtype;
    bool is_extreme = op == OP_MINIMUM || op == OP_MAXIMUM;
    bool has_keys = is_extreme && dtype_is_float(own) && has_plain_operands(inst);
    DType wanted = has_keys ? form_key_type(own) : reduced_in(f, own);
    bool known =
        op == OP_ADD || ((op == OP_MULTIPLY || is_extreme) && !dtype_is_complex(own));
    if (!known)
        return reduce_here(f, inst);
    bool differs = wanted != own;
    DType *types = ARENA_ARRAY(f->scratch, DType, (size_t)inst->operand_count + 1);
    for (uint32_t k = 0; k < inst->operand_count; k++) {
        types[k] = wanted;
        differs |= inst->operands[k]->shape->dtype != wanted;
    }
    if (!differs)
        return NULL;
    return with_types(f, inst, types, wanted == own ? by : form_reducer(f, op, wanted),
                      has_keys ? own : DT_TOKEN);
}

/* -- the pass ------------------------------------------------------------------------------------ */

static Instruction *rewrite(Form *f, Instruction *inst)
{
    switch (inst->op) {
    case OP_ALL_REDUCE:
        return known_reduction(f, inst);
    case OP_REDUCE_SCATTER: {
        Instruction *made = known_reduction(f, inst);
        return made != NULL ? made : bring_forward(f, inst);
    }
    case OP_ALL_GATHER:
    case OP_ALL_TO_ALL: {
        Instruction *made = widen_moved(f, inst);
        return made != NULL ? made : bring_forward(f, inst);
    }
    case OP_RAGGED_ALL_TO_ALL:
        return form_ragged(f, inst);
    default:
        return NULL;
    }
}

/* What is made from number `first` on stands between the collective and others of its scheduling group: it must
 * not be a gap there. */
static void keep_group(const Form *f, const Instruction *inst, uint32_t first)
{
    static const char key[] = "_scheduling_group_id";
    const char *group = inst_frontend_attribute(inst, key);
    for (uint32_t i = first; group != NULL && i < f->comp->instruction_count; i++)
        inst_set_frontend_attribute(f->comp->instructions[i], key, group);
}

/* What a rewrite adds is looked at in turn: types first, then dimensions. */
static bool visit(Form *f, Computation *comp)
{
    f->comp = comp;
    bool changed = false;
    Instruction **forward = NULL;
    size_t capacity = 0;
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (!op_is(inst->op, OPF_COLLECTIVE))
            continue;
        uint32_t first = comp->instruction_count;
        Instruction *made = rewrite(f, inst);
        if (made == NULL)
            continue;
        keep_group(f, inst, first);
        forward = arena_grow(f->scratch, forward, &capacity, comp->instruction_count,
                             sizeof *forward);
        forward[inst->id] = made;
        changed = true;
    }
    if (!changed)
        return false;
    forward = arena_grow(f->scratch, forward, &capacity, comp->instruction_count,
                         sizeof *forward);
    computation_substitute(comp, forward, comp->instruction_count);
    computation_sort(comp);
    return true;
}

bool pass_collective_form(Module *m, PassContext *cx)
{
    Form f = {.m = m, .scratch = cx->scratch, .target = cx->target};
    Computations programs = module_programs(m, cx->scratch);
    bool changed = false;
    for (uint32_t c = 0; c < programs.count; c++)
        changed |= visit(&f, programs.data[c]);
    if (changed)
        module_sort(m);
    return changed;
}
