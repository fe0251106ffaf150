/* What runs beside the program: commands between a start and its done, on another stream. */
#include "codegen/plan/variant.h"
#include "ir/analysis/collective.h"
#include "ir/base/bug.h"

/* A start that goes on until its slot is waited for: what `make` adds runs on `stream`. */
static bool start(Variant *v, const Instruction *inst, uint32_t slot, uint32_t stream,
                  bool (*make)(Variant *v, const Instruction *inst))
{
    uint32_t c = variant_command(v, PLAN_ASYNC_START, inst, slot, NULL, 0);
    uint32_t before = v->stream;
    v->stream = stream;
    bool ok = make(v, inst);
    v->stream = before;
    plan_close(&v->plan, c);
    return ok;
}

/* Plain collectives of a plan in which something is asynchronous run on a communication stream,
 * too, and are waited for: they come behind what it has begun, on all ranks alike. */
bool variant_add_collective(Variant *v, const Instruction *inst)
{
    uint32_t stream = variant_collective_stream(v);
    if (stream == v->stream)
        return variant_collective_command(v, inst);
    uint32_t slot = v->plan.info[0].async_count++;
    if (!start(v, inst, slot, stream, variant_collective_command))
        return false;
    variant_command(v, PLAN_ASYNC_DONE, inst, slot, NULL, 0);
    return true;
}

static bool overlap(const PlanBuilder *b, const PlanArg *x, const PlanArg *y)
{
    if (x->tag != PLAN_ARG_SLICE || y->tag != PLAN_ARG_SLICE)
        return false;
    const PlanSlice *s = &b->slices[x->index], *t = &b->slices[y->index];
    bool fixed = s->term_count == 0 && t->term_count == 0;
    return s->allocation == t->allocation &&
           (!fixed ||
            (s->offset < t->offset + t->bytes && t->offset < s->offset + s->bytes));
}

/* Neither reads or writes what the other writes. */
static bool are_apart(const PlanBuilder *b, const PlanCommand *x, const PlanCommand *y)
{
    for (uint32_t i = 0; i < x->arg_count; i++) {
        for (uint32_t k = 0; k < y->arg_count; k++) {
            const PlanArg *s = &b->args[x->args + i], *t = &b->args[y->args + k];
            bool writes = ((s->access | t->access) & PLAN_WRITE) != 0;
            if (writes && overlap(b, s, t))
                return false;
        }
    }
    return true;
}

/* Commands from `first` on that follow one another, in one clique, are one NCCL group as long
 * as none needs another. */
static void join_commands(PlanBuilder *b, uint32_t first)
{
    uint32_t run = first; /* where the present group begins */
    for (uint32_t i = first; i < b->commands_count; i++) {
        const PlanCommand *c = &b->commands[i];
        if (c->kind != PLAN_COLLECTIVE) {
            run = i + 1;
            continue;
        }
        bool joins = i > run && b->collectives[c->index].clique ==
                                    b->collectives[b->commands[i - 1].index].clique;
        for (uint32_t k = run; joins && k < i; k++)
            joins = are_apart(b, &b->commands[k], c);
        if (joins)
            b->collectives[b->commands[i - 1].index].flags |= PLAN_COLLECTIVE_JOINED;
        else
            run = i;
    }
}

bool variant_add_async_start(Variant *v, const Instruction *inst,
                             bool (*make)(Variant *v, const Instruction *inst))
{
    uint32_t first = v->plan.commands_count + 1;
    struct AsyncSlot a = {inst, v->plan.info[0].async_count++};
    if (!start(v, inst, a.slot, variant_start_stream(v, inst), make))
        return false;
    if (inst_frontend_attribute(inst, "_collectives_group") != NULL)
        join_commands(&v->plan, first);
    v->async = arena_grow(v->arena, v->async, &v->async_capacity, v->async_count + 1,
                          sizeof *v->async);
    v->async[v->async_count++] = a;
    return true;
}

void variant_add_async_done(Variant *v, const Instruction *done)
{
    size_t i = v->async_count;
    while (i > 0 && v->async[i - 1].start != done->operands[0])
        i--;
    if (i == 0)
        bug("%s waits for what was not started", done->name);
    variant_command(v, PLAN_ASYNC_DONE, done, v->async[i - 1].slot, NULL, 0);
    v->async[i - 1] = v->async[--v->async_count];
}
