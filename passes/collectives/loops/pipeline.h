/* What the kinds of pipelining share: the loops of a module one after the other, and what the
 * program reads of them afterwards. */
#ifndef GXC_PASSES_COLLECTIVES_LOOPS_PIPELINE_H
#define GXC_PASSES_COLLECTIVES_LOOPS_PIPELINE_H

#include "ir/analysis/loop.h"
#include "passes/collectives/loops/step.h"
#include "passes/pass.h"

/* A loop that is looked at. Its computations have no other caller; both are sorted, so that ids
 * ascend from operands to users. */
typedef struct PipelineLoop {
    Module *m;
    PassContext *cx;
    Arena *scratch;
    FreshIds *ids;
    Loop loop;
    Computation *caller;
    int64_t trips;          /* at least 1 */
    Induction induction;    /* trips -1: the count is known, its variable is not */
    Uses uses;              /* in the body */
    bool *has_successor;    /* by id in the body: a control edge leads from it */
    uint32_t *element_uses; /* by element: how many operands in the body read it */
    bool *is_tested;        /* by element: the condition reads it */
    int64_t bytes;          /* that are carried besides by now */
    uint32_t count;         /* collectives pipelined by now */
    Instruction **values;   /* out, by element: what replaces those of the old loop */
} PipelineLoop;

/* Does it to one loop: true if it did, p->values are set and p->loop.inst is the new loop. */
typedef bool PipelineFn(PipelineLoop *p);

PipelineFn pipeline_sink, pipeline_forward, pipeline_backward;

/* What the settings say of collectives of this opcode, a SettingMode. */
int64_t pipeline_mode(const PassSettings *s, OpCode op);
/* The collective may be moved in this mode, and is one of the form that all kinds take: one
 * operand, an array, no control edges, not moved before. */
bool pipeline_is_candidate(const PipelineLoop *p, const Instruction *inst, int64_t mode);
/* There is room for one more that carries so many bytes; takes it. */
bool pipeline_take(PipelineLoop *p, int64_t bytes);

/* The loop again, over `init`, which runs `trips` steps from step `first` on; p->loop.inst becomes it.
 * Its condition's and body's parameters get the shape of `init`. */
void pipeline_renew_loop(PipelineLoop *p, Instruction *init, int64_t first,
                         int64_t trips);
/* The body hands on `count` more values. */
void pipeline_extend_body(PipelineLoop *p, Instruction *const *added, uint32_t count);
/* A tuple of the values and those added, in their computation. */
Instruction *pipeline_longer_tuple(PipelineLoop *p, Instruction *const *values,
                                   uint32_t count, Instruction *const *added,
                                   uint32_t added_count);
/* By id in the body: `values` for what reads the elements of its parameter, nothing else. */
Instruction **pipeline_with_elements(PipelineLoop *p, Instruction *const *values);
/* Members of a region in the order of the body. */
void pipeline_sort_members(Instruction **members, uint32_t count);

#endif
