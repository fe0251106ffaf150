/* The reference evaluator on programs in text: one result each, on one or more devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "ir/eval/eval.h"
#include "tests/unit/shared/module.h"

#define ADD                                                                              \
    "add { x = f32[] parameter(0) y = f32[] parameter(1) ROOT z = f32[] add(x, y) }\n"

typedef struct Case {
    const char *program;   /* without parameters */
    const char *result[4]; /* by device, as printed; [0] the message if it fails */
    uint32_t devices;      /* replicas */
    EvalStatus status;
} Case;

static const Case cases[] = {
    {.program = "ENTRY e { c = s32[2,3] constant({{1,2,3},{4,5,6}})\n"
                "ROOT r = s32[3,2] transpose(c), dimensions={1,0} }",
     .result = {"{ { 1, 4 }, { 2, 5 }, { 3, 6 } }"},
     .devices = 1},
    {.program = "ENTRY e { c = s32[4] constant({1,2,3,4}) z = s32[] constant(9)\n"
                "ROOT r = s32[7] pad(c, z), padding=-1_1_1 }",
     .result = {"{9, 2, 9, 3, 9, 4, 9}"},
     .devices = 1},
    {.program = "ENTRY e { c = s32[5] constant({1,2,3,4,5}) i = s32[] constant(7)\n"
                "ROOT r = s32[2] dynamic-slice(c, i), dynamic_slice_sizes={2} }",
     .result = {"{4, 5}"},
     .devices = 1},
    {.program = "ENTRY e { c = s32[4] constant({1,2,3,4}) u = s32[2] constant({8,9}) i = "
                "s32[] constant(-3)\n"
                "ROOT r = s32[4] dynamic-update-slice(c, u, i) }",
     .result = {"{8, 9, 3, 4}"},
     .devices = 1},
    {.program = "ENTRY e { c = s32[6] constant({1,2,3,4,5,6}) s = s32[3] slice(c), "
                "slice={[1:6:2]}\n"
                "r = s32[3] reverse(s), dimensions={0} ROOT t = s32[9] concatenate(c, "
                "r), dimensions={0} }",
     .result = {"{1, 2, 3, 4, 5, 6, 6, 4, 2}"},
     .devices = 1},
    /* indices of a gather are clamped, a scatter drops windows that lie outside */
    {.program =
         "ENTRY e { c = s32[4] constant({10,20,30,40}) i = s32[3,1] "
         "constant({{0},{9},{-5}})\n"
         "ROOT r = s32[3] gather(c, i), offset_dims={}, collapsed_slice_dims={0},\n"
         "start_index_map={0}, index_vector_dim=1, slice_sizes={1} }",
     .result = {"{10, 40, 10}"},
     .devices = 1},
    {.program =
         ADD "ENTRY e { c = f32[4] constant({1,2,3,4}) i = s32[4,1] "
             "constant({{0},{9},{-5},{0}})\n"
             "u = f32[4] constant({10,20,30,40})\n"
             "ROOT r = f32[4] scatter(c, i, u), update_window_dims={}, "
             "inserted_window_dims={0},\n"
             "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add }",
     .result = {"{51, 2, 3, 4}"},
     .devices = 1},
    {.program = ADD "ENTRY e { c = f32[6] constant({1,2,3,4,5,6}) z = f32[] constant(0)\n"
                    "ROOT r = f32[3] reduce-window(c, z), window={size=3 stride=2 "
                    "pad=1_0}, to_apply=add }",
     .result = {"{3, 9, 15}"},
     .devices = 1},
    /* only the elements that are there count */
    {.program = "add { x = s32[] parameter(0) y = s32[] parameter(1) ROOT z = s32[] "
                "add(x, y) }\n"
                "ENTRY e { c = s32[4,2] constant({{1,2},{3,4},{5,6},{7,8}}) n = s32[] "
                "constant(3)\n"
                "d = s32[<=4,2] set-dimension-size(c, n), dimensions={0}\n"
                "r = s32[<=8] reshape(d) z = s32[] constant(0)\n"
                "s = s32[] reduce(r, z), dimensions={0}, to_apply=add\n"
                "l = s32[] get-dimension-size(r), dimensions={0}\n"
                "ROOT t = (s32[], s32[]) tuple(s, l) }",
     .result = {"( 21, 6 )"},
     .devices = 1},
    /* running sums, forward and backward */
    {.program =
         ADD "ENTRY e { c = f32[3] constant({1,2,3}) z = f32[] constant(0)\n"
             "f = f32[3] reduce-window(c, z), window={size=3 pad=2_0}, to_apply=add\n"
             "b = f32[3] reduce-window(c, z), window={size=3 pad=0_2}, to_apply=add\n"
             "ROOT t = (f32[3], f32[3]) tuple(f, b) }",
     .result = {"( {1, 3, 6}, {6, 5, 3} )"},
     .devices = 1},
    {.program = "cc { t = (pred[], s32[]) parameter(0) ROOT n = pred[] "
                "get-tuple-element(t), index=0 }\n"
                "bb { t = (pred[], s32[]) parameter(0) n = pred[] get-tuple-element(t), "
                "index=0\n"
                "i = s32[] get-tuple-element(t), index=1 j = s32[] add(i, i)\n"
                "ROOT r = (pred[], s32[]) tuple(n, j) }\n"
                "ENTRY e { p = pred[] constant(true) i = s32[] constant(1)\n"
                "t = (pred[], s32[]) tuple(p, i)\n"
                "ROOT w = (pred[], s32[]) while(t), condition=cc, body=bb }",
     .result = {"%w = while: the loop never ends: its condition 'cc' holds and depends "
                "on nothing "
                "that its body changes"},
     .devices = 1,
     .status = EVAL_ERROR},
    {.program = "ENTRY e { c = f32[1,4,1] constant({{{1},{2},{3},{4}}})\n"
                "k = f32[2,1,1] constant({{{1}},{{10}}})\n"
                "ROOT r = f32[1,3,1] convolution(c, k), window={size=2}, "
                "dim_labels=b0f_0io->b0f }",
     .result = {"{ { {21}, {32}, {43} } }"},
     .devices = 1},
    {.program =
         "ENTRY e { c = f32[1,3,1] constant({{{1},{2},{3}}}) k = f32[2,1,1] "
         "constant({{{1}},{{10}}})\n"
         "ROOT r = f32[1,6,1] convolution(c, k), window={size=2 pad=1_1 lhs_dilate=2 "
         "rhs_reversal=1}, dim_labels=b0f_0io->b0f }",
     .result = {"{ { {1}, {10}, {2}, {20}, {3}, {30} } }"},
     .devices = 1},
    /* equal keys keep their order, also by a comparator that is run in batches */
    {.program =
         "lt { a = s32[] parameter(0) b = s32[] parameter(1) c = s32[] parameter(2)\n"
         "d = s32[] parameter(3) ROOT l = pred[] compare(a, b), direction=GT }\n"
         "ENTRY e { k = s32[5] constant({1,2,1,3,2}) i = s32[5] iota(), "
         "iota_dimension=0\n"
         "s = (s32[5], s32[5]) sort(k, i), dimensions={0}, is_stable=true, to_apply=lt\n"
         "ROOT r = s32[5] get-tuple-element(s), index=1 }",
     .result = {"{3, 1, 4, 0, 2}"},
     .devices = 1},
    {.program =
         "lt { a = s32[] parameter(0) b = s32[] parameter(1) c = s32[] parameter(2)\n"
         "d = s32[] parameter(3) n = s32[] negate(a) m = s32[] negate(b)\n"
         "ROOT l = pred[] compare(n, m), direction=LT }\n"
         "ENTRY e { k = s32[5] constant({1,2,1,3,2}) i = s32[5] iota(), "
         "iota_dimension=0\n"
         "s = (s32[5], s32[5]) sort(k, i), dimensions={0}, is_stable=true, to_apply=lt\n"
         "ROOT r = s32[5] get-tuple-element(s), index=1 }",
     .result = {"{3, 1, 4, 0, 2}"},
     .devices = 1},
    {.program = "ENTRY e { c = f32[1,5] constant({{3,1,4,nan,5}})\n"
                "t = (f32[1,3], s32[1,3]) topk(c), k=3, largest=true\n"
                "ROOT r = s32[1,3] get-tuple-element(t), index=1 }",
     .result = {"{ { 3, 4, 2 } }"},
     .devices = 1},
    /* the state of ThreeFry counts pairs of words */
    {.program =
         "ENTRY e { s = u64[2] constant({0, 0})\n"
         "ROOT r = (u64[2], u32[2]) rng-bit-generator(s), algorithm=rng_three_fry }",
     .result = {"( {0, 1}, {1797259609, 2579123966} )"},
     .devices = 1},
    {.program = "ENTRY e { c = c64[4] constant({(1,0),(2,0),(3,0),(4,0)})\n"
                "ROOT r = c64[4] fft(c), fft_type=FFT, fft_length={4} }",
     .result = {"{(10, 0), (-2, 2), (-2, 0), (-2, -2)}"},
     .devices = 1},
    {.program = "ENTRY e { c = f32[2,2] constant({{4,2},{2,5}}) ROOT r = f32[2,2] "
                "cholesky(c), lower=true }",
     .result = {"{ { 2, 0 }, { 1, 2 } }"},
     .devices = 1},
    {.program = "ENTRY e { a = f32[2,2] constant({{2,0},{1,4}}) b = f32[2,1] "
                "constant({{2},{9}})\n"
                "ROOT r = f32[2,1] triangular-solve(a, b), left_side=true, lower=true,\n"
                "transpose_a=NO_TRANSPOSE }",
     .result = {"{ {1}, {2} }"},
     .devices = 1},
    {.program =
         "step { x = f32[] parameter(0) c = f32[] parameter(1) s = f32[] add(x, c)\n"
         "ROOT t = (f32[], f32[]) tuple(c, s) }\n"
         "ENTRY e { x = f32[3] constant({1,2,3}) z = f32[] constant(0)\n"
         "ROOT r = (f32[3], f32[]) scan(x, z), dimensions={0}, num_carries=1, "
         "to_apply=step }",
     .result = {"( {0, 1, 3}, 6 )"},
     .devices = 1},
    {.program = "ENTRY e { c = s32[2,2] constant({{1,2},{3,4}})\n"
                "ROOT r = s32[2,2]{0,1} bitcast(c) }",
     .result = {"{ { 1, 3 }, { 2, 4 } }"},
     .devices = 1},
    /* a comparator that cannot run in batches runs in frames */
    {.program = "t { p = f32[] parameter(0) ROOT n = f32[] negate(p) }\n"
                "f { p = f32[] parameter(0) ROOT n = f32[] add(p, p) }\n"
                "choose { a = f32[] parameter(0) z = f32[] constant(0)\n"
                "l = pred[] compare(a, z), direction=LT\n"
                "ROOT c = f32[] conditional(l, a, a), true_computation=t, "
                "false_computation=f }\n"
                "ENTRY e { x = f32[3] constant({-1,2,3})\n"
                "ROOT r = f32[3] map(x), dimensions={0}, to_apply=choose }",
     .result = {"{1, 4, 6}"},
     .devices = 1},
    /* devices */
    {.program =
         ADD "ENTRY e { i = u32[] replica-id() f = f32[] convert(i)\n"
             "ROOT r = f32[] all-reduce(f), replica_groups={{0,2},{1,3}}, to_apply=add }",
     .result = {"2", "4", "2", "4"},
     .devices = 4},
    {.program = "ENTRY e { i = u32[] replica-id() v = u32[1] reshape(i)\n"
                "ROOT r = u32[3] all-gather(v), replica_groups={}, dimensions={0} }",
     .result = {"{0, 1, 2}", "{0, 1, 2}", "{0, 1, 2}"},
     .devices = 3},
    {.program =
         "ENTRY e { i = u32[] replica-id()\n"
         "ROOT r = u32[] collective-permute(i), source_target_pairs={{1,0},{2,1}} }",
     .result = {"1", "2", "0"},
     .devices = 3},
    {.program = ADD
     "ENTRY e { i = u32[] replica-id() f = f32[] convert(i) v = f32[2] broadcast(f), "
     "dimensions={}\n"
     "ROOT r = f32[1] reduce-scatter(v), replica_groups={}, dimensions={0}, to_apply=add "
     "}",
     .result = {"{1}", "{1}"},
     .devices = 2},
    {.program = "ENTRY e { i = u32[] replica-id() t = token[] after-all()\n"
                "s = (u32[], u32[], token[]) send(i, t), channel_id=1,\n"
                "frontend_attributes={_xla_send_recv_source_target_pairs=\"{{1,0}}\"}\n"
                "r = (u32[], u32[], token[]) recv(t), channel_id=1,\n"
                "frontend_attributes={_xla_send_recv_source_target_pairs=\"{{1,0}}\"}\n"
                "sd = token[] send-done(s), channel_id=1\n"
                "rd = (u32[], token[]) recv-done(r), channel_id=1\n"
                "ROOT x = u32[] get-tuple-element(rd), index=0 }",
     .result = {"1", "0"},
     .devices = 2},
    /* one device takes another branch and never comes */
    {.program = ADD
     "t { p = f32[] parameter(0) ROOT n = f32[] all-reduce(p), replica_groups={}, "
     "to_apply=add }\n"
     "f { p = f32[] parameter(0) ROOT n = f32[] negate(p) }\n"
     "ENTRY e { i = u32[] replica-id() z = u32[] constant(0)\n"
     "l = pred[] compare(i, z), direction=EQ a = f32[] constant(1)\n"
     "ROOT c = f32[] conditional(l, a, a), true_computation=t, false_computation=f }",
     .result = {"deadlock: no device can go on: device 0 waits at %n = all-reduce in "
                "computation t for device 1; device "
                "1 has finished"},
     .devices = 2,
     .status = EVAL_ERROR},
    {.program = "ENTRY e { ROOT r = f32[4] custom-call(), custom_call_target=\"mine\" }",
     .result = {"%r = custom-call: custom_call_target \"mine\""},
     .devices = 1,
     .status = EVAL_UNSUPPORTED},
};

static void check(const Case *c)
{
    Arena *a = arena_create();
    Module *m = parse_module(a, c->program);
    uint32_t n = c->devices;
    EvalDevice *devices = ARENA_ARRAY(a, EvalDevice, n);
    EvalOptions options = {.replicas = n};
    const char *error = "";
    EvalStatus st = module_evaluate(m, &options, n, devices, a, &error);
    if (st != c->status)
        fail_msg("%s\n%s", c->program, error);
    if (st != EVAL_OK)
        assert_string_equal(error, c->result[0]);
    for (uint32_t i = 0; i < n && st == EVAL_OK; i++)
        if (strcmp(literal_text(a, devices[i].result), c->result[i]) != 0)
            fail_msg("%s\ndevice %u: %s", c->program, i,
                     literal_text(a, devices[i].result));
    arena_destroy(a);
}

static void programs_give_their_results(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_give_their_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
