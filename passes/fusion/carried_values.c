/* Values that the next ones replace in their buffers, in a loop or for a donated argument: a kernel that makes the next
 * one before all readers of the present one have run needs a copy. See multi_output.h. */
#include "ir/analysis/carried.h"
#include "passes/fusion/fusion.h"
#include "passes/fusion/multi_output.h"

typedef struct Reader {
    const Instruction *inst;
    uint32_t operand;
} Reader;

struct Carried {
    Carried *next; /* of the same instruction */
    int64_t elements;
    Reader *readers;
    size_t count, capacity;
};

static bool kernel_makes(const Kernel *a, const Kernel *b, const Instruction *inst)
{
    for (uint32_t i = 0; i < a->leaves.count; i++) {
        if (a->leaves.users_see[i] == inst)
            return true;
    }
    for (uint32_t i = 0; b != NULL && i < b->leaves.count; i++) {
        if (b->leaves.users_see[i] == inst)
            return true;
    }
    return false;
}

static bool comes_behind(const Paths *paths, const Instruction *inst, const Kernel *k)
{
    for (uint32_t l = 0; k != NULL && l < k->leaves.count; l++) {
        if (paths_lead(paths, k->leaves.users_see[l], inst))
            return true;
    }
    return false;
}

/* What reads the carried value reads it before `a` and `b`, as one kernel, replace it - or in the
 * kernel, where it is written. */
static bool present_survives(const Carried *c, const Paths *paths, const Kernel *a,
                             const Kernel *b)
{
    for (size_t i = 0; i < c->count; i++) {
        const Instruction *inst = c->readers[i].inst;
        if (!kernel_makes(a, b, inst)) {
            if (comes_behind(paths, inst, a) || comes_behind(paths, inst, b))
                return false;
            continue;
        }
        const Kernel *own = b != NULL && kernel_makes(b, NULL, inst) ? b : a;
        if (inst->op != OP_FUSION || kernel_kind_is(own->kind, KERNEL_REDUCES) ||
            !kernel_reads_at_results(inst, c->readers[i].operand, c->elements))
            return false;
    }
    return true;
}

uint32_t carried_copies(const CarriedValues *v, const Paths *paths, const Kernel *a,
                        const Kernel *b)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < 2; k++) {
        const Kernel *own = k == 0 ? a : b;
        for (uint32_t i = 0; own != NULL && i < own->leaves.count; i++) {
            const Carried *c = v->replaced[own->leaves.users_see[i]->id];
            for (; c != NULL; c = c->next)
                n += !present_survives(c, paths, a, b);
        }
    }
    return n;
}

static void note_reader(Carried *c, const Instruction *inst, uint32_t operand, Arena *a)
{
    c->readers =
        arena_grow(a, c->readers, &c->capacity, c->count + 1, sizeof *c->readers);
    c->readers[c->count++] = (Reader){inst, operand};
}

CarriedValues carried_find(const Computation *comp, bool is_body, Arena *scratch)
{
    uint32_t count = comp->instruction_count;
    const ValueSource *presents = carried_presents(comp, is_body, scratch);
    /* by instruction id, then by leaf: what replaces a parameter's leaf */
    Carried ***of = ARENA_ARRAY(scratch, Carried **, (size_t)count + 1);
    CarriedValues v = {.replaced = ARENA_ARRAY(scratch, Carried *, (size_t)count + 1)};
    for (size_t i = 0; i < shape_leaf_count(comp->root->shape); i++) {
        ValueSource present = presents[i], next = value_source(comp->root, i);
        if (present.inst == NULL || next.inst->op != OP_FUSION)
            continue;
        Carried *c = ARENA_NEW(scratch, Carried);
        c->elements = shape_elements(shape_leaf(next.inst->shape, next.leaf));
        c->next = v.replaced[next.inst->id];
        v.replaced[next.inst->id] = c;
        if (of[present.inst->id] == NULL)
            of[present.inst->id] = ARENA_ARRAY(scratch, Carried *,
                                               shape_leaf_count(present.inst->shape) + 1);
        of[present.inst->id][present.leaf] = c;
    }
    for (uint32_t i = 0; i < count; i++) {
        const Instruction *inst = comp->instructions[i];
        if (inst->op == OP_TUPLE || inst->op == OP_GET_TUPLE_ELEMENT)
            continue;
        for (uint32_t k = 0; k < inst->operand_count; k++) {
            if (!shape_is_array(inst->operands[k]->shape))
                continue;
            ValueSource s = value_source(inst->operands[k], 0);
            if (of[s.inst->id] != NULL && of[s.inst->id][s.leaf] != NULL)
                note_reader(of[s.inst->id][s.leaf], inst, k, scratch);
        }
    }
    return v;
}
