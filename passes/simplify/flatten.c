/* A computation of its own for every caller: a condition, body or branch that several loops
 * or conditionals share is copied, for its values lie in one position each.
 *
 *   a = while(x), condition=c, body=b        a = while(x), condition=c, body=b
 *   d = while(y), condition=c, body=b   =>   d = while(y), condition=c.1, body=b.1
 *
 * Needs: nothing. Keeps: everything else. Breaks: nothing.
 * What is applied to scalars, and fusions, may stay shared among themselves, but not with what a caller
 * runs: kernels take them in as they are. Ends: each computation is entered once; beyond FLATTEN_LIMIT
 * instructions sharing stays. */
#include "passes/simplify/simplify.h"

enum { FLATTEN_LIMIT = 4000000 }; /* instructions that are copied */

typedef struct Flatten {
    Module *m;
    Arena *scratch;
    Computation **stack; /* computations whose callees are still to be looked at */
    size_t count, capacity;
    bool *taken; /* by Computation.id: a caller has it */
    size_t taken_capacity;
    size_t copied;
    Computation *
        *applied; /* by id, in the second sweep: what stands for one that is applied */
    size_t applied_capacity;
} Flatten;

static bool take(Flatten *f, const Computation *comp)
{
    f->taken = arena_grow(f->scratch, f->taken, &f->taken_capacity, (size_t)comp->id + 1,
                          sizeof *f->taken);
    bool was = f->taken[comp->id];
    f->taken[comp->id] = true;
    return !was;
}

static void push(Flatten *f, Computation *comp)
{
    f->stack =
        arena_grow(f->scratch, f->stack, &f->capacity, f->count + 1, sizeof *f->stack);
    f->stack[f->count++] = comp;
}

static bool flatten_calls(Flatten *f, Instruction *inst)
{
    bool changed = false;
    uint32_t calls = inst_called_count(inst);
    for (uint32_t k = 0; k < calls; k++) {
        Computation *callee = inst_called(inst, k);
        if (!take(f, callee)) {
            if (f->copied + callee->instruction_count > FLATTEN_LIMIT)
                continue;
            f->copied += callee->instruction_count;
            callee = computation_clone(callee, NULL);
            take(f, callee);
            if (!changed)
                inst_own_called(inst);
            inst_put_called(inst, k, callee);
            changed = true;
        }
        push(f, callee);
    }
    return changed;
}

static Computation *apart(Flatten *f, Computation *comp);

static void apply_apart(Flatten *f, Instruction *inst)
{
    bool changed = false;
    for (uint32_t k = 0; k < inst_called_count(inst); k++) {
        Computation *comp = inst_called(inst, k), *own = apart(f, comp);
        if (own == comp)
            continue;
        if (!changed)
            inst_own_called(inst);
        inst_put_called(inst, k, own);
        changed = true;
    }
}

/* The computation to apply instead of one that a caller runs, too. */
static Computation *apart(Flatten *f, Computation *comp)
{
    f->applied = arena_grow(f->scratch, f->applied, &f->applied_capacity,
                            (size_t)comp->id + 1, sizeof(Computation *));
    if (f->applied[comp->id] != NULL)
        return f->applied[comp->id];
    bool is_run = comp->id < f->taken_capacity && f->taken[comp->id];
    Computation *own = is_run ? computation_clone(comp, NULL) : comp;
    f->applied[comp->id] = own;
    for (Instruction *inst = inst_first(own); inst; inst = inst_next(inst))
        apply_apart(f, inst);
    return own;
}

static bool part_applied(Flatten *f)
{
    uint32_t count = f->m->computation_count;
    Computations programs = module_programs(f->m, f->scratch);
    for (uint32_t c = 0; c < programs.count; c++) {
        const Computation *comp = programs.data[c];
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (!op_is(inst->op, OPF_CONTROL | OPF_ASYNC_START))
                apply_apart(f, inst);
        }
    }
    return f->m->computation_count != count;
}

bool pass_flatten(Module *m, PassContext *cx)
{
    Flatten f = {.m = m, .scratch = cx->scratch};
    bool changed = false;
    push(&f, m->entry);
    while (f.count > 0) {
        Computation *comp = f.stack[--f.count];
        for (Instruction *inst = inst_first(comp); inst; inst = inst_next(inst)) {
            if (op_is(inst->op, OPF_CONTROL))
                changed |= flatten_calls(&f, inst);
        }
    }
    changed |= part_applied(&f);
    if (changed)
        module_sort(m);
    return changed;
}
