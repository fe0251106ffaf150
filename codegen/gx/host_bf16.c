#include "codegen/gx/host_bf16.h"

#include <stdbool.h>
#include <stddef.h>

#include "codegen/gx/lower.h"

static bool is_bf16(LLVMValueRef v)
{
    LLVMTypeRef t = LLVMTypeOf(v);
    if (LLVMGetTypeKind(t) == LLVMVectorTypeKind)
        t = LLVMGetElementType(t);
    return LLVMGetTypeKind(t) == LLVMBFloatTypeKind;
}

static LLVMTypeRef bits_type(LLVMValueRef v)
{
    LLVMTypeRef t = LLVMTypeOf(v), bits = LLVMIntTypeInContext(LLVMGetTypeContext(t), 16);
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind
               ? LLVMVectorType(bits, LLVMGetVectorSize(t))
               : bits;
}

static void go_to_end(LLVMBuilderRef b, LLVMBasicBlockRef block)
{
    LLVMPositionBuilderBefore(b, LLVMGetBasicBlockTerminator(block));
}

static void go_behind(LLVMBuilderRef b, LLVMValueRef inst)
{
    do
        inst = LLVMGetNextInstruction(inst);
    while (LLVMGetInstructionOpcode(inst) == LLVMPHI);
    LLVMPositionBuilderBefore(b, inst);
}

/* The same bits, by an empty piece of assembly, so that nothing sees that they are a float's. */
static LLVMValueRef hidden_bits(LLVMBuilderRef b, LLVMValueRef bits)
{
    LLVMTypeRef t = LLVMTypeOf(bits), type = LLVMFunctionType(t, &t, 1, 0);
    LLVMValueRef none =
        LLVMGetInlineAsm(type, "", 0, "=r,0", 4, 0, 0, LLVMInlineAsmDialectATT, 0);
    return LLVMBuildCall2(b, type, none, &bits, 1, "");
}

/* -- from block to block ---------------------------------------------------------------------- */

static void remake_phi(LLVMBuilderRef b, LLVMValueRef phi)
{
    LLVMTypeRef t = LLVMTypeOf(phi), bits = bits_type(phi);
    LLVMPositionBuilderBefore(b, phi);
    LLVMValueRef made = LLVMBuildPhi(b, bits, "");
    for (unsigned i = 0; i < LLVMCountIncoming(phi); i++) {
        LLVMBasicBlockRef from = LLVMGetIncomingBlock(phi, i);
        go_to_end(b, from);
        LLVMValueRef x = LLVMBuildBitCast(b, LLVMGetIncomingValue(phi, i), bits, "");
        LLVMAddIncoming(made, &x, &from, 1);
    }
    go_behind(b, phi);
    LLVMReplaceAllUsesWith(phi, LLVMBuildBitCast(b, made, t, ""));
    LLVMInstructionEraseFromParent(phi);
}

/* A use in another block than the value's own; NULL: none. */
static LLVMValueRef distant_user(LLVMValueRef inst)
{
    LLVMBasicBlockRef home = LLVMGetInstructionParent(inst);
    for (LLVMUseRef u = LLVMGetFirstUse(inst); u; u = LLVMGetNextUse(u)) {
        if (LLVMGetInstructionParent(LLVMGetUser(u)) != home)
            return LLVMGetUser(u);
    }
    return NULL;
}

static void send_bits(LLVMBuilderRef b, LLVMValueRef inst)
{
    LLVMValueRef user = distant_user(inst), bits = NULL;
    for (; user != NULL; user = distant_user(inst)) {
        if (bits == NULL) {
            go_behind(b, inst);
            bits = LLVMBuildBitCast(b, inst, bits_type(inst), "");
        }
        LLVMPositionBuilderBefore(b, user);
        LLVMValueRef back = LLVMBuildBitCast(b, bits, LLVMTypeOf(inst), "");
        for (int k = 0; k < LLVMGetNumOperands(user); k++) {
            if (LLVMGetOperand(user, (unsigned)k) == inst)
                LLVMSetOperand(user, (unsigned)k, back);
        }
    }
}

/* -- within a block --------------------------------------------------------------------------- */

/* A shift of the bits by 15, signed: LLVM sees the test of a float's sign in it ("Do not know how to soft
 * promote this operator's operand"). */
static bool is_sign(LLVMValueRef inst)
{
    if (LLVMGetInstructionOpcode(inst) != LLVMAShr)
        return false;
    LLVMValueRef bits = LLVMGetOperand(inst, 0), count = LLVMGetOperand(inst, 1);
    return LLVMIsABitCastInst(bits) && LLVMIsAConstantInt(count) &&
           LLVMConstIntGetZExtValue(count) == 15 && is_bf16(LLVMGetOperand(bits, 0));
}

static void choose_bits(LLVMBuilderRef b, LLVMValueRef select)
{
    LLVMTypeRef t = LLVMTypeOf(select), bits = bits_type(select);
    LLVMPositionBuilderBefore(b, select);
    LLVMValueRef x = LLVMBuildBitCast(b, LLVMGetOperand(select, 1), bits, ""),
                 y = LLVMBuildBitCast(b, LLVMGetOperand(select, 2), bits, "");
    LLVMValueRef either = LLVMBuildSelect(b, LLVMGetOperand(select, 0), x, y, "");
    LLVMReplaceAllUsesWith(select, LLVMBuildBitCast(b, either, t, ""));
    LLVMInstructionEraseFromParent(select);
}

/* -- all -------------------------------------------------------------------------------------- */

static void make_integers(LLVMBuilderRef b, LLVMValueRef inst, const void *user)
{
    (void)user;
    if (LLVMGetInstructionOpcode(inst) == LLVMPHI && is_bf16(inst)) {
        remake_phi(b, inst);
    } else if (LLVMGetInstructionOpcode(inst) == LLVMSelect && is_bf16(inst)) {
        choose_bits(b, inst);
    } else if (is_sign(inst)) {
        LLVMPositionBuilderBefore(b, inst);
        LLVMSetOperand(inst, 0, hidden_bits(b, LLVMGetOperand(inst, 0)));
    }
}

static void send_distant(LLVMBuilderRef b, LLVMValueRef inst, const void *user)
{
    (void)user;
    if (is_bf16(inst))
        send_bits(b, inst);
}

void host_keep_bf16_bits(LLVMModuleRef m)
{
    lower_each(m, make_integers, NULL);
    lower_each(m, send_distant, NULL);
}
