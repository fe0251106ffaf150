/* Validating the commands of a plan: each record, its arguments, and the tree. */
#include <string.h>

#include "runtime/plan/read.h"
#include "runtime/plan/walk.h"

/* Nothing may write a constant, or an argument that its owner keeps. */
static bool may_write(const Plan *p, uint32_t slice)
{
    const PlanAllocation *a = &p->allocations[p->slices[slice].allocation];
    if (a->kind == PLAN_CONSTANT) {
        return p->slices[slice].bytes == 0;
    }
    if (a->kind == PLAN_ARGUMENT) {
        const PlanValue *v = &p->arguments[a->index];
        return v->donated || v->alias != PLAN_NONE;
    }
    return true;
}

static bool read_arg(PlanReader *r, const PlanArg *a)
{
    const Plan *p = r->p;
    switch (a->tag) {
    case PLAN_ARG_NONE:
    case PLAN_ARG_IMMEDIATE:
    case PLAN_ARG_PARTITION:
    case PLAN_ARG_REPLICA:
        return true;
    case PLAN_ARG_SLICE:
        return (a->index < p->slices_count && a->access <= 3 &&
                (!(a->access & PLAN_WRITE) || may_write(p, a->index))) ||
               plan_fail(r, "a slice that is not there, or may not be written");
    default:
        return plan_newer(r, "an argument tag", a->tag);
    }
}

/* The command after c, in the region that ends at `limit`, is one that c may be joined with. */
static bool has_partner(const Plan *p, const PlanCommand *c, uint32_t limit)
{
    const PlanCommand *next = c + 1;
    return next < p->commands + limit && next->kind == PLAN_COLLECTIVE &&
           next->stream == c->stream && next->wait_count == 0 &&
           next->index < p->collectives_count &&
           p->collectives[next->index].clique == p->collectives[c->index].clique;
}

/* The result of a collective has the bytes that groups of this size make of its operand. */
static bool sizes_fit(const PlanCollective *op, uint64_t from, uint64_t to,
                      uint64_t members)
{
    switch ((PlanCollectiveKind)op->kind) {
    case PLAN_ALL_GATHER:
        return plan_multiply(from, members) == to;
    case PLAN_REDUCE_SCATTER:
        return from == plan_multiply(to, members);
    case PLAN_ALL_REDUCE:
    case PLAN_ALL_TO_ALL:
    case PLAN_COLLECTIVE_PERMUTE:
    case PLAN_BROADCAST:
        return from == to;
    case PLAN_COLLECTIVE_KINDS:
        break;
    }
    return true;
}

/* An operand and its result, in all groups that there are: sizes that fit the least and the largest
 * fit all between. */
static bool pair_fits(const PlanReader *r, const PlanCollective *op, const PlanArg *args)
{
    const Plan *p = r->p;
    const PlanGroupSizes *sizes = &r->sizes[op->clique];
    uint64_t from = args[0].tag ? plan_slice_of(p, &args[0])->bytes : 0;
    uint64_t to = args[1].tag ? plan_slice_of(p, &args[1])->bytes : 0;
    return sizes_fit(op, from, to, sizes->least) &&
           sizes_fit(op, from, to, sizes->most) &&
           (!args[0].tag || plan_is_slice(&args[0], PLAN_READ)) &&
           (!args[1].tag || plan_is_slice(&args[1], PLAN_WRITE));
}

bool plan_read_collective(PlanReader *r, const PlanCommand *c, const PlanArg *args)
{
    const Plan *p = r->p;
    if (c->index >= p->collectives_count || c->arg_count % 2 != 0) {
        return plan_fail(r, "a collective without its record or operands");
    }
    const PlanCollective *op = &p->collectives[c->index];
    if (op->dtypes != PLAN_NONE &&
        !plan_in_table(op->dtypes, c->arg_count / 2, p->refs_count)) {
        return plan_fail(r, "a collective without its types");
    }
    if (op->dtypes != PLAN_NONE &&
        !plan_take(&r->taken->refs, c->arg_count / 2, p->refs_count)) {
        return plan_fail(r, "a collective that shares its types");
    }
    if (op->flags & PLAN_COLLECTIVE_JOINED && !has_partner(p, c, r->region_end)) {
        return plan_fail(r, "a collective joined with nothing");
    }
    for (uint32_t i = 0; i < c->arg_count; i++) {
        if (args[i].tag != PLAN_ARG_SLICE && args[i].tag != PLAN_ARG_NONE) {
            return plan_fail(r, "a collective with an operand that is no slice");
        }
        if (op->dtypes != PLAN_NONE && !plan_is_string(r, p->refs[op->dtypes + i / 2])) {
            return plan_fail(r, "a collective with a damaged type");
        }
    }
    for (uint32_t i = 0; i < c->arg_count; i += 2) {
        if (!pair_fits(r, op, args + i)) {
            return plan_fail(r, "a collective whose operand and result do not fit");
        }
    }
    return true;
}

bool plan_read_host_call(PlanReader *r, const PlanCommand *c, const PlanArg *args)
{
    if (!plan_is_string(r, c->index) || !r->p->strings[c->index] ||
        !plan_is_string(r, c->count)) {
        return plan_fail(r, "a host call without a name");
    }
    if (c->arg_count > PLAN_MAX_HOST_BUFFERS) {
        return plan_newer(r, "a host call whose buffers are", c->arg_count);
    }
    for (uint32_t i = 0; i < c->arg_count; i++) {
        if (args[i].tag != PLAN_ARG_SLICE) {
            return plan_fail(r, "a host call with a buffer that is no slice");
        }
    }
    return true;
}

bool plan_read_while(PlanReader *r, const PlanCommand *c, const PlanArg *args)
{
    const Plan *p = r->p;
    if (c->index >= p->loops_count) {
        return plan_fail(r, "a loop without its record");
    }
    const PlanLoop *l = &p->loops[c->index];
    if (plan_add(l->condition_commands, l->body_commands) != c->subtree - 1) {
        return plan_fail(r, "a loop whose parts do not add up");
    }
    if (l->trip_count < 0 && (c->arg_count < 1 || !plan_is_slice(&args[0], PLAN_READ) ||
                              plan_slice_of(p, &args[0])->bytes != 1)) {
        return plan_fail(r, "a loop without its predicate");
    }
    return true;
}

bool plan_read_conditional(PlanReader *r, const PlanCommand *c, const PlanArg *args)
{
    const Plan *p = r->p;
    if (c->arg_count < 1 || !plan_is_slice(&args[0], PLAN_READ) || c->count == 0 ||
        !plan_in_table(c->index, c->count, p->refs_count)) {
        return plan_fail(r, "a conditional without its selector or branches");
    }
    if (!plan_take(&r->taken->refs, c->count, p->refs_count)) {
        return plan_fail(r, "a conditional that shares its branches");
    }
    uint64_t bytes = plan_slice_of(p, &args[0])->bytes;
    if (bytes != 4 && !(bytes == 1 && c->count == 2)) {
        return plan_fail(r, "a conditional whose selector is neither pred nor s32");
    }
    uint64_t total = 0;
    for (uint32_t i = 0; i < c->count; i++) {
        total += p->refs[c->index + i];
    }
    return total == c->subtree - 1 ||
           plan_fail(r, "a conditional whose branches do not add up");
}

bool plan_read_fill(PlanReader *r, const PlanCommand *c, const PlanArg *args)
{
    if (c->arg_count != 2 || !plan_is_slice(&args[0], PLAN_WRITE) ||
        (args[1].tag != PLAN_ARG_IMMEDIATE && args[1].tag != PLAN_ARG_PARTITION &&
         args[1].tag != PLAN_ARG_REPLICA) ||
        (c->count != 1 && c->count != 2 && c->count != 4) ||
        plan_slice_of(r->p, &args[0])->bytes % c->count != 0) {
        return plan_fail(r, "a fill without its destination or pattern");
    }
    return true;
}

bool plan_read_launch(PlanReader *r, const PlanCommand *c, const PlanArg *args)
{
    (void)args;
    uint32_t count = r->p->kernels_count;
    if (c->index >= count) {
        return plan_fail(r, "a launch of kernel %u, there are %u", c->index, count);
    }
    return c->arg_count == r->p->kernels[c->index].parameter_count ||
           plan_fail(r, "a launch whose arguments do not fit its kernel");
}

bool plan_read_copy(PlanReader *r, const PlanCommand *c, const PlanArg *args)
{
    return (c->arg_count == 2 && plan_is_slice(&args[0], PLAN_WRITE) &&
            plan_is_slice(&args[1], PLAN_READ) &&
            plan_slice_of(r->p, &args[0])->bytes ==
                plan_slice_of(r->p, &args[1])->bytes) ||
           plan_fail(r, "a copy whose sides do not fit");
}

bool plan_read_call(PlanReader *r, const PlanCommand *c, const PlanArg *args)
{
    (void)r;
    (void)c;
    (void)args;
    return true;
}

bool plan_read_async_start(PlanReader *r, const PlanCommand *c, const PlanArg *args)
{
    (void)args;
    if (c->index >= r->p->info->async_count) {
        return plan_fail(r, "an async slot that is not there");
    }
    r->started[c->index] = 1;
    return true;
}

bool plan_read_async_done(PlanReader *r, const PlanCommand *c, const PlanArg *args)
{
    (void)args;
    return (c->index < r->p->info->async_count && r->started[c->index]) ||
           plan_fail(r, "an async done without its start");
}

static PlanReadCommand *const read_kind[PLAN_COMMAND_KINDS] = {
#define COMMAND(id, name, counts, read, ...) [PLAN_##id] = plan_read_##read,
#include "runtime/plan/commands.def"
};

static bool read_command(PlanReader *r, uint32_t i)
{
    const Plan *p = r->p;
    const PlanCommand *c = &p->commands[i];
    if (c->kind >= PLAN_COMMAND_KINDS) {
        return plan_newer(r, "a command of kind", c->kind);
    }
    if (!plan_is_string(r, c->name) || c->stream >= p->streams_count ||
        !plan_in_table(c->waits, c->wait_count, p->refs_count) ||
        !plan_in_table(c->args, c->arg_count, p->args_count) || c->subtree == 0 ||
        (c->subtree > 1 && plan_regions(c) == PLAN_REGIONS_NONE)) {
        return plan_fail(r, "a damaged record");
    }
    if (!plan_take(&r->taken->refs, c->wait_count, p->refs_count)) {
        return plan_fail(r, "waits that are shared");
    }
    if (!plan_take(&r->taken->args, c->arg_count, p->args_count)) {
        return plan_fail(r, "arguments that are shared");
    }
    for (uint32_t j = 0; j < c->wait_count; j++) {
        uint32_t slot = p->refs[c->waits + j];
        if (slot >= p->info->signal_count || !r->signalled[slot]) {
            return plan_fail(r, "a wait for a signal that nobody gave");
        }
    }
    if (c->signal != PLAN_NONE) {
        if (c->signal >= p->info->signal_count) {
            return plan_fail(r, "a signal slot that is not there");
        }
        r->signalled[c->signal] = 1;
    }
    const PlanArg *args = p->args + c->args;
    for (uint32_t j = 0; j < c->arg_count; j++) {
        if (!read_arg(r, &args[j])) {
            return false;
        }
    }
    return read_kind[c->kind](r, c, args);
}

/* Every subtree ends where a region of its parent allows it to. */
bool plan_read_commands(PlanReader *r)
{
    const Plan *p = r->p;
    PlanWalk w = {.plan = p};
    for (uint32_t i = 0; i < p->commands_count; i++) {
        while (plan_walk_next_region(&w, i)) {
        }
        r->region_end = w.depth ? w.open[w.depth - 1].end : p->commands_count;
        const PlanCommand *c = &p->commands[i];
        char why[256];
        PlanReader inner = *r;
        inner.error = why;
        inner.error_size = sizeof why;
        if (!read_command(&inner, i)) {
            const char *name = c->name < p->strings_count ? plan_text(p, c->name) : "?";
            if (strstr(why, "newer libgxrt")) {
                return plan_fail(r, "%s", why);
            }
            return plan_fail(r, "command %u (%s) of the plan is damaged: %s", i, name,
                             why);
        }
        if (c->subtree > r->region_end - i) {
            return plan_fail(r, "command %u (%s) of the plan leaves its parent", i,
                             plan_text(p, c->name));
        }
        if (c->subtree > 1) {
            if (w.depth == PLAN_MAX_DEPTH) {
                return plan_fail(r, "the plan's commands are nested more than %d deep",
                                 PLAN_MAX_DEPTH);
            }
            plan_walk_open(&w, i);
        }
    }
    return true;
}
