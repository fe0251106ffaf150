/* Paths between instructions: a matrix of bits over a stretch of the order, a row for the ancestors of each. What has
 * become one instruction has the same row everywhere. */
#include "passes/fusion/paths.h"

static uint64_t *row_of(const Paths *p, uint32_t at)
{
    return p->ancestors + (size_t)at * p->words;
}

static void set_bit(uint64_t *row, uint32_t at)
{
    row[at / 64] |= UINT64_C(1) << (at % 64);
}

static bool has_bit(const uint64_t *row, uint32_t at)
{
    return (row[at / 64] >> (at % 64) & 1) != 0;
}

static bool is_inside(const Paths *p, const Instruction *inst)
{
    return inst->id >= p->first && inst->id < p->first + p->count;
}

Paths paths_find(const Computation *comp, uint32_t first, uint32_t count, Arena *a)
{
    Paths p = {.first = first, .count = count, .words = ((size_t)count + 63) / 64};
    p.ancestors = ARENA_ARRAY(a, uint64_t, p.words * count);
    for (uint32_t at = 0; at < count; at++) {
        const Instruction *inst = comp->instructions[first + at];
        uint64_t *row = row_of(&p, at);
        uint32_t before = inst->operand_count + inst->control_count;
        for (uint32_t k = 0; k < before; k++) {
            const Instruction *o = k < inst->operand_count
                                       ? inst->operands[k]
                                       : inst->control[k - inst->operand_count];
            if (o->id < first)
                continue;
            const uint64_t *from = row_of(&p, o->id - first);
            for (size_t w = 0; w < p.words; w++)
                row[w] |= from[w];
            set_bit(row, o->id - first);
        }
    }
    return p;
}

bool paths_lead(const Paths *p, const Instruction *from, const Instruction *to)
{
    return is_inside(p, from) && is_inside(p, to) &&
           has_bit(row_of(p, to->id - p->first), from->id - p->first);
}

/* What comes later has a member among its ancestors, and with it all that the members were joined with. */
void paths_join(Paths *p, Instruction *const *members, uint32_t count, Arena *scratch)
{
    uint64_t *sum = ARENA_ARRAY(scratch, uint64_t, p->words);
    uint64_t *own = ARENA_ARRAY(scratch, uint64_t, p->words);
    for (uint32_t i = 0; i < count; i++)
        set_bit(own, members[i]->id - p->first);
    const uint64_t *joined = row_of(p, members[0]->id - p->first),
                   *last = row_of(p, members[count - 1]->id - p->first);
    for (size_t w = 0; w < p->words; w++)
        sum[w] = (joined[w] | last[w]) & ~own[w];
    /* what stands before it may be joined with what comes after it */
    for (uint32_t i = 0; i < p->count; i++) {
        uint64_t *row = row_of(p, i);
        bool is_member = has_bit(own, i), follows = false;
        for (size_t w = 0; w < p->words && !follows; w++)
            follows = (row[w] & own[w]) != 0;
        if (!is_member && !follows)
            continue;
        for (size_t w = 0; w < p->words; w++)
            row[w] = is_member ? sum[w] : row[w] | sum[w] | own[w];
    }
}
