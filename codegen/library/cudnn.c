/* The command of a graph, with its plan and workspace. See cudnn.h. */
#include "codegen/library/cudnn.h"

#include <string.h>

#include "codegen/library/graph.h"
#include "codegen/library/planner.h"
#include "ir/kernel/block_scaled.h"
#include "ir/kernel/library.h"

enum { SCRATCH_ALIGNMENT = 256 };

/* Equal graphs have one record, which is made ready once. */
static bool is_same(const PlanBuilder *b, const PlanGraph *x, const PlanGraph *y)
{
    return x->flags == y->flags && x->tensor_count == y->tensor_count &&
           x->operation_count == y->operation_count &&
           memcmp(b->graph_tensors + x->tensors, b->graph_tensors + y->tensors,
                  x->tensor_count * sizeof(PlanGraphTensor)) == 0 &&
           memcmp(b->graph_operations + x->operations,
                  b->graph_operations + y->operations,
                  x->operation_count * sizeof(PlanGraphOperation)) == 0;
}

static void forget_last(PlanBuilder *b)
{
    const PlanGraph *g = &b->graphs[--b->graphs_count];
    b->graph_tensors_count = g->tensors;
    b->graph_operations_count = g->operations;
}

/* What was planned becomes part of the record. */
static void take_plan(PlanBuilder *b, uint32_t graph, const PlannedGraph *planned)
{
    PlanGraph *g = &b->graphs[graph];
    g->configurations = planned->configurations;
    g->scratch_bytes = (g->scratch_bytes + SCRATCH_ALIGNMENT - 1) / SCRATCH_ALIGNMENT *
                       SCRATCH_ALIGNMENT;
    g->workspace_bytes = g->scratch_bytes + planned->workspace_bytes;
    if (planned->plan_bytes == 0)
        return;
    g->cudnn_version = planned->cudnn_version;
    g->plan_bytes = planned->plan_bytes;
    g->plan = plan_add_graph_plans(b, planned->plan, (uint32_t)planned->plan_bytes);
}

/* The record of the graph that was added last: itself, or an equal one. */
static bool settle(Variant *v, const Instruction *inst, uint32_t *out)
{
    PlanBuilder *b = &v->plan;
    uint32_t last = b->graphs_count - 1;
    for (*out = 0; *out < last; ++*out) {
        if (is_same(b, &b->graphs[*out], &b->graphs[last])) {
            forget_last(b);
            return true;
        }
    }
    const PlannedGraph *planned = planner_plan(v->options->planner, v->target, b, last);
    if (planned->why == NULL) {
        take_plan(b, last, planned);
        return true;
    }
    diag_error(v->module->diag, inst->span,
               "%s is marked for cuDNN, which cannot do it on %s: %s", inst->name,
               v->target->name, planned->why);
    return false;
}

bool cudnn_add_graph(Variant *v, const Instruction *inst)
{
    PlanBuilder *b = &v->plan;
    GraphOperands *operands = ARENA_NEW(v->arena, GraphOperands);
    uint32_t graph;
    if (v->options->planner == NULL) {
        diag_error(v->module->diag, inst->span,
                   "%s is marked for cuDNN, which --libraries does not allow",
                   inst->name);
        return false;
    }
    if (!graph_describe(b, inst, planner_flags(v->options->planner), operands) ||
        !settle(v, inst, &graph))
        return false;
    PlanArg args[PLAN_GRAPH_MOST_TENSORS + 1] = {{0}};
    for (uint32_t i = 0; i < operands->count; i++) {
        const GraphOperand *o = &operands->data[i];
        args[i] = variant_slice_arg(v, o->value, o->leaf, o->access);
    }
    uint64_t workspace = b->graphs[graph].workspace_bytes;
    if (workspace != 0)
        args[operands->count] = (PlanArg){.tag = PLAN_ARG_SLICE,
                                          .access = PLAN_WRITE,
                                          .index = variant_workspace_slice(v, workspace)};
    variant_command(v, PLAN_GRAPH, inst, graph, args, operands->count + 1);
    uint32_t least = block_scaled_is_graph(inst) && inst->operand_count == 5
                         ? GRAPH_LEAST_CUDNN_FACTOR
                         : GRAPH_LEAST_CUDNN;
    if (b->info[0].min_cudnn < least)
        b->info[0].min_cudnn = least;
    return true;
}
