/* See ticket.h. */
#include "codegen/kernel/ticket.h"

#include "ir/base/bug.h"

static LLVMValueRef is_first_thread(Kernel *k)
{
    LLVMBuilderRef b = k->builder;
    LLVMValueRef number = LLVMBuildOr(b, gx_tid(k, 0), gx_tid(k, 1), "");
    return LLVMBuildICmp(b, LLVMIntEQ, number, gx_i32(k, 0), "");
}

/* Behind a ticket blocks read what others left: LLVM may not take a kernel's memory for the thread's own. */
static void check_memory(const Kernel *k, uint32_t arg)
{
    if (k->args[arg].is_noalias)
        bug("kernel %s: other blocks reach argument %u, which is_noalias", k->name, arg);
}

LLVMValueRef ticket_take(Kernel *k, uint32_t arg, uint32_t base)
{
    GxIf first;
    check_memory(k, arg);
    gx_if_begin(k, &first, is_first_thread(k));
    LLVMValueRef ticket = gx_atomic(k, GX_ATOMIC_ADD, arg, gx_i32(k, 0), gx_i32(k, 1));
    gx_store(k, GX_SHARED, gx_i32(k, base), ticket, 4);
    gx_if_end(k, &first, NULL, 0, NULL);
    gx_barrier(k);
    return gx_load(k, GX_SHARED, gx_i32(k, base), gx_int_type(k, 32), 4);
}

LLVMValueRef ticket_is_last(Kernel *k, uint32_t arg, LLVMValueRef offset, uint32_t count,
                            uint32_t base)
{
    LLVMBuilderRef b = k->builder;
    LLVMValueRef most = gx_i32(k, count - 1);
    GxIf first, last;
    check_memory(k, arg);
    gx_barrier(k); /* the fence is of all that the block's threads did */
    gx_if_begin(k, &first, is_first_thread(k));
    gx_fence(k);
    LLVMValueRef before = gx_atomic(k, GX_ATOMIC_ADD, arg, offset, gx_i32(k, 1));
    gx_fence(k);
    gx_store(k, GX_SHARED, gx_i32(k, base), before, 4);
    gx_if_begin(k, &last, LLVMBuildICmp(b, LLVMIntEQ, before, most, ""));
    gx_atomic_store(k, arg, offset, gx_i32(k, 0));
    gx_if_end(k, &last, NULL, 0, NULL);
    gx_if_end(k, &first, NULL, 0, NULL);
    gx_barrier(k);
    before = gx_load(k, GX_SHARED, gx_i32(k, base), gx_int_type(k, 32), 4);
    return LLVMBuildICmp(b, LLVMIntEQ, before, most, "");
}
