/* Attentions that cuDNN makes: fusions that are marked for it. */
#ifndef GXC_IR_KERNEL_ATTENTION_CALL_H
#define GXC_IR_KERNEL_ATTENTION_CALL_H

#include "ir/kernel/attention.h"

/* cuDNN has kernels for this at all: factors of 16 bits, no mask but a band. */
bool attention_has_types(const Attention *a);

/* What is marked is believed only where it can be kept. The bases of arrays are operands of the fusion, that of
 * the result the fusion itself. */
bool attention_call_of(const Instruction *inst, Attention *out);
bool attention_is_library(const Instruction *inst);
void attention_set_library(Instruction *fusion);

/* Products of scores that count: batch, heads, rows and columns. */
double attention_scores_counted(const Attention *a);

#endif
