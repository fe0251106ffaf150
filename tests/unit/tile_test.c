/* Tile programs: of every contraction of the table the program keeps the rules, and run tile by tile it gives
 * what the evaluator gives, for tiles of any size. What cannot be tiles says why. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "ir/base/text.h"
#include "ir/kernel/element.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/kind.h"
#include "ir/tile/panels.h"
#include "tests/unit/shared/kernel_case.h"
#include "tests/unit/shared/tile_case.h"

enum { MOST_ARGS = 8 };

static const struct {
    const char *name, *body;
} programs[] = {
#define PROGRAM(name, body) {name, body},
#include "tests/unit/shared/tile_programs.def"
};

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 16;
}

/* Small quarters, so that sums are exact in any order. */
static const Literal *random_literal(Arena *a, const Shape *shape, uint32_t seed)
{
    Literal *l = literal_create(a, shape);
    DType t = shape->dtype;
    for (int64_t i = 0; i < l->count; i++) {
        int value = (int)(next_random(&seed) % 17) - 6;
        if (dtype_is_float(t))
            literal_set_double(l, i, value * 0.25);
        else if (dtype_info[t].bits < 8)
            literal_set_int(l, i, value % 7);
        else
            literal_set_int(l, i, dtype_is_unsigned(t) ? value + 6 : value);
    }
    return l;
}

static Instruction *fusion_of(Arena *a, const char *body, Module **module)
{
    const char *text = arena_printf(a, "HloModule m\nENTRY e { %s }\n", body);
    Instruction *fusion = kernel_case_fusion(a, text);
    *module = fusion->parent->module;
    return fusion;
}

static void compare(const char *name, const Literal *got, const Literal *want)
{
    DType t = want->shape->dtype;
    for (int64_t i = 0; i < want->count; i++) {
        double x = literal_double(got, i), y = literal_double(want, i);
        double most = t == DT_BF16 ? 1.0 / 128 : t == DT_F16 ? 1.0 / 1024 : 1e-6;
        if (!(fabs(x - y) <= most * fabs(y)))
            fail_msg("%s: element %lld is %g, not %g", name, (long long)i, x, y);
    }
}

/* The type that the factors of a program must be brought to, as a target with few types has it. */
static DType common_factor(const Instruction *fusion)
{
    const Instruction *dot = fusion_hero(fusion, OP_DOT);
    if (dot == NULL)
        return DT_INVALID;
    DType x = dot->operands[0]->shape->dtype, y = dot->operands[1]->shape->dtype;
    return dtype_info[x].bits == dtype_info[y].bits ? DT_INVALID
                                                    : contract_accumulator(dot);
}

static void run(const char *name, const char *body, const TileConfig *sizes)
{
    Arena *a = arena_create();
    Module *m;
    const Literal *arguments[MOST_ARGS];
    const char *why;
    Instruction *fusion = fusion_of(a, body, &m);
    TileConfig config = *sizes;
    config.factor = common_factor(fusion);
    TileProgram *p = tile_build(a, fusion, &config, &why);
    for (uint32_t i = 0; i < m->entry->parameter_count; i++)
        arguments[i] = random_literal(a, m->entry->parameters[i]->shape, 7 * i + 1);
    tile_case_check(a, name, fusion, p, why, arguments, compare);
    arena_destroy(a);
}

static void programs_give_what_the_evaluator_gives(void **state)
{
    (void)state;
    static const TileConfig sizes[] = {{16, 8, 16, DT_INVALID, false},
                                       {32, 64, 32, DT_INVALID, false},
                                       {64, 16, 8, DT_INVALID, false},
                                       {16, 16, 128, DT_INVALID, false}};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++)
            run(programs[i].name, programs[i].body, &sizes[j]);
}

static void what_is_no_tile_says_why(void **state)
{
    (void)state;
    static const struct {
        const char *body, *why;
    } cases[] = {
        {"x = f32[4,4] parameter(0) ROOT y = f32[4,4] add(x, x)",
         "it needs exactly one dot or convolution"},
        {"x = c64[4,4] parameter(0) ROOT d = c64[4,4] dot(x, x), "
         "lhs_contracting_dims={1}, "
         "rhs_contracting_dims={0}",
         "there are no sums"},
        {"x = f32[4,0] parameter(0) y = f32[0,4] parameter(1) ROOT d = f32[4,4] dot(x, "
         "y), "
         "lhs_contracting_dims={1}, rhs_contracting_dims={0}",
         "there are no sums"},
        {"x = f32[4,4] parameter(0) d = f32[4,4] dot(x, x), lhs_contracting_dims={1}, "
         "rhs_contracting_dims={0} t = f32[4,4] transpose(d), dimensions={1,0} "
         "ROOT s = f32[4,4] add(d, t)",
         "the products are needed at several indices"},
        {"x = f32[4,4] parameter(0) d = f32[4,4] dot(x, x), lhs_contracting_dims={1}, "
         "rhs_contracting_dims={0} ROOT s = f32[2,4] slice(d), slice={[0:2], [0:4]}",
         "a result has not the products' elements"},
        {"x = f32[4,4] parameter(0) c = f32[4,4] constant({{1,2,3,4},{1,2,3,4},{1,2,3,4},"
         "{1,2,3,4}}) ROOT d = f32[4,4] dot(x, c), lhs_contracting_dims={1}, "
         "rhs_contracting_dims={0}",
         "a constant has several numbers"},
        {"x = f32[4,4] parameter(0) y = (f32[4,4], s32[4,4]) sort(x, x), dimensions={0}, "
         "to_apply=less g = f32[4,4] get-tuple-element(y), index=0 ROOT d = f32[4,4] "
         "dot(x, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
         NULL},
    };
    static const TileConfig sizes = {16, 16, 16, DT_INVALID, false};
    for (size_t i = 0; i < sizeof cases / sizeof *cases && cases[i].why != NULL; i++) {
        Arena *a = arena_create();
        Module *m;
        const char *why = NULL;
        Instruction *fusion = fusion_of(a, cases[i].body, &m);
        assert_null(tile_build(a, fusion, &sizes, &why));
        assert_string_equal(why, cases[i].why);
        arena_destroy(a);
    }
}

static void the_text_shows_it(void **state)
{
    (void)state;
    static const TileConfig sizes = {32, 16, 16, DT_INVALID, false};
    Arena *a = arena_create();
    Module *m;
    const char *why;
    Instruction *fusion = fusion_of(
        a,
        "x = bf16[40,32] parameter(0) y = bf16[32,24] parameter(1) b = bf16[24] "
        "parameter(2) d = bf16[40,24] dot(x, y), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0} w = bf16[40,24] broadcast(b), dimensions={1} ROOT s = "
        "bf16[40,24] add(d, w)",
        &m);
    TileProgram *p = tile_build(a, fusion, &sizes, &why);
    assert_string_equal(tile_text(a, p), "tiles of fusion\n"
                                         "  b: 1 of 1, grid\n"
                                         "  m: 32 of 40, grid\n"
                                         "  n: 16 of 24, grid\n"
                                         "  k: 16 of 32, sequential\n"
                                         "  %0 = f32[] constant 0\n"
                                         "  %1 = f32[m,n] broadcast %0\n"
                                         "  %2 = loop k 0 to 2 carrying %1\n"
                                         "    %3 = f32[m,n] carried 0\n"
                                         "    %4 = bf16[m,k] load 0 at [m, k]\n"
                                         "    %5 = bf16[n,k] load 1 at [k, n]\n"
                                         "    %6 = f32[m,n] dot %4, %5, %3 over k\n"
                                         "    next %6\n"
                                         "  %7 = f32[m,n] final %2 0\n"
                                         "  %8 = bf16[m,n] convert %7\n"
                                         "  %9 = bf16[n] load 2 at [n]\n"
                                         "  %10 = bf16[m,n] broadcast %9\n"
                                         "  %11 = bf16[m,n] add %8, %10\n"
                                         "  store %11 to 0 at [m, n]\n");
    arena_destroy(a);
}

/* A program that does not keep the rules is found, whichever one it is. */
static void broken_programs_are_found(void **state)
{
    (void)state;
    static const TileConfig sizes = {32, 16, 16, DT_INVALID, false};
    for (int mistake = 0; mistake < 8; mistake++) {
        Arena *a = arena_create();
        Module *m;
        const char *why;
        Instruction *fusion = fusion_of(a, programs[0].body, &m);
        TileProgram *p = tile_build(a, fusion, &sizes, &why);
        TileOp *loop = p->body.ops[2], *load = loop->body.ops[1],
               *dot = loop->body.ops[3];
        assert_null(tile_verify(p));
        assert_int_equal(load->kind, TILE_LOAD);
        assert_int_equal(dot->kind, TILE_DOT);
        switch (mistake) {
        case 0:
            p->dims[1].size = 24;
            break;
        case 1:
            load->dims = 1 << 1;
            break;
        case 2:
            dot->over = 1 << 1;
            break;
        case 3:
            loop->next[0] = load;
            break;
        case 4:
            loop->body.ops[1] = dot;
            loop->body.ops[3] = load;
            break;
        case 5:
            loop->dim = 1;
            break;
        case 6:
            p->body.ops[4]->operands[0] = dot;
            break;
        case 7:
            dot->dtype = DT_F64;
            break;
        }
        assert_non_null(tile_verify(p));
        arena_destroy(a);
    }
}

/* A product of `size` by `size` whose first factor is a chain of so many operations. */
static Instruction *product_of_chain(Arena *a, int64_t size, int operations)
{
    Module *m;
    Text t;
    text_init(&t, a);
    text_printf(&t,
                "p0 = bf16[%lld,512] parameter(0)  p1 = bf16[512,%lld] parameter(1)"
                "  p2 = bf16[%lld,512] parameter(2)",
                (long long)size, (long long)size, (long long)size);
    for (int i = 3; i < operations + 3; i++)
        text_printf(&t, "  p%d = bf16[%lld,512] %s(p%d, p2)", i, (long long)size,
                    i % 2 == 0 ? "multiply" : "add", i == 3 ? 0 : i - 1);
    text_printf(&t,
                "  ROOT r = bf16[%lld,%lld] dot(p%d, p1), lhs_contracting_dims={1}, "
                "rhs_contracting_dims={0}",
                (long long)size, (long long)size, operations + 2);
    return fusion_of(a, t.data, &m);
}

/* Factors are computed in registers, each element by code of its own: less of them at once where it takes
 * much, and another kind of kernel where there are few products besides. */
static void long_factors_get_short_tiles(void **state)
{
    (void)state;
    static const struct {
        int64_t size;
        int operations;
        KernelKind kind;
        int64_t depth;
    } cases[] = {
        {64, 4, KERNEL_TILE, 64},     {64, 100, KERNEL_TILE, 32},
        {64, 900, KERNEL_DOT, 0},     {4096, 4, KERNEL_TILE, 64},
        {4096, 300, KERNEL_TILE, 16},
    };
    Target target;
    assert_true(target_find("sm_90a", &target));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arena *a = arena_create();
        Instruction *fusion = product_of_chain(a, cases[i].size, cases[i].operations);
        KernelDesign d;
        KernelKind kind = kernel_kind_choose(fusion, &target);
        kernel_kind_set(fusion, kind);
        kernel_design(fusion, &target, a, &d);
        if (kind != cases[i].kind ||
            (kind == KERNEL_TILE && d.config.depth != cases[i].depth))
            fail_msg("%d operations, %lld rows: %s of depth %lld", cases[i].operations,
                     (long long)cases[i].size, kernel_kind_name(kind),
                     (long long)d.config.depth);
        arena_destroy(a);
    }
}

/* spec/codegen.md K2: 8 x 8 tiles in panels of two rows. */
static void neighbours_walk_down_panels(void **state)
{
    (void)state;
    static const int64_t rows[][8] = {{0, 2, 4, 6, 8, 10, 12, 14},
                                      {1, 3, 5, 7, 9, 11, 13, 15},
                                      {30, 28, 26, 24, 22, 20, 18, 16},
                                      {31, 29, 27, 25, 23, 21, 19, 17},
                                      {32, 34, 36, 38, 40, 42, 44, 46}};
    TilePanels p = {.tiles = {8, 8}, .panel = 2};
    for (int64_t i = 0; i < 40; i++) {
        int64_t at[PANEL_SIDES];
        tile_panels_at(&p, rows[i / 8][i % 8], at);
        assert_int_equal(at[PANEL_SLOW], i / 8);
        assert_int_equal(at[PANEL_FAST], i % 8);
    }
}

/* Each tile once, and as many different ones of both sides as are counted, in all parts of all orders. */
static void check_panels(const TilePanels *p)
{
    enum { MOST = 7 };
    int64_t all = p->tiles[PANEL_SLOW] * p->tiles[PANEL_FAST], at[PANEL_SIDES],
            different[PANEL_SIDES];
    bool taken[MOST][MOST] = {{false}};
    for (int64_t i = 0; i < all; i++) {
        tile_panels_at(p, i, at);
        assert_true(at[PANEL_SLOW] >= 0 && at[PANEL_SLOW] < p->tiles[PANEL_SLOW]);
        assert_true(at[PANEL_FAST] >= 0 && at[PANEL_FAST] < p->tiles[PANEL_FAST]);
        assert_false(taken[at[PANEL_SLOW]][at[PANEL_FAST]]);
        taken[at[PANEL_SLOW]][at[PANEL_FAST]] = true;
        if (p->panel == 1)
            assert_int_equal(at[PANEL_SLOW] * p->tiles[PANEL_FAST] + at[PANEL_FAST], i);
        bool has[PANEL_SIDES][MOST] = {{false}};
        int64_t count[PANEL_SIDES] = {0};
        for (int64_t k = i; k < all; k++) {
            tile_panels_at(p, k, at);
            for (int side = 0; side < PANEL_SIDES; side++) {
                count[side] += !has[side][at[side]];
                has[side][at[side]] = true;
            }
            tile_panels_span(p, i, k - i + 1, different);
            for (int side = 0; side < PANEL_SIDES; side++)
                assert_int_equal(different[side], count[side]);
        }
    }
}

static void panels_have_each_tile_once(void **state)
{
    (void)state;
    for (int64_t slow = 1; slow <= 7; slow++)
        for (int64_t fast = 1; fast <= 7; fast++)
            for (int64_t panel = 1; panel <= slow; panel++)
                check_panels(&(TilePanels){.tiles = {slow, fast}, .panel = panel});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_factors_get_short_tiles),
        cmocka_unit_test(programs_give_what_the_evaluator_gives),
        cmocka_unit_test(what_is_no_tile_says_why),
        cmocka_unit_test(the_text_shows_it),
        cmocka_unit_test(broken_programs_are_found),
        cmocka_unit_test(neighbours_walk_down_panels),
        cmocka_unit_test(panels_have_each_tile_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
