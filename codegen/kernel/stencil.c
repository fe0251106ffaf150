/* Stencils: blocks of several rows walk from plane to plane, a thread along elements above one another. Neighbours are
 * plain loads, which L1 answers. See ir/kernel/kinds/stencil.c. */
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/threads.h"

typedef struct Walk {
    const EmitterInput *in;
    const StencilPlan *plan;
    StencilGrid grid;
    LLVMValueRef inner, row, between, step, outer; /* where the thread begins */
} Walk;

/* number becomes number / count; gives the remainder. */
static LLVMValueRef split_number(Emit *e, LLVMValueRef *number, int64_t count)
{
    LLVMBuilderRef b = e->k->builder;
    LLVMValueRef n = emit_index_constant(e, count);
    LLVMValueRef part = LLVMBuildURem(b, *number, n, "");
    *number = LLVMBuildUDiv(b, *number, n, "");
    return part;
}

/* part * by + more */
static LLVMValueRef position(Emit *e, LLVMValueRef part, int64_t by, LLVMValueRef more)
{
    LLVMBuilderRef b = e->k->builder;
    LLVMValueRef at = LLVMBuildNSWMul(b, part, emit_index_constant(e, by), "");
    return more == NULL ? at : LLVMBuildNSWAdd(b, at, more, "");
}

static void find_position(Emit *e, Walk *w)
{
    const KernelConfig *c = &w->in->design->config;
    LLVMValueRef number = to_index(e, gx_ctaid(e->k, 0)),
                 thread_row = to_index(e, gx_tid(e->k, 0));
    LLVMValueRef column = split_number(e, &thread_row, w->grid.width);
    w->inner =
        position(e, split_number(e, &number, w->grid.pieces), w->grid.width, column);
    w->row = position(e, split_number(e, &number, w->grid.groups), c->rows, thread_row);
    w->between = split_number(e, &number, w->plan->between);
    w->step = position(e, split_number(e, &number, w->grid.walks), c->items, NULL);
    w->outer = number;
}

/* i1: the thread has elements; NULL: all have. */
static LLVMValueRef has_elements(Emit *e, const Walk *w)
{
    LLVMBuilderRef b = e->k->builder;
    LLVMValueRef all = NULL;
    const struct {
        LLVMValueRef at;
        int64_t size, most;
    } sides[2] = {
        {w->inner, w->plan->inner / w->grid.lanes, w->grid.pieces * w->grid.width},
        {w->row, w->plan->rows, w->grid.groups * w->in->design->config.rows},
    };
    for (int i = 0; i < 2; i++) {
        if (sides[i].size == sides[i].most)
            continue;
        LLVMValueRef fits = LLVMBuildICmp(b, LLVMIntSLT, sides[i].at,
                                          emit_index_constant(e, sides[i].size), "");
        all = all == NULL ? fits : LLVMBuildAnd(b, all, fits, "");
    }
    return all;
}

static void walk(Emit *e, const Walk *w)
{
    const StencilPlan *p = w->plan;
    Kernel *k = e->k;
    int64_t items = w->in->design->config.items;
    const IndexExpr *index[EMIT_MOST_RANK];
    const IndexExpr *inner = emit_variable(e, w->inner,
                                           (Range){0, p->inner / w->grid.lanes - 1}),
                    *row = emit_variable(e, w->row, (Range){0, p->rows - 1}),
                    *between = emit_variable(e, w->between, (Range){0, p->between - 1}),
                    *outer = emit_variable(e, w->outer, (Range){0, p->outer - 1});
    LLVMValueRef end = position(e, w->step, 1, emit_index_constant(e, items));
    if (p->steps % items != 0) {
        LLVMValueRef last = emit_index_constant(e, p->steps);
        LLVMValueRef within = LLVMBuildICmp(k->builder, LLVMIntSLT, end, last, "");
        end = LLVMBuildSelect(k->builder, within, end, last, "");
    }
    GxLoop loop;
    gx_loop_begin(k, &loop, w->step, end, emit_index_constant(e, 1), NULL, 0);
    emit_scope_begin(e);
    const IndexExpr *at = emit_variable(e, loop.index, (Range){0, p->steps - 1});
    at = ix_add(e->ix, ix_mul(e->ix, outer, p->steps), at);
    at = ix_add(e->ix, ix_mul(e->ix, at, p->between), between);
    at = ix_add(e->ix, ix_mul(e->ix, at, p->rows), row);
    at = ix_add(e->ix, ix_mul(e->ix, at, p->inner), ix_mul(e->ix, inner, w->grid.lanes));
    at = ix_add(e->ix, at, emit_lane(e));
    emit_delinear(e, p->shape, at, index);
    emit_result(e, w->in->fusion, 0, index);
    emit_scope_end(e);
    gx_loop_end(k, &loop, NULL);
}

Kernel *emitter_stencil(const EmitterInput *in)
{
    Emit *e = emitter_begin(in);
    Walk w = {.in = in, .plan = in->design->plan.stencil};
    GxIf some;
    stencil_grid(in->design, &w.grid);
    e->lanes = (uint32_t)w.grid.lanes;
    find_position(e, &w);
    emit_if_begin(e, &some, has_elements(e, &w));
    walk(e, &w);
    emit_if_end(e, &some, NULL, 0, NULL);
    return emitter_finish(in, e);
}
