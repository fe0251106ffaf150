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

/* Past what rounds or transposes it; dimension to[d] is the operand's d. */
static const Instruction *base_of(const Instruction *x, int64_t to[VIEW_RANK])
{
    for (uint32_t d = 0; d < x->shape->rank; d++)
        to[d] = d;
    for (; x->op == OP_CONVERT || x->op == OP_COPY || x->op == OP_TRANSPOSE;
         x = x->operands[0]) {
        for (uint32_t d = 0; d < x->shape->rank && x->op == OP_TRANSPOSE; d++)
            to[d] = inst_ints(x, ATTR_DIMENSIONS).data[to[d]];
    }
    return x;
}

/* Both are do, z's dimension to_z[d] is y's d. It has the same batches in both dots; its rows are summed over in one,
 * its depth in the other. */
static bool are_of_one(const Side *y, const Side *z, int64_t to_z[VIEW_RANK])
{
    uint32_t rank = y->x->shape->rank;
    int64_t of_y[VIEW_RANK], of_z[VIEW_RANK];
    if (rank > VIEW_RANK || z->x->shape->rank != rank ||
        y->batch.count != z->batch.count || base_of(y->x, of_y) != base_of(z->x, of_z))
        return false;
    for (uint32_t d = 0; d < rank; d++) {
        for (uint32_t e = 0; e < rank; e++) {
            if (of_y[d] == of_z[e])
                to_z[d] = e;
        }
        if (is_batch(y, d) != is_batch(z, to_z[d]) ||
            (!is_batch(y, d) && is_term(y, d) == is_term(z, to_z[d])))
            return false;
    }
    return true;
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

/* dot(w, v), with the batches in their order in dv; `y` and `z` are do in dv and in g. */
static Instruction *add_result(Rewriter *r, const Side *w, const Side *y, const Side *z,
                               const Side *v)
{
    int64_t column = free_dim(w), column_of_v = free_dim(v), batch[VIEW_RANK],
            to_z[VIEW_RANK];
    if (column < 0 || column_of_v < 0 || w->x->shape->dtype != v->x->shape->dtype ||
        w->x->shape->dims[column] != v->x->shape->dims[column_of_v] ||
        !are_of_one(y, z, to_z))
        return NULL;
    for (size_t i = 0; i < y->batch.count; i++)
        batch[i] = v->batch.data[ints_find(z->batch, to_z[y->batch.data[i]])];
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
            if (attention_without_moves(z.x) != of || g->control_count != 0)
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
