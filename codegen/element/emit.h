/* Emission of elements: the code that computes one element - or a few neighbours - of any
 * instruction of a fused computation, from the index maps of its row.
 *
 * Indices are expressions (ir/analysis/index_map.h) over the kernel's variables, not LLVM
 * values: they are composed and simplified along the operands, and become code only where an
 * address or a condition needs them. A kernel's variables are IX_RUNTIME expressions made by
 * emit_variable and bound to LLVM values.
 *
 * Lanes: an emitter may ask for `lanes` elements at once, those where EMIT_LANE takes the
 * values 0 .. lanes - 1. Values that do not depend on it are computed once; contiguous
 * accesses become vector accesses of up to 16 bytes.
 *
 * Values in registers: pred i1; integers of their own width (s4: i4); f16 half, bf16
 * bfloat, f32, f64; 8-bit and narrower floats their code as i8 (f4: i4); complex {re, im}. */
#ifndef GXC_CODEGEN_ELEMENT_EMIT_H
#define GXC_CODEGEN_ELEMENT_EMIT_H

#include "codegen/gx/gx.h"
#include "ir/analysis/index_map.h"
#include "ir/kernel/element.h"
#include "ir/kernel/kind.h"
#include "ir/module.h"

#define EMIT_MOST_LANES 16
#define EMIT_MOST_RANK KERNEL_MOST_RANK
#define EMIT_MOST_LEAVES 64 /* results of one reduction, scatter, sort */

typedef struct Emit {
    Kernel *k;
    Arena *arena;
    IndexContext *ix;
    LLVMTypeRef index_type; /* i32 where every size of the kernel fits, else i64 */
    uint32_t lanes;
    const Computation *comp; /* the fused computation */
    /* [comp->parameter_count] kernel argument of each; of a loop's body, of each leaf of its parameter */
    const uint32_t *parameter_args;
    LLVMValueRef *variables; /* values of the kernel's variables */
    size_t variable_count, variable_capacity;
    IndexMap *
        *maps; /* by instruction id: its operands' maps for leaf 0, once asked for */
    struct Preset *presets; /* by instruction id: see emit_preset */
    uint32_t lane; /* which of the lanes is made now, where they are made one by one */
    bool
        shares_bytes; /* what is loaded may share bytes with what other threads store: by atomics */
    struct Memo *memo;
} Emit;

/* Starts emission into a kernel whose builder stands where the code shall go. */
Emit *emit_begin(Kernel *k, const Computation *comp, const uint32_t *parameter_args,
                 bool wide_index, uint32_t lanes);

/* Whether byte offsets of all arrays of the computation, and the indices that are computed on the way, fit
 * 31 bits. */
bool computation_fits_32_bits(const Computation *comp);

/* A variable of the kernel: `value` is of index_type and within range. */
const IndexExpr *emit_variable(Emit *e, LLVMValueRef value, Range range);
/* The expression that takes the values 0 .. lanes - 1. */
const IndexExpr *emit_lane(Emit *e);
/* Code for an index expression, of index_type; lane: the value EMIT_LANE has. */
LLVMValueRef emit_index(Emit *e, const IndexExpr *expr, uint32_t lane);
LLVMValueRef emit_index_constant(Emit *e, int64_t value);
/* i1: expr, at this lane, is within the range. */
LLVMValueRef emit_in_range(Emit *e, const IndexExpr *expr, Range range, uint32_t lane);

/* The elements of instruction inst (its shape an array) at index [rank]: out[lanes]. */
void emit_element(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                  LLVMValueRef *out);

/* The same for leaf `leaf` of an instruction with several results (a variadic reduction). */
void emit_leaf(Emit *e, const Instruction *inst, uint32_t leaf,
               const IndexExpr *const *index, LLVMValueRef *out);

/* From here on the elements of inst - one value for each leaf - are these, wherever they are asked for:
 * the emitter knows that it is asked only where they are right. */
void emit_preset(Emit *e, const Instruction *inst, const LLVMValueRef *leaves);
/* The same with a value for each of the lanes: [leaf][lane]. */
void emit_preset_lanes(Emit *e, const Instruction *inst, const LLVMValueRef *values);
/* The same with the values of all elements, row-major, of leaf after leaf; they are not copied. One lane. */
void emit_preset_elements(Emit *e, const Instruction *inst, const LLVMValueRef *values);

/* For select functions: the map of an operand, and the map applied to an index with its
 * runtimes bound and its symbols replaced by `symbols` (NULL if it has none): results
 * [map->result_count], constraints [map->constraint_count] (NULL: not wanted). One lane only. */
const IndexMap *emit_operand_map(Emit *e, const Instruction *inst, uint32_t operand);
void emit_apply(Emit *e, const IndexMap *map, const IndexExpr *const *index,
                const IndexExpr *const *symbols, const IndexExpr **results,
                const IndexExpr **constraints);
/* All of a map's constraints hold, where emit_apply put them: i1, or NULL if it has none. */
LLVMValueRef emit_constraints_hold(Emit *e, const IndexMap *map,
                                   const IndexExpr *const *constraints);
bool emit_is_uniform(uint32_t rank, const IndexExpr *const *index); /* no lane in it */
/* The index of one of the lanes. */
void emit_at_lane(Emit *e, uint32_t rank, const IndexExpr *const *index, uint32_t lane,
                  const IndexExpr **out);

/* Loads and stores of elements of an array that lies in kernel argument `arg`. */
void emit_load(Emit *e, uint32_t arg, const Shape *shape, const IndexExpr *const *index,
               LLVMValueRef *out);
void emit_store(Emit *e, uint32_t arg, const Shape *shape, const IndexExpr *const *index,
                const LLVMValueRef *values);

/* Values made before a branch or a loop may be used inside, not the other way round: code
 * that opens a branch or a loop brackets it with these. */
void emit_scope_begin(Emit *e);
void emit_scope_end(Emit *e);

/* gx_if_* with the scopes: each side is one. A condition NULL holds always: there is no branch, and no else. */
void emit_if_begin(Emit *e, GxIf *s, LLVMValueRef condition);
void emit_if_else(Emit *e, GxIf *s, const LLVMValueRef *yields, unsigned count);
void emit_if_end(Emit *e, GxIf *s, const LLVMValueRef *yields, unsigned count,
                 LLVMValueRef *out);
/* In place of an else: values[count], made inside, become those of `otherwise` where the condition does not hold. */
void emit_if_end_or(Emit *e, GxIf *s, LLVMValueRef *values, const LLVMValueRef *otherwise,
                    unsigned count);

/* A computation on scalars (reducer, comparator, combiner), inlined: args[parameter] -> out[leaf of the
 * root]; of arrays all elements. */
void emit_computation(Emit *e, const Computation *comp, const LLVMValueRef *args,
                      LLVMValueRef *out);

/* A scalar inside such a computation. */
LLVMValueRef emit_inside(Emit *e, const Instruction *inst, const LLVMValueRef *args);
/* Index of each dimension of `shape` from an element number in physical order. */
void emit_delinear(Emit *e, const Shape *shape, const IndexExpr *linear,
                   const IndexExpr **index);
/* Sets the index along `dims` from a number that counts through them, the last fastest. */
void emit_spread(Emit *e, const Shape *shape, const uint32_t *dims, uint32_t count,
                 const IndexExpr *number, const IndexExpr **index);

/* -- scalar code ---------------------------------------------------------------------------- */

LLVMTypeRef emit_type(Kernel *k, DType t);
/* A number of the type; rounded as a literal is. */
LLVMValueRef emit_constant(Kernel *k, DType t, const Literal *l, int64_t element);
LLVMValueRef emit_number(Kernel *k, DType t, double value);

/* The functions of the EMIT(scalar, x) columns: operands are scalars of the operands' types. */
typedef LLVMValueRef ScalarFn(Kernel *k, const Instruction *inst,
                              const LLVMValueRef *operands);
/* Conversion between any two element types, with HLO's semantics. */
LLVMValueRef scalar_convert_value(Kernel *k, LLVMValueRef value, DType from, DType to);
/* The same for `lanes` neighbours. */
void scalar_convert_lanes(Kernel *k, DType from, DType to, uint32_t lanes,
                          const LLVMValueRef *in, LLVMValueRef *out);
/* Of a float: a signed integer that grows from -NaN over -inf, -0, +0, inf to NaN. */
LLVMValueRef scalar_total_key(Kernel *k, LLVMValueRef x, DType t);

#endif
