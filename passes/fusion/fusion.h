/* Fusion: passes that put instructions together into kernels. */
#ifndef GXC_PASSES_FUSION_FUSION_H
#define GXC_PASSES_FUSION_FUSION_H

#include "passes/pass.h"

PassFn pass_fuse; /* producers into their readers */
PassFn pass_wrap; /* what is still alone */

/* A fusion of this one instruction, beside it, with scalar constants taken inside. Its users
 * are not changed and no emitter is chosen. */
Instruction *fusion_wrap(Instruction *inst);

/* Takes the producer's code into the fusion that reads it; the producer stays for others. */
void fusion_merge(Instruction *fusion, Instruction *producer);

#endif
