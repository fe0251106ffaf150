/* The numbers of cuBLASLt that stand in plans, by NVIDIA's names: the compiler writes them,
 * the runtime passes them on, libgxemu reads them. Their values are that library's binary
 * interface. */
#ifndef GXC_RUNTIME_PLAN_CUBLASLT_H
#define GXC_RUNTIME_PLAN_CUBLASLT_H

/* cudaDataType_t: DATA_TYPE(name, value, HLO's type as in ir/dtypes.def, bits of an element). */
/* clang-format off */
#define CUDA_DATA_TYPES(DATA_TYPE)                     \
    DATA_TYPE(CUDA_R_32F,      0, F32,        32)      \
    DATA_TYPE(CUDA_R_64F,      1, F64,        64)      \
    DATA_TYPE(CUDA_R_16F,      2, F16,        16)      \
    DATA_TYPE(CUDA_R_8I,       3, S8,          8)      \
    DATA_TYPE(CUDA_R_8U,       8, U8,          8)      \
    DATA_TYPE(CUDA_R_32I,     10, S32,        32)      \
    DATA_TYPE(CUDA_R_16BF,    14, BF16,       16)      \
    DATA_TYPE(CUDA_R_8F_E4M3, 28, F8E4M3FN,    8)      \
    DATA_TYPE(CUDA_R_8F_E5M2, 29, F8E5M2,      8)      \
    DATA_TYPE(CUDA_R_4F_E2M1, 33, F4E2M1FN,    4)
/* clang-format on */

enum { /* cudaDataType_t */
#define DATA_TYPE(name, value, dtype, bits) name = value,
       CUDA_DATA_TYPES(DATA_TYPE)
#undef DATA_TYPE
};

enum { /* cublasComputeType_t */
       CUBLAS_COMPUTE_32F = 68,
       CUBLAS_COMPUTE_64F = 70,
       CUBLAS_COMPUTE_32I = 72,
       CUBLAS_COMPUTE_32F_FAST_16BF = 75,
       CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};

enum { /* cublasLtEpilogue_t: a set of bits but for the default */
       CUBLASLT_EPILOGUE_DEFAULT = 1,
       CUBLASLT_EPILOGUE_RELU = 2,
       CUBLASLT_EPILOGUE_BIAS = 4,
       CUBLASLT_EPILOGUE_RELU_BIAS = 6,
       CUBLASLT_EPILOGUE_GELU = 32,
       CUBLASLT_EPILOGUE_GELU_BIAS = 36,
       CUBLASLT_EPILOGUE_GELU_AUX = 160,
       CUBLASLT_EPILOGUE_GELU_AUX_BIAS = 164,
       CUBLASLT_EPILOGUE_BGRADA = 256, /* sums of op(A) along k, in place of a bias */
       CUBLASLT_EPILOGUE_BGRADB = 512
};

enum { /* cublasLtMatmulMatrixScale_t: one number, or one for so many values along k; those of f32 one for each line
          (row of op(A), column of op(B)), for 128 values of a line along k, or for 128 lines of so many */
       CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F = 0,
       CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 = 1,
       CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 = 2,
       CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F = 3,
       CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F = 4,
       CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F = 5
};

#endif
