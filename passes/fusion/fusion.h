/* Fusion: passes that put instructions together into kernels. */
#ifndef GXC_PASSES_FUSION_FUSION_H
#define GXC_PASSES_FUSION_FUSION_H

#include "passes/pass.h"

PassFn pass_split_scatters;     /* sorted, where the order of updates matters */
PassFn pass_fuse_attentions;    /* with all that is in them */
PassFn pass_split_exponentials; /* of rows too long to be kept */
PassFn pass_one_pass_variances; /* beside their means, of arrays that no kernel keeps */
PassFn pass_split_reductions;   /* where few results have many elements each */
PassFn pass_split_scans;        /* where rows are few, or read across */
PassFn pass_element_whiles;     /* loops whose elements go their own ways */
PassFn pass_fuse;               /* producers into their readers */
PassFn pass_wrap;               /* what is still alone */
PassFn pass_needed_results;     /* of sorts and scans: others are not written */
PassFn pass_split_sorts;        /* of rows that no block holds */
PassFn pass_own_values;         /* kernels for what would be copied */
PassFn pass_multi_output; /* kernels side by side, or one behind the other, into one */
PassFn pass_two_way_reductions; /* rows and columns of the same arrays by one kernel */
PassFn pass_join_reductions;    /* both halves of a split one, where blocks can wait */

/* A reshape whose result lies in memory as its operand does. It moves into what reads it, where it costs
 * nothing; by itself it is no kernel. */
bool fusion_is_renaming(const Instruction *inst);

/* A fusion of this one instruction, beside it, with scalar constants taken inside. Its users
 * are not changed and no kind of kernel is chosen. */
Instruction *fusion_wrap(Instruction *inst);
/* The instruction itself becomes the fusion, so that its users need no change. */
void fusion_wrap_in_place(Instruction *inst);

/* Takes the producer's code into the fusion that reads it. What is put into a fusion stays
 * elsewhere, too, or (is_moved) is removed by the caller, with its fused computation if it has
 * one: then the code keeps its names. What has no name yet gets one from fusion_name_all.
 * *spare: elements behind the fusion's operands and its computation's parameters that are free,
 * from one call to the next; 0 at first. */
void fusion_merge(Instruction *fusion, Instruction *producer, bool is_moved,
                  uint32_t *spare, Arena *scratch);
void fusion_name_all(Module *m);

/* What a fusion and its computation, which nobody else calls, are before something is put into
 * them; made in `a`. Restoring undoes additions, merges and removals, not new attributes. */
typedef struct SavedFusion SavedFusion;
SavedFusion *fusion_save(Instruction *fusion, Arena *a);
void fusion_restore(const SavedFusion *saved);

/* Results of a fusion that grows: what others outside see, and what it is inside. */
typedef struct FusionLeaves {
    uint32_t count;
    Instruction **users_see, **inside; /* [count] */
} FusionLeaves;

/* The code of another fusion inside this one, where it may read the results that this one has
 * already; its result there. What is there already is not made twice. */
Instruction *fusion_bring_in(Instruction *fusion, const FusionLeaves *own,
                             Instruction *other, bool is_moved, uint32_t *spare,
                             Arena *scratch);
/* Makes these the results: a tuple, without a name yet, if there are several. */
void fusion_set_results(Instruction *fusion, Instruction *const *inside, uint32_t count);
/* Drops from the fused computation what its root does not read, and operands read by nothing
 * else. */
void fusion_drop_unread(Instruction *fusion, Arena *scratch);

/* The value is what the kernel makes, or an element of that. */
bool fusion_is_result_of(const Instruction *value, const Instruction *kernel);
/* Result i, as an element where there are several. */
Instruction *fusion_result_value(Instruction *fusion, uint32_t i);

/* A way leads from `to` back to `from`, but not from its operand `from` itself or a result of that. The computation is
 * in order. */
bool fusion_leads_around(const Computation *comp, const Instruction *from,
                         const Instruction *to, Arena *scratch);

/* Of a reduction, or windows of one: a sum or product of floats that kernels keep in f32. */
bool reduction_is_kept_wider(const Instruction *reduce);
/* It has so few results of so many elements that pass_split_reductions splits it. */
bool reduction_wants_pieces(const Instruction *reduce);
/* One operation for which f(init, f(init, x)) is f(init, x). */
bool reduction_may_join_twice(const Instruction *reduce);

/* A fused sort of rows by a number, as steps by the number's digits: the last one, `fusion` became the first. NULL,
 * and nothing is changed: it does not ask for the order of one number. */
Instruction *sort_by_digits(Module *m, PassContext *cx, Computation *comp,
                            Instruction *fusion);

/* By the model, of the kernels that were added from instruction `first` on. */
double kernels_seconds(const PassContext *cx, const Computation *comp, uint32_t first);

#endif
