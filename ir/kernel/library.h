/* What a library of NVIDIA's makes, whichever it is. */
#ifndef GXC_IR_KERNEL_LIBRARY_H
#define GXC_IR_KERNEL_LIBRARY_H

#include "ir/module.h"

/* It is marked for a library that can make it: no kernel of ours, and no part of one. */
bool library_makes(const Instruction *inst);

/* Marked for cuDNN: a graph of it. */
bool library_is_graph(const Instruction *inst);

#endif
