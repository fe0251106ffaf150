/* Large convolutions are cuDNN's, and so are the additions behind them, where the sum would lie in memory
 * anyway. Which cuDNN has kernels for it says itself: gxc-cudnn is asked for all of a module at once.
 *
 *   c = bf16[8,9,9,64] convolution(x, w), ...
 *   y = bf16[8,9,9,64] add(c, bf16[8,9,9,64] broadcast(b), dimensions={3})
 *   ->  fused { ... ROOT y = add(convolution(p0, p1), broadcast(p2)) }
 *       y = bf16[8,9,9,64] fusion(x, w, b), kind=kCustom, calls=fused, backend_config={"library":"cudnn"}
 *
 * Needs: laid out. Keeps: values but for the order and the rounding of sums. Ends: one sweep. */
#include "passes/library/convolutions.h"
#include "ir/kernel/convolution.h"
#include "ir/kernel/library.h"
#include "passes/library/choice.h"
#include "passes/library/library.h"
#include "passes/settings.h"

bool convolution_is_worth_it(const Instruction *inst, const PassContext *cx)
{
    ConvolutionShape s;
    return inst->op == OP_CONVOLUTION && convolution_has_types(inst) &&
           convolution_shape(inst, &s) &&
           convolution_work(&s) >= cx->settings->library_convolution_work;
}

typedef struct ConvolutionList {
    Instruction **data;
    size_t count, capacity;
} ConvolutionList;

static ConvolutionList find_candidates(Module *m, PassContext *cx)
{
    ConvolutionList all = {0};
    Computations programs = module_programs(m, cx->scratch);
    for (uint32_t c = 0; c < programs.count; c++) {
        LibraryChoice choice = library_choice(programs.data[c], cx);
        for (Instruction *inst = inst_first(programs.data[c]); inst;
             inst = inst_next(inst)) {
            if (library_makes(inst) || !convolution_is_worth_it(inst, cx) ||
                !library_is_best(&choice, inst))
                continue;
            all.data = arena_grow(cx->scratch, all.data, &all.capacity, all.count + 1,
                                  sizeof *all.data);
            all.data[all.count++] = inst;
        }
    }
    return all;
}

bool pass_library_convolutions(Module *m, PassContext *cx)
{
    if (cx->graphs == NULL)
        return false;
    ConvolutionList all = find_candidates(m, cx);
    if (all.count == 0)
        return false;
    bool *possible = ARENA_ARRAY(cx->scratch, bool, all.count);
    bool changed = false;
    for (size_t i = 0; i < all.count; i++)
        convolution_set_library(all.data[i]);
    cx->graphs->ask(cx->graphs, cx->target, all.data, all.count, possible);
    for (size_t i = 0; i < all.count; i++) {
        if (!possible[i])
            convolution_unset_library(all.data[i]);
        cx->counts.library_convolutions += possible[i];
        changed |= possible[i];
    }
    return changed;
}
