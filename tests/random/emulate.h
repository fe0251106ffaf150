/* Runs what was compiled on emulated devices. */
#ifndef GXC_TESTS_RANDOM_EMULATE_H
#define GXC_TESTS_RANDOM_EMULATE_H

#include "ir/eval/eval.h"

enum { MOST_DEVICES = 8 };

typedef struct EmulatorRun {
    const void *bytes; /* the artefact */
    size_t size;
    uint32_t devices;            /* at most MOST_DEVICES */
    const EvalDevice *arguments; /* [devices] */
    Literal **results;           /* [devices] of the program's result: filled */
    bool donates;                /* results take the memory of arguments where they may */
} EmulatorRun;

/* NULL, or what went wrong, in the arena. More arguments and results than anybody compares: nothing is run. */
const char *emulate(const EmulatorRun *of, Arena *a);

#endif
