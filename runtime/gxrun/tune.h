/* gxrun --tune: measuring which kernels are the fastest, and the file that says so. */
#ifndef GXC_RUNTIME_GXRUN_TUNE_H
#define GXC_RUNTIME_GXRUN_TUNE_H

#include "runtime/gxrun/measure.h"

/* Runs once, prints what was found unless it shall be quiet, and writes the entries of the tuning file, one a line,
 * those of other ranks, too. *code is not EXIT_DONE after a message. */
gxrt_status tune_run(const Options *o, const Measured *m, gxrt_world *world,
                     FILE *entries, int *code);

/* The program has kernels to try; else an exit code after a message. */
int tune_check(const Options *o, const gxrt_program *program);

/* The tuning file: what it had stays but for the keys that `lines` has. An exit code. */
int tune_write(const Options *o, const char *lines, size_t size);

#endif
