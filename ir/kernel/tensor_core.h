/* The instructions of tensor cores: which there are, and where their operands' elements lie. The rows are in
 * tensor_cores.def. */
#ifndef GXC_IR_KERNEL_TENSOR_CORE_H
#define GXC_IR_KERNEL_TENSOR_CORE_H

#include "ir/analysis/linear_layout.h"
#include "ir/analysis/target.h"
#include "ir/number/number.h"

typedef enum { TENSOR_A, TENSOR_B, TENSOR_C, TENSOR_OPERANDS } TensorOperand;

typedef struct TensorCore {
    uint32_t number;
    const char *name; /* of the intrinsic, behind "llvm.nvvm.mma." */
    uint32_t m, n, k;
    DType types[TENSOR_OPERANDS];
    uint32_t sm, ptx;
    const char *layouts[TENSOR_OPERANDS];
} TensorCore;

/* wgmma (PTX ISA, "Asynchronous warpgroup level matrix instructions") is no row: four warps that follow each other
 * multiply 64 rows by all columns over 16 terms of 16 bits. Factors lie in shared memory, as matrices of 8 rows of 16
 * bytes. */
enum {
    WARPGROUP_LOG2 = 2,
    WARPGROUP_WARPS = 1 << WARPGROUP_LOG2,
    WARPGROUP_ROWS = 64,
    TENSOR_CORE_ROWS = 16,   /* of mma.sync with 16-bit factors */
    WARPGROUP_COLUMNS = 256, /* at most */
    WARPGROUP_TERMS = 16,
    WARPGROUP_PIECE_LOG2 = 3,
    WARPGROUP_PIECE =
        1 << WARPGROUP_PIECE_LOG2 /* numbers of 16 bytes, rows of a matrix */
};

/* Nor is tcgen05: one thread multiplies factors in shared memory, and the sums lie in tensor memory, of so many lanes and
 * columns of 32 bits. */
enum {
    TENSOR_ROWS = 128,
    TENSOR_COLUMNS = 512,
    TENSOR_COLUMN_STEP = 16 /* of a product */
};

/* Row i of the table; NULL: there are fewer. */
const TensorCore *tensor_core_row(uint32_t i);

/* The row with this number; NULL: there is none. */
const TensorCore *tensor_core_numbered(uint32_t number);

/* The target has it, and this version of PTX (9.0 is 90) can say it. */
bool tensor_core_fits(const TensorCore *t, const Target *target, uint32_t ptx);

/* The largest instruction of the target for these factors' and sums' types; NULL: it has none. `ptx`: the
 * version that is written (9.0 is 90). */
const TensorCore *tensor_core_find(DType a, DType b, DType c, const Target *target,
                                   uint32_t ptx);

/* Elements | lanes to dimensions 0 m, 1 n, 2 k. */
LinearLayout tensor_core_layout(const TensorCore *t, TensorOperand operand);

/* Registers of a lane for an operand: of 32 bits, f64 of 64. */
uint32_t tensor_core_registers(const TensorCore *t, TensorOperand operand);

#endif
