/* Dots of which a factor is made of other dots, by element: as a gradient of an attention is, once the statistics of
 * its rows are arrays. The first ones' results, over rows and columns, need not be in memory.
 *
 *   w[m,n] = f(sum over d of x[m,d] y[n,d], ...),  o[m,e] = sum over n of w[m,n] z[n,e] */
#ifndef GXC_IR_KERNEL_DOT_CHAIN_H
#define GXC_IR_KERNEL_DOT_CHAIN_H

#include "ir/kernel/attention/attention.h"

enum { DOT_CHAIN_MOST = 2 /* outer dots, and inner ones */ };

typedef struct DotChain {
    uint32_t count;
    const Instruction *dots[DOT_CHAIN_MOST]; /* the outer ones */
    uint32_t weights[DOT_CHAIN_MOST];        /* their operand that is made of dots */
    uint32_t inner_count;
    DType factor; /* what all factors are multiplied as: 16 bits */
} DotChain;

/* Of a fusion's computation; NULL, or why it is none. */
const char *dot_chain_find(const Instruction *fusion, Arena *scratch, DotChain *out);

/* How an operand of a dot is asked for as such a factor: past what widens it. */
const Instruction *dot_chain_factor(const Instruction *operand, DType factor);

/* Sizes of a dot's result and terms, as the chain sees them. */
typedef struct DotSizes {
    int64_t batch, sides[2], depth;
} DotSizes;
DotSizes dot_sizes(const Instruction *dot);

/* Which of the scores of an exponential may count, where `rows` and `columns` are the dimensions of its array; false:
 * all may. A row is then what has a statistic of its own. *fill: the largest number that stands for scores, where other
 * masks leave some out, too, so that a row may have none; 0: there are no others. */
bool dot_chain_band(const Instruction *exponential, uint32_t rows, uint32_t columns,
                    AttentionBand *band, double *fill);
/* Where `zero` is 0, `inst` is, but for rows whose statistic is below *least, which this raises as far as it must. */
bool dot_chain_keeps_zero(const Instruction *inst, const Instruction *zero,
                          const Instruction *statistics, double *least);

#endif
