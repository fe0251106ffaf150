/* Factorisations of a plan: what the reader takes and refuses, and how large their arrays are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/limits.h"
#include "tests/unit/shared/program.h"

enum { BATCH = 2, ROWS = 3, COLUMNS = 2, ELEMENT = 4 };

/* Bytes of each array: one too few of any is refused. */
static const uint32_t bytes[PLAN_SOLVER_ARGS] = {
    [PLAN_SOLVER_A] = BATCH * ROWS * COLUMNS * ELEMENT,
    [PLAN_SOLVER_OUT] = BATCH * ROWS * COLUMNS * ELEMENT,
    [PLAN_SOLVER_VECTOR] = BATCH * COLUMNS * ELEMENT,
    [PLAN_SOLVER_INFO] = BATCH * ELEMENT,
    [PLAN_SOLVER_U] = BATCH * ROWS * ROWS * ELEMENT,
    [PLAN_SOLVER_V] = BATCH * COLUMNS * COLUMNS * ELEMENT,
};
static uint32_t first_slice;

/* u s v^H of two matrices of f32, u square; and a cholesky that no command names. */
static void make_plan(PlanBuilder *b)
{
    Maker m;
    PlanArg args[PLAN_SOLVER_ARGS];
    uint32_t at = 0;
    maker_init(&m);
    uint32_t temp = maker_allocation(&m, PLAN_TEMP, 0, 4096);
    for (uint32_t i = 0; i < PLAN_SOLVER_ARGS; i++, at += 256) {
        uint32_t slice = maker_slice(&m, temp, at, bytes[i]);
        first_slice = i == 0 ? slice : first_slice;
        args[i] = i == PLAN_SOLVER_A ? reads(slice) : writes(slice);
    }
    const PlanSolver solvers[] = {{.kind = PLAN_SOLVER_GESVD,
                                   .type = CUSOLVER_R_32F,
                                   .batch = BATCH,
                                   .rows = ROWS,
                                   .columns = COLUMNS,
                                   .vectors = ROWS},
                                  {.kind = PLAN_SOLVER_POTRF,
                                   .type = CUSOLVER_C_64F,
                                   .batch = 1,
                                   .rows = 2,
                                   .columns = 2}};
    plan_add_solvers(&m.b, solvers, 2);
    maker_command(&m, PLAN_SOLVER, 0, args, PLAN_SOLVER_ARGS);
    *b = m.b;
}

static void test_records(void **state)
{
    static const char damaged[] = "factorisation 0 of the plan is damaged",
                      other[] = "factorisation 1 of the plan is damaged",
                      leave[] = "operands leave their slices";
    static const Limit limits[] = {
        {AT(solvers, PlanSolver, 0, kind), PLAN_SOLVER_GESVD, PLAN_SOLVER_KINDS,
         "a factorisation of kind 6"},
        {AT(solvers, PlanSolver, 0, type), CUSOLVER_R_32F, 2,
         "a factorisation of type 2"},
        {AT(solvers, PlanSolver, 0, batch), 1, 0, damaged},
        {AT(solvers, PlanSolver, 0, batch), BATCH, BATCH + 1, leave},
        {AT(solvers, PlanSolver, 0, batch), BATCH, UINT32_MAX, leave},
        {AT(solvers, PlanSolver, 0, fill), CUBLAS_FILL_MODE_UPPER, 2, damaged},
        {AT(solvers, PlanSolver, 0, rows), ROWS, 0, damaged},
        {AT(solvers, PlanSolver, 0, rows), ROWS, COLUMNS - 1, damaged},
        {AT(solvers, PlanSolver, 0, rows), ROWS, (uint64_t)INT32_MAX + 1, damaged},
        {AT(solvers, PlanSolver, 0, columns), COLUMNS, 0, damaged},
        {AT(solvers, PlanSolver, 0, columns), COLUMNS, ROWS + 1, damaged},
        {AT(solvers, PlanSolver, 0, vectors), COLUMNS, ROWS + 1, damaged},
        {AT(solvers, PlanSolver, 1, rows), 2, 3, other},
        {AT(solvers, PlanSolver, 1, vectors), 0, 1, other},
        {AT(solvers, PlanSolver, 1, kind), PLAN_SOLVER_GETRF, PLAN_SOLVER_ORGQR, other},
    };
    (void)state;
    CHECK_LIMITS(make_plan, limits);
}

static void test_slices(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PLAN_SOLVER_ARGS; i++) {
        PlanBuilder b;
        make_plan(&b);
        expect_read(&b);
        b.slices[first_slice + i].bytes--;
        expect_refused(&b, "a factorisation whose operands leave their slices");
        b.slices[first_slice + i].bytes++;
        PlanArg *args = &b.args[b.commands[b.commands_count - 1].args];
        uint16_t access = args[i].access;
        args[i].access = i == PLAN_SOLVER_A ? PLAN_WRITE : PLAN_READ;
        expect_refused(&b, "a factorisation without its operands");
        args[i].access = access;
        args[i].tag = PLAN_ARG_NONE;
        expect_refused(&b, "a factorisation without its operands");
        plan_builder_deinit(&b);
    }
}

/* What a kind has no use for must not be given. */
static void test_too_many(void **state)
{
    PlanBuilder b;
    (void)state;
    make_plan(&b);
    b.solvers[0].vectors = 0;
    expect_refused(&b, "a factorisation without its operands");
    b.solvers[0].vectors = COLUMNS;
    expect_read(&b);
    b.commands[b.commands_count - 1].index = 2;
    expect_refused(&b, "a factorisation without its operands");
    plan_builder_deinit(&b);
}

static void test_bytes(void **state)
{
    const PlanSolver lu = {.kind = PLAN_SOLVER_GETRF,
                           .type = CUSOLVER_C_32F,
                           .batch = 3,
                           .rows = 5,
                           .columns = 7},
                     q = {.kind = PLAN_SOLVER_ORGQR,
                          .type = CUSOLVER_C_64F,
                          .batch = 1,
                          .rows = 7,
                          .columns = 5,
                          .vectors = 4};
    (void)state;
    assert_int_equal(plan_solver_bytes(&lu, PLAN_SOLVER_OUT), 3 * 5 * 7 * 8);
    assert_int_equal(plan_solver_bytes(&lu, PLAN_SOLVER_VECTOR), 3 * 5 * 4);
    assert_int_equal(plan_solver_step(&lu, PLAN_SOLVER_VECTOR), 5 * 4);
    assert_int_equal(plan_solver_bytes(&lu, PLAN_SOLVER_U), 0);
    assert_int_equal(plan_solver_bytes(&q, PLAN_SOLVER_VECTOR), 4 * 16);
    assert_int_equal(plan_solver_bytes(&q, PLAN_SOLVER_INFO), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_records), cmocka_unit_test(test_slices),
        cmocka_unit_test(test_too_many), cmocka_unit_test(test_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
