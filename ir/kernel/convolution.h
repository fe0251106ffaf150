/* Which convolutions cuDNN can make, and as what: a convolution of HLO is one of cuDNN's forward
 * convolutions, or the gradient of one by its data or by its filter. */
#ifndef GXC_IR_KERNEL_CONVOLUTION_H
#define GXC_IR_KERNEL_CONVOLUTION_H

#include "ir/module.h"

typedef enum ConvolutionKind {
    CONVOLUTION_FORWARD, /* y of x and w */
    CONVOLUTION_DATA,    /* x of y and w */
    CONVOLUTION_FILTER   /* w of x and y */
} ConvolutionKind;

enum {
    CONVOLUTION_RANK = 5,
    CONVOLUTION_SPATIAL = 3,
    CONVOLUTION_MOST = 1 << 30 /* size, stride, dilation, padding */
};

/* An array in the library's order: x [image, feature, position...], w [out, in, position...], y as x. One
 * position dimension is two here, the first of size 1. */
typedef struct ConvolutionArray {
    DType type;
    int64_t dims[CONVOLUTION_RANK], strides[CONVOLUTION_RANK]; /* elements */
} ConvolutionArray;

typedef struct ConvolutionShape {
    ConvolutionKind kind;
    uint32_t spatial; /* 2 or 3 */
    bool is_flipped;  /* the filter is read backwards: a convolution, not a correlation */
    ConvolutionArray x, w, y;
    int64_t before[CONVOLUTION_SPATIAL], behind[CONVOLUTION_SPATIAL];
    int64_t stride[CONVOLUTION_SPATIAL], dilation[CONVOLUTION_SPATIAL];
} ConvolutionShape;

/* Types that cuDNN's kernels are used for. */
bool convolution_has_types(const Instruction *conv);

/* False: cuDNN has no such convolution, whatever the layouts are. */
bool convolution_shape(const Instruction *conv, ConvolutionShape *out);

/* Where an array has its features, or a filter its inputs: before all positions (NCHW, KCRS) or behind them (NHWC, KRSC), with
 * nothing between. Dimensions of size 1 lie anywhere. */
typedef enum ConvolutionOrder {
    CONVOLUTION_MIXED,
    CONVOLUTION_FEATURES_FIRST,
    CONVOLUTION_FEATURES_LAST
} ConvolutionOrder;

/* That of x and y, which the filter has, too, or has not. cuDNN is given arrays of one order only: it takes others, and some of
 * its engines compute wrong results of them (docs/measured.md). */
ConvolutionOrder convolution_order(const ConvolutionShape *s, bool *filter_has_it);
/* Of the filter's dimensions, out, in and positions, as `s` names them: from major to minor. */
void convolution_filter_order(const ConvolutionShape *s, ConvolutionOrder order,
                              uint32_t out[CONVOLUTION_RANK]);
/* cuDNN may be asked for it: with its filter turned, where that is no result. */
bool convolution_order_fits(const ConvolutionShape *s);
/* Dimensions of size 1 lie as the order of the others says, which is all arrays': cuDNN reads the order from their strides. */
void convolution_settle(ConvolutionShape *s);

/* Multiplications. */
int64_t convolution_work(const ConvolutionShape *s);

/* A convolution that cuDNN makes, and what it does to its result: those that are missing are NULL. Result =
 * relu(conv * scale + addend + bias), rounded once. */
typedef struct ConvolutionCall {
    const Instruction
        *conv; /* the instruction itself, or the one in a fusion's computation */
    const Instruction *lhs, *rhs;
    const Instruction *scale, *bias; /* along the features of the result */
    const Instruction *addend;       /* as the result */
    bool has_relu;
} ConvolutionCall;

/* What is marked is believed only where it can be kept. */
bool convolution_call_of(const Instruction *inst, ConvolutionCall *out);
bool convolution_is_library(const Instruction *inst);
void convolution_set_library(Instruction *inst);
void convolution_unset_library(Instruction *inst);

/* `broadcast`, of the result's shape, is of a vector along its features: a scale or a bias. */
bool convolution_bias_fits(const Instruction *conv, const Instruction *broadcast);

/* The labels when filter or result are transposed: dimension d is what was order.data[d]. In the arena. */
const DimLabels *convolution_turn_filter(Arena *a, const DimLabels *old, Ints order);
const DimLabels *convolution_turn_result(Arena *a, const DimLabels *old, Ints order);

#endif
