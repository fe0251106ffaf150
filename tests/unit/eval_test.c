/* The reference evaluator on small modules: elements moved and combined, loops, sums, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/eval/eval.h"

typedef struct Fixture {
    Arena *arena;
    Module *module;
    Intern *types;
} Fixture;

static void setup(Fixture *f)
{
    f->arena = arena_create();
    f->module = module_create(f->arena, diag_create(f->arena, "test", NULL, 0), "test");
    f->types = f->module->intern;
}

static Computation *entry(Fixture *f)
{
    return f->module->entry = module_add_computation(f->module, "main");
}

static const Shape *vector(Fixture *f, DType t, int64_t n)
{
    return shape_array(f->types, t, 1, &n, NULL, NULL);
}

static Literal *floats(Fixture *f, uint32_t rank, const int64_t *dims,
                       const double *values)
{
    Literal *l =
        literal_create(f->arena, shape_array(f->types, DT_F32, rank, dims, NULL, NULL));
    for (int64_t i = 0; i < l->count; i++)
        literal_set_double(l, i, values[i]);
    return l;
}

static const Literal *run(Fixture *f, uint32_t count, const Literal *const *arguments)
{
    EvalDevice device = {.argument_count = count, .arguments = arguments};
    const char *error = "";
    EvalStatus st = module_evaluate(f->module, NULL, 1, &device, f->arena, &error);
    if (st != EVAL_OK)
        fail_msg("%s", error);
    return device.result;
}

/* add(x, y) of two scalars, for reduce. */
static Computation *adder(Fixture *f, DType t)
{
    Computation *comp = module_add_computation(f->module, "adder");
    const Shape *s = shape_scalar(f->types, t);
    Instruction *in[2] = {computation_add_parameter(comp, 0, s, "x"),
                          computation_add_parameter(comp, 1, s, "y")};
    comp->root = computation_add(comp, OP_ADD, s, 2, in, NULL);
    return comp;
}

static void elements_are_added(void **state)
{
    (void)state;
    Fixture f;
    setup(&f);
    Computation *comp = entry(&f);
    const Shape *s = vector(&f, DT_F32, 3);
    Instruction *in[2] = {computation_add_parameter(comp, 0, s, "a"),
                          computation_add_parameter(comp, 1, s, "b")};
    comp->root = computation_add(comp, OP_ADD, s, 2, in, NULL);
    int64_t n = 3;
    const Literal *arguments[2] = {floats(&f, 1, &n, (double[]){1, 2, 3}),
                                   floats(&f, 1, &n, (double[]){10, 20, 30})};
    const Literal *r = run(&f, 2, arguments);
    for (int i = 0; i < 3; i++)
        assert_true(literal_double(r, i) == 11 * (i + 1));
    arena_destroy(f.arena);
}

static void dot_and_transpose(void **state)
{
    (void)state;
    Fixture f;
    setup(&f);
    Computation *comp = entry(&f);
    int64_t dims[2] = {2, 3}, turned[2] = {3, 2}, order[2] = {1, 0}, one = 1, zero = 0;
    const Shape *s = shape_array(f.types, DT_F32, 2, dims, NULL, NULL);
    Instruction *a = computation_add_parameter(comp, 0, s, "a");
    Instruction *t =
        computation_add(comp, OP_TRANSPOSE,
                        shape_array(f.types, DT_F32, 2, turned, NULL, NULL), 1, &a, NULL);
    inst_set_ints(t, ATTR_DIMENSIONS, order, 2);
    Instruction *in[2] = {a, t};
    int64_t square[2] = {2, 2};
    comp->root = computation_add(
        comp, OP_DOT, shape_array(f.types, DT_F32, 2, square, NULL, NULL), 2, in, NULL);
    inst_set_ints(comp->root, ATTR_LHS_CONTRACTING_DIMS, &one, 1);
    inst_set_ints(comp->root, ATTR_RHS_CONTRACTING_DIMS, &zero, 1);
    const Literal *x = floats(&f, 2, dims, (double[]){1, 2, 3, 4, 5, 6});
    const Literal *r = run(&f, 1, &x);
    double want[4] = {14, 32, 32, 77};
    for (int i = 0; i < 4; i++)
        assert_true(literal_double(r, i) == want[i]);
    arena_destroy(f.arena);
}

static void rows_and_columns_are_summed(void **state)
{
    (void)state;
    for (int64_t d = 0; d < 2; d++) {
        Fixture f;
        setup(&f);
        Computation *add = adder(&f, DT_F32), *comp = entry(&f);
        int64_t dims[2] = {20, 30}, kept = dims[1 - d];
        Instruction *in[2] = {
            computation_add_parameter(
                comp, 0, shape_array(f.types, DT_F32, 2, dims, NULL, NULL), "a"),
            computation_add_scalar(comp, DT_F32, 0)};
        comp->root =
            computation_add(comp, OP_REDUCE, vector(&f, DT_F32, kept), 2, in, NULL);
        inst_set_ints(comp->root, ATTR_DIMENSIONS, &d, 1);
        inst_set_computation(comp->root, ATTR_TO_APPLY, add);
        double values[600], want[30] = {0};
        for (int i = 0; i < 600; i++) {
            values[i] = i % 7;
            want[d == 0 ? i % 30 : i / 30] += values[i];
        }
        const Literal *x = floats(&f, 2, dims, values);
        const Literal *r = run(&f, 1, &x);
        for (int64_t i = 0; i < kept; i++)
            assert_true(literal_double(r, i) == want[i]);
        arena_destroy(f.arena);
    }
}

/* while (i < 10) { i = i + 1 } */
static void a_loop_counts(void **state)
{
    (void)state;
    Fixture f;
    setup(&f);
    const Shape *s = shape_scalar(f.types, DT_S32);
    Computation *condition = module_add_computation(f.module, "condition");
    Instruction *c[2] = {computation_add_parameter(condition, 0, s, "i"),
                         computation_add_scalar(condition, DT_S32, 10)};
    condition->root = computation_add(condition, OP_COMPARE,
                                      shape_scalar(f.types, DT_PRED), 2, c, NULL);
    inst_set_int(condition->root, ATTR_DIRECTION, DIRECTION_LT);
    Computation *body = module_add_computation(f.module, "body");
    Instruction *b[2] = {computation_add_parameter(body, 0, s, "i"),
                         computation_add_scalar(body, DT_S32, 1)};
    body->root = computation_add(body, OP_ADD, s, 2, b, NULL);
    Computation *comp = entry(&f);
    Instruction *start = computation_add_scalar(comp, DT_S32, 3);
    comp->root = computation_add(comp, OP_WHILE, s, 1, &start, NULL);
    inst_set_computation(comp->root, ATTR_CONDITION, condition);
    inst_set_computation(comp->root, ATTR_BODY, body);
    assert_int_equal(literal_int(run(&f, 0, NULL), 0), 10);
    arena_destroy(f.arena);
}

static void constants_fold_and_parameters_do_not(void **state)
{
    (void)state;
    Fixture f;
    setup(&f);
    Computation *comp = entry(&f);
    const Shape *s = shape_scalar(f.types, DT_F32);
    Instruction *two = computation_add_scalar(comp, DT_F32, 2);
    Instruction *root = computation_add(comp, OP_SQRT, s, 1, &two, NULL);
    Instruction *in[2] = {root, computation_add_parameter(comp, 0, s, "a")};
    comp->root = computation_add(comp, OP_ADD, s, 2, in, NULL);
    const Literal *l = evaluate_constant(f.arena, root, 100, 100);
    assert_non_null(l);
    assert_true(literal_bits(l, 0) == 0x3fb504f3);
    assert_null(evaluate_constant(f.arena, comp->root, 100, 100));
    assert_null(evaluate_constant(f.arena, root, 100, 1));
    arena_destroy(f.arena);
}

static void an_elided_constant_is_named(void **state)
{
    (void)state;
    Fixture f;
    setup(&f);
    Computation *comp = entry(&f);
    Literal *l = literal_create(f.arena, vector(&f, DT_F32, 4));
    l->data = NULL;
    l->elided = true;
    comp->root = computation_add_constant(comp, l, "weights");
    EvalDevice device = {0};
    const char *error = "";
    assert_int_equal(module_evaluate(f.module, NULL, 1, &device, f.arena, &error),
                     EVAL_ERROR);
    assert_non_null(strstr(error, "%weights"));
    assert_non_null(strstr(error, "as_hlo_text(True)"));
    arena_destroy(f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_are_added),
        cmocka_unit_test(dot_and_transpose),
        cmocka_unit_test(rows_and_columns_are_summed),
        cmocka_unit_test(a_loop_counts),
        cmocka_unit_test(constants_fold_and_parameters_do_not),
        cmocka_unit_test(an_elided_constant_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
