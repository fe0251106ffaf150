/* See choice.h. */
#include "passes/library/choice.h"

#include "ir/kernel/convolution.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/library.h"
#include "ir/kernel/time/costs.h"
#include "passes/fusion/fusion.h"

LibraryChoice library_choice(const Computation *comp, const PassContext *cx)
{
    return (LibraryChoice){cx,
                           {uses_compute(comp, cx->scratch), comp->instruction_count}};
}

/* The fastest of ours; if it is forced, of those on tensor cores. */
static const Candidate *best_kernel(const Candidates *all, bool is_forced)
{
    for (uint32_t i = 0; i < all->count; i++) {
        CandidateMaker maker = all->list[i].maker;
        if (maker != CANDIDATE_LIBRARY && !(is_forced && maker == CANDIDATE_PLAIN))
            return &all->list[i];
    }
    return NULL;
}

/* At run time: constants are turned by the compiler. */
static bool turns_filter(const Instruction *product)
{
    ConvolutionShape s;
    bool filter_has_it;
    if (product->op != OP_CONVOLUTION || !convolution_shape(product, &s) ||
        !convolution_order_fits(&s))
        return false;
    const Instruction *filter = product->operands[1];
    convolution_order(&s, &filter_has_it);
    return !filter_has_it && library_lies_in_memory(filter) && filter->op != OP_CONSTANT;
}

double library_most_seconds(const Instruction *product, double library,
                            const PassContext *cx)
{
    double most = library * costs.kernel_gain;
    if (!turns_filter(product))
        return most;
    double bytes = 2 * (double)shape_bytes(product->operands[1]->shape);
    return library + costs.launch_seconds +
           cost_seconds_of_bytes(cx->target->device, bytes);
}

/* A convolution of images of different orders, which no library is asked for. */
static bool is_ours(const Instruction *product)
{
    ConvolutionShape s;
    return product->op == OP_CONVOLUTION && convolution_shape(product, &s) &&
           !convolution_order_fits(&s);
}

/* Kernels of its pieces take less time than one of ours, and than a library where there is one. */
static bool pieces_are_best(const Instruction *product, const Candidate *own,
                            const Candidate *library, const PassContext *cx)
{
    double seconds;
    return split_product_seconds(product, cx, &seconds) && seconds < own->seconds &&
           (library == NULL || seconds <= library->seconds * costs.kernel_gain);
}

bool library_is_best(const LibraryChoice *choice, Instruction *inst)
{
    const Target *target = choice->cx->target;
    Candidates all;
    bool is_forced = target->tiles == TILES_GX || target->tiles == TILES_TILEIR,
         may_ask = !is_ours(inst);
    if (target->tiles == TILES_NONE ||
        (!is_forced && may_ask &&
         !candidates_worth_asking(inst, &choice->uses, target,
                                  turns_filter(inst) ? 1 : costs.kernel_gain)))
        return may_ask;
    candidates_find(inst, &choice->uses, target, choice->cx->products, &all);
    const Candidate *library = candidates_by(&all, CANDIDATE_LIBRARY),
                    *own = best_kernel(&all, is_forced);
    if ((library == NULL && may_ask) || own == NULL)
        return may_ask;
    if (!is_forced && pieces_are_best(inst, own, may_ask ? library : NULL, choice->cx))
        return false;
    if (!is_forced && may_ask &&
        own->seconds > library_most_seconds(inst, library->seconds, choice->cx))
        return true;
    fusion_wrap_in_place(inst);
    kernel_kind_set(inst, own->kind);
    return false;
}

bool library_lies_in_memory(const Instruction *x)
{
    while (x->op == OP_BITCAST || fusion_is_renaming(x))
        x = x->operands[0];
    return x->op == OP_PARAMETER || x->op == OP_GET_TUPLE_ELEMENT ||
           x->op == OP_CONSTANT || x->op == OP_CUSTOM_CALL ||
           op_is(x->op, OPF_COLLECTIVE | OPF_ASYNC_DONE) || library_makes(x);
}
