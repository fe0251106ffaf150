/* Emitters: each makes the kernels of one family (kernels.def) from fusions. Which kind of kernel a fusion
 * becomes, its numbers and its grid are decided in the IR (ir/kernel/kernel.h); emitters carry that out and
 * decide nothing. */
#ifndef GXC_CODEGEN_KERNEL_EMITTERS_H
#define GXC_CODEGEN_KERNEL_EMITTERS_H

#include "codegen/element/emit.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/plans.h"

/* What an emitter is given. Kernel arguments: the fused computation's parameters by number,
 * then the leaves of its result, then scratch memory if its geometry has any. Where kernel_in_place gives an operand, the result's buffer holds that
 * operand's value when the kernel starts. Rooms with no elements are never touched. */
typedef struct EmitterInput {
    Arena *arena;
    LLVMModuleRef module; /* kernels share one */
    const Instruction *fusion;
    const KernelDesign *design;
    const char *name;      /* of the kernel */
    const KernelArg *args; /* [arg_count] */
    uint32_t arg_count;
    bool contract; /* a * b + c may become fma */
    /* Where the kernel is noted from its beginning on; NULL: nowhere. */
    Kernel *volatile *begun;
    /* codegen/gx/lines.h; NULL: code does not say of which it is. */
    const struct SourceLines *lines;
} EmitterInput;

typedef Kernel *EmitterFn(const EmitterInput *in);

#define KERNEL(id, name, family, ...) EmitterFn emitter_##family;
#include "ir/kernel/kernels.def"

/* The emitter of a kind. */
EmitterFn *emitter_function(KernelKind kind);

/* -- what emitters share -------------------------------------------------------------- */

/* The kernel argument of result leaf i (fusion_result). */
uint32_t fusion_result_arg(const Instruction *fusion, uint32_t i);
/* The kernel argument that is scratch memory. */
uint32_t emitter_scratch_arg(const EmitterInput *in);
/* Those that are KernelGeometry.partial_bytes and ticket_bytes. */
uint32_t emitter_partials_arg(const EmitterInput *in);
uint32_t emitter_tickets_arg(const EmitterInput *in);
/* The kernel's scalar (kernel_scalar). */
uint32_t emitter_scalar_arg(const EmitterInput *in);
/* The kernel with its grid and block, without code yet. */
Emit *emitter_begin(const EmitterInput *in);
/* Its code is all there: checks it, against the geometry that was promised, too. */
Kernel *emitter_finish(const EmitterInput *in, Emit *e);

/* Computes and stores result leaf `leaf` at an index. */
void emit_result(Emit *e, const Instruction *fusion, uint32_t leaf,
                 const IndexExpr *const *index);
/* Where a thread makes a result of this shape; false: it does not. */
typedef bool ResultIndexFn(Emit *e, const void *user, const Shape *result,
                           const IndexExpr **index);
/* Computes and stores all results that `where` has an index of. What may lie where an operand lies is stored when
 * everything was read. */
void emit_results(Emit *e, const EmitterInput *in, ResultIndexFn *where,
                  const void *user);
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
