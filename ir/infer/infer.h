/* Shape inference and the rules of each opcode (sections 9 and 12 of the language). */
#ifndef GXC_IR_INFER_INFER_H
#define GXC_IR_INFER_INFER_H

#include "ir/module.h"

struct InferContext {
    Intern *intern;
    Arena *arena;         /* for results that are not shapes, and messages */
    Diag *diag;           /* messages go to inst->span */
    bool mixed_precision; /* operands of different float types are allowed */
    bool sketch;          /* forms of other writers, which cannot be compiled, are, too */
};

/* The result shape by the opcode's row, NULL after a message. inst needs op, operands and
 * attributes; inst->shape may be NULL where the opcode is inferable. */
const Shape *infer_shape(InferContext *cx, const Instruction *inst);

/* -- mixed precision ------------------------------------------------------------------------- */

/* Operands first .. end - 1 of an elementwise instruction have the type that it is computed in. */
typedef struct OperandRange {
    uint32_t first, end;
} OperandRange;
OperandRange infer_like_operands(const Instruction *inst);

/* The type that an elementwise instruction is computed in: the most precise of those operands and,
 * where it gives floats of floats, of the result. */
DType infer_computing_type(const Instruction *inst);

/* The type that it gives then: where it is a float, text may declare another. */
DType infer_computed_result(const Instruction *inst);

/* A reducer or combiner is given elements of one type, first and second; a comparator those of the operand
 * or, in a select-and-scatter, of its sums. Text may mix float types here where it may mix precision. */
bool infer_applies_to_one_type(const Instruction *inst);

/* A convolution whose kernel leaves out what its sparsity_config says: less than the input's features
 * are there, or a tuple with their positions. A kernel that has all of them is a plain one. */
bool infer_is_compressed(const Instruction *convolution);

/* A convolution whose convolution_kind says that its window is that of another one, of which it is a gradient. */
bool infer_is_gradient(const Instruction *convolution);
/* A dimension of the window by which the gradient of an image is a convolution of the result's gradient: that is spread by
 * the strides, and the kernel is the other way round. False: a size overflows. */
bool infer_image_gradient(const WindowDim *of, WindowDim *out);

#endif
