#ifndef GXC_TESTS_FUZZ_STABLEHLO_H
#define GXC_TESTS_FUZZ_STABLEHLO_H

#include <stddef.h>

/* Reads MLIR: whatever it is, a module or a message. One that verifies is printed as HLO, which is read again. */
void check_stablehlo(const char *data, size_t size);

#endif
