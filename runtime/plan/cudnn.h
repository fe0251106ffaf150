/* The numbers of cuDNN that stand in plans, by NVIDIA's names: the compiler writes them, the
 * runtime passes them on, libgxemu reads them. Their values are that library's binary interface. */
#ifndef GXC_RUNTIME_PLAN_CUDNN_H
#define GXC_RUNTIME_PLAN_CUDNN_H

/* cudnnDataType_t: DATA_TYPE(name, value, HLO's type as in ir/dtypes.def, its name, bits). */
/* clang-format off */
#define CUDNN_DATA_TYPES(DATA_TYPE)                                 \
    DATA_TYPE(CUDNN_DATA_FLOAT,     0, F32,       "f32",       32)  \
    DATA_TYPE(CUDNN_DATA_DOUBLE,    1, F64,       "f64",       64)  \
    DATA_TYPE(CUDNN_DATA_HALF,      2, F16,       "f16",       16)  \
    DATA_TYPE(CUDNN_DATA_INT8,      3, S8,        "s8",         8)  \
    DATA_TYPE(CUDNN_DATA_INT32,     4, S32,       "s32",       32)  \
    DATA_TYPE(CUDNN_DATA_UINT8,     6, U8,        "u8",         8)  \
    DATA_TYPE(CUDNN_DATA_BFLOAT16,  9, BF16,      "bf16",      16)  \
    DATA_TYPE(CUDNN_DATA_INT64,    10, S64,       "s64",       64)  \
    DATA_TYPE(CUDNN_DATA_BOOLEAN,  11, PRED,      "pred",       8)  \
    DATA_TYPE(CUDNN_DATA_FP8_E4M3, 12, F8E4M3FN,  "f8e4m3fn",   8)  \
    DATA_TYPE(CUDNN_DATA_FP8_E5M2, 13, F8E5M2,    "f8e5m2",     8)  \
    DATA_TYPE(CUDNN_DATA_FP8_E8M0, 15, F8E8M0FNU, "f8e8m0fnu",  8)  \
    DATA_TYPE(CUDNN_DATA_FP4_E2M1, 16, F4E2M1FN,  "f4e2m1fn",   4)
/* clang-format on */

enum { /* cudnnDataType_t */
#define DATA_TYPE(name, value, dtype, text, bits) name = value,
       CUDNN_DATA_TYPES(DATA_TYPE)
#undef DATA_TYPE
};

enum { /* cudnnConvolutionMode_t */
       CUDNN_CONVOLUTION = 0,
       CUDNN_CROSS_CORRELATION = 1
};

enum { /* cudnnPointwiseMode_t */
       CUDNN_POINTWISE_ADD = 0,
       CUDNN_POINTWISE_MUL = 1,
       CUDNN_POINTWISE_MIN = 2,
       CUDNN_POINTWISE_MAX = 3,
       CUDNN_POINTWISE_SQRT = 4,
       CUDNN_POINTWISE_DIV = 6,
       CUDNN_POINTWISE_SUB = 9,
       CUDNN_POINTWISE_EXP = 13,
       CUDNN_POINTWISE_LOG = 15,
       CUDNN_POINTWISE_NEG = 16,
       CUDNN_POINTWISE_RSQRT = 17,
       CUDNN_POINTWISE_IDENTITY = 21,
       CUDNN_POINTWISE_RELU_FWD = 100,
       CUDNN_POINTWISE_TANH_FWD = 101,
       CUDNN_POINTWISE_SIGMOID_FWD = 102,
       CUDNN_POINTWISE_GELU_FWD = 104,
       CUDNN_POINTWISE_GELU_APPROX_TANH_FWD = 107,
       CUDNN_POINTWISE_CMP_GT = 302,
       CUDNN_POINTWISE_CMP_GE = 303,
       CUDNN_POINTWISE_GEN_INDEX = 501,
       CUDNN_POINTWISE_BINARY_SELECT = 601
};

enum { /* cudnnBackendTensorReordering_t */
       CUDNN_TENSOR_REORDERING_NONE = 0,
       CUDNN_TENSOR_REORDERING_F8_128x4 = 3
};

enum { /* cudnnBackendNormMode_t */
       CUDNN_LAYER_NORM = 0,
       CUDNN_RMS_NORM = 4
};

#endif
