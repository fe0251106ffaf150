/* The command of a factorisation: which leaf of the call is which argument of the library's function. */
#include "codegen/library/cusolver.h"

#include <string.h>

#include "ir/base/bug.h"
#include "ir/kernel/solver.h"

#define LEAST_VERSION 11400 /* 11.4.0; that of CUDA 12.0 is newer */

static uint32_t library_type(DType t)
{
    switch (t) {
#define TYPE(name, value, letter, dtype, bytes, real, real_bytes)                        \
    case DT_##dtype:                                                                     \
        return name;
        CUSOLVER_TYPES(TYPE)
#undef TYPE
    default:
        bug("cuSOLVER has no matrices of %s", dtype_info[t].name);
    }
}

static PlanSolverKind kind_of(LapackKind kind)
{
    switch (kind) {
#define SOLVER(id, name, vector, reads_vector, has_info)                                 \
    case LAPACK_##id:                                                                    \
        return PLAN_SOLVER_##id;
        CUSOLVER_KINDS(SOLVER)
#undef SOLVER
    default:
        bug("cuSOLVER has no function for LAPACK's call %u", (unsigned)kind);
    }
}

/* Equal factorisations have one record. */
static uint32_t add_record(PlanBuilder *b, const SolverCall *c)
{
    PlanSolver s = {.kind = kind_of(c->how.kind),
                    .type = library_type(c->type),
                    .batch = (uint32_t)c->batch,
                    .fill =
                        c->how.lower ? CUBLAS_FILL_MODE_LOWER : CUBLAS_FILL_MODE_UPPER,
                    .rows = (uint64_t)c->rows,
                    .columns = (uint64_t)c->columns,
                    .vectors = (uint64_t)c->vectors};
    for (uint32_t i = 0; i < b->solvers_count; i++) {
        if (memcmp(&b->solvers[i], &s, sizeof s) == 0)
            return i;
    }
    return plan_add_solvers(b, &s, 1);
}

/* The results by PLAN_SOLVER_x: matrix, vector, info, u, v; -1: none. */
static const int results[PLAN_SOLVER_KINDS][PLAN_SOLVER_ARGS] = {
    [PLAN_SOLVER_POTRF] = {-1, 0, -1, 1, -1, -1},
    [PLAN_SOLVER_GETRF] = {-1, 0, 1, 2, -1, -1},
    [PLAN_SOLVER_GEQRF] = {-1, 0, 1, -1, -1, -1},
    [PLAN_SOLVER_ORGQR] = {-1, 0, -1, -1, -1, -1},
    [PLAN_SOLVER_SYEVD] = {-1, 0, 1, 2, -1, -1},
    [PLAN_SOLVER_GESVD] = {-1, 0, 1, 4, 2, 3},
};

bool cusolver_add(Variant *v, const Instruction *inst)
{
    SolverCall c;
    if (!solver_call_of(inst, &c)) {
        diag_error(v->module->diag, inst->span,
                   "%s is marked for cuSOLVER, which has no function for it", inst->name);
        return false;
    }
    uint32_t number = add_record(&v->plan, &c);
    const PlanSolver *s = &v->plan.solvers[number];
    PlanArg args[PLAN_SOLVER_ARGS] = {
        [PLAN_SOLVER_A] = variant_slice_arg(v, inst->operands[0], 0, PLAN_READ)};
    for (uint32_t i = PLAN_SOLVER_OUT; i < PLAN_SOLVER_ARGS; i++) {
        int leaf = results[s->kind][i];
        if (leaf >= 0 && plan_solver_bytes(s, i) != 0)
            args[i] = variant_slice_arg(v, inst, (size_t)leaf, PLAN_WRITE);
    }
    if (s->kind == PLAN_SOLVER_ORGQR)
        args[PLAN_SOLVER_VECTOR] = variant_slice_arg(v, inst->operands[1], 0, PLAN_READ);
    uint32_t stream = v->stream;
    v->stream = 0; /* all of them share the session's workspace */
    variant_command(v, PLAN_SOLVER, inst, number, args, PLAN_SOLVER_ARGS);
    v->stream = stream;
    if (v->plan.info[0].min_cusolver < LEAST_VERSION)
        v->plan.info[0].min_cusolver = LEAST_VERSION;
    return true;
}
