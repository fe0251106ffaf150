/* See hoist.h. The code is written into a block of its own behind an empty one, into which the loads then move: what
 * is in its parent still has to be looked at, so nothing is marked. */
#include "codegen/gx/hoist.h"

#include <string.h>

#define ADDRESS_CODE 48 /* instructions of an address; longer ones stay where they are */

void gx_hoist_begin(Kernel *k, GxHoist *h)
{
    h->loads = LLVMGetInsertBlock(k->builder);
    h->code[0] = LLVMAppendBasicBlockInContext(k->context, k->function, "");
    h->count = 1;
    LLVMBuildBr(k->builder, h->code[0]);
    LLVMPositionBuilderAtEnd(k->builder, h->code[0]);
}

void gx_hoist_round(Kernel *k, GxHoist *h)
{
    LLVMBasicBlockRef block = LLVMGetInsertBlock(k->builder);
    if (block != h->code[h->count - 1] && h->count < GX_HOIST_ROUNDS)
        h->code[h->count++] = block;
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

/* Written since the beginning: blocks are appended. */
static bool is_inside(LLVMValueRef value, const GxHoist *h)
{
    LLVMBasicBlockRef block = h->code[0];
    if (LLVMIsAInstruction(value) == NULL)
        return false;
    while (block != NULL && block != LLVMGetInstructionParent(value))
        block = LLVMGetNextBasicBlock(block);
    return block != NULL;
}

static bool runs_in_any_case(LLVMValueRef inst, const GxHoist *h)
{
    for (unsigned i = 0; i < h->count; i++) {
        if (h->code[i] == LLVMGetInstructionParent(inst))
            return true;
    }
    return false;
}

static unsigned arguments(LLVMValueRef inst)
{
    bool is_call = LLVMIsACallInst(inst) != NULL;
    return is_call ? LLVMGetNumArgOperands(inst) : (unsigned)LLVMGetNumOperands(inst);
}

/* inst and all that it needs may move; *left counts down to 0. */
static bool may_move(LLVMValueRef inst, const GxHoist *h, unsigned *left)
{
    if (*left == 0 || !is_address_code(inst) || !runs_in_any_case(inst, h))
        return false;
    --*left;
    for (unsigned i = 0; i < arguments(inst); i++) {
        LLVMValueRef operand = LLVMGetOperand(inst, i);
        if (is_inside(operand, h) && !may_move(operand, h, left))
            return false;
    }
    return true;
}

static void move(Kernel *k, LLVMValueRef inst, const GxHoist *h)
{
    for (unsigned i = 0; i < arguments(inst); i++) {
        LLVMValueRef operand = LLVMGetOperand(inst, i);
        if (is_inside(operand, h))
            move(k, operand, h);
    }
    LLVMInstructionRemoveFromParent(inst);
    LLVMInsertIntoBuilder(k->builder, inst);
}

static void move_loads(Kernel *k, LLVMBasicBlockRef from, const GxHoist *h)
{
    LLVMValueRef inst = LLVMGetFirstInstruction(from);
    while (inst != NULL) {
        LLVMValueRef next = LLVMGetNextInstruction(inst);
        unsigned left = ADDRESS_CODE;
        if (is_load(inst) && may_move(inst, h, &left))
            move(k, inst, h); /* all of it stood before inst: next stays */
        inst = next;
    }
}

void gx_hoist_end(Kernel *k, const GxHoist *h)
{
    LLVMBasicBlockRef end = LLVMGetInsertBlock(k->builder);
    LLVMPositionBuilderBefore(k->builder, LLVMGetBasicBlockTerminator(h->loads));
    for (unsigned i = 0; i < h->count; i++)
        move_loads(k, h->code[i], h);
    LLVMPositionBuilderAtEnd(k->builder, end);
}
