/* See op_emit.h. */
#include "codegen/element/op_emit.h"

#include "codegen/codegen.h"

#define OP(id, ...)
#define EMIT(kind, function) EMIT_DECLARE_##kind(function)
#define EMIT_DECLARE_scalar(f) ScalarFn scalar_##f;
#define EMIT_DECLARE_select(f) SelectFn select_##f;
#define EMIT_DECLARE_index(f) SelectFn select_##f;
#define EMIT_DECLARE_reduce(f) SelectFn select_##f;
#define EMIT_DECLARE_contract(f) SelectFn select_##f;
#define EMIT_DECLARE_nothing(f)
#define EMIT_DECLARE_move(f)
#define EMIT_DECLARE_constant(f)
#define EMIT_DECLARE_alias(f)
#define EMIT_DECLARE_kernel(f)
#define EMIT_DECLARE_control(f)
#define EMIT_DECLARE_collective(f)
#define EMIT_DECLARE_async(f)
#define EMIT_DECLARE_custom(f)
#define EMIT_DECLARE_fusion(f)
#define EMIT_DECLARE_device_id(f)
#define EMIT_DECLARE_expand(f)
#define EMIT_DECLARE_unsupported(f)
#include "ir/ops.def"

#define EMIT_ROW_none                                                                    \
    {                                                                                    \
        0                                                                                \
    }
#define EMIT_ROW_scalar(f)                                                               \
    {                                                                                    \
        .scalar = scalar_##f                                                             \
    }
#define EMIT_ROW_select(f)                                                               \
    {                                                                                    \
        .select = select_##f                                                             \
    }
#define EMIT_ROW_index(f) EMIT_ROW_select(f)
#define EMIT_ROW_reduce(f) EMIT_ROW_select(f)
#define EMIT_ROW_contract(f) EMIT_ROW_select(f)
#define EMIT_ROW_nothing(f) EMIT_ROW_none
#define EMIT_ROW_move(f) EMIT_ROW_none
#define EMIT_ROW_constant(f) EMIT_ROW_none
#define EMIT_ROW_alias(f) EMIT_ROW_none
#define EMIT_ROW_kernel(f) EMIT_ROW_none
#define EMIT_ROW_control(f) EMIT_ROW_none
#define EMIT_ROW_collective(f) EMIT_ROW_none
#define EMIT_ROW_async(f) EMIT_ROW_none
#define EMIT_ROW_custom(f) EMIT_ROW_none
#define EMIT_ROW_fusion(f) EMIT_ROW_none
#define EMIT_ROW_device_id(f) EMIT_ROW_none
#define EMIT_ROW_expand(f) EMIT_ROW_none
#define EMIT_ROW_unsupported(f) EMIT_ROW_none
const OpEmit op_emit[OP_COUNT] = {
#define OP(id, ...) [OP_##id] =
#define EMIT(kind, function) EMIT_ROW_##kind(function),
#include "ir/ops.def"
};

bool codegen_lacks(OpCode op)
{
    return element_kind[op] == ELEMENT_UNSUPPORTED;
}
