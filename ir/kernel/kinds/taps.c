#include "ir/kernel/kinds/taps.h"

#include "ir/kernel/plans.h"
#include "ir/kernel/time/work_kinds.h"

static const char *types_illegal(const Instruction *hero, const TapRules *rules)
{
    DType t = hero->operands[0]->shape->dtype, result = hero->shape->dtype;
    if (!dtype_is_half(t) || hero->operands[1]->shape->dtype != t ||
        contract_accumulator(hero) != DT_F32)
        return "it does not multiply numbers of 16 bits";
    return result == t || (rules->may_widen && result == DT_F32)
               ? NULL
               : "its result is of another type";
}

static const char *groups_illegal(const Instruction *hero)
{
    bool good = inst_attr(hero, ATTR_DIM_LABELS)->labels->spatial_rank == 2 &&
                inst_int(hero, ATTR_FEATURE_GROUP_COUNT, 1) == 1 &&
                inst_int(hero, ATTR_BATCH_GROUP_COUNT, 1) == 1;
    return good ? NULL : "it is no convolution of two positions in one group";
}

/* Of the convolution alone. */
static const char *hero_illegal(const Instruction *hero, const TapRules *rules)
{
    const char *reason = types_illegal(hero, rules);
    if (reason == NULL)
        reason = groups_illegal(hero);
    if (reason == NULL)
        reason = rules->labels(hero);
    if (reason == NULL)
        reason = rules->window(hero);
    return reason != NULL ? reason : rules->sizes(hero);
}

bool taps_dim_fits(const Window *w, uint32_t dim)
{
    enum { MOST_STRIDE = 2 };
    const WindowDim *d = &w->dims[dim];
    return d->stride == w->dims[0].stride && d->stride >= 1 && d->stride <= MOST_STRIDE &&
           d->base_dilation == 1 && d->window_dilation == 1 && d->pad_low >= 0 &&
           d->pad_low < d->size;
}

const char *taps_illegal(FusionFacts *f, KernelKind kind, const TapRules *rules)
{
    const Instruction *hero = fusion_hero(f->fusion, kernel_kind_info[kind].hero);
    if (hero == NULL)
        return "it needs exactly one convolution";
    const char *reason = hero_illegal(hero, rules);
    if (reason == NULL &&
        (hero->operands[0]->op != OP_PARAMETER || hero->operands[1]->op != OP_PARAMETER))
        reason = "image and filter have to be in memory";
    return reason != NULL ? reason : facts_hero_illegal(f, hero);
}

bool taps_fit(const Instruction *conv, const TapRules *rules)
{
    return work_reads_windows(conv) && hero_illegal(conv, rules) == NULL;
}

bool taps_suit(FusionFacts *f, KernelKind kind, const TapRules *rules)
{
    return f->target != NULL && f->target->tiles != TILES_NONE &&
           taps_fit(fusion_hero(f->fusion, kernel_kind_info[kind].hero), rules);
}

const TensorCore *taps_core(KernelDesign *d, DType factor)
{
    const TensorCore *core = d->target == NULL ? NULL
                                               : tensor_core_find(factor, factor, DT_F32,
                                                                  d->target, UINT32_MAX);
    if (core == NULL || core->k != TAPS_STEP)
        d->unsupported = refuse_text(
            d, "%s: no tensor core of %s multiplies %s in steps of %d", d->fusion->name,
            d->target != NULL ? d->target->name : "no target", dtype_info[factor].name,
            TAPS_STEP);
    return core;
}
