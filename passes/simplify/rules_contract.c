/* Rules of dot.
 *
 * Measure: number of operations, then their weight (dot > multiply). */
#include <string.h>

#include "passes/simplify/rewrite.h"

static int64_t contracted(const Instruction *dot)
{
    Ints dims = inst_ints(dot, ATTR_LHS_CONTRACTING_DIMS);
    int64_t n = 1;
    for (uint32_t i = 0; i < dims.count; i++)
        n *= dot->operands[0]->shape->dims[dims.data[i]];
    return n;
}

static bool is_static_dot(const Instruction *inst)
{
    return inst->operand_count == 2 && rw_is_static(inst->shape) &&
           rw_is_static(inst->operands[0]->shape) &&
           rw_is_static(inst->operands[1]->shape);
}

/* dot over nothing -> zeros */
static Instruction *dot_empty(Rewriter *r, Instruction *inst)
{
    if (!is_static_dot(inst) || contracted(inst) != 0)
        return NULL;
    return rw_splat(r, inst->shape, 0.0);
}

/* One side of a dot over one element, spread over the result: its batch dimensions, then its
 * free ones from result dimension `at` on. */
static Instruction *spread(Rewriter *r, const Instruction *dot, Instruction *x,
                           Ints batch, Ints contracting, int64_t at)
{
    const Shape *s = x->shape;
    uint32_t rank = s->rank - contracting.count, n = 0;
    int64_t *position = ARENA_ARRAY(r->scratch, int64_t, rank);
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, rank);
    for (uint32_t i = 0; i < s->rank; i++) {
        if (ints_contain(contracting, i))
            continue;
        sizes[n] = s->dims[i];
        position[n] = -1;
        for (uint32_t b = 0; b < batch.count; b++)
            if (batch.data[b] == i)
                position[n] = b;
        if (position[n] < 0)
            position[n] = at++;
        n++;
    }
    if (contracting.count > 0)
        x = rw_reshape(r, rw_shape(r, s->dtype, rank, sizes), x);
    x = rw_in_type(r, x, dot->shape->dtype);
    for (uint32_t i = 1; i < rank; i++)
        if (position[i] < position[i - 1])
            return NULL; /* a transpose: leave it to the dot */
    return rw_broadcast(r, dot->shape, x, rank, position);
}

/* dot over one element -> multiply of broadcasts: one product, rounded once. A sum starts at +0,
 * so -0 becomes 0: + 0 for floats. */
static Instruction *dot_one(Rewriter *r, Instruction *inst)
{
    if (!is_static_dot(inst) || contracted(inst) != 1 ||
        inst_int(inst, ATTR_ALGORITHM, ALGORITHM_UNSET) != ALGORITHM_UNSET ||
        dtype_is_complex(inst->shape->dtype) || inst->shape->dtype == DT_PRED)
        return NULL;
    DType t = inst->shape->dtype;
    for (uint32_t i = 0; i < 2; i++) {
        DType u = inst->operands[i]->shape->dtype;
        bool wider = dtype_is_float(t) ? dtype_is_float(u) : dtype_is_integer(u);
        if (!wider || dtype_info[u].bits > dtype_info[t].bits)
            return NULL;
        if (dtype_is_float(t) && dtype_info[u].bits < 16)
            return NULL;
        if (dtype_info[u].bits == dtype_info[t].bits && u != t)
            return NULL;
    }
    Ints lb = inst_ints(inst, ATTR_LHS_BATCH_DIMS),
         rb = inst_ints(inst, ATTR_RHS_BATCH_DIMS);
    Ints lc = inst_ints(inst, ATTR_LHS_CONTRACTING_DIMS);
    Ints rc = inst_ints(inst, ATTR_RHS_CONTRACTING_DIMS);
    int64_t lhs_free = (int64_t)inst->operands[0]->shape->rank - lb.count - lc.count;
    Instruction *a = spread(r, inst, inst->operands[0], lb, lc, lb.count);
    Instruction *b = spread(r, inst, inst->operands[1], rb, rc, lb.count + lhs_free);
    if (a == NULL || b == NULL)
        return NULL;
    Instruction *product = rw_binary(r, OP_MULTIPLY, inst->shape, a, b);
    return dtype_is_float(t)
               ? rw_binary(r, OP_ADD, inst->shape, product, rw_splat(r, inst->shape, 0.0))
               : product;
}

/* The dimensions come in the same order behind p. */
static bool is_ascending(Ints p, Ints dims)
{
    for (uint32_t i = 1; i < dims.count; i++) {
        if (p.data[dims.data[i]] < p.data[dims.data[i - 1]])
            return false;
    }
    return true;
}

static void set_through(Rewriter *r, Instruction *dot, AttrId id, Ints dims, Ints p)
{
    if (inst_has(dot, id))
        inst_set_ints(dot, id, rw_through(r, p, dims), dims.count);
}

/* Dimensions of more than one element. */
static uint32_t wide_dims(Arena *a, const Shape *s, int64_t **out)
{
    uint32_t n = 0;
    *out = ARENA_ARRAY(a, int64_t, s->rank + 1u);
    for (uint32_t d = 0; d < s->rank; d++) {
        if (s->dims[d] != 1)
            (*out)[n++] = d;
    }
    return n;
}

/* What x = transpose(y, p) is of, or x = reshape(transpose(y)) that only adds and drops dimensions of size
 * 1: then of such a reshape of y. The dimensions `kept` keep their order. NULL: there is no such y. */
static Instruction *untransposed(Rewriter *r, Instruction *x, Ints kept, Ints *p)
{
    if (x->op == OP_TRANSPOSE) {
        *p = inst_ints(x, ATTR_DIMENSIONS);
        return is_ascending(*p, kept) ? x->operands[0] : NULL;
    }
    Instruction *t = x->op == OP_RESHAPE ? x->operands[0] : NULL;
    if (t == NULL || t->op != OP_TRANSPOSE || !rw_is_static(x->shape) ||
        !rw_is_static(t->shape))
        return NULL;
    const Shape *s = x->shape;
    int64_t *in_t, *in_x;
    uint32_t n = wide_dims(r->scratch, t->shape, &in_t);
    if (wide_dims(r->scratch, s, &in_x) != n)
        return NULL;
    /* where in y; dimensions of size 1 stand before the next one that is kept */
    Ints order = inst_ints(t, ATTR_DIMENSIONS);
    int64_t *key = ARENA_ARRAY(r->scratch, int64_t, s->rank + 1u), next = INT64_MAX;
    for (uint32_t i = s->rank, k = n; i-- > 0;) {
        bool is_wide = s->dims[i] != 1;
        if (is_wide && t->shape->dims[in_t[--k]] != s->dims[i])
            return NULL;
        key[i] = is_wide ? 2 * order.data[in_t[k]] + 1 : next;
        if (is_wide && ints_contain(kept, i))
            next = key[i] - 1;
    }
    int64_t *to = ARENA_ARRAY(r->m->arena, int64_t, s->rank + 1u);
    int64_t *dims = ARENA_ARRAY(r->scratch, int64_t, s->rank + 1u);
    for (uint32_t i = 0; i < s->rank; i++) {
        for (uint32_t k = 0; k < s->rank; k++)
            to[i] += key[k] < key[i] || (key[k] == key[i] && k < i);
        dims[to[i]] = s->dims[i];
    }
    *p = (Ints){to, s->rank};
    if (!is_ascending(*p, kept))
        return NULL;
    return rw_reshape(r, rw_shape(r, s->dtype, s->rank, dims), t->operands[0]);
}

static Ints kept_dims(Arena *a, const Shape *s, Ints batch, Ints contracting)
{
    int64_t *dims = ARENA_ARRAY(a, int64_t, s->rank + 1u);
    uint32_t n = 0;
    for (uint32_t d = 0; d < s->rank; d++) {
        if (!ints_contain(batch, d) && !ints_contain(contracting, d))
            dims[n++] = d;
    }
    return (Ints){dims, n};
}

/* dot(transpose(x), y) -> dot(x, y) by other dimension numbers, where the free dimensions of
 * x keep their order */
static Instruction *dot_transpose(Rewriter *r, Instruction *inst)
{
    static const AttrId batch_id[2] = {ATTR_LHS_BATCH_DIMS, ATTR_RHS_BATCH_DIMS};
    static const AttrId contracting_id[2] = {ATTR_LHS_CONTRACTING_DIMS,
                                             ATTR_RHS_CONTRACTING_DIMS};
    for (uint32_t side = 0; side < 2 && inst->operand_count == 2; side++) {
        Ints batch = inst_ints(inst, batch_id[side]), p;
        Ints contracting = inst_ints(inst, contracting_id[side]);
        Ints kept =
            kept_dims(r->scratch, inst->operands[side]->shape, batch, contracting);
        Instruction *x = untransposed(r, inst->operands[side], kept, &p);
        if (x == NULL)
            continue;
        Instruction *operands[2] = {inst->operands[0], inst->operands[1]};
        operands[side] = x;
        Instruction *by = rw_like(r, inst, inst->shape, 2, operands);
        set_through(r, by, batch_id[side], batch, p);
        set_through(r, by, contracting_id[side], contracting, p);
        return by;
    }
    return NULL;
}

/* Some contracted dimension has one element only, and some other one is contracted, too. */
static bool has_spare_dims(const Instruction *dot, Ints contracting)
{
    uint32_t spare = 0;
    for (uint32_t i = 0; i < contracting.count; i++)
        spare += dot->operands[0]->shape->dims[contracting.data[i]] == 1;
    return spare != 0 && spare != contracting.count;
}

/* x without the contracted dimensions of one element, and the numbers of its others. */
static Instruction *without_spare(Rewriter *r, Instruction *x, Ints contracting,
                                  int64_t *now)
{
    const Shape *s = x->shape;
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, s->rank + 1u);
    uint32_t n = 0;
    for (uint32_t d = 0; d < s->rank; d++) {
        now[d] = n;
        if (s->dims[d] != 1 || !ints_contain(contracting, d))
            sizes[n++] = s->dims[d];
    }
    return rw_reshape(r, rw_shape(r, s->dtype, n, sizes), x);
}

static void renumber(Rewriter *r, Instruction *dot, AttrId id, const Shape *before,
                     Ints contracting, const int64_t *now)
{
    Ints dims = inst_ints(dot, id);
    int64_t *kept = ARENA_ARRAY(r->scratch, int64_t, dims.count + 1u);
    uint32_t n = 0;
    for (uint32_t i = 0; i < dims.count; i++) {
        int64_t d = dims.data[i];
        if (before->dims[d] != 1 || !ints_contain(contracting, d))
            kept[n++] = now[d];
    }
    if (inst_has(dot, id))
        inst_set_ints(dot, id, kept, n);
}

/* dot over [1, n] -> dot over [n] */
static Instruction *dot_spare(Rewriter *r, Instruction *inst)
{
    Ints contracting[2] = {inst_ints(inst, ATTR_LHS_CONTRACTING_DIMS),
                           inst_ints(inst, ATTR_RHS_CONTRACTING_DIMS)};
    Instruction *operands[2];
    int64_t *now[2];
    if (!is_static_dot(inst) || !has_spare_dims(inst, contracting[0]))
        return NULL;
    for (uint32_t i = 0; i < 2; i++) {
        now[i] = ARENA_ARRAY(r->scratch, int64_t, inst->operands[i]->shape->rank + 1u);
        operands[i] = without_spare(r, inst->operands[i], contracting[i], now[i]);
    }
    Instruction *by = rw_like(r, inst, inst->shape, 2, operands);
    for (uint32_t i = 0; i < 2; i++) {
        const Shape *s = inst->operands[i]->shape;
        renumber(r, by, i == 0 ? ATTR_LHS_BATCH_DIMS : ATTR_RHS_BATCH_DIMS, s,
                 contracting[i], now[i]);
        renumber(r, by, i == 0 ? ATTR_LHS_CONTRACTING_DIMS : ATTR_RHS_CONTRACTING_DIMS, s,
                 contracting[i], now[i]);
    }
    return by;
}

/* Weights of a softmax, rounded, moved or masked perhaps. */
static bool is_softmax(const Instruction *x)
{
    enum { MOST_STEPS = 8 };
    for (uint32_t i = 0; i < MOST_STEPS; i++) {
        switch (x->op) {
        case OP_EXPONENTIAL:
            return true;
        case OP_CONVERT:
        case OP_COPY:
        case OP_DIVIDE:
        case OP_RESHAPE:
        case OP_TRANSPOSE:
            x = x->operands[0];
            break;
        case OP_MULTIPLY: /* by what each row has */
            x = x->operands[x->operands[0]->op == OP_BROADCAST];
            break;
        case OP_SELECT:
            x = x->operands[1 + (x->operands[1]->op == OP_BROADCAST)];
            break;
        default:
            return false;
        }
    }
    return false;
}

/* dot(v, weights) -> transpose(dot(weights, v)): the features of v are then side by side, as attentions' kernels make
 * them, and the transposition becomes one with those around it. */
static Instruction *dot_weights(Rewriter *r, Instruction *inst)
{
    if (inst->operand_count != 2 || inst->control_count != 0 || !is_static_dot(inst) ||
        !is_softmax(inst->operands[1]) || is_softmax(inst->operands[0]))
        return NULL;
    Instruction *turned = rw_turned_dot(r, inst, inst->operands[1], inst->operands[0]);
    return rw_transpose(r, inst->shape, turned, rw_turned_dims(r, inst, true));
}

const Rule rules_contract[] = {
    {OP_DOT, "dot_empty", dot_empty},     {OP_DOT, "dot_one", dot_one},
    {OP_DOT, "dot_spare", dot_spare},     {OP_DOT, "dot_transpose", dot_transpose},
    {OP_DOT, "dot_weights", dot_weights}, {0},
};
