/* Chains of dots in one kernel against the evaluator: the two kernels of an attention's gradient, once the statistics
 * of its rows are arrays; masks, odd sizes, shared heads, results that lie otherwise. No thread races with another; the
 * loops have no conflicts of banks. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "ir/base/text.h"
#include "ir/kernel/dot_chain.h"
#include "ir/tile/tile.h"
#include "tests/unit/shared/kernel_case.h"
#include "tests/unit/shared/tile_case.h"

typedef enum {
    NO_MASK,
    CAUSAL,
    WINDOW,
    PREDICATE,
    ROWS /* causal, and nothing of rows whose statistic is like the fill */
} Mask;
typedef enum { OF_QUERIES, OF_KEYS } Side; /* which gradient */
typedef enum {
    HEADS_FIRST,
    POSITIONS_FIRST, /* [batch, positions, heads, depth] */
    POSITIONS_LAST   /* in memory, of k and v: an odd number of them is not copied */
} Order;

typedef struct Case {
    const char *name, *type;
    Side side;
    int batch, heads, group, rows, columns, depth, v_depth;
    Mask mask;
    Order order;
} Case;

static const Case cases[] = {
    {"dq", "bf16", OF_QUERIES, 2, 2, 1, 32, 48, 32, 32, NO_MASK, HEADS_FIRST},
    {"dq, odd sizes", "bf16", OF_QUERIES, 1, 2, 1, 37, 53, 24, 40, NO_MASK, HEADS_FIRST},
    {"dq, causal", "f16", OF_QUERIES, 1, 2, 1, 150, 150, 16, 16, CAUSAL, HEADS_FIRST},
    {"dq, window", "f16", OF_QUERIES, 1, 1, 1, 150, 150, 16, 16, WINDOW, HEADS_FIRST},
    {"dq, predicate", "bf16", OF_QUERIES, 1, 2, 1, 40, 40, 32, 32, PREDICATE,
     HEADS_FIRST},
    {"dq, positions first", "f16", OF_QUERIES, 2, 2, 1, 40, 40, 32, 32, CAUSAL,
     POSITIONS_FIRST},
    {"dq, positions last", "bf16", OF_QUERIES, 1, 2, 1, 70, 53, 32, 32, NO_MASK,
     POSITIONS_LAST},
    {"dk dv", "bf16", OF_KEYS, 2, 2, 1, 32, 48, 32, 32, NO_MASK, HEADS_FIRST},
    {"dk dv, odd sizes", "bf16", OF_KEYS, 1, 2, 1, 37, 53, 24, 40, NO_MASK, HEADS_FIRST},
    {"dk dv, causal", "f16", OF_KEYS, 1, 2, 1, 150, 150, 16, 16, CAUSAL, HEADS_FIRST},
    {"dk dv, window", "f16", OF_KEYS, 1, 1, 1, 150, 150, 16, 16, WINDOW, HEADS_FIRST},
    {"dk dv, more columns", "f16", OF_KEYS, 1, 1, 1, 40, 150, 16, 16, CAUSAL,
     HEADS_FIRST},
    {"dk dv, predicate", "bf16", OF_KEYS, 1, 2, 1, 40, 40, 32, 32, PREDICATE,
     HEADS_FIRST},
    {"dk dv, positions first", "f16", OF_KEYS, 2, 2, 1, 40, 40, 32, 32, CAUSAL,
     POSITIONS_FIRST},
    {"dk dv, shared heads", "f16", OF_KEYS, 1, 2, 3, 40, 40, 32, 32, CAUSAL, HEADS_FIRST},
    {"dk dv, deep", "bf16", OF_KEYS, 1, 1, 1, 32, 40, 128, 128, CAUSAL, HEADS_FIRST},
    {"dq, f32", "f32", OF_QUERIES, 1, 2, 1, 40, 48, 32, 32, CAUSAL, HEADS_FIRST},
    {"dq, f32, odd sizes", "f32", OF_QUERIES, 1, 1, 1, 37, 53, 24, 40, NO_MASK,
     POSITIONS_FIRST},
    {"dk dv, f32", "f32", OF_KEYS, 1, 2, 3, 40, 40, 32, 32, CAUSAL, HEADS_FIRST},
    {"dk dv, f32, odd sizes", "f32", OF_KEYS, 1, 1, 1, 37, 53, 24, 40, WINDOW,
     HEADS_FIRST},
};

/* What moves the batch's dimensions of [batch, heads(, group), positions, depth]. */
typedef struct Form {
    const char *batch, *positions, *depth; /* numbers of dimensions of q and do */
    const char *k_batch, *k_positions, *k_depth;
} Form;

static Form form_of(const Case *c)
{
    if (c->order == POSITIONS_FIRST)
        return (Form){"0,2", "1", "3", "0,2", "1", "3"};
    if (c->group != 1)
        return (Form){"0,1", "2,3", "4", "0,1", "2", "3"};
    return (Form){"0,1", "2", "3", "0,1", "2", "3"};
}

static void write_array(Text *t, const Case *c, const char *name, int number, bool is_q,
                        int depth)
{
    int positions = is_q ? c->rows : c->columns;
    if (c->order == POSITIONS_FIRST)
        text_printf(t, " %s = %s[%d,%d,%d,%d] parameter(%d)\n", name, c->type, c->batch,
                    positions, c->heads, depth, number);
    else if (is_q && c->group != 1)
        text_printf(t, " %s = %s[%d,%d,%d,%d,%d] parameter(%d)\n", name, c->type,
                    c->batch, c->heads, c->group, positions, depth, number);
    else
        text_printf(t, " %s = %s[%d,%d,%d,%d]%s parameter(%d)\n", name, c->type, c->batch,
                    c->heads, positions, depth,
                    !is_q && c->order == POSITIONS_LAST ? "{2,3,1,0}" : "", number);
}

/* p becomes `w` masked by what is not of the past, ... */
static void write_mask(Text *t, const Case *c, const char *s, const char *dims)
{
    const char *rc = arena_printf(t->arena, "[%d,%d]", c->rows, c->columns);
    text_printf(
        t,
        " fill = f32[] constant(-1e30) fills = f32%s broadcast(fill), dimensions={}"
        " ri = s32%s iota(), iota_dimension=0 ci = s32%s iota(), iota_dimension=1"
        " ge = pred%s compare(ri, ci), direction=GE\n",
        s, rc, rc, rc);
    if (c->mask == WINDOW)
        text_printf(t,
                    " n = s32[] constant(21) nb = s32%s broadcast(n), dimensions={}"
                    " apart = s32%s subtract(ri, ci) lt = pred%s compare(apart, nb), "
                    "direction=LT both = pred%s and(ge, lt)\n",
                    rc, rc, rc, rc);
    if (c->mask == PREDICATE)
        text_printf(t, " m = pred%s parameter(6)\n", rc);
    if (c->mask == ROWS)
        text_printf(
            t,
            " lr = f32%s broadcast(l), dimensions={0,1,2}"
            " some = f32[] constant(-1e29) sm = f32%s broadcast(some), dimensions={}"
            " seen = pred%s compare(lr, sm), direction=GT"
            " past = pred%s broadcast(ge), dimensions={%s}"
            " rows = pred%s and(past, seen)\n",
            s, s, s, s, dims, s);
    if (c->mask == NO_MASK)
        text_printf(t, " x = f32%s copy(y)\n", s);
    else if (c->mask == ROWS)
        text_printf(t, " x = f32%s select(rows, y, fills)\n", s);
    else
        text_printf(t,
                    " mb = pred%s broadcast(%s), dimensions={%s}"
                    " x = f32%s select(mb, y, fills)\n",
                    s,
                    c->mask == CAUSAL   ? "ge"
                    : c->mask == WINDOW ? "both"
                                        : "m",
                    dims, s);
}

static const char *module_of(Arena *a, const Case *c)
{
    Text t;
    Form f = form_of(c);
    text_init(&t, a);
    bool has_group = c->group != 1;
    const char *head = has_group
                           ? arena_printf(a, "%d,%d,%d", c->batch, c->heads, c->group)
                           : arena_printf(a, "%d,%d", c->batch, c->heads),
               *s = arena_printf(a, "[%s,%d,%d]", head, c->rows, c->columns),
               *r = arena_printf(a, "[%s,%d]", head, c->rows),
               *row_dims = has_group ? "0,1,2,3" : "0,1,2",
               *mask_dims = has_group ? "3,4" : "2,3";
    text_string(&t, "HloModule m\nENTRY e {\n");
    write_array(&t, c, "q", 0, true, c->depth);
    write_array(&t, c, "k", 1, false, c->depth);
    write_array(&t, c, "v", 2, false, c->v_depth);
    write_array(&t, c, "do", 3, true, c->v_depth);
    text_printf(&t, " l = f32%s parameter(4) d = f32%s parameter(5)\n", r, r);
    text_printf(&t,
                " st = f32%s dot(q, k), lhs_batch_dims={%s}, rhs_batch_dims={%s},"
                " lhs_contracting_dims={%s}, rhs_contracting_dims={%s}\n",
                s, f.batch, f.k_batch, f.depth, f.k_depth);
    text_printf(&t,
                " gt = %s%s dot(do, v), lhs_batch_dims={%s}, rhs_batch_dims={%s},"
                " lhs_contracting_dims={%s}, rhs_contracting_dims={%s}"
                " g = f32%s convert(gt)\n",
                c->type, s, f.batch, f.k_batch, f.depth, f.k_depth, s);
    text_printf(&t,
                " scale = f32[] constant(0.03) sb = f32%s broadcast(scale), dimensions={}"
                " y = f32%s multiply(st, sb)\n",
                s, s);
    write_mask(&t, c, s, mask_dims);
    text_printf(&t,
                " lb = f32%s broadcast(l), dimensions={%s} xl = f32%s subtract(x, lb)"
                " p = f32%s exponential(xl) db = f32%s broadcast(d), dimensions={%s}"
                " gd = f32%s subtract(g, db) pg = f32%s multiply(p, gd)"
                " ds = f32%s multiply(pg, sb)\n",
                s, row_dims, s, s, s, row_dims, s, s, s);
    if (c->side == OF_QUERIES)
        text_printf(&t,
                    " kw = f32[%d,%d,%d,%d] convert(k)"
                    " dqf = f32[%s,%d,%d] dot(ds, kw), lhs_batch_dims={0,1},"
                    " rhs_batch_dims={%s}, lhs_contracting_dims={3},"
                    " rhs_contracting_dims={%s} ROOT dq = %s[%s,%d,%d] convert(dqf)\n}\n",
                    c->batch, c->order == POSITIONS_FIRST ? c->columns : c->heads,
                    c->order == POSITIONS_FIRST ? c->heads : c->columns, c->depth, head,
                    c->rows, c->depth, f.k_batch, f.k_positions, c->type, head, c->rows,
                    c->depth);
    else
        text_printf(
            &t,
            " pt = %s%s convert(p) dst = %s%s convert(ds)"
            " dk = %s[%d,%d,%d,%d] dot(dst, q), lhs_batch_dims={0,1}, "
            "rhs_batch_dims={%s},"
            " lhs_contracting_dims={%s}, rhs_contracting_dims={%s}\n"
            " dvt = %s[%d,%d,%d,%d] dot(do, pt), lhs_batch_dims={%s}, "
            "rhs_batch_dims={0,1},"
            " lhs_contracting_dims={%s}, rhs_contracting_dims={%s}\n"
            " dv = %s[%d,%d,%d,%d] transpose(dvt), dimensions={0,1,3,2}"
            " ROOT both_of = (%s[%d,%d,%d,%d], %s[%d,%d,%d,%d]) tuple(dk, dv)\n}\n",
            c->type, s, c->type, s, c->type, c->batch, c->heads, c->columns, c->depth,
            f.batch, has_group ? "2,3" : "2", f.positions, c->type, c->batch, c->heads,
            c->v_depth, c->columns, f.batch, f.positions, has_group ? "2,3" : "2",
            c->type, c->batch, c->heads, c->columns, c->v_depth, c->type, c->batch,
            c->heads, c->columns, c->depth, c->type, c->batch, c->heads, c->columns,
            c->v_depth);
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
                    .kind = "dot_chain",
                    .config = config,
                    .target = target,
                    .copies_early = early,
                    .tolerance = strcmp(c->type, "f16") == 0 ? 1.0 / 256 : 1.0 / 32,
                    .least = 2};
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
    };
    for (size_t k = 0; k < sizeof configs / sizeof *configs; k++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (cases[i].v_depth <= 64)
                check(*state, &cases[i], "sm_90", configs[k], k == 1);
}

/* By wgmma: one and two groups of four warps, twice 64 rows of each, one stage and several. A thread cannot hold twice 64
 * rows of two sums that are 128 deep. */
static void wide_kernels_are_right(void **state)
{
    static const char *const configs[] = {
        "{\"tile\":[64,32],\"warps\":[4,1],\"stages\":1}",
        "{\"tile\":[128,64],\"warps\":[8,1],\"stages\":2}",
        "{\"tile\":[128,32],\"warps\":[4,1],\"stages\":3}",
    };
    for (size_t k = 0; k < sizeof configs / sizeof *configs; k++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            if (k != 2 || cases[i].v_depth <= 64)
                check(*state, &cases[i], "sm_90a", configs[k], k == 1);
}

/* Tiles that a band leaves out are not looked at. */
static void bands_bound_the_loop(void **state)
{
    static const struct {
        Side side;
        Mask mask;
        bool has_begin, has_end;
    } all[] = {{OF_QUERIES, CAUSAL, false, true},
               {OF_QUERIES, WINDOW, true, true},
               {OF_KEYS, CAUSAL, true, false},
               {OF_KEYS, WINDOW, true, true},
               {OF_KEYS, PREDICATE, false, false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const Case c = {"band", "f16", all[i].side, 1,  1,           1,
                        150,    150,   16,          16, all[i].mask, false};
        Instruction *fusion = kernel_case_fusion(*state, module_of(*state, &c));
        TileConfig config = {32, 32, 0, DT_INVALID, false};
        DotChain chain;
        const char *why = dot_chain_find(fusion, *state, &chain);
        assert_null(why);
        const TileProgram *p = tile_build_chain(*state, fusion, &chain, &config, &why);
        assert_non_null(p);
        assert_null(tile_verify(p));
        for (uint32_t k = 0; k < p->body.count; k++) {
            const TileOp *op = p->body.ops[k];
            if (op->kind != TILE_LOOP)
                continue;
            assert_int_equal(op->begin->kind != IX_CONST, all[i].has_begin);
            assert_int_equal(op->end->kind != IX_CONST, all[i].has_end);
        }
    }
}

/* -- the program --------------------------------------------------------------------------------- */

static void compare(const char *name, const Literal *got, const Literal *want)
{
    for (int64_t i = 0; i < want->count; i++) {
        double x = literal_double(got, i), y = literal_double(want, i);
        if (!(fabs(x - y) <= fmax(fabs(y), 1) / 48))
            fail_msg("%s: element %lld is %g, not %g", name, (long long)i, x, y);
    }
}

/* Small quarters; of the statistics, parameter 4, each seventh is the fill. */
static const Literal *argument(Arena *a, const Shape *shape, uint32_t number)
{
    Literal *l = literal_create(a, shape);
    for (int64_t i = 0; i < l->count; i++)
        literal_set_double(l, i, (double)((i * 5 + number * 3) % 11 - 4) * 0.25);
    for (int64_t i = 0; number == 4 && i < l->count; i += 7)
        literal_set_double(l, i, -1e30);
    return l;
}

/* Rows of which a mask leaves nothing are a mean of all columns: a loop asks for them first. */
static void rows_without_columns_need_all_tiles(void **state)
{
    (void)state;
    for (Side side = OF_QUERIES; side <= OF_KEYS; side++) {
        const Case c = {"rows", "bf16", side, 1, 2, 1, 75, 75, 16, 16, ROWS, HEADS_FIRST};
        Arena *a = arena_create();
        Instruction *fusion = kernel_case_fusion(a, module_of(a, &c));
        const Computation *body = inst_called(fusion, 0);
        TileConfig config = {16, 16, 0, DT_INVALID, false};
        const Literal *arguments[KERNEL_CASE_ARGS];
        DotChain chain;
        const char *why = dot_chain_find(fusion, a, &chain);
        assert_null(why);
        const TileProgram *p = tile_build_chain(a, fusion, &chain, &config, &why);
        for (uint32_t i = 0; i < body->parameter_count; i++)
            arguments[i] = argument(a, body->parameters[i]->shape, i);
        tile_case_check(a, c.name, fusion, p, why, arguments, compare);
        assert_non_null(strstr(tile_text(a, p), "or all where"));
        arena_destroy(a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen_kernels_are_right),
        cmocka_unit_test(configured_kernels_are_right),
        cmocka_unit_test(wide_kernels_are_right),
        cmocka_unit_test(bands_bound_the_loop),
        cmocka_unit_test(rows_without_columns_need_all_tiles),
    };
    return cmocka_run_group_tests(tests, kernel_case_set_up, kernel_case_tear_down);
}
