/* The sine and the cosine of one number, as of rotary embeddings and spectra, are found by one call: reducing the
 * number to an angle is most of either, and most of the code of a kernel that has them. */
#ifndef GXC_CODEGEN_GX_SINCOS_H
#define GXC_CODEGEN_GX_SINCOS_H

#include "codegen/gx/gx.h"

/* Joins the two where a block of the kernel's code calls both in f32; values stay the same, bit by bit. */
void gx_join_sines(Kernel *k);

#endif
