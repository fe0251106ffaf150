/* See attention_call.h. */
#include "ir/kernel/attention/attention_call.h"

#include "ir/attribute/config.h"

static const char library[] = "cudnn";

static bool is_half(const AttentionArray *a)
{
    DType t = a->base->shape->dtype;
    return dtype_is_half(t);
}

/* Scores that a band leaves out have no weight for cuDNN, whatever stands in for them: its kernels need not look at
 * them. Beside a bias they do count where it is as low in all columns within. */
static bool has_band_only(const Attention *a)
{
    return a->band.rows == 0 || a->bias.base == NULL;
}

/* Rounds the weights to the type of v and the result once: a result of that type asks for no more. */
bool attention_has_types(const Attention *a)
{
    DType t = a->q.base->shape->dtype;
    DType bias = a->bias.base != NULL ? a->bias.base->shape->dtype : t;
    return is_half(&a->q) && a->k.base->shape->dtype == t &&
           a->v.base->shape->dtype == t && a->o.base->shape->dtype == t &&
           (bias == t || bias == DT_F32) && has_band_only(a) && a->mask_count == 0 &&
           a->sink.inst == NULL;
}

bool attention_move_outside(const Instruction *fusion, AttentionArray *a)
{
    if (a->base == NULL)
        return true;
    if (a->base->op != OP_PARAMETER)
        return false;
    a->base = fusion->operands[a->base->parameter];
    return true;
}

bool attention_is_marked(const Instruction *inst)
{
    return inst->op == OP_FUSION && config_is(inst, CONFIG_LIBRARY, library);
}

bool attention_call_of(const Instruction *inst, Attention *out)
{
    AttentionStatistics kept;
    if (!attention_is_marked(inst) || !attention_match_fusion(inst, out, &kept) ||
        kept.maxima != NULL || !attention_has_types(out) ||
        !shape_layouts_equal(shape_leaf(inst->shape, 0), out->o.base->shape))
        return false;
    const Instruction *statistics = kept.logs;
    if (statistics != NULL &&
        (statistics->shape->dtype != DT_F32 || out->statistics.base == NULL ||
         !shape_layouts_equal(statistics->shape, out->statistics.base->shape) ||
         !shape_layouts_equal(shape_leaf(inst->shape, 1), statistics->shape)))
        return false;
    out->o.base = inst;
    out->statistics.base = statistics != NULL ? inst : NULL;
    return attention_move_outside(inst, &out->q) &&
           attention_move_outside(inst, &out->k) &&
           attention_move_outside(inst, &out->v) &&
           attention_move_outside(inst, &out->bias);
}

bool attention_is_library(const Instruction *inst)
{
    Attention unused;
    AttentionGradientCall gradient;
    return attention_is_marked(inst) && (attention_call_of(inst, &unused) ||
                                         attention_gradient_call_of(inst, &gradient));
}

void attention_set_library(Instruction *fusion)
{
    config_set_word(fusion, CONFIG_LIBRARY, library);
}

double attention_scores_counted(const Attention *a)
{
    double rows = (double)a->q.dims[ATTENTION_POSITIONS];
    double columns = (double)a->k.dims[ATTENTION_POSITIONS];
    double counted = columns;
    if (a->band.has_left && (double)a->band.left < counted)
        counted = (double)a->band.left;
    else if (a->band.has_right && rows == columns)
        counted = columns / 2;
    return (double)a->q.dims[ATTENTION_BATCH] * (double)a->q.dims[ATTENTION_HEADS] *
           rows * counted;
}
