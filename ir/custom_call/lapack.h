/* Custom calls of linear algebra that gxc computes itself: lapack.def is their list. */
#ifndef GXC_IR_CUSTOM_CALL_LAPACK_H
#define GXC_IR_CUSTOM_CALL_LAPACK_H

#include "ir/module.h"

typedef enum LapackKind {
#define LAPACK(id, function, real, complex, cuda, operands, results, layout, doc)        \
    LAPACK_##id,
#include "ir/custom_call/lapack.def"
    LAPACK_COUNT,
} LapackKind;

/* backend_config={"library": this}: marked for cuSOLVER. */
#define LAPACK_LIBRARY "cusolver"

typedef struct LapackCall {
    LapackKind kind;
    bool lower; /* of potrf, trsm, syevd, sytrd: which triangle counts */
    bool left;  /* of trsm, ormqr: a, q is on the left */
    bool unit_diagonal;
    int64_t transpose; /* of trsm, ormqr: TRANSPOSE_x */
    bool has_vectors;  /* of the svd: u and v are wanted */
    /* Operands and results are the transposes of the matrices, which then lie as the library wants them: what is
     * marked for cuSOLVER. */
    bool is_transposed;
} LapackCall;

/* LAPACK and cuSOLVER have matrices of it. */
bool lapack_has_type(DType t);
/* Whether the call is one of the list, with operands and results as its row says. */
bool custom_call_lapack(const Instruction *inst, LapackCall *out);
/* Whether operand or result i has matrices, not vectors or numbers. */
bool lapack_is_matrix(LapackKind kind, bool is_result, uint32_t i);

#endif
