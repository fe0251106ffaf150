/* See choice.h. */
#include "passes/library/choice.h"

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

bool library_is_best(const LibraryChoice *choice, Instruction *inst)
{
    const Target *target = choice->cx->target;
    Candidates all;
    bool is_forced = target->tiles == TILES_GX || target->tiles == TILES_TILEIR;
    if (target->tiles == TILES_NONE ||
        (!is_forced &&
         !candidates_worth_asking(inst, &choice->uses, target, costs.kernel_gain)))
        return true;
    candidates_find(inst, &choice->uses, target, choice->cx->products, &all);
    const Candidate *library = candidates_by(&all, CANDIDATE_LIBRARY),
                    *own = best_kernel(&all, is_forced);
    if (library == NULL || own == NULL)
        return true;
    double pieces;
    if (!is_forced && split_product_seconds(inst, choice->cx, &pieces) &&
        pieces < own->seconds && pieces <= library->seconds * costs.kernel_gain)
        return false;
    if (!is_forced && own->seconds > library->seconds * costs.kernel_gain)
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
