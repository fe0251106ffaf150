/* Measuring a program that is ready to run. */
#ifndef GXC_RUNTIME_GXRUN_MEASURE_H
#define GXC_RUNTIME_GXRUN_MEASURE_H

#include <stdio.h>

#include "runtime/gxrun/gxrun.h"

typedef struct Measured {
    const gxrt_program *program;
    gxrt_session *session;
    size_t variant; /* that the session runs */
    size_t devices;
    const gxrt_run *runs; /* by device */
} Measured;

/* Prints the time of one run. */
gxrt_status measure_bench(const Measured *m, Form form);
/* Writes one run as a trace. *code is not EXIT_DONE if the file could not be written: that has been said. */
gxrt_status measure_profile(const Measured *m, FILE *file, int *code);

#endif
