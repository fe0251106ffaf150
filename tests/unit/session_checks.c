/* What a session refuses: wrong buffers, wrong devices, damaged files; and what programs say of
 * themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/run/select.h"
#include "tests/unit/shared/fake_driver.h"
#include "tests/unit/shared/program.h"

static void test_arguments(void **state)
{
    (void)state;
    Program p = loop_program();
    gxrt_session *s = open_session(&p);
    gxrt_buffer a = {.struct_size = sizeof a, .bytes = 48};
    gxrt_buffer r = a;
    assert_int_equal(gxrt_allocate(s, 0, 48, &a.data), GXRT_OK);
    assert_int_equal(gxrt_allocate(s, 0, 48, &r.data), GXRT_OK);
    gxrt_run job = {.struct_size = sizeof job,
                    .arguments = &a,
                    .argument_count = 1,
                    .results = &r,
                    .result_count = 1};
    struct {
        const char *want;
        gxrt_buffer argument, result;
        size_t count;
    } wrong[] = {
        {"0 arguments and 1 results were given; test takes 1 and gives 1", a, r, 0},
        {"has 44 bytes, 48 are needed", {sizeof a, a.data, 44, NULL, NULL, 0}, r, 1},
        {"must be aligned to 16",
         {sizeof a, (char *)a.data + 4, 48, NULL, NULL, 0},
         r,
         1},
        {"the buffer holds f32", {sizeof a, a.data, 48, "f32", NULL, 0}, r, 1},
        {"has rank 0, not 1", {sizeof a, a.data, 48, "s32", (int64_t[]){12}, 0}, r, 1},
        {"dimension 0 of the buffer is 13",
         {sizeof a, a.data, 48, NULL, (int64_t[]){13}, 1},
         r,
         1},
        {"struct_size", {0, a.data, 48, NULL, NULL, 0}, r, 1},
        {"argument 0 and result 0 overlap", a, {sizeof a, a.data, 48, NULL, NULL, 0}, 1},
        {"is no memory of a device",
         {sizeof a, (void *)((uintptr_t)&fake_host_variable & ~(uintptr_t)255), 48, NULL,
          NULL, 0},
         r,
         1},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        job.arguments = &wrong[i].argument;
        job.results = &wrong[i].result;
        job.argument_count = wrong[i].count;
        fake_log[0] = 0;
        assert_int_equal(gxrt_execute(s, 1, &job), GXRT_INVALID_ARGUMENT);
        if (!strstr(gxrt_last_error(), wrong[i].want))
            fail_msg("%s", gxrt_last_error());
        assert_string_equal(fake_log, "");
    }
    assert_int_equal(gxrt_execute(s, 2, &job), GXRT_INVALID_ARGUMENT);
    job.arguments = &a;
    job.results = &r;
    job.argument_count = 1;
    int before = fake_calls;
    assert_int_equal(gxrt_execute(s, 1, &job), GXRT_OK);
    int first = fake_calls - before;
    before = fake_calls;
    assert_int_equal(gxrt_execute(s, 1, &job), GXRT_OK);
    assert_int_equal(fake_calls - before,
                     first - 2); /* the two pointers are not asked for again */
    gxrt_free(s, 0, a.data);
    gxrt_free(s, 0, r.data);
    gxrt_session_destroy(s);
    close_program(&p);
}

static const char *refusal(Maker *m, gxrt_status want)
{
    Program p = open_program(m, "", 0);
    gxrt_session *s;
    assert_int_equal(session_create(p.program, NULL, &fake_api, NULL, NULL, &s), want);
    assert_null(s);
    close_program(&p);
    return gxrt_last_error();
}

static void test_refusals(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    fake_sm = 89;
    assert_string_equal(
        refusal(&m, GXRT_WRONG_DEVICE),
        "the program holds sm_90a, this is sm_89 (Fake GPU): compile with "
        "--target=sm_89");
    fake_sm = 90;
    maker_init(&m);
    fake_driver = 12020;
    assert_string_equal(
        refusal(&m, GXRT_WRONG_DEVICE),
        "the program needs a driver for CUDA 12.8 or newer; this one is for "
        "CUDA 12.2: update NVIDIA's driver");
    fake_driver = 13000;
    maker_init(&m);
    m.b.info[0].replicas = 8;
    assert_non_null(strstr(refusal(&m, GXRT_WRONG_DEVICE), "needs 8 devices"));
    maker_init(&m);
    m.b.info[0].flags = PLAN_ELIDED;
    PlanAllocation c = {.kind = PLAN_CONSTANT,
                        .alignment = 256,
                        .name = plan_string(&m.b, "constant.7"),
                        .elided = 1};
    plan_add_allocations(&m.b, &c, 1);
    assert_non_null(
        strstr(refusal(&m, GXRT_INVALID_FILE), "constant constant.7 as {...}"));
}

/* Kernels that take more shared memory than the GPU's blocks may have, whose compute capability their code is for. */
static void test_shared_memory(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        Maker m;
        maker_init(&m);
        m.b.info[0].target = plan_string(&m.b, "sm_80");
        m.b.info[0].sm = 80;
        m.b.info[0].suffix = 0;
        m.b.kernels[m.add].shared_bytes = 101377;
        fake_sm = 86;
        fake_shared = 101376 + i;
        if (i == 0) {
            assert_string_equal(
                refusal(&m, GXRT_WRONG_DEVICE),
                "the program holds sm_80, this is sm_86 (Fake GPU), whose blocks have "
                "101376 bytes of shared memory and not 101377: compile with "
                "--target=sm_86");
        } else {
            Program p = open_program(&m, "", 0);
            gxrt_session_destroy(open_session(&p));
            close_program(&p);
        }
    }
    fake_sm = 90;
    fake_shared = 232448;
}

/* Four GPUs, ranks that need one or two: each has its own, whatever machine it is on. */
static void test_ranks_share(void **state)
{
    static const struct {
        uint32_t rank, local, devices;
        int first;
    } ranks[] = {{0, 0, 1, 0}, {3, 3, 1, 3}, {5, 1, 1, 1}, {6, 6, 1, 2},
                 {1, 1, 2, 2}, {2, 0, 2, 0}, {1, 1, 4, 0}, {1, 1, 3, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++) {
        gxrt_world world = {
            .rank = ranks[i].rank, .local_rank = ranks[i].local, .size = 8};
        gxrt_session_options options = {.struct_size = sizeof options, .world = &world};
        gxrt_session_info info = {.struct_size = sizeof info};
        gxrt_session *s;
        Maker m;
        maker_init(&m);
        m.b.info[0].replicas = 8 * ranks[i].devices;
        Program p = open_program(&m, "", 0);
        assert_int_equal(session_create(p.program, &options, &fake_api, NULL, NULL, &s),
                         GXRT_OK);
        assert_int_equal(gxrt_session_get_info(s, &info), GXRT_OK);
        assert_int_equal(info.first_device, ranks[i].rank * ranks[i].devices);
        assert_int_equal(info.first_ordinal, ranks[i].first);
        assert_int_equal(s->devices[info.device_count - 1].ordinal,
                         ranks[i].first + (int)ranks[i].devices - 1);
        gxrt_session_destroy(s);
        close_program(&p);
    }
}

/* CUDA counts from 0. */
static void test_no_such_ordinal(void **state)
{
    (void)state;
    const int ordinals[2] = {0, -1};
    gxrt_session_options options = {
        .struct_size = sizeof options, .devices = ordinals, .device_count = 2};
    gxrt_session *s;
    Maker m;
    maker_init(&m);
    m.b.info[0].replicas = 2;
    Program p = open_program(&m, "", 0);
    assert_int_equal(session_create(p.program, &options, &fake_api, NULL, NULL, &s),
                     GXRT_INVALID_ARGUMENT);
    assert_non_null(strstr(gxrt_last_error(), "devices[1] is -1"));
    close_program(&p);
}

/* --- a cuBLASLt that makes everything and answers as it is told ----------------------------- */

static int lt_count, lt_state;

static size_t lt_version(void)
{
    return 130000;
}

static cublasStatus_t lt_create(cublasLtHandle_t *out)
{
    *out = (cublasLtHandle_t)&lt_count;
    return 0;
}

static cublasStatus_t lt_destroy(cublasLtHandle_t handle)
{
    return handle == (cublasLtHandle_t)&lt_count ? 0 : 7;
}

static cublasStatus_t lt_desc_create(cublasLtMatmulDesc_t *out,
                                     cublasComputeType_t compute, cudaDataType_t scale)
{
    *out = NULL;
    return compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F ? 0 : 7;
}

static cublasStatus_t lt_desc_set(cublasLtMatmulDesc_t desc,
                                  cublasLtMatmulDescAttributes_t attribute,
                                  const void *value, size_t bytes)
{
    (void)desc, (void)attribute;
    return value && bytes ? 0 : 7;
}

static cublasStatus_t lt_layout_create(cublasLtMatrixLayout_t *out, cudaDataType_t type,
                                       uint64_t rows, uint64_t columns, int64_t ld)
{
    *out = NULL;
    return type == CUDA_R_32F && rows == 16 && columns == 16 && ld == 16 ? 0 : 7;
}

static cublasStatus_t lt_preference_create(cublasLtMatmulPreference_t *out)
{
    *out = NULL;
    return 0;
}

static cublasStatus_t lt_preference_set(cublasLtMatmulPreference_t preference,
                                        cublasLtMatmulPreferenceAttributes_t attribute,
                                        const void *value, size_t bytes)
{
    (void)preference, (void)attribute;
    return value && bytes ? 0 : 7;
}

static cublasStatus_t lt_heuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                   cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                   cublasLtMatmulPreference_t preference, int requested,
                                   cublasLtMatmulHeuristicResult_t *results,
                                   int *returned)
{
    (void)handle, (void)desc, (void)a, (void)b, (void)c, (void)d, (void)preference;
    memset(results, 0, (size_t)requested * sizeof *results);
    results->state = lt_state;
    *returned = lt_count;
    return 0;
}

/* An answer without an algorithm, and an algorithm that does not do: the program's products have
 * no kernel here, and that is said before it runs. */
static void test_no_algorithm(void **state)
{
    static const CublasltApi lt = {.version = lt_version,
                                   .create = lt_create,
                                   .destroy = lt_destroy,
                                   .desc_create = lt_desc_create,
                                   .desc_set = lt_desc_set,
                                   .layout_create = lt_layout_create,
                                   .preference_create = lt_preference_create,
                                   .preference_set = lt_preference_set,
                                   .heuristic = lt_heuristic};
    static const struct {
        int count, state;
        gxrt_status want;
    } answers[] = {{1, 0, GXRT_OK}, {0, 0, GXRT_UNSUPPORTED}, {1, 15, GXRT_UNSUPPORTED}};
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const PlanMatmul product = square_product(16);
        Maker m;
        maker_init(&m);
        plan_add_matmuls(&m.b, &product, 1);
        Program p = open_program(&m, "", 0);
        gxrt_session *s;
        lt_count = answers[i].count;
        lt_state = answers[i].state;
        assert_int_equal(session_create(p.program, NULL, &fake_api, &lt, NULL, &s),
                         answers[i].want);
        if (answers[i].want != GXRT_OK)
            assert_non_null(strstr(gxrt_last_error(), "compile with --libraries=none"));
        gxrt_session_destroy(s);
        close_program(&p);
    }
}

static void test_select(void **state)
{
    (void)state;
    const PlanInfo a = {.sm = 90, .suffix = 'a'};
    const PlanInfo plain = {.sm = 80};
    const PlanInfo family = {.sm = 100, .suffix = 'f'};
    assert_true(select_fits(&a, 90));
    assert_false(select_fits(&a, 100));
    assert_true(select_fits(&plain, 86));
    assert_false(select_fits(&plain, 75));
    assert_false(select_fits(&plain, 90));
    assert_true(select_fits(&family, 103));
    assert_false(select_fits(&family, 120));
    assert_true(select_compiles(&plain, 90));
    assert_false(select_compiles(&plain, 75));
    assert_false(select_compiles(&a, 100));
    assert_false(select_compiles(&family, 120));
}

/* A file that is cut off anywhere, or foreign, is refused with a text. */
static void test_files(void **state)
{
    (void)state;
    Maker m;
    maker_init(&m);
    maker_add(&m, maker_value(&m, false, 4, PLAN_NONE, PLAN_ALIAS_NONE),
              maker_value(&m, true, 4, PLAN_NONE, PLAN_ALIAS_NONE), 4, immediate(1));
    size_t size;
    unsigned char *file = artefact(&m, "0123", 4, &size);
    gxrt_program *program;
    for (size_t n = 0; n < size; n++) {
        unsigned char *cut = malloc(n + 1);
        memcpy(cut, file, n);
        assert_int_not_equal(gxrt_program_open_memory(cut, n, &program), GXRT_OK);
        assert_null(program);
        assert_true(strlen(gxrt_last_error()) > 10);
        free(cut);
    }
    for (size_t bit = 0; bit < size * 8; bit += 3) {
        file[bit / 8] ^= (unsigned char)(1 << bit % 8);
        if (gxrt_program_open_memory(file, size, &program) == GXRT_OK)
            gxrt_program_destroy(program);
        else
            assert_true(strlen(gxrt_last_error()) > 10);
        file[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    assert_int_equal(gxrt_program_open("/nonexistent", &program), GXRT_INVALID_FILE);
    assert_int_equal(gxrt_program_open("/tmp", &program), GXRT_INVALID_FILE);
    assert_int_equal(gxrt_program_open("/proc/self/exe", &program), GXRT_INVALID_FILE);
    assert_non_null(strstr(gxrt_last_error(), "no plan of gxc inside"));
    free(file);
}

static void expect(gxrt_status got, gxrt_status want, const char *says)
{
    assert_int_equal(got, want);
    if (!strstr(gxrt_last_error(), says))
        fail_msg("'%s' lacks '%s'", gxrt_last_error(), says);
}

/* NULL where the counts say that there is something. */
static void test_null(void **state)
{
    (void)state;
    Program p = loop_program();
    gxrt_session *s = open_session(&p);
    gxrt_buffer a = {.struct_size = sizeof a, .bytes = 48}, r = a;
    assert_int_equal(gxrt_allocate(s, 0, 48, &a.data), GXRT_OK);
    assert_int_equal(gxrt_allocate(s, 0, 48, &r.data), GXRT_OK);
    gxrt_run job = {
        .struct_size = sizeof job, .results = &r, .argument_count = 1, .result_count = 1};
    expect(gxrt_execute(s, 1, &job), GXRT_INVALID_ARGUMENT, "no arguments, but a count");
    job.arguments = &a;
    job.results = NULL;
    expect(gxrt_execute(s, 1, &job), GXRT_INVALID_ARGUMENT, "no results, but a count");
    expect(gxrt_execute(s, 1, NULL), GXRT_INVALID_ARGUMENT, "NULL session or runs");
    expect(gxrt_allocate(s, 0, 8, NULL), GXRT_INVALID_ARGUMENT,
           "gxrt_allocate: NULL result");
    expect(gxrt_copy_to_device(s, 0, NULL, &a, 8), GXRT_INVALID_ARGUMENT,
           "gxrt_copy_to_device: NULL memory");
    expect(gxrt_copy_to_host(s, 0, NULL, a.data, 8), GXRT_INVALID_ARGUMENT,
           "gxrt_copy_to_host: NULL memory");
    expect(gxrt_device_target("emu", NULL, 16), GXRT_INVALID_ARGUMENT,
           "gxrt_device_target: NULL target");
    gxrt_free(s, 0, a.data);
    gxrt_free(s, 0, r.data);
    gxrt_session_destroy(s);
    close_program(&p);
}

/* A failure stays: what the device holds is undefined. */
static void test_failure_stays(void **state)
{
    static const char says[] = "a device of this session has failed before";
    (void)state;
    Program p = loop_program();
    gxrt_session *s = open_session(&p);
    void *at;
    int32_t word = 0;
    assert_int_equal(gxrt_allocate(s, 0, sizeof word, &at), GXRT_OK);
    assert_int_equal(gxrt_synchronize(s, 0), GXRT_OK);
    fake_calls = 0;
    fake_fail_at = 2; /* entering is the first */
    expect(gxrt_synchronize(s, 0), GXRT_DEVICE_FAILED, "cuCtxSynchronize");
    fake_fail_at = 0;
    expect(gxrt_synchronize(s, 0), GXRT_DEVICE_FAILED, says);
    expect(gxrt_copy_to_host(s, 0, &word, at, sizeof word), GXRT_DEVICE_FAILED, says);
    gxrt_free(s, 0, at);
    gxrt_session_destroy(s);
    close_program(&p);
}

/* A hash of zeros is a hash like another: it does not fit. */
static void test_no_hash(void **state)
{
    (void)state;
    for (int part = 0; part < 2; part++) {
        Maker m;
        maker_init(&m);
        Program p = open_program(&m, "", 0);
        gxrt_session *s;
        /* the plan's bytes are this test's own, and were allocated */
        PlanInfo *info = (PlanInfo *)(uintptr_t)p.program->variants[0].plan.info;
        uint8_t *hash = part == 0 ? info->constant_hash : info->cubin_hash;
        memset(hash, 0, sizeof info->cubin_hash);
        expect(session_create(p.program, NULL, &fake_api, NULL, NULL, &s),
               GXRT_INVALID_FILE,
               part == 0 ? "constants are damaged" : "kernels are damaged");
        close_program(&p);
    }
}

static void test_queries(void **state)
{
    (void)state;
    Program p = predicate_program();
    gxrt_program_info info = {.struct_size = sizeof info};
    assert_int_equal(gxrt_program_get_info(p.program, &info), GXRT_OK);
    assert_int_equal(info.argument_count, 1);
    assert_int_equal(info.result_count, 2);
    gxrt_value_info v = {.struct_size = sizeof v};
    assert_int_equal(gxrt_program_get_argument(p.program, 0, &v), GXRT_OK);
    assert_string_equal(v.dtype, "s32");
    assert_int_equal(v.alias, 0);
    assert_int_equal(gxrt_program_get_result(p.program, 1, &v), GXRT_OK);
    assert_int_equal(v.alias, -1);
    assert_int_equal(gxrt_program_get_result(p.program, 2, &v), GXRT_INVALID_ARGUMENT);
    gxrt_program_info old = {.struct_size = offsetof(gxrt_program_info, gxc_version)};
    assert_int_equal(gxrt_program_get_info(p.program, &old), GXRT_OK);
    assert_string_equal(old.module, "test");
    assert_null(old.gxc_version);
    gxrt_variant_info variant = {.struct_size = sizeof variant};
    assert_int_equal(gxrt_program_get_variant(p.program, 0, &variant), GXRT_OK);
    assert_int_equal(variant.launch_count, 5);
    assert_int_equal(variant.temp_bytes, 512);
    assert_int_equal(variant.step_count, 0);
    assert_null(gxrt_program_get_step(p.program, 0, 0));
    gxrt_command_info command = {.struct_size = sizeof command};
    assert_int_equal(gxrt_program_get_command(p.program, 0, 0, &command), GXRT_OK);
    assert_string_equal(command.op_name, "");
    assert_int_equal(
        gxrt_program_get_command(p.program, 0, variant.command_count, &command),
        GXRT_INVALID_ARGUMENT);
    assert_int_equal(gxrt_program_get_command(p.program, 1, 0, &command),
                     GXRT_INVALID_ARGUMENT);
    gxrt_memory_info memory = {.struct_size = sizeof memory};
    assert_int_equal(gxrt_program_get_memory(p.program, 0, 0, &memory),
                     GXRT_INVALID_ARGUMENT);
    close_program(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),       cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_shared_memory),   cmocka_unit_test(test_ranks_share),
        cmocka_unit_test(test_no_such_ordinal), cmocka_unit_test(test_no_algorithm),
        cmocka_unit_test(test_select),          cmocka_unit_test(test_files),
        cmocka_unit_test(test_queries),         cmocka_unit_test(test_null),
        cmocka_unit_test(test_failure_stays),   cmocka_unit_test(test_no_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
