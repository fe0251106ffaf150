/* What the passes over attentions share. */
#ifndef GXC_PASSES_FUSION_ATTENTION_H
#define GXC_PASSES_FUSION_ATTENTION_H

#include "ir/kernel/attention/attention.h"
#include "passes/pass.h"

/* The instructions of an attention that ends with `last`, operands first. */
typedef struct AttentionRegion AttentionRegion;

/* NULL: there are too many. */
AttentionRegion *attention_region(const Attention *a, Instruction *last, PassContext *cx);
/* Nobody else reads what is made of the scores. */
bool attention_region_is_closed(const AttentionRegion *r);
typedef enum AttentionKeeps {
    ATTENTION_KEEPS_NOTHING,
    ATTENTION_KEEPS_LOGS,  /* log(sums) + maxima, the second result */
    ATTENTION_KEEPS_MAXIMA /* log(sums), and the maxima, the third one */
} AttentionKeeps;
/* A fusion of it, beside `last`, whose users are not changed; with its statistics as further results. */
Instruction *attention_region_fuse(const AttentionRegion *r, AttentionKeeps keeps,
                                   PassContext *cx);
/* The fusion is a kernel on tensor cores; false: there is none, and the fusion is removed. */
bool attention_set_kind(Instruction *fusion, PassContext *cx);
/* Computed by element, without which it would have to be in memory; of dots and reductions nothing is known. */
bool attention_takes_inside(const Instruction *inst);

/* An attention and its gradient, of which nobody else reads anything: a kernel of the attention, one of what rows have
 * in common, and one or two of chains of dots. False, and nothing is changed but for instructions that nobody reads. */
bool fuse_attention_gradient(const Attention *a, Instruction *last, PassContext *cx);

/* Rounds it, or brings its elements into another order. */
bool attention_is_move(const Instruction *x);
const Instruction *attention_without_moves(const Instruction *x);

/* The dots of a computation, some of which may be gone. */
typedef struct AttentionDots {
    uint32_t count;
    uint32_t *ids;
} AttentionDots;

/* The attention's result for the weights that this dot is of, where the program has none: a new dot beside it, which
 * nobody reads. NULL: it has one, or the dot is none of an attention's gradient. */
Instruction *attention_result_again(Instruction *dv, const AttentionDots *dots,
                                    PassContext *cx);

/* The same as two fusions for cuDNN: the attention, which keeps its statistics, and all of its gradient. */
typedef struct LibraryGradient LibraryGradient;

/* NULL, and nothing is changed but for instructions that nobody reads: it has no such form. */
LibraryGradient *library_gradient_wrap(const Attention *a, Instruction *last,
                                       PassContext *cx);
/* The fusions, the attention first; how many: cuDNN has a form of the attention, perhaps none of its gradient. */
uint32_t library_gradient_fusions(const LibraryGradient *g, Instruction *out[2]);
/* What takes the place of what, by id. */
void library_gradient_forward(const LibraryGradient *g, Instruction **forward);
/* Where cuDNN makes the attention only: the gradient is kernels, as by fuse_attention_gradient. */
bool library_gradient_attention_only(const LibraryGradient *g, PassContext *cx);

#endif
