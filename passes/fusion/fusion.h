/* Fusion: passes that put instructions together into kernels. */
#ifndef GXC_PASSES_FUSION_FUSION_H
#define GXC_PASSES_FUSION_FUSION_H

#include "passes/pass.h"

PassFn pass_wrap;

/* A fusion of this one instruction, beside it, with scalar constants taken inside. Its users
 * are not changed and no emitter is chosen. */
Instruction *fusion_wrap(Instruction *inst);

#endif
