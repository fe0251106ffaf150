/* The loop emitter: one thread computes a few neighbouring elements of every result. For all
 * that is elementwise, moves or selects. Threads follow the physical order of the results, so
 * that stores are contiguous. Results of several sizes share the launch: each size has as many
 * of the threads as it needs. */
#include "codegen/kernel/emitters.h"

/* The results with so many elements are a group: the same threads make them. */
typedef struct Group {
    const EmitterInput *in;
    int64_t elements;
} Group;

static bool in_group(const Group *g, uint32_t leaf)
{
    return shape_elements(fusion_result(g->in->fusion, leaf).shape) == g->elements;
}

/* Results that may lie where an operand lies are stored when everything was read. */
static void emit_group(Emit *e, const void *user, const IndexExpr *linear)
{
    const Group *g = user;
    const Instruction *fusion = g->in->fusion;
    uint32_t count = fusion_result_count(fusion);
    const IndexExpr *index[EMIT_MOST_RANK];
    LLVMValueRef **held = ARENA_ARRAY(e->arena, LLVMValueRef *, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!in_group(g, i))
            continue;
        FusionResult r = fusion_result(fusion, i);
        uint32_t arg = fusion_result_arg(fusion, i);
        held[i] = ARENA_ARRAY(e->arena, LLVMValueRef, EMIT_MOST_LANES);
        emit_delinear(e, r.shape, linear, index);
        emit_leaf(e, r.inst, r.inst_leaf, index, held[i]);
        if (g->in->args[arg].is_noalias)
            emit_store(e, arg, r.shape, index, held[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t arg = fusion_result_arg(fusion, i);
        if (!in_group(g, i) || g->in->args[arg].is_noalias)
            continue;
        const Shape *shape = fusion_result(fusion, i).shape;
        emit_delinear(e, shape, linear, index);
        emit_store(e, arg, shape, index, held[i]);
    }
}

Kernel *emitter_loop(const EmitterInput *in)
{
    const LoopPlan *p = in->design->plan.loop;
    Emit *e = emitter_begin(in);
    LLVMValueRef id = emit_thread_number(e);
    for (uint32_t i = 0; i < p->count; i++) {
        Group g = {in, p->sizes[i]};
        emit_elements(e, id, g.elements, (uint32_t)in->design->config.lanes.data[i],
                      emit_group, &g);
    }
    return emitter_finish(in, e);
}
