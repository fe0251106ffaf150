/* Modules of CUDA Tile IR and their bytecode (NVIDIA's Tile IR documentation, section "Binary Format"): types,
 * constants, and kernels made of operations in blocks. Operations can be added to any block that is open, in any
 * order between blocks; values get their numbers when all is written. */
#ifndef GXC_CODEGEN_TILEIR_BYTECODE_H
#define GXC_CODEGEN_TILEIR_BYTECODE_H

#include "ir/base/arena.h"
#include "ir/kernel/kernel.h"

typedef enum { /* the format's tags */
               TILEIR_I1,
               TILEIR_I8,
               TILEIR_I16,
               TILEIR_I32,
               TILEIR_I64,
               TILEIR_F16,
               TILEIR_BF16,
               TILEIR_F32,
               TILEIR_TF32,
               TILEIR_F64,
               TILEIR_F8E4M3FN,
               TILEIR_F8E5M2,
               TILEIR_SCALARS,
               TILEIR_TOKEN = 17
} TileIrScalar;

typedef enum {
#define TILEIR(id, opcode, attributes) TILEIR_##id,
#include "codegen/tileir/operations.def"
    TILEIR_OPERATIONS
} TileIrOpcode;

enum { TILEIR_MOST_RANK = 8 };

typedef struct TileIrModule TileIrModule;

/* A value: its type, by number. */
typedef struct TileIrValue {
    uint32_t type, number;
} TileIrValue;

typedef struct TileIrOp TileIrOp;

typedef struct TileIrBlock {
    TileIrOp *first, *last;
    uint32_t count, argument_count;
    TileIrValue *arguments;
} TileIrBlock;

TileIrModule *bytecode_create(Arena *a);

/* -- types, by number ----------------------------------------------------------------------------- */

uint32_t bytecode_scalar(TileIrModule *m, TileIrScalar t);
uint32_t bytecode_pointer(TileIrModule *m, TileIrScalar to);
uint32_t bytecode_tile(TileIrModule *m, uint32_t element, uint32_t rank,
                       const int64_t *sizes);
uint32_t bytecode_tensor_view(TileIrModule *m, TileIrScalar element, uint32_t rank,
                              const int64_t *sizes, const int64_t *strides);
/* Tiles of a tensor view; what is behind its sizes is read as zero. */
uint32_t bytecode_partition_view(TileIrModule *m, uint32_t view, uint32_t rank,
                                 const int64_t *tile);

/* -- operations ----------------------------------------------------------------------------------- */

/* An operation with results of these types, not in a block yet; attributes NULL: those of the table. */
TileIrOp *bytecode_op(TileIrModule *m, TileIrOpcode op, uint32_t result_count,
                      const uint32_t *types, const char *attributes);
/* The same for operations whose results the format counts. */
TileIrOp *bytecode_op_counted(TileIrModule *m, TileIrOpcode op, uint32_t result_count,
                              const uint32_t *types);
/* A further attribute, before any operand. */
void bytecode_attribute(TileIrOp *op, uint64_t value);
void bytecode_attribute_bytes(TileIrOp *op, const void *bytes, size_t count);
void bytecode_operand(TileIrOp *op, const TileIrValue *v);
/* How many operands of a list follow. */
void bytecode_operand_count(TileIrOp *op, uint32_t count);
/* A block inside, with arguments of these types. */
TileIrBlock *bytecode_body(TileIrOp *op, uint32_t argument_count, const uint32_t *types);
TileIrBlock *bytecode_loop_body(const TileIrOp *op);
void bytecode_append(TileIrBlock *b, TileIrOp *op);
TileIrValue *bytecode_result(const TileIrOp *op, uint32_t i);

/* The number of a constant's bytes. */
uint32_t bytecode_constant(TileIrModule *m, const void *data, size_t bytes);

/* -- kernels -------------------------------------------------------------------------------------- */

/* Of tiles without dimensions. Returns its block. `gpu`: as in "sm_90". */
TileIrBlock *bytecode_kernel(TileIrModule *m, const char *name, uint32_t parameter_count,
                             const uint32_t *types, const TileIrHints *hints,
                             const char *gpu);

/* The bytecode; in the module's arena. */
const void *bytecode_write(TileIrModule *m, size_t *out_bytes);

#endif
