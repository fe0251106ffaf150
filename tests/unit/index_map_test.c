/* Index expressions and maps: simplification keeps values (checked by evaluation over all
 * points), normal forms are unique, and the maps of operations say what the language does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "ir/analysis/index_map.h"

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return a % b < 0 ? q - 1 : q;
}

/* The value of an expression over dimensions and symbols. */
static int64_t value_of(const IndexExpr *e, const int64_t *dims, const int64_t *symbols)
{
    switch (e->kind) {
    case IX_CONST:
        return e->value;
    case IX_DIM:
        return dims[e->value];
    case IX_SYMBOL:
        return symbols[e->value];
    case IX_ADD:
        return value_of(e->a, dims, symbols) + value_of(e->b, dims, symbols);
    case IX_MUL:
        return value_of(e->a, dims, symbols) * e->value;
    case IX_FLOORDIV:
        return floor_div(value_of(e->a, dims, symbols), e->value);
    case IX_MOD: {
        int64_t v = value_of(e->a, dims, symbols);
        return v - floor_div(v, e->value) * e->value;
    }
    case IX_RUNTIME:
        break;
    }
    fail();
    return 0;
}

static uint64_t random_state = 1;

static int64_t random_below(int64_t n)
{
    random_state =
        random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((random_state >> 33) % (uint64_t)n);
}

/* An expression and, beside it, its value at each point, computed without simplification. */
typedef struct Pair {
    const IndexExpr *expr;
    int64_t values[64];
} Pair;

static Pair random_pair(IndexContext *cx, const Range *ranges, int depth)
{
    Pair p, q;
    if (depth == 0) {
        uint32_t d = (uint32_t)random_below(3);
        if (d == 2) {
            int64_t c = random_below(21) - 10;
            p.expr = ix_const(cx, c);
            for (int i = 0; i < 64; i++)
                p.values[i] = c;
            return p;
        }
        p.expr = ix_dim(cx, d, ranges[d]);
        for (int i = 0; i < 64; i++)
            p.values[i] = ranges[d].lo + (d == 0 ? i % 8 : i / 8);
        return p;
    }
    p = random_pair(cx, ranges, depth - 1);
    int64_t c = random_below(6) + 1;
    switch (random_below(4)) {
    case 0:
        q = random_pair(cx, ranges, depth - 1);
        p.expr = ix_add(cx, p.expr, q.expr);
        for (int i = 0; i < 64; i++)
            p.values[i] += q.values[i];
        break;
    case 1:
        p.expr = ix_mul(cx, p.expr, c - 3);
        for (int i = 0; i < 64; i++)
            p.values[i] *= c - 3;
        break;
    case 2:
        p.expr = ix_floordiv(cx, p.expr, c);
        for (int i = 0; i < 64; i++)
            p.values[i] = floor_div(p.values[i], c);
        break;
    default:
        p.expr = ix_mod(cx, p.expr, c);
        for (int i = 0; i < 64; i++)
            p.values[i] -= floor_div(p.values[i], c) * c;
        break;
    }
    return p;
}

static void simplification_keeps_values(void **state)
{
    (void)state;
    for (int round = 0; round < 4000; round++) {
        Arena *a = arena_create();
        IndexContext *cx = index_context_create(a);
        Range ranges[2] = {{random_below(9) - 4, 0}, {random_below(9) - 4, 0}};
        for (int d = 0; d < 2; d++)
            ranges[d].hi = ranges[d].lo + 7;
        Pair p = random_pair(cx, ranges, 1 + (int)random_below(6));
        for (int i = 0; i < 64; i++) {
            int64_t dims[2] = {ranges[0].lo + i % 8, ranges[1].lo + i / 8};
            int64_t v = value_of(p.expr, dims, NULL);
            assert_int_equal(v, p.values[i]);
            assert_true(v >= p.expr->range.lo && v <= p.expr->range.hi);
            for (int64_t of = 1; of <= 12; of++)
                assert_true(!ix_is_multiple(p.expr, of) || v % of == 0);
        }
        arena_destroy(a);
    }
}

static void equal_sums_are_one_pointer(void **state)
{
    (void)state;
    Arena *a = arena_create();
    IndexContext *cx = index_context_create(a);
    const IndexExpr *x = ix_dim(cx, 0, (Range){0, 11}), *y = ix_dim(cx, 1, (Range){0, 4});
    const IndexExpr *one = ix_add(cx, ix_mul(cx, x, 5), ix_add(cx, y, ix_const(cx, 3)));
    const IndexExpr *two = ix_add(cx, ix_const(cx, 3), ix_add(cx, y, ix_mul(cx, x, 5)));
    assert_ptr_equal(one, two);
    const IndexExpr *linear = ix_add(cx, ix_mul(cx, x, 5), y);
    assert_ptr_equal(ix_floordiv(cx, linear, 5), x);
    assert_ptr_equal(ix_mod(cx, linear, 5), y);
    /* 4 (n floordiv 4) + n mod 4 = n */
    const IndexExpr *n = ix_dim(cx, 2, (Range){0, 1000});
    const IndexExpr *parts =
        ix_add(cx, ix_mul(cx, ix_floordiv(cx, n, 4), 4), ix_mod(cx, n, 4));
    assert_ptr_equal(parts, n);
    int64_t stride;
    assert_true(ix_stride(linear, IX_DIM, 0, &stride));
    assert_int_equal(stride, 5);
    assert_false(ix_stride(ix_mod(cx, n, 4), IX_DIM, 2, &stride));
    /* 1001 n + 7 n mod 8 = 1008 n - 8 (7 n floordiv 8) */
    const IndexExpr *aligned =
        ix_add(cx, ix_mul(cx, n, 1001), ix_mod(cx, ix_mul(cx, n, 7), 8));
    assert_true(ix_is_multiple(aligned, 8));
    assert_false(ix_is_multiple(aligned, 16));
    assert_false(ix_is_multiple(ix_add(cx, aligned, ix_const(cx, 4)), 8));
    arena_destroy(a);
}

typedef struct Fixture {
    Arena *arena;
    Module *module;
    Computation *comp;
    IndexContext *cx;
} Fixture;

static Fixture begin(void)
{
    Fixture f;
    f.arena = arena_create();
    f.module = module_create(f.arena, diag_create(f.arena, "test", "", 0), "m");
    f.comp = module_add_computation(f.module, "main");
    f.cx = index_context_create(f.arena);
    return f;
}

static Instruction *parameter(Fixture *f, DType t, uint32_t rank, const int64_t *dims)
{
    return computation_add_parameter(
        f->comp, f->comp->parameter_count,
        shape_array(f->module->intern, t, rank, dims, NULL, NULL), NULL);
}

static Instruction *unary(Fixture *f, OpCode op, Instruction *x, uint32_t rank,
                          const int64_t *dims)
{
    return computation_add(
        f->comp, op,
        shape_array(f->module->intern, x->shape->dtype, rank, dims, NULL, NULL), 1, &x,
        NULL);
}

static void assert_map(Fixture *f, const Instruction *inst, uint32_t operand,
                       const char *text)
{
    const IndexMap *maps = index_maps(f->cx, inst, 0);
    assert_string_equal(index_map_text(f->arena, &maps[operand]), text);
}

static void maps_of_moves(void **state)
{
    (void)state;
    Fixture f = begin();
    Instruction *x = parameter(&f, DT_F32, 2, (int64_t[]){4, 6});
    Instruction *t = unary(&f, OP_TRANSPOSE, x, 2, (int64_t[]){6, 4});
    inst_set_ints(t, ATTR_DIMENSIONS, (int64_t[]){1, 0}, 2);
    assert_map(&f, t, 0, "(d0, d1) -> (d1, d0)");
    Instruction *r = unary(&f, OP_RESHAPE, x, 1, (int64_t[]){24});
    assert_map(&f, r, 0, "(d0) -> ((d0) floordiv 6, (d0) mod 6)");
    Instruction *split = unary(&f, OP_RESHAPE, x, 3, (int64_t[]){4, 2, 3});
    assert_map(&f, split, 0, "(d0, d1, d2) -> (d0, d1 * 3 + d2)");
    Instruction *b = unary(&f, OP_BROADCAST, x, 3, (int64_t[]){4, 9, 6});
    inst_set_ints(b, ATTR_DIMENSIONS, (int64_t[]){0, 2}, 2);
    assert_map(&f, b, 0, "(d0, d1, d2) -> (d0, d2)");
    Instruction *v = unary(&f, OP_REVERSE, x, 2, (int64_t[]){4, 6});
    inst_set_ints(v, ATTR_DIMENSIONS, (int64_t[]){1}, 1);
    assert_map(&f, v, 0, "(d0, d1) -> (d0, d1 * -1 + 5)");
    arena_destroy(f.arena);
}

static void maps_with_constraints_and_symbols(void **state)
{
    (void)state;
    Fixture f = begin();
    Instruction *x = parameter(&f, DT_F32, 1, (int64_t[]){5});
    Instruction *zero = computation_add_scalar(f.comp, DT_F32, 0);
    PaddingDim padding = {1, 2, 1};
    Instruction *operands[2] = {x, zero};
    Instruction *p = computation_add(
        f.comp, OP_PAD,
        shape_array(f.module->intern, DT_F32, 1, (int64_t[]){12}, NULL, NULL), 2,
        operands, NULL);
    Padding all = {1, &padding};
    inst_set(p, (Attr){.id = ATTR_PADDING, .padding = &all});
    assert_map(&f, p, 0,
               "(d0) -> ((d0 + 1) floordiv 2 + -1), (d0 + 1) mod 2 in [0, 0], "
               "(d0 + 1) floordiv 2 + -1 in [0, 4]");
    Instruction *y = parameter(&f, DT_F32, 2, (int64_t[]){3, 7});
    Instruction *reduce_operands[2] = {y, zero};
    Instruction *reduce = computation_add(
        f.comp, OP_REDUCE,
        shape_array(f.module->intern, DT_F32, 1, (int64_t[]){3}, NULL, NULL), 2,
        reduce_operands, NULL);
    inst_set_ints(reduce, ATTR_DIMENSIONS, (int64_t[]){1}, 1);
    assert_map(&f, reduce, 0, "(d0) -> (d0, s0), s0 in [0, 6]");
    arena_destroy(f.arena);
}

static void starts_are_clamped_runtime_values(void **state)
{
    (void)state;
    Fixture f = begin();
    Instruction *x = parameter(&f, DT_F32, 2, (int64_t[]){8, 6});
    Instruction *i = parameter(&f, DT_S32, 0, NULL), *j = parameter(&f, DT_S32, 0, NULL);
    Instruction *operands[3] = {x, i, j};
    Instruction *slice = computation_add(
        f.comp, OP_DYNAMIC_SLICE,
        shape_array(f.module->intern, DT_F32, 2, (int64_t[]){1, 6}, NULL, NULL), 3,
        operands, NULL);
    inst_set_ints(slice, ATTR_DYNAMIC_SLICE_SIZES, (int64_t[]){1, 6}, 2);
    const IndexMap *maps = index_maps(f.cx, slice, 0);
    assert_int_equal(maps[0].runtimes[0].range.hi, 7);
    /* the second start can only be 0 and is no variable */
    assert_int_equal(maps[0].runtimes[1].range.hi, 0);
    assert_string_equal(ix_text(f.arena, maps[0].results[0]), "r0");
    assert_string_equal(ix_text(f.arena, maps[0].results[1]), "d1");
    arena_destroy(f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simplification_keeps_values),
        cmocka_unit_test(equal_sums_are_one_pointer),
        cmocka_unit_test(maps_of_moves),
        cmocka_unit_test(maps_with_constraints_and_symbols),
        cmocka_unit_test(starts_are_clamped_runtime_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
