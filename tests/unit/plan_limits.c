/* Each number of a plan at the last value that is good, and at the first that is not: the reader takes the one and
 * refuses the other, with words about that number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base/limits.h"
#include "tests/unit/shared/artefact.h"
#include "tests/unit/shared/limits.h"
#include "tests/unit/shared/program.h"

enum { TEMP_BYTES = 1024, N = 4, WORKSPACE = 64 };

/* What maker_plan makes, by number. */
enum { COMMAND_LAUNCH, COMMAND_LOOP, COMMAND_FILL, COMMAND_PRODUCT, COMMANDS };
enum { TERM_USED, TERM_SPARE };

static uint32_t spare; /* a slice of the temporary memory that nobody uses */
static uint32_t layer; /* one that moves with the loop */

/* d = d d, of two rows and columns, by an algorithm that a tuner found. */
static void maker_product(Maker *m, uint32_t d, uint32_t workspace)
{
    PlanMatmul product = square_product(2);
    product.workspace_bytes = WORKSPACE;
    const PlanArg args[PLAN_MATMUL_ARGS] = {[PLAN_MATMUL_A] = reads(d),
                                            [PLAN_MATMUL_B] = reads(d),
                                            [PLAN_MATMUL_D] = writes(d),
                                            [PLAN_MATMUL_WORKSPACE] = writes(workspace)};
    uint32_t number = plan_add_matmuls(&m->b, &product, 1);
    m->b.info[0].min_cublaslt = 120000;
    maker_command(m, PLAN_MATMUL, number, args, PLAN_MATMUL_AUX);
    plan_add_algorithms(&m->b, &(PlanAlgorithm){.matmul = number, .version = 1}, 1);
}

/* The launch, in whose place the same kernel may be launched, and the product. */
static void maker_tunables(Maker *m)
{
    const PlanCandidate candidates[] = {{.kernel = m->add}, {.kernel = m->add}};
    plan_add_candidates(&m->b, candidates, 2);
    const uint32_t none[PLAN_MATMUL_ARGS] = {0};
    const PlanTunable tunables[] = {
        {.command = COMMAND_LAUNCH,
         .candidate_count = 2,
         .dtypes = plan_add_refs(&m->b, none, m->b.commands[COMMAND_LAUNCH].arg_count)},
        {.command = COMMAND_PRODUCT,
         .dtypes = plan_add_refs(&m->b, none, PLAN_MATMUL_AUX)}};
    plan_add_tunables(&m->b, tunables, 2);
}

/* A launch, then a loop that fills a row of temporary memory in each of its 7 trips. */
static void maker_plan(Maker *m)
{
    maker_init(m);
    PlanBuilder *b = &m->b;
    b->info[0].counter_count = 1;
    uint32_t in = maker_value(m, false, N, PLAN_NONE, PLAN_ALIAS_NONE);
    uint32_t out = maker_value(m, true, N, PLAN_NONE, PLAN_ALIAS_NONE);
    maker_add(m, in, out, N, immediate(1));
    uint32_t temp = maker_allocation(m, PLAN_TEMP, 0, TEMP_BYTES);
    const PlanTerm terms[] = {{.scale = 1, .high = 6, .stride = 128}, {.high = 1}};
    plan_add_terms(b, terms, 2);
    layer = maker_slice(m, temp, 128, 128);
    b->slices[layer].term_count = 1;
    spare = maker_slice(m, temp, 0, 0);
    const PlanLoop loop = {.trip_count = 7, .body_commands = 1};
    uint32_t open = maker_command(m, PLAN_WHILE, plan_add_loops(b, &loop, 1), NULL, 0);
    const PlanArg args[] = {writes(layer), immediate(0), {.tag = PLAN_ARG_NONE}};
    uint32_t fill = maker_command(m, PLAN_FILL, 0, args, 3);
    b->commands[fill].arg_count = 2;
    b->commands[fill].count = 4;
    plan_close(b, open);
    maker_product(m, maker_slice(m, temp, 256, 16), maker_slice(m, temp, 512, WORKSPACE));
    maker_tunables(m);
}

static void make(PlanBuilder *b)
{
    Maker m;
    maker_plan(&m);
    *b = m.b;
}

static void test_info(void **state)
{
    static const char slots[] = "more slots than commands",
                      target[] = "target is damaged";
    static const Limit limits[] = {
        {AT(info, PlanInfo, 0, signal_count), COMMANDS, COMMANDS + 1, slots},
        {AT(info, PlanInfo, 0, async_count), COMMANDS, COMMANDS + 1, slots},
        {AT(info, PlanInfo, 0, counter_count), 1, 2, slots},
        {AT(info, PlanInfo, 0, replicas), 1, 0, "0 replicas"},
        {AT(info, PlanInfo, 0, partitions), 1, 0, "0 partitions"},
        {AT(info, PlanInfo, 0, partitions), 2, UINT32_MAX, "4294967295 partitions"},
        {AT(info, PlanInfo, 0, suffix), 0, 'b', target},
        {AT(info, PlanInfo, 0, suffix), 'a', 'e', target},
        {AT(info, PlanInfo, 0, suffix), 'f', 'g', target},
        {AT(info, PlanInfo, 0, sm), 10, 9, target},
        {AT(info, PlanInfo, 0, sm), 9999, 10000, target},
        {AT(info, PlanInfo, 0, flags), PLAN_INFO_FLAGS, PLAN_INFO_FLAGS + 1, "flags"},
        {AT(kernels, PlanKernel, 1, parameter_count), 4096, 4097, "kernel 1 of the plan"},
    };
    (void)state;
    CHECK_LIMITS(make, limits);
}

static void test_addresses(void **state)
{
    static const char term[] = "address term 1 of the plan is damaged";
    const int64_t most = INT64_MAX >> 8;
    (void)state;
    Maker m; /* numbers of the slices */
    maker_plan(&m);
    uint32_t slices = m.b.slices_count, allocations = m.b.allocations_count;
    plan_builder_deinit(&m.b);
    const char *leaves = "leaves its allocation";
    const Limit limits[] = {
        {AT(terms, PlanTerm, TERM_SPARE, counter), 0, 1, term},
        {AT(terms, PlanTerm, TERM_SPARE, low), 1, 2, term},
        {AT(terms, PlanTerm, TERM_SPARE, stride), (uint64_t)most, (uint64_t)most + 1,
         term},
        {AT(terms, PlanTerm, TERM_SPARE, stride), (uint64_t)-most, (uint64_t)(-most - 1),
         term},
        {AT(terms, PlanTerm, TERM_SPARE, stride), 0, (uint64_t)INT64_MIN, term},
        {AT(terms, PlanTerm, TERM_USED, high), 6, 7, leaves},
        {AT(terms, PlanTerm, TERM_USED, low), (uint64_t)-1, (uint64_t)-2, leaves},
        {AT(slices, PlanSlice, spare, offset), TEMP_BYTES, TEMP_BYTES + 1, leaves},
        {AT(slices, PlanSlice, spare, offset), 0, (UINT64_C(1) << 62) + 1, "is damaged"},
        {AT(slices, PlanSlice, spare, bytes), TEMP_BYTES, TEMP_BYTES + 1, leaves},
        {AT(slices, PlanSlice, spare, bytes), 0, UINT64_MAX, leaves},
        {AT(slices, PlanSlice, spare, allocation), allocations - 1, allocations,
         "is damaged"},
        {AT(slices, PlanSlice, spare, terms), 1, 3, "is damaged"},
        {AT(slices, PlanSlice, spare, term_count), 1, 3, "is damaged"},
        {AT(args, PlanArg, 0, index), 0, slices, "a slice that is not there"},
    };
    CHECK_LIMITS(make, limits);
}

static void test_values(void **state)
{
    static const Limit limits[] = {
        {AT(arguments, PlanValue, 0, bytes), 4 * N, 4 * N - 1, "argument 0"},
        {AT(arguments, PlanValue, 0, bytes), 4 * N, 4 * N + 1, "argument 0"},
        {AT(arguments, PlanValue, 0, element_bits), 32, 0, "argument 0"},
        {AT(arguments, PlanValue, 0, element_bits), 32, 129, "argument 0"},
        {AT(arguments, PlanValue, 0, rank), 1, 65, "argument 0"},
        {AT(arguments, PlanValue, 0, alias), PLAN_NONE, 0, "does not agree"},
        {AT(arguments, PlanValue, 0, alias), PLAN_NONE, 1,
         "argument 0 of the plan has alias 1, there are 1"},
        {AT(arguments, PlanValue, 0, alias_kind), 0, PLAN_ALIAS_MAY, "argument 0"},
        {AT(arguments, PlanValue, 0, size_of), PLAN_NONE, 1, "argument 0"},
        {AT(allocations, PlanAllocation, 0, alignment), 1, 0, "allocation 0"},
        {AT(allocations, PlanAllocation, 0, alignment), 256, 24, "allocation 0"},
        {AT(allocations, PlanAllocation, 0, alignment), 1 << 20, 1 << 21, "allocation 0"},
        {AT(allocations, PlanAllocation, 0, colour), PLAN_HOST_MEMORY, PLAN_COLOURS,
         "an allocation of kind"},
        {AT(allocations, PlanAllocation, 1, colour), PLAN_HOST_MEMORY, PLAN_COLOURS,
         "an allocation of kind"},
        {AT(allocations, PlanAllocation, 2, colour), PLAN_HOST_MEMORY, PLAN_COLOURS,
         "an allocation of kind"},
        {AT(results, PlanValue, 0, bytes), 4 * N, 4 * N + 1, "result 0"},
        {AT(results, PlanValue, 0, alias), PLAN_NONE, 1,
         "result 0 of the plan has alias 1, there are 1"},
        {AT(slices, PlanSlice, 0, bytes), 4 * N, 4 * N - 1, "argument 0"},
        {AT(slices, PlanSlice, 0, offset), 0, 1, "slice 0"},
    };
    (void)state;
    CHECK_LIMITS(make, limits);
}

static void test_type_names(void **state)
{
    static const char name[] = "a_type_with_32_characters_in_all";
    (void)state;
    for (uint32_t more = 0; more < 2; more++) { /* without its first character */
        Maker m;
        maker_plan(&m);
        m.b.arguments[0].dtype = plan_string(&m.b, name) + 1 - more;
        expect_verdict(&m.b, "characters", 31 + more,
                       more ? "argument 0 of the plan is damaged" : NULL);
        plan_builder_deinit(&m.b);
    }
}

static void test_commands(void **state)
{
    static const char loop[] = "loop 0 of the plan is damaged", fill[] = "a fill without";
    static const Limit limits[] = {
        {AT(loops, PlanLoop, 0, trip_count), 0, (uint64_t)-2, loop},
        {AT(loops, PlanLoop, 0, counter), 0, 1, loop},
        {AT(commands, PlanCommand, COMMAND_LAUNCH, index), 0, 2,
         "a launch of kernel 2, there are 2"},
        {AT(commands, PlanCommand, COMMAND_LAUNCH, index), 0, 1, "do not fit its kernel"},
        {AT(commands, PlanCommand, COMMAND_LAUNCH, arg_count), 4, 3,
         "do not fit its kernel"},
        {AT(commands, PlanCommand, COMMAND_LAUNCH, stream), 0, 1, "a damaged record"},
        {AT(commands, PlanCommand, COMMAND_FILL, arg_count), 2, 3, fill},
        {AT(commands, PlanCommand, COMMAND_FILL, arg_count), 2, 1, fill},
        {AT(commands, PlanCommand, COMMAND_FILL, count), 1, 0, fill},
        {AT(commands, PlanCommand, COMMAND_FILL, count), 2, 3, fill},
        {AT(commands, PlanCommand, COMMAND_FILL, count), 4, 8, fill},
    };
    (void)state;
    CHECK_LIMITS(make, limits);
}

/* A loop that ends behind the one that it is in. */
static void test_nesting(void **state)
{
    (void)state;
    for (uint32_t subtree = 2; subtree <= 3; subtree++) {
        Maker m;
        maker_plan(&m);
        const PlanLoop loops[] = {{.trip_count = 1, .body_commands = subtree - 1},
                                  {.trip_count = 1, .body_commands = 1}};
        uint32_t loop = plan_add_loops(&m.b, loops, 2);
        const PlanArg args[] = {writes(spare), immediate(0)};
        m.b.slices[spare].bytes = 16;
        uint32_t outer = maker_command(&m, PLAN_WHILE, loop, NULL, 0);
        uint32_t inner = maker_command(&m, PLAN_WHILE, loop + 1, NULL, 0);
        uint32_t fill = maker_command(&m, PLAN_FILL, 0, args, 2);
        m.b.commands[fill].count = 4;
        m.b.commands[outer].subtree = subtree;
        m.b.commands[inner].subtree = 2;
        expect_verdict(&m.b, "commands", subtree,
                       subtree == 3 ? NULL : "leaves its parent");
        plan_builder_deinit(&m.b);
    }
}

static void test_tuning(void **state)
{
    static const char launch[] = "tunable 0 of the plan is damaged",
                      product[] = "tunable 1 of the plan is damaged",
                      algorithm[] = "algorithm 0 of the plan is damaged";
    static const Limit limits[] = {
        {AT(tunables, PlanTunable, 0, command), COMMAND_LAUNCH, COMMANDS, launch},
        {AT(tunables, PlanTunable, 0, command), COMMAND_LAUNCH, COMMAND_FILL, launch},
        {AT(tunables, PlanTunable, 0, command), COMMAND_LAUNCH, COMMAND_PRODUCT, launch},
        {AT(tunables, PlanTunable, 0, key), 0, 1 << 20, launch},
        {AT(tunables, PlanTunable, 0, candidates), 0, 1, launch},
        {AT(tunables, PlanTunable, 0, candidates), 0, UINT32_MAX, launch},
        {AT(tunables, PlanTunable, 0, candidate_count), 2, 3, launch},
        {AT(tunables, PlanTunable, 0, candidate_count), 1, 0, launch},
        {AT(tunables, PlanTunable, 0, candidate_count), 1, UINT32_MAX, launch},
        {AT(tunables, PlanTunable, 0, dtypes), 1, 1 << 20, launch},
        {AT(tunables, PlanTunable, 1, candidate_count), 0, 1, product},
        {AT(candidates, PlanCandidate, 0, kernel), 0, 1, launch},
        {AT(candidates, PlanCandidate, 1, kernel), 0, 1, launch},
        {AT(candidates, PlanCandidate, 1, kernel), 0, 2, launch},
        {AT(candidates, PlanCandidate, 1, kind), 0, 1 << 20, launch},
        {AT(candidates, PlanCandidate, 1, config), 0, 1 << 20, launch},
        {AT(algorithms, PlanAlgorithm, 0, matmul), 0, 1, algorithm},
        {AT(algorithms, PlanAlgorithm, 0, workspace_bytes), WORKSPACE, WORKSPACE + 1,
         algorithm},
        {AT(algorithms, PlanAlgorithm, 0, workspace_bytes), 0, UINT64_MAX, algorithm},
    };
    (void)state;
    CHECK_LIMITS(make, limits);
}

/* Tunables of the same candidates, or of the same types. */
static void test_shared_tunables(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        Maker m;
        maker_plan(&m);
        const PlanTunable other = m.b.tunables[i];
        plan_add_tunables(&m.b, &other, 1);
        expect_refused(&m.b, "tunable 2 of the plan shares its candidates or types");
        plan_builder_deinit(&m.b);
    }
}

/* Text of all kernels there is once. */
static void test_two_texts(void **state)
{
    (void)state;
    for (size_t texts = 1; texts <= 2; texts++) {
        Maker m;
        maker_plan(&m);
        const PlanImage text = {.kernel = PLAN_NONE, .kind = PLAN_IMAGE_PTX};
        for (size_t i = 0; i < texts; i++)
            plan_add_images(&m.b, &text, 1);
        expect_verdict(&m.b, "texts", texts,
                       texts == 1 ? NULL : "more than one image of PTX");
        plan_builder_deinit(&m.b);
    }
}

/* Sections without which nothing can be read. */
static void test_empty(void **state)
{
    static const struct {
        size_t count; /* of the builder: where it is */
        uint32_t left;
        const char *says;
    } cases[] = {
        {offsetof(PlanBuilder, strings_count), 0, "strings are not terminated"},
        {offsetof(PlanBuilder, strings_count), 2, "strings are not terminated"},
        {offsetof(PlanBuilder, info_count), 0, "lacks its info or its streams"},
        {offsetof(PlanBuilder, streams_count), 0, "lacks its info or its streams"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Maker m;
        maker_plan(&m);
        memcpy((char *)&m.b + cases[i].count, &cases[i].left, sizeof cases[i].left);
        expect_refused(&m.b, cases[i].says);
        plan_builder_deinit(&m.b);
    }
}

/* Of each kind and colour of memory so many bytes that every sum is another. */
static void test_sizes(void **state)
{
    Maker m;
    Plan plan;
    (void)state;
    maker_plan(&m);
    PlanAllocation more[] = {{PLAN_TEMP, 0, PLAN_HOST_MEMORY, 16, 64, 0, 0, 0},
                             {PLAN_WORKSPACE, 0, PLAN_DEVICE_MEMORY, 16, 4096, 0, 0, 0},
                             {PLAN_CONSTANT, 0, PLAN_DEVICE_MEMORY, 256, 256, 0, 0, 0}};
    m.b.info[0].constant_bytes = 256;
    plan_add_allocations(&m.b, more, 3);
    void *bytes = read_plan(&m.b, &plan);
    PlanSizes s = plan_sizes(&plan);
    assert_int_equal(s.arguments, 4 * N);
    assert_int_equal(s.results, 4 * N);
    assert_int_equal(s.aliased, 0);
    assert_int_equal(s.temp, TEMP_BYTES);
    assert_int_equal(s.host, 64);
    assert_int_equal(s.workspace, 4096);
    assert_int_equal(s.constants, 256);
    assert_int_equal(s.peak, 8 * N + 256 + TEMP_BYTES);
    PlanCounts c = plan_counts(&plan);
    assert_int_equal(c.launches, 2); /* one of them a product */
    assert_int_equal(c.copies, 1);
    assert_int_equal(c.collectives, 0);
    free(bytes);
    plan_builder_deinit(&m.b);
}

/* The header of the file around a plan. */
static void test_elf(void **state)
{
    unsigned char elf[EMPTY_ELF_BYTES];
    static const struct {
        size_t at;
        unsigned char value;
    } wrong[] = {{0, 0}, {3, 'f'}, {4, 1}, {4, 3}, {5, 2}, {5, 0}};
    (void)state;
    empty_elf(elf);
    assert_true(plan_elf_is(elf, sizeof elf));
    assert_true(plan_elf_is(elf, 64));
    assert_false(plan_elf_is(elf, 63));
    assert_true(plan_elf_is_whole(elf, sizeof elf, elf));
    assert_false(plan_elf_is_whole(elf, sizeof elf - 17, elf));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        empty_elf(elf);
        elf[wrong[i].at] = wrong[i].value;
        assert_false(plan_elf_is(elf, sizeof elf));
        assert_false(plan_elf_is_whole(elf, sizeof elf, elf));
    }
    const uint64_t far =
        sizeof elf - 55; /* a program header of 56 bytes ends behind it */
    empty_elf(elf);
    elf[54] = 56; /* e_phentsize */
    elf[56] = 1;  /* e_phnum */
    assert_true(plan_elf_is_whole(elf, sizeof elf, elf));
    memcpy(elf + 32, &far, 8); /* e_phoff */
    assert_false(plan_elf_is_whole(elf, sizeof elf, elf));
    empty_elf(elf);
    elf[58] = 63; /* e_shentsize */
    assert_false(plan_elf_is_whole(elf, sizeof elf, elf));
}

/* Values of no bytes, whose other numbers are at their limits: one of 64 dimensions, the other of 128 bits; an argument
 * that a result takes; and an image of a kernel that nothing launches. */
enum { EMPTY = 1, SHARED = 2, SHARED_RESULT = 1, IDLE_KERNEL = 1, MOST_RANK = 64 };

static uint32_t dims, strings, slices, constant;

static void make_values(PlanBuilder *out)
{
    Maker m;
    maker_plan(&m);
    PlanBuilder *b = &m.b;
    maker_value(&m, false, 0, PLAN_NONE, PLAN_ALIAS_NONE);
    PlanValue *empty = &b->arguments[EMPTY];
    empty->rank = MOST_RANK;
    empty->element_bits = 128;
    int64_t numbers[2 * MOST_RANK + 2] = {0};
    for (int i = 0; i < MOST_RANK; i++)
        numbers[MOST_RANK + i] = MOST_RANK - 1 - i;
    empty->dims = dims = plan_add_numbers(b, numbers, 2 * MOST_RANK + 2);
    maker_value(&m, false, N, SHARED_RESULT, PLAN_ALIAS_MUST);
    maker_value(&m, true, N, SHARED, PLAN_ALIAS_MUST);
    b->info[0].constant_bytes = 512;
    constant = plan_add_allocations(
        b,
        &(PlanAllocation){
            .kind = PLAN_CONSTANT, .alignment = 256, .offset = 256, .bytes = 256},
        1);
    plan_add_images(b, &(PlanImage){.kernel = IDLE_KERNEL, .blocks = 1}, 1);
    b->kernels[IDLE_KERNEL].grid[0] = 16 * 17;
    b->kernels[IDLE_KERNEL].grid[1] = 6;
    strings = b->strings_count;
    slices = b->slices_count;
    *out = m.b;
}

#define VALUE(i, member) AT(arguments, PlanValue, i, member)
#define RESULT(i, member) AT(results, PlanValue, i, member)
#define KERNEL(member) AT(kernels, PlanKernel, IDLE_KERNEL, member)
#define DIM(i) NUMBER(numbers, int64_t, dims + (i))

static void test_shapes(void **state)
{
    static const char empty[] = "argument 1 of the plan is damaged",
                      first[] = "argument 0 of the plan is damaged",
                      result[] = "result 0 of the plan is damaged";
    (void)state;
    expect_made(make_values);
    const Limit limits[] = {
        {VALUE(EMPTY, name), strings - 1, strings, empty},
        {VALUE(EMPTY, dtype), strings - 2, strings, empty},
        {VALUE(EMPTY, dtype), strings - 2, 0, empty},
        {VALUE(EMPTY, rank), MOST_RANK, MOST_RANK + 1, empty},
        {VALUE(EMPTY, element_bits), 128, 129, empty},
        {VALUE(EMPTY, element_bits), 1, 0, empty},
        {VALUE(EMPTY, dims), dims, dims + 3, empty},
        {VALUE(EMPTY, bytes), 0, 1, empty},
        {DIM(0), 5, (uint64_t)-1, empty},
        {DIM(MOST_RANK - 1), INT64_MAX, (uint64_t)INT64_MIN, empty},
        {DIM(MOST_RANK), MOST_RANK - 1, MOST_RANK, empty},
        {DIM(MOST_RANK), MOST_RANK - 1, (uint64_t)-1, empty},
        {DIM(MOST_RANK), MOST_RANK - 1, 0, empty},
        {DIM(MOST_RANK + 1), MOST_RANK - 2, MOST_RANK - 1, empty},
        {VALUE(0, element_bits), 31, 33, first},
        {VALUE(0, element_bits), 32, 30, first},
        {VALUE(0, slice), 0, slices, "belongs to no argument or result"},
        {AT(slices, PlanSlice, 0, term_count), 0, 1, "slice 0 of the plan leaves"},
        {AT(results, PlanValue, 0, dtype), strings - 2, 0, result},
        {AT(results, PlanValue, 0, slice), 1, 0, "belongs to no argument or result"},
        {VALUE(0, size_of), EMPTY, SHARED + 1,
         "argument 0 of the plan is the size of no"},
        {VALUE(SHARED, size_of), 0, 3, "argument 2 of the plan is the size of no"},
        {RESULT(0, size_of), SHARED_RESULT, 2, "result 0 of the plan is the size of no"},
    };
    CHECK_LIMITS(make_values, limits);
}

static void test_size_dimensions(void **state)
{
    (void)state;
    for (uint32_t dimension = 0; dimension <= 1; dimension++) {
        PlanBuilder b;
        make_values(&b);
        b.results[0].size_of = SHARED_RESULT;
        b.results[0].size_dimension = dimension;
        b.arguments[0].size_of = EMPTY;
        b.arguments[0].size_dimension = MOST_RANK - 1;
        expect_verdict(&b, "dimension", dimension,
                       dimension ? "result 0 of the plan is the size of no dimension"
                                 : NULL);
        plan_builder_deinit(&b);
    }
}

/* Both sides of an alias change; then they agree, or they do not. */
static void test_aliases(void **state)
{
    static const struct {
        uint32_t argument_kind, result_kind, argument, result; /* of the other side */
        const char *says;
    } cases[] = {
        {PLAN_ALIAS_MAY, PLAN_ALIAS_MAY, 1, 2, NULL},
        {PLAN_ALIAS_MUST, PLAN_ALIAS_MUST, 1, 2, NULL},
        {PLAN_ALIAS_MUST + 1, PLAN_ALIAS_MUST + 1, 1, 2, "argument 2"},
        {PLAN_ALIAS_NONE, PLAN_ALIAS_NONE, 1, 2, "argument 2"},
        {PLAN_ALIAS_MAY, PLAN_ALIAS_MUST, 1, 2, "argument 2"},
        {PLAN_ALIAS_MUST, PLAN_ALIAS_MAY, 1, 2, "argument 2"},
        {PLAN_ALIAS_MUST, PLAN_ALIAS_MUST, 0, 2, "argument 2"},
        {PLAN_ALIAS_MUST, PLAN_ALIAS_MUST, 2, 2, "argument 2"},
        {PLAN_ALIAS_MUST, PLAN_ALIAS_MUST, 1, 0, "argument 2"},
        {PLAN_ALIAS_NONE, PLAN_ALIAS_MUST, PLAN_NONE, 2, "result 1"},
        {PLAN_ALIAS_MUST, PLAN_ALIAS_MUST, PLAN_NONE, PLAN_NONE, "argument 2"},
        {PLAN_ALIAS_NONE, PLAN_ALIAS_MAY, PLAN_NONE, PLAN_NONE, "result 1"},
        {PLAN_ALIAS_NONE, PLAN_ALIAS_NONE, PLAN_NONE, PLAN_NONE,
         "result 1 of the plan is damaged"},
        {PLAN_ALIAS_NONE, PLAN_ALIAS_MUST, PLAN_NONE, 3, "result 1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        PlanBuilder b;
        make_values(&b);
        b.arguments[SHARED].alias_kind = cases[i].argument_kind;
        b.arguments[SHARED].alias = cases[i].argument;
        b.results[SHARED_RESULT].alias_kind = cases[i].result_kind;
        b.results[SHARED_RESULT].alias = cases[i].result;
        expect_verdict(&b, "alias", i, cases[i].says);
        plan_builder_deinit(&b);
    }
}

static void test_kernels(void **state)
{
    static const char kernel[] = "kernel 1 of the plan is damaged",
                      launch[] = "kernel less of the plan is beyond the limits";
    (void)state;
    expect_made(make_values);
    const Limit limits[] = {
        {KERNEL(name), strings - 2, strings, kernel},
        {KERNEL(name), strings - 2, 0, kernel},
        {KERNEL(flags), PLAN_KERNEL_FLAGS, PLAN_KERNEL_FLAGS + 1,
         "a kernel with flags 4"},
        {KERNEL(cluster[0]), 16, 17, launch},
        {KERNEL(cluster[0]), 1, 0, launch},
        {KERNEL(cluster[0]), 2, 3, launch},
        {KERNEL(cluster[1]), 6, 4, launch},
        {KERNEL(grid[0]), INT32_MAX, UINT32_C(1) << 31, launch},
        {KERNEL(grid[0]), 1, 0, launch},
        {KERNEL(grid[1]), 65535, 65536, launch},
        {KERNEL(grid[2]), 65535, 65536, launch},
        {KERNEL(block[0]), 1024, 1025, launch},
        {KERNEL(block[0]), 1, 0, launch},
        {KERNEL(block[1]), 32, 33, launch},
        {KERNEL(block[2]), 32, 33, launch},
        {KERNEL(shared_bytes), 227 * 1024, 227 * 1024 + 1, launch},
        {KERNEL(shared_bytes), 0, UINT32_MAX, launch},
        {KERNEL(static_shared_bytes), 227 * 1024, 227 * 1024 + 1, launch},
        {AT(images, PlanImage, 0, kernel), 1, 2, "image 0 of the plan is damaged"},
        {AT(images, PlanImage, 0, blocks), INT32_MAX, UINT32_C(1) << 31, "image 0"},
        {AT(images, PlanImage, 0, blocks), 1, 0, "image 0"},
        {AT(images, PlanImage, 0, kind), PLAN_IMAGE_CUBIN, PLAN_IMAGE_KINDS,
         "an image of kind"},
    };
    CHECK_LIMITS(make_values, limits);
}

/* Blocks of a cluster in all, and threads of a block along its other sides. */
static void test_launches(void **state)
{
    static const struct {
        uint32_t cluster[3], block[3];
        bool good;
    } cases[] = {
        {{8, 2, 1}, {1, 1024, 1}, true},      {{8, 3, 1}, {1, 1, 1}, false},
        {{8, 1, 1}, {1, 1025, 1}, false},     {{1, 2, 1}, {16, 1, 64}, true},
        {{1, 1, 1}, {1, 1, 65}, false},       {{1, 1, 1}, {32, 33, 1}, false},
        {{1, 1, 1}, {4096, 1024, 64}, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        PlanBuilder b;
        make_values(&b);
        PlanKernel *k = &b.kernels[IDLE_KERNEL];
        memcpy(k->cluster, cases[i].cluster, sizeof k->cluster);
        memcpy(k->block, cases[i].block, sizeof k->block);
        expect_verdict(&b, "launch", i,
                       cases[i].good ? NULL
                                     : "kernel less of the plan is beyond the limits");
        plan_builder_deinit(&b);
    }
}

static void test_memory(void **state)
{
    static const char temp[] = "allocation 2 of the plan is damaged",
                      lent[] = "allocation 2 of the plan belongs to no",
                      outside[] = "lies outside .gxc.const",
                      host[] = "cannot be memory of the host",
                      kind[] = "an allocation of kind";
    (void)state;
    expect_made(make_values);
#define TEMP(member) AT(allocations, PlanAllocation, 2, member)
#define CONSTANT(member) AT(allocations, PlanAllocation, constant, member)
    const Limit limits[] = {
        {TEMP(bytes), INT64_MAX, UINT64_C(1) << 63, temp},
        {TEMP(name), strings - 1, strings, temp},
        {TEMP(alignment), 2, 3, temp},
        {TEMP(kind), PLAN_WORKSPACE, PLAN_ALLOCATION_KINDS, kind},
        {TEMP(kind), PLAN_TEMP, PLAN_ARGUMENT, lent},
        {TEMP(kind), PLAN_TEMP, PLAN_RESULT, lent},
        {CONSTANT(colour), PLAN_DEVICE_MEMORY, PLAN_HOST_MEMORY, host},
        {CONSTANT(colour), PLAN_DEVICE_MEMORY, PLAN_COLOURS, "an allocation of kind 3"},
        {CONSTANT(offset), 0, 128, outside},
        {CONSTANT(offset), 256, 512, outside},
        {CONSTANT(offset), 256, UINT64_MAX - 255, outside},
        {CONSTANT(bytes), 256, 257, outside},
        {AT(info, PlanInfo, 0, constant_bytes), 512, 511, outside},
        {AT(info, PlanInfo, 0, module), strings - 1, strings, "names a string"},
        {AT(info, PlanInfo, 0, target), strings - 2, strings, "names a string"},
        {AT(info, PlanInfo, 0, target), strings - 2, 0, "target is damaged"},
        {AT(info, PlanInfo, 0, gxc_version), strings - 1, strings, "names a string"},
        {AT(info, PlanInfo, 0, llvm_version), strings - 1, strings, "names a string"},
        {AT(info, PlanInfo, 0, assembler), strings - 1, strings, "names a string"},
        {AT(info, PlanInfo, 0, options), strings - 1, strings, "names a string"},
        {AT(info, PlanInfo, 0, replicas), MODULE_DEVICES_MOST, MODULE_DEVICES_MOST + 1,
         "1048577 replicas"},
        {AT(arguments, PlanValue, SHARED, alias), SHARED_RESULT, PLAN_NONE, "argument 2"},
        {AT(allocations, PlanAllocation, 0, index), 0, 4,
         "allocation 0 of the plan belongs"},
        {AT(allocations, PlanAllocation, 1, index), 0, 2,
         "allocation 1 of the plan belongs"},
    };
    CHECK_LIMITS(make_values, limits);
}

/* An argument that lives in no allocation of its own. */
static void test_homes(void **state)
{
    (void)state;
    expect_made(make_values);
    const uint32_t homes[] = {0, spare, slices, 0};
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++) {
        PlanBuilder b;
        make_values(&b);
        if (i < 3) {
            b.allocations[0].kind = PLAN_TEMP;
        } else { /* a term that adds nothing */
            b.slices[0].terms = TERM_SPARE;
            b.slices[0].term_count = 1;
        }
        b.arguments[0].slice = homes[i];
        expect_refused(&b, "argument 0 of the plan is damaged");
        plan_builder_deinit(&b);
    }
}

/* A slice has at most 64 terms. */
static void test_terms(void **state)
{
    (void)state;
    for (uint32_t more = 0; more <= 1; more++) {
        PlanBuilder b;
        make_values(&b);
        b.slices[spare].terms = plan_add_terms(&b, NULL, MOST_RANK + more);
        b.slices[spare].term_count = MOST_RANK + more;
        char says[64];
        snprintf(says, sizeof says, "slice %u of the plan is damaged", spare);
        expect_verdict(&b, "more", more, more ? says : NULL);
        plan_builder_deinit(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_elf),
        cmocka_unit_test(test_tuning),
        cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_type_names),
        cmocka_unit_test(test_shared_tunables),
        cmocka_unit_test(test_two_texts),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_size_dimensions),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_kernels),
        cmocka_unit_test(test_launches),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_terms),
        cmocka_unit_test(test_homes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
