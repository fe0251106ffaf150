/* Blocks, loops and branches of a kernel. See gx.h. */
#include "codegen/gx/gx.h"

#include <llvm-c/DebugInfo.h>

#include "ir/base/bug.h"

LLVMBasicBlockRef gx_block(Kernel *k, const char *name)
{
    return LLVMAppendBasicBlockInContext(k->context, k->function, name);
}

void gx_while_begin(Kernel *k, GxLoop *loop, LLVMValueRef *carried,
                    unsigned carried_count)
{
    LLVMBuilderRef b = k->builder;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    *loop = (GxLoop){.carried = carried,
                     .carried_count = carried_count,
                     .phi = ARENA_ARRAY(k->arena, LLVMValueRef, carried_count + 1),
                     .header = gx_block(k, "loop")};
    LLVMBuildBr(b, loop->header);
    LLVMPositionBuilderAtEnd(b, loop->header);
    for (unsigned i = 0; i < carried_count; i++) {
        loop->phi[i] = LLVMBuildPhi(b, LLVMTypeOf(carried[i]), "");
        LLVMAddIncoming(loop->phi[i], &carried[i], &before, 1);
        carried[i] = loop->phi[i];
    }
}

void gx_while_body(Kernel *k, GxLoop *loop, LLVMValueRef condition)
{
    LLVMBasicBlockRef body = gx_block(k, "body");
    loop->exit = gx_block(k, "done");
    LLVMBuildCondBr(k->builder, condition, body, loop->exit);
    LLVMPositionBuilderAtEnd(k->builder, body);
}

/* The loop that the branch goes round is not unrolled: a node of metadata whose first operand is itself. */
static void keep_rolled(Kernel *k, LLVMValueRef branch)
{
    static const char loop[] = "llvm.loop", disable[] = "llvm.loop.unroll.disable";
    LLVMContextRef c = k->context;
    LLVMMetadataRef self = LLVMTemporaryMDNode(c, NULL, 0),
                    word = LLVMMDStringInContext2(c, disable, sizeof disable - 1),
                    operands[] = {self, LLVMMDNodeInContext2(c, &word, 1)},
                    node = LLVMMDNodeInContext2(c, operands, 2);
    LLVMMetadataReplaceAllUsesWith(self, node);
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(c, loop, sizeof loop - 1),
                    LLVMMetadataAsValue(c, node));
}

void gx_while_end(Kernel *k, GxLoop *loop, const LLVMValueRef *next)
{
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(k->builder);
    for (unsigned i = 0; i < loop->carried_count; i++) {
        LLVMValueRef value = next[i];
        LLVMAddIncoming(loop->phi[i], &value, &latch, 1);
    }
    LLVMValueRef branch = LLVMBuildBr(k->builder, loop->header);
    if (loop->is_rolled)
        keep_rolled(k, branch);
    LLVMPositionBuilderAtEnd(k->builder, loop->exit);
    for (unsigned i = 0; i < loop->carried_count; i++)
        loop->carried[i] = loop->phi[i];
}

/* So few steps are unrolled behind LLVM, and no address is stepped from one to the next; but in a loop that is rolled. */
static bool has_few_steps(LLVMValueRef end, LLVMValueRef step)
{
    return LLVMIsAConstantInt(end) && LLVMIsAConstantInt(step) &&
           LLVMConstIntGetSExtValue(end) <= 4 * LLVMConstIntGetSExtValue(step);
}

/* LLVM's loop strength reduction weighs up how each address could be stepped, which takes a third of the time
 * where there are many. It leaves a loop alone whose variable's step it does not see; code generation
 * drops what hides it. */
LLVMValueRef gx_hide_step(Kernel *k, LLVMValueRef index)
{
    LLVMValueRef args[2] = {index, LLVMConstNull(LLVMTypeOf(index))};
    return gx_intrinsic(k, "expect", args, 2);
}

void gx_loop_begin(Kernel *k, GxLoop *loop, LLVMValueRef start, LLVMValueRef end,
                   LLVMValueRef step, LLVMValueRef *carried, unsigned carried_count)
{
    LLVMBuilderRef b = k->builder;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    gx_while_begin(k, loop, carried, carried_count);
    loop->step = step;
    loop->keeps_addresses = has_few_steps(end, step);
    loop->index = LLVMBuildPhi(b, LLVMTypeOf(start), "i");
    LLVMAddIncoming(loop->index, &start, &before, 1);
    gx_while_body(k, loop, LLVMBuildICmp(b, LLVMIntSLT, loop->index, end, ""));
}

void gx_loop_end(Kernel *k, GxLoop *loop, LLVMValueRef *next)
{
    LLVMBuilderRef b = k->builder;
    LLVMValueRef index = LLVMBuildNSWAdd(b, loop->index, loop->step, "");
    if (loop->keeps_addresses && !loop->is_rolled)
        index = gx_hide_step(k, index);
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(b);
    LLVMAddIncoming(loop->index, &index, &latch, 1);
    gx_while_end(k, loop, next);
}

void gx_if_begin(Kernel *k, GxIf *s, LLVMValueRef condition)
{
    LLVMBasicBlockRef then = gx_block(k, "then");
    *s = (GxIf){.otherwise = gx_block(k, "else")};
    LLVMBuildCondBr(k->builder, condition, then, s->otherwise);
    LLVMPositionBuilderAtEnd(k->builder, then);
}

void gx_if_else(Kernel *k, GxIf *s, const LLVMValueRef *yields, unsigned count)
{
    s->has_else = true;
    s->then_end = LLVMGetInsertBlock(k->builder);
    s->yields = arena_copy(k->arena, yields, count * sizeof *yields);
    s->end = gx_block(k, "end");
    LLVMBuildBr(k->builder, s->end);
    LLVMPositionBuilderAtEnd(k->builder, s->otherwise);
}

void gx_if_end(Kernel *k, GxIf *s, const LLVMValueRef *yields, unsigned count,
               LLVMValueRef *out)
{
    LLVMBuilderRef b = k->builder;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(b);
    if (!s->has_else) {
        if (count)
            bug("kernel %s: an if that yields values has no else", k->name);
        s->end = s->otherwise;
    }
    LLVMBuildBr(b, s->end);
    LLVMPositionBuilderAtEnd(b, s->end);
    for (unsigned i = 0; i < count; i++) {
        LLVMValueRef values[] = {s->yields[i], yields[i]}; /* out may be yields */
        out[i] = LLVMBuildPhi(b, LLVMTypeOf(yields[i]), "");
        LLVMBasicBlockRef blocks[] = {s->then_end, from};
        LLVMAddIncoming(out[i], values, blocks, 2);
    }
}
