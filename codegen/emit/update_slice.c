/* Dynamic-update-slices in place: the kernel writes the slices only; the rest of each result lies in its
 * buffer already. */
#include "codegen/emit/emitters.h"

static const Instruction *update_of(const Instruction *fusion, uint32_t leaf)
{
    const Instruction *inst = emitter_result(fusion, leaf).inst;
    while (inst->op == OP_BITCAST)
        inst = inst->operands[0];
    return inst;
}

static void store_updates(Emit *e, const void *user, const IndexExpr *linear)
{
    const Instruction *fusion = user;
    for (uint32_t i = 0; i < emitter_result_count(fusion); i++) {
        const Instruction *inst = update_of(fusion, i), *update = inst->operands[1];
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
        emit_store(e, fusion_result_arg(fusion, i), inst->shape, to, values);
    }
}

Kernel *emitter_update_slice(const EmitterInput *in)
{
    const Instruction *update = update_of(in->fusion, 0)->operands[1];
    const Computation *comp = inst_called(in->fusion, 0);
    int64_t elements = shape_elements(update->shape);
    unsigned bits = dtype_info[update->shape->dtype].bits;
    uint32_t lanes = bits >= 8 ? 128 / bits : 8;
    const Instruction **updates =
        ARENA_ARRAY(in->arena, const Instruction *, emitter_result_count(in->fusion));
    for (uint32_t i = 0; i < emitter_result_count(in->fusion); i++)
        updates[i] = update_of(in->fusion, i);
    if (lanes > 8)
        lanes = 8;
    if (!fusion_is_plain(comp, updates, emitter_result_count(in->fusion)))
        lanes = 1;
    while (lanes > 1 && elements % lanes != 0)
        lanes /= 2;
    Emit *e = emit_for_elements(in, elements, lanes == 0 ? 1 : lanes, store_updates,
                                in->fusion);
    kernel_finish(e->k);
    return e->k;
}
