/* See image_gradients.h. */
#include "frontend/input/image_gradients.h"
#include "ir/infer/infer.h"

/* The text may declare what the forward rule gives; this is what the gradient has. */
static bool has_its_size(const Instruction *inst, uint32_t i, const WindowDim *w)
{
    const DimLabels *l = inst_attr(inst, ATTR_DIM_LABELS)->labels;
    int64_t n = inst->operands[0]->shape->dims[l->lhs_spatial[i]], have, window;
    return n > 0 && w->size > 0 &&
           !__builtin_mul_overflow(n - 1, w->base_dilation, &have) &&
           !__builtin_mul_overflow(w->size - 1, w->window_dilation, &window) &&
           !__builtin_add_overflow(have, w->pad_low, &have) &&
           !__builtin_add_overflow(have, w->pad_high, &have) &&
           !__builtin_sub_overflow(have, window, &have) &&
           have == inst->shape->dims[l->out_spatial[i]] - 1;
}

static void read_one(Instruction *inst)
{
    const Window *of = inst_window(inst);
    if (inst_int(inst, ATTR_CONVOLUTION_KIND, CONVOLUTION_KIND_UNSET) !=
            CONVOLUTION_KIND_DGRAD ||
        inst_int(inst, ATTR_FEATURE_GROUP_COUNT, 1) != 1 ||
        inst_int(inst, ATTR_BATCH_GROUP_COUNT, 1) != 1)
        return;
    uint32_t rank = of != NULL ? of->rank : 0;
    Arena *a = inst->parent->module->arena;
    WindowDim *dims = ARENA_ARRAY(a, WindowDim, (size_t)rank + 1);
    for (uint32_t i = 0; i < rank; i++) {
        if (!infer_image_gradient(&of->dims[i], &dims[i]) ||
            !has_its_size(inst, i, &dims[i]))
            return;
    }
    Window *window = ARENA_NEW(a, Window);
    *window = (Window){.rank = rank, .dims = dims};
    if (of != NULL)
        inst_set(inst, (Attr){.id = ATTR_WINDOW, .window = window});
    inst_unset(inst, ATTR_CONVOLUTION_KIND);
}

void image_gradients_read(Module *m)
{
    for (Computation *comp = comp_first(m); comp; comp = comp_next(comp)) {
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (inst->op == OP_CONVOLUTION)
                read_one(inst);
        }
    }
}
