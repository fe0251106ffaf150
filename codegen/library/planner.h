/* What cuDNN makes of graphs, asked of gxc-cudnn: a process that is started with the first question
 * and lives as long as the planner. */
#ifndef GXC_CODEGEN_LIBRARY_PLANNER_H
#define GXC_CODEGEN_LIBRARY_PLANNER_H

#include "ir/base/arena.h"
#include "ir/kernel/graph_planner.h"
#include "runtime/plan/builder.h"
#include "runtime/plan/plan.h"

typedef struct PlannerOptions {
    const char *cuda; /* --cuda, or NULL */
    uint32_t flags;   /* PLAN_GRAPH_x that every graph gets */
    int64_t seconds;  /* that an answer may take: then ESCAPE_LATE */
} PlannerOptions;

/* What came of a graph. */
typedef struct PlannedGraph {
    const char *why; /* NULL: it can be done, the rest is known */
    uint32_t cudnn_version, configurations;
    uint64_t workspace_bytes; /* that the library wants, besides the graph's own */
    const char *plan;
    uint64_t plan_bytes; /* 0: not serialised */
} PlannedGraph;

typedef struct Planner Planner;

/* Lives in `a`, but for the process. */
Planner *planner_create(Arena *a, const PlannerOptions *options);
void planner_destroy(Planner *p); /* NULL is fine */
/* For passes. */
GraphPlanner *planner_interface(Planner *p);
uint32_t planner_flags(const Planner *p);
/* Graph `graph` of the builder, which has `flags` already. */
const PlannedGraph *planner_plan(Planner *p, const Target *target, const PlanBuilder *b,
                                 uint32_t graph);
/* Why cuDNN is not used though it was asked for; NULL: it was not asked, or is. */
const char *planner_trouble(const Planner *p);

#endif
