/* Reading what a plan says for those who look at it: where commands and buffers come from, and when buffers
 * live. A run uses none of it, but who prints it follows its indices without looking back. */
#include "runtime/plan/read.h"

static bool is_source(const PlanReader *r, const PlanSource *s)
{
    return plan_is_string(r, s->op_name) && plan_is_string(r, s->file);
}

static bool read_origins(PlanReader *r)
{
    const Plan *p = r->p;
    if (p->origins_count != 0 && p->origins_count != p->commands_count) {
        return plan_fail(r, "the plan has %u origins for %u commands", p->origins_count,
                         p->commands_count);
    }
    for (uint32_t i = 0; i < p->origins_count; i++) {
        if (!is_source(r, &p->origins[i].source)) {
            return plan_fail(r, "origin %u of the plan names a string that is not there",
                             i);
        }
    }
    return true;
}

static bool read_buffers(PlanReader *r)
{
    const Plan *p = r->p;
    for (uint32_t i = 0; i < p->buffers_count; i++) {
        const PlanBuffer *b = &p->buffers[i];
        if (!plan_is_string(r, b->name) || !is_source(r, &b->source) ||
            b->allocation >= p->allocations_count || b->first > b->last ||
            b->last >= p->steps_count ||
            plan_add(b->offset, b->bytes) > p->allocations[b->allocation].bytes) {
            return plan_fail(r, "buffer %u of the plan is damaged", i);
        }
    }
    return true;
}

bool plan_read_description(PlanReader *r)
{
    for (uint32_t i = 0; i < r->p->steps_count; i++) {
        if (!plan_is_string(r, r->p->steps[i])) {
            return plan_fail(r, "step %u of the plan names a string that is not there",
                             i);
        }
    }
    return read_origins(r) && read_buffers(r);
}
