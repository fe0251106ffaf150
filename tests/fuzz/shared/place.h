#ifndef GXC_TESTS_FUZZ_PLACE_H
#define GXC_TESTS_FUZZ_PLACE_H

#include <netinet/in.h>

typedef struct Place {
    struct sockaddr_in socket;
    char address[64]; /* as a store's, whose secret is "k" */
} Place;

/* A socket that listens on a free port of this machine, the caller's to close. */
int place_choose(Place *out);

#endif
