/* Meeting points of devices. */
#ifndef GXC_IR_EVAL_COLLECTIVE_H
#define GXC_IR_EVAL_COLLECTIVE_H

#include "ir/eval/call.h"

CollectiveState *collective_state_create(Eval *eval); /* in eval->arena */

#endif
