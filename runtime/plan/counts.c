/* What a plan takes and does, in numbers: bytes of memory, commands, bytes moved. */
#include "runtime/plan/walk.h"

static uint64_t host_bytes(const Plan *p, const PlanValue *v)
{
    uint32_t allocation = p->slices[v->slice].allocation;
    return p->allocations[allocation].colour == PLAN_HOST_MEMORY ? v->bytes : 0;
}

PlanSizes plan_sizes(const Plan *p)
{
    PlanSizes s = {0};
    uint64_t temp = 0;
    for (uint32_t i = 0; i < p->arguments_count; i++) {
        s.arguments += p->arguments[i].bytes;
        s.host += host_bytes(p, &p->arguments[i]);
    }
    for (uint32_t i = 0; i < p->results_count; i++) {
        s.results += p->results[i].bytes;
        s.aliased += p->results[i].alias != PLAN_NONE ? p->results[i].bytes : 0;
        s.host += p->results[i].alias == PLAN_NONE ? host_bytes(p, &p->results[i]) : 0;
    }
    for (uint32_t i = 0; i < p->allocations_count; i++) {
        const PlanAllocation *a = &p->allocations[i];
        if (a->kind == PLAN_TEMP && a->colour == PLAN_HOST_MEMORY) {
            temp += a->bytes;
        } else if (a->kind == PLAN_TEMP) {
            s.temp += a->bytes;
        } else if (a->kind == PLAN_WORKSPACE) {
            s.workspace += a->bytes;
        } else if (a->kind == PLAN_CONSTANT) {
            s.constants += a->bytes;
        }
    }
    s.peak = s.arguments + s.results - s.aliased + s.constants + s.temp - s.host;
    s.host += temp;
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

uint64_t plan_command_bytes(const Plan *p, const PlanCommand *c)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; plan_command_works(c->kind) && i < c->arg_count; i++) {
        bytes += arg_bytes(p, &p->args[c->args + i]);
    }
    return bytes;
}

/* Of the commands from `first` to before `end`; nested no deeper than the reader of plans allows. */
static uint64_t bytes_once(const Plan *p, uint32_t first, uint32_t end)
{
    uint64_t sum = 0;
    for (uint32_t i = first; i < end; i += p->commands[i].subtree) {
        const PlanCommand *c = &p->commands[i];
        bool is_choice = plan_regions(c) == PLAN_REGIONS_BRANCHES;
        uint64_t all = 0, most = 0;
        uint32_t at = i + 1;
        for (uint32_t r = 0; c->subtree > 1 && r < plan_region_count(c); r++) {
            uint32_t size = plan_region_size(p, c, r);
            uint64_t bytes = bytes_once(p, at, at + size);
            all += bytes;
            most = bytes > most ? bytes : most;
            at += size;
        }
        sum += plan_command_bytes(p, c) + (is_choice ? most : all);
    }
    return sum;
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
        ++*(uint64_t *)(void *)((char *)&n + counters[c->kind]);
        n.bytes_accessed += times[w.depth] * plan_command_bytes(p, c);
        if (c->subtree > 1) {
            bool known = plan_regions(c) == PLAN_REGIONS_LOOP &&
                         p->loops[c->index].trip_count >= 0;
            uint64_t trips = known ? (uint64_t)p->loops[c->index].trip_count : 1;
            times[w.depth + 1] = times[w.depth] * trips;
            plan_walk_open(&w, i);
        }
    }
    n.bytes_accessed_once = bytes_once(p, 0, p->commands_count);
    return n;
}
