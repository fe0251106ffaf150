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

typedef struct GroupIndex {
    int64_t elements;
    const IndexExpr *linear;
} GroupIndex;

static bool index_in_group(Emit *e, const void *user, const Shape *result,
                           const IndexExpr **index)
{
    const GroupIndex *g = user;
    if (shape_elements(result) != g->elements)
        return false;
    emit_delinear(e, result, g->linear, index);
    return true;
}

static void emit_group(Emit *e, const void *user, const IndexExpr *linear)
{
    const Group *g = user;
    GroupIndex at = {g->elements, linear};
    emit_results(e, g->in, index_in_group, &at);
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
