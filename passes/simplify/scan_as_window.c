/* An associative scan as windows that reach from one end, which kernels make in one pass:
 *
 *   (y, c) = scan(x, broadcast(c0)), dimensions={1}, num_carries=1, is_associative=true, to_apply=f
 *     =>  y = reduce-window(x, c0), window={size=1xn pad=0_0x(n-1)_0}, to_apply=g;  c = y[:, n-1]
 *
 * g is f on scalars, its operands the other way round. What f gives must be its carries, as in all cumulative
 * sums and the like, and it must go element by element. From the other end the order of operands turns round,
 * too: x is then reversed, unless the order means nothing.
 *
 * What the text says is not believed where a few numbers show that it is wrong: such a scan keeps its order. */
#include <math.h>

#include "ir/eval/eval.h"
#include "ir/kernel/element.h"
#include "passes/simplify/expand.h"

typedef struct Associative {
    Rewriter *r;
    const Instruction *inst;
    const Computation *step;
    uint32_t count; /* arrays, outputs, carries */
    int64_t d, n;
} Associative;

/* -- the step on scalars ----------------------------------------------------------------------------- */

/* The scalar that is every element; NULL: it is not known. */
static Instruction *scalar_of(Rewriter *r, Instruction *inst)
{
    if (inst->shape->rank == 0)
        return inst;
    if (inst->op == OP_BROADCAST && inst->operands[0]->shape->rank == 0)
        return inst->operands[0];
    const Literal *l = rw_splat_of(inst);
    return l != NULL ? rw_constant(r, l) : NULL;
}

static bool same_dims(const Shape *a, const Shape *b)
{
    bool same = shape_is_array(a) && a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = a->dims[i] == b->dims[i];
    return same;
}

/* What `from` of the step becomes in g; NULL: it has no meaning on one element. */
static Instruction *as_scalar(const Associative *s, Computation *g, Instruction **made,
                              const Instruction *from)
{
    const Shape *slice = s->step->parameters[0]->shape;
    const Shape *scalar = shape_scalar(s->r->m->intern, from->shape->dtype);
    Instruction **operands =
        ARENA_ARRAY(s->r->scratch, Instruction *, (size_t)from->operand_count + 1);
    const Literal *l = rw_splat_of(from);
    if (l != NULL)
        return computation_add_constant(g, l, NULL);
    for (uint32_t i = 0; i < from->operand_count; i++) {
        operands[i] = made[from->operands[i]->id];
        if (operands[i] == NULL)
            return NULL;
    }
    if (from->op == OP_BROADCAST)
        return from->operands[0]->shape->rank == 0 ? operands[0] : NULL;
    if (!op_is(from->op, OPF_ELEMENTWISE) || op_is(from->op, OPF_EFFECT | OPF_RANDOM) ||
        !(same_dims(from->shape, slice) || from->shape->rank == 0))
        return NULL;
    return computation_add_like(g, from, scalar, from->operand_count, operands);
}

static Instruction *result_of(const Instruction *root, uint32_t i)
{
    return root->op == OP_TUPLE ? root->operands[i] : (Instruction *)(uintptr_t)root;
}

/* Takes the carries first; NULL: there is none. */
static Computation *scalar_step(const Associative *s)
{
    Rewriter *r = s->r;
    const Computation *f = s->step;
    Computation *g = module_add_computation(r->m, "scan_step");
    Instruction **made =
        ARENA_ARRAY(r->scratch, Instruction *, f->instruction_count + 1u);
    Instruction **roots = ARENA_ARRAY(r->scratch, Instruction *, s->count);
    const Shape **leaves = ARENA_ARRAY(r->scratch, const Shape *, s->count);
    for (uint32_t i = 0; i < 2 * s->count; i++) {
        const Instruction *p = f->parameters[(i + s->count) % (2 * s->count)];
        const Shape *scalar = shape_scalar(r->m->intern, p->shape->dtype);
        made[p->id] = computation_add_parameter(g, i, scalar, NULL);
    }
    for (const Instruction *i = inst_first(f); i; i = inst_next(i)) {
        if (i->op != OP_PARAMETER && !(i->op == OP_TUPLE && i == f->root))
            made[i->id] = as_scalar(s, g, made, i);
    }
    for (uint32_t i = 0; i < s->count; i++) {
        roots[i] = made[result_of(f->root, i)->id];
        if (roots[i] == NULL)
            return NULL;
        leaves[i] = roots[i]->shape;
    }
    g->root = roots[0];
    if (s->count > 1)
        g->root =
            computation_add(g, OP_TUPLE, shape_tuple(r->m->intern, s->count, leaves),
                            s->count, roots, NULL);
    return g;
}

/* -- is it associative? ------------------------------------------------------------------------------ */

static Instruction *sample(const Associative *s, const Shape *scalar, int64_t value)
{
    Literal *l = literal_create(s->r->m->arena, scalar);
    if (dtype_is_float(scalar->dtype))
        literal_set_double(l, 0, (double)value);
    else
        literal_set_int(l, 0, value);
    return rw_constant(s->r, l);
}

static Instruction *apply(const Associative *s, Computation *g, Instruction *a,
                          Instruction *b)
{
    Instruction *operands[2] = {a, b};
    Instruction *call = rw_add(s->r, OP_CALL, a->shape, 2, operands);
    inst_set_computation(call, ATTR_TO_APPLY, g);
    return call;
}

/* (a b) c and a (b c) differ by more than rounding. Of one array of numbers only. */
static bool is_refuted(const Associative *s, Computation *g)
{
    enum { MOST_STEPS = 10000 };
    static const int64_t values[][3] = {{3, -5, 2}, {-1, 2, -4}, {1, 0, 2}};
    const Shape *scalar = g->root->shape;
    if (s->count != 1 || (!dtype_is_float(scalar->dtype) && scalar->dtype != DT_S32 &&
                          scalar->dtype != DT_S64))
        return false;
    uint32_t first = s->r->comp->instruction_count;
    bool differs = false;
    for (size_t i = 0; i < sizeof values / sizeof *values && !differs; i++) {
        Instruction *x[3];
        for (uint32_t k = 0; k < 3; k++)
            x[k] = sample(s, scalar, values[i][k]);
        Instruction *left = apply(s, g, apply(s, g, x[0], x[1]), x[2]);
        Instruction *right = apply(s, g, x[0], apply(s, g, x[1], x[2]));
        const Literal *l = evaluate_constant(s->r->scratch, left, 1, MOST_STEPS);
        const Literal *r = evaluate_constant(s->r->scratch, right, 1, MOST_STEPS);
        double a = l == NULL ? 0 : literal_double(l, 0),
               b = r == NULL ? 0 : literal_double(r, 0);
        double error = fabs(a - b), most = fabs(a) > fabs(b) ? fabs(a) : fabs(b);
        differs = error > 0.1 * most; /* not where one is NaN or both are infinite */
    }
    computation_remove_from(s->r->comp, first);
    return differs;
}

/* -- the windows ----------------------------------------------------------------------------------------- */

static Instruction *reversed(const Associative *s, Instruction *x)
{
    Instruction *v = rw_unary(s->r, OP_REVERSE, x->shape, x);
    inst_set_ints(v, ATTR_DIMENSIONS, &s->d, 1);
    return v;
}

/* y[.., end, ..] */
static Instruction *last(const Associative *s, Instruction *y, const Shape *wanted,
                         bool is_reverse)
{
    Rewriter *r = s->r;
    uint32_t rank = y->shape->rank;
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, rank),
            at = is_reverse ? 0 : s->n - 1;
    SliceDim *dims = ARENA_ARRAY(r->scratch, SliceDim, rank);
    for (uint32_t i = 0; i < rank; i++) {
        bool is_cut = (int64_t)i == s->d;
        sizes[i] = is_cut ? 1 : y->shape->dims[i];
        dims[i] = (SliceDim){is_cut ? at : 0, is_cut ? at + 1 : sizes[i], 1};
    }
    const Shape *part = rw_shape(r, y->shape->dtype, rank, sizes);
    return rw_reshape(r, wanted, rw_slice(r, part, y, dims));
}

static bool fits(const Associative *s)
{
    const Instruction *inst = s->inst;
    uint32_t n = s->count;
    bool good = inst_bool(inst, ATTR_IS_ASSOCIATIVE) && n > 0 && s->n > 0 &&
                inst->operand_count == 2 * n && shape_is_tuple(inst->shape) &&
                inst->shape->rank == 2 * n && s->step->root->op == OP_TUPLE &&
                s->step->parameter_count == 2 * n;
    for (uint32_t i = 0; good && i < n; i++) {
        const Instruction *x = inst->operands[i], *root = s->step->root;
        good = root->operands[i] == root->operands[n + i] && rw_is_static(x->shape) &&
               x->shape->dims[s->d] == s->n &&
               shape_compatible(x->shape, inst->shape->elements[i]) &&
               shape_compatible(inst->operands[n + i]->shape,
                                inst->shape->elements[n + i]) &&
               same_dims(s->step->parameters[i]->shape, s->step->parameters[0]->shape) &&
               same_dims(x->shape, inst->operands[0]->shape);
    }
    return good;
}

Instruction *scan_as_window(Rewriter *r, Instruction *inst)
{
    Associative s = {.r = r, .inst = inst, .step = inst_called(inst, 0)};
    s.count = (uint32_t)inst_int(inst, ATTR_NUM_CARRIES, 0);
    s.d = inst_ints(inst, ATTR_DIMENSIONS).data[0];
    if (inst->operand_count == 0 || s.count == 0)
        return NULL;
    s.n = inst->operands[0]->shape->dims[s.d];
    if (!fits(&s))
        return NULL;
    uint32_t n = s.count;
    Instruction **operands = ARENA_ARRAY(r->scratch, Instruction *, 2 * (size_t)n);
    Instruction **parts = ARENA_ARRAY(r->scratch, Instruction *, 2 * (size_t)n);
    const Shape **leaves = ARENA_ARRAY(r->scratch, const Shape *, n);
    for (uint32_t i = 0; i < n; i++) {
        operands[n + i] = scalar_of(r, inst->operands[n + i]);
        if (operands[n + i] == NULL)
            return NULL;
        leaves[i] = inst->shape->elements[i];
    }
    Computation *g = scalar_step(&s);
    if (g == NULL || is_refuted(&s, g))
        return NULL;
    bool is_reverse = inst_bool(inst, ATTR_IS_REVERSE);
    bool turns = is_reverse && !computation_is_simple(g, n);
    bool from_end = is_reverse && !turns;
    for (uint32_t i = 0; i < n; i++)
        operands[i] = turns ? reversed(&s, inst->operands[i]) : inst->operands[i];
    const Shape *shape = n == 1 ? leaves[0] : shape_tuple(r->m->intern, n, leaves);
    Instruction *windows = rw_add(r, OP_REDUCE_WINDOW, shape, 2 * n, operands);
    rw_set_cumulative(r, windows, s.d, from_end);
    inst_set_computation(windows, ATTR_TO_APPLY, g);
    for (uint32_t i = 0; i < n; i++) {
        Instruction *y = n == 1 ? windows : rw_element(r, windows, i);
        parts[n + i] = last(&s, y, inst->shape->elements[n + i], from_end);
        parts[i] = turns ? reversed(&s, y) : y;
    }
    return rw_add(r, OP_TUPLE, inst->shape, 2 * n, parts);
}
