#ifndef GXC_TESTS_FUZZ_LOOK_H
#define GXC_TESTS_FUZZ_LOOK_H

#include "runtime/gxrt.h"

/* The bytes of programs/NAME.cubin beside this fuzzer, the caller's to free. */
void *look_read(const char *name, size_t *out_size);

/* Everything that an open program says of itself. */
void look_program(const gxrt_program *p);

#endif
