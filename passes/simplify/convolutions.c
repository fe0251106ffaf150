/* Convolutions that are better written as other operations, before a library or a kernel is chosen for them.
 *
 *   y = bf16[8,9,9,64] convolution(x, w), window={size=3x3 ...}, feature_group_count=64
 *   ->  y = convert(add(multiply(slice(pad(x)), broadcast(slice(w))), ...))
 *
 * Needs: well formed. Keeps: values but for the order and the rounding of sums, where they are finite. Ends: no rule makes a
 * convolution that another one takes. */
#include "passes/simplify/convolutions.h"

#include "passes/settings.h"
#include "passes/simplify/simplify.h"

Instruction *convolution_padded(Rewriter *r, Instruction *x, const PaddingDim *dims)
{
    const Shape *s = x->shape;
    int64_t *sizes = ARENA_ARRAY(r->scratch, int64_t, s->rank);
    bool is_same = true;
    for (uint32_t d = 0; d < s->rank; d++) {
        int64_t gaps = s->dims[d] > 1 ? s->dims[d] - 1 : 0;
        sizes[d] = s->dims[d] + gaps * dims[d].interior + dims[d].low + dims[d].high;
        is_same = is_same && dims[d].low == 0 && dims[d].high == 0 &&
                  gaps * dims[d].interior == 0;
    }
    if (is_same)
        return x;
    Padding *padding = ARENA_NEW(r->m->arena, Padding);
    *padding = (Padding){s->rank, arena_copy(r->m->arena, dims, s->rank * sizeof *dims)};
    Instruction *zero = rw_splat(r, shape_scalar(r->m->intern, s->dtype), 0);
    Instruction *pad =
        rw_binary(r, OP_PAD, rw_shape(r, s->dtype, s->rank, sizes), x, zero);
    inst_set(pad, (Attr){.id = ATTR_PADDING, .padding = padding});
    return pad;
}

Instruction *convolution_regrouped(Rewriter *r, Instruction *x, uint32_t rank,
                                   const int64_t *split, const int64_t *order, uint32_t n,
                                   const int64_t *joined)
{
    DType t = x->shape->dtype;
    int64_t *source = ARENA_ARRAY(r->scratch, int64_t, rank),
            *merged = ARENA_ARRAY(r->scratch, int64_t, rank),
            *group = ARENA_ARRAY(r->scratch, int64_t, rank);
    bool *begins = ARENA_ARRAY(r->scratch, bool, rank);
    /* what stays last is one dimension: it is read and written side by side as far as it reaches */
    bool stays = true;
    for (uint32_t i = rank; i-- > 0;) {
        stays = stays && order[i] == i;
        begins[order[i]] = i == 0 || !stays || order[i - 1] + 1 != i;
    }
    int64_t groups = 0;
    for (uint32_t d = 0; d < rank; d++) {
        if (begins[d])
            source[groups++] = 1;
        source[groups - 1] *= split[d];
        group[d] = groups - 1;
    }
    uint32_t m = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (begins[order[i]])
            merged[m++] = group[order[i]];
    }
    x = rw_in_order(r, rw_reshape(r, rw_shape(r, t, m, source), x), merged);
    return rw_reshape(r, rw_shape(r, t, n, joined), x);
}

bool convolution_is_dense_half(const Rewriter *r, const Instruction *conv,
                               ConvolutionShape *out)
{
    DType t = conv->operands[0]->shape->dtype;
    return dtype_is_half(t) && rw_is_static(conv->shape) &&
           convolution_shape(conv, out) &&
           convolution_work(out) >= r->cx->settings->library_convolution_work &&
           inst_int(conv, ATTR_FEATURE_GROUP_COUNT, 1) == 1 &&
           inst_int(conv, ATTR_BATCH_GROUP_COUNT, 1) == 1;
}

bool pass_convolutions(Module *m, PassContext *cx)
{
    return rewrite_module(m, cx,
                          (const Rule *[]){rules_whole_windows, rules_depthwise,
                                           rules_phases, rules_few_results},
                          4);
}
