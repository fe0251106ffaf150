/* The command of a graph, with its plan and workspace. See cudnn.h. */
#include "codegen/library/cudnn.h"

#include <string.h>

#include "codegen/library/graph.h"
#include "codegen/library/planner.h"
#include "ir/kernel/block_scaled.h"
#include "ir/kernel/library.h"
#include "ir/kernel/tuning.h"

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

/* As the tuning file names it: all that the library knows of it. */
static const char *graph_key(Variant *v, uint32_t graph)
{
    const PlanBuilder *b = &v->plan;
    const PlanGraph *g = &b->graphs[graph];
    size_t tensors = g->tensor_count * sizeof(PlanGraphTensor);
    size_t operations = g->operation_count * sizeof(PlanGraphOperation);
    char *bytes = arena_alloc(v->arena, sizeof g->flags + tensors + operations);
    memcpy(bytes, &g->flags, sizeof g->flags);
    memcpy(bytes + sizeof g->flags, b->graph_tensors + g->tensors, tensors);
    memcpy(bytes + sizeof g->flags + tensors, b->graph_operations + g->operations,
           operations);
    return tuning_key(v->arena, bytes, sizeof g->flags + tensors + operations, v->target);
}

/* What the tuning file says of the graph. False: it says nothing, and must. */
static bool add_choice(Variant *v, const Instruction *inst, uint32_t graph,
                       const char *key)
{
    const Tuning *t = v->options->tuning;
    const TuningEntry *e = tuning_find(t, key);
    if (e == NULL && t != NULL && t->is_complete) {
        diag_error(v->module->diag, inst->span,
                   "%s, by cudnn: no entry of %s has its key %s", inst->name, t->file,
                   key);
        return false;
    }
    if (e != NULL && e->configuration != NULL) {
        PlanChoice c = {.graph = graph,
                        .version = e->configuration->version,
                        .configuration = e->configuration->number};
        plan_add_choices(&v->plan, &c, 1);
    }
    return true;
}

/* For a tuner, which asks the library itself what else it has. */
static void add_tunable(Variant *v, const GraphOperands *operands, uint32_t command,
                        const char *key)
{
    uint32_t dtypes[PLAN_GRAPH_MOST_TENSORS + 1] = {0};
    for (uint32_t i = 0; i < operands->count; i++) {
        const GraphOperand *o = &operands->data[i];
        if (o->access & PLAN_WRITE)
            dtypes[i] = plan_string(
                &v->plan, dtype_info[shape_leaf(o->value->shape, o->leaf)->dtype].name);
    }
    PlanTunable t = {.command = command,
                     .key = plan_string(&v->plan, key),
                     .dtypes = plan_add_refs(&v->plan, dtypes, operands->count + 1)};
    plan_add_tunables(&v->plan, &t, 1);
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
    uint32_t before = b->graphs_count;
    if (!graph_describe(b, inst, planner_flags(v->options->planner), operands) ||
        !settle(v, inst, &graph))
        return false;
    bool is_new = graph == before;
    const char *key = is_new ? graph_key(v, graph) : NULL;
    if (is_new && !add_choice(v, inst, graph, key))
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
    uint32_t command =
        variant_command(v, PLAN_GRAPH, inst, graph, args, operands->count + 1);
    if (is_new && v->options->candidates != 0)
        add_tunable(v, operands, command, key);
    uint32_t least = block_scaled_is_graph(inst) && inst->operand_count == 5
                         ? GRAPH_LEAST_CUDNN_FACTOR
                         : GRAPH_LEAST_CUDNN;
    if (b->info[0].min_cudnn < least)
        b->info[0].min_cudnn = least;
    return true;
}
