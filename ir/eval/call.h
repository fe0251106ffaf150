/* What an opcode's evaluator (eval_x, a row of ir/ops.def) works with.
 *
 * It reads call->operands and sets call->result, or - the opcodes that run computations or
 * wait for other devices - pushes a frame or parks, and is called again in its next phase.
 * Failures do not return (eval_fail). */
#ifndef GXC_IR_EVAL_CALL_H
#define GXC_IR_EVAL_CALL_H

#include "ir/base/bug.h"
#include "ir/eval/eval.h"
#include "ir/eval/pointer_map.h"
#include "ir/eval/value.h"
#include "ir/op_functions.h"

#define EVAL_RANK_MAX 64
#define EVAL_NESTING_MAX 64 /* of computations that cannot be run in batches */

typedef struct Eval Eval;
typedef struct Device Device;
typedef struct Frame Frame;

struct EvalCall {
    Eval *eval;
    Device *device;
    Frame *frame;
    const Instruction *inst;
    Value **operands; /* [inst->operand_count], borrowed */
    Value *result;    /* out */
    uint32_t
        phase;    /* 0 at first; what the function left there when it pushed or parked */
    Value *state; /* kept for the next phase; owned */
    Value
        *returned;  /* result of the computation that was pushed; owned by the function */
    bool parked;    /* out: call again (same phase) when another device has moved */
    Arena *scratch; /* until the instruction is done */
};

typedef struct CollectiveState CollectiveState;

struct Eval {
    const Module *module;
    EvalOptions options;
    int64_t replicas, partitions;
    uint32_t device_count;
    Device *devices;
    ValueHeap heap;
    Arena *arena;        /* plans, frames: until the evaluation ends */
    Arena *scratch;      /* until the instruction is done */
    PointerMap plans;    /* Computation -> Plan, made when first run */
    PointerMap programs; /* Computation -> Apply (ir/eval/apply.h) */
    uint8_t
        *effects; /* by Computation.id: 1 it has none, 2 it has some; NULL until asked */
    PointerMap groups; /* ReplicaGroups -> IntLists; send, recv -> what joins them */
    uint64_t steps;
    uint32_t nesting;
    bool unsupported; /* what an early end means: set by eval_unsupported */
    CollectiveState *collectives;
};

struct Device {
    uint32_t id; /* replica * partitions + partition */
    int64_t replica, partition;
    Frame *top;
    Frame *spare; /* frames to use again */
    Value *result;
    bool parked;
    uint64_t counter[2]; /* of rng and rng-get-and-update-state: low, high */
    uint64_t moved;      /* times that rounding.h has moved values */
};

/* Both end the evaluation; the message is prefixed by the instruction's name and opcode. */
GXC_NORETURN void eval_fail(const EvalCall *call, const char *format, ...)
    GXC_FORMAT(2, 3);
GXC_NORETURN void eval_unsupported(const EvalCall *call, const char *format, ...)
    GXC_FORMAT(2, 3);

/* Runs a computation in a new frame; the function is called again in `phase` with its root
 * in call->returned. Arguments are retained. */
void eval_push(EvalCall *call, const Computation *comp, uint32_t count,
               Value *const *arguments, uint32_t phase);
/* Runs a computation to its end at once, for reducers and the like that no batch program can
 * run. It must not wait for other devices. */
Value *eval_nested(EvalCall *call, const Computation *comp, uint32_t count,
                   Value *const *arguments);

/* A new array of a shape, not initialised; counted against the limit. */
Value *eval_array(EvalCall *call, const Shape *shape);
/* A new value for the instruction's result (for tuples: all leaves made), set as the result. */
Value *eval_result(EvalCall *call);
/* The operand's value to write on: itself where nobody else can see it, else a copy. */
Value *eval_take(EvalCall *call, uint32_t operand);
/* The value in the float types of a shape that is otherwise the same, for programs that mix them;
 * retained where it has them. */
Value *eval_as(EvalCall *call, Value *v, const Shape *shape);
/* The data of an array as elements of another type of programs that mix float types. */
const void *eval_data_as(EvalCall *call, const Value *x, DType t);
/* Room for count elements of size bytes, until the instruction is done; not initialised. */
void *eval_temp(EvalCall *call, size_t count, size_t size);

static inline Intern *eval_intern(const EvalCall *call)
{
    return call->eval->module->intern;
}

/* The next number of the device's generator (custom-call GetRngSeed). */
void eval_seed(EvalCall *call);

#endif
