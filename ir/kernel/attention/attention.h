/* softmax(mask(cap * tanh(scale * q k' / cap) + bias)) v, found in a graph of dots, reductions and elementwise
 * operations, whatever order of dimensions, of operands and of what moves between them it is written in. Nothing
 * here knows a library: who makes a kernel of an attention says which ones it can make.
 *
 * Found are: heads in any dimension and any number of them that share one k and v (GQA, MQA); scales on q, on k
 * or on the scores; a cap; masks by select, by an array that is added (0 or a fill), or by both, of which
 * comparisons of row and column numbers become a band (causal, windows) and all others stay predicates; an array
 * that is added; the maximum taken off or not; divided by the sums before the second dot or behind it; roundings
 * anywhere; weights that are 0 where scores do not count (softmax with `where`); a sink, one more score of each row
 * that takes part in the maximum and the sum only. Arrays are given where they
 * lie: past what only moves them. */
#ifndef GXC_IR_KERNEL_ATTENTION_ATTENTION_H
#define GXC_IR_KERNEL_ATTENTION_ATTENTION_H

#include "ir/kernel/element_map.h"

/* Dimensions of an AttentionArray. */
enum {
    ATTENTION_BATCH,
    ATTENTION_HEADS,
    ATTENTION_POSITIONS, /* rows of q and o, columns of k and v */
    ATTENTION_DEPTH,
    ATTENTION_RANK
};

/* An array [batch, heads, positions, depth], where it lies. */
typedef struct AttentionArray {
    const Instruction *base;                               /* NULL: there is none */
    int64_t dims[ATTENTION_RANK], strides[ATTENTION_RANK]; /* elements of the base */
} AttentionArray;

/* Which scores count, by row and column. */
typedef struct AttentionBand {
    bool has_right, has_left; /* column <= row + right, column + left > row */
    int64_t right, left;
    int64_t row_weight, rows; /* of the row's digit; rows 0: no band */
} AttentionBand;

/* A score counts only where this is true, or, negated, false. */
typedef struct AttentionMask {
    Mapped predicate;
    bool is_negated;
} AttentionMask;

enum { ATTENTION_MASKS = 4 };

/* What takes part in it, for a gradient to take up. The index space of all maps are the elements of the
 * second dot's result, in row-major order, and the columns as one more digit of column_weight. */
typedef struct AttentionParts {
    uint32_t k_side, v_side; /* the operands of the two dots that k and v are */
    Mapped scores;           /* the first dot */
    Mapped masked;           /* what the exponentials are of, less the maxima */
    Mapped exponentials;
    Mapped weights;       /* operand of the second dot */
    Mapped bias;          /* inst is NULL: none */
    bool bias_is_outside; /* it is added to what masks fill, or they are added to it */
    Mapped mask; /* the predicate by which scores count, the last of mask_steps */
    uint32_t mask_steps;
    bool mask_is_negated;
    double mask_fill;        /* of the last of them, as it is among the scores */
    bool mask_is_added;      /* one of them is added to what others have filled, ... */
    bool mask_swallows_bias; /* ... in f16: what is no fill is rounded away beside one */
    const Instruction *maxima,
        *sums;                 /* reductions; no maxima where they are not taken off */
    double least_maximum;      /* that the maxima begin from, or are bounded by */
    bool has_statistics;       /* maxima, moved, can be added to the sums' logarithms */
    Mapped rows;               /* the sums */
    ElementMap of_maxima;      /* in the index space of the sums, where has_statistics */
    const Instruction *output; /* the second dot */
    int64_t column_weight, columns;
} AttentionParts;

typedef struct Attention {
    AttentionArray q, k, v, o;
    AttentionArray bias; /* [1 or batch, 1 or heads, 1 or rows, columns] */
    AttentionArray
        statistics; /* [batch, heads, rows, 1], where the sums lie; base NULL: not by such steps */
    double scale;
    double cap;  /* cap * tanh(scores / cap); 0: none */
    double fill; /* what stands for scores that do not count: its exponential is 0 */
    double largest_fill; /* where several masks have one each */
    AttentionBand band;
    AttentionMask masks[ATTENTION_MASKS]; /* what else must hold */
    uint32_t mask_count;
    /* A score of each row that has no column of v: it adds to the sums only. inst is NULL: there is none. */
    Mapped sink;
    bool empty_is_zero; /* rows of which no score counts are 0, not the mean of all */
    bool fills_differ;  /* where no score counts the largest fills do, not all columns */
    AttentionParts parts;
} Attention;

/* The attention whose result, moved and rounded perhaps, is `last`. Each row has a column within the band; with
 * other masks, all of one fill, a row may have none, and is then the mean over all columns, as the softmax of equal
 * scores, or 0. */
bool attention_match(const Instruction *last, Attention *out);

/* What an attention keeps of each row for its gradient; NULL: nothing. */
typedef struct AttentionStatistics {
    const Instruction *logs;   /* log(sums) + maxima, or without those */
    const Instruction *maxima; /* by themselves; NULL: among the logarithms */
} AttentionStatistics;

/* The attention that is all of a fusion: its result, or a tuple of that and its statistics. */
bool attention_match_fusion(const Instruction *fusion, Attention *out,
                            AttentionStatistics *statistics);

/* A bias may leave a row scores only beside which the logarithm of their number is rounded away: -1e9, say. */
bool attention_keeps_maxima(const Attention *a);

/* Where has_statistics: dimensions of the maxima in the order of the sums', with which they can be added to those. */
void attention_maxima_order(const AttentionParts *parts, int64_t *dims);

/* -- between the files of this recogniser ----------------------------------------------------------- */

enum { ATTENTION_STEPS = 32 };

/* From the scores as the softmax takes them to the first dot. */
bool attention_match_scores(Mapped x, Attention *a);
/* Each row has a column that counts. */
bool attention_band_fits(const AttentionBand *b, int64_t columns);
/* Takes up what the predicate says; false: too much of it. */
bool attention_take_mask(const Mapped *predicate, bool is_negated, Attention *a);
/* What is so small that its exponential is 0 beside any score. */
bool attention_is_fill(const Instruction *value, double *fill);
/* A scalar constant, repeated perhaps. */
bool attention_splat(const Instruction *inst, double *value);
/* x * splat or x / splat: the operand that is x. */
bool attention_scaling(const Instruction *inst, uint32_t *operand, double *factor);
/* Past what moves, rounds or repeats elements. */
bool attention_peel_repetitions(Mapped *m);
/* Past one instruction that moves or widens the view's elements. */
bool attention_step(StridedView *v);
/* To where it lies in memory: past what moves it or widens it, and, where scale is given, past factors. */
void attention_follow(StridedView *v, double *scale);

/* Arrays of an attention and of its gradient, as digits of the index space and steps in memory. */
typedef enum AttentionRole {
    ATTENTION_Q,
    ATTENTION_K,
    ATTENTION_V,
    ATTENTION_O, /* of a gradient: that of the result */
    ATTENTION_BIAS,
    ATTENTION_STATISTICS,
    ATTENTION_RESULT, /* of a gradient: the attention's own */
    ATTENTION_DQ,
    ATTENTION_DK,
    ATTENTION_DV,
    ATTENTION_ARRAYS
} AttentionRole;
typedef struct AttentionDigits {
    ElementDigits digits[ATTENTION_ARRAYS];
    const Instruction
        *base[ATTENTION_ARRAYS];     /* NULL: it has none, but for the first four */
    int64_t depth[ATTENTION_ARRAYS]; /* size of the dimension without digits */
} AttentionDigits;
/* Steps of an operand of a dot in the index space of the dot's result, but for what is summed over: that is of `depth`
 * elements side by side. Where scale is given, past factors. */
bool attention_dot_side(const Mapped *dot, uint32_t side, double *scale,
                        const Instruction **base, ElementDigits *out, int64_t *depth);
/* Steps of an array by its own map, past what moves or widens it. */
bool attention_array_digits(const Mapped *m, ElementDigits *out,
                            const Instruction **base);
/* Takes up the first dot's operands, and their factors. */
bool attention_score_operands(Attention *a, AttentionDigits *d);
bool attention_bias_digits(const Attention *a, AttentionDigits *d);
/* The pieces of several dimensions are one that lies without gaps. */
bool attention_is_dense(const StridedView *v, const int64_t *dims, uint32_t count,
                        int64_t *size);
bool attention_has_digit(const ElementDigits *d, int64_t weight);

/* False: not by four dimensions with a stride each. */
bool attention_arrange(AttentionDigits *d, const AttentionBand *band,
                       AttentionArray out[ATTENTION_ARRAYS]);

#endif
