/* See solver.h. */
#include "ir/kernel/solver.h"

#include "ir/config.h"

static const char library[] = "cusolver";

bool solver_is_library(const Instruction *inst)
{
    return inst->op == OP_CUSTOM_CALL && config_is(inst, CONFIG_LIBRARY, library);
}

/* As the library sees the matrix, by columns. */
static void find_sizes(const Instruction *inst, SolverCall *c)
{
    const Shape *s = inst->operands[0]->shape;
    c->type = s->dtype;
    c->rows = s->dims[s->rank - 1];
    c->columns = s->dims[s->rank - 2];
    c->batch = 1;
    for (uint32_t d = 0; d + 2 < s->rank; d++)
        c->batch *= s->dims[d];
}

static bool are_sizes_possible(const SolverCall *c)
{
    return c->batch >= 1 && c->batch <= INT32_MAX && c->rows >= 1 && c->columns >= 1 &&
           c->rows <= INT32_MAX && c->columns <= INT32_MAX;
}

bool solver_call_of(const Instruction *inst, SolverCall *out)
{
    *out = (SolverCall){0};
    if (!solver_is_library(inst) || !custom_call_lapack(inst, &out->how))
        return false;
    find_sizes(inst, out);
    switch (out->how.kind) {
    case LAPACK_POTRF:
    case LAPACK_GETRF:
    case LAPACK_GEQRF:
    case LAPACK_SYEVD:
        return are_sizes_possible(out);
    case LAPACK_ORGQR: {
        const Shape *factors = inst->operands[1]->shape;
        out->vectors = factors->dims[factors->rank - 1];
        return are_sizes_possible(out) && out->vectors > 0;
    }
    case LAPACK_GESVD: {
        const Shape *u = inst->shape->elements[2];
        out->vectors = out->how.has_vectors ? u->dims[u->rank - 2] : 0;
        return are_sizes_possible(out) && out->rows >= out->columns;
    }
    default:
        return false;
    }
}

void solver_set_library(Instruction *inst)
{
    config_set_word(inst, CONFIG_LIBRARY, library);
}
