/* Opcodes that the evaluator does not run yet: each says so. */
#include "ir/eval/call.h"
#include "ir/eval/collective.h"

#define UNSUPPORTED(name)                                                                \
    void eval_##name(EvalCall *call)                                                     \
    {                                                                                    \
        eval_unsupported(call, "not in the evaluator yet");                              \
    }
UNSUPPORTED(send_recv)
UNSUPPORTED(collective)
UNSUPPORTED(collective_done)

CollectiveState *collective_state_create(Eval *eval)
{
    (void)eval;
    return NULL;
}
