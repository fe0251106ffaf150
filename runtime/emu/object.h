/* Loads relocatable position-independent ELF objects - one, or an archive of them (the .gxc.emu
 * section of an artefact) - into executable memory. The bytes are checked like any foreign file: a
 * damaged object is refused with a reason. */
#ifndef GXC_RUNTIME_EMU_OBJECT_H
#define GXC_RUNTIME_EMU_OBJECT_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/emu/abi.h"

typedef struct Object Object;

enum { OBJECT_REASON_BYTES = 256 };

/* NULL: `reason` says why. The bytes are not needed afterwards. */
Object *object_load(const void *data, size_t bytes, char reason[OBJECT_REASON_BYTES]);
void object_unload(Object *o); /* NULL is fine */

/* The kernel that the object defines under this name, or NULL. */
gxemu_kernel object_kernel(const Object *o, const char *name);
/* The read-only data that the object defines under this name, or NULL; lives as long as it. */
const unsigned char *object_data(const Object *o, const char *name, size_t *out_bytes);

/* The address of a function that objects may call, or 0 (exports.c). */
uintptr_t export_find(const char *name);

#endif
