/* Instructions that are marked for cuDNN as graphs of a plan. */
#ifndef GXC_CODEGEN_LIBRARY_GRAPH_H
#define GXC_CODEGEN_LIBRARY_GRAPH_H

#include "ir/module.h"
#include "runtime/plan/builder.h"
#include "runtime/plan/plan.h"

enum {
    GRAPH_LEAST_CUDNN = 91000,       /* 9.10 */
    GRAPH_LEAST_CUDNN_FACTOR = 91300 /* 9.13: a factor behind a block-scaled product */
};

/* What a stored tensor of a graph is. */
typedef struct GraphOperand {
    const Instruction *value;
    size_t leaf;
    uint16_t access; /* PLAN_READ, PLAN_WRITE */
} GraphOperand;

typedef struct GraphOperands {
    GraphOperand data[PLAN_GRAPH_MOST_TENSORS];
    uint32_t count;
} GraphOperands;

/* Appends the graph of an instruction to a plan, flags (PLAN_GRAPH_x) added to its own; out: its
 * stored tensors in order. False: no library call of cuDNN's, and nothing was added. */
bool graph_describe(PlanBuilder *b, const Instruction *inst, uint32_t flags,
                    GraphOperands *out);

#endif
