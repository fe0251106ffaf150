/* What the emulator found wrong: a status of the driver and a text that says where. */
#ifndef GXC_RUNTIME_EMU_FINDING_H
#define GXC_RUNTIME_EMU_FINDING_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    FINDING_NONE,
    FINDING_ADDRESS, /* an access outside its arguments, a dead or foreign pointer */
    FINDING_UNINITIALISED, /* bytes that nobody wrote were read */
    FINDING_RACE,
    FINDING_DEADLOCK, /* threads wait for what cannot come */
    FINDING_SYNC,     /* a barrier or shuffle used against its rules */
    FINDING_MEMORY,   /* the host has no memory left */
    FINDING_LIMIT,    /* more steps than are allowed */
    FINDING_INVALID,  /* a call with wrong arguments */
} FindingKind;

enum { FINDING_TEXT_BYTES = 2000 };

typedef struct Finding {
    FindingKind kind;
    char text[FINDING_TEXT_BYTES];
} Finding;

#define FINDING_FORMAT(f, a) __attribute__((format(printf, f, a)))

/* Sets a finding; the first one stays. */
void finding_set(Finding *f, FindingKind kind, const char *format, ...)
    FINDING_FORMAT(3, 4);
/* Appends text; what does not fit is cut. */
void finding_add(Finding *f, const char *format, ...) FINDING_FORMAT(2, 3);

#endif
