/* Making and unmaking one device of a session. */
#ifndef GXC_RUNTIME_RUN_DEVICE_H
#define GXC_RUNTIME_RUN_DEVICE_H

#include "runtime/run/session.h"

/* d->session, number and ordinal are set. What it makes before it fails, device_destroy()
 * gives back: that takes a device in any state. */
gxrt_status device_create(Device *d);
void device_destroy(Device *d);
/* Events of a profile; in its context. */
void device_drop_timings(Device *d);

#endif
