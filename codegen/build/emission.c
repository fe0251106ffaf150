/* A request becomes a kernel: the emitter of its kind writes the code. See emission.h. */
#include "codegen/build/emission.h"

#include <string.h>

#include "codegen/kernel/emitters.h"
#include "ir/bug.h"

Kernel *emission_run(Arena *a, LLVMModuleRef module, const KernelRequest *r,
                     const Target *target, bool contract)
{
    EmitterInput in = {.arena = a,
                       .module = module,
                       .target = target,
                       .fusion = r->fusion,
                       .name = r->name,
                       .args = r->args,
                       .arg_count = r->arg_count,
                       .contract = contract};
    EmitterFn *emitter = emitter_function(kernel_kind_of(r->fusion));
    if (emitter == NULL)
        escape_throw(ESCAPE_UNSUPPORTED, "%s: no emitter for its kind of kernel yet",
                     r->fusion->name);
    Escape *escape = escape_innermost();
    escape->at = r->fusion->span;
    Kernel *k = emitter(&in);
    escape->at = (Span){0, 0};
    return k;
}

KernelGeometry emission_geometry(const Kernel *k)
{
    KernelGeometry g = {.shared_bytes = k->shared_bytes, .has_barriers = k->needs_fibres};
    memcpy(g.grid, k->grid, sizeof g.grid);
    memcpy(g.block, k->block, sizeof g.block);
    return g;
}

void emission_count(const KernelRequest *r, const KernelAccess *accesses,
                    CodegenReport *report)
{
    KernelKind kind = kernel_kind_of(r->fusion);
    bool counts = kind == KERNEL_ROW_REDUCTION;
    if (kind == KERNEL_LOOP) /* what combines many elements is bound by its work */
        counts = fusion_is_plain(inst_called(r->fusion, 0), NULL, 0);
    for (uint32_t i = 0; counts && i < r->arg_count; i++) {
        const KernelAccess *x = &accesses[i];
        if (x->bytes == 0)
            continue;
        double part = (double)x->wide / (double)x->bytes;
        report->loop_bytes += r->moved[i];
        report->loop_bytes_wide += (uint64_t)((double)r->moved[i] * part);
    }
}
