/* See memo.h. */
#include "codegen/element/memo.h"

#include <string.h>

#define MEMO_BUCKETS 1024

struct Memo {
    MemoEntry *buckets[MEMO_BUCKETS];
    MemoEntry **entries; /* in the order they were made */
    size_t count, capacity;
    size_t *scopes; /* entries when each open scope began */
    size_t scope_count, scope_capacity;
};

Memo *memo_create(Arena *a)
{
    return ARENA_NEW(a, Memo);
}

static uint32_t memo_bucket(const Instruction *inst, uint32_t rank,
                            const IndexExpr *const *index, uint32_t lane)
{
    uint64_t h =
        (inst == NULL ? 7 : (uint64_t)inst->id + 11) * UINT64_C(0x9e3779b97f4a7c15);
    h += lane;
    for (uint32_t i = 0; i < rank; i++)
        h = (h ^ index[i]->id) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)((h ^ (h >> 32)) % MEMO_BUCKETS);
}

MemoEntry *memo_find(Emit *e, const Instruction *inst, uint32_t rank,
                     const IndexExpr *const *index, uint32_t lane)
{
    MemoEntry *m = e->memo->buckets[memo_bucket(inst, rank, index, lane)];
    for (; m != NULL; m = m->next) {
        if (m->inst == inst && m->rank == rank && m->lane == lane &&
            (rank == 0 || memcmp(m->index, index, rank * sizeof *index) == 0))
            return m;
    }
    return NULL;
}

void memo_add(Emit *e, const Instruction *inst, uint32_t rank,
              const IndexExpr *const *index, uint32_t lane, const LLVMValueRef *values,
              uint32_t count)
{
    Memo *memo = e->memo;
    MemoEntry *m = ARENA_NEW(e->arena, MemoEntry);
    m->inst = inst;
    m->index = arena_copy(e->arena, index, rank * sizeof *index);
    m->rank = rank;
    m->lane = lane;
    m->values = arena_copy(e->arena, values, count * sizeof *values);
    m->bucket = memo_bucket(inst, rank, index, lane);
    m->next = memo->buckets[m->bucket];
    memo->buckets[m->bucket] = m;
    memo->entries = arena_grow(e->arena, memo->entries, &memo->capacity, memo->count + 1,
                               sizeof(MemoEntry *));
    memo->entries[memo->count++] = m;
}

void emit_scope_begin(Emit *e)
{
    Memo *memo = e->memo;
    memo->scopes = arena_grow(e->arena, memo->scopes, &memo->scope_capacity,
                              memo->scope_count + 1, sizeof(size_t));
    memo->scopes[memo->scope_count++] = memo->count;
}

void emit_scope_end(Emit *e)
{
    Memo *memo = e->memo;
    size_t keep = memo->scopes[--memo->scope_count];
    while (memo->count > keep) {
        MemoEntry *m = memo->entries[--memo->count];
        memo->buckets[m->bucket] = m->next;
    }
}
