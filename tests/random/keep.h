/* What has run on the emulator, kept for a GPU. */
#ifndef GXC_TESTS_RANDOM_KEEP_H
#define GXC_TESTS_RANDOM_KEEP_H

#include "ir/eval/eval.h"
#include "ir/number/number.h"

/* Of an array of real or complex numbers the largest finite magnitude of a component; 0 of others. */
double literal_largest(const Literal *l);

typedef struct KeptProgram {
    const void *bytes; /* the artefact */
    size_t size;
    uint64_t seed;
    const EvalDevice *device;    /* arguments and result */
    const Tolerance *tolerances; /* of the result's arrays, in order */
} KeptProgram;

/* Takes each program for one device that was right on the emulator; NULL: nobody does. While somebody does
 * programs are made for sm_90a, too. */
extern void (*random_keep)(const KeptProgram *);

/* Writes such a program into random_keep_folder: artefact, arguments, the evaluator's results, and with their
 * tolerances a manifest as tests/gpu/driver.c reads it. Ends the process if it cannot. */
void keep_program(const KeptProgram *of);
extern const char *random_keep_folder;

#endif
