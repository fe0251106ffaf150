/* Fibres: a GPU thread that can wait for others runs on a stack of its own, and switching
 * between them costs a few instructions of assembly. A pool belongs to one OS thread. */
#ifndef GXC_RUNTIME_EMU_FIBRE_H
#define GXC_RUNTIME_EMU_FIBRE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Fibre Fibre;

typedef void (*FibreBody)(void *argument); /* never returns */

struct Fibre {
    Fibre *next;          /* in the pool's list of idle fibres */
    Fibre *all;           /* in the pool's list of all fibres */
    void *sp;             /* saved stack pointer while it does not run */
    unsigned char *stack; /* lowest usable byte; NULL for the OS thread's own stack */
    size_t stack_bytes;
    void *fake_stack; /* the address sanitizer's */
};

typedef struct FibrePool {
    Fibre *idle;
    Fibre *all;
    Fibre *running;
    Fibre *previous; /* who switched to `running` */
    FibreBody body;
    void *argument;
    struct FibreSlab *slabs;
} FibrePool;

/* `home` stands for the OS thread's own stack, on which the pool is created. */
void fibre_pool_init(FibrePool *pool, Fibre *home, FibreBody body, void *argument);
void fibre_pool_deinit(FibrePool *pool);

/* A fibre that starts body(argument) or, if it was returned by fibre_release, goes on behind
 * its fibre_switch. NULL: no memory. */
Fibre *fibre_acquire(FibrePool *pool);
void fibre_release(FibrePool *pool, Fibre *f);
/* Makes all fibres idle and fresh again, wherever they stand. Call from the home stack. */
void fibre_reset_all(FibrePool *pool);

/* Leaves the running fibre and goes on with `to`. */
void fibre_switch(FibrePool *pool, Fibre *to);

#endif
