/* Windows that slide over a dimension: reduce-window, select-and-scatter, convolution. */
#ifndef GXC_IR_EVAL_WINDOW_H
#define GXC_IR_EVAL_WINDOW_H

#include "ir/module.h"

/* For one dimension and one position inside the window: the windows (numbers in 0 .. out - 1)
 * whose element at that position is an element of the operand, not padding and not a hole of
 * base dilation: first, first + step, ... (count of them), and where these elements lie. */
typedef struct WindowRange {
    int64_t first, step, count;
    int64_t in_first, in_step;
} WindowRange;

WindowRange window_range(const WindowDim *w, int64_t in, int64_t out, int64_t position);

#endif
