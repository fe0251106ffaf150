/* See attention_gradient.h. */
#include "ir/kernel/attention/attention_gradient.h"

#include "ir/analysis/collective.h"
#include "ir/literal.h"

/* -- forms ----------------------------------------------------------------------------------------- */

enum { MOST_TERMS = 4, MOST_STEPS = 400, MOST_DEPTH = 24 };

typedef enum {
    FACTOR_ONE,
    FACTOR_G,  /* g */
    FACTOR_SUM /* the sum over columns of e * g */
} Factor;

/* factor * e^e * l^l * what */
typedef struct Term {
    double factor;
    int e, l;
    Factor what;
} Term;

typedef struct Form {
    uint32_t count;
    Term terms[MOST_TERMS];
} Form;

/* The index space are the exponentials' elements. */
typedef struct FormFinder {
    const Instruction *e, *sums, *scores, *output;
    Mapped of_e;
    uint32_t column;
    int64_t columns, weight;
    Mapped products; /* inst is NULL: not met yet */
    uint32_t steps;
} FormFinder;

static bool add_term(Form *f, Term t)
{
    for (uint32_t i = 0; i < f->count; i++) {
        Term *x = &f->terms[i];
        if (x->e == t.e && x->l == t.l && x->what == t.what) {
            x->factor += t.factor;
            return true;
        }
    }
    if (t.factor == 0)
        return true;
    if (f->count == MOST_TERMS)
        return false;
    f->terms[f->count++] = t;
    return true;
}

static bool multiply_forms(const Form *x, const Form *y, Form *out)
{
    *out = (Form){0};
    for (uint32_t i = 0; i < x->count; i++) {
        for (uint32_t k = 0; k < y->count; k++) {
            const Term *a = &x->terms[i], *b = &y->terms[k];
            if (a->what != FACTOR_ONE && b->what != FACTOR_ONE)
                return false;
            if (!add_term(out, (Term){a->factor * b->factor, a->e + b->e, a->l + b->l,
                                      a->what != FACTOR_ONE ? a->what : b->what}))
                return false;
        }
    }
    return true;
}

/* 1 / x, of a single term without e: a row's own. */
static bool invert_form(Form *x)
{
    Term *t = &x->terms[0];
    if (x->count != 1 || t->what != FACTOR_ONE || t->e != 0 || t->factor == 0)
        return false;
    *t = (Term){1 / t->factor, 0, -t->l, FACTOR_ONE};
    return true;
}

static bool form_of(FormFinder *c, Mapped x, uint32_t depth, Form *out);

static bool operand_form(FormFinder *c, const Mapped *x, uint32_t operand, uint32_t depth,
                         Form *out)
{
    Mapped y;
    return mapped_operand(x, operand, &y) && form_of(c, y, depth, out);
}

/* A row's: at its place among the exponentials. */
static bool is_row(const FormFinder *c, const Mapped *x)
{
    ElementMap all;
    return mapped_insert(&x->map, c->column, c->columns, c->weight, &all) &&
           element_map_equal(&all, &c->of_e.map);
}

static bool form_of_sum(FormFinder *c, const Mapped *x, uint32_t depth, Form *out)
{
    Ints dims = inst_ints(x->inst, ATTR_DIMENSIONS);
    Mapped y = {.inst = x->inst->operands[0]};
    if (x->inst->operand_count != 2 || dims.count != 1 ||
        collective_reduction(inst_called(x->inst, 0)) != OP_ADD ||
        !inst_is_constant_scalar(x->inst->operands[1], 0) ||
        !mapped_insert(&x->map, (uint32_t)dims.data[0], c->columns, c->weight, &y.map) ||
        !form_of(c, y, depth, out))
        return false;
    Form summed = {0};
    for (uint32_t i = 0; i < out->count; i++) {
        Term t = out->terms[i];
        if (t.e != 1)
            return false;
        t = t.what == FACTOR_G ? (Term){t.factor, 0, t.l, FACTOR_SUM}
                               : (Term){t.factor, 0, t.l + 1, t.what};
        if (!add_term(&summed, t))
            return false;
    }
    *out = summed;
    return true;
}

/* As good as 0: a difference of what was rounded alike. */
static bool is_zero(const Form *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->terms[i].factor > 1e-6 || f->terms[i].factor < -1e-6)
            return false;
    }
    return true;
}

static bool form_of_products(FormFinder *c, const Mapped *x, Form *out)
{
    if (c->products.inst == NULL)
        c->products = *x;
    add_term(out, (Term){1, 0, 0, FACTOR_G});
    return x->inst != c->scores && x->inst != c->output && x->inst == c->products.inst &&
           element_map_equal(&x->map, &c->products.map);
}

static bool form_of_two(FormFinder *c, const Mapped *x, uint32_t depth, Form *out)
{
    Form y, z;
    OpCode op = x->inst->op;
    bool is_product = op == OP_MULTIPLY || op == OP_DIVIDE;
    if (!operand_form(c, x, 0, depth, &y))
        return false;
    if (is_product && is_zero(&y))
        return true; /* whatever the other one is */
    if (!operand_form(c, x, 1, depth, &z))
        return false;
    if (is_product)
        return (op == OP_MULTIPLY || invert_form(&z)) && multiply_forms(&y, &z, out);
    *out = y;
    for (uint32_t i = 0; i < z.count; i++) {
        Term t = z.terms[i];
        t.factor = op == OP_SUBTRACT ? -t.factor : t.factor;
        if (!add_term(out, t))
            return false;
    }
    return true;
}

static bool form_of(FormFinder *c, Mapped x, uint32_t depth, Form *out)
{
    double value;
    *out = (Form){0};
    mapped_peel(&x);
    if (depth == 0 || c->steps-- == 0)
        return false;
    if (attention_splat(x.inst, &value))
        return add_term(out, (Term){value, 0, 0, FACTOR_ONE});
    if (x.inst == c->e)
        return element_map_equal(&x.map, &c->of_e.map) &&
               add_term(out, (Term){1, 1, 0, FACTOR_ONE});
    if (x.inst == c->sums)
        return is_row(c, &x) && add_term(out, (Term){1, 0, 1, FACTOR_ONE});
    switch (x.inst->op) {
    case OP_BROADCAST:
        return operand_form(c, &x, 0, depth - 1, out);
    case OP_REDUCE:
        return form_of_sum(c, &x, depth - 1, out);
    case OP_DOT:
        return form_of_products(c, &x, out);
    case OP_NEGATE:
        if (!operand_form(c, &x, 0, depth - 1, out))
            return false;
        for (uint32_t i = 0; i < out->count; i++)
            out->terms[i].factor = -out->terms[i].factor;
        return true;
    case OP_ADD:
    case OP_SUBTRACT:
    case OP_MULTIPLY:
    case OP_DIVIDE:
        return form_of_two(c, &x, depth - 1, out);
    default:
        return false;
    }
}

/* factor * (e / l * g - e / l^2 * sum) */
static bool is_core(const Form *f, double *factor)
{
    const Term *g = NULL, *sum = NULL;
    for (uint32_t i = 0; i < f->count; i++) {
        const Term *t = &f->terms[i];
        if (is_zero(&(Form){1, {*t}}))
            continue;
        if (t->what == FACTOR_G && t->e == 1 && t->l == -1)
            g = t;
        else if (t->what == FACTOR_SUM && t->e == 1 && t->l == -2)
            sum = t;
        else
            return false;
    }
    if (g == NULL || sum == NULL)
        return false;
    double difference = g->factor + sum->factor, most = g->factor * 1e-6;
    *factor = g->factor;
    return difference <= (most < 0 ? -most : most) &&
           difference >= (most < 0 ? most : -most);
}

static bool has_shape(const Instruction *x, const Shape *s)
{
    if (!shape_is_array(x->shape) || x->shape->rank != s->rank ||
        !dtype_is_float(x->shape->dtype))
        return false;
    for (uint32_t d = 0; d < s->rank; d++) {
        if (x->shape->dims[d] != s->dims[d])
            return false;
    }
    return true;
}

/* The exponentials, of which the sums are taken along one of their dimensions. */
static bool start(const Attention *a, FormFinder *c)
{
    const AttentionParts *p = &a->parts;
    *c = (FormFinder){.e = p->exponentials.inst,
                      .sums = p->sums,
                      .scores = p->scores.inst,
                      .output = p->output};
    const Instruction *summed = p->sums->operands[0];
    while (summed->op == OP_CONVERT)
        summed = summed->operands[0];
    if (summed != c->e || !mapped_start(c->e, &c->of_e))
        return false;
    c->column = (uint32_t)inst_ints(p->sums, ATTR_DIMENSIONS).data[0];
    c->columns = c->e->shape->dims[c->column];
    c->weight = 1;
    for (uint32_t d = c->column + 1; d < c->e->shape->rank; d++)
        c->weight *= c->e->shape->dims[d];
    return c->columns > 1;
}

static bool find_cores(FormFinder *c, AttentionGradient *out)
{
    const Computation *comp = c->e->parent;
    Mapped products = {0};
    for (const Instruction *x = inst_first(comp); x; x = inst_next(x)) {
        Form f;
        Mapped m;
        if ((x->op != OP_MULTIPLY && x->op != OP_SUBTRACT && x->op != OP_ADD &&
             x->op != OP_DIVIDE) ||
            !has_shape(x, c->e->shape) || !mapped_start(x, &m))
            continue;
        c->steps = MOST_STEPS;
        c->products = products;
        if (!form_of(c, m, MOST_DEPTH, &f) ||
            !is_core(&f, &out->factors[out->core_count]))
            continue;
        products = c->products;
        out->products = products.inst;
        out->cores[out->core_count++] = x;
        if (out->core_count == ATTENTION_CORES)
            break;
    }
    c->products = products;
    return out->core_count != 0;
}

/* -- dimensions --------------------------------------------------------------------------------------- */

static Ints batch_of(const Instruction *dot, uint32_t side)
{
    return inst_ints(dot, side == 0 ? ATTR_LHS_BATCH_DIMS : ATTR_RHS_BATCH_DIMS);
}

static Ints terms_of(const Instruction *dot, uint32_t side)
{
    return inst_ints(dot,
                     side == 0 ? ATTR_LHS_CONTRACTING_DIMS : ATTR_RHS_CONTRACTING_DIMS);
}

static const Instruction *without_conversions(const Instruction *x)
{
    while (x->op == OP_CONVERT && dtype_is_float(x->operands[0]->shape->dtype))
        x = x->operands[0];
    return x;
}

/* The operand's dimension for one of the dot's result, where it has it; -1. */
static int64_t operand_dim(const Instruction *dot, uint32_t side, int64_t dim)
{
    Ints batch = batch_of(dot, side), terms = terms_of(dot, side);
    if (dim < batch.count)
        return batch.data[dim];
    int64_t at = batch.count;
    if (side == 1)
        at += dot->operands[0]->shape->rank - batch.count - terms.count;
    for (uint32_t d = 0; d < dot->operands[side]->shape->rank; d++) {
        if (ints_find(batch, d) < 0 && ints_find(terms, d) < 0 && at++ == dim)
            return d;
    }
    return -1;
}

/* The products' dimension for each of the exponentials', from the places of their elements. */
static bool find_product_dims(const FormFinder *c, AttentionGradient *out)
{
    const Shape *e = c->e->shape;
    int64_t step = 1;
    if (c->products.inst->shape->rank != e->rank)
        return false;
    for (uint32_t d = e->rank; d-- > 0; step *= e->dims[d]) {
        out->product_dims[d] = -1;
        for (uint32_t i = 0; i < e->rank; i++) {
            uint32_t n;
            const ViewPiece *p =
                view_pieces_of(c->products.map.pieces, c->products.map.count, i, &n);
            bool is_one = e->dims[d] == 1 && c->products.inst->shape->dims[i] == 1;
            if ((n == 1 && p->stride == step && p->size == e->dims[d]) ||
                (is_one && i == d))
                out->product_dims[d] = i;
        }
        if (out->product_dims[d] < 0)
            return false;
    }
    return true;
}

/* v is the operand that the column is of, and the same as the attention's. */
static bool find_do(const Attention *a, FormFinder *c, AttentionGradient *out)
{
    const Instruction *g = out->products, *o = a->parts.output;
    int64_t column = out->product_dims[c->column];
    uint32_t of_v = operand_dim(g, 1, column) >= 0;
    uint32_t v_side = a->parts.v_side;
    out->do_side = !of_v;
    return column >= batch_of(g, 0).count &&
           without_conversions(g->operands[of_v]) ==
               without_conversions(o->operands[v_side]) &&
           terms_of(o, v_side).data[0] == operand_dim(g, of_v, column);
}

/* Dimension `dim` of the attention's result, in do: of v, or of the rows. */
static int64_t find_do_dim(const Attention *a, const AttentionGradient *x, int64_t dim)
{
    const Instruction *g = x->products, *o = a->parts.output;
    uint32_t of_v = !x->do_side, v_side = a->parts.v_side;
    int64_t in_v = operand_dim(o, v_side, dim);
    if (in_v >= 0) {
        int64_t at = ints_find(batch_of(g, of_v), in_v);
        if (at >= 0)
            return batch_of(g, x->do_side).data[at];
        at = ints_find(terms_of(g, of_v), in_v);
        return at < 0 ? -1 : terms_of(g, x->do_side).data[at];
    }
    int64_t in_weights = operand_dim(o, !v_side, dim);
    return in_weights < 0 ? -1 : operand_dim(g, x->do_side, x->product_dims[in_weights]);
}

static bool find_dims(const Attention *a, AttentionGradient *x)
{
    const Instruction *o = a->parts.output;
    uint32_t rank = o->shape->rank;
    for (uint32_t d = 0; d < a->parts.exponentials.inst->shape->rank; d++)
        x->row_dims[d] = -1;
    if (rank > VIEW_RANK || x->products->operands[x->do_side]->shape->rank != rank)
        return false;
    for (uint32_t d = 0; d < rank; d++) {
        x->do_dims[d] = find_do_dim(a, x, d);
        if (x->do_dims[d] < 0)
            return false;
        int64_t in_weights = operand_dim(o, !a->parts.v_side, d);
        if (in_weights >= 0)
            x->row_dims[in_weights] = d;
    }
    return true;
}

bool attention_gradient_match(const Attention *a, AttentionGradient *out)
{
    FormFinder c;
    const AttentionParts *p = &a->parts;
    *out = (AttentionGradient){0};
    if (!start(a, &c) || !has_shape(p->weights.inst, c.e->shape) ||
        !element_map_equal(&p->weights.map, &p->exponentials.map) || !find_cores(&c, out))
        return false;
    out->column = c.column;
    return find_product_dims(&c, out) && find_do(a, &c, out) && find_dims(a, out);
}
