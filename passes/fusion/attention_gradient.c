/* An attention and its gradient become a few kernels, in which no score reaches memory:
 *
 *   o, s = attention(q, k, v)                     s: the logarithm of the sum of each row's exponentials
 *   d = sum over the depth of o * do              (which is that of p * g over the columns)
 *   p = exp(masked scores - s);  g = do v';  core = p * (g - d)
 *   dq = f(core) k                                one kernel: queries outside, keys in the loop
 *   dk = f(core)' q, dv = p' do                   one kernel: keys outside, queries in the loop
 *
 * What stands between core and the dots, f, and what masks are made of go into these kernels as they are.
 *
 * Needs: layouts. Keeps: values but for the order and the rounding of sums. Ends: each is of dots that go away. */
#include "passes/fusion/attention.h"

#include "ir/kernel/attention/attention_call.h"
#include "ir/kernel/attention/attention_gradient.h"
#include "passes/fusion/fusion.h"
#include "passes/simplify/rewrite.h"

#define LOW_SCORE (-1e15) /* that no product gives; the kernel's own fill is less */

enum { MOST_RESULTS = 4, MOST_MOVES = 8, MOST_OPERANDS = 64 };

/* A dot that a gradient is, and what its value becomes on its way out. */
typedef struct GradientDot {
    Instruction *dot, *ends[MOST_MOVES]; /* the last of them is what users see */
    uint32_t end_count;
    bool is_fused, is_turned; /* turned: a transposition of it is made instead */
} GradientDot;

typedef struct Gradient {
    PassContext *cx;
    Computation *comp;
    const Attention *a;
    AttentionGradient g;
    Instruction *last;
    uint32_t ids;
    bool *is_made; /* by id: of the scores, or of the products do v' */
    GradientDot dots[MOST_RESULTS];
    uint32_t count;
    Instruction *statistics, *differences; /* s, d */
    Instruction *result; /* for cuDNN, which makes d itself: o; else NULL */
    bool is_library;
} Gradient;

/* -- what belongs to it ---------------------------------------------------------------------------- */

static bool is_move(const Instruction *x)
{
    return x->op == OP_CONVERT || x->op == OP_COPY || x->op == OP_TRANSPOSE ||
           x->op == OP_RESHAPE;
}

/* cuDNN multiplies all of the gradients by the scale, wherever the program does. */
static bool ends_with(const Gradient *c, const Instruction *x)
{
    uint32_t operand;
    double factor;
    return is_move(x) || (c->is_library && attention_scaling(x, &operand, &factor));
}

/* From a dot to what moves its result, as long as nobody else reads it. */
static void find_ends(Gradient *c, const Uses *uses, GradientDot *d)
{
    Instruction *x = d->dot;
    d->ends[d->end_count++] = x;
    while (d->end_count < MOST_MOVES && x != c->comp->root) {
        Instruction *user = uses_only(uses, x);
        if (user == NULL || !ends_with(c, user) || user->control_count != 0)
            return;
        d->ends[d->end_count++] = x = user;
    }
}

/* Whether the depth, which the operand that is not made of the scores adds, is innermost in memory, behind `end` of the
 * moves. */
static bool has_depth_inside(const Gradient *c, const GradientDot *d, uint32_t end)
{
    const Instruction *dot = d->dot;
    uint32_t side = c->is_made[dot->operands[0]->id] ? 1 : 0, n = 0;
    Ints batch = inst_ints(dot, side == 0 ? ATTR_LHS_BATCH_DIMS : ATTR_RHS_BATCH_DIMS);
    int64_t depths[VIEW_RANK], size;
    StridedView v;
    bool is_view = view_start(dot, &v);
    for (uint32_t k = 1; k <= end && is_view; k++)
        is_view = view_step_out(&v, d->ends[k]);
    for (uint32_t i = 0; i < dot->operands[side]->shape->rank && is_view; i++) {
        int64_t to = attention_result_dim(dot, side, i);
        if (to >= 0 && ints_find(batch, i) < 0)
            depths[n++] = to;
    }
    return is_view && attention_is_dense(&v, depths, n, &size);
}

/* cuDNN's results have the depth innermost. A dot whose second operand is made of the scores has it outside: one with
 * the operands exchanged takes its place, and a transposition behind it. */
static void turn(const Gradient *c, GradientDot *d)
{
    uint32_t moves = 1;
    for (uint32_t end = 0; end < d->end_count; end++) {
        if (has_depth_inside(c, d, end))
            return;
    }
    d->is_turned = true;
    while (moves < d->end_count &&
           (d->ends[moves]->op == OP_CONVERT || d->ends[moves]->op == OP_COPY))
        moves++;
    d->end_count = moves;
}

static bool take_dot(Gradient *c, const Uses *uses, Instruction *dot)
{
    if (dot == c->a->parts.output)
        return true;
    if (c->count == MOST_RESULTS || dot->control_count != 0 ||
        (c->is_made[dot->operands[0]->id] && c->is_made[dot->operands[1]->id]))
        return false;
    GradientDot *d = &c->dots[c->count++];
    d->dot = dot;
    find_ends(c, uses, d);
    if (c->is_library && c->is_made[dot->operands[1]->id])
        turn(c, d);
    return true;
}

/* Whether what is made of the scores leaves by the attention's result and by dots only. */
static bool find_dots(Gradient *c)
{
    Uses uses = uses_compute(c->comp, c->cx->scratch);
    for (Instruction *x = inst_first(c->comp); x; x = inst_next(x)) {
        bool made = x == c->a->parts.scores.inst || x == c->g.products;
        for (uint32_t i = 0; i < x->operand_count && !made; i++)
            made = c->is_made[x->operands[i]->id];
        if (!made)
            continue;
        bool is_inner = x == c->a->parts.scores.inst || x == c->g.products;
        if (x->op == OP_DOT && !is_inner) {
            if (!take_dot(c, &uses, x))
                return false;
            continue;
        }
        c->is_made[x->id] = true;
        if (!attention_takes_inside(x) || x == c->comp->root)
            return false;
    }
    return c->count != 0;
}

/* -- kernels of the gradient ------------------------------------------------------------------------- */

/* Instructions of a fusion that is made. */
typedef struct Body {
    Gradient *c;
    Rewriter r;
    Instruction **now; /* by id: inside; NULL: not yet */
    Instruction *operands[MOST_OPERANDS];
    uint32_t operand_count;
    Instruction *weights, *core; /* of the exponentials' shape, f32 */
    bool failed;
} Body;

static Instruction *parameter(Body *b, Instruction *outside)
{
    if (b->operand_count == MOST_OPERANDS) {
        b->failed = true;
        return outside;
    }
    b->operands[b->operand_count] = outside;
    return computation_add_parameter(b->r.comp, b->operand_count++, outside->shape, NULL);
}

static const Shape *with_dtype(const Body *b, const Shape *s, DType t)
{
    return shape_with_dtype(b->r.m->intern, s, t);
}

static Instruction *converted(Body *b, Instruction *x, DType t)
{
    return x->shape->dtype == t ? x : rw_convert(&b->r, with_dtype(b, x->shape, t), x);
}

/* Where an operand's elements lie, past what only moves or widens them: the kernel reads them there. */
static bool is_base(const Gradient *c, const Instruction *x)
{
    const Attention *a = c->a;
    StridedView v;
    if (x == a->q.base || x == a->k.base || x == a->v.base || x == a->bias.base)
        return true;
    if (!view_start(c->g.products->operands[c->g.do_side], &v))
        return false;
    attention_follow(&v, NULL);
    return x == v.base;
}

static Instruction *inside(Body *b, Instruction *x);

static Instruction *like(Body *b, const Instruction *x, const Shape *shape)
{
    Instruction **operands =
        ARENA_ARRAY(b->r.scratch, Instruction *, (size_t)x->operand_count + 1);
    for (uint32_t i = 0; i < x->operand_count; i++)
        operands[i] = inside(b, x->operands[i]);
    return b->failed
               ? (Instruction *)NULL
               : computation_add_like(b->r.comp, x, shape, x->operand_count, operands);
}

/* The core with its factor; NULL: it is none. */
static Instruction *core_inside(Body *b, const Instruction *x)
{
    const AttentionGradient *g = &b->c->g;
    uint32_t i = 0;
    while (i < g->core_count && g->cores[i] != x)
        i++;
    if (i == g->core_count || b->core == NULL || g->factors[i] == 1)
        return i == g->core_count ? NULL : b->core;
    return rw_binary(&b->r, OP_MULTIPLY, b->core->shape, b->core,
                     rw_splat(&b->r, b->core->shape, g->factors[i]));
}

/* An instruction of the program inside: the weights and the core are those of this body. */
static Instruction *inside(Body *b, Instruction *x)
{
    const Gradient *c = b->c;
    const AttentionParts *p = &c->a->parts;
    if (b->failed || x->id >= c->ids) {
        b->failed = true;
        return x;
    }
    if (b->now[x->id] != NULL)
        return b->now[x->id];
    Instruction *y = NULL;
    bool is_large = x->op == OP_DOT || x->op == OP_REDUCE;
    if ((y = core_inside(b, x)) != NULL)
        y = converted(b, y, x->shape->dtype);
    else if (x == p->weights.inst)
        y = converted(b, b->weights, x->shape->dtype);
    else if (x == p->scores.inst)
        y = like(b, x, x->shape);
    else if (c->is_made[x->id] && (is_large || x == p->exponentials.inst))
        b->failed = true;
    else if (is_large || is_base(c, x) || !attention_takes_inside(x))
        y = parameter(b, x);
    else
        y = like(b, x, x->shape);
    b->now[x->id] = y;
    return y;
}

/* In a row of which no score counts all weights are equal. Its statistics do not say how many there are: beside a number
 * as low as a fill their logarithm is rounded away. */
static Instruction *with_empty_rows(Body *b, Instruction *weights, Instruction *rows)
{
    const Attention *a = b->c->a;
    const Shape *shape = weights->shape;
    double columns = (double)shape->dims[b->c->g.column], half = a->fill / 2;
    double least = half > LOW_SCORE ? half : LOW_SCORE;
    Instruction *is_empty = rw_binary(&b->r, OP_COMPARE, with_dtype(b, shape, DT_PRED),
                                      rows, rw_splat(&b->r, shape, least));
    inst_set_int(is_empty, ATTR_DIRECTION, DIRECTION_LE);
    return rw_add(
        &b->r, OP_SELECT, shape, 3,
        (Instruction *[]){is_empty, rw_splat(&b->r, shape, 1 / columns), weights});
}

/* exp(masked - statistics) */
static Instruction *make_weights(Body *b)
{
    const AttentionParts *p = &b->c->a->parts;
    const Instruction *e = p->exponentials.inst;
    const Shape *shape = with_dtype(b, e->shape, DT_F32);
    int64_t place[VIEW_RANK];
    uint32_t n = 0;
    for (uint32_t d = 0; d < e->shape->rank; d++) {
        if (d != b->c->g.column)
            place[n++] = d;
    }
    Instruction *x = inside(b, (Instruction *)(uintptr_t)p->masked.inst);
    if (b->failed)
        return NULL;
    Instruction *rows = rw_spread(&b->r, shape, parameter(b, b->c->statistics), place);
    x = rw_binary(&b->r, OP_SUBTRACT, shape, converted(b, x, DT_F32), rows);
    x = rw_unary(&b->r, OP_EXPONENTIAL, shape, x);
    bool may_be_empty = b->c->a->mask_count != 0 && !b->c->is_library;
    return may_be_empty ? with_empty_rows(b, x, rows) : x;
}

/* do v', of the exponentials' dimensions, not rounded. */
static Instruction *make_products(Body *b)
{
    const AttentionGradient *g = &b->c->g;
    Instruction *x = like(b, g->products, with_dtype(b, g->products->shape, DT_F32));
    bool is_same = rw_is_identity(g->product_dims, g->products->shape->rank);
    const Shape *shape = with_dtype(b, b->c->a->parts.exponentials.inst->shape, DT_F32);
    return is_same || b->failed ? x : rw_transpose(&b->r, shape, x, g->product_dims);
}

/* x with dimensions as `dims` says; transpositions become one, or none. */
static Instruction *transposed(Rewriter *r, Instruction *x, const int64_t *dims)
{
    uint32_t rank = x->shape->rank;
    if (x->op == OP_TRANSPOSE) {
        dims = rw_through(r, inst_ints(x, ATTR_DIMENSIONS), (Ints){dims, rank});
        x = x->operands[0];
    }
    return rw_is_identity(dims, rank) ? x : rw_in_order(r, x, dims);
}

/* The result of the attention's second dot, of f32, made of what its users see. */
static Instruction *unmoved(const Gradient *c, Rewriter *r, Instruction *result)
{
    Instruction *x = rw_convert(
        r, rw_shape(r, DT_F32, result->shape->rank, result->shape->dims), result);
    int64_t back[VIEW_RANK];
    for (const Instruction *step = c->last; step != c->a->parts.output;
         step = step->operands[0]) {
        const Shape *before = step->operands[0]->shape;
        if (step->op == OP_RESHAPE) {
            x = rw_reshape(r, rw_shape(r, DT_F32, before->rank, before->dims), x);
        } else if (step->op == OP_TRANSPOSE) {
            Ints dims = inst_ints(step, ATTR_DIMENSIONS);
            for (uint32_t d = 0; d < before->rank; d++)
                back[dims.data[d]] = d;
            x = transposed(r, x, back);
        } else if (step->op != OP_CONVERT && step->op != OP_COPY) {
            return NULL;
        }
    }
    return x;
}

/* The sum over the depth of o * do, in the order of do's dimensions; NULL: something stands between. */
static Instruction *sum_of_products(const Gradient *c, Rewriter *r, Instruction *result,
                                    Instruction *y)
{
    const AttentionGradient *g = &c->g;
    Instruction *x = unmoved(c, r, result);
    int64_t dims[VIEW_RANK], depth[VIEW_RANK], rows[VIEW_RANK];
    uint32_t rank = y->shape->rank, depths = 0, n = 0;
    if (x == NULL)
        return NULL;
    for (uint32_t d = 0; d < rank; d++)
        dims[g->do_dims[d]] = d;
    x = transposed(r, x, dims);
    const Shape *shape = rw_shape(r, DT_F32, rank, y->shape->dims);
    y = y->shape->dtype == DT_F32 ? y : rw_convert(r, shape, y);
    x = rw_binary(r, OP_MULTIPLY, shape, x, y);
    Ints terms = inst_ints(g->products, g->do_side == 0 ? ATTR_LHS_CONTRACTING_DIMS
                                                        : ATTR_RHS_CONTRACTING_DIMS);
    for (uint32_t d = 0; d < rank; d++) {
        if (ints_find(terms, d) >= 0)
            depth[depths++] = d;
        else
            rows[n++] = shape->dims[d];
    }
    return rw_sum(r, rw_shape(r, DT_F32, n, rows), x, depths, depth);
}

/* The same in a fusion for cuDNN, from where o and do lie. */
static Instruction *make_differences(Body *b)
{
    const AttentionGradient *g = &b->c->g;
    Instruction *y = inside(b, g->products->operands[g->do_side]);
    return b->failed ? NULL : sum_of_products(b->c, &b->r, parameter(b, b->c->result), y);
}

/* weights * (products - differences) */
static Instruction *make_core(Body *b)
{
    const AttentionGradient *g = &b->c->g;
    const Shape *shape = with_dtype(b, b->c->a->parts.exponentials.inst->shape, DT_F32);
    const Instruction *of_do = g->products->operands[g->do_side],
                      *o = b->c->a->parts.output;
    int64_t place[VIEW_RANK], rows_of[VIEW_RANK];
    uint32_t n = 0;
    Instruction *products = make_products(b);
    if (b->failed)
        return NULL;
    for (uint32_t d = 0; d < of_do->shape->rank; d++)
        rows_of[d] = -1;
    for (uint32_t d = 0; d < shape->rank; d++) {
        if (d != g->column)
            rows_of[g->do_dims[g->row_dims[d]]] = d;
    }
    for (uint32_t d = 0; d < o->shape->rank; d++) {
        if (rows_of[d] >= 0)
            place[n++] = rows_of[d];
    }
    Instruction *d =
        b->c->is_library ? make_differences(b) : parameter(b, b->c->differences);
    if (d == NULL)
        return NULL;
    Instruction *rows = rw_spread(&b->r, shape, d, place);
    Instruction *x = rw_binary(&b->r, OP_SUBTRACT, shape, products, rows);
    return rw_binary(&b->r, OP_MULTIPLY, shape, b->weights, x);
}

/* The dimensions of a dot's result with those of the second operand before the first one's; `back`: and from there. */
static int64_t *turned_dims(const Gradient *c, const Instruction *dot, bool back)
{
    uint32_t rank = dot->shape->rank, batch = inst_ints(dot, ATTR_LHS_BATCH_DIMS).count,
             left = dot->operands[0]->shape->rank - batch -
                    inst_ints(dot, ATTR_LHS_CONTRACTING_DIMS).count,
             first = back ? rank - batch - left : left;
    int64_t *dims = ARENA_ARRAY(c->cx->scratch, int64_t, (size_t)rank + 1);
    for (uint32_t d = 0; d < rank; d++) {
        uint32_t free = d - batch, count = rank - batch;
        dims[d] = d < batch ? d : batch + (free + first) % count;
    }
    return dims;
}

static void exchange(Instruction *dot, AttrId left, AttrId right)
{
    Ints l = inst_ints(dot, left), r = inst_ints(dot, right);
    inst_set_ints(dot, left, r.data, r.count);
    inst_set_ints(dot, right, l.data, l.count);
}

/* The dot with its operands exchanged. */
static Instruction *turned(Body *b, const Instruction *dot)
{
    const Shape *shape =
        rw_shape_in_order(&b->r, dot->shape, turned_dims(b->c, dot, false));
    Instruction *operands[] = {inside(b, dot->operands[1]), inside(b, dot->operands[0])};
    if (b->failed)
        return NULL;
    Instruction *x = computation_add_like(b->r.comp, dot, shape, 2, operands);
    exchange(x, ATTR_LHS_BATCH_DIMS, ATTR_RHS_BATCH_DIMS);
    exchange(x, ATTR_LHS_CONTRACTING_DIMS, ATTR_RHS_CONTRACTING_DIMS);
    Ints precision = inst_ints(x, ATTR_OPERAND_PRECISION);
    if (precision.count == 2)
        inst_set_ints(x, ATTR_OPERAND_PRECISION,
                      (int64_t[]){precision.data[1], precision.data[0]}, 2);
    return x;
}

/* The value behind `end` of the dot's moves. */
static Instruction *result_inside(Body *b, const GradientDot *d, uint32_t end)
{
    Instruction *x = d->is_turned ? turned(b, d->dot) : like(b, d->dot, d->dot->shape);
    for (uint32_t k = 1; k <= end && !b->failed; k++) {
        const Instruction *step = d->ends[k];
        b->now[d->ends[k - 1]->id] = x;
        x = like(b, step,
                 d->is_turned ? with_dtype(b, x->shape, step->shape->dtype)
                              : step->shape);
    }
    return x;
}

/* A kernel makes it, or cuDNN may be asked; false: the fusion is gone. */
static bool finish(const Gradient *c, Instruction *fusion)
{
    AttentionGradientCall call;
    if (!c->is_library)
        return attention_set_kind(fusion, c->cx);
    inst_set_int(fusion, ATTR_KIND, FUSION_CUSTOM);
    attention_set_library(fusion);
    if (attention_gradient_call_of(fusion, &call))
        return true;
    computation_remove(fusion->parent, fusion);
    return false;
}

/* A fusion of these dots' values, `ends` moves behind each; NULL: no kernel makes it. */
static Instruction *make_fusion(Gradient *c, GradientDot *const *dots, uint32_t count,
                                const uint32_t *ends)
{
    Module *m = c->comp->module;
    Computation *fused = module_add_computation(m, "gradient");
    fused->is_fused = true;
    Body b = {.c = c,
              .r = {.m = m,
                    .comp = fused,
                    .scratch = c->cx->scratch,
                    .cx = c->cx,
                    .at = dots[0]->dot},
              .now = ARENA_ARRAY(c->cx->scratch, Instruction *, c->ids)};
    Instruction *results[MOST_RESULTS];
    b.weights = make_weights(&b);
    b.core = b.failed ? NULL : make_core(&b);
    for (uint32_t i = 0; i < count && !b.failed; i++)
        results[i] = result_inside(&b, dots[i], ends[i]);
    if (b.failed)
        return NULL;
    Instruction *fusion =
        computation_add(c->comp, OP_FUSION, results[0]->shape, b.operand_count,
                        b.operands, dots[0]->ends[ends[0]]->name);
    fusion->span = dots[0]->dot->span;
    inst_set_int(fusion, ATTR_KIND, FUSION_LOOP);
    inst_set_computation(fusion, ATTR_CALLS, fused);
    fused->root = results[0];
    fusion_set_results(fusion, results, count);
    fusion->shape = fused->root->shape;
    fusion_drop_unread(fusion, c->cx->scratch);
    return finish(c, fusion) ? fusion : NULL;
}

/* With as much of what moves the results as a kernel can. */
static Instruction *fuse_dots(Gradient *c, GradientDot *const *dots, uint32_t count,
                              uint32_t *ends)
{
    for (uint32_t i = 0; i < count; i++)
        ends[i] = dots[i]->end_count - 1;
    for (;;) {
        Instruction *fusion = make_fusion(c, dots, count, ends);
        bool shorter = false;
        for (uint32_t i = 0; i < count; i++) {
            shorter |= ends[i] > 0;
            ends[i] -= fusion == NULL && ends[i] > 0;
        }
        if (fusion != NULL || !shorter)
            return fusion;
    }
}

/* -- together --------------------------------------------------------------------------------------- */

/* For instructions of the program, which get the metadata of that one. */
static Rewriter rewriter_at(const Gradient *c, Instruction *at)
{
    return (Rewriter){.m = c->comp->module,
                      .comp = c->comp,
                      .scratch = c->cx->scratch,
                      .cx = c->cx,
                      .at = at};
}

typedef struct Replacement {
    Instruction *from, *to;
} Replacement;

typedef struct Replacements {
    Replacement data[MOST_RESULTS + 1];
    uint32_t count;
} Replacements;

static void replace_by(const Gradient *c, Replacements *r, Instruction *fusion,
                       GradientDot *const *dots, uint32_t count, const uint32_t *ends)
{
    for (uint32_t i = 0; i < count; i++) {
        GradientDot *d = dots[i];
        Instruction *from = d->ends[ends[i]],
                    *to = count == 1 ? fusion : computation_add_element(fusion, i);
        if (d->is_turned) {
            Rewriter at = rewriter_at(c, d->dot);
            to = rw_transpose(&at, from->shape, to, turned_dims(c, d->dot, true));
        }
        r->data[r->count++] = (Replacement){from, to};
        d->is_fused = true;
    }
}

/* Pairs where a kernel makes two of them at once. */
static bool fuse_all(Gradient *c, Replacements *out)
{
    uint32_t ends[2];
    for (uint32_t i = 0; i < c->count; i++) {
        for (uint32_t k = i + 1; k < c->count && !c->dots[i].is_fused; k++) {
            GradientDot *both[] = {&c->dots[i], &c->dots[k]};
            Instruction *fusion =
                c->dots[k].is_fused ? NULL : fuse_dots(c, both, 2, ends);
            if (fusion != NULL)
                replace_by(c, out, fusion, both, 2, ends);
        }
        if (c->dots[i].is_fused)
            continue;
        GradientDot *one[] = {&c->dots[i]};
        Instruction *fusion = fuse_dots(c, one, 1, ends);
        if (fusion == NULL)
            return false;
        replace_by(c, out, fusion, one, 1, ends);
    }
    return true;
}

/* What both ways begin with; NULL: there is no gradient, or somebody else reads scores. */
static Gradient *find_gradient(const Attention *a, Instruction *last, bool is_library,
                               PassContext *cx)
{
    Gradient *c = ARENA_NEW(cx->scratch, Gradient);
    *c = (Gradient){
        .cx = cx, .comp = last->parent, .a = a, .last = last, .is_library = is_library};
    c->ids = c->comp->instruction_count;
    c->is_made = ARENA_ARRAY(cx->scratch, bool, c->ids);
    return attention_gradient_match(a, &c->g) && find_dots(c) ? c : NULL;
}

bool fuse_attention_gradient(const Attention *a, Instruction *last, PassContext *cx)
{
    Replacements all = {.count = 0};
    const AttentionRegion *region = attention_region(a, last, cx);
    Gradient *c = region != NULL ? find_gradient(a, last, false, cx) : NULL;
    if (c == NULL)
        return false;
    Instruction *forward = attention_region_fuse(region, true, cx);
    if (!attention_set_kind(forward, cx))
        return false;
    Instruction *result = computation_add_element(forward, 0);
    Rewriter r = rewriter_at(c, (Instruction *)(uintptr_t)c->g.cores[0]);
    c->statistics = computation_add_element(forward, 1);
    c->differences =
        sum_of_products(c, &r, result, c->g.products->operands[c->g.do_side]);
    if (c->differences == NULL || !fuse_all(c, &all))
        return false;
    for (uint32_t i = 0; i < all.count; i++)
        computation_replace_one(c->comp, all.data[i].from, all.data[i].to);
    computation_replace_one(c->comp, last, result);
    return true;
}

/* -- for cuDNN -------------------------------------------------------------------------------------- */

struct LibraryGradient {
    Instruction *attention, *gradient;
    Replacements all;
};

LibraryGradient *library_gradient_wrap(const Attention *a, Instruction *last,
                                       PassContext *cx)
{
    LibraryGradient *g = ARENA_NEW(cx->scratch, LibraryGradient);
    Attention unused;
    GradientDot *dots[MOST_RESULTS];
    uint32_t ends[MOST_RESULTS];
    const AttentionRegion *region = attention_region(a, last, cx);
    Gradient *c = region != NULL ? find_gradient(a, last, true, cx) : NULL;
    if (c == NULL)
        return NULL;
    g->attention = attention_region_fuse(region, true, cx);
    inst_set_int(g->attention, ATTR_KIND, FUSION_CUSTOM);
    attention_set_library(g->attention);
    if (!attention_call_of(g->attention, &unused)) {
        computation_remove(c->comp, g->attention);
        return NULL;
    }
    c->result = computation_add_element(g->attention, 0);
    c->statistics = computation_add_element(g->attention, 1);
    for (uint32_t i = 0; i < c->count; i++)
        dots[i] = &c->dots[i];
    g->gradient = fuse_dots(c, dots, c->count, ends);
    if (g->gradient == NULL)
        return NULL;
    replace_by(c, &g->all, g->gradient, dots, c->count, ends);
    g->all.data[g->all.count++] = (Replacement){last, c->result};
    return g;
}

void library_gradient_fusions(const LibraryGradient *g, Instruction *out[2])
{
    out[0] = g->attention;
    out[1] = g->gradient;
}

void library_gradient_forward(const LibraryGradient *g, Instruction **forward)
{
    for (uint32_t i = 0; i < g->all.count; i++)
        forward[g->all.data[i].from->id] = g->all.data[i].to;
}
