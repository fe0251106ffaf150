/* See simulate.h. */
#include "ir/analysis/simulate.h"

#include "ir/analysis/loop.h"

enum {
    NESTING_MOST = 64, /* what is called deeper is one long kernel */
    STEPS_PLAYED = 4,  /* of a loop: then each one is as the last */
};

typedef struct Clock {
    Simulation sum; /* sum.step: what the kernels' stream shows */
    double idle;    /* when the stream of collectives has done all that it was given */
} Clock;

typedef struct Player {
    CostModel *cost;
    double **end; /* [computations][instructions] of starts: when it is done */
    Arena *arena;
} Player;

static void play(Player *p, const Computation *comp, Clock *clock, int depth);

static double begin_transfer(Player *p, const Instruction *inst, Clock *clock)
{
    double seconds = cost_transfer(p->cost, inst);
    double begin = clock->idle > clock->sum.step ? clock->idle : clock->sum.step;
    clock->sum.communication += seconds;
    return clock->idle = begin + seconds;
}

static void wait_for(Clock *clock, double end, bool is_transfer)
{
    if (end <= clock->sum.step)
        return;
    clock->sum.exposed += is_transfer ? end - clock->sum.step : 0;
    clock->sum.step = end;
}

static double lag(const Clock *clock)
{
    return clock->idle > clock->sum.step ? clock->idle - clock->sum.step : 0;
}

static void add_steps(Clock *clock, const Clock *before, double times)
{
    double shift = times * (clock->sum.step - before->sum.step);
    Simulation *s = &clock->sum;
    s->compute += times * (s->compute - before->sum.compute);
    s->communication += times * (s->communication - before->sum.communication);
    s->exposed += times * (s->exposed - before->sum.exposed);
    s->step += shift;
    clock->idle += shift;
}

static void play_loop(Player *p, const Instruction *loop, Clock *clock, int depth)
{
    int64_t trips = loop_known_trip_count(loop);
    trips = trips < 0 ? 1 : trips;
    for (int64_t i = 0; i < trips; i++) {
        Clock before = *clock;
        for (uint32_t k = cost_first_called(loop); k < inst_called_count(loop); k++)
            play(p, inst_called(loop, k), clock, depth + 1);
        if (i + 1 < trips && (i + 1 == STEPS_PLAYED || lag(clock) == lag(&before))) {
            add_steps(clock, &before, (double)(trips - i - 1));
            return;
        }
    }
}

static void play_longest(Player *p, const Instruction *conditional, Clock *clock,
                         int depth)
{
    Clock longest = *clock;
    for (uint32_t k = 0; k < inst_called_count(conditional); k++) {
        Clock branch = *clock;
        play(p, inst_called(conditional, k), &branch, depth + 1);
        if (branch.sum.step > longest.sum.step)
            longest = branch;
    }
    *clock = longest;
}

static void play_instruction(Player *p, const Instruction *inst, Clock *clock, int depth)
{
    double *end = &p->end[inst->parent->id][inst->id];
    const Instruction *first = inst->operand_count > 0 ? inst->operands[0] : NULL;
    if (op_is(inst->op, OPF_ASYNC_START)) {
        *end = cost_is_transfer(inst) ? begin_transfer(p, inst, clock)
                                      : clock->sum.step + cost_started(p->cost, inst);
    } else if (inst->op == OP_ASYNC_UPDATE) {
        *end = p->end[inst->parent->id][first->id];
    } else if (op_is(inst->op, OPF_ASYNC_DONE)) {
        const Instruction *start = first;
        while (start->op == OP_ASYNC_UPDATE)
            start = start->operands[0];
        wait_for(clock, p->end[inst->parent->id][first->id], cost_is_transfer(start));
    } else if (cost_is_transfer(inst)) {
        wait_for(clock, begin_transfer(p, inst, clock), true);
    } else if (op_is(inst->op, OPF_CONTROL) && depth < NESTING_MOST) {
        clock->sum.step += cost_kernel(p->cost, inst).seconds;
        if (inst->op == OP_WHILE)
            play_loop(p, inst, clock, depth);
        else if (inst->op == OP_CONDITIONAL)
            play_longest(p, inst, clock, depth);
        else
            play(p, inst_called(inst, 0), clock, depth + 1);
    } else {
        double seconds = cost_compute(p->cost, inst);
        clock->sum.compute += seconds;
        clock->sum.step += seconds;
    }
}

static void play(Player *p, const Computation *comp, Clock *clock, int depth)
{
    if (p->end[comp->id] == NULL)
        p->end[comp->id] =
            ARENA_ARRAY(p->arena, double, (size_t)comp->instruction_count + 1);
    for (const Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
        play_instruction(p, inst, clock, depth);
    }
}

Simulation simulate(const Module *m, CostModel *cost, Arena *a)
{
    Player p = {.cost = cost, .arena = a};
    Clock clock = {.idle = 0};
    p.end = ARENA_ARRAY(a, double *, (size_t)m->computation_count + 1);
    play(&p, m->entry, &clock, 0);
    return clock.sum;
}
