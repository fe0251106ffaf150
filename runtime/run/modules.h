/* The kernels of a session's variant, on one of its devices. */
#ifndef GXC_RUNTIME_RUN_MODULES_H
#define GXC_RUNTIME_RUN_MODULES_H

#include "runtime/run/session.h"

/* Loads the cubin, the PTX or the emulator's object, and what images replace. d->context is current. */
gxrt_status modules_load(Device *d);
/* Whatever modules_load() loaded before it failed, or all of it. */
void modules_unload(Device *d);

#endif
