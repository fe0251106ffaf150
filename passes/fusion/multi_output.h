/* Private to multi-output: the kernels that it joins, and the values that they replace in their buffers. */
#ifndef GXC_PASSES_FUSION_MULTI_OUTPUT_H
#define GXC_PASSES_FUSION_MULTI_OUTPUT_H

#include "ir/kernel/kind.h"
#include "passes/fusion/paths.h"

typedef struct Kernel {
    Instruction *fusion; /* the first one of those joined: grows */
    KernelKind kind;
    bool is_heavy;         /* contracts or combines for an element */
    int64_t elements;      /* loop: of the largest result */
    int64_t rows, columns; /* reduction */
    bool minor_reduced;
    uint32_t heroes;
    uint32_t depth; /* values behind one another that it waits for */
    FusionLeaves leaves;
    uint32_t nodes; /* of its code */
    uint32_t spare; /* for fusion_bring_in */
    bool is_own;    /* nobody else calls its computation */
} Kernel;

typedef struct Carried
    Carried; /* a value that the next one replaces, in a loop or for a donated argument */

typedef struct CarriedValues {
    Carried **replaced; /* [instruction count] what an instruction replaces */
} CarriedValues;

/* Those of a computation, the body of a loop or not; made in `scratch`. */
CarriedValues carried_find(const Computation *comp, bool is_body, Arena *scratch);
/* How many carried values `a` and `b` as one kernel would have to be copied into; `b` may be NULL. */
uint32_t carried_copies(const CarriedValues *v, const Paths *paths, const Kernel *a,
                        const Kernel *b);

#endif
