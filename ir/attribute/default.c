/* Which values of attributes mean the same as their absence. */
#include <string.h>

#include "ir/attribute/config.h"
#include "ir/dtype.h"
#include "ir/module.h"

static bool all_zero(Ints ints)
{
    for (uint32_t i = 0; i < ints.count; i++) {
        if (ints.data[i] != 0)
            return false;
    }
    return true;
}

static int64_t default_compare_type(const Instruction *inst)
{
    DType t = inst->operands[0]->shape->dtype;
    if (dtype_is_float(t) || dtype_is_complex(t))
        return COMPARE_FLOAT;
    return dtype_is_signed(t) ? COMPARE_SIGNED : COMPARE_UNSIGNED;
}

bool attr_is_default(const Instruction *inst, const Attr *a)
{
    switch (a->id) {
    case ATTR_FEATURE_GROUP_COUNT:
    case ATTR_BATCH_GROUP_COUNT:
        return a->i == 1;
    case ATTR_DIMENSIONS: /* of map: all of them */
        return inst->op == OP_MAP && a->ints.count == 0;
    case ATTR_INFERRED_DIMENSION:
        return a->i == -1;
    case ATTR_TYPE:
        return inst->operand_count != 0 && shape_is_array(inst->operands[0]->shape) &&
               a->i == default_compare_type(inst);
    case ATTR_OPERAND_PRECISION:
        return all_zero(a->ints);
    case ATTR_WINDOW:
        return a->window->rank == 0;
    case ATTR_RESULT_ACCURACY:
        return !a->accuracy->tolerance && !a->accuracy->highest;
    case ATTR_LHS_BATCH_DIMS:
    case ATTR_RHS_BATCH_DIMS:
    case ATTR_OPERAND_BATCHING_DIMS:
    case ATTR_START_INDICES_BATCHING_DIMS:
    case ATTR_INPUT_BATCHING_DIMS:
    case ATTR_SCATTER_INDICES_BATCHING_DIMS:
    case ATTR_LHS_RAGGED_DIMS:
    case ATTR_RHS_GROUP_DIMS:
        return a->ints.count == 0;
    case ATTR_CONVOLUTION_KIND:
    case ATTR_ALGORITHM:
    case ATTR_SCHEDULE:
    case ATTR_API_VERSION:
    case ATTR_USE_GLOBAL_DEVICE_IDS:
    case ATTR_CONSTRAIN_LAYOUT:
    case ATTR_IS_STABLE:
    case ATTR_IS_REVERSE:
    case ATTR_IS_COMPOSITE:
    case ATTR_IS_HOST_TRANSFER:
    case ATTR_INDICES_ARE_SORTED:
    case ATTR_UNIQUE_INDICES:
    case ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT:
    case ATTR_LEFT_SIDE:
    case ATTR_LOWER:
    case ATTR_UNIT_DIAGONAL:
        return a->i == 0 && inst->op != OP_TOPK;
    case ATTR_OUTPUT_TO_OPERAND_ALIASING:
        return a->aliasing->count == 0;
    case ATTR_BACKEND_CONFIG:
        return a->config->text.length == 0;
    case ATTR_INFEED_CONFIG:
    case ATTR_OUTFEED_CONFIG:
        return a->bytes.length == 0;
    case ATTR_ASYNC_EXECUTION_THREAD:
        return a->bytes.length == 4 && memcmp(a->bytes.data, "main", 4) == 0;
    case ATTR_FRONTEND_ATTRIBUTES:
        return a->dict->count == 0;
    default:
        return false;
    }
}
