/* The loop emitter: one thread computes a few neighbouring elements of every result. For all
 * that is elementwise, moves or selects. Threads follow the physical order of the results, so
 * that stores are contiguous. Results of several sizes share the launch: each size has as many
 * of the threads as it needs. Those that all threads make come first: what they need besides, such
 * as numbers that all elements have in common, is at hand then for the others. */
#include "codegen/kernel/emitters.h"
#include "ir/base/divide.h"

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

/* The group that all threads make; 0: there is none. */
static uint32_t group_of_all(const Emit *e, const LoopPlan *p, const int64_t *lanes)
{
    int64_t threads = (int64_t)e->k->grid[0] * e->k->block[0];
    for (uint32_t i = 0; i < p->count; i++) {
        if (ceil_div(p->sizes[i], lanes[i]) == threads)
            return i;
    }
    return 0;
}

Kernel *emitter_loop(const EmitterInput *in)
{
    const LoopPlan *p = in->design->plan.loop;
    const int64_t *lanes = in->design->config.lanes.data;
    Emit *e = emitter_begin(in);
    LLVMValueRef id = emit_thread_number(e);
    uint32_t first = group_of_all(e, p, lanes);
    for (uint32_t i = 0; i < p->count; i++) {
        uint32_t n = i == 0 ? first : i <= first ? i - 1 : i;
        Group g = {in, p->sizes[n]};
        emit_elements(e, id, g.elements, (uint32_t)lanes[n], emit_group, &g);
    }
    return emitter_finish(in, e);
}
