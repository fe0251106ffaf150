/* The tuning file, --tuning=FILE: configurations of kernels, and --emit=tuning, which writes one.
 *
 *   [{"key": "h100/tile/0123...", "fusion": "dot.3", "config": {"tile": [128,128]}}, ...]
 *
 * What an entry leaves open the heuristic decides; "fusion" is for the reader. */
#ifndef GXC_FRONTEND_TUNING_H
#define GXC_FRONTEND_TUNING_H

#include "ir/analysis/target.h"
#include "ir/kernel/tuning.h"
#include "ir/module.h"

/* The file, checked as far as it can be without a program; NULL after a message. */
const Tuning *tuning_read(Arena *a, Diag *d, const char *path);

/* What it is in the plan's record of options, whatever the file's name; "" of NULL. */
const char *tuning_option(Arena *a, const Tuning *t);

/* A file with the configurations of the module's kernels, one entry a line. */
const char *tuning_print(Arena *a, const Module *m, const Target *t, size_t *length);

#endif
