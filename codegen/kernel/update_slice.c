/* Dynamic-update-slices in place: the kernel writes the slices only; the rest of each result lies in its
 * buffer already. */
#include "codegen/kernel/emitters.h"

static void store_update(Emit *e, const Instruction *inst, uint32_t arg,
                         const IndexExpr *linear)
{
    const Instruction *update = inst->operands[1];
    const IndexMap *map = emit_operand_map(e, inst, 1);
    const IndexExpr *from[EMIT_MOST_RANK], *to[EMIT_MOST_RANK], *zero[EMIT_MOST_RANK];
    LLVMValueRef values[EMIT_MOST_LANES];
    emit_delinear(e, update->shape, linear, from);
    emit_element(e, update, from, values);
    e->k->at = inst->name;
    for (uint32_t d = 0; d < inst->shape->rank; d++)
        zero[d] = ix_const(e->ix, 0);
    /* where the map sends index 0: minus the start */
    emit_apply(e, map, zero, NULL, to, NULL);
    for (uint32_t d = 0; d < inst->shape->rank; d++)
        to[d] = ix_add(e->ix, from[d], ix_mul(e->ix, to[d], -1));
    emit_store(e, arg, inst->shape, to, values);
}

/* Results beside the updates are stored when everything was read: one may lie where an operand
 * does. */
static void store_results(Emit *e, const void *user, const IndexExpr *linear)
{
    const Instruction *fusion = user;
    uint32_t count = fusion_result_count(fusion);
    LLVMValueRef **held = ARENA_ARRAY(e->arena, LLVMValueRef *, count);
    const IndexExpr *index[EMIT_MOST_RANK];
    for (uint32_t i = 0; i < count; i++) {
        FusionResult r = fusion_result(fusion, i);
        const Instruction *inst = fusion_update(fusion, i);
        if (inst != NULL) {
            store_update(e, inst, fusion_result_arg(fusion, i), linear);
            continue;
        }
        held[i] = ARENA_ARRAY(e->arena, LLVMValueRef, EMIT_MOST_LANES);
        emit_delinear(e, r.shape, linear, index);
        emit_leaf(e, r.inst, r.inst_leaf, index, held[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (held[i] == NULL)
            continue;
        const Shape *shape = fusion_result(fusion, i).shape;
        emit_delinear(e, shape, linear, index);
        emit_store(e, fusion_result_arg(fusion, i), shape, index, held[i]);
    }
}

Kernel *emitter_update_slice(const EmitterInput *in)
{
    Emit *e = emit_for_elements(in, in->design->plan.update->elements,
                                (uint32_t)in->design->config.lanes.data[0], store_results,
                                in->fusion);
    return emitter_finish(in, e);
}
