/* How operations become calls of the rows of gx.def. */
#ifndef GXC_CODEGEN_GX_CALL_H
#define GXC_CODEGEN_GX_CALL_H

#include "codegen/gx/gx.h"
#include "codegen/gx/row.h"

enum { GX_MOST_OPERANDS = 208 };

/* Number of k->at in the site table. */
LLVMValueRef gx_current_site(Kernel *k);
/* The same of a barrier or shuffle, with a number of its own above. */
LLVMValueRef gx_sync_site(Kernel *k);
/* Calls the row's pseudo function: the variant for a type (NULL: it has none), or of this name (NULL: none). */
LLVMValueRef gx_call(Kernel *k, GxRow row, LLVMTypeRef typed, const char *variant,
                     LLVMTypeRef result, LLVMValueRef *args, unsigned count);

#endif
