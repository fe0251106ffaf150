/* Gradients of layer and RMS norms of as many elements as --set=library-norm-elements says are cuDNN's, which makes all
 * of one at once: dx, dscale and dbias. They are known by what they compute (ir/kernel/norm_gradient.h), so what
 * takes their place is written anew:
 *
 *   dx = f32[8,64] add(multiply(g, inverse), ...)
 *   ->  fused { p0 ... ROOT t = tuple(dx, dscale, dbias) }
 *       t = (f32[8,64], f32[64], f32[64]) fusion(x, scale, dy, inverse, mean), kind=kCustom, calls=fused,
 *           backend_config={"library":"cudnn"}
 *       dx = f32[8,64] get-tuple-element(t), index=0
 *
 * Needs: laid out. Keeps: values but for the order and the rounding of sums. Ends: one sweep. */
#include "ir/kernel/norm.h"
#include "ir/kernel/norm_gradient.h"
#include "ir/kernel/norm_steps.h"
#include "passes/library/graphs.h"
#include "passes/library/norms.h"
#include "passes/settings.h"
#include "passes/simplify/rewrite.h"

enum { MOST_NEAR = 192, MOST_PAIRS = 8, PAIR_DEPTH = 3, RESULTS = 3 };

/* A gradient; made[i] NULL: nobody needs it. */
typedef struct Found {
    NormGradient gradient;
    Instruction *made[RESULTS]; /* dx, in x's type, dscale, dbias */
    Instruction *fusion;
} Found;

typedef struct Gradients {
    PassContext *cx;
    GraphScope in;
    Found *found;
    size_t found_count, capacity;
} Gradients;

/* A gradient of the result, and the scale that it is multiplied by. */
typedef struct Pair {
    const Instruction *dy, *scale;
} Pair;

/* What follows from the inverse deviation of rows, operands first. */
typedef struct Near {
    Instruction *list[MOST_NEAR];
    uint32_t count;
    Pair pairs[MOST_PAIRS];
    uint32_t pair_count;
} Near;

/* -- where it may be ------------------------------------------------------------------------------- */

static bool is_step(const Instruction *inst)
{
    switch (inst->op) {
    case OP_ADD:
    case OP_SUBTRACT:
    case OP_MULTIPLY:
    case OP_DIVIDE:
    case OP_NEGATE:
    case OP_BROADCAST:
    case OP_RESHAPE:
    case OP_BITCAST:
    case OP_REDUCE:
        return inst->control_count == 0;
    default:
        return false;
    }
}

static void find_near(const Gradients *s, const Instruction *inverse, Near *near)
{
    bool *is_near = ARENA_ARRAY(s->cx->scratch, bool, s->in.count);
    is_near[inverse->id] = true;
    for (uint32_t i = 0; i < s->in.order_count && near->count < MOST_NEAR; i++) {
        Instruction *inst = s->in.order[i];
        bool follows = false;
        for (uint32_t k = 0; k < inst->operand_count; k++)
            follows |= is_near[inst->operands[k]->id];
        if (!follows || !is_step(inst))
            continue;
        is_near[inst->id] = true;
        near->list[near->count++] = inst;
    }
}

static void add_pair(Near *near, const Instruction *dy, const Instruction *scale)
{
    for (uint32_t i = 0; i < near->pair_count; i++) {
        if (near->pairs[i].dy == dy && near->pairs[i].scale == scale)
            return;
    }
    if (near->pair_count < MOST_PAIRS)
        near->pairs[near->pair_count++] = (Pair){dy, scale};
}

/* Each factor beside a vector along rows. */
static void find_pairs(const NormMatch *m, const Instruction *inst, uint32_t depth,
                       Near *near)
{
    if (!is_step(inst) || !shape_is_array(inst->shape) ||
        !shape_same_dims(inst->shape, m->shape))
        return;
    for (uint32_t i = 0; i < 2 && inst->op == OP_MULTIPLY; i++) {
        const Instruction *scale = norm_column_value(m, inst->operands[i]);
        const Instruction *dy = norm_before_widening(inst->operands[!i]);
        if (scale != NULL && norm_is_plain(dy) && shape_same_dims(dy->shape, m->shape))
            add_pair(near, dy, scale);
    }
    for (uint32_t i = 0; i < inst->operand_count && depth != 0; i++)
        find_pairs(m, inst->operands[i], depth - 1, near);
}

/* -- what it is ------------------------------------------------------------------------------------ */

/* dx in x's type; NULL: others read it before it is rounded. */
static Instruction *rounded(const Gradients *s, Instruction *dx, const NormGradient *g)
{
    if (dx->shape->dtype == g->shape->dtype)
        return dx;
    Instruction *user = uses_only(&s->in.uses, dx);
    bool rounds = user != NULL && dx != s->in.comp->root && user->op == OP_CONVERT &&
                  user->shape->dtype == g->shape->dtype && norm_is_plain(user) &&
                  user->control_count == 0;
    return rounds ? user : NULL;
}

static void find_dbias(const Gradients *s, NormExpansion *e, const Instruction *dy,
                       uint32_t depth, Found *out)
{
    for (uint32_t u = s->in.uses.start[dy->id]; u < s->in.uses.start[dy->id + 1]; u++) {
        Instruction *user = s->in.uses.list[u];
        if (user->op == OP_CONVERT && depth != 0)
            find_dbias(s, e, user, depth - 1, out);
        else if (user->op == OP_REDUCE && user->control_count == 0 &&
                 norm_is_dbias(e, user))
            out->made[2] = user;
    }
}

static bool match(const Gradients *s, const Near *near, Found *out)
{
    NormExpansion *e = norm_expand(&out->gradient, false, s->cx->scratch);
    for (uint32_t i = 0; i < near->count; i++) {
        Instruction *inst = near->list[i];
        if (out->made[0] == NULL && norm_is_dx(e, inst))
            out->made[0] = rounded(s, inst, &out->gradient);
        else if (norm_is_dscale(e, inst))
            out->made[1] = inst;
    }
    find_dbias(s, e, out->gradient.dy, 1, out);
    return out->made[0] != NULL &&
           norm_gradient_has_types(&out->gradient, out->made[0]->shape->dtype);
}

static void add_found(Gradients *s, const Found *f)
{
    for (size_t i = 0; i < s->found_count; i++) {
        if (s->found[i].made[0] == f->made[0])
            return;
    }
    s->found = arena_grow(s->cx->scratch, s->found, &s->capacity, s->found_count + 1,
                          sizeof *s->found);
    s->found[s->found_count++] = *f;
}

static void find(Gradients *s, const Instruction *inverse)
{
    Found f = {.fusion = NULL};
    Near near = {.count = 0};
    if (!norm_gradient_statistics(inverse, &f.gradient) ||
        shape_elements(f.gradient.shape) < s->cx->settings->library_norm_elements)
        return;
    const NormMatch m = {.shape = f.gradient.shape, .row_rank = f.gradient.row_rank};
    find_near(s, inverse, &near);
    for (uint32_t i = 0; i < near.count; i++)
        find_pairs(&m, near.list[i], PAIR_DEPTH, &near);
    for (uint32_t i = 0; i < near.pair_count; i++) {
        Found one = f;
        one.gradient.dy = near.pairs[i].dy;
        one.gradient.scale = near.pairs[i].scale;
        if (one.gradient.dy != one.gradient.x && match(s, &near, &one))
            add_found(s, &one);
    }
}

/* -- what takes its place ---------------------------------------------------------------------------- */

/* The fused computation, as it is written. */
typedef struct Writer {
    Rewriter r;
    const Shape *shape, *row_shape; /* f32 */
    uint32_t row_rank;
    const int64_t *dims; /* 0, 1, ... */
    Instruction *inverse;
} Writer;

static Instruction *widened(Writer *w, Instruction *x)
{
    const Shape *s = shape_with_dtype(w->r.m->intern, x->shape, DT_F32);
    return x->shape == s ? x : rw_convert(&w->r, s, x);
}

static Instruction *binary(Writer *w, OpCode op, Instruction *x, Instruction *y)
{
    return rw_binary(&w->r, op, w->shape, x, y);
}

/* A number of each row, in each of its elements. */
static Instruction *of_row(Writer *w, Instruction *x)
{
    return rw_broadcast(&w->r, w->shape, rw_reshape(&w->r, w->row_shape, x), w->row_rank,
                        w->dims);
}

static Instruction *mean_of(Writer *w, Instruction *x, int64_t columns)
{
    Instruction *sum = rw_sum(&w->r, w->row_shape, x, w->shape->rank - w->row_rank,
                              w->dims + w->row_rank);
    sum = rw_binary(&w->r, OP_MULTIPLY, w->row_shape, sum,
                    rw_splat(&w->r, w->row_shape, 1 / (double)columns));
    return of_row(w, sum);
}

static Instruction *write_dx(Writer *w, Instruction *g, Instruction *n,
                             const NormGradient *of)
{
    Instruction *mean = mean_of(w, binary(w, OP_MULTIPLY, g, n), of->columns);
    Instruction *dx = g;
    if (of->mean != NULL)
        dx = binary(w, OP_SUBTRACT, dx, mean_of(w, g, of->columns));
    dx = binary(w, OP_SUBTRACT, dx, binary(w, OP_MULTIPLY, n, mean));
    dx = binary(w, OP_MULTIPLY, dx, of_row(w, w->inverse));
    const Shape *s = shape_with_dtype(w->r.m->intern, dx->shape, of->shape->dtype);
    return dx->shape == s ? dx : rw_convert(&w->r, s, dx);
}

static Instruction *sum_rows(Writer *w, Instruction *x)
{
    const Shape *s = rw_shape(&w->r, DT_F32, w->shape->rank - w->row_rank,
                              w->shape->dims + w->row_rank);
    return rw_sum(&w->r, s, x, w->row_rank, w->dims);
}

static Writer begin(PassContext *cx, Module *m, const Found *f)
{
    const NormGradient *g = &f->gradient;
    Writer w = {.r = {.m = m,
                      .comp = module_add_computation(m, "fused"),
                      .scratch = cx->scratch,
                      .cx = cx,
                      .at = f->made[0]},
                .row_rank = g->row_rank};
    int64_t *dims = ARENA_ARRAY(cx->scratch, int64_t, (size_t)g->shape->rank + 1);
    for (uint32_t d = 0; d < g->shape->rank; d++)
        dims[d] = d;
    w.dims = dims;
    w.shape = rw_shape(&w.r, DT_F32, g->shape->rank, g->shape->dims);
    w.row_shape = rw_shape(&w.r, DT_F32, g->row_rank, g->shape->dims);
    w.r.comp->is_fused = true;
    return w;
}

/* The results as a tuple: the sums of dy only where something reads them, or the norm has a mean. */
static Instruction *write_results(Writer *w, const Found *f)
{
    const NormGradient *g = &f->gradient;
    Instruction *const *p = w->r.comp->parameters;
    const Shape *column = rw_shape(&w->r, DT_F32, w->shape->rank - w->row_rank,
                                   w->shape->dims + w->row_rank);
    Instruction *n = widened(w, p[NORM_GRADIENT_X]),
                *dy = widened(w, p[NORM_GRADIENT_DY]);
    Instruction *scale = rw_broadcast(
        &w->r, w->shape, rw_reshape(&w->r, column, widened(w, p[NORM_GRADIENT_SCALE])),
        column->rank, w->dims + w->row_rank);
    w->inverse = p[NORM_GRADIENT_INVERSE];
    if (g->mean != NULL)
        n = binary(w, OP_SUBTRACT, n, of_row(w, p[NORM_GRADIENT_MEAN]));
    n = binary(w, OP_MULTIPLY, n, of_row(w, w->inverse));
    Instruction *results[RESULTS];
    const Shape *shapes[RESULTS];
    results[0] = write_dx(w, binary(w, OP_MULTIPLY, dy, scale), n, g);
    results[1] = sum_rows(w, binary(w, OP_MULTIPLY, dy, n));
    uint32_t count = g->mean != NULL || f->made[2] != NULL ? 3 : 2;
    if (count == 3)
        results[2] = sum_rows(w, dy);
    for (uint32_t i = 0; i < count; i++)
        shapes[i] = results[i]->shape;
    return rw_add(&w->r, OP_TUPLE, shape_tuple(w->r.m->intern, count, shapes), count,
                  results);
}

static void wrap(const Gradients *s, Found *f)
{
    const NormGradient *g = &f->gradient;
    Module *m = s->in.comp->module;
    Writer w = begin(s->cx, m, f);
    const Instruction *const arrays[NORM_GRADIENT_OPERANDS] = {
        [NORM_GRADIENT_X] = g->x,
        [NORM_GRADIENT_SCALE] = g->scale,
        [NORM_GRADIENT_DY] = g->dy,
        [NORM_GRADIENT_INVERSE] = g->inverse,
        [NORM_GRADIENT_MEAN] = g->mean};
    Instruction *operands[NORM_GRADIENT_OPERANDS];
    uint32_t n = g->mean != NULL ? NORM_GRADIENT_OPERANDS : NORM_GRADIENT_MEAN;
    for (uint32_t i = 0; i < n; i++) {
        operands[i] = s->in.comp->instructions[arrays[i]->id];
        computation_add_parameter(w.r.comp, i, arrays[i]->shape, NULL);
    }
    w.r.comp->root = write_results(&w, f);
    f->fusion = computation_add(s->in.comp, OP_FUSION, w.r.comp->root->shape, n, operands,
                                f->made[0]->name);
    f->fusion->span = f->made[0]->span;
    inst_set_int(f->fusion, ATTR_KIND, FUSION_CUSTOM);
    inst_set_computation(f->fusion, ATTR_CALLS, w.r.comp);
    norm_set_library(f->fusion);
}

/* -- the library's answer ------------------------------------------------------------------------------- */

/* What the fusion reads is made of one of its results. */
static bool depends_on_itself(const Gradients *s, const Found *f)
{
    uint32_t n;
    Instruction **order = computation_post_order(s->in.comp, s->cx->scratch, &n);
    bool *needed = ARENA_ARRAY(s->cx->scratch, bool, s->in.comp->instruction_count);
    for (uint32_t i = 0; i < f->fusion->operand_count; i++)
        needed[f->fusion->operands[i]->id] = true;
    instructions_mark_operands(order, n, needed);
    for (uint32_t i = 0; i < RESULTS; i++) {
        if (f->made[i] != NULL && needed[f->made[i]->id])
            return true;
    }
    return false;
}

static bool take(const Gradients *s, const Found *f)
{
    if (depends_on_itself(s, f)) {
        computation_remove(s->in.comp, f->fusion);
        return false;
    }
    for (uint32_t i = 0; i < RESULTS; i++) {
        if (f->made[i] == NULL)
            continue;
        Instruction *x = computation_add_element(f->fusion, i);
        if (x->shape != f->made[i]->shape)
            x = computation_add(s->in.comp, OP_RESHAPE, f->made[i]->shape, 1, &x, NULL);
        computation_replace_one(s->in.comp, f->made[i], x);
    }
    computation_sort(s->in.comp);
    s->cx->counts.library_norms++;
    return true;
}

static bool ask(const Gradients *s)
{
    Instruction **fusions = ARENA_ARRAY(s->cx->scratch, Instruction *, s->found_count);
    bool *possible = ARENA_ARRAY(s->cx->scratch, bool, s->found_count);
    bool changed = false;
    for (size_t i = 0; i < s->found_count; i++)
        fusions[i] = s->found[i].fusion;
    s->cx->graphs->ask(s->cx->graphs, s->cx->target, fusions, s->found_count, possible);
    for (size_t i = 0; i < s->found_count; i++) {
        if (possible[i])
            changed |= take(s, &s->found[i]);
        else
            computation_remove(s->in.comp, fusions[i]);
    }
    return changed;
}

bool norm_gradients_visit(Computation *comp, PassContext *cx, bool *wrapped)
{
    Gradients s = {.cx = cx, .in = graphs_scope(comp, cx)};
    for (uint32_t i = 0; i < s.in.order_count; i++) {
        const Instruction *inst = s.in.order[i];
        if (inst->op == OP_RSQRT ||
            (inst->op == OP_DIVIDE && norm_strip(inst->operands[1])->op == OP_SQRT))
            find(&s, inst);
    }
    for (size_t i = 0; i < s.found_count; i++)
        wrap(&s, &s.found[i]);
    *wrapped |= s.found_count != 0;
    return s.found_count != 0 && ask(&s);
}
