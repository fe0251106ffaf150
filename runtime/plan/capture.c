/* Whether an execution of a plan can be one CUDA graph, and of how many nodes: loops with a known
 * number of iterations are unrolled, since the host computes addresses from their counters. */
#include "runtime/plan/walk.h"

static const PlanLoop *open_loop(const Plan *p, const PlanCommand *c)
{
    return plan_regions(c) == PLAN_REGIONS_LOOP ? &p->loops[c->index] : NULL;
}

/* The device decides whether such regions run: their commands cannot use what only the host knows. */
static bool is_conditional(const Plan *p, const PlanCommand *c)
{
    const PlanLoop *l = open_loop(p, c);
    return plan_regions(c) == PLAN_REGIONS_BRANCHES || (l && l->trip_count < 0);
}

static bool uses_counter(const Plan *p, uint32_t counter)
{
    for (uint32_t i = 0; i < p->terms_count; i++) {
        if (p->terms[i].counter == counter) {
            return true;
        }
    }
    return false;
}

static bool touches_host(const Plan *p, const PlanCommand *c)
{
    for (uint32_t i = 0; i < c->arg_count; i++) {
        const PlanArg *a = &p->args[c->args + i];
        if (a->tag == PLAN_ARG_SLICE &&
            p->allocations[p->slices[a->index].allocation].colour == PLAN_HOST_MEMORY) {
            return true;
        }
    }
    return false;
}

/* Column `refusal` of commands.def: why a command of its kind keeps its plan from being captured, NULL: it
 * does not. */
static const char *refusal_none(const Plan *p, const PlanCommand *c)
{
    (void)p;
    (void)c;
    return NULL;
}

static const char *refusal_collective(const Plan *p, const PlanCommand *c)
{
    (void)p;
    (void)c;
    return "it has collectives, which wait for other devices";
}

static const char *refusal_host_call(const Plan *p, const PlanCommand *c)
{
    (void)p;
    (void)c;
    return "it calls functions of the host";
}

static const char *refusal_solver(const Plan *p, const PlanCommand *c)
{
    (void)p;
    (void)c;
    return "it calls cuSOLVER, which may wait for the device";
}

static const char *refusal_while(const Plan *p, const PlanCommand *c)
{
    const PlanLoop *l = &p->loops[c->index];
    if (l->trip_count >= 0 || l->counter == PLAN_NONE || !uses_counter(p, l->counter)) {
        return NULL;
    }
    return "addresses depend on the iteration of a loop whose end only the device knows";
}

static const char *(*const refusal_of[])(const Plan *, const PlanCommand *) = {
#define COMMAND(id, name, counts, read, print, subject, order, refusal, ...)             \
    [PLAN_##id] = refusal_##refusal,
#include "runtime/plan/commands.def"
};

/* Of its kind, or of any command that the device may leave out. */
static const char *refusal(const Plan *p, const PlanCommand *c, bool in_conditional)
{
    const char *why = refusal_of[c->kind](p, c);
    if (why == NULL && in_conditional && touches_host(p, c)) {
        why = "a branch or loop that the device chooses touches memory of the host";
    }
    return why;
}

/* So that products do not overflow. */
static uint64_t at_most_refused(uint64_t n)
{
    return n > PLAN_CAPTURE_MOST_NODES ? PLAN_CAPTURE_MOST_NODES + 1 : n;
}

PlanCapture plan_capture(const Plan *p)
{
    PlanCapture n = {0};
    PlanWalk w = {.plan = p};
    uint64_t times[PLAN_MAX_DEPTH + 1] = {
        1}; /* that commands at each depth become nodes */
    bool conditional[PLAN_MAX_DEPTH + 1] = {false};
    for (uint32_t i = 0; i < p->commands_count && !n.refused; i++) {
        while (plan_walk_next_region(&w, i)) {
        }
        const PlanCommand *c = &p->commands[i];
        const PlanLoop *l = open_loop(p, c);
        bool decides = is_conditional(p, c);
        n.refused = refusal(p, c, conditional[w.depth]);
        n.conditionals += decides;
        n.nodes += times[w.depth] * (decides || plan_command_works(c->kind));
        if (n.nodes > PLAN_CAPTURE_MOST_NODES) {
            n.refused = "its loops, unrolled, are too many nodes";
        }
        if (c->subtree > 1) {
            uint64_t trips = l && l->trip_count >= 0 ? (uint64_t)l->trip_count : 1;
            times[w.depth + 1] = at_most_refused(times[w.depth] * at_most_refused(trips));
            conditional[w.depth + 1] = conditional[w.depth] || decides;
            plan_walk_open(&w, i);
        }
    }
    return n;
}
