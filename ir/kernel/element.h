/* Elements in kernels: what an opcode's code is like, how wide accesses are, and what values take in shared
 * memory and in accumulators. */
#ifndef GXC_IR_KERNEL_ELEMENT_H
#define GXC_IR_KERNEL_ELEMENT_H

#include "ir/module.h"

/* The EMIT column of ops.def: what kind of code an opcode becomes inside a kernel. */
typedef enum {
    ELEMENT_NOTHING, /* parameter, after-all */
    ELEMENT_SCALAR,  /* a function of one element of each operand */
    ELEMENT_MOVE,    /* the operand's element at the mapped index */
    ELEMENT_SELECT,  /* one of the operands' elements, by the maps' constraints */
    ELEMENT_INDEX,   /* a function of the index: iota */
    ELEMENT_CONSTANT,
    ELEMENT_ALIAS,    /* no code: tuples, barriers */
    ELEMENT_REDUCE,   /* combines over the maps' symbols with a computation */
    ELEMENT_CONTRACT, /* sums products over the maps' symbols */
    ELEMENT_KERNEL,   /* has a kernel of its own kind only */
    ELEMENT_CONTROL,  /* a command of the plan */
    ELEMENT_COLLECTIVE,
    ELEMENT_ASYNC,
    ELEMENT_CUSTOM,
    ELEMENT_FUSION,
    ELEMENT_DEVICE_ID,   /* an argument of the kernel */
    ELEMENT_EXPAND,      /* a pass writes it as simpler operations */
    ELEMENT_UNSUPPORTED, /* not supported in kernels yet */
} ElementKind;

extern const ElementKind element_kind[OP_COUNT];

/* Its elements can be computed one by one, each by itself. */
bool op_has_elements(OpCode op);

/* Neighbouring elements are one piece of straight-line code: several lanes are worth it. */
bool inst_is_plain(const Instruction *inst);
/* The same of all instructions but the heroes. */
bool fusion_is_plain(const Computation *comp, const Instruction *const *heroes,
                     uint32_t count);

/* The fastest dimension of a reduce-window whose windows are one element wide along it: neighbours are combined side by
 * side. Else, and of all other operations, UINT32_MAX. */
uint32_t reduced_neighbours(const Instruction *inst);
/* Neighbouring elements that a thread takes so that accesses of what holds most of the bytes are as
 * wide as they can be; 1 to 8. */
uint32_t access_lanes(const Shape *const *arrays, uint32_t count);

/* Of a value in shared memory, and its alignment. */
unsigned shared_bytes(DType t);

/* -- what is combined ------------------------------------------------------------------------------ */

/* Component i of what the computation gives, if it is op(parameter i, parameter count + i) in either
 * order, op an associative one; else NULL. */
const Instruction *computation_component(const Computation *comp, uint32_t i);
/* The operation of a computation that is op(parameter 0, parameter 1) in either order, op one of add,
 * multiply, maximum, minimum, and, or, xor; else OP_COUNT. */
OpCode computation_operation(const Computation *comp);
/* All `count` components are such operations. */
bool computation_is_simple(const Computation *comp, uint32_t count);
/* The type that component i accumulates in: f32 for sums and products of narrower floats, and for all other
 * operations on floats of 8 bits. */
DType computation_accumulator(const Computation *comp, uint32_t i, bool is_simple);
/* Of a simple computation: component i is a sum or product of floats that are narrower than what it accumulates in. */
bool computation_sums_wide(const Computation *comp, uint32_t i);

/* The type that products of a dot or convolution are summed in: f32 for narrower floats, f64 and complex
 * their own, integers the result's, but floats that give an integer as floats. */
DType contract_accumulator(const Instruction *inst);

#endif
