/* The fusions that an attention's gradient becomes: each makes the weights and the core again from what the forward
 * attention left, and ends in some of the gradient's dots with what moves their results. See attention_gradient.c. */
#include "passes/fusion/gradient_fusion.h"

#include "ir/kernel/attention/attention_call.h"
#include "passes/fusion/attention.h"
#include "passes/fusion/fusion.h"

#define LOW_SCORE (-1e15) /* that no product gives; the kernel's own fill is less */

enum { MOST_OPERANDS = 64 };

/* Instructions of a fusion that is made. */
typedef struct Body {
    Gradient *c;
    Rewriter r;
    Instruction **now; /* by id: inside; NULL: not yet */
    Instruction *
        *wide; /* by id: the same, of what the exponentials are made of, in f32 */
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

/* Tiles are copied from memory: an operand of a dot that repeats elements, as the gradient of a sum is, is stored. */
static bool is_stored(const Gradient *c, const Instruction *x, const Instruction *of_do)
{
    if (x->op != OP_BROADCAST)
        return false;
    bool is_operand = x == attention_without_moves(of_do);
    for (uint32_t i = 0; i < c->count; i++) {
        for (uint32_t side = 0; side < 2; side++)
            is_operand |= x == attention_without_moves(c->dots[i].dot->operands[side]);
    }
    return is_operand;
}

/* Where an operand's elements lie, past what only moves or widens them: the kernel reads them there. */
static bool is_base(const Gradient *c, const Instruction *x)
{
    const Attention *a = c->a;
    StridedView v;
    if (x == a->q.base || x == a->k.base || x == a->v.base || x == a->bias.base)
        return true;
    const Instruction *y =
        c->g.whole != NULL ? c->g.whole : c->g.products->operands[c->g.do_side];
    if (is_stored(c, x, y))
        return true;
    if (!view_start(y, &v))
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
        y = rw_in_type(&b->r, y, x->shape->dtype);
    else if (x == p->weights.inst || (x == p->exponentials.inst && c->g.whole != NULL))
        y = rw_in_type(&b->r, b->weights, x->shape->dtype);
    else if (x == c->g.over_sums)
        y = inside(b, (Instruction *)(uintptr_t)c->g.whole);
    else if (b->wide[x->id] != NULL)
        y = rw_in_type(&b->r, b->wide[x->id], x->shape->dtype);
    else if (c->is_made[x->id] && (is_large || x == p->exponentials.inst))
        b->failed = true;
    else if (is_large || is_base(c, x) || !attention_takes_inside(x))
        y = parameter(b, x);
    else
        y = like(b, x, x->shape);
    b->now[x->id] = y;
    return y;
}

/* What x moves, repeats, converts or multiplies by a number. */
typedef struct FactorStep {
    Instruction *from; /* NULL: x is none of these */
    bool is_scale;
    double scale;
} FactorStep;

static FactorStep factor_step(const Instruction *x)
{
    uint32_t operand;
    double scale;
    if (attention_scaling(x, &operand, &scale))
        return (FactorStep){x->operands[operand], true, scale};
    bool keeps = (attention_is_move(x) || x->op == OP_BROADCAST || x->op == OP_SLICE) &&
                 (x->op != OP_CONVERT || conversion_is_close(x));
    return (FactorStep){keeps ? x->operands[0] : NULL, false, 1};
}

/* q or k where it lies, if the program multiplies it by a number first; else NULL. cuDNN is told of those itself. */
static const Instruction *scaled_base(const Gradient *c, const Instruction *x)
{
    bool is_scaled = false;
    while (x != NULL && x != c->a->q.base && x != c->a->k.base) {
        FactorStep step = factor_step(x);
        is_scaled |= step.is_scale;
        x = step.from;
    }
    return is_scaled && !c->is_library ? x : NULL;
}

static Instruction *without_scales(Body *b, Instruction *x, const Instruction *base,
                                   double *scale)
{
    if (x == base)
        return inside(b, x);
    FactorStep step = factor_step(x);
    *scale *= step.scale;
    Instruction *y = without_scales(b, step.from, base, scale);
    if (b->failed || x->op == OP_CONVERT || step.is_scale)
        return y;
    return computation_add_like(b->r.comp, x, with_dtype(b, x->shape, y->shape->dtype), 1,
                                &y);
}

/* The dot in another type. Numbers that q or k is multiplied by stand behind it, as in the attention's kernel, which
 * reads both as they lie: its statistics are of such scores, and no factor has more bits than in memory. */
static Instruction *dot_inside(Body *b, const Instruction *dot, DType t)
{
    Instruction *operands[2];
    double scale = 1;
    for (uint32_t i = 0; i < 2; i++) {
        Instruction *x = dot->operands[i];
        const Instruction *base = scaled_base(b->c, x);
        operands[i] = base == NULL ? inside(b, x) : without_scales(b, x, base, &scale);
        if (!b->failed)
            operands[i] = rw_in_type(&b->r, operands[i], x->shape->dtype);
    }
    if (b->failed)
        return NULL;
    const Shape *s = with_dtype(b, dot->shape, scale == 1 ? t : DT_F32);
    Instruction *x = computation_add_like(b->r.comp, dot, s, 2, operands);
    if (scale != 1)
        x = rw_binary(&b->r, OP_MULTIPLY, s, x, rw_splat(&b->r, s, scale));
    return rw_in_type(&b->r, x, t);
}

static Instruction *score_inside(Body *b, const Instruction *x);

/* An operand of what is made of the scores: floats are f32. */
static Instruction *score_operand(Body *b, Instruction *x)
{
    if (b->c->is_made[x->id])
        return score_inside(b, x);
    x = inside(b, x);
    return b->failed || !dtype_is_float(x->shape->dtype) ? x
                                                         : rw_in_type(&b->r, x, DT_F32);
}

static Instruction *score_like(Body *b, const Instruction *x)
{
    Instruction **operands =
        ARENA_ARRAY(b->r.scratch, Instruction *, (size_t)x->operand_count + 1);
    for (uint32_t i = 0; i < x->operand_count; i++)
        operands[i] = score_operand(b, x->operands[i]);
    return b->failed ? NULL
                     : computation_add_like(b->r.comp, x, with_dtype(b, x->shape, DT_F32),
                                            x->operand_count, operands);
}

/* What stands between the first dot and the exponentials, in f32 and without roundings: so the attention's own kernel
 * computes it, whose statistics would else belong to other scores. */
static Instruction *score_inside(Body *b, const Instruction *x)
{
    Instruction *y;
    b->failed |= !dtype_is_float(x->shape->dtype);
    if (b->failed || b->wide[x->id] != NULL)
        return b->wide[x->id];
    if (x == b->c->a->parts.scores.inst)
        y = dot_inside(b, x, DT_F32);
    else if (x->op == OP_CONVERT)
        y = score_operand(b, x->operands[0]);
    else
        y = score_like(b, x);
    return b->wide[x->id] = y;
}

/* In a row of which no score counts all weights are equal. Its statistics do not say how many there are: beside a number
 * as low as a fill their logarithm is rounded away. */
static Instruction *with_empty_rows(Body *b, Instruction *weights, Instruction *rows)
{
    const Attention *a = b->c->a;
    const Shape *shape = weights->shape;
    double columns = (double)shape->dims[b->c->g.column], half = a->fill / 2;
    double least = half > LOW_SCORE ? half : LOW_SCORE;
    Instruction *is_empty =
        rw_compare(&b->r, rows, rw_splat(&b->r, shape, least), DIRECTION_LE);
    return rw_add(
        &b->r, OP_SELECT, shape, 3,
        (Instruction *[]){is_empty, rw_splat(&b->r, shape, 1 / columns), weights});
}

/* exp(masked - statistics), or exp(masked - maxima - statistics) */
static Instruction *make_weights(Body *b)
{
    const AttentionParts *p = &b->c->a->parts;
    const Instruction *e = p->exponentials.inst;
    const Shape *shape = with_dtype(b, e->shape, DT_F32);
    int64_t position[VIEW_RANK];
    uint32_t n = 0;
    for (uint32_t d = 0; d < e->shape->rank; d++) {
        if (d != b->c->g.column)
            position[n++] = d;
    }
    Instruction *x = score_inside(b, p->masked.inst);
    if (b->failed)
        return NULL;
    Instruction *rows = rw_spread(&b->r, shape, parameter(b, b->c->statistics), position);
    if (b->c->maxima != NULL) {
        Instruction *logs = rows;
        rows = rw_spread(&b->r, shape, parameter(b, b->c->maxima), position);
        x = rw_binary(&b->r, OP_SUBTRACT, shape, x, rows);
        x = rw_binary(&b->r, OP_SUBTRACT, shape, x, logs);
    } else {
        x = rw_binary(&b->r, OP_SUBTRACT, shape, x, rows);
    }
    x = rw_unary(&b->r, OP_EXPONENTIAL, shape, x);
    /* logarithms by themselves say how many there are, of scores that are filled as the attention's kernel fills them */
    bool is_known = b->c->maxima != NULL && !p->mask_swallows_bias;
    bool may_be_empty = b->c->a->mask_count != 0 && !b->c->is_library && !is_known;
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
        } else if (step->op != OP_CONVERT && step->op != OP_COPY &&
                   step->op != OP_DIVIDE) { /* the result is divided by the sums */
            return NULL;
        }
    }
    return x;
}

Instruction *gradient_sum_rows(const Gradient *c, Rewriter *r, Instruction *result,
                               Instruction *y)
{
    const AttentionGradient *g = &c->g;
    Instruction *x = unmoved(c, r, result);
    int64_t inwards[VIEW_RANK], of_do[VIEW_RANK], of_result[VIEW_RANK], depth[VIEW_RANK],
        rows[VIEW_RANK];
    uint32_t rank = y->shape->rank, n = 0;
    if (x == NULL)
        return NULL;
    Ints terms = inst_ints(g->products, g->do_side == 0 ? ATTR_LHS_CONTRACTING_DIMS
                                                        : ATTR_RHS_CONTRACTING_DIMS);
    for (uint32_t d = 0; d < rank; d++) {
        if (ints_find(terms, d) < 0) {
            rows[n] = y->shape->dims[d];
            inwards[n++] = d;
        }
    }
    for (uint32_t i = 0; i < terms.count;
         i++) { /* innermost, as in memory: sums of rows */
        inwards[n + i] = terms.data[i];
        depth[i] = n + i;
    }
    for (uint32_t d = 0; d < rank; d++)
        of_do[g->do_dims[d]] = d;
    for (uint32_t d = 0; d < rank; d++)
        of_result[d] = of_do[inwards[d]];
    x = transposed(r, x, of_result);
    y = transposed(r, y, inwards);
    y = y->shape->dtype == DT_F32 ? y : rw_convert(r, x->shape, y);
    x = rw_binary(r, OP_MULTIPLY, x->shape, x, y);
    return rw_sum(r, rw_shape(r, DT_F32, n, rows), x, terms.count, depth);
}

/* The same in a fusion for cuDNN, from where o and do lie. */
static Instruction *make_differences(Body *b)
{
    const AttentionGradient *g = &b->c->g;
    Instruction *y = inside(b, g->products->operands[g->do_side]);
    return b->failed ? NULL
                     : gradient_sum_rows(b->c, &b->r, parameter(b, b->c->result), y);
}

/* weights * (products - differences) */
static Instruction *make_core(Body *b)
{
    const AttentionGradient *g = &b->c->g;
    const Shape *shape = with_dtype(b, b->c->a->parts.exponentials.inst->shape, DT_F32);
    const Instruction *of_do = g->products->operands[g->do_side],
                      *o = b->c->a->parts.output;
    int64_t position[VIEW_RANK], rows_of[VIEW_RANK];
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
            position[n++] = rows_of[d];
    }
    Instruction *d =
        b->c->is_library ? make_differences(b) : parameter(b, b->c->differences);
    if (d == NULL)
        return NULL;
    Instruction *rows = rw_spread(&b->r, shape, d, position);
    Instruction *x = rw_binary(&b->r, OP_SUBTRACT, shape, products, rows);
    return rw_binary(&b->r, OP_MULTIPLY, shape, b->weights, x);
}

/* The dot with its operands exchanged. */
static Instruction *turned(Body *b, const Instruction *dot)
{
    Instruction *left = inside(b, dot->operands[1]), *right = inside(b, dot->operands[0]);
    return b->failed ? NULL : rw_turned_dot(&b->r, dot, left, right);
}

/* The value behind `end` of the dot's moves. */
static Instruction *result_inside(Body *b, const GradientDot *d, uint32_t end)
{
    Instruction *x =
        d->is_turned ? turned(b, d->dot) : dot_inside(b, d->dot, d->dot->shape->dtype);
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
              .now = ARENA_ARRAY(c->cx->scratch, Instruction *, c->ids),
              .wide = ARENA_ARRAY(c->cx->scratch, Instruction *, c->ids)};
    Instruction *results[GRADIENT_MOST_RESULTS];
    b.weights = make_weights(&b);
    b.core = b.failed ? NULL : make_core(&b);
    for (uint32_t i = 0; i < count && !b.failed; i++)
        results[i] = result_inside(&b, dots[i], ends[i]);
    if (b.failed) { /* nobody calls it, but until it is removed it must have a root */
        fused->root =
            computation_add_parameter(fused, b.operand_count, dots[0]->dot->shape, NULL);
        return NULL;
    }
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

Instruction *gradient_fuse(Gradient *c, GradientDot *const *dots, uint32_t count,
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
