/* bitcast-convert between types of different widths: an element is a part of the operand's
 * element, chosen by the last index, or is put together from a row of them. One lane. */
#include "codegen/element/op_emit.h"
#include "codegen/scalar/scalar.h"

static void take_part(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                      LLVMValueRef *out)
{
    LLVMBuilderRef b = e->k->builder;
    const Instruction *operand = inst->operands[0];
    DType from = operand->shape->dtype, to = inst->shape->dtype;
    const IndexExpr *at[EMIT_MOST_RANK];
    LLVMValueRef whole;
    emit_apply(e, emit_operand_map(e, inst, 0), index, NULL, at, NULL);
    emit_element(e, operand, at, &whole);
    whole = scalar_to_bits(e->k, whole, from);
    const IndexExpr *bit =
        ix_mul(e->ix, index[inst->shape->rank - 1], dtype_info[to].bits);
    LLVMValueRef shift = emit_index(e, bit, 0);
    shift = LLVMBuildIntCast2(b, shift, LLVMTypeOf(whole), 0, "");
    LLVMValueRef part = LLVMBuildLShr(b, whole, shift, "");
    part = LLVMBuildTrunc(b, part, gx_int_type(e->k, dtype_info[to].bits), "");
    out[0] = scalar_from_bits(e->k, part, to);
}

static void put_together(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                         LLVMValueRef *out)
{
    LLVMBuilderRef b = e->k->builder;
    const Instruction *operand = inst->operands[0];
    DType from = operand->shape->dtype, to = inst->shape->dtype;
    unsigned bits = dtype_info[from].bits, wanted = dtype_info[to].bits;
    LLVMTypeRef type = gx_int_type(e->k, wanted);
    LLVMValueRef whole = LLVMConstInt(type, 0, 0), part;
    const IndexExpr *at[EMIT_MOST_RANK];
    for (unsigned i = 0; i < wanted / bits; i++) {
        const IndexExpr *symbol = ix_const(e->ix, i);
        emit_apply(e, emit_operand_map(e, inst, 0), index, &symbol, at, NULL);
        emit_element(e, operand, at, &part);
        part = LLVMBuildZExt(b, scalar_to_bits(e->k, part, from), type, "");
        part = LLVMBuildShl(b, part, LLVMConstInt(type, (uint64_t)i * bits, 0), "");
        whole = LLVMBuildOr(b, whole, part, "");
    }
    out[0] = scalar_from_bits(e->k, whole, to);
}

void element_regrouped(Emit *e, const Instruction *inst, const IndexExpr *const *index,
                       LLVMValueRef *out)
{
    unsigned from = dtype_info[inst->operands[0]->shape->dtype].bits;
    if (from > dtype_info[inst->shape->dtype].bits)
        take_part(e, inst, index, out);
    else
        put_together(e, inst, index, out);
}
