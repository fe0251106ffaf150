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

static const size_t counters[PLAN_COMMAND_KINDS] = {
#define COMMAND(id, name, counts, ...) [PLAN_##id] = offsetof(PlanCounts, counts),
#include "runtime/plan/commands.def"
};

bool plan_command_works(uint32_t kind)
{
    return counters[kind] != offsetof(PlanCounts, control);
}

static uint64_t arg_bytes(const Plan *p, const PlanArg *a)
{
    if (a->tag != PLAN_ARG_SLICE) {
        return 0;
    }
    const PlanSlice *s = &p->slices[a->index];
    if (p->allocations[s->allocation].kind == PLAN_WORKSPACE) {
        return 0;
    }
    uint64_t bytes = a->value ? a->value : s->bytes;
    return bytes * (a->access == (PLAN_READ | PLAN_WRITE) ? 2 : a->access != 0);
}

static void count_command(const Plan *p, const PlanCommand *c, uint64_t times,
                          PlanCounts *n)
{
    ++*(uint64_t *)(void *)((char *)n + counters[c->kind]);
    for (uint32_t i = 0; plan_command_works(c->kind) && i < c->arg_count; i++) {
        n->bytes_accessed += times * arg_bytes(p, &p->args[c->args + i]);
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
            bool known = plan_regions(c) == PLAN_REGIONS_LOOP &&
                         p->loops[c->index].trip_count >= 0;
            uint64_t trips = known ? (uint64_t)p->loops[c->index].trip_count : 1;
            times[w.depth + 1] = times[w.depth] * trips;
            plan_walk_open(&w, i);
        }
    }
    return n;
}
