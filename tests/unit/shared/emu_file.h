/* A file for the emulator, its kernel made by codegen: x + 1, then TRIPS times + 1 in place. */
#ifndef GXC_TESTS_UNIT_SHARED_EMU_FILE_H
#define GXC_TESTS_UNIT_SHARED_EMU_FILE_H

#include <stddef.h>
#include <stdint.h>

enum { EMU_FILE_COUNT = 1000, EMU_FILE_BYTES = EMU_FILE_COUNT * 4, EMU_FILE_TRIPS = 3 };

/* The caller's to free. `launched_bytes`: of the slices that the launches say; less than
 * EMU_FILE_BYTES is a mistake that the emulator has to find. `assembly`: what the kernel does
 * besides, as code of this CPU, or NULL. */
void *emu_file_make(uint64_t launched_bytes, const char *assembly, size_t *out_bytes);

/* The folder of libgxemu.so and gxrun: the unit tests are build/tests/unit/x. */
const char *emu_folder(void);

#endif
