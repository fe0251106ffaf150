/* See attention_gradient.h. */
#include "ir/kernel/attention/attention_gradient.h"

#include "ir/analysis/collective.h"
#include "ir/kernel/matmul.h"
#include "ir/literal.h"

/* -- dots ------------------------------------------------------------------------------------------ */

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

/* -- forms ----------------------------------------------------------------------------------------- */

enum { MOST_TERMS = 4, MOST_STEPS = 400, MOST_DEPTH = 24 };

typedef enum {
    FACTOR_ONE,
    FACTOR_G,      /* g */
    FACTOR_DO,     /* do */
    FACTOR_RESULT, /* that of the second dot: the sum over columns of e * v */
    FACTOR_BOTH,   /* do * result */
    FACTOR_SUM     /* the sum over columns of e * g, or over the depth of do * result */
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

/* The index space are the exponentials' elements, and the depth as one more digit. */
typedef struct FormFinder {
    const Instruction *e, *sums, *scores, *output;
    Mapped of_e;
    uint32_t column, v_side;
    int64_t columns, weight, depth, depth_weight;
    bool is_divided; /* the weights are e / l, not e */
    Mapped products; /* inst is NULL: not met yet */
    Mapped of_do;    /* known with the products; inst is NULL: of several depths */
    Mapped result;   /* inst is NULL: of several depths */
    const Instruction *over_sums,
        *whole; /* do / l, which the products are of, and do; NULL: of do */
    uint32_t steps;
} FormFinder;

/* A difference of what was rounded alike is as good as 0. */
static double sum_of(double x, double y)
{
    static const double close = 1e-6;
    double sum = x + y, most = (x < 0 ? -x : x) * close;
    return sum <= most && sum >= -most ? 0 : sum;
}

static bool add_term(Form *f, Term t)
{
    for (uint32_t i = 0; i < f->count; i++) {
        Term *x = &f->terms[i];
        if (x->e == t.e && x->l == t.l && x->what == t.what) {
            x->factor = sum_of(x->factor, t.factor);
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

static bool multiply_factors(Factor x, Factor y, Factor *out)
{
    *out = x == FACTOR_ONE ? y : x;
    if (x == FACTOR_ONE || y == FACTOR_ONE)
        return true;
    *out = FACTOR_BOTH;
    return (x == FACTOR_DO && y == FACTOR_RESULT) ||
           (x == FACTOR_RESULT && y == FACTOR_DO);
}

static bool multiply_forms(const Form *x, const Form *y, Form *out)
{
    *out = (Form){0};
    for (uint32_t i = 0; i < x->count; i++) {
        for (uint32_t k = 0; k < y->count; k++) {
            const Term *a = &x->terms[i], *b = &y->terms[k];
            Factor what;
            if (!multiply_factors(a->what, b->what, &what) ||
                !add_term(out,
                          (Term){a->factor * b->factor, a->e + b->e, a->l + b->l, what}))
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

/* A row's: at its position among the exponentials. */
static bool is_row(const FormFinder *c, const Mapped *x)
{
    ElementMap all;
    return mapped_insert(&x->map, c->column, c->columns, c->weight, &all) &&
           element_map_equal(&all, &c->of_e.map);
}

/* The sum over the columns, or over the depth, of such a term. */
static bool sum_term(Term t, bool is_depth, Term *out)
{
    if (is_depth) {
        *out = (Term){t.factor, t.e, t.l, FACTOR_SUM};
        return t.what == FACTOR_BOTH && t.e == 0;
    }
    *out = t.what == FACTOR_G ? (Term){t.factor, 0, t.l, FACTOR_SUM}
                              : (Term){t.factor, 0, t.l + 1, t.what};
    return t.e == 1;
}

static bool form_of_sum_over(FormFinder *c, const Mapped *x, bool is_depth,
                             uint32_t depth, Form *out)
{
    uint32_t dim = (uint32_t)inst_ints(x->inst, ATTR_DIMENSIONS).data[0];
    int64_t size = is_depth ? c->depth : c->columns;
    Mapped y = {.inst = x->inst->operands[0]};
    Form terms;
    *out = (Form){0};
    if (y.inst->shape->dims[dim] != size ||
        !mapped_insert(&x->map, dim, size, is_depth ? c->depth_weight : c->weight,
                       &y.map) ||
        !form_of(c, y, depth, &terms))
        return false;
    for (uint32_t i = 0; i < terms.count; i++) {
        Term t;
        if (!sum_term(terms.terms[i], is_depth, &t) || !add_term(out, t))
            return false;
    }
    return true;
}

static bool form_of_sum(FormFinder *c, const Mapped *x, uint32_t depth, Form *out)
{
    if (x->inst->operand_count != 2 || inst_ints(x->inst, ATTR_DIMENSIONS).count != 1 ||
        collective_reduction(inst_called(x->inst, 0)) != OP_ADD ||
        !inst_is_constant_scalar(x->inst->operands[1], 0))
        return false;
    return form_of_sum_over(c, x, false, depth, out) ||
           (c->result.inst != NULL && form_of_sum_over(c, x, true, depth, out));
}

static bool is_zero(const Form *f)
{
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->terms[i].factor != 0)
            return false;
    }
    return true;
}

/* A row's l to the power -1: what something is divided by, or what it is multiplied by. */
static bool is_over_sums(FormFinder *c, const Mapped *x, uint32_t operand, uint32_t depth)
{
    Form f;
    if (!operand_form(c, x, operand, depth, &f) ||
        (x->inst->op == OP_DIVIDE && !invert_form(&f)))
        return false;
    const Term *t = &f.terms[0];
    return f.count == 1 && t->factor == 1 && t->e == 0 && t->l == -1 &&
           t->what == FACTOR_ONE;
}

/* do, where the products are of do / l, as those of an output that is divided behind the dot. */
static void take_over_sums(FormFinder *c, uint32_t depth)
{
    const Mapped x = c->of_do;
    Mapped whole;
    bool is_product = x.inst->op == OP_MULTIPLY;
    if (c->is_divided || (!is_product && x.inst->op != OP_DIVIDE))
        return;
    for (uint32_t i = is_product ? 0 : 1; i < 2; i++) {
        if (!is_over_sums(c, &x, i, depth) || !mapped_operand(&x, !i, &whole))
            continue;
        c->over_sums = x.inst;
        c->whole = x.inst->operands[!i];
        mapped_peel(&whole);
        c->of_do = whole;
        return;
    }
}

static bool is_v(const FormFinder *c, const Instruction *x)
{
    return without_conversions(x) == without_conversions(c->output->operands[c->v_side]);
}

static bool is_of_v(const FormFinder *c, const Instruction *dot)
{
    return is_v(c, dot->operands[0]) || is_v(c, dot->operands[1]);
}

/* The first dot of something with the attention's v. */
static void take_products(FormFinder *c, const Mapped *x, uint32_t depth)
{
    const Instruction *dot = x->inst;
    uint32_t side = is_v(c, dot->operands[0]), n = 0;
    Ints terms = terms_of(dot, side);
    const Instruction *y = dot->operands[side];
    int64_t to[VIEW_RANK];
    ElementMap rows;
    c->products = *x;
    c->of_do = (Mapped){.inst = NULL};
    c->over_sums = NULL;
    if (c->result.inst == NULL || terms.count != 1 || y->shape->rank > VIEW_RANK)
        return;
    for (uint32_t d = 0; d < y->shape->rank; d++) {
        if (d != terms.data[0])
            to[n++] = dot_result_dim(dot, side, d);
    }
    Mapped of_do = {.inst = y};
    if (!element_map_choose(&x->map, n, to, &rows) ||
        !mapped_insert(&rows, (uint32_t)terms.data[0], c->depth, c->depth_weight,
                       &of_do.map))
        return;
    mapped_peel(&of_do);
    c->of_do = of_do;
    take_over_sums(c, depth);
}

static bool form_of_products(FormFinder *c, const Mapped *x, uint32_t depth, Form *out)
{
    if (x->inst == c->scores || x->inst == c->output || !is_of_v(c, x->inst))
        return false;
    if (c->products.inst == NULL)
        take_products(c, x, depth);
    add_term(out, (Term){1, 0, c->over_sums != NULL ? -1 : 0, FACTOR_G});
    return x->inst == c->products.inst && element_map_equal(&x->map, &c->products.map);
}

/* Of both operands, where the products among the second one say what do in the first one is. */
static bool forms_from_second(FormFinder *c, const Mapped *x, uint32_t depth, Form *y,
                              Form *z)
{
    return c->products.inst == NULL && operand_form(c, x, 1, depth, z) &&
           c->products.inst != NULL && operand_form(c, x, 0, depth, y);
}

static bool form_of_two(FormFinder *c, const Mapped *x, uint32_t depth, Form *out)
{
    Form y, z;
    OpCode op = x->inst->op;
    bool is_product = op == OP_MULTIPLY || op == OP_DIVIDE;
    bool is_known = operand_form(c, x, 0, depth, &y);
    if (is_known && is_product && is_zero(&y))
        return true; /* whatever the other one is */
    if (is_known ? !operand_form(c, x, 1, depth, &z)
                 : !forms_from_second(c, x, depth, &y, &z))
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

static bool is_mapped(const Mapped *x, const Mapped *as)
{
    return x->inst == as->inst && element_map_equal(&x->map, &as->map);
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
    if (is_mapped(&x, &c->of_do))
        return add_term(out, (Term){1, 0, 0, FACTOR_DO});
    if (is_mapped(&x, &c->result))
        return add_term(out, (Term){1, 0, 0, FACTOR_RESULT});
    switch (x.inst->op) {
    case OP_BROADCAST:
        return operand_form(c, &x, 0, depth - 1, out);
    case OP_REDUCE:
        return form_of_sum(c, &x, depth - 1, out);
    case OP_DOT:
        return form_of_products(c, &x, depth - 1, out);
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
        if (t->factor == 0)
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
    *factor = g->factor;
    return sum_of(g->factor, sum->factor) == 0;
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

/* The second dot's result, with the weights' dimensions, which are the exponentials', and a depth. */
static void find_result(FormFinder *c)
{
    const Instruction *o = c->output;
    int64_t to[VIEW_RANK], depth = -1;
    uint32_t n = 0;
    ElementMap rows;
    for (uint32_t d = 0; d < o->shape->rank && d < VIEW_RANK; d++) {
        int64_t in_weights = operand_dim(o, !c->v_side, d);
        if (in_weights >= 0)
            to[n++] = in_weights;
        else if (depth >= 0)
            return;
        else
            depth = d;
    }
    if (depth < 0 || o->shape->rank > VIEW_RANK)
        return;
    c->depth = o->shape->dims[depth];
    c->depth_weight = shape_elements(c->e->shape);
    if (element_map_choose(&c->of_e.map, n, to, &rows) &&
        mapped_insert(&rows, (uint32_t)depth, c->depth, c->depth_weight, &c->result.map))
        c->result.inst = o;
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
    c->v_side = p->v_side;
    c->is_divided = without_conversions(p->weights.inst) != c->e;
    find_result(c);
    return c->columns > 1;
}

static bool find_cores(FormFinder *c, AttentionGradient *out)
{
    const Computation *comp = c->e->parent;
    FormFinder found = *c;
    for (const Instruction *x = inst_first(comp); x; x = inst_next(x)) {
        Form f;
        Mapped m;
        if ((x->op != OP_MULTIPLY && x->op != OP_SUBTRACT && x->op != OP_ADD &&
             x->op != OP_DIVIDE) ||
            !has_shape(x, c->e->shape) || !mapped_start(x, &m))
            continue;
        *c = found;
        c->steps = MOST_STEPS;
        if (!form_of(c, m, MOST_DEPTH, &f) ||
            !is_core(&f, &out->factors[out->core_count]))
            continue;
        found = *c;
        out->products = c->products.inst;
        out->over_sums = c->over_sums;
        out->whole = c->whole;
        out->cores[out->core_count++] = x;
        if (out->core_count == ATTENTION_CORES)
            break;
    }
    *c = found;
    return out->core_count != 0;
}

/* -- dimensions --------------------------------------------------------------------------------------- */

/* The products' dimension whose steps among the exponentials are these; -1: there is none. */
static int64_t product_dim(const FormFinder *c, int64_t size, int64_t step)
{
    const Mapped *m = &c->products;
    for (uint32_t i = 0; i < m->inst->shape->rank; i++) {
        uint32_t n;
        const ViewPiece *p = view_pieces_of(m->map.pieces, m->map.count, i, &n);
        if (n == 1 && p->stride == step && p->size == size)
            return i;
    }
    return -1;
}

/* The products' dimension for each of the exponentials', from the positions of their elements; those of size 1 in turn. */
static bool find_product_dims(const FormFinder *c, AttentionGradient *out)
{
    const Shape *e = c->e->shape, *g = c->products.inst->shape;
    int64_t step = 1;
    uint32_t one = g->rank;
    if (g->rank != e->rank)
        return false;
    for (uint32_t d = e->rank; d-- > 0; step *= e->dims[d]) {
        if (e->dims[d] != 1) {
            out->product_dims[d] = product_dim(c, e->dims[d], step);
        } else {
            while (one > 0 && g->dims[one - 1] != 1)
                one--;
            out->product_dims[d] = one > 0 ? (int64_t)--one : -1;
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

/* Dimension `dim` of the attention's result, in do: of v, or of the rows. A batch of v must be the same of the weights. */
static int64_t find_do_dim(const Attention *a, const AttentionGradient *x, int64_t dim)
{
    const Instruction *g = x->products, *o = a->parts.output;
    uint32_t of_v = !x->do_side, v_side = a->parts.v_side;
    int64_t in_v = operand_dim(o, v_side, dim), in_weights = operand_dim(o, !v_side, dim);
    if (in_v >= 0) {
        int64_t at = ints_find(batch_of(g, of_v), in_v);
        if (at >= 0 && o->shape->dims[dim] != 1 &&
            (in_weights < 0 || x->product_dims[in_weights] != at))
            return -1;
        if (at >= 0)
            return batch_of(g, x->do_side).data[at];
        at = ints_find(terms_of(g, of_v), in_v);
        return at < 0 ? -1 : terms_of(g, x->do_side).data[at];
    }
    return in_weights < 0 ? -1 : operand_dim(g, x->do_side, x->product_dims[in_weights]);
}

/* Those of size 1 are as good as each other, but each stands for one only. */
static bool find_do_dims(const Attention *a, AttentionGradient *x)
{
    const Shape *o = a->parts.output->shape,
                *y = x->products->operands[x->do_side]->shape;
    bool is_taken[VIEW_RANK] = {false};
    for (uint32_t d = 0; d < o->rank; d++) {
        if (o->dims[d] == 1)
            continue;
        int64_t at = x->do_dims[d] = find_do_dim(a, x, d);
        if (at < 0 || is_taken[at])
            return false;
        is_taken[at] = true;
    }
    for (uint32_t d = 0; d < o->rank; d++) {
        if (o->dims[d] != 1)
            continue;
        int64_t at = find_do_dim(a, x, d);
        if (at < 0 || is_taken[at]) {
            for (at = 0; at < y->rank && (is_taken[at] || y->dims[at] != 1); at++)
                ;
        }
        if (at == y->rank)
            return false;
        x->do_dims[d] = at;
        is_taken[at] = true;
    }
    return true;
}

static bool find_dims(const Attention *a, AttentionGradient *x)
{
    const Instruction *o = a->parts.output;
    uint32_t rank = o->shape->rank;
    for (uint32_t d = 0; d < a->parts.exponentials.inst->shape->rank; d++)
        x->row_dims[d] = -1;
    if (rank > VIEW_RANK || x->products->operands[x->do_side]->shape->rank != rank ||
        !find_do_dims(a, x))
        return false;
    for (uint32_t d = 0; d < rank; d++) {
        int64_t in_weights = operand_dim(o, !a->parts.v_side, d);
        if (in_weights >= 0)
            x->row_dims[in_weights] = d;
    }
    return true;
}

/* The differences are made of the result: too far from the sums over columns where that is rounded to f8. */
static bool has_close_result(const Attention *a)
{
    return dtype_info[a->o.base->shape->dtype].bits >= 16;
}

bool attention_gradient_match(const Attention *a, AttentionGradient *out)
{
    FormFinder c;
    const AttentionParts *p = &a->parts;
    *out = (AttentionGradient){0};
    if (a->empty_is_zero || !p->has_statistics || !has_close_result(a) || !start(a, &c) ||
        !has_shape(p->weights.inst, c.e->shape) ||
        !element_map_equal(&p->weights.map, &p->exponentials.map) ||
        !element_map_equal(&p->masked.map, &p->exponentials.map) || !find_cores(&c, out))
        return false;
    out->column = c.column;
    if (!c.is_divided && out->over_sums == NULL)
        return false; /* its other dots are of e and of do, or of p and of do / l */
    return find_product_dims(&c, out) && find_do(a, &c, out) && find_dims(a, out);
}
