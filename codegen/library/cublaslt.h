/* Matrix products by cuBLASLt. */
#ifndef GXC_CODEGEN_LIBRARY_CUBLASLT_H
#define GXC_CODEGEN_LIBRARY_CUBLASLT_H

#include "codegen/plan/variant.h"

/* The command for what is marked for the library (ir/kernel/matmul.h). */
void cublaslt_add_matmul(Variant *v, const Instruction *inst);
/* The command for a block-scaled product (BLOCK_MATMUL of ir/kernel/block_scaled.h). */
void cublaslt_add_block_scaled(Variant *v, const Instruction *call);

#endif
