/* Loops of a known number of steps that are written out in PTX, not before it: LLVM works on one step, and the
 * assembler gets all of them, as if an emitter had written each. */
#ifndef GXC_CODEGEN_GX_REPEAT_H
#define GXC_CODEGEN_GX_REPEAT_H

#include "codegen/gx/gx.h"

/* for (i = 0; i < count; i++) { body }, count > 0, the body without branches; values are carried as those of
 * GxLoop. The index is an i32. */
typedef struct GxRepeat {
    LLVMValueRef index;
    LLVMValueRef *carried;
    unsigned carried_count;
    uint32_t count;
    LLVMValueRef *phi; /* its own */
    LLVMBasicBlockRef body;
} GxRepeat;

void gx_repeat_begin(Kernel *k, GxRepeat *r, uint32_t count, LLVMValueRef *carried,
                     unsigned carried_count);
void gx_repeat_end(Kernel *k, GxRepeat *r, const LLVMValueRef *next);

/* LLVM's text with the steps written one behind the other; the text itself where there is no such loop. */
const char *ptx_write_out(Arena *a, const char *ptx);

#endif
