/* Convolutions with convolution_kind=dgrad, whose window is that of the convolution of which they are the gradient, read as
 * the convolutions that they are. */
#ifndef GXC_FRONTEND_INPUT_IMAGE_GRADIENTS_H
#define GXC_FRONTEND_INPUT_IMAGE_GRADIENTS_H

#include "ir/module.h"

/* Of a verified module. Those in groups stay, as gradients of filters do, and are refused when they are compiled. */
void image_gradients_read(Module *m);

#endif
