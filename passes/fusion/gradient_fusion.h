/* An attention's gradient while it becomes fusions. See gradient_fusion.c. */
#ifndef GXC_PASSES_FUSION_GRADIENT_FUSION_H
#define GXC_PASSES_FUSION_GRADIENT_FUSION_H

#include "ir/kernel/attention/attention_gradient.h"
#include "passes/simplify/rewrite.h"

enum { GRADIENT_MOST_RESULTS = 4, GRADIENT_MOST_MOVES = 8 };

/* A dot that a gradient is, and what its value becomes on its way out. */
typedef struct GradientDot {
    Instruction *dot, *ends[GRADIENT_MOST_MOVES]; /* the last of them is what users see */
    uint32_t end_count;
    bool is_fused, is_turned; /* turned: a transposition of it is made instead */
} GradientDot;

typedef struct Gradient {
    PassContext *cx;
    Computation *comp;
    const Attention *a;
    AttentionGradient g;
    Instruction *last;
    uint32_t ids;
    bool *is_made; /* by id: of the scores, or of the products do v' */
    GradientDot dots[GRADIENT_MOST_RESULTS];
    uint32_t count;
    Instruction *statistics, *differences; /* s, d */
    Instruction *maxima;                   /* that s is without; NULL: it is with them */
    Instruction *result; /* for cuDNN, which makes d itself: o; else NULL */
    bool is_library;
} Gradient;

/* A fusion of these dots' values, with as much of what moves them as a kernel can: ends[i] moves behind dot i. NULL:
 * there is no kernel. */
Instruction *gradient_fuse(Gradient *c, GradientDot *const *dots, uint32_t count,
                           uint32_t *ends);
/* The sum over the depth of o * do, in the order of do's dimensions; NULL: something stands between. */
Instruction *gradient_sum_rows(const Gradient *c, Rewriter *r, Instruction *result,
                               Instruction *y);

#endif
