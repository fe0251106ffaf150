/* A convolution whose result is only read with its dimensions in another order writes it so, if the kernel is ours: its
 * tiles pass through shared memory, from where any order is written side by side. A library would turn it afterwards.
 *
 *   c = bf16[8,9,9,64] convolution(x, w), dim_labels=b01f_o01i->b01f     t = transpose(c), dimensions={0,3,1,2}
 *   ->  t = bf16[8,64,9,9] convolution(x, w), dim_labels=b01f_o01i->bf01
 *
 * Needs: laid out. Keeps: values. Ends: one sweep. */
#include "ir/kernel/candidates.h"
#include "ir/kernel/convolution.h"
#include "ir/kernel/library.h"
#include "ir/kernel/time/costs.h"
#include "passes/library/choice.h"
#include "passes/library/convolutions.h"
#include "passes/library/library.h"
#include "passes/simplify/simplify.h"

/* Takes the place of the transposition. */
static Instruction *turned(Instruction *conv, const Instruction *transpose)
{
    Instruction *c = computation_add_like(conv->parent, conv, transpose->shape,
                                          conv->operand_count, conv->operands);
    const DimLabels *old = inst_attr(conv, ATTR_DIM_LABELS)->labels;
    inst_set(c, (Attr){.id = ATTR_DIM_LABELS,
                       .labels = convolution_turn_result(
                           conv->parent->module->arena, old,
                           inst_ints(transpose, ATTR_DIMENSIONS))});
    return c;
}

/* Kernels of ours take less time for the turned one than a library for the other one and what turns its result: either way
 * there is a kernel to compile. */
static bool is_ours(Instruction *turned, Instruction *conv, const PassContext *cx)
{
    Candidates ours, all;
    candidates_find(turned, NULL, cx->target, cx->products, &ours);
    const Candidate *tile = candidates_by(&ours, CANDIDATE_TILE);
    if (tile == NULL || cx->graphs == NULL)
        return tile != NULL;
    double own = tile->seconds, pieces;
    if (split_product_seconds(turned, cx, &pieces) && pieces < own)
        own = pieces;
    candidates_find(conv, NULL, cx->target, cx->products, &all);
    const Candidate *library = candidates_by(&all, CANDIDATE_LIBRARY);
    double turns =
        costs.launch_seconds +
        cost_seconds_of_bytes(cx->target->device, 2 * (double)shape_bytes(conv->shape));
    return library == NULL || own <= library->seconds + turns;
}

static bool turn_results(Computation *comp, const PassContext *cx)
{
    Uses uses = uses_compute(comp, cx->scratch);
    uint32_t count = comp->instruction_count;
    Instruction **forward = ARENA_ARRAY(cx->scratch, Instruction *, (size_t)count + 1);
    bool changed = false;
    for (uint32_t i = 0; i < count; i++) {
        Instruction *transpose = comp->instructions[i];
        if (transpose == NULL || transpose->op != OP_TRANSPOSE ||
            transpose->control_count != 0)
            continue;
        Instruction *conv = transpose->operands[0];
        if (!convolution_is_worth_it(conv, cx) || conv->control_count != 0 ||
            library_makes(conv) || uses_count(&uses, conv) != 1)
            continue;
        Instruction *c = turned(conv, transpose);
        if (is_ours(c, conv, cx)) {
            forward[i] = c;
            changed = true;
        } else {
            computation_remove(comp, c);
        }
    }
    if (changed)
        computation_substitute(comp, forward, count);
    computation_compact(comp);
    return changed;
}

bool pass_convolution_results(Module *m, PassContext *cx)
{
    if (cx->target->tiles == TILES_NONE)
        return false;
    bool changed = false;
    Computations programs = module_programs(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++)
        changed |= turn_results(programs.data[c], cx);
    if (changed) {
        module_sort(m);
        pass_dce(m, cx);
    }
    return changed;
}
