/* How a module is compiled: what a RUN line of its test says, and what the bytes of an input change. */
#ifndef GXC_TESTS_FUZZ_CHOICE_H
#define GXC_TESTS_FUZZ_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "frontend/gxc.h"

/* The bytes; 0 leaves what the line says. */
typedef enum ChoiceByte {
    CHOICE_LEVEL, /* of optimisation */
    CHOICE_FORM, /* what is made: 1 the results, compared with the evaluator's; else a form of --emit */
    CHOICE_TARGET,   /* a row of targets.def; the highest bit: assembled, too */
    CHOICE_USES,     /* --tiles, --libraries */
    CHOICE_PASSES,   /* one of them is left out, or only some run */
    CHOICE_SETTINGS, /* seeds numbers for some of settings.def */
    CHOICE_DEVICES,  /* --replicas, --partitions */
    CHOICE_FLAGS,    /* ChoiceFlags */
    CHOICE_BYTES
} ChoiceByte;

typedef enum ChoiceFlags {
    CHOICE_TWICE = 1, /* and again, by two threads: the same bytes */
    CHOICE_REPORT = 2,
    CHOICE_NO_CONTRACT = 4,
    CHOICE_HLO = 8,
    CHOICE_LINES = 16,
    CHOICE_PTX = 32,
    CHOICE_PRINT = 64, /* after each pass, and the times */
    CHOICE_F32 = 128   /* products keep all bits */
} ChoiceFlags;

enum { CHOICE_TARGETS_MOST = 4, CHOICE_SETTINGS_MOST = 64, CHOICE_TEXT_MOST = 4096 };

typedef struct Choice {
    gxc_options options; /* points into the rest */
    bool compares, twice;
    const char *target; /* the first that is a GPU; NULL: there is none */
    const char *targets[CHOICE_TARGETS_MOST], *settings[CHOICE_SETTINGS_MOST];
    char text[CHOICE_TEXT_MOST]; /* of the words */
    size_t used;
} Choice;

/* run: options up to the end of a line. */
void choice_make(Choice *c, const char *run, const uint8_t bytes[CHOICE_BYTES]);

#endif
