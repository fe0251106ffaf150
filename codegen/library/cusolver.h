/* Factorisations by cuSOLVER. */
#ifndef GXC_CODEGEN_LIBRARY_CUSOLVER_H
#define GXC_CODEGEN_LIBRARY_CUSOLVER_H

#include "codegen/plan/variant.h"

/* The command for what is marked for the library (ir/kernel/solver.h). False: an error was said. */
bool cusolver_add(Variant *v, const Instruction *inst);

#endif
