/* See ticket.h. */
#include "codegen/kernel/ticket.h"

LLVMValueRef ticket_take(Kernel *k, uint32_t arg, uint32_t base)
{
    GxIf first;
    gx_if_begin(k, &first,
                LLVMBuildICmp(k->builder, LLVMIntEQ, gx_tid(k, 0), gx_i32(k, 0), ""));
    LLVMValueRef ticket = gx_atomic(k, GX_ATOMIC_ADD, arg, gx_i32(k, 0), gx_i32(k, 1));
    gx_store(k, GX_SHARED, gx_i32(k, base), ticket, 4);
    gx_if_end(k, &first, NULL, 0, NULL);
    gx_barrier(k);
    return gx_load(k, GX_SHARED, gx_i32(k, base), gx_int_type(k, 32), 4);
}
