/* The first of the sends with equal keys belongs to the first such recv, and so on: they arrive in order.
 *
 * One operation gives nothing before it has taken what it sends, so a transfer whose data is computed from what it
 * brings must stay two. Strongly connected components of the graph in which every recv also needs its send (Tarjan
 * 1972) tell most others apart at once; only inside one of them a search decides. */
#include "passes/collectives/async/transfer.h"

#include <stdlib.h>
#include <string.h>

#include "ir/base/text.h"

struct Transfers {
    const Computation *comp;
    Instruction *const *forward; /* [count] */
    Arena *scratch;
    uint32_t count;      /* of instructions */
    Instruction **other; /* [count]: of a send its recv, of a recv its send; NULL: none */
    uint32_t *component; /* [count] */
    /* searches inside a component: */
    uint32_t *seen; /* [count]: in which search */
    uint32_t searches, depth;
    Instruction **stack; /* [count] */
};

/* -- who belongs to whom ------------------------------------------------------------------- */

typedef struct End {
    Instruction *inst;
    const char *key; /* the text of all that is equal in a send and its recv */
} End;

static int compare_ends(const void *x, const void *y)
{
    const End *a = x, *b = y;
    int order = strcmp(a->key, b->key);
    return order != 0 ? order : (a->inst->id > b->inst->id) - (a->inst->id < b->inst->id);
}

/* NULL: no device's transfer, or it is not said who sends to whom. */
static const char *key_of(const Transfers *t, const TransferChannels *channels,
                          const Instruction *inst)
{
    IntLists pairs;
    if (inst_bool(inst, ATTR_IS_HOST_TRANSFER) ||
        !collective_transfer_pairs(t->scratch, inst, &pairs))
        return NULL;
    Text key;
    text_init(&key, t->scratch);
    text_int(&key, collective_transfer_channel(channels, inst));
    shape_print(&key,
                inst->op == OP_SEND ? inst->operands[0]->shape : inst->shape->elements[0],
                false);
    for (uint32_t i = 0; i < pairs.count; i++)
        text_printf(&key, " %lld,%lld", (long long)pairs.data[i].data[0],
                    (long long)pairs.data[i].data[1]);
    return key.data;
}

/* All of one opcode, those of one key side by side and in order; how many. */
static uint32_t sorted_ends(const Transfers *t, const TransferChannels *channels,
                            OpCode op, End *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        Instruction *inst = t->comp->instructions[i];
        const char *key =
            inst != NULL && inst->op == op ? key_of(t, channels, inst) : NULL;
        if (key != NULL)
            out[n++] = (End){inst, key};
    }
    qsort(out, n, sizeof *out, compare_ends);
    return n;
}

static void match_ends(Transfers *t, const TransferChannels *channels)
{
    End *sends = ARENA_ARRAY(t->scratch, End, (size_t)t->count + 1),
        *recvs = ARENA_ARRAY(t->scratch, End, (size_t)t->count + 1);
    uint32_t send_count = sorted_ends(t, channels, OP_SEND, sends),
             recv_count = sorted_ends(t, channels, OP_RECV, recvs), i = 0, k = 0;
    while (i < send_count && k < recv_count) {
        int order = strcmp(sends[i].key, recvs[k].key);
        if (order == 0) {
            t->other[sends[i].inst->id] = recvs[k].inst;
            t->other[recvs[k].inst->id] = sends[i].inst;
        }
        i += order <= 0;
        k += order >= 0;
    }
}

/* -- what depends on what ------------------------------------------------------------------ */

/* Instruction k that `inst` needs where a recv needs its send: its operands, then that. NULL: there are no more. */
static Instruction *needed(const Transfers *t, const Instruction *inst, uint32_t k)
{
    if (k < inst->operand_count)
        return inst->operands[k];
    return k == inst->operand_count && inst->op == OP_RECV ? t->other[inst->id] : NULL;
}

typedef struct Step {
    const Instruction *inst;
    uint32_t next;
} Step;

typedef struct Walk {
    Step *way;
    uint32_t depth;
    uint32_t *number, *low; /* by id; number 0: not seen */
    uint32_t *open;         /* whose component is not known */
    uint32_t open_count, numbers, components;
} Walk;

static void enter(Walk *w, const Instruction *inst)
{
    w->number[inst->id] = w->low[inst->id] = ++w->numbers;
    w->open[w->open_count++] = inst->id;
    w->way[w->depth++] = (Step){inst, 0};
}

static void lower(Walk *w, const Instruction *inst, uint32_t low)
{
    w->low[inst->id] = low < w->low[inst->id] ? low : w->low[inst->id];
}

static void leave(Transfers *t, Walk *w)
{
    uint32_t id = w->way[--w->depth].inst->id, member;
    if (w->depth > 0)
        lower(w, w->way[w->depth - 1].inst, w->low[id]);
    if (w->low[id] != w->number[id])
        return;
    w->components++;
    do {
        member = w->open[--w->open_count];
        t->component[member] = w->components;
    } while (member != id);
}

static void find_components(Transfers *t)
{
    size_t n = (size_t)t->count + 1;
    Walk w = {.way = ARENA_ARRAY(t->scratch, Step, n),
              .number = ARENA_ARRAY(t->scratch, uint32_t, n),
              .low = ARENA_ARRAY(t->scratch, uint32_t, n),
              .open = ARENA_ARRAY(t->scratch, uint32_t, n)};
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->comp->instructions[i] == NULL || w.number[i] != 0)
            continue;
        enter(&w, t->comp->instructions[i]);
        while (w.depth > 0) {
            Step *top = &w.way[w.depth - 1];
            const Instruction *next = needed(t, top->inst, top->next++);
            if (next == NULL)
                leave(t, &w);
            else if (w.number[next->id] == 0)
                enter(&w, next);
            else if (t->component[next->id] == 0)
                lower(&w, top->inst, w.number[next->id]);
        }
    }
}

static void push(Transfers *t, Instruction *inst, uint32_t component)
{
    if (t->component[inst->id] != component || t->seen[inst->id] == t->searches)
        return;
    t->seen[inst->id] = t->searches;
    t->stack[t->depth++] = inst;
}

/* `from` is computed from `target`, where only a recv that has become a permute needs its send. */
static bool depends(Transfers *t, Instruction *from, const Instruction *target)
{
    uint32_t component = t->component[from->id];
    if (component != t->component[target->id])
        return false;
    t->searches++;
    t->depth = 0;
    push(t, from, component);
    while (t->depth > 0) {
        const Instruction *inst = t->stack[--t->depth];
        if (inst == target)
            return true;
        for (uint32_t k = 0; k < inst->operand_count; k++)
            push(t, inst->operands[k], component);
        if (inst->op == OP_RECV && t->forward[inst->id] != NULL)
            push(t, t->other[inst->id], component);
    }
    return false;
}

/* -- the calls ------------------------------------------------------------------------------ */

Transfers *transfers_find(const Computation *comp, const TransferChannels *channels,
                          Instruction *const *forward, Arena *scratch)
{
    Transfers *t = ARENA_NEW(scratch, Transfers);
    size_t n = (size_t)comp->instruction_count + 1;
    *t = (Transfers){.comp = comp,
                     .forward = forward,
                     .scratch = scratch,
                     .count = comp->instruction_count,
                     .other = ARENA_ARRAY(scratch, Instruction *, n),
                     .component = ARENA_ARRAY(scratch, uint32_t, n),
                     .seen = ARENA_ARRAY(scratch, uint32_t, n),
                     .stack = ARENA_ARRAY(scratch, Instruction *, n)};
    match_ends(t, channels);
    find_components(t);
    return t;
}

Instruction *transfer_recv(Transfers *t, Instruction *send)
{
    Instruction *recv = t->other[send->id];
    return recv != NULL && !depends(t, send, recv) ? recv : NULL;
}
