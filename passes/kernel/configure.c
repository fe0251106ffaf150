/* Configurations of kernels: whatever a kernel's code goes by that the fusion does not say.
 *
 *   s = f32[8,1024] fusion(x), calls=softmax, backend_config={"emitter":"row_reduction"}
 *   =>  backend_config={"emitter":"row_reduction","config":{"block":256,"group":256,"lanes":[4],...}}
 *
 * What the text says stays, and the rest is completed around it (ir/kernel/kernel.h), by the tuning file where it
 * knows the kernel, so that a dump says exactly what a kernel is, and one that was changed by hand is obeyed. What cannot be is a message, with its reason.
 * Fused computations are brought into the order in which they are printed, for code may follow it, and take their
 * operands in the order in which they read them.
 *
 * Needs: fusions that no pass changes any more. Keeps: all but these texts. Ends: one sweep. */
#include "passes/kernel/kernel.h"

#include "ir/kernel/kernel.h"
#include "ir/print/print.h"

bool pass_configure(Module *m, PassContext *cx)
{
    bool changed = module_order_as_printed(m);
    changed |= order_all_parameters(m, cx->scratch);
    KernelsConfigured done;
    kernel_configure_all(m, cx->target, cx->tuning, &done);
    cx->counts.kernels_tuned += done.tuned;
    return changed || done.count != 0;
}
