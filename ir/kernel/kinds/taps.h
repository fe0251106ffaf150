/* What is asked of convolutions whose block keeps a patch of the image in shared memory, in which each tap of the filter
 * finds its positions: image_convolution.c and wide_convolution.c. */
#ifndef GXC_IR_KERNEL_KINDS_TAPS_H
#define GXC_IR_KERNEL_KINDS_TAPS_H

#include "ir/kernel/rules.h"
#include "ir/kernel/tensor_core.h"

/* Numbers of 32 bits count positions, and channels of all images and numbers of filters. */
enum { TAPS_MOST_POSITIONS = 1 << 29, TAPS_MOST_ROWS = 1 << 30 };

/* NULL, or what is wrong with a convolution. */
typedef const char *HeroIllegalFn(const Instruction *hero);

/* What a kind asks beside what all of them do: of the orders of dimensions, the window, and sizes. */
typedef struct TapRules {
    HeroIllegalFn *labels, *window, *sizes;
    bool may_widen; /* results may be of f32, too */
} TapRules;

/* Of a dimension: no dilation, the same stride as others, 1 or 2, padding within the window. */
bool taps_dim_fits(const Window *w, uint32_t dim);
const char *taps_illegal(FusionFacts *f, KernelKind kind, const TapRules *rules);
/* Windows of one position share nothing: tiles read them as they are. */
bool taps_fit(const Instruction *conv, const TapRules *rules);
bool taps_suit(FusionFacts *f, KernelKind kind, const TapRules *rules);

/* mma.sync of TAPS_STEP channels; where there is none d->unsupported says so. */
const TensorCore *taps_core(KernelDesign *d, DType factor);
#endif
