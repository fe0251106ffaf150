/* The tuning file, --tuning=FILE: kinds and configurations of kernels. --emit=tuning writes one of what the model
 * of time chose, gxrun --tune one of what was measured.
 *
 *   [{"key": "h100/v1/0123...", "fusion": "dot.3", "kind": "tile", "config": {"tile": [128,128]}}, ...]
 *
 * What a configuration leaves open the heuristic decides; "fusion", and "device" and "picoseconds" of a measured
 * one, are for the reader. */
#ifndef GXC_FRONTEND_TUNING_H
#define GXC_FRONTEND_TUNING_H

#include "ir/analysis/target.h"
#include "ir/kernel/tuning.h"
#include "ir/module.h"

/* The file, checked as far as it can be without a program; NULL after a message. `is_complete`: it has to know
 * every kernel. */
const Tuning *tuning_read(Arena *a, Diag *d, const char *path, bool is_complete);

/* What it is in the plan's record of options, whatever the file's name; "" of NULL. */
const char *tuning_option(Arena *a, const Tuning *t);

/* A file with the configurations of the module's kernels, one entry a line. */
const char *tuning_print(Arena *a, const Module *m, const Target *t, size_t *length);

#endif
