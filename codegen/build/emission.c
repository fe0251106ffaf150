/* A request becomes a kernel: the emitter of its kind writes the code. See emission.h. */
#include "codegen/build/emission.h"

#include "codegen/kernel/emitters.h"
#include "ir/base/bug.h"

Kernel *emission_run(Arena *a, LLVMModuleRef module, const KernelRequest *r,
                     bool contract, const struct SourceLines *lines)
{
    Kernel *volatile begun = NULL;
    EmitterInput in = {.arena = a,
                       .begun = &begun,
                       .module = module,
                       .fusion = r->fusion,
                       .design = r->design,
                       .name = r->name,
                       .args = r->args,
                       .arg_count = r->arg_count,
                       .contract = contract,
                       .lines = lines};
    Escape e;
    escape_push(&e);
    e.at = r->fusion->span;
    if (setjmp(e.target) == 0)
        emitter_function(r->design->kind)(&in);
    escape_pop(&e);
    if (e.kind == ESCAPE_NONE)
        return begun;
    if (begun != NULL)
        kernel_abandon(begun);
    escape_innermost()->at = e.at;
    escape_throw(e.kind, "%s", e.message);
}

void emission_count(const KernelRequest *r, const KernelAccess *accesses,
                    CodegenReport *report)
{
    bool counts = kernel_kind_is(r->design->kind, KERNEL_COUNTED);
    if (kernel_kind_is(r->design->kind,
                       KERNEL_BY_ELEMENT)) /* else it is bound by its work */
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
