/* Records of a plan for calls of libraries: products (cuBLASLt), factorisations (cuSOLVER), graphs (cuDNN). What holds
 * for all records of a plan is said in plan.h, which includes this. */
#ifndef GXC_RUNTIME_PLAN_LIBRARY_H
#define GXC_RUNTIME_PLAN_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/plan/cublaslt.h"
#include "runtime/plan/cudnn.h"
#include "runtime/plan/cusolver.h"

/* One cublasLtMatmul; column-major, field for field the library's descriptors; types, compute,
 * epilogue and scale modes are the numbers of cublaslt.h. The command's args are, in order:
 * PLAN_MATMUL_x; those that are not used have the tag PLAN_ARG_NONE. */
enum {
    PLAN_MATMUL_A,
    PLAN_MATMUL_B,
    PLAN_MATMUL_C, /* NONE: C is D */
    PLAN_MATMUL_D,
    PLAN_MATMUL_WORKSPACE,
    PLAN_MATMUL_BIAS,
    PLAN_MATMUL_SCALE_A,
    PLAN_MATMUL_SCALE_B,
    PLAN_MATMUL_FACTORS, /* alpha and beta in device memory, two numbers of scale_type */
    PLAN_MATMUL_AUX, /* a matrix like D; only products whose epilogue has one have this arg */
    PLAN_MATMUL_ARGS
};

typedef struct PlanMatrix {
    uint32_t type;          /* cudaDataType_t */
    uint32_t transpose;     /* cublasOperation_t: 0 N, 1 T, 2 C */
    uint64_t rows, columns; /* as stored, before transposition */
    int64_t ld;             /* elements */
    int64_t batch_stride;   /* elements */
    uint32_t scale_mode;    /* cublasLtMatmulMatrixScale_t */
    uint32_t reserved;
} PlanMatrix;

typedef struct PlanMatmul {
    PlanMatrix a, b, c, d;
    uint32_t batch;
    uint32_t compute;         /* cublasComputeType_t */
    uint32_t scale_type;      /* cudaDataType_t of alpha and beta: CUDA_R_32F or _64F */
    uint32_t epilogue;        /* cublasLtEpilogue_t */
    uint32_t bias_type;       /* cudaDataType_t */
    uint32_t alignment;       /* least alignment of all operands: 16 ... 256 */
    double alpha, beta;       /* converted to scale_type by the runtime */
    uint64_t workspace_bytes; /* most that the heuristic may ask for */
    uint32_t
        device_factors; /* 1: alpha and beta are those of PLAN_MATMUL_FACTORS, not above */
    uint32_t
        fast_accumulation; /* 1: products of f8 may be added up with fewer bits than f32 has */
} PlanMatmul;

/* One factorisation by cuSOLVER of each of `batch` matrices, which lie dense, by columns, behind each other. The
 * command's args are, in order: PLAN_SOLVER_x; those that the kind has no use for have the tag PLAN_ARG_NONE. The
 * workspace is the session's own: only the library knows, on the device, how much it wants. */
typedef enum PlanSolverKind {
#define SOLVER(id, name, vector, reads_vector, has_info) PLAN_SOLVER_##id,
    CUSOLVER_KINDS(SOLVER)
#undef SOLVER
        PLAN_SOLVER_KINDS
} PlanSolverKind;

enum {
    PLAN_SOLVER_A,      /* read */
    PLAN_SOLVER_OUT,    /* A's copy, or A: becomes the result */
    PLAN_SOLVER_VECTOR, /* pivots, factors, eigenvalues or singular values */
    PLAN_SOLVER_INFO,   /* a number for each matrix */
    PLAN_SOLVER_U,
    PLAN_SOLVER_V, /* v^H */
    PLAN_SOLVER_ARGS
};

typedef struct PlanSolver {
    uint32_t kind; /* PlanSolverKind */
    uint32_t type; /* cudaDataType_t */
    uint32_t batch;
    uint32_t fill;          /* cublasFillMode_t of the triangle that counts */
    uint64_t rows, columns; /* columns <= rows, but for lu and qr */
    uint64_t vectors;       /* columns of u; of q: factors; 0: they are not wanted */
    uint64_t reserved;
} PlanSolver;

/* A graph for cuDNN: operations (graph.def) on tensors. Its tensors have the unique ids 1, 2, …
 * in their order; so has the serialised plan, which is of one version of the library and one
 * device: another version makes a plan of the graph again. Types, modes and reorderings are
 * cuDNN's enum values. */
enum {
    PLAN_GRAPH_RANK = 5,
    PLAN_GRAPH_SLOTS = 20,
    PLAN_GRAPH_NUMBERS = 12,
    PLAN_GRAPH_MOST_TENSORS = 64,
    PLAN_GRAPH_MOST_OPERATIONS = 64
};

typedef enum PlanGraphKind {
#define GRAPH(id, name) PLAN_GRAPH_##id,
#include "runtime/plan/graph.def"
    PLAN_GRAPH_KINDS
} PlanGraphKind;

/* The ports of each kind are numbered from its GRAPH_PORTS_ on. */
enum {
#define GRAPH(id, name) GRAPH_PORTS_##id, GRAPH_BEFORE_##id = GRAPH_PORTS_##id - 1,
#define PORT(id, port, name, access) GRAPH_PORT_##id##_##port,
#include "runtime/plan/graph.def"
};
#define GRAPH_SLOT(id, port) (GRAPH_PORT_##id##_##port - GRAPH_PORTS_##id)

typedef enum PlanGraphStorage {
    PLAN_GRAPH_STORED,  /* an arg of the command */
    PLAN_GRAPH_VIRTUAL, /* between operations: nowhere in memory */
    PLAN_GRAPH_SCALAR,  /* one number: `value` holds its bits */
    PLAN_GRAPH_SCRATCH, /* dense, from byte `value` of the workspace on */
    PLAN_GRAPH_STORAGES
} PlanGraphStorage;

typedef struct PlanGraphTensor {
    uint32_t type; /* cudnnDataType_t */
    uint32_t rank;
    uint32_t storage;    /* PlanGraphStorage */
    uint32_t alignment;  /* of its address, in bytes */
    uint32_t reordering; /* cudnnBackendTensorReordering_t */
    uint32_t reserved;
    int64_t dims[PLAN_GRAPH_RANK];
    int64_t strides[PLAN_GRAPH_RANK]; /* elements */
    uint64_t value;
} PlanGraphTensor;

typedef struct PlanGraphOperation {
    uint32_t kind; /* PlanGraphKind */
    uint32_t mode;
    uint32_t compute; /* cudnnDataType_t */
    uint32_t reserved;
    uint32_t tensors[PLAN_GRAPH_SLOTS]; /* by slot, numbers in the graph; PLAN_NONE */
    int64_t numbers[PLAN_GRAPH_NUMBERS];
} PlanGraphOperation;

enum {                          /* PlanGraph.flags: what the chosen kernels may not do */
       PLAN_GRAPH_FULL_F32 = 1, /* round factors of f32 to TF32 */
       PLAN_GRAPH_PRECOMPILED = 2, /* be compiled first */
       PLAN_GRAPH_FLAGS = 3
};

typedef struct PlanGraph {
    uint32_t name; /* string: the HLO instruction, for messages */
    uint32_t flags;
    uint32_t tensors, tensor_count;
    uint32_t operations, operation_count;
    uint32_t
        cudnn_version; /* that serialised the plan, as it reports it; 0: there is none */
    uint32_t configurations; /* that the library had for it when it was planned */
    uint64_t plan;           /* of plan_bytes in graph_plans */
    uint64_t plan_bytes;
    uint64_t scratch_bytes;   /* of the tensors in the workspace, which come first */
    uint64_t workspace_bytes; /* of scratch and of what the plan needs behind it */
} PlanGraph;

/* What a slot of an operation is for; NULL: its kind has no such slot. */
typedef struct PlanGraphPort {
    const char *name;
    bool writes, is_optional;
} PlanGraphPort;
const PlanGraphPort *plan_graph_port(uint32_t kind, uint32_t slot);
const char *plan_graph_kind(uint32_t kind); /* "convolution" */

/* Bits of an element of cudnnDataType_t; 0: not known. */
uint32_t plan_graph_type_bits(uint32_t type);

const char *plan_solver_name(uint32_t kind);
/* Bytes of an arg (PLAN_SOLVER_x) of all matrices, 0: the kind has none; UINT64_MAX: too many. */
uint64_t plan_solver_bytes(const PlanSolver *s, uint32_t arg);
/* The same of one matrix. */
uint64_t plan_solver_step(const PlanSolver *s, uint32_t arg);

/* The bytes from a tensor's first element to its last. Saturates. */
uint64_t plan_graph_tensor_bytes(const PlanGraphTensor *t);

#endif
