/* Aliases: which values share one buffer.
 *
 * A position is one leaf of one instruction's shape. Positions are joined into a set where the
 * language or the runtime demands that they are the same memory:
 *   tuple, get-tuple-element, bitcast, opt-barrier, domain, add-dependency: their operands;
 *   while: operand, parameter of condition and body, root of the body, result;
 *   call, conditional, async-start: operand and parameter, root and result;
 *   asynchronous starts and dones: the start's operands, and its results;
 *   output_to_operand_aliasing of a fusion or custom call: result and operand;
 *   input_output_alias of the module: result and parameter.
 * Each set becomes one slice of the plan. Copy insertion makes sure that no set holds two
 * values at once. */
#ifndef GXC_IR_ANALYSIS_ALIAS_H
#define GXC_IR_ANALYSIS_ALIAS_H

#include "ir/module.h"

typedef struct AliasSets AliasSets;

/* Linear in the number of leaves. Fused computations are left out: their values are no
 * buffers. The module must not change while the sets are used. */
AliasSets *alias_sets_create(const Module *m, Arena *a);

/* The set of a position: a number below alias_set_count, in order of first appearance. */
uint32_t alias_set(const AliasSets *s, const Instruction *inst, size_t leaf);
uint32_t alias_set_count(const AliasSets *s);

/* The instruction makes a new value in this leaf's buffer (it is no alias of an operand). */
bool alias_defines(const Instruction *inst);

/* First leaf of the results in the shape of an asynchronous start that is (operands, results,
 * ...); 0 for all-reduce-start, whose shape is its result's. */
size_t async_result_leaf(const Instruction *start);

/* First leaf of tuple element i of a shape. */
size_t alias_element_leaf(const Shape *tuple, uint32_t i);
/* First leaf of the part of a shape that a shape index names. */
size_t alias_index_leaf(const Shape *shape, Ints index);

#endif
