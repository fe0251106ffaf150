/* What a plan takes and does, in numbers: bytes of memory, commands, bytes moved. */
#include "runtime/plan/walk.h"

PlanSizes plan_sizes(const Plan *p)
{
    PlanSizes s = {0};
    for (uint32_t i = 0; i < p->arguments_count; i++) {
        s.arguments += p->arguments[i].bytes;
    }
    for (uint32_t i = 0; i < p->results_count; i++) {
        s.results += p->results[i].bytes;
        s.aliased += p->results[i].alias != PLAN_NONE ? p->results[i].bytes : 0;
    }
    for (uint32_t i = 0; i < p->allocations_count; i++) {
        const PlanAllocation *a = &p->allocations[i];
        if (a->kind == PLAN_TEMP) {
            s.temp += a->bytes;
        } else if (a->kind == PLAN_WORKSPACE) {
            s.workspace += a->bytes;
        } else if (a->kind == PLAN_CONSTANT) {
            s.constants += a->bytes;
        }
    }
    s.peak = s.arguments + s.results - s.aliased + s.constants + s.temp;
    return s;
}

static uint64_t arg_bytes(const Plan *p, const PlanArg *a)
{
    if (a->tag != PLAN_ARG_SLICE && a->tag != PLAN_ARG_TENSOR_MAP) {
        return 0;
    }
    uint32_t slice = a->tag == PLAN_ARG_SLICE ? a->index : p->tensor_maps[a->index].slice;
    uint64_t bytes = a->value ? a->value : p->slices[slice].bytes;
    return bytes * (a->access == (PLAN_READ | PLAN_WRITE) ? 2 : a->access != 0);
}

static void count_command(const Plan *p, const PlanCommand *c, uint64_t times,
                          PlanCounts *n)
{
    switch ((PlanCommandKind)c->kind) {
    case PLAN_LAUNCH:
    case PLAN_MATMUL:
        n->launches++;
        break;
    case PLAN_COPY:
    case PLAN_FILL:
        n->copies++;
        break;
    case PLAN_COLLECTIVE:
        n->collectives++;
        break;
    case PLAN_HOST_CALL:
        n->host_calls++;
        break;
    case PLAN_WHILE:
    case PLAN_CONDITIONAL:
    case PLAN_CALL:
    case PLAN_ASYNC_START:
    case PLAN_ASYNC_DONE:
    case PLAN_COMMAND_KINDS:
        return;
    }
    for (uint32_t i = 0; i < c->arg_count; i++) {
        if (c->kind != PLAN_MATMUL || i != PLAN_MATMUL_WORKSPACE) {
            n->bytes_accessed += times * arg_bytes(p, &p->args[c->args + i]);
        }
    }
}

PlanCounts plan_counts(const Plan *p)
{
    PlanCounts n = {0};
    PlanWalk w = {.plan = p};
    uint64_t times[PLAN_MAX_DEPTH + 1] = {1}; /* that commands at each depth run */
    for (uint32_t i = 0; i < p->commands_count; i++) {
        while (plan_walk_next_region(&w, i)) {
        }
        const PlanCommand *c = &p->commands[i];
        count_command(p, c, times[w.depth], &n);
        if (c->subtree > 1) {
            bool known = c->kind == PLAN_WHILE && p->loops[c->index].trip_count >= 0;
            uint64_t trips = known ? (uint64_t)p->loops[c->index].trip_count : 1;
            times[w.depth + 1] = times[w.depth] * trips;
            plan_walk_open(&w, i);
        }
    }
    return n;
}
