/* Convolutions that are products of matrices: along each spatial dimension the window is one element, or all of them.
 * A convolution by 1x1 and both of its gradients are, and libraries and tiles take a product's factors in any order,
 * where a convolution's have to be turned.
 *
 *   convolution(x, w), window={size=1x1}, dim_labels=b01f_01io->b01f
 *   ->  dot(x, reshape(w)), lhs_contracting_dims={3}, rhs_contracting_dims={0}
 *   convolution(x, y), window={size=56x56}, dim_labels=f01b_i01o->01bf, of images of 56x56
 *   ->  reshape(dot(x, y)), lhs_contracting_dims={0,1,2}, rhs_contracting_dims={0,1,2}
 *
 * Only where the product's dimensions come in the result's order. */
#include "ir/kernel/convolution.h"
#include "passes/simplify/convolutions.h"

enum { MOST_DIMS = 8 };

typedef struct Factor {
    Instruction *of; /* without its dimensions of size 1 */
    int64_t summed[MOST_DIMS], kept[MOST_DIMS];
    uint32_t summed_count, kept_count;
} Factor;

static bool is_point(const WindowDim *d, int64_t size, int64_t results)
{
    return d->size == 1 && d->stride == 1 && d->base_dilation == 1 && size == results;
}

static bool is_whole(const WindowDim *d, int64_t size, int64_t results)
{
    return d->size == size && results == 1 && d->base_dilation == 1 &&
           d->window_dilation == 1 && !d->reversal;
}

static bool windows_fit(const Instruction *conv, const DimLabels *l)
{
    const Window *w = inst_window(conv);
    for (uint32_t i = 0; i < w->rank; i++) {
        const WindowDim *d = &w->dims[i];
        int64_t size = conv->operands[0]->shape->dims[l->lhs_spatial[i]],
                results = conv->shape->dims[l->out_spatial[i]];
        if (d->pad_low != 0 || d->pad_high != 0 ||
            !(is_point(d, size, results) || is_whole(d, size, results)))
            return false;
    }
    return true;
}

/* Which dimension of the result stands for dimension `dim` of operand k; -1: it is summed over, or of size 1. */
static int64_t result_of(const Instruction *conv, const DimLabels *l, int k, int64_t dim)
{
    if (dim == (k == 0 ? l->lhs_feature : l->rhs_input))
        return -1;
    if (dim == (k == 0 ? l->lhs_batch : l->rhs_output))
        return k == 0 ? l->out_batch : l->out_feature;
    for (uint32_t i = 0; i < l->spatial_rank; i++) {
        if (k == 0 && l->lhs_spatial[i] == dim && inst_window(conv)->dims[i].size == 1)
            return l->out_spatial[i];
    }
    return -1;
}

/* The operand's dimensions, of the right one in the order of the left one's sums. */
static Factor factor_of(Rewriter *r, const Instruction *conv, const DimLabels *l, int k)
{
    Instruction *x = conv->operands[k];
    int64_t sizes[MOST_DIMS], at[MOST_DIMS];
    Factor f = {.of = x};
    uint32_t n = 0;
    for (uint32_t d = 0; d < x->shape->rank; d++) {
        bool is_sum = d == (k == 0 ? l->lhs_feature : l->rhs_input);
        for (uint32_t i = 0; i < l->spatial_rank; i++)
            is_sum |= d == (k == 0 ? l->lhs_spatial[i] : l->rhs_spatial[i]) &&
                      inst_window(conv)->dims[i].size != 1;
        int64_t result = result_of(conv, l, k, d);
        at[d] = -1;
        if (!is_sum && (result < 0 || x->shape->dims[d] == 1))
            continue;
        at[d] = n;
        sizes[n++] = x->shape->dims[d];
        if (!is_sum)
            f.kept[f.kept_count++] = result;
    }
    for (uint32_t d = 0; d < conv->operands[0]->shape->rank; d++) {
        int64_t same = d == l->lhs_feature ? l->rhs_input : -1;
        for (uint32_t i = 0; i < l->spatial_rank && same < 0; i++) {
            if (l->lhs_spatial[i] == d && inst_window(conv)->dims[i].size != 1)
                same = l->rhs_spatial[i];
        }
        if (same >= 0)
            f.summed[f.summed_count++] = at[k == 0 ? d : same];
    }
    f.of = rw_reshape(r, rw_shape(r, x->shape->dtype, n, sizes), x);
    return f;
}

/* The dimensions of the result ascend through both. */
static bool is_in_order(const Factor *a, const Factor *b)
{
    int64_t last = -1;
    for (int k = 0; k < 2; k++) {
        const Factor *f = k == 0 ? a : b;
        for (uint32_t i = 0; i < f->kept_count; i++) {
            if (f->kept[i] <= last)
                return false;
            last = f->kept[i];
        }
    }
    return true;
}

static Instruction *product(Rewriter *r, const Instruction *conv, const Factor *a,
                            const Factor *b)
{
    int64_t sizes[2 * MOST_DIMS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->kept_count; i++)
        sizes[n++] = conv->shape->dims[a->kept[i]];
    for (uint32_t i = 0; i < b->kept_count; i++)
        sizes[n++] = conv->shape->dims[b->kept[i]];
    Instruction *dot =
        rw_binary(r, OP_DOT, rw_shape(r, conv->shape->dtype, n, sizes), a->of, b->of);
    inst_set_ints(dot, ATTR_LHS_CONTRACTING_DIMS, a->summed, a->summed_count);
    inst_set_ints(dot, ATTR_RHS_CONTRACTING_DIMS, b->summed, b->summed_count);
    const AttrId same[] = {ATTR_OPERAND_PRECISION, ATTR_ALGORITHM};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const Attr *attr = inst_attr(conv, same[i]);
        if (attr != NULL)
            inst_set(dot, *attr);
    }
    return rw_reshape(r, conv->shape, dot);
}

static Instruction *whole_window(Rewriter *r, Instruction *conv)
{
    ConvolutionShape shape;
    const DimLabels *l = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    if (!convolution_is_dense_half(r, conv, &shape) || conv->shape->rank > MOST_DIMS ||
        !windows_fit(conv, l))
        return NULL;
    Factor x = factor_of(r, conv, l, 0), w = factor_of(r, conv, l, 1);
    if (is_in_order(&x, &w))
        return product(r, conv, &x, &w);
    return is_in_order(&w, &x) ? product(r, conv, &w, &x) : NULL;
}

const Rule rules_whole_windows[] = {
    {OP_CONVOLUTION, "whole_window", whole_window},
    {0},
};
