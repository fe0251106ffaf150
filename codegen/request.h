/* What planning asks of emission: a request for each distinct kernel of a program, in the order of
 * their first launches. Planning makes requests without LLVM; emission (codegen/build) carries
 * them out, in any order. */
#ifndef GXC_CODEGEN_REQUEST_H
#define GXC_CODEGEN_REQUEST_H

#include "ir/kernel/kernel.h"

/* A kernel argument: a pointer into device memory, or a number. */
typedef struct KernelArg {
    bool is_scalar;    /* 64 bits without a sign: the rest says nothing */
    uint32_t align;    /* bytes; a power of two, 1 if unknown */
    uint64_t bytes;    /* of the slice; an access behind them is a fault */
    bool is_read_only; /* nobody writes these bytes while the kernel runs */
    /* Bytes that a thread writes are reached by no other argument and no other thread: LLVM moves accesses of them over
     * barriers and fences. */
    bool is_noalias;
} KernelArg;

typedef struct KernelRequest {
    const char
        *key; /* canonical text of computation, kind, configuration, argument classes */
    size_t key_length;
    const char *name;          /* symbol: unique in the program */
    const Instruction *fusion; /* of the first launch */
    const KernelDesign *design;
    const KernelArg *
        args; /* parameters by number, result leaves, the random state, the scalar, scratch memory, partial results, tickets */
    uint32_t arg_count;
    /* [arg_count] bytes that all launches move of arguments that allow accesses of 16 bytes */
    uint64_t *moved;
} KernelRequest;

/* `text` as a symbol of both PTX and the host object: what is no letter or digit becomes '_'. Symbols
 * with '$' are for what belongs to a kernel. */
char *kernel_name(Arena *a, const char *text);

#endif
