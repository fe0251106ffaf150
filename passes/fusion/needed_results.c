/* Results of sorts and scans that nobody reads are not written: of an argsort only the positions are wanted, of a scan of
 * runs only the sums.
 *
 *   s = (f32[8,512], s32[8,512]) fusion(k, p), calls={sort}    i = get-tuple-element(s), index=1
 *   ->  i = s32[8,512] fusion(k, p), calls={sort, get-tuple-element}
 *
 * They would be temporary memory, and bytes to write. Sorts only where a block sorts whole rows: the steps of a longer
 * one read what the one before has written.
 *
 * Needs: wrapped. Keeps: what anybody reads. Ends: one sweep. */
#include "ir/kernel/kind.h"
#include "ir/kernel/rules.h"
#include "ir/kernel/sort.h"
#include "passes/fusion/fusion.h"

typedef struct Drop {
    Computation *comp;
    PassContext *cx;
    Uses uses;
    Instruction **forward; /* by id: what takes its place */
} Drop;

/* Which results are read; false: all of them, or somebody takes the whole tuple. */
static bool find_read(const Drop *d, const Instruction *fusion, bool *is_read)
{
    uint32_t count = (uint32_t)shape_leaf_count(fusion->shape), read = 0;
    for (uint32_t i = d->uses.start[fusion->id]; i < d->uses.start[fusion->id + 1]; i++) {
        const Instruction *user = d->uses.list[i];
        if (user->op != OP_GET_TUPLE_ELEMENT || user->control_count != 0)
            return false;
        is_read[inst_int(user, ATTR_INDEX, 0)] = true;
    }
    for (uint32_t i = 0; i < count; i++)
        read += is_read[i];
    return read != 0 && read != count;
}

static bool may_drop(const Drop *d, const Instruction *inst)
{
    if (inst->op != OP_FUSION || inst == d->comp->root || shape_is_array(inst->shape) ||
        inst->control_count != 0)
        return false;
    const Instruction *root = inst_called(inst, 0)->root;
    if (kernel_hero(inst) != root->op)
        return false;
    return root->op == OP_REDUCE_WINDOW ||
           (root->op == OP_SORT && sort_step(root).run == 0 &&
            sort_is_in_block(root, d->cx->target));
}

/* The results that are read, in their order: a new fusion, and its readers by what they become. */
static void drop(Drop *d, Instruction *old, const bool *is_read)
{
    uint32_t count = (uint32_t)shape_leaf_count(old->shape), n = 0;
    Arena *scratch = d->cx->scratch;
    Instruction **inside = ARENA_ARRAY(scratch, Instruction *, count);
    Instruction **become = ARENA_ARRAY(scratch, Instruction *, count);
    Computation *fused = inst_called(old, 0);
    for (uint32_t i = 0; i < count; i++) {
        if (is_read[i])
            inside[n++] = computation_add_element(fused->root, i);
    }
    fusion_set_results(old, inside, n);
    Instruction *fusion = computation_add_like(d->comp, old, fused->root->shape,
                                               old->operand_count, old->operands);
    n = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (is_read[i])
            become[i] = shape_is_array(fusion->shape)
                            ? fusion
                            : computation_add_element(fusion, n++);
    }
    for (uint32_t i = d->uses.start[old->id]; i < d->uses.start[old->id + 1]; i++) {
        const Instruction *user = d->uses.list[i];
        d->forward[user->id] = become[inst_int(user, ATTR_INDEX, 0)];
    }
    d->forward[old->id] = fusion;
}

static bool drop_all(Computation *comp, PassContext *cx)
{
    uint32_t count = comp->instruction_count;
    Drop d = {comp, cx, uses_compute(comp, cx->scratch), NULL};
    for (uint32_t i = 0; i < count; i++) {
        Instruction *inst = comp->instructions[i];
        if (inst == NULL || !may_drop(&d, inst))
            continue;
        bool *is_read =
            ARENA_ARRAY(cx->scratch, bool, shape_leaf_count(inst->shape) + 1u);
        if (!find_read(&d, inst, is_read))
            continue;
        if (d.forward == NULL)
            d.forward = ARENA_ARRAY(cx->scratch, Instruction *, count);
        drop(&d, inst, is_read);
    }
    if (d.forward != NULL)
        computation_substitute(comp, d.forward, count);
    return d.forward != NULL;
}

bool pass_needed_results(Module *m, PassContext *cx)
{
    Computations programs = module_programs(m, cx->scratch);
    bool changed = false;
    for (uint32_t c = 0; c < programs.count; c++)
        changed |= drop_all(programs.data[c], cx);
    if (changed) {
        fusion_name_all(m);
        module_sort(m);
    }
    return changed;
}
