/* Factorisations by cuSOLVER in a plan: what their args are, and that those have room for it. */
#include "runtime/plan/read.h"

typedef enum Vector { NOTHING, INTEGERS, ELEMENTS, REALS } Vector;

static const struct {
    const char *name;
    Vector vector;
    bool reads_vector, has_info;
} kinds[] = {
#define SOLVER(id, name, vector, reads_vector, has_info)                                 \
    {name, vector, reads_vector, has_info},
    CUSOLVER_KINDS(SOLVER)
#undef SOLVER
};

const char *plan_solver_name(uint32_t kind)
{
    return kinds[kind].name;
}

/* Of an element, and of its real part; 0: no such type. */
static uint64_t element_bytes(uint32_t type, uint64_t *out_real)
{
    switch (type) {
#define TYPE(name, value, letter, dtype, bytes, real, real_bytes)                        \
    case name:                                                                           \
        *out_real = real_bytes;                                                          \
        return bytes;
        CUSOLVER_TYPES(TYPE)
#undef TYPE
    default:
        return 0;
    }
}

static uint64_t vector_bytes(const PlanSolver *s)
{
    uint64_t real = 0, element = element_bytes(s->type, &real);
    uint64_t least = s->rows < s->columns ? s->rows : s->columns;
    uint64_t n = s->kind == PLAN_SOLVER_ORGQR ? s->vectors : least;
    switch (kinds[s->kind].vector) {
    case NOTHING:
        return 0;
    case INTEGERS:
        return plan_multiply(n, sizeof(int32_t));
    case ELEMENTS:
        return plan_multiply(n, element);
    case REALS:
        return plan_multiply(n, real);
    }
    return 0;
}

uint64_t plan_solver_step(const PlanSolver *s, uint32_t arg)
{
    uint64_t real = 0, element = element_bytes(s->type, &real);
    bool has_vectors = s->kind == PLAN_SOLVER_GESVD && s->vectors != 0;
    switch (arg) {
    case PLAN_SOLVER_A:
    case PLAN_SOLVER_OUT:
        return plan_multiply(plan_multiply(s->rows, s->columns), element);
    case PLAN_SOLVER_VECTOR:
        return vector_bytes(s);
    case PLAN_SOLVER_INFO:
        return kinds[s->kind].has_info ? sizeof(int32_t) : 0;
    case PLAN_SOLVER_U:
        return has_vectors ? plan_multiply(plan_multiply(s->rows, s->vectors), element)
                           : 0;
    case PLAN_SOLVER_V:
        return has_vectors ? plan_multiply(plan_multiply(s->columns, s->columns), element)
                           : 0;
    default:
        return 0;
    }
}

uint64_t plan_solver_bytes(const PlanSolver *s, uint32_t arg)
{
    return plan_multiply(plan_solver_step(s, arg), s->batch);
}

/* The library's functions for lu and q count in 32 bits. */
static bool is_sound(const PlanSolver *s)
{
    bool is_square = s->kind == PLAN_SOLVER_POTRF || s->kind == PLAN_SOLVER_SYEVD,
         is_tall = s->kind == PLAN_SOLVER_ORGQR || s->kind == PLAN_SOLVER_GESVD;
    if (s->batch == 0 || s->rows == 0 || s->columns == 0 || s->rows > INT32_MAX ||
        s->columns > INT32_MAX || s->fill > CUBLAS_FILL_MODE_UPPER)
        return false;
    if ((is_square && s->rows != s->columns) || (is_tall && s->rows < s->columns))
        return false;
    if (s->kind == PLAN_SOLVER_ORGQR)
        return s->vectors != 0 && s->vectors <= s->columns;
    if (s->kind == PLAN_SOLVER_GESVD)
        return s->vectors == 0 || s->vectors == s->columns || s->vectors == s->rows;
    return s->vectors == 0;
}

bool plan_read_solvers(PlanReader *r)
{
    for (uint32_t i = 0; i < r->p->solvers_count; i++) {
        const PlanSolver *s = &r->p->solvers[i];
        uint64_t real;
        if (s->kind >= PLAN_SOLVER_KINDS) {
            return plan_newer(r, "a factorisation of kind", s->kind);
        }
        if (element_bytes(s->type, &real) == 0) {
            return plan_newer(r, "a factorisation of type", s->type);
        }
        if (!is_sound(s)) {
            return plan_fail(r, "factorisation %u of the plan is damaged", i);
        }
    }
    return true;
}

bool plan_read_solver(PlanReader *r, const PlanCommand *c, const PlanArg *args)
{
    const Plan *p = r->p;
    if (c->index >= p->solvers_count || c->arg_count != PLAN_SOLVER_ARGS) {
        return plan_fail(r, "a factorisation without its operands");
    }
    const PlanSolver *s = &p->solvers[c->index];
    for (uint32_t i = 0; i < PLAN_SOLVER_ARGS; i++) {
        uint64_t bytes = plan_solver_bytes(s, i);
        bool is_read = i == PLAN_SOLVER_A ||
                       (i == PLAN_SOLVER_VECTOR && kinds[s->kind].reads_vector);
        if (bytes == 0 ? args[i].tag != PLAN_ARG_NONE
                       : !plan_is_slice(&args[i], is_read ? PLAN_READ : PLAN_WRITE)) {
            return plan_fail(r, "a factorisation without its operands");
        }
        if (bytes != 0 && plan_slice_of(p, &args[i])->bytes < bytes) {
            return plan_fail(r, "a factorisation whose operands leave their slices");
        }
    }
    return true;
}
