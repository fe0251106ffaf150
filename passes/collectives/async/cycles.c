/* See cycles.h. */
#include "passes/collectives/async/cycles.h"

#include <string.h>

#include "ir/base/bug.h"

enum { NEW, OPEN, DONE };

/* An instruction on the way that a walk has come, and how many of its predecessors it has entered:
 * operands first, then control predecessors. */
typedef struct Step {
    Instruction *inst;
    uint32_t next;
} Step;

typedef struct Walk {
    Step *way;
    uint32_t depth;
    unsigned char *state; /* by id */
} Walk;

static void enter(Walk *w, Instruction *inst)
{
    w->state[inst->id] = OPEN;
    w->way[w->depth++] = (Step){inst, 0};
}

/* The edge that this step has followed last is one of time only: it goes. */
static bool drop_edge(Step *step)
{
    Instruction *inst = step->inst;
    if (step->next <= inst->operand_count)
        return false;
    uint32_t at = --step->next - inst->operand_count;
    memmove(inst->control + at, inst->control + at + 1,
            (inst->control_count - at - 1) * sizeof *inst->control);
    inst->control_count--;
    return true;
}

/* The last step leads back to `inst`, which is on the way: the latest edge of time from there on
 * goes. The walk goes on where that edge was; what it had led to is as if never entered. */
static void break_cycle(Walk *w, const Instruction *inst)
{
    uint32_t i = w->depth - 1;
    while (!drop_edge(&w->way[i])) {
        if (w->way[i].inst == inst)
            bug("instruction %s depends on itself", inst->name);
        i--;
    }
    while (w->depth > i + 1)
        w->state[w->way[--w->depth].inst->id] = NEW;
}

void computation_break_cycles(Computation *comp, Arena *scratch)
{
    uint32_t count = comp->instruction_count;
    Walk w = {.way = ARENA_ARRAY(scratch, Step, (size_t)count + 1),
              .state = ARENA_ARRAY(scratch, unsigned char, (size_t)count + 1)};
    for (uint32_t i = 0; i < count; i++) {
        if (comp->instructions[i] == NULL || w.state[i] != NEW)
            continue;
        enter(&w, comp->instructions[i]);
        while (w.depth != 0) {
            Step *top = &w.way[w.depth - 1];
            Instruction *inst = top->inst;
            uint32_t k = top->next++;
            if (k >= inst->operand_count + inst->control_count) {
                w.state[inst->id] = DONE;
                w.depth--;
                continue;
            }
            Instruction *before = k < inst->operand_count
                                      ? inst->operands[k]
                                      : inst->control[k - inst->operand_count];
            if (w.state[before->id] == OPEN)
                break_cycle(&w, before);
            else if (w.state[before->id] == NEW)
                enter(&w, before);
        }
    }
}
