/* Limits of the emulated devices. */
#ifndef GXC_RUNTIME_EMU_DEVICE_H
#define GXC_RUNTIME_EMU_DEVICE_H

int device_most_shared(void); /* bytes of shared memory that a block can have */

#endif
