/* What norms and their gradients are matched by, step by step. */
#ifndef GXC_IR_KERNEL_NORM_STEPS_H
#define GXC_IR_KERNEL_NORM_STEPS_H

#include "ir/kernel/norm.h"

/* The norm that is being matched. */
typedef struct NormMatch {
    const Shape *shape; /* of x and y */
    uint32_t row_rank;  /* dimensions of rows: those before the normalised ones */
    Norm norm;
} NormMatch;

/* An array of static sizes, row-major. */
bool norm_is_plain(const Instruction *inst);
/* Past reshapes, which keep the order of elements. */
const Instruction *norm_strip(const Instruction *inst);
/* Past a conversion of less to f32. */
const Instruction *norm_before_widening(const Instruction *inst);
/* What is broadcast along dimensions from `first` up to `end` only; NULL: it is none. */
const Instruction *norm_repeated(const NormMatch *m, const Instruction *inst,
                                 uint32_t first, uint32_t end);
/* The vector that is broadcast along rows, in the type that it has in memory; NULL: it is none. */
const Instruction *norm_column_value(const NormMatch *m, const Instruction *inst);
/* A sum of elements of m->shape, along some dimensions. */
bool norm_is_sum(const NormMatch *m, const Instruction *inst);
/* What a sum over the last dimensions adds up; says which those are. NULL: it is none. */
const Instruction *norm_summed(NormMatch *m, const Instruction *inst);
int64_t norm_columns(const NormMatch *m);
/* 1 / sqrt(variance + epsilon) of each row: sets x, mean, inverse and epsilon. */
bool norm_match_inverse(NormMatch *m, const Instruction *inst);

#endif
