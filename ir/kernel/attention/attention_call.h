/* Attentions that cuDNN makes: fusions that are marked for it. */
#ifndef GXC_IR_KERNEL_ATTENTION_ATTENTION_CALL_H
#define GXC_IR_KERNEL_ATTENTION_ATTENTION_CALL_H

#include "ir/kernel/attention/attention.h"

/* cuDNN has kernels for this at all: factors of 16 bits, no mask but a band. */
bool attention_has_types(const Attention *a);

/* What is marked is believed only where it can be kept. The bases of arrays are operands of the fusion, that of
 * the result the fusion itself; that of the statistics, too, or NULL where they are not kept. */
bool attention_call_of(const Instruction *inst, Attention *out);

/* The gradient of an attention: a fusion whose results are dq, dk and dv, of whose operands one is the attention's result and
 * one the statistics that it kept. */
typedef struct AttentionGradientCall {
    Attention attention; /* o is the gradient of its result */
    AttentionArray result, dq, dk, dv;
    size_t dq_leaf, dk_leaf, dv_leaf; /* of the fusion's results */
} AttentionGradientCall;
bool attention_gradient_call_of(const Instruction *inst, AttentionGradientCall *out);
/* Either of them. */
bool attention_is_library(const Instruction *inst);
/* For the two above. */
bool attention_is_marked(const Instruction *inst);
bool attention_move_outside(const Instruction *fusion, AttentionArray *a);
void attention_set_library(Instruction *fusion);

/* Products of scores that count: batch, heads, rows and columns. */
double attention_scores_counted(const Attention *a);

#endif
