/* See hoist.h. The code is written into a block of its own behind an empty one, into which the loads then move: what
 * is in its parent still has to be looked at, so nothing is marked. */
#include "codegen/gx/hoist.h"

#include <string.h>

#define ADDRESS_CODE 48 /* instructions of an address; longer ones stay where they are */

void gx_hoist_begin(Kernel *k, GxHoist *h)
{
    h->loads = LLVMGetInsertBlock(k->builder);
    h->code = LLVMAppendBasicBlockInContext(k->context, k->function, "");
    LLVMBuildBr(k->builder, h->code);
    LLVMPositionBuilderAtEnd(k->builder, h->code);
}

static bool is_load(LLVMValueRef inst)
{
    static const char prefix[] = "gx.load.";
    if (LLVMIsACallInst(inst) == NULL)
        return false;
    size_t length;
    const char *name = LLVMGetValueName2(LLVMGetCalledValue(inst), &length);
    return length >= sizeof prefix - 1 && memcmp(name, prefix, sizeof prefix - 1) == 0 &&
           LLVMConstIntGetZExtValue(LLVMGetOperand(inst, 0)) != GX_SHARED;
}

static bool is_address_code(LLVMValueRef inst)
{
    return LLVMIsABinaryOperator(inst) != NULL || LLVMIsACastInst(inst) != NULL ||
           LLVMIsAICmpInst(inst) != NULL || LLVMIsASelectInst(inst) != NULL ||
           LLVMIsAExtractElementInst(inst) != NULL || is_load(inst);
}

static bool is_in(LLVMValueRef value, LLVMBasicBlockRef block)
{
    return LLVMIsAInstruction(value) != NULL && LLVMGetInstructionParent(value) == block;
}

static unsigned arguments(LLVMValueRef inst)
{
    bool is_call = LLVMIsACallInst(inst) != NULL;
    return is_call ? LLVMGetNumArgOperands(inst) : (unsigned)LLVMGetNumOperands(inst);
}

/* inst and all that it needs may move; *left counts down to 0. */
static bool may_move(LLVMValueRef inst, const GxHoist *h, unsigned *left)
{
    if (*left == 0 || !is_address_code(inst))
        return false;
    --*left;
    for (unsigned i = 0; i < arguments(inst); i++) {
        LLVMValueRef operand = LLVMGetOperand(inst, i);
        if (is_in(operand, h->code) && !may_move(operand, h, left))
            return false;
    }
    return true;
}

static void move(Kernel *k, LLVMValueRef inst, const GxHoist *h)
{
    for (unsigned i = 0; i < arguments(inst); i++) {
        LLVMValueRef operand = LLVMGetOperand(inst, i);
        if (is_in(operand, h->code))
            move(k, operand, h);
    }
    LLVMInstructionRemoveFromParent(inst);
    LLVMInsertIntoBuilder(k->builder, inst);
}

void gx_hoist_end(Kernel *k, const GxHoist *h)
{
    LLVMBasicBlockRef end = LLVMGetInsertBlock(k->builder);
    LLVMPositionBuilderBefore(k->builder, LLVMGetBasicBlockTerminator(h->loads));
    LLVMValueRef inst = LLVMGetFirstInstruction(h->code);
    while (inst != NULL) {
        LLVMValueRef next = LLVMGetNextInstruction(inst);
        unsigned left = ADDRESS_CODE;
        if (is_load(inst) && may_move(inst, h, &left))
            move(k, inst, h); /* all of it stood before inst: next stays */
        inst = next;
    }
    LLVMPositionBuilderAtEnd(k->builder, end);
}
