/* Graphs of a plan: read and printed, and refused when a record does not fit another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/plan/plan.h"

enum { X, W, Y, SCRATCH, TENSORS };
enum { BYTES = 4096 };

static uint32_t add_slice(PlanBuilder *b, uint32_t kind)
{
    PlanAllocation a = {.kind = kind, .alignment = 256, .bytes = BYTES};
    return plan_add_slices(
        b, &(PlanSlice){.allocation = plan_add_allocations(b, &a, 1), .bytes = BYTES}, 1);
}

static void add_tensor(PlanBuilder *b, int64_t first, int64_t second, int64_t size,
                       uint32_t place)
{
    PlanGraphTensor t = {.type = CUDNN_DATA_HALF,
                         .rank = 4,
                         .place = place,
                         .alignment = 16,
                         .dims = {first, second, size, size},
                         .strides = {second * size * size, 1, second * size, second}};
    plan_add_graph_tensors(b, &t, 1);
}

/* y [2, 6, 8, 8] of x [2, 4, 8, 8] and w [6, 4, 3, 3], then the identity of y in the workspace. */
static void build(PlanBuilder *b)
{
    plan_builder_init(b);
    b->info[0].target = plan_string(b, "sm_90a");
    b->info[0].sm = 90;
    add_tensor(b, 2, 4, 8, PLAN_GRAPH_STORED);
    add_tensor(b, 6, 4, 3, PLAN_GRAPH_STORED);
    add_tensor(b, 2, 6, 8, PLAN_GRAPH_STORED);
    add_tensor(b, 2, 6, 8, PLAN_GRAPH_SCRATCH);
    PlanGraphOperation ops[2];
    memset(ops, 0, sizeof ops);
    memset(ops[0].tensors, 0xff, sizeof ops[0].tensors);
    memset(ops[1].tensors, 0xff, sizeof ops[1].tensors);
    ops[0].kind = PLAN_GRAPH_CONVOLUTION_FORWARD;
    ops[0].mode = CUDNN_CROSS_CORRELATION;
    ops[0].tensors[GRAPH_SLOT(CONVOLUTION_FORWARD, X)] = X;
    ops[0].tensors[GRAPH_SLOT(CONVOLUTION_FORWARD, W)] = W;
    ops[0].tensors[GRAPH_SLOT(CONVOLUTION_FORWARD, Y)] = Y;
    for (int d = 0; d < 2; d++)
        ops[0].numbers[d] = ops[0].numbers[3 + d] = ops[0].numbers[6 + d] =
            ops[0].numbers[9 + d] = 1;
    ops[1].kind = PLAN_GRAPH_POINTWISE;
    ops[1].mode = CUDNN_POINTWISE_IDENTITY;
    ops[1].tensors[GRAPH_SLOT(POINTWISE, X)] = Y;
    ops[1].tensors[GRAPH_SLOT(POINTWISE, Y)] = SCRATCH;
    plan_add_graph_operations(b, ops, 2);
    plan_add_graph_plans(b, "{}", 2);
    PlanGraph g = {.name = plan_string(b, "c.1"),
                   .tensor_count = TENSORS,
                   .operation_count = 2,
                   .cudnn_version = 91900,
                   .configurations = 3,
                   .plan_bytes = 2,
                   .scratch_bytes = 2048,
                   .workspace_bytes = 2148};
    plan_add_graphs(b, &g, 1);
    PlanArg args[4] = {{.tag = PLAN_ARG_SLICE, .access = PLAN_READ},
                       {.tag = PLAN_ARG_SLICE, .access = PLAN_READ},
                       {.tag = PLAN_ARG_SLICE, .access = PLAN_WRITE},
                       {.tag = PLAN_ARG_SLICE, .access = PLAN_WRITE}};
    for (int i = 0; i < 4; i++)
        args[i].index = add_slice(b, i == 3 ? PLAN_WORKSPACE : PLAN_TEMP);
    PlanCommand c = {
        .kind = PLAN_GRAPH, .name = plan_string(b, "c.1"), .signal = PLAN_NONE};
    plan_command(b, &c, args, 4);
}

/* What the reader says; NULL: it takes the plan. */
static const char *refusal(PlanBuilder *b)
{
    static char error[256];
    void *bytes;
    size_t size;
    Plan p;
    assert_true(plan_write(b, &bytes, &size));
    bool good = plan_read(&p, bytes, size, error, sizeof error);
    free(bytes);
    plan_builder_deinit(b);
    return good ? NULL : error;
}

static void test_read(void **state)
{
    (void)state;
    PlanBuilder b;
    build(&b);
    const char *why = refusal(&b);
    if (why != NULL)
        fail_msg("%s", why);
}

static void test_print(void **state)
{
    (void)state;
    PlanBuilder b;
    Plan p;
    void *bytes;
    char *text = NULL, error[256];
    size_t size, length;
    build(&b);
    assert_true(plan_write(&b, &bytes, &size));
    assert_true(plan_read(&p, bytes, size, error, sizeof error));
    FILE *f = open_memstream(&text, &length);
    plan_print(&p, f);
    fclose(f);
    static const char *const lines[] = {
        "graph g0 configurations=3 workspace=2148 plan=2 of cudnn 91900  ; c.1\n",
        "  t1 f16[2,4,8,8] strides=256,1,32,4 stored align=16\n",
        "  t4 f16[2,6,8,8] strides=384,1,48,6 scratch=0x0 align=16\n",
        "  convolution(x=t1, w=t2, y=t3) compute=f32 mode=1 "
        "numbers=1,1,0,1,1,0,1,1,0,1,1\n",
        "  pointwise(x=t3, y=t4) compute=f32 mode=21\n",
        "graph g0(r:a0[0,4096], r:a1[0,4096], w:a2[0,4096], w:a3[0,4096])  ; c.1\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (strstr(text, lines[i]) == NULL)
            fail_msg("no \"%s\" in:\n%s", lines[i], text);
    }
    free(text);
    free(bytes);
    plan_builder_deinit(&b);
}

/* Each change makes the plan one that must not be followed. */
static void change(PlanBuilder *b, int number)
{
    switch (number) {
    case 0:
        b->graphs[0].tensor_count = 5;
        break;
    case 1:
        b->graphs[0].plan_bytes = 3;
        break;
    case 2:
        b->graphs[0].workspace_bytes = BYTES + 1;
        break;
    case 3:
        b->graphs[0].scratch_bytes = 1535; /* the tensor has 1536 */
        break;
    case 4:
        b->graph_tensors[X].dims[2] = 9; /* not what y is made of */
        break;
    case 5:
        b->graph_tensors[X].strides[0] = 2048; /* beyond its slice */
        break;
    case 6:
        b->graph_tensors[X].strides[1] = -1;
        break;
    case 7:
        b->graph_tensors[X].rank = 6;
        break;
    case 8:
        b->graph_tensors[X].alignment = 24;
        break;
    case 9:
        b->graph_operations[0].tensors[0] = TENSORS;
        break;
    case 10:
        b->graph_operations[0].tensors[1] = PLAN_NONE;
        break;
    case 11:
        b->graph_operations[0].tensors[3] = X; /* a convolution has no such slot */
        break;
    case 12:
        b->graph_operations[1].tensors[GRAPH_SLOT(POINTWISE, Y)] = Y; /* written twice */
        break;
    case 13:
        b->graph_operations[1].tensors[GRAPH_SLOT(POINTWISE, X)] = SCRATCH; /* unmade */
        break;
    case 14:
        b->graph_operations[0].numbers[6] = 0; /* stride */
        break;
    case 15:
        b->args[2].access = PLAN_READ;
        break;
    case 16:
        b->args[3].tag = PLAN_ARG_NONE;
        break;
    case 17:
        b->graph_tensors[X].type = 5;
        break;
    case 18:
        b->graph_operations[0].kind = PLAN_GRAPH_KINDS;
        break;
    case 19:
        b->graphs[0].flags = 4;
        break;
    case 20: /* y and what is made of it have another rank than x */
        b->graph_tensors[Y].rank = b->graph_tensors[SCRATCH].rank = 3;
        break;
    case 21: /* the window is as long as what it slides over */
        b->graph_operations[0].numbers[9] = 5;
        b->graph_operations[0].numbers[6] = 2;
        b->graph_tensors[Y].dims[2] = b->graph_tensors[SCRATCH].dims[2] = 1;
        break;
    default:
        b->commands[0].index = 1;
    }
}

static void test_damage(void **state)
{
    (void)state;
    for (int i = 0; i <= 22; i++) {
        PlanBuilder b;
        build(&b);
        change(&b, i);
        const char *why = refusal(&b);
        if (why == NULL)
            fail_msg("change %d was taken", i);
        assert_true((strstr(why, "newer libgxrt") != NULL) == (i >= 17 && i <= 19));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read),
                                       cmocka_unit_test(test_print),
                                       cmocka_unit_test(test_damage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
