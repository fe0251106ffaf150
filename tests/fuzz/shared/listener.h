#ifndef GXC_TESTS_FUZZ_LISTENER_H
#define GXC_TESTS_FUZZ_LISTENER_H

#include <netinet/in.h>

typedef struct Listener {
    struct sockaddr_in socket;
    char address[64]; /* as a store's, whose secret is "k" */
} Listener;

/* A socket that listens on a free port of this machine, the caller's to close. */
int listener_open(Listener *out);

#endif
