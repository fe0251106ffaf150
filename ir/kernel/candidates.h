/* Who can make a product of matrices, a convolution or an attention, and how long each would take by the model of time:
 * a library's call, a kernel on tensor cores of ours or by CUDA Tile IR, a kernel without them. Passes choose the
 * first; reports show the others beside it. */
#ifndef GXC_IR_KERNEL_CANDIDATES_H
#define GXC_IR_KERNEL_CANDIDATES_H

#include "ir/analysis/target.h"
#include "ir/kernel/kind.h"
#include "ir/module.h"

typedef enum {
    CANDIDATE_LIBRARY,
    CANDIDATE_TILE,   /* on tensor cores */
    CANDIDATE_TILEIR, /* the same kind by CUDA Tile IR */
    CANDIDATE_PLAIN,  /* any other kind */
    CANDIDATE_COUNT
} CandidateMaker;

typedef struct Candidate {
    CandidateMaker maker;
    const char *name; /* "cublaslt", "tileir", or the kind of kernel */
    KernelKind kind;  /* KERNEL_COUNT: a library's */
    double seconds;   /* with what a library would need besides */
} Candidate;

typedef struct Candidates {
    Candidate list[CANDIDATE_COUNT]; /* the fastest first */
    uint32_t count;
} Candidates;

/* Who reads each of the first `count` instructions of a computation; those added since count as read by several. */
typedef struct KnownUses {
    Uses uses;
    uint32_t count;
} KnownUses;

/* What was found of equal products before: their kernels. NULL where one is asked for: nothing is kept. */
typedef struct CandidateMemo CandidateMemo;
CandidateMemo *candidate_memo_create(Arena *a);
/* Different products that were asked for. */
size_t candidate_memo_count(const CandidateMemo *memo);

/* `inst` is a dot, a convolution, or a fusion of one: ours or a library's call. Of a plain one, with `uses`,
 * elementwise operations that only make its operands stand in its kernel, and before a library's call, and what is
 * made of its result element by element behind that. NULL: operands and result are all there is. No candidate: it is
 * none of these. */
void candidates_find(const Instruction *inst, const KnownUses *uses, const Target *t,
                     CandidateMemo *memo, Candidates *out);

/* Cheap: false only if no kernel could take less than this part of a library's time for a dot or convolution. */
bool candidates_worth_asking(const Instruction *product, const KnownUses *uses,
                             const Target *t, double gain);

/* The one that has this maker; NULL: it cannot. */
const Candidate *candidates_by(const Candidates *c, CandidateMaker maker);

#endif
