/* Graphs by cuDNN. */
#ifndef GXC_CODEGEN_LIBRARY_CUDNN_H
#define GXC_CODEGEN_LIBRARY_CUDNN_H

#include "codegen/plan/variant.h"

/* The command of an instruction that is marked for it (ir/kernel/library.h). False after messages: cuDNN cannot do it on this target, or is not there. */
bool cudnn_add_graph(Variant *v, const Instruction *inst);

#endif
