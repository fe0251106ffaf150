/* What libgxc and gxc-cudnn tell each other: plans with graphs go there, what cuDNN makes of them
 * comes back. Both are of one build: this is no format for files. */
#ifndef GXC_RUNTIME_PLAN_PLANNER_H
#define GXC_RUNTIME_PLAN_PLANNER_H

#include <stdint.h>

#define PLANNER_MAGIC "GXCDNN1"

/* Followed by a plan whose graphs are asked for, and the device as cuDNN's JSON. */
typedef struct PlannerRequest {
    char magic[8];
    uint64_t plan_bytes, device_bytes;
} PlannerRequest;

/* Followed by the error, if there is one, else by as many answers as the plan has graphs. */
typedef struct PlannerReply {
    char magic[8];
    uint32_t cudnn_version;
    uint32_t error_bytes; /* cuDNN was not found, or is too old */
} PlannerReply;

/* Followed by the serialised plan and the error. */
typedef struct PlannerAnswer {
    uint32_t is_possible;
    uint32_t configurations;
    uint64_t workspace_bytes; /* that cuDNN wants */
    uint64_t plan_bytes;      /* 0: it would not be the same bytes another time */
    uint64_t error_bytes;
} PlannerAnswer;

#endif
