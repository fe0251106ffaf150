/* Select-and-scatter: a thread for each element of the result walks over the windows that hold it. */
#include "ir/kernel/rules.h"

const char *illegal_select_and_scatter(FusionFacts *f, KernelKind kind)
{
    (void)kind;
    return hero_root_illegal(f->fusion, OP_SELECT_AND_SCATTER);
}

bool suits_select_and_scatter(FusionFacts *f, KernelKind kind)
{
    (void)f;
    (void)kind;
    return true;
}

void plan_select_and_scatter(KernelDesign *d, const FusionFacts *f)
{
    (void)f;
    const Instruction *inst = fusion_hero(d->fusion, OP_SELECT_AND_SCATTER);
    const Window *w = inst_window(inst);
    for (uint32_t i = 0; i < w->rank; i++) {
        if (w->dims[i].base_dilation != 1)
            d->unsupported = refuse_text(d, "%s has a base dilation", inst->name);
    }
}

static int64_t threads_of(const KernelDesign *d)
{
    const Instruction *inst = fusion_hero(d->fusion, OP_SELECT_AND_SCATTER);
    return shape_elements(inst->operands[0]->shape);
}

void configure_select_and_scatter(const KernelDesign *d, KernelConfig *c)
{
    configure_threads(c, threads_of(d));
}

const char *refuse_select_and_scatter(const KernelDesign *d)
{
    return block_refused(d);
}

void geometry_select_and_scatter(KernelDesign *d)
{
    geometry_threads(d, threads_of(d));
}
