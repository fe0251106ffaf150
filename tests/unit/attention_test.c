/* Attentions as they are written down: what the recogniser finds of each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base/text.h"
#include "ir/kernel/attention/attention.h"
#include "tests/unit/shared/module.h"

static void describe_array(Text *t, const char *name, const AttentionArray *a)
{
    if (a->base == NULL)
        return;
    text_printf(t, " %s=%s", name, a->base->name);
    for (uint32_t d = 0; d < ATTENTION_RANK; d++)
        text_printf(t, "%c%lld:%lld", d == 0 ? '[' : ',', (long long)a->dims[d],
                    (long long)a->strides[d]);
    text_printf(t, "]");
}

static const char *describe(Arena *arena, const Attention *a)
{
    Text t;
    text_init(&t, arena);
    describe_array(&t, "q", &a->q);
    describe_array(&t, "k", &a->k);
    describe_array(&t, "v", &a->v);
    describe_array(&t, "o", &a->o);
    describe_array(&t, "bias", &a->bias);
    text_printf(&t, " scale=%g", a->scale);
    if (a->cap != 0)
        text_printf(&t, " cap=%g", a->cap);
    if (a->band.has_right)
        text_printf(&t, " right=%lld", (long long)a->band.right);
    if (a->band.has_left)
        text_printf(&t, " left=%lld", (long long)a->band.left);
    for (uint32_t i = 0; i < a->mask_count; i++)
        text_printf(&t, " %s%s", a->masks[i].is_negated ? "not " : "mask ",
                    a->masks[i].predicate.inst->name);
    if (a->parts.maxima == NULL)
        text_printf(&t, " no maxima");
    return t.data;
}

/* Rows 8, columns 16, depth 32. */
static const char start[] =
    "HloModule m\n"
    "max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] maximum(a, b) }\n"
    "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
    "ENTRY main {\n least = f32[] constant(-inf)\n zero = f32[] constant(0)\n"
    " fill = f32[] constant(-1e30)\n";

/* [batch, heads, positions, depth] */
static const char heads_first[] =
    " q = bf16[2,4,8,32] parameter(0)\n k = bf16[2,4,16,32] parameter(1)\n"
    " v = bf16[2,4,16,32] parameter(2)\n"
    " qk = f32[2,4,8,16] dot(q, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},"
    " lhs_contracting_dims={3}, rhs_contracting_dims={3}\n"
    " c = f32[] constant(0.25)\n cb = f32[2,4,8,16] broadcast(c), dimensions={}\n"
    " y = f32[2,4,8,16] multiply(qk, cb)\n"
    " rows = s32[8,16] iota(), iota_dimension=0\n"
    " columns = s32[8,16] iota(), iota_dimension=1\n"
    " fills = f32[2,4,8,16] broadcast(fill), dimensions={}\n";

/* e and the sums sb, of x [2, 4, 8, 16]. */
static const char softmax[] =
    " m = f32[2,4,8] reduce(x, least), dimensions={3}, to_apply=max\n"
    " mb = f32[2,4,8,16] broadcast(m), dimensions={0,1,2}\n"
    " d = f32[2,4,8,16] subtract(x, mb)\n e = f32[2,4,8,16] exponential(d)\n"
    " s = f32[2,4,8] reduce(e, zero), dimensions={3}, to_apply=add\n"
    " sb = f32[2,4,8,16] broadcast(s), dimensions={0,1,2}\n";

static const char divided[] =
    " wf = f32[2,4,8,16] divide(e, sb)\n w = bf16[2,4,8,16] convert(wf)\n";

static const char second_dot[] =
    " ROOT o = bf16[2,4,8,32] dot(w, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},"
    " lhs_contracting_dims={3}, rhs_contracting_dims={2}\n}\n";

/* Batch and heads that are next to each other in all arrays are one dimension. */
#define ARRAYS                                                                           \
    " q=q[8:256,1:2048,8:32,32:1] k=k[8:512,1:4096,16:32,32:1] v=v[8:512,1:4096"         \
    ",16:32,32:1] o=o[8:256,1:2048,8:32,32:1]"

static void check_text(Arena *arena, const char *text, const char *expected)
{
    Module *m = parse_module(arena, text);
    Attention a;
    bool is_found = attention_match(m->entry->root, &a);
    assert_string_equal(is_found ? describe(arena, &a) : "none", expected);
}

/* A program in pieces, up to NULL. */
static void check(const char *expected, const char *const *pieces)
{
    Arena *arena = arena_create();
    Text t;
    text_init(&t, arena);
    text_string(&t, start);
    for (; *pieces != NULL; pieces++)
        text_string(&t, *pieces);
    check_text(arena, t.data, expected);
    arena_destroy(arena);
}

#define CHECK(expected, ...) check(expected, (const char *const[]){__VA_ARGS__, NULL})

static void no_mask(void **state)
{
    (void)state;
    CHECK(ARRAYS " scale=0.25", heads_first, " x = f32[2,4,8,16] copy(y)\n", softmax,
          divided, second_dot);
}

static void band_by_select(void **state)
{
    (void)state;
    CHECK(ARRAYS " scale=0.25 right=0 left=5", heads_first,
          " ge = pred[8,16] compare(rows, columns), direction=GE\n"
          " n = s32[] constant(5)\n nb = s32[8,16] broadcast(n), dimensions={}\n"
          " apart = s32[8,16] subtract(rows, columns)\n"
          " lt = pred[8,16] compare(apart, nb), direction=LT\n"
          " both = pred[8,16] and(ge, lt)\n"
          " p = pred[2,4,8,16] broadcast(both), dimensions={2,3}\n"
          " x = f32[2,4,8,16] select(p, y, fills)\n",
          softmax, divided, second_dot);
}

/* A row that has no column: the mean of all, which no band is. */
static void empty_row(void **state)
{
    (void)state;
    CHECK("none", heads_first,
          " gt = pred[8,16] compare(rows, columns), direction=GT\n"
          " p = pred[2,4,8,16] broadcast(gt), dimensions={2,3}\n"
          " x = f32[2,4,8,16] select(p, y, fills)\n",
          softmax, divided, second_dot);
}

static void band_and_predicate(void **state)
{
    (void)state;
    CHECK(ARRAYS " scale=0.25 right=2 mask valid", heads_first,
          " n = s32[] constant(3)\n nb = s32[8,16] broadcast(n), dimensions={}\n"
          " later = s32[8,16] add(rows, nb)\n"
          " lt = pred[8,16] compare(columns, later), direction=LT\n"
          " ltb = pred[2,8,16] broadcast(lt), dimensions={1,2}\n"
          " valid = pred[2,16] parameter(3)\n"
          " vb = pred[2,8,16] broadcast(valid), dimensions={0,2}\n"
          " both = pred[2,8,16] and(ltb, vb)\n"
          " p = pred[2,4,8,16] broadcast(both), dimensions={0,2,3}\n"
          " x = f32[2,4,8,16] select(p, y, fills)\n",
          softmax, divided, second_dot);
}

/* 0 or a fill, compared with half of it: as some models keep masks. */
static void unwrapped_comparison(void **state)
{
    (void)state;
    CHECK(
        ARRAYS " scale=0.25 right=0", heads_first,
        " ge = pred[8,16] compare(rows, columns), direction=GE\n"
        " z2 = f32[8,16] broadcast(zero), dimensions={}\n"
        " f2 = f32[8,16] broadcast(fill), dimensions={}\n"
        " kept = f32[8,16] select(ge, z2, f2)\n"
        " half = f32[] constant(-5e29)\n hb = f32[8,16] broadcast(half), dimensions={}\n"
        " again = pred[8,16] compare(kept, hb), direction=GE\n"
        " p = pred[2,4,8,16] broadcast(again), dimensions={2,3}\n"
        " x = f32[2,4,8,16] select(p, y, fills)\n",
        softmax, divided, second_dot);
}

/* (1 - mask) * -1e9, as Keras adds it. */
static void added_mask(void **state)
{
    (void)state;
    CHECK(ARRAYS " scale=0.25 mask valid", heads_first,
          " valid = pred[2,16] parameter(3)\n ones = f32[2,16] convert(valid)\n"
          " one = f32[] constant(1)\n ob = f32[2,16] broadcast(one), dimensions={}\n"
          " zeros = f32[2,16] subtract(ob, ones)\n big = f32[] constant(-1e9)\n"
          " bb = f32[2,16] broadcast(big), dimensions={}\n"
          " off = f32[2,16] multiply(zeros, bb)\n"
          " offs = f32[2,4,8,16] broadcast(off), dimensions={0,3}\n"
          " x = f32[2,4,8,16] add(y, offs)\n",
          softmax, divided, second_dot);
}

static void bias_behind_cap(void **state)
{
    (void)state;
    CHECK(
        " q=q[2:1024,4:256,8:32,32:1] k=k[2:2048,4:512,16:32,32:1] v=v[2:2048,4:512,"
        "16:32,32:1] o=o[2:1024,4:256,8:32,32:1] bias=added[1:512,4:128,8:16,16:1]"
        " scale=0.25 cap=30",
        heads_first,
        " cap = f32[] constant(30)\n caps = f32[2,4,8,16] broadcast(cap), dimensions={}\n"
        " less = f32[2,4,8,16] divide(y, caps)\n t = f32[2,4,8,16] tanh(less)\n"
        " capped = f32[2,4,8,16] multiply(t, caps)\n added = f32[4,8,16] parameter(3)\n"
        " bb = f32[2,4,8,16] broadcast(added), dimensions={1,2,3}\n"
        " x = f32[2,4,8,16] add(capped, bb)\n",
        softmax, divided, second_dot);
}

static void divided_behind_dot(void **state)
{
    (void)state;
    CHECK(" q=q[2:1024,4:256,8:32,32:1] k=k[2:2048,4:512,16:32,32:1] v=v[2:2048,4:512,"
          "16:32,32:1] o=o[2:1024,4:32,8:128,32:1] scale=0.25",
          heads_first, " x = f32[2,4,8,16] copy(y)\n", softmax,
          " w = bf16[2,4,8,16] convert(e)\n"
          " u = f32[2,4,8,32] dot(w, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1},"
          " lhs_contracting_dims={3}, rhs_contracting_dims={2}\n"
          " sd = f32[2,4,8,32] broadcast(s), dimensions={0,1,2}\n"
          " g = f32[2,4,8,32] divide(u, sd)\n r = bf16[2,4,8,32] convert(g)\n"
          " ROOT o = bf16[2,8,4,32] transpose(r), dimensions={0,2,1,3}\n}\n");
}

static void without_maxima(void **state)
{
    (void)state;
    CHECK(ARRAYS " scale=0.25 no maxima", heads_first,
          " e = f32[2,4,8,16] exponential(y)\n"
          " s = f32[2,4,8] reduce(e, zero), dimensions={3}, to_apply=add\n"
          " sb = f32[2,4,8,16] broadcast(s), dimensions={0,1,2}\n",
          divided, second_dot);
}

/* The sums of something else. */
static void other_sums(void **state)
{
    (void)state;
    CHECK("none", heads_first, " x = f32[2,4,8,16] copy(y)\n",
          " e = f32[2,4,8,16] exponential(x)\n e2 = f32[2,4,8,16] exponential(qk)\n"
          " s = f32[2,4,8] reduce(e2, zero), dimensions={3}, to_apply=add\n"
          " sb = f32[2,4,8,16] broadcast(s), dimensions={0,1,2}\n",
          divided, second_dot);
}

/* Rows times 2 heads of each of 2 of k and v, positions before heads, k before q, v before the weights,
 * q scaled in its own type. */
static void shared_heads(void **state)
{
    (void)state;
    CHECK(" q=q[2:1024,4:32,8:128,32:1] k=k[2:1024,2:32,16:64,32:1]"
          " v=v[2:1024,2:32,16:64,32:1] o=o[2:1024,4:32,8:128,32:1] scale=0.125",
          " q = bf16[2,8,4,32] parameter(0)\n k = bf16[2,16,2,32] parameter(1)\n"
          " v = bf16[2,16,2,32] parameter(2)\n c = bf16[] constant(0.125)\n"
          " cb = bf16[2,8,4,32] broadcast(c), dimensions={}\n"
          " qs = bf16[2,8,4,32] multiply(q, cb)\n"
          " qr = bf16[2,8,2,2,32] reshape(qs)\n"
          " qk = f32[2,2,16,8,2] dot(k, qr), lhs_batch_dims={0,2}, rhs_batch_dims={0,2},"
          " lhs_contracting_dims={3}, rhs_contracting_dims={4}\n"
          " x = f32[2,2,2,8,16] transpose(qk), dimensions={0,1,4,3,2}\n"
          " m = f32[2,2,2,8] reduce(x, least), dimensions={4}, to_apply=max\n"
          " mb = f32[2,2,2,8,16] broadcast(m), dimensions={0,1,2,3}\n"
          " d = f32[2,2,2,8,16] subtract(x, mb)\n e = f32[2,2,2,8,16] exponential(d)\n"
          " s = f32[2,2,2,8] reduce(e, zero), dimensions={4}, to_apply=add\n"
          " sb = f32[2,2,2,8,16] broadcast(s), dimensions={0,1,2,3}\n"
          " wf = f32[2,2,2,8,16] divide(e, sb)\n w = bf16[2,2,2,8,16] convert(wf)\n"
          " ov = bf16[2,2,32,2,8] dot(v, w), lhs_batch_dims={0,2}, rhs_batch_dims={0,1},"
          " lhs_contracting_dims={1}, rhs_contracting_dims={4}\n"
          " ot = bf16[2,8,2,2,32] transpose(ov), dimensions={0,4,1,3,2}\n"
          " ROOT o = bf16[2,8,4,32] reshape(ot)\n}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_mask),
        cmocka_unit_test(band_by_select),
        cmocka_unit_test(empty_row),
        cmocka_unit_test(band_and_predicate),
        cmocka_unit_test(unwrapped_comparison),
        cmocka_unit_test(added_mask),
        cmocka_unit_test(bias_behind_cap),
        cmocka_unit_test(divided_behind_dot),
        cmocka_unit_test(without_maxima),
        cmocka_unit_test(other_sums),
        cmocka_unit_test(shared_heads),
    };
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
