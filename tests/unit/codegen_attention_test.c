/* Attentions in one kernel against the evaluator: the tile program run tile by tile, and the kernel on the emulator
 * for targets with and without asynchronous copies, with tiles of several sizes; heads in either position, shared
 * heads, masks, odd sizes. No thread races with another; the loops have no conflicts of banks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "ir/base/text.h"
#include "ir/kernel/attention/attention.h"
#include "ir/kernel/kind.h"
#include "ir/tile/tile.h"
#include "tests/unit/shared/kernel_case.h"
#include "tests/unit/shared/tile_case.h"

typedef enum { NO_MASK, CAUSAL, WINDOW, PREDICATE, CAUSAL_PREDICATE, BIAS } Mask;

typedef struct Case {
    const char *name, *type;
    int batch, heads, group, rows, columns, depth, v_depth;
    Mask mask;
    bool positions_first; /* [batch, positions, heads, depth] */
    bool has_cap;
} Case;

static const Case cases[] = {
    {"plain", "bf16", 2, 2, 1, 32, 32, 32, 32, NO_MASK, false, false},
    {"odd sizes", "bf16", 1, 2, 1, 37, 53, 24, 40, NO_MASK, false, false},
    {"causal", "f16", 1, 2, 1, 96, 96, 32, 32, CAUSAL, false, false},
    {"causal, odd", "f16", 1, 2, 1, 75, 75, 20, 20, CAUSAL, false, false},
    {"causal, more columns", "f16", 1, 1, 1, 20, 70, 16, 16, CAUSAL, false, false},
    {"window", "bf16", 1, 1, 1, 150, 150, 16, 16, WINDOW, false, false},
    {"shared heads", "f16", 2, 2, 3, 40, 48, 32, 16, CAUSAL, false, false},
    {"positions first", "bf16", 2, 2, 1, 48, 40, 32, 32, CAUSAL, true, false},
    {"positions first, shared", "f16", 2, 2, 2, 33, 40, 32, 32, NO_MASK, true, false},
    {"predicate", "bf16", 2, 2, 1, 40, 45, 32, 32, PREDICATE, false, false},
    {"causal and predicate", "f16", 2, 2, 1, 70, 70, 32, 32, CAUSAL_PREDICATE, false,
     false},
    {"bias", "f16", 2, 2, 1, 24, 45, 32, 32, BIAS, false, false},
    {"cap", "f16", 1, 2, 1, 40, 48, 32, 32, CAUSAL, false, true},
    {"one row", "bf16", 2, 2, 3, 1, 600, 32, 16, NO_MASK, false, false},
    {"one row, predicate", "f16", 2, 1, 4, 1, 150, 16, 32, PREDICATE, false, false},
    {"one row, own heads", "f16", 2, 3, 1, 1, 150, 32, 16, NO_MASK, false, false},
    {"one row, bias", "f16", 1, 2, 2, 1, 140, 16, 16, BIAS, false, false},
    {"deep", "bf16", 1, 1, 1, 32, 40, 136, 256, CAUSAL, false, false},
    {"f32", "f32", 2, 2, 1, 40, 48, 32, 32, CAUSAL, false, false},
    {"f32, odd sizes", "f32", 1, 1, 2, 37, 53, 20, 40, NO_MASK, true, false},
    {"f32, bias", "f32", 1, 2, 1, 24, 45, 32, 32, BIAS, false, false},
    {"f32, deep", "f32", 1, 1, 1, 32, 40, 128, 256, PREDICATE, false, false},
};

/* [batch, heads, rows, columns] of f32, which `y` is before, `x` behind. */
static void write_mask(Text *t, const Case *c)
{
    const char *s = arena_printf(t->arena, "[%d,%d,%d,%d]", c->batch, c->heads * c->group,
                                 c->rows, c->columns);
    /* -2.379e38, MaxText's, is still a number */
    text_printf(t,
                " fill = f32[] constant(%s) fills = f32%s broadcast(fill), dimensions={}",
                c->mask == PREDICATE ? "-2.379e38" : "-1e30", s);
    text_printf(t, " ri = s32[%d,%d] iota(), iota_dimension=0", c->rows, c->columns);
    text_printf(t, " ci = s32[%d,%d] iota(), iota_dimension=1", c->rows, c->columns);
    text_printf(t, " ge = pred[%d,%d] compare(ri, ci), direction=GE\n", c->rows,
                c->columns);
    switch (c->mask) {
    case NO_MASK:
        text_printf(t, " x = f32%s copy(y)\n", s);
        break;
    case CAUSAL:
        text_printf(
            t,
            " p = pred%s broadcast(ge), dimensions={2,3} x = f32%s select(p, y, fills)\n",
            s, s);
        break;
    case WINDOW:
        text_printf(
            t,
            " n = s32[] constant(21) nb = s32[%d,%d] broadcast(n), dimensions={}"
            " apart = s32[%d,%d] subtract(ri, ci)"
            " lt = pred[%d,%d] compare(apart, nb), direction=LT"
            " both = pred[%d,%d] and(ge, lt) p = pred%s broadcast(both), dimensions={2,3}"
            " x = f32%s select(p, y, fills)\n",
            c->rows, c->columns, c->rows, c->columns, c->rows, c->columns, c->rows,
            c->columns, s, s);
        break;
    case PREDICATE:
        text_printf(
            t,
            " m = pred[%d,%d,%d] parameter(3) p = pred%s broadcast(m), dimensions={0,2,3}"
            " x = f32%s select(p, y, fills)\n",
            c->batch, c->rows, c->columns, s, s);
        break;
    case CAUSAL_PREDICATE:
        text_printf(t,
                    " m = pred[%d,%d] parameter(3) mb = pred[%d,%d,%d] broadcast(m), "
                    "dimensions={0,2}"
                    " gb = pred[%d,%d,%d] broadcast(ge), dimensions={1,2}"
                    " both = pred[%d,%d,%d] and(mb, gb) p = pred%s broadcast(both), "
                    "dimensions={0,2,3}"
                    " x = f32%s select(p, y, fills)\n",
                    c->batch, c->columns, c->batch, c->rows, c->columns, c->batch,
                    c->rows, c->columns, c->batch, c->rows, c->columns, s, s);
        break;
    case BIAS:
        text_printf(
            t,
            " b = f32[%d,%d,%d] parameter(3) bb = f32%s broadcast(b), dimensions={1,2,3}"
            " x = f32%s add(y, bb)\n",
            c->heads * c->group, c->rows, c->columns, s, s);
        break;
    }
}

static void write_array(Text *t, const Case *c, const char *name, int number, int heads,
                        int positions, int depth)
{
    int first = c->positions_first ? positions : heads,
        second = c->positions_first ? heads : positions;
    text_printf(t, " %s = %s[%d,%d,%d,%d] parameter(%d)", name, c->type, c->batch, first,
                second, depth, number);
    if (c->positions_first || (c->group != 1 && number != 0))
        text_string(t, "\n");
}

/* k and v with a head for each of q, in [batch, heads, positions, depth]. */
static void write_heads(Text *t, const Case *c, const char *name, int heads,
                        int positions, int depth)
{
    const char *from = name;
    if (c->positions_first) {
        text_printf(t, " %st = %s[%d,%d,%d,%d] transpose(%s), dimensions={0,2,1,3}", name,
                    c->type, c->batch, heads, positions, depth, name);
        from = arena_printf(t->arena, "%st", name);
    }
    if (heads == c->heads && c->group != 1) {
        text_printf(t, " %sb = %s[%d,%d,%d,%d,%d] broadcast(%s), dimensions={0,1,3,4}",
                    name, c->type, c->batch, heads, c->group, positions, depth, from);
        text_printf(t, " %sh = %s[%d,%d,%d,%d] reshape(%sb)\n", name, c->type, c->batch,
                    heads * c->group, positions, depth, name);
        return;
    }
    text_printf(t, " %sh = %s[%d,%d,%d,%d] copy(%s)\n", name, c->type, c->batch, heads,
                positions, depth, from);
}

static const char *module_of(Arena *a, const Case *c)
{
    Text t;
    text_init(&t, a);
    int heads = c->heads * c->group;
    const char *s =
                   arena_printf(a, "[%d,%d,%d,%d]", c->batch, heads, c->rows, c->columns),
               *r = arena_printf(a, "[%d,%d,%d]", c->batch, heads, c->rows);
    text_string(
        &t,
        "HloModule m\n"
        "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, "
        "b) }\n"
        "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
        "ENTRY e {\n least = f32[] constant(-inf) zero = f32[] constant(0)\n");
    write_array(&t, c, "q", 0, heads, c->rows, c->depth);
    write_array(&t, c, "k", 1, c->heads, c->columns, c->depth);
    write_array(&t, c, "v", 2, c->heads, c->columns, c->v_depth);
    write_heads(&t, c, "q", heads, c->rows, c->depth);
    write_heads(&t, c, "k", c->heads, c->columns, c->depth);
    write_heads(&t, c, "v", c->heads, c->columns, c->v_depth);
    text_printf(&t,
                " d = f32%s dot(qh, kh), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},"
                " lhs_contracting_dims={3}, rhs_contracting_dims={3}\n"
                " scale = f32[] constant(%s) sb = f32%s broadcast(scale), dimensions={}"
                " %s = f32%s multiply(d, sb)\n",
                s, c->has_cap ? "0.05" : "0.25", s, c->has_cap ? "w" : "y", s);
    if (c->has_cap)
        text_printf(
            &t,
            " h = f32%s tanh(w) cap = f32[] constant(5) cb = f32%s broadcast(cap),"
            " dimensions={} y = f32%s multiply(h, cb)\n",
            s, s, s);
    write_mask(&t, c);
    text_printf(
        &t,
        " mx = f32%s reduce(x, least), dimensions={3}, to_apply=max"
        " mxb = f32%s broadcast(mx), dimensions={0,1,2} x1 = f32%s subtract(x, mxb)"
        " ex = f32%s exponential(x1) sm = f32%s reduce(ex, zero), dimensions={3}, "
        "to_apply=add"
        " smb = f32%s broadcast(sm), dimensions={0,1,2} wf = f32%s divide(ex, smb)"
        " wt = %s%s convert(wf)\n",
        r, s, s, s, r, s, s, c->type, s);
    text_printf(
        &t,
        " %s o = %s[%d,%d,%d,%d] dot(wt, vh), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},"
        " lhs_contracting_dims={3}, rhs_contracting_dims={2}\n",
        c->positions_first ? "" : "ROOT", c->type, c->batch, heads, c->rows, c->v_depth);
    if (c->positions_first)
        text_printf(&t, " ROOT ot = %s[%d,%d,%d,%d] transpose(o), dimensions={0,2,1,3}\n",
                    c->type, c->batch, c->rows, heads, c->v_depth);
    text_string(&t, "}\n");
    return t.data;
}

/* How often banks conflicted. */
static uint64_t check(Arena *a, const Case *c, const char *target, const char *config,
                      bool early)
{
    const char *text = module_of(a, c);
    bool is_f32 = strcmp(c->type, "f32") == 0;
    KernelCase k = {.name = c->name,
                    .text = is_f32 ? kernel_case_tf32(a, text) : text,
                    .is_tf32 = is_f32,
                    .kind = "attention",
                    .config = config,
                    .target = target,
                    .copies_early = early,
                    .tolerance = strcmp(c->type, "bf16") == 0 ? 1.0 / 48 : 1.0 / 256,
                    .least = 1};
    kernel_case_check(&k);
    return k.conflicts;
}

static void chosen_kernels_are_right(void **state)
{
    static const char *const targets[] = {"sm_75", "sm_80", "sm_90", "sm_90a"};
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (t != 0 || strcmp(cases[i].type, "f16") == 0)
                assert_int_equal(check(*state, &cases[i], targets[t], NULL, t == 1), 0);
}

static void configured_kernels_are_right(void **state)
{
    static const char *const configs[] = {
        "{\"tile\":[16,16],\"warps\":[1,1],\"stages\":3}",
        "{\"tile\":[64,32],\"warps\":[2,1],\"stages\":1}",
        "{\"tile\":[32,64],\"warps\":[2,1],\"stages\":2}",
        "{\"tile\":[16,16],\"warps\":[1,1],\"stages\":2,\"column_blocks\":4}",
    };
    for (size_t k = 0; k < sizeof configs / sizeof *configs; k++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (cases[i].v_depth <= 64)
                check(*state, &cases[i], "sm_90", configs[k], k == 1);
}

/* By wgmma: one and two groups of four warps, twice 64 rows of each, one stage and several. */
static void wide_kernels_are_right(void **state)
{
    static const char *const configs[] = {
        "{\"tile\":[64,32],\"warps\":[4,1],\"stages\":1}",
        "{\"tile\":[128,64],\"warps\":[8,1],\"stages\":2}",
        "{\"tile\":[128,32],\"warps\":[4,1],\"stages\":3}",
        "{\"tile\":[64,32],\"warps\":[4,1],\"stages\":2,\"column_blocks\":2}",
    };
    for (size_t k = 0; k < sizeof configs / sizeof *configs; k++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (cases[i].v_depth <=
                (strcmp(cases[i].type, "f32") == 0 || k == 2 ? 64 : 256))
                check(*state, &cases[i], "sm_90a", configs[k], k == 1);
}

/* Tiles with so many sums and scores that the rows' totals wait in shared memory. */
static void crowded_kernels_are_right(void **state)
{
    static const Case crowded[] = {
        {"crowded", "f16", 1, 1, 1, 70, 150, 128, 128, NO_MASK, false, false},
        {"crowded, predicate", "bf16", 1, 1, 1, 33, 150, 128, 128, PREDICATE, true,
         false},
    };
    static const char *const configs[] = {
        "{\"tile\":[64,64],\"warps\":[2,1],\"stages\":2}",
        "{\"tile\":[64,64],\"warps\":[2,1],\"stages\":2,\"column_blocks\":2}",
    };
    for (size_t k = 0; k < sizeof configs / sizeof *configs; k++)
        for (size_t i = 0; i < sizeof crowded / sizeof *crowded; i++)
            assert_int_equal(check(*state, &crowded[i], "sm_90", configs[k], k == 1), 0);
}

/* -- the program --------------------------------------------------------------------------------- */

static const Literal *random_literal(Arena *a, const Shape *shape, uint32_t seed)
{
    Literal *l = literal_create(a, shape);
    for (int64_t i = 0; i < l->count; i++) {
        seed = seed * 1664525 + 1013904223;
        int value = (int)((seed >> 16) % 17) - 6;
        if (dtype_is_float(shape->dtype))
            literal_set_double(l, i, value * 0.25);
        else
            literal_set_int(l, i, value & 1);
    }
    return l;
}

static void compare(const char *name, const Literal *got, const Literal *want)
{
    for (int64_t i = 0; i < got->count; i++) {
        double x = literal_double(got, i), y = literal_double(want, i);
        if (!(fabs(x - y) <= fmax(fabs(y), 1) / 48))
            fail_msg("%s: element %lld is %g, not %g", name, (long long)i, x, y);
    }
}

static void interpret(const Case *c, const TileConfig *config)
{
    Arena *a = arena_create();
    Instruction *fusion = kernel_case_fusion(a, module_of(a, c));
    Computation *body = inst_called(fusion, 0);
    Attention attention;
    const Literal *arguments[KERNEL_CASE_ARGS];
    const char *why;
    if (!attention_match(body->root, &attention))
        fail_msg("%s: no attention", c->name);
    TileProgram *p = tile_build_attention(a, fusion, &attention, config, &why);
    for (uint32_t i = 0; i < body->parameter_count; i++)
        arguments[i] = random_literal(a, body->parameters[i]->shape, 7 * i + 1);
    tile_case_check(a, c->name, fusion, p, why, arguments, compare);
    arena_destroy(a);
}

static void programs_give_what_the_evaluator_gives(void **state)
{
    static const TileConfig sizes[] = {{16, 16, 0, DT_INVALID, false},
                                       {32, 64, 0, DT_INVALID, false}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            interpret(&cases[i], &sizes[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_give_what_the_evaluator_gives),
        cmocka_unit_test(chosen_kernels_are_right),
        cmocka_unit_test(configured_kernels_are_right),
        cmocka_unit_test(wide_kernels_are_right),
        cmocka_unit_test(crowded_kernels_are_right),
    };
    return cmocka_run_group_tests(tests, kernel_case_set_up, kernel_case_tear_down);
}
