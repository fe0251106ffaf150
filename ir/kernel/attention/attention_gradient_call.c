/* Gradients of attentions that cuDNN makes: what a marked fusion says. It is of one form, which is that of cuDNN's own graph
 * (passes/fusion/attention_gradient.c writes it):
 *
 *   p = exp(masked scores - statistics)     core = p * (do v' - sum over the depth of result * do)
 *   dq = scale * core k     dk = scale * core' q     dv = p' do
 *
 * The index space of all maps are the elements of p. */
#include <stdlib.h>

#include "ir/analysis/collective.h"
#include "ir/kernel/attention/attention_call.h"
#include "ir/kernel/matmul.h"
#include "ir/literal.h"

enum { RESULTS = 3, MOST_WALK = 32 };

typedef struct Matcher {
    Attention *a;
    AttentionDigits d;
    Mapped weights;          /* p in its own index space */
    const Instruction *core; /* NULL: not met yet */
    size_t leaf[ATTENTION_ARRAYS];
} Matcher;

/* -- digits ---------------------------------------------------------------------------------------- */

static int by_weight(const void *a, const void *b)
{
    const ElementDigit *x = a, *y = b;
    return (x->weight < y->weight) - (x->weight > y->weight);
}

/* The outermost first; what steps evenly is one. */
static ElementDigits normalised(const ElementDigits *d)
{
    ElementDigits sorted = *d, out = {0};
    qsort(sorted.data, sorted.count, sizeof *sorted.data, by_weight);
    for (uint32_t i = 0; i < sorted.count; i++) {
        const ElementDigit *x = &sorted.data[i];
        ElementDigit *last = out.count > 0 ? &out.data[out.count - 1] : NULL;
        if (last != NULL && last->weight == x->weight * x->size &&
            last->stride == x->stride * x->size)
            *last = (ElementDigit){x->weight, last->size * x->size, x->stride};
        else
            out.data[out.count++] = *x;
    }
    return out;
}

static bool are_equal(const ElementDigits *a, const ElementDigits *b)
{
    ElementDigits x = normalised(a), y = normalised(b);
    bool equal = x.count == y.count;
    for (uint32_t i = 0; i < x.count && equal; i++)
        equal = x.data[i].weight == y.data[i].weight &&
                x.data[i].size == y.data[i].size && x.data[i].stride == y.data[i].stride;
    return equal;
}

/* -- what is read ---------------------------------------------------------------------------------- */

static bool is_weights(const Matcher *c, const Mapped *x)
{
    return x->inst == c->weights.inst && element_map_equal(&x->map, &c->weights.map);
}

/* exp(masked scores - statistics), the only exponential. */
static bool find_weights(const Computation *body, Matcher *c)
{
    const Instruction *e = NULL;
    for (const Instruction *x = inst_first(body); x; x = inst_next(x)) {
        if (x->op == OP_EXPONENTIAL && e != NULL)
            return false;
        e = x->op == OP_EXPONENTIAL ? x : e;
    }
    return e != NULL && mapped_start(e, &c->weights);
}

/* The dimension that the statistics do not have. */
static bool find_column(Matcher *c)
{
    AttentionParts *p = &c->a->parts;
    const Shape *s = c->weights.inst->shape;
    int64_t weight = shape_elements(s);
    uint32_t found = 0;
    for (uint32_t d = 0; d < s->rank; d++) {
        weight /= s->dims[d];
        if (s->dims[d] == 1 ||
            attention_has_digit(&c->d.digits[ATTENTION_STATISTICS], weight))
            continue;
        p->column_weight = weight;
        p->columns = s->dims[d];
        found++;
    }
    return found == 1;
}

static bool match_scores(Matcher *c)
{
    Mapped x, rows, masked;
    c->d.depth[ATTENTION_STATISTICS] = 1;
    if (!mapped_operand(&c->weights, 0, &x))
        return false;
    mapped_peel(&x);
    if (x.inst->op != OP_SUBTRACT || !mapped_operand(&x, 0, &masked) ||
        !mapped_operand(&x, 1, &rows) || !attention_peel_repetitions(&rows) ||
        !attention_array_digits(&rows, &c->d.digits[ATTENTION_STATISTICS],
                                &c->d.base[ATTENTION_STATISTICS]) ||
        !find_column(c))
        return false;
    mapped_peel(&masked);
    return attention_match_scores(masked, c->a) && c->a->cap == 0 &&
           c->a->mask_count == 0 && attention_score_operands(c->a, &c->d) &&
           attention_bias_digits(c->a, &c->d);
}

/* do v' */
static bool match_products(Matcher *c, Mapped x)
{
    mapped_peel(&x);
    if (x.inst->op != OP_DOT)
        return false;
    for (uint32_t side = 0; side < 2; side++) {
        ElementDigits digits = {0};
        const Instruction *base;
        int64_t depth;
        if (!attention_dot_side(&x, side, NULL, &base, &digits, &depth))
            return false;
        bool is_v = attention_has_digit(&digits, c->a->parts.column_weight);
        AttentionRole role = is_v ? ATTENTION_V : ATTENTION_O;
        if (c->d.base[role] != NULL)
            return false;
        c->d.base[role] = base;
        c->d.digits[role] = digits;
        c->d.depth[role] = depth;
    }
    return true;
}

/* Steps of an array whose depth is the digit of this weight. */
static bool with_depth(const Mapped *m, int64_t weight, int64_t depth, ElementDigits *out,
                       const Instruction **base)
{
    uint32_t kept = 0;
    bool has_depth = false;
    *out = (ElementDigits){0};
    if (!attention_array_digits(m, out, base))
        return false;
    for (uint32_t i = 0; i < out->count; i++) {
        if (out->data[i].weight == weight)
            has_depth = out->data[i].stride == 1 && out->data[i].size == depth;
        else
            out->data[kept++] = out->data[i];
    }
    out->count = kept;
    return has_depth;
}

/* sum over the depth of result * do, for each row. */
static bool match_differences(Matcher *c, Mapped x)
{
    Mapped product, sides[2];
    if (!attention_peel_repetitions(&x) || x.inst->op != OP_REDUCE ||
        x.inst->operand_count != 2)
        return false;
    Ints dims = inst_ints(x.inst, ATTR_DIMENSIONS);
    int64_t weight = shape_elements(c->weights.inst->shape);
    product = (Mapped){.inst = x.inst->operands[0]};
    if (dims.count != 1 || collective_reduction(inst_called(x.inst, 0)) != OP_ADD ||
        !inst_is_constant_scalar(x.inst->operands[1], 0))
        return false;
    int64_t depth = product.inst->shape->dims[dims.data[0]];
    if (!mapped_insert(&x.map, (uint32_t)dims.data[0], depth, weight, &product.map))
        return false;
    mapped_peel(&product);
    if (product.inst->op != OP_MULTIPLY || !mapped_operand(&product, 0, &sides[0]) ||
        !mapped_operand(&product, 1, &sides[1]))
        return false;
    for (uint32_t result = 0; result < 2; result++) {
        ElementDigits digits;
        const Instruction *base;
        if (with_depth(&sides[!result], weight, depth, &digits, &base) &&
            base == c->d.base[ATTENTION_O] &&
            are_equal(&digits, &c->d.digits[ATTENTION_O])) {
            c->d.depth[ATTENTION_RESULT] = depth;
            return with_depth(&sides[result], weight, depth,
                              &c->d.digits[ATTENTION_RESULT],
                              &c->d.base[ATTENTION_RESULT]);
        }
    }
    return false;
}

/* p * (products - differences) */
static bool match_core(Matcher *c, const Mapped *x)
{
    Mapped p, difference, products, rows;
    if (x->inst == c->core)
        return true;
    for (uint32_t i = 0; i < 2 && c->core == NULL; i++) {
        if (!mapped_operand(x, i, &p) || !mapped_operand(x, !i, &difference))
            return false;
        mapped_peel(&p);
        mapped_peel(&difference);
        if (!is_weights(c, &p) || difference.inst->op != OP_SUBTRACT)
            continue;
        c->core = x->inst;
        return mapped_operand(&difference, 0, &products) &&
               mapped_operand(&difference, 1, &rows) && match_products(c, products) &&
               match_differences(c, rows);
    }
    return false;
}

/* 0 where scores do not count: there the core is 0 anyway. */
static bool step_over_mask(const Matcher *c, Mapped *x)
{
    Mapped predicate;
    double zero;
    Attention again = {.parts = c->a->parts};
    const AttentionBand *a = &c->a->band, *b = &again.band;
    bool is_negated = attention_splat(x->inst->operands[1], &zero) && zero == 0;
    return (is_negated || (attention_splat(x->inst->operands[2], &zero) && zero == 0)) &&
           mapped_operand(x, 0, &predicate) &&
           attention_take_mask(&predicate, is_negated, &again) && again.mask_count == 0 &&
           a->has_left == b->has_left && a->has_right == b->has_right &&
           a->left == b->left && a->right == b->right && a->rows == b->rows &&
           a->row_weight == b->row_weight && mapped_operand(x, is_negated ? 2 : 1, x);
}

/* From a dot's operand, whose elements are in the order of p's, to p or to the core. */
static bool walk(Matcher *c, const Instruction *from, double *factor, bool *is_core)
{
    Mapped x;
    *factor = 1;
    if (!mapped_start(from, &x))
        return false;
    for (uint32_t i = 0; i < MOST_WALK; i++) {
        uint32_t operand;
        double value;
        mapped_peel(&x);
        *is_core = false;
        if (is_weights(c, &x))
            return true;
        if (attention_scaling(x.inst, &operand, &value)) {
            *factor *= value;
            if (!mapped_operand(&x, operand, &x))
                return false;
        } else if (x.inst->op == OP_SELECT) {
            if (!step_over_mask(c, &x))
                return false;
        } else {
            *is_core = x.inst->op == OP_MULTIPLY;
            return *is_core && match_core(c, &x);
        }
    }
    return false;
}

/* -- what is made ---------------------------------------------------------------------------------- */

/* A result: its dot, where that lies in the result's memory, and factors behind the dot. */
typedef struct GradientDot {
    const Instruction *dot;
    StridedView view;
    double factor;
} GradientDot;

static bool find_dot(const Instruction *last, GradientDot *out)
{
    const Instruction *steps[ATTENTION_STEPS], *x = last;
    uint32_t n = 0;
    out->factor = 1;
    while (x->op != OP_DOT) {
        uint32_t operand = 0;
        double factor = 1;
        bool is_move = x->op == OP_CONVERT || x->op == OP_COPY || x->op == OP_TRANSPOSE ||
                       x->op == OP_RESHAPE;
        if (n == ATTENTION_STEPS ||
            (!is_move && !attention_scaling(x, &operand, &factor)))
            return false;
        steps[n++] = x;
        x = x->operands[operand];
        out->factor *= factor;
    }
    out->dot = x;
    if (!view_start(x, &out->view))
        return false;
    while (n-- > 0) {
        if (!view_step_out(&out->view, steps[n]))
            return false;
    }
    return true;
}

static Ints batch_dims(const Instruction *dot, uint32_t side)
{
    return inst_ints(dot, side == 0 ? ATTR_LHS_BATCH_DIMS : ATTR_RHS_BATCH_DIMS);
}

static Ints contracted_dims(const Instruction *dot, uint32_t side)
{
    return inst_ints(dot,
                     side == 0 ? ATTR_LHS_CONTRACTING_DIMS : ATTR_RHS_CONTRACTING_DIMS);
}

/* A dimension of operand `side` of a dot, which has p's elements in their order, as one piece of the index space. */
static ViewPiece piece_of(const Instruction *dot, uint32_t side, int64_t dim)
{
    const Shape *s = dot->operands[side]->shape;
    ViewPiece p = {0, s->dims[dim], 1};
    for (uint32_t d = (uint32_t)dim + 1; d < s->rank; d++)
        p.stride *= s->dims[d];
    return p;
}

static bool add_digits(ElementDigits *out, ViewPiece space, const StridedView *v,
                       int64_t dim)
{
    uint32_t n;
    const ViewPiece *p = view_pieces_of(v->pieces, v->count, (uint32_t)dim, &n);
    return element_digits_add(out, &space, space.size != 1, p, n);
}

/* The other operand is that array, at the same positions. */
static bool multiplies(const Matcher *c, const Instruction *dot, uint32_t side,
                       AttentionRole role, double *factor)
{
    StridedView v;
    ElementDigits digits = {0};
    Ints batch[2] = {batch_dims(dot, side), batch_dims(dot, !side)},
         summed[2] = {contracted_dims(dot, side), contracted_dims(dot, !side)};
    int64_t depths[VIEW_RANK], depth;
    uint32_t n = 0;
    if (!view_start(dot->operands[!side], &v))
        return false;
    attention_follow(&v, factor);
    for (uint32_t d = 0; d < dot->operands[!side]->shape->rank; d++) {
        int64_t at = ints_find(batch[1], d), term = ints_find(summed[1], d);
        if (at < 0 && term < 0)
            depths[n++] = d;
        else if (!add_digits(&digits,
                             piece_of(dot, side,
                                      at < 0 ? summed[0].data[term] : batch[0].data[at]),
                             &v, d))
            return false;
    }
    return v.base == c->d.base[role] && are_equal(&digits, &c->d.digits[role]) &&
           attention_is_dense(&v, depths, n, &depth) && depth == c->d.depth[role];
}

/* Where the result lies, by p's elements and the depth, which is all that the other operand adds. */
static bool locate(Matcher *c, const GradientDot *g, uint32_t side, AttentionRole role,
                   const Instruction *base)
{
    const Instruction *dot = g->dot, *x = dot->operands[side], *y = dot->operands[!side];
    Ints batch = batch_dims(dot, !side);
    int64_t depths[VIEW_RANK];
    uint32_t n = 0;
    for (uint32_t d = 0; d < x->shape->rank; d++) {
        int64_t to = dot_result_dim(dot, side, d);
        if (to >= 0 &&
            !add_digits(&c->d.digits[role], piece_of(dot, side, d), &g->view, to))
            return false;
    }
    for (uint32_t d = 0; d < y->shape->rank; d++) {
        int64_t to = dot_result_dim(dot, !side, d);
        if (to >= 0 && ints_find(batch, d) < 0)
            depths[n++] = to;
    }
    c->d.base[role] = base;
    return attention_is_dense(&g->view, depths, n, &c->d.depth[role]);
}

static bool is_factor(double x, double y)
{
    double error = x - y, most = (y < 0 ? -y : y) * 1e-5;
    return error <= most && error >= -most;
}

/* dv = p' do, dq = f(core) k or dk = f(core)' q. */
static bool match_result(Matcher *c, const Instruction *last, size_t leaf)
{
    GradientDot g;
    double factor, other = 1;
    bool is_core, is_query = false;
    if (!find_dot(last, &g))
        return false;
    for (uint32_t side = 0; side < 2; side++) {
        if (!walk(c, g.dot->operands[side], &factor, &is_core))
            continue;
        Ints summed = contracted_dims(g.dot, side);
        for (uint32_t i = 0; i < summed.count; i++)
            is_query |=
                piece_of(g.dot, side, summed.data[i]).stride == c->a->parts.column_weight;
        AttentionRole role = !is_core   ? ATTENTION_DV
                             : is_query ? ATTENTION_DQ
                                        : ATTENTION_DK;
        AttentionRole read = !is_core   ? ATTENTION_O
                             : is_query ? ATTENTION_K
                                        : ATTENTION_Q;
        c->leaf[role] = leaf;
        return c->d.base[role] == NULL && multiplies(c, g.dot, side, read, &other) &&
               is_factor(factor * other * g.factor, is_core ? c->a->scale : 1) &&
               locate(c, &g, side, role, last);
    }
    return false;
}

/* -- together --------------------------------------------------------------------------------------- */

/* All of q's type, which has 16 bits; of the results no element is missing. */
static bool fits(const Matcher *c, const AttentionArray *arrays)
{
    DType t = arrays[ATTENTION_Q].base->shape->dtype;
    for (uint32_t i = 0; i < ATTENTION_ARRAYS; i++) {
        const AttentionArray *x = &arrays[i];
        if (x->base == NULL)
            continue;
        DType type = x->base->shape->dtype;
        bool has_type = i == ATTENTION_STATISTICS ? type == DT_F32
                        : i == ATTENTION_BIAS     ? type == t || type == DT_F32
                                                  : type == t;
        int64_t elements = x->dims[0] * x->dims[1] * x->dims[2] * x->dims[3];
        bool is_made = i >= ATTENTION_DQ;
        if (!has_type || (is_made && elements != shape_elements(x->base->shape)))
            return false;
    }
    return dtype_is_half(t) && attention_band_fits(&c->a->band, c->a->parts.columns);
}

static bool match_fusion(const Instruction *fusion, Matcher *c)
{
    const Instruction *root = inst_called(fusion, 0)->root;
    if (root->op != OP_TUPLE || root->operand_count != RESULTS ||
        !find_weights(root->parent, c) || !match_scores(c))
        return false;
    bool is_found[RESULTS] = {false};
    for (uint32_t i = 0; i < 2 * RESULTS;
         i++) { /* dv waits for the core, which says what do is */
        uint32_t leaf = i % RESULTS;
        is_found[leaf] = is_found[leaf] || match_result(c, root->operands[leaf], leaf);
    }
    return is_found[0] && is_found[1] && is_found[2];
}

bool attention_gradient_call_of(const Instruction *inst, AttentionGradientCall *out)
{
    Matcher c = {.a = &out->attention};
    AttentionArray arrays[ATTENTION_ARRAYS];
    *out = (AttentionGradientCall){.attention = {.scale = 1}};
    if (!attention_is_marked(inst) || !match_fusion(inst, &c) ||
        !attention_arrange(&c.d, &out->attention.band, arrays) || !fits(&c, arrays))
        return false;
    for (uint32_t i = 0; i < ATTENTION_ARRAYS; i++) {
        if (i < ATTENTION_DQ) {
            if (!attention_move_outside(inst, &arrays[i]))
                return false;
            continue;
        }
        if (!shape_layouts_equal(shape_leaf(inst->shape, c.leaf[i]),
                                 arrays[i].base->shape))
            return false;
        arrays[i].base = inst;
    }
    out->attention.q = arrays[ATTENTION_Q];
    out->attention.k = arrays[ATTENTION_K];
    out->attention.v = arrays[ATTENTION_V];
    out->attention.o = arrays[ATTENTION_O];
    out->attention.bias = arrays[ATTENTION_BIAS];
    out->attention.statistics = arrays[ATTENTION_STATISTICS];
    out->result = arrays[ATTENTION_RESULT];
    out->dq = arrays[ATTENTION_DQ];
    out->dk = arrays[ATTENTION_DK];
    out->dv = arrays[ATTENTION_DV];
    out->dq_leaf = c.leaf[ATTENTION_DQ];
    out->dk_leaf = c.leaf[ATTENTION_DK];
    out->dv_leaf = c.leaf[ATTENTION_DV];
    return true;
}
