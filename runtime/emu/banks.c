/* See banks.h. */
#include "runtime/emu/banks.h"

#include <stdlib.h>
#include <string.h>

enum { LANES = 32, BANKS = 32, BANK_BYTES = 4 };

struct BankNote {
    uint64_t offset;
    uint32_t site; /* with the number of the access */
    uint32_t lane, bytes;
    uint32_t
        order; /* among the notes of the warp; then: among those of the lane and access */
};

void banks_count(Engine *e, uint32_t site, const uint64_t *offsets, uint32_t lanes,
                 uint32_t bytes)
{
    BankCount *counts = e->launch->banks;
    uint64_t words[LANES];
    uint32_t count = 0, most = 1, in_bank[BANKS] = {0};
    if (counts == NULL)
        return;
    for (uint32_t i = 0; i < lanes; i++) {
        uint64_t first = offsets[i] / BANK_BYTES;
        bool is_new = true;
        for (uint32_t j = 0; j < count; j++)
            is_new &= words[j] != first;
        if (!is_new)
            continue;
        words[count++] = first;
        for (uint64_t word = first; word * BANK_BYTES < offsets[i] + bytes; word++) {
            uint32_t here = ++in_bank[word % BANKS];
            most = here > most ? here : most;
        }
    }
    site = site_number(site);
    if (site > e->launch->site_count)
        site = e->launch->site_count;
    atomic_fetch_add(&counts[site].phases, 1);
    atomic_fetch_add(&counts[site].conflicts, most - 1);
}

void banks_note(Engine *e, Thread *t, uint32_t site, uint64_t offset, uint32_t bytes)
{
    if (e->launch->banks == NULL)
        return;
    BankNotes *n = &e->bank_notes[t->index / LANES];
    if (n->count == n->capacity) {
        uint32_t capacity = n->capacity == 0 ? 256 : 2 * n->capacity;
        BankNote *notes = realloc(n->notes, capacity * sizeof *notes);
        if (notes == NULL) {
            finding_set(e->finding, FINDING_MEMORY, "no memory to count banks");
            engine_abort(e);
        }
        n->notes = notes;
        n->capacity = capacity;
    }
    n->notes[n->count] = (BankNote){offset, site, t->view.lane, bytes, n->count};
    n->count++;
}

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_lane(const void *a, const void *b)
{
    const BankNote *x = a, *y = b;
    int order = compare(x->site, y->site);
    if (order == 0)
        order = compare(x->lane, y->lane);
    return order != 0 ? order : compare(x->order, y->order);
}

static int by_turn(const void *a, const void *b)
{
    const BankNote *x = a, *y = b;
    int order = compare(x->site, y->site);
    if (order == 0)
        order = compare(x->order, y->order);
    return order != 0 ? order : compare(x->lane, y->lane);
}

/* Lanes of `count` notes of one access and turn, ascending. */
static void count_access(Engine *e, const BankNote *notes, uint32_t count)
{
    uint32_t bytes = notes->bytes;
    uint32_t at_once = bytes <= BANK_BYTES ? LANES : BANKS * BANK_BYTES / bytes;
    for (uint32_t i = 0; i < count;) {
        uint64_t offsets[LANES];
        uint32_t lanes = 0, phase = notes[i].lane / at_once;
        while (i < count && notes[i].lane / at_once == phase)
            offsets[lanes++] = notes[i++].offset;
        banks_count(e, notes->site, offsets, lanes, bytes);
    }
}

void banks_meet(Engine *e, uint32_t warp)
{
    BankNotes *n = &e->bank_notes[warp];
    if (n->count == 0)
        return;
    qsort(n->notes, n->count, sizeof *n->notes, by_lane);
    for (uint32_t i = 0, turn = 0; i < n->count; i++) {
        bool same = i > 0 && n->notes[i].site == n->notes[i - 1].site &&
                    n->notes[i].lane == n->notes[i - 1].lane;
        turn = same ? turn + 1 : 0;
        n->notes[i].order = turn;
    }
    qsort(n->notes, n->count, sizeof *n->notes, by_turn);
    for (uint32_t i = 0; i < n->count;) {
        uint32_t first = i;
        while (i < n->count && n->notes[i].site == n->notes[first].site &&
               n->notes[i].order == n->notes[first].order)
            i++;
        count_access(e, &n->notes[first], i - first);
    }
    n->count = 0;
}

void banks_deinit(Engine *e)
{
    for (uint32_t i = 0; i < RACE_WARPS; i++)
        free(e->bank_notes[i].notes);
}
