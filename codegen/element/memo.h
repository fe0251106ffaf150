/* The values that a kernel has computed already, by what they are of: an element asked for twice is code once.
 * What was made inside a scope is forgotten where it ends (emit_scope_end). */
#ifndef GXC_CODEGEN_ELEMENT_MEMO_H
#define GXC_CODEGEN_ELEMENT_MEMO_H

#include "codegen/element/emit.h"

typedef struct Memo Memo;

typedef struct MemoEntry {
    const Instruction *inst; /* NULL: an index expression's code */
    const IndexExpr *const *index;
    uint32_t rank, lane;
    LLVMValueRef *values;   /* [lanes] */
    struct MemoEntry *next; /* in its bucket */
    uint32_t bucket;
} MemoEntry;

Memo *memo_create(Arena *a);

/* Of an instruction's elements at an index, or of an index expression (inst NULL, rank 1). NULL: not known here. `lane`
 * keeps apart what else may differ. */
MemoEntry *memo_find(Emit *e, const Instruction *inst, uint32_t rank,
                     const IndexExpr *const *index, uint32_t lane);
/* Index and values are copied. */
void memo_add(Emit *e, const Instruction *inst, uint32_t rank,
              const IndexExpr *const *index, uint32_t lane, const LLVMValueRef *values,
              uint32_t count);

#endif
