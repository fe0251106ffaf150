/* How items are distributed over a group of threads: the loop in which each thread does its own. */
#ifndef GXC_CODEGEN_KERNEL_DISTRIBUTION_H
#define GXC_CODEGEN_KERNEL_DISTRIBUTION_H

#include "codegen/element/emit.h"

/* Zero at first; the same for all walks over the same items. */
typedef struct DistributionKept {
    const IndexExpr *thread,
        *tail; /* number of the thread; where not all have a last item: 0 for others */
    LLVMValueRef has_tail; /* i1 */
} DistributionKept;

typedef struct Distribution {
    LLVMValueRef thread; /* number in the group, of index_type */
    int64_t threads, items;
    /* Each thread has the items between those of its neighbours, so that what threads find can be put
     * together in the order of the items; else they lie `threads` apart, and accesses side by side. */
    bool in_order;
    int64_t unroll; /* items whose elements a thread reads before it uses them; 0: one */
    /* NULL, or: the items of a thread are few and walked over several times. Their code stands outside of
     * loops and branches, so that what one walk computed the next ones have in registers. Not in order. */
    DistributionKept *kept;
} Distribution;

/* Code for one item; carried: the values so far, then the next ones. is_start (i1; NULL: false): it is the
 * first item of a thread that is not the first one. */
typedef void DistributionFn(Emit *e, const void *user, const IndexExpr *item,
                            LLVMValueRef is_start, LLVMValueRef *carried);

/* carried: [count], at most EMIT_MOST_LEAVES. Thread 0 has item 0; where there are fewer items than threads,
 * thread i has item i, and those behind have none. */
void distribute_items(Emit *e, const Distribution *s, DistributionFn *body,
                      const void *user, LLVMValueRef *carried, unsigned count);

#endif
