/* Emitters, as the middle of the compiler sees them: which kind of kernel a fusion becomes, and
 * whether it can. The kind stands in the fusion's backend_config, {"emitter":"row_reduction"}, so that
 * text shows it and may ask for it. Pure: no LLVM; the code is in codegen/kernel.
 *
 * A fusion with one operation of any kind that has an emitter is always legal for one. Its results
 * are the leaves of the fused computation's root. */
#ifndef GXC_IR_KERNEL_EMITTER_H
#define GXC_IR_KERNEL_EMITTER_H

#include "ir/analysis/target.h"
#include "ir/module.h"

/* Arguments that a kernel gets without asking how many fit: before PTX 8.1 they may have 4352 bytes; since
 * then 32764. */
#define EMITTER_MOST_ARRAYS 500
/* Dimensions of an array in a kernel. */
#define EMITTER_MOST_RANK 64

typedef enum {
#define EMITTER(id, name, doc) EMITTER_##id,
#include "ir/kernel/kernels.def"
    EMITTER_COUNT
} EmitterKind;

/* "row_reduction" */
const char *emitter_name(EmitterKind kind);
/* EMITTER_COUNT: no emitter has this name. */
EmitterKind emitter_find(const char *name, size_t length);

/* What the fusion's backend_config asks for; EMITTER_COUNT if it names no emitter (that we know). */
EmitterKind emitter_of(const Instruction *fusion);
/* Writes the kind into the backend_config; what else stands there stays. */
void emitter_set(Instruction *fusion, EmitterKind kind);

/* The best legal emitter for the fused computation; EMITTER_COUNT if none can make it. `target` may
 * be NULL. */
EmitterKind emitter_choose(const Instruction *fusion, const Target *target);
/* NULL, or why this emitter cannot make the fusion: static text. */
const char *emitter_illegal(const Instruction *fusion, EmitterKind kind);

/* The fusion's operand whose value must lie in the buffer of result `leaf` when the kernel starts
 * (the emitter changes only part of it): the result is an alias of that operand or a copy of it was
 * made there. -1: the emitter writes all of the result. */
int64_t emitter_in_place(const Instruction *fusion, EmitterKind kind, uint32_t leaf);

/* The kernel reads operand `operand` only at the elements of result `leaf` that the same thread
 * writes afterwards, so that both may lie in one buffer. */
bool emitter_writes_where_it_reads(const Instruction *fusion, uint32_t leaf,
                                   uint32_t operand);

/* Results that depend on operand `operand` have `elements` elements and read it at their own index
 * only. */
bool emitter_reads_at_results(const Instruction *fusion, uint32_t operand,
                              int64_t elements);

/* Elements that each update of an update_slice kernel writes; -1: it has none. */
int64_t emitter_update_elements(const Instruction *fusion);

/* -- results of a fused computation ------------------------------------------------------------ */

/* What leaf `leaf` of the root's shape is: instruction `inst`, of which it is leaf `inst_leaf` (0 of
 * an array). Tuples and get-tuple-elements are looked through. */
typedef struct FusionResult {
    const Instruction *inst;
    uint32_t inst_leaf;
    const Shape *shape; /* of the leaf */
} FusionResult;
uint32_t emitter_result_count(const Instruction *fusion);
FusionResult emitter_result(const Instruction *fusion, uint32_t leaf);

/* The dimension along which a reduce-window is cumulative - window i holds all elements up to i (from i
 * on: *is_reverse) - and whose other dimensions it leaves alone; -1: it is none. */
int64_t emitter_scan_dimension(const Instruction *inst, bool *is_reverse);

/* NULL if the results and the heroes have the same dimensions, the results one layout, and every way from a
 * result to a hero leads through elementwise operations: heroes are needed at the results' own index only.
 * Else the reason. */
const char *emitter_epilogue_illegal(const Instruction *fusion,
                                     const Instruction *const *heroes,
                                     uint32_t hero_count);

/* NULL if every way from `from` to a hero leads through elementwise operations of its dimensions. */
const char *emitter_reach_illegal(const Instruction *from,
                                  const Instruction *const *heroes, uint32_t hero_count);

/* The only instruction of this opcode in the fused computation; NULL if there is none or several. */
const Instruction *emitter_hero(const Instruction *fusion, OpCode op);

#endif
