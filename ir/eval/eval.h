/* The reference evaluator: runs a module on the CPU, all devices of it together, one
 * instruction after the other. It defines what is right: constant folding uses it, passes
 * are tested before = after with it, kernels are compared with it.
 *
 * R replicas x P partitions are R * P devices, numbered replica * P + partition. Each is a
 * stack of frames (computation, next instruction, values) that is stepped in turn; nothing
 * recurses over computations. A collective parks a device until its group is complete; when
 * no device can go on, evaluation ends with a message that names where each one waits.
 *
 * Sums of floats are accumulated in f64 in a fixed order and rounded once, so a result
 * depends neither on the CPU nor on how a loop was vectorised. */
#ifndef GXC_IR_EVAL_EVAL_H
#define GXC_IR_EVAL_EVAL_H

#include "ir/module.h"

typedef struct EvalOptions {
    int64_t replicas;    /* 0: the module's replica_count */
    int64_t partitions;  /* 0: the module's num_partitions */
    size_t memory_limit; /* bytes of values alive at once; 0: 16 GiB */
    uint64_t step_limit; /* instructions run on all devices together; 0: no limit */
    uint64_t seed;       /* of rng and rng-get-and-update-state */
    bool exact;          /* correctly rounded transcendentals instead of libm's */
    uint32_t rounding;   /* not 0: values are rounded at random, so seeded (rounding.h) */
    bool rounding_tf32;  /* and factors of f32 as TF32 does */
} EvalOptions;

typedef struct EvalDevice {
    uint32_t argument_count;
    const Literal *const
        *arguments;        /* [argument_count] by parameter number, tuples allowed */
    const Literal *result; /* out: the root's value, in the arena given */
} EvalDevice;

typedef enum {
    EVAL_OK,
    EVAL_ERROR,       /* wrong arguments, elided constants, deadlock, limits */
    EVAL_UNSUPPORTED, /* an operation that the evaluator does not know */
} EvalStatus;

/* Number of devices that the options ask for; 0 if it is not between 1 and 4096. */
int64_t eval_device_count(const Module *m, const EvalOptions *options);

/* Runs the entry computation on device_count = eval_device_count devices. On failure
 * *error is a text in the arena that names the instruction, and the caller's Escape, if it has one,
 * says where it stands. options may be NULL. */
EvalStatus module_evaluate(const Module *m, const EvalOptions *options,
                           uint32_t device_count, EvalDevice *devices, Arena *arena,
                           const char **error);

/* The value of an instruction that depends on constants only, correctly rounded; NULL if it
 * reads parameters, has effects, differs by device, is random or elided, if a value on the
 * way has more than max_elements elements, or if more than max_steps instructions (those of
 * called computations included) would run. */
const Literal *evaluate_constant(Arena *arena, const Instruction *inst,
                                 int64_t max_elements, uint64_t max_steps);

#endif
