/* The computation of a reduction, as emitters combine values with it.
 *
 * Sums and products of floats narrower than f32 are kept in f32 and rounded once. Where the
 * computation is one associative operation with a known identity (or several side by side), accumulators start with the
 * identity and the initial value joins once, at the end; otherwise they all start with the initial
 * value, as the language allows. */
#ifndef GXC_CODEGEN_EMIT_REDUCER_H
#define GXC_CODEGEN_EMIT_REDUCER_H

#include "codegen/emit/emit.h"

#define REDUCER_MOST EMIT_MOST_LEAVES

typedef struct Reducer {
    Emit *e;
    const Instruction
        *inst; /* reduce, reduce-window, … : operands, then initial values */
    const Computation *comp;
    uint32_t count; /* values that are reduced together */
    bool is_simple; /* each result is one operation of its own two parameters: */
    const Instruction *component[REDUCER_MOST];
    bool is_wide[REDUCER_MOST]; /* it is done in f32 on narrower floats */
    DType type[REDUCER_MOST];   /* of the results */
    DType accumulator[REDUCER_MOST];
    bool joins_initial;                 /* the initial value joins in reducer_finish */
    LLVMValueRef initial[REDUCER_MOST]; /* converted to the accumulators' types */
} Reducer;

/* The operation of a computation that is op(parameter 0, parameter 1) in either order, op one of add,
 * multiply, maximum, minimum, and, or, xor; else OP_COUNT. */
OpCode computation_operation(const Computation *comp);

/* Of a reduce or reduce-window. Emits the initial values where the builder stands. */
void reducer_begin(Reducer *r, Emit *e, const Instruction *inst);
/* Of one array by comp, for what combines all of it in order, from the initial value on. */
void reducer_begin_in_order(Reducer *r, Emit *e, const Instruction *inst,
                            const Computation *comp, Instruction *initial);
/* What an accumulator starts with. */
void reducer_start(const Reducer *r, LLVMValueRef *out);
/* An operand's element as the accumulator's type. */
LLVMValueRef reducer_widen(const Reducer *r, uint32_t i, LLVMValueRef element);
/* out = f(a, b); a stands for what comes first. May be in place. */
void reducer_combine(const Reducer *r, const LLVMValueRef *a, const LLVMValueRef *b,
                     LLVMValueRef *out);
/* The results from the accumulator of everything. May be in place. */
void reducer_finish(const Reducer *r, const LLVMValueRef *accumulator, LLVMValueRef *out);

#endif
