/* Norms that cuDNN makes: what is found first. */
#ifndef GXC_PASSES_LIBRARY_NORMS_H
#define GXC_PASSES_LIBRARY_NORMS_H

#include "passes/library/graphs.h"

/* Gradients of norms, before the norms themselves: what those read of a norm is then its statistics only. */
GraphVisit norm_gradients_visit;

#endif
