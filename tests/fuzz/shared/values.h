#ifndef GXC_TESTS_FUZZ_VALUES_H
#define GXC_TESTS_FUZZ_VALUES_H

#include <stdbool.h>

#include "runtime/gxrt.h"

enum { VALUES_MOST = 32, VALUES_DEVICES = 2 };

/* What a program takes and gives on each device of a session. */
typedef struct Values {
    gxrt_buffer arguments[VALUES_DEVICES][VALUES_MOST],
        results[VALUES_DEVICES][VALUES_MOST];
    gxrt_run runs[VALUES_DEVICES];
} Values;

/* A buffer for each value; an alias takes that of its argument where it must. False: there are too many, or too
 * large ones, or no memory; what is there has to be freed. */
bool values_make(const gxrt_program *p, gxrt_session *s, size_t device, Values *v);
void values_free(gxrt_session *s, size_t device, Values *v);

#endif
