/* See scaled.h. */
#include "passes/library/scaled.h"

Instruction *scaled_resize(Rewriter *r, Instruction *x, const int64_t *sizes)
{
    const Shape *s = x->shape;
    SliceDim *cut = ARENA_ARRAY(r->scratch, SliceDim, s->rank);
    int64_t *kept = ARENA_ARRAY(r->scratch, int64_t, s->rank);
    PaddingDim *padding = ARENA_ARRAY(r->m->arena, PaddingDim, s->rank);
    bool is_cut = false, is_padded = false;
    for (uint32_t i = 0; i < s->rank; i++) {
        kept[i] = s->dims[i] < sizes[i] ? s->dims[i] : sizes[i];
        cut[i] = (SliceDim){0, kept[i], 1};
        padding[i].high = sizes[i] - kept[i];
        is_cut |= kept[i] < s->dims[i];
        is_padded |= padding[i].high != 0;
    }
    if (is_cut)
        x = rw_slice(r, rw_shape(r, s->dtype, s->rank, kept), x, cut);
    if (!is_padded)
        return x;
    Literal *zero = literal_create(r->m->arena, shape_scalar(r->m->intern, s->dtype));
    x = rw_binary(r, OP_PAD, rw_shape(r, s->dtype, s->rank, sizes), x,
                  rw_constant(r, zero));
    Padding *p = ARENA_NEW(r->m->arena, Padding);
    *p = (Padding){s->rank, padding};
    inst_set(x, (Attr){.id = ATTR_PADDING, .padding = p});
    return x;
}
