/* Which variant of a program runs on which GPU. */
#ifndef GXC_RUNTIME_RUN_SELECT_H
#define GXC_RUNTIME_RUN_SELECT_H

#include "runtime/run/session.h"

/* Whether a cubin for this target loads on a GPU of compute capability sm / 10: the same
 * ("a": this GPU only), or an older one of the same major version ("f": of its family). */
bool select_fits(const PlanInfo *target, uint32_t sm);

/* Whether the driver's compiler makes code for it of this target's PTX: any newer one, where the target asks
 * for what all newer ones have. */
bool select_compiles(const PlanInfo *target, uint32_t sm);

/* The target that is just this GPU's (device 0): "sm_89", "sm_90a". */
gxrt_status select_target(const gxrt_session *s, char *target, size_t size);

/* The best variant for the session's devices, which s->options and s->cuda name; sets
 * s->variant, s->plan, s->is_from_ptx and s->device_name. For the emulator: the one that was asked for, or
 * the first that has an object. */
gxrt_status select_variant(gxrt_session *s, const int *ordinals, size_t count);

#endif
