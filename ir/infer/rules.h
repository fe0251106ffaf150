/* What the shape rules of infer_*.c share: messages, checks of operands and dimension lists,
 * and the makers of result shapes. Private to them. */
#ifndef GXC_IR_INFER_RULES_H
#define GXC_IR_INFER_RULES_H

#include "ir/dtype.h"
#include "ir/infer/infer.h"
#include "ir/op_functions.h"

/* A message about inst: "add.3 (add): ..."; returns NULL, what a rule gives after an error. */
const Shape *infer_error(InferContext *cx, const Instruction *inst, const char *format,
                         ...) GXC_FORMAT(3, 4);
const char *infer_text(InferContext *cx, const Shape *s);
const char *infer_ints_text(InferContext *cx, Ints v);

static inline const Shape *operand(const Instruction *inst, uint32_t i)
{
    return inst->operands[i]->shape;
}

/* Operands are arrays, numbers begin .. end - 1. */
bool infer_want_arrays(InferContext *cx, const Instruction *inst, uint32_t begin,
                       uint32_t end);
bool infer_want_count(InferContext *cx, const Instruction *inst, uint32_t least);
bool infer_want_shape(InferContext *cx,
                      const Instruction *inst); /* has a declared shape */
bool infer_want_array_shape(InferContext *cx,
                            const Instruction *inst); /* ... of an array */
/* Element types are equal, or both are floating. */
bool infer_same_type(DType a, DType b);
/* Sizes are equal or one is not known (`?`). */
static inline bool infer_same_size(int64_t a, int64_t b)
{
    return a == b || a == DIM_UNBOUNDED || b == DIM_UNBOUNDED;
}
bool infer_same_sizes(const Shape *a, const Shape *b); /* ranks too */

/* Dimension numbers: each in 0 .. rank - 1, each once, ascending if `sorted`. */
bool infer_want_dims(InferContext *cx, const Instruction *inst, const char *what,
                     Ints dims, int64_t rank, bool sorted);
/* An attribute that is a list of exactly one dimension of s; -1 after a message. */
int64_t infer_one_dim(InferContext *cx, const Instruction *inst, const Shape *s);

/* Room for a list of sizes: `stack` if it is large enough, else from the arena. */
#define INFER_STACK 16
int64_t *infer_dims_array(InferContext *cx, int64_t *stack, uint32_t count);

/* An array with default layout; the declared shape itself if it is compatible. Checks that
 * sizes are not negative and the number of bytes fits. dynamic may be NULL. */
const Shape *infer_array(InferContext *cx, const Instruction *inst, DType dtype,
                         uint32_t rank, const int64_t *dims, const bool *dynamic);
/* s with another element type, layout kept. */
const Shape *infer_with_dtype(InferContext *cx, const Shape *s, DType dtype);
/* The shape of each operand begin .. end - 1: itself if one, else their tuple. */
const Shape *infer_tuple_of(InferContext *cx, const Instruction *inst, uint32_t begin,
                            uint32_t end);

/* Operand i is a token; else false after a message. */
bool infer_want_token(InferContext *cx, const Instruction *inst, uint32_t i);

/* Element type of what a binary rule gives, section 9.7. */
DType infer_binary_dtype(DType a, DType b);

static inline Computation *infer_callee(const Instruction *inst, AttrId id)
{
    const Attr *a = inst_attr(inst, id);
    return a && a->computations.count ? a->computations.data[0] : NULL;
}
/* output_to_operand_aliasing names parts of equal shape. */
bool infer_want_aliasing(InferContext *cx, const Instruction *inst);
const Shape *infer_callee_result(const Computation *comp); /* shape of the root */
/* The computation has `count` parameters. */
bool infer_want_parameters(InferContext *cx, const Instruction *inst,
                           const Computation *comp, const char *what, uint32_t count);

/* Section 9.8: the reducer of k inputs into k accumulators; of those two only the element
 * types count here. Its result shape, or NULL after a message. */
const Shape *infer_reducer(InferContext *cx, const Instruction *inst,
                           const Computation *comp, uint32_t k,
                           Instruction *const *inputs, Instruction *const *accumulators);
/* Section 9.9: result size of one dimension of a window; -1 after a message. */
int64_t infer_window_size(InferContext *cx, const Instruction *inst, int64_t size,
                          const WindowDim *w);

#endif
