/* An attention and its gradient become a few kernels, in which no score reaches memory:
 *
 *   o, s = attention(q, k, v)                     s: the logarithm of the sum of each row's exponentials, and, beside a
 *                                                 bias, their maximum by itself
 *   d = sum over the depth of o * do              (which is that of p * g over the columns)
 *   p = exp(masked scores - s);  g = do v';  core = p * (g - d)
 *   dq = f(core) k                                one kernel: queries outside, keys in the loop
 *   dk = f(core)' q, dv = p' do                   one kernel: keys outside, queries in the loop
 *
 * What stands between core and the dots, f, and what masks are made of go into these kernels as they are. Numbers that q
 * or k is multiplied by before its dot stand behind it in these kernels.
 *
 * Needs: layouts. Keeps: values but for the order and the rounding of sums. Ends: each is of dots that go away. */
#include "passes/fusion/attention.h"

#include "ir/kernel/attention/attention_call.h"
#include "ir/kernel/matmul.h"
#include "passes/fusion/gradient_fusion.h"
#include "passes/simplify/rewrite.h"

/* -- what belongs to it ---------------------------------------------------------------------------- */

/* What moves a result, or scales it: the kernel does so before it stores it. */
static bool ends_with(const Instruction *x)
{
    uint32_t operand;
    double factor;
    return attention_is_move(x) || attention_scaling(x, &operand, &factor);
}

/* From a dot to what moves its result, as long as nobody else reads it. */
static void find_ends(Gradient *c, const Uses *uses, GradientDot *d)
{
    Instruction *x = d->dot;
    d->ends[d->end_count++] = x;
    while (d->end_count < GRADIENT_MOST_MOVES && x != c->comp->root) {
        Instruction *user = uses_only(uses, x);
        if (user == NULL || !ends_with(user) || user->control_count != 0)
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
        int64_t to = dot_result_dim(dot, side, i);
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

/* do / l times e, where the output is divided behind its dot: it becomes do times p. */
static bool is_of_weights(const Gradient *c, const Instruction *dot)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (attention_without_moves(dot->operands[i]) == c->g.over_sums &&
            attention_without_moves(dot->operands[!i]) == c->a->parts.exponentials.inst)
            return true;
    }
    return false;
}

static bool is_inside(const Gradient *c, const Instruction *x)
{
    return c->is_made[x->id] ||
           (x->op != OP_DOT && x->op != OP_REDUCE && attention_takes_inside(x));
}

/* Whether e or do / l itself is part of something that goes into a kernel, other than of a core. */
static bool reads_parts(const Gradient *c, const Instruction *x, bool *is_seen)
{
    bool reads = x == c->g.over_sums || x == c->a->parts.exponentials.inst;
    for (uint32_t i = 0; i < c->g.core_count; i++) {
        if (x == c->g.cores[i])
            return false;
    }
    if (reads || is_seen[x->id] || !is_inside(c, x))
        return reads;
    is_seen[x->id] = true;
    for (uint32_t i = 0; i < x->operand_count && !reads; i++)
        reads = reads_parts(c, x->operands[i], is_seen);
    return reads;
}

/* With do for do / l and p for e, a dot must be of both or of neither. */
static bool may_replace_parts(const Gradient *c, const Instruction *dot)
{
    bool *is_seen = ARENA_ARRAY(c->cx->scratch, bool, c->ids);
    return c->g.over_sums == NULL || is_of_weights(c, dot) ||
           (!reads_parts(c, dot->operands[0], is_seen) &&
            !reads_parts(c, dot->operands[1], is_seen));
}

static bool take_dot(Gradient *c, const Uses *uses, Instruction *dot)
{
    if (dot == c->a->parts.output)
        return true;
    if (c->count == GRADIENT_MOST_RESULTS || dot->control_count != 0 ||
        (c->is_made[dot->operands[0]->id] && c->is_made[dot->operands[1]->id]) ||
        !may_replace_parts(c, dot))
        return false;
    GradientDot *d = &c->dots[c->count++];
    d->dot = dot;
    find_ends(c, uses, d);
    if (c->is_library && c->is_made[dot->operands[1]->id])
        turn(c, d);
    return true;
}

/* From the attention's result to its second dot; in a product with 1 / l the dot may be either operand. */
static const Instruction *step_inwards(const Gradient *c, const Instruction *step)
{
    bool is_product = step->op == OP_MULTIPLY;
    const Instruction *x = step->operands[is_product];
    while (attention_is_move(x) || x->op == OP_BITCAST)
        x = x->operands[0];
    return step->operands[is_product && x == c->a->parts.output];
}

/* The attention's result, and do / l, for which do stands, may be read by anyone. */
static bool is_free(const Gradient *c, const Instruction *x)
{
    const Instruction *step = c->last;
    while (step != x && step != c->a->parts.output)
        step = step_inwards(c, step);
    return step == x || x == c->g.over_sums;
}

/* Whether what is made of the scores leaves by the attention's result and by dots only. */
static bool find_dots(Gradient *c)
{
    Uses uses = uses_compute(c->comp, c->cx->scratch);
    for (Instruction *x = inst_first(c->comp); x; x = inst_next(x)) {
        if (is_free(c, x))
            continue;
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
    Replacement data[GRADIENT_MOST_RESULTS + 1];
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
            to = rw_transpose(&at, from->shape, to, rw_turned_dims(&at, d->dot, true));
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
                c->dots[k].is_fused ? NULL : gradient_fuse(c, both, 2, ends);
            if (fusion != NULL)
                replace_by(c, out, fusion, both, 2, ends);
        }
        if (c->dots[i].is_fused)
            continue;
        GradientDot *one[] = {&c->dots[i]};
        Instruction *fusion = gradient_fuse(c, one, 1, ends);
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

/* x with do for do / l. */
static Instruction *with_whole(const Gradient *c, Rewriter *r, Instruction *x)
{
    if (x == c->g.over_sums)
        return (Instruction *)(uintptr_t)c->g.whole;
    Instruction *moved = with_whole(c, r, x->operands[0]);
    return computation_add_like(r->comp, x, x->shape, 1, &moved);
}

/* do, in the order of the products' operand. */
static Instruction *whole_do(const Gradient *c, Rewriter *r)
{
    Instruction *x = c->g.products->operands[c->g.do_side];
    return c->g.over_sums == NULL ? x : with_whole(c, r, x);
}

/* All of it but the attention, which keeps its statistics. */
static bool replace_gradient(Gradient *c, Instruction *forward)
{
    Replacements all = {.count = 0};
    Instruction *result = computation_add_element(forward, 0);
    Rewriter r = rewriter_at(c, (Instruction *)(uintptr_t)c->g.cores[0]);
    c->statistics = computation_add_element(forward, 1);
    c->maxima = forward->shape->rank > 2 ? computation_add_element(forward, 2)
                                         : (Instruction *)NULL;
    c->differences = gradient_sum_rows(c, &r, result, whole_do(c, &r));
    if (c->differences == NULL || !fuse_all(c, &all))
        return false;
    for (uint32_t i = 0; i < all.count; i++)
        computation_replace_one(c->comp, all.data[i].from, all.data[i].to);
    computation_replace_one(c->comp, c->last, result);
    return true;
}

bool fuse_attention_gradient(const Attention *a, Instruction *last, PassContext *cx)
{
    const AttentionRegion *region = attention_region(a, last, cx);
    Gradient *c = region != NULL ? find_gradient(a, last, false, cx) : NULL;
    if (c == NULL)
        return false;
    AttentionKeeps keeps =
        attention_keeps_maxima(a) ? ATTENTION_KEEPS_MAXIMA : ATTENTION_KEEPS_LOGS;
    Instruction *forward = attention_region_fuse(region, keeps, cx);
    return attention_set_kind(forward, cx) && replace_gradient(c, forward);
}

/* -- for cuDNN -------------------------------------------------------------------------------------- */

struct LibraryGradient {
    Attention a;
    Instruction *last, *attention, *gradient;
    Replacements all;
};

LibraryGradient *library_gradient_wrap(const Attention *a, Instruction *last,
                                       PassContext *cx)
{
    LibraryGradient *g = ARENA_NEW(cx->scratch, LibraryGradient);
    Attention unused;
    GradientDot *dots[GRADIENT_MOST_RESULTS];
    uint32_t ends[GRADIENT_MOST_RESULTS];
    /* cuDNN's statistics are one number, of which a bias may leave the maximum only */
    const AttentionRegion *region =
        attention_keeps_maxima(a) ? NULL : attention_region(a, last, cx);
    Gradient *c = region != NULL ? find_gradient(a, last, true, cx) : NULL;
    if (c == NULL)
        return NULL;
    g->a = *a;
    g->last = last;
    g->attention = attention_region_fuse(region, ATTENTION_KEEPS_LOGS, cx);
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
    g->gradient = gradient_fuse(c, dots, c->count, ends);
    if (g->gradient == NULL)
        return g;
    replace_by(c, &g->all, g->gradient, dots, c->count, ends);
    g->all.data[g->all.count++] = (Replacement){last, c->result};
    return g;
}

uint32_t library_gradient_fusions(const LibraryGradient *g, Instruction *out[2])
{
    out[0] = g->attention;
    out[1] = g->gradient;
    return g->gradient != NULL ? 2 : 1;
}

void library_gradient_forward(const LibraryGradient *g, Instruction **forward)
{
    for (uint32_t i = 0; i < g->all.count; i++)
        forward[g->all.data[i].from->id] = g->all.data[i].to;
}

bool library_gradient_attention_only(const LibraryGradient *g, PassContext *cx)
{
    Gradient *c = find_gradient(&g->a, g->last, false, cx);
    return c != NULL && replace_gradient(c, g->attention);
}
