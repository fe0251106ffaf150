/* See solver.h. */
#include "ir/kernel/solver.h"

#include "ir/attribute/config.h"

bool solver_is_library(const Instruction *inst)
{
    return inst->op == OP_CUSTOM_CALL && config_is(inst, CONFIG_LIBRARY, LAPACK_LIBRARY);
}

bool solver_matrices_of(const Shape *s, bool is_transposed, SolverCall *out)
{
    if (s->rank < 2 || !lapack_has_type(s->dtype))
        return false;
    int64_t y = s->dims[s->rank - 2], x = s->dims[s->rank - 1];
    out->type = s->dtype;
    out->rows = is_transposed ? x : y;
    out->columns = is_transposed ? y : x;
    out->batch = 1;
    for (uint32_t d = 0; d + 2 < s->rank; d++)
        out->batch *= s->dims[d];
    return out->batch >= 1 && out->batch <= INT32_MAX && x >= 1 && y >= 1 &&
           x <= INT32_MAX && y <= INT32_MAX;
}

bool solver_call_of(const Instruction *inst, SolverCall *out)
{
    *out = (SolverCall){0};
    if (!solver_is_library(inst) || !custom_call_lapack(inst, &out->how) ||
        !solver_matrices_of(inst->operands[0]->shape, true, out))
        return false;
    switch (out->how.kind) {
    case LAPACK_POTRF:
    case LAPACK_GETRF:
    case LAPACK_GEQRF:
    case LAPACK_SYEVD:
        return true;
    case LAPACK_ORGQR: {
        const Shape *factors = inst->operands[1]->shape;
        out->vectors = factors->dims[factors->rank - 1];
        return out->vectors > 0;
    }
    case LAPACK_GESVD: {
        const Shape *u = inst->shape->elements[2];
        out->vectors = out->how.has_vectors ? u->dims[u->rank - 2] : 0;
        return out->rows >= out->columns;
    }
    default:
        return false;
    }
}

void solver_set_library(Instruction *inst)
{
    config_set_word(inst, CONFIG_LIBRARY, LAPACK_LIBRARY);
}
