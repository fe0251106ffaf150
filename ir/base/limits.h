/* Limits that front ends and the runtime share. Includes nothing of the project. */
#ifndef GXC_IR_BASE_LIMITS_H
#define GXC_IR_BASE_LIMITS_H

enum { MODULE_DEVICES_MOST = 1 << 20 }; /* replicas x partitions of a module */
/* Devices of a mesh, a sharding or pairs, which may be for more than this module. */
enum { MESH_DEVICES_MOST = 1 << 24 };

#endif
