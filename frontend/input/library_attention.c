/* cuDNN's attentions as XLA and JAX call them, __cudnn$fmha..., read as what they mean. All arrays are
 * brought into one order first: [batch, heads, rows, depth], scores [batch, heads, rows, columns].
 *
 *   (o, [stats], workspace) = forward(q, k, v, [bias], [row lengths, column lengths])
 *   (dq, dk, dv, [dbias], workspace) = backward(q, k, v, stats, d_o, [bias], o, [row lengths, column lengths])
 *
 * s = scale * q k' + bias, masked; p = exp(s - stats), stats = log of the sum of exponentials of each row; o = p v.
 * Rows behind a length are zero. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "frontend/input/library_call.h"

enum { BATCH, HEADS, ROWS, COLUMNS, RANK, DEPTH = 3 };

typedef struct Attention {
    Call *c;
    Rewriter *r;
    Instruction *q, *k, *v, *bias; /* bias, lengths: NULL or there */
    Instruction *row_lengths, *column_lengths;
    DType type;        /* of q, k, v */
    int64_t own_heads; /* of k and v: a divisor of those of q */
    double scale;
    const Shape *scores, *rows; /* f32[b,h,r,c], f32[b,h,r] */
} Attention;

/* -- arrays ------------------------------------------------------------------------------------------ */

/* Two batch dimensions, then the one that is not summed and the one that is, or the other way round. */
static bool side_order(Call *c, const char *dot, const char *side, bool summed_last,
                       int64_t order[RANK])
{
    Arena *a = c->r.m->arena;
    json_t *numbers = json_object_get(c->config, dot);
    int64_t batch[CALL_MOST_RANK] = {0}, summed[CALL_MOST_RANK] = {0};
    int64_t left = 0 + 1 + 2 + 3;
    uint32_t batch_count, summed_count;
    if (!call_dims(c, numbers, arena_printf(a, "%s_batch_dimensions", side), batch,
                   &batch_count) ||
        !call_dims(c, numbers, arena_printf(a, "%s_contracting_dimensions", side), summed,
                   &summed_count))
        return false;
    unsigned seen = 0;
    const int64_t named[3] = {batch[0], batch[1], summed[0]};
    for (int i = 0; i < 3 && batch_count == 2 && summed_count == 1; i++) {
        bool is_new = named[i] >= 0 && named[i] < RANK && !(seen >> named[i] & 1);
        seen |= is_new ? 1u << named[i] : 0;
        left -= is_new ? named[i] : 0;
    }
    if (__builtin_popcount(seen) != 3)
        return call_fail(
            c, arena_printf(a,
                            "its \"%s\" are not two batch dimensions and one that "
                            "is contracted",
                            dot));
    order[0] = batch[0];
    order[1] = batch[1];
    order[2] = summed_last ? left : summed[0];
    order[3] = summed_last ? summed[0] : left;
    return true;
}

/* NULL: it is no array of four dimensions. */
static Instruction *take_array(Call *c, const char *what)
{
    Instruction *x = c->trouble == NULL ? call_take(c, what) : NULL;
    if (x != NULL && (!rw_is_static(x->shape) || x->shape->rank != RANK ||
                      !dtype_is_float(x->shape->dtype)))
        call_fail(c,
                  arena_printf(c->r.m->arena, "%s is no array of four dimensions", what));
    return c->trouble == NULL ? x : NULL;
}

static Instruction *in_order(Call *c, Instruction *x, const char *dot, const char *side,
                             bool summed_last)
{
    int64_t order[RANK];
    return x != NULL && side_order(c, dot, side, summed_last, order)
               ? rw_in_order(&c->r, x, order)
               : NULL;
}

/* k or v with a copy of each head for every head of q that shares it. */
static Instruction *repeated(const Attention *a, Instruction *x)
{
    const int64_t *d = x->shape->dims;
    const int64_t heads = a->scores->dims[HEADS];
    const int64_t apart[5] = {d[0], d[1], heads / d[1], d[2], d[3]};
    const int64_t together[4] = {d[0], heads, d[2], d[3]}, dims[4] = {0, 1, 3, 4};
    if (d[1] == heads)
        return x;
    DType t = x->shape->dtype;
    x = rw_broadcast(a->r, rw_shape(a->r, t, 5, apart), x, 4, dims);
    return rw_reshape(a->r, rw_shape(a->r, t, 4, together), x);
}

/* The gradient of one head from those of all that share it. */
static Instruction *summed_heads(const Attention *a, Instruction *x)
{
    const int64_t *d = x->shape->dims;
    const int64_t own = a->own_heads;
    const int64_t apart[5] = {d[0], own, d[1] / own, d[2], d[3]};
    const int64_t less[4] = {d[0], own, d[2], d[3]}, group = 2;
    if (d[1] == own)
        return x;
    x = rw_reshape(a->r, rw_shape(a->r, x->shape->dtype, 5, apart), x);
    return rw_sum(a->r, rw_shape(a->r, x->shape->dtype, 4, less), x, 1, &group);
}

/* Sizes that must be the same; false: trouble says so. */
static bool set_sizes(Attention *a)
{
    const int64_t *q = a->q->shape->dims, *k = a->k->shape->dims, *v = a->v->shape->dims;
    const int64_t scores[RANK] = {q[BATCH], q[HEADS], q[ROWS], k[ROWS]};
    if (k[BATCH] != q[BATCH] || v[BATCH] != q[BATCH] || k[DEPTH] != q[DEPTH] ||
        k[HEADS] != v[HEADS] || k[ROWS] != v[ROWS] || k[HEADS] == 0 ||
        q[HEADS] % k[HEADS] != 0)
        return call_fail(a->c, "its q, k and v do not fit each other");
    a->type = a->q->shape->dtype;
    a->own_heads = k[HEADS];
    a->scores = rw_shape(a->r, DT_F32, RANK, scores);
    a->rows = rw_shape(a->r, DT_F32, RANK - 1, scores);
    const int64_t all[RANK] = {q[BATCH], q[HEADS], k[ROWS], k[DEPTH] + v[DEPTH]};
    int64_t count;
    if (!shape_element_count(a->scores, &count) ||
        !shape_element_count(rw_shape(a->r, DT_F32, RANK, all), &count))
        return call_fail(a->c, "its arrays are too large");
    a->k = repeated(a, call_as(a->c, a->k, a->type));
    a->v = repeated(a, call_as(a->c, a->v, a->type));
    return true;
}

static bool take_bias(Attention *a)
{
    a->bias = take_array(a->c, "the bias");
    for (uint32_t d = 0; a->bias != NULL && d < RANK; d++) {
        int64_t size = a->bias->shape->dims[d];
        if (size != 1 && size != a->scores->dims[d])
            return call_fail(a->c, "its bias does not fit its scores");
    }
    return a->bias != NULL;
}

static Instruction *take_length(Attention *a)
{
    Instruction *x = call_take(a->c, "lengths");
    bool fits = x != NULL && rw_is_static(x->shape) && x->shape->rank == 1 &&
                x->shape->dims[0] == a->scores->dims[BATCH] && x->shape->dtype == DT_S32;
    if (!fits)
        call_fail(a->c, "its lengths are no s32[batch]");
    return fits ? x : NULL;
}

static bool is_mask(const Call *c, const char *word)
{
    return strcmp(call_word(c, "mask_type", "NO_MASK"), word) == 0;
}

static bool is_padded(const Call *c)
{
    return is_mask(c, "PADDING") || is_mask(c, "PADDING_CAUSAL");
}

static bool is_causal(const Call *c)
{
    return is_mask(c, "CAUSAL") || is_mask(c, "PADDING_CAUSAL");
}

static bool take_lengths(Attention *a)
{
    if (is_padded(a->c)) {
        a->row_lengths = take_length(a);
        a->column_lengths = a->c->trouble == NULL ? take_length(a) : NULL;
    }
    return a->c->trouble == NULL;
}

/* Other masks, dropout, pages and segments are not read: the call stays. is_causal_mask is how configurations from before
 * mask_type say it. */
static bool has_form(Call *c)
{
    double window = call_number(c, "sliding_window_length", 0);
    const json_t *mask = json_object_get(c->config, "mask_type");
    bool is_known = (is_mask(c, "NO_MASK") || is_causal(c) || is_padded(c)) &&
                    (mask == NULL || json_is_string(mask)) &&
                    !json_is_true(json_object_get(c->config, "is_causal_mask"));
    bool is_plain = call_number(c, "dropout_rate", 0) == 0 &&
                    call_number(c, "max_seg_per_batch", 1) <= 1 &&
                    !json_is_true(json_object_get(c->config, "is_paged_attention"));
    c->is_left = c->trouble == NULL && !(is_known && is_plain);
    if (c->trouble != NULL || c->is_left)
        return false;
    if (window < 0 || window > INT32_MAX || (window > 0 && !is_causal(c)))
        return call_fail(
            c, "its sliding window is negative, too long, or without a causal mask");
    return shape_is_tuple(c->inst->shape) || call_fail(c, "its result is no tuple");
}

/* -- scores ------------------------------------------------------------------------------------------ */

static Instruction *iota(const Attention *a, int64_t dim)
{
    Instruction *x = rw_add(
        a->r, OP_IOTA, shape_with_dtype(a->r->m->intern, a->scores, DT_S32), 0, NULL);
    inst_set_int(x, ATTR_IOTA_DIMENSION, dim);
    return x;
}

static Instruction *compared(const Attention *a, Instruction *x, Instruction *y,
                             int64_t direction)
{
    Instruction *p = rw_binary(
        a->r, OP_COMPARE, shape_with_dtype(a->r->m->intern, a->scores, DT_PRED), x, y);
    inst_set_int(p, ATTR_DIRECTION, direction);
    return p;
}

static Instruction *kept(const Attention *a, Instruction *where, Instruction *x,
                         double other)
{
    Instruction *operands[3] = {where, x, rw_splat(a->r, x->shape, other)};
    return rw_add(a->r, OP_SELECT, x->shape, 3, operands);
}

/* The index along `dim` is below the length of its batch. */
static Instruction *below(const Attention *a, int64_t dim, Instruction *lengths)
{
    const int64_t batch = BATCH;
    const Shape *s = shape_with_dtype(a->r->m->intern, a->scores, DT_S32);
    return compared(a, iota(a, dim), rw_broadcast(a->r, s, lengths, 1, &batch),
                    DIRECTION_LT);
}

static Instruction *masked(const Attention *a, Instruction *x)
{
    double window = call_number(a->c, "sliding_window_length", 0);
    if (window >= (double)a->scores->dims[ROWS])
        window = 0; /* hides nothing, and its sum with a column may leave s32 */
    if (is_causal(a->c))
        x = kept(a, compared(a, iota(a, ROWS), iota(a, COLUMNS), DIRECTION_GE), x,
                 -FLT_MAX);
    if (window > 0) {
        Instruction *column = iota(a, COLUMNS);
        column = rw_binary(a->r, OP_ADD, column->shape, column,
                           rw_splat_int(a->r, column->shape, (int64_t)window));
        x = kept(a, compared(a, column, iota(a, ROWS), DIRECTION_GT), x, -FLT_MAX);
    }
    if (a->column_lengths != NULL)
        x = kept(a, below(a, COLUMNS, a->column_lengths), x, -FLT_MAX);
    return x;
}

/* Batch and heads are those of both; dimension `left` of x with `right` of y is summed. */
static Instruction *product(const Attention *a, const Shape *shape, Instruction *x,
                            int64_t left, Instruction *y, int64_t right)
{
    static const int64_t batch[2] = {BATCH, HEADS};
    Instruction *dot = rw_binary(a->r, OP_DOT, shape, x, y);
    inst_set_ints(dot, ATTR_LHS_BATCH_DIMS, batch, 2);
    inst_set_ints(dot, ATTR_RHS_BATCH_DIMS, batch, 2);
    inst_set_ints(dot, ATTR_LHS_CONTRACTING_DIMS, &left, 1);
    inst_set_ints(dot, ATTR_RHS_CONTRACTING_DIMS, &right, 1);
    return dot;
}

static Instruction *scores(const Attention *a)
{
    Instruction *x = product(a, a->scores, a->q, DEPTH, a->k, DEPTH);
    x = call_times(a->c, x, a->scale);
    if (a->bias != NULL) {
        int64_t dims[RANK];
        for (int64_t d = 0; d < RANK; d++)
            dims[d] = a->bias->shape->dims[d] == a->scores->dims[d] ? d : -1;
        Instruction *bias = call_as(a->c, a->bias, DT_F32);
        x = rw_binary(a->r, OP_ADD, a->scores, x, rw_spread(a->r, a->scores, bias, dims));
    }
    return masked(a, x);
}

static Instruction *along_rows(const Attention *a, const Shape *shape, Instruction *x)
{
    static const int64_t dims[3] = {BATCH, HEADS, ROWS};
    return rw_broadcast(a->r, shape, x, 3, dims);
}

/* Zero in rows behind the length of their batch. */
static Instruction *within_rows(const Attention *a, Instruction *x)
{
    Attention of = *a;
    if (a->row_lengths == NULL)
        return x;
    of.scores = x->shape; /* of as many dimensions */
    return kept(a, below(&of, ROWS, a->row_lengths), x, 0);
}

/* -- forward ----------------------------------------------------------------------------------------- */

static Instruction *largest_of_rows(const Attention *a, Instruction *x)
{
    const int64_t columns = COLUMNS;
    Computation *max = module_add_reducer(a->r->m, OP_MAXIMUM, DT_F32);
    Instruction *reduce =
        rw_binary(a->r, OP_REDUCE, a->rows, x,
                  rw_splat(a->r, shape_scalar(a->r->m->intern, DT_F32), -INFINITY));
    inst_set_ints(reduce, ATTR_DIMENSIONS, &columns, 1);
    inst_set_computation(reduce, ATTR_TO_APPLY, max);
    return reduce;
}

static bool take_forward(Attention *a, Call *c, bool has_bias)
{
    *a = (Attention){.c = c, .r = &c->r};
    if (!has_form(c))
        return false;
    static const char first[] = "bmm1_dot_dimension_numbers",
                      second[] = "bmm2_dot_dimension_numbers";
    a->scale = call_number(c, "fmha_scale", 1);
    a->q = in_order(c, take_array(c, "q"), first, "lhs", true);
    a->k = in_order(c, take_array(c, "k"), first, "rhs", true);
    a->v = in_order(c, take_array(c, "v"), second, "rhs", false);
    return c->trouble == NULL && set_sizes(a) && (!has_bias || take_bias(a)) &&
           take_lengths(a);
}

static Instruction *forward(Call *c, bool has_bias)
{
    Attention a;
    const int64_t columns = COLUMNS;
    if (!take_forward(&a, c, has_bias))
        return NULL;
    Instruction *x = scores(&a), *most = largest_of_rows(&a, x);
    Instruction *e =
        rw_binary(a.r, OP_SUBTRACT, a.scores, x, along_rows(&a, a.scores, most));
    e = rw_unary(a.r, OP_EXPONENTIAL, a.scores, e);
    Instruction *sum = rw_sum(a.r, a.rows, e, 1, &columns);
    Instruction *p =
        rw_binary(a.r, OP_DIVIDE, a.scores, e, along_rows(&a, a.scores, sum));
    int64_t dims[RANK];
    memcpy(dims, a.q->shape->dims, sizeof dims);
    dims[DEPTH] = a.v->shape->dims[DEPTH];
    Instruction *made[3];
    made[0] = within_rows(&a, product(&a, rw_shape(a.r, a.type, RANK, dims),
                                      call_as(c, p, a.type), COLUMNS, a.v, ROWS));
    bool has_statistics = c->inst->shape->rank == 3;
    if (has_statistics)
        made[1] =
            rw_binary(a.r, OP_ADD, a.rows, most, rw_unary(a.r, OP_LOG, a.rows, sum));
    return call_results(c, made, has_statistics ? 2 : 1);
}

Instruction *call_read_attention(Call *c)
{
    return forward(c, false);
}

Instruction *call_read_attention_bias(Call *c)
{
    return forward(c, true);
}

/* -- backward ---------------------------------------------------------------------------------------- */

typedef struct Gradient {
    Attention a;
    Instruction *statistics, *d_o, *o;
} Gradient;

static bool take_backward(Gradient *g, Call *c, bool has_bias)
{
    static const char of_o[] = "bmm2_grad_gemm1_dot_dimension_numbers";
    Attention *a = &g->a;
    *g = (Gradient){.a = {.c = c, .r = &c->r}};
    if (!has_form(c))
        return false;
    a->scale = call_number(c, "fmha_scale", 1);
    a->q = in_order(c, take_array(c, "q"), "bmm1_grad_gemm1_dot_dimension_numbers", "rhs",
                    false);
    a->k = in_order(c, take_array(c, "k"), "bmm1_grad_gemm2_dot_dimension_numbers", "rhs",
                    false);
    a->v = in_order(c, take_array(c, "v"), "bmm2_grad_gemm2_dot_dimension_numbers", "rhs",
                    true);
    g->statistics = c->trouble == NULL ? call_take(c, "the statistics") : NULL;
    g->d_o = in_order(c, take_array(c, "the result's gradient"), of_o, "rhs", false);
    if (c->trouble != NULL || !set_sizes(a) || (has_bias && !take_bias(a)))
        return false;
    g->o = in_order(c, take_array(c, "the result"), of_o, "rhs", false);
    if (c->trouble != NULL || !take_lengths(a))
        return false;
    bool fits = rw_is_static(g->statistics->shape) &&
                dtype_is_float(g->statistics->shape->dtype) &&
                shape_same_dims(g->statistics->shape, a->rows) &&
                shape_same_dims(g->o->shape, g->d_o->shape) &&
                g->o->shape->dims[BATCH] == a->rows->dims[BATCH] &&
                g->o->shape->dims[HEADS] == a->rows->dims[HEADS] &&
                g->o->shape->dims[ROWS] == a->rows->dims[ROWS] &&
                g->o->shape->dims[DEPTH] == a->v->shape->dims[DEPTH];
    return fits ||
           call_fail(c, "its statistics, result and gradient do not fit its operands");
}

/* Sums of rows of d_o * o. */
static Instruction *row_sums(const Gradient *g)
{
    const int64_t depth = DEPTH;
    const Attention *a = &g->a;
    Instruction *d_o = call_as(a->c, g->d_o, DT_F32), *o = call_as(a->c, g->o, DT_F32);
    return rw_sum(a->r, a->rows, rw_binary(a->r, OP_MULTIPLY, o->shape, d_o, o), 1,
                  &depth);
}

/* x, summed where the bias is the same. */
static Instruction *bias_gradient(const Attention *a, Instruction *x)
{
    int64_t same[RANK], left[RANK];
    uint32_t n = 0, m = 0;
    for (int64_t d = 0; d < RANK; d++) {
        if (a->bias->shape->dims[d] != a->scores->dims[d])
            same[n++] = d;
        else
            left[m++] = a->scores->dims[d];
    }
    if (n != 0)
        x = rw_sum(a->r, rw_shape(a->r, DT_F32, m, left), x, n, same);
    return rw_reshape(a->r, rw_shape(a->r, DT_F32, RANK, a->bias->shape->dims), x);
}

static const Shape *shape_of_gradient(const Attention *a, const Instruction *x)
{
    return rw_shape(a->r, DT_F32, RANK, x->shape->dims);
}

static Instruction *backward(Call *c, bool has_bias)
{
    Gradient g;
    if (!take_backward(&g, c, has_bias))
        return NULL;
    const Attention *a = &g.a;
    Instruction *made[5];
    Instruction *statistics = call_as(c, g.statistics, DT_F32);
    Instruction *p = rw_binary(a->r, OP_SUBTRACT, a->scores, scores(a),
                               along_rows(a, a->scores, statistics));
    p = within_rows(a, rw_unary(a->r, OP_EXPONENTIAL, a->scores, p));
    made[2] =
        product(a, shape_of_gradient(a, a->v), call_as(c, p, a->type), ROWS, g.d_o, ROWS);
    Instruction *x =
        product(a, a->scores, call_as(c, g.d_o, a->type), DEPTH, a->v, DEPTH);
    x = rw_binary(a->r, OP_SUBTRACT, a->scores, x,
                  along_rows(a, a->scores, row_sums(&g)));
    x = rw_binary(a->r, OP_MULTIPLY, a->scores, p, x);
    bool has_bias_gradient = has_bias && c->inst->shape->rank == 5;
    if (has_bias_gradient)
        made[3] = bias_gradient(a, x);
    x = call_as(c, call_times(c, x, a->scale), a->type);
    made[0] = product(a, shape_of_gradient(a, a->q), x, COLUMNS, a->k, ROWS);
    made[1] = product(a, shape_of_gradient(a, a->k), x, ROWS, a->q, ROWS);
    made[1] = summed_heads(a, made[1]);
    made[2] = summed_heads(a, made[2]);
    return call_results(c, made, has_bias_gradient ? 4 : 3);
}

Instruction *call_read_attention_gradient(Call *c)
{
    return backward(c, false);
}

Instruction *call_read_attention_gradient_bias(Call *c)
{
    return backward(c, true);
}
