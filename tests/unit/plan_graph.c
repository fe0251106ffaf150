/* Graphs of a plan: read and printed, and refused when a record does not fit another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/shared/limits.h"

enum { X, W, Y, SCRATCH, TENSORS };
enum { BYTES = 4096 };

static uint32_t add_slice(PlanBuilder *b, uint32_t kind)
{
    PlanAllocation a = {.kind = kind, .alignment = 256, .bytes = BYTES};
    return plan_add_slices(
        b, &(PlanSlice){.allocation = plan_add_allocations(b, &a, 1), .bytes = BYTES}, 1);
}

static void add_tensor(PlanBuilder *b, int64_t first, int64_t second, int64_t size,
                       uint32_t storage)
{
    PlanGraphTensor t = {.type = CUDNN_DATA_HALF,
                         .rank = 4,
                         .storage = storage,
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
    plan_add_choices(b, &(PlanChoice){.version = 91900, .configuration = 2}, 1);
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

/* What the reader says of the plan, which is done with; NULL: it takes the plan. */
static const char *refusal(PlanBuilder *b)
{
    const char *why = plan_refusal(b);
    plan_builder_deinit(b);
    return why;
}

static void test_read(void **state)
{
    (void)state;
    expect_made(build);
}

static void test_print(void **state)
{
    (void)state;
    PlanBuilder b;
    Plan p;
    char *text = NULL;
    size_t length;
    build(&b);
    void *bytes = read_plan(&b, &p);
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

#define GRAPH_AT(member) AT(graphs, PlanGraph, 0, member)
#define TENSOR(i, member) AT(graph_tensors, PlanGraphTensor, i, member)
#define OPERATION(i, member) AT(graph_operations, PlanGraphOperation, i, member)

static void test_graph_limits(void **state)
{
    static const char record[] = "a damaged record",
                      slices[] = "tensors leave their slices",
                      workspace[] = "a graph without its workspace";
    (void)state;
    PlanBuilder b;
    build(&b);
    const uint32_t strings = b.strings_count;
    plan_builder_deinit(&b);
    const Limit limits[] = {
        {GRAPH_AT(name), strings - 1, strings, record},
        {AT(choices, PlanChoice, 0, graph), 0, 1, "choice 0 of the plan is damaged"},
        {GRAPH_AT(flags), PLAN_GRAPH_FLAGS, PLAN_GRAPH_FLAGS + 1, "a graph with flags 4"},
        {GRAPH_AT(tensors), 0, 1, record},
        {GRAPH_AT(operations), 0, 1, record},
        {GRAPH_AT(operation_count), 1, 0, record},
        {GRAPH_AT(operation_count), 2, 3, record},
        {GRAPH_AT(plan), 0, 1, record},
        {GRAPH_AT(plan_bytes), 2, 3, record},
        {GRAPH_AT(scratch_bytes), 2148, 2149, record},
        {GRAPH_AT(scratch_bytes), 1536, 1535, "a tensor of a graph is damaged"},
        {GRAPH_AT(workspace_bytes), BYTES, BYTES + 1, workspace},
        {OPERATION(0, kind), PLAN_GRAPH_CONVOLUTION_FORWARD, PLAN_GRAPH_KINDS,
         "a graph with an operation of kind"},
        {OPERATION(1, compute), CUDNN_DATA_HALF, 5,
         "a graph that computes in cuDNN type 5"},
        {OPERATION(1, compute), CUDNN_DATA_HALF, 1000, "a graph that computes in cuDNN"},
        {AT(commands, PlanCommand, 0, index), 0, 1, "a graph that is not there"},
        {AT(commands, PlanCommand, 0, arg_count), 4, 3, workspace},
        {AT(commands, PlanCommand, 0, arg_count), 4, 2, slices},
        {AT(args, PlanArg, 0, access), 3, PLAN_WRITE, slices},
        {AT(args, PlanArg, 2, access), 3, PLAN_READ, slices},
        {AT(args, PlanArg, 3, access), 3, PLAN_READ, workspace},
        {AT(args, PlanArg, 3, tag), PLAN_ARG_SLICE, PLAN_ARG_IMMEDIATE, workspace},
        {AT(slices, PlanSlice, 0, bytes), 1024, 1023, slices},
        {AT(slices, PlanSlice, 1, bytes), 432, 431, slices},
        {AT(slices, PlanSlice, 2, bytes), 1536, 1535, slices},
        {AT(slices, PlanSlice, 3, bytes), 2148, 2147, workspace},
    };
    CHECK_LIMITS(build, limits);
}

static void test_tensor_limits(void **state)
{
    static const char tensor[] = "a tensor of a graph is damaged",
                      type[] = "a tensor of cuDNN type";
    (void)state;
    const Limit limits[] = {
        {TENSOR(X, type), CUDNN_DATA_HALF, 5, type},
        {TENSOR(X, type), CUDNN_DATA_HALF, 1000, type},
        {TENSOR(X, storage), PLAN_GRAPH_STORED, PLAN_GRAPH_STORAGES,
         "a graph with storage"},
        {TENSOR(X, rank), 4, 0, tensor},
        {TENSOR(X, rank), 4, PLAN_GRAPH_RANK, tensor},
        {TENSOR(X, rank), 4, PLAN_GRAPH_RANK + 1, tensor},
        {TENSOR(X, rank), 4, 3, tensor},
        {TENSOR(X, alignment), 1, 0, tensor},
        {TENSOR(X, alignment), 256, 512, tensor},
        {TENSOR(X, alignment), 2, 3, tensor},
        {TENSOR(X, dims[0]), 2, 0, tensor},
        {TENSOR(X, dims[0]), 2, (uint64_t)-1, tensor},
        {TENSOR(X, dims[4]), 0, 1, tensor},
        {TENSOR(X, strides[4]), 0, 1, tensor},
        {TENSOR(X, strides[1]), 0, (uint64_t)-1, tensor},
        {TENSOR(X, strides[1]), 1, INT64_MAX, tensor},
        {TENSOR(SCRATCH, value), 512, 513, tensor}, /* of 2048, 1536 at multiples of 16 */
        {TENSOR(SCRATCH, value), 496, 504, tensor},
        {TENSOR(SCRATCH, value), 512, 528, tensor},
    };
    CHECK_LIMITS(build, limits);
}

#define NUMBERS(i) OPERATION(0, numbers[i])

static void test_convolution_limits(void **state)
{
    static const char fit[] = "the sizes of a graph's tensors do not fit each other";
    (void)state;
    const Limit limits[] = {
        {OPERATION(0, mode), 1, 2, fit},
        {NUMBERS(0), 1, 2, fit},
        {NUMBERS(0), 1, (uint64_t)-1, fit},
        {NUMBERS(1), 1, 0, fit},
        {NUMBERS(3), 1, 0, fit},
        {NUMBERS(4), 1, (uint64_t)-1, fit},
        {NUMBERS(2), 0, 1, fit},
        {NUMBERS(5), 0, 1, fit},
        {NUMBERS(8), 0, 1, fit},
        {NUMBERS(11), 0, 1, fit},
        {NUMBERS(6), 1, 2, fit},
        {NUMBERS(6), 1, 0, fit},
        {NUMBERS(9), 1, 2, fit},
        {NUMBERS(10), 1, 0, fit},
        {TENSOR(W, dims[1]), 4, 3, fit}, /* does not divide the features */
        {TENSOR(W, dims[1]), 2, 1, fit}, /* 4 groups do not divide 6 */
        {TENSOR(W, dims[0]), 6, 5, fit},
        {TENSOR(X, dims[0]), 2, 1, fit},
        {TENSOR(W, dims[3]), 3, 2, fit},
    };
    CHECK_LIMITS(build, limits);
}

/* The same sizes by other numbers: each is at its limit, and one beyond it. */
static void test_convolution_sizes(void **state)
{
    enum { MOST = 1 << 30 };
    static const struct {
        int64_t x, w, y, before, behind, stride, dilation;
        bool good;
    } cases[] = {
        {8, 3, 8, 1, 1, 1, 1, true},       {8, 3, 4, 1, 1, 2, 1, true},
        {8, 3, 4, 1, 0, 2, 1, true},       {8, 3, 4, 0, 0, 2, 1, false},
        {8, 3, 1, 1, 1, MOST, 1, true},    {8, 3, 1, 1, 1, MOST + 1, 1, false},
        {8, 3, 1, 0, 0, 1, 4, false},      {8, 3, 2, 0, 0, 1, 3, true},
        {8, 8, 1, 0, 0, 1, 1, true},       {8, 9, 1, 0, 0, 1, 1, false},
        {8, 9, 1, 1, 0, 1, 1, true},       {8, 9, 0, 0, 0, 1, 1, false},
        {1, 1, 8, 7, 0, 1, 1, true},       {1, 1, 8, 0, 7, 1, 1, true},
        {1, 1, 8, 8, -1, 1, 1, false},     {1, 1, 8, -1, 8, 1, 1, false},
        {1, 1, 2, MOST, 0, MOST, 1, true}, {1, 1, 2, MOST + 1, 0, MOST, 1, false},
        {1, 1, 2, 0, MOST, MOST, 1, true}, {1, 1, 2, 0, MOST + 1, MOST, 1, false},
        {8, 1, 8, 0, 0, 1, MOST, true},    {8, 1, 8, 0, 0, 1, MOST + 1, false},
        {8, 1, 8, 0, 0, 1, 0, false},      {8, 1, 8, 0, 0, 0, 1, false},
        {8, 3, 2, 0, 0, -1, 1, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        PlanBuilder b;
        build(&b);
        int64_t *numbers = b.graph_operations[0].numbers;
        const int64_t sizes[] = {cases[i].x, cases[i].w, cases[i].y, cases[i].y};
        for (int t = 0; t < TENSORS; t++)
            b.graph_tensors[t].dims[3] = sizes[t];
        numbers[1] = cases[i].before;
        numbers[4] = cases[i].behind;
        numbers[7] = cases[i].stride;
        numbers[10] = cases[i].dilation;
        const char *why = refusal(&b);
        if ((why == NULL) != cases[i].good)
            fail_msg("sizes %zu: %s", i, why ? why : "taken");
    }
}

/* Tensors of one rank each; what has two spatial dimensions has them in x, w and y. */
static void test_ranks(void **state)
{
    (void)state;
    for (int t = X; t <= Y; t++) {
        for (uint32_t rank = 3; rank <= 4; rank++) {
            PlanBuilder b;
            build(&b);
            PlanGraphTensor *tensor = &b.graph_tensors[t];
            tensor->rank = rank;
            if (rank == 3)
                tensor->dims[3] = tensor->strides[3] = 0;
            const char *why = refusal(&b);
            if (rank == 4 ? why != NULL : why == NULL)
                fail_msg("tensor %d of rank %u: %s", t, rank, why ? why : "taken");
        }
    }
    for (uint32_t rank = 2; rank <= 3; rank++) { /* all of them */
        PlanBuilder b;
        build(&b);
        for (int t = X; t <= SCRATCH; t++) {
            PlanGraphTensor *tensor = &b.graph_tensors[t];
            tensor->rank = rank;
            for (uint32_t d = rank; d < 4; d++)
                tensor->dims[d] = tensor->strides[d] = 0;
        }
        for (uint32_t d = rank - 2; d < 2; d++) {
            for (int k = 0; k < 4; k++)
                b.graph_operations[0].numbers[3 * k + (int)d] = 0;
        }
        const char *why = refusal(&b);
        assert_true((why == NULL) == (rank == 3));
    }
}

/* A scalar is one number of up to 8 bytes. */
static void test_scalars(void **state)
{
    static const struct {
        uint32_t type;
        int64_t first, stride;
        const char *says;
    } cases[] = {
        {CUDNN_DATA_HALF, 1, 0, NULL},
        {CUDNN_DATA_DOUBLE, 1, 9, NULL},
        {CUDNN_DATA_HALF, 2, 1, "a tensor of a graph is damaged"},
        {CUDNN_DATA_HALF, 2, 0, "a tensor of a graph is damaged"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        PlanBuilder b;
        build(&b);
        PlanGraphTensor *t = &b.graph_tensors[W];
        memset(t->dims, 0, sizeof t->dims);
        memset(t->strides, 0, sizeof t->strides);
        t->rank = 1;
        t->storage = PLAN_GRAPH_SCALAR;
        t->type = cases[i].type;
        t->dims[0] = cases[i].first;
        t->strides[0] = cases[i].stride;
        b.graph_operations[0] = b.graph_operations[1];
        b.graph_operations[0].tensors[GRAPH_SLOT(POINTWISE, X)] = X;
        b.graph_operations[0].tensors[GRAPH_SLOT(POINTWISE, B)] = W;
        b.graph_operations[0].tensors[GRAPH_SLOT(POINTWISE, Y)] = Y;
        b.args[1] = b.args[2];
        b.args[2] = b.args[3];
        b.commands[0].arg_count = 3;
        expect_verdict(&b, "scalar", i, cases[i].says);
        plan_builder_deinit(&b);
    }
}

/* What is written is no scalar, and is not read before. */
static void test_storage(void **state)
{
    static const char storage[] =
        "an operation of a graph has a tensor of the wrong storage";
    static const struct {
        uint32_t input, output, input_storage, output_storage;
        const char *says;
    } cases[] = {
        {Y, SCRATCH, PLAN_GRAPH_STORED, PLAN_GRAPH_VIRTUAL, NULL},
        {X, SCRATCH, PLAN_GRAPH_STORED, PLAN_GRAPH_VIRTUAL, NULL},
        {SCRATCH, SCRATCH, PLAN_GRAPH_VIRTUAL, PLAN_GRAPH_VIRTUAL, storage},
        {Y, Y, PLAN_GRAPH_STORED, PLAN_GRAPH_STORED, storage},
        {Y, TENSORS, PLAN_GRAPH_STORED, PLAN_GRAPH_STORED, "lacks its tensor"},
        {TENSORS, SCRATCH, PLAN_GRAPH_STORED, PLAN_GRAPH_STORED, "lacks its tensor"},
        {Y, PLAN_NONE, PLAN_GRAPH_STORED, PLAN_GRAPH_STORED, "lacks its tensor"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        PlanBuilder b;
        build(&b);
        if (cases[i].output < TENSORS)
            b.graph_tensors[cases[i].output].storage = cases[i].output_storage;
        if (cases[i].input < TENSORS)
            b.graph_tensors[cases[i].input].storage = cases[i].input_storage;
        b.graph_operations[1].tensors[GRAPH_SLOT(POINTWISE, X)] = cases[i].input;
        b.graph_operations[1].tensors[GRAPH_SLOT(POINTWISE, Y)] = cases[i].output;
        expect_verdict(&b, "storage", i, cases[i].says);
        plan_builder_deinit(&b);
    }
}

/* One tensor in memory, and others that are made of it; the last operation writes it. */
static void build_most(PlanBuilder *b, uint32_t tensors, uint32_t operations)
{
    build(b);
    PlanGraphOperation op = b->graph_operations[1];
    PlanGraphTensor made = b->graph_tensors[X];
    made.storage = PLAN_GRAPH_VIRTUAL;
    b->graph_tensors_count = 1;
    while (b->graph_tensors_count < tensors)
        plan_add_graph_tensors(b, &made, 1);
    b->graph_operations_count = 0;
    for (uint32_t i = 1; i <= operations; i++) {
        bool is_last = i == operations;
        op.tensors[GRAPH_SLOT(POINTWISE, X)] = is_last ? 1 : X;
        op.tensors[GRAPH_SLOT(POINTWISE, Y)] = is_last ? X : i;
        plan_add_graph_operations(b, &op, 1);
    }
    b->graphs[0].tensor_count = tensors;
    b->graphs[0].operation_count = operations;
    b->graphs[0].scratch_bytes = 0;
    b->args[0].access = PLAN_WRITE;
    b->args[1] = b->args[3];
    b->commands[0].arg_count = 2;
}

/* One scale is of 1 to 2^30 elements. */
static void test_dequantize(void **state)
{
    static const int64_t numbers[] = {1, 1 << 30, 0, -1, (1 << 30) + 1};
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        PlanBuilder b;
        build(&b);
        b.graph_operations[0].kind = PLAN_GRAPH_DEQUANTIZE; /* of the same slots */
        b.graph_operations[0].numbers[0] = numbers[i];
        expect_verdict(&b, "number", i, i < 2 ? NULL : "do not fit each other");
        plan_builder_deinit(&b);
    }
}

/* As many tensors and operations as a graph may have, and one more. */
static void test_most(void **state)
{
    static const struct {
        uint32_t tensors, operations;
        const char *says;
    } cases[] = {
        {PLAN_GRAPH_MOST_TENSORS, PLAN_GRAPH_MOST_OPERATIONS, NULL},
        {PLAN_GRAPH_MOST_TENSORS, PLAN_GRAPH_MOST_OPERATIONS + 1, "a damaged record"},
        {PLAN_GRAPH_MOST_TENSORS + 1, PLAN_GRAPH_MOST_OPERATIONS, "a damaged record"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        PlanBuilder b;
        build_most(&b, cases[i].tensors, cases[i].operations);
        expect_verdict(&b, "most", i, cases[i].says);
        plan_builder_deinit(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read),
                                       cmocka_unit_test(test_print),
                                       cmocka_unit_test(test_damage),
                                       cmocka_unit_test(test_graph_limits),
                                       cmocka_unit_test(test_tensor_limits),
                                       cmocka_unit_test(test_convolution_limits),
                                       cmocka_unit_test(test_convolution_sizes),
                                       cmocka_unit_test(test_ranks),
                                       cmocka_unit_test(test_scalars),
                                       cmocka_unit_test(test_storage),
                                       cmocka_unit_test(test_most),
                                       cmocka_unit_test(test_dequantize)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
