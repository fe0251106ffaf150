/* The numbers of cuSOLVER that stand in plans, by NVIDIA's names: see cublaslt.h. */
#ifndef GXC_RUNTIME_PLAN_CUSOLVER_H
#define GXC_RUNTIME_PLAN_CUSOLVER_H

/* cudaDataType_t of matrices and of their real numbers:
 * TYPE(name, value, letter of functions, HLO's type, bytes of an element, type of its real part, its bytes). */
/* clang-format off */
#define CUSOLVER_TYPES(TYPE)                    \
    TYPE(CUSOLVER_R_32F, 0, S, F32,   4, 0, 4)  \
    TYPE(CUSOLVER_R_64F, 1, D, F64,   8, 1, 8)  \
    TYPE(CUSOLVER_C_32F, 4, C, C64,   8, 0, 4)  \
    TYPE(CUSOLVER_C_64F, 5, Z, C128, 16, 1, 8)

/* What is called. SOLVER(ID, "name", the vector beside the matrix: of what, whether the call reads it, has info) */
#define CUSOLVER_KINDS(SOLVER)                     \
    SOLVER(POTRF, "potrf", NOTHING,  false, true)  \
    SOLVER(GETRF, "getrf", INTEGERS, false, true)  \
    SOLVER(GEQRF, "geqrf", ELEMENTS, false, false) \
    SOLVER(ORGQR, "orgqr", ELEMENTS, true,  false) \
    SOLVER(SYEVD, "syevd", REALS,    false, true)  \
    SOLVER(GESVD, "gesvd", REALS,    false, true)
/* clang-format on */

enum { /* cudaDataType_t */
#define TYPE(name, value, letter, dtype, bytes, real, real_bytes) name = value,
       CUSOLVER_TYPES(TYPE)
#undef TYPE
};

enum { /* cublasFillMode_t, cusolverEigMode_t */
       CUBLAS_FILL_MODE_LOWER = 0,
       CUBLAS_FILL_MODE_UPPER = 1,
       CUSOLVER_EIG_MODE_VECTOR = 1
};

#endif
