/* Layout assignment: every array inside the program is row-major; entry parameters and results
 * keep the layouts that the header gives them, and kernels - which read and write any layout by
 * index maps - convert at the boundary.
 *
 *   ENTRY (p: f32[2,3]{0,1}) { ROOT n = f32[2,3]{0,1} negate(p) }
 *   ->  c = f32[2,3]{1,0} copy(p)  n = f32[2,3]{1,0} negate(c)  ROOT r = f32[2,3]{0,1} copy(n)
 *
 * A result that is a transpose and lies as its operand does is a bitcast of that.
 * A bitcast between other layouts or types of one width says by them what moves: it becomes the
 * transposes, the reshape and the conversion that it stands for. Types below a byte are marked packed, :E(n).
 *
 * Needs: well formed. Keeps: values. Yields: laid out. Ends: one sweep. */
#include "passes/layout/layout.h"

#include "passes/simplify/simplify.h"

enum { PLAIN_KNOWN = 64 };

/* The layout that an array has inside the program. */
static const Shape *plain_shape(Intern *t, const Shape *s)
{
    if (shape_is_array(s)) {
        Layout l = *layout_default(t, s->rank);
        if (dtype_is_sub_byte(s->dtype))
            l.element_bits = dtype_info[s->dtype].bits;
        l.memory_space = s->layout->memory_space;
        return shape_with_layout(t, s, intern_layout(t, &l));
    }
    if (s->elements == NULL)
        return s;
    const Shape **elements =
        ARENA_ARRAY(intern_arena(t), const Shape *, (size_t)s->rank + 1);
    for (uint32_t i = 0; i < s->rank; i++)
        elements[i] = plain_shape(t, s->elements[i]);
    return shape_is_tuple(s) ? shape_tuple(t, s->rank, elements)
                             : shape_buffer(t, elements[0]);
}

static const Shape *dims_permuted(Intern *t, const Shape *s, const int64_t *order)
{
    int64_t *dims = ARENA_ARRAY(intern_arena(t), int64_t, (size_t)s->rank + 1);
    for (uint32_t i = 0; i < s->rank; i++)
        dims[i] = s->dims[order[i]];
    return plain_shape(t, shape_with_dims(t, s, s->rank, dims));
}

/* Dimensions from major to minor. */
static int64_t *major_to_minor(Arena *a, const Shape *s)
{
    int64_t *order = ARENA_ARRAY(a, int64_t, (size_t)s->rank + 1);
    for (uint32_t i = 0; i < s->rank; i++)
        order[i] = s->layout->minor_to_major[s->rank - 1 - i];
    return order;
}

static Instruction *add_transpose(Instruction *x, const int64_t *order,
                                  const Shape *shape)
{
    Instruction *t = computation_add(x->parent, OP_TRANSPOSE, shape, 1, &x, NULL);
    inst_set_ints(t, ATTR_DIMENSIONS, order, shape->rank);
    return t;
}

/* bitcast: f32[a,b]{0,1} -> f32[c,d]{0,1}. Into memory order, another shape, out again. */
static Instruction *expand_bitcast(Instruction *inst, const Shape *from, const Shape *to)
{
    Module *m = inst->parent->module;
    Intern *t = m->intern;
    Instruction *x = inst->operands[0];
    int64_t *order = major_to_minor(m->arena, from);
    if (!shape_is_row_major(from))
        x = add_transpose(x, order, dims_permuted(t, from, order));
    order = major_to_minor(m->arena, to);
    const Shape *memory = dims_permuted(t, to, order);
    const Shape *reshaped =
        plain_shape(t, shape_with_dims(t, x->shape, memory->rank, memory->dims));
    x = computation_add(inst->parent, OP_RESHAPE, reshaped, 1, &x, inst->name);
    if (from->dtype != to->dtype)
        x = computation_add(inst->parent, OP_BITCAST_CONVERT, memory, 1, &x, NULL);
    if (shape_is_row_major(to))
        return x;
    int64_t *inverse = ARENA_ARRAY(m->arena, int64_t, (size_t)to->rank + 1);
    for (uint32_t i = 0; i < to->rank; i++)
        inverse[order[i]] = i;
    return add_transpose(x, inverse, plain_shape(t, to));
}

/* A transpose whose result, in the layout of `wanted`, lies as its row-major operand does. */
static bool is_renaming(const Instruction *value, const Shape *wanted)
{
    if (value->op != OP_TRANSPOSE || !shape_is_row_major(value->operands[0]->shape) ||
        dtype_is_sub_byte(wanted->dtype))
        return false;
    Ints from = inst_ints(value, ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < wanted->rank; i++) {
        uint32_t at = (uint32_t)wanted->layout->minor_to_major[wanted->rank - 1 - i];
        if (from.data[at] != i)
            return false;
    }
    return true;
}

/* The value with every array in the layout of `wanted`. */
static Instruction *in_layout(Instruction *value, const Shape *wanted)
{
    Computation *comp = value->parent;
    if (value->shape == wanted || !shape_compatible(value->shape, wanted))
        return value;
    if (shape_is_array(wanted))
        return is_renaming(value, wanted)
                   ? computation_add(comp, OP_BITCAST, wanted, 1, value->operands, NULL)
                   : computation_add(comp, OP_COPY, wanted, 1, &value, NULL);
    if (!shape_is_tuple(wanted))
        return value;
    Arena *a = comp->module->arena;
    Instruction **elements = ARENA_ARRAY(a, Instruction *, (size_t)wanted->rank + 1);
    for (uint32_t i = 0; i < wanted->rank; i++) {
        Instruction *element = value->op == OP_TUPLE ? value->operands[i]
                                                     : computation_add_element(value, i);
        elements[i] = in_layout(element, wanted->elements[i]);
    }
    return computation_add(comp, OP_TUPLE, wanted, wanted->rank, elements, NULL);
}

/* One computation being laid out. */
typedef struct LayOut {
    Computation *comp;
    uint32_t count;        /* instructions before the pass */
    const Shape **old;     /* [count] their shapes before it */
    Instruction **forward; /* [count] what stands in for an instruction, or NULL */
    bool stands_in;        /* forward has any */
    bool changed;
    struct PlainShape {
        const Shape *of, *plain;
    } known[PLAIN_KNOWN]; /* by address: shapes are few, and each is asked for often */
} LayOut;

static const Shape *known_plain_shape(LayOut *l, const Shape *s)
{
    struct PlainShape *known = &l->known[(uintptr_t)s / sizeof *s % PLAIN_KNOWN];
    if (known->of != s)
        *known = (struct PlainShape){s, plain_shape(l->comp->module->intern, s)};
    return known->plain;
}

static void stand_in(LayOut *l, uint32_t id, Instruction *by)
{
    l->forward[id] = by;
    l->stands_in = l->changed = true;
}

/* Every array row-major, constants too; entry parameters are converted behind themselves. */
static void set_shapes(LayOut *l)
{
    Module *m = l->comp->module;
    for (uint32_t i = 0; i < l->count; i++) {
        Instruction *inst = l->comp->instructions[i];
        if (inst == NULL)
            continue;
        l->old[i] = inst->shape;
        const Shape *wanted = known_plain_shape(l, inst->shape);
        if (l->comp == m->entry && inst->op == OP_PARAMETER) {
            Instruction *plain = in_layout(inst, wanted);
            if (plain != inst)
                stand_in(l, i, plain);
            continue;
        }
        l->changed |= inst->shape != wanted;
        inst->shape = wanted;
        if (inst->op == OP_CONSTANT && inst->literal->shape != wanted) {
            Literal *copy = arena_copy(m->arena, inst->literal, sizeof *copy);
            copy->shape = wanted;
            inst->literal = copy;
        }
    }
}

static void expand_bitcasts(LayOut *l)
{
    if (!op_set_has(&l->comp->module->ops, OP_BITCAST))
        return;
    for (uint32_t i = 0; i < l->count; i++) {
        Instruction *inst = l->comp->instructions[i];
        if (inst == NULL || inst->op != OP_BITCAST || !shape_is_array(inst->shape))
            continue;
        const Shape *from = l->old[inst->operands[0]->id];
        const Shape *to = l->old[i];
        bool moves = !shape_is_row_major(from) || !shape_is_row_major(to) ||
                     from->dtype != to->dtype;
        if (moves && dtype_info[from->dtype].bits == dtype_info[to->dtype].bits)
            stand_in(l, i, expand_bitcast(inst, from, to));
    }
}

/* Users take what stands in. What was added reads a parameter itself - it is the conversion -
 * but what stands in for a bitcast. */
static void redirect(LayOut *l)
{
    Computation *comp = l->comp;
    for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            uint32_t id = inst->operands[k]->id;
            bool stands_in = id < l->count && l->forward[id] != NULL;
            if (stands_in &&
                (inst->id < l->count || comp->instructions[id]->op == OP_BITCAST))
                inst->operands[k] = l->forward[id];
        }
    }
    if (comp->root->id < l->count && l->forward[comp->root->id] != NULL)
        comp->root = l->forward[comp->root->id];
}

/* Sets *leaves: a transpose of the root may have no reader left. */
static bool lay_out(Computation *comp, Arena *scratch, bool *leaves)
{
    const Module *m = comp->module;
    const Shape *result = NULL;
    if (comp == m->entry)
        result =
            m->config.entry_result != NULL ? m->config.entry_result : comp->root->shape;
    LayOut l = {.comp = comp, .count = comp->instruction_count};
    l.old = ARENA_ARRAY(scratch, const Shape *, (size_t)l.count + 1);
    l.forward = ARENA_ARRAY(scratch, Instruction *, (size_t)l.count + 1);
    set_shapes(&l);
    expand_bitcasts(&l);
    if (l.stands_in)
        redirect(&l);
    if (result != NULL) {
        Instruction *root = in_layout(comp->root, result);
        l.changed |= root != comp->root;
        *leaves |= root != comp->root;
        comp->root = root;
    }
    return l.changed;
}

bool pass_layout(Module *m, PassContext *cx)
{
    bool changed = false, leaves = false;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp))
        changed |= lay_out(comp, cx->scratch, &leaves);
    if (changed)
        module_sort(m);
    if (leaves)
        pass_dce(m, cx);
    return changed;
}
