/* See plan_walk.h. */
#include "runtime/plan/walk.h"

uint32_t plan_region_count(const PlanCommand *c)
{
    return c->kind == PLAN_WHILE ? 2 : c->kind == PLAN_CONDITIONAL ? c->count : 1;
}

uint32_t plan_region_size(const Plan *p, const PlanCommand *c, uint32_t region)
{
    if (c->kind == PLAN_WHILE) {
        const PlanLoop *l = &p->loops[c->index];
        return region ? l->body_commands : l->condition_commands;
    }
    return c->kind == PLAN_CONDITIONAL ? p->refs[c->index + region] : c->subtree - 1;
}

bool plan_walk_next_region(PlanWalk *w, uint32_t i)
{
    while (w->depth && w->open[w->depth - 1].end == i) {
        PlanOpen *o = &w->open[w->depth - 1];
        const PlanCommand *c = &w->plan->commands[o->command];
        if (++o->region < plan_region_count(c)) {
            o->end += plan_region_size(w->plan, c, o->region);
            return true;
        }
        w->depth--;
    }
    return false;
}

void plan_walk_open(PlanWalk *w, uint32_t i)
{
    uint32_t first = plan_region_size(w->plan, &w->plan->commands[i], 0);
    w->open[w->depth++] = (PlanOpen){i, 0, i + 1 + first};
}
