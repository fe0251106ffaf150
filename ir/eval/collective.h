/* Collectives of the evaluator: rendezvous of devices, messages between them. */
#ifndef GXC_IR_EVAL_COLLECTIVE_H
#define GXC_IR_EVAL_COLLECTIVE_H

#include "ir/base/text.h"
#include "ir/eval/call.h"

CollectiveState *collective_state_create(Eval *eval); /* in eval->arena */

/* Appends whom the device waits for, where it waits for others: " for device 2, 3". */
void collective_describe_wait(const Eval *eval, uint32_t device, Text *t);
/* Throws if something was sent that nobody took, after all devices have finished. */
void collective_check_finished(const Eval *eval);

#endif
