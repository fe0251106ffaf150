/* Reading which kernels a tuner may launch in place of a command's: each takes the command's arguments. */
#include "runtime/plan/read.h"

static bool is_candidate(const PlanReader *r, const PlanCandidate *c, uint32_t parameters)
{
    const Plan *p = r->p;
    return c->kernel < p->kernels_count && plan_is_string(r, c->kind) &&
           plan_is_string(r, c->config) &&
           p->kernels[c->kernel].parameter_count == parameters;
}

static bool is_tunable(const PlanReader *r, const PlanTunable *t)
{
    const Plan *p = r->p;
    if (t->command >= p->commands_count || !plan_is_string(r, t->key) ||
        !plan_in_table(t->candidates, t->candidate_count, p->candidates_count)) {
        return false;
    }
    const PlanCommand *c = &p->commands[t->command];
    bool is_launch = c->kind == PLAN_LAUNCH;
    bool good = plan_in_table(t->dtypes, c->arg_count, p->refs_count) &&
                (is_launch || c->kind == PLAN_MATMUL || c->kind == PLAN_GRAPH) &&
                is_launch == (t->candidate_count != 0) &&
                (!is_launch || p->candidates[t->candidates].kernel == c->index);
    for (uint32_t i = 0; i < c->arg_count && good; i++) {
        good = plan_is_string(r, p->refs[t->dtypes + i]);
    }
    for (uint32_t i = 0; i < t->candidate_count && good; i++) {
        good = is_candidate(r, &p->candidates[t->candidates + i], c->arg_count);
    }
    return good;
}

/* None of another, and none of a command. */
static bool takes_own(const PlanReader *r, const PlanTunable *t)
{
    const Plan *p = r->p;
    return plan_take(&r->taken->candidates, t->candidate_count, p->candidates_count) &&
           plan_take(&r->taken->refs, p->commands[t->command].arg_count, p->refs_count);
}

bool plan_read_tunables(PlanReader *r)
{
    for (uint32_t i = 0; i < r->p->tunables_count; i++) {
        if (!is_tunable(r, &r->p->tunables[i])) {
            return plan_fail(r, "tunable %u of the plan is damaged", i);
        }
        if (!takes_own(r, &r->p->tunables[i])) {
            return plan_fail(r, "tunable %u of the plan shares its candidates or types",
                             i);
        }
    }
    return true;
}
