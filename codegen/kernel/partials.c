/* See partials.h. */
#include "codegen/kernel/partials.h"

#include "codegen/kernel/threads.h"
#include "codegen/kernel/ticket.h"

/* Of accumulator n's value for the row and lane, by `block`. */
static LLVMValueRef offset_of(const Partials *p, uint32_t n, DType t,
                              const IndexExpr *block, uint32_t lane)
{
    IndexContext *ix = p->e->ix;
    uint64_t first = reduction_partial_offset(p->plan, p->blocks, n);
    const IndexExpr *at =
        ix_add(ix, ix_mul(ix, block, p->block_step), ix_mul(ix, p->row, p->row_step));
    at = ix_mul(ix, ix_add(ix, at, ix_const(ix, lane)), shared_bytes(t));
    return emit_index(p->e, ix_add(ix, at, ix_const(ix, (int64_t)first)), 0);
}

void partials_leave(const Partials *p, LLVMValueRef thread, const LLVMValueRef *values)
{
    Emit *e = p->e;
    LLVMBuilderRef b = e->k->builder;
    const IndexExpr *block =
        emit_variable(e, to_index(e, p->block), (Range){0, p->blocks - 1});
    LLVMValueRef stores = LLVMBuildICmp(b, LLVMIntEQ, thread, gx_i32(e->k, 0), "");
    if (p->in_range != NULL)
        stores = LLVMBuildAnd(b, stores, p->in_range, "");
    GxIf first;
    uint32_t n = 0;
    emit_if_begin(e, &first, stores);
    for (uint32_t h = 0; h < p->plan->hero_count; h++) {
        for (uint32_t i = 0; i < p->reducers[h].count; i++, n++) {
            DType t = p->reducers[h].accumulator[i];
            for (uint32_t v = 0; v < p->lanes; v++)
                memory_store(e, emitter_partials_arg(p->in), t,
                             offset_of(p, n, t, block, v), values[n * p->lanes + v]);
        }
    }
    emit_if_end(e, &first, NULL, 0, NULL);
}

LLVMValueRef partials_are_complete(const Partials *p)
{
    Kernel *k = p->e->k;
    LLVMValueRef ticket = gx_mul_natural(k, p->group, gx_i32(k, REDUCTION_TICKET_BYTES));
    return ticket_is_last(k, emitter_tickets_arg(p->in), ticket, p->blocks,
                          gx_shared_alloc(k, 4, 4));
}

void partials_take(const Partials *p, const IndexExpr *block, LLVMValueRef *values)
{
    uint32_t n = 0;
    for (uint32_t h = 0; h < p->plan->hero_count; h++) {
        for (uint32_t i = 0; i < p->reducers[h].count; i++, n++) {
            DType t = p->reducers[h].accumulator[i];
            for (uint32_t v = 0; v < p->lanes; v++)
                values[n * p->lanes + v] = memory_load(p->e, emitter_partials_arg(p->in),
                                                       t, offset_of(p, n, t, block, v));
        }
    }
}

uint32_t partials_unroll(uint32_t values)
{
    enum { AT_ONCE = 4 };
    return values <= AT_ONCE ? AT_ONCE : 1;
}
