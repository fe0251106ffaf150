/* See walk.h; and how the children of a command are divided. */
#include "runtime/plan/walk.h"

static const unsigned char regions[PLAN_COMMAND_KINDS] = {
#define COMMAND(id, ...) [PLAN_##id] = PLAN_REGIONS_NONE,
#define REGIONS(id, name, regions, ...) [PLAN_##id] = PLAN_REGIONS_##regions,
#include "runtime/plan/commands.def"
};

PlanRegions plan_regions(const PlanCommand *c)
{
    return (PlanRegions)regions[c->kind];
}

uint32_t plan_region_count(const PlanCommand *c)
{
    switch (plan_regions(c)) {
    case PLAN_REGIONS_NONE:
        break;
    case PLAN_REGIONS_ONE:
        return 1;
    case PLAN_REGIONS_LOOP:
        return 2;
    case PLAN_REGIONS_BRANCHES:
        return c->count;
    }
    return 0;
}

uint32_t plan_region_size(const Plan *p, const PlanCommand *c, uint32_t region)
{
    switch (plan_regions(c)) {
    case PLAN_REGIONS_LOOP:
        return region == PLAN_LOOP_BODY ? p->loops[c->index].body_commands
                                        : p->loops[c->index].condition_commands;
    case PLAN_REGIONS_BRANCHES:
        return p->refs[c->index + region];
    case PLAN_REGIONS_NONE:
    case PLAN_REGIONS_ONE:
        break;
    }
    return c->subtree - 1;
}

bool plan_walk_next_region(PlanWalk *w, uint32_t i)
{
    while (w->depth && w->open[w->depth - 1].end == i) {
        PlanFrame *o = &w->open[w->depth - 1];
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
    w->open[w->depth++] = (PlanFrame){i, 0, i + 1 + first};
}
