/* Kernels with a thread for every few elements of something. See emitters.h. */
#include "codegen/kernel/emitters.h"

/* The last thread's elements where the count is no multiple of the lanes. */
static void emit_tail(Emit *e, const IndexExpr *first, int64_t elements, ElementsFn *body,
                      const void *user)
{
    uint32_t lanes = e->lanes;
    GxLoop loop;
    gx_loop_begin(e->k, &loop, emit_index(e, first, 0), emit_index_constant(e, elements),
                  emit_index_constant(e, 1), NULL, 0);
    emit_scope_begin(e);
    e->lanes = 1;
    e->k->is_rest = true;
    body(e, user, emit_variable(e, loop.index, (Range){0, elements - 1}));
    e->k->is_rest = false;
    e->lanes = lanes;
    emit_scope_end(e);
    gx_loop_end(e->k, &loop, NULL);
}

/* The elements of thread number `id`. */
static void emit_thread(Emit *e, LLVMValueRef id, int64_t threads, int64_t elements,
                        ElementsFn *body, const void *user)
{
    uint32_t lanes = e->lanes;
    const IndexExpr *thread = emit_variable(e, id, (Range){0, threads - 1});
    const IndexExpr *first = ix_mul(e->ix, thread, lanes);
    if (elements % lanes == 0) {
        body(e, user, ix_add(e->ix, first, emit_lane(e)));
        return;
    }
    GxIf whole;
    LLVMValueRef fits = emit_in_range(e, thread, (Range){0, threads - 2}, 0);
    emit_if_begin(e, &whole, fits);
    /* in this branch the thread is not the last one, so that its lanes stay in bounds */
    const IndexExpr *inner = emit_variable(e, id, (Range){0, threads - 2});
    body(e, user, ix_add(e->ix, ix_mul(e->ix, inner, lanes), emit_lane(e)));
    emit_if_else(e, &whole, NULL, 0);
    emit_tail(e, first, elements, body, user);
    emit_if_end(e, &whole, NULL, 0, NULL);
}

void emit_elements(Emit *e, LLVMValueRef id, int64_t elements, uint32_t lanes,
                   ElementsFn *body, const void *user)
{
    Kernel *k = e->k;
    int64_t threads = (elements + lanes - 1) / lanes;
    GxIf guard;
    LLVMValueRef has_some = NULL;
    if ((int64_t)k->grid[0] * k->block[0] != threads)
        has_some = LLVMBuildICmp(k->builder, LLVMIntULT, id,
                                 emit_index_constant(e, threads), "");
    e->lanes = lanes;
    emit_if_begin(e, &guard, has_some);
    emit_thread(e, id, threads, elements, body, user);
    emit_if_end(e, &guard, NULL, 0, NULL);
}

Emit *emit_for_elements(const EmitterInput *in, int64_t elements, uint32_t lanes,
                        ElementsFn *body, const void *user)
{
    Emit *e = emitter_begin(in);
    emit_elements(e, emit_thread_number(e), elements, lanes, body, user);
    return e;
}
