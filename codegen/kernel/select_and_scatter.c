/* Select-and-scatter: a thread for each element of the result walks over the windows that hold it, in
 * order, finds what each of them selects, and combines the sources of those that selected it. */
#include "codegen/element/reducer.h"
#include "codegen/kernel/emitters.h"
#include "codegen/kernel/threads.h"

typedef struct Choice {
    const EmitterInput *in;
    const Instruction *inst;
    const Computation *select;
    const Shape *operand, *source;
    WindowDim dims[EMIT_MOST_RANK];
} Choice;

static Computation *called(const Instruction *inst, AttrId id)
{
    return inst_attr(inst, id)->computations.data[0];
}

/* Windows that can hold one position along a dimension. */
static int64_t candidates(const WindowDim *w)
{
    int64_t span = (w->size - 1) * w->window_dilation + 1;
    return (span + w->stride - 1) / w->stride;
}

/* The number of the element that the window at `window` selects, -1 if it lies in the padding only. */
static LLVMValueRef selected(Emit *e, const Choice *c, const IndexExpr *const *window)
{
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    DType t = c->operand->dtype;
    int64_t positions = 1;
    for (uint32_t d = 0; d < c->operand->rank; d++)
        positions *= c->dims[d].size;
    LLVMValueRef carried[] = {emit_index_constant(e, -1), LLVMConstNull(emit_type(k, t))};
    GxLoop loop;
    gx_loop_begin(k, &loop, emit_index_constant(e, 0), emit_index_constant(e, positions),
                  emit_index_constant(e, 1), carried, 2);
    emit_scope_begin(e);
    const IndexExpr *left = emit_variable(e, loop.index, (Range){0, positions - 1});
    const IndexExpr *at[EMIT_MOST_RANK];
    LLVMValueRef ok = NULL;
    for (uint32_t d = c->operand->rank; d-- > 0;) {
        const WindowDim *w = &c->dims[d];
        const IndexExpr *offset =
            ix_mul(e->ix, ix_mod(e->ix, left, w->size), w->window_dilation);
        left = ix_floordiv(e->ix, left, w->size);
        at[d] = ix_add(e->ix, ix_add(e->ix, ix_mul(e->ix, window[d], w->stride), offset),
                       ix_const(e->ix, -w->pad_low));
        Range in_bounds = {0, c->operand->dims[d] - 1};
        if (at[d]->range.lo >= in_bounds.lo && at[d]->range.hi <= in_bounds.hi)
            continue;
        LLVMValueRef fits = emit_in_range(e, at[d], in_bounds, 0);
        ok = ok == NULL ? fits : LLVMBuildAnd(b, ok, fits, "");
    }
    GxIf guard;
    emit_if_begin(e, &guard, ok);
    LLVMValueRef x, keeps, next[2];
    emit_element(e, c->inst->operands[0], at, &x);
    k->at = c->inst->name;
    emit_computation(e, c->select, (LLVMValueRef[]){carried[1], x}, &keeps);
    LLVMValueRef is_first =
        LLVMBuildICmp(b, LLVMIntSLT, carried[0], emit_index_constant(e, 0), "");
    LLVMValueRef takes = LLVMBuildOr(b, is_first, LLVMBuildNot(b, keeps, ""), "");
    LLVMValueRef number = emit_index(e, index_linear(e->ix, c->operand, at), 0);
    next[0] = LLVMBuildSelect(b, takes, number, carried[0], "");
    next[1] = LLVMBuildSelect(b, takes, x, carried[1], "");
    emit_if_end_or(e, &guard, next, carried, 2);
    emit_scope_end(e);
    gx_loop_end(k, &loop, next);
    return carried[0];
}

static void combine_window(Emit *e, const Choice *c, const Reducer *r,
                           const IndexExpr *const *window, LLVMValueRef mine,
                           LLVMValueRef *sum)
{
    Kernel *k = e->k;
    GxIf is_mine;
    LLVMValueRef choice = selected(e, c, window), source, next;
    emit_if_begin(e, &is_mine, LLVMBuildICmp(k->builder, LLVMIntEQ, choice, mine, ""));
    emit_element(e, c->inst->operands[1], window, &source);
    k->at = c->inst->name;
    source = reducer_widen(r, 0, source);
    reducer_combine(r, sum, &source, &next);
    emit_if_end_or(e, &is_mine, &next, sum, 1);
    *sum = next;
}

/* Along each dimension the windows that can hold the position, the last of them number
 * (position + pad_low) / stride; one loop counts through all combinations in order. */
static void choose_element(Emit *e, const void *user, const IndexExpr *linear)
{
    const Choice *c = user;
    Kernel *k = e->k;
    LLVMBuilderRef b = k->builder;
    const IndexExpr *at[EMIT_MOST_RANK], *window[EMIT_MOST_RANK];
    LLVMValueRef sum, next;
    int64_t combinations = 1;
    emit_delinear(e, c->operand, linear, at);
    LLVMValueRef mine = emit_index(e, index_linear(e->ix, c->operand, at), 0);
    Reducer r;
    reducer_begin_in_order(&r, e, c->inst, called(c->inst, ATTR_SCATTER),
                           c->inst->operands[2]);
    reducer_start(&r, &sum);
    for (uint32_t d = 0; d < c->operand->rank; d++)
        combinations *= candidates(&c->dims[d]);
    GxLoop loop;
    gx_loop_begin(k, &loop, emit_index_constant(e, 0),
                  emit_index_constant(e, combinations), emit_index_constant(e, 1), &sum,
                  1);
    emit_scope_begin(e);
    const IndexExpr *left = emit_variable(e, loop.index, (Range){0, combinations - 1});
    LLVMValueRef ok = NULL;
    for (uint32_t d = c->operand->rank; d-- > 0;) {
        int64_t n = candidates(&c->dims[d]);
        const IndexExpr *back =
            ix_add(e->ix, ix_mod(e->ix, left, n), ix_const(e->ix, 1 - n));
        const IndexExpr *last =
            ix_floordiv(e->ix, ix_add(e->ix, at[d], ix_const(e->ix, c->dims[d].pad_low)),
                        c->dims[d].stride);
        left = ix_floordiv(e->ix, left, n);
        const IndexExpr *x = ix_add(e->ix, last, back);
        Range exists = {0, c->source->dims[d] - 1};
        window[d] = x;
        if (x->range.lo >= exists.lo && x->range.hi <= exists.hi)
            continue;
        LLVMValueRef fits = emit_in_range(e, x, exists, 0);
        ok = ok == NULL ? fits : LLVMBuildAnd(b, ok, fits, "");
        window[d] = emit_variable(e, emit_index(e, x, 0), exists);
    }
    GxIf guard;
    emit_if_begin(e, &guard, ok);
    next = sum;
    combine_window(e, c, &r, window, mine, &next);
    emit_if_end_or(e, &guard, &next, &sum, 1);
    emit_scope_end(e);
    gx_loop_end(k, &loop, &next);
    reducer_finish(&r, &sum, &sum);
    emit_store(e, fusion_result_arg(c->in->fusion, 0), c->inst->shape, at, &sum);
}

Kernel *emitter_select_and_scatter(const EmitterInput *in)
{
    const Instruction *inst = fusion_hero(in->fusion, OP_SELECT_AND_SCATTER);
    Choice c = {.in = in,
                .inst = inst,
                .select = called(inst, ATTR_SELECT),
                .operand = inst->operands[0]->shape,
                .source = inst->operands[1]->shape};
    const Window *w = inst_window(inst);
    for (uint32_t d = 0; d < c.operand->rank; d++) {
        c.dims[d] =
            d < w->rank
                ? w->dims[d]
                : (WindowDim){
                      .size = 1, .stride = 1, .base_dilation = 1, .window_dilation = 1};
    }
    Emit *e = emit_for_elements(in, shape_elements(c.operand), 1, choose_element, &c);
    return emitter_finish(in, e);
}
