/* An array read as it lies in another one's memory: transpositions, reshapes, broadcasts and copies
 * between are only strides. Libraries that take strides need no kernels for them. */
#ifndef GXC_IR_KERNEL_STRIDED_VIEW_H
#define GXC_IR_KERNEL_STRIDED_VIEW_H

#include "ir/module.h"

enum { VIEW_RANK = 8, VIEW_PIECES = 16 };

/* A part of a dimension: elements at equal distances. */
typedef struct ViewPiece {
    uint32_t dim; /* of the array that is viewed */
    int64_t size, stride;
} ViewPiece;

/* The pieces of each dimension stand together, the outermost first; those of size 1 are left out. */
typedef struct StridedView {
    const Instruction *base; /* in whose memory the elements lie */
    uint32_t count;
    ViewPiece pieces[VIEW_PIECES];
} StridedView;

/* The array in its own memory. False: too many dimensions. */
bool view_start(const Instruction *inst, StridedView *out);
/* The same in the memory of the base's operand; false: it does not lie there so. */
bool view_step(StridedView *v);
/* The same through an operation whose operand has the same dimensions. */
bool view_step_same(StridedView *v, uint32_t operand);
/* Into the memory of a reader of the base that moves it: where its elements go. */
bool view_step_out(StridedView *v, const Instruction *reader);

#endif
