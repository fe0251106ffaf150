/* See attention.h. */
#include "ir/kernel/attention/attention.h"

#include <math.h>
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/kernel/matmul.h"
#include "ir/literal.h"

/* -- dots --------------------------------------------------------------------------------------- */

/* The second dot and its result's memory. */
typedef struct OutputDot {
    Mapped dot;       /* in the index space */
    StridedView view; /* its elements in the memory of the whole attention's result */
    Mapped sums;      /* that its result is divided by; inst is NULL: not here */
} OutputDot;

/* Which dimensions of a dot's operand are what. */
typedef struct DotSide {
    const Instruction *dot;
    uint32_t side;
    Ints batch, contracted;
} DotSide;

static DotSide dot_side(const Instruction *dot, uint32_t side)
{
    return (DotSide){
        .dot = dot,
        .side = side,
        .batch = inst_ints(dot, side == 0 ? ATTR_LHS_BATCH_DIMS : ATTR_RHS_BATCH_DIMS),
        .contracted = inst_ints(dot, side == 0 ? ATTR_LHS_CONTRACTING_DIMS
                                               : ATTR_RHS_CONTRACTING_DIMS)};
}

bool attention_is_dense(const StridedView *v, const int64_t *dims, uint32_t count,
                        int64_t *size)
{
    *size = 1;
    for (uint32_t i = count; i-- > 0;) {
        uint32_t n;
        const ViewPiece *p = view_pieces_of(v->pieces, v->count, (uint32_t)dims[i], &n);
        while (n-- > 0) {
            if (p[n].stride != *size)
                return false;
            *size *= p[n].size;
        }
    }
    return true;
}

/* Steps of the view's memory by the map's digits. */
static bool add_view(const Mapped *m, const StridedView *v, ElementDigits *out)
{
    for (uint32_t d = 0; d < m->map.rank; d++) {
        uint32_t n, k;
        const ViewPiece *p = view_pieces_of(m->map.pieces, m->map.count, d, &n);
        const ViewPiece *q = view_pieces_of(v->pieces, v->count, d, &k);
        if (!element_digits_add(out, p, n, q, k))
            return false;
    }
    return dtype_is_float(v->base->shape->dtype);
}

bool attention_array_digits(const Mapped *m, ElementDigits *out, const Instruction **base)
{
    StridedView v;
    if (!view_start(m->inst, &v))
        return false;
    attention_follow(&v, NULL);
    *base = v.base;
    return add_view(m, &v, out);
}

/* -- the softmax --------------------------------------------------------------------------------- */

bool attention_peel_repetitions(Mapped *m)
{
    for (mapped_peel(m); m->inst->op == OP_BROADCAST; mapped_peel(m)) {
        if (!mapped_operand(m, 0, m))
            return false;
    }
    return true;
}

/* A reduction's start: 0, or below everything. */
static bool is_start(const Instruction *value, OpCode op)
{
    double least;
    return op == OP_ADD ? inst_is_constant_scalar(value, 0)
                        : attention_is_fill(value, &least);
}

/* max(x, -inf) is x. */
static bool peel_lower_bound(Mapped *m)
{
    double least;
    for (uint32_t i = 0; i < 2 && m->inst->op == OP_MAXIMUM; i++) {
        if (attention_splat(m->inst->operands[i], &least) && least <= -1e30)
            return mapped_operand(m, !i, m) && attention_peel_repetitions(m);
    }
    return true;
}

/* The reduction over columns that is repeated along them, and what it reads, without roundings. */
static bool match_reduction(Mapped m, OpCode op, const AttentionParts *parts,
                            Mapped *reduction, Mapped *operand)
{
    if (!attention_peel_repetitions(&m) || !peel_lower_bound(&m))
        return false;
    const Instruction *r = m.inst;
    if (r->op != OP_REDUCE || r->operand_count != 2)
        return false;
    Ints dims = inst_ints(r, ATTR_DIMENSIONS);
    Mapped x = {.inst = r->operands[0]};
    if (dims.count != 1 || collective_reduction(inst_called(r, 0)) != op ||
        !is_start(r->operands[1], op) ||
        !mapped_insert(&m.map, (uint32_t)dims.data[0], parts->columns,
                       parts->column_weight, &x.map))
        return false;
    mapped_peel(&x);
    *reduction = m;
    *operand = x;
    return true;
}

static bool is_same(const Mapped *a, const Mapped *b)
{
    return a->inst == b->inst && element_map_equal(&a->map, &b->map);
}

/* The maxima, from that of the result to the index space of the sums; false: their elements are not the same rows. */
static bool map_maxima(const ElementMap *rows, ElementMap *out)
{
    for (uint32_t i = 0; i < out->count; i++) {
        ViewPiece *x = &out->pieces[i];
        int64_t step = 1;
        uint32_t k = rows->count;
        while (k > 0 && (rows->pieces[k - 1].size != x->size ||
                         rows->pieces[k - 1].stride != x->stride))
            step *= rows->pieces[--k].size;
        if (k == 0)
            return false;
        x->stride = step;
    }
    return out->count == rows->count;
}

void attention_maxima_order(const AttentionParts *parts, int64_t *dims)
{
    const ElementMap *m = &parts->of_maxima;
    uint32_t rank = parts->maxima->shape->rank;
    int64_t steps[VIEW_RANK];
    for (uint32_t d = 0; d < rank; d++) {
        uint32_t n, at = d;
        const ViewPiece *x = view_pieces_of(m->pieces, m->count, d, &n);
        int64_t step = n != 0   ? x->stride
                       : d != 0 ? steps[at - 1] /* of size 1: it stays */
                                : INT64_MAX;
        for (; at > 0 && steps[at - 1] < step; at--) {
            steps[at] = steps[at - 1];
            dims[at] = dims[at - 1];
        }
        steps[at] = step;
        dims[at] = d;
    }
}

/* sum + exp(sink - maxima): past the addition. Without one, the sum as it is. */
static bool take_sink(Mapped *sum, Mapped *maxima, Attention *a)
{
    maxima->inst = NULL;
    if (!attention_peel_repetitions(sum))
        return false;
    for (uint32_t i = 0; i < 2 && sum->inst->op == OP_ADD; i++) {
        Mapped e, less, sink;
        if (mapped_operand(sum, i, &e) && attention_peel_repetitions(&e) &&
            e.inst->op == OP_EXPONENTIAL && mapped_operand(&e, 0, &less) &&
            attention_peel_repetitions(&less) && less.inst->op == OP_SUBTRACT &&
            mapped_operand(&less, 0, &sink) && attention_peel_repetitions(&sink) &&
            mapped_operand(&less, 1, maxima) && attention_peel_repetitions(maxima)) {
            a->sink = sink;
            return mapped_operand(sum, !i, sum);
        }
    }
    return true;
}

/* max(maxima, sink): past it. These maxima must be those that the sink is less of. */
static bool peel_sink(const Attention *a, const Mapped *of_sink, Mapped *maxima)
{
    if (!attention_peel_repetitions(maxima) || !is_same(maxima, of_sink))
        return false;
    for (uint32_t i = 0; i < 2 && maxima->inst->op == OP_MAXIMUM; i++) {
        Mapped y;
        if (mapped_operand(maxima, i, &y) && attention_peel_repetitions(&y) &&
            is_same(&y, &a->sink))
            return mapped_operand(maxima, !i, maxima);
    }
    return false;
}

/* What no maximum is below: the reduction's start, and a bound behind it. */
static double least_maximum(Mapped maxima, const Instruction *reduction)
{
    double least, bound;
    if (!attention_is_fill(reduction->operands[1], &least))
        least = -INFINITY;
    if (!attention_peel_repetitions(&maxima) || maxima.inst->op != OP_MAXIMUM)
        return least;
    for (uint32_t i = 0; i < 2; i++) {
        if (attention_splat(maxima.inst->operands[i], &bound) && bound > least)
            least = bound;
    }
    return least;
}

/* x - max of x: past the subtraction. Without one, x as it is. */
static bool take_maxima(Mapped *x, const Mapped *of_sink, Attention *a)
{
    AttentionParts *p = &a->parts;
    Mapped maxima, reduction, read;
    bool has_sink = of_sink->inst != NULL;
    p->masked = *x;
    mapped_peel(x);
    if (x->inst->op != OP_SUBTRACT || !mapped_operand(x, 1, &maxima) ||
        (has_sink && !peel_sink(a, of_sink, &maxima)) ||
        !match_reduction(maxima, OP_MAXIMUM, p, &reduction, &read))
        return !has_sink;
    p->maxima = reduction.inst;
    p->least_maximum = least_maximum(maxima, reduction.inst);
    p->of_maxima = reduction.map;
    p->has_statistics = !has_sink && map_maxima(&p->rows.map, &p->of_maxima);
    if (!mapped_operand(x, 0, &p->masked))
        return false;
    *x = p->masked;
    mapped_peel(x);
    return is_same(&read, x);
}

/* e / sum of e, e = exp(x - max of x). */
static bool match_softmax(Mapped e, const Mapped *sum, Attention *a)
{
    AttentionParts *p = &a->parts;
    Mapped x, summed, sums = *sum, of_sink;
    mapped_peel(&e);
    if (e.inst->op != OP_EXPONENTIAL || !take_sink(&sums, &of_sink, a) ||
        !match_reduction(sums, OP_ADD, p, &p->rows, &summed) || !is_same(&summed, &e) ||
        !mapped_operand(&e, 0, &x))
        return false;
    p->sums = p->rows.inst;
    p->has_statistics = true;
    p->exponentials = e;
    return take_maxima(&x, &of_sink, a) && attention_match_scores(x, a);
}

/* e / sum or e * (1 / sum): e and the sum, repeated as it is. */
static bool split_quotient(const Mapped *w, Mapped *e, Mapped *sum)
{
    double one;
    if (w->inst->op == OP_DIVIDE)
        return mapped_operand(w, 0, e) && mapped_operand(w, 1, sum);
    for (uint32_t i = 0; i < 2 && w->inst->op == OP_MULTIPLY; i++) {
        Mapped r;
        if (mapped_operand(w, i, &r) && mapped_operand(w, !i, e) &&
            attention_peel_repetitions(&r) && r.inst->op == OP_DIVIDE &&
            attention_splat(r.inst->operands[0], &one) && one == 1)
            return mapped_operand(&r, 1, sum);
    }
    return false;
}

/* -- arrays -------------------------------------------------------------------------------------- */

bool attention_dot_side(const Mapped *dot, uint32_t side, double *scale,
                        const Instruction **base, ElementDigits *out, int64_t *depth)
{
    StridedView v;
    DotSide s = dot_side(dot->inst, side);
    if (!view_start(dot->inst->operands[side], &v))
        return false;
    attention_follow(&v, scale);
    *base = v.base;
    for (uint32_t d = 0; d < dot->inst->operands[side]->shape->rank; d++) {
        uint32_t n, k;
        int64_t to = dot_result_dim(s.dot, s.side, d);
        if (to < 0)
            continue;
        const ViewPiece *p =
            view_pieces_of(dot->map.pieces, dot->map.count, (uint32_t)to, &n);
        const ViewPiece *q = view_pieces_of(v.pieces, v.count, d, &k);
        if (!element_digits_add(out, p, n, q, k))
            return false;
    }
    return attention_is_dense(&v, s.contracted.data, s.contracted.count, depth);
}

bool attention_has_digit(const ElementDigits *d, int64_t weight)
{
    for (uint32_t i = 0; i < d->count; i++) {
        if (d->data[i].weight == weight)
            return true;
    }
    return false;
}

bool attention_score_operands(Attention *a, AttentionDigits *d)
{
    const Instruction *bases[2];
    ElementDigits digits[2] = {0};
    int64_t depth[2];
    for (uint32_t side = 0; side < 2; side++) {
        if (!attention_dot_side(&a->parts.scores, side, &a->scale, &bases[side],
                                &digits[side], &depth[side]))
            return false;
    }
    uint32_t k = attention_has_digit(&digits[1], a->parts.column_weight);
    a->parts.k_side = k;
    for (uint32_t side = 0; side < 2; side++) {
        uint32_t to = side == k ? ATTENTION_K : ATTENTION_Q;
        d->digits[to] = digits[side];
        d->depth[to] = depth[side];
        d->base[to] = bases[side];
    }
    return true;
}

/* As far as the columns are side by side: the kernel reads a row's pieces at once. */
static bool has_columns_inside(const Mapped *m, const StridedView *v, int64_t weight)
{
    for (uint32_t d = 0; d < m->map.rank; d++) {
        uint32_t n, k;
        const ViewPiece *p = view_pieces_of(m->map.pieces, m->map.count, d, &n);
        const ViewPiece *q = view_pieces_of(v->pieces, v->count, d, &k);
        if (n > 0 && p[n - 1].stride == weight)
            return k > 0 && q[k - 1].stride == 1;
    }
    return false;
}

bool attention_bias_digits(const Attention *a, AttentionDigits *d)
{
    const Mapped *m = &a->parts.bias;
    StridedView v;
    if (m->inst == NULL)
        return true;
    if (!view_start(m->inst, &v))
        return false;
    for (StridedView next = v; attention_step(&next);) {
        if (has_columns_inside(m, &next, a->parts.column_weight))
            v = next;
    }
    d->base[ATTENTION_BIAS] = v.base;
    return add_view(m, &v, &d->digits[ATTENTION_BIAS]);
}

/* Where the sums lie, of which the statistics have shape and layout. */
static bool statistics_digits(const Attention *a, AttentionDigits *d)
{
    Mapped sums = a->parts.rows;
    d->depth[ATTENTION_STATISTICS] = 1;
    return attention_array_digits(&sums, &d->digits[ATTENTION_STATISTICS],
                                  &d->base[ATTENTION_STATISTICS]);
}

/* Dimension `dim` of the second dot's operand, in the index space; false: it is of the depth. */
static bool space_pieces(const Attention *a, const OutputDot *o, const DotSide *s,
                         int64_t dim, const ViewPiece *column, const ViewPiece **pieces,
                         uint32_t *n)
{
    if (ints_find(s->contracted, dim) >= 0) {
        *pieces = column;
        *n = 1;
        return true;
    }
    int64_t to = dot_result_dim(s->dot, s->side, dim);
    if (s->side == a->parts.v_side && ints_find(s->batch, dim) < 0)
        return false;
    *pieces = view_pieces_of(o->dot.map.pieces, o->dot.map.count, (uint32_t)to, n);
    return true;
}

/* v and the result: what the weights have in common with them, and the depth. */
static bool output_operands(const Attention *a, const OutputDot *o, AttentionDigits *d)
{
    const Instruction *dot = o->dot.inst;
    DotSide w = dot_side(dot, !a->parts.v_side), s = dot_side(dot, a->parts.v_side);
    const Instruction *v = dot->operands[s.side];
    const ViewPiece column = {0, a->parts.columns, a->parts.column_weight}, *p, *q;
    int64_t v_depth[VIEW_RANK], o_depth[VIEW_RANK];
    uint32_t depths = 0, n, k;
    StridedView view;
    if (!view_start(v, &view))
        return false;
    attention_follow(&view, NULL);
    for (uint32_t dim = 0; dim < v->shape->rank; dim++) {
        if (!space_pieces(a, o, &s, dim, &column, &p, &n)) {
            o_depth[depths] = dot_result_dim(s.dot, s.side, dim);
            v_depth[depths++] = dim;
            continue;
        }
        q = view_pieces_of(view.pieces, view.count, dim, &k);
        if (!element_digits_add(&d->digits[ATTENTION_V], p, n, q, k))
            return false;
    }
    for (uint32_t dim = 0; dim < dot->operands[w.side]->shape->rank; dim++) {
        if (ints_find(w.contracted, dim) >= 0)
            continue;
        space_pieces(a, o, &w, dim, &column, &p, &n);
        q = view_pieces_of(o->view.pieces, o->view.count,
                           (uint32_t)dot_result_dim(w.dot, w.side, dim), &k);
        if (!element_digits_add(&d->digits[ATTENTION_O], p, n, q, k))
            return false;
    }
    d->base[ATTENTION_V] = view.base;
    d->base[ATTENTION_O] = o->view.base;
    return attention_is_dense(&view, v_depth, depths, &d->depth[ATTENTION_V]) &&
           attention_is_dense(&o->view, o_depth, depths, &d->depth[ATTENTION_O]);
}

bool attention_band_fits(const AttentionBand *b, int64_t columns)
{
    return b->rows == 0 ||
           ((!b->has_right || b->right >= 0) && (!b->has_left || b->left > 0) &&
            (!b->has_left || b->rows - b->left < columns) &&
            (!b->has_left || !b->has_right || b->right > -b->left));
}

/* -- whole attentions ---------------------------------------------------------------------------- */

static bool is_move(const Instruction *x)
{
    return x->op == OP_CONVERT || x->op == OP_COPY || x->op == OP_TRANSPOSE ||
           x->op == OP_RESHAPE || x->op == OP_BITCAST;
}

/* Values that are rounded to f8 leave as that, if at all. */
static bool is_output_move(const Instruction *x, bool is_last)
{
    return is_move(x) && (x->op != OP_CONVERT || is_last || conversion_is_close(x));
}

/* From the result to the dot, past a division by the sums. The index space is the result's. */
static bool find_output(const Instruction *last, OutputDot *out)
{
    const Instruction *steps[ATTENTION_STEPS];
    uint32_t n = 0;
    *out = (OutputDot){0};
    if (!mapped_start(last, &out->dot))
        return false;
    while (out->dot.inst->op != OP_DOT) {
        Mapped next, x = out->dot;
        if (n == ATTENTION_STEPS ||
            !(is_output_move(x.inst, n == 0)
                  ? mapped_operand(&x, 0, &next)
                  : out->sums.inst == NULL && split_quotient(&x, &next, &out->sums)))
            return false;
        steps[n++] = x.inst;
        out->dot = next;
    }
    if (!view_start(out->dot.inst, &out->view))
        return false;
    while (n-- > 0) {
        if (!view_step_out(&out->view, steps[n]))
            return false;
    }
    return out->dot.inst->control_count == 0;
}

/* The second dot's operand in the index space: the columns are a digit of their own. */
static bool map_weights(const OutputDot *o, Attention *a)
{
    const Instruction *dot = o->dot.inst;
    DotSide s = dot_side(dot, !a->parts.v_side);
    const Instruction *x = dot->operands[s.side];
    if (s.contracted.count != 1 || x->shape->rank > VIEW_RANK)
        return false;
    int64_t column = s.contracted.data[0], to[VIEW_RANK];
    uint32_t n = 0;
    for (uint32_t d = 0; d < x->shape->rank; d++) {
        if (d != column)
            to[n++] = dot_result_dim(s.dot, s.side, d);
    }
    ElementMap rows;
    a->parts.columns = x->shape->dims[column];
    a->parts.weights.inst = x;
    return a->parts.columns > 1 && element_map_choose(&o->dot.map, n, to, &rows) &&
           mapped_insert(&rows, (uint32_t)column, a->parts.columns,
                         a->parts.column_weight, &a->parts.weights.map);
}

/* select(mask, weights, 0): past it. */
static bool peel_kept(Mapped *w, Mapped *mask)
{
    double zero;
    mask->inst = NULL;
    if (w->inst->op == OP_CONVERT && !mapped_operand(w, 0, w))
        return false; /* the dot's own type, f8 perhaps */
    mapped_peel(w);
    if (w->inst->op != OP_SELECT)
        return true;
    if (!attention_splat(w->inst->operands[2], &zero) || zero != 0 ||
        !mapped_operand(w, 0, mask) || !mapped_operand(w, 1, w))
        return false;
    mapped_peel(w);
    return attention_peel_repetitions(mask);
}

/* The weights are kept where the scores count, by the same mask. */
static bool keeps_masked(Attention *a, const Mapped *kept)
{
    Mapped mask = a->parts.mask;
    if (kept->inst == NULL)
        return true;
    a->empty_is_zero = a->mask_count != 0;
    return a->parts.mask_steps == 1 && !a->parts.mask_is_negated &&
           attention_peel_repetitions(&mask) && is_same(&mask, kept);
}

/* Divided already, or by what stands behind the dot. */
static bool match_weights(const OutputDot *o, Attention *a)
{
    Mapped e, sum, kept, w = a->parts.weights;
    if (!peel_kept(&w, &kept))
        return false;
    if (o->sums.inst != NULL)
        return kept.inst == NULL && match_softmax(w, &o->sums, a);
    return split_quotient(&w, &e, &sum) && match_softmax(e, &sum, a) &&
           keeps_masked(a, &kept);
}

/* Without the statistics where those lie otherwise than heads that share k and v: only cuDNN asks for their steps. */
static bool arrange(const Attention *a, const AttentionDigits *d,
                    AttentionArray out[ATTENTION_ARRAYS])
{
    AttentionDigits all = *d, others = *d;
    return (statistics_digits(a, &all) && attention_arrange(&all, &a->band, out)) ||
           attention_arrange(&others, &a->band, out);
}

/* In a row of which no score counts all exponentials are 0, and so is their sum: its result is no number. */
static bool has_empty_sums(const Attention *a)
{
    const AttentionParts *p = &a->parts;
    return a->mask_count != 0 && !a->empty_is_zero && a->sink.inst == NULL &&
           (p->maxima == NULL || p->mask_fill < p->least_maximum);
}

/* With the weights as operand !v_side. */
static bool match_from(const OutputDot *o, const Instruction *last, uint32_t v_side,
                       Attention *out)
{
    AttentionDigits d = {0};
    AttentionArray arrays[ATTENTION_ARRAYS];
    *out = (Attention){.scale = 1};
    out->parts.output = o->dot.inst;
    out->parts.v_side = v_side;
    out->parts.column_weight = shape_elements(last->shape);
    if (!map_weights(o, out) || !match_weights(o, out) ||
        !attention_score_operands(out, &d) || !output_operands(out, o, &d) ||
        !attention_bias_digits(out, &d) || !arrange(out, &d, arrays))
        return false;
    out->q = arrays[ATTENTION_Q];
    out->k = arrays[ATTENTION_K];
    out->v = arrays[ATTENTION_V];
    out->o = arrays[ATTENTION_O];
    out->bias = arrays[ATTENTION_BIAS];
    out->statistics = arrays[ATTENTION_STATISTICS];
    /* which columns share a row of which none counts is not known */
    bool fills_count =
        (out->mask_count != 0 || out->bias.base != NULL) && out->fills_differ;
    return !fills_count && !has_empty_sums(out) &&
           attention_band_fits(&out->band, out->parts.columns);
}

bool attention_match(const Instruction *last, Attention *out)
{
    OutputDot o;
    return shape_is_array(last->shape) && find_output(last, &o) &&
           (match_from(&o, last, 1, out) || match_from(&o, last, 0, out));
}

/* The operand is the maxima, moved to where the sums are. */
static bool is_maxima(const Mapped *sum, uint32_t operand, const AttentionParts *p)
{
    Mapped x;
    if (!mapped_operand(sum, operand, &x))
        return false;
    mapped_peel(&x);
    return x.inst == p->maxima && element_map_equal(&x.map, &p->of_maxima);
}

static bool is_statistic(const Instruction *x, bool has_maxima, const AttentionParts *p)
{
    const Instruction *log = x;
    Mapped sum;
    if (has_maxima) {
        if (x->op != OP_ADD || !mapped_start(x, &sum))
            return false;
        uint32_t i = is_maxima(&sum, 0, p);
        if (!is_maxima(&sum, !i, p))
            return false;
        log = x->operands[i];
    }
    return log->op == OP_LOG && log->operands[0] == p->sums && p->has_statistics;
}

/* The same by themselves, in the order of the sums. */
static bool are_maxima(const Instruction *x, const AttentionParts *p)
{
    Mapped m;
    if (p->maxima == NULL || !mapped_start(x, &m))
        return false;
    mapped_peel(&m);
    return m.inst == p->maxima && element_map_equal(&m.map, &p->of_maxima) &&
           shape_same_dims(x->shape, p->sums->shape);
}

bool attention_keeps_maxima(const Attention *a)
{
    return a->bias.base != NULL && a->parts.maxima != NULL;
}

bool attention_match_fusion(const Instruction *fusion, Attention *out,
                            AttentionStatistics *statistics)
{
    const Instruction *root = inst_called(fusion, 0)->root;
    const AttentionParts *p = &out->parts;
    *statistics = (AttentionStatistics){NULL, NULL};
    if (root->op != OP_TUPLE)
        return attention_match(root, out);
    bool are_apart = root->operand_count == 3;
    if ((root->operand_count != 2 && !are_apart) ||
        !attention_match(root->operands[0], out) ||
        !is_statistic(root->operands[1], p->maxima != NULL && !are_apart, p) ||
        (are_apart && !(attention_keeps_maxima(out) && are_maxima(root->operands[2], p))))
        return false;
    *statistics =
        (AttentionStatistics){root->operands[1], are_apart ? root->operands[2] : NULL};
    return true;
}
