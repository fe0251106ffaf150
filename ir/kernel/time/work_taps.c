/* What convolutions whose block keeps a patch of the image share: see ir/kernel/kinds/taps.h. */
#include "ir/kernel/time/work_kinds.h"

enum { FEATURES }; /* a side of the tile */

void work_tap_loops(const TapWork *t)
{
    WorkBuilder *b = t->b;
    int64_t steps = t->channels / t->config->depth;
    work_loop_begin(b, (double)steps, steps, 1);
    t->fill(t->of);
    work_loop_begin(b, (double)t->taps, t->taps, (double)t->config->stages);
    t->multiply(t->of);
    work_loop_end(b, t->carried);
    work_barrier(b);
    work_loop_end(b, 0);
}

void work_tap_end(const TapWork *t, KernelWork *out)
{
    WorkBuilder *b = t->b;
    const Shape *image = t->inst->operands[0]->shape,
                *filter = t->inst->operands[1]->shape;
    b->product_operations =
        2 * (double)shape_elements(t->inst->shape) * (double)(t->channels * t->taps);
    b->operations += b->product_operations;
    b->product_type = image->dtype;
    work_end(b, out);
    double arrays = (double)shape_bytes(image) + (double)shape_bytes(filter),
           filters = (double)t->taps * (double)t->config->tile[FEATURES] * 2 *
                     (t->filter_share > 1 ? t->filter_share : 1);
    out->read_bytes += arrays;
    out->needed_bytes += arrays;
    out->l2_bytes += out->blocks * (double)t->channels * (t->patch_bytes + filters);
}
