/* Dots and convolutions that kernels of our own make from few tiles and long sums are cut along the sum, so that all
 * of the GPU has work. The partial results are added in a fixed order.
 *
 *   d = bf16[64,128] dot(a, b), lhs_contracting_dims={1}, ...       a: bf16[64,65536], b: bf16[65536,128]
 *   ->  p = f32[64,64,128] dot(reshape(a), reshape(b)), lhs_batch_dims={1}, ..., backend_config={"split_k":"64"}
 *       d = convert(f32[64,128] reduce(p, 0), dimensions={0}, add)
 *
 * A convolution is cut along its input features, which are the batch where it makes the gradient of the weights:
 * the pieces are feature groups. The model of time says into how many pieces, of equal size; "split_k" keeps the rule
 * from cutting again.
 *
 * Needs: laid out. Keeps: values but for the order of sums. Ends: what has "split_k" is left alone. */
#include <string.h>

#include "ir/analysis/collective.h"
#include "ir/attribute/config.h"
#include "ir/kernel/candidates.h"
#include "ir/kernel/element.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/tensor_core.h"
#include "ir/kernel/time/costs.h"
#include "passes/library/choice.h"
#include "passes/library/library.h"
#include "passes/settings.h"
#include "passes/simplify/rewrite.h"

enum {
    TILE = 128, /* of a kernel, at most about: elements along each side of the result */
    LEAST_TERMS = 64, /* of a piece's sums */
    MOST_WAVES = 8,   /* of half the multiprocessors: more pieces are never tried */
};
#define GAIN 0.8        /* of the time of one piece, for two kernels in place of one */
#define LONG_LAUNCHES 3 /* a product that takes so many is worth a look */

/* A product and where it can be cut. */
typedef struct Cut {
    const Instruction *product;
    int64_t sum[2]; /* by operand: the dimension that is cut */
    int64_t size;   /* along it */
    int64_t
        feature[2]; /* convolutions: output features in the kernel and in the result */
    DType type;     /* of partial results */
} Cut;

static bool find_dot(const Instruction *dot, Cut *out)
{
    Ints sums[2] = {inst_ints(dot, ATTR_LHS_CONTRACTING_DIMS),
                    inst_ints(dot, ATTR_RHS_CONTRACTING_DIMS)};
    const Shape *lhs = dot->operands[0]->shape;
    uint32_t longest = 0;
    for (uint32_t i = 1; i < sums[0].count; i++) {
        if (lhs->dims[sums[0].data[i]] > lhs->dims[sums[0].data[longest]])
            longest = i;
    }
    if (sums[0].count == 0 || dot->shape->rank == KERNEL_MOST_RANK ||
        lhs->rank == KERNEL_MOST_RANK ||
        dot->operands[1]->shape->rank == KERNEL_MOST_RANK)
        return false;
    for (int i = 0; i < 2; i++)
        out->sum[i] = sums[i].data[longest];
    return true;
}

static bool find_convolution(const Instruction *convolution, Cut *out)
{
    const DimLabels *n = inst_attr(convolution, ATTR_DIM_LABELS)->labels;
    if (inst_int(convolution, ATTR_FEATURE_GROUP_COUNT, 1) != 1 ||
        inst_int(convolution, ATTR_BATCH_GROUP_COUNT, 1) != 1 ||
        convolution->shape->rank + 1u > KERNEL_MOST_RANK)
        return false;
    out->sum[0] = n->lhs_feature;
    out->sum[1] = n->rhs_input;
    out->feature[0] = n->rhs_output;
    out->feature[1] = n->out_feature;
    return true;
}

static bool find_cut(Intern *intern, const Instruction *product, Cut *out)
{
    const Shape *result = product->shape;
    *out = (Cut){.product = product};
    if (product->operand_count != 2 || config_has(product, CONFIG_LIBRARY) ||
        config_has(product, CONFIG_SPLIT_K))
        return false;
    const Instruction *all[] = {product, product->operands[0], product->operands[1]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!rw_is_static(all[i]->shape) || !shape_is_row_major(all[i]->shape) ||
            shape_elements(all[i]->shape) == 0)
            return false;
    }
    /* elements that are packed in the result */
    if (shape_array(intern, result->dtype, result->rank, result->dims, NULL, NULL) !=
        result)
        return false;
    if (!(product->op == OP_DOT ? find_dot : find_convolution)(product, out))
        return false;
    out->size = product->operands[0]->shape->dims[out->sum[0]];
    out->type = contract_accumulator(product);
    return true;
}

/* -- what is made of it -------------------------------------------------------------------------- */

static const Shape *with_dimension(Intern *intern, const Shape *s, DType t, int64_t at,
                                   int64_t pieces)
{
    int64_t sizes[KERNEL_MOST_RANK];
    memcpy(sizes, s->dims, (size_t)at * sizeof *sizes);
    sizes[at] = pieces;
    memcpy(sizes + at + 1, s->dims + at, ((size_t)s->rank - (size_t)at) * sizeof *sizes);
    return shape_array(intern, t, s->rank + 1, sizes, NULL, NULL);
}

static const Shape *with_size(Intern *intern, const Shape *s, DType t, int64_t dim,
                              int64_t size)
{
    int64_t sizes[KERNEL_MOST_RANK];
    memcpy(sizes, s->dims, s->rank * sizeof *sizes);
    sizes[dim] = size;
    return shape_array(intern, t, s->rank, sizes, NULL, NULL);
}

/* Dimension `sum` as two: the pieces, and what each has. */
static const Shape *cut_shape(Intern *intern, const Cut *c, uint32_t side, int64_t pieces)
{
    const Shape *s = c->product->operands[side]->shape;
    s = with_dimension(intern, s, s->dtype, c->sum[side], pieces);
    return with_size(intern, s, s->dtype, c->sum[side] + 1, c->size / pieces);
}

/* The kernel of a convolution with so many groups: of output features, whose inputs are the pieces. */
static const Shape *grouped_shape(Intern *intern, const Cut *c, int64_t pieces)
{
    const Shape *s = c->product->operands[1]->shape;
    int64_t features = s->dims[c->feature[0]] * pieces;
    s = with_size(intern, s, s->dtype, c->feature[0], features);
    return with_size(intern, s, s->dtype, c->sum[1], c->size / pieces);
}

/* Dot or convolution: of the partial results. */
static const Shape *partial_shape(Intern *intern, const Cut *c, int64_t pieces)
{
    const Shape *s = c->product->shape;
    if (c->product->op == OP_DOT)
        return with_dimension(intern, s, c->type, 0, pieces);
    return with_size(intern, s, c->type, c->feature[1], s->dims[c->feature[1]] * pieces);
}

static void set_shifted(Instruction *dot, AttrId id, const int64_t *first, Ints dims,
                        int64_t sum)
{
    int64_t shifted[KERNEL_MOST_RANK];
    uint32_t n = 0;
    if (first != NULL)
        shifted[n++] = *first;
    for (uint32_t i = 0; i < dims.count; i++)
        shifted[n++] = dims.data[i] + (dims.data[i] >= sum);
    inst_set_ints(dot, id, shifted, n);
}

/* A copy of the product, on operands that are cut, becomes the one of the pieces. */
static void set_pieces(Instruction *copy, const Cut *c, int64_t pieces)
{
    static const AttrId batch[] = {ATTR_LHS_BATCH_DIMS, ATTR_RHS_BATCH_DIMS},
                        sums[] = {ATTR_LHS_CONTRACTING_DIMS, ATTR_RHS_CONTRACTING_DIMS};
    config_set_int(copy, CONFIG_SPLIT_K, pieces);
    if (copy->op == OP_CONVOLUTION) {
        inst_set_int(copy, ATTR_FEATURE_GROUP_COUNT, pieces);
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        set_shifted(copy, batch[i], &c->sum[i], inst_ints(c->product, batch[i]),
                    c->sum[i]);
        set_shifted(copy, sums[i], NULL, inst_ints(c->product, sums[i]), c->sum[i]);
    }
}

/* -- into how many pieces ------------------------------------------------------------------------ */

/* Of the kernel that makes the product in so many pieces; 0: there is none. */
static double kernel_seconds(const Cut *c, const PassContext *cx, int64_t pieces)
{
    Arena *a = arena_scratch();
    Module *m = module_create(a, diag_create(a, "", "", 0), "pieces");
    Computation *comp = module_add_computation(m, "main");
    bool is_dot = c->product->op == OP_DOT;
    Instruction *x[2];
    for (uint32_t i = 0; i < 2; i++) {
        const Shape *s = c->product->operands[i]->shape;
        if (pieces != 1 && is_dot)
            s = cut_shape(m->intern, c, i, pieces);
        else if (pieces != 1 && i == 1)
            s = grouped_shape(m->intern, c, pieces);
        x[i] = computation_add_parameter(comp, i, s, NULL);
    }
    const Shape *result =
        pieces == 1 ? c->product->shape : partial_shape(m->intern, c, pieces);
    comp->root = computation_add_like(comp, c->product, result, 2, x);
    if (pieces != 1)
        set_pieces(comp->root, c, pieces);
    Candidates all;
    candidates_find(comp->root, NULL, cx->target, cx->products, &all);
    double seconds = 0;
    for (uint32_t i = 0; i < all.count && seconds == 0; i++)
        seconds = all.list[i].maker == CANDIDATE_LIBRARY ? 0 : all.list[i].seconds;
    arena_destroy(a);
    return seconds;
}

/* Of the kernel that adds the partial results. */
static double sum_seconds(const Cut *c, const PassContext *cx, int64_t pieces)
{
    double partial = (double)shape_elements(c->product->shape) * (double)pieces *
                     dtype_info[c->type].bits / 8;
    return costs.launch_seconds +
           cost_seconds_of_bytes(cx->target->device,
                                 partial + (double)shape_bytes(c->product->shape));
}

/* The most equal pieces up to `most`. */
static int64_t pieces_of(int64_t size, int64_t most)
{
    int64_t pieces = most < size ? most : size;
    while (pieces > 1 && size % pieces != 0)
        pieces--;
    return pieces;
}

/* Of each sum. */
static int64_t terms_of(const Instruction *product)
{
    const Shape *l = product->operands[0]->shape, *r = product->operands[1]->shape;
    if (product->op == OP_CONVOLUTION) {
        const DimLabels *n = inst_attr(product, ATTR_DIM_LABELS)->labels;
        return shape_elements(r) / r->dims[n->rhs_output];
    }
    Ints sums = inst_ints(product, ATTR_LHS_CONTRACTING_DIMS);
    int64_t terms = 1;
    for (uint32_t i = 0; i < sums.count; i++)
        terms *= l->dims[sums.data[i]];
    return terms;
}

/* Elements of the result that a block makes. */
static int64_t tile_elements(const Instruction *product, const Target *t)
{
    if (product->op != OP_CONVOLUTION || !tap_gradient_fits(product, t))
        return TILE * TILE;
    const DimLabels *n = inst_attr(product, ATTR_DIM_LABELS)->labels;
    const Shape *s = product->shape;
    int64_t tile = WARPGROUP_ROWS * WARPGROUP_ROWS; /* for all taps */
    return tile * (shape_elements(s) / (s->dims[n->out_batch] * s->dims[n->out_feature]));
}

/* 1: none. Otherwise *least: of their kernel and the one that adds them up. */
static int64_t choose_pieces(const Cut *c, const PassContext *cx, double *least)
{
    int64_t most = cx->settings->split_products;
    if (most != 0) {
        int64_t pieces = pieces_of(c->size, most);
        *least = kernel_seconds(c, cx, pieces) + sum_seconds(c, cx, pieces);
        return pieces;
    }
    int64_t tiles = shape_elements(c->product->shape) /
                        tile_elements(c->product, cx->target) +
                    1,
            multiprocessors = (int64_t)cx->target->device->multiprocessors,
            longest = terms_of(c->product) / LEAST_TERMS, best = 1, last = 1;
    if (tiles * 2 > multiprocessors || longest < 2)
        return 1;
    double seconds = kernel_seconds(c, cx, 1);
    if (seconds < LONG_LAUNCHES * costs.launch_seconds)
        return 1;
    *least = seconds * GAIN;
    for (int64_t waves = 1; waves <= MOST_WAVES; waves *= 2) {
        int64_t wanted = multiprocessors * waves / 2 / tiles;
        int64_t pieces = pieces_of(c->size, wanted < longest ? wanted : longest);
        double own = pieces == last ? 0 : kernel_seconds(c, cx, pieces);
        last = pieces;
        if (own == 0 || own + sum_seconds(c, cx, pieces) > *least)
            continue;
        *least = own + sum_seconds(c, cx, pieces);
        best = pieces;
    }
    return best;
}

bool split_product_seconds(const Instruction *product, const PassContext *cx,
                           double *seconds)
{
    Cut c;
    return find_cut(product->parent->module->intern, product, &c) &&
           choose_pieces(&c, cx, seconds) > 1;
}

/* -- the rewrite ------------------------------------------------------------------------------------ */

/* The kernel of a convolution: the groups of a piece's inputs side by side. */
static Instruction *grouped_kernel(Rewriter *r, const Cut *c, int64_t pieces)
{
    Intern *intern = r->m->intern;
    Instruction *x =
        rw_reshape(r, cut_shape(intern, c, 1, pieces), c->product->operands[1]);
    /* the pieces stand at `sum`, and go in front of the output features */
    int64_t order[KERNEL_MOST_RANK], n = 0;
    for (int64_t d = 0; d < c->product->operands[1]->shape->rank; d++) {
        if (d == c->feature[0])
            order[n++] = c->sum[1];
        order[n++] = d + (d >= c->sum[1]);
    }
    return rw_reshape(r, grouped_shape(intern, c, pieces), rw_in_order(r, x, order));
}

static Instruction *sum_of_pieces(Rewriter *r, const Cut *c, Instruction *partial,
                                  int64_t pieces)
{
    const Shape *result = c->product->shape;
    int64_t at = c->product->op == OP_DOT ? 0 : c->feature[1];
    partial =
        rw_reshape(r, with_dimension(r->m->intern, result, c->type, at, pieces), partial);
    Instruction *sum =
        rw_sum(r, rw_shape(r, c->type, result->rank, result->dims), partial, 1, &at);
    Instruction *rounded = rw_convert(r, result, sum);
    const char *group = inst_frontend_attribute(c->product, "_scheduling_group_id");
    if (group != NULL) { /* else they would be a gap in it */
        inst_set_frontend_attribute(sum, "_scheduling_group_id", group);
        inst_set_frontend_attribute(rounded, "_scheduling_group_id", group);
    }
    return rounded;
}

static Instruction *split_product(Rewriter *r, Instruction *product)
{
    Cut c;
    double seconds;
    if (!find_cut(r->m->intern, product, &c))
        return NULL;
    int64_t pieces = choose_pieces(&c, r->cx, &seconds);
    if (pieces < 2)
        return NULL;
    Instruction *x[2] = {product->operands[0], product->operands[1]};
    if (product->op == OP_CONVOLUTION) {
        x[1] = grouped_kernel(r, &c, pieces);
    } else {
        for (uint32_t i = 0; i < 2; i++)
            x[i] = rw_reshape(r, cut_shape(r->m->intern, &c, i, pieces), x[i]);
    }
    Instruction *partial =
        rw_like(r, product, partial_shape(r->m->intern, &c, pieces), 2, x);
    set_pieces(partial, &c, pieces);
    r->cx->counts.products_split++;
    return sum_of_pieces(r, &c, partial, pieces);
}

bool pass_split_products(Module *m, PassContext *cx)
{
    static const Rule rules[] = {{OP_DOT, "split_dot", split_product},
                                 {OP_CONVOLUTION, "split_convolution", split_product},
                                 {0}};
    return rewrite_module(m, cx, (const Rule *[]){rules}, 1);
}
