/* The rewrite driver. See rewrite.h. */
#include "passes/simplify/rewrite.h"

#include <string.h>

#include "ir/base/bug.h"
#include "passes/simplify/simplify.h"

/* -- making instructions ------------------------------------------------------------- */

static Instruction *annotate(Rewriter *r, Instruction *inst)
{
    if (!r->at || inst_has(inst, ATTR_METADATA))
        return inst;
    inst->span = r->at->span;
    const Attr *metadata = inst_attr(r->at, ATTR_METADATA);
    if (metadata)
        inst_set(inst, *metadata);
    return inst;
}

Instruction *rw_add(Rewriter *r, OpCode op, const Shape *shape, uint32_t operand_count,
                    Instruction *const *operands)
{
    return annotate(r,
                    computation_add(r->comp, op, shape, operand_count, operands, NULL));
}

Instruction *rw_unary(Rewriter *r, OpCode op, const Shape *shape, Instruction *a)
{
    return rw_add(r, op, shape, 1, &a);
}

Instruction *rw_binary(Rewriter *r, OpCode op, const Shape *shape, Instruction *a,
                       Instruction *b)
{
    Instruction *operands[2] = {a, b};
    return rw_add(r, op, shape, 2, operands);
}

Instruction *rw_compare(Rewriter *r, Instruction *a, Instruction *b, int64_t direction)
{
    const Shape *s = shape_with_dtype(r->m->intern, a->shape, DT_PRED);
    Instruction *c = rw_binary(r, OP_COMPARE, s, a, b);
    inst_set_int(c, ATTR_DIRECTION, direction);
    return c;
}

Instruction *rw_like(Rewriter *r, const Instruction *inst, const Shape *shape,
                     uint32_t operand_count, Instruction *const *operands)
{
    return annotate(r,
                    computation_add_like(r->comp, inst, shape, operand_count, operands));
}

Instruction *rw_constant(Rewriter *r, const Literal *l)
{
    return annotate(r, computation_add_constant(r->comp, l, NULL));
}

Instruction *rw_broadcast(Rewriter *r, const Shape *shape, Instruction *a, uint32_t count,
                          const int64_t *dims)
{
    if (a->shape == shape)
        return a;
    Instruction *b = rw_unary(r, OP_BROADCAST, shape, a);
    inst_set_ints(b, ATTR_DIMENSIONS, dims, count);
    return b;
}

static Instruction *splat(Rewriter *r, const Shape *shape, Literal *scalar)
{
    return rw_broadcast(r, shape, rw_constant(r, scalar), 0, NULL);
}

Instruction *rw_splat(Rewriter *r, const Shape *shape, double value)
{
    Literal *l = literal_create(r->m->arena, shape_scalar(r->m->intern, shape->dtype));
    literal_set_double(l, 0, value);
    return splat(r, shape, l);
}

Instruction *rw_splat_int(Rewriter *r, const Shape *shape, int64_t value)
{
    Literal *l = literal_create(r->m->arena, shape_scalar(r->m->intern, shape->dtype));
    literal_set_int(l, 0, value);
    return splat(r, shape, l);
}

Instruction *rw_reshape(Rewriter *r, const Shape *shape, Instruction *a)
{
    return a->shape == shape ? a : rw_unary(r, OP_RESHAPE, shape, a);
}

Instruction *rw_element(Rewriter *r, Instruction *tuple, uint32_t i)
{
    return annotate(r, computation_add_element(tuple, i));
}

const int64_t *rw_through(Rewriter *r, Ints names, Ints dims)
{
    int64_t *out = ARENA_ARRAY(r->scratch, int64_t, dims.count);
    for (uint32_t i = 0; i < dims.count; i++)
        out[i] = names.data[dims.data[i]];
    return out;
}

Instruction *rw_transpose(Rewriter *r, const Shape *shape, Instruction *a,
                          const int64_t *dims)
{
    Instruction *t = rw_unary(r, OP_TRANSPOSE, shape, a);
    inst_set_ints(t, ATTR_DIMENSIONS, dims, a->shape->rank);
    return t;
}

bool rw_is_identity(const int64_t *dims, uint32_t count)
{
    for (uint32_t d = 0; d < count; d++) {
        if (dims[d] != d)
            return false;
    }
    return true;
}

const Shape *rw_shape_in_order(Rewriter *r, const Shape *s, const int64_t *order)
{
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, s->rank);
    for (uint32_t d = 0; d < s->rank; d++)
        dims[d] = s->dims[order[d]];
    return rw_shape(r, s->dtype, s->rank, dims);
}

Instruction *rw_in_order(Rewriter *r, Instruction *a, const int64_t *order)
{
    return rw_transpose(r, rw_shape_in_order(r, a->shape, order), a, order);
}

void rw_set_cumulative(Rewriter *r, Instruction *windows, int64_t along, bool from_end)
{
    const Shape *x = windows->operands[0]->shape;
    WindowDim *dims = ARENA_ARRAY(r->m->arena, WindowDim, x->rank);
    for (uint32_t i = 0; i < x->rank; i++)
        dims[i] =
            (WindowDim){.size = 1, .stride = 1, .base_dilation = 1, .window_dilation = 1};
    dims[along].size = x->dims[along];
    *(from_end ? &dims[along].pad_high : &dims[along].pad_low) = x->dims[along] - 1;
    Window *w = ARENA_NEW(r->m->arena, Window);
    *w = (Window){x->rank, dims};
    inst_set(windows, (Attr){.id = ATTR_WINDOW, .window = w});
}

Instruction *rw_slice(Rewriter *r, const Shape *shape, Instruction *a,
                      const SliceDim *dims)
{
    Instruction *s = rw_unary(r, OP_SLICE, shape, a);
    inst_set_slice(s, dims, a->shape->rank);
    return s;
}

const int64_t *rw_cut_dims(Rewriter *r, const Shape *s, int64_t pieces)
{
    uint32_t last = s->rank - 1;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, s->rank + 1u);
    for (uint32_t d = 0; d < last; d++)
        dims[d] = s->dims[d];
    dims[last] = pieces;
    dims[last + 1] = s->dims[last] / pieces;
    return dims;
}

Instruction *rw_fill_up(Rewriter *r, Instruction *a, Instruction *fill, uint32_t dim,
                        int64_t more)
{
    const Shape *s = a->shape;
    if (more == 0)
        return a;
    PaddingDim *dims = ARENA_ARRAY(r->m->arena, PaddingDim, s->rank);
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, s->rank);
    for (uint32_t d = 0; d < s->rank; d++)
        sizes[d] = s->dims[d] + (d == dim ? more : 0);
    dims[dim].high = more;
    Padding *padding = ARENA_NEW(r->m->arena, Padding);
    *padding = (Padding){s->rank, dims};
    Instruction *pad =
        rw_binary(r, OP_PAD, shape_with_dims(r->m->intern, s, s->rank, sizes), a, fill);
    inst_set(pad, (Attr){.id = ATTR_PADDING, .padding = padding});
    return pad;
}

Instruction *rw_convert(Rewriter *r, const Shape *shape, Instruction *a)
{
    return a->shape->dtype == shape->dtype ? a : rw_unary(r, OP_CONVERT, shape, a);
}

Instruction *rw_in_type(Rewriter *r, Instruction *a, DType t)
{
    return rw_convert(r, shape_with_dtype(r->m->intern, a->shape, t), a);
}

Instruction *rw_rows(Rewriter *r, Instruction *x, Instruction *numbers)
{
    uint32_t rank = x->shape->rank;
    int64_t n = numbers->shape->dims[0];
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, rank);
    int64_t *offsets = ARENA_ARRAY(r->scratch, int64_t, rank);
    for (uint32_t d = 0; d < rank; d++) {
        sizes[d] = d == 0 ? n : x->shape->dims[d];
        offsets[d] = d + 1;
    }
    Instruction *at =
        rw_reshape(r, rw_shape(r, numbers->shape->dtype, 2, (int64_t[]){n, 1}), numbers);
    Instruction *rows =
        rw_binary(r, OP_GATHER, rw_shape(r, x->shape->dtype, rank, sizes), x, at);
    sizes[0] = 1;
    inst_set_ints(rows, ATTR_OFFSET_DIMS, offsets, rank - 1);
    inst_set_ints(rows, ATTR_COLLAPSED_SLICE_DIMS, &(int64_t){0}, 1);
    inst_set_ints(rows, ATTR_START_INDEX_MAP, &(int64_t){0}, 1);
    inst_set_int(rows, ATTR_INDEX_VECTOR_DIM, 1);
    inst_set_ints(rows, ATTR_SLICE_SIZES, sizes, rank);
    return rows;
}

const Shape *rw_shape(Rewriter *r, DType dtype, uint32_t rank, const int64_t *dims)
{
    return shape_array(r->m->intern, dtype, rank, dims, NULL, NULL);
}

Instruction *rw_in_layout(Rewriter *r, const Shape *s, Instruction *x)
{
    return x->shape == s ? x : rw_unary(r, OP_COPY, s, x);
}

Instruction *rw_as(const Instruction *like, Instruction *inst)
{
    return inst->shape == like->shape ? inst : NULL;
}

const Literal *rw_splat_of(const Instruction *inst)
{
    if (inst->op == OP_BROADCAST)
        inst = inst->operands[0];
    if (inst->op != OP_CONSTANT || !inst->literal || inst->literal->elided ||
        !shape_is_scalar(inst->shape))
        return NULL;
    return inst->literal;
}

bool rw_is_splat(const Instruction *inst, double value)
{
    const Literal *l = rw_splat_of(inst);
    return l && literal_is_all(l, value);
}

bool rw_is_static(const Shape *s)
{
    return shape_is_array(s) && !s->dynamic;
}

bool rw_is_zero_size(const Shape *s)
{
    for (uint32_t i = 0; i < s->rank; i++)
        if (s->dims[i] == 0)
            return true;
    return false;
}

Instruction *rw_spread(Rewriter *r, const Shape *shape, Instruction *a,
                       const int64_t *position)
{
    uint32_t rank = a->shape->rank, n = 0;
    int64_t *at = ARENA_ARRAY(r->scratch, int64_t, rank + 1u);
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, rank + 1u);
    int64_t *order = ARENA_ARRAY(r->scratch, int64_t, rank + 1u);
    for (uint32_t d = 0; d < rank; d++) {
        if (position[d] < 0)
            continue;
        sizes[n] = a->shape->dims[d];
        at[n++] = position[d];
    }
    a = rw_reshape(r, rw_shape(r, a->shape->dtype, n, sizes), a);
    bool is_sorted = true;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i;
        for (; k > 0 && at[order[k - 1]] > at[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
        is_sorted &= k == i;
    }
    int64_t *to = ARENA_ARRAY(r->scratch, int64_t, rank + 1u);
    for (uint32_t i = 0; i < n; i++)
        to[i] = at[order[i]];
    if (!is_sorted)
        a = rw_in_order(r, a, order);
    return rw_broadcast(r, shape, a, n, to);
}

const int64_t *rw_turned_dims(Rewriter *r, const Instruction *dot, bool back)
{
    uint32_t rank = dot->shape->rank, batch = inst_ints(dot, ATTR_LHS_BATCH_DIMS).count,
             left = dot->operands[0]->shape->rank - batch -
                    inst_ints(dot, ATTR_LHS_CONTRACTING_DIMS).count,
             first = back ? rank - batch - left : left;
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, (size_t)rank + 1);
    for (uint32_t d = 0; d < rank; d++) {
        uint32_t free = d - batch, count = rank - batch;
        dims[d] = d < batch ? d : batch + (free + first) % count;
    }
    return dims;
}

static void exchange(Instruction *dot, AttrId left, AttrId right)
{
    Ints l = inst_ints(dot, left), r = inst_ints(dot, right);
    if (l.count + r.count == 0)
        return;
    inst_set_ints(dot, left, r.data, r.count);
    inst_set_ints(dot, right, l.data, l.count);
}

Instruction *rw_turned_dot(Rewriter *r, const Instruction *dot, Instruction *left,
                           Instruction *right)
{
    const Shape *shape = rw_shape_in_order(r, dot->shape, rw_turned_dims(r, dot, false));
    Instruction *x = rw_like(r, dot, shape, 2, (Instruction *[]){left, right});
    inst_forget_shape_facts(x);
    exchange(x, ATTR_LHS_BATCH_DIMS, ATTR_RHS_BATCH_DIMS);
    exchange(x, ATTR_LHS_CONTRACTING_DIMS, ATTR_RHS_CONTRACTING_DIMS);
    Ints precision = inst_ints(x, ATTR_OPERAND_PRECISION);
    if (precision.count == 2)
        inst_set_ints(x, ATTR_OPERAND_PRECISION,
                      (int64_t[]){precision.data[1], precision.data[0]}, 2);
    return x;
}

Instruction *rw_sum(Rewriter *r, const Shape *shape, Instruction *a, uint32_t count,
                    const int64_t *dims)
{
    Computation *add = module_add_adder(r->m, a->shape->dtype);
    const Shape *s = add->root->shape;
    Instruction *sum = rw_binary(r, OP_REDUCE, shape, a, rw_splat(r, s, 0));
    inst_set_ints(sum, ATTR_DIMENSIONS, dims, count);
    inst_set_computation(sum, ATTR_TO_APPLY, add);
    return sum;
}

bool rw_same_but_ones(const Shape *a, const Shape *b)
{
    uint32_t i = 0, k = 0;
    for (;;) {
        while (i < a->rank && a->dims[i] == 1)
            i++;
        while (k < b->rank && b->dims[k] == 1)
            k++;
        if (i == a->rank || k == b->rank)
            return i == a->rank && k == b->rank;
        if (a->dims[i++] != b->dims[k++])
            return false;
    }
}

OpCode rw_reducer_op(const Computation *comp)
{
    const Instruction *root = comp->root;
    if (comp->parameter_count != 2 || root->operand_count != 2 ||
        !op_is(root->op, OPF_ELEMENTWISE))
        return OP_COUNT;
    const Instruction *a = root->operands[0], *b = root->operands[1];
    const Instruction *x = comp->parameters[0], *y = comp->parameters[1];
    if (a == x && b == y)
        return root->op;
    return a == y && b == x && op_is(root->op, OPF_COMMUTATIVE) ? root->op : OP_COUNT;
}

/* -- the driver --------------------------------------------------------------------------- */

typedef struct Tables {
    const Rule **by_op[OP_COUNT]; /* the rules of an opcode; ended by NULL */
} Tables;

static uint32_t rules_of(OpCode op, const Rule *const *tables, size_t table_count,
                         const Rule **out)
{
    uint32_t n = 0;
    for (size_t t = 0; t < table_count; t++)
        for (const Rule *rule = tables[t]; rule->apply; rule++)
            if (rule->op == op || rule->op == OP_COUNT) {
                if (out)
                    out[n] = rule;
                n++;
            }
    return n;
}

/* Whether the module may have an instruction that a rule is for. */
static bool any_offered(const Module *m, const Rule *const *tables, size_t table_count)
{
    bool any = false;
    for (size_t t = 0; t < table_count; t++)
        for (const Rule *rule = tables[t]; rule->apply; rule++)
            any |= rule->op == OP_COUNT || op_set_has(&m->ops, rule->op);
    return any;
}

static Tables *tables_create(Arena *a, const Rule *const *tables, size_t table_count)
{
    Tables *all = ARENA_NEW(a, Tables);
    for (int op = 0; op < OP_COUNT; op++) {
        uint32_t n = rules_of((OpCode)op, tables, table_count, NULL);
        all->by_op[op] = ARENA_ARRAY(a, const Rule *, (size_t)n + 1);
        rules_of((OpCode)op, tables, table_count, all->by_op[op]);
    }
    return all;
}

typedef struct Sweep {
    Rewriter r;
    const Tables *tables;
    Instruction **forward; /* by id */
    size_t forward_capacity;
    uint32_t old_count; /* instructions before the sweep */
    uint64_t budget;
    bool with_control;    /* instructions with control edges are offered, too */
    bool *is_awaited;     /* [old_count] others wait for it; NULL: for none */
    const Rule *last[10]; /* the rules used last, for the message at the cap */
    uint32_t used;
} Sweep;

static void forward_to(Sweep *s, const Instruction *from, Instruction *to)
{
    s->forward = arena_grow(s->r.scratch, s->forward, &s->forward_capacity,
                            s->r.comp->instruction_count, sizeof *s->forward);
    s->forward[from->id] = to;
}

static Instruction *resolve(const Sweep *s, Instruction *inst)
{
    while (inst->id < s->forward_capacity && s->forward[inst->id])
        inst = s->forward[inst->id];
    return inst;
}

static void count_rewrite(Sweep *s, const Rule *rule)
{
    s->last[s->used++ % 10] = rule;
    if (s->budget-- > 0)
        return;
    const char *text = "";
    for (uint32_t i = s->used; i < s->used + 10; i++)
        if (s->last[i % 10])
            text = arena_printf(s->r.scratch, "%s %s", text, s->last[i % 10]->name);
    bug("rewriting computation %s does not end; last rules:%s", s->r.comp->name, text);
}

static Instruction *rewrite_once(Sweep *s, Instruction *inst)
{
    s->r.at = inst;
    for (const Rule *const *rule = s->tables->by_op[inst->op]; *rule; rule++) {
        uint32_t count = s->r.comp->instruction_count;
        Instruction *by = (*rule)->apply(&s->r, inst);
        if (!by) { /* what it made before it saw that it does not apply */
            computation_remove_from(s->r.comp, count);
            continue;
        }
        if (by->shape != inst->shape)
            bug("rule %s gives %s for %s", (*rule)->name, by->name, inst->name);
        count_rewrite(s, *rule);
        return by;
    }
    return NULL;
}

/* Who waits for an instruction waits for what it is made of, too, of which nothing may be left in what replaces it. */
static bool has_control_edges(const Sweep *s, const Instruction *inst)
{
    return inst->control_count != 0 ||
           (s->is_awaited != NULL && inst->id < s->old_count && s->is_awaited[inst->id]);
}

/* A constant, perhaps everywhere, or a tuple that waits: a rule would do without it, and whoever reads the result would
 * not wait any more. */
static bool reads_waiting(const Instruction *inst)
{
    for (uint32_t k = 0; k < inst->operand_count; k++) {
        const Instruction *x = inst->operands[k];
        if (x->op == OP_BROADCAST && x->control_count == 0)
            x = x->operands[0];
        if (x->control_count != 0 &&
            (x->op == OP_CONSTANT || x->op == OP_BROADCAST || x->op == OP_TUPLE))
            return true;
    }
    return false;
}

static bool is_offered(const Sweep *s, const Instruction *inst)
{
    bool is_bound = has_control_edges(s, inst) || reads_waiting(inst);
    return (s->with_control || !is_bound) && inst->op != OP_PARAMETER &&
           !op_is(inst->op, OPF_EFFECT);
}

/* What stands for an instruction waits for what that waited for. */
static void wait_as(const Sweep *s, Instruction *by, const Instruction *inst)
{
    for (uint32_t k = 0; k < inst->control_count && by->id >= s->old_count; k++)
        inst_add_control(by, inst->control[k]);
}

const Uses *rw_uses(Rewriter *r)
{
    if (r->known == 0) {
        r->uses = uses_compute(r->comp, r->scratch);
        r->known = r->comp->instruction_count;
    }
    return &r->uses;
}

static bool sweep(Sweep *s)
{
    Computation *comp = s->r.comp;
    Arena *a = s->r.scratch;
    uint32_t n;
    s->r.known = 0;
    Instruction **order = computation_post_order(comp, a, &n);
    s->old_count = comp->instruction_count;
    s->is_awaited = simplify_awaited(comp, a);
    s->forward = ARENA_ARRAY(a, Instruction *, s->old_count);
    s->forward_capacity = s->old_count;
    bool changed = false;
    for (uint32_t i = 0; i < n; i++) {
        Instruction *inst = order[i];
        for (uint32_t k = 0; k < inst->operand_count; k++)
            inst->operands[k] = resolve(s, inst->operands[k]);
        while (is_offered(s, inst)) {
            Instruction *by = rewrite_once(s, inst);
            if (!by)
                break;
            changed = true;
            wait_as(s, by, inst);
            forward_to(s, inst, by);
            if (by->id < s->old_count)
                break; /* looked at before */
            inst = by;
        }
    }
    if (changed) {
        s->forward = arena_grow(a, s->forward, &s->forward_capacity,
                                comp->instruction_count, sizeof *s->forward);
        computation_replace(comp, s->forward);
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (s->forward[inst->id] && inst_called_count(inst) > 0)
                computation_remove(comp,
                                   inst); /* its effects live on in what replaces it */
        }
    }
    return changed;
}

/* Without the instructions that nobody uses any more, in topological order. */
static void tidy(Computation *comp, const Effects *has_effect, Arena *scratch)
{
    uint32_t n;
    Instruction **order = computation_post_order(comp, scratch, &n);
    bool *live = ARENA_ARRAY(scratch, bool, comp->instruction_count);
    live[comp->root->id] = true;
    for (uint32_t i = n; i-- > 0;) {
        Instruction *inst = order[i];
        live[inst->id] |= inst->op == OP_PARAMETER || !simplify_is_pure(inst, has_effect);
        if (!live[inst->id])
            continue;
        for (uint32_t k = 0; k < inst->operand_count; k++)
            live[inst->operands[k]->id] = true;
        for (uint32_t k = 0; k < inst->control_count; k++)
            live[inst->control[k]->id] = true;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!live[order[i]->id])
            computation_remove(comp, order[i]);
    computation_sort(comp);
}

static bool rewrite(Module *m, PassContext *cx, const Rule *const *tables,
                    size_t table_count, bool with_control)
{
    if (m->config.is_scheduled || !any_offered(m, tables, table_count))
        return false;
    const Tables *all = tables_create(cx->scratch, tables, table_count);
    const Effects *has_effect = simplify_effects(m, cx->scratch);
    bool changed = false;
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        if (comp->is_fused)
            continue;
        Sweep s = {.tables = all,
                   .with_control = with_control,
                   .budget = (uint64_t)comp->instruction_count * REWRITE_CAP + 1000};
        s.r = (Rewriter){.m = m, .comp = comp, .scratch = cx->scratch, .cx = cx};
        while (sweep(&s)) {
            changed = true;
            tidy(comp, has_effect, cx->scratch);
        }
    }
    return changed;
}

bool rewrite_module(Module *m, PassContext *cx, const Rule *const *tables,
                    size_t table_count)
{
    return rewrite(m, cx, tables, table_count, false);
}

bool rewrite_all(Module *m, PassContext *cx, const Rule *const *tables,
                 size_t table_count)
{
    return rewrite(m, cx, tables, table_count, true);
}

bool rewrite_programs(Module *m, PassContext *cx, ProgramFn *by)
{
    bool changed = false;
    Computations programs = module_programs(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++)
        changed |= by(programs.data[c], cx);
    if (changed) {
        module_sort(m);
        pass_dce(m, cx);
    }
    return changed;
}
