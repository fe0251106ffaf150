/* See regroup.h. */
#include "passes/fusion/regroup.h"

#include "ir/attribute/config.h"
#include "ir/kernel/kind.h"
#include "ir/kernel/time/kernel_time.h"
#include "ir/kernel/time/kernel_work.h"

bool regroup_is_reduction(const Instruction *inst)
{
    return inst->op == OP_FUSION && kernel_is(inst, KERNEL_REDUCES) &&
           inst->control_count == 0 && !config_has_kernel(inst);
}

bool regroup_may_go(const Regroup *r, const Instruction *kernel)
{
    bool may = !r->is_awaited[kernel->id], is_tuple = shape_is_tuple(kernel->shape);
    for (uint32_t i = r->uses.start[kernel->id];
         i < r->uses.start[kernel->id + 1] && is_tuple && may; i++) {
        const Instruction *user = r->uses.list[i];
        may = user->op == OP_GET_TUPLE_ELEMENT && !r->is_awaited[user->id] &&
              user->control_count == 0;
    }
    return may;
}

double regroup_seconds(const Regroup *r, const Instruction *kernel)
{
    KernelWork w;
    kernel_work(kernel, r->cx->target, r->brief, &w);
    return kernel_time(&w, r->cx->target->device).seconds;
}

/* -- kernels --------------------------------------------------------------------------------------- */

Instruction *regroup_copy(Computation *comp, const Instruction *kernel)
{
    Instruction *copy = computation_add_like(comp, kernel, kernel->shape,
                                             kernel->operand_count, kernel->operands);
    Computation *own = computation_clone(inst_called(kernel, 0), NULL);
    own->is_fused = true;
    inst_set_called(copy, 0, own);
    return copy;
}

Instruction *regroup_bring_in(const Regroup *r, Instruction *fusion,
                              const Instruction *kernel, Instruction *other)
{
    Instruction *root = inst_called(fusion, 0)->root;
    uint32_t spare = 0;
    FusionLeaves leaves = {
        .users_see = ARENA_ARRAY(r->brief, Instruction *, other->operand_count),
        .inside = ARENA_ARRAY(r->brief, Instruction *, other->operand_count)};
    for (uint32_t i = 0; i < other->operand_count; i++) {
        Instruction *o = other->operands[i];
        if (!fusion_is_result_of(o, kernel))
            continue;
        leaves.users_see[leaves.count] = o;
        leaves.inside[leaves.count++] =
            o == kernel ? root : root->operands[inst_int(o, ATTR_INDEX, 0)];
    }
    return fusion_bring_in(fusion, &leaves, other, false, &spare, r->brief);
}

/* -- programs -------------------------------------------------------------------------------------- */

void regroup_take_graph(Regroup *r)
{
    computation_sort(r->comp);
    r->uses = uses_compute(r->comp, r->cx->scratch);
    bool *is_awaited = ARENA_ARRAY(r->cx->scratch, bool, r->comp->instruction_count);
    for (const Instruction *inst = inst_first(r->comp); inst; inst = inst_next(inst)) {
        for (uint32_t k = 0; k < inst->control_count; k++)
            is_awaited[inst->control[k]->id] = true;
    }
    r->is_awaited = is_awaited;
}

static bool attempt_all(Regroup *r, bool (*is_candidate)(const Instruction *),
                        bool (*attempt)(Regroup *r, Instruction *kernel))
{
    bool changed = false;
    regroup_take_graph(r);
    uint32_t count = 0;
    Instruction **kernels =
        ARENA_ARRAY(r->cx->scratch, Instruction *, r->comp->instruction_count);
    for (Instruction *inst = inst_first(r->comp); inst; inst = inst_next(inst)) {
        if (is_candidate(inst))
            kernels[count++] = inst;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id = kernels[i]->id; /* it may be part of another one by now */
        if (id < r->comp->instruction_count && r->comp->instructions[id] == kernels[i])
            changed |= attempt(r, kernels[i]);
        arena_reset(r->brief);
    }
    return changed;
}

bool regroup_run(Module *m, PassContext *cx, bool (*is_candidate)(const Instruction *),
                 bool (*attempt)(Regroup *r, Instruction *kernel))
{
    Regroup r = {.m = m, .cx = cx, .brief = arena_scratch()};
    Computations programs = module_programs(m, cx->scratch);
    bool changed = false;
    for (uint32_t i = 0; i < programs.count; i++) {
        r.comp = programs.data[i];
        changed |= attempt_all(&r, is_candidate, attempt);
    }
    arena_destroy(r.brief);
    if (changed)
        fusion_name_all(m);
    if (r.tried) {
        module_remove_dead_computations(m);
        module_sort(m);
    }
    return changed;
}
