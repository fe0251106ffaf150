/* See partials.h. */
#include "codegen/kernel/partials.h"

#include "codegen/kernel/threads.h"

static LLVMValueRef offset_of(Emit *e, const Partials *p, uint32_t n, DType t,
                              const IndexExpr *at, uint32_t lane)
{
    IndexContext *ix = e->ix;
    uint64_t first = reduction_partial_offset(p->plan, p->blocks, n);
    at = ix_mul(ix, ix_add(ix, at, ix_const(ix, lane)), shared_bytes(t));
    return emit_index(e, ix_add(ix, at, ix_const(ix, (int64_t)first)), 0);
}

void partials_store(Emit *e, const Partials *p, const IndexExpr *at,
                    const LLVMValueRef *values)
{
    uint32_t n = 0;
    for (uint32_t h = 0; h < p->plan->hero_count; h++) {
        for (uint32_t i = 0; i < p->reducers[h].count; i++, n++) {
            DType t = p->reducers[h].accumulator[i];
            for (uint32_t v = 0; v < p->lanes; v++)
                memory_store(e, emitter_partials_arg(p->in), t,
                             offset_of(e, p, n, t, at, v), values[n * p->lanes + v]);
        }
    }
}

void partials_load(Emit *e, const Partials *p, const IndexExpr *at, LLVMValueRef *values)
{
    uint32_t n = 0;
    for (uint32_t h = 0; h < p->plan->hero_count; h++) {
        for (uint32_t i = 0; i < p->reducers[h].count; i++, n++) {
            DType t = p->reducers[h].accumulator[i];
            for (uint32_t v = 0; v < p->lanes; v++)
                values[n * p->lanes + v] = memory_load(e, emitter_partials_arg(p->in), t,
                                                       offset_of(e, p, n, t, at, v));
        }
    }
}

uint32_t partials_unroll(uint32_t values)
{
    enum { AT_ONCE = 4 };
    return values <= AT_ONCE ? AT_ONCE : 1;
}
