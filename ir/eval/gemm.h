/* Matrix products in the types that the evaluator accumulates in. */
#ifndef GXC_IR_EVAL_GEMM_H
#define GXC_IR_EVAL_GEMM_H

#include "ir/eval/call.h"

/* The type in which a contraction of two types into a third is summed: f64 for real floats,
 * c128 for complex, u32 or u64 (which wrap) for integers, pred for pred. */
DType gemm_type(DType lhs, DType rhs, DType out);

/* c[m, n] += a[m, k] b[k, n], all row-major and of type t (one of gemm_type's). Each element
 * is summed in the order of k. a, b and c do not overlap. */
void gemm(EvalCall *call, DType t, int64_t m, int64_t n, int64_t k, const void *a,
          const void *b, void *c);

#endif
