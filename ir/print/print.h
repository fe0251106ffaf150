/* The printed form (section 10 of the language). */
#ifndef GXC_IR_PRINT_PRINT_H
#define GXC_IR_PRINT_PRINT_H

#include "ir/module.h"

typedef enum {
    PRINT_DEFAULT, /* XLA's default with all constants, in an order that parses again at once */
    PRINT_LONG, /* everything; byte for byte XLA's long form */
    PRINT_SHORT, /* no %, signatures, operand shapes, metadata; byte for byte XLA's short form */
    PRINT_CANONICAL, /* names replaced by numbers: equal texts = equal programs (for hashing) */
} PrintForm;

/* Brings the instructions of fused computations into the order in which they are printed: what goes by their order
 * is then the same of a module and of its text. True: some were in another. */
bool module_order_as_printed(Module *m);

/* NUL-terminated text in the arena; *length (may be NULL) without the NUL. */
const char *module_print(Arena *a, const Module *m, PrintForm form, size_t *length);
const char *computation_print(Arena *a, const Computation *comp, PrintForm form,
                              size_t *length);
/* PRINT_CANONICAL, without the values of these constants of the computation and those it calls. */
const char *computation_print_unvalued(Arena *a, const Computation *comp,
                                       const Instruction *const *constants,
                                       uint32_t count, size_t *length);

#endif
