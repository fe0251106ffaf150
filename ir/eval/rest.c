/* Opcodes that the evaluator does not run yet: each says so. */
#include "ir/eval/call.h"
#include "ir/eval/collective.h"

#define UNSUPPORTED(name)                                                                \
    void eval_##name(EvalCall *call)                                                     \
    {                                                                                    \
        eval_unsupported(call, "not in the evaluator yet");                              \
    }
UNSUPPORTED(gather)
UNSUPPORTED(scatter)
UNSUPPORTED(reduce_window)
UNSUPPORTED(select_and_scatter)
UNSUPPORTED(convolution)
UNSUPPORTED(sort)
UNSUPPORTED(topk)
UNSUPPORTED(map)
UNSUPPORTED(rng)
UNSUPPORTED(rng_bit_generator)
UNSUPPORTED(rng_get_and_update_state)
UNSUPPORTED(batch_norm_training)
UNSUPPORTED(batch_norm_inference)
UNSUPPORTED(batch_norm_grad)
UNSUPPORTED(cholesky)
UNSUPPORTED(triangular_solve)
UNSUPPORTED(fft)
UNSUPPORTED(ragged_dot)
UNSUPPORTED(scaled_dot)
UNSUPPORTED(scan)
UNSUPPORTED(custom_call)
UNSUPPORTED(send_recv)
UNSUPPORTED(collective)
UNSUPPORTED(collective_done)

CollectiveState *collective_state_create(Eval *eval)
{
    (void)eval;
    return NULL;
}
