/* Modules: names, order, replacement, removal, users, copies of computations; interning;
 * arenas; alias sets and buffers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "ir/analysis/alias.h"
#include "ir/base/bug.h"
#include "ir/module.h"
#include "ir/names.h"

typedef struct Fixture {
    Arena *arena;
    Module *m;
    Computation *comp;
    const Shape *scalar;
} Fixture;

static Fixture begin(void)
{
    Fixture f;
    f.arena = arena_create();
    f.m = module_create(f.arena, diag_create(f.arena, "test", "", 0), "m");
    f.comp = module_add_computation(f.m, "main");
    f.m->entry = f.comp;
    f.scalar = shape_scalar(f.m->intern, DT_F32);
    return f;
}

static Instruction *add(Fixture *f, Instruction *a, Instruction *b)
{
    Instruction *operands[2] = {a, b};
    return computation_add(f->comp, OP_ADD, f->scalar, 2, operands, NULL);
}

static void names_follow_the_language(void **state)
{
    (void)state;
    Arena *a = arena_create();
    Names *n = names_create(a);
    assert_string_equal(names_take(n, "p0"), "p0");
    assert_string_equal(names_take(n, "p0"), "p0.1");
    assert_string_equal(names_take(n, "p"), "p");
    assert_string_equal(names_take(n, "p.7"), "p.7");
    assert_string_equal(names_take(n, "p.7"), "p.1");
    assert_string_equal(names_take(n, "p.0"), "p.2"); /* p.0 is p, which is taken */
    assert_string_equal(names_take(n, ".5"), ".5");
    const char *own = arena_text(a, "own.1", 5);
    assert_ptr_equal(names_keep(n, own), own);
    assert_string_equal(names_keep(n, own), "own.0");
    Names *copy = names_copy(a, n);
    for (int i = 2; i < 1000; i++) /* beyond one word of bits */
        assert_string_equal(names_take(copy, "own"), arena_printf(a, "own.%d", i));
    assert_string_equal(names_take(copy, "own.1"), "own.1000");
    assert_string_equal(names_take(copy, "p.100000000000000"), "p.100000000000000");
    assert_string_equal(names_take(copy, "p.100000000000000"), "p.3");
    assert_string_equal(names_take(n, "own.1"), "own.2");
    arena_destroy(a);
}

static void equal_shapes_are_one_pointer(void **state)
{
    (void)state;
    Fixture f = begin();
    int64_t dims[2] = {2, 3};
    const Shape *a = shape_array(f.m->intern, DT_F32, 2, dims, NULL, NULL);
    const Shape *b =
        shape_array(f.m->intern, DT_F32, 2, dims, (bool[]){false, false}, NULL);
    assert_ptr_equal(a, b);
    const Shape *c =
        shape_array(f.m->intern, DT_F32, 2, dims, (bool[]){false, true}, NULL);
    assert_ptr_not_equal(a, c);
    assert_true(shape_compatible(a, c));
    assert_string_equal(shape_text(f.arena, c, true), "f32[2,<=3]{1,0}");
    const Shape *t = shape_tuple(f.m->intern, 2, (const Shape *[]){a, c});
    assert_int_equal(shape_leaf_count(t), 2);
    assert_ptr_equal(shape_leaf(t, 1), c);
    const Shape *s4 = shape_array(f.m->intern, DT_S4, 1, (int64_t[]){5}, NULL, NULL);
    assert_int_equal(shape_bytes(s4), 3);
    arena_destroy(f.arena);
}

static void sort_puts_operands_first(void **state)
{
    (void)state;
    Fixture f = begin();
    Instruction *p = computation_add_parameter(f.comp, 0, f.scalar, "p");
    Instruction *x = add(&f, p, p), *y = add(&f, p, p);
    x->operands[1] = y; /* y comes later in the list */
    f.comp->root = x;
    computation_sort(f.comp);
    assert_true(y->id < x->id);
    assert_ptr_equal(f.comp->instructions[x->id], x);
    Uses uses = uses_compute(f.comp, f.arena);
    assert_int_equal(uses.start[p->id + 1] - uses.start[p->id], 3);
    arena_destroy(f.arena);
}

static void replacements_are_followed(void **state)
{
    (void)state;
    Fixture f = begin();
    Instruction *p = computation_add_parameter(f.comp, 0, f.scalar, "p");
    Instruction *x = add(&f, p, p), *y = add(&f, x, x), *z = add(&f, y, x);
    f.comp->root = y;
    Instruction *forward[4] = {NULL, p, x, NULL}; /* y -> x -> p */
    computation_replace(f.comp, forward);
    assert_ptr_equal(f.comp->root, p);
    assert_ptr_equal(z->operands[0], p);
    computation_remove(f.comp, x);
    computation_remove(f.comp, y);
    computation_compact(f.comp);
    assert_int_equal(f.comp->instruction_count, 2);
    assert_int_equal(z->id, 1);
    arena_destroy(f.arena);
}

static void a_cycle_is_a_bug_and_not_a_hang(void **state)
{
    (void)state;
    Fixture f = begin();
    Instruction *p = computation_add_parameter(f.comp, 0, f.scalar, "p");
    Instruction *x = add(&f, p, p), *y = add(&f, x, p);
    x->operands[0] = y;
    f.comp->root = y;
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0)
        computation_sort(f.comp);
    escape_pop(&e);
    assert_int_equal(e.kind, ESCAPE_BUG);
    arena_destroy(f.arena);
}

static void clones_have_names_of_their_own(void **state)
{
    (void)state;
    Fixture f = begin();
    Instruction *p = computation_add_parameter(f.comp, 0, f.scalar, "p");
    f.comp->root = add(&f, p, p);
    Computation *copy = computation_clone(f.comp, NULL);
    assert_string_not_equal(copy->name, f.comp->name);
    assert_string_not_equal(copy->root->name, f.comp->root->name);
    assert_ptr_equal(copy->root->operands[0], copy->parameters[0]);
    assert_ptr_equal(copy->root->parent, copy);
    arena_destroy(f.arena);
}

static void an_absurd_allocation_escapes(void **state)
{
    (void)state;
    Arena *a = arena_create();
    Escape e;
    escape_push(&e);
    if (setjmp(e.target) == 0)
        arena_array(a, SIZE_MAX / 4, 16);
    escape_pop(&e);
    assert_int_equal(e.kind, ESCAPE_MEMORY);
    arena_destroy(a);
}

static void loops_share_buffers(void **state)
{
    (void)state;
    Fixture f = begin();
    const Shape *pred = shape_scalar(f.m->intern, DT_PRED);
    const Shape *carried =
        shape_tuple(f.m->intern, 2, (const Shape *[]){f.scalar, f.scalar});
    Computation *condition = module_add_computation(f.m, "condition");
    computation_add_parameter(condition, 0, carried, NULL);
    condition->root = computation_add_scalar(condition, DT_PRED, 0);
    assert_ptr_equal(condition->root->shape, pred);
    Computation *body = module_add_computation(f.m, "body");
    Instruction *state_parameter = computation_add_parameter(body, 0, carried, NULL);
    body->root = state_parameter;
    Instruction *p = computation_add_parameter(f.comp, 0, f.scalar, "p");
    Instruction *both[2] = {p, computation_add_scalar(f.comp, DT_F32, 1)};
    Instruction *init = computation_add(f.comp, OP_TUPLE, carried, 2, both, NULL);
    Instruction *loop = computation_add(f.comp, OP_WHILE, carried, 1, &init, NULL);
    inst_set_computation(loop, ATTR_CONDITION, condition);
    inst_set_computation(loop, ATTR_BODY, body);
    Instruction *second =
        computation_add(f.comp, OP_GET_TUPLE_ELEMENT, f.scalar, 1, &loop, NULL);
    inst_set_int(second, ATTR_INDEX, 1);
    f.comp->root = second;
    module_sort(f.m);
    AliasSets *sets = alias_sets_create(f.m, f.arena);
    assert_int_equal(alias_set(sets, p, 0), alias_set(sets, loop, 0));
    assert_int_equal(alias_set(sets, state_parameter, 0), alias_set(sets, p, 0));
    assert_int_equal(alias_set(sets, second, 0), alias_set(sets, both[1], 0));
    assert_int_not_equal(alias_set(sets, p, 0), alias_set(sets, second, 0));
    arena_destroy(f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_follow_the_language),
        cmocka_unit_test(equal_shapes_are_one_pointer),
        cmocka_unit_test(sort_puts_operands_first),
        cmocka_unit_test(replacements_are_followed),
        cmocka_unit_test(a_cycle_is_a_bug_and_not_a_hang),
        cmocka_unit_test(clones_have_names_of_their_own),
        cmocka_unit_test(an_absurd_allocation_escapes),
        cmocka_unit_test(loops_share_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
