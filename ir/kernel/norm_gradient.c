/* See norm_gradient.h. */
#include "ir/kernel/norm_gradient.h"

#include <math.h>

#include "ir/attribute/config.h"
#include "ir/kernel/attention/attention.h"
#include "ir/kernel/norm_polynomial.h"
#include "ir/kernel/norm_steps.h"

enum { MOST_DEPTH = 48, STATISTICS_DEPTH = 8 };

struct NormExpansion {
    Arena *arena;
    NormGradient of;
    NormMatch match;             /* sizes */
    const Instruction *variance; /* with epsilon; NULL: not known */
    const Poly **known;          /* by id; NULL: not looked at, or none */
    bool *is_seen;
    uint32_t depth;
};

/* -- statistics ---------------------------------------------------------------------------------- */

/* The sum that a variance is made of, by which the array is known. */
static const Instruction *find_sum(const Instruction *inst, uint32_t depth)
{
    if (inst->op == OP_REDUCE)
        return inst;
    for (uint32_t i = 0; i < inst->operand_count && depth != 0; i++) {
        const Instruction *found = find_sum(inst->operands[i], depth - 1);
        if (found != NULL)
            return found;
    }
    return NULL;
}

/* What the root is taken of. */
static const Instruction *variance_of(const Instruction *inverse)
{
    if (inverse->op == OP_RSQRT)
        return norm_strip(inverse->operands[0]);
    return norm_strip(norm_strip(inverse->operands[1])->operands[0]);
}

bool norm_gradient_statistics(const Instruction *inverse, NormGradient *out)
{
    const Instruction *sum = find_sum(inverse, STATISTICS_DEPTH);
    if (sum == NULL || !shape_is_array(sum->operands[0]->shape))
        return false;
    NormMatch m = {.shape = sum->operands[0]->shape};
    m.row_rank = m.shape->rank;
    if (!norm_match_inverse(&m, inverse) || !norm_is_plain(m.norm.x) ||
        m.norm.x->shape->dtype == DT_F64)
        return false;
    int64_t columns = norm_columns(&m);
    *out = (NormGradient){.x = m.norm.x,
                          .mean = m.norm.mean,
                          .inverse = inverse,
                          .shape = m.norm.x->shape,
                          .row_rank = m.row_rank,
                          .columns = columns};
    out->rows = columns != 0 ? shape_elements(out->shape) / columns : 0;
    return columns > 1 && out->rows != 0;
}

/* -- polynomials --------------------------------------------------------------------------------- */

NormExpansion *norm_expand(const NormGradient *g, bool is_opaque, Arena *a)
{
    uint32_t count = g->x->parent->instruction_count;
    NormExpansion *e = ARENA_NEW(a, NormExpansion);
    *e = (NormExpansion){.arena = a,
                         .of = *g,
                         .match = {.shape = g->shape, .row_rank = g->row_rank},
                         .variance = is_opaque ? NULL : variance_of(g->inverse),
                         .known = ARENA_ARRAY(a, const Poly *, count),
                         .is_seen = ARENA_ARRAY(a, bool, count)};
    return e;
}

static const Poly *expand(NormExpansion *e, const Instruction *inst);

/* A value of rows or columns in each element. */
static bool expand_broadcast(NormExpansion *e, const Instruction *inst, Poly *out)
{
    const Instruction *row = norm_repeated(&e->match, inst, 0, e->of.row_rank);
    const Poly *p = row != NULL ? expand(e, row) : NULL;
    if (p != NULL && poly_is_of_rows(p)) {
        *out = *p;
        return true;
    }
    *out = poly_atom(POLY_SCALE, 1);
    return e->of.scale != NULL && norm_column_value(&e->match, inst) == e->of.scale;
}

static bool expand_reduce(NormExpansion *e, const Instruction *inst, Poly *out)
{
    NormMatch m = e->match;
    const Instruction *of = norm_summed(&m, inst);
    const Poly *p = of != NULL ? expand(e, of) : NULL;
    return p != NULL && poly_sum(p, e->of.columns, out);
}

static bool expand_elementwise(NormExpansion *e, const Instruction *inst, Poly *out)
{
    const Poly *a = expand(e, inst->operands[0]);
    if (inst->op == OP_NEGATE)
        return a != NULL && poly_add(&(Poly){.count = 0}, a, -1, out);
    const Poly *b = a != NULL ? expand(e, inst->operands[1]) : NULL;
    if (b == NULL)
        return false;
    switch (inst->op) {
    case OP_ADD:
        return poly_add(a, b, 1, out);
    case OP_SUBTRACT:
        return poly_add(a, b, -1, out);
    case OP_MULTIPLY:
        return poly_multiply(a, b, out);
    default:
        return poly_divide(a, b, out);
    }
}

/* What has a name in polynomials. */
static bool is_atom(const NormExpansion *e, const Instruction *inst, Poly *out)
{
    const Instruction *base = norm_before_widening(inst);
    double value;
    if (base == e->of.x || base == e->of.dy)
        *out = poly_atom(base == e->of.x ? POLY_X : POLY_DY, 1);
    else if (inst == e->of.inverse)
        *out = poly_atom(POLY_ROOT, -1);
    else if (e->variance == NULL && inst == e->of.mean)
        *out = poly_atom(POLY_MEAN, 1);
    else if (e->variance != NULL && inst == e->variance)
        *out = poly_atom(POLY_ROOT, 2);
    else if (e->variance != NULL && (inst->op == OP_SQRT || inst->op == OP_RSQRT) &&
             norm_strip(inst->operands[0]) == e->variance)
        *out = poly_atom(POLY_ROOT, inst->op == OP_SQRT ? 1 : -1);
    else if (attention_splat(inst, &value) && isfinite(value))
        *out = poly_number(value);
    else
        return false;
    return true;
}

static bool expand_new(NormExpansion *e, const Instruction *inst, Poly *out)
{
    if (!norm_is_plain(inst))
        return false;
    if (is_atom(e, inst, out))
        return true;
    if (inst->shape->dtype != DT_F32)
        return false;
    switch (inst->op) {
    case OP_BROADCAST:
        return expand_broadcast(e, inst, out);
    case OP_REDUCE:
        return expand_reduce(e, inst, out);
    case OP_ADD:
    case OP_SUBTRACT:
    case OP_MULTIPLY:
    case OP_DIVIDE:
    case OP_NEGATE:
        return expand_elementwise(e, inst, out);
    default:
        return false;
    }
}

/* NULL: it is none. */
static const Poly *expand(NormExpansion *e, const Instruction *inst)
{
    inst = norm_strip(inst);
    if (e->is_seen[inst->id] || e->depth == MOST_DEPTH)
        return e->known[inst->id];
    Poly p;
    e->is_seen[inst->id] = true;
    e->depth++;
    if (expand_new(e, inst, &p))
        e->known[inst->id] = arena_copy(e->arena, &p, sizeof p);
    e->depth--;
    return e->known[inst->id];
}

/* -- what it must be ------------------------------------------------------------------------------- */

/* (x - mean) * inverse. */
static bool normalised(const NormExpansion *e, Poly *out)
{
    const Poly x = poly_atom(POLY_X, 1), root = poly_atom(POLY_ROOT, -1);
    Poly mean = poly_number(0);
    if (e->of.mean != NULL && e->variance == NULL)
        mean = poly_atom(POLY_MEAN, 1);
    else if (e->of.mean != NULL && !poly_sum(&x, e->of.columns, &mean))
        return false;
    double part = e->variance == NULL ? 1 : 1 / (double)e->of.columns;
    return poly_add(&x, &mean, -part, out) && poly_multiply(out, &root, out);
}

static bool wanted_dx(const NormExpansion *e, Poly *out)
{
    const Poly dy = poly_atom(POLY_DY, 1), scale = poly_atom(POLY_SCALE, 1),
               root = poly_atom(POLY_ROOT, -1);
    const double part = 1 / (double)e->of.columns;
    Poly g, n, sum, product;
    if (!poly_multiply(&dy, &scale, &g) || !normalised(e, &n) ||
        !poly_multiply(&g, &n, &product) ||
        !poly_sum(&product, e->of.columns, &product) ||
        !poly_multiply(&n, &product, &product) || !poly_sum(&g, e->of.columns, &sum))
        return false;
    *out = g;
    return (e->of.mean == NULL || poly_add(out, &sum, -part, out)) &&
           poly_add(out, &product, -part, out) && poly_multiply(out, &root, out);
}

bool norm_is_dx(NormExpansion *e, const Instruction *inst)
{
    Poly wanted;
    if (!norm_is_plain(inst) || inst->shape->dtype != DT_F32 ||
        !shape_same_dims(inst->shape, e->of.shape))
        return false;
    const Poly *p = expand(e, inst);
    return p != NULL && wanted_dx(e, &wanted) && poly_equal(p, &wanted);
}

/* What a sum over all rows adds up; NULL: it is none. */
static const Poly *summed_rows(NormExpansion *e, const Instruction *inst)
{
    if (!norm_is_sum(&e->match, inst) || !norm_is_plain(inst) ||
        inst->shape->dtype != DT_F32)
        return NULL;
    Ints dims = inst_ints(inst, ATTR_DIMENSIONS);
    for (uint32_t i = 0; i < dims.count; i++) {
        if (dims.data[i] >= e->of.row_rank)
            return NULL;
    }
    return dims.count == e->of.row_rank ? expand(e, inst->operands[0]) : NULL;
}

bool norm_is_dscale(NormExpansion *e, const Instruction *inst)
{
    const Poly dy = poly_atom(POLY_DY, 1), *p = summed_rows(e, inst);
    Poly wanted;
    return p != NULL && normalised(e, &wanted) && poly_multiply(&wanted, &dy, &wanted) &&
           poly_equal(p, &wanted);
}

bool norm_is_dbias(NormExpansion *e, const Instruction *inst)
{
    const Poly dy = poly_atom(POLY_DY, 1), *p = summed_rows(e, inst);
    return p != NULL && poly_equal(p, &dy);
}

/* -- by cuDNN -------------------------------------------------------------------------------------- */

bool norm_gradient_has_types(const NormGradient *g, DType dx)
{
    DType t = g->shape->dtype, scale = g->scale->shape->dtype;
    return (t == DT_F32 || dtype_is_half(t)) && dx == t && g->dy->shape->dtype == t &&
           scale == DT_F32 && g->inverse->shape->dtype == DT_F32 &&
           (g->mean == NULL || g->mean->shape->dtype == DT_F32);
}

/* Operands of the fusion, or its parameters. */
static void set_arrays(NormGradient *g, Instruction *const *arrays, uint32_t count)
{
    g->x = arrays[NORM_GRADIENT_X];
    g->scale = arrays[NORM_GRADIENT_SCALE];
    g->dy = arrays[NORM_GRADIENT_DY];
    g->inverse = arrays[NORM_GRADIENT_INVERSE];
    g->mean = count > NORM_GRADIENT_MEAN ? arrays[NORM_GRADIENT_MEAN] : NULL;
}

static bool describe(const Instruction *inst, const Computation *comp, NormGradient *out)
{
    if (inst->operand_count != NORM_GRADIENT_MEAN &&
        inst->operand_count != NORM_GRADIENT_OPERANDS)
        return false;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (!norm_is_plain(inst->operands[i]))
            return false;
    }
    NormGradient g = {.row_rank = 0};
    set_arrays(&g, comp->parameters, inst->operand_count);
    g.shape = g.x->shape;
    g.columns = shape_elements(g.scale->shape);
    int64_t columns = 1;
    for (g.row_rank = g.shape->rank; g.row_rank > 0 && columns < g.columns; g.row_rank--)
        columns *= g.shape->dims[g.row_rank - 1];
    if (columns != g.columns || columns < 2 || g.row_rank == 0 ||
        !shape_same_dims(g.dy->shape, g.shape))
        return false;
    g.rows = shape_elements(g.shape) / columns;
    *out = g;
    return g.rows != 0 && shape_elements(g.inverse->shape) == g.rows &&
           (g.mean == NULL || shape_elements(g.mean->shape) == g.rows);
}

bool norm_gradient_call_of(const Instruction *inst, NormGradientCall *out)
{
    if (inst->op != OP_FUSION || !config_is(inst, CONFIG_LIBRARY, "cudnn"))
        return false;
    const Computation *comp = inst_called(inst, 0);
    const Instruction *root = comp->root;
    NormGradient *g = &out->gradient;
    if (root->op != OP_TUPLE || (root->operand_count != 2 && root->operand_count != 3) ||
        !describe(inst, comp, g))
        return false;
    const Instruction *dx = root->operands[0];
    if (!norm_is_plain(dx) || !norm_gradient_has_types(g, dx->shape->dtype))
        return false;
    dx = dx->op == OP_CONVERT ? dx->operands[0] : dx;
    Arena *scratch = arena_scratch();
    NormExpansion *e = norm_expand(g, true, scratch);
    out->has_bias = root->operand_count == 3;
    bool is_gradient = norm_is_dx(e, dx) && norm_is_dscale(e, root->operands[1]) &&
                       (!out->has_bias || norm_is_dbias(e, root->operands[2]));
    arena_destroy(scratch);
    set_arrays(g, inst->operands, inst->operand_count);
    return is_gradient;
}

bool norm_gradient_is_library(const Instruction *inst)
{
    NormGradientCall unused;
    return norm_gradient_call_of(inst, &unused);
}
