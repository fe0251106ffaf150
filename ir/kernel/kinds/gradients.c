/* See gradients.h. */
#include "ir/kernel/kinds/gradients.h"
#include "ir/base/divide.h"
#include "ir/kernel/kinds/taps.h"
#include "ir/kernel/rules.h"

enum { Y, X };

/* -- the plan ------------------------------------------------------------------------------------ */

const Instruction *gradient_in_memory(const Instruction *hero, bool *is_turned)
{
    static const int64_t order[] = {1, 2, 3, 0, 4};
    const Instruction *x = hero->operands[1];
    const Shape *s = x->shape;
    int64_t groups = inst_int(hero, ATTR_FEATURE_GROUP_COUNT, 1);
    *is_turned = false;
    if (x->op == OP_PARAMETER)
        return x;
    if (x->op != OP_RESHAPE)
        return NULL;
    x = x->operands[0];
    const Shape *parts = x->shape;
    if (parts->rank != 5 || parts->dims[3] != groups || !shape_is_row_major(parts) ||
        parts->dims[4] * groups != s->dims[3])
        return NULL;
    for (int i = 0; i < 3; i++) {
        if (parts->dims[i] != s->dims[i])
            return NULL;
    }
    if (x->op == OP_TRANSPOSE) {
        Ints dims = inst_ints(x, ATTR_DIMENSIONS);
        for (uint32_t i = 0; i < 5; i++) {
            if (dims.data[i] != order[i])
                return NULL;
        }
        *is_turned = true;
        x = x->operands[0];
        if (!shape_is_row_major(x->shape))
            return NULL;
        if (x->op == OP_RESHAPE && shape_is_row_major(x->operands[0]->shape))
            x = x->operands[0];
    }
    return x->op == OP_PARAMETER ? x : NULL;
}

GradientPlan gradient_plan_of(const Instruction *hero, bool is_turned)
{
    const DimLabels *l = inst_attr(hero, ATTR_DIM_LABELS)->labels;
    const Window *w = inst_window(hero);
    const Shape *x = hero->operands[0]->shape, *y = hero->operands[1]->shape;
    int64_t groups = inst_int(hero, ATTR_FEATURE_GROUP_COUNT, 1);
    GradientPlan p = {.groups = groups, .images = x->dims[0] / groups};
    p.of = (WidePlan){.inst = hero,
                      .images = x->dims[0],
                      .features = y->dims[3] / groups,
                      .channels = x->dims[l->lhs_batch],
                      .stride = w->dims[0].window_dilation,
                      .is_last = l->lhs_batch == 3,
                      .group_features = WARPGROUP_ROWS,
                      .result_is_last = true};
    for (int i = 0; i < 2; i++) {
        p.of.size[i] = x->dims[l->lhs_spatial[i]];
        p.of.result_size[i] = w->dims[i].size;
        p.of.window[i] = hero->shape->dims[l->out_spatial[i]];
        p.of.before[i] = w->dims[i].pad_low;
    }
    p.window_rows = p.of.window[Y];
    p.of.window[Y] = ceil_div(p.window_rows, p.of.stride) * p.of.stride;
    p.position_step = p.of.features * (is_turned ? 1 : groups);
    p.image_step = p.of.result_size[Y] * p.of.result_size[X] * p.position_step;
    p.group_step = is_turned ? p.images * p.image_step : p.of.features;
    return p;
}

/* -- legality ------------------------------------------------------------------------------------ */

static bool is_image(const Shape *s, int64_t first, int64_t last, const int64_t *spatial)
{
    return s->rank == 4 && shape_is_row_major(s) && first == 0 &&
           ((last == 3 && spatial[Y] == 1 && spatial[X] == 2) ||
            (last == 1 && spatial[Y] == 2 && spatial[X] == 3));
}

static const char *types_illegal(const Instruction *hero)
{
    DType t = hero->operands[0]->shape->dtype, result = hero->shape->dtype;
    return dtype_is_half(t) && hero->operands[1]->shape->dtype == t &&
                   contract_accumulator(hero) == DT_F32 &&
                   (result == t || result == DT_F32)
               ? NULL
               : "it does not multiply numbers of 16 bits";
}

static const char *window_illegal(const Instruction *hero)
{
    enum { MOST_STRIDE = 2 };
    const DimLabels *l = inst_attr(hero, ATTR_DIM_LABELS)->labels;
    const Window *w = inst_window(hero);
    for (int i = 0; i < 2; i++) {
        const WindowDim *d = &w->dims[i];
        if (d->stride != 1 || d->base_dilation != 1 || d->reversal ||
            d->window_dilation != w->dims[0].window_dilation ||
            d->window_dilation > MOST_STRIDE || d->window_dilation < 1 ||
            d->pad_low < 0 || d->pad_low >= hero->shape->dims[l->out_spatial[i]])
            return "its window is no such gradient's";
    }
    return NULL;
}

const char *gradient_hero_illegal(const Instruction *hero)
{
    const DimLabels *l = inst_attr(hero, ATTR_DIM_LABELS)->labels;
    const Shape *x = hero->operands[0]->shape, *y = hero->operands[1]->shape;
    const char *types = types_illegal(hero);
    if (types != NULL)
        return types;
    if (l->spatial_rank != 2 || inst_window(hero)->rank != 2 ||
        inst_int(hero, ATTR_BATCH_GROUP_COUNT, 1) != 1 ||
        !is_image(x, l->lhs_feature, l->lhs_batch, l->lhs_spatial) ||
        !is_image(y, l->rhs_input, l->rhs_output, l->rhs_spatial) || l->rhs_output != 3 ||
        !shape_is_row_major(hero->shape))
        return "images are not f01b or fb01, or what it slides is not i01o";
    const char *window = window_illegal(hero);
    if (window != NULL)
        return window;
    GradientPlan p = gradient_plan_of(hero, false);
    if (shape_elements(hero->shape) == 0 || shape_elements(x) == 0 ||
        shape_elements(y) == 0 || p.of.features % WARPGROUP_ROWS != 0)
        return "there are not whole tiles of features";
    if (shape_elements(x) / p.of.channels > TAPS_MOST_POSITIONS ||
        x->dims[0] * p.of.channels > TAPS_MOST_ROWS ||
        shape_elements(y) / y->dims[3] > TAPS_MOST_POSITIONS)
        return "there are too many positions, or too many channels of all images";
    return NULL;
}

bool gradient_fits(const Instruction *conv, const Target *t, uint32_t needed,
                   HeroIllegalFn *sizes)
{
    return t->tiles != TILES_NONE && target_has(t, needed) &&
           gradient_hero_illegal(conv) == NULL && sizes(conv) == NULL;
}

const char *gradient_illegal(FusionFacts *f, KernelKind kind, HeroIllegalFn *sizes)
{
    const Instruction *hero = fusion_hero(f->fusion, kernel_kind_info[kind].hero);
    bool is_turned;
    if (hero == NULL)
        return "it needs exactly one convolution";
    const char *reason = gradient_hero_illegal(hero);
    if (reason == NULL)
        reason = sizes(hero);
    if (reason == NULL && (hero->operands[0]->op != OP_PARAMETER ||
                           gradient_in_memory(hero, &is_turned) == NULL))
        reason = "its operands have to be in memory";
    if (reason == NULL && f->fusion != NULL && fusion_result(f->fusion, 0).inst != hero)
        reason = "something is done to its result";
    return reason;
}
