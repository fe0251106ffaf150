/* Emitters: each makes one kind of kernel from a fusion. Which one a fusion gets is decided by
 * the fusion pass and stands in the fusion's backend_config; ir/kernel/kind.h names the
 * kinds and says what is legal. Codegen carries it out and decides nothing again. */
#ifndef GXC_CODEGEN_KERNEL_EMITTERS_H
#define GXC_CODEGEN_KERNEL_EMITTERS_H

#include "codegen/element/emit.h"
#include "ir/kernel/kind.h"

/* What an emitter is given. Kernel arguments: the fused computation's parameters by number,
 * then the leaves of its result. Where kernel_in_place gives an operand, the result's buffer holds that
 * operand's value when the kernel starts. Rooms with no elements are never touched. */
typedef struct EmitterInput {
    Arena *arena;
    LLVMModuleRef module; /* kernels share one */
    const Target *target;
    const Instruction *fusion;
    const char *name;      /* of the kernel */
    const KernelArg *args; /* [arg_count] */
    uint32_t arg_count;
    bool contract; /* a * b + c may become fma */
} EmitterInput;

typedef Kernel *EmitterFn(const EmitterInput *in);

#define KERNEL(id, name, doc) EmitterFn emitter_##name;
#include "ir/kernel/kernels.def"

/* The emitter of a kind; NULL if codegen has none yet. */
EmitterFn *emitter_function(KernelKind kind);

/* -- what emitters share -------------------------------------------------------------- */

/* The kernel argument of result leaf i (fusion_result). */
uint32_t fusion_result_arg(const Instruction *fusion, uint32_t i);
/* Neighbouring elements are one piece of straight-line code: several lanes are worth it. */
bool inst_is_plain(const Instruction *inst);
/* No instruction but the heroes branches or loops for an element: several lanes are worth it. */
bool fusion_is_plain(const Computation *comp, const Instruction *const *heroes,
                     uint32_t count);
Emit *emitter_begin(const EmitterInput *in, Kernel *k, uint32_t lanes);

/* Bytes of shared memory that a block may have. */
uint64_t emitter_most_shared(const EmitterInput *in);

/* Computes and stores result leaf `leaf` at an index. */
void emit_result(Emit *e, const Instruction *fusion, uint32_t leaf,
                 const IndexExpr *const *index);
/* A kernel of at least so many threads (more than 0), without code yet. */
Emit *emit_grid(const EmitterInput *in, int64_t threads);
/* Threads 0, 1, ... of number `id` take `lanes` of `elements` elements (more than 0) each. */
typedef void ElementsFn(Emit *e, const void *user, const IndexExpr *linear);
void emit_elements(Emit *e, LLVMValueRef id, int64_t elements, uint32_t lanes,
                   ElementsFn *body, const void *user);
/* A kernel with a thread for every `lanes` of `elements` elements (more than 0): body gets the numbers
 * of a thread's elements, an expression of emit_lane. Left unfinished behind all of it. */
Emit *emit_for_elements(const EmitterInput *in, int64_t elements, uint32_t lanes,
                        ElementsFn *body, const void *user);
/* blockIdx.x * blockDim.x + threadIdx.x as an index. */
LLVMValueRef emit_thread_number(Emit *e);

#endif
