/* A ragged-dot that has a kernel becomes it: one launch, in which tiles of rows or of sums belong to groups whose sizes
 * the device reads.
 *
 *   d = bf16[8192,4096] ragged-dot(l, r, sizes)                r: bf16[8,4096,4096], sizes: s32[8]
 *   ->  d = bf16[8192,4096] fusion(l, r, sizes), calls={the same}, backend_config={"emitter":"tile"}
 *
 * Needs: laid out; others were expanded. Keeps: values. Ends: one sweep. */
#include "ir/base/bug.h"
#include "ir/kernel/kind.h"
#include "passes/fusion/fusion.h"
#include "passes/library/library.h"

static Instruction *fused(Instruction *inst, void *context)
{
    (void)context;
    if (inst->op != OP_RAGGED_DOT)
        return NULL;
    Instruction *fusion = fusion_wrap(inst);
    KernelKind kind = kernel_kind_find("tile", 4);
    const char *why = kernel_illegal(fusion, kind);
    if (why != NULL)
        bug("%s: a ragged dot was kept for a kernel that there is not: %s", inst->name,
            why);
    kernel_kind_set(fusion, kind);
    return fusion;
}

bool pass_ragged_dots(Module *m, PassContext *cx)
{
    uint32_t n = module_replace_each(m, fused, NULL, cx->scratch);
    cx->counts.ragged_dots_grouped += n;
    if (n != 0)
        module_sort(m);
    return n != 0;
}
