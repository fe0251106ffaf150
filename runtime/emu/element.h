/* One element in device memory, as a double. */
#ifndef GXC_RUNTIME_EMU_ELEMENT_H
#define GXC_RUNTIME_EMU_ELEMENT_H

#include "ir/number/number.h"

double element_get(DType t, const unsigned char *p);
/* Rounds; 8-bit floats and integers saturate, as outputs of NVIDIA's libraries do. */
void element_set(DType t, unsigned char *p, double value);

/* An f32 as tensor cores read it: 10 bits behind the point, to the nearest, halves away from zero. */
float element_round_tf32(float x);

#endif
