/* See sincos.h. */
#include "codegen/gx/sincos.h"

#include <llvm-c/DebugInfo.h>

/* The call of `function` with the same operand in the same block; NULL: none. */
static LLVMValueRef find_twin(LLVMValueRef call, LLVMValueRef function)
{
    LLVMValueRef x = LLVMGetOperand(call, 0);
    LLVMBasicBlockRef block = LLVMGetInstructionParent(call);
    if (LLVMIsConstant(x))
        return NULL;
    for (LLVMUseRef use = LLVMGetFirstUse(x); use != NULL; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        if (LLVMIsACallInst(user) != NULL && LLVMGetCalledValue(user) == function &&
            LLVMGetInstructionParent(user) == block)
            return user;
    }
    return NULL;
}

static bool is_before(LLVMValueRef x, LLVMValueRef y)
{
    while (x != NULL && x != y)
        x = LLVMGetNextInstruction(x);
    return x != NULL;
}

/* The two results come through memory, which LLVM turns into registers. */
static LLVMValueRef make_variable(Kernel *k, LLVMTypeRef type)
{
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(k->function);
    LLVMPositionBuilderBefore(k->builder, LLVMGetFirstInstruction(entry));
    return LLVMBuildAlloca(k->builder, type, "");
}

static void replace(LLVMValueRef call, LLVMValueRef by)
{
    LLVMReplaceAllUsesWith(call, by);
    LLVMInstructionEraseFromParent(call);
}

static void join(Kernel *k, LLVMValueRef sine, LLVMValueRef cosine)
{
    LLVMBuilderRef b = k->builder;
    LLVMTypeRef type = LLVMTypeOf(sine),
                pointer = LLVMPointerTypeInContext(k->context, 0);
    LLVMTypeRef parameters[] = {type, pointer, pointer};
    LLVMTypeRef signature =
        LLVMFunctionType(LLVMVoidTypeInContext(k->context), parameters, 3, 0);
    LLVMValueRef both = LLVMGetNamedFunction(k->module, "__nv_sincosf");
    if (both == NULL)
        both = LLVMAddFunction(k->module, "__nv_sincosf", signature);
    LLVMValueRef args[] = {LLVMGetOperand(sine, 0), make_variable(k, type),
                           make_variable(k, type)};
    LLVMValueRef first = is_before(sine, cosine) ? sine : cosine;
    LLVMPositionBuilderBefore(b, first);
    LLVMValueRef call = LLVMBuildCall2(b, signature, both, args, 3, "");
    LLVMInstructionSetDebugLoc(call, LLVMInstructionGetDebugLoc(first));
    LLVMValueRef results[] = {LLVMBuildLoad2(b, type, args[1], ""),
                              LLVMBuildLoad2(b, type, args[2], "")};
    replace(sine, results[0]);
    replace(cosine, results[1]);
}

void gx_join_sines(Kernel *k)
{
    LLVMValueRef sine = LLVMGetNamedFunction(k->module, "__nv_sinf"),
                 cosine = LLVMGetNamedFunction(k->module, "__nv_cosf");
    if (sine == NULL || cosine == NULL)
        return;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(k->builder);
    for (LLVMUseRef use = LLVMGetFirstUse(sine), next; use != NULL; use = next) {
        LLVMValueRef call = LLVMGetUser(use);
        LLVMBasicBlockRef block = LLVMGetInstructionParent(call);
        next = LLVMGetNextUse(use);
        LLVMValueRef twin = LLVMGetBasicBlockParent(block) == k->function
                                ? find_twin(call, cosine)
                                : NULL;
        if (twin != NULL)
            join(k, call, twin);
    }
    LLVMPositionBuilderAtEnd(k->builder, here);
}
