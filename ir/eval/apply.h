/* Batch programs: a small computation over scalars (a reducer, a comparator, a combiner)
 * compiled into a list of row kernels, which run it for many independent elements at once. */
#ifndef GXC_IR_EVAL_APPLY_H
#define GXC_IR_EVAL_APPLY_H

#include "ir/eval/call.h"
#include "ir/eval/scalar.h"

typedef struct Apply Apply;

/* The program of a computation whose parameters are scalars; made once. It always exists:
 * what cannot run in batches runs element by element in frames. */
Apply *apply_of(EvalCall *call, const Computation *comp);

/* Leaves of the result: 1, or the number of elements of a tuple of scalars. */
uint32_t apply_result_count(const Apply *p);
DType apply_result_type(const Apply *p, uint32_t i);

/* inputs[i]: n elements of parameter i's type; outputs[i]: n elements of result leaf i's
 * type. An output may be the same array as an input, but not overlap it otherwise. */
void apply_run(EvalCall *call, Apply *p, size_t n, const void *const *inputs,
               void *const *outputs);

/* What a computation of accumulators and as many inputs makes of those number i, if that is no more than one binary
 * opcode of the two in this order (or, where that is commutative, in the other). */
typedef enum {
    SIMPLE_NONE,
    SIMPLE_ADD,
    SIMPLE_MULTIPLY,
    SIMPLE_MAXIMUM,
    SIMPLE_MINIMUM,
    SIMPLE_AND,
    SIMPLE_OR,
    SIMPLE_XOR,
    SIMPLE_FIRST,  /* gives the accumulator */
    SIMPLE_SECOND, /* gives the input */
} SimpleKind;

SimpleKind apply_simple(const Computation *comp, uint32_t i);

#endif
