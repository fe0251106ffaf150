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

#define EMIT_ROW_scalar(f)                                                               \
    {                                                                                    \
        .kind = EMIT_SCALAR, .scalar = scalar_##f                                        \
    }
#define EMIT_ROW_select(f)                                                               \
    {                                                                                    \
        .kind = EMIT_SELECT, .select = select_##f                                        \
    }
#define EMIT_ROW_index(f)                                                                \
    {                                                                                    \
        .kind = EMIT_INDEX, .select = select_##f                                         \
    }
#define EMIT_ROW_reduce(f)                                                               \
    {                                                                                    \
        .kind = EMIT_REDUCE, .select = select_##f                                        \
    }
#define EMIT_ROW_contract(f)                                                             \
    {                                                                                    \
        .kind = EMIT_CONTRACT, .select = select_##f                                      \
    }
#define EMIT_ROW_nothing(f)                                                              \
    {                                                                                    \
        .kind = EMIT_NOTHING                                                             \
    }
#define EMIT_ROW_move(f)                                                                 \
    {                                                                                    \
        .kind = EMIT_MOVE                                                                \
    }
#define EMIT_ROW_constant(f)                                                             \
    {                                                                                    \
        .kind = EMIT_CONSTANT                                                            \
    }
#define EMIT_ROW_alias(f)                                                                \
    {                                                                                    \
        .kind = EMIT_ALIAS                                                               \
    }
#define EMIT_ROW_kernel(f)                                                               \
    {                                                                                    \
        .kind = EMIT_KERNEL                                                              \
    }
#define EMIT_ROW_control(f)                                                              \
    {                                                                                    \
        .kind = EMIT_CONTROL                                                             \
    }
#define EMIT_ROW_collective(f)                                                           \
    {                                                                                    \
        .kind = EMIT_COLLECTIVE                                                          \
    }
#define EMIT_ROW_async(f)                                                                \
    {                                                                                    \
        .kind = EMIT_ASYNC                                                               \
    }
#define EMIT_ROW_custom(f)                                                               \
    {                                                                                    \
        .kind = EMIT_CUSTOM                                                              \
    }
#define EMIT_ROW_fusion(f)                                                               \
    {                                                                                    \
        .kind = EMIT_FUSION                                                              \
    }
#define EMIT_ROW_device_id(f)                                                            \
    {                                                                                    \
        .kind = EMIT_DEVICE_ID                                                           \
    }
#define EMIT_ROW_expand(f)                                                               \
    {                                                                                    \
        .kind = EMIT_EXPAND                                                              \
    }
#define EMIT_ROW_unsupported(f)                                                          \
    {                                                                                    \
        .kind = EMIT_UNSUPPORTED                                                         \
    }
const OpEmit op_emit[OP_COUNT] = {
#define OP(id, ...) [OP_##id] =
#define EMIT(kind, function) EMIT_ROW_##kind(function),
#include "ir/ops.def"
};

bool codegen_lacks(OpCode op)
{
    return op_emit[op].kind == EMIT_UNSUPPORTED;
}
