/* Elements that come from one of several operands, by the constraints of the index maps:
 * concatenate, pad, dynamic-update-slice; and iota, which is its own index (one lane). The choice is one
 * for all lanes: select_is_uniform. */
#include "codegen/element/op_emit.h"
#include "ir/base/bug.h"

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
    return above && below && ix_is_multiple(first, lanes);
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

/* Elements at an index that lies in one of these operands, each of which has elements. The choice is by halves,
 * so that many operands take few branches. */
static void concatenate_between(Emit *e, const Instruction *inst,
                                const uint32_t *operands, uint32_t count,
                                const IndexExpr *const *index, LLVMValueRef *out)
{
    const IndexExpr *at[EMIT_MOST_RANK], *constraints[EMIT_MOST_RANK];
    uint32_t half = count / 2;
    uint32_t before = operands[half == 0 ? 0 : half - 1];
    const IndexMap *map = emit_operand_map(e, inst, before);
    emit_apply(e, map, index, NULL, at, constraints);
    if (half == 0) {
        emit_element(e, inst->operands[before], at, out);
        return;
    }
    /* between operands only the upper bound of the first half is left to ask */
    Range up_to = {constraints[0]->range.lo, map->constraints[0].range.hi};
    LLVMValueRef v[EMIT_MOST_LANES];
    GxIf branch;
    emit_if_begin(e, &branch, emit_in_range(e, constraints[0], up_to, 0));
    concatenate_between(e, inst, operands, half, index, v);
    emit_if_else(e, &branch, v, e->lanes);
    concatenate_between(e, inst, operands + half, count - half, index, v);
    emit_if_end(e, &branch, v, e->lanes, out);
}

void select_concatenate(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                        LLVMValueRef *out)
{
    uint32_t *operands = ARENA_ARRAY(e->arena, uint32_t, inst->operand_count), count = 0;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (shape_elements(inst->operands[i]->shape) != 0)
            operands[count++] = i;
    }
    if (count == 0)
        operands[count++] = 0;
    concatenate_between(e, inst, operands, count, index, out);
}

void select_iota(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                 LLVMValueRef *out)
{
    int64_t along = inst_int(inst, ATTR_IOTA_DIMENSION, 0);
    LLVMValueRef v = emit_index(e, index[along], 0);
    DType from = LLVMGetIntTypeWidth(e->index_type) == 64 ? DT_S64 : DT_S32;
    out[0] = scalar_convert_value(e->k, v, from, inst->shape->dtype);
}
