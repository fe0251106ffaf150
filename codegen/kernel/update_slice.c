/* Dynamic-update-slices in place: the kernel writes the slices only; the rest of each result lies in its
 * buffer already. */
#include "codegen/kernel/emitters.h"

static const Instruction *update_of(const Instruction *fusion, uint32_t leaf)
{
    const Instruction *inst = fusion_result(fusion, leaf).inst;
    while (inst->op == OP_BITCAST)
        inst = inst->operands[0];
    return inst;
}

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
        const Instruction *inst = update_of(fusion, i);
        if (inst->op == OP_DYNAMIC_UPDATE_SLICE) {
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
    const Computation *comp = inst_called(in->fusion, 0);
    uint32_t count = fusion_result_count(in->fusion), update_count = 0;
    int64_t elements = kernel_update_elements(in->fusion);
    const Instruction **updates = ARENA_ARRAY(in->arena, const Instruction *, count);
    unsigned bits = 8;
    for (uint32_t i = 0; i < count; i++) {
        const Instruction *inst = update_of(in->fusion, i);
        if (inst->op == OP_DYNAMIC_UPDATE_SLICE)
            updates[update_count++] = inst;
        unsigned own = dtype_info[inst->shape->dtype].bits;
        bits = own > bits ? own : bits;
    }
    uint32_t lanes = 128 / bits;
    if (lanes > 8)
        lanes = 8;
    if (!fusion_is_plain(comp, updates, update_count))
        lanes = 1;
    /* values of many updates are alive at once */
    if (lanes > 2 && fusion_result_count(in->fusion) > 6)
        lanes = 2;
    while (lanes > 1 && elements % lanes != 0)
        lanes /= 2;
    Emit *e = emit_for_elements(in, elements, lanes == 0 ? 1 : lanes, store_results,
                                in->fusion);
    kernel_finish(e->k);
    return e->k;
}
