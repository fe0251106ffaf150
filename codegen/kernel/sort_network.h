/* A bitonic network over rows in shared memory, for sort and topk. Each element carries its first
 * position in the row, which decides between equal ones, so that the order is stable; a position of `size`
 * and more is padding, which goes behind everything. */
#ifndef GXC_CODEGEN_KERNEL_SORT_NETWORK_H
#define GXC_CODEGEN_KERNEL_SORT_NETWORK_H

#include "codegen/element/emit.h"

#define SORT_MOST EMIT_MOST_LEAVES /* arrays sorted together */

typedef struct SortOrder SortOrder;
/* i1: element a stands before element b. */
typedef LLVMValueRef SortCompareFn(Emit *e, const SortOrder *order, const LLVMValueRef *a,
                                   const LLVMValueRef *b);
struct SortOrder {
    SortCompareFn *compare;
    const Instruction *inst;
    uint32_t count;        /* arrays */
    DType type[SORT_MOST]; /* of their elements */
    bool largest;          /* topk */
};

typedef struct SortNetwork {
    Emit *e;
    const SortOrder *order;
    uint32_t size;         /* positions from here on are padding */
    uint32_t padded, log2; /* slots of a row: a power of two */
    uint32_t rows;         /* of a block, side by side */
    LLVMValueRef used; /* i32: sort_rows sorts 1 << used slots of one row; NULL: all */
    uint32_t base[SORT_MOST], positions; /* offsets in shared memory; positions are i32 */
} SortNetwork;

void sort_allocate(SortNetwork *s);
void sort_load(SortNetwork *s, LLVMValueRef slot, LLVMValueRef *out,
               LLVMValueRef *position);
void sort_store(SortNetwork *s, LLVMValueRef slot, const LLVMValueRef *v,
                LLVMValueRef position);
/* Sorts every row; barriers before and after. */
void sort_rows(SortNetwork *s);

/* for (n = first + thread; n < total; n += threads) */
void sort_each_begin(SortNetwork *s, GxLoop *loop, uint32_t first, uint32_t total);
void sort_each_end(SortNetwork *s, GxLoop *loop);

#endif
