/* Arrays of dynamic size become arrays at their bounds, with their sizes beside them as s32
 * values; what lies beyond the sizes is masked where it would be read.
 *
 *   d = f32[<=8] set-dimension-size(x, n), dimensions={0}
 *   s = f32[] reduce(d, zero), dimensions={0}, to_apply=add
 *     =>  m = pred[8] compare(iota, broadcast(n)), direction=LT
 *         s = f32[] reduce(select(m, x, zero), zero), dimensions={0}, to_apply=add
 *
 * Where a value crosses the boundary of a computation or lies in a tuple, an array of dynamic size
 * is a tuple of the array and its sizes, so that indices into tuples stay as they are.
 *
 * Needs: calls inlined, dynamic-interface. Keeps: what lies within the sizes. Ends: one sweep. */
#include <string.h>

#include "passes/dynamic/sized.h"

/* -- shapes ------------------------------------------------------------------------------------ */

/* Whatever is handed on as one value: an array of dynamic size is a tuple of the array at its
 * bounds and an s32 for each dimension. */
static const Shape *sized_form(Intern *t, const Shape *s)
{
    if (!shape_is_dynamic(s))
        return s;
    if (!shape_is_tuple(s) && !shape_is_array(s))
        return s;
    bool is_array = shape_is_array(s);
    uint32_t n = is_array ? s->rank + 1 : s->rank;
    const Shape **elements = ARENA_ARRAY(intern_arena(t), const Shape *, n);
    for (uint32_t i = 0; i < n; i++)
        elements[i] = !is_array ? sized_form(t, s->elements[i])
                      : i == 0  ? dynamic_bounds(t, s)
                                : shape_scalar(t, DT_S32);
    return shape_tuple(t, n, elements);
}

/* Dynamic where one of them is. */
static const Shape *join_shapes(Intern *t, const Shape *a, const Shape *b)
{
    if (a == b || !shape_compatible(a, b))
        return a;
    if (shape_is_tuple(a)) {
        const Shape **elements =
            ARENA_ARRAY(intern_arena(t), const Shape *, a->rank + 1u);
        for (uint32_t i = 0; i < a->rank; i++)
            elements[i] = join_shapes(t, a->elements[i], b->elements[i]);
        return shape_tuple(t, a->rank, elements);
    }
    if (!shape_is_array(a) || b->dynamic == NULL)
        return a;
    bool *dynamic = ARENA_ARRAY(intern_arena(t), bool, a->rank + 1u);
    for (uint32_t d = 0; d < a->rank; d++)
        dynamic[d] = b->dynamic[d] || (a->dynamic != NULL && a->dynamic[d]);
    return shape_array(t, a->dtype, a->rank, a->dims, dynamic, a->layout);
}

/* -- values ------------------------------------------------------------------------------------ */

static Sized *value_of(Statics *st, const Shape *s, Instruction *inst,
                       Instruction **sizes)
{
    Sized *v = ARENA_NEW(st->r.scratch, Sized);
    *v = (Sized){s, inst, sizes};
    return v;
}

static Instruction *element(Statics *st, Instruction *tuple, uint32_t i)
{
    if (tuple->op == OP_TUPLE)
        return tuple->operands[i];
    return rw_element(&st->r, tuple, i);
}

Instruction *sized_size(Statics *st, const Sized *x, uint32_t d)
{
    return sized_has(x, d) ? x->sizes[d]
                           : rw_splat_int(&st->r, shape_scalar(st->r.m->intern, DT_S32),
                                          x->shape->dims[d]);
}

/* The other way round: an instruction of the form of s. */
static Sized *unpack(Statics *st, Instruction *inst, const Shape *s)
{
    if (!shape_is_array(s) || !shape_is_dynamic(s))
        return value_of(st, s, inst, NULL);
    Instruction **sizes = ARENA_ARRAY(st->r.scratch, Instruction *, s->rank + 1u);
    for (uint32_t d = 0; d < s->rank; d++)
        sizes[d] = s->dynamic[d] ? element(st, inst, d + 1) : NULL;
    return value_of(st, s, element(st, inst, 0), sizes);
}

/* One instruction of the form of `wanted`, which is compatible with the value's shape. */
static Instruction *pack(Statics *st, const Sized *v, const Shape *wanted)
{
    Intern *t = st->r.m->intern;
    const Shape *form = sized_form(t, wanted);
    if (shape_is_array(wanted) && !shape_is_dynamic(wanted))
        return v->inst;
    if (!shape_is_array(wanted) && v->inst->shape == form)
        return v->inst;
    if (!shape_is_array(wanted) && !shape_is_tuple(wanted))
        return v->inst;
    uint32_t n = form->rank;
    Instruction **parts = ARENA_ARRAY(st->r.scratch, Instruction *, n + 1u);
    for (uint32_t i = 0; i < n; i++) {
        if (shape_is_array(wanted))
            parts[i] = i == 0 ? v->inst : sized_size(st, v, i - 1);
        else
            parts[i] =
                pack(st, unpack(st, element(st, v->inst, i), v->shape->elements[i]),
                     wanted->elements[i]);
    }
    return rw_add(&st->r, OP_TUPLE, form, n, parts);
}

/* -- what hands values on ------------------------------------------------------------------------ */

static void set_operand(Instruction *inst, uint32_t i, Instruction *to)
{
    inst->operands[i] = to;
}

static Sized *become(Statics *st, Instruction *inst, const Shape *s)
{
    inst->shape = sized_form(st->r.m->intern, s);
    return unpack(st, inst, s);
}

static Sized *hand_on(Statics *st, Instruction *inst, Sized *const *x)
{
    set_operand(inst, 0, pack(st, x[0], x[0]->shape));
    for (uint32_t i = 1; i < inst->operand_count; i++)
        set_operand(inst, i, x[i]->inst);
    return become(st, inst, x[0]->shape);
}

static Sized *tuple(Statics *st, Instruction *inst, Sized *const *x)
{
    const Shape **shapes =
        ARENA_ARRAY(st->r.scratch, const Shape *, inst->operand_count + 1u);
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        shapes[i] = x[i]->shape;
        set_operand(inst, i, pack(st, x[i], x[i]->shape));
    }
    return become(st, inst, shape_tuple(st->r.m->intern, inst->operand_count, shapes));
}

static Sized *get_element(Statics *st, Instruction *inst, Sized *const *x)
{
    set_operand(inst, 0, x[0]->inst);
    return become(st, inst, x[0]->shape->elements[inst_int(inst, ATTR_INDEX, 0)]);
}

/* What the computations give and take in the language's terms: by Computation.id. */
typedef struct Boundaries {
    Sized **roots;
    const Shape **(*parameters); /* [computation][parameter] */
    Statics *states;
} Boundaries;

static void set_root(Boundaries *b, Computation *comp, const Shape *wanted)
{
    Statics *st = &b->states[comp->id];
    comp->root = pack(st, b->roots[comp->id], wanted);
}

/* Whoever takes a value as `wanted` gets all of its sizes; else a message, for they would be lost. */
static bool takes_sizes(Statics *st, const Instruction *inst, const Shape *wanted,
                        const Shape *value)
{
    if (join_shapes(st->r.m->intern, wanted, value) == wanted)
        return true;
    diag_unsupported(st->r.m->diag, inst->span,
                     "%s: %s of an array of dynamic size that is declared static",
                     inst->name, op_info[inst->op].name);
    return false;
}

static Sized *loop(Statics *st, Boundaries *b, Instruction *inst, Sized *const *x)
{
    Computation *body = inst_called(inst, 1);
    const Shape *s = b->parameters[body->id][0];
    if (!takes_sizes(st, inst, s, x[0]->shape) ||
        !takes_sizes(st, inst, s, b->roots[body->id]->shape))
        return NULL;
    set_root(b, body, s);
    set_operand(inst, 0, pack(st, x[0], s));
    return become(st, inst, s);
}

/* A call, or a conditional, whose operand 0 says which branch. */
static Sized *branch(Statics *st, Boundaries *b, Instruction *inst, Sized *const *x)
{
    Intern *t = st->r.m->intern;
    bool is_call = inst->op == OP_CALL;
    const Shape *s = inst->shape;
    uint32_t n = inst_called_count(inst);
    for (uint32_t i = 0; i < n; i++)
        s = join_shapes(t, s, b->roots[inst_called(inst, i)->id]->shape);
    for (uint32_t i = 0; i < n; i++)
        set_root(b, inst_called(inst, i), s);
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const Computation *callee = inst_called(inst, is_call || i == 0 ? 0 : i - 1);
        if ((is_call || i > 0) &&
            !takes_sizes(st, inst, b->parameters[callee->id][is_call ? i : 0],
                         x[i]->shape))
            return NULL;
        set_operand(inst, i,
                    is_call || i > 0
                        ? pack(st, x[i], b->parameters[callee->id][is_call ? i : 0])
                        : x[i]->inst);
    }
    return become(st, inst, s);
}

/* -- the sweep ----------------------------------------------------------------------------------- */

static bool is_dynamic(const Sized *x)
{
    bool any = false;
    for (uint32_t d = 0; x->sizes != NULL && d < x->inst->shape->rank; d++)
        any = any || x->sizes[d] != NULL;
    return any;
}

/* What is about sizes itself, of whatever arrays. */
static bool asks_for_sizes(const Instruction *inst)
{
    return shape_is_dynamic(inst->shape) || inst->op == OP_SET_DIMENSION_SIZE ||
           inst->op == OP_GET_DIMENSION_SIZE || inst->op == OP_DYNAMIC_RESHAPE ||
           custom_call_has_target(inst, "PadToStatic") ||
           custom_call_has_target(inst, "SliceToDynamic");
}

static bool has_sizes(const Instruction *inst, Sized *const *x)
{
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (is_dynamic(x[i]) || x[i]->inst->shape != inst->operands[i]->shape)
            return true;
    }
    return asks_for_sizes(inst);
}

/* The bounds of s, dynamic where there are sizes. */
static const Shape *leaf_shape(Statics *st, const Shape *s, Instruction **sizes)
{
    bool *dynamic = ARENA_ARRAY(st->r.scratch, bool, s->rank + 1u), any = false;
    for (uint32_t d = 0; sizes != NULL && d < s->rank; d++)
        any |= dynamic[d] = sizes[d] != NULL;
    return shape_array(st->r.m->intern, s->dtype, s->rank, s->dims, any ? dynamic : NULL,
                       s->layout);
}

static Sized *by_rule(Statics *st, Instruction *inst, Sized *const *x)
{
    SizedRule *rule = sized_rule(inst);
    size_t n = shape_leaf_count(inst->shape);
    Sized *leaves = ARENA_ARRAY(st->r.scratch, Sized, n + 1);
    if (rule == NULL || !rule(st, inst, x, leaves)) {
        diag_unsupported(st->r.m->diag, inst->span, "%s: %s of an array of dynamic size",
                         inst->name, op_info[inst->op].name);
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        leaves[i].shape = leaf_shape(st, shape_leaf(inst->shape, i), leaves[i].sizes);
    if (!shape_is_tuple(inst->shape))
        return arena_copy(st->r.scratch, leaves, sizeof *leaves);
    Instruction **parts = ARENA_ARRAY(st->r.scratch, Instruction *, n + 1);
    const Shape **shapes = ARENA_ARRAY(st->r.scratch, const Shape *, n + 1);
    for (size_t i = 0; i < n; i++) {
        shapes[i] = leaves[i].shape;
        parts[i] = pack(st, &leaves[i], leaves[i].shape);
    }
    const Shape *s = shape_tuple(st->r.m->intern, (uint32_t)n, shapes);
    Instruction *all =
        rw_add(&st->r, OP_TUPLE, sized_form(st->r.m->intern, s), (uint32_t)n, parts);
    return value_of(st, s, all, NULL);
}

static Sized *as_it_is(Statics *st, Instruction *inst, Sized *const *x)
{
    for (uint32_t i = 0; i < inst->operand_count; i++)
        set_operand(inst, i, x[i]->inst);
    return value_of(st, inst->shape, inst, NULL);
}

static Sized *visit(Statics *st, Boundaries *b, Instruction *inst)
{
    Sized **x = ARENA_ARRAY(st->r.scratch, Sized *, inst->operand_count + 1u);
    for (uint32_t i = 0; i < inst->operand_count; i++)
        x[i] = st->values[inst->operands[i]->id];
    st->r.at = inst;
    switch (inst->op) {
    case OP_PARAMETER:
        return become(st, inst, b->parameters[st->r.comp->id][inst->parameter]);
    case OP_TUPLE:
        return tuple(st, inst, x);
    case OP_GET_TUPLE_ELEMENT:
        return get_element(st, inst, x);
    case OP_WHILE:
        return loop(st, b, inst, x);
    case OP_CALL:
    case OP_CONDITIONAL:
        return branch(st, b, inst, x);
    case OP_OPT_BARRIER:
    case OP_ADD_DEPENDENCY:
        return hand_on(st, inst, x);
    case OP_COPY:
    case OP_DOMAIN:
        return has_sizes(inst, x) ? x[0] : as_it_is(st, inst, x);
    default:
        return has_sizes(inst, x) ? by_rule(st, inst, x) : as_it_is(st, inst, x);
    }
}

/* An instruction that was made for an old one waits where that waited; who waited for it waits for its
 * array. What was there before (a size that is asked for) does not: what it would wait for may need it.
 * had: [n] how many instructions there were before each was visited */
static void move_control(Statics *st, Instruction *const *order, const uint32_t *had,
                         uint32_t n)
{
    Computation *comp = st->r.comp;
    Instruction **forward =
        ARENA_ARRAY(st->r.scratch, Instruction *, comp->instruction_count + 1u);
    for (uint32_t i = 0; i < n; i++) {
        Instruction *old = order[i], *now = st->values[old->id]->inst;
        bool stays = now == old || old->op == OP_PARAMETER ||
                     (now->operand_count > 0 && now->operands[0] == old);
        if (stays)
            continue;
        forward[old->id] = now;
        if (now->id >= had[i] && now->control_count == 0) {
            now->control = old->control;
            now->control_count = old->control_count;
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        if (forward[order[i]->id] != NULL)
            computation_remove(comp, order[i]);
    }
    computation_replace(comp, forward);
}

static bool sweep(Statics *st, Boundaries *b)
{
    Computation *comp = st->r.comp;
    const Shape *declared = comp->root->shape;
    uint32_t n;
    Instruction **order = computation_post_order(comp, st->r.scratch, &n);
    uint32_t *had = ARENA_ARRAY(st->r.scratch, uint32_t, n + 1u);
    st->values = ARENA_ARRAY(st->r.scratch, Sized *, comp->instruction_count + 1u);
    for (uint32_t i = 0; i < n; i++) {
        had[i] = comp->instruction_count;
        Sized *v = visit(st, b, order[i]);
        if (v == NULL)
            return false;
        st->values[order[i]->id] = v;
    }
    Sized *root = st->values[comp->root->id];
    b->roots[comp->id] = root;
    /* the caller of the program gets what is declared: its sizes are dynamic-interface's */
    bool is_entry = comp == comp->module->entry;
    comp->root = pack(st, root, is_entry ? declared : root->shape);
    move_control(st, order, had, n);
    return true;
}

/* -- the module ---------------------------------------------------------------------------------- */

static bool has_dynamic(const Module *m)
{
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (asks_for_sizes(inst))
                return true;
        }
    }
    return false;
}

/* What is declared, dynamic also where what it is made of says so. */
static const Shape *stated_shape(Intern *t, const Instruction *inst)
{
    if (inst->op == OP_TUPLE) {
        const Shape **elements =
            ARENA_ARRAY(intern_arena(t), const Shape *, inst->operand_count + 1u);
        for (uint32_t i = 0; i < inst->operand_count; i++)
            elements[i] = stated_shape(t, inst->operands[i]);
        return join_shapes(t, inst->shape, shape_tuple(t, inst->operand_count, elements));
    }
    if (inst->op != OP_SET_DIMENSION_SIZE)
        return inst->shape;
    const Shape *s = inst->shape;
    const Instruction *size = inst->operands[1];
    int64_t d = inst_ints(inst, ATTR_DIMENSIONS).data[0];
    if (size->op == OP_CONSTANT && literal_int(size->literal, 0) == s->dims[d])
        return s;
    bool *dynamic = ARENA_ARRAY(intern_arena(t), bool, s->rank + 1u);
    for (uint32_t k = 0; k < s->rank; k++)
        dynamic[k] = k == d || (s->dynamic != NULL && s->dynamic[k]);
    return shape_array(t, s->dtype, s->rank, s->dims, dynamic, s->layout);
}

/* A parameter is dynamic where an operand says so. */
static void join_operands(Boundaries *b, Intern *t, const Instruction *inst)
{
    bool is_call = inst->op == OP_CALL;
    for (uint32_t i = is_call ? 0 : 1; i < inst->operand_count; i++) {
        const Computation *callee = inst_called(inst, is_call ? 0 : i - 1);
        const Shape **s = &b->parameters[callee->id][is_call ? i : 0];
        *s = join_shapes(t, *s, stated_shape(t, inst->operands[i]));
    }
}

/* A loop's state is dynamic where one of those that it goes through says so. */
static void join_loops(Boundaries *b, const Computation *comp)
{
    Intern *t = comp->module->intern;
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        if (inst->op == OP_CALL || inst->op == OP_CONDITIONAL)
            join_operands(b, t, inst);
        if (inst->op != OP_WHILE)
            continue;
        Computation *condition = inst_called(inst, 0), *body = inst_called(inst, 1);
        const Shape *s = join_shapes(t, inst->shape, stated_shape(t, inst->operands[0]));
        s = join_shapes(t, s, b->parameters[body->id][0]);
        s = join_shapes(t, s, b->parameters[condition->id][0]);
        s = join_shapes(t, s, stated_shape(t, body->root));
        b->parameters[body->id][0] = b->parameters[condition->id][0] = s;
    }
}

static Boundaries boundaries_create(Module *m, PassContext *cx)
{
    Boundaries b = {.roots =
                        ARENA_ARRAY(cx->scratch, Sized *, m->computation_count + 1u)};
    b.parameters = ARENA_ARRAY(cx->scratch, const Shape **, m->computation_count + 1u);
    b.states = ARENA_ARRAY(cx->scratch, Statics, m->computation_count + 1u);
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        b.states[comp->id].r = (Rewriter){.m = m, .comp = comp, .scratch = cx->scratch};
        b.parameters[comp->id] =
            ARENA_ARRAY(cx->scratch, const Shape *, comp->parameter_count + 1u);
        for (uint32_t i = 0; i < comp->parameter_count; i++)
            b.parameters[comp->id][i] = comp->parameters[i]->shape;
    }
    for (const Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        join_loops(&b, comp);
    }
    return b;
}

bool pass_static_shapes(Module *m, PassContext *cx)
{
    if (!has_dynamic(m))
        return false;
    m->config.is_scheduled = false; /* there will be others to schedule */
    module_sort(m);
    Boundaries b = boundaries_create(m, cx);
    Computations programs = module_programs(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++) {
        if (!sweep(&b.states[programs.data[c]->id], &b))
            return true;
    }
    module_sort(m);
    return true;
}
