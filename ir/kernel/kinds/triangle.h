/* Triangular matrices whose rows fit a thread's registers: those have kernels, larger ones are made of them. */
#ifndef GXC_IR_KERNEL_KINDS_TRIANGLE_H
#define GXC_IR_KERNEL_KINDS_TRIANGLE_H

#include "ir/module.h"

/* The largest size of a matrix of this type in a kernel; 0: the type has none. */
int64_t triangle_most(DType t);

/* A triangular-solve as a substitution from the first row to the last, or from the last to the first. */
typedef struct Substitution {
    bool is_left;    /* the unknown's columns are solved for, else its rows */
    bool is_forward; /* from index 0 on */
    bool is_turned;  /* the matrix that is substituted is a's transpose */
    bool is_conjugate, is_unit;
} Substitution;
Substitution substitution_of(const Instruction *solve);

#endif
