/* Passes that decide which memory values lie in, and which need none. */
#ifndef GXC_PASSES_MEMORY_MEMORY_H
#define GXC_PASSES_MEMORY_MEMORY_H

#include "passes/pass.h"

PassFn pass_unread_values; /* initial values of loops that nobody reads */
PassFn pass_host_memory;   /* values that the program wants in memory of the host */

#endif
