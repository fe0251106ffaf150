/* Functions that stand behind a product and that cuBLASLt computes in the product's own kernel. */
#ifndef GXC_IR_KERNEL_ACTIVATION_H
#define GXC_IR_KERNEL_ACTIVATION_H

#include "ir/module.h"

typedef enum Activation { ACTIVATION_NONE, ACTIVATION_RELU, ACTIVATION_GELU } Activation;

/* The instructions between the argument and the result of an activation, the result last; splats are not among them. */
enum { ACTIVATION_STEPS = 10 };
typedef struct ActivationForm {
    Activation activation;
    const Instruction *argument;
    const Instruction *steps[ACTIVATION_STEPS];
    uint32_t step_count;
} ActivationForm;

/* What y is of which argument: max(x, 0), or gelu by tanh,
 *   x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
 * with constants as y's type has them, its factors in any order. */
ActivationForm activation_of(const Instruction *y);

#endif
