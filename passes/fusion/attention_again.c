/* The result of an attention that is computed again for its gradient only, as under a checkpoint of its own: nobody
 * reads it there, so the program has no second dot from which the attention could be found.
 *
 *   p = softmax(...);  dv = dot(p', do);  g = dot(do, v')   ->   o = dot(p, v) as well
 *
 * The gradient then takes the sum over the depth of o * do for that over the columns of p * g, and no score has to be
 * in memory. */
#include "passes/fusion/attention.h"
#include "passes/simplify/rewrite.h"

typedef struct Side {
    Instruction *x;
    Ints batch, terms;
} Side;

static Side side_of(const Instruction *dot, uint32_t side)
{
    return (Side){dot->operands[side],
                  inst_ints(dot, side == 0 ? ATTR_LHS_BATCH_DIMS : ATTR_RHS_BATCH_DIMS),
                  inst_ints(dot, side == 0 ? ATTR_LHS_CONTRACTING_DIMS
                                           : ATTR_RHS_CONTRACTING_DIMS)};
}

static bool is_batch(const Side *s, int64_t d)
{
    return ints_find(s->batch, d) >= 0;
}

static bool is_term(const Side *s, int64_t d)
{
    return ints_find(s->terms, d) >= 0;
}

/* The only dimension that is neither; -1. */
static int64_t free_dim(const Side *s)
{
    int64_t found = -1;
    if (s->batch.count + s->terms.count + 1 != s->x->shape->rank ||
        s->x->shape->rank > VIEW_RANK)
        return -1;
    for (uint32_t d = 0; d < s->x->shape->rank; d++) {
        if (!is_batch(s, d) && !is_term(s, d))
            found = d;
    }
    return found;
}

/* By the look of it only: attention_match says what it is. */
static bool may_be_weights(const Instruction *x)
{
    x = attention_without_moves(x);
    if (x->op == OP_SELECT)
        x = attention_without_moves(x->operands[1]);
    if (x->op != OP_DIVIDE && x->op != OP_MULTIPLY)
        return false;
    return attention_without_moves(x->operands[0])->op == OP_EXPONENTIAL ||
           attention_without_moves(x->operands[1])->op == OP_EXPONENTIAL;
}

/* Which dimension of a reshape's operand each of its own is, where it only adds or drops those of size 1; -1: one of
 * these. */
static bool drops_ones(const Instruction *x, int64_t back[VIEW_RANK])
{
    const Shape *s = x->shape, *of = x->op == OP_RESHAPE ? x->operands[0]->shape : NULL;
    if (of == NULL || s->rank > VIEW_RANK || of->rank > VIEW_RANK ||
        !rw_same_but_ones(s, of))
        return false;
    for (uint32_t d = 0, k = 0; d < s->rank; d++) {
        back[d] = -1;
        if (s->dims[d] == 1)
            continue;
        while (of->dims[k] == 1)
            k++;
        back[d] = k++;
    }
    return true;
}

/* Past what rounds or transposes it; dimension to[d] is the operand's d, -1: of size 1. */
static const Instruction *base_of(const Instruction *x, int64_t to[VIEW_RANK])
{
    uint32_t rank = x->shape->rank;
    for (uint32_t d = 0; d < rank; d++)
        to[d] = d;
    for (;; x = x->operands[0]) {
        int64_t ones[VIEW_RANK];
        const int64_t *step = x->op == OP_TRANSPOSE ? inst_ints(x, ATTR_DIMENSIONS).data
                              : drops_ones(x, ones) ? ones
                                                    : NULL;
        if (step == NULL && x->op != OP_CONVERT && x->op != OP_COPY)
            return x;
        for (uint32_t d = 0; d < rank && step != NULL; d++)
            to[d] = to[d] < 0 ? -1 : step[to[d]];
    }
}

/* The same elements, or the same number everywhere, as the gradient of a sum is. */
static bool are_same(const Instruction *x, const Instruction *y)
{
    return x == y ||
           (x->op == OP_BROADCAST && y->op == OP_BROADCAST &&
            x->operands[0] == y->operands[0] && x->operands[0]->shape->rank == 0);
}

typedef enum Role { ROLE_BATCH, ROLE_ROWS, ROLE_DEPTH } Role;

/* do's rows are summed over in dv, its depth in g. */
static Role role_of(const Side *s, int64_t d, bool is_dv)
{
    return is_batch(s, d) ? ROLE_BATCH : is_term(s, d) == is_dv ? ROLE_ROWS : ROLE_DEPTH;
}

/* The n-th dimension of that role above size 1; -1. */
static int64_t nth_of_role(const Side *s, Role role, bool is_dv, uint32_t n)
{
    for (uint32_t d = 0; d < s->x->shape->rank; d++) {
        if (s->x->shape->dims[d] != 1 && role_of(s, d, is_dv) == role && n-- == 0)
            return d;
    }
    return -1;
}

/* Of a number repeated: dimensions of a role in their order. */
static bool match_roles(const Side *y, const Side *z, int64_t to_z[VIEW_RANK])
{
    uint32_t seen[3] = {0};
    for (uint32_t d = 0; d < y->x->shape->rank; d++) {
        Role role = role_of(y, d, true);
        to_z[d] = -1;
        if (y->x->shape->dims[d] == 1)
            continue;
        to_z[d] = nth_of_role(z, role, false, seen[role]++);
        if (to_z[d] < 0 || z->x->shape->dims[to_z[d]] != y->x->shape->dims[d])
            return false;
    }
    for (int role = 0; role < 3; role++) {
        if (nth_of_role(z, (Role)role, false, seen[role]) >= 0)
            return false;
    }
    return true;
}

/* Both are do, z's dimension to_z[d] is y's d, but for those of size 1. It has the same batches in both dots; its rows
 * are summed over in one, its depth in the other. */
static bool are_of_one(const Side *y, const Side *z, int64_t to_z[VIEW_RANK])
{
    const Shape *s = y->x->shape, *t = z->x->shape;
    int64_t of_y[VIEW_RANK], of_z[VIEW_RANK];
    if (s->rank > VIEW_RANK || t->rank > VIEW_RANK || y->batch.count != z->batch.count)
        return false;
    if (base_of(y->x, of_y) != base_of(z->x, of_z))
        return match_roles(y, z, to_z);
    for (uint32_t d = 0; d < s->rank; d++) {
        to_z[d] = -1;
        for (uint32_t e = 0; e < t->rank && s->dims[d] != 1; e++) {
            if (of_y[d] == of_z[e])
                to_z[d] = e;
        }
        if (s->dims[d] != 1 &&
            (to_z[d] < 0 || role_of(y, d, true) != role_of(z, to_z[d], false)))
            return false;
    }
    return true;
}

/* v's batches in the order of dv's. One of size 1 is as good as another. */
static void order_batches(const Side *y, const Side *z, const Side *v,
                          const int64_t *to_z, int64_t *out)
{
    uint32_t one = 0;
    for (size_t i = 0; i < y->batch.count; i++) {
        int64_t d = y->batch.data[i];
        if (y->x->shape->dims[d] != 1) {
            out[i] = v->batch.data[ints_find(z->batch, to_z[d])];
            continue;
        }
        while (v->x->shape->dims[v->batch.data[one]] != 1)
            one++;
        out[i] = v->batch.data[one++];
    }
}

static const Shape *result_shape(Rewriter *r, const Side *w, const Side *v, DType dtype)
{
    int64_t dims[VIEW_RANK];
    uint32_t n = 0;
    if (w->batch.count + w->terms.count + v->terms.count > VIEW_RANK)
        return NULL;
    for (size_t i = 0; i < w->batch.count; i++)
        dims[n++] = w->x->shape->dims[w->batch.data[i]];
    for (uint32_t d = 0; d < w->x->shape->rank; d++) {
        if (is_term(w, d))
            dims[n++] = w->x->shape->dims[d];
    }
    for (uint32_t d = 0; d < v->x->shape->rank; d++) {
        if (is_term(v, d))
            dims[n++] = v->x->shape->dims[d];
    }
    return rw_shape(r, dtype, n, dims);
}

/* The weights as the softmax has them, with its dimensions of size 1, as rows. */
static void take_ones(Rewriter *r, Side *w)
{
    int64_t back[VIEW_RANK], *batch = ARENA_ARRAY(r->scratch, int64_t, VIEW_RANK),
                             *terms = ARENA_ARRAY(r->scratch, int64_t, VIEW_RANK);
    uint32_t n = 0;
    int64_t column = free_dim(w);
    if (column < 0 || !drops_ones(w->x, back) || back[column] < 0)
        return;
    for (size_t i = 0; i < w->batch.count; i++) {
        batch[i] = back[w->batch.data[i]];
        if (batch[i] < 0)
            return;
    }
    Side of = {w->x->operands[0], {batch, w->batch.count}, {NULL, 0}};
    for (uint32_t d = 0; d < of.x->shape->rank; d++) {
        if (!is_batch(&of, d) && d != back[column])
            terms[n++] = d;
    }
    of.terms = (Ints){terms, n};
    *w = of;
}

/* dot(w, v), with the batches in their order in dv; `y` and `z` are do in dv and in g. */
static Instruction *add_result(Rewriter *r, const Side *weights, const Side *y,
                               const Side *z, const Side *v)
{
    Side own = *weights, *w = &own;
    take_ones(r, w);
    int64_t column = free_dim(w), column_of_v = free_dim(v), batch[VIEW_RANK],
            to_z[VIEW_RANK];
    if (column < 0 || column_of_v < 0 || w->x->shape->dtype != v->x->shape->dtype ||
        w->x->shape->dims[column] != v->x->shape->dims[column_of_v] ||
        !are_of_one(y, z, to_z))
        return NULL;
    order_batches(y, z, v, to_z, batch);
    const Shape *shape = result_shape(r, w, v, y->x->shape->dtype);
    if (shape == NULL)
        return NULL;
    Instruction *o = rw_like(r, r->at, shape, 2, (Instruction *[]){w->x, v->x});
    inst_forget_shape_facts(o);
    inst_set_ints(o, ATTR_LHS_BATCH_DIMS, w->batch.data, w->batch.count);
    inst_set_ints(o, ATTR_RHS_BATCH_DIMS, batch, v->batch.count);
    inst_set_ints(o, ATTR_LHS_CONTRACTING_DIMS, &column, 1);
    inst_set_ints(o, ATTR_RHS_CONTRACTING_DIMS, &column_of_v, 1);
    return o;
}

/* A dot that adds up the columns of the same weights: the attention's own result. */
static bool has_result(const Computation *comp, const AttentionDots *dots, const Side *w)
{
    int64_t column = free_dim(w);
    const Instruction *of = attention_without_moves(w->x);
    for (uint32_t i = 0; i < dots->count; i++) {
        const Instruction *x = comp->instructions[dots->ids[i]];
        for (uint32_t side = 0; side < 2 && x != NULL; side++) {
            Side s = side_of(x, side);
            if (attention_without_moves(s.x) == of &&
                (s.x->shape->rank != w->x->shape->rank || is_term(&s, column)))
                return true;
        }
    }
    return false;
}

static Instruction *result_with(Rewriter *r, const AttentionDots *dots, uint32_t w_side)
{
    const Instruction *dv = r->at;
    Side w = side_of(dv, w_side), y = side_of(dv, !w_side);
    if (!may_be_weights(w.x) || has_result(r->comp, dots, &w))
        return NULL;
    const Instruction *of = attention_without_moves(y.x);
    for (uint32_t i = 0; i < dots->count; i++) {
        const Instruction *g = r->comp->instructions[dots->ids[i]];
        for (uint32_t side = 0; side < 2 && g != NULL && g != dv; side++) {
            Side z = side_of(g, side), v = side_of(g, !side);
            if (!are_same(attention_without_moves(z.x), of) || g->control_count != 0)
                continue;
            Instruction *o = add_result(r, &w, &y, &z, &v);
            if (o != NULL)
                return o;
        }
    }
    return NULL;
}

Instruction *attention_result_again(Instruction *dv, const AttentionDots *dots,
                                    PassContext *cx)
{
    Rewriter r = {.m = dv->parent->module,
                  .comp = dv->parent,
                  .scratch = cx->scratch,
                  .cx = cx,
                  .at = dv};
    if (dv->control_count != 0)
        return NULL;
    Instruction *o = result_with(&r, dots, 0);
    return o != NULL ? o : result_with(&r, dots, 1);
}
