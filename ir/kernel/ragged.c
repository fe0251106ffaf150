/* See ragged.h. */
#include "ir/kernel/ragged.h"

#define MOST_EXTENT ((INT64_C(1) << 30) - 1) /* two of them are added in 32 bits */
#define MOST_GROUPS (1 << 16)

static bool sizes_fit(const Shape *s)
{
    return shape_is_array(s) && s->rank == 1 && s->dims[0] >= 1 &&
           s->dims[0] <= MOST_GROUPS && dtype_is_integer(s->dtype) &&
           dtype_info[s->dtype].bits >= 8;
}

bool ragged_form(const Instruction *inst, RaggedForm *out)
{
    *out = (RaggedForm){0};
    if (inst->op != OP_RAGGED_DOT)
        return false;
    Ints ragged = inst_ints(inst, ATTR_LHS_RAGGED_DIMS),
         batch = inst_ints(inst, ATTR_LHS_BATCH_DIMS),
         summed = inst_ints(inst, ATTR_LHS_CONTRACTING_DIMS);
    const Shape *lhs = inst->operands[0]->shape, *sizes = inst->operands[2]->shape;
    for (uint32_t i = 0; i < inst->operand_count; i++) {
        if (shape_is_dynamic(inst->operands[i]->shape))
            return false;
    }
    if (ragged.count != 1 || !sizes_fit(sizes) || shape_is_dynamic(inst->shape) ||
        ints_find(batch, ragged.data[0]) >= 0)
        return false;
    out->groups = sizes->dims[0];
    out->extent = lhs->dims[ragged.data[0]];
    bool is_summed = ints_find(summed, ragged.data[0]) >= 0;
    out->mode = is_summed ? RAGGED_SUMMED : RAGGED_FREE;
    out->result_dim = is_summed ? 0 : batch.count;
    bool is_single = is_summed ? summed.count == 1
                               : lhs->rank == batch.count + summed.count + 1 &&
                                     inst_ints(inst, ATTR_RHS_GROUP_DIMS).count == 1;
    return is_single && out->extent >= 1 && out->extent <= MOST_EXTENT;
}
