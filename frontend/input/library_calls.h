/* XLA's own calls of cuBLAS and cuDNN, which its optimised programs have, read as what they mean: dots and convolutions
 * with what follows them. Who makes these is then chosen as for any other. The table of them is in library_calls.c;
 * other targets stay calls by name. */
#ifndef GXC_FRONTEND_INPUT_LIBRARY_CALLS_H
#define GXC_FRONTEND_INPUT_LIBRARY_CALLS_H

#include "ir/module.h"

/* Of a module that is parsed, not yet verified; false after messages. */
bool library_calls_read(Module *m, Arena *scratch);

#endif
