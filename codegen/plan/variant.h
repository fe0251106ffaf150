/* One variant in the making: the plan of a module for one GPU target, and what it asks of
 * emission. No LLVM in this folder: a plan is made without it. */
#ifndef GXC_CODEGEN_PLAN_VARIANT_H
#define GXC_CODEGEN_PLAN_VARIANT_H

#include "codegen/codegen.h"
#include "codegen/plan/buffers.h"
#include "codegen/plan/constant_pool.h"
#include "codegen/request.h"
#include "ir/analysis/alias.h"
#include "ir/analysis/loop_idle.h"
#include "runtime/plan/builder.h"
#include "runtime/plan/plan.h"

/* That libgxrt asks of the caller's buffers. Others are aligned better, which no access needs; a kernel that knew
 * it could not be used for both. */
#define VARIANT_ARGUMENT_ALIGNMENT 16
#define VARIANT_STATE_BYTES 16 /* of the counter of rng-get-and-update-state */

/* A command of the plan, and what it was made from. */
typedef struct VariantCommand {
    const Instruction *inst;
    PlanCommandKind kind;
    uint32_t index; /* of a launch: its kernel in the plan */
} VariantCommand;

typedef struct Variant {
    Arena *arena;
    const CodegenOptions *options;
    const Target *target;
    Module *module;
    ConstantPool *pool;
    AliasSets *aliases;
    Buffers *buffers;
    const LoopSlices *loop_slices;
    const LoopIdle *loop_idle;
    uint32_t *
        counters; /* [computation id] of the loop with this body, where it has such slices */
    PlanBuilder plan;
    uint32_t *slices; /* [set_count] slice of each set; PLAN_NONE until asked for */
    uint32_t temp_allocation[BUFFER_COLOURS]; /* by colour */
    uint32_t workspace_slice, state_slice, ticket_allocation;
    struct Scratch {
        uint32_t stream, allocation;
    } * scratch; /* one for each stream that has kernels with scratch memory */
    size_t scratch_count, scratch_capacity;
    Module
        *pieces; /* computations of kernels that take pieces of arrays; NULL: none yet */
    KernelRequest *requests; /* in the order of plan.kernels */
    size_t request_count, request_capacity;
    uint32_t *request_table; /* hash table of request numbers + 1 */
    size_t request_slots;
    uint32_t nesting;
    uint64_t times; /* that the commands being made run: trip counts, 1 where not known */
    uint32_t stream; /* of the commands that are being made */
    const Instruction
        *started; /* the async-start whose computation is being made, or NULL */
    uint32_t **start_streams; /* [computation id][instruction id] stream of a start */
    uint32_t *streams_of[PLAN_STREAM_KINDS]; /* plan stream by index; 0: not made yet */
    struct AsyncSlot {
        const Instruction *start;
        uint32_t slot;
    } * async; /* started and not done yet */
    size_t async_count, async_capacity;
    VariantCommand *commands; /* in the order of plan.commands */
    size_t command_count, command_capacity;
    Cubin cubin;
    const void *emu;
    size_t emu_bytes;
    void *images; /* of the plan's images, one behind the other */
    size_t image_bytes;
    CodegenReport report;
} Variant;

/* -- codegen/plan/variant.c: what commands are made of -- */

/* The slice of an alias set, of a leaf's set, of the state that random numbers come from (one for the
 * program); made on first use. */
uint32_t variant_set_slice(Variant *v, uint32_t set);
uint32_t variant_state_slice(Variant *v);
/* What libraries work in, all in the same memory: at least so many bytes. */
uint32_t variant_workspace_slice(Variant *v, uint64_t bytes);
/* What a kernel on the variant's stream works in: so many bytes, which its stream's next kernel may have. */
uint32_t variant_scratch_slice(Variant *v, uint64_t bytes);
/* What the blocks of a launch are counted in: no other launch has it, and each leaves it 0, as it was at first. */
uint32_t variant_ticket_slice(Variant *v, uint64_t bytes);
uint32_t variant_slice(Variant *v, const Instruction *inst, size_t leaf);
PlanArg variant_slice_arg(Variant *v, const Instruction *inst, size_t leaf,
                          uint16_t access);
/* So many bytes of it, from `offset` on. */
PlanArg variant_part_arg(Variant *v, const Instruction *inst, uint64_t offset,
                         uint64_t bytes, uint16_t access);
/* The piece that a transfer takes or puts, in its array. */
PlanArg variant_piece_arg(Variant *v, const LoopSlice *transfer, uint64_t bytes,
                          uint16_t access);

/* What commands and kernels of an instruction are called: its name; of all that an async-start does the start's,
 * as dumps write both in one. */
const char *variant_name(const Variant *v, const Instruction *inst);
/* Appends a command without children, named after `inst`. */
uint32_t variant_command(Variant *v, PlanCommandKind kind, const Instruction *inst,
                         uint32_t index, const PlanArg *args, uint32_t arg_count);

/* -- codegen/plan/signature.c -- */

void variant_add_signature(Variant *v);

/* -- codegen/plan/streams.c -- */

/* Streams of all starts. False after messages. */
bool variant_assign_streams(Variant *v);
uint32_t variant_start_stream(const Variant *v, const Instruction *start);
/* The stream of a collective that is no start. */
uint32_t variant_collective_stream(Variant *v);

/* -- codegen/plan/collectives.c -- */

/* The command of a collective, on the stream of the variant. False after messages. */
bool variant_collective_command(Variant *v, const Instruction *inst);

/* -- codegen/plan/async.c: false after messages -- */

bool variant_add_collective(Variant *v, const Instruction *inst);
/* `make` adds what the start starts. */
bool variant_add_async_start(Variant *v, const Instruction *start,
                             bool (*make)(Variant *v, const Instruction *start));
void variant_add_async_done(Variant *v, const Instruction *done);

/* -- codegen/plan/commands.c: false after messages -- */

/* The commands of what a computation does, in order. */
bool variant_add_computation(Variant *v, const Computation *comp);
/* Signature, allocations, command tree and kernels. */
bool variant_make_commands(Variant *v);

/* -- codegen/plan/description.c: for those who look at the plan, when its commands are there -- */

void variant_describe(Variant *v);

/* -- codegen/plan/array_pieces.c -- */

typedef struct PieceLaunch {
    const Instruction *
        fusion; /* with pieces of arrays for operands; the launch's own: there are none */
    const int64_t *
        offsets; /* [operands] bytes: where the piece begins; -1: it is all; NULL: all are */
    const uint64_t *bytes; /* [operands] up to the piece's last element; NULL as above */
} PieceLaunch;

PieceLaunch variant_pieces(Variant *v, const Instruction *fusion);

/* -- codegen/plan/requests.c -- */

/* The kernel of a fusion: an equal one that exists, or a new request. Index in v->requests and
 * plan.kernels; PLAN_NONE after a message. The launch becomes one with whole arrays if its
 * kernel cannot be made of pieces. */
uint32_t variant_kernel(Variant *v, const Instruction *fusion, PieceLaunch *launch);
/* Makes the kernels that a tuner may launch in place of the fusion's, once for each key of the tuning file. */
void variant_add_candidates(Variant *v, const Instruction *fusion,
                            const PieceLaunch *launch, uint32_t command);

#endif
