/* Layouts: passes that decide in which order the elements of arrays lie in memory. */
#ifndef GXC_PASSES_LAYOUT_LAYOUT_H
#define GXC_PASSES_LAYOUT_LAYOUT_H

#include "passes/pass.h"

PassFn pass_layout;

#endif
