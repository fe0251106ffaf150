/* Convolutions with convolution_kind=dgrad, whose window is that of the convolution of which they are the gradient, read as
 * the convolutions that they are. */
#ifndef GXC_FRONTEND_INPUT_IMAGE_GRADIENTS_H
#define GXC_FRONTEND_INPUT_IMAGE_GRADIENTS_H

#include "ir/module.h"

/* Of a verified module that is to run: what is only printed stays as it is. Those in groups stay, too, and those of which
 * the text declares the shape of the forward convolution, as gradients of filters do: all are refused when they are
 * compiled. */
void image_gradients_read(Module *m);

#endif
