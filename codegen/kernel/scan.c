/* See scan.h. */
#include "codegen/kernel/scan.h"

#include "codegen/kernel/threads.h"

Scan scan_of(const EmitterInput *in)
{
    const ScanPlan *p = in->design->plan.scan;
    return (Scan){.in = in,
                  .inst = p->inst,
                  .shape = p->shape,
                  .along = p->along,
                  .size = p->size,
                  .rows = p->rows,
                  .items = (uint32_t)in->design->config.items,
                  .is_reverse = p->is_reverse};
}

/* Index of step `at` in row `row`; rows count as they lie in memory. */
void scan_position(Emit *e, const Scan *s, const IndexExpr *row, const IndexExpr *at,
                   const IndexExpr **out)
{
    for (uint32_t i = 0; i < s->shape->rank; i++) {
        int64_t d = s->shape->layout->minor_to_major[i], size = s->shape->dims[d];
        if (d == s->along) {
            out[d] = s->is_reverse
                         ? ix_add(e->ix, ix_mul(e->ix, at, -1), ix_const(e->ix, size - 1))
                         : at;
            continue;
        }
        out[d] = ix_mod(e->ix, row, size);
        row = ix_floordiv(e->ix, row, size);
    }
}

/* out, v: [items][count] */
void scan_load(const Scan *s, const IndexExpr *const *index, LLVMValueRef *out)
{
    uint32_t count = s->reducer.count;
    for (uint32_t i = 0; i < count; i++) {
        LLVMValueRef values[EMIT_MOST_LANES];
        emit_element(s->e, s->inst->operands[i], index, values);
        for (uint32_t j = 0; j < s->items; j++)
            out[j * count + i] = reducer_widen(&s->reducer, i, values[j]);
    }
    s->e->k->at = s->inst->name;
}

void scan_store(const Scan *s, const IndexExpr *const *index, const LLVMValueRef *v)
{
    uint32_t count = s->reducer.count;
    LLVMValueRef results[REDUCER_MOST], values[EMIT_MOST_LANES];
    for (uint32_t j = 0; j < s->items; j++) {
        LLVMValueRef *one = results + j * count;
        for (uint32_t i = 0; i < count; i++)
            one[i] = v[j * count + i];
        if (s->is_backward)
            reducer_combine(&s->reducer, s->reducer.initial, one, one);
        reducer_finish(&s->reducer, one, one);
    }
    for (uint32_t i = 0; i < fusion_result_count(s->in->fusion); i++) {
        FusionResult r = fusion_result(s->in->fusion, i);
        for (uint32_t j = 0; j < s->items; j++)
            values[j] = results[j * count + r.inst_leaf];
        emit_store(s->e, fusion_result_arg(s->in->fusion, i), r.shape, index, values);
    }
}

void scan_choose(Emit *e, uint32_t count, LLVMValueRef condition, const LLVMValueRef *a,
                 LLVMValueRef *v)
{
    for (uint32_t i = 0; i < count; i++)
        v[i] = LLVMBuildSelect(e->k->builder, condition, a[i], v[i], "");
}

/* What came before in the walk joins v. nothing (i1; NULL: never): but for the initial value
 * nothing did. */
void scan_join(const Scan *s, LLVMValueRef nothing, const LLVMValueRef *before,
               LLVMValueRef *v)
{
    const Reducer *r = &s->reducer;
    LLVMValueRef alone[REDUCER_MOST];
    if (!s->is_backward) {
        reducer_combine(r, before, v, v);
        return;
    }
    for (uint32_t i = 0; i < r->count; i++)
        alone[i] = v[i];
    reducer_combine(r, v, before, v);
    if (nothing != NULL)
        scan_choose(s->e, r->count, nothing, alone, v);
}

void scan_begin(Scan *s, Emit *e)
{
    s->e = e;
    reducer_begin(&s->reducer, e, s->inst);
    s->is_backward = s->is_reverse && !s->reducer.is_simple;
}

/* v: of each lane becomes that of all lanes up to it. */
void scan_warp(const Scan *s, LLVMValueRef *v)
{
    Emit *e = s->e;
    const Reducer *r = &s->reducer;
    for (uint32_t distance = 1; distance < 32; distance *= 2) {
        LLVMValueRef other[REDUCER_MOST], joined[REDUCER_MOST];
        for (uint32_t i = 0; i < r->count; i++) {
            other[i] = shuffle_up(e, r->accumulator[i], v[i], distance, 32);
            joined[i] = v[i];
        }
        LLVMValueRef has = LLVMBuildICmp(e->k->builder, LLVMIntUGE, gx_lane(e->k),
                                         gx_i32(e->k, distance), "");
        scan_join(s, NULL, other, joined);
        scan_choose(e, r->count, has, joined, v);
    }
}
