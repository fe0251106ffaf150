/* Branches of emitted code: what is made inside one is known nowhere else, so each side is a scope of its own. */
#include "codegen/element/emit.h"

void emit_if_begin(Emit *e, GxIf *s, LLVMValueRef condition)
{
    *s = (GxIf){0};
    if (condition == NULL)
        return; /* what is made is known behind it */
    gx_if_begin(e->k, s, condition);
    emit_scope_begin(e);
}

void emit_if_else(Emit *e, GxIf *s, const LLVMValueRef *yields, unsigned count)
{
    emit_scope_end(e);
    gx_if_else(e->k, s, yields, count);
    emit_scope_begin(e);
}

void emit_if_end(Emit *e, GxIf *s, const LLVMValueRef *yields, unsigned count,
                 LLVMValueRef *out)
{
    if (s->otherwise == NULL)
        return;
    emit_scope_end(e);
    gx_if_end(e->k, s, yields, count, out);
}

void emit_if_end_or(Emit *e, GxIf *s, LLVMValueRef *values, const LLVMValueRef *otherwise,
                    unsigned count)
{
    if (s->otherwise == NULL)
        return;
    emit_scope_end(e);
    gx_if_else(e->k, s, values, count);
    gx_if_end(e->k, s, otherwise, count, values);
}
