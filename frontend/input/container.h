/* What a program comes packed in. */
#ifndef GXC_FRONTEND_INPUT_CONTAINER_H
#define GXC_FRONTEND_INPUT_CONTAINER_H

#include "ir/base/diag.h"

/* Replaces the input of `d` by what is packed in it - gzip's compression, the flatbuffer of jax.export around
 * its bytecode -, and leaves it as it is where it is packed in nothing. False after a message, as where more than `most` bytes
 * (0: 4 GiB) are compressed. */
bool container_open(Diag *d, size_t most);

#endif
