/* Whether a library makes a product, or a kernel: by the model of time (ir/kernel/candidates.h). */
#ifndef GXC_PASSES_LIBRARY_CHOICE_H
#define GXC_PASSES_LIBRARY_CHOICE_H

#include "ir/kernel/candidates.h"
#include "passes/pass.h"

/* Of the products of one computation. */
typedef struct LibraryChoice {
    const PassContext *cx;
    KnownUses uses; /* when it began */
} LibraryChoice;
LibraryChoice library_choice(const Computation *comp, const PassContext *cx);

/* What a kernel must not take longer than in place of a library that needs so many seconds. A convolution's filter is to
 * have the images' order: where it is in memory in another one a kernel has to be compiled and launched for the library as
 * well, which turns it, and what takes less time altogether is best. */
double library_most_seconds(const Instruction *product, double library,
                            const PassContext *cx);

/* The dot or convolution, which a library could make, is better left to it than to a kernel: one has to be
 * compiled, and must be worth that. False: it has become that kernel, or stays as it is where kernels of its pieces
 * are the best: see split_product_seconds. A convolution of images of different orders is never a library's. */
bool library_is_best(const LibraryChoice *choice, Instruction *inst);

/* No kernel has to be made that stores it. */
bool library_lies_in_memory(const Instruction *x);

/* The product has few tiles and long sums, so that split-products would cut it: of all kernels that make it then. */
bool split_product_seconds(const Instruction *product, const PassContext *cx,
                           double *seconds);

#endif
