/* Which convolutions are left to cuDNN. */
#ifndef GXC_PASSES_LIBRARY_CONVOLUTIONS_H
#define GXC_PASSES_LIBRARY_CONVOLUTIONS_H

#include "passes/simplify/rewrite.h"

/* It may be one of cuDNN's, and is large enough. */
bool convolution_is_worth_it(const Instruction *inst, const PassContext *cx);

/* A convolution's arrays - operands and result - in some order of dimensions. */
typedef struct ConvolutionForm {
    const Shape *shapes[3];
    const DimLabels *labels;
} ConvolutionForm;

/* The filter is better left in the order that it has: image and result are in that which libraries want. */
bool convolution_keeps_filter(Rewriter *r, const Instruction *conv);
/* Others lie before or behind it, with operations between them that keep an order. */
bool convolution_has_others_near(Rewriter *r, const Instruction *conv);
/* Image and result are better left in the order that they have: `kept`, in which the filter is turned, not `formed`. */
bool convolution_keeps_images(Rewriter *r, const Instruction *conv,
                              const ConvolutionForm *kept, const ConvolutionForm *formed);

#endif
