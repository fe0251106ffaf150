/* Right calls of the emulated libraries, some of whose numbers and pointers are others: which, the input says.
 *
 * An input is TOLD_CHOICES bytes, from which the calls choose what they do, then pairs of bytes: how many told
 * numbers after the last changed one the next lies, and what it becomes. */
#ifndef GXC_TESTS_FUZZ_EMULATOR_TOLD_H
#define GXC_TESTS_FUZZ_EMULATOR_TOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/emu/gxemu.h"

enum { TOLD_CHOICES = 12, TOLD_MEMORY = 1 << 16 };

/* The memory of a call: on the device, all of it written. */
typedef struct Told {
    CUcontext context;
    CUstream stream;
    CUdeviceptr memory; /* TOLD_MEMORY bytes */
} Told;

void told_begin(const uint8_t *data, size_t size, bool may_fail);
/* The next byte of the choices, less than `count`. */
unsigned told_choice(unsigned count);

int64_t told(int64_t right);
/* Of the device, or a handle of which NULL is allowed. */
void *told_pointer(void *right);
CUdeviceptr told_address(CUdeviceptr right);

/* A status of any of the libraries. What nobody has changed succeeds. True: it did. */
bool told_done(int status, const char *call);
#define DONE(call) told_done(call, #call)
/* From here on no call fails because the configuration says so: things are given back. */
void told_calm(void);

/* Each: calls of one library, from making what they need to giving it back. */
typedef void ToldCalls(const Told *t);
ToldCalls tell_products, tell_graphs, tell_solvers, tell_memory, tell_streams,
    tell_captures, tell_modules, tell_ranks;

#endif
