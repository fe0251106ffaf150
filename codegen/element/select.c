/* Elements that come from one of several operands, by the constraints of the index maps:
 * concatenate, pad, dynamic-update-slice; and iota, which is its own index (one lane). The choice is one
 * for all lanes: select_is_uniform. */
#include "codegen/element/op_emit.h"
#include "ir/bug.h"

SelectFn select_concatenate, select_pad, select_dynamic_update_slice, select_iota;

/* What the expression's range test says of lane 0, it says of all lanes. */
static bool holds_for_all(Emit *e, const IndexExpr *x, Range range)
{
    int64_t stride, lanes = e->lanes;
    const IndexExpr *lane = emit_lane(e);
    if (emit_is_uniform(1, &x))
        return true;
    if (!ix_stride(x, lane->kind, (uint32_t)lane->value, &stride) || stride != 1)
        return false;
    const IndexExpr *first =
        ix_replace(e->ix, x, lane->kind, (uint32_t)lane->value, ix_const(e->ix, 0));
    bool above = x->range.lo >= range.lo || range.lo % lanes == 0;
    bool below = x->range.hi <= range.hi || (range.hi + 1) % lanes == 0;
    return above && below && ix_divisor(first) % lanes == 0;
}

bool select_is_uniform(Emit *e, const Instruction *inst, const IndexExpr *const *index)
{
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        const IndexMap *map = emit_operand_map(e, inst, i);
        if (map->results == NULL)
            continue;
        for (uint32_t r = 0; r < map->runtime_count; r++) {
            const IndexRuntime *runtime = &map->runtimes[r];
            for (uint32_t d = 0; d < runtime->source->shape->rank; d++) {
                const IndexExpr *x = ix_substitute(e->ix, runtime->index[d], IX_DIM,
                                                   map->dim_count, index);
                if (!emit_is_uniform(1, &x))
                    return false;
            }
        }
        for (uint32_t c = 0; c < map->constraint_count; c++) {
            const IndexExpr *x = ix_substitute(e->ix, map->constraints[c].expr, IX_DIM,
                                               map->dim_count, index);
            if (!holds_for_all(e, x, map->constraints[c].range))
                return false;
        }
    }
    return true;
}

/* condition ? operand `inside` at `at` : otherwise(...), evaluating one side only. */
static void select_constant_side(Emit *e, LLVMValueRef condition,
                                 const Instruction *inside, const IndexExpr *const *at,
                                 const Instruction *outside,
                                 const IndexExpr *const *outside_at, LLVMValueRef *out)
{
    if (condition == NULL) {
        emit_element(e, inside, at, out);
        return;
    }
    GxIf branch;
    LLVMValueRef v[EMIT_MOST_LANES];
    emit_if_begin(e, &branch, condition);
    emit_element(e, inside, at, v);
    emit_if_else(e, &branch, v, e->lanes);
    emit_element(e, outside, outside_at, v);
    emit_if_end(e, &branch, v, e->lanes, out);
}

void select_pad(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                LLVMValueRef *out)
{
    const IndexMap *map = emit_operand_map(e, inst, 0);
    const IndexExpr *at[EMIT_MOST_RANK], *constraints[2 * EMIT_MOST_RANK];
    emit_apply(e, map, index, NULL, at, constraints);
    select_constant_side(e, emit_constraints_hold(e, map, constraints), inst->operands[0],
                         at, inst->operands[1], NULL, out);
}

void select_dynamic_update_slice(Emit *e, const Instruction *inst,
                                 const IndexExpr *const *index, LLVMValueRef *out)
{
    const IndexMap *map = emit_operand_map(e, inst, 1);
    const IndexExpr *at[EMIT_MOST_RANK], *constraints[2 * EMIT_MOST_RANK];
    emit_apply(e, map, index, NULL, at, constraints);
    select_constant_side(e, emit_constraints_hold(e, map, constraints), inst->operands[1],
                         at, inst->operands[0], index, out);
}

/* A chain of branches, each asking whether the index still lies in this operand. */
static void concatenate_from(Emit *e, const Instruction *inst, uint32_t operand,
                             const IndexExpr *const *index, LLVMValueRef *out)
{
    const IndexMap *map = emit_operand_map(e, inst, operand);
    const IndexExpr *at[EMIT_MOST_RANK], *constraints[EMIT_MOST_RANK];
    emit_apply(e, map, index, NULL, at, constraints);
    const Instruction *source = inst->operands[operand];
    LLVMValueRef ok = NULL;
    /* the chain has ruled out the operands before: only the upper bound is left to ask */
    bool last = true;
    for (uint32_t k = operand + 1; k < inst->operand_count; k++)
        last &= shape_elements(inst->operands[k]->shape) == 0;
    if (shape_elements(source->shape) == 0 && !last) {
        concatenate_from(e, inst, operand + 1, index, out);
        return;
    }
    if (!last && map->constraint_count != 0)
        ok = emit_in_range(
            e, constraints[0],
            (Range){constraints[0]->range.lo, map->constraints[0].range.hi}, 0);
    if (ok == NULL) {
        emit_element(e, source, at, out);
        return;
    }
    GxIf branch;
    LLVMValueRef v[EMIT_MOST_LANES];
    emit_if_begin(e, &branch, ok);
    emit_element(e, source, at, v);
    emit_if_else(e, &branch, v, e->lanes);
    concatenate_from(e, inst, operand + 1, index, v);
    emit_if_end(e, &branch, v, e->lanes, out);
}

void select_concatenate(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                        LLVMValueRef *out)
{
    concatenate_from(e, inst, 0, index, out);
}

void select_iota(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                 LLVMValueRef *out)
{
    int64_t along = inst_int(inst, ATTR_IOTA_DIMENSION, 0);
    LLVMValueRef v = emit_index(e, index[along], 0);
    DType from = LLVMGetIntTypeWidth(e->index_type) == 64 ? DT_S64 : DT_S32;
    out[0] = scalar_convert_value(e->k, v, from, inst->shape->dtype);
}
